// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The memory of the process stays flat, whatever comes and goes (R12).
//!
//! `LOT_MEMORY_REGISTRATIONS` says how many objects each test registers (3,000,000).

use std::process::Command;

use live_object_tracker::{Description, ErrorKind, Ref, Tracker};

/// What a test's memory may grow by, where the number of live objects stays the same.
const FLAT: usize = 8 << 20;

fn registrations() -> usize {
    let Ok(text) = std::env::var("LOT_MEMORY_REGISTRATIONS") else {
        return 3_000_000;
    };
    text.replace('_', "")
        .parse()
        .unwrap_or_else(|_| panic!("{text} is not a number"))
}

/// A figure of `/proc/self/statm` in bytes: 0 is the size of the address space, 1 what is in memory.
fn statm(field: usize) -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = text.split(' ').nth(field).unwrap().parse().unwrap();
    // SAFETY: asks for a constant.
    pages * usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap()
}

fn resident() -> usize {
    statm(1)
}

/// Fails if more is in memory than before, by more than `most`.
fn assert_flat(what: &str, before: usize, most: usize) {
    let now = resident();
    println!("{what}: {} KiB, and {} KiB before", now >> 10, before >> 10);
    let grown = now.saturating_sub(before);
    assert!(grown <= most, "{what}: {grown} bytes more");
}

fn at(number: usize) -> usize {
    0x7f00_0000_0000 + number * 64
}

fn describe(object: usize, scope: u64, ancestors: &[usize]) -> Description<'_> {
    Description {
        object,
        scope,
        ancestors: Some(ancestors),
        ..Default::default()
    }
}

fn track(tracker: Tracker, object: usize, scope: u64, ancestors: &[usize]) -> Ref {
    tracker
        .track(&describe(object, scope, ancestors))
        .unwrap()
        .0
}

#[test]
fn r12_registering_for_ever_takes_no_more_memory() {
    let tracker = Tracker::new("churn").unwrap();
    const ADDRESSES: usize = 100_003;
    let churn = |from: usize, to: usize| {
        for round in from..to {
            let object = at(round * 7919 % ADDRESSES);
            let ancestors = [
                at(ADDRESSES + round % 977),
                at(ADDRESSES + 1000 + round % 8),
            ];
            let description = describe(object, (round % 8) as u64, &ancestors);
            let created = tracker.create(&description).unwrap();
            match round % 6 {
                0 => created.release().unwrap(),
                1 => tracker.erase(object).unwrap(),
                2 => tracker
                    .destroy(at((round * 7919 + 50_000) % ADDRESSES))
                    .unwrap(),
                _ => {}
            }
        }
    };
    let all = registrations();
    churn(0, all / 3);
    let before = resident();
    churn(all / 3, all);
    assert_flat(&format!("{all} registrations"), before, FLAT);
    tracker.destroy_tracker().unwrap();
}

#[test]
fn r12_trackers_one_after_another_take_no_more_memory() {
    let trackers = |from: u64, to: u64| {
        for scope in from..to {
            let tracker = Tracker::new("one of many").unwrap();
            tracker
                .set_observer(Some(std::sync::Arc::new(|_| {})))
                .unwrap();
            track(tracker, at(1), scope, &[at(2)]);
            tracker.destroy_tracker().unwrap();
        }
    };
    trackers(0, 2000);
    let before = resident();
    trackers(2000, 22_000);
    assert_flat("20,000 trackers", before, FLAT);
}

#[test]
fn r12_scopes_one_after_another_take_no_more_memory() {
    let tracker = Tracker::new("scopes").unwrap();
    let scopes = |from: usize, to: usize| {
        for scope in from..to {
            let tracked = track(tracker, at(1), scope as u64, &[]);
            match scope % 3 {
                0 => tracked.release().unwrap(),
                1 => tracker.clear_scope(scope as u64).unwrap(),
                _ => {} // The next scope has another object at the address.
            }
        }
    };
    let all = registrations();
    scopes(0, all / 10);
    let before = resident();
    scopes(all / 10, all);
    assert_flat(&format!("{all} scopes"), before, FLAT);
    tracker.destroy_tracker().unwrap();
}

#[test]
fn r12_scopes_filled_and_cleared_in_turn_share_their_memory() {
    let tracker = Tracker::new("in turn").unwrap();
    let in_each = (registrations() / 30).max(10_000);
    let fill = |scope: u64| {
        for number in 0..in_each {
            track(tracker, at(number), scope, &[]);
        }
        assert_eq!(tracker.count(Some(scope), None), Ok(in_each));
        tracker.clear_scope(scope).unwrap();
    };
    fill(0);
    fill(1);
    let before = resident();
    (2..40).for_each(fill);
    // Each stripe keeps a little of what it had, until all of them have been used: 400 scopes take what
    // 80 took. If no scope's memory served the next one, this would be many times as much.
    let most = FLAT + before / 8;
    assert_flat(&format!("40 scopes of {in_each} objects"), before, most);
    tracker.destroy_tracker().unwrap();
}

#[test]
fn r12_a_survivor_keeps_no_places_of_what_came_and_went() {
    let tracker = Tracker::new("survivor").unwrap();
    let survivor = track(tracker, at(3), 1, &[at(1)]);
    let rounds = |count: usize| {
        let (mut inner, mut outer) = (at(1), at(2));
        for _ in 0..count {
            // The object around it is found inside of a new one, and goes; what was in it stays.
            track(tracker, inner, 1, &[outer]);
            tracker.destroy(inner).unwrap();
            std::mem::swap(&mut inner, &mut outer);
        }
    };
    let all = registrations() / 2 * 2;
    rounds(all / 10);
    let before = resident();
    rounds(all - all / 10);
    assert_flat(&format!("{all} objects around a survivor"), before, FLAT);
    let stats = tracker.stats().unwrap();
    assert!(survivor.is_live() && survivor.parent() == Ok(None));
    assert_eq!(stats.tracked, 1);
    assert!(stats.anchors <= 1, "{stats:?}");
    // Whoever encloses it now has a place that nothing is left of.
    let start = std::time::Instant::now();
    for _ in 0..1000 {
        assert_eq!(survivor.parent(), Ok(None));
    }
    let each = start.elapsed() / 1000;
    assert!(each.as_micros() < 100, "to find a parent takes {each:?}");
    tracker.destroy_tracker().unwrap();
}

/// Runs the test of that name again in a process with a limit, and says whether this is that process.
fn is_limited(test: &str, limit: &str) -> bool {
    const CHILD: &str = "LOT_TEST_LIMITED";
    if std::env::var_os(CHILD).is_some() {
        return true;
    }
    let status = Command::new("sh")
        .arg("-c")
        .arg(format!(
            "ulimit {limit} && exec \"$0\" --test-threads=1 --nocapture --exact {test}"
        ))
        .arg(std::env::current_exe().unwrap())
        .env(CHILD, "1")
        .status()
        .unwrap();
    assert!(status.success(), "with ulimit {limit}: {status}");
    false
}

#[test]
fn r12_slots_of_a_full_table_are_there_for_other_scopes() {
    // 256 MiB of addresses: there is room for half a million slots.
    if !is_limited(
        "r12_slots_of_a_full_table_are_there_for_other_scopes",
        "-v 262144",
    ) {
        return;
    }
    let tracker = Tracker::new("full").unwrap();
    let fill = |scope: u64| {
        let mut count = 0;
        loop {
            match tracker.track(&describe(at(count), scope, &[])) {
                Ok(_) => count += 1,
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Limit);
                    return count;
                }
            }
            assert!(count < 1 << 20, "the table is not full");
        }
    };
    let room = fill(1);
    tracker.clear_scope(1).unwrap();
    let refused = |scope: &u64| tracker.track(&describe(at(1), *scope, &[])).is_err();
    let refused = (2..102).filter(refused).count();
    assert_eq!(refused, 0, "of 100 scopes, with nothing tracked before");
    (2..102).for_each(|scope| tracker.clear_scope(scope).unwrap());
    for scope in 200..210 {
        let now = fill(scope);
        // Each of the 32 groups of scopes may keep a few slots to itself.
        assert!(
            now + 32 * 256 >= room,
            "room for {now} objects, and for {room} before"
        );
        tracker.clear_scope(scope).unwrap();
    }
    tracker.destroy_tracker().unwrap();
}

#[test]
fn r12_a_refused_start_keeps_no_addresses() {
    // Too little data for the first slots.
    if !is_limited("r12_a_refused_start_keeps_no_addresses", "-d 3000") {
        return;
    }
    let Ok(tracker) = Tracker::new("refused") else {
        return; // Not even a tracker.
    };
    let refuse = || {
        let error = tracker.track(&describe(at(1), 1, &[])).map(|_| ());
        assert_eq!(error.unwrap_err().kind(), ErrorKind::Limit);
    };
    refuse();
    let before = statm(0);
    (0..10).for_each(|_| refuse());
    let now = statm(0);
    assert!(
        now < before + (16 << 20),
        "{} MiB of addresses more",
        (now - before) >> 20
    );
}
