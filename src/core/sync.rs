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

pub use std::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, compiler_fence,
};

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

/// The first threads have a lane of the gate each, the later ones share some.
const OWN_LANES: usize = 32;
const SHARED_LANES: usize = 8;

/// Lets hooks in, except while the process forks (R19).
///
/// A thread that forks would copy the locks of the others in whatever state they are. So every call that
/// takes a lock first enters the gate, and `fork()` waits until nobody is inside, and forks with all locks
/// free.
///
/// Entering is a store and a load that must not change places. The price of that, a full fence, is left to
/// the rare side where the system can do so: the forking thread makes all others fence with `membarrier`.
/// Threads without a lane of their own, and all where there is no `membarrier`, pay for it themselves.
pub struct Gate {
    /// How many times each lane's threads are inside.
    lanes: [Padded<AtomicUsize>; OWN_LANES + SHARED_LANES],
    /// Which thread has closed the gate (see [`thread_number`]); 0 when it is open.
    closed_by: AtomicU64,
    /// The forking thread fences for those with a lane of their own.
    remote_fence: AtomicBool,
}

/// Proof that the gate was entered; leaves it when dropped.
pub struct Pass {
    lane: &'static AtomicUsize,
    is_own: bool,
}

static GATE: Gate = Gate {
    lanes: [const { Padded(AtomicUsize::new(0)) }; OWN_LANES + SHARED_LANES],
    closed_by: AtomicU64::new(0),
    remote_fence: AtomicBool::new(false),
};

/// A number of this thread alone, from 1.
#[inline]
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
    #[inline]
    pub fn enter() -> Pass {
        let me = thread_number();
        let is_own = me as usize <= OWN_LANES;
        let number = if is_own { me as usize - 1 } else { OWN_LANES + me as usize % SHARED_LANES };
        let pass = Pass { lane: &GATE.lanes[number].0, is_own };
        loop {
            // Either the fork sees this entry, or this thread sees the gate closed.
            if is_own && GATE.remote_fence.load(Ordering::Relaxed) {
                pass.lane.store(pass.lane.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
                compiler_fence(Ordering::SeqCst);
            } else {
                pass.lane.fetch_add(1, Ordering::SeqCst);
            }
            let closed_by = GATE.closed_by.load(Ordering::SeqCst);
            // The forking thread itself may still call hooks, from other libraries' fork handlers.
            if closed_by == 0 || closed_by == me {
                return pass;
            }
            pass.leave();
            while GATE.closed_by.load(Ordering::SeqCst) != 0 {
                std::thread::yield_now();
            }
        }
    }

    fn close() {
        let me = thread_number();
        let closed_by = &GATE.closed_by;
        while closed_by.compare_exchange(0, me, Ordering::SeqCst, Ordering::SeqCst).is_err() {
            std::thread::yield_now();
        }
        if GATE.remote_fence.load(Ordering::Relaxed) {
            fence_everywhere();
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

impl Pass {
    #[inline]
    fn leave(&self) {
        if self.is_own {
            self.lane.store(self.lane.load(Ordering::Relaxed) - 1, Ordering::Release);
        } else {
            self.lane.fetch_sub(1, Ordering::Release);
        }
    }
}

impl Drop for Pass {
    #[inline]
    fn drop(&mut self) {
        self.leave();
    }
}

/// `membarrier(2)`; whether the system has that command.
fn membarrier(command: libc::c_int) -> bool {
    #[cfg(target_os = "linux")]
    // SAFETY: the call takes numbers only.
    return unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) } == 0;
    #[cfg(not(target_os = "linux"))]
    return command < 0;
}

#[cfg(target_os = "linux")]
const REGISTER: libc::c_int = libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED;
#[cfg(target_os = "linux")]
const FENCE: libc::c_int = libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED;
#[cfg(not(target_os = "linux"))]
const REGISTER: libc::c_int = 0;
#[cfg(not(target_os = "linux"))]
const FENCE: libc::c_int = 0;

/// Returns when every thread of the process has passed a full fence.
fn fence_everywhere() {
    if !membarrier(FENCE) && !(membarrier(REGISTER) && membarrier(FENCE)) {
        // It worked when it was tried at first. What a store buffer holds is gone long before this is over.
        std::thread::sleep(std::time::Duration::from_millis(2));
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
        GATE.remote_fence.store(membarrier(REGISTER), Ordering::SeqCst);
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
