// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The pointer index of a tracker: from an object's address to the slot that stands for it now.
//!
//! One dashmap for a tracker, never one for a scope (an empty one costs tens of KiB). Checks of a ref do not
//! come here. It is used through dashmap's raw interface, so that a look-up and the change that follows from it
//! share one hash and one lock of one shard. No two shards are ever locked at once, and nothing foreign is
//! called under a shard's lock.
//!
//! # The filter
//!
//! Nearly every destruction that an exact source reports is of an object that nobody tracks. So each shard has a Bloom
//! filter beside it, read without a lock: if one of an address's bits is clear, the object is not in the shard. Bits are
//! set when an object comes in, and stay when it goes, until enough have gone stale and the shard's bits are computed
//! anew.

use std::alloc::{Layout, alloc_zeroed, dealloc};

use dashmap::{DashMap, SharedValue};

use super::SPREAD;
use super::sync::{AtomicU32, AtomicU64, AtomicUsize, Lock, Ordering, lock};
use super::table::{self, Slot};

const SHARD_BITS: u32 = 8;
/// Enough that one shard's growth, which moves all its entries at once, stays below a millisecond with
/// ten million entries in the map; few enough that an idle tracker stays small.
const SHARDS: usize = 1 << SHARD_BITS;

/// Objects in the same 4 KiB of memory are *neighbours*: they are in one shard, and close to one another there. Most
/// objects come and go together with their neighbours, so this spares cache misses.
const REGION_BITS: u32 = 12;
/// Bits of a fingerprint that say where in its region an object is; objects are 8 bytes or more apart.
const PLACE_BITS: u32 = REGION_BITS - 3;

/// What the map keeps of an address: half as many bits. That its slot stands for the address itself is then seen in
/// the slot, which whoever finds it needs anyway. Nobody chooses addresses to make them collide.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Fingerprint(u32);

impl Fingerprint {
    #[inline]
    fn of(object: usize) -> Self {
        let object = object as u64;
        let region = (object >> REGION_BITS).wrapping_mul(SPREAD) >> (32 + PLACE_BITS);
        let place = (object >> 3) as u32 % (1 << PLACE_BITS);
        Self((region as u32) << PLACE_BITS | place)
    }

    #[inline]
    fn shard(self) -> usize {
        (self.0 >> PLACE_BITS) as usize % SHARDS
    }

    /// Where in a shard it should be: neighbours follow one another.
    #[inline]
    fn position(self) -> u32 {
        const GROUP: u32 = 16; // what dashmap's table looks at in one go
        let place = self.0 % (1 << PLACE_BITS) / 2;
        (self.0 >> (PLACE_BITS + SHARD_BITS)) * GROUP + place
    }

    #[inline]
    fn mixed(self) -> u64 {
        u64::from(self.0).wrapping_mul(SPREAD)
    }

    /// The two bits of a word of the filter.
    #[inline]
    fn bits(self) -> u64 {
        let choice = self.mixed() >> 40;
        1 << (choice % 64) | 1 << (choice / 64 % 64)
    }

    /// dashmap takes the bucket from the low bits, and the control byte from the seven highest ones.
    #[inline]
    fn hash(self) -> u64 {
        self.mixed() & 0x7f << 57 | u64::from(self.position())
    }
}

type Entry = (Fingerprint, SharedValue<Slot>);

/// What is looked for.
#[derive(Clone, Copy)]
struct Key {
    object: usize,
    fingerprint: Fingerprint,
}

impl Key {
    #[inline]
    fn new(object: usize) -> Self {
        let fingerprint = Fingerprint::of(object);
        Self {
            object,
            fingerprint,
        }
    }

    #[inline]
    fn is_of(&self, entry: &Entry) -> bool {
        entry.0 == self.fingerprint && table::Node::at(*entry.1.get()).hot.object() == self.object
    }
}

/// The fingerprints of all that is in a shard, which must be locked while they are taken. (A macro, since the type of a
/// shard's table has no name here.)
macro_rules! fingerprints {
    ($shard:expr) => {
        // SAFETY: the guard keeps the table as it is while the iterator lives.
        unsafe { $shard.iter() }.map(|bucket| {
            // SAFETY: as above.
            unsafe { bucket.as_ref() }.0
        })
    };
}

/// Locks a shard and gives its table. dashmap's own lock is left alone: to let go of it costs as much as to take it,
/// and every access to the map is in this file. (A macro, for the same reason.)
macro_rules! locked {
    ($index:expr, $number:expr) => {{
        let held = $index.filters[$number].lock.lock();
        // SAFETY: the lock is held while the table is used: the names go out of scope together.
        (held, unsafe {
            &mut *$index.map.shards()[$number].data_ptr()
        })
    }};
}

pub struct Index {
    /// From fingerprints to slots. Its own hasher is not used: every access brings its hash along.
    map: DashMap<Fingerprint, Slot>,
    filters: [Filter; SHARDS],
}

impl Index {
    pub fn new() -> Self {
        Self {
            map: DashMap::with_capacity_and_shard_amount(0, SHARDS),
            filters: [const { Filter::new() }; SHARDS],
        }
    }

    /// Whether an object may be in the index; `false` is certain. Takes no lock.
    #[inline]
    pub fn may_contain(&self, object: usize) -> bool {
        let fingerprint = Fingerprint::of(object);
        self.filters[fingerprint.shard()].may_contain(fingerprint)
    }

    pub fn get(&self, object: usize) -> Option<Slot> {
        let key = Key::new(object);
        if !self.filters[key.fingerprint.shard()].may_contain(key.fingerprint) {
            return None;
        }
        let (_held, shard) = locked!(self, key.fingerprint.shard());
        let bucket = shard.find(key.fingerprint.hash(), |entry| key.is_of(entry))?;
        // SAFETY: the bucket is of the table that the guard keeps others from changing.
        Some(*unsafe { bucket.as_ref() }.1.get())
    }

    /// The slot of an object, and whether it is new: then `make` gave it, and has made it stand for the object.
    /// `make` may only take memory.
    #[inline]
    pub fn get_or_insert<E>(
        &self,
        object: usize,
        make: impl FnOnce() -> Result<Slot, E>,
    ) -> Result<(Slot, bool), E> {
        let key = Key::new(object);
        let (_held, shard) = locked!(self, key.fingerprint.shard());
        let found = shard.find_or_find_insert_slot(
            key.fingerprint.hash(),
            |entry| key.is_of(entry),
            |(fingerprint, _)| fingerprint.hash(),
        );
        match found {
            // SAFETY: the bucket is of the table that the guard keeps others from changing.
            Ok(bucket) => Ok((*unsafe { bucket.as_ref() }.1.get(), false)),
            Err(place) => {
                let slot = make()?;
                let entry = (key.fingerprint, SharedValue::new(slot));
                // SAFETY: the place was found in this table for this hash, and the table has not changed
                // since.
                unsafe { shard.insert_in_slot(key.fingerprint.hash(), place, entry) };
                let filter = &self.filters[key.fingerprint.shard()];
                filter.add(key.fingerprint);
                if filter.is_crowded(shard.len()) {
                    filter.grow(fingerprints!(shard));
                }
                Ok((slot, true))
            }
        }
    }

    /// Lets another slot, which stands for the object already, take the place of the one in the index.
    pub fn replace(&self, object: usize, slot: Slot) {
        let key = Key::new(object);
        let (_held, shard) = locked!(self, key.fingerprint.shard());
        if let Some(bucket) = shard.find(key.fingerprint.hash(), |entry| key.is_of(entry)) {
            // SAFETY: the bucket is of the table that the guard keeps others from using.
            unsafe { bucket.as_mut() }.1 = SharedValue::new(slot);
        }
    }

    /// Takes an object out, if it is at that slot.
    #[inline]
    pub fn remove(&self, object: usize, slot: Slot) {
        self.take_if(object, |known| known == slot);
    }

    /// Looks an object's slot up, and takes it out if `is_wanted` says so: then the answer is `Ok`.
    #[inline]
    pub fn take_if(
        &self,
        object: usize,
        is_wanted: impl FnOnce(Slot) -> bool,
    ) -> Option<Result<Slot, Slot>> {
        let key = Key::new(object);
        let (_held, shard) = locked!(self, key.fingerprint.shard());
        let bucket = shard.find(key.fingerprint.hash(), |entry| key.is_of(entry))?;
        // SAFETY: the bucket is of the table that the guard keeps others from changing.
        let slot = *unsafe { bucket.as_ref() }.1.get();
        if !is_wanted(slot) {
            return Some(Err(slot));
        }
        // SAFETY: the table has not changed since the bucket was found in it.
        unsafe { shard.erase(bucket) };
        let filter = &self.filters[key.fingerprint.shard()];
        if filter.count_stale(shard.is_empty()) {
            filter.refresh(fingerprints!(shard));
        }
        Some(Ok(slot))
    }

    #[cfg(test)]
    pub fn lock_all(&self) -> impl Sized + '_ {
        self.filters
            .iter()
            .map(|filter| filter.lock.lock())
            .collect::<Vec<_>>()
    }

    /// Gives the memory of a map that has become empty back.
    pub fn shrink(&self) {
        for number in 0..SHARDS {
            let (_held, shard) = locked!(self, number);
            shard.shrink_to(0, |(fingerprint, _)| fingerprint.hash());
        }
    }
}

/// A shard's Bloom filter: two bits for an entry, both in the same word. Changed under the shard's lock only; read by
/// anybody.
struct Filter {
    /// The address of the words, which are aligned to 64 bytes, plus how far a position is shifted to give the number of
    /// its word. 0: the shard has never had an entry. [`Filter::EVERYTHING`]: there was no memory.
    place: AtomicUsize,
    /// Removals since the bits were computed.
    stale: AtomicU32,
    /// Guards the shard, and changes of the filter.
    lock: Lock<()>,
}

impl Filter {
    const FIRST_LEN: usize = 8;
    const GROWTH: usize = 4;
    /// The filter grows when it has fewer bits than this for an entry.
    const CROWDED: usize = 8;
    const ALIGNMENT: usize = 64;
    /// Every bit counts as set.
    const EVERYTHING: usize = 1;

    const fn new() -> Self {
        Self {
            place: AtomicUsize::new(0),
            stale: AtomicU32::new(0),
            lock: lock::new(()),
        }
    }

    /// The words, or null, and the shift.
    #[inline]
    fn words(&self, order: Ordering) -> (*const AtomicU64, u32) {
        let place = self.place.load(order);
        let shift = place % Self::ALIGNMENT;
        ((place - shift) as *const AtomicU64, shift as u32)
    }

    /// How many words there are. They are a power of two, and at least two.
    fn len(shift: u32) -> usize {
        1 << (u64::BITS - shift)
    }

    fn shift(len: usize) -> u32 {
        u64::BITS - len.trailing_zeros()
    }

    #[inline]
    fn word_of(fingerprint: Fingerprint, shift: u32) -> usize {
        // 16 words for a region: neighbours share two cache lines.
        (u64::from(fingerprint.position() / 16) << shift >> shift) as usize
    }

    #[inline]
    fn may_contain(&self, fingerprint: Fingerprint) -> bool {
        let (words, shift) = self.words(Ordering::Acquire);
        if words.is_null() {
            return shift != 0;
        }
        // SAFETY: there are 2^(64 - shift) words that are never freed, and the number is below that.
        let word =
            unsafe { &*words.add(Self::word_of(fingerprint, shift)) }.load(Ordering::Acquire);
        !word & fingerprint.bits() == 0
    }

    #[inline]
    fn add(&self, fingerprint: Fingerprint) {
        let (words, shift) = self.words(Ordering::Relaxed);
        if words.is_null() {
            return;
        }
        // SAFETY: as in `may_contain`.
        let word = unsafe { &*words.add(Self::word_of(fingerprint, shift)) };
        let bits = word.load(Ordering::Relaxed) | fingerprint.bits();
        word.store(bits, Ordering::Release);
    }

    #[inline]
    fn is_crowded(&self, entries: usize) -> bool {
        let (words, shift) = self.words(Ordering::Relaxed);
        if words.is_null() {
            shift == 0
        } else {
            entries * Self::CROWDED > 64 * Self::len(shift)
        }
    }

    /// Replaces the words by more, with the bits of `fingerprints`, which are all the shard has. Readers may still be at the
    /// old ones, so these are kept; all the old ones together are smaller than half of the new ones.
    #[cold]
    fn grow(&self, fingerprints: impl Iterator<Item = Fingerprint>) {
        let (old, old_shift) = self.words(Ordering::Relaxed);
        let len = if old.is_null() {
            Self::FIRST_LEN
        } else {
            Self::GROWTH * Self::len(old_shift)
        };
        let place = match Self::allocate(len, old) {
            Some(words) => {
                let shift = Self::shift(len);
                for fingerprint in fingerprints {
                    // SAFETY: the words are new, and not shared yet.
                    unsafe {
                        *(*words.add(Self::word_of(fingerprint, shift))).get_mut() |=
                            fingerprint.bits()
                    };
                }
                words as usize + shift as usize
            }
            // The shard works on without a filter.
            None => Self::EVERYTHING,
        };
        self.place.store(place, Ordering::Release);
        self.stale.store(0, Ordering::Relaxed);
    }

    /// Zeroed words, and a place in front of them that keeps the address of the old ones.
    fn allocate(len: usize, old: *const AtomicU64) -> Option<*mut AtomicU64> {
        let layout = Self::layout(len)?;
        // SAFETY: the layout is not of size zero.
        let block = unsafe { alloc_zeroed(layout) };
        if block.is_null() {
            return None;
        }
        // SAFETY: the block has ALIGNMENT bytes before the words.
        unsafe {
            block.cast::<*const AtomicU64>().write(old);
            Some(block.add(Self::ALIGNMENT).cast())
        }
    }

    fn layout(len: usize) -> Option<Layout> {
        let words = Layout::array::<AtomicU64>(len).ok()?;
        Layout::from_size_align(Self::ALIGNMENT + words.size(), Self::ALIGNMENT).ok()
    }

    /// Notes that bits may have gone stale; whether it is time for a refresh. In a shard that is empty that is early,
    /// since it costs little.
    #[inline]
    fn count_stale(&self, is_empty: bool) -> bool {
        let stale = self.stale.load(Ordering::Relaxed) + 1;
        self.stale.store(stale, Ordering::Relaxed);
        let (words, shift) = self.words(Ordering::Relaxed);
        let len = if words.is_null() {
            return false;
        } else {
            Self::len(shift)
        };
        let stale = stale as usize;
        stale * Self::CROWDED * 2 > 64 * len || is_empty && stale > len
    }

    /// Computes the bits anew from `fingerprints`, which are all the shard has. Each word goes from the old bits to the
    /// new ones in one store, and both have the bits of all entries: no reader ever misses one.
    #[cold]
    fn refresh(&self, fingerprints: impl Iterator<Item = Fingerprint>) {
        self.stale.store(0, Ordering::Relaxed);
        let (words, shift) = self.words(Ordering::Relaxed);
        let mut fresh = Vec::new(); // Allocates nothing for an empty shard.
        for fingerprint in fingerprints {
            fresh.resize(Self::len(shift), 0);
            fresh[Self::word_of(fingerprint, shift)] |= fingerprint.bits();
        }
        let bits = fresh.into_iter().chain(std::iter::repeat(0));
        for (number, bits) in (0..Self::len(shift)).zip(bits) {
            // SAFETY: as in `may_contain`.
            unsafe { &*words.add(number) }.store(bits, Ordering::Release);
        }
    }
}

impl Drop for Filter {
    fn drop(&mut self) {
        let (mut words, shift) = self.words(Ordering::Relaxed);
        let mut len = if words.is_null() { 0 } else { Self::len(shift) };
        while !words.is_null() {
            let block = words.cast::<u8>().wrapping_sub(Self::ALIGNMENT).cast_mut();
            // SAFETY: the block was made by `allocate` with this layout, and nobody can read it any more:
            // the filter is borrowed exclusively.
            unsafe {
                words = *block.cast::<*const AtomicU64>();
                if let Some(layout) = Self::layout(len) {
                    dealloc(block, layout);
                }
            }
            len /= Self::GROWTH;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(number: usize) -> usize {
        0x7f12_3456_0000 + number * 48
    }

    /// A slot that stands for an object.
    fn slot_for(object: usize) -> Result<Slot, ()> {
        let slot = table::reserve(1, 0).ok_or(())?;
        table::Node::at(slot).hot.set_object(object);
        Ok(slot)
    }

    /// What is in the index is always found, whatever comes and goes around it, and few strangers get past
    /// the filter.
    #[test]
    fn the_filter_never_hides_an_entry() {
        let index = Index::new();
        let mut inside = std::collections::HashMap::new();
        let mut bits = 88_172_645_463_325_252_u64;
        for round in 0..400_000_u32 {
            bits ^= bits << 13;
            bits ^= bits >> 7;
            bits ^= bits << 17;
            // First mostly growth, then mostly shrinking.
            let grows = (bits >> 40) % 4 != if round < 200_000 { 0 } else { 1 };
            let object = at(bits as usize % 60_000);
            if grows || round < 200_000 && bits.is_multiple_of(3) {
                let (slot, is_new) = index.get_or_insert(object, || slot_for(object)).unwrap();
                assert_eq!(is_new, !inside.contains_key(&object));
                assert_eq!(*inside.entry(object).or_insert(slot), slot);
            } else {
                if let Some(slot) = inside.remove(&object) {
                    index.remove(object, slot + 1); // Another's: nothing happens.
                    assert_eq!(index.get(object), Some(slot));
                    index.remove(object, slot);
                }
            }
            let probe = at((bits >> 20) as usize % 60_000);
            assert_eq!(index.get(probe), inside.get(&probe).copied());
        }
        for object in inside.keys() {
            assert!(index.may_contain(*object));
        }
        let strangers = (0..100_000).map(|n| at(n + 60_000));
        let passed = strangers
            .filter(|object| index.may_contain(*object))
            .count();
        assert!(
            passed < 10_000,
            "{passed} of 100,000 strangers got past the filter"
        );
    }

    /// Two addresses of which the map keeps the same bits.
    #[test]
    fn r16_a_fingerprint_is_not_taken_for_an_address() {
        // Two regions whose products with SPREAD differ in the low bits alone: its inverse times 17 and 18. Each step
        // doubles the number of right bits of the inverse.
        let inverse = (0..6).fold(SPREAD, |inverse, _| {
            inverse.wrapping_mul(2_u64.wrapping_sub(SPREAD.wrapping_mul(inverse)))
        });
        let regions = (1_u64..).map(|low| low.wrapping_mul(inverse));
        let mut fitting = regions.filter(|region| *region < 1 << (64 - REGION_BITS));
        let mut next = || (fitting.next().unwrap() << REGION_BITS) as usize + 0x40;
        let (first, second) = (next(), next());
        assert_eq!(Fingerprint::of(first), Fingerprint::of(second));

        let index = Index::new();
        let (slot, _) = index.get_or_insert(first, || slot_for(first)).unwrap();
        assert_eq!(index.get(second), None);
        assert_eq!(index.take_if(second, |_| true), None);
        let (other, is_new) = index.get_or_insert(second, || slot_for(second)).unwrap();
        assert!(is_new && other != slot);
        assert_eq!(index.take_if(second, |_| true), Some(Ok(other)));
        assert_eq!(index.get(first), Some(slot));
    }

    #[test]
    fn a_replaced_slot_is_found() {
        let index = Index::new();
        let (first, _) = index.get_or_insert(at(1), || slot_for(at(1))).unwrap();
        let second = slot_for(at(1)).unwrap();
        index.replace(at(1), second);
        assert_eq!(index.get(at(1)), Some(second));
        assert_eq!(
            index.take_if(at(1), |slot| slot == first),
            Some(Err(second))
        );
        assert_eq!(index.take_if(at(1), |_| true), Some(Ok(second)));
        assert_eq!(index.take_if(at(1), |_| true), None);
        index.shrink();
    }
}
