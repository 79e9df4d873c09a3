// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! `fork()` is safe where the system has no `membarrier` (R19). A sandbox that does not know the
//! call stands for such a system. The filter is for good, so this test has a program of its own.
#![cfg(target_os = "linux")]

#[path = "support/child.rs"]
mod child;

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use child::{Outcome, in_child};
use live_object_tracker::{Description, Tracker};

const THREADS: usize = 3;

/// Has `membarrier` answer "no such call" on this thread and all that it starts.
fn forbid_membarrier() -> io::Result<()> {
    let statement = |code: u32, jump_if_not: u8, value: u32| libc::sock_filter {
        code: code as u16,
        jt: 0,
        jf: jump_if_not,
        k: value,
    };
    let call = libc::SYS_membarrier as u32;
    let refusal = libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32;
    let mut filter = [
        // The number of the call is the first thing that the filter is given.
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
        statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 1, call),
        statement(libc::BPF_RET | libc::BPF_K, 0, refusal),
        statement(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog {
        len: filter.len() as u16,
        filter: filter.as_mut_ptr(),
    };
    // SAFETY: `program` and its filter are valid while the system copies them.
    let refused = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
            || libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program) != 0
    };
    if refused {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call takes numbers only.
    let answer = unsafe { libc::syscall(libc::SYS_membarrier, libc::MEMBARRIER_CMD_QUERY, 0, 0) };
    assert_eq!(answer, -1, "the filter does nothing");
    Ok(())
}

fn describe(object: usize, scope: u64) -> Description<'static> {
    Description {
        object,
        scope,
        ..Default::default()
    }
}

/// Takes the locks that the threads take. Gives 0 if the tracker's answers are right.
fn use_tracker(tracker: Tracker) -> i32 {
    for thread in 0..THREADS {
        let object = 0x1000_0000 * (thread + 1) + 64;
        let Ok((tracked, _)) = tracker.track(&describe(object, thread as u64)) else {
            return 1;
        };
        let was_live = tracked.is_live();
        let erased = tracker.erase(object).is_ok();
        if !(was_live && erased && !tracked.is_live()) {
            return 3;
        }
    }
    0
}

#[test]
fn r19_forks_are_safe_on_a_system_without_membarrier() {
    if let Err(error) = forbid_membarrier() {
        // Not `eprintln!`, which the test harness keeps to itself when a test passes.
        let text = format!("SKIPPED, the system refuses a filter of its calls: {error}\n");
        let _ = io::stderr().write_all(text.as_bytes());
        return;
    }
    let tracker = Tracker::new("without membarrier").unwrap();
    let stop = AtomicBool::new(false);
    let mut failures = Vec::new();
    thread::scope(|scope| {
        for number in 0..THREADS {
            let stop = &stop;
            scope.spawn(move || {
                let object = 0x1000_0000 * (number + 1);
                while !stop.load(Ordering::Relaxed) {
                    tracker.track(&describe(object, number as u64)).unwrap();
                    tracker.destroy(object).unwrap();
                }
            });
        }
        for fork in 0..200 {
            let outcome = in_child(|| match in_child(|| use_tracker(tracker)) {
                Outcome::Fine => use_tracker(tracker),
                _ => 2,
            });
            if outcome != Outcome::Fine {
                failures.push((fork, outcome));
            }
            if failures.len() == 2 {
                break;
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(failures.is_empty(), "fork and outcome: {failures:?}");
    tracker.destroy_tracker().unwrap();
}
