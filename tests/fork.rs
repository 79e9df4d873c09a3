// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! `fork()` while other threads are inside hooks, observers and questions (R19): the child's only
//! thread can use the tracker at once.
//!
//! `LOT_FORKS` says how many forks there are; 200 without it.
#![cfg(unix)]

#[path = "support/child.rs"]
mod child;

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use child::{Outcome, in_child};
use live_object_tracker::{Description, End, Error, Format, Ref, Tracker, Visit};

/// The test ends early when so many children have hung: each of them takes all of its time.
const ENOUGH: usize = 3;

fn forks() -> usize {
    let number = std::env::var("LOT_FORKS").map(|text| text.parse().expect("LOT_FORKS: a number"));
    number.unwrap_or(200)
}

fn describe(object: usize, scope: u64) -> Description<'static> {
    Description {
        object,
        scope,
        ..Default::default()
    }
}

/// Uses the tracker as the first thing after a fork. Gives the number of the step that went wrong,
/// or 0.
fn use_tracker(tracker: Tracker) -> i32 {
    let mut step = 0;
    match steps(tracker, &mut step) {
        Ok(true) => 0,
        Ok(false) | Err(_) => step,
    }
}

fn steps(tracker: Tracker, step: &mut i32) -> Result<bool, Error> {
    const OBJECT: usize = 0x7000_0000_0000;
    const SCOPE: u64 = 99;
    let told = Arc::new(AtomicU64::new(0));
    let mut check = |is_right: bool| {
        *step += 1;
        is_right
    };
    check(true);

    let (tracked, _) = tracker.track(&describe(OBJECT, SCOPE))?;
    if !check(tracked.is_live()) {
        return Ok(false);
    }
    tracker.erase(OBJECT)?;
    if !check(!tracked.is_live() && tracked.death().is_some()) {
        return Ok(false);
    }
    let count = told.clone();
    tracker.set_observer(Some(Arc::new(move |ends: &[End]| {
        count.fetch_add(ends.len() as u64, Ordering::Relaxed);
    })))?;
    check(true);
    let (second, _) = tracker.track(&describe(OBJECT, SCOPE))?;
    if !check(tracker.count(Some(SCOPE), None)? == 1) {
        return Ok(false);
    }
    tracker.destroy(OBJECT)?;
    if !check(!second.is_live() && told.load(Ordering::Relaxed) == 1) {
        return Ok(false);
    }
    tracker.report(Format::Json, &mut String::new())?;
    check(true);
    let other = Tracker::new("made in a child")?;
    let (third, _) = other.track(&describe(OBJECT, SCOPE))?;
    other.destroy_tracker()?;
    Ok(check(!third.is_live()))
}

/// Uses the tracker in a child, and in a child of that child.
fn fork_and_use(tracker: Tracker) -> Outcome {
    in_child(|| {
        let step = use_tracker(tracker);
        if step != 0 {
            return step;
        }
        match in_child(|| use_tracker(tracker)) {
            Outcome::Fine => 0,
            Outcome::Wrong(step) => 20 + step,
            Outcome::Hung => 50,
            Outcome::Crashed(_) => 51,
        }
    })
}

/// Creates and destroys objects of its own until `stop`.
fn hooks(tracker: Tracker, thread: usize, stop: &AtomicBool) {
    let base = 0x1000_0000 * (thread + 1);
    while !stop.load(Ordering::Relaxed) {
        for number in 0..32 {
            let object = base + number * 64;
            let description = describe(object, thread as u64);
            tracker.track(&description).unwrap();
            tracker.destroy(object).unwrap();
        }
    }
}

/// Asks everything there is to ask until `stop`.
fn questions(tracker: Tracker, thread: usize, dead: Ref, stop: &AtomicBool) {
    let scope = 1000 + thread as u64;
    let base = 0x1000_0000 * (thread + 100);
    for number in 0..200 {
        tracker.track(&describe(base + number * 64, scope)).unwrap();
    }
    while !stop.load(Ordering::Relaxed) {
        let mut visited = 0;
        let visit = |_, _| {
            visited += 1;
            Visit::Continue
        };
        tracker.for_each(Some(scope), None, visit).unwrap();
        assert_eq!(visited, 200);
        assert_eq!(tracker.count(Some(scope), None).unwrap(), 200);
        assert!(!dead.is_live());
        dead.death();
        tracker.report(Format::Json, &mut String::new()).unwrap();
    }
}

thread_local! {
    /// Has the observer fork, on the thread that sets it.
    static FORK_IN_OBSERVER: Cell<bool> = const { Cell::new(false) };
    static IN_OBSERVER: Cell<Option<Outcome>> = const { Cell::new(None) };
}

/// Is told of all ends, and asks the tracker about them.
fn observe(tracker: Tracker, ends: &[End]) {
    for end in ends {
        assert!(!end.reference.is_live());
        let _ = tracker.find(end.reference.object);
    }
    if FORK_IN_OBSERVER.replace(false) {
        IN_OBSERVER.set(Some(fork_and_use(tracker)));
    }
}

fn fork_in_observer(tracker: Tracker) -> Outcome {
    const OBJECT: usize = 0x6000_0000_0000;
    tracker.track(&describe(OBJECT, 98)).unwrap();
    FORK_IN_OBSERVER.set(true);
    tracker.destroy(OBJECT).unwrap();
    IN_OBSERVER.take().expect("the observer was told")
}

fn fork_in_visit(tracker: Tracker) -> Outcome {
    const OBJECT: usize = 0x5000_0000_0000;
    tracker.track(&describe(OBJECT, 97)).unwrap();
    let mut outcome = None;
    let visit = |_, _| {
        outcome = Some(fork_and_use(tracker));
        Visit::Stop
    };
    tracker.for_each(Some(97), None, visit).unwrap();
    tracker.destroy(OBJECT).unwrap();
    outcome.expect("the object was visited")
}

#[test]
fn r19_the_child_of_a_fork_uses_the_tracker_whatever_other_threads_were_doing() {
    let tracker = Tracker::new("fork").unwrap();
    let observer = move |ends: &[End]| observe(tracker, ends);
    tracker.set_observer(Some(Arc::new(observer))).unwrap();
    let (dead, _) = tracker.track(&describe(0x4000_0000, 96)).unwrap();
    tracker.destroy(0x4000_0000).unwrap();

    let stop = AtomicBool::new(false);
    let mut failures = Vec::new();
    thread::scope(|scope| {
        for number in 0..2 {
            let stop = &stop;
            scope.spawn(move || hooks(tracker, number, stop));
            scope.spawn(move || questions(tracker, number, dead, stop));
        }
        for fork in 0..forks() {
            // Sometimes the forking thread itself is inside a callback.
            let outcome = match fork % 10 {
                4 => fork_in_observer(tracker),
                9 => fork_in_visit(tracker),
                _ => fork_and_use(tracker),
            };
            if outcome != Outcome::Fine {
                failures.push((fork, outcome));
            }
            if failures.len() == ENOUGH {
                break;
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(failures.is_empty(), "fork and outcome: {failures:?}");
    tracker.destroy_tracker().unwrap();
}

/// The thread that destroys the tracker is not in the child, and no handle leads to the tracker there.
#[test]
fn r19_a_fork_while_a_tracker_is_destroyed_leaves_none_of_its_refs_live() {
    const OBJECTS: usize = 8_000;
    let mut in_between = 0;
    for round in 0..30 {
        let tracker = Tracker::new("destroyed").unwrap();
        let track = |number: usize| {
            let object = 0x7a00_0000_0000 + number * 64;
            let tracked = tracker.track(&describe(object, number as u64 % 7));
            tracked.unwrap().0
        };
        let refs: Vec<Ref> = (0..OBJECTS).map(track).collect();
        let destroyer = thread::spawn(move || tracker.destroy_tracker());
        thread::sleep(std::time::Duration::from_micros(200 * (round % 30)));
        let outcome = in_child(|| {
            let is_destroyed = tracker.stats().is_err();
            let live = refs.iter().filter(|held| held.is_live()).count();
            match (is_destroyed, live) {
                (true, 0) | (false, OBJECTS) => use_tracker(Tracker::new("child").unwrap()),
                _ => 98,
            }
        });
        assert_eq!(outcome, Outcome::Fine, "in round {round}");
        in_between += usize::from(!destroyer.is_finished());
        destroyer.join().unwrap().unwrap();
    }
    assert!(
        in_between > 0,
        "no fork met a tracker that was being destroyed"
    );
}
