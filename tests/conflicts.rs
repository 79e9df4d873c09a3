// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Objects that turn up in another scope than the one in which they are known, with long lists of
//! ancestors.

use std::time::{Duration, Instant};

use live_object_tracker::{Cause, Description, Format, Ref, Tracker};

/// Some hundred times what it takes; where each object was compared with each other, it took longer.
const PATIENCE: Duration = Duration::from_secs(3);

fn at(number: usize) -> usize {
    0x7e00_0000_0000 + number * 64
}

fn track(tracker: Tracker, object: usize, scope: u64, ancestors: &[usize]) -> Ref {
    let description = Description {
        object,
        scope,
        ancestors: Some(ancestors),
        ..Default::default()
    };
    tracker.track(&description).unwrap().0
}

/// One of a thousand ancestors is known in another scope.
#[test]
fn r05_a_deep_object_below_a_stale_address_is_tracked() {
    let tracker = Tracker::new("deep").unwrap();
    for round in (0..50).step_by(7) {
        let ancestors: Vec<usize> = (1..1 + 20 * round).map(at).collect();
        for stale in ancestors.iter().step_by(97) {
            let elsewhere = track(tracker, *stale, 1000 + round as u64, &[]);
            let deep = track(tracker, at(0), 2000 + round as u64, &ancestors);
            assert!(deep.is_live() && !elsewhere.is_live());
            let cause = elsewhere.death().map(|death| death.cause);
            assert_eq!(cause, Some(Cause::MissedEnd));
            assert_eq!(tracker.stats().unwrap().anchors, ancestors.len());
            // Objects of other scopes come and go meanwhile, and each has a ref of its own.
            let others = (0..300).map(|n| track(tracker, at(50_000 + n), 3000, &[]));
            let mut others: Vec<Ref> = others.collect();
            others.push(deep);
            let mut epochs: Vec<u64> = others.iter().map(|other| other.epoch).collect();
            epochs.sort_unstable();
            epochs.dedup();
            assert_eq!(epochs.len(), others.len(), "two objects have one epoch");
            assert!(others.iter().all(|other| other.is_live()));
            tracker.check_invariants().unwrap();
            tracker.erase(ancestors[ancestors.len() - 1]).unwrap();
            assert!(!deep.is_live());
            tracker.clear_scope(3000).unwrap();
            assert_eq!(tracker.count(None, None).unwrap(), 0);
        }
    }
    tracker.destroy_tracker().unwrap();
}

/// A deep object moves below one that is known in another scope.
#[test]
fn r08_a_move_below_many_ancestors_of_another_scope_succeeds() {
    let tracker = Tracker::new("move").unwrap();
    let ancestors: Vec<usize> = (1..700).map(at).collect();
    for round in 0..20 {
        let moved = track(tracker, at(0), 5, &[]);
        let elsewhere = track(tracker, at(600), 100 + round, &[]);
        tracker.move_to(at(0), &ancestors).unwrap();
        assert!(moved.is_live() && !elsewhere.is_live());
        tracker.check_invariants().unwrap();
        tracker.erase(at(699)).unwrap();
        assert!(!moved.is_live());
    }
    tracker.destroy_tracker().unwrap();
}

/// Each of many ancestors is known in another scope.
#[test]
fn r18_many_stale_ancestors_do_not_take_time_for_each_pair() {
    const MANY: usize = 4000;
    let tracker = Tracker::new("many").unwrap();
    let ancestors: Vec<usize> = (1..=MANY).map(at).collect();
    let outermost_first = (0..MANY).rev();
    let stale: Vec<Ref> = outermost_first
        .map(|n| track(tracker, ancestors[n], 1, &ancestors[n + 1..]))
        .collect();
    let start = Instant::now();
    let deep = track(tracker, at(0), 2, &ancestors);
    let time = start.elapsed();
    assert!(deep.is_live() && stale.iter().all(|stale| !stale.is_live()));
    assert!(time < PATIENCE, "{time:?}");
    tracker.destroy_tracker().unwrap();
}

/// Objects that were nested in one another are gone, and something in each of them is left.
#[test]
fn r18_what_is_gone_is_not_passed_again_for_each_object() {
    const DEPTH: usize = 4000;
    let tracker = Tracker::new("gone").unwrap();
    tracker.exact_begin().unwrap();
    let root = track(tracker, at(0), 1, &[]);
    // What encloses an object, nearest first.
    let nested: Vec<usize> = (1..=DEPTH).rev().map(at).chain([at(0)]).collect();
    for n in 0..DEPTH {
        let enclosing = &nested[DEPTH - 1 - n..];
        track(tracker, enclosing[0], 1, &enclosing[1..]);
        track(tracker, at(10_000 + n), 1, enclosing);
        // So many that they are not read in one go.
        track(tracker, at(20_000 + n), 1, &[at(0)]);
    }
    for object in &nested[..DEPTH] {
        tracker.destroy(*object).unwrap();
    }
    let start = Instant::now();
    let mut report = String::new();
    tracker.report(Format::Text, &mut report).unwrap();
    assert_eq!(root.children().unwrap().len(), 2 * DEPTH);
    let time = start.elapsed();
    assert_eq!(report.lines().count(), 2 + 2 * DEPTH);
    assert!(time < PATIENCE, "{time:?}");
    tracker.check_invariants().unwrap();
    tracker.destroy_tracker().unwrap();
}
