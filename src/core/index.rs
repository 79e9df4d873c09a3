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
//! Nearly every destruction that an exact source reports is of an object that nobody tracks. So each shard has a
//! bitmap beside it, read without a lock: a bit that is clear says that no object whose address hashes there is
//! in the shard. Bits are set when an object comes in, and stay when it goes, until enough have gone stale and the
//! shard's bits are computed anew.

use std::alloc::{Layout, alloc_zeroed, dealloc};

use dashmap::{DashMap, SharedValue};

use super::sync::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use super::table::Slot;

/// Enough that one shard's growth, which moves all its entries at once, stays below a millisecond with
/// ten million entries in the map; few enough that an idle tracker stays small.
const SHARDS: usize = 256;

/// An address in halves: with an alignment of 4 an entry takes 12 bytes instead of 16.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Address([u32; 2]);

impl Address {
    fn new(object: usize) -> Self {
        let object = object as u64;
        Self([object as u32, (object >> 32) as u32])
    }

    /// One multiplication. dashmap takes the shard from the high bits and the bucket from the low ones, so both
    /// must be good; nobody chooses addresses to make them collide.
    #[inline]
    fn hash(self) -> u64 {
        let object = self.0[0] as u64 | (self.0[1] as u64) << 32;
        let wide = u128::from(object) * 0x9e37_79b9_7f4a_7c15;
        wide as u64 ^ (wide >> 64) as u64
    }
}

pub struct Index {
    /// Its own hasher is not used: every access brings its hash along.
    map: DashMap<Address, Slot>,
    filters: [Filter; SHARDS],
}

impl Index {
    pub fn new() -> Self {
        Self {
            map: DashMap::with_capacity_and_shard_amount(0, SHARDS),
            filters: [const { Filter::new() }; SHARDS],
        }
    }

    #[inline]
    fn shard_of(&self, hash: u64) -> usize {
        self.map.determine_shard(hash as usize)
    }

    /// Whether an object may be in the index; `false` is certain. Takes no lock.
    #[inline]
    pub fn may_contain(&self, object: usize) -> bool {
        let hash = Address::new(object).hash();
        self.filters[self.shard_of(hash)].may_contain(hash)
    }

    pub fn get(&self, object: usize) -> Option<Slot> {
        let address = Address::new(object);
        let hash = address.hash();
        let number = self.shard_of(hash);
        if !self.filters[number].may_contain(hash) {
            return None;
        }
        let shard = self.map.shards()[number].read();
        let bucket = shard.find(hash, |(known, _)| *known == address)?;
        // SAFETY: the bucket is of the table that the guard keeps others from changing.
        Some(*unsafe { bucket.as_ref() }.1.get())
    }

    /// The slot of an object, and whether it is new: then `make` gave it. `make` may only take memory.
    #[inline]
    pub fn get_or_insert<E>(
        &self,
        object: usize,
        make: impl FnOnce() -> Result<Slot, E>,
    ) -> Result<(Slot, bool), E> {
        let address = Address::new(object);
        let hash = address.hash();
        let number = self.shard_of(hash);
        let mut shard = self.map.shards()[number].write();
        let found = shard.find_or_find_insert_slot(
            hash,
            |(known, _)| *known == address,
            |(known, _)| known.hash(),
        );
        match found {
            // SAFETY: the bucket is of the table that the guard keeps others from changing.
            Ok(bucket) => Ok((*unsafe { bucket.as_ref() }.1.get(), false)),
            Err(place) => {
                let slot = make()?;
                // SAFETY: the place was found in this table for this hash, and the table has not changed
                // since.
                unsafe { shard.insert_in_slot(hash, place, (address, SharedValue::new(slot))) };
                let filter = &self.filters[number];
                filter.add(hash);
                if filter.is_crowded(shard.len()) {
                    // SAFETY: the guard keeps the table as it is while the iterator lives.
                    let hashes = unsafe { shard.iter() }.map(|bucket| {
                        // SAFETY: as above.
                        unsafe { bucket.as_ref() }.0.hash()
                    });
                    filter.grow(hashes);
                }
                Ok((slot, true))
            }
        }
    }

    /// Lets another slot stand for an object that is in the index.
    pub fn replace(&self, object: usize, slot: Slot) {
        let address = Address::new(object);
        let hash = address.hash();
        let shard = self.map.shards()[self.shard_of(hash)].write();
        if let Some(bucket) = shard.find(hash, |(known, _)| *known == address) {
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
        let address = Address::new(object);
        let hash = address.hash();
        let number = self.shard_of(hash);
        let mut shard = self.map.shards()[number].write();
        let bucket = shard.find(hash, |(known, _)| *known == address)?;
        // SAFETY: the bucket is of the table that the guard keeps others from changing.
        let slot = *unsafe { bucket.as_ref() }.1.get();
        if !is_wanted(slot) {
            return Some(Err(slot));
        }
        // SAFETY: the table has not changed since the bucket was found in it.
        unsafe { shard.erase(bucket) };
        let filter = &self.filters[number];
        if filter.count_stale() {
            // SAFETY: the guard keeps the table as it is while the iterator lives.
            let hashes = unsafe { shard.iter() }.map(|bucket| {
                // SAFETY: as above.
                unsafe { bucket.as_ref() }.0.hash()
            });
            filter.refresh(hashes);
        }
        Some(Ok(slot))
    }

    #[cfg(test)]
    pub fn lock_all(&self) -> impl Sized + '_ {
        self.map
            .shards()
            .iter()
            .map(|shard| shard.write())
            .collect::<Vec<_>>()
    }

    /// Gives the memory of a map that has become empty back.
    pub fn shrink(&self) {
        for shard in self.map.shards() {
            shard.write().shrink_to(0, |(known, _)| known.hash());
        }
    }
}

/// A shard's bitmap. Changed under the shard's lock only; read by anybody.
struct Filter {
    /// The address of the words, which are aligned to 64 bytes, plus the binary logarithm of the number of
    /// bits. 0: the shard has never had an entry. [`Filter::EVERYTHING`]: there was no memory.
    place: AtomicUsize,
    /// Removals since the bits were computed.
    stale: AtomicU32,
}

impl Filter {
    const FIRST_LOG2: u32 = 9;
    const GROWTH_LOG2: u32 = 2;
    /// Bits for an entry, when the bitmap grows.
    const CROWDED: usize = 8;
    const ALIGNMENT: usize = 64;
    /// Every bit counts as set.
    const EVERYTHING: usize = 1;

    const fn new() -> Self {
        Self {
            place: AtomicUsize::new(0),
            stale: AtomicU32::new(0),
        }
    }

    /// The words and the number of bits.
    #[inline]
    fn bits(&self, order: Ordering) -> (*const AtomicU64, u32) {
        let place = self.place.load(order);
        let log2 = place % Self::ALIGNMENT;
        ((place - log2) as *const AtomicU64, log2 as u32)
    }

    /// Which word, and which bit in it, a hash belongs to.
    #[inline]
    fn position(hash: u64, log2: u32) -> (usize, u64) {
        // The lowest bits choose the bucket, the highest the shard: take some from between.
        let bit = (hash >> 12) as usize & ((1 << log2) - 1);
        (bit / 64, 1 << (bit % 64))
    }

    #[inline]
    fn may_contain(&self, hash: u64) -> bool {
        let (words, log2) = self.bits(Ordering::Acquire);
        if words.is_null() {
            return log2 != 0;
        }
        let (word, bit) = Self::position(hash, log2);
        // SAFETY: `words` points to 2^log2 bits that are never freed, and the position is below that.
        unsafe { &*words.add(word) }.load(Ordering::Acquire) & bit != 0
    }

    #[inline]
    fn add(&self, hash: u64) {
        let (words, log2) = self.bits(Ordering::Relaxed);
        if words.is_null() {
            return;
        }
        let (word, bit) = Self::position(hash, log2);
        // SAFETY: as in `may_contain`.
        let word = unsafe { &*words.add(word) };
        word.store(word.load(Ordering::Relaxed) | bit, Ordering::Release);
    }

    #[inline]
    fn is_crowded(&self, entries: usize) -> bool {
        let (words, log2) = self.bits(Ordering::Relaxed);
        if words.is_null() {
            log2 == 0
        } else {
            entries * Self::CROWDED > 1 << log2
        }
    }

    /// Replaces the bitmap by a larger one with the bits of `hashes`, which are all the shard has. Readers may
    /// still be at the old one, so it is kept; all the old ones together are smaller than half of the new one.
    #[cold]
    fn grow(&self, hashes: impl Iterator<Item = u64>) {
        let (old, old_log2) = self.bits(Ordering::Relaxed);
        let log2 = if old.is_null() {
            Self::FIRST_LOG2
        } else {
            old_log2 + Self::GROWTH_LOG2
        };
        let place = match Self::allocate(log2, old) {
            Some(words) => {
                for hash in hashes {
                    let (word, bit) = Self::position(hash, log2);
                    // SAFETY: the words are new, and not shared yet.
                    unsafe { *(*words.add(word)).get_mut() |= bit };
                }
                words as usize + log2 as usize
            }
            // The shard works on without a filter.
            None => Self::EVERYTHING,
        };
        self.place.store(place, Ordering::Release);
        self.stale.store(0, Ordering::Relaxed);
    }

    /// Zeroed words for 2^log2 bits, and one in front of them that keeps the address of the old ones.
    fn allocate(log2: u32, old: *const AtomicU64) -> Option<*mut AtomicU64> {
        let layout = Self::layout(log2)?;
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

    fn layout(log2: u32) -> Option<Layout> {
        Layout::from_size_align(Self::ALIGNMENT + (1_usize << log2) / 8, Self::ALIGNMENT).ok()
    }

    /// Notes that a bit may have gone stale; whether it is time for a refresh.
    #[inline]
    fn count_stale(&self) -> bool {
        let stale = self.stale.load(Ordering::Relaxed) + 1;
        self.stale.store(stale, Ordering::Relaxed);
        let (words, log2) = self.bits(Ordering::Relaxed);
        !words.is_null() && stale as usize * Self::CROWDED * 2 > 1 << log2
    }

    /// Computes the bits anew from `hashes`, which are all the shard has. Each word goes from the old bits to the
    /// new ones in one store, and both have the bits of all entries: no reader ever misses one.
    #[cold]
    fn refresh(&self, hashes: impl Iterator<Item = u64>) {
        self.stale.store(0, Ordering::Relaxed);
        let (words, log2) = self.bits(Ordering::Relaxed);
        let len = (1_usize << log2) / 64;
        let mut fresh = vec![0_u64; len];
        for hash in hashes {
            let (word, bit) = Self::position(hash, log2);
            fresh[word] |= bit;
        }
        for (number, bits) in fresh.into_iter().enumerate() {
            // SAFETY: as in `may_contain`.
            unsafe { &*words.add(number) }.store(bits, Ordering::Release);
        }
    }
}

impl Drop for Filter {
    fn drop(&mut self) {
        let (mut words, mut log2) = self.bits(Ordering::Relaxed);
        while !words.is_null() {
            let block = words.cast::<u8>().wrapping_sub(Self::ALIGNMENT).cast_mut();
            // SAFETY: the block was made by `allocate` with this layout, and nobody can read it any more:
            // the filter is borrowed exclusively.
            unsafe {
                words = *block.cast::<*const AtomicU64>();
                if let Some(layout) = Self::layout(log2) {
                    dealloc(block, layout);
                }
            }
            log2 = log2.saturating_sub(Self::GROWTH_LOG2);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(number: usize) -> usize {
        0x7f12_3456_0000 + number * 48
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
                let (slot, is_new) = index
                    .get_or_insert(object, || Ok::<_, ()>(round + 1))
                    .unwrap();
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
            passed < 20_000,
            "{passed} of 100,000 strangers got past the filter"
        );
    }

    #[test]
    fn a_replaced_slot_is_found() {
        let index = Index::new();
        index.get_or_insert(at(1), || Ok::<_, ()>(7)).unwrap();
        index.replace(at(1), 8);
        assert_eq!(index.get(at(1)), Some(8));
        assert_eq!(index.take_if(at(1), |_| false), Some(Err(8)));
        assert_eq!(index.take_if(at(1), |_| true), Some(Ok(8)));
        assert_eq!(index.take_if(at(1), |_| true), None);
        index.shrink();
    }
}
