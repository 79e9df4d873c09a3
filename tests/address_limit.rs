// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! A process that may use few addresses (`ulimit -v`) gets a smaller table; when that is full, it is told so, and
//! nothing is lost.

use std::process::Command;

use live_object_tracker::{Description, ErrorKind, Ref, Tracker};

fn track(tracker: Tracker, number: usize) -> Result<Ref, live_object_tracker::Error> {
    let description = Description {
        object: 0x7f00_0000_0000 + number * 64,
        ..Description::default()
    };
    tracker.track(&description).map(|(tracked, _)| tracked)
}

#[test]
fn a_small_table_says_that_it_is_full() {
    const CHILD: &str = "LOT_TEST_FEW_ADDRESSES";
    if std::env::var_os(CHILD).is_none() {
        let this = std::env::current_exe().unwrap();
        let status = Command::new("sh")
            // 256 MiB of addresses: an eighth of that is room for 2^19 slots.
            .args(["-c", "ulimit -v 262144 && exec \"$0\" --test-threads=1"])
            .arg(this)
            .env(CHILD, "1")
            .status()
            .unwrap();
        assert!(status.success(), "with few addresses: {status}");
        return;
    }
    let tracker = Tracker::new("few addresses").unwrap();
    let mut held = Vec::new();
    let error = loop {
        match track(tracker, held.len()) {
            Ok(tracked) => held.push(tracked),
            Err(error) => break error,
        }
        assert!(held.len() < 1 << 20, "the table is not full");
    };
    assert_eq!(error.kind(), ErrorKind::Limit);
    assert!(error.to_string().contains("slot table is full"), "{error}");
    assert!(held.len() > 500_000, "full after {}", held.len());
    assert!(held.iter().all(|held| held.is_live()));
    // Whoever makes room has it.
    held[1000].release().unwrap();
    let again = track(tracker, 1_000_000).unwrap();
    assert!(again.is_live() && !held[1000].is_live());
    tracker.destroy_tracker().unwrap();
}
