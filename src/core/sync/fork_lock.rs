// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The fork lock: makes `fork()` safe while other threads are inside the core (R19).
//!
//! `fork()` copies the locks of all threads as they are, but only the forking thread goes on in the
//! child. So whatever takes a lock holds a read guard first ([`read`]). The forking thread closes
//! the fork lock, waits until no other thread holds a guard, and forks with all locks free.
//!
//! The core uses the same wait as a grace period ([`exclusive`]).
//!
//! # How a reader and a closer see each other
//!
//! A reader counts itself and then looks whether the lock is closed. A closer closes the lock and
//! then looks at the counts. Between the two steps both need a full fence, or each could miss the
//! other. A thread with a count of its own leaves that fence to the rare side: the closer makes all
//! threads fence with `membarrier`. A thread that shares a count fences itself, and so do all
//! threads where the system has no `membarrier`.
//!
//! # Who writes what
//!
//! - An own count: its thread only, with plain stores. Its value is the number of guards.
//! - A shared count: each thread that uses it adds one while it holds guards.
//! - `closed_by`: whoever closes and opens the lock.
//! - In the child of a fork, [`ForkLock::reset_in_child`] writes all of them.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::OnceLock;

#[cfg(all(test, loom))]
mod loom_models;
#[cfg(all(test, not(loom), target_os = "linux"))]
mod tests;

use super::backoff::Backoff;
use super::membarrier::{self, heavy_fence, light_fence};
use super::{AtomicU64, AtomicUsize, CachePadded, Ordering, process_static, thread_static};

/// How many threads can have a reader count of their own at once.
#[cfg(not(loom))]
const OWN_COUNTS: usize = 64;
#[cfg(loom)]
const OWN_COUNTS: usize = 2;
/// How many reader counts all other threads share.
#[cfg(not(loom))]
const SHARED_COUNTS: usize = 8;
#[cfg(loom)]
const SHARED_COUNTS: usize = 1;

/// The value of `closed_by` when the lock is open. No thread has this number.
const OPEN: usize = 0;

/// A lock that any number of threads hold for reading, or one thread exclusively.
///
/// Reading is a handful of instructions. Closing takes microseconds.
struct ForkLock {
    /// The own counts, then the shared ones.
    counts: [CachePadded<AtomicUsize>; OWN_COUNTS + SHARED_COUNTS],
    /// The thread that has closed the lock ([`ThreadState::number`]), or [`OPEN`].
    closed_by: CachePadded<AtomicUsize>,
    /// Bit n is set while a thread has the own count n.
    taken: AtomicU64,
    /// Deals the shared counts out in turn.
    next_shared: AtomicUsize,
    /// Called in the child of a fork before the lock opens.
    on_fork_child: OnceLock<fn()>,
}

const _: () = assert!(OWN_COUNTS <= u64::BITS as usize);

/// What a thread knows of its use of a fork lock. It has no destructor, so that hooks in the
/// destructors of other thread-locals find it.
struct ThreadState<'a> {
    /// The count that no other thread writes.
    own: Cell<Option<&'a AtomicUsize>>,
    /// The count that the thread uses when it has none of its own. With neither, it is new here.
    shared: Cell<Option<&'a AtomicUsize>>,
    /// How many guards the thread holds that are counted in `shared`.
    shared_guards: Cell<usize>,
    /// How many times the thread has closed the lock without opening it again.
    closings: Cell<usize>,
    /// The thread has closed the lock and seen every other thread outside.
    is_alone: Cell<bool>,
}

impl<'a> ThreadState<'a> {
    const fn new() -> Self {
        Self {
            own: Cell::new(None),
            shared: Cell::new(None),
            shared_guards: Cell::new(0),
            closings: Cell::new(0),
            is_alone: Cell::new(false),
        }
    }

    /// Identifies the thread among those that run, also in the child of a fork. Never [`OPEN`].
    fn number(&self) -> usize {
        self as *const Self as usize
    }

    fn owns(&self, count: &AtomicUsize) -> bool {
        self.own.get().is_some_and(|own| std::ptr::eq(own, count))
    }

    /// What this thread itself has added to `count`.
    fn added_to(&self, count: &AtomicUsize) -> usize {
        if self.owns(count) {
            return count.load(Ordering::Relaxed);
        }
        let shares = self
            .shared
            .get()
            .is_some_and(|shared| std::ptr::eq(shared, count));
        usize::from(shares && self.shared_guards.get() > 0)
    }

    /// How many guards the thread holds.
    fn guards(&self) -> usize {
        let own = self.own.get().map_or(0, |own| own.load(Ordering::Relaxed));
        own + self.shared_guards.get()
    }
}

/// Keeps the process from forking, and [`exclusive`] from returning to another thread, until it is
/// dropped. It stays on its thread.
#[must_use = "the lock is held only as long as the guard"]
pub struct ReadGuard<'a> {
    count: &'a AtomicUsize,
    /// The thread's state if `count` is shared, `None` if it is the thread's own.
    sharer: Option<&'a ThreadState<'a>>,
    stays_on_its_thread: PhantomData<*const ()>,
}

impl Drop for ReadGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        match self.sharer {
            None => {
                let guards = self.count.load(Ordering::Relaxed);
                self.count.store(guards - 1, Ordering::Release);
            }
            Some(state) => leave_shared(self.count, state),
        }
    }
}

#[cold]
fn leave_shared(count: &AtomicUsize, state: &ThreadState) {
    let guards = state.shared_guards.get() - 1;
    state.shared_guards.set(guards);
    if guards == 0 {
        // Acquires, too, for loom: it orders read-modify-writes only by what they synchronize.
        count.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Keeps all other threads outside until it is dropped. It stays on its thread.
#[must_use = "the lock is held only as long as the guard"]
pub struct ExclusiveGuard<'a> {
    lock: &'a ForkLock,
    state: &'a ThreadState<'a>,
    stays_on_its_thread: PhantomData<*const ()>,
}

impl Drop for ExclusiveGuard<'_> {
    fn drop(&mut self) {
        self.lock.open(self.state);
    }
}

impl ForkLock {
    #[cfg(not(loom))]
    const fn new() -> Self {
        Self {
            counts: [const { CachePadded(AtomicUsize::new(0)) }; OWN_COUNTS + SHARED_COUNTS],
            closed_by: CachePadded(AtomicUsize::new(OPEN)),
            taken: AtomicU64::new(0),
            next_shared: AtomicUsize::new(0),
            on_fork_child: OnceLock::new(),
        }
    }

    #[cfg(loom)]
    fn new() -> Self {
        Self {
            counts: std::array::from_fn(|_| CachePadded(AtomicUsize::new(0))),
            closed_by: CachePadded(AtomicUsize::new(OPEN)),
            taken: AtomicU64::new(0),
            next_shared: AtomicUsize::new(0),
            on_fork_child: OnceLock::new(),
        }
    }

    // Reading
    // --------------------------------------------------------------------------------------

    #[inline]
    fn read<'a>(&'a self, state: &'a ThreadState<'a>) -> ReadGuard<'a> {
        let guard = self.enter(state);
        let closed_by = self.closed_by.load(Ordering::SeqCst);
        if closed_by == OPEN {
            return guard;
        }
        self.read_closed(state, guard, closed_by)
    }

    /// Counts the thread as inside, whether the lock is open or not. The caller must look next.
    #[inline]
    fn enter<'a>(&'a self, state: &'a ThreadState<'a>) -> ReadGuard<'a> {
        let Some(own) = state.own.get() else {
            return self.enter_without_own_count(state);
        };
        own.store(own.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        light_fence();
        ReadGuard {
            count: own,
            sharer: None,
            stays_on_its_thread: PhantomData,
        }
    }

    #[cold]
    fn enter_without_own_count<'a>(&'a self, state: &'a ThreadState<'a>) -> ReadGuard<'a> {
        let Some(shared) = state.shared.get() else {
            self.admit(state);
            return self.enter(state);
        };
        let guards = state.shared_guards.get();
        state.shared_guards.set(guards + 1);
        if guards == 0 {
            shared.fetch_add(1, Ordering::SeqCst);
            // loom takes sequentially consistent operations for acquire and release.
            #[cfg(loom)]
            light_fence();
        }
        ReadGuard {
            count: shared,
            sharer: Some(state),
            stays_on_its_thread: PhantomData,
        }
    }

    /// Goes on after `guard` was taken and the lock was found closed.
    #[cold]
    fn read_closed<'a>(
        &'a self,
        state: &'a ThreadState<'a>,
        mut guard: ReadGuard<'a>,
        mut closed_by: usize,
    ) -> ReadGuard<'a> {
        // The thread that has closed the lock may read: other libraries' fork handlers call hooks.
        // A thread that was inside before may too: whoever has closed the lock waits for it.
        while closed_by != OPEN && closed_by != state.number() && state.guards() == 1 {
            drop(guard);
            let mut backoff = Backoff::new();
            while self.closed_by.load(Ordering::Relaxed) != OPEN {
                backoff.wait();
            }
            guard = self.enter(state);
            closed_by = self.closed_by.load(Ordering::SeqCst);
        }
        guard
    }

    // Threads
    // --------------------------------------------------------------------------------------

    /// Gives a new thread a reader count.
    fn admit<'a>(&'a self, state: &ThreadState<'a>) {
        handle_forks();
        let own = membarrier::is_available().then(|| self.take_own_count());
        match own.flatten() {
            Some(number) if self.hears_of_thread_end(number) => {
                state.own.set(Some(&self.counts[number].0));
            }
            Some(number) => self.give_back(state, number),
            None => self.share(state),
        }
    }

    /// Has the own count given back when this thread ends. False if the thread is too far in
    /// ending.
    fn hears_of_thread_end(&self, number: usize) -> bool {
        #[cfg(not(loom))]
        if std::ptr::eq(self, &FORK_LOCK) {
            let remember = |owner: &CountOwner| owner.number.set(Some(number));
            return COUNT_OWNER.try_with(remember).is_ok();
        }
        // The threads of tests call `give_back` themselves.
        let _ = number;
        true
    }

    fn take_own_count(&self) -> Option<usize> {
        let mut taken = self.taken.load(Ordering::Relaxed);
        loop {
            let number = taken.trailing_ones() as usize;
            if number >= OWN_COUNTS {
                return None;
            }
            // Acquires what the last owner of the count has released.
            match self.taken.compare_exchange_weak(
                taken,
                taken | 1 << number,
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Some(number),
                Err(now) => taken = now,
            }
        }
    }

    fn share<'a>(&'a self, state: &ThreadState<'a>) {
        let number = self.next_shared.fetch_add(1, Ordering::Relaxed) % SHARED_COUNTS;
        state.shared.set(Some(&self.counts[OWN_COUNTS + number].0));
    }

    /// Lets other threads have an own count. From here on the thread uses a shared one.
    fn give_back<'a>(&'a self, state: &ThreadState<'a>, number: usize) {
        state.own.set(None);
        self.share(state);
        // A guard that was leaked is counted for ever, so this count is nobody else's.
        if self.counts[number].load(Ordering::Relaxed) == 0 {
            self.taken.fetch_and(!(1 << number), Ordering::AcqRel);
        }
    }

    // Closing
    // --------------------------------------------------------------------------------------

    fn exclusive<'a>(&'a self, state: &'a ThreadState<'a>) -> ExclusiveGuard<'a> {
        self.close(state);
        ExclusiveGuard {
            lock: self,
            state,
            stays_on_its_thread: PhantomData,
        }
    }

    /// Closes the lock, and returns when no other thread is inside. Nests.
    fn close(&self, state: &ThreadState) {
        state.closings.set(state.closings.get() + 1);
        let me = state.number();
        let mut backoff = Backoff::new();
        while self.closed_by.load(Ordering::Relaxed) != me
            && self
                .closed_by
                .compare_exchange(OPEN, me, Ordering::SeqCst, Ordering::Relaxed)
                .is_err()
        {
            backoff.wait();
        }
        // In the child of a fork the counts mean nothing until they are reset.
        if state.is_alone.get() {
            return;
        }
        if membarrier::is_available() {
            heavy_fence();
        }
        for CachePadded(count) in &self.counts {
            let mut backoff = Backoff::new();
            while count.load(Ordering::SeqCst) != state.added_to(count) {
                backoff.wait();
            }
        }
        state.is_alone.set(true);
    }

    /// Takes one [`close`](Self::close) back. The last one opens the lock.
    fn open(&self, state: &ThreadState) {
        let closings = state.closings.get() - 1;
        state.closings.set(closings);
        if closings == 0 {
            state.is_alone.set(false);
            self.closed_by.store(OPEN, Ordering::SeqCst);
        }
    }

    /// Makes the lock right in the child of a fork, whose only thread is the one with `state`. The
    /// lock stays closed.
    fn reset_in_child(&self, state: &ThreadState) {
        let mut taken = 0;
        for (number, CachePadded(count)) in self.counts.iter().enumerate() {
            // A thread that met the closed lock may have been counted at that moment.
            count.store(state.added_to(count), Ordering::Relaxed);
            if state.owns(count) {
                taken |= 1 << number;
            }
        }
        self.taken.store(taken, Ordering::Relaxed);
        if let Some(callback) = self.on_fork_child.get() {
            callback();
        }
    }
}

// The process's fork lock
// ------------------------------------------------------------------------------

process_static! {
    static FORK_LOCK: ForkLock = ForkLock::new();
}

thread_static! {
    static STATE: ThreadState<'static> = ThreadState::new();
}

/// Gives the thread's own count back when the thread ends.
#[cfg(not(loom))]
struct CountOwner {
    number: Cell<Option<usize>>,
}

#[cfg(not(loom))]
thread_local! {
    static COUNT_OWNER: CountOwner = const { CountOwner { number: Cell::new(None) } };
}

#[cfg(not(loom))]
impl Drop for CountOwner {
    fn drop(&mut self) {
        if let Some(number) = self.number.get() {
            FORK_LOCK.give_back(state(), number);
        }
    }
}

/// The state of this thread.
#[inline]
fn state() -> &'static ThreadState<'static> {
    // SAFETY: the state has no destructor and stays where it is while its thread runs. What borrows
    // it is not `Send`, so it is used on this thread only.
    STATE.with(|state| unsafe { &*(state as *const ThreadState<'static>) })
}

/// Holds the fork lock for reading until the guard is dropped. Every call that takes a lock of the
/// core holds such a guard first.
///
/// Waits while the process forks or another thread holds [`exclusive`]. Does not wait on a thread
/// that holds a guard already, or the exclusive one. Any thread may call it at any time, also in
/// the destructors of thread-locals and in fork handlers.
#[inline]
pub fn read() -> ReadGuard<'static> {
    FORK_LOCK.read(state())
}

/// Waits until no other thread holds a read guard, and keeps all others out until it is dropped.
///
/// A thread that calls this holds no lock, or it would wait for those who wait for that lock. It
/// holds no read guard either: two such threads would wait for each other. It may call [`read`] and
/// `exclusive` while it holds the guard. Any thread may call it.
pub fn exclusive() -> ExclusiveGuard<'static> {
    handle_forks();
    FORK_LOCK.exclusive(state())
}

/// Has `callback` called in the child of every fork, on its only thread, before any other code of
/// the child can read. It may call [`read`] and take locks: all of them are free.
///
/// The forking thread goes on in the child with whatever it was doing, such as the call of an
/// observer. Only the first callback is kept. It may be called more than once for one fork.
pub fn on_fork_child(callback: fn()) {
    // No fork meanwhile: its child would wait for ever for a thread that was setting this.
    let _guard = read();
    let _ = FORK_LOCK.on_fork_child.set(callback);
}

/// Makes `fork()` close the fork lock. Does so once.
///
/// Nobody waits here for another thread: in the child of a fork that thread would be missing.
/// Threads that come here at the same time each register the handlers, which nest.
fn handle_forks() {
    #[cfg(all(unix, not(loom)))]
    {
        use std::sync::atomic::AtomicBool;
        static ARE_HANDLED: AtomicBool = AtomicBool::new(false);
        if ARE_HANDLED.load(Ordering::Acquire) {
            return;
        }
        extern "C" fn before() {
            FORK_LOCK.close(state());
        }
        extern "C" fn in_parent() {
            FORK_LOCK.open(state());
        }
        extern "C" fn in_child() {
            FORK_LOCK.reset_in_child(state());
            FORK_LOCK.open(state());
        }
        // SAFETY: the handlers are functions of this library, which is never unloaded (it is linked
        // `nodelete`, or is part of a program). They call nothing that a fork handler must not
        // call.
        let error = unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
        // It fails for want of memory only. The next thread that is new here tries again.
        if error == 0 {
            ARE_HANDLED.store(true, Ordering::Release);
        }
    }
}
