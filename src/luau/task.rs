//! `task`: threads that wait for a later frame, and the scheduler that resumes them.
//!
//! A task is a Luau thread. [`Scheduler::step`] is one frame: it resumes every thread whose time has come, ordered
//! by due time and then by the order of asking, then the deferred ones. A thread that waits in this frame is resumed
//! in a later one, never in the same.
//!
//! `task.wait` suspends the innermost coroutine, and that one is what the scheduler resumes: inside a coroutine that
//! a script made itself, the script's own `resume` returns at the wait. A thread suspended by a bare
//! `coroutine.yield` is nobody's to resume; it does not keep the scheduler busy.
//!
//! Single-threaded and re-entrant: script calls reach the scheduler while [`Scheduler::step`] runs, so no borrow is
//! held across a call into Luau.

use mlua::{Function, IntoLuaMulti, Lua, MultiValue, Table, Thread};
use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::ffi::c_void;
use std::fmt;
use std::rc::Rc;

/// Rounds of deferred threads in one frame; what is deferred deeper runs in the next frame, so a frame always ends.
const MOST_ROUNDS: usize = 64;

/// An error that ended a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskError {
    /// The error value as text; for an error raised with `error`, file and line come first.
    pub message: String,
    /// Luau's traceback of the dead thread, innermost call first.
    pub traceback: String,
}

impl fmt::Display for TaskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\nstack traceback:\n{}", self.message, self.traceback.trim_end())
    }
}

/// A due time in seconds, ordered. Never NaN: the script side refuses it.
#[derive(Clone, Copy, PartialEq)]
struct Due(f64);

impl Eq for Due {}
impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Due {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// A thread waiting to be resumed.
struct Waiting {
    thread: Thread,
    args: MultiValue,
}

#[derive(Default)]
struct State {
    /// Waiting threads by number; one that was cancelled is missing here and skipped in the queues.
    waiting: HashMap<u64, Waiting>,
    /// The number under which a thread waits.
    numbers: HashMap<*const c_void, u64>,
    timed: BinaryHeap<Reverse<(Due, u64)>>,
    deferred: VecDeque<u64>,
    next_number: u64,
    errors: Vec<TaskError>,
}

impl State {
    fn add(&mut self, thread: Thread, args: MultiValue) -> u64 {
        let number = self.next_number;
        self.next_number += 1;
        // A thread waits for one thing at a time: the latest.
        if let Some(old) = self.numbers.insert(thread.to_pointer(), number) {
            self.waiting.remove(&old);
        }
        self.waiting.insert(number, Waiting { thread, args });
        number
    }

    fn take(&mut self, number: u64) -> Option<Waiting> {
        let waiting = self.waiting.remove(&number)?;
        self.numbers.remove(&waiting.thread.to_pointer());
        Some(waiting)
    }

    fn forget(&mut self, thread: &Thread) {
        if let Some(number) = self.numbers.remove(&thread.to_pointer()) {
            self.waiting.remove(&number);
        }
    }

    /// Drops queue entries of cancelled threads from the front.
    fn tidy(&mut self) {
        while self.timed.peek().is_some_and(|Reverse((_, n))| !self.waiting.contains_key(n)) {
            self.timed.pop();
        }
    }
}

/// The threads of one Luau state that wait for a frame.
pub struct Scheduler {
    state: RefCell<State>,
    now: Cell<f64>,
    /// Resumes a thread and reports its error; the Luau half.
    run: RefCell<Option<Function>>,
}

impl fmt::Debug for Scheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scheduler").field("live_tasks", &self.live_tasks()).finish_non_exhaustive()
    }
}

impl Scheduler {
    /// Puts the read-only table `task` into the globals and returns the scheduler behind it.
    ///
    /// # Errors
    /// Only when Luau cannot make functions.
    pub fn install(lua: &Lua) -> mlua::Result<Rc<Self>> {
        let scheduler = Rc::new(Self { state: RefCell::default(), now: Cell::new(0.0), run: RefCell::default() });
        let host = lua.create_table()?;
        let bind = |name: &str, f: fn(&Self, MultiValue) -> mlua::Result<f64>| {
            // Weak: the state owns these functions, and the scheduler holds threads of the state.
            let weak = Rc::downgrade(&scheduler);
            let gone = || mlua::Error::runtime("the scheduler is gone");
            host.raw_set(
                name,
                lua.create_function(move |_, args: MultiValue| f(&*weak.upgrade().ok_or_else(gone)?, args))?,
            )
        };
        bind("now", |s, _| Ok(s.now.get()))?;
        bind("wait", |s, mut args| {
            let (seconds, thread) = (seconds(args.pop_front()), thread(args.pop_front())?);
            s.at(s.now.get() + seconds, thread, MultiValue::new());
            Ok(s.now.get())
        })?;
        bind("delay", |s, mut args| {
            let (seconds, thread) = (seconds(args.pop_front()), thread(args.pop_front())?);
            s.at(s.now.get() + seconds, thread, args);
            Ok(0.0)
        })?;
        bind("defer", |s, mut args| {
            let thread = thread(args.pop_front())?;
            let mut state = s.state.borrow_mut();
            let number = state.add(thread, args);
            state.deferred.push_back(number);
            Ok(0.0)
        })?;
        bind("forget", |s, mut args| {
            s.state.borrow_mut().forget(&thread(args.pop_front())?);
            Ok(0.0)
        })?;
        bind("report", |s, mut args| {
            let mut text = || args.pop_front().and_then(|v| v.to_string().ok()).unwrap_or_default();
            let error = TaskError { message: text(), traceback: text() };
            s.state.borrow_mut().errors.push(error);
            Ok(0.0)
        })?;
        let (task, run): (Table, Function) = lua.load(include_str!("task.luau")).set_name("=[task]").call(host)?;
        lua.globals().raw_set("task", task)?;
        scheduler.run.replace(Some(run));
        Ok(scheduler)
    }

    fn at(&self, due: f64, thread: Thread, args: MultiValue) {
        let mut state = self.state.borrow_mut();
        let number = state.add(thread, args);
        state.timed.push(Reverse((Due(due), number)));
    }

    /// Makes a function a task that starts with the next [`Scheduler::step`].
    ///
    /// # Errors
    /// When Luau is out of memory.
    pub fn spawn(&self, lua: &Lua, f: Function, args: impl IntoLuaMulti) -> mlua::Result<Thread> {
        let thread = lua.create_thread(f)?;
        let args = args.into_lua_multi(lua)?;
        self.at(self.now.get(), thread.clone(), args);
        Ok(thread)
    }

    /// One frame at time `now`, in seconds since any fixed origin: resumes all that is due.
    ///
    /// Returns the errors of the tasks that died of one. Cost: O(n log n) in the due tasks.
    pub fn step(&self, now: f64) -> Vec<TaskError> {
        self.now.set(now);
        // A thread that waits again in this frame gets a number past this one and is left for a later frame.
        let end = self.state.borrow().next_number;
        let mut due = Vec::new();
        {
            let mut state = self.state.borrow_mut();
            let mut later = Vec::new();
            while state.timed.peek().is_some_and(|Reverse((Due(t), _))| *t <= now) {
                let Some(Reverse((time, number))) = state.timed.pop() else { break };
                if number < end { due.push(number) } else { later.push(Reverse((time, number))) }
            }
            state.timed.extend(later);
        }
        for number in due {
            self.resume(number);
        }
        for _ in 0..MOST_ROUNDS {
            let round = std::mem::take(&mut self.state.borrow_mut().deferred);
            if round.is_empty() {
                break;
            }
            for number in round {
                self.resume(number);
            }
        }
        std::mem::take(&mut self.state.borrow_mut().errors)
    }

    fn resume(&self, number: u64) {
        // Gone when an earlier task of this frame cancelled it.
        let Some(waiting) = self.state.borrow_mut().take(number) else { return };
        let Some(run) = self.run.borrow().clone() else { return };
        let mut args = waiting.args;
        args.push_front(mlua::Value::Thread(waiting.thread));
        if let Err(error) = run.call::<()>(args) {
            let error = TaskError { message: error.to_string(), traceback: String::new() };
            self.state.borrow_mut().errors.push(error);
        }
    }

    /// Whether no thread waits to be resumed.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.state.borrow().waiting.is_empty()
    }

    /// The earliest time at which [`Scheduler::step`] has something to do; now or earlier means the next frame.
    #[must_use]
    pub fn next_due(&self) -> Option<f64> {
        let mut state = self.state.borrow_mut();
        state.tidy();
        let timed = state.timed.peek().map(|Reverse((Due(t), _))| *t);
        if state.deferred.iter().any(|n| state.waiting.contains_key(n)) { Some(self.now.get()) } else { timed }
    }

    /// Threads that wait to be resumed.
    #[must_use]
    pub fn live_tasks(&self) -> usize {
        self.state.borrow().waiting.len()
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        // The function keeps the state alive and the state keeps nothing of this: no cycle, but threads hold values
        // that may be large, and they go first.
        self.state.borrow_mut().waiting.clear();
    }
}

fn seconds(value: Option<mlua::Value>) -> f64 {
    value.as_ref().and_then(super::args::number).unwrap_or(0.0)
}

fn thread(value: Option<mlua::Value>) -> mlua::Result<Thread> {
    match value {
        Some(mlua::Value::Thread(thread)) => Ok(thread),
        _ => Err(mlua::Error::runtime("a thread was expected")),
    }
}

#[cfg(test)]
mod tests;
