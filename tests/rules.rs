// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The rules of the contract through the Rust interface; a test's name begins with its rule. Addresses are
//! made up: the tracker never follows one, so an accidental read would crash the test.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use live_object_tracker::{
    Attribution, Cause, Death, Description, End, ErrorKind, Format, Ref, Tracker, Visit,
    set_death_log_capacity,
};

/// A tracker that ends with the test.
struct Owned(Tracker);

impl Drop for Owned {
    fn drop(&mut self) {
        let _ = self.0.destroy_tracker();
    }
}

impl std::ops::Deref for Owned {
    type Target = Tracker;
    fn deref(&self) -> &Tracker {
        &self.0
    }
}

fn tracker() -> Owned {
    Owned(Tracker::new("test").unwrap())
}

fn at(number: usize) -> usize {
    0x7f00_0000_0000 + number * 64
}

const SCOPE: u64 = 77;

impl Owned {
    fn place(&self, object: usize, ancestors: &[usize]) -> Ref {
        let description = Description {
            object,
            scope: SCOPE,
            ancestors: Some(ancestors),
            ..Default::default()
        };
        self.track(&description).unwrap().0
    }

    fn renew(&self, object: usize, ancestors: &[usize]) -> Ref {
        let description = Description {
            object,
            scope: SCOPE,
            ancestors: Some(ancestors),
            ..Default::default()
        };
        self.create(&description).unwrap()
    }
}

fn death(dead: Ref) -> Death {
    dead.death().expect("a recent death is on record")
}

#[test]
fn r01_a_dead_ref_stays_dead_when_its_address_is_used_again() {
    let tracker = tracker();
    let mut dead = Vec::new();
    for _ in 0..100 {
        let live = tracker.place(at(1), &[]);
        assert!(live.is_live());
        assert!(dead.iter().all(|old: &Ref| !old.is_live() && *old != live));
        tracker.erase(at(1)).unwrap();
        assert!(!live.is_live());
        dead.push(live);
    }
}

#[test]
fn r01_a_live_ref_is_never_refused_by_what_happens_to_others() {
    let tracker = tracker();
    let held = tracker.place(at(1), &[at(100), at(200)]);
    for round in 0..1000 {
        let other = tracker.place(at(2 + round % 7), &[at(100), at(200)]);
        assert!(held.is_live());
        match round % 3 {
            0 => tracker.erase(other.object).unwrap(),
            1 => tracker.destroy(other.object).unwrap(),
            _ => other.release().unwrap(),
        }
        assert!(held.is_live() && !other.is_live());
    }
}

#[test]
fn r02_epochs_are_unique_over_trackers_and_threads() {
    let trackers = [tracker(), tracker()];
    let per_thread = 20_000;
    let lists: Vec<Vec<u64>> = thread::scope(|scope| {
        let spawn = |number: usize| {
            let tracker = *trackers[number % 2];
            scope.spawn(move || {
                let mut epochs = Vec::new();
                for round in 0..per_thread {
                    let object = at(number * 100 + round % 50);
                    let scope = (number / 2) as u64;
                    let description = Description {
                        object,
                        scope,
                        ..Default::default()
                    };
                    let created = tracker.create(&description).unwrap();
                    epochs.push(created.epoch);
                }
                epochs
            })
        };
        let threads: Vec<_> = (0..8).map(spawn).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    let all: HashSet<u64> = lists.iter().flatten().copied().collect();
    assert_eq!(all.len(), 8 * per_thread);
    assert!(!all.contains(&0));
}

#[test]
fn r03_made_up_refs_are_dead() {
    let tracker = tracker();
    // Addresses that no other test uses: a ref of theirs may be on record.
    let live = tracker.place(at(71), &[at(72)]);
    assert!(!Ref::NULL.is_live());
    for bit in 0..64 {
        let wrong_epoch = Ref {
            epoch: live.epoch ^ 1 << bit,
            ..live
        };
        let wrong_object = Ref {
            object: live.object ^ 1 << bit,
            ..live
        };
        assert!(!wrong_epoch.is_live() && !wrong_object.is_live());
        for reference in [wrong_epoch, wrong_object] {
            assert_eq!(reference.release().unwrap_err().kind(), ErrorKind::DeadRef);
            assert_eq!(reference.user().unwrap_err().kind(), ErrorKind::DeadRef);
            assert!(reference.death().is_none());
        }
    }
    // An untracked ancestor is in the table too, but has no epoch that anybody was given.
    for epoch in (live.epoch - 300..live.epoch + 300).chain(0..2000) {
        assert!(
            !Ref {
                object: at(72),
                epoch
            }
            .is_live()
        );
        assert!(!Ref { object: 0, epoch }.is_live());
    }
    let mut bits = 0x1234_5678_9abc_def1_u64;
    for _ in 0..1_000_000 {
        bits ^= bits << 13;
        bits ^= bits >> 7;
        bits ^= bits << 17;
        assert!(
            !Ref {
                object: live.object,
                epoch: bits
            }
            .is_live()
                || bits == live.epoch
        );
    }
    assert!(live.is_live());
    live.release().unwrap();
    for bit in 0..64 {
        let wrong_epoch = Ref {
            epoch: live.epoch ^ 1 << bit,
            ..live
        };
        assert!(!wrong_epoch.is_live());
    }
}

#[test]
fn r03_refs_of_a_destroyed_tracker_are_dead() {
    let tracker = tracker();
    let held: Vec<Ref> = (0..500)
        .map(|n| tracker.place(at(n), &[at(1000)]))
        .collect();
    let dead = tracker.place(at(600), &[]);
    tracker.erase(at(600)).unwrap();
    tracker.destroy_tracker().unwrap();
    assert!(held.iter().all(|old| !old.is_live()));
    assert_eq!(death(held[0]).cause, Cause::ScopeCleared);
    assert_eq!(death(dead).cause, Cause::Erased, "the first cause wins");
}

#[test]
fn r04_erase_and_parent_destroy_end_everything_below() {
    for by_erase in [true, false] {
        let tracker = tracker();
        let top = tracker.place(at(1), &[]);
        let middle = tracker.place(at(2), &[at(1)]);
        let bottom = tracker.place(at(3), &[at(9), at(2), at(1)]);
        let beside = tracker.place(at(4), &[]);
        if by_erase {
            tracker.erase(at(1)).unwrap()
        } else {
            tracker.parent_destroy(at(1)).unwrap()
        }
        assert!(!top.is_live() && !middle.is_live() && !bottom.is_live());
        assert!(beside.is_live());
        let own = if by_erase {
            Cause::Erased
        } else {
            Cause::Destroyed
        };
        assert_eq!((death(top).cause, death(top).by), (own, Ref::NULL));
        for below in [middle, bottom] {
            assert_eq!(
                (death(below).cause, death(below).by),
                (Cause::AncestorDestroyed, top)
            );
        }
    }
}

#[test]
fn r04_the_erased_object_need_not_be_tracked() {
    let tracker = tracker();
    let below = tracker.place(at(3), &[at(2), at(1)]);
    tracker.erase(at(1)).unwrap();
    assert!(!below.is_live());
    assert_eq!(
        death(below).by,
        Ref {
            object: at(1),
            epoch: 0
        }
    );
}

#[test]
fn r05_below_holds_in_whichever_order_objects_were_tracked() {
    let ancestors = [at(1), at(2), at(3), at(4)];
    // Every order of tracking the object and its two tracked ancestors, with two that nobody tracks between.
    for order in [
        [0, 2, 4],
        [0, 4, 2],
        [2, 0, 4],
        [2, 4, 0],
        [4, 0, 2],
        [4, 2, 0],
    ] {
        let tracker = tracker();
        let chain = [
            at(0),
            ancestors[0],
            ancestors[1],
            ancestors[2],
            ancestors[3],
        ];
        let refs: HashMap<usize, Ref> = order
            .iter()
            .map(|n| (*n, tracker.place(chain[*n], &chain[n + 1..])))
            .collect();
        assert!(refs.values().all(|held| held.is_live()));
        tracker.erase(chain[3]).unwrap(); // Untracked, between 2 and 4.
        assert!(
            !refs[&0].is_live() && !refs[&2].is_live() && refs[&4].is_live(),
            "{order:?}"
        );
    }
}

#[test]
fn r05_tracking_an_outer_object_later_loses_nothing() {
    let tracker = tracker();
    let inner = tracker.place(at(1), &[at(2), at(3)]);
    let outer = tracker.place(at(3), &[]);
    assert!(inner.is_live() && outer.is_live());
    assert_eq!(inner.parent().unwrap(), Some(outer));
    assert_eq!(outer.children().unwrap(), [(inner, 0)]);
    tracker.erase(at(3)).unwrap();
    assert!(!inner.is_live() && !outer.is_live());
}

#[test]
fn r05_what_is_below_stays_below_when_something_between_goes() {
    let tracker = tracker();
    let outer = tracker.place(at(3), &[]);
    let between = tracker.place(at(2), &[at(3)]);
    let inner = tracker.place(at(1), &[at(2), at(3)]);
    between.release().unwrap();
    assert_eq!(
        inner.parent().unwrap(),
        Some(outer),
        "through the one that was released"
    );
    tracker.destroy(at(2)).unwrap();
    assert_eq!(
        inner.parent().unwrap(),
        Some(outer),
        "past the one that was destroyed"
    );
    tracker.erase(at(3)).unwrap();
    assert!(!inner.is_live());
}

/// What stays in the place of a destroyed object is nobody's: not the next object's at its address, and not null's.
#[test]
fn r05_a_new_object_does_not_inherit_what_was_below_the_old_one() {
    let tracker = tracker();
    let survivor = tracker.place(at(1), &[at(2), at(3), at(4)]);
    let outer = tracker.place(at(4), &[]);
    tracker.destroy(at(2)).unwrap();
    tracker.destroy(at(3)).unwrap();
    assert_eq!(survivor.parent().unwrap(), Some(outer));
    assert_eq!(outer.children().unwrap(), [(survivor, 0)]);
    assert_eq!(tracker.stats().unwrap().anchors, 0);
    let mut text = String::new();
    tracker.report(Format::Text, &mut text).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert!(
        lines[0].ends_with("2 tracked, 0 anchors") && lines.len() == 3,
        "{text}"
    );
    assert!(
        lines[2].starts_with(&format!("    {:#x} ", at(1))),
        "{text}"
    );

    // New objects at the old addresses, one of them below the same one.
    let new = tracker.renew(at(2), &[at(4)]);
    let untracked_parent = tracker.place(at(5), &[at(3), at(4)]);
    tracker.erase(at(2)).unwrap();
    tracker.erase(at(3)).unwrap();
    assert!(!new.is_live() && !untracked_parent.is_live() && survivor.is_live());

    let nulls = Description {
        object: at(1),
        scope: SCOPE,
        ancestors: Some(&[0, 0, at(4)]),
        ..Default::default()
    };
    let error = tracker.track(&nulls).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);

    // The survivor is inside of a new object now, at an old address.
    assert_eq!(tracker.place(at(1), &[at(2), at(4)]), survivor);
    tracker.erase(at(2)).unwrap();
    assert!(!survivor.is_live() && outer.is_live());
    outer.release().unwrap();
    let stats = tracker.stats().unwrap();
    assert_eq!((stats.tracked, stats.anchors), (0, 0));
}

#[test]
fn r05_the_ancestors_last_reported_count() {
    let tracker = tracker();
    let inner = tracker.place(at(1), &[at(2), at(3)]);
    assert_eq!(
        tracker.place(at(1), &[at(4)]),
        inner,
        "another report of a live object"
    );
    tracker.erase(at(3)).unwrap();
    tracker.erase(at(2)).unwrap();
    assert!(inner.is_live());
    tracker.erase(at(4)).unwrap();
    assert!(!inner.is_live());
}

#[test]
fn r06_create_on_a_live_address_ends_the_old_incarnation_and_what_was_below() {
    let tracker = tracker();
    let old = tracker.place(at(1), &[]);
    let below = tracker.place(at(2), &[at(1)]);
    let new = tracker.renew(at(1), &[]);
    assert!(!old.is_live() && !below.is_live() && new.is_live());
    assert_eq!(death(old).cause, Cause::MissedEnd);
    assert_eq!(
        (death(below).cause, death(below).by),
        (Cause::MissedEnd, old)
    );
    assert_eq!(tracker.stats().unwrap().missed_ends, 2);
    assert!(new.children().unwrap().is_empty());
}

#[test]
fn r06_create_on_an_untracked_ancestor_ends_what_was_below_it() {
    let tracker = tracker();
    let below = tracker.place(at(2), &[at(1)]);
    let new = tracker.renew(at(1), &[]);
    assert!(!below.is_live() && new.is_live());
    assert_eq!(death(below).cause, Cause::MissedEnd);
}

#[test]
fn r06_an_address_that_turns_up_elsewhere_was_another_object() {
    let tracker = tracker();
    let old = tracker.place(at(1), &[]);
    let below = tracker.place(at(5), &[at(1)]);
    let elsewhere = Description {
        object: at(1),
        scope: SCOPE + 1,
        ..Default::default()
    };
    let (new, _) = tracker.track(&elsewhere).unwrap();
    assert!(!old.is_live() && !below.is_live() && new.is_live());
    assert_eq!(death(old).cause, Cause::MissedEnd);

    let other_kind = Description {
        object: at(1),
        scope: SCOPE + 1,
        kind: 3,
        ..Default::default()
    };
    let (newer, _) = tracker.track(&other_kind).unwrap();
    assert!(!new.is_live() && newer.is_live());

    // As an ancestor, in a third scope.
    let ancestors = [at(1)];
    let child = Description {
        object: at(6),
        scope: SCOPE + 2,
        ancestors: Some(&ancestors),
        ..Default::default()
    };
    let (child, _) = tracker.track(&child).unwrap();
    assert!(!newer.is_live() && child.is_live());
    assert_eq!(tracker.stats().unwrap().missed_ends, 4);
}

/// So deep that the stripe gives slots back while the call is under way that has set some aside.
#[test]
fn r06_an_outer_object_of_a_deep_place_turns_up_elsewhere() {
    let tracker = tracker();
    let old = tracker.place(at(1), &[]);
    let ancestors: Vec<_> = (100..600).chain([1]).map(at).collect();
    let description = Description {
        object: at(2),
        scope: SCOPE + 1,
        ancestors: Some(&ancestors),
        ..Default::default()
    };
    let (new, _) = tracker.track(&description).unwrap();
    assert!(!old.is_live() && new.is_live());
    assert_eq!(tracker.find(at(2)).unwrap().0, new);
    assert_eq!(tracker.stats().unwrap().anchors, ancestors.len());
    tracker.check_invariants().unwrap();
    tracker.erase(at(1)).unwrap();
    assert!(!new.is_live());
}

#[test]
fn r07_destroy_ends_the_object_alone() {
    let tracker = tracker();
    let top = tracker.place(at(1), &[]);
    let middle = tracker.place(at(2), &[at(1)]);
    let bottom = tracker.place(at(3), &[at(2), at(1)]);
    tracker.destroy(at(2)).unwrap();
    assert!(top.is_live() && !middle.is_live() && bottom.is_live());
    assert_eq!(death(middle).cause, Cause::Destroyed);
    assert_eq!(tracker.find(at(2)).unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn r07_destroy_with_takes_the_parts_of_the_named_kinds_along() {
    let tracker = tracker();
    let part = |n: usize, kind: u8| {
        let ancestors = [at(1)];
        let ancestors = Some(&ancestors[..]);
        let description = Description {
            object: at(n),
            scope: SCOPE,
            kind,
            ancestors,
            ..Default::default()
        };
        tracker.track(&description).unwrap().0
    };
    let whole = tracker.place(at(1), &[]);
    let (argument, operation) = (part(2, 2), part(3, 0));
    tracker.destroy_with(at(1), 1 << 2).unwrap();
    assert!(!whole.is_live() && !argument.is_live() && operation.is_live());
    assert_eq!(
        (death(argument).cause, death(argument).by),
        (Cause::AncestorDestroyed, whole)
    );
}

#[test]
fn r08_a_moved_object_follows_its_new_parent_only() {
    let tracker = tracker();
    let moved = tracker.place(at(1), &[at(10), at(20)]);
    let below = tracker.place(at(2), &[at(1), at(10), at(20)]);
    tracker.move_to(at(1), &[at(11), at(21)]).unwrap();
    tracker.erase(at(20)).unwrap();
    tracker.erase(at(10)).unwrap();
    assert!(moved.is_live() && below.is_live());
    tracker.erase(at(21)).unwrap();
    assert!(!moved.is_live() && !below.is_live());
}

#[test]
fn r08_a_detached_object_follows_no_parent() {
    let tracker = tracker();
    let detached = tracker.place(at(1), &[at(10)]);
    let below = tracker.place(at(2), &[at(1), at(10)]);
    tracker.detach(at(1)).unwrap();
    tracker.erase(at(10)).unwrap();
    assert!(detached.is_live() && below.is_live());
    tracker.erase(at(1)).unwrap();
    assert!(!detached.is_live() && !below.is_live());
}

#[test]
fn r08_turning_a_tree_upside_down_makes_no_cycle() {
    let tracker = tracker();
    let [a, b, c] = [at(1), at(2), at(3)];
    let refs = [
        tracker.place(a, &[]),
        tracker.place(b, &[a]),
        tracker.place(c, &[b, a]),
    ];
    tracker.move_to(a, &[c, b]).unwrap();
    assert_eq!(refs[0].parent().unwrap(), Some(refs[2]));
    assert_eq!(refs[2].parent().unwrap(), Some(refs[1]));
    assert_eq!(refs[1].parent().unwrap(), None);
    for (object, ancestors) in [(a, &[b, a][..]), (a, &[b, b]), (a, &[0])] {
        let refused = tracker.move_to(object, ancestors).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    }
    let long: Vec<usize> = (100..200).chain([150]).map(at).collect();
    let refused = tracker.move_to(a, &long).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    assert_eq!(
        refs[0].parent().unwrap(),
        Some(refs[2]),
        "a refused call changes nothing"
    );
    tracker.erase(b).unwrap();
    assert!(refs.iter().all(|end| !end.is_live()));
}

#[test]
fn r09_an_opaque_mutation_ends_what_is_strictly_below() {
    let tracker = tracker();
    let root = tracker.place(at(1), &[at(9)]);
    let below = tracker.place(at(2), &[at(7), at(1), at(9)]);
    let beside = tracker.place(at(3), &[at(9)]);
    tracker.opaque_mutation(at(1)).unwrap();
    assert!(root.is_live() && !below.is_live() && beside.is_live());
    assert_eq!(
        (death(below).cause, death(below).by),
        (Cause::OpaqueMutation, root)
    );

    tracker.exact_begin().unwrap();
    tracker.opaque_mutation(at(9)).unwrap();
    assert!(
        root.is_live() && beside.is_live(),
        "an exact source is active"
    );
    tracker.exact_end().unwrap();
    tracker.opaque_mutation(at(9)).unwrap();
    assert!(!root.is_live() && !beside.is_live());
}

#[test]
fn r10_in_exact_mode_only_its_own_destruction_ends_an_object() {
    let tracker = tracker();
    tracker.exact_begin().unwrap();
    assert!(tracker.is_exact());
    let parent = tracker.place(at(1), &[]);
    let child = tracker.place(at(2), &[at(1)]);
    tracker.opaque_mutation(at(1)).unwrap();
    assert!(parent.is_live() && child.is_live());
    // A pass may have moved the child elsewhere, unseen: the erasure of its last known parent says nothing.
    tracker.erase(at(1)).unwrap();
    assert!(!parent.is_live() && child.is_live());
    tracker.destroy(at(2)).unwrap();
    assert!(!child.is_live());
    tracker.exact_end().unwrap();
    assert!(!tracker.is_exact());
    assert_eq!(
        tracker.exact_end().unwrap_err().kind(),
        ErrorKind::NotActive
    );
}

#[test]
fn r10_sources_nest() {
    let tracker = tracker();
    tracker.exact_begin().unwrap();
    tracker.exact_begin().unwrap();
    tracker.exact_end().unwrap();
    assert!(tracker.is_exact());
    tracker.exact_end().unwrap();
    assert!(!tracker.is_exact());
}

#[test]
fn r11_hooks_are_idempotent_and_unknown_addresses_are_ordinary() {
    let tracker = tracker();
    let held = tracker.place(at(1), &[at(2)]);
    for object in [at(50), usize::MAX, 1] {
        tracker.erase(object).unwrap();
        tracker.parent_destroy(object).unwrap();
        tracker.destroy(object).unwrap();
        tracker.destroy_with(object, u32::MAX).unwrap();
        tracker.move_to(object, &[at(51)]).unwrap();
        tracker.detach(object).unwrap();
        tracker.opaque_mutation(object).unwrap();
    }
    tracker.clear_scope(SCOPE + 9).unwrap();
    assert!(held.is_live());
    assert_eq!(
        tracker.stats().unwrap().anchors,
        1,
        "a hook makes nothing known"
    );
    for _ in 0..2 {
        tracker.erase(at(2)).unwrap();
        tracker.destroy(at(1)).unwrap();
    }
    assert_eq!(death(held).cause, Cause::AncestorDestroyed);
    assert_eq!(tracker.stats().unwrap().ended, 1);
}

#[test]
fn r12_slots_and_ancestors_go_when_nothing_needs_them() {
    let tracker = tracker();
    let ancestors: Vec<usize> = (10..20).map(at).collect();
    let held = [
        tracker.place(at(1), &ancestors),
        tracker.place(at(2), &ancestors[3..]),
    ];
    assert_eq!(tracker.stats().unwrap().anchors, 10);
    held[0].release().unwrap();
    assert_eq!(tracker.stats().unwrap().anchors, 7);
    tracker.detach(at(2)).unwrap();
    assert_eq!(tracker.stats().unwrap().anchors, 0);
    tracker.move_to(at(2), &ancestors).unwrap();
    tracker.destroy(at(2)).unwrap();
    assert_eq!(tracker.stats().unwrap().anchors, 0);

    // A slot is used again: its number is in the low half of the epoch.
    let slots: HashSet<u32> = (0..10_000)
        .map(|n| {
            let held = tracker.place(at(n), &[at(n + 1)]);
            tracker.erase(at(n)).unwrap();
            held.epoch as u32
        })
        .collect();
    assert!(
        slots.len() <= 4,
        "{} slots for one object at a time",
        slots.len()
    );
}

#[test]
fn r13_the_first_cause_wins_and_old_deaths_become_unknown_never_wrong() {
    let tracker = tracker();
    let first = tracker.place(at(1), &[]);
    tracker.erase(at(1)).unwrap();
    tracker.destroy(at(1)).unwrap();
    tracker.clear_scope(SCOPE).unwrap();
    assert_eq!(death(first).cause, Cause::Erased);

    // The same slot, over and over: each incarnation keeps its own cause, until it is forgotten.
    set_death_log_capacity(4096).unwrap();
    let mut refs = Vec::new();
    for round in 0..10_000 {
        let held = tracker.place(at(1), &[]);
        match round % 3 {
            0 => tracker.erase(at(1)).unwrap(),
            1 => tracker.destroy(at(1)).unwrap(),
            _ => held.release().unwrap(),
        }
        refs.push(held);
    }
    let mut known = 0;
    for (round, dead) in refs.iter().enumerate() {
        if let Some(death) = dead.death() {
            let causes = [Cause::Erased, Cause::Destroyed, Cause::Released];
            assert_eq!(death.cause, causes[round % 3]);
            known += 1;
        } else {
            assert_eq!(known, 0, "what is forgotten is older than what is known");
        }
    }
    assert!((4_032..=4_096).contains(&known), "{known} on record");
    assert!(first.death().is_none());
}

#[test]
fn r13_deaths_say_when_and_what_kind() {
    let tracker = tracker();
    let description = Description {
        object: at(1),
        kind: 5,
        ..Default::default()
    };
    let (early, _) = tracker.track(&description).unwrap();
    assert!(early.death().is_none(), "it is live");
    tracker.erase(at(1)).unwrap();
    thread::sleep(Duration::from_millis(30));
    let (late, _) = tracker.track(&description).unwrap();
    late.release().unwrap();
    assert_eq!((death(early).kind, death(late).cause), (5, Cause::Released));
    let apart = death(late).time_ns - death(early).time_ns;
    assert!(
        (20_000_000..10_000_000_000).contains(&apart),
        "{apart} ns apart"
    );
}

#[test]
fn r13_an_attribution_says_what_reported_ends_are_due_to() {
    let tracker = tracker();
    tracker.exact_begin().unwrap();
    let root = tracker.place(at(1), &[]);
    let refs: Vec<Ref> = (2..6).map(|n| tracker.place(at(n), &[at(1)])).collect();
    let outer = Attribution {
        by: root,
        cause: Cause::AncestorDestroyed,
    };
    let before = outer.enter();
    assert_eq!(before, Attribution::NONE);
    tracker.destroy(at(2)).unwrap();
    let inner = Attribution {
        by: root,
        cause: Cause::Destroyed,
    }
    .enter();
    tracker.destroy(at(3)).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| tracker.destroy(at(4)).unwrap());
    });
    Attribution::leave(inner);
    tracker.destroy(at(1)).unwrap();
    Attribution::leave(before);
    tracker.destroy(at(5)).unwrap();
    assert_eq!(
        (death(refs[0]).cause, death(refs[0]).by),
        (Cause::AncestorDestroyed, root)
    );
    assert_eq!(
        (death(refs[1]).cause, death(refs[1]).by),
        (Cause::Destroyed, root)
    );
    assert_eq!(
        death(refs[2]).by,
        Ref::NULL,
        "another thread's reports are not due to it"
    );
    assert_eq!(
        (death(root).cause, death(root).by),
        (Cause::Erased, Ref::NULL)
    );
    assert_eq!(
        (death(refs[3]).cause, death(refs[3]).by),
        (Cause::Destroyed, Ref::NULL)
    );
}

#[test]
fn r14_counts_are_exact() {
    let tracker = tracker();
    let make = |n: usize, scope: u64, kind: u8| {
        let ancestors = [at(5000 + scope as usize)];
        let ancestors = Some(&ancestors[..]);
        let description = Description {
            object: at(n),
            scope,
            kind,
            ancestors,
            ..Default::default()
        };
        tracker.track(&description).unwrap().0
    };
    let refs: Vec<Ref> = (0..1000)
        .map(|n| make(n, n as u64 % 5, (n % 3) as u8))
        .collect();
    let count = |scope, kind| tracker.count(scope, kind).unwrap();
    let expect = |scope: Option<u64>, kind: Option<u8>, alive: &dyn Fn(usize) -> bool| {
        let fits = |n: &usize| {
            scope.is_none_or(|scope| *n as u64 % 5 == scope)
                && kind.is_none_or(|kind| *n % 3 == kind as usize)
        };
        (0..1000).filter(fits).filter(|n| alive(*n)).count()
    };
    let check = |alive: &dyn Fn(usize) -> bool| {
        for scope in [None, Some(0), Some(1), Some(4), Some(99)] {
            for kind in [None, Some(0), Some(2), Some(9)] {
                assert_eq!(
                    count(scope, kind),
                    expect(scope, kind, alive),
                    "{scope:?} {kind:?}"
                );
                let mut seen = HashSet::new();
                let visit = |found: Ref, _| {
                    assert!(found.is_live() && seen.insert(found));
                    Visit::Continue
                };
                tracker.for_each(scope, kind, visit).unwrap();
                assert_eq!(seen.len(), expect(scope, kind, alive));
            }
        }
        assert_eq!(tracker.stats().unwrap().tracked, expect(None, None, alive));
    };
    check(&|_| true);
    tracker.erase(at(5001)).unwrap();
    check(&|n| n % 5 != 1);
    refs[0].release().unwrap();
    tracker.destroy(at(2)).unwrap();
    check(&|n| n % 5 != 1 && n != 0 && n != 2);
    tracker.clear_scope(4).unwrap();
    check(&|n| n % 5 != 1 && n % 5 != 4 && n != 0 && n != 2);
    let stats = tracker.stats().unwrap();
    assert_eq!(
        (stats.created, stats.ended + stats.released),
        (1000, 1000 - stats.tracked as u64)
    );
    assert_eq!(
        tracker.count(None, Some(16)).unwrap_err().kind(),
        ErrorKind::InvalidArgument
    );
}

/// So much that it is read slot by slot, and that the table grows.
#[test]
fn r14_large_scopes_are_listed_completely() {
    const OTHER_SCOPE: u64 = SCOPE + 1;
    let (tracker, other) = (tracker(), tracker());
    let top = tracker.place(at(0), &[]);
    let (mut below, mut aside) = (HashSet::new(), HashSet::new());
    for number in 1..=70_000 {
        let description = Description {
            object: at(number),
            scope: SCOPE,
            kind: (number % 2) as u8,
            ancestors: Some(&[at(0)]),
            user: number,
        };
        below.insert((tracker.create(&description).unwrap(), number));
        other.place(at(number), &[at(0)]);
    }
    for number in 70_001..75_000 {
        let description = Description {
            object: at(number),
            scope: OTHER_SCOPE,
            user: number,
            ..Default::default()
        };
        aside.insert((tracker.create(&description).unwrap(), number));
    }
    // Below something else than the top.
    tracker.place(at(80_000), &[]);
    tracker.place(at(80_001), &[at(1), at(0)]);
    let visited = |scope, kind| {
        let mut visited = HashSet::new();
        let visit = |tracked, user| {
            assert!(visited.insert((tracked, user)), "it was visited twice");
            Visit::Continue
        };
        tracker.for_each(scope, kind, visit).unwrap();
        visited
    };
    assert_eq!(visited(None, None).len(), 1 + 70_000 + 4_999 + 2);
    assert_eq!(visited(Some(OTHER_SCOPE), None), aside);
    assert_eq!(visited(Some(SCOPE), None).len(), 1 + 70_000 + 2);
    let odd = below.iter().filter(|(_, number)| number % 2 == 1).copied();
    assert_eq!(visited(Some(SCOPE), Some(1)), odd.collect());
    let children = top.children().unwrap();
    assert_eq!(children.len(), below.len());
    assert_eq!(children.into_iter().collect::<HashSet<_>>(), below);
    let mut report = String::new();
    tracker.report(Format::Json, &mut report).unwrap();
    assert_eq!(report.matches("\"epoch\"").count(), 1 + 70_000 + 4_999 + 2);

    tracker.clear_scope(OTHER_SCOPE).unwrap();
    assert!(aside.iter().all(|(end, _)| !end.is_live()));
    tracker.erase(at(0)).unwrap();
    assert!(below.iter().all(|(end, _)| !end.is_live()));
    assert_eq!(top.children(), Err(live_object_tracker::Error::DEAD_REF));
    assert_eq!(tracker.count(None, None), Ok(1));
    assert_eq!(other.count(None, None), Ok(70_000));
}

#[test]
fn r14_counts_are_exact_after_threads_have_met() {
    let tracker = tracker();
    thread::scope(|scope| {
        for number in 0..4_usize {
            let tracker = *tracker;
            scope.spawn(move || {
                for round in 0..5000 {
                    let object = at(number * 1000 + round % 10);
                    // Two threads share each scope.
                    let scope = number as u64 / 2;
                    let description = Description {
                        object,
                        scope,
                        ..Default::default()
                    };
                    tracker.create(&description).unwrap();
                }
            });
        }
    });
    assert_eq!(tracker.count(None, None).unwrap(), 40);
    assert_eq!(tracker.count(Some(0), None).unwrap(), 20);
    let stats = tracker.stats().unwrap();
    assert_eq!((stats.created, stats.missed_ends), (20_000, 20_000 - 40));
}

#[test]
fn r15_observers_run_after_the_change_and_may_call_the_tracker() {
    let tracker = tracker();
    let seen: Arc<Mutex<Vec<End>>> = Arc::default();
    let inside = *tracker;
    let record = Arc::clone(&seen);
    let observer = move |ends: &[End]| {
        for end in ends {
            assert!(!end.reference.is_live());
            assert!(inside.find(end.reference.object).is_err());
            assert_eq!(end.reference.death(), Some(end.death));
            // The wildest thing: track something from within, in the same scope, and release it.
            let description = Description {
                object: at(999),
                scope: SCOPE,
                ..Default::default()
            };
            let (held, _) = inside.track(&description).unwrap();
            if record.lock().unwrap().len() < 100 {
                record.lock().unwrap().push(*end);
                held.release().unwrap(); // Comes back here.
            }
        }
    };
    tracker.set_observer(Some(Arc::new(observer))).unwrap();
    let ancestors = [at(2)];
    let description = Description {
        object: at(1),
        scope: SCOPE,
        ancestors: Some(&ancestors),
        user: 42,
        ..Default::default()
    };
    let (held, _) = tracker.track(&description).unwrap();
    tracker.erase(at(2)).unwrap();
    tracker.set_observer(None).unwrap();
    tracker.place(at(1), &[]).release().unwrap();
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len(), 100);
    assert_eq!(
        (seen[0].reference, seen[0].user, seen[0].scope),
        (held, 42, SCOPE)
    );
    assert!(
        seen[1..]
            .iter()
            .all(|end| end.death.cause == Cause::Released)
    );
}

/// Also on a thread that the observer was called on before.
#[test]
fn r15_taking_an_observer_back_waits_for_its_calls_on_other_threads() {
    let tracker = tracker();
    let (first, slow) = (at(1), at(2));
    tracker.place(first, &[]);
    tracker.place(slow, &[]);
    let (is_inside, may_go) = (Arc::new(Barrier::new(2)), Arc::new(Barrier::new(2)));
    let is_done = Arc::new(AtomicBool::new(false));
    let (inside, go, done) = (is_inside.clone(), may_go.clone(), is_done.clone());
    let observer = move |ends: &[End]| {
        if ends[0].reference.object == slow {
            inside.wait();
            go.wait();
            thread::sleep(Duration::from_millis(100));
            done.store(true, Ordering::SeqCst);
        }
    };
    tracker.set_observer(Some(Arc::new(observer))).unwrap();
    tracker.destroy(first).unwrap();
    let handle = Tracker::clone(&tracker);
    let ending = thread::spawn(move || handle.destroy(slow).unwrap());
    is_inside.wait();
    may_go.wait();
    tracker.set_observer(None).unwrap();
    assert!(is_done.load(Ordering::SeqCst), "the observer still runs");
    ending.join().unwrap();
}

#[test]
fn r15_the_end_of_a_tracker_is_observed() {
    let tracker = tracker();
    let count = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&count);
    let observer = move |ends: &[End]| {
        counter.fetch_add(ends.len(), Ordering::Relaxed);
    };
    tracker.set_observer(Some(Arc::new(observer))).unwrap();
    for n in 0..10 {
        tracker.place(at(n), &[]);
    }
    tracker.destroy_tracker().unwrap();
    assert_eq!(count.load(Ordering::Relaxed), 10);
}

#[test]
fn r16_a_user_pointer_is_found_by_address() {
    let tracker = tracker();
    let description = Description {
        object: at(1),
        user: 0xcafe,
        ..Default::default()
    };
    let (held, user) = tracker.track(&description).unwrap();
    assert_eq!(user, 0xcafe);
    let again = Description {
        user: 0xbeef,
        ..description
    };
    assert_eq!(
        tracker.track(&again).unwrap(),
        (held, 0xcafe),
        "the one that is there"
    );
    assert_eq!(tracker.find(at(1)).unwrap(), (held, 0xcafe));
    held.set_user(0xf00d).unwrap();
    assert_eq!(held.user().unwrap(), 0xf00d);
    tracker.erase(at(1)).unwrap();
    assert_eq!(tracker.find(at(1)).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(held.user().unwrap_err().kind(), ErrorKind::DeadRef);
    assert_eq!(held.set_user(1).unwrap_err().kind(), ErrorKind::DeadRef);
    let (new, user) = tracker.track(&again).unwrap();
    assert_eq!((new.user().unwrap(), user), (0xbeef, 0xbeef));
}

#[test]
fn r17_misuse_is_refused_and_changes_nothing() {
    let tracker = tracker();
    let held = tracker.place(at(1), &[at(2)]);
    let refuse = |description: Description| tracker.track(&description).unwrap_err().kind();
    let good = Description {
        object: at(3),
        scope: SCOPE,
        ..Default::default()
    };
    assert_eq!(
        refuse(Description { object: 0, ..good }),
        ErrorKind::NullArgument
    );
    assert_eq!(
        refuse(Description { kind: 16, ..good }),
        ErrorKind::InvalidArgument
    );
    for ancestors in [&[at(3)][..], &[0], &[at(4), at(4)], &[at(4), at(3)]] {
        let ancestors = Some(ancestors);
        assert_eq!(
            refuse(Description { ancestors, ..good }),
            ErrorKind::InvalidArgument
        );
    }
    // Not even what the call would have ended on its way.
    let ancestors = [at(4), at(4)];
    let ancestors = Some(&ancestors[..]);
    let new = Description {
        object: at(1),
        scope: SCOPE,
        ancestors,
        ..Default::default()
    };
    let other_kind = Description { kind: 3, ..new };
    let elsewhere = Description {
        scope: SCOPE + 1,
        ..new
    };
    assert!(tracker.create(&new).is_err());
    assert!(tracker.track(&other_kind).is_err() && tracker.track(&elsewhere).is_err());
    let stats = tracker.stats().unwrap();
    assert_eq!((stats.tracked, stats.anchors), (1, 1));
    assert!(held.is_live());

    for id in [0, 1, u64::MAX, tracker.to_raw() + 256, tracker.to_raw() + 1] {
        let stranger = Tracker::from_raw(id);
        assert_eq!(
            stranger.track(&good).unwrap_err().kind(),
            ErrorKind::NoTracker
        );
        assert_eq!(
            stranger.erase(at(1)).unwrap_err().kind(),
            ErrorKind::NoTracker
        );
        assert_eq!(
            stranger.destroy_tracker().unwrap_err().kind(),
            ErrorKind::NoTracker
        );
        assert!(!stranger.is_exact());
    }
    assert!(held.is_live());
}

#[test]
fn r17_a_handle_is_never_taken_for_a_later_tracker() {
    let first = Tracker::new("first").unwrap();
    first.destroy_tracker().unwrap();
    let second = tracker(); // Takes the first one's place over.
    let held = second.place(at(1), &[]);
    assert_eq!(first.erase(at(1)).unwrap_err().kind(), ErrorKind::NoTracker);
    assert_eq!(
        first.destroy_tracker().unwrap_err().kind(),
        ErrorKind::NoTracker
    );
    assert!(held.is_live());
    let stats = second.stats().unwrap();
    assert_eq!(
        (stats.created, stats.tracked),
        (1, 1),
        "and starts from nothing"
    );
}

#[test]
fn r17_there_is_a_limit_to_trackers() {
    let mut trackers = Vec::new();
    let refused = loop {
        match Tracker::new("one of many") {
            Ok(tracker) => trackers.push(Owned(tracker)),
            Err(error) => break error,
        }
    };
    assert_eq!(refused.kind(), ErrorKind::Limit);
    assert!((200..=256).contains(&trackers.len()));
    drop(trackers.pop());
    trackers.push(tracker());
    // One of many works as the first does.
    let held = trackers[100].place(at(1), &[]);
    let twin = trackers[101].place(at(1), &[]);
    trackers[100].erase(at(1)).unwrap();
    assert!(!held.is_live() && twin.is_live());
}

#[test]
fn r18_hooks_of_many_threads_lose_nothing() {
    // Everything at once on the same few objects of a few scopes, for a while; then nothing must be left
    // over, or counted wrongly.
    let tracker = tracker();
    let stop = AtomicBool::new(false);
    let rounds = AtomicUsize::new(0);
    thread::scope(|scope| {
        for number in 0..6_u64 {
            let (tracker, stop, rounds) = (*tracker, &stop, &rounds);
            scope.spawn(move || {
                let mut bits = number * 2 + 1;
                let mut held = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    bits ^= bits << 13;
                    bits ^= bits >> 7;
                    bits ^= bits << 17;
                    let pick = |shift: u32| at((bits >> shift) as usize % 24);
                    let ancestors = [at(30 + bits as usize % 3), at(40 + bits as usize % 2)];
                    let description = Description {
                        object: pick(8),
                        scope: bits % 3,
                        ancestors: (bits & 64 != 0).then_some(&ancestors),
                        user: bits as usize,
                        kind: (bits >> 20) as u8 % 3,
                    };
                    match bits >> 32 & 15 {
                        0..=3 => held.extend(tracker.track(&description).map(|(found, _)| found)),
                        4 | 5 => held.extend(tracker.create(&description)),
                        6 => tracker.erase(ancestors[(bits >> 9) as usize % 2]).unwrap(),
                        7 => tracker.erase(pick(16)).unwrap(),
                        8 => tracker.destroy(pick(16)).unwrap(),
                        9 => tracker.move_to(pick(16), &ancestors).unwrap(),
                        10 => tracker.detach(pick(16)).unwrap(),
                        11 => tracker.opaque_mutation(ancestors[1]).unwrap(),
                        12 => drop(held.pop().map(Ref::release)),
                        13 => drop(tracker.find(pick(16))),
                        14 => drop(held.iter().filter_map(|one| one.parent().ok()).count()),
                        _ => drop(held.drain(..held.len() / 2)),
                    }
                    rounds.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        thread::sleep(Duration::from_secs(3));
        stop.store(true, Ordering::Relaxed);
    });
    assert!(rounds.load(Ordering::Relaxed) > 10_000);
    let stats = tracker.stats().unwrap();
    assert_eq!(
        stats.created,
        stats.ended + stats.released + stats.tracked as u64
    );
    assert_eq!(stats.internal_errors, 0);
    let mut seen = 0;
    tracker
        .for_each(None, None, |found, _| {
            assert!(found.is_live());
            assert_eq!(tracker.find(found.object).unwrap().0, found);
            seen += 1;
            Visit::Continue
        })
        .unwrap();
    assert_eq!(seen, stats.tracked);
    for scope in 0..3 {
        tracker.clear_scope(scope).unwrap();
    }
    let stats = tracker.stats().unwrap();
    assert_eq!((stats.tracked, stats.anchors), (0, 0));
}

#[test]
fn r18_a_tracker_may_be_destroyed_while_others_use_it() {
    for _ in 0..50 {
        let tracker = Tracker::new("short-lived").unwrap();
        let start = Barrier::new(3);
        let refs: Vec<Vec<Ref>> = thread::scope(|scope| {
            let worker = |number: usize| {
                let start = &start;
                scope.spawn(move || {
                    start.wait();
                    let mut refs = Vec::new();
                    for n in 0.. {
                        let object = at(number * 1000 + n % 100);
                        let scope = n as u64 % 4;
                        let description = Description {
                            object,
                            scope,
                            ..Default::default()
                        };
                        match tracker.track(&description) {
                            Ok((held, _)) => refs.push(held),
                            Err(error) => {
                                assert_eq!(error.kind(), ErrorKind::NoTracker);
                                return refs;
                            }
                        }
                    }
                    unreachable!()
                })
            };
            let workers = [worker(0), worker(1)];
            start.wait();
            thread::sleep(Duration::from_micros(300));
            tracker.destroy_tracker().unwrap();
            workers.map(|worker| worker.join().unwrap()).into()
        });
        assert!(refs.iter().flatten().all(|held| !held.is_live()));
    }
}

#[test]
fn r19_a_fork_leaves_a_usable_tracker_in_the_child() {
    let tracker = tracker();
    let held = tracker.place(at(900), &[at(901)]);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for number in 0..3_usize {
            let (tracker, stop) = (*tracker, &stop);
            scope.spawn(move || {
                let mut n = 0;
                while !stop.load(Ordering::Relaxed) {
                    n += 1;
                    let object = at(number * 100 + n % 50);
                    let scope = n as u64 % 2;
                    let description = Description {
                        object,
                        scope,
                        ..Default::default()
                    };
                    if let Ok((held, _)) = tracker.track(&description) {
                        let _ = held.release();
                    }
                }
            });
        }
        for _ in 0..100 {
            // SAFETY: the child calls the tracker, which this test is about, and `_exit`.
            match unsafe { libc::fork() } {
                0 => {
                    let new = tracker.place(at(902), &[at(901)]);
                    let mut fine = held.is_live() && new.is_live();
                    tracker.erase(at(901)).unwrap();
                    fine &= !held.is_live() && !new.is_live();
                    for scope in [0, 1, SCOPE] {
                        fine &= tracker.clear_scope(scope).is_ok();
                    }
                    fine &= tracker.count(None, None) == Ok(0);
                    // SAFETY: ends the child at once.
                    unsafe { libc::_exit(if fine { 0 } else { 1 }) };
                }
                child => {
                    assert!(child > 0);
                    let started = Instant::now();
                    let mut status = 0;
                    // SAFETY: `status` is a valid place.
                    while unsafe { libc::waitpid(child, &mut status, libc::WNOHANG) } == 0 {
                        if started.elapsed() > Duration::from_secs(20) {
                            // SAFETY: our own child.
                            unsafe { libc::kill(child, libc::SIGKILL) };
                            stop.store(true, Ordering::Relaxed);
                            panic!("the child hangs");
                        }
                        thread::sleep(Duration::from_micros(200));
                    }
                    if status != 0 {
                        stop.store(true, Ordering::Relaxed);
                    }
                    assert_eq!(status, 0);
                }
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(held.is_live(), "the parent has noticed nothing");
}

#[test]
fn reports_show_every_node() {
    let tracker = tracker();
    let held = tracker.place(at(1), &[at(2)]);
    let write = |format| {
        let mut text = String::new();
        tracker.report(format, &mut text).unwrap();
        text
    };
    let text = write(Format::Text);
    assert!(
        text.starts_with("tracker \"test\": 1 tracked, 1 anchors\n"),
        "{text}"
    );
    assert!(
        text.contains(&format!("    {:#x} epoch {:#x} kind 0", at(1), held.epoch)),
        "{text}"
    );
    let json: serde_json::Value = serde_json::from_str(&write(Format::Json)).unwrap();
    assert_eq!(json["tracked"], 1);
    assert_eq!(json["nodes"][1]["object"], format!("{:#x}", at(1)));
    assert_eq!(json["nodes"][1]["parent"], format!("{:#x}", at(2)));
    assert_eq!(json["nodes"][0]["epoch"], serde_json::Value::Null);
    let dot = write(Format::Dot);
    assert!(
        dot.starts_with("digraph \"test\" {") && dot.contains("n0 -> n1;"),
        "{dot}"
    );
}

/// A line is indented by its depth, up to 30. A deeper one says its depth.
#[test]
fn reports_in_text_show_depths_and_user_pointers() {
    let tracker = tracker();
    let ancestors: Vec<usize> = (2..=32).map(at).collect();
    let description = Description {
        object: at(1),
        scope: 1,
        ancestors: Some(&ancestors),
        user: 0xabc,
        ..Default::default()
    };
    tracker.track(&description).unwrap();
    tracker.place(at(40), &[]);
    let mut text = String::new();
    tracker.report(Format::Text, &mut text).unwrap();
    for depth in 0..=30 {
        let line = format!("\n{:2$}{:#x} (anchor)", "", at(32 - depth), 2 + 2 * depth);
        assert!(text.contains(&line), "{depth}: {text}");
    }
    let deepest = format!("\n{:62}[depth 31] {:#x} epoch ", "", at(1));
    assert!(text.contains(&deepest), "{text}");
    assert_eq!(text.matches("[depth").count(), 1, "{text}");
    assert_eq!(text.matches(" user ").count(), 1, "{text}");
    assert!(text.contains(" kind 0 user 0xabc scope "), "{text}");
}
