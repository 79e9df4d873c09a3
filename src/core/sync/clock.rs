// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The clock of the death log.

/// Nanoseconds of the system's monotonic clock.
///
/// On Linux this is `CLOCK_MONOTONIC_COARSE`, which advances with the timer tick. A finer clock
/// would cost a hook more than the hook itself. Any thread may call it.
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

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::now_ns;

    #[test]
    fn the_clock_advances_and_never_goes_back() {
        let start = now_ns();
        std::thread::sleep(std::time::Duration::from_millis(50));
        let later = now_ns();
        assert!(
            later - start >= 10_000_000,
            "{start} and 50 ms later {later}"
        );
    }
}
