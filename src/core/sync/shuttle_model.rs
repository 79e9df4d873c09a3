// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The atomics and threads of the models that shuttle runs.
//!
//! All threads of a model take turns on one thread of the system. Before each use of an atomic,
//! shuttle chooses who goes on. So every interleaving of these uses can happen, with sequential
//! consistency: what weaker orders allow is for loom.
//!
//! The atomics are real ones. They can be in statics and in zeroed memory, and the core's statics
//! stay what they are from one run of a model to the next, as in a process that lives on.

use std::cell::Cell;
use std::ops::Deref;
pub use std::sync::atomic::Ordering;
use std::sync::atomic::{self as real, AtomicUsize as RealUsize};

use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::thread::JoinHandle;
use shuttle::{Config, MaxSteps, Runner};

use super::fork_lock;

std::thread_local! {
    /// Whether shuttle may choose another thread now.
    static MAY_SWITCH: Cell<bool> = const { Cell::new(false) };
}

/// An atomic before whose uses shuttle may switch to another thread.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct Switching<T>(T);

pub type AtomicBool = Switching<real::AtomicBool>;
pub type AtomicU32 = Switching<real::AtomicU32>;
pub type AtomicU64 = Switching<real::AtomicU64>;
pub type AtomicUsize = Switching<RealUsize>;
pub type AtomicPtr<T> = Switching<real::AtomicPtr<T>>;

macro_rules! methods {
    ($($name:ident: $value:ty;)*) => {
        $(impl Switching<real::$name> {
            pub const fn new(value: $value) -> Self {
                Self(real::$name::new(value))
            }

            /// Also a place to switch afterwards: what comes next need not be the use of an atomic.
            pub fn store(&self, value: $value, order: Ordering) {
                switch();
                self.0.store(value, order);
                switch();
            }
        })*
    };
}

methods! {
    AtomicBool: bool;
    AtomicU32: u32;
    AtomicU64: u64;
    AtomicUsize: usize;
}

impl<T> Switching<real::AtomicPtr<T>> {
    pub const fn new(value: *mut T) -> Self {
        Self(real::AtomicPtr::new(value))
    }

    pub fn store(&self, value: *mut T, order: Ordering) {
        switch();
        self.0.store(value, order);
        switch();
    }
}

impl<T> Deref for Switching<T> {
    type Target = T;

    fn deref(&self) -> &T {
        switch();
        &self.0
    }
}

/// Stores of a model's threads are seen at once, so there is nothing to order.
pub fn fence(_: Ordering) {}

/// Lets shuttle choose the thread that goes on.
pub fn switch() {
    static POINT: shuttle::sync::atomic::AtomicBool = shuttle::sync::atomic::AtomicBool::new(false);
    if MAY_SWITCH.get() {
        POINT.load(Ordering::SeqCst);
    }
}

/// Waits for another thread.
pub fn yield_now() {
    assert!(
        MAY_SWITCH.get(),
        "a thread waits that no other can run beside"
    );
    shuttle::thread::yield_now();
}

/// Does something in one step.
pub fn without_switches<T>(run: impl FnOnce() -> T) -> T {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            MAY_SWITCH.set(self.0);
        }
    }
    let _restore = Restore(MAY_SWITCH.replace(false));
    run()
}

/// Starts a thread of a model.
pub fn spawn<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    shuttle::thread::spawn(move || {
        let result = run();
        fork_lock::end_thread();
        result
    })
}

/// Runs a model again and again: half of the times with few switches at random places, half of the
/// times with a random choice at each place.
///
/// `LOT_INTERLEAVINGS` says how often, and `LOT_SEED` gives other interleavings. What fails fails
/// again with the same two numbers.
pub fn check(model: impl Fn() + Send + Sync + Clone + 'static) {
    check_times(number("LOT_INTERLEAVINGS", 3000) as usize, model);
}

/// As [`check`], for models that take long.
pub fn check_rarely(model: impl Fn() + Send + Sync + Clone + 'static) {
    check_times(number("LOT_INTERLEAVINGS", 3000) as usize / 10, model);
}

/// As [`check`], for models in which a rare interleaving matters.
pub fn check_often(model: impl Fn() + Send + Sync + Clone + 'static) {
    check_times(number("LOT_INTERLEAVINGS", 3000) as usize * 5, model);
}

fn check_times(times: usize, model: impl Fn() + Send + Sync + Clone + 'static) {
    /// In how many places the threads are switched by a schedule with few switches.
    const DEPTHS: [usize; 3] = [2, 3, 4];
    let seed = number("LOT_SEED", 1);
    let mut config = Config::new();
    config.silence_warnings = true;
    config.stack_size = 1 << 17;
    config.max_steps = MaxSteps::FailAfter(200_000);
    let in_model = move || {
        // What a process does once would be a switch in the middle of `std::sync::Once`.
        crate::Tracker::new("first")
            .map(crate::Tracker::destroy_tracker)
            .unwrap()
            .unwrap();
        MAY_SWITCH.set(true);
        model();
        fork_lock::end_thread();
        MAY_SWITCH.set(false);
    };
    for depth in DEPTHS {
        let scheduler = PctScheduler::new_from_seed(seed, depth, times / 6 + 1);
        Runner::new(scheduler, config.clone()).run(in_model.clone());
    }
    let scheduler = RandomScheduler::new_from_seed(seed, times / 2 + 1);
    Runner::new(scheduler, config).run(in_model);
}

fn number(variable: &str, default: u64) -> u64 {
    match std::env::var(variable) {
        Ok(text) => text
            .parse()
            .unwrap_or_else(|_| panic!("{variable}: no number")),
        Err(_) => default,
    }
}
