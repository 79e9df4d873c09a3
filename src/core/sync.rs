// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Everything in the core that threads share goes through this module: the atomics, the one kind of
//! lock, and the gate that makes `fork()` safe. A model checker replaces this module and nothing else.
//!
//! # Lock order
//!
//! 1. the [`Gate`] (shared by hooks, exclusive while a fork is under way);
//! 2. one stripe of the forest ([`crate::core::forest`]); never two at once;
//! 3. one shard of the pointer index (inside dashmap), for the length of one map operation;
//! 4. the lock that adds a segment to the slot table.
//!
//! A tracker's observer slot and the list of trackers are leaves: nothing is locked under them.
//! Observers and visitors run with none of these held.

pub use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use std::cell::Cell;
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

/// A mutual exclusion lock that shrugs off poisoning: a panic under it is counted at the C boundary,
/// and what the lock guards is kept usable by the order of the writes under it.
#[derive(Debug, Default)]
pub struct Lock<T>(Mutex<T>);

impl<T> Lock<T> {
    pub const fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Puts a value on cache lines of its own, so that neighbours do not fight over them.
/// 128 bytes, since x86-64 fetches lines in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Padded<T>(pub T);

/// How many counters the gate has; threads are dealt to them in turn.
const GATE_LANES: usize = 32;

/// Lets hooks in, except while the process forks (R19).
///
/// A thread that forks would copy the locks of the others in whatever state they are. So every call that
/// takes a lock first enters the gate, and `fork()` waits until nobody is inside, and forks with all locks
/// free. Entering costs one uncontended read-modify-write on a counter that few threads share.
pub struct Gate {
    lanes: [Padded<AtomicUsize>; GATE_LANES],
    /// Which thread has closed the gate (see [`thread_number`]); 0 when it is open.
    closed_by: AtomicU64,
}

/// Proof that the gate was entered; leaves it when dropped.
pub struct Pass {
    lane: &'static AtomicUsize,
}

static GATE: Gate = Gate {
    lanes: [const { Padded(AtomicUsize::new(0)) }; GATE_LANES],
    closed_by: AtomicU64::new(0),
};

/// A number of this thread alone, from 1.
fn thread_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    thread_local! {
        static NUMBER: Cell<u64> = const { Cell::new(0) };
    }
    NUMBER.with(|number| match number.get() {
        0 => {
            let new = NEXT.fetch_add(1, Ordering::Relaxed);
            number.set(new);
            new
        }
        known => known,
    })
}

impl Gate {
    pub fn enter() -> Pass {
        let me = thread_number();
        let lane = &GATE.lanes[me as usize % GATE_LANES].0;
        loop {
            // SeqCst on both sides: either the fork sees this entry, or this thread sees the gate closed.
            lane.fetch_add(1, Ordering::SeqCst);
            let closed_by = GATE.closed_by.load(Ordering::SeqCst);
            // The forking thread itself may still call hooks, from other libraries' fork handlers.
            if closed_by == 0 || closed_by == me {
                return Pass { lane };
            }
            lane.fetch_sub(1, Ordering::SeqCst);
            while GATE.closed_by.load(Ordering::SeqCst) != 0 {
                std::thread::yield_now();
            }
        }
    }

    fn close() {
        let me = thread_number();
        while GATE
            .closed_by
            .compare_exchange(0, me, Ordering::SeqCst, Ordering::SeqCst)
            .is_err()
        {
            std::thread::yield_now();
        }
        for lane in &GATE.lanes {
            while lane.0.load(Ordering::SeqCst) != 0 {
                std::thread::yield_now();
            }
        }
    }

    fn open() {
        GATE.closed_by.store(0, Ordering::SeqCst);
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        self.lane.fetch_sub(1, Ordering::Release);
    }
}

/// Makes `fork()` wait for the gate, from the first tracker on.
pub fn guard_forks() {
    extern "C" fn close() {
        Gate::close();
    }
    extern "C" fn open() {
        Gate::open();
    }
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| {
        // SAFETY: the handlers are functions of this library, which is never unloaded (it is linked
        // `nodelete`, or is part of a program); they call nothing that a fork handler must not call.
        // It fails only for want of memory; then forks are as unsafe as without it.
        unsafe { libc::pthread_atfork(Some(close), Some(open), Some(open)) };
    });
}

/// Nanoseconds of the monotonic clock, at the resolution of the timer tick where the system has such a
/// clock: a hook must not pay for more.
pub fn now_ns() -> u64 {
    #[cfg(target_os = "linux")]
    const CLOCK: libc::clockid_t = libc::CLOCK_MONOTONIC_COARSE;
    #[cfg(not(target_os = "linux"))]
    const CLOCK: libc::clockid_t = libc::CLOCK_MONOTONIC;
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid place for the result. On failure it stays zero.
    unsafe { libc::clock_gettime(CLOCK, &mut time) };
    (time.tv_sec as u64)
        .wrapping_mul(1_000_000_000)
        .wrapping_add(time.tv_nsec as u64)
}
