// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! For tests of what a real-time thread waits for when there is one processor only.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Proof that this thread is a real-time thread.
pub struct Realtime(());

impl Realtime {
    /// `None` if the system refuses it.
    fn new() -> Option<Self> {
        let priority = libc::sched_param { sched_priority: 1 };
        // SAFETY: both calls read a valid structure. The policy is this thread's alone.
        unsafe {
            // Ends the process, instead of hanging it, when a real-time thread never blocks and the
            // system does not throttle it.
            let limit = libc::rlimit {
                rlim_cur: 5_000_000,
                rlim_max: libc::RLIM_INFINITY,
            };
            libc::setrlimit(libc::RLIMIT_RTTIME, &limit);
            let error =
                libc::pthread_setschedparam(libc::pthread_self(), libc::SCHED_FIFO, &priority);
            (error == 0).then_some(Self(()))
        }
    }
}

/// Binds the thread to the first processor that it may use.
fn pin() {
    // SAFETY: the set is a valid place, and zero is a valid set.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        let size = size_of::<libc::cpu_set_t>();
        assert_eq!(libc::sched_getaffinity(0, size, &mut set), 0);
        let first = (0..libc::CPU_SETSIZE as usize).find(|&cpu| libc::CPU_ISSET(cpu, &set));
        libc::CPU_ZERO(&mut set);
        libc::CPU_SET(first.expect("the thread runs somewhere"), &mut set);
        assert_eq!(libc::sched_setaffinity(0, size, &set), 0);
    }
}

/// Computes for that long.
pub fn busy(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        std::hint::spin_loop();
    }
}

/// Runs `urgent` once on a real-time thread while an ordinary thread runs `ordinary` half of the
/// time, both on the same processor. `None` if the system refuses a real-time thread, which it says
/// on standard error.
pub fn on_one_processor<T: Send>(
    ordinary: impl Fn() + Sync,
    urgent: impl FnOnce(&Realtime) -> T + Send,
) -> Option<T> {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            pin();
            while !stop.load(Ordering::Relaxed) {
                let start = Instant::now();
                ordinary();
                busy(start.elapsed());
            }
        });
        let urgent = scope.spawn(|| {
            pin();
            let realtime = Realtime::new()?;
            Some(urgent(&realtime))
        });
        let result = urgent.join();
        stop.store(true, Ordering::Relaxed);
        let result = result.unwrap();
        if result.is_none() {
            // Not `eprintln!`, which the test harness keeps to itself when a test passes.
            let name = thread::current().name().unwrap_or("a test").to_owned();
            let text = format!("SKIPPED, the system refuses a real-time thread: {name}\n");
            let _ = std::io::stderr().write_all(text.as_bytes());
        }
        result
    })
}
