// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! What a stripe keeps for itself, which no call shows.

use super::*;
use crate::core::registry;
use crate::core::sync::fork_lock;
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
    let _guard = fork_lock::read();
    question(&stripe(stripe_of(tracker.to_raw(), scope)))
}

/// How many scopes all stripes keep.
fn scopes() -> usize {
    let _guard = fork_lock::read();
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

#[test]
fn r12_a_crowd_of_scopes_loses_none_and_its_memory_is_given_back() {
    const SCOPES: usize = 60_000;
    let tracker = Tracker::new("crowd").unwrap();
    let register = |scope| {
        tracker
            .track(&describe(at(scope), scope as u64, &[]))
            .unwrap()
            .0
    };
    let held: Vec<_> = (0..SCOPES).map(register).collect();
    assert_eq!(scopes(), SCOPES);
    for scope in (0..SCOPES).step_by(2) {
        tracker.clear_scope(scope as u64).unwrap();
    }
    for (scope, held) in held.iter().enumerate() {
        assert_eq!(held.is_live(), scope % 2 == 1);
        assert_eq!(tracker.count(Some(scope as u64), None), Ok(scope % 2));
    }
    tracker.check_invariants().unwrap();
    for scope in (1..SCOPES).step_by(2) {
        tracker.destroy(at(scope)).unwrap();
    }
    // Each stripe has kept its last scope.
    tracker.destroy_tracker().unwrap();
    let room = look(tracker, 0, |stripe| {
        stripe.scopes.capacity() + stripe.free_scopes.capacity()
    });
    assert_eq!((scopes(), room), (0, 0));
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
    tracker.track(&describe(TOP, 5000, &[])).unwrap();
    for scope in 0..1000 {
        let refused = tracker.track(&describe(TOP, scope, &[TOP]));
        assert!(refused.is_err());
    }
    assert!(scopes() <= STRIPES + 1, "after refused moves: {}", scopes());
    tracker.destroy(TOP).unwrap();
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

/// The list of free slots is as long as its count says, and no longer than it may be.
fn check_free_slots(stripe: &Stripe) {
    let first = (stripe.free != NONE).then_some(stripe.free);
    let next = |slot: &Slot| match Node::at(*slot).cold.next.load(Ordering::Relaxed) {
        NONE => None,
        next => Some(next),
    };
    let free = std::iter::successors(first, next).inspect(|slot| {
        let meta = Node::at(*slot).meta();
        assert!(meta.is(State::Free) && meta.stripe() == stripe.number);
    });
    assert_eq!(free.count(), stripe.free_count as usize);
    assert!(stripe.free_count < MOST_FREE + BATCH);
    assert_eq!(stripe.reserved, 0);
}

#[test]
fn r12_free_slots_are_counted_and_few_are_kept() {
    let tracker = Tracker::new("slots").unwrap();
    for round in 0..3 {
        let ancestors: Vec<_> = (10 * round + 1..1000).map(at).collect();
        tracker.track(&describe(TOP, 5, &ancestors)).unwrap();
        look(tracker, 5, check_free_slots);
        // An outer object turns up in another scope.
        tracker
            .track(&describe(at(2000), 6, &ancestors[round..]))
            .unwrap();
        look(tracker, 6, check_free_slots);
        tracker.clear_scope(6).unwrap();
        look(tracker, 6, check_free_slots);
        tracker.destroy(TOP).unwrap();
        look(tracker, 5, check_free_slots);
    }
    tracker.destroy_tracker().unwrap();
}

#[test]
fn a_reserve_has_its_slots_until_it_is_given_back() {
    const SLOTS: u32 = 300;
    let tracker = Tracker::new("reserve").unwrap();
    {
        let open = registry::open(tracker.to_raw()).unwrap();
        let state = open.state();
        let mut stripe = stripe(stripe_of(tracker.to_raw(), 5));
        let mut reserve = stripe.reserve(state, 5, SLOTS).unwrap();
        assert_eq!(reserve.count, SLOTS);
        check_free_slots(&stripe);
        for _ in 0..3 {
            let free = stripe.free_count;
            stripe.use_reserve(&mut reserve);
            assert_eq!((reserve.count, stripe.free_count), (0, free + SLOTS));
            // What an attempt takes, and frees when it has met an object of another scope.
            let taken: Vec<_> = (0..200).map(|_| stripe.take_slot()).collect();
            taken
                .into_iter()
                .for_each(|node| stripe.give_slot_back(node));
            stripe.renew_reserve(&mut reserve, SLOTS);
            assert_eq!(reserve.count, SLOTS);
            check_free_slots(&stripe);
        }
        stripe.give_back(reserve);
        check_free_slots(&stripe);
    }
    tracker.destroy_tracker().unwrap();
    assert_eq!(scopes(), 0);
}
