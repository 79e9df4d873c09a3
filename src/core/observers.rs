// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Tells a tracker's observer of ends (R15).
//!
//! Observers run with no lock held and outside of the fork lock. They may take long, and may call
//! the tracker. Whoever takes an observer back waits for its calls that still run. A thread that is
//! inside an observer does not wait: two such threads could wait for each other.

use std::cell::Cell;
use std::sync::Arc;

use super::state::TrackerState;
use super::sync::{AtomicBool, Backoff, Lock, Ordering, fork_lock, lock, thread_static};
use crate::End;

/// A function that is told of ends; see [`Tracker::set_observer`](crate::Tracker::set_observer). It
/// may run on any thread, and on several at once.
pub type Observer = Arc<dyn Fn(&[End]) + Send + Sync>;

/// The observer of a tracker, and the calls of it that run.
pub struct Observers {
    /// Whether there is an observer. Each hook reads it.
    is_set: AtomicBool,
    shared: Arc<Lock<Shared>>,
}

/// It is locked under a read guard of the fork lock only.
struct Shared {
    observer: Option<Observer>,
    /// Counts the replacements of the observer.
    serial: u64,
    running: Vec<Call>,
}

/// A call of an observer that has not returned.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Call {
    thread: usize,
    serial: u64,
}

thread_static! {
    /// How many observers this thread is inside of. Its address is the thread's number.
    static DEPTH: Cell<u32> = Cell::new(0);
}

/// The number of this thread among those that run, also in the child of a fork. Never 0.
pub fn this_thread() -> usize {
    DEPTH.with(|depth| depth as *const Cell<u32> as usize)
}

/// Ends that the observer is to be told of. A call collects them while it holds locks.
pub struct PendingEnds {
    /// `None` if the tracker has no observer.
    ends: Option<Vec<End>>,
}

impl PendingEnds {
    #[inline]
    pub fn new(state: &TrackerState) -> Self {
        let is_wanted = state.observers.is_set.load(Ordering::Acquire);
        Self {
            ends: is_wanted.then(Vec::new),
        }
    }

    /// Where to put ends, if the tracker has an observer.
    #[inline]
    pub fn list(&mut self) -> Option<&mut Vec<End>> {
        self.ends.as_mut()
    }

    /// Tells the observer, outside of the fork lock: `guard` is given up first.
    #[inline]
    pub fn tell(self, state: &TrackerState, guard: fork_lock::ReadGuard<'static>) {
        if let Some(ends) = self.ends.filter(|ends| !ends.is_empty()) {
            state.observers.tell(&ends, guard);
        }
    }
}

impl Observers {
    pub fn new() -> Self {
        Self {
            is_set: AtomicBool::new(false),
            shared: Arc::new(lock::new(Shared {
                observer: None,
                serial: 0,
                running: Vec::new(),
            })),
        }
    }

    #[cold]
    fn tell(&self, ends: &[End], guard: fork_lock::ReadGuard<'static>) {
        let shared = self.shared.clone();
        let (observer, call) = {
            let mut shared = shared.lock();
            let Some(observer) = shared.observer.clone() else {
                return;
            };
            let call = Call {
                thread: this_thread(),
                serial: shared.serial,
            };
            shared.running.push(call);
            (observer, call)
        };
        // From here on another thread may destroy the tracker.
        drop(guard);
        /// Takes the call out of the list when dropped, also if the observer panics.
        struct Done<'a>(&'a Lock<Shared>, Call);
        impl Drop for Done<'_> {
            fn drop(&mut self) {
                DEPTH.with(|depth| depth.set(depth.get() - 1));
                let _guard = fork_lock::read();
                let mut shared = self.0.lock();
                let this = shared.running.iter().rposition(|call| *call == self.1);
                if let Some(this) = this {
                    shared.running.swap_remove(this);
                }
            }
        }
        DEPTH.with(|depth| depth.set(depth.get() + 1));
        let done = Done(&shared, call);
        observer(ends);
        // If the observer was taken back meanwhile, its destructor runs here. That is still a part
        // of the call.
        drop(observer);
        drop(done);
    }

    /// Replaces the observer. The caller finishes with [`Replaced::finish`].
    pub fn replace(&self, observer: Option<Observer>) -> Replaced {
        let mut shared = self.shared.lock();
        self.is_set.store(observer.is_some(), Ordering::Release);
        shared.serial += 1;
        Replaced {
            serial: shared.serial,
            observer: std::mem::replace(&mut shared.observer, observer),
            shared: self.shared.clone(),
        }
    }

    /// Called in the child of a fork, which has none of the parent's other threads: forgets their
    /// calls.
    pub fn forget_other_threads(&self) {
        let me = this_thread();
        self.shared.lock().running.retain(|call| call.thread == me);
    }
}

/// An observer that no new call will use.
#[must_use]
pub struct Replaced {
    serial: u64,
    observer: Option<Observer>,
    shared: Arc<Lock<Shared>>,
}

impl Replaced {
    /// Waits until no call of this observer, or of an earlier one, runs. It does not wait if this
    /// thread is inside an observer. The caller is outside of the fork lock, since the wait may be
    /// long and the observer's destructor is foreign code.
    pub fn finish(self) {
        if DEPTH.with(Cell::get) == 0 {
            let mut backoff = Backoff::new();
            while self.is_running() {
                backoff.wait();
            }
        }
        drop(self.observer);
    }

    fn is_running(&self) -> bool {
        let _guard = fork_lock::read();
        let shared = self.shared.lock();
        shared.running.iter().any(|call| call.serial < self.serial)
    }
}
