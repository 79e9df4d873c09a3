// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Fences that one thread executes for all others (`membarrier(2)`), so that the others need none.

use std::sync::atomic::{AtomicU8, Ordering};

#[cfg(all(target_os = "linux", not(any(loom, shuttle))))]
mod system {
    fn membarrier(command: libc::c_int) -> bool {
        // SAFETY: the call takes numbers only.
        unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
    }

    /// Announces to the system that this process will call [`fence`]. False where the system cannot
    /// do it.
    pub fn register() -> bool {
        membarrier(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED)
    }

    /// Returns when every thread of the process has executed a full fence. False if none has.
    pub fn fence() -> bool {
        // The child of a fork may have to register again.
        let command = libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED;
        membarrier(command) || register() && membarrier(command)
    }
}

#[cfg(all(not(target_os = "linux"), not(any(loom, shuttle))))]
mod system {
    pub fn register() -> bool {
        false
    }

    pub fn fence() -> bool {
        false
    }
}

/// loom knows no `membarrier`. Its threads fence for themselves ([`light_fence`]), and so does the
/// rare side.
#[cfg(loom)]
mod system {
    pub fn register() -> bool {
        true
    }

    pub fn fence() -> bool {
        loom::sync::atomic::fence(loom::sync::atomic::Ordering::SeqCst);
        true
    }
}

/// shuttle's threads take turns on one thread of the system, and see each other's stores at once.
#[cfg(shuttle)]
mod system {
    pub fn register() -> bool {
        true
    }

    pub fn fence() -> bool {
        true
    }
}

/// Whether [`heavy_fence`] reaches all threads of this process. The first answer stands for ever.
pub fn is_available() -> bool {
    const UNKNOWN: u8 = 0;
    const YES: u8 = 1;
    const NO: u8 = 2;
    static ANSWER: AtomicU8 = AtomicU8::new(UNKNOWN);
    // No lock and no `OnceLock`: the child of a fork would wait for a thread that it does not have.
    let answer = match ANSWER.load(Ordering::Acquire) {
        UNKNOWN => {
            let answer = if system::register() { YES } else { NO };
            let order = (Ordering::AcqRel, Ordering::Acquire);
            let earlier = ANSWER.compare_exchange(UNKNOWN, answer, order.0, order.1);
            earlier.err().unwrap_or(answer)
        }
        known => known,
    };
    answer == YES
}

/// Executes a full fence on every thread of the process. Only where [`is_available`].
pub fn heavy_fence() {
    if !system::fence() {
        // It worked before, so a sandbox has forbidden the call since. Store buffers drain in
        // microseconds.
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
}

/// Orders the stores before it with the loads behind it, as far as other threads' [`heavy_fence`]
/// is concerned. No instruction: it only keeps the compiler from reordering.
#[inline]
pub fn light_fence() {
    #[cfg(not(loom))]
    std::sync::atomic::compiler_fence(Ordering::SeqCst);
    #[cfg(loom)]
    loom::sync::atomic::fence(Ordering::SeqCst);
}
