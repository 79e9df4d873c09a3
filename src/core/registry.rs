// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Handles of trackers, and what is behind them.
//!
//! The low byte of a handle is the number of its [`Place`]. A place serves one tracker after the
//! other, and stores the handle of the current one. The [`TrackerState`] behind a handle is made
//! with the tracker and freed with it.
//!
//! A call takes a read guard of the fork lock, compares the handle, and may use the state as long
//! as it has the guard. Whoever destroys a tracker takes the handle away, and then waits until no
//! thread has a guard. So no call on an old handle ever meets a later tracker.

use std::ptr;

use super::forest::{self, Ending, STRIPES};
use super::index::Filters;
use super::observers::{Observer, PendingEnds, Replaced, this_thread};
use super::state::{Glance, TrackerState};
use super::sync::{
    AtomicPtr, AtomicU64, AtomicUsize, Lock, Ordering, array_of, fork_lock, lock, process_static,
};
use crate::Error;

/// How many trackers there can be at once.
const MAX_TRACKERS: usize = 256;

/// How many nodes of a tracker or scope that is being cleared end under one lock.
pub const PIECE: usize = 1024;

/// What a handle leads to. Places are never freed.
pub struct Place {
    /// The handle of the current tracker, or [`Place::nobody`].
    id: AtomicU64,
    glance: Glance,
    filters: Filters,
    /// Null without a tracker. A call that saw the handle may use it as long as it has a read
    /// guard.
    state: AtomicPtr<TrackerState>,
    /// The number of the thread that is destroying the tracker; 0: none is.
    destroyer: AtomicUsize,
}

process_static! {
    static PLACES: [AtomicPtr<Place>; MAX_TRACKERS] =
        array_of![AtomicPtr::new(ptr::null_mut()); MAX_TRACKERS];
}

process_static! {
    /// The number of the next tracker; guards the making of trackers too.
    static NEXT_SERIAL: Lock<u64> = lock::new(1);
}

/// A tracker's state, with the read guard that keeps it from being freed.
pub struct Open {
    pub guard: fork_lock::ReadGuard<'static>,
    state: *const TrackerState,
}

impl Open {
    #[inline]
    pub fn state(&self) -> &TrackerState {
        // SAFETY: `destroy` frees the state only when no thread that found it has a read guard.
        // This call has one.
        unsafe { &*self.state }
    }

    /// Tells the observer of ends. The caller holds no lock.
    #[inline]
    pub fn tell(self, ends: PendingEnds) {
        // SAFETY: as in `state`. `tell` uses the state only before it gives the guard up.
        ends.tell(unsafe { &*self.state }, self.guard);
    }
}

#[inline]
fn place_of(id: u64) -> Option<&'static Place> {
    let place = PLACES[id as usize % MAX_TRACKERS].load(Ordering::Acquire);
    // SAFETY: entries are null or point to a `Place` that was leaked for good.
    let place = unsafe { place.as_ref() }?;
    (place.id.load(Ordering::Acquire) == id).then_some(place)
}

/// Enters the fork lock, and gives the state of the tracker with that handle.
#[inline]
pub fn open(id: u64) -> Result<Open, Error> {
    let guard = fork_lock::read();
    let place = place_of(id).ok_or(Error::NO_TRACKER)?;
    let state = place.state.load(Ordering::Acquire);
    Ok(Open { guard, state })
}

/// Whether the tracker certainly does not know an address. It takes no lock, since nearly all
/// reports of destructions are of such addresses.
#[inline]
pub fn lacks(id: u64, object: usize) -> Result<bool, Error> {
    let place = place_of(id).ok_or(Error::NO_TRACKER)?;
    Ok(place.glance.busy.load(Ordering::Acquire) == 0 || !place.filters.may_contain(object))
}

/// Whether an exact source is active. It takes no lock.
#[inline]
pub fn is_exact(id: u64) -> bool {
    place_of(id).is_some_and(|place| place.glance.is_exact())
}

/// Makes a tracker and gives its handle.
pub fn create(name: &str) -> Result<u64, Error> {
    let _guard = fork_lock::read();
    // The first one counts. Inside of the fork lock, so that no child waits for a thread that it has not.
    fork_lock::on_fork_child(forget_other_threads);
    let mut serial = NEXT_SERIAL.lock();
    for (position, entry) in PLACES.iter().enumerate() {
        let mut known = entry.load(Ordering::Acquire);
        if known.is_null() {
            known = Box::into_raw(Box::new(Place::new(position)));
            entry.store(known, Ordering::Release);
        }
        // SAFETY: not null, and leaked for good.
        let place: &'static Place = unsafe { &*known };
        if !place.state.load(Ordering::Acquire).is_null() {
            continue;
        }
        let id = *serial * MAX_TRACKERS as u64 + position as u64;
        *serial += 1;
        let state = TrackerState::new(id, name, &place.filters, &place.glance);
        place
            .state
            .store(Box::into_raw(Box::new(state)), Ordering::Release);
        place.id.store(id, Ordering::Release);
        return Ok(id);
    }
    Err(Error::limit(
        c"256 trackers exist already; destroy one, or share one",
    ))
}

/// Ends everything in a tracker, and the tracker. The caller holds no guard of the fork lock.
pub fn destroy(id: u64) -> Result<(), Error> {
    let (place, state) = {
        let _nobody_else = fork_lock::exclusive();
        let place = place_of(id).ok_or(Error::NO_TRACKER)?;
        place
            .id
            .store(Place::nobody(id as usize), Ordering::Release);
        place.destroyer.store(this_thread(), Ordering::Release);
        // No call on the handle is under way. From here on calls find the state by a node only.
        (place, place.state.load(Ordering::Acquire))
    };
    // SAFETY: only this call frees the state, at its end.
    let state_ref = unsafe { &*state };
    let mut open = Open {
        guard: fork_lock::read(),
        state,
    };
    let mut ends = PendingEnds::new(state_ref);
    for number in 0..STRIPES as u8 {
        loop {
            let mut ending = Ending::new(ends.list());
            let is_done = clear_some(state_ref, number, &mut ending);
            if is_done {
                break;
            }
            // Lets a fork go on that waits.
            drop(open);
            open = Open {
                guard: fork_lock::read(),
                state,
            };
        }
        state_ref.settle(number);
    }
    place.reset();
    open.tell(ends);
    // After this, calls that found the state by a node are over, or are telling the observer.
    drop(fork_lock::exclusive());
    let observer = {
        let _guard = fork_lock::read();
        state_ref.observers.replace(None)
    };
    observer.finish();
    {
        let _guard = fork_lock::read();
        place.destroyer.store(0, Ordering::Release);
        place.state.store(ptr::null_mut(), Ordering::Release);
    }
    // SAFETY: `create` made it with `Box`. No other thread can find it or still has it.
    drop(unsafe { Box::from_raw(state) });
    Ok(())
}

/// Ends some of what a tracker has in a stripe. True if nothing was left.
fn clear_some(state: &TrackerState, number: u8, ending: &mut Ending) -> bool {
    let mut stripe = forest::stripe(number);
    let Some(scope) = stripe.first_scope(state) else {
        return true;
    };
    if !stripe.clear_some(state, scope, PIECE, ending) {
        stripe.forget_scope(scope);
    }
    false
}

/// Sets a tracker's observer, and waits for calls of the old one.
pub fn set_observer(id: u64, observer: Option<Observer>) -> Result<(), Error> {
    let replaced: Replaced = {
        let open = open(id)?;
        open.state().observers.replace(observer)
    };
    replaced.finish();
    Ok(())
}

/// Called in the child of a fork: forgets the parent's calls of observers.
fn forget_other_threads() {
    for place in PLACES.iter() {
        // SAFETY: entries are null or point to a `Place` that was leaked for good.
        let place = unsafe { place.load(Ordering::Acquire).as_ref() };
        // SAFETY: this is the only thread, and it holds the fork lock. A thread of the parent that
        // was about to free the state had set this to null first.
        let state = place.and_then(|place| unsafe { place.state.load(Ordering::Acquire).as_ref() });
        if let (Some(place), Some(state)) = (place, state) {
            state.observers.forget_other_threads();
            if ![0, this_thread()].contains(&place.destroyer.load(Ordering::Acquire)) {
                finish_destroying(place, state);
            }
        }
    }
}

/// In the child of a fork: ends everything in a tracker whose destroyer is a thread of the parent. No handle leads to it
/// any more, so nobody else could end its refs. No foreign code runs here: nobody is told, and the observer stays where it
/// is, as does the memory of the state.
fn finish_destroying(place: &'static Place, state: &TrackerState) {
    for number in 0..STRIPES as u8 {
        while !clear_some(state, number, &mut Ending::new(None)) {}
        state.settle(number);
    }
    place.reset();
    place.destroyer.store(0, Ordering::Release);
    place.state.store(ptr::null_mut(), Ordering::Release);
}

impl Place {
    /// A handle of no tracker. Its low byte is another place's number, so asking for it finds
    /// nothing.
    fn nobody(position: usize) -> u64 {
        ((position % MAX_TRACKERS) ^ 1) as u64
    }

    fn new(position: usize) -> Self {
        Self {
            id: AtomicU64::new(Self::nobody(position)),
            glance: Glance::default(),
            filters: Filters::new(),
            state: AtomicPtr::new(ptr::null_mut()),
            destroyer: AtomicUsize::new(0),
        }
    }

    /// Makes the place ready for the next tracker. Nothing is in the last one any more.
    fn reset(&self) {
        self.glance.busy.store(0, Ordering::Release);
        self.glance.exact_sources.store(0, Ordering::Release);
        self.filters.clear();
    }
}

/// Takes the lock under which trackers are made.
#[cfg(test)]
pub fn hold_registry() -> impl Sized {
    NEXT_SERIAL.lock()
}

/// Whether nobody has that lock.
#[cfg(all(test, shuttle))]
pub fn is_free() -> bool {
    !NEXT_SERIAL.is_locked()
}
