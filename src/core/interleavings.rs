// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The whole core in random interleavings that shuttle chooses; see [`super::sync::shuttle_model`].
//!
//! What is not part of a race happens in one step: setting up, and clearing up with a look at the
//! invariants.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::forest::{self, STRIPES};
use super::index::{Filters, Index};
use super::registry;
use super::sync::fork_lock;
use super::sync::shuttle_model::{
    check, check_often, check_rarely, spawn, switch, without_switches,
};
use crate::{Cause, Description, End, Error, Ref, Tracker, Visit};

const A: usize = 0x1000;
const B: usize = 0x2000;
const PARENT: usize = 0x3000;
const CHILD: usize = 0x4000;
const SCOPE: u64 = 7;
const OTHER_SCOPE: u64 = 8;

fn describe(object: usize, user: usize) -> Description<'static> {
    Description {
        object,
        scope: SCOPE,
        user,
        ..Default::default()
    }
}

fn track(tracker: Tracker, object: usize, user: usize) -> Ref {
    tracker.track(&describe(object, user)).unwrap().0
}

/// A tracker with one object, whose user pointer is 1.
fn with_object(object: usize) -> (Tracker, Ref) {
    without_switches(|| {
        let tracker = Tracker::new("model").unwrap();
        (tracker, track(tracker, object, 1))
    })
}

/// A tracker with [`CHILD`] below [`A`] below [`PARENT`], and the refs of the three.
fn with_family() -> (Tracker, [Ref; 3]) {
    without_switches(|| {
        let tracker = Tracker::new("model").unwrap();
        let parent = track(tracker, PARENT, 0);
        let below = |object, ancestors| {
            let description = Description {
                ancestors: Some(ancestors),
                ..describe(object, 1)
            };
            tracker.track(&description).unwrap().0
        };
        let object = below(A, &[PARENT]);
        let child = below(CHILD, &[A, PARENT]);
        (tracker, [parent, object, child])
    })
}

/// The end of a model: all threads have ended.
fn clear_up(tracker: Tracker) {
    without_switches(|| {
        tracker.check_invariants().unwrap();
        let mut live = 0;
        let visit = |reference: Ref, user| {
            live += 1;
            assert_eq!(tracker.find(reference.object), Ok((reference, user)));
            Visit::Continue
        };
        tracker.for_each(None, None, visit).unwrap();
        let stats = tracker.stats().unwrap();
        assert_eq!(stats.tracked, live);
        assert_eq!(stats.created, live as u64 + stats.ended + stats.released);
        tracker.destroy_tracker().unwrap();
    });
}

// Questions against hooks -------------------------------------------------------------------------

#[test]
fn r01_checks_while_the_object_ends_and_its_slot_is_used_again() {
    check(|| {
        let (tracker, first) = with_object(A);
        let hooks = spawn(move || {
            tracker.erase(A).unwrap();
            let second = track(tracker, B, 2);
            assert!(second.is_live() && !first.is_live());
            tracker.destroy(B).unwrap();
            let third = track(tracker, A, 3);
            assert!(!second.is_live() && !first.is_live());
            third
        });
        let mut is_dead = false;
        for _ in 0..3 {
            let is_live = first.is_live();
            assert!(!(is_dead && is_live), "a dead ref is live again");
            is_dead |= !is_live;
            assert!(!Ref { object: B, ..first }.is_live());
            match first.user() {
                Ok(user) => assert_eq!((user, is_dead), (1, false)),
                Err(_) => is_dead = true,
            }
            match first.parent() {
                Ok(parent) => assert_eq!((parent, is_dead), (None, false)),
                Err(_) => is_dead = true,
            }
            if let Some(death) = first.death() {
                assert_eq!((death.cause, death.by), (Cause::Erased, Ref::NULL));
                assert!(!first.is_live(), "a live ref has a death");
                is_dead = true;
            }
            match first.set_user(1) {
                Ok(()) => assert!(!is_dead),
                Err(_) => is_dead = true,
            }
        }
        let third = hooks.join().unwrap();
        assert_eq!(tracker.find(A), Ok((third, 3)));
        clear_up(tracker);
    });
}

#[test]
fn r16_find_while_the_object_ends_and_its_slot_is_used_again() {
    check(|| {
        let (tracker, first) = with_object(A);
        let hooks = spawn(move || {
            tracker.erase(A).unwrap();
            track(tracker, B, 2);
            tracker.erase(B).unwrap();
            track(tracker, A, 3)
        });
        let mut found = Vec::new();
        for _ in 0..2 {
            found.push((A, tracker.find(A)));
            found.push((B, tracker.find(B)));
        }
        let third = hooks.join().unwrap();
        for (object, found) in found {
            match found {
                Ok((reference, 1)) => assert_eq!((object, reference), (A, first)),
                Ok((reference, 2)) => assert_eq!((object, reference.object), (B, B)),
                Ok((reference, user)) => assert_eq!((object, reference, user), (A, third, 3)),
                Err(error) => assert_eq!(error, Error::NOT_TRACKED),
            }
        }
        clear_up(tracker);
    });
}

#[test]
fn r13_deaths_that_are_asked_for_while_records_are_overwritten() {
    check(|| {
        let (tracker, first) = with_object(A);
        let hooks = spawn(move || {
            tracker.erase(A).unwrap();
            // The log of `--cfg lot_small` has seven records.
            for round in 0..8 {
                let next = track(tracker, A, round);
                next.release().unwrap();
            }
        });
        let mut is_forgotten = false;
        for _ in 0..6 {
            let was_dead = !first.is_live();
            match first.death() {
                Some(death) => {
                    assert_eq!((death.cause, death.by), (Cause::Erased, Ref::NULL));
                    assert!(!is_forgotten, "a death is remembered again");
                }
                None => is_forgotten |= was_dead,
            }
        }
        hooks.join().unwrap();
        clear_up(tracker);
    });
}

#[test]
fn r13_the_death_log_changes_its_size_while_deaths_are_recorded_and_asked_for() {
    check(|| {
        let (tracker, first) = with_object(A);
        without_switches(|| {
            crate::core::death_log::set_capacity(8).unwrap();
            tracker.erase(A).unwrap();
        });
        let hooks = spawn(move || {
            for user in 0..2 {
                let next = track(tracker, B, user);
                next.release().unwrap();
                if let Some(death) = next.death() {
                    assert_eq!(death.cause, Cause::Released);
                }
            }
        });
        let questions = spawn(move || {
            for _ in 0..3 {
                if let Some(death) = first.death() {
                    assert_eq!((death.cause, death.by), (Cause::Erased, Ref::NULL));
                }
            }
        });
        crate::core::death_log::set_capacity(3).unwrap();
        hooks.join().unwrap();
        questions.join().unwrap();
        clear_up(tracker);
    });
}

#[test]
fn walks_while_objects_come_and_go() {
    check(|| {
        let (tracker, [parent, object, child]) = with_family();
        let hooks = spawn(move || {
            tracker.destroy(A).unwrap();
            track(tracker, B, 2)
        });
        let mut visited = Vec::new();
        let visit = |reference: Ref, user| {
            visited.push((reference, user));
            Visit::Continue
        };
        tracker.for_each(Some(SCOPE), None, visit).unwrap();
        let children = parent.children().unwrap();
        let count = tracker.count(Some(SCOPE), None).unwrap();
        let new = hooks.join().unwrap();
        for (number, seen) in visited.iter().enumerate() {
            let known = [(parent, 0), (object, 1), (child, 1), (new, 2)];
            assert!(known.contains(seen), "{seen:?}");
            assert!(
                !visited[..number].contains(seen),
                "{seen:?} is visited twice"
            );
        }
        assert!(visited.contains(&(parent, 0)) && visited.contains(&(child, 1)));
        assert!(children == [(object, 1)] || children == [(child, 1)]);
        assert!((2..=3).contains(&count));
        clear_up(tracker);
    });
}

// Hooks against hooks -----------------------------------------------------------------------------

#[test]
fn r12_release_against_destroy() {
    check(|| {
        let (tracker, object) = with_object(A);
        let release = spawn(move || object.release().is_ok());
        tracker.destroy(A).unwrap();
        let was_released = release.join().unwrap();
        assert!(!object.is_live());
        assert_eq!(tracker.find(A), Err(Error::NOT_TRACKED));
        let stats = tracker.stats().unwrap();
        assert_eq!(stats.released, u64::from(was_released));
        assert_eq!(
            (stats.tracked, stats.anchors, stats.ended),
            (0, 0, 1 - stats.released)
        );
        clear_up(tracker);
    });
}

#[test]
fn r12_release_against_destroy_in_a_tree_and_the_next_object() {
    check(|| {
        let (tracker, [parent, object, child]) = with_family();
        let release = spawn(move || object.release().is_ok());
        let next = spawn(move || tracker.track(&describe(A, 2)).unwrap());
        tracker.destroy(A).unwrap();
        let was_released = release.join().unwrap();
        let (next, user) = next.join().unwrap();
        assert!(!object.is_live() && child.is_live());
        // With one of the three calls last, or the registration between two of them.
        match tracker.find(A) {
            Ok(found) => assert_eq!(found, (next, user)),
            Err(_) => assert!(!next.is_live()),
        }
        assert_eq!(user, if next == object { 1 } else { 2 });
        let nearest = child.parent().unwrap();
        assert!(nearest == Some(parent) || nearest == Some(next) && next.is_live());
        assert_eq!(tracker.stats().unwrap().released, u64::from(was_released));
        clear_up(tracker);
    });
}

/// The registration comes either before or after the end.
fn track_against(end: fn(Tracker, Ref), ends_all: bool) {
    check(move || {
        let (tracker, first) = with_object(A);
        let ending = spawn(move || end(tracker, first));
        let (tracked, user) = tracker.track(&describe(A, 2)).unwrap();
        ending.join().unwrap();
        assert!(!first.is_live());
        if tracked == first {
            assert_eq!(user, 1);
            assert_eq!(tracker.find(A), Err(Error::NOT_TRACKED));
        } else {
            assert_eq!(user, 2);
            assert!(ends_all || tracked.is_live());
            assert_eq!(tracker.find(A), Ok((tracked, 2)));
        }
        clear_up(tracker);
    });
}

#[test]
fn r16_track_against_destroy_of_the_same_address() {
    track_against(|tracker, _| tracker.destroy(A).unwrap(), false);
}

#[test]
fn r16_track_against_erase_of_the_same_address() {
    track_against(|tracker, _| tracker.erase(A).unwrap(), false);
}

#[test]
fn r16_track_against_the_clearing_of_its_scope() {
    track_against(|tracker, _| tracker.clear_scope(SCOPE).unwrap(), false);
}

#[test]
fn r16_track_against_release_of_the_same_address() {
    track_against(|_, first| first.release().unwrap(), false);
}

#[test]
fn r06_track_and_create_of_one_address_in_two_scopes() {
    check(|| {
        let (tracker, first) = with_object(A);
        let other = spawn(move || {
            let description = Description {
                scope: OTHER_SCOPE,
                ..describe(A, 3)
            };
            tracker.create(&description).unwrap()
        });
        let (tracked, user) = tracker.track(&describe(A, 2)).unwrap();
        let created = other.join().unwrap();
        let live: Vec<_> = [first, tracked, created]
            .into_iter()
            .filter(|reference| reference.is_live())
            .collect();
        assert!(
            !live.is_empty() && live.iter().all(|one| *one == live[0]),
            "{live:?}"
        );
        assert_eq!(tracker.find(A).unwrap().0, live[0]);
        assert!(!first.is_live());
        assert_eq!(user, if tracked == first { 1 } else { 2 });
        clear_up(tracker);
    });
}

#[test]
fn r08_moves_against_ends_of_an_ancestor() {
    check(|| {
        let (tracker, [parent, object, child]) = with_family();
        let moving = spawn(move || tracker.move_to(CHILD, &[B, PARENT]).unwrap());
        let ending = spawn(move || tracker.erase(A).unwrap());
        tracker.destroy(PARENT).unwrap();
        moving.join().unwrap();
        ending.join().unwrap();
        assert!(!object.is_live() && !parent.is_live());
        if child.is_live() {
            assert_eq!(child.parent(), Ok(None));
        }
        clear_up(tracker);
    });
}

/// Batches of slots go from stripe to stripe.
#[test]
fn slots_that_one_scope_gives_back_while_another_takes_some() {
    check_rarely(|| {
        let tracker = without_switches(|| Tracker::new("model").unwrap());
        let fill = move |scope: u64, count: usize| -> Vec<Ref> {
            let object = |number| 0x10_0000 * scope as usize + 0x100 * number;
            let description = |number| Description {
                scope,
                ..describe(object(number), number)
            };
            (1..=count)
                .map(|number| tracker.track(&description(number)).unwrap().0)
                .collect()
        };
        let old = without_switches(|| fill(1, 260));
        let clearing = spawn(move || tracker.clear_scope(1).unwrap());
        let checking = spawn(move || {
            let mut dead = Vec::new();
            for reference in old.iter().rev().take(5).chain(&old[..5]) {
                if reference.user() == Err(Error::DEAD_REF) {
                    dead.push(*reference);
                }
            }
            assert!(dead.iter().all(|reference| !reference.is_live()));
        });
        let new = fill(2, 70);
        clearing.join().unwrap();
        checking.join().unwrap();
        for (number, reference) in new.iter().enumerate() {
            assert_eq!(reference.user(), Ok(number + 1));
        }
        clear_up(tracker);
    });
}

// The end of a tracker ----------------------------------------------------------------------------

/// A hook, with the old handle and an old ref, while the tracker is destroyed and the next one
/// comes into its place. The hook has said what it may say.
fn destroy_tracker_against(hook: fn(Tracker, Ref)) {
    check(move || {
        let (tracker, [_, object, child]) = with_family();
        let is_over = Arc::new(AtomicBool::new(false));
        let over = is_over.clone();
        let observer = move |ends: &[End]| {
            assert!(
                !over.load(Ordering::SeqCst),
                "the observer runs after the end"
            );
            switch();
            assert!(ends.iter().all(|end| !end.reference.is_live()));
            assert!(
                !over.load(Ordering::SeqCst),
                "the observer runs after the end"
            );
        };
        without_switches(|| tracker.set_observer(Some(Arc::new(observer)))).unwrap();
        let hooks = spawn(move || {
            hook(tracker, object);
            hook(tracker, child);
        });
        // If the hook is this call, too, the other thread may be in the middle of it.
        if done_or_no_tracker(tracker.destroy_tracker()).is_some() {
            is_over.store(true, Ordering::SeqCst);
            assert!(!object.is_live() && !child.is_live());
        }
        assert_eq!(tracker.stats(), Err(Error::NO_TRACKER));
        let next = Tracker::new("next").unwrap();
        let kept = track(next, A, 2);
        let told = Arc::new(AtomicUsize::new(0));
        let count = told.clone();
        let observer = move |_: &[End]| {
            count.fetch_add(1, Ordering::SeqCst);
        };
        next.set_observer(Some(Arc::new(observer))).unwrap();
        hooks.join().unwrap();
        assert!(!object.is_live() && !child.is_live());
        assert_eq!(next.find(A), Ok((kept, 2)));
        assert_eq!(next.count(None, None), Ok(1));
        assert_eq!(
            told.load(Ordering::SeqCst),
            0,
            "ends go to the next observer"
        );
        clear_up(next);
    });
}

fn done_or_no_tracker<T>(result: Result<T, Error>) -> Option<T> {
    result
        .map_err(|error| assert_eq!(error, Error::NO_TRACKER))
        .ok()
}

fn done_or_dead<T>(result: Result<T, Error>) -> Option<T> {
    result
        .map_err(|error| assert_eq!(error, Error::DEAD_REF))
        .ok()
}

macro_rules! against_the_end_of_the_tracker {
    ($($name:ident: $hook:expr;)*) => {
        mod the_tracker_is_destroyed_during {
            use super::*;
            $(#[test]
            fn $name() {
                destroy_tracker_against($hook);
            })*
        }
    };
}

against_the_end_of_the_tracker! {
    track: |tracker, _| { done_or_no_tracker(tracker.track(&describe(B, 3))); };
    track_of_a_known_object: |tracker, object| {
        if let Some(found) = done_or_no_tracker(tracker.track(&describe(object.object, 3))) {
            assert_eq!(found, (object, 1));
        }
    };
    track_below_others: |tracker, object| {
        let description = Description {
            ancestors: Some(&[CHILD, PARENT]),
            ..describe(0x9000 + object.object, 3)
        };
        done_or_no_tracker(tracker.track(&description));
    };
    track_in_another_scope: |tracker, object| {
        let description = Description {
            scope: OTHER_SCOPE,
            ..describe(object.object, 3)
        };
        done_or_no_tracker(tracker.track(&description));
    };
    create: |tracker, object| { done_or_no_tracker(tracker.create(&describe(object.object, 3))); };
    destroy: |tracker, object| { done_or_no_tracker(tracker.destroy(object.object)); };
    destroy_with_parts: |tracker, _| { done_or_no_tracker(tracker.destroy_with(PARENT, 1)); };
    erase: |tracker, object| { done_or_no_tracker(tracker.erase(object.object)); };
    opaque_mutation: |tracker, object| {
        done_or_no_tracker(tracker.opaque_mutation(object.object));
    };
    move_to: |tracker, object| { done_or_no_tracker(tracker.move_to(object.object, &[B])); };
    clear_scope: |tracker, _| { done_or_no_tracker(tracker.clear_scope(SCOPE)); };
    release: |_, object| { done_or_dead(object.release()); };
    user_pointers: |_, object| {
        if let Some(user) = done_or_dead(object.user()) {
            assert_eq!(user, 1);
        }
        done_or_dead(object.set_user(1));
    };
    parent_and_children: |_, object| {
        done_or_dead(object.parent());
        done_or_dead(object.children());
    };
    death: |_, object| {
        if let Some(death) = object.death() {
            assert_eq!(death.cause, Cause::ScopeCleared);
            assert!(!object.is_live());
        }
    };
    find: |tracker, object| match tracker.find(object.object) {
        Ok(found) => assert_eq!(found, (object, 1)),
        Err(error) => assert!([Error::NO_TRACKER, Error::NOT_TRACKED].contains(&error)),
    };
    for_each: |tracker, _| {
        let visit = |reference: Ref, _| {
            assert!([PARENT, A, CHILD].contains(&reference.object));
            Visit::Continue
        };
        done_or_no_tracker(tracker.for_each(None, None, visit));
    };
    figures: |tracker, _| {
        let count = done_or_no_tracker(tracker.count(Some(SCOPE), None));
        assert!(count.is_none_or(|count| count <= 3));
        done_or_no_tracker(tracker.stats());
        done_or_no_tracker(tracker.name());
    };
    set_observer: |tracker, _| { done_or_no_tracker(tracker.set_observer(None)); };
    exact_sources: |tracker, _| { done_or_no_tracker(tracker.exact_begin()); };
    destroy_tracker: |tracker, _| { done_or_no_tracker(tracker.destroy_tracker()); };
}

// Observers ---------------------------------------------------------------------------------------

/// An observer, how many ends it was told of, and whether it must not run any more.
#[derive(Clone, Default)]
struct Told {
    ends: Arc<AtomicUsize>,
    is_over: Arc<AtomicBool>,
}

impl Told {
    fn observer(&self) -> Arc<dyn Fn(&[End]) + Send + Sync> {
        let Told { ends, is_over } = self.clone();
        Arc::new(move |told: &[End]| {
            assert!(
                !is_over.load(Ordering::SeqCst),
                "the old observer is called"
            );
            switch();
            ends.fetch_add(told.len(), Ordering::SeqCst);
            assert!(told.iter().all(|end| !end.reference.is_live()));
            switch();
            assert!(
                !is_over.load(Ordering::SeqCst),
                "the old observer still runs"
            );
        })
    }

    fn ends(&self) -> usize {
        self.ends.load(Ordering::SeqCst)
    }
}

#[test]
fn r15_the_old_observer_does_not_run_after_the_exchange_and_each_end_is_told_once() {
    check(|| {
        let (tracker, _) = with_object(A);
        let (old, new) = (Told::default(), Told::default());
        without_switches(|| {
            track(tracker, B, 2);
            tracker.set_observer(Some(old.observer())).unwrap();
        });
        let hooks = [A, B].map(|object| spawn(move || tracker.destroy(object).unwrap()));
        tracker.set_observer(Some(new.observer())).unwrap();
        old.is_over.store(true, Ordering::SeqCst);
        for hook in hooks {
            hook.join().unwrap();
        }
        assert_eq!(old.ends() + new.ends(), 2);
        clear_up(tracker);
    });
}

#[test]
fn r15_an_observer_that_was_taken_back_is_dropped_and_does_not_run() {
    check(|| {
        let (tracker, object) = with_object(A);
        let old = Told::default();
        let observer = old.observer();
        let weak = Arc::downgrade(&observer);
        without_switches(|| tracker.set_observer(Some(observer)).unwrap());
        let hooks = spawn(move || object.release().unwrap());
        tracker.set_observer(None).unwrap();
        old.is_over.store(true, Ordering::SeqCst);
        assert!(weak.upgrade().is_none(), "the observer still is");
        hooks.join().unwrap();
        assert!(old.ends() <= 1);
        clear_up(tracker);
    });
}

#[test]
fn r15_the_observer_does_not_run_after_its_tracker_was_destroyed() {
    check(|| {
        let (tracker, _) = with_object(A);
        let old = Told::default();
        let observer = old.observer();
        let weak = Arc::downgrade(&observer);
        without_switches(|| {
            track(tracker, B, 2);
            tracker.set_observer(Some(observer)).unwrap();
        });
        let hooks = spawn(move || {
            done_or_no_tracker(tracker.destroy(A));
        });
        tracker.destroy_tracker().unwrap();
        old.is_over.store(true, Ordering::SeqCst);
        assert!(weak.upgrade().is_none(), "the observer still is");
        hooks.join().unwrap();
        assert_eq!(old.ends(), 2);
    });
}

/// The release may have met the object when its tracker was already being destroyed: then the
/// state behind the handle must wait for it.
#[test]
fn r15_the_observer_is_told_of_a_release_while_its_tracker_is_destroyed() {
    check_often(|| {
        let (tracker, object) = with_object(A);
        let told = Told::default();
        without_switches(|| tracker.set_observer(Some(told.observer())).unwrap());
        let hooks = spawn(move || {
            done_or_dead(object.release());
        });
        tracker.destroy_tracker().unwrap();
        told.is_over.store(true, Ordering::SeqCst);
        hooks.join().unwrap();
        assert_eq!(told.ends(), 1);
    });
}

/// Two of them would wait for one another if they waited.
#[test]
fn r15_observers_exchange_themselves() {
    check(|| {
        let (tracker, _) = with_object(A);
        let told = Arc::new(AtomicUsize::new(0));
        let count = told.clone();
        let observer = move |ends: &[End]| {
            count.fetch_add(ends.len(), Ordering::SeqCst);
            tracker.set_observer(None).unwrap();
            assert!(tracker.find(ends[0].reference.object).is_err());
        };
        without_switches(|| {
            track(tracker, B, 2);
            tracker.set_observer(Some(Arc::new(observer))).unwrap();
        });
        let hooks = [A, B].map(|object| spawn(move || tracker.erase(object).unwrap()));
        tracker.set_observer(None).unwrap();
        for hook in hooks {
            hook.join().unwrap();
        }
        assert!(told.load(Ordering::SeqCst) <= 2);
        clear_up(tracker);
    });
}

// Parts -------------------------------------------------------------------------------------------

#[test]
fn r16_the_filter_hides_no_entry_of_the_index_while_it_is_renewed() {
    check(|| {
        let filters: &'static Filters = Box::leak(Box::new(Filters::new()));
        let index: &'static Index = Box::leak(Box::new(Index::new(filters)));
        let threads = [0, 0x40].map(|first| {
            spawn(move || {
                // All in one page, so in one part.
                for object in (first..first + 0x40).step_by(0x10) {
                    let object = 0x5000 + object;
                    index.insert(object, 1, || ()).unwrap();
                    assert_eq!(index.get(object), Some(1), "an entry is hidden");
                    if object % 0x20 == 0 {
                        index.remove(object, 1);
                        assert_eq!(index.get(object), None);
                    }
                }
            })
        });
        for thread in threads {
            thread.join().unwrap();
        }
        for object in (0x5010..0x5080).step_by(0x20) {
            assert_eq!(index.get(object), Some(1), "an entry is hidden");
        }
    });
}

#[test]
fn r19_whoever_is_alone_in_the_fork_lock_finds_all_locks_free_and_nothing_changes() {
    check(|| {
        let (tracker, [_, object, _]) = with_family();
        let told = Told::default();
        without_switches(|| tracker.set_observer(Some(told.observer())).unwrap());
        let hooks = spawn(move || {
            tracker.destroy(CHILD).unwrap();
            track(tracker, B, 2);
        });
        let release = spawn(move || object.release().unwrap());
        let alone = fork_lock::exclusive();
        let look = || {
            let all_free = (0..STRIPES as u8).all(forest::is_free);
            assert!(all_free && registry::is_free(), "a lock is held");
            tracker.stats().unwrap()
        };
        let stats = without_switches(look);
        switch();
        assert_eq!(without_switches(look), stats);
        switch();
        drop(alone);
        hooks.join().unwrap();
        release.join().unwrap();
        clear_up(tracker);
    });
}
