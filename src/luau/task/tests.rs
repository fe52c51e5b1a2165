//! The scheduler, driven with a clock of its own.

use super::*;
use proptest::prelude::*;

/// Runs a script for as many steps as there are times, and returns what it logged: `step:text`.
fn play(source: &str, times: &[f64]) -> (Vec<String>, Vec<TaskError>, Rc<Scheduler>) {
    let lua = Lua::new();
    let log = Rc::new(RefCell::new(Vec::new()));
    let step = Rc::new(Cell::new(0));
    let (sink, at) = (Rc::clone(&log), Rc::clone(&step));
    let write = lua
        .create_function(move |_, text: MultiValue| {
            let parts: Vec<String> = text.iter().map(|v| v.to_string().unwrap()).collect();
            sink.borrow_mut().push(format!("{}:{}", at.get(), parts.join(" ")));
            Ok(())
        })
        .unwrap();
    let scheduler = Scheduler::install(&lua).unwrap();
    lua.globals().set("log", write).unwrap();
    lua.sandbox(true).unwrap();
    let body = lua.load(source).set_name("=test.luau").into_function().unwrap();
    scheduler.spawn(&lua, body, ()).unwrap();
    let mut errors = Vec::new();
    for (i, time) in times.iter().enumerate() {
        step.set(i);
        errors.extend(scheduler.step(*time));
    }
    let out = log.borrow().clone();
    (out, errors, scheduler)
}

/// (what it shows, script, times of the frames, expected log).
const SCRIPTS: &[(&str, &str, &[f64], &[&str])] = &[
    ("a body starts with the first frame and wait goes on in the next", "log('a') task.wait() log('b') task.wait() log('c')", &[0.0, 0.1, 0.2], &["0:a", "1:b", "2:c"]),
    ("a wait lasts at least its time", "local t = task.wait(0.25) log(string.format('%.2f', t))", &[0.0, 0.1, 0.2, 0.3, 0.4], &["3:0.30"]),
    ("a wait of no time still takes a frame", "log('a') task.wait(-1) log('b')", &[0.0, 0.0], &["0:a", "1:b"]),
    ("spawn runs at once", "task.spawn(function(x) log('in', x) task.wait() log('later') end, 7) log('out')", &[0.0, 1.0], &["0:in 7", "0:out", "1:later"]),
    ("defer runs at the end of the frame", "task.defer(function(x) log('deferred', x) task.defer(log, 'twice') end, 1) log('out')", &[0.0, 1.0], &["0:out", "0:deferred 1", "0:twice"]),
    ("a wait in a deferred thread goes on later", "task.defer(function() task.wait() log('b') end) log('a')", &[0.0, 1.0], &["0:a", "1:b"]),
    ("delay passes its arguments, nils and all", "task.delay(1, function(...) log(select('#', ...), ...) end, nil, 2, nil)", &[0.0, 0.5, 1.0], &["2:3 nil 2 nil"]),
    ("delay of nothing is the next frame", "task.delay(0, log, 'x') log('now')", &[0.0, 0.0], &["0:now", "1:x"]),
    ("due times first, then the order of asking", "task.delay(2, log, 'c') task.delay(1, log, 'a') task.delay(1, log, 'b') task.delay(0, log, 'z')", &[0.0, 5.0], &["1:z", "1:a", "1:b", "1:c"]),
    ("cancel takes a delayed, a waiting and a suspended thread", "
        local a = task.delay(1, log, 'delayed')
        local b = task.spawn(function() task.wait(1) log('waited') end)
        local c = task.spawn(function() coroutine.yield() log('yielded') end)
        local d = task.defer(log, 'deferred')
        for _, t in { a, b, c, d } do task.cancel(t) log(coroutine.status(t)) end
        task.cancel(a)", &[0.0, 1.0, 2.0], &["0:dead", "0:dead", "0:dead", "0:dead"]),
    ("an earlier task of a frame can cancel a later one", "
        local b
        task.delay(1, function() task.cancel(b) log('a') end)
        b = task.delay(1, log, 'b')", &[0.0, 1.0, 2.0], &["1:a"]),
    ("the running thread cannot be cancelled", "log(pcall(task.cancel, coroutine.running()))", &[0.0], &["0:false task.cancel: thread: got the running thread; expected one that is suspended"]),
    ("pcall does not stand in the way of a wait", "log(pcall(function() task.wait() error('x', 0) end))", &[0.0, 1.0], &["1:false x"]),
    ("a wait inside a script's own coroutine returns to its resume, and goes on by itself", "
        local co = coroutine.create(function() log('in') task.wait() log('on') end)
        coroutine.resume(co) log('out')", &[0.0, 1.0], &["0:in", "0:out", "1:on"]),
    ("spawn goes on with a suspended thread, once", "
        local t = task.spawn(function() local v = coroutine.yield() log('got', v) end)
        task.spawn(t, 5) task.spawn(t, 6) log(coroutine.status(t))", &[0.0], &["0:got 5", "0:dead"]),
    ("a spawned thread no longer waits for what it had asked for", "
        local t = task.spawn(function() log(pcall(task.wait, 1)) end)
        task.spawn(t) log('after')", &[0.0, 1.0, 2.0], &["0:true 0", "0:after"]),
    ("nonsense is refused with what it was", "
        log(pcall(task.wait, 'x')) log(pcall(task.delay, 0/0, log)) log(pcall(task.spawn, 5)) log(pcall(task.cancel, nil))", &[0.0], &[
        "0:false task.wait: seconds: got string; expected a number of seconds >= 0",
        "0:false task.delay: seconds: got nan; expected a number of seconds >= 0",
        "0:false task.spawn: functionOrThread: got 5; expected a function or a thread",
        "0:false task.cancel: thread: got nil; expected a thread",
    ]),
    ("the table is read-only", "log(pcall(function() task.wait = nil end))", &[0.0], &["0:false test.luau:1: attempt to modify a readonly table"]),
];

#[test]
fn scripts() {
    for (what, source, times, expected) in SCRIPTS {
        let (log, errors, _) = play(source, times);
        assert_eq!(log, *expected, "{what}");
        assert!(errors.is_empty(), "{what}: {errors:?}");
    }
}

#[test]
fn an_error_ends_its_task_alone_and_names_its_line() {
    let (log, errors, scheduler) = play(
        "task.spawn(function()\n  local function inner()\n    error('boom')\n  end\n  task.wait()\n  inner()\nend)\ntask.spawn(error, { 1 })\ntask.wait() task.wait() log('alive')",
        &[0.0, 1.0, 2.0],
    );
    assert_eq!(log, ["2:alive"]);
    assert_eq!(errors.len(), 2);
    assert!(errors[0].message.starts_with("table"), "{:?}", errors[0]);
    assert_eq!(errors[1].message, "test.luau:3: boom");
    assert!(
        errors[1].traceback.contains("test.luau:3 function inner") && errors[1].traceback.contains("test.luau:6"),
        "{}",
        errors[1].traceback
    );
    assert!(scheduler.is_idle());
}

#[test]
fn a_wait_that_cannot_yield_raises() {
    let (log, errors, _) = play(
        "local t = setmetatable({}, { __index = function() task.wait() end }) log(pcall(function() return t.x end))",
        &[0.0],
    );
    assert_eq!(
        log,
        [
            "0:false test.luau:1: task.wait: it cannot yield here; call it from a task, not from inside a metamethod or a host callback"
        ]
    );
    assert!(errors.is_empty());
}

#[test]
fn endless_deferring_does_not_hold_a_frame() {
    let (_, _, scheduler) = play("local function again() task.defer(again) end again()", &[0.0]);
    assert_eq!(scheduler.live_tasks(), 1);
    assert_eq!(scheduler.next_due(), Some(0.0));
}

#[test]
fn idle_means_that_nothing_is_to_be_resumed() {
    let (_, _, s) = play("task.spawn(function() coroutine.yield() end)", &[0.0]);
    assert!(s.is_idle() && s.next_due().is_none(), "a bare yield is nobody's to resume");
    let (_, _, s) = play("task.cancel(task.delay(9, log)) task.delay(3, log)", &[0.5]);
    assert_eq!((s.live_tasks(), s.next_due()), (1, Some(3.5)));
}

#[test]
fn many_tasks() {
    let (log, errors, s) = play(
        "for i = 1, 10000 do task.spawn(function() for _ = 1, 3 do task.wait() end if i % 5000 == 0 then log(i) end end) end",
        &[0.0, 1.0, 2.0, 3.0],
    );
    assert_eq!((log, errors.len(), s.live_tasks()), (vec!["3:5000".to_owned(), "3:10000".to_owned()], 0, 0));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    /// Whatever the times, threads resume by (due, order of asking).
    #[test]
    fn order(delays in prop::collection::vec(0u32..6, 1..30)) {
        let calls: String = delays.iter().enumerate().map(|(i, d)| format!("task.delay({d}, log, {i}) ")).collect();
        let (log, ..) = play(&calls, &[0.0, 10.0]);
        let mut expected: Vec<(u32, usize)> = delays.iter().copied().zip(0..).collect();
        expected.sort();
        let expected: Vec<String> = expected.iter().map(|(_, i)| format!("1:{i}")).collect();
        prop_assert_eq!(log, expected);
    }
}
