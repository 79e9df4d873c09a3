// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! What happens when there is no memory: each allocation of a program fails once, in a process of
//! its own. Either the call is refused, and everything else is as if it had not been made, or the
//! process ends as Rust ends it. No answer is ever wrong.

#![cfg(unix)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use live_object_tracker::{Description, ErrorKind, Ref, Tracker};

struct Failing;

/// How many allocations succeed before one fails. At the maximum none does.
static LEFT: AtomicUsize = AtomicUsize::new(usize::MAX);
static MADE: AtomicUsize = AtomicUsize::new(0);

fn fails() -> bool {
    if LEFT.load(Ordering::Relaxed) == usize::MAX {
        return false;
    }
    MADE.fetch_add(1, Ordering::Relaxed);
    let left = LEFT.load(Ordering::Relaxed);
    LEFT.store(left.checked_sub(1).unwrap_or(usize::MAX), Ordering::Relaxed);
    left == 0
}

// SAFETY: everything is handed on to the system's allocator, or refused as an allocator may.
unsafe impl GlobalAlloc for Failing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if fails() {
            return ptr::null_mut();
        }
        // SAFETY: as the caller vouches.
        unsafe { System.alloc(layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if fails() {
            return ptr::null_mut();
        }
        // SAFETY: as the caller vouches.
        unsafe { System.alloc_zeroed(layout) }
    }
    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if fails() {
            return ptr::null_mut();
        }
        // SAFETY: as the caller vouches.
        unsafe { System.realloc(place, layout, size) }
    }
    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: as the caller vouches.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Failing = Failing;

fn at(number: usize) -> usize {
    0x7f00_0000_0000 + number * 64
}

/// Which calls were refused for want of memory.
fn program() -> usize {
    let mut refused = 0;
    let mut noted = |kind: ErrorKind| {
        assert_eq!(kind, ErrorKind::Limit, "refused for another reason");
        refused += 1;
    };
    let told = Arc::new(AtomicUsize::new(0));
    let tracker = loop {
        match Tracker::new("without memory") {
            Ok(tracker) => break tracker,
            Err(error) => noted(error.kind()),
        }
    };
    let teller = told.clone();
    tracker
        .set_observer(Some(Arc::new(move |ends| {
            teller.fetch_add(ends.len(), Ordering::Relaxed);
        })))
        .unwrap();
    let mut live: Vec<Ref> = Vec::with_capacity(10_000);
    let mut ended: Vec<Ref> = Vec::with_capacity(10_000);
    for number in 0..1_500 {
        // A few scopes at first, each with an ancestor of its own; then a scope for each object.
        let scope = if number < 700 { number % 3 } else { number };
        let ancestors = [at(100_000 + scope)];
        let description = Description {
            object: at(number),
            scope: scope as u64,
            ancestors: (number < 700).then_some(&ancestors[..]),
            ..Default::default()
        };
        match tracker.track(&description) {
            Ok((reference, _)) => live.push(reference),
            Err(error) => {
                noted(error.kind());
                assert!(
                    tracker.find(at(number)).is_err(),
                    "a refused object is known"
                );
            }
        }
        if number % 5 == 4
            && let Some(reference) = live.pop()
        {
            tracker.destroy(reference.object).unwrap();
            ended.push(reference);
        }
    }
    let mut visited = 0;
    for scope in 0..3 {
        visited += tracker.count(Some(scope), None).unwrap();
    }
    assert!(visited <= live.len());
    for reference in &live {
        assert!(reference.is_live(), "a live ref is dead");
        assert_eq!(tracker.find(reference.object), Ok((*reference, 0)));
    }
    for reference in &ended {
        assert!(!reference.is_live(), "a dead ref is live");
    }
    assert_eq!(tracker.stats().unwrap().tracked, live.len());
    tracker.clear_scope(1).unwrap();
    tracker.destroy_tracker().unwrap();
    assert!(!live.iter().any(|reference| reference.is_live()));
    assert_eq!(told.load(Ordering::Relaxed), live.len() + ended.len());
    refused
}

/// The child of the test below: one allocation of its program fails.
#[test]
fn r17_child_without_memory() {
    let Ok(left) = std::env::var("LOT_FAILING_ALLOCATION") else {
        return;
    };
    LEFT.store(left.parse().unwrap(), Ordering::Relaxed);
    let refused = program();
    LEFT.store(usize::MAX, Ordering::Relaxed);
    println!("made {} refused {refused}", MADE.load(Ordering::Relaxed));
}

#[test]
fn r17_each_allocation_may_fail_once() {
    let run = |left: usize| {
        Command::new(std::env::current_exe().unwrap())
            .args([
                "r17_child_without_memory",
                "--exact",
                "--nocapture",
                "--test-threads=1",
            ])
            .env("LOT_FAILING_ALLOCATION", left.to_string())
            .output()
            .unwrap()
    };
    let number = |text: &str, word: &str| -> usize {
        let rest = text.split(word).nth(1).unwrap();
        rest.split_whitespace().next().unwrap().parse().unwrap()
    };
    let whole = run(usize::MAX - 1);
    let text = String::from_utf8_lossy(&whole.stdout);
    assert!(whole.status.success(), "{text}");
    let made = number(&text, "made ");
    assert!(made > 100, "{made} allocations are too few to say anything");
    let (mut refusals, mut unnoticed, mut aborts) = (0, 0, 0);
    for left in 0..made {
        let child = run(left);
        let (out, err) = (
            String::from_utf8_lossy(&child.stdout),
            String::from_utf8_lossy(&child.stderr),
        );
        if child.status.success() {
            match number(&out, "refused ") {
                0 => unnoticed += 1,
                _ => refusals += 1,
            }
        } else {
            // As Rust ends a process without memory, and in no other way.
            assert_eq!(
                child.status.signal(),
                Some(libc::SIGABRT),
                "allocation {left}: {out}{err}"
            );
            assert!(
                err.contains("memory allocation of"),
                "allocation {left}: {out}{err}"
            );
            aborts += 1;
        }
    }
    println!(
        "{made} allocations: {refusals} refused, {unnoticed} did without, {aborts} ended the process"
    );
    assert!(refusals > 0 && unnoticed > 0 && aborts > 0);
}
