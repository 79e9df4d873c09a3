// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The slot table: one for the process, never freed, so that any ref can be asked about for ever.
//!
//! A slot holds one incarnation at a time. Its *hot* half, 16 bytes, is what a check reads: the object's
//! address and the epoch. Its *cold* half, 32 bytes, holds the place in the tree and the rest; it is only
//! touched under the lock of the slot's stripe.
//!
//! # Epochs
//!
//! An epoch is `generation << 32 | slot`. A slot's generation grows with every incarnation, and a slot whose
//! generations are used up is retired: no epoch is ever given out twice (R2). Bit 31 of a slot number is
//! never set, so the table uses it in the epoch of a hot half to say "ended": no ref can carry it and be
//! looked up, because no segment has slots that high.

use std::alloc::{Layout, alloc_zeroed};
use std::ptr;
use std::sync::OnceLock;

use super::sync::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Lock, Ordering};

/// A slot's number; 0 stands for "none".
pub type Slot = u32;

pub const NONE: Slot = 0;

/// Set in the epoch of a hot half once its incarnation has ended.
const ENDED: u64 = 1 << 31;

/// One more than the highest slot number. Tests make do with fewer generations instead.
const SLOT_LIMIT: u32 = 1 << 31;

/// The last generation of a slot.
#[cfg(not(test))]
const LAST_GENERATION: u32 = u32::MAX;
/// Few enough that a test can use a slot up: 100,000 from the first one.
#[cfg(test)]
const LAST_GENERATION: u32 = (1 << 30) + 100_000;

/// log2 of the slots in a segment. Large, so that the pointers to all segments are few; a segment's memory is only
/// addresses until it is used.
const SEGMENT_BITS: u32 = 20;
const SEGMENT_LEN: usize = 1 << SEGMENT_BITS;
/// For all 32-bit numbers; the upper half of them is never made.
const SEGMENTS: usize = 1 << (32 - SEGMENT_BITS);

/// What a check reads.
#[repr(C)]
pub struct Hot {
    object: AtomicUsize,
    epoch: AtomicU64,
}

/// The rest of a slot. Plain loads and stores (relaxed): the stripe's lock orders them.
#[repr(C)]
pub struct Cold {
    pub parent: AtomicU32,
    pub first_child: AtomicU32,
    pub next: AtomicU32,
    pub previous: AtomicU32,
    pub user: AtomicUsize,
    /// Packed: see [`Meta`].
    meta: AtomicU32,
    /// Where this slot's latest death is on record: a position in the stripe's quarantine plus 1, or 0.
    pub last_death: AtomicU32,
}

const _: () = assert!(size_of::<Hot>() == 16 && size_of::<Cold>() == 32);

/// What a slot stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    Free = 0,
    /// An untracked object, kept for its place in the tree.
    Anchor = 1,
    Tracked = 2,
}

/// The small facts of a slot in 32 bits: `scope:21 | kind:4 | state:2 | stripe:5`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Meta(u32);

pub const STRIPE_BITS: u32 = 5;
pub const MAX_SCOPES_PER_STRIPE: u32 = 1 << 21;

impl Meta {
    pub const fn new(stripe: u8, scope: u32, kind: u8, state: State) -> Self {
        Self(scope << 11 | (kind as u32) << 7 | (state as u32) << 5 | stripe as u32)
    }

    /// Position in the stripe's list of scopes.
    pub const fn scope(self) -> u32 {
        self.0 >> 11
    }

    pub const fn kind(self) -> u8 {
        (self.0 >> 7 & 0xf) as u8
    }

    pub const fn is(self, state: State) -> bool {
        self.0 >> 5 & 3 == state as u32
    }

    /// Never changes once the slot is in use: it says whose lock guards the slot.
    pub const fn stripe(self) -> u8 {
        (self.0 & 0x1f) as u8
    }

    /// The same node in another state.
    pub const fn with(self, kind: u8, state: State) -> Self {
        Self::new(self.stripe(), self.scope(), kind, state)
    }
}

impl Cold {
    #[inline]
    pub fn meta(&self) -> Meta {
        Meta(self.meta.load(Ordering::Relaxed))
    }

    #[inline]
    pub fn set_meta(&self, meta: Meta) {
        self.meta.store(meta.0, Ordering::Relaxed);
    }
}

/// Each pointer is moved back by the number of its first slot, so that it is indexed by the slot itself.
/// `lot/lot.hpp` reads this one as `lot_live_table`, to do inline what [`is_live`] does: it knows the layout of
/// [`Hot`] and the length of a segment.
#[unsafe(export_name = "lot_live_table")]
static HOT: [AtomicPtr<Hot>; SEGMENTS] = [const { AtomicPtr::new(ptr::null_mut()) }; SEGMENTS];
static COLD: [AtomicPtr<Cold>; SEGMENTS] = [const { AtomicPtr::new(ptr::null_mut()) }; SEGMENTS];

/// The next slot that was never used. Slot 0 is "none".
static NEXT_FRESH: AtomicU32 = AtomicU32::new(1);
static GROWING: Lock<()> = Lock::new(());

const fn segment_of(slot: Slot) -> usize {
    (slot >> SEGMENT_BITS) as usize
}

pub const fn slot_of(epoch: u64) -> Slot {
    epoch as u32
}

pub const fn generation_of(epoch: u64) -> u32 {
    (epoch >> 32) as u32
}

/// A slot that was given out by [`reserve`], with both its halves at hand.
#[derive(Clone, Copy)]
pub struct Node {
    pub slot: Slot,
    pub hot: &'static Hot,
    pub cold: &'static Cold,
}

impl Node {
    /// The slot, if its segment exists.
    #[inline]
    pub fn find(slot: Slot) -> Option<Node> {
        let has_segment = !HOT[segment_of(slot)].load(Ordering::Acquire).is_null();
        // SAFETY: the segment exists.
        has_segment.then(|| unsafe { Self::in_segment(slot) })
    }

    /// The slot, which must have been given out.
    #[inline]
    pub fn at(slot: Slot) -> Node {
        debug_assert!(Self::find(slot).is_some() && slot != NONE);
        // SAFETY: `reserve` makes the segment before it gives a slot out, and slots come from nowhere else.
        unsafe { Self::in_segment(slot) }
    }

    /// # Safety
    /// The slot's segment exists.
    #[inline]
    unsafe fn in_segment(slot: Slot) -> Node {
        let segment = segment_of(slot);
        let hot = HOT[segment].load(Ordering::Acquire);
        // Stored before the hot segment is.
        let cold = COLD[segment].load(Ordering::Relaxed);
        // SAFETY: each pointer is that of a whole segment, moved back by its first slot, and the segment contains
        // `slot`, so the sums are inside. Segments are zeroed, which is a valid `Hot` or `Cold`, shared only
        // through atomics, and never freed.
        unsafe {
            Node {
                slot,
                hot: &*hot.wrapping_add(slot as usize),
                cold: &*cold.wrapping_add(slot as usize),
            }
        }
    }
}

/// Whether `(object, epoch)` is live. Any bits may be asked about (R3).
#[inline]
pub fn is_live(object: usize, epoch: u64) -> bool {
    let slot = slot_of(epoch);
    let segment = HOT[segment_of(slot)].load(Ordering::Acquire);
    if segment.is_null() {
        return false;
    }
    // SAFETY: as in `Node::in_segment`.
    let hot = unsafe { &*segment.wrapping_add(slot as usize) };
    // The object first. A publisher writes "ended", then the new object, then the new epoch, each with
    // release: whoever sees an object sees no epoch older than the one that was published with it, so
    // an old epoch can never be taken for live together with a newer object.
    let other_object = hot.object.load(Ordering::Acquire) ^ object;
    let other_epoch = hot.epoch.load(Ordering::Acquire) ^ epoch;
    // One branch less than two comparisons.
    other_object as u64 | other_epoch == 0
}

impl Hot {
    #[inline]
    pub fn object(&self) -> usize {
        self.object.load(Ordering::Acquire)
    }

    /// The epoch, if the slot's incarnation is live.
    #[inline]
    pub fn live_epoch(&self) -> Option<u64> {
        let epoch = self.epoch.load(Ordering::Acquire);
        (epoch & ENDED == 0).then_some(epoch)
    }

    /// Says which object the slot stands for, without making it live. The slot must not be live.
    #[inline]
    pub fn set_object(&self, object: usize) {
        self.object.store(object, Ordering::Release);
    }

    /// Starts a new incarnation of the slot's object and gives its epoch. The slot must not be live, nor
    /// used up.
    #[inline]
    pub fn publish(&self, slot: Slot) -> u64 {
        let generation = generation_of(self.epoch.load(Ordering::Relaxed)) + 1;
        let epoch = (generation as u64) << 32 | slot as u64;
        self.epoch.store(epoch, Ordering::Release);
        epoch
    }

    /// Ends the incarnation and gives its epoch; from here on every check says dead. The slot must be live.
    #[inline]
    pub fn end(&self) -> u64 {
        let epoch = self.epoch.load(Ordering::Relaxed);
        self.epoch.store(epoch | ENDED, Ordering::Release);
        epoch
    }

    /// Whether no further incarnation may start in this slot (R2: it is retired, never wrapped).
    #[inline]
    pub fn is_used_up(&self) -> bool {
        generation_of(self.epoch.load(Ordering::Relaxed)) == LAST_GENERATION
    }
}

/// The generation that fresh slots have behind them. It depends on where this library is loaded, so that two
/// copies of it in one process (in two bindings, say) do not give out the same epochs.
fn generation_before_first() -> u32 {
    static BEFORE: OnceLock<u32> = OnceLock::new();
    *BEFORE.get_or_init(|| {
        let here = &raw const NEXT_FRESH as u64;
        // Fibonacci hashing; 30 bits, so that three quarters of the generations remain.
        let mixed = (here >> 4).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        if cfg!(test) {
            1 << 30
        } else {
            (mixed >> 34) as u32
        }
    })
}

/// Gives `count` slots that were never used, for `stripe`, as the first of them; `None` when the table is full
/// or the system has no memory for a segment.
pub fn reserve(count: u32, stripe: u8) -> Option<Slot> {
    let _growing = GROWING.lock();
    let first = NEXT_FRESH.load(Ordering::Relaxed);
    let end = first.checked_add(count).filter(|end| *end <= SLOT_LIMIT)?;
    for segment in segment_of(first)..=segment_of(end - 1) {
        add_segment(segment)?;
    }
    NEXT_FRESH.store(end, Ordering::Relaxed);
    let free = Meta::new(stripe, 0, 0, State::Free);
    let unborn = (generation_before_first() as u64) << 32 | ENDED;
    for slot in first..end {
        let node = Node::at(slot);
        node.cold.set_meta(free);
        let epoch = unborn | slot as u64;
        node.hot.epoch.store(epoch, Ordering::Release);
    }
    Some(first)
}

fn add_segment(segment: usize) -> Option<()> {
    if !HOT[segment].load(Ordering::Relaxed).is_null() {
        return Some(());
    }
    let hot = allocate::<Hot>()?;
    let cold = allocate::<Cold>()?;
    if segment == 0 {
        // Slot 0 is never given out: the null ref, all zeros, must not look like it.
        // SAFETY: the array has zeroed elements and is not shared yet.
        unsafe { (*hot).epoch = AtomicU64::new(ENDED) };
    }
    let first = segment * SEGMENT_LEN;
    COLD[segment].store(cold.wrapping_sub(first), Ordering::Release);
    HOT[segment].store(hot.wrapping_sub(first), Ordering::Release);
    Some(())
}

/// A zeroed array that is never freed. It comes straight from the kernel, which zeroes its pages as they are
/// touched: no hook pays for a whole segment.
fn allocate<T>() -> Option<*mut T> {
    let layout = Layout::array::<T>(SEGMENT_LEN).ok()?;
    // SAFETY: the layout is not of size zero.
    let array = unsafe { alloc_zeroed(layout) }.cast::<T>();
    (!array.is_null()).then_some(array)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_segment_has_the_slots_of_ended_epochs() {
        assert_eq!(segment_of(SLOT_LIMIT - 1) + 1, SEGMENTS / 2);
        assert_eq!(segment_of(u32::MAX), SEGMENTS - 1);
        assert!(slot_of(ENDED) >= SLOT_LIMIT);
    }

    #[test]
    fn meta_survives_packing() {
        for state in [State::Free, State::Anchor, State::Tracked] {
            let meta = Meta::new(31, MAX_SCOPES_PER_STRIPE - 1, 15, state);
            assert_eq!(
                (meta.stripe(), meta.scope(), meta.kind()),
                (31, MAX_SCOPES_PER_STRIPE - 1, 15)
            );
            assert!(meta.is(state) && meta.with(3, State::Free).is(State::Free));
            assert_eq!(meta.with(3, State::Free).kind(), 3);
        }
    }
}
