// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! What hooks and checks allocate (R11), and what stays allocated (R12). The allocator of this program counts.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Mutex;
use std::sync::atomic::{AtomicIsize, Ordering};

use live_object_tracker::{Description, Ref, Tracker, set_death_log_capacity};

struct Counting;

static BYTES: AtomicIsize = AtomicIsize::new(0);

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: everything is handed on to the system's allocator; the counters need no allocation.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        BYTES.fetch_add(layout.size() as isize, Ordering::Relaxed);
        // SAFETY: as the caller vouches.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        BYTES.fetch_sub(layout.size() as isize, Ordering::Relaxed);
        // SAFETY: as the caller vouches.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The figures are the process's: one test at a time.
static ALONE: Mutex<()> = Mutex::new(());

fn at(number: usize) -> usize {
    0x7f00_0000_0000 + number * 64
}

fn track(tracker: Tracker, object: usize, ancestors: &[usize]) -> Ref {
    let ancestors = Some(ancestors);
    tracker
        .track(&Description {
            object,
            scope: 1,
            ancestors,
            ..Default::default()
        })
        .unwrap()
        .0
}

fn allocations_in(work: impl FnOnce()) -> usize {
    let before = ALLOCATIONS.get();
    work();
    ALLOCATIONS.get() - before
}

#[test]
fn r11_hooks_and_checks_allocate_nothing() {
    let _alone = ALONE.lock();
    let tracker = Tracker::new("test").unwrap();
    let refs: Vec<Ref> = (0..2000)
        .map(|n| track(tracker, at(n), &[at(5000), at(5001)]))
        .collect();
    // Deaths are on record in a ring that grows until it is full: fill it first.
    for _ in 0..20_000 {
        track(tracker, at(4000), &[]).release().unwrap();
    }
    let in_all = allocations_in(|| {
        assert!(refs.iter().all(|held| held.is_live()));
        for n in 0..200 {
            tracker.destroy(at(6000 + n)).unwrap(); // Nobody tracks it.
            tracker.erase(at(6000 + n)).unwrap();
            tracker.destroy(at(n)).unwrap();
            tracker.destroy(at(n)).unwrap();
            tracker.erase(at(200 + n)).unwrap();
            tracker.detach(at(400 + n)).unwrap();
            refs[600 + n].release().unwrap();
            let _ = refs[n].death();
        }
        tracker.erase(at(5001)).unwrap(); // The rest at once.
        tracker.opaque_mutation(at(5000)).unwrap();
        tracker.clear_scope(9).unwrap();
        assert_eq!(tracker.count(Some(1), None).unwrap(), 200);
    });
    // The one exception: the filter of a shard is computed anew, in a buffer, when enough has gone.
    assert!(
        in_all <= 200,
        "{in_all} allocations in 2,600 hooks and more"
    );
    let misses = allocations_in(|| {
        for n in 0..100_000 {
            tracker.destroy(at(10_000 + n)).unwrap();
        }
    });
    assert_eq!(misses, 0);
    tracker.destroy_tracker().unwrap();
}

#[test]
fn r12_memory_is_bounded_by_what_is_tracked() {
    let _alone = ALONE.lock();
    let tracker = Tracker::new("test").unwrap();
    let mut after_round = Vec::new();
    for round in 0..30 {
        // Other addresses each time, other scopes, other ancestors.
        let base = round * 100_000;
        for n in 0..3000 {
            let ancestors = [
                at(base + 10_000 + n),
                at(base + 20_000 + n % 7),
                at(base + 30_000),
            ];
            let scope = (round * 10 + n % 10) as u64;
            let description = Description {
                object: at(base + n),
                scope,
                ancestors: Some(&ancestors),
                ..Default::default()
            };
            let (held, _) = tracker.track(&description).unwrap();
            if n % 3 == 0 {
                held.release().unwrap();
            }
        }
        for n in 0..3000 {
            tracker.destroy(at(base + n)).unwrap();
        }
        let stats = tracker.stats().unwrap();
        assert_eq!((stats.tracked, stats.anchors), (0, 0));
        after_round.push(BYTES.load(Ordering::Relaxed));
    }
    // The rings of the dead fill up meanwhile, at most to 24 MiB; nothing else grows.
    let growth = after_round[29] - after_round[0];
    assert!(
        growth <= 24 << 20,
        "{growth} bytes more after 90,000 objects: {after_round:?}"
    );
    tracker.destroy_tracker().unwrap();

    // With one scope, whose ring is full, nothing grows at all.
    let tracker = Tracker::new("test").unwrap();
    let churn = |rounds: usize| {
        for round in 0..rounds {
            let held = track(tracker, at(round % 50_000), &[at(100_000 + round % 77)]);
            held.release().unwrap();
        }
        BYTES.load(Ordering::Relaxed)
    };
    let warm = churn(100_000);
    let later = churn(400_000);
    assert!(
        later - warm <= 4096,
        "{} bytes more after 400,000 objects",
        later - warm
    );
    tracker.destroy_tracker().unwrap();
}

#[test]
fn an_idle_tracker_is_small() {
    let _alone = ALONE.lock();
    Tracker::new("warm up").unwrap().destroy_tracker().unwrap();
    // The second one takes the place of the first: look at a third, beside it.
    let second = Tracker::new("second").unwrap();
    let before = BYTES.load(Ordering::Relaxed);
    let third = Tracker::new("third").unwrap();
    let size = BYTES.load(Ordering::Relaxed) - before;
    assert!(size <= 64 * 1024, "{size} bytes");
    third.destroy_tracker().unwrap();
    second.destroy_tracker().unwrap();
}

#[test]
fn r12_memory_of_a_death_log_that_shrinks_is_given_back() {
    let _alone = ALONE.lock();
    let tracker = Tracker::new("test").unwrap();
    let end_one = || track(tracker, at(1), &[]).release().unwrap();
    set_death_log_capacity(1 << 20).unwrap();
    end_one();
    let large = BYTES.load(Ordering::Relaxed);
    set_death_log_capacity(1 << 16).unwrap();
    end_one();
    let given_back = large - BYTES.load(Ordering::Relaxed);
    assert!(given_back >= 40 << 20, "{given_back} bytes");
    tracker.destroy_tracker().unwrap();
}

#[test]
fn r12_a_tracker_that_is_cleared_gives_memory_back() {
    let _alone = ALONE.lock();
    let tracker = Tracker::new("test").unwrap();
    track(tracker, at(1), &[]).release().unwrap(); // The death log has its memory now.
    let before = BYTES.load(Ordering::Relaxed);
    for n in 0..200_000 {
        track(tracker, at(n), &[]);
    }
    let full = BYTES.load(Ordering::Relaxed) - before;
    tracker.clear_scope(1).unwrap();
    let left = BYTES.load(Ordering::Relaxed) - before;
    // Filters are never freed.
    assert!(left <= full / 2, "{left} bytes of {full} are left");
    tracker.destroy_tracker().unwrap();
}
