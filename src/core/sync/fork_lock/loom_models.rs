// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The fork lock in every interleaving that loom finds: the code is that of the parent module.
//!
//! loom knows no `membarrier`, so both sides execute a real fence here (see
//! [`super::super::membarrier`]). That `membarrier` has the effect of that fence is the system's
//! promise, and no model's result.
//!
//! A model has two own counts and one shared count. Each thread has its [`ThreadState`] on its
//! stack, and a fork is modelled by a copy of what the child would find in its memory.

use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::thread::{self, JoinHandle};

use super::*;

/// What readers read and closers write. loom fails when one does so while another one may.
struct Guarded {
    lock: ForkLock,
    value: UnsafeCell<u32>,
}

/// Whether a thread has a count of its own.
#[derive(Clone, Copy, PartialEq)]
enum Count {
    Own,
    Shared,
}

impl Guarded {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            lock: ForkLock::new(),
            value: UnsafeCell::new(0),
        })
    }

    /// The caller holds a guard of either kind.
    fn get(&self) -> u32 {
        // SAFETY: loom sees to it that nobody writes meanwhile; that is the model.
        self.value.with(|value| unsafe { *value })
    }

    /// The caller holds the lock exclusively.
    fn add_one(&self) {
        // SAFETY: loom sees to it that nobody else reads or writes meanwhile; that is the model.
        self.value.with_mut(|value| unsafe { *value += 1 });
    }

    /// Starts a thread that reads that many times.
    fn reader(self: &Arc<Self>, count: Count, times: u32) -> JoinHandle<()> {
        let guarded = self.clone();
        thread::spawn(move || {
            let state = ThreadState::new();
            guarded.set_up(&state, count);
            for _ in 0..times {
                let _guard = guarded.lock.read(&state);
                guarded.get();
            }
        })
    }

    /// Starts a thread that closes the lock once.
    fn closer(self: &Arc<Self>, count: Count) -> JoinHandle<()> {
        let guarded = self.clone();
        thread::spawn(move || {
            let state = ThreadState::new();
            guarded.set_up(&state, count);
            guarded.close_and_add_one(&state);
        })
    }

    fn set_up<'a>(&'a self, state: &ThreadState<'a>, count: Count) {
        match count {
            Count::Own => self.lock.admit(state),
            Count::Shared => self.lock.share(state),
        }
        assert_eq!(state.own.get().is_some(), count == Count::Own);
    }

    fn close_and_add_one<'a>(&'a self, state: &'a ThreadState<'a>) {
        let _guard = self.lock.exclusive(state);
        self.add_one();
    }
}

/// Checks every interleaving with at most `preemptions` involuntary switches.
fn check(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 20_000;
    builder.check(model);
}

#[test]
fn nobody_is_inside_while_another_thread_holds_the_lock_exclusively() {
    for count in [Count::Own, Count::Shared] {
        check(4, move || {
            let guarded = Guarded::new();
            let reader = guarded.reader(count, 2);
            let state = ThreadState::new();
            guarded.close_and_add_one(&state);
            reader.join().unwrap();
            assert_eq!(guarded.get(), 1);
        });
    }
}

#[test]
fn two_readers_of_either_kind_and_a_closer() {
    check(3, || {
        let guarded = Guarded::new();
        let own = guarded.reader(Count::Own, 1);
        let shared = guarded.reader(Count::Shared, 1);
        let state = ThreadState::new();
        guarded.close_and_add_one(&state);
        own.join().unwrap();
        shared.join().unwrap();
    });
}

#[test]
fn two_closers_and_a_reader() {
    for count in [Count::Own, Count::Shared] {
        check(3, move || {
            let guarded = Guarded::new();
            let reader = guarded.reader(count, 1);
            let closer = guarded.closer(Count::Shared);
            let state = ThreadState::new();
            guarded.close_and_add_one(&state);
            reader.join().unwrap();
            closer.join().unwrap();
            assert_eq!(guarded.get(), 2);
        });
    }
}

#[test]
fn a_reader_sees_what_was_written_exclusively_before() {
    check(4, || {
        let guarded = Guarded::new();
        let closer = guarded.closer(Count::Own);
        let state = ThreadState::new();
        let look = || {
            let _guard = guarded.lock.read(&state);
            guarded.get()
        };
        let (first, second) = (look(), look());
        assert!(first <= second && second <= 1);
        closer.join().unwrap();
    });
}

#[test]
fn a_thread_that_is_inside_reads_again_while_the_lock_closes() {
    for count in [Count::Own, Count::Shared] {
        check(4, move || {
            let guarded = Guarded::new();
            let closer = guarded.closer(Count::Shared);
            let state = ThreadState::new();
            guarded.set_up(&state, count);
            let outer = guarded.lock.read(&state);
            let before = guarded.get();
            let inner = guarded.lock.read(&state);
            assert_eq!(guarded.get(), before);
            drop(outer);
            assert_eq!(guarded.get(), before);
            drop(inner);
            closer.join().unwrap();
        });
    }
}

#[test]
fn an_own_count_is_handed_to_the_next_thread_while_the_lock_closes() {
    check(3, || {
        let guarded = Guarded::new();
        let state = ThreadState::new();
        // Leaves one own count for the two threads.
        guarded.set_up(&state, Count::Own);
        let threads = [(); 2].map(|()| {
            let guarded = guarded.clone();
            thread::spawn(move || {
                let state = ThreadState::new();
                drop(guarded.lock.read(&state));
                if state.own.get().is_some() {
                    guarded.lock.give_back(&state, 1);
                }
            })
        });
        guarded.close_and_add_one(&state);
        for thread in threads {
            thread.join().unwrap();
        }
        // Every count has come down to zero, or this waits for ever.
        guarded.close_and_add_one(&state);
    });
}

/// Copies into `child` what the child of a fork finds in its memory. Gives the forking thread's
/// state there.
fn copy<'a>(parent: &ForkLock, state: &ThreadState, child: &'a ForkLock) -> ThreadState<'a> {
    let copied = ThreadState::new();
    for (CachePadded(from), CachePadded(to)) in parent.counts.iter().zip(&child.counts) {
        to.store(from.load(Ordering::SeqCst), Ordering::Relaxed);
        let is = |count: Option<&AtomicUsize>| count.is_some_and(|count| std::ptr::eq(count, from));
        if is(state.own.get()) {
            copied.own.set(Some(to));
        }
        if is(state.shared.get()) {
            copied.shared.set(Some(to));
        }
    }
    copied.shared_guards.set(state.shared_guards.get());
    copied.closings.set(state.closings.get());
    copied.is_alone.set(state.is_alone.get());
    let taken = parent.taken.load(Ordering::SeqCst);
    child.taken.store(taken, Ordering::Relaxed);
    copied
}

/// A fork by a thread with a count of that kind, which may hold a read guard itself.
fn fork(count: Count, is_inside: bool) {
    let guarded = Guarded::new();
    let readers = [
        guarded.reader(Count::Own, 1),
        guarded.reader(Count::Shared, 1),
    ];
    let state = ThreadState::new();
    guarded.set_up(&state, count);
    let guard = is_inside.then(|| guarded.lock.read(&state));

    guarded.lock.close(&state);
    let child = ForkLock::new();
    let child_state = copy(&guarded.lock, &state, &child);
    let closed_by = child_state.number();
    child.closed_by.store(closed_by, Ordering::Relaxed);
    guarded.lock.open(&state);

    // An earlier handler of another library.
    drop(child.read(&child_state));
    drop(child.exclusive(&child_state));
    child.reset_in_child(&child_state);
    child.open(&child_state);
    for CachePadded(count) in &child.counts {
        let own = child_state.added_to(count);
        assert_eq!(count.load(Ordering::Relaxed), own, "a count is left");
    }
    assert_eq!(child_state.guards(), usize::from(is_inside));
    assert_eq!(
        child.taken.load(Ordering::Relaxed).count_ones(),
        u32::from(count == Count::Own)
    );
    drop(child.read(&child_state));
    drop(child.exclusive(&child_state));

    drop(guard);
    for reader in readers {
        reader.join().unwrap();
    }
}

#[test]
fn no_count_is_left_in_the_child_of_a_fork() {
    check(2, || fork(Count::Own, false));
    check(2, || fork(Count::Shared, false));
}

#[test]
fn a_thread_that_forks_inside_stays_inside_in_the_child() {
    check(2, || fork(Count::Own, true));
    check(2, || fork(Count::Shared, true));
}

#[test]
fn the_process_wide_lock_works_for_threads_of_a_model() {
    check(3, || {
        let reader = thread::spawn(|| {
            let _outer = read();
            let _inner = read();
        });
        drop(exclusive());
        drop(read());
        reader.join().unwrap();
    });
}
