//! Sharing work out over threads such that the result does not tell how it was shared.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A thread that panicked takes the others with it at the end of their scope.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes something of each job, on some threads at once, and passes the results on one at a time in the order of the
/// jobs.
pub(super) fn in_order<J, T: Send>(
    threads: usize,
    jobs: impl Iterator<Item = J> + Send,
    make: impl Fn(J) -> T + Sync,
    pass: impl FnMut(T) + Send,
) {
    let jobs = Mutex::new(jobs.enumerate());
    let made = Mutex::new(BTreeMap::new());
    let desk = Mutex::new((0, pass));
    let work = || {
        while let Some((at, job)) = { lock(&jobs).next() } {
            let result = make(job);
            lock(&made).insert(at, result);
            // Whoever is at the desk already passes this one on too, or leaves it to those who come later.
            if let Ok(mut desk) = desk.try_lock() {
                drain(&mut desk, &made);
            }
        }
    };
    on_threads(threads, &work);
    drain(&mut lock(&desk), &made);
}

/// Passes on what is made and next in turn.
fn drain<T>((next, pass): &mut (usize, impl FnMut(T)), made: &Mutex<BTreeMap<usize, T>>) {
    while let Some(result) = { lock(made).remove(next) } {
        *next += 1;
        pass(result);
    }
}

/// Does tasks that make further tasks, on some threads at once, the oldest first.
pub(super) fn spread<T: Send>(threads: usize, first: Vec<T>, each: impl Fn(T, &mut Vec<T>) + Sync) {
    struct Queue<T> {
        tasks: VecDeque<T>,
        busy: usize,
    }
    /// Says that a thread is done with its task, panicking or not: the others wait for that.
    struct Done<'a, T>(&'a Mutex<Queue<T>>, &'a Condvar);
    impl<T> Drop for Done<'_, T> {
        fn drop(&mut self) {
            lock(self.0).busy -= 1;
            self.1.notify_all();
        }
    }
    let queue = Mutex::new(Queue { tasks: first.into(), busy: 0 });
    let change = Condvar::new();
    let work = || {
        let mut made = Vec::new();
        let mut held = lock(&queue);
        loop {
            if let Some(task) = held.tasks.pop_front() {
                held.busy += 1;
                drop(held);
                let done = Done(&queue, &change);
                each(task, &mut made);
                lock(&queue).tasks.extend(made.drain(..));
                drop(done);
                held = lock(&queue);
            } else if held.busy > 0 {
                held = change.wait(held).unwrap_or_else(PoisonError::into_inner);
            } else {
                break;
            }
        }
    };
    on_threads(threads, &work);
}

/// Does the same on this thread and on as many more as the system has to give: all work is done without them too.
fn on_threads(threads: usize, work: &(impl Fn() + Sync)) {
    std::thread::scope(|scope| {
        for _ in 1..threads {
            if std::thread::Builder::new().spawn_scoped(scope, work).is_err() {
                break;
            }
        }
        work();
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_the_order_of_the_jobs() {
        for threads in 1..5 {
            let mut all = Vec::new();
            in_order(threads, 0..1000u32, |job| job * job, |result| all.push(result));
            assert!(all.into_iter().eq((0..1000).map(|n| n * n)));
        }
    }

    #[test]
    fn tasks_of_tasks_are_done() {
        for threads in 1..5 {
            let leaves = Mutex::new(0u32);
            spread(threads, vec![10u32], |task, made| match task {
                0 => *lock(&leaves) += 1,
                n => made.extend([n - 1, n - 1]),
            });
            assert_eq!(*lock(&leaves), 1024);
        }
    }
}
