// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! A Bloom filter in front of each part of an index, read without a lock.
//!
//! Nearly every destruction that an exact source reports is of an untracked object. If one of an
//! object's bits is clear, the object is not in the part. Bits are set when an object comes in, and
//! stay when it goes. When enough objects have come or gone, the bits are computed anew.
//!
//! Filters are never freed: the filters of a place serve one tracker after the other. A late look
//! with the handle of a destroyed tracker may be answered with yes or no, and both are right.

#[cfg(all(test, loom))]
mod loom_models;

use super::index::Key;
use super::storage;
use super::sync::{AtomicU32, AtomicU64, AtomicUsize, Lock, Ordering, lock};

/// A filter. An entry has two bits, both in one word. The alignment keeps a filter within one cache
/// line.
#[repr(align(32))]
pub struct Filter {
    /// The address of the words plus a shift. The words are aligned to 64 bytes, and the shift
    /// reduces a position to the number of its word. 0 means no words and no entries.
    /// [`EVERYTHING`] means that there was no memory for words.
    place: AtomicUsize,
    /// The version is odd while the bits are computed anew.
    version: AtomicU32,
    /// How many more objects may set bits before the bits are computed anew. Steps of several
    /// threads may be lost, which only defers that.
    room: AtomicU32,
    /// How many more objects may go before the bits are computed anew.
    patience: AtomicU32,
    /// Held by the thread that computes the bits anew.
    renewing: Lock<()>,
}

const FIRST_LEN: usize = 16;
/// The fewest bits for an entry. A renewal that finds fewer gives the filter four times as many.
const CROWDED: usize = 8;
const ALIGNMENT: usize = 64;
/// A [`Filter::place`] with which every bit counts as set.
const EVERYTHING: usize = 1;

impl Filter {
    pub fn new() -> Self {
        Self {
            place: AtomicUsize::new(0),
            version: AtomicU32::new(0),
            room: AtomicU32::new(0),
            patience: AtomicU32::new(0),
            renewing: lock::new(()),
        }
    }

    /// The words, or null, with the shift.
    #[inline]
    fn words(&self, order: Ordering) -> (*const AtomicU64, u32) {
        let place = self.place.load(order);
        let shift = place % ALIGNMENT;
        ((place - shift) as *const AtomicU64, shift as u32)
    }

    #[inline]
    fn word_of(key: Key, shift: u32) -> usize {
        (key.group() << shift >> shift) as usize
    }

    /// Whether an object may be in the part. A `false` is certain. It takes no lock.
    #[inline]
    pub fn may_contain(&self, key: Key) -> bool {
        let (words, shift) = self.words(Ordering::Acquire);
        if words.is_null() {
            return shift != 0;
        }
        // SAFETY: there are 2^(64 - shift) words, and the number is below that. Words are never
        // freed.
        let word = unsafe { &*words.add(Self::word_of(key, shift)) }.load(Ordering::Acquire);
        !word & key.bits() == 0
    }

    /// Sets the bits of an object that was just put into the part. `keys` gives all keys of the
    /// part, and locks one shard after the other for that.
    #[inline]
    pub fn add<Keys: Iterator<Item = Key>>(&self, key: Key, keys: impl Fn() -> Keys) {
        loop {
            let version = self.version.load(Ordering::Acquire);
            let is_new = self.set(key);
            // A renewal that missed the object began before the object came in. So the version
            // shows it here.
            if version.is_multiple_of(2) && self.version.load(Ordering::Acquire) == version {
                if is_new {
                    self.count(&self.room, keys);
                }
                return;
            }
            drop(self.renewing.lock()); // Until it is over.
        }
    }

    /// Sets the bits of a key. True if one of them was clear.
    #[inline]
    fn set(&self, key: Key) -> bool {
        let (words, shift) = self.words(Ordering::Acquire);
        if words.is_null() {
            return shift == 0;
        }
        // SAFETY: as in `may_contain`.
        let word = unsafe { &*words.add(Self::word_of(key, shift)) };
        let bits = key.bits();
        let is_new = word.load(Ordering::Acquire) & bits != bits;
        if is_new {
            word.fetch_or(bits, Ordering::Release);
        }
        is_new
    }

    /// Notes that an object has gone.
    #[inline]
    pub fn remove<Keys: Iterator<Item = Key>>(&self, keys: impl Fn() -> Keys) {
        self.count(&self.patience, keys);
    }

    #[inline]
    fn count<Keys: Iterator<Item = Key>>(&self, counter: &AtomicU32, keys: impl Fn() -> Keys) {
        // Whoever goes by the count of a renewal sees its words: the object that came in before there were any has no
        // bits but there.
        let left = counter.load(Ordering::Acquire);
        if left > 1 {
            counter.store(left - 1, Ordering::Release);
        } else {
            self.renew(counter, keys);
        }
    }

    /// Computes the bits anew, in more words if the filter is crowded.
    #[cold]
    fn renew<Keys: Iterator<Item = Key>>(&self, counter: &AtomicU32, keys: impl Fn() -> Keys) {
        let _renewing = self.renewing.lock();
        if counter.load(Ordering::Relaxed) > 1 || self.place.load(Ordering::Relaxed) == EVERYTHING {
            return; // Somebody else has done it.
        }
        self.version.fetch_add(1, Ordering::AcqRel);
        let (words, shift) = self.words(Ordering::Relaxed);
        let old_len = if words.is_null() { 0 } else { len(shift) };
        // Objects that come or go meanwhile may be miscounted, which does not matter.
        let (mut len, mut entries, mut fresh) = (old_len, 0, bits_of(old_len, keys()));
        if let Some((_, found)) = &fresh {
            entries = *found;
        }
        if old_len == 0 || entries * CROWDED >= 64 * old_len {
            len = (4 * entries * CROWDED / 64)
                .next_power_of_two()
                .max(FIRST_LEN);
            fresh = bits_of(len, keys());
        }
        let place = match &fresh {
            None => None,
            Some(_) if len == old_len => Some(words),
            // The old words are never freed, since readers may still be at them. All of them together are smaller than
            // the new ones.
            Some(_) => storage::allocate(len, ALIGNMENT).map(<*mut AtomicU64>::cast_const),
        };
        match place {
            Some(words) => {
                let fresh = fresh.map(|(bits, _)| bits).unwrap_or_default();
                for (number, bits) in fresh.into_iter().enumerate() {
                    // Each word changes in one store, and both values have the bits of all entries.
                    // So no reader misses an entry.
                    // SAFETY: there are `len` words, and words are never freed.
                    unsafe { &*words.add(number) }.store(bits, Ordering::Release);
                }
                self.place
                    .store(words as usize + shift_of(len) as usize, Ordering::Release);
            }
            // There was no memory. The part goes on without a filter.
            None => self.place.store(EVERYTHING, Ordering::Release),
        }
        let room = (64 * len / CROWDED).saturating_sub(entries).max(FIRST_LEN);
        self.room.store(room as u32, Ordering::Release);
        self.patience.store((8 * len) as u32, Ordering::Release);
        self.version.fetch_add(1, Ordering::Release);
    }

    /// Clears all bits, for the next tracker. The caller has seen to it that the part is empty and
    /// that no thread adds to it.
    pub fn clear(&self) {
        let (words, shift) = self.words(Ordering::Relaxed);
        if words.is_null() {
            self.place.store(0, Ordering::Relaxed);
            // The first object makes words.
            self.room.store(0, Ordering::Relaxed);
            return;
        }
        for number in 0..len(shift) {
            // SAFETY: as in `may_contain`.
            unsafe { &*words.add(number) }.store(0, Ordering::Relaxed);
        }
        let room = 64 * len(shift) / CROWDED;
        self.room.store(room as u32, Ordering::Relaxed);
    }
}

/// Words with the bits of some keys, and the number of keys. `None` if there is no memory.
fn bits_of(len: usize, keys: impl Iterator<Item = Key>) -> Option<(Vec<u64>, usize)> {
    let mut words = Vec::new();
    words.try_reserve_exact(len).ok()?;
    words.resize(len, 0);
    let mut count = 0;
    for key in keys {
        if len > 0 {
            words[Filter::word_of(key, shift_of(len))] |= key.bits();
        }
        count += 1;
    }
    Some((words, count))
}

/// The number of words. It is a power of two, and at least two.
fn len(shift: u32) -> usize {
    1 << (u64::BITS - shift)
}

fn shift_of(len: usize) -> u32 {
    u64::BITS - len.trailing_zeros()
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn a_filter_without_memory_hides_no_entry_of_the_next_tracker() {
        let filter = Filter::new();
        let key = Key::of(0x1000);
        // What a renewal leaves that gets no memory.
        filter.place.store(EVERYTHING, Ordering::Relaxed);
        filter.room.store(FIRST_LEN as u32, Ordering::Relaxed);
        assert!(filter.may_contain(key));
        filter.clear();
        assert!(!filter.may_contain(key));
        filter.add(key, || [key].into_iter());
        assert!(filter.may_contain(key), "the entry is hidden");
    }
}
