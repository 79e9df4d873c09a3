// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The core's one kind of lock. Statics that no model uses are made by `Lock::new`, which is
//! `const` also under loom.

use super::backoff::Backoff;
use super::{AtomicBool, Ordering};

/// A mutex for sections that take less than a microsecond. [`new`] makes one.
///
/// It is never poisoned. A panic under it is a bug of ours, which the C boundary counts. The order
/// of the writes keeps the guarded data usable at every step. A poisoned lock would refuse every
/// later hook, and a destructor has nobody to report a refusal to.
pub type Lock<T> = lock_api::Mutex<RawSpinLock, T>;

/// Gives access to what a [`Lock`] guards, and unlocks it when dropped. It stays on its thread.
pub type LockGuard<'a, T> = lock_api::MutexGuard<'a, RawSpinLock, T>;

/// Makes an unlocked lock.
#[cfg(not(loom))]
pub const fn new<T>(value: T) -> Lock<T> {
    Lock::from_raw(RawSpinLock::new(), value)
}

/// Makes an unlocked lock.
#[cfg(loom)]
pub fn new<T>(value: T) -> Lock<T> {
    Lock::from_raw(RawSpinLock::new(), value)
}

/// A spinlock: waiters poll, so unlocking is one release store and wakes nobody.
#[derive(Debug)]
pub struct RawSpinLock {
    #[cfg(not(loom))]
    is_held: AtomicBool,
    /// `None` only in `INIT`: loom cannot make an atomic in a constant.
    #[cfg(loom)]
    is_held: Option<AtomicBool>,
}

#[cfg(not(loom))]
impl RawSpinLock {
    const fn new() -> Self {
        Self {
            is_held: AtomicBool::new(false),
        }
    }

    #[inline]
    fn is_held(&self) -> &AtomicBool {
        &self.is_held
    }
}

#[cfg(loom)]
impl RawSpinLock {
    fn new() -> Self {
        Self {
            is_held: Some(AtomicBool::new(false)),
        }
    }

    fn is_held(&self) -> &AtomicBool {
        self.is_held
            .as_ref()
            .expect("under loom, lock::new makes the locks")
    }
}

impl RawSpinLock {
    #[cold]
    fn wait_and_lock(&self) {
        let mut backoff = Backoff::new();
        while !lock_api::RawMutex::try_lock(self) {
            backoff.wait();
        }
    }
}

// SAFETY: the exchange lets one thread through until `unlock`. Acquire and release order what the
// holders do.
unsafe impl lock_api::RawMutex for RawSpinLock {
    #[cfg(not(loom))]
    #[allow(
        clippy::declare_interior_mutable_const,
        reason = "lock_api asks for it"
    )]
    const INIT: Self = Self::new();
    #[cfg(loom)]
    const INIT: Self = Self { is_held: None };

    /// The fork lock's read guard, which its holder has too, stays on its thread.
    type GuardMarker = lock_api::GuardNoSend;

    #[inline]
    fn lock(&self) {
        if !self.try_lock() {
            self.wait_and_lock();
        }
    }

    /// Looks before it exchanges: an exchange takes the cache line from the holder even when it
    /// fails.
    ///
    /// Not a swap, which stores even when it fails. loom lets that store come after the unlock.
    #[inline]
    fn try_lock(&self) -> bool {
        let is_held = self.is_held();
        let (acquire, relaxed) = (Ordering::Acquire, Ordering::Relaxed);
        !is_held.load(relaxed)
            && is_held
                .compare_exchange(false, true, acquire, relaxed)
                .is_ok()
    }

    #[inline]
    unsafe fn unlock(&self) {
        self.is_held().store(false, Ordering::Release);
    }

    #[inline]
    fn is_locked(&self) -> bool {
        self.is_held().load(Ordering::Relaxed)
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn threads_hold_a_lock_one_at_a_time() {
        static COUNT: Lock<(u32, u32)> = new((0, 0));
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..50_000 {
                        let mut both = COUNT.lock();
                        assert_eq!(both.0, both.1);
                        both.0 += 1;
                        both.1 += 1;
                    }
                });
            }
        });
        assert_eq!(*COUNT.lock(), (200_000, 200_000));
    }

    #[test]
    fn a_held_lock_is_refused_and_free_after_a_panic() {
        let lock = new(7);
        let guard = lock.lock();
        assert!(lock.is_locked() && lock.try_lock().is_none());
        drop(guard);
        let panics = || {
            let _guard = lock.lock();
            std::panic::resume_unwind(Box::new(()));
        };
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics)).is_err());
        assert_eq!(
            *lock.try_lock().expect("the lock is free, and not poisoned"),
            7
        );
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_real_time_thread_lets_an_ordinary_holder_unlock() {
        use super::super::realtime_tests::{Realtime, busy, on_one_processor};
        use std::time::{Duration, Instant};

        let lock = new(());
        let longest = on_one_processor(
            || {
                let _guard = lock.lock();
                busy(Duration::from_micros(300));
            },
            |_: &Realtime| {
                let mut longest = Duration::ZERO;
                for _ in 0..20 {
                    // Gives the holder time to take the lock.
                    thread::sleep(Duration::from_millis(2));
                    let start = Instant::now();
                    drop(lock.lock());
                    longest = longest.max(start.elapsed());
                }
                longest
            },
        );
        // With a wait that only yields it is most of a second.
        let patience = Duration::from_millis(300);
        assert!(
            longest.is_none_or(|longest| longest < patience),
            "{longest:?}"
        );
    }
}

/// Every interleaving that loom finds. loom fails when two threads may reach the guarded cell at
/// once, or when one does not see what the last holder wrote.
#[cfg(all(test, loom))]
mod loom_models {
    use std::sync::Arc;

    use loom::cell::UnsafeCell;
    use loom::thread;

    use super::*;

    fn add_one(cell: &UnsafeCell<u32>) {
        // SAFETY: loom sees to it that nobody else reads or writes meanwhile; that is the model.
        cell.with_mut(|value| unsafe { *value += 1 });
    }

    fn try_to_add_one(lock: &Lock<UnsafeCell<u32>>) -> bool {
        lock.try_lock().map(|cell| add_one(&cell)).is_some()
    }

    fn value(cell: &UnsafeCell<u32>) -> u32 {
        // SAFETY: loom sees to it that nobody writes meanwhile; that is the model.
        cell.with(|value| unsafe { *value })
    }

    #[test]
    fn threads_hold_a_lock_one_at_a_time_and_see_the_last_holder_s_writes() {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(|| {
            let lock = Arc::new(new(UnsafeCell::new(0)));
            let threads = [2, 1].map(|times| {
                let lock = lock.clone();
                thread::spawn(move || {
                    for _ in 0..times {
                        add_one(&lock.lock());
                    }
                })
            });
            add_one(&lock.lock());
            for thread in threads {
                thread.join().unwrap();
            }
            assert_eq!(value(&lock.lock()), 4);
        });
    }

    #[test]
    fn a_refused_lock_is_held_by_another_thread() {
        loom::model(|| {
            let lock = Arc::new(new(UnsafeCell::new(0)));
            let other = lock.clone();
            let thread = thread::spawn(move || try_to_add_one(&other));
            let locked = try_to_add_one(&lock);
            let other_locked = thread.join().unwrap();
            assert!(locked || other_locked);
            let expected = u32::from(locked) + u32::from(other_locked);
            assert_eq!(value(&lock.lock()), expected);
        });
    }
}
