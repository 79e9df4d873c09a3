// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Objects that turn up in another scope than the one in which they are known, with long lists of
//! ancestors.

use live_object_tracker::{Cause, Description, Ref, Tracker};

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
