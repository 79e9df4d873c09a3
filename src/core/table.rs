// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The slot table: one for the process, never freed and never moved, so that any ref can be asked about for ever.
//!
//! A slot holds one incarnation at a time. Its *hot* half, 16 bytes, is what a check reads: the object's
//! address and the epoch. Its *cold* half, 32 bytes, holds the place in the tree and the rest; it is only
//! touched under the lock of the slot's stripe.
//!
//! # Epochs
//!
//! An epoch is `generation << 32 | slot`. A slot's generation grows with every incarnation, and a slot whose
//! generations are used up is retired: no epoch is ever given out twice (R2). While a slot's incarnation is not
//! live, the epoch in its hot half names the neighbouring slot ([`ENDED`]). So whatever is looked up here with such an
//! epoch is looked up there, and does not match.
//!
//! # Memory
//!
//! Two arrays, of the hot and of the cold halves. Their addresses are reserved when the first slot is asked for, and
//! memory is added to them as slots are given out. So a check needs no directory of pieces, and its number of slots is
//! a power of two, so that a mask makes any bits the number of a slot that can be read.

use std::ptr;
use std::sync::OnceLock;

use super::SPREAD;
use super::sync::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Lock, Ordering};

/// A slot's number; 0 stands for "none".
pub type Slot = u32;

pub const NONE: Slot = 0;

/// Flipped in the epoch of a hot half while no incarnation is live.
const ENDED: u64 = 1;

/// How many slots addresses are reserved for: 3 GiB. The tracker's memory for so many objects is 5 GB, and that of
/// the objects themselves and of their wrappers many times more.
const RESERVED: usize = 1 << 26;
/// How many slots get memory at first: 3 MiB, which the system hands out page by page as they are touched. Later on
/// their number doubles.
const FIRST_LEN: usize = 1 << 16;

/// The last generation of a slot.
#[cfg(not(test))]
const LAST_GENERATION: u32 = u32::MAX;
/// Few enough that a test can use a slot up: 100,000 from the first one.
#[cfg(test)]
const LAST_GENERATION: u32 = (1 << 30) + 100_000;

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

/// All that a check reads besides the slot. `lot/lot.hpp` knows it as `lot_live_table`, and does inline what [`is_live`]
/// does.
#[repr(C)]
struct Table {
    hot: AtomicPtr<Hot>,
    /// The number of slots that have memory, less one. Stored after `hot`.
    mask: AtomicU32,
}

#[unsafe(export_name = "lot_live_table_1")]
static TABLE: Table = Table {
    hot: AtomicPtr::new((&raw const NOTHING).cast_mut()),
    mask: AtomicU32::new(0),
};

/// The table before it has memory, and slot 0: it is never given out, and the null ref must not look like it.
static NOTHING: Hot = Hot {
    object: AtomicUsize::new(0),
    epoch: AtomicU64::new(ENDED),
};

static COLD: AtomicPtr<Cold> = AtomicPtr::new(ptr::null_mut());

/// The next slot that was never used. Slot 0 is "none".
static NEXT_FRESH: AtomicU32 = AtomicU32::new(1);
static GROWING: Lock<Memory> = Lock::new(Memory {
    reserved: 0,
    len: 0,
});

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
    /// The slot, if the table has it.
    #[inline]
    pub fn find(slot: Slot) -> Option<Node> {
        let exists = slot <= TABLE.mask.load(Ordering::Acquire) && slot != NONE;
        // SAFETY: it exists.
        exists.then(|| unsafe { Self::existing(slot) })
    }

    /// The slot, which must have been given out.
    #[inline]
    pub fn at(slot: Slot) -> Node {
        debug_assert!(Self::find(slot).is_some());
        // SAFETY: slots come from `reserve` and nowhere else.
        unsafe { Self::existing(slot) }
    }

    /// The epoch, if the slot's incarnation is live.
    #[inline]
    pub fn live_epoch(self) -> Option<u64> {
        let epoch = self.hot.epoch.load(Ordering::Acquire);
        (slot_of(epoch) == self.slot).then_some(epoch)
    }

    /// # Safety
    /// The table has the slot, and this thread knows that from one that has seen it.
    #[inline]
    unsafe fn existing(slot: Slot) -> Node {
        let hot = TABLE.hot.load(Ordering::Relaxed);
        let cold = COLD.load(Ordering::Relaxed);
        // SAFETY: the arrays have memory for the slot. It was zeroed, which is a valid `Hot` or `Cold`, is shared
        // only through atomics, and never freed.
        unsafe {
            Node {
                slot,
                hot: &*hot.add(slot as usize),
                cold: &*cold.add(slot as usize),
            }
        }
    }
}

/// Whether `(object, epoch)` is live. Any bits may be asked about (R3).
#[inline]
pub fn is_live(object: usize, epoch: u64) -> bool {
    let slot = slot_of(epoch) & TABLE.mask.load(Ordering::Acquire);
    // SAFETY: there is memory for the slots up to the mask; else as in `Node::existing`. A slot that only the mask has
    // made one of the table's has another number in its epoch.
    let hot = unsafe { &*TABLE.hot.load(Ordering::Acquire).add(slot as usize) };
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
        self.epoch.store(epoch ^ ENDED, Ordering::Release);
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
        // 30 bits, so that three quarters of the generations remain.
        let mixed = (here >> 4).wrapping_mul(SPREAD);
        if cfg!(test) {
            1 << 30
        } else {
            (mixed >> 34) as u32
        }
    })
}

/// Gives `count` slots that were never used, for `stripe`, as the first of them; `None` when the table is full
/// or the system has no memory for them.
pub fn reserve(count: u32, stripe: u8) -> Option<Slot> {
    let mut memory = GROWING.lock();
    let first = NEXT_FRESH.load(Ordering::Relaxed);
    let end = first.checked_add(count)?;
    while end as usize > memory.len {
        memory.grow()?;
    }
    NEXT_FRESH.store(end, Ordering::Relaxed);
    let free = Meta::new(stripe, 0, 0, State::Free);
    let generation = generation_before_first() as u64;
    for slot in first..end {
        let node = Node::at(slot);
        node.cold.set_meta(free);
        let epoch = generation << 32 | slot as u64 ^ ENDED;
        node.hot.epoch.store(epoch, Ordering::Release);
    }
    Some(first)
}

/// What the table has of the system.
struct Memory {
    /// How many slots there are addresses for, and for how many of these there is memory.
    reserved: usize,
    len: usize,
}

impl Memory {
    /// Gives the table memory for twice as many slots.
    #[cold]
    fn grow(&mut self) -> Option<()> {
        if self.len == 0 {
            return self.start();
        }
        let len = 2 * self.len;
        if len > self.reserved {
            return None;
        }
        add_memory(TABLE.hot.load(Ordering::Relaxed), self.len, len)?;
        add_memory(COLD.load(Ordering::Relaxed), self.len, len)?;
        self.publish(len);
        Some(())
    }

    fn start(&mut self) -> Option<()> {
        let (slots, place) = reserve_addresses()?;
        let hot: *mut Hot = place.cast();
        let cold: *mut Cold = hot.wrapping_add(slots).cast();
        add_memory(hot, 0, FIRST_LEN)?;
        add_memory(cold, 0, FIRST_LEN)?;
        // SAFETY: the first slot has memory.
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

/// Reserves addresses for the table, for as many slots as the system grants, and says for how many.
fn reserve_addresses() -> Option<(usize, *mut libc::c_void)> {
    const SLOT_SIZE: usize = size_of::<Hot>() + size_of::<Cold>();
    let mut slots = RESERVED;
    // A process with a limit for its addresses needs them for other things: at most an eighth is ours.
    let share = address_limit() / 8;
    while slots * SLOT_SIZE > share && slots > FIRST_LEN {
        slots /= 2;
    }
    while slots >= FIRST_LEN {
        let size = slots * SLOT_SIZE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANON;
        // SAFETY: a new mapping, wherever the system likes; nothing in it can be read or written yet.
        let place = unsafe { libc::mmap(ptr::null_mut(), size, libc::PROT_NONE, flags, -1, 0) };
        if place != libc::MAP_FAILED {
            return Some((slots, place));
        }
        slots /= 2;
    }
    None
}

/// Makes elements of an array usable. The system zeroes each page as it is touched: no hook pays for all.
fn add_memory<T>(array: *mut T, from: usize, to: usize) -> Option<()> {
    let (place, size) = (array.wrapping_add(from), (to - from) * size_of::<T>());
    // SAFETY: the elements are in the addresses that `Memory::reserve` got, and nobody has used them yet.
    let result = unsafe { libc::mprotect(place.cast(), size, libc::PROT_READ | libc::PROT_WRITE) };
    (result == 0).then_some(())
}

/// How many bytes of addresses the process may use.
fn address_limit() -> usize {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is a valid place for the result.
    match unsafe { libc::getrlimit(libc::RLIMIT_AS, &mut limit) } {
        0 => usize::try_from(limit.rlim_cur).unwrap_or(usize::MAX),
        _ => usize::MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
