// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! What a stripe keeps for itself, which no call shows.

use super::*;
use crate::{Description, Tracker};

const TOP: usize = 0x7f00_0000_0000;

fn at(number: usize) -> usize {
    TOP + number * 64
}

fn describe(object: usize, scope: u64, ancestors: &[usize]) -> Description<'_> {
    Description {
        object,
        scope,
        ancestors: Some(ancestors),
        ..Default::default()
    }
}

/// The stripe of a tracker's scope, for one look.
fn look<T>(tracker: Tracker, scope: u64, question: impl FnOnce(&Stripe) -> T) -> T {
    let _guard = crate::core::sync::fork_lock::read();
    question(&stripe(stripe_of(tracker.to_raw(), scope)))
}

/// How many scopes all stripes keep.
fn scopes() -> usize {
    let _guard = crate::core::sync::fork_lock::read();
    let kept = |number| stripe(number).scopes.iter().flatten().count();
    (0..STRIPES as u8).map(kept).sum()
}

#[test]
fn r12_a_long_list_of_ancestors_keeps_no_memory() {
    let tracker = Tracker::new("ancestors").unwrap();
    let ancestors: Vec<_> = (1..5000).map(at).collect();
    tracker.track(&describe(TOP, 5, &ancestors)).unwrap();
    // The next call that leaves a place gives it back.
    tracker.detach(TOP).unwrap();
    assert!(look(tracker, 5, |stripe| stripe.path.capacity()) <= 1000);
    tracker.destroy_tracker().unwrap();
}

#[test]
fn r12_many_parts_that_end_keep_no_memory() {
    let tracker = Tracker::new("parts").unwrap();
    for number in 1..5000 {
        tracker.track(&describe(at(number), 5, &[TOP])).unwrap();
    }
    tracker.destroy_with(TOP, 1).unwrap();
    assert_eq!(tracker.stats().unwrap().tracked, 0);
    assert!(look(tracker, 5, |stripe| stripe.touched.capacity()) <= 1000);
    tracker.destroy_tracker().unwrap();
}

/// A stripe keeps one empty scope at most.
#[test]
fn r12_scopes_that_come_and_go_are_not_kept() {
    let tracker = Tracker::new("scopes").unwrap();
    for scope in 0..1000 {
        let refused = tracker.track(&describe(TOP, scope, &[TOP]));
        assert!(refused.is_err());
    }
    assert!(scopes() <= STRIPES, "after refused calls: {}", scopes());
    for scope in 0..1000 {
        tracker.track(&describe(TOP, scope, &[at(1)])).unwrap();
        tracker.destroy(TOP).unwrap();
    }
    assert!(scopes() <= STRIPES, "after objects: {}", scopes());
    for scope in 0..1000 {
        tracker.track(&describe(TOP, scope, &[])).unwrap();
    }
    // Each found its object in another scope, which is empty after that.
    assert!(scopes() <= STRIPES + 1, "after moves: {}", scopes());
    tracker.destroy_tracker().unwrap();
    assert_eq!(scopes(), 0, "after the tracker");
}
