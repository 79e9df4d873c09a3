// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The slot table. The process has one. It is never freed or moved, so that any ref can be asked
//! about for ever.
//!
//! A slot holds one node at a time. A check reads its *hot* half: the object's address and the
//! epoch. The *cold* half holds the node's state, its user pointer and its links. Only the holder
//! of the lock of the slot's stripe changes either half.
//!
//! # Epochs
//!
//! An epoch is `generation << 32 | slot`. A slot's generation grows with every incarnation. A slot
//! whose generations are used up is retired, so no epoch is ever given out twice (R2). A dead
//! slot's stored epoch has bit 0 flipped ([`ENDED`]), so it encodes the neighbour's number. A ref
//! with that epoch is looked up in the neighbour, where it never matches.
//!
//! # Memory
//!
//! The table is two arrays, of the hot and of the cold halves. Their addresses are reserved when
//! the first slot is asked for. Memory is added as slots are given out. Masking the slot number
//! makes every 64-bit value readable. A forged epoch still fails, because the stored epoch contains
//! the slot's unmasked number.
//!
//! # Spare slots
//!
//! Stripes take free slots from the table in batches, and give surplus batches back
//! ([`take_batch`], [`give_batch`]). So slots that one scope has freed serve every other. A slot's
//! stripe changes only while it is in a batch.

#[cfg(all(test, loom))]
mod loom_models;

use std::ptr;

use super::storage::{self, zeroed};
use super::sync::{
    AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Lock, Ordering, lock, process_static,
};

/// A slot's number. 0 is no slot's.
pub type Slot = u32;

pub const NONE: Slot = 0;

/// Flipped in the epoch of a hot half while no incarnation is live.
const ENDED: u64 = 1;

pub use super::storage::BATCH;
use super::storage::{FIRST_LEN, RESERVED};

/// The last generation of a slot.
#[cfg(not(any(test, lot_small)))]
const LAST_GENERATION: u32 = u32::MAX;
/// The generation before the first of a fresh slot, in tests.
#[cfg(any(test, lot_small))]
const BEFORE_FIRST_IN_TESTS: u32 = 1 << 30;
/// The generations are few, so that a test can use a slot up.
#[cfg(lot_small)]
const LAST_GENERATION: u32 = BEFORE_FIRST_IN_TESTS + 4;
#[cfg(all(test, not(lot_small)))]
const LAST_GENERATION: u32 = BEFORE_FIRST_IN_TESTS + 100_000;

/// What a check reads.
#[repr(C)]
pub struct Hot {
    object: AtomicUsize,
    epoch: AtomicU64,
}

/// The rest of a slot. The links are read and written under the stripe's lock, so relaxed accesses
/// suffice.
#[repr(C)]
pub struct Cold {
    pub parent: AtomicU32,
    pub first_child: AtomicU32,
    pub next: AtomicU32,
    pub previous: AtomicU32,
    user: AtomicUsize,
    /// The node's [`Meta`], packed.
    meta: AtomicU32,
    /// The position of this slot's latest death in [`super::death_log`].
    pub last_death: AtomicU32,
}

// loom's atomics have other sizes.
const _: () = assert!(cfg!(loom) || size_of::<Hot>() == 16 && size_of::<Cold>() == 32);

zeroed!(Hot { object, epoch });
zeroed!(Cold {
    parent,
    first_child,
    next,
    previous,
    user,
    meta,
    last_death
});

/// The state of a slot. Only [`Node::occupy`], [`Node::start`], [`Node::end`] and
/// [`Node::set_state`] change it; new batches of slots begin as [`State::Free`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// The slot has no node. It is in a stripe's list of free slots, in a reserve, or in a batch.
    Free = 0,
    /// An untracked object with something tracked below it. It is in the index.
    Placeholder = 1,
    /// A live incarnation. It is in the index.
    Tracked = 2,
    /// An object that ended alone while two or more nodes were below it. It is not in the index and
    /// has no address. Its children's ancestors are found through it.
    Gone = 3,
    /// The slot's generations are used up. It never has a node again.
    Retired = 4,
}

/// The small facts of a slot in 32 bits: `scope:20 | kind:4 | state:3 | stripe:5`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Meta(u32);

pub const STRIPE_BITS: u32 = 5;
pub const MAX_SCOPES_PER_STRIPE: u32 = 1 << 20;

impl Meta {
    const KIND: u32 = 8;
    const SCOPE: u32 = 12;

    pub const fn new(stripe: u8, scope: u32, kind: u8, state: State) -> Self {
        let packed = scope << Self::SCOPE | (kind as u32) << Self::KIND;
        Self(packed | (state as u32) << STRIPE_BITS | stripe as u32)
    }

    /// The position of the node's scope in the stripe's list of scopes.
    pub const fn scope(self) -> u32 {
        self.0 >> Self::SCOPE
    }

    pub const fn kind(self) -> u8 {
        (self.0 >> Self::KIND & 0xf) as u8
    }

    pub const fn is(self, state: State) -> bool {
        self.0 >> STRIPE_BITS & 7 == state as u32
    }

    /// Whether the slot's node stands for an object: it is a placeholder or tracked.
    pub const fn has_address(self) -> bool {
        const FIRST: u32 = State::Placeholder as u32;
        (self.0 >> STRIPE_BITS & 7).wrapping_sub(FIRST) <= State::Tracked as u32 - FIRST
    }

    /// The stripe whose lock guards the slot.
    pub const fn stripe(self) -> u8 {
        (self.0 & 0x1f) as u8
    }

    /// Whether the node is in that scope. A thread may ask this of a node whose stripe it has not
    /// locked.
    pub const fn is_in(self, stripe: u8, scope: u32) -> bool {
        const SMALL: u32 = 0xff << STRIPE_BITS & 0xfff;
        self.0 & !SMALL == scope << Self::SCOPE | stripe as u32
    }

    const fn with(self, kind: u8, state: State) -> Self {
        Self::new(self.stripe(), self.scope(), kind, state)
    }
}

/// What a check reads besides the slot. `lot/lot.hpp` knows it as `lot_live_table_1`, and does
/// inline what [`is_live`] does.
#[repr(C)]
struct Table {
    hot: AtomicPtr<Hot>,
    /// The number of slots that have memory, less one. It is stored after `hot`.
    mask: AtomicU32,
}

process_static! {
    #[unsafe(export_name = "lot_live_table_1")]
    static TABLE: Table = Table {
        hot: AtomicPtr::new(NOTHING.as_ptr().cast_mut()),
        mask: AtomicU32::new(MASK_WITHOUT_MEMORY),
    };
}

/// The mask before the table has memory, when checks read [`NOTHING`].
const MASK_WITHOUT_MEMORY: u32 = 1;

process_static! {
    /// The table before it has memory. Each of the two has its neighbour's number, so no epoch matches.
    static NOTHING: [Hot; 2] = [
        Hot {
            object: AtomicUsize::new(0),
            epoch: AtomicU64::new(1),
        },
        Hot {
            object: AtomicUsize::new(0),
            epoch: AtomicU64::new(0),
        },
    ];
}

process_static! {
    static COLD: AtomicPtr<Cold> = AtomicPtr::new(ptr::null_mut());
}

process_static! {
    static STORE: Lock<Store> = lock::new(Store {
        reserved: 0,
        len: 0,
        next_fresh: NONE,
        batches: NONE,
    });
}

process_static! {
    /// The end of the slots that have been given out so far.
    static FRESH_END: AtomicU32 = AtomicU32::new(1);
}

pub const fn slot_of(epoch: u64) -> Slot {
    epoch as u32
}

pub const fn generation_of(epoch: u64) -> u32 {
    (epoch >> 32) as u32
}

/// A slot that was given out, with references to both its halves.
#[derive(Clone, Copy)]
pub struct Node {
    pub slot: Slot,
    hot: &'static Hot,
    pub cold: &'static Cold,
}

impl Node {
    /// The slot with that number, if the table has memory for it.
    #[inline]
    pub fn find(slot: Slot) -> Option<Node> {
        let mask = TABLE.mask.load(Ordering::Acquire);
        let exists = slot <= mask && slot != NONE && mask != MASK_WITHOUT_MEMORY;
        // SAFETY: the slot is not above the mask, so the table has memory for it.
        exists.then(|| unsafe { Self::existing(slot) })
    }

    /// The slot with that number, which was given out.
    #[inline]
    pub fn at(slot: Slot) -> Node {
        debug_assert!(Self::find(slot).is_some());
        // SAFETY: every slot number comes from `take_batch`, by way of links, the index or
        // `FRESH_END`. So the table has it.
        unsafe { Self::existing(slot) }
    }

    /// # Safety
    /// The table has memory for the slot. This thread has seen that, or has the number from a
    /// thread that has.
    #[inline]
    unsafe fn existing(slot: Slot) -> Node {
        let hot = TABLE.hot.load(Ordering::Relaxed);
        let cold = COLD.load(Ordering::Relaxed);
        // SAFETY: the arrays have memory for the slot, which is never freed. Zeroed memory is a
        // valid `Hot` or `Cold`. All its fields are atomics.
        unsafe {
            Node {
                slot,
                hot: &*hot.add(slot as usize),
                cold: &*cold.add(slot as usize),
            }
        }
    }

    #[inline]
    pub fn meta(self) -> Meta {
        Meta(self.cold.meta.load(Ordering::Relaxed))
    }

    #[inline]
    pub fn is(self, state: State) -> bool {
        self.meta().is(state)
    }

    #[inline]
    fn set_meta(self, meta: Meta) {
        self.cold.meta.store(meta.0, Ordering::Relaxed);
    }

    /// The object's address. It is 0 for a gone node.
    #[inline]
    pub fn object(self) -> usize {
        self.hot.object.load(Ordering::Acquire)
    }

    /// Whether the node stands for the object at that address. No node stands for address 0.
    #[inline]
    pub fn is_at(self, object: usize) -> bool {
        self.object() == object && object != 0
    }

    /// The epoch, if the slot's incarnation is live.
    #[inline]
    pub fn live_epoch(self) -> Option<u64> {
        let epoch = self.hot.epoch.load(Ordering::Acquire);
        (slot_of(epoch) == self.slot).then_some(epoch)
    }

    #[inline]
    pub fn user(self) -> usize {
        // With acquire, a thread that sees a later incarnation's pointer also sees that the earlier
        // one has ended.
        self.cold.user.load(Ordering::Acquire)
    }

    /// The epoch and the user pointer of the incarnation that is live here, if it is that object's.
    #[inline]
    pub fn live(self, object: usize) -> Option<(u64, usize)> {
        let epoch = self.live_epoch()?;
        let user = self.user();
        // Still live, so the user pointer was that incarnation's.
        is_live(object, epoch).then_some((epoch, user))
    }

    #[inline]
    pub fn set_user(self, user: usize) {
        self.cold.user.store(user, Ordering::Release);
    }

    /// Makes a free slot a placeholder for an object.
    #[inline]
    pub fn occupy(self, stripe: u8, scope: u32, object: usize) {
        debug_assert!(self.is(State::Free) && self.meta().stripe() == stripe);
        self.set_meta(Meta::new(stripe, scope, 0, State::Placeholder));
        self.hot.object.store(object, Ordering::Release);
    }

    /// Sets the state of a node that is not tracked, to one that is not [`State::Tracked`]. A gone
    /// node loses its address.
    #[inline]
    pub fn set_state(self, state: State) {
        debug_assert!(!self.is(State::Tracked) && state != State::Tracked);
        self.set_meta(self.meta().with(0, state));
        if state == State::Gone {
            self.hot.object.store(0, Ordering::Release);
        }
    }

    /// Starts an incarnation of a placeholder's object, and gives its epoch. The slot is not used
    /// up.
    #[inline]
    pub fn start(self, kind: u8, user: usize) -> u64 {
        debug_assert!(self.is(State::Placeholder) && !self.is_used_up());
        self.set_meta(self.meta().with(kind, State::Tracked));
        self.set_user(user);
        let generation = generation_of(self.hot.epoch.load(Ordering::Relaxed)) + 1;
        let epoch = (generation as u64) << 32 | self.slot as u64;
        self.hot.epoch.store(epoch, Ordering::Release);
        epoch
    }

    /// Ends a tracked node's incarnation. From here on every check says dead, and the node is a
    /// placeholder.
    #[inline]
    pub fn end(self) {
        debug_assert!(self.is(State::Tracked));
        let epoch = self.hot.epoch.load(Ordering::Relaxed);
        self.hot.epoch.store(epoch ^ ENDED, Ordering::Release);
        self.set_meta(self.meta().with(0, State::Placeholder));
    }

    /// Whether the slot has no further generation (R2: it is retired, never wrapped).
    #[inline]
    pub fn is_used_up(self) -> bool {
        generation_of(self.hot.epoch.load(Ordering::Relaxed)) == LAST_GENERATION
    }
}

/// Whether `(object, epoch)` is live. Any bits may be asked about, from any thread (R3).
#[inline]
pub fn is_live(object: usize, epoch: u64) -> bool {
    let slot = slot_of(epoch) & TABLE.mask.load(Ordering::Acquire);
    // SAFETY: the table has memory for all slots up to the mask, and `hot` is stored before the
    // mask. The memory is never freed, and its fields are atomics.
    let hot = unsafe { &*TABLE.hot.load(Ordering::Acquire).add(slot as usize) };
    // The object is read first. A publisher writes "ended", then the new object, then the new
    // epoch, each with release. Whoever sees an object sees no epoch from before it. So an old
    // epoch is never taken for live together with a newer object.
    let other_object = hot.object.load(Ordering::Acquire) ^ object;
    let other_epoch = hot.epoch.load(Ordering::Acquire) ^ epoch;
    // This takes one branch less than two comparisons.
    other_object as u64 | other_epoch == 0
}

/// The generation that fresh slots have behind them. It depends on where this library is loaded, so that two
/// copies of it in one process (in two bindings, say) do not give out the same epochs.
fn generation_before_first() -> u32 {
    #[cfg(any(test, lot_small))]
    return BEFORE_FIRST_IN_TESTS;
    #[cfg(not(any(test, lot_small)))]
    {
        static BEFORE: std::sync::OnceLock<u32> = std::sync::OnceLock::new();
        *BEFORE.get_or_init(|| {
            let here = &raw const FRESH_END as u64;
            // It has 30 bits, so that at least three quarters of the generations remain.
            ((here >> 4).wrapping_mul(super::SPREAD) >> 34) as u32
        })
    }
}

// Spare slots ----------------------------------------------------------------------------------------------

/// Gives a stripe free slots that are linked through `next`: the first, and their number, which is
/// at most [`BATCH`]. `None` if the table is full or the system has no memory for more.
#[cold]
pub fn take_batch(stripe: u8) -> Option<(Slot, u32)> {
    let mut store = STORE.lock();
    if store.batches == NONE {
        return store.fresh_batch(stripe);
    }
    let first = store.batches;
    store.batches = Node::at(first).cold.previous.load(Ordering::Relaxed);
    drop(store);
    let mut slot = first;
    while slot != NONE {
        let node = Node::at(slot);
        node.set_meta(Meta::new(stripe, 0, 0, State::Free));
        slot = node.cold.next.load(Ordering::Relaxed);
    }
    Some((first, BATCH))
}

/// Takes [`BATCH`] free slots from a stripe, which are linked through `next`.
#[cold]
pub fn give_batch(first: Slot) {
    let mut store = STORE.lock();
    let cold = Node::at(first).cold;
    cold.previous.store(store.batches, Ordering::Relaxed);
    store.batches = first;
}

/// One more than the largest slot that was given out so far.
pub fn end() -> Slot {
    FRESH_END.load(Ordering::Acquire)
}

/// The memory that the table has, and the slots that no stripe has.
struct Store {
    /// How many slots there are addresses for.
    reserved: usize,
    /// How many of these slots have memory.
    len: usize,
    /// The next slot that was never given out. It is 0 before the table has memory.
    next_fresh: Slot,
    /// The first batch of free slots. Batches are linked through `previous` of the first slot of
    /// each.
    batches: Slot,
}

impl Store {
    fn fresh_batch(&mut self, stripe: u8) -> Option<(Slot, u32)> {
        if self.next_fresh as usize == self.len {
            self.grow()?;
        }
        // A batch ends at a multiple of its size, so that no two batches share cache lines.
        let first = self.next_fresh.max(1);
        let end = (first / BATCH + 1) * BATCH;
        for slot in first..end {
            let node = Node::at(slot);
            node.set_meta(Meta::new(stripe, 0, 0, State::Free));
            let next = if slot + 1 == end { NONE } else { slot + 1 };
            node.cold.next.store(next, Ordering::Relaxed);
            let epoch = (generation_before_first() as u64) << 32 | slot as u64 ^ ENDED;
            node.hot.epoch.store(epoch, Ordering::Release);
        }
        self.next_fresh = end;
        FRESH_END.store(end, Ordering::Release);
        Some((first, end - first))
    }

    /// Gives the table memory for twice as many slots.
    fn grow(&mut self) -> Option<()> {
        if self.len == 0 {
            return self.start();
        }
        let len = 2 * self.len;
        if len > self.reserved {
            return None;
        }
        // SAFETY: `start` has reserved addresses for so many, and these are not in use.
        unsafe {
            storage::add_memory(TABLE.hot.load(Ordering::Relaxed), self.len, len)?;
            storage::add_memory(COLD.load(Ordering::Relaxed), self.len, len)?;
        }
        self.publish(len);
        Some(())
    }

    fn start(&mut self) -> Option<()> {
        let (slots, place) = reserve_addresses()?;
        let hot: *mut Hot = place.cast();
        let cold: *mut Cold = hot.wrapping_add(slots).cast();
        // SAFETY: the addresses are reserved, and nobody knows of them yet.
        unsafe {
            if storage::add_memory(hot, 0, FIRST_LEN).is_none()
                || storage::add_memory(cold, 0, FIRST_LEN).is_none()
            {
                storage::release(place, slots * SLOT_SIZE);
                return None;
            }
        }
        // SAFETY: the first slot has memory. It is never given out, and its epoch names its
        // neighbour.
        unsafe { &*hot }.epoch.store(ENDED, Ordering::Relaxed);
        COLD.store(cold, Ordering::Relaxed);
        TABLE.hot.store(hot, Ordering::Release);
        self.reserved = slots;
        self.publish(FIRST_LEN);
        Some(())
    }

    fn publish(&mut self, len: usize) {
        self.len = len;
        TABLE.mask.store((len - 1) as u32, Ordering::Release);
    }
}

const SLOT_SIZE: usize = size_of::<Hot>() + size_of::<Cold>();

/// Reserves addresses for the table, for as many slots as the system grants, and says for how many.
fn reserve_addresses() -> Option<(usize, *mut u8)> {
    let mut slots = RESERVED;
    // A process with a limit for its addresses needs them for other things: at most an eighth is ours.
    let share = storage::address_limit() / 8;
    while slots * SLOT_SIZE > share && slots > FIRST_LEN {
        slots /= 2;
    }
    while slots >= FIRST_LEN {
        if let Some(place) = storage::reserve(slots * SLOT_SIZE) {
            return Some((slots, place));
        }
        slots /= 2;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATES: [State; 5] = [
        State::Free,
        State::Placeholder,
        State::Tracked,
        State::Gone,
        State::Retired,
    ];

    #[test]
    fn meta_survives_packing() {
        let scope = MAX_SCOPES_PER_STRIPE - 1;
        for state in STATES {
            let meta = Meta::new(31, scope, 15, state);
            assert_eq!((meta.stripe(), meta.scope(), meta.kind()), (31, scope, 15));
            assert!(
                STATES
                    .iter()
                    .all(|other| meta.is(*other) == (*other == state))
            );
            let has_address = matches!(state, State::Placeholder | State::Tracked);
            assert_eq!(meta.has_address(), has_address);
            assert!(meta.is_in(31, scope));
            assert!(!meta.is_in(30, scope) && !meta.is_in(31, scope - 1));
            assert!(meta.with(3, State::Free).is(State::Free));
            assert_eq!(meta.with(3, State::Free).kind(), 3);
        }
    }

    #[test]
    fn r03_no_fresh_slot_is_live() {
        let (first, count) = take_batch(0).unwrap();
        for slot in first..first + count {
            assert_eq!(Node::at(slot).live_epoch(), None, "{slot}");
            let epoch = u64::from(generation_before_first()) << 32 | u64::from(slot);
            assert!(!is_live(0, epoch), "{slot}");
        }
    }

    /// Before the first registration no stored epoch matches, whatever slot an epoch names.
    #[test]
    fn r03_nothing_is_live_in_an_empty_table() {
        for epoch in [0, 1, 2, 3, u64::MAX, 1 << 32, 1 << 32 | 1] {
            assert!(!is_live(0, epoch), "{epoch:#x}");
        }
    }
}
