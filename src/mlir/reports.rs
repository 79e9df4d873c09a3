// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! From the watched functions to the trackers. What is here runs inside MLIR's destructors: no lock,
//! no allocation, no unwinding, no call into MLIR but the one to the original function.

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::names::{Choice, ERASE_ARGUMENTS_IF, Ends, FUNCTION_COUNT, FUNCTIONS};
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
                Ends::ObjectAndArguments => tracker.destroy_with(object, 1 << BLOCK_ARGUMENT),
                Ends::Object | Ends::Arguments(_) => tracker.destroy(object),
            };
            // An error means that the tracker is destroyed; then nobody wants to know.
            if catch_unwind(AssertUnwindSafe(report)).is_err() {
                crate::count_internal_error();
            }
        }
    }
}

impl Subscribers {
    /// Whether anybody tracks block arguments.
    pub fn want_arguments(&self) -> bool {
        let wants = |tracker: Tracker| {
            let count = || tracker.count(None, Some(BLOCK_ARGUMENT));
            matches!(catch_unwind(count), Ok(Ok(1..)))
        };
        self.all().any(wants)
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

/// A function that destroys its argument: one pointer in, nothing out.
type Destroy = unsafe extern "C-unwind" fn(*const c_void);

/// What a slot leads to instead of the function: report first, since afterwards another thread may
/// already have a new object at that address, then go on to the function.
unsafe extern "C-unwind" fn hook<const INSTANCE: usize, const FUNCTION: usize>(
    object: *const c_void,
) {
    let instance = &INSTANCES[INSTANCE];
    let function = &FUNCTIONS[FUNCTION];
    instance.subscribers.report(object as usize, function.ends);
    let original = instance.originals[FUNCTION].load(Ordering::Acquire);
    // SAFETY: stored before any slot led here, and the library that it is in stays loaded.
    let original: Destroy = unsafe { std::mem::transmute(original) };
    // SAFETY: the caller called exactly this function, with this argument.
    unsafe { original(object) }
}

/// A function that destroys some of a block's arguments, with one or two words that say which.
type EraseArguments = unsafe extern "C-unwind" fn(*const c_void, usize, usize);

/// The function inside an `llvm::function_ref<bool(BlockArgument)>`.
type Predicate = unsafe extern "C-unwind" fn(*mut c_void, *const c_void) -> bool;

/// As [`hook`]. Only the function itself knows the addresses of the arguments, and it tells them to
/// its predicate: so a predicate of ours goes in between, which reports those that will go. The other
/// three functions are done by the same one, with a predicate that counts.
unsafe extern "C-unwind" fn arguments_hook<const INSTANCE: usize, const FUNCTION: usize>(
    block: *const c_void,
    first: usize,
    second: usize,
) {
    let instance = &INSTANCES[INSTANCE];
    let watched = instance.subscribers.want_arguments();
    let function = if watched {
        ERASE_ARGUMENTS_IF
    } else {
        FUNCTION
    };
    let original = instance.originals[function].load(Ordering::Acquire);
    // SAFETY: stored before any slot led here, and the library that it is in stays loaded.
    let original: EraseArguments = unsafe { std::mem::transmute(original) };
    if !watched {
        // SAFETY: the caller called exactly this function, with these arguments.
        return unsafe { original(block, first, second) };
    }
    let mut erasure = Erasure {
        ends: FUNCTIONS[FUNCTION].ends,
        first,
        second,
        next: 0,
        subscribers: &instance.subscribers,
    };
    // SAFETY: what it takes is a block and a predicate, which is passed as a function and the data
    // for it, in two words.
    unsafe {
        original(
            block,
            decide as Predicate as usize,
            (&raw mut erasure) as usize,
        )
    }
}

struct Erasure<'a> {
    ends: Ends,
    first: usize,
    second: usize,
    /// The number of the argument that is asked for next.
    next: usize,
    subscribers: &'a Subscribers,
}

/// Whether that argument goes. If so, it is reported.
unsafe extern "C-unwind" fn decide(erasure: *mut c_void, argument: *const c_void) -> bool {
    // SAFETY: the address of the erasure in `arguments_hook`, which waits for the function that calls.
    let erasure = unsafe { &mut *erasure.cast::<Erasure>() };
    let number = erasure.next;
    erasure.next += 1;
    // C's `unsigned` is the low half of a word; the other half is not defined.
    let (first, second) = (
        erasure.first as u32 as usize,
        erasure.second as u32 as usize,
    );
    let goes = match erasure.ends {
        Ends::Arguments(Choice::One) => number == first,
        Ends::Arguments(Choice::Range) => (first..first + second).contains(&number),
        Ends::Arguments(Choice::Bits) => {
            const WIDTH: usize = u64::BITS as usize;
            // SAFETY: the address of a bit vector with a bit for each argument, which starts with the
            // address of its words.
            let word = unsafe { *(*(erasure.first as *const *const u64)).add(number / WIDTH) };
            word >> (number % WIDTH) & 1 != 0
        }
        Ends::Arguments(Choice::Predicate) => {
            // SAFETY: the two words of the caller's own predicate.
            let own: Predicate = unsafe { std::mem::transmute(erasure.first) };
            // SAFETY: as the function itself would have called it.
            unsafe { own(erasure.second as *mut c_void, argument) }
        }
        Ends::Object | Ends::ObjectAndArguments => false, // These have the other hook.
    };
    if goes {
        erasure.subscribers.report(argument as usize, Ends::Object);
    }
    goes
}

/// The functions that slots are made to lead to.
#[derive(Clone, Copy)]
enum Hook {
    Destroy(Destroy),
    EraseArguments(EraseArguments),
}

macro_rules! hooks_of {
    ($instance:literal) => {
        [
            Hook::Destroy(hook::<$instance, 0>),
            Hook::Destroy(hook::<$instance, 1>),
            Hook::Destroy(hook::<$instance, 2>),
            Hook::Destroy(hook::<$instance, 3>),
            Hook::Destroy(hook::<$instance, 4>),
            Hook::Destroy(hook::<$instance, 5>),
            Hook::EraseArguments(arguments_hook::<$instance, 6>),
            Hook::EraseArguments(arguments_hook::<$instance, 7>),
            Hook::EraseArguments(arguments_hook::<$instance, 8>),
            Hook::EraseArguments(arguments_hook::<$instance, 9>),
        ]
    };
}

static HOOKS: [[Hook; FUNCTION_COUNT]; INSTANCE_COUNT] = [
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
    match HOOKS[instance][function] {
        Hook::Destroy(hook) => hook as usize,
        Hook::EraseArguments(hook) => hook as usize,
    }
}
