// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! From the watched functions to the trackers. What is here runs inside MLIR's destructors: no lock,
//! no allocation, no unwinding, no call into MLIR but the one to the original function.

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::names::{Ends, FUNCTION_COUNT, FUNCTIONS};
use super::{BLOCK_ARGUMENT, exists};
use crate::core::sync::Lock;
use crate::{Error, Tracker};

/// How many trackers one source can report to.
const TRACKERS: usize = 32;

/// The trackers that one source reports to: changed under a lock, read without.
pub(crate) struct Subscribers {
    places: [AtomicU64; TRACKERS],
    /// Places from here on were never used: a report need not look at them.
    used: AtomicUsize,
    changes: Lock<()>,
}

impl Subscribers {
    pub const fn new() -> Self {
        Self {
            places: [const { AtomicU64::new(0) }; TRACKERS],
            used: AtomicUsize::new(0),
            changes: Lock::new(()),
        }
    }

    /// Starts the reports to a tracker, then runs `then`; neither if it is there already. An error of
    /// `then` takes the start back.
    pub fn add(
        &self,
        tracker: Tracker,
        then: impl FnOnce() -> Result<(), Error>,
    ) -> Result<(), Error> {
        let _lock = self.changes.lock();
        if self.contains(tracker) {
            return Ok(());
        }
        // A tracker that was destroyed wants no reports any more.
        let is_free = |place: &AtomicU64| match place.load(Ordering::Relaxed) {
            0 => true,
            id => !exists(Tracker::from_raw(id)),
        };
        let free = self.places.iter().position(is_free);
        let free = free.ok_or(Error::limit(c"32 trackers use this source already"))?;
        self.places[free].store(tracker.to_raw(), Ordering::Release);
        self.used.fetch_max(free + 1, Ordering::Release);
        then().inspect_err(|_| self.places[free].store(0, Ordering::Release))
    }

    /// Runs `first`, then ends the reports to a tracker. False, and neither, if there were none.
    pub fn remove(&self, tracker: Tracker, first: impl FnOnce()) -> bool {
        let _lock = self.changes.lock();
        let mut places = self.places.iter();
        let place = places.find(|place| place.load(Ordering::Relaxed) == tracker.to_raw());
        if let Some(place) = place {
            first();
            place.store(0, Ordering::Release);
        }
        place.is_some()
    }

    pub fn contains(&self, tracker: Tracker) -> bool {
        self.all().any(|other| other == tracker)
    }

    /// Whether nobody wants reports any more.
    pub fn is_idle(&self) -> bool {
        !self.all().any(exists)
    }

    pub fn all(&self) -> impl Iterator<Item = Tracker> {
        let used = &self.places[..self.used.load(Ordering::Acquire)];
        let ids = used.iter().map(|place| place.load(Ordering::Acquire));
        ids.filter(|id| *id != 0).map(Tracker::from_raw)
    }

    /// `object` is about to go away. An unknown address is the ordinary case.
    #[inline]
    pub fn report(&self, object: usize, ends: Ends) {
        for tracker in self.all() {
            let report = || match ends {
                Ends::Object => tracker.destroy(object),
                Ends::ObjectAndArguments => tracker.destroy_with(object, 1 << BLOCK_ARGUMENT),
            };
            // An error means that the tracker is destroyed; then nobody wants to know.
            if catch_unwind(AssertUnwindSafe(report)).is_err() {
                crate::count_internal_error();
            }
        }
    }
}

/// How many MLIR libraries can be watched at the same time.
pub(crate) const INSTANCE_COUNT: usize = 8;

/// What the hooks for one watched library need.
pub(crate) struct Instance {
    /// The library's own functions; 0: it has none of that name. Set before any slot leads here.
    pub originals: [AtomicUsize; FUNCTION_COUNT],
    pub subscribers: Subscribers,
    /// How many objects the loader had added when the tables were last gone through.
    pub additions: AtomicU64,
}

pub(crate) static INSTANCES: [Instance; INSTANCE_COUNT] = [const {
    Instance {
        originals: [const { AtomicUsize::new(0) }; FUNCTION_COUNT],
        subscribers: Subscribers::new(),
        additions: AtomicU64::new(0),
    }
}; INSTANCE_COUNT];

/// All watched functions have this shape: one pointer in, nothing out.
type Watched = unsafe extern "C-unwind" fn(*const c_void);

/// What a slot leads to instead of the function: report first, since afterwards another thread may
/// already have a new object at that address, then go on to the function.
unsafe extern "C-unwind" fn hook<const INSTANCE: usize, const FUNCTION: usize>(
    object: *const c_void,
) {
    let instance = &INSTANCES[INSTANCE];
    instance
        .subscribers
        .report(object as usize, FUNCTIONS[FUNCTION].ends);
    let original = instance.originals[FUNCTION].load(Ordering::Acquire);
    // SAFETY: stored before any slot led here, and the library that it is in stays loaded.
    let original: Watched = unsafe { std::mem::transmute(original) };
    // SAFETY: the caller called exactly this function, with this argument.
    unsafe { original(object) }
}

macro_rules! hooks_of {
    ($instance:literal) => {
        [
            hook::<$instance, 0> as Watched,
            hook::<$instance, 1>,
            hook::<$instance, 2>,
            hook::<$instance, 3>,
            hook::<$instance, 4>,
            hook::<$instance, 5>,
        ]
    };
}

static HOOKS: [[Watched; FUNCTION_COUNT]; INSTANCE_COUNT] = [
    hooks_of!(0),
    hooks_of!(1),
    hooks_of!(2),
    hooks_of!(3),
    hooks_of!(4),
    hooks_of!(5),
    hooks_of!(6),
    hooks_of!(7),
];

/// The address that a slot for `function` of the library of `instance` gets.
pub(crate) fn hook_address(instance: usize, function: usize) -> usize {
    HOOKS[instance][function] as usize
}
