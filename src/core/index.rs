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

use super::sync::{AtomicU32, AtomicU64, AtomicUsize, Lock, Ordering};
use super::table::{self, Slot};

const SHARD_BITS: u32 = 8;
/// Enough that one shard's growth, which moves all its entries at once, stays below a millisecond with
/// ten million entries in the map; few enough that an idle tracker stays small.
const SHARDS: usize = 1 << SHARD_BITS;

/// An odd number that spreads what it is multiplied with (Fibonacci hashing).
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// What the map keeps of an address: half as many bits. That its slot stands for the address itself is then seen in
/// the slot, which whoever finds it needs anyway.
fn fingerprint_of(object: usize) -> u32 {
    ((object as u64).wrapping_mul(SPREAD) >> 32) as u32
}

/// dashmap takes the shard from the high bits and the bucket from the low ones, so both must be good; nobody chooses
/// addresses to make them collide.
fn hash_of(fingerprint: u32) -> u64 {
    u64::from(fingerprint).wrapping_mul(SPREAD)
}

/// What dashmap's `determine_shard` does for so many shards: it leaves the seven highest bits to the table's control
/// bytes.
fn shard_of(hash: u64) -> usize {
    (hash << 7 >> (64 - SHARD_BITS)) as usize
}

/// Where an object is in the map, if it is.
#[derive(Clone, Copy)]
struct Key {
    object: usize,
    fingerprint: u32,
    hash: u64,
    shard: usize,
}

type Entry = (u32, SharedValue<Slot>);

impl Key {
    #[inline]
    fn new(object: usize) -> Self {
        let fingerprint = fingerprint_of(object);
        let hash = hash_of(fingerprint);
        let shard = shard_of(hash);
        Self {
            object,
            fingerprint,
            hash,
            shard,
        }
    }

    #[inline]
    fn is_of(&self, entry: &Entry) -> bool {
        entry.0 == self.fingerprint && table::Node::at(*entry.1.get()).hot.object() == self.object
    }
}

/// The hashes of all that is in a shard, which must be locked while they are taken. (A macro, since the type of a
/// shard's table has no name here.)
macro_rules! hashes {
    ($shard:expr) => {
        // SAFETY: the guard keeps the table as it is while the iterator lives.
        unsafe { $shard.iter() }.map(|bucket| {
            // SAFETY: as above.
            hash_of(unsafe { bucket.as_ref() }.0)
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
    map: DashMap<u32, Slot>,
    filters: [Filter; SHARDS],
}

impl Index {
    pub fn new() -> Self {
        let map = DashMap::with_capacity_and_shard_amount(0, SHARDS);
        debug_assert!((0..64).all(|bit| map.determine_shard(1 << bit) == shard_of(1 << bit)));
        Self {
            map,
            filters: [const { Filter::new() }; SHARDS],
        }
    }

    /// Whether an object may be in the index; `false` is certain. Takes no lock.
    #[inline]
    pub fn may_contain(&self, object: usize) -> bool {
        let key = Key::new(object);
        self.filters[key.shard].may_contain(key.hash)
    }

    pub fn get(&self, object: usize) -> Option<Slot> {
        let key = Key::new(object);
        if !self.filters[key.shard].may_contain(key.hash) {
            return None;
        }
        let (_held, shard) = locked!(self, key.shard);
        let bucket = shard.find(key.hash, |entry| key.is_of(entry))?;
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
        let (_held, shard) = locked!(self, key.shard);
        let found = shard.find_or_find_insert_slot(
            key.hash,
            |entry| key.is_of(entry),
            |(fingerprint, _)| hash_of(*fingerprint),
        );
        match found {
            // SAFETY: the bucket is of the table that the guard keeps others from changing.
            Ok(bucket) => Ok((*unsafe { bucket.as_ref() }.1.get(), false)),
            Err(place) => {
                let slot = make()?;
                let entry = (key.fingerprint, SharedValue::new(slot));
                // SAFETY: the place was found in this table for this hash, and the table has not changed
                // since.
                unsafe { shard.insert_in_slot(key.hash, place, entry) };
                let filter = &self.filters[key.shard];
                filter.add(key.hash);
                if filter.is_crowded(shard.len()) {
                    filter.grow(hashes!(shard));
                }
                Ok((slot, true))
            }
        }
    }

    /// Lets another slot, which stands for the object already, take the place of the one in the index.
    pub fn replace(&self, object: usize, slot: Slot) {
        let key = Key::new(object);
        let (_held, shard) = locked!(self, key.shard);
        if let Some(bucket) = shard.find(key.hash, |entry| key.is_of(entry)) {
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
        let (_held, shard) = locked!(self, key.shard);
        let bucket = shard.find(key.hash, |entry| key.is_of(entry))?;
        // SAFETY: the bucket is of the table that the guard keeps others from changing.
        let slot = *unsafe { bucket.as_ref() }.1.get();
        if !is_wanted(slot) {
            return Some(Err(slot));
        }
        // SAFETY: the table has not changed since the bucket was found in it.
        unsafe { shard.erase(bucket) };
        let filter = &self.filters[key.shard];
        if filter.count_stale(shard.is_empty()) {
            filter.refresh(hashes!(shard));
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
            shard.shrink_to(0, |(fingerprint, _)| hash_of(*fingerprint));
        }
    }
}

/// A shard's Bloom filter: two bits for an entry, both in the same word. Changed under the shard's lock only; read by
/// anybody.
struct Filter {
    /// The address of the words, which are aligned to 64 bytes, plus how far a hash is shifted to give the number of
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
            lock: Lock::new(()),
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
    fn word_of(hash: u64, shift: u32) -> usize {
        // The highest bits choose the shard.
        (hash << (7 + SHARD_BITS) >> shift) as usize
    }

    #[inline]
    fn bits_of(hash: u64) -> u64 {
        1 << (hash % 64) | 1 << (hash / 64 % 64)
    }

    #[inline]
    fn may_contain(&self, hash: u64) -> bool {
        let (words, shift) = self.words(Ordering::Acquire);
        if words.is_null() {
            return shift != 0;
        }
        // SAFETY: there are 2^(64 - shift) words that are never freed, and the number is below that.
        let word = unsafe { &*words.add(Self::word_of(hash, shift)) }.load(Ordering::Acquire);
        !word & Self::bits_of(hash) == 0
    }

    #[inline]
    fn add(&self, hash: u64) {
        let (words, shift) = self.words(Ordering::Relaxed);
        if words.is_null() {
            return;
        }
        // SAFETY: as in `may_contain`.
        let word = unsafe { &*words.add(Self::word_of(hash, shift)) };
        let bits = word.load(Ordering::Relaxed) | Self::bits_of(hash);
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

    /// Replaces the words by more, with the bits of `hashes`, which are all the shard has. Readers may still be at the
    /// old ones, so these are kept; all the old ones together are smaller than half of the new ones.
    #[cold]
    fn grow(&self, hashes: impl Iterator<Item = u64>) {
        let (old, old_shift) = self.words(Ordering::Relaxed);
        let len = if old.is_null() {
            Self::FIRST_LEN
        } else {
            Self::GROWTH * Self::len(old_shift)
        };
        let place = match Self::allocate(len, old) {
            Some(words) => {
                let shift = Self::shift(len);
                for hash in hashes {
                    // SAFETY: the words are new, and not shared yet.
                    unsafe {
                        *(*words.add(Self::word_of(hash, shift))).get_mut() |= Self::bits_of(hash)
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

    /// Computes the bits anew from `hashes`, which are all the shard has. Each word goes from the old bits to the
    /// new ones in one store, and both have the bits of all entries: no reader ever misses one.
    #[cold]
    fn refresh(&self, hashes: impl Iterator<Item = u64>) {
        self.stale.store(0, Ordering::Relaxed);
        let (words, shift) = self.words(Ordering::Relaxed);
        let mut fresh = Vec::new(); // Allocates nothing for an empty shard.
        for hash in hashes {
            fresh.resize(Self::len(shift), 0);
            fresh[Self::word_of(hash, shift)] |= Self::bits_of(hash);
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
        // What SPREAD is multiplied with to give 1: each step doubles the number of right bits.
        let inverse = (0..6).fold(SPREAD, |inverse, _| {
            inverse.wrapping_mul(2_u64.wrapping_sub(SPREAD.wrapping_mul(inverse)))
        });
        let [first, second] = [17_u64, 18].map(|low| low.wrapping_mul(inverse) as usize);
        assert_eq!(fingerprint_of(first), fingerprint_of(second));

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
