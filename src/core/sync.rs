// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Everything in the core that threads share goes through this module: the atomics, the one kind of
//! lock, and the gate that makes `fork()` safe. A model checker replaces this module and nothing else.
//!
//! # Lock order
//!
//! 1. the [`Gate`] (shared by hooks, exclusive while a fork is under way);
//! 2. one stripe of the forest ([`crate::core::forest`]); never two at once;
//! 3. one shard of the pointer index ([`crate::core::index`]), for the length of one map operation;
//! 4. the lock that adds memory to the slot table.
//!
//! A tracker's observer slot and the list of trackers are leaves: nothing is locked under them.
//! Observers and visitors run with none of these held.

pub use std::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, compiler_fence,
};

use std::cell::{Cell, UnsafeCell};
use std::ops::{Deref, DerefMut};
use std::sync::OnceLock;

/// A mutual exclusion lock for what takes a fraction of a microsecond: nobody is told when it is free, so letting go of
/// it is a plain store. (Half of a hook's time went into the atomic operations of its locks.) It knows no poisoning: a
/// panic under it is counted at the C boundary, and what it guards is kept usable by the order of the writes under it.
#[derive(Debug, Default)]
pub struct Lock<T> {
    is_held: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached by one thread at a time, by `&mut`.
unsafe impl<T: Send> Sync for Lock<T> {}

/// Proof that a lock is held; lets go of it when dropped.
pub struct Held<'a, T>(&'a Lock<T>);

impl<T> Lock<T> {
    pub const fn new(value: T) -> Self {
        Self {
            is_held: AtomicBool::new(false),
            value: UnsafeCell::new(value),
        }
    }

    #[inline]
    pub fn lock(&self) -> Held<'_, T> {
        if !self.try_lock() {
            self.wait();
        }
        Held(self)
    }

    #[inline]
    fn try_lock(&self) -> bool {
        !self.is_held.load(Ordering::Relaxed) && !self.is_held.swap(true, Ordering::Acquire)
    }

    /// Looks again and again, then lets other threads run between two looks, then sleeps: the thread that holds the
    /// lock may be waiting for this processor.
    #[cold]
    fn wait(&self) {
        const SPINS: u32 = 100;
        const YIELDS_TOO: u32 = 200;
        let mut looks = 0_u32;
        while !self.try_lock() {
            match looks {
                0..SPINS => (0..=looks / 8).for_each(|_| std::hint::spin_loop()),
                SPINS..YIELDS_TOO => std::thread::yield_now(),
                _ => std::thread::sleep(std::time::Duration::from_micros(50)),
            }
            looks = looks.saturating_add(1);
        }
    }
}

impl<T> Deref for Held<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the lock is held.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for Held<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the lock is held, and its holder is borrowed exclusively.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for Held<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.0.is_held.store(false, Ordering::Release);
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
    /// Which thread has closed the gate (see [`Seat::thread`]); 0 when it is open.
    closed_by: AtomicU64,
}

static GATE: Gate = Gate {
    lanes: [const { Padded(AtomicUsize::new(0)) }; OWN_LANES + SHARED_LANES],
    closed_by: AtomicU64::new(0),
};

/// What a thread counts its entries in.
#[derive(Clone, Copy)]
struct Lane {
    inside: &'static AtomicUsize,
    /// No other thread has it.
    is_own: bool,
}

/// Where this thread enters.
struct Seat {
    /// `None` before the thread has entered for the first time.
    lane: Cell<Option<Lane>>,
}

thread_local! {
    static SEAT: Seat = const { Seat { lane: Cell::new(None) } };
}

impl Seat {
    /// A number of this thread alone, as long as it runs; not 0.
    #[inline]
    fn thread(&self) -> u64 {
        self as *const Self as u64
    }

    #[inline]
    fn lane(&self) -> Lane {
        match self.lane.get() {
            Some(lane) => lane,
            None => self.take_lane(),
        }
    }

    #[cold]
    fn take_lane(&self) -> Lane {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let is_own = guard_forks() && number < OWN_LANES;
        let position = if is_own {
            number
        } else {
            OWN_LANES + number % SHARED_LANES
        };
        let inside = &GATE.lanes[position].0;
        let lane = Lane { inside, is_own };
        self.lane.set(Some(lane));
        lane
    }
}

/// Proof that the gate was entered; leaves it when dropped.
pub struct Pass(Lane);

impl Gate {
    #[inline]
    pub fn enter() -> Pass {
        SEAT.with(|seat| {
            let lane = seat.lane();
            // Either the fork sees this entry, or this thread sees the gate closed.
            if lane.is_own {
                let inside = lane.inside.load(Ordering::Relaxed);
                lane.inside.store(inside + 1, Ordering::Relaxed);
                compiler_fence(Ordering::SeqCst);
            } else {
                lane.inside.fetch_add(1, Ordering::SeqCst);
            }
            let pass = Pass(lane);
            let closed_by = GATE.closed_by.load(Ordering::SeqCst);
            // The forking thread itself may still call hooks, from other libraries' fork handlers.
            if closed_by == 0 || closed_by == seat.thread() {
                return pass;
            }
            drop(pass);
            Self::wait_and_enter()
        })
    }

    #[cold]
    fn wait_and_enter() -> Pass {
        while GATE.closed_by.load(Ordering::SeqCst) != 0 {
            std::thread::yield_now();
        }
        Self::enter()
    }

    fn close() {
        let me = SEAT.with(Seat::thread);
        let closed_by = &GATE.closed_by;
        while closed_by
            .compare_exchange(0, me, Ordering::SeqCst, Ordering::SeqCst)
            .is_err()
        {
            std::thread::yield_now();
        }
        fence_everywhere();
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
    #[inline]
    fn drop(&mut self) {
        let inside = self.0.inside;
        if self.0.is_own {
            inside.store(inside.load(Ordering::Relaxed) - 1, Ordering::Release);
        } else {
            inside.fetch_sub(1, Ordering::Release);
        }
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

/// Returns when every thread of the process has passed a full fence, where [`guard_forks`] said that it can.
fn fence_everywhere() {
    if membarrier(FENCE) || membarrier(REGISTER) && membarrier(FENCE) || !guard_forks() {
        return;
    }
    // It worked when it was tried at first. What a store buffer holds is gone long before this is over.
    std::thread::sleep(std::time::Duration::from_millis(2));
}

/// Makes `fork()` wait for the gate, from the first entry on. Whether the forking thread can fence for all
/// others.
fn guard_forks() -> bool {
    extern "C" fn close() {
        Gate::close();
    }
    extern "C" fn open() {
        Gate::open();
    }
    static REMOTE_FENCE: OnceLock<bool> = OnceLock::new();
    *REMOTE_FENCE.get_or_init(|| {
        // SAFETY: the handlers are functions of this library, which is never unloaded (it is linked
        // `nodelete`, or is part of a program); they call nothing that a fork handler must not call.
        // It fails only for want of memory; then forks are as unsafe as without it.
        unsafe { libc::pthread_atfork(Some(close), Some(open), Some(open)) };
        membarrier(REGISTER)
    })
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
