// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! How a thread waits for what another thread will do within microseconds.

/// A waiter's patience: it spins, then yields, then sleeps.
///
/// Sleeping is not an optimisation. A real-time thread that only yields keeps its processor from
/// the ordinary thread it waits for.
pub struct Backoff {
    waits: u32,
}

#[cfg(not(loom))]
impl Backoff {
    /// Waits that only spin: a few microseconds in all.
    const SPINS: u32 = 64;
    /// Waits that let another thread of the same priority run.
    const YIELDS: u32 = 32;
    /// The first sleep. It doubles from wait to wait, up to the longest.
    const FIRST_SLEEP_US: u64 = 50;
    const LONGEST_SLEEP_US: u64 = 1000;
}

impl Backoff {
    pub const fn new() -> Self {
        Self { waits: 0 }
    }

    /// Waits once, longer than the time before.
    #[cfg(not(loom))]
    pub fn wait(&mut self) {
        let wait = self.waits;
        self.waits = wait.saturating_add(1);
        if wait < Self::SPINS {
            (0..=wait / 4).for_each(|_| std::hint::spin_loop());
        } else if wait < Self::SPINS + Self::YIELDS {
            std::thread::yield_now();
        } else {
            std::thread::sleep(Self::sleep(wait - Self::SPINS - Self::YIELDS));
        }
    }

    /// Tells the model checker that this thread cannot go on until another one has done something.
    ///
    /// Two threads that wait for a third have infinitely many interleavings. So what comes after a
    /// thread's third wait in a row happens in one order only.
    #[cfg(loom)]
    pub fn wait(&mut self) {
        self.waits += 1;
        assert!(self.waits < 100, "a thread waits for ever");
        if self.waits > 2 {
            loom::skip_branch();
        }
        loom::thread::yield_now();
    }

    /// The length of the sleep with that number.
    #[cfg(not(loom))]
    fn sleep(number: u32) -> std::time::Duration {
        let doubled = Self::FIRST_SLEEP_US << number.min(8);
        std::time::Duration::from_micros(doubled.min(Self::LONGEST_SLEEP_US))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::Backoff;

    #[test]
    fn sleeps_double_from_50_us_to_1_ms() {
        let sleeps: Vec<_> = (0..7).map(|n| Backoff::sleep(n).as_micros()).collect();
        assert_eq!(sleeps, [50, 100, 200, 400, 800, 1000, 1000]);
        assert_eq!(Backoff::sleep(u32::MAX).as_micros(), 1000);
    }
}
