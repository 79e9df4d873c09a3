// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The fork lock on real threads and in real forks.

use std::sync::atomic::AtomicBool;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use super::super::realtime_tests::{Realtime, busy, on_one_processor};
use super::*;

/// Runs `child` in a child process. Gives its exit status, or `None` if it hung. It needs some
/// milliseconds, but a busy machine may let it wait.
fn in_child(child: impl FnOnce() -> i32) -> Option<i32> {
    // SAFETY: the child uses the fork lock, calls the system, and ends without running destructors.
    unsafe {
        let pid = libc::fork();
        assert!(pid >= 0, "fork failed");
        if pid == 0 {
            // Ends a child that hangs.
            libc::alarm(20);
            libc::_exit(child());
        }
        let mut status = 0;
        assert_eq!(libc::waitpid(pid, &mut status, 0), pid);
        libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status))
    }
}

/// What is wrong with the process's fork lock in the child of a fork, as an exit status.
fn fault_in_child() -> i32 {
    let counted = |CachePadded(count): &CachePadded<AtomicUsize>| count.load(Ordering::SeqCst);
    if FORK_LOCK.counts.iter().map(counted).sum::<usize>() != 0 {
        return 1; // A thread of the parent is still counted.
    }
    if FORK_LOCK.closed_by.load(Ordering::SeqCst) != OPEN {
        return 2;
    }
    drop(read());
    drop(exclusive());
    0
}

fn fork_and_look() -> Option<i32> {
    in_child(|| match fault_in_child() {
        0 => in_child(fault_in_child).map_or(3, |fault| fault * 16),
        fault => fault,
    })
}

fn has_own_count() -> bool {
    state().own.get().is_some()
}

/// Runs `test` while `count` threads do nothing but read.
fn among_readers(count: usize, owns: bool, test: impl FnOnce()) {
    let stop = AtomicBool::new(false);
    let (say, ready) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..count {
            let (say, stop) = (say.clone(), &stop);
            scope.spawn(move || {
                drop(read());
                say.send(has_own_count()).unwrap();
                while !stop.load(Ordering::Relaxed) {
                    let _outer = read();
                    let _inner = read();
                }
            });
        }
        let all_ready = (0..count).all(|_| ready.recv().unwrap() == owns);
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(test));
        stop.store(true, Ordering::Relaxed);
        assert!(all_ready, "the readers' counts are not of the wanted kind");
        result.unwrap();
    });
}

/// Runs `test` while other threads have all own counts.
fn with_own_counts_taken(test: impl FnOnce()) {
    thread::scope(|scope| {
        let mut keepers = Vec::new();
        for _ in 0..OWN_COUNTS {
            let (end, wait) = mpsc::channel::<()>();
            let (say, ready) = mpsc::channel();
            scope.spawn(move || {
                drop(read());
                say.send(()).unwrap();
                let _ = wait.recv();
            });
            ready.recv().unwrap();
            keepers.push(end);
        }
        test();
        drop(keepers);
    });
}

#[test]
fn r19_300_forks_while_threads_read_leave_nobody_inside_in_the_child() {
    among_readers(3, true, || {
        for fork in 0..300 {
            assert_eq!(fork_and_look(), Some(0), "fork {fork}");
        }
    });
}

#[test]
fn r19_300_forks_while_threads_share_counts_leave_nobody_inside_in_the_child() {
    with_own_counts_taken(|| {
        among_readers(3, false, || {
            for fork in 0..300 {
                assert_eq!(fork_and_look(), Some(0), "fork {fork}");
            }
        });
    });
}

#[test]
fn a_thread_counted_at_the_closed_lock_is_not_counted_in_the_child() {
    let (lock, state) = (ForkLock::new(), ThreadState::new());
    lock.close(&state);
    // What the child finds of a thread that met the closed lock and has not stepped back yet.
    lock.counts[1].store(1, Ordering::Relaxed);
    lock.counts[OWN_COUNTS].store(1, Ordering::Relaxed);
    lock.taken.store(0b11, Ordering::Relaxed);
    lock.reset_in_child(&state);
    lock.open(&state);
    assert_eq!(lock.taken.load(Ordering::Relaxed), 0);
    let is_zero = |count: &CachePadded<AtomicUsize>| count.load(Ordering::Relaxed) == 0;
    assert!(lock.counts.iter().all(is_zero), "a count is left");
    drop(lock.exclusive(&state));
}

#[test]
fn a_thread_that_forks_inside_stays_inside_in_the_child() {
    for owns in [true, false] {
        let (lock, state) = (ForkLock::new(), ThreadState::new());
        if !owns {
            lock.share(&state);
        }
        let guard = lock.read(&state);
        lock.close(&state);
        lock.reset_in_child(&state);
        lock.open(&state);
        assert_eq!((state.own.get().is_some(), state.guards()), (owns, 1));
        assert_eq!(state.added_to(guard.count), 1);
        assert_eq!(guard.count.load(Ordering::Relaxed), 1);
        assert_eq!(lock.taken.load(Ordering::Relaxed), u64::from(owns));
        drop(guard);
        assert!(
            lock.counts
                .iter()
                .all(|count| count.load(Ordering::Relaxed) == 0)
        );
    }
}

#[test]
fn the_child_calls_back_while_the_lock_is_closed() {
    static LOCK: ForkLock = ForkLock::new();
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    let state = ThreadState::new();
    LOCK.on_fork_child
        .set(|| {
            assert_ne!(LOCK.closed_by.load(Ordering::SeqCst), OPEN);
            CALLS.fetch_add(1, Ordering::Relaxed);
        })
        .unwrap();
    LOCK.close(&state);
    assert_eq!(CALLS.load(Ordering::Relaxed), 0);
    LOCK.reset_in_child(&state);
    assert_eq!(CALLS.load(Ordering::Relaxed), 1);
    LOCK.open(&state);
}

#[test]
fn threads_that_end_give_their_own_counts_back() {
    for round in 0..5 * OWN_COUNTS {
        let owns = thread::spawn(|| {
            drop(read());
            has_own_count()
        });
        assert!(owns.join().unwrap(), "thread {round} shares a count");
    }
}

#[test]
fn hooks_in_destructors_of_thread_locals_share_a_count() {
    struct Late(mpsc::Sender<(bool, usize)>);
    impl Drop for Late {
        fn drop(&mut self) {
            let guard = read();
            let owns = has_own_count();
            let counted = guard.count.load(Ordering::Relaxed);
            drop(guard);
            let _ = self.0.send((owns, counted));
        }
    }
    thread_local! {
        static LATE: Cell<Option<Late>> = const { Cell::new(None) };
    }
    let (say, hear) = mpsc::channel();
    let thread = thread::spawn(move || {
        // Set before the first read, so destroyed after the count is given back.
        LATE.set(Some(Late(say)));
        drop(read());
        assert!(has_own_count());
    });
    thread.join().unwrap();
    assert_eq!(hear.recv().unwrap(), (false, 1));
    drop(exclusive());
}

/// A thread that is inside reads again while another one waits for it to leave.
fn read_inside_while_closing() {
    let (say, inside) = mpsc::channel();
    thread::scope(|scope| {
        let reader = scope.spawn(move || {
            let outer = read();
            say.send(()).unwrap();
            while FORK_LOCK.closed_by.load(Ordering::SeqCst) == OPEN {
                thread::yield_now();
            }
            drop(read());
            drop(outer);
        });
        inside.recv().unwrap();
        drop(exclusive());
        reader.join().unwrap();
    });
}

#[test]
fn a_thread_that_is_inside_reads_again_while_the_lock_closes() {
    read_inside_while_closing();
    with_own_counts_taken(read_inside_while_closing);
}

#[test]
fn who_has_closed_the_lock_may_read_and_close_and_fork() {
    let guard = exclusive();
    drop(read());
    drop(exclusive());
    let status = in_child(|| {
        drop(read());
        drop(exclusive());
        i32::from(FORK_LOCK.closed_by.load(Ordering::SeqCst) == OPEN)
    });
    assert_eq!(status, Some(0), "in the child the guard still holds");
    assert_ne!(FORK_LOCK.closed_by.load(Ordering::SeqCst), OPEN);
    drop(guard);
    assert_eq!(FORK_LOCK.closed_by.load(Ordering::SeqCst), OPEN);
}

#[test]
fn nobody_is_inside_while_the_lock_is_held_exclusively() {
    static INSIDE: AtomicUsize = AtomicUsize::new(0);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let _guard = read();
                    INSIDE.fetch_add(1, Ordering::Relaxed);
                    INSIDE.fetch_sub(1, Ordering::Relaxed);
                }
            });
        }
        let faults = (0..2000).filter(|_| {
            let _guard = exclusive();
            let inside = || INSIDE.load(Ordering::Relaxed) != 0;
            (0..50).any(|_| inside())
        });
        let faults = faults.count();
        stop.store(true, Ordering::Relaxed);
        assert_eq!(faults, 0, "of 2000");
    });
}

// One processor, a real-time thread and an ordinary one -------------------------------------------

const ROUNDS: u32 = 20;
/// What a real-time thread waits at most. With a wait that only yields it is most of a second.
const PATIENCE: Duration = Duration::from_millis(300);

#[test]
fn r19_a_real_time_thread_that_forks_lets_an_ordinary_reader_leave() {
    let longest = on_one_processor(
        || {
            let _guard = read();
            busy(Duration::from_micros(300));
        },
        |_: &Realtime| {
            let mut longest = Duration::ZERO;
            for _ in 0..ROUNDS {
                // Gives the reader time to be inside.
                thread::sleep(Duration::from_millis(2));
                let start = Instant::now();
                assert_eq!(in_child(|| 0), Some(0));
                longest = longest.max(start.elapsed());
            }
            longest
        },
    );
    assert!(
        longest.is_none_or(|longest| longest < PATIENCE),
        "{longest:?}"
    );
}

#[test]
fn a_real_time_reader_lets_an_ordinary_thread_open_the_lock() {
    let longest = on_one_processor(
        || {
            let _guard = exclusive();
            busy(Duration::from_micros(300));
        },
        |_: &Realtime| {
            let mut longest = Duration::ZERO;
            for _ in 0..ROUNDS {
                thread::sleep(Duration::from_millis(2));
                let start = Instant::now();
                drop(read());
                longest = longest.max(start.elapsed());
            }
            longest
        },
    );
    assert!(
        longest.is_none_or(|longest| longest < PATIENCE),
        "{longest:?}"
    );
}
