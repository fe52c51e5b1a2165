//! `task`: threads that wait for a later frame, and the scheduler that resumes them.
//!
//! A task is a Luau thread. [`Scheduler::step`] is one frame: it resumes every thread whose time has come, ordered by
//! due time and then by the order of asking, then the deferred ones. A thread that waits in this frame goes on in a
//! later one, never in the same.
//!
//! | Script call | Does |
//! | --- | --- |
//! | `task.spawn(f, ...)` | runs `f` now, until it yields or ends; its error is reported, not raised |
//! | `task.defer(f, ...)` | runs `f` at the end of this frame, after all tasks that are due |
//! | `task.delay(seconds, f, ...)` | runs `f` on the first later frame at or after that time |
//! | `task.wait(seconds?)` | yields until the first later frame at or after that time; returns the seconds that passed |
//! | `task.cancel(thread)` | closes a suspended thread and drops what was planned for it; a finished one is left alone |
//!
//! `f` is a function or a suspended thread; `defer` and `delay` also take the running thread, for a script that plans
//! its own resumption and then yields.
//!
//! - **Coroutines of the script's own.** `task.wait` suspends the innermost coroutine, and that one is what the
//!   scheduler resumes, not the thread that resumed it: the script's own `resume` returns at the wait, with no values.
//! - **Resumed by somebody else.** A `task.wait` whose thread is resumed early, by `coroutine.resume`, `task.spawn` or
//!   another plan for the same thread, returns the seconds that passed until then, and its own time is forgotten.
//! - **One thread, several plans.** A thread may be delayed or deferred more than once; each plan resumes it.
//!   `task.spawn` of a thread drops its plans: it has been started, and a late plan would end some later wait of it.
//! - **A bare `coroutine.yield`** leaves a thread to whoever resumes it; it does not keep the scheduler busy.
//! - **A plan** whose thread is dead when its time comes does nothing; one in infinitely many seconds waits for ever.
//!
//! Single-threaded and re-entrant: script calls reach the scheduler while [`Scheduler::step`] runs, so no borrow is
//! held across a call into Luau.

use mlua::thread::ThreadStatus;
use mlua::{Error, FromLuaMulti, Function, IntoLuaMulti, LightUserData, Lua, MultiValue, Table, Thread, Value};
use std::cell::{Cell, RefCell};
use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::ffi::c_void;
use std::fmt;
use std::rc::Rc;

/// Rounds of deferred threads in one frame, a round being what the round before deferred.
const MOST_ROUNDS: usize = 64;

/// No further round starts in a frame after this many deferred threads: rounds that double would not end in the age of
/// the universe with [`MOST_ROUNDS`] alone. A single round may be larger, it is as long as the script that made it.
const MOST_DEFERRED: usize = 4096;

/// Where Luau's `debug.traceback` is kept: the global may be gone or replaced when an error needs it.
const TRACEBACK: &str = "ashfall.task.traceback";

/// The part of the library that is written in Luau: what yields (a Rust function cannot), and what refuses arguments
/// (an error raised here is a string with the caller's file and line, one raised in Rust is neither).
const LIBRARY: &str = r#"
local host = ...
local await, interrupted, after, defer = host.await, host.interrupted, host.after, host.defer
local forget, report, mark = host.forget, host.report, host.mark
local create, resume, yield, close = coroutine.create, coroutine.resume, coroutine.yield, coroutine.close
local status, yieldable, error, type, tostring = coroutine.status, coroutine.isyieldable, error, type, tostring

local function describe(value)
	return if type(value) == "number" then tostring(value) else type(value)
end

-- The messages are made here and raised by the callers, whose level is then known even if this is inlined.
local function bad_seconds(name, value)
	return `task.{name}: seconds: got {describe(value)}; expected a number of seconds >= 0`
end

local function bad_target(name, value)
	local given = if type(value) == "thread" then `a {status(value)} thread` else describe(value)
	return `task.{name}: functionOrThread: got {given}; expected a function or a suspended thread`
end

local task = {}

function task.spawn(what, ...)
	local thread = what
	if type(what) == "function" then
		thread = create(what)
	elseif type(what) == "thread" and status(what) == "suspended" then
		-- A task.wait it is in drops its own plan, and needs it to tell the time.
		forget(what, false)
	else
		error(bad_target("spawn", what), 2)
	end
	local ok, problem = resume(thread, ...)
	if not ok then
		report(thread, problem)
	end
	return thread
end

-- A thread to plan for: any that is not dead, nil if it is none.
local function target(what)
	if type(what) == "function" then
		return create(what)
	end
	return if type(what) == "thread" and status(what) ~= "dead" then what else nil
end

function task.defer(what, ...)
	local thread = target(what) or error(bad_target("defer", what), 2)
	defer(thread, ...)
	return thread
end

function task.delay(seconds, what, ...)
	if seconds ~= nil and (type(seconds) ~= "number" or seconds ~= seconds) then
		error(bad_seconds("delay", seconds), 2)
	end
	local thread = target(what) or error(bad_target("delay", what), 2)
	after(seconds or 0, thread, ...)
	return thread
end

function task.wait(seconds)
	if seconds ~= nil and (type(seconds) ~= "number" or seconds ~= seconds) then
		error(bad_seconds("wait", seconds), 2)
	end
	if not yieldable() then
		error("task.wait: it cannot yield here; call it from a task, not from inside a metamethod or a host callback", 2)
	end
	await(seconds or 0)
	local who, elapsed = yield()
	-- Only the scheduler has the mark; anybody else came early.
	return if who == mark then elapsed else interrupted()
end

function task.cancel(thread)
	if type(thread) ~= "thread" then
		error(`task.cancel: thread: got {describe(thread)}; expected a thread`, 2)
	end
	local state = status(thread)
	if state == "running" then
		error("task.cancel: thread: got the running thread; expected one that is suspended or finished", 2)
	elseif state == "normal" then
		error("task.cancel: thread: got a thread that resumed the running one; expected one that is suspended or finished", 2)
	end
	forget(thread, true)
	if state == "suspended" then
		close(thread)
	end
end

return table.freeze(task)
"#;

/// An error that ended a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskError {
    /// The error value as text; for an error raised with `error`, file and line come first.
    pub message: String,
    /// Luau's traceback of the dead thread, innermost call first: a line `file:line function name` for each call.
    pub traceback: String,
}

impl fmt::Display for TaskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match self.traceback.trim_end() {
            "" => Ok(()),
            traceback => write!(f, "\nstack traceback:\n{traceback}"),
        }
    }
}

impl std::error::Error for TaskError {}

impl TaskError {
    /// The error of a `coroutine.resume` in a script.
    fn of_value(lua: &Lua, thread: Thread, problem: &Value) -> Self {
        let message = match problem {
            Value::Error(error) => text_of(error),
            Value::String(text) => text.to_string_lossy(),
            // A `__tostring` may fail in turn.
            other => other.to_string().unwrap_or_else(|_| format!("an error of type {}", other.type_name())),
        };
        Self { message, traceback: traceback(lua, thread) }
    }

    /// The error of a resumption from Rust.
    fn of_error(lua: &Lua, thread: Thread, error: &Error) -> Self {
        let mut message = text_of(error);
        // mlua has appended a traceback of its own to the text of an error that came from a script; the last one is its.
        if matches!(error, Error::RuntimeError(_))
            && let Some(end) = message.rfind("\nstack traceback:")
        {
            message.truncate(end);
        }
        Self { message, traceback: traceback(lua, thread) }
    }
}

/// The text that the script's author wrote or caused, without mlua's prefixes and tracebacks.
fn text_of(error: &Error) -> String {
    match error {
        Error::CallbackError { cause, .. } => text_of(cause),
        Error::RuntimeError(text) | Error::MemoryError(text) => text.clone(),
        other => other.to_string(),
    }
}

/// A thread that died of an error keeps its calls. Empty when Luau is out of memory: the message matters more.
fn traceback(lua: &Lua, thread: Thread) -> String {
    lua.named_registry_value::<Function>(TRACEBACK).and_then(|f| f.call(thread)).unwrap_or_default()
}

/// Whether a thread can still be resumed, now or when it has yielded.
fn is_alive(thread: &Thread) -> bool {
    !matches!(thread.status(), ThreadStatus::Finished | ThreadStatus::Error)
}

/// What resumes a thread.
enum Wake {
    /// `task.wait`, asked at a time for a number of seconds.
    Wait { since: f64, seconds: f64 },
    /// Everything else: the arguments to pass.
    Call(MultiValue),
}

/// One resumption to come.
struct Plan {
    thread: Thread,
    wake: Wake,
    number: u64,
    /// The plans of the same thread made just before and just after this one.
    older: Option<usize>,
    newer: Option<usize>,
}

/// Names a plan; the number tells it from a later one in the same slot. Ordered by the order of asking.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Ticket {
    number: u64,
    slot: usize,
}

/// A ticket with its due time in seconds. Never NaN: the script side refuses it.
#[derive(Clone, Copy, PartialEq)]
struct Timed {
    due: f64,
    ticket: Ticket,
}

impl Ord for Timed {
    fn cmp(&self, other: &Self) -> Ordering {
        self.due.total_cmp(&other.due).then(self.ticket.cmp(&other.ticket))
    }
}
impl PartialOrd for Timed {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Eq for Timed {}

/// All plans. A dropped one leaves its ticket behind, which is skipped.
#[derive(Default)]
struct Queue {
    plans: Vec<Option<Plan>>,
    free: Vec<usize>,
    /// The newest plan of each thread that has one. A plan holds its thread, so no address is used twice.
    newest: HashMap<*const c_void, usize>,
    timed: BinaryHeap<Reverse<Timed>>,
    deferred: VecDeque<Ticket>,
    next_number: u64,
}

impl Queue {
    fn add(&mut self, thread: Thread, wake: Wake) -> Ticket {
        let number = self.next_number;
        self.next_number += 1;
        let slot = self.free.pop().unwrap_or_else(|| {
            self.plans.push(None);
            self.plans.len() - 1
        });
        let older = self.newest.insert(thread.to_pointer(), slot);
        if let Some(older) = older.and_then(|at| self.at(at)) {
            older.newer = Some(slot);
        }
        if let Some(place) = self.plans.get_mut(slot) {
            *place = Some(Plan { thread, wake, number, older, newer: None });
        }
        Ticket { number, slot }
    }

    fn add_at(&mut self, due: f64, thread: Thread, wake: Wake) {
        let ticket = self.add(thread, wake);
        self.timed.push(Reverse(Timed { due, ticket }));
    }

    fn at(&mut self, slot: usize) -> Option<&mut Plan> {
        self.plans.get_mut(slot)?.as_mut()
    }

    fn get(&self, ticket: Ticket) -> Option<&Plan> {
        self.plans.get(ticket.slot)?.as_ref().filter(|plan| plan.number == ticket.number)
    }

    fn take(&mut self, ticket: Ticket) -> Option<Plan> {
        self.get(ticket).is_some().then(|| self.remove(ticket.slot))?
    }

    fn remove(&mut self, slot: usize) -> Option<Plan> {
        let plan = self.plans.get_mut(slot)?.take()?;
        self.free.push(slot);
        if let Some(older) = plan.older.and_then(|at| self.at(at)) {
            older.newer = plan.newer;
        }
        match (plan.newer, plan.older) {
            (Some(newer), older) => {
                if let Some(newer) = self.at(newer) {
                    newer.older = older;
                }
            }
            (None, Some(older)) => drop(self.newest.insert(plan.thread.to_pointer(), older)),
            (None, None) => drop(self.newest.remove(&plan.thread.to_pointer())),
        }
        Some(plan)
    }

    /// Drops the plans of a thread that `which` picks; returns the last of them.
    fn drop_plans(&mut self, thread: &Thread, which: impl Fn(&Wake) -> bool) -> Option<Plan> {
        let mut dropped = None;
        let mut next = self.newest.get(&thread.to_pointer()).copied();
        while let Some(slot) = next
            && let Some(plan) = self.at(slot)
        {
            next = plan.older;
            if which(&plan.wake) {
                dropped = self.remove(slot);
            }
        }
        // A script that plans far ahead and cancels, over and over, must not pile up tickets.
        if self.timed.len() > 2 * (self.plans.len() - self.free.len()) + 64 {
            let mut timed = std::mem::take(&mut self.timed);
            timed.retain(|Reverse(timed)| self.get(timed.ticket).is_some());
            self.timed = timed;
        }
        dropped
    }

    /// The next plan with a time up to `now` and a number below `end`.
    fn pop_due(&mut self, now: f64, end: u64) -> Option<Plan> {
        // What a frame adds is due no earlier than all that was due before it and has a higher number, so the first
        // ticket past the end is the end.
        while let Some(Reverse(first)) = self.timed.peek().copied()
            && first.due <= now
            && first.ticket.number < end
        {
            self.timed.pop();
            if let Some(plan) = self.take(first.ticket) {
                return Some(plan);
            }
        }
        None
    }

    /// The due time of the first plan whose thread is alive; drops those before it.
    fn first_due(&mut self) -> Option<f64> {
        while let Some(Reverse(first)) = self.timed.peek().copied() {
            if self.get(first.ticket).is_some_and(|plan| is_alive(&plan.thread)) {
                return Some(first.due);
            }
            self.timed.pop();
            self.take(first.ticket);
        }
        None
    }

    /// The threads that have a plan and are not dead.
    fn live(&self) -> impl Iterator<Item = &Thread> {
        let plans = self.newest.values().filter_map(|&slot| self.plans.get(slot)?.as_ref());
        plans.map(|plan| &plan.thread).filter(|thread| is_alive(thread))
    }

    /// Moves every time by some seconds.
    fn shift(&mut self, by: f64) {
        let moved = |Reverse(timed): Reverse<Timed>| Reverse(Timed { due: timed.due + by, ..timed });
        self.timed = std::mem::take(&mut self.timed).into_iter().map(moved).collect();
        for plan in self.plans.iter_mut().flatten() {
            if let Wake::Wait { since, .. } = &mut plan.wake {
                *since += by;
            }
        }
    }
}

/// Marks a step as running, until dropped: a panic that unwinds through it must not stop all later ones.
struct Stepping<'a>(&'a Cell<bool>);

impl Drop for Stepping<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

/// The tasks of one Luau state that wait for a frame.
pub struct Scheduler {
    queue: RefCell<Queue>,
    errors: RefCell<Vec<TaskError>>,
    /// The time of the last step; 0 before the first one, which then moves all times to its own.
    now: Cell<f64>,
    started: Cell<bool>,
    stepping: Cell<bool>,
}

impl fmt::Debug for Scheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scheduler").field("now", &self.now.get()).finish_non_exhaustive()
    }
}

impl Scheduler {
    /// Puts the read-only table `task` into the globals and returns the scheduler behind it. To be called before
    /// [`Lua::sandbox`], which freezes the globals.
    ///
    /// # Errors
    /// When the globals are already frozen, lack `coroutine` or `debug`, or Luau is out of memory.
    pub fn install(lua: &Lua) -> mlua::Result<Rc<Self>> {
        let scheduler = Rc::new(Self {
            queue: RefCell::default(),
            errors: RefCell::default(),
            now: Cell::new(0.0),
            started: Cell::new(false),
            stepping: Cell::new(false),
        });
        let globals = lua.globals();
        let traceback: Function = globals.get::<Table>("debug")?.get("traceback")?;
        lua.set_named_registry_value(TRACEBACK, traceback)?;
        let task: Table = lua.load(LIBRARY).set_name("=[task]").call(scheduler.host(lua)?)?;
        globals.raw_set("task", task)?;
        Ok(scheduler)
    }

    /// The functions behind the Luau part.
    fn host(self: &Rc<Self>, lua: &Lua) -> mlua::Result<Table> {
        let host = lua.create_table()?;
        host.raw_set("mark", self.mark())?;
        self.bind(lua, &host, "await", |s, lua, seconds: f64| {
            let (since, seconds) = (s.now.get(), seconds.max(0.0));
            s.queue.borrow_mut().add_at(since + seconds, lua.current_thread(), Wake::Wait { since, seconds });
            Ok(())
        })?;
        self.bind(lua, &host, "interrupted", |s, lua, ()| {
            let waits = |wake: &Wake| matches!(wake, Wake::Wait { .. });
            let plan = s.queue.borrow_mut().drop_plans(&lua.current_thread(), waits);
            Ok(match plan.map(|plan| plan.wake) {
                Some(Wake::Wait { since, .. }) => s.now.get() - since,
                _ => 0.0,
            })
        })?;
        self.bind(lua, &host, "after", |s, _, (seconds, thread, args): (f64, Thread, MultiValue)| {
            s.queue.borrow_mut().add_at(s.now.get() + seconds.max(0.0), thread, Wake::Call(args));
            Ok(())
        })?;
        self.bind(lua, &host, "defer", |s, _, (thread, args): (Thread, MultiValue)| {
            let mut queue = s.queue.borrow_mut();
            let ticket = queue.add(thread, Wake::Call(args));
            queue.deferred.push_back(ticket);
            Ok(())
        })?;
        self.bind(lua, &host, "forget", |s, _, (thread, waits): (Thread, bool)| {
            s.queue.borrow_mut().drop_plans(&thread, |wake| waits || matches!(wake, Wake::Call(_)));
            Ok(())
        })?;
        self.bind(lua, &host, "report", |s, lua, (thread, problem): (Thread, Value)| {
            // Before the borrow: a `__tostring` of the script's may run here.
            let error = TaskError::of_value(lua, thread, &problem);
            s.errors.borrow_mut().push(error);
            Ok(())
        })?;
        Ok(host)
    }

    fn bind<A: FromLuaMulti + 'static, R: IntoLuaMulti + 'static>(
        self: &Rc<Self>,
        lua: &Lua,
        host: &Table,
        name: &str,
        f: fn(&Self, &Lua, A) -> mlua::Result<R>,
    ) -> mlua::Result<()> {
        // Weak: the Luau state owns these functions, and the scheduler holds threads of that state.
        let weak = Rc::downgrade(self);
        let gone = || Error::runtime("task: the scheduler is gone");
        let function = move |lua: &Lua, args: A| f(&*weak.upgrade().ok_or_else(gone)?, lua, args);
        host.raw_set(name, lua.create_function(function)?)
    }

    /// What tells the scheduler's resumptions from a script's, which cannot make such a value.
    fn mark(&self) -> LightUserData {
        LightUserData(std::ptr::from_ref(self).cast_mut().cast())
    }

    /// Makes a function a task that starts with the next [`Scheduler::step`].
    ///
    /// # Errors
    /// When Luau is out of memory.
    pub fn spawn(&self, lua: &Lua, f: Function, args: impl IntoLuaMulti) -> mlua::Result<Thread> {
        let thread = lua.create_thread(f)?;
        let args = args.into_lua_multi(lua)?;
        self.queue.borrow_mut().add_at(self.now.get(), thread.clone(), Wake::Call(args));
        Ok(thread)
    }

    /// One frame at time `now`, in seconds since any fixed origin: resumes all that is due, then what was deferred.
    ///
    /// What was planned before the first step counts from its time. A time before the last one counts as the last
    /// one. A step called from inside a step does nothing.
    ///
    /// Returns the errors of the tasks that died since the last step. Cost: O(n log n) in the due tasks.
    pub fn step(&self, lua: &Lua, now: f64) -> Vec<TaskError> {
        if self.stepping.replace(true) {
            return Vec::new();
        }
        let stepping = Stepping(&self.stepping);
        if !now.is_nan() {
            self.advance(now);
        }
        let end = self.queue.borrow().next_number;
        loop {
            let plan = self.queue.borrow_mut().pop_due(self.now.get(), end);
            let Some(plan) = plan else { break };
            self.resume(lua, plan);
        }
        let mut ran = 0;
        for _ in 0..MOST_ROUNDS {
            let round = self.queue.borrow().deferred.len();
            if round == 0 || ran >= MOST_DEFERRED {
                break;
            }
            for _ in 0..round {
                let mut queue = self.queue.borrow_mut();
                let plan = queue.deferred.pop_front().and_then(|ticket| queue.take(ticket));
                drop(queue);
                if let Some(plan) = plan {
                    self.resume(lua, plan);
                }
            }
            ran += round;
        }
        drop(stepping);
        self.errors.take()
    }

    fn advance(&self, now: f64) {
        if self.started.replace(true) {
            self.now.set(self.now.get().max(now));
        } else {
            self.now.set(now);
            self.queue.borrow_mut().shift(now);
        }
    }

    fn resume(&self, lua: &Lua, plan: Plan) {
        let Plan { thread, wake, .. } = plan;
        if !thread.is_resumable() {
            return;
        }
        let outcome = match wake {
            Wake::Call(args) => thread.resume::<()>(args),
            // A wait that is over is never shorter than asked for, however the difference is rounded.
            Wake::Wait { since, seconds } => thread.resume((self.mark(), (self.now.get() - since).max(seconds))),
        };
        if let Err(error) = outcome {
            let error = TaskError::of_error(lua, thread, &error);
            self.errors.borrow_mut().push(error);
        }
    }

    /// Whether no task waits to be resumed by the scheduler and no error waits to be returned.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.errors.borrow().is_empty() && self.queue.borrow().live().next().is_none()
    }

    /// The earliest time at which [`Scheduler::step`] has something to do; now or earlier means the next frame,
    /// `None` never. Before the first step, whose time everything counts from, it is minus infinity.
    #[must_use]
    pub fn next_due(&self) -> Option<f64> {
        let mut queue = self.queue.borrow_mut();
        let deferred = |ticket: &Ticket| queue.get(*ticket).is_some_and(|plan| is_alive(&plan.thread));
        let due = if !self.errors.borrow().is_empty() || queue.deferred.iter().any(deferred) {
            Some(self.now.get())
        } else {
            queue.first_due().filter(|due| *due < f64::INFINITY)
        };
        if self.started.get() { due } else { due.map(|_| f64::NEG_INFINITY) }
    }

    /// How many threads wait to be resumed by the scheduler. Cost: O(n) in them.
    #[must_use]
    pub fn live_tasks(&self) -> usize {
        self.queue.borrow().live().count()
    }
}

#[cfg(test)]
mod tests;
