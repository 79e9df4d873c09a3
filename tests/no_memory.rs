// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! A time without memory, and what comes after it. The allocator of this program can be told to fail.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use live_object_tracker::{Description, Ref, Tracker};

struct Failing;

/// Zeroed memory of this alignment is refused: that is what filters ask for.
static REFUSED_ALIGNMENT: AtomicUsize = AtomicUsize::new(usize::MAX);

// SAFETY: everything is handed on to the system's allocator, or refused.
unsafe impl GlobalAlloc for Failing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller vouches.
        unsafe { System.alloc(layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.align() == REFUSED_ALIGNMENT.load(Ordering::Relaxed) {
            return std::ptr::null_mut();
        }
        // SAFETY: as the caller vouches.
        unsafe { System.alloc_zeroed(layout) }
    }
    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: as the caller vouches.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Failing = Failing;

fn track(tracker: Tracker, number: usize) -> Ref {
    let description = Description {
        object: 0x7c00_0000_0000 + number * 64,
        ..Default::default()
    };
    tracker.track(&description).unwrap().0
}

fn assert_that_hooks_reach_all(tracker: Tracker) {
    for number in 0..200 {
        let held = track(tracker, number);
        assert_eq!(tracker.find(held.object), Ok((held, 0)));
        tracker.destroy(held.object).unwrap();
        assert!(
            !held.is_live(),
            "object {number} is destroyed, and its ref counts as live"
        );
    }
}

/// A tracker had no memory for its filters; the next one in its place has.
#[test]
fn r01_a_tracker_after_one_without_memory_sees_every_end() {
    REFUSED_ALIGNMENT.store(64, Ordering::Relaxed);
    let first = Tracker::new("without memory").unwrap();
    assert_that_hooks_reach_all(first);
    first.destroy_tracker().unwrap();
    REFUSED_ALIGNMENT.store(usize::MAX, Ordering::Relaxed);
    let second = Tracker::new("with memory").unwrap();
    assert_that_hooks_reach_all(second);
    second.destroy_tracker().unwrap();
}
