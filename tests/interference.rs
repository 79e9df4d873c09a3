// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Threads that get into each other's way at the same addresses and in the same slots.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use live_object_tracker::{Description, Tracker, Visit};

/// How long each test looks for a bad moment.
const TIME: Duration = Duration::from_secs(2);

fn at(number: usize) -> usize {
    0x7d00_0000_0000 + number * 64
}

fn describe(object: usize, scope: u64, ancestors: Option<&[usize]>) -> Description<'_> {
    Description {
        object,
        scope,
        ancestors,
        ..Default::default()
    }
}

/// Two threads find an object that an earlier one has left its address to, unseen, in another scope.
#[test]
fn r01_an_object_that_two_threads_track_at_once_stays_live() {
    let tracker = Tracker::new("twice").unwrap();
    let barrier = Barrier::new(2);
    let end = Instant::now() + TIME;
    let go_on = AtomicBool::new(true);
    let dead_in = AtomicUsize::new(0);
    let work = |is_first: bool| {
        let mut round = 0;
        loop {
            round += 1;
            if is_first {
                tracker.track(&describe(at(1), 1, None)).unwrap();
                let is_fine = dead_in.load(Ordering::Relaxed) == 0;
                go_on.store(is_fine && Instant::now() < end, Ordering::Relaxed);
            }
            barrier.wait();
            if !go_on.load(Ordering::Relaxed) {
                return;
            }
            let (held, _) = tracker.track(&describe(at(1), 2, None)).unwrap();
            barrier.wait();
            if !held.is_live() {
                dead_in.store(round, Ordering::Relaxed);
            }
            barrier.wait();
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| work(false));
        work(true);
    });
    let round = dead_in.into_inner();
    assert_eq!(round, 0, "in that round a live object counts as dead");
    tracker.destroy_tracker().unwrap();
}

/// Two bindings track the same object in turn, each in a tracker of its own.
#[test]
fn r16_an_object_is_never_found_with_another_tracker_s_user_pointer() {
    const OURS: usize = 0x1111;
    const THEIRS: usize = 0x2222;
    let (ours, theirs) = (
        Tracker::new("ours").unwrap(),
        Tracker::new("theirs").unwrap(),
    );
    let track_and_destroy = |tracker: Tracker, user, scope| {
        let description = Description {
            user,
            ..describe(at(1), scope, None)
        };
        let (tracked, _) = tracker.track(&description).unwrap();
        tracker.destroy(at(1)).unwrap();
        tracked.epoch as u32
    };
    // A scope whose objects get the slots that the other tracker's objects have had: an epoch ends in the slot.
    let slot = |scope| {
        (
            track_and_destroy(ours, OURS, 1),
            track_and_destroy(theirs, THEIRS, scope),
        )
    };
    let scope = (1..10_000).find(|scope| {
        let (our, their) = slot(*scope);
        our == their
    });
    let scope = scope.expect("some scopes share their slots");
    let end = Instant::now() + TIME;
    let is_over = AtomicBool::new(false);
    let mut wrong = 0;
    thread::scope(|threads| {
        threads.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                slot(scope);
            }
        });
        while Instant::now() < end && wrong == 0 {
            for _ in 0..1000 {
                if let Ok((_, user)) = ours.find(at(1)) {
                    wrong += usize::from(user != OURS);
                }
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert_eq!(wrong, 0, "found with the user pointer of another binding");
    ours.destroy_tracker().unwrap();
    theirs.destroy_tracker().unwrap();
}

/// Slots go from scope to scope while somebody lists all objects, and while hooks report addresses that
/// turn up in other scopes.
#[test]
fn r17_no_question_fails_while_slots_change_hands() {
    let tracker = Tracker::new("hands").unwrap();
    // Enough that a list is read slot by slot.
    for number in 0..6000 {
        let object = at(100_000 + number);
        tracker.track(&describe(object, 7, None)).unwrap();
    }
    // Stripes of the forest have different numbers of scopes.
    for number in 0..200 {
        let object = at(200_000 + number);
        tracker
            .track(&describe(object, 1000 + number as u64, None))
            .unwrap();
    }
    let end = Instant::now() + TIME;
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for thread in 0..2_usize {
            let is_over = &is_over;
            scope.spawn(move || {
                let mut round = 0;
                while !is_over.load(Ordering::Relaxed) {
                    round += 1;
                    let first = 1000 * thread;
                    // Few objects in each of many scopes, so that free slots wander.
                    for number in 0..400 {
                        let number_of_scope = 8 + (round + number as u64 / 200) % 61;
                        let object = at(first + number);
                        tracker
                            .track(&describe(object, number_of_scope, None))
                            .unwrap();
                    }
                    for number in 0..400 {
                        tracker.erase(at(first + number)).unwrap();
                    }
                }
            });
        }
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                for number in 0..2000 {
                    tracker.opaque_mutation(at(number)).unwrap();
                }
            }
        });
        while Instant::now() < end {
            let mut found = 0;
            let count = |_, _| {
                found += 1;
                Visit::Continue
            };
            let listed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                tracker.for_each(None, None, count)
            }));
            if listed.is_err() || found < 6200 {
                is_over.store(true, Ordering::Relaxed);
            }
            assert!(listed.is_ok(), "listing panics");
            assert!(found >= 6200, "{found} found");
        }
        is_over.store(true, Ordering::Relaxed);
    });
    tracker.check_invariants().unwrap();
    tracker.destroy_tracker().unwrap();
}

/// A move makes a long chain of ancestors superfluous, in which other objects had places too. Other threads
/// take the slots at once.
#[test]
fn r05_superfluous_places_are_dropped_only_once() {
    const LONG: usize = 700;
    let tracker = Tracker::new("chain").unwrap();
    let end = Instant::now() + 2 * TIME;
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for thread in 1..3_usize {
            let is_over = &is_over;
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    let objects = (0..600).map(|number| at(100_000 * thread + number));
                    let held: Vec<_> = objects
                        .clone()
                        .map(|object| {
                            let scope = thread as u64;
                            tracker.track(&describe(object, scope, None)).unwrap().0
                        })
                        .collect();
                    let lost = held.iter().filter(|held| {
                        !held.is_live()
                            || tracker.find(held.object).map(|found| found.0) != Ok(**held)
                    });
                    let lost = lost.count();
                    if lost > 0 {
                        is_over.store(true, Ordering::Relaxed);
                    }
                    assert_eq!(lost, 0, "objects of another scope are lost");
                    objects.for_each(|object| tracker.erase(object).unwrap());
                }
            });
        }
        let mut ancestors: Vec<usize> = (0..LONG).map(at).collect();
        let moved = at(LONG);
        let inner: Vec<usize> = (0..400).map(|number| at(10_000 + number)).collect();
        while Instant::now() < end && !is_over.load(Ordering::Relaxed) {
            // The inner ones are right below each of the first ancestors.
            for (number, object) in inner.iter().enumerate() {
                let enclosing = &ancestors[number..];
                tracker
                    .track(&describe(*object, 9, Some(enclosing)))
                    .unwrap();
            }
            tracker
                .track(&describe(moved, 9, Some(&ancestors)))
                .unwrap();
            // All of them now enclose the moved one, and nothing is below the ancestors any more.
            tracker.move_to(moved, &inner).unwrap();
            assert_eq!(tracker.count(Some(9), None), Ok(inner.len() + 1));
            tracker.clear_scope(9).unwrap();
            ancestors.rotate_left(1);
        }
        is_over.store(true, Ordering::Relaxed);
    });
    tracker.check_invariants().unwrap();
    tracker.destroy_tracker().unwrap();
}
