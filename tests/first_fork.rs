// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! `fork()` while another thread makes the first tracker of the process (R19). Each try needs a process that has
//! not used the library yet, so the test is a process for each of them.
#![cfg(unix)]

#[path = "support/child.rs"]
mod child;

use std::thread;
use std::time::{Duration, Instant};

use child::{Outcome, in_child};
use live_object_tracker::Tracker;

/// Forks while the first tracker is made, and makes one in the child.
fn fork_meanwhile(delay: Duration) -> i32 {
    let first = thread::spawn(|| Tracker::new("first").map(drop));
    let start = Instant::now();
    while start.elapsed() < delay {
        std::hint::spin_loop();
    }
    let outcome = in_child(|| i32::from(Tracker::new("in the child").is_err()));
    let made = first.join().is_ok_and(|made| made.is_ok());
    match (outcome, made) {
        (Outcome::Fine, true) => 0,
        (Outcome::Hung, _) => 2,
        _ => 1,
    }
}

#[test]
fn r19_a_fork_while_the_first_tracker_is_made_leaves_a_usable_library() {
    let end = Instant::now() + Duration::from_secs(10);
    for round in 0.. {
        if Instant::now() > end {
            break;
        }
        let delay = Duration::from_micros(10 * (round % 60));
        assert_eq!(
            in_child(|| fork_meanwhile(delay)),
            Outcome::Fine,
            "in round {round}"
        );
    }
}
