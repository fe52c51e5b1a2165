//! The scheduler, driven with a clock of its own.

use super::*;

/// A sandboxed state with `log`, which notes `frame:values`.
struct Stage {
    lua: Lua,
    scheduler: Rc<Scheduler>,
    frame: Rc<Cell<usize>>,
    log: Rc<RefCell<Vec<String>>>,
    errors: Vec<TaskError>,
}

impl Stage {
    fn new() -> Self {
        let lua = Lua::new();
        // As the host has it: level 2 inlines functions, and an inlined one is missing from its traceback.
        lua.set_compiler(mlua::chunk::Compiler::new().set_optimization_level(1).set_debug_level(1));
        let (log, frame) = (Rc::new(RefCell::new(Vec::new())), Rc::new(Cell::new(0)));
        let (sink, at) = (Rc::clone(&log), Rc::clone(&frame));
        let write = move |_: &Lua, values: MultiValue| {
            let parts: Vec<String> = values.iter().map(|value| value.to_string().unwrap()).collect();
            sink.borrow_mut().push(format!("{}:{}", at.get(), parts.join(" ")));
            Ok(())
        };
        let scheduler = Scheduler::install(&lua).unwrap();
        lua.globals().set("log", lua.create_function(write).unwrap()).unwrap();
        let fail = |_: &Lua, ()| -> mlua::Result<()> { Err(Error::runtime("from rust")) };
        lua.globals().set("fail", lua.create_function(fail).unwrap()).unwrap();
        let call = |_: &Lua, f: Function| f.call::<()>(());
        lua.globals().set("call", lua.create_function(call).unwrap()).unwrap();
        lua.sandbox(true).unwrap();
        Self { lua, scheduler, frame, log, errors: Vec::new() }
    }

    fn function(&self, source: &str) -> Function {
        self.lua.load(source).set_name("=test.luau").into_function().unwrap()
    }

    fn play(source: &str, times: &[f64]) -> Self {
        let mut stage = Self::new();
        stage.scheduler.spawn(&stage.lua, stage.function(source), ()).unwrap();
        times.iter().for_each(|time| stage.step(*time));
        stage
    }

    fn step(&mut self, time: f64) {
        self.errors.extend(self.scheduler.step(&self.lua, time));
        self.frame.set(self.frame.get() + 1);
    }

    fn log(&self) -> Vec<String> {
        self.log.borrow().clone()
    }
}

/// (what it shows, script, times of the frames, expected log).
type Case = (&'static str, &'static str, &'static [f64], &'static [&'static str]);

const SCRIPTS: &[Case] = &[
    // Waiting.
    ("a body starts with the first frame, a wait goes on in the next", "log('a') task.wait() log('b') task.wait() log('c')", &[0.0, 0.1, 0.2], &["0:a", "1:b", "2:c"]),
    ("a wait lasts at least its time and tells how long", "local t = task.wait(0.25) log(string.format('%.2f', t))", &[0.0, 0.1, 0.2, 0.3, 0.4], &["3:0.30"]),
    ("a wait that is over on the dot", "log(task.wait(0.5)) log(task.wait(0.5))", &[1.0, 1.5, 1.75, 2.0], &["1:0.5", "3:0.5"]),
    ("rounding makes no wait shorter than asked", "local t = task.wait(0.1) log(t >= 0.1)", &[1e9, 1e9 + 0.1], &["1:true"]),
    ("no time and less than none still take a frame", "log('a') log(task.wait(-1)) log(task.wait(0)) log(task.wait(nil))", &[0.0, 0.0, 0.0, 0.0], &["0:a", "1:0", "2:0", "3:0"]),
    ("frames at one time are frames", "while true do log(task.wait()) end", &[5.0, 5.0, 5.0], &["1:0", "2:0"]),
    ("waiting loops keep their order", "for _, n in { 'a', 'b', 'c' } do task.spawn(function() while true do log(n) task.wait() end end) end", &[0.0, 1.0, 2.0], &["0:a", "0:b", "0:c", "1:a", "1:b", "1:c", "2:a", "2:b", "2:c"]),
    ("the origin may be anything", "log(task.wait(1)) ", &[-100.0, -99.5, -99.0], &["2:1"]),
    ("time does not run back", "log(task.wait(1)) log(task.wait(1))", &[0.0, 1.0, 0.5, 1.9, 2.0], &["1:1", "4:1"]),
    ("a time that is none is the last one", "log(task.wait()) log(task.wait(1))", &[3.0, f64::NAN, 4.0], &["1:0", "2:1"]),
    ("forever", "task.wait(math.huge) log('never')", &[0.0, 1e300], &[]),
    // Ordering.
    ("due times first, then the order of asking", "task.delay(2, log, 'c') task.delay(1, log, 'a') task.delay(1, log, 'b') task.delay(0, log, 'z')", &[0.0, 5.0], &["1:z", "1:a", "1:b", "1:c"]),
    ("waits, delays and deferred ones in one frame", "
        task.delay(1, function() log('d1') task.defer(log, 'x') task.spawn(log, 'now') end)
        task.spawn(function() task.wait(0.5) log('w') end)
        task.delay(1, log, 'd2')", &[0.0, 1.0], &["1:w", "1:d1", "1:now", "1:d2", "1:x"]),
    // Spawning.
    ("spawn runs at once, up to the first yield", "task.spawn(function(x) log('in', x) task.wait() log('later') end, 7) log('out')", &[0.0, 1.0], &["0:in 7", "0:out", "1:later"]),
    ("spawn, defer and delay return the thread", "
        for _, t in { task.spawn(coroutine.yield), task.defer(log), task.delay(1, log) } do log(type(t), coroutine.status(t)) end", &[0.0], &["0:thread suspended", "0:thread suspended", "0:thread suspended", "0:"]),
    ("spawn goes on with a suspended thread", "
        local t = task.spawn(function() log('got', coroutine.yield()) end)
        task.spawn(t, 5, nil) log(coroutine.status(t)) log(pcall(task.spawn, t))", &[0.0], &["0:got 5 nil", "0:dead", "0:false task.spawn: functionOrThread: got a dead thread; expected a function or a suspended thread"]),
    ("spawn takes a thread that a script made", "log(coroutine.status(task.spawn(coroutine.create(function(...) log(...) task.wait() end), 1, 2)))", &[0.0], &["0:1 2", "0:suspended"]),
    ("spawn drops what was planned for the thread", "
        local t = task.delay(1, function(x) log(x) log(task.wait(5)) end, 'delayed')
        task.spawn(t, 'spawned')", &[0.0, 1.0, 5.0], &["0:spawned", "2:5"]),
    ("the running thread cannot be spawned", "log(pcall(task.spawn, coroutine.running()))", &[0.0], &["0:false task.spawn: functionOrThread: got a running thread; expected a function or a suspended thread"]),
    // Deferring.
    ("defer runs at the end of the frame", "task.defer(function(x) log('deferred', x) task.defer(log, 'twice') end, 1) task.defer(log, 'second') log('out')", &[0.0, 1.0], &["0:out", "0:deferred 1", "0:second", "0:twice"]),
    ("a wait in a deferred thread goes on later", "task.defer(function() task.wait() log('b') end) log('a')", &[0.0, 1.0], &["0:a", "1:b"]),
    ("a thread may defer itself", "task.defer(coroutine.running(), 'x') log('a') log(coroutine.yield())", &[0.0], &["0:a", "0:x"]),
    // Delaying.
    ("delay passes its arguments, nils and all", "task.delay(1, function(...) log(select('#', ...), ...) end, nil, 2, nil)", &[0.0, 0.5, 1.0], &["2:3 nil 2 nil"]),
    ("spawn and defer do too", "local function f(...) log(select('#', ...), ...) end task.spawn(f, nil, nil) task.spawn(f) task.defer(f, nil, 1, nil)", &[0.0], &["0:2 nil nil", "0:0", "0:3 nil 1 nil"]),
    ("delay of nothing is the next frame", "task.delay(0, log, 'x') task.delay(nil, log, 'y') task.delay(-3, log, 'z') log('now')", &[0.0, 0.0], &["0:now", "1:x", "1:y", "1:z"]),
    ("a thread may delay itself", "task.delay(1, coroutine.running(), 'x') log(coroutine.yield())", &[0.0, 0.5, 1.0], &["2:x"]),
    ("each plan for a thread resumes it", "
        local t = task.spawn(function() for i = 1, 3 do log(coroutine.yield()) end end)
        task.delay(2, t, 'b') task.delay(1, t, 'a') task.defer(t, 'now')", &[0.0, 1.0, 2.0], &["0:now", "1:a", "2:b"]),
    ("a plan for a thread that died since does nothing", "
        local t = task.delay(1, log, 'x') coroutine.resume(t, 'y') log(coroutine.status(t))
        coroutine.close(task.delay(1, log, 'y'))", &[0.0, 1.0], &["0:y", "0:dead"]),
    // Cancelling.
    ("cancel takes a delayed, a waiting, a suspended and a deferred thread", "
        local a = task.delay(1, log, 'delayed')
        local b = task.spawn(function() task.wait(1) log('waited') end)
        local c = task.spawn(function() coroutine.yield() log('yielded') end)
        local d = task.defer(log, 'deferred')
        local e = coroutine.create(log)
        local f = task.spawn(function() pcall(task.wait) log('in pcall') end)
        for _, t in { a, b, c, d, e, f } do task.cancel(t) log(coroutine.status(t)) end", &[0.0, 1.0, 2.0], &["0:dead", "0:dead", "0:dead", "0:dead", "0:dead", "0:dead"]),
    ("a finished, a failed and a cancelled thread may be cancelled", "
        local a, b, c = task.spawn(function() end), coroutine.create(error), task.delay(1, log)
        coroutine.resume(b) task.cancel(c)
        for _, t in { a, b, c } do task.cancel(t) log(coroutine.status(t)) end", &[0.0, 2.0], &["0:dead", "0:dead", "0:dead"]),
    ("an earlier task of a frame can cancel a later one", "
        local b
        task.delay(1, function() task.cancel(b) log('a') end)
        b = task.delay(1, log, 'b')", &[0.0, 1.0, 2.0], &["1:a"]),
    ("a deferred one can cancel the next deferred one", "
        local b
        task.defer(function() task.cancel(b) log('a') end)
        b = task.defer(log, 'b')", &[0.0, 1.0], &["0:a"]),
    ("the running thread and the one that resumed it cannot be cancelled", "
        local me = coroutine.running()
        log(pcall(task.cancel, me))
        task.spawn(function() log(pcall(task.cancel, me)) end)
        task.wait() log('on')", &[0.0, 1.0], &[
        "0:false task.cancel: thread: got the running thread; expected one that is suspended or finished",
        "0:false task.cancel: thread: got a thread that resumed the running one; expected one that is suspended or finished",
        "1:on",
    ]),
    ("a refused cancel keeps what was planned", "task.delay(1, coroutine.running()) pcall(task.cancel, coroutine.running()) coroutine.yield() log('on')", &[0.0, 1.0], &["1:on"]),
    // pcall, coroutines of the script's own.
    ("pcall does not stand in the way of a wait", "log(pcall(function() task.wait() error('x', 0) end)) log(xpcall(task.wait, print, 1))", &[0.0, 1.0, 2.0], &["1:false x", "2:true 1"]),
    ("a wait in a coroutine returns to its resume and goes on by itself", "
        local co = coroutine.create(function() log('in') log(task.wait(1)) log('on') return 1 end)
        log(coroutine.resume(co)) log('out') task.wait(2) log(coroutine.status(co))", &[0.0, 1.0, 2.0], &["0:in", "0:true", "0:out", "1:1", "1:on", "2:dead"]),
    ("the same with wrap", "
        local f = coroutine.wrap(function() task.wait() log('on') coroutine.yield() log('by hand') end)
        log(select('#', f())) task.wait() task.wait() f()", &[0.0, 1.0, 2.0, 3.0], &["0:0", "1:on", "2:by hand"]),
    ("a wait that is resumed by hand is over, and only once", "
        local f = coroutine.wrap(function() log('early', task.wait(2)) coroutine.yield() log('wrong') end)
        f() task.wait(1) f()", &[0.0, 1.0, 2.0, 3.0], &["1:early 1"]),
    ("the same by spawn, and by a plan", "
        local function body() log('early', task.wait(9)) log(task.wait(1)) end
        task.spawn(task.spawn(body), 'ignored')
        task.delay(1, task.spawn(body), 'ignored')", &[0.0, 1.0, 2.0, 9.0], &["0:early 0", "1:1", "1:early 1", "2:1"]),
    ("a bare yield is nobody's to resume", "task.spawn(function() log('a') coroutine.yield() log('b') end)", &[0.0, 1.0, 2.0], &["0:a"]),
    // Refusals.
    ("nonsense is refused with what it was", "
        log(pcall(task.wait, 'x')) log(pcall(task.wait, 0/0)) log(pcall(task.delay, 0/0, log)) log(pcall(task.spawn, 5))
        log(pcall(task.defer, {})) log(pcall(task.delay, 1)) log(pcall(task.cancel, nil)) log(pcall(function() task.wait('1') end))", &[0.0], &[
        "0:false task.wait: seconds: got string; expected a number of seconds >= 0",
        "0:false task.wait: seconds: got nan; expected a number of seconds >= 0",
        "0:false task.delay: seconds: got nan; expected a number of seconds >= 0",
        "0:false task.spawn: functionOrThread: got 5; expected a function or a suspended thread",
        "0:false task.defer: functionOrThread: got table; expected a function or a suspended thread",
        "0:false task.delay: functionOrThread: got nil; expected a function or a suspended thread",
        "0:false task.cancel: thread: got nil; expected a thread",
        "0:false test.luau:3: task.wait: seconds: got string; expected a number of seconds >= 0",
    ]),
    ("a wait under a metamethod or a host function raises", "
        local t = setmetatable({}, { __index = function() task.wait() end })
        log(pcall(function() return t.x end))
        log((string.match(tostring(select(2, pcall(call, function() task.wait() end))), 'task.wait: it cannot yield here')))", &[0.0, 1.0], &[
        "0:false test.luau:2: task.wait: it cannot yield here; call it from a task, not from inside a metamethod or a host callback",
        "0:task.wait: it cannot yield here",
    ]),
    ("the table is read-only", "log(pcall(function() task.wait = nil end)) log(pcall(rawset, task, 'x', 1))", &[0.0], &["0:false test.luau:1: attempt to modify a readonly table", "0:false attempt to modify a readonly table"]),
    ("globals of the script are seen by its tasks", "x = 1 task.spawn(function() x += 1 end) task.delay(1, function() log(x) end)", &[0.0, 1.0], &["1:2"]),
];

#[test]
fn scripts() {
    for (what, source, times, expected) in SCRIPTS {
        let stage = Stage::play(source, times);
        assert_eq!(stage.log(), *expected, "{what}");
        assert!(stage.errors.is_empty(), "{what}: {:?}", stage.errors);
    }
}

#[test]
fn an_error_ends_its_task_alone_and_names_its_line() {
    let stage = Stage::play(
        "task.spawn(function()\n  local function inner()\n    error('boom')\n  end\n  task.wait()\n  inner()\nend)\n\
         task.spawn(function()\n  error({ 1 })\nend)\n\
         task.defer(error, 'bare\\nlines\\n', 0)\n\
         task.spawn(function()\n  fail()\nend)\n\
         task.spawn(error, setmetatable({}, { __tostring = function() error('no') end }))\n\
         task.spawn(error, setmetatable({}, { __tostring = function() return 'told' end }))\n\
         task.delay(0, function()\n  fail()\nend)\n\
         task.delay(0, error)\n\
         task.wait() task.wait() log('alive')",
        &[0.0, 1.0, 2.0],
    );
    assert_eq!(stage.log(), ["2:alive"]);
    let got: Vec<_> = stage.errors.iter().map(|e| (e.message.as_str(), e.traceback.as_str())).collect();
    assert!(got[0].0.starts_with("table: 0x"), "{got:?}");
    assert_eq!(
        got[0..].iter().map(|e| e.1).collect::<Vec<_>>(),
        [
            "test.luau:9\n",
            "test.luau:13\n",
            "",
            "",
            "",
            "test.luau:3 function inner\ntest.luau:6\n",
            "test.luau:18\n",
            ""
        ]
    );
    assert_eq!(
        got[1..].iter().map(|e| e.0).collect::<Vec<_>>(),
        ["from rust", "an error of type table", "told", "bare\nlines\n", "test.luau:3: boom", "from rust", "nil"]
    );
    assert_eq!(
        stage.errors[5].to_string(),
        "test.luau:3: boom\nstack traceback:\ntest.luau:3 function inner\ntest.luau:6"
    );
    assert_eq!(stage.errors[7].to_string(), "nil");
    assert!(stage.scheduler.is_idle());
}

#[test]
fn endless_spawning_is_an_error_and_no_overflow() {
    let stage = Stage::play("local function again() task.spawn(again) end again() log('on')", &[0.0]);
    assert_eq!(stage.log(), ["0:on"]);
    assert!(stage.errors.iter().any(|e| e.message.contains("stack overflow")), "{:?}", stage.errors);
}

#[test]
fn endless_deferring_does_not_hold_a_frame() {
    for (what, source) in [
        ("one by one", "local function again() task.defer(again) end again()"),
        ("doubling", "local function again() task.defer(again) task.defer(again) end again()"),
    ] {
        let mut stage = Stage::play(source, &[0.0]);
        assert!(stage.scheduler.live_tasks() >= 1 && stage.scheduler.live_tasks() < 10_000, "{what}");
        assert_eq!(stage.scheduler.next_due(), Some(0.0), "{what}");
        let before = stage.scheduler.queue.borrow().next_number;
        stage.step(1.0);
        assert!(stage.scheduler.queue.borrow().next_number > before, "{what}: it goes on in the next frame");
    }
}

#[test]
fn many_deferred_at_once_all_run_in_their_frame() {
    let stage = Stage::play(
        "n = 0 for i = 1, 10000 do task.defer(function() n += 1 if n == 10000 then log(n) end end) end",
        &[0.0],
    );
    assert_eq!(stage.log(), ["0:10000"]);
}

/// (script, times of the frames, live tasks after them, next due time).
#[test]
fn idle_means_that_nothing_is_to_be_resumed() {
    for (source, times, live, due) in [
        ("task.spawn(function() coroutine.yield() end)", &[0.0][..], 0, None),
        ("task.cancel(task.delay(9, log)) task.delay(3, log)", &[0.5], 1, Some(3.5)),
        ("coroutine.close(task.delay(9, log))", &[0.5], 0, None),
        ("task.delay(1, log) task.wait(3)", &[0.0, 1.0], 1, Some(3.0)),
        ("local t = task.spawn(coroutine.yield) task.delay(1, t) task.delay(2, t)", &[0.0], 1, Some(1.0)),
        ("task.wait()", &[7.0], 1, Some(7.0)),
        ("task.wait(math.huge)", &[7.0], 1, None),
        ("log()", &[], 1, Some(f64::NEG_INFINITY)),
        ("log()", &[1.0], 0, None),
    ] {
        let stage = Stage::play(source, times);
        let s = &stage.scheduler;
        assert_eq!((s.live_tasks(), s.next_due(), s.is_idle()), (live, due, live == 0), "{source}");
    }
}

#[test]
fn what_is_planned_outside_a_step_counts_from_the_step_around_it() {
    let mut stage = Stage::new();
    let plan = stage.function("task.delay(1, log, 'a') task.defer(log, 'b') task.spawn(error, 'c', 0)");
    plan.call::<()>(()).unwrap();
    assert!(!stage.scheduler.is_idle());
    [100.0, 100.9, 101.0].into_iter().for_each(|time| stage.step(time));
    assert_eq!(stage.log(), ["0:b", "2:a"]);
    assert_eq!(stage.errors.len(), 1);
    plan.call::<()>(()).unwrap();
    assert_eq!(stage.scheduler.next_due(), Some(101.0));
    [101.5, 102.0].into_iter().for_each(|time| stage.step(time));
    assert_eq!(stage.log(), ["0:b", "2:a", "3:b", "4:a"]);
    let wait = stage.function("task.wait()").call::<()>(()).unwrap_err().to_string();
    assert!(wait.contains("test.luau:1: task.wait: it cannot yield here"), "{wait}");
}

#[test]
fn spawn_passes_arguments_and_starts_in_the_next_frame() {
    let mut stage = Stage::new();
    let body = stage.function("log(select('#', ...), ...)");
    let thread = stage.scheduler.spawn(&stage.lua, body, (1, Value::Nil, "x", Value::Nil)).unwrap();
    assert!(stage.log().is_empty() && thread.is_resumable());
    stage.step(0.0);
    assert_eq!(stage.log(), ["0:4 1 nil x nil"]);
    assert!(thread.is_finished());
}

#[test]
fn a_scheduler_may_go_before_its_state_and_after() {
    let Stage { lua, scheduler, .. } = Stage::play("task.wait(9)", &[0.0]);
    drop(scheduler);
    let error = lua.load("task.defer(print)").exec().unwrap_err().to_string();
    assert!(error.contains("the scheduler is gone"), "{error}");
    let Stage { lua, scheduler, .. } = Stage::play("task.wait(9)", &[0.0]);
    drop(lua);
    assert_eq!(Rc::strong_count(&scheduler), 1);
}

#[test]
fn many_tasks() {
    let stage = Stage::play(
        "for i = 1, 10000 do task.spawn(function() for _ = 1, 3 do task.wait() end if i % 5000 == 0 then log(i) end end) end",
        &[0.0, 1.0, 2.0, 3.0],
    );
    assert_eq!(stage.log(), ["3:5000", "3:10000"]);
    assert_eq!((stage.errors.len(), stage.scheduler.live_tasks()), (0, 0));
    assert!(stage.scheduler.queue.borrow().plans.len() <= 10_001, "slots are used again");
}

#[test]
fn planning_and_cancelling_over_and_over_does_not_pile_up() {
    let stage = Stage::play("for _ = 1, 10000 do task.cancel(task.delay(1e6, log)) end task.wait(5)", &[0.0]);
    let queue = stage.scheduler.queue.borrow();
    assert!(queue.timed.len() < 100 && queue.plans.len() < 10 && queue.newest.len() == 1);
}

/// Whatever the times, and whatever is cancelled, threads resume by (due, order of asking).
#[test]
fn order() {
    let mut seed = 1_u64;
    let mut random = |below: u64| {
        // Knuth's MMIX generator; its low bits are poor.
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    for round in 0..100 {
        let mut source = String::from("local t = {}\n");
        let (mut expected, mut cancelled) = (Vec::new(), Vec::new());
        for i in 0..1 + random(40) {
            // Quarters are exact, so equal times are equal.
            let quarters = random(12);
            let seconds = quarters as f64 / 4.0;
            source += &match random(2) {
                0 => format!("t[{i}] = task.delay({seconds}, log, {i})\n"),
                _ => format!("t[{i}] = task.spawn(function() task.wait({seconds}) log({i}) end)\n"),
            };
            if random(5) == 0 {
                let victim = random(i + 1);
                source += &format!("task.cancel(t[{victim}])\n");
                cancelled.push(victim);
            }
            expected.push((quarters, i));
        }
        expected.retain(|(_, i)| !cancelled.contains(i));
        expected.sort_unstable();
        // The frames, at halves: what is due at 1.25 runs in the frame at 1.5.
        let times: Vec<f64> = (0..8).map(|frame| f64::from(frame) / 2.0).collect();
        let frame = |quarters: u64| quarters.div_ceil(2).max(1);
        let expected: Vec<String> = expected.iter().map(|(q, i)| format!("{}:{i}", frame(*q))).collect();
        assert_eq!(Stage::play(&source, &times).log(), expected, "round {round}:\n{source}");
    }
}
