// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! A Bloom filter in front of each part of an index, read without a lock.
//!
//! Nearly every destruction that an exact source reports is of an object that nobody tracks. If one of an object's bits
//! is clear, the object is not in the part. Bits are set when an object comes in, and stay when it goes. When enough
//! have come or gone, the bits are computed anew from what is in the part.
//!
//! Filters are never freed: a handle's filters serve the next tracker with that handle's place. A late look at them with
//! a handle of a destroyed tracker is answered with either yes or no, and both are right.

use std::alloc::{Layout, alloc_zeroed};

use super::index::Key;
use super::sync::{AtomicU32, AtomicU64, AtomicUsize, Lock, Ordering, lock};

/// Two bits for an entry, both in the same word. Aligned so that none lies across cache lines.
#[repr(align(32))]
pub struct Filter {
    /// The address of the words, which are aligned to 64 bytes, plus how far a position is shifted to give the number of
    /// its word. 0: there are no words, and no entries. [`EVERYTHING`]: there was no memory.
    place: AtomicUsize,
    /// Odd while the bits are being computed anew.
    version: AtomicU32,
    /// How many more objects may set bits before they are computed anew; and how many may go. Increments of several
    /// threads may be lost, which only defers that.
    room: AtomicU32,
    patience: AtomicU32,
    /// Held by who computes the bits anew.
    renewing: Lock<()>,
}

const FIRST_LEN: usize = 16;
/// The filter is renewed when it has fewer bits than this for an entry, and gets four times as many.
const CROWDED: usize = 8;
const ALIGNMENT: usize = 64;
/// Every bit counts as set.
const EVERYTHING: usize = 1;

impl Filter {
    pub const fn new() -> Self {
        Self {
            place: AtomicUsize::new(0),
            version: AtomicU32::new(0),
            room: AtomicU32::new(0),
            patience: AtomicU32::new(0),
            renewing: lock::new(()),
        }
    }

    /// The words, or null, and the shift.
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

    /// Whether an object may be in the part; `false` is certain.
    #[inline]
    pub fn may_contain(&self, key: Key) -> bool {
        let (words, shift) = self.words(Ordering::Acquire);
        if words.is_null() {
            return shift != 0;
        }
        // SAFETY: there are 2^(64 - shift) words that are never freed, and the number is below that.
        let word = unsafe { &*words.add(Self::word_of(key, shift)) }.load(Ordering::Acquire);
        !word & key.bits() == 0
    }

    /// Sets the bits of an object that has been put into the part. `keys` gives all that are in the part, and locks
    /// each piece of it while it does.
    #[inline]
    pub fn add<Keys: Iterator<Item = Key>>(&self, key: Key, keys: impl Fn() -> Keys) {
        loop {
            let version = self.version.load(Ordering::Acquire);
            let is_new = self.set(key);
            // A renewal that has not seen the object in the part had begun before the object came in, so it is seen here.
            if version.is_multiple_of(2) && self.version.load(Ordering::Acquire) == version {
                if is_new {
                    self.count(&self.room, keys);
                }
                return;
            }
            drop(self.renewing.lock()); // Until it is over.
        }
    }

    /// Whether bits were clear.
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
        let left = counter.load(Ordering::Relaxed);
        if left > 1 {
            counter.store(left - 1, Ordering::Relaxed);
        } else {
            self.renew(counter, keys);
        }
    }

    /// Computes the bits anew, in more words if there is need.
    #[cold]
    fn renew<Keys: Iterator<Item = Key>>(&self, counter: &AtomicU32, keys: impl Fn() -> Keys) {
        let _renewing = self.renewing.lock();
        if counter.load(Ordering::Relaxed) > 1 || self.place.load(Ordering::Relaxed) == EVERYTHING {
            return; // Somebody else has done it.
        }
        self.version.fetch_add(1, Ordering::AcqRel);
        let (words, shift) = self.words(Ordering::Relaxed);
        let old_len = if words.is_null() { 0 } else { len(shift) };
        // Of those that come or go meanwhile, the count may be a little off, which does not matter.
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
            Some(_) => allocate(len).map(<*mut _>::cast_const),
        };
        match place {
            Some(words) => {
                let fresh = fresh.map(|(bits, _)| bits).unwrap_or_default();
                for (number, bits) in fresh.into_iter().enumerate() {
                    // Each word goes from the old bits to the new ones in one store, and both have the bits of all
                    // entries: no reader ever misses one.
                    // SAFETY: there are `len` words that are never freed.
                    unsafe { &*words.add(number) }.store(bits, Ordering::Release);
                }
                self.place
                    .store(words as usize + shift_of(len) as usize, Ordering::Release);
            }
            // The part works on without a filter.
            None => self.place.store(EVERYTHING, Ordering::Release),
        }
        let room = (64 * len / CROWDED).saturating_sub(entries).max(FIRST_LEN);
        self.room.store(room as u32, Ordering::Relaxed);
        self.patience.store((8 * len) as u32, Ordering::Relaxed);
        self.version.fetch_add(1, Ordering::Release);
    }

    /// Clears all bits, for the next tracker. The part is empty, and nobody adds anything.
    pub fn clear(&self) {
        let (words, shift) = self.words(Ordering::Relaxed);
        if words.is_null() {
            self.place.store(0, Ordering::Relaxed);
            // There may be room left from when every bit counted as set; without words there is none.
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

/// The words with the bits of some keys, and how many keys they are. `None` if there is no memory.
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

/// How many words there are. They are a power of two, and at least two.
fn len(shift: u32) -> usize {
    1 << (u64::BITS - shift)
}

fn shift_of(len: usize) -> u32 {
    u64::BITS - len.trailing_zeros()
}

/// Zeroed words. Those that they replace are never freed, since readers may still be at them. All of them together are
/// smaller than the new ones.
fn allocate(len: usize) -> Option<*mut AtomicU64> {
    let layout = Layout::array::<AtomicU64>(len)
        .ok()?
        .align_to(ALIGNMENT)
        .ok()?;
    // SAFETY: the layout is not of size zero.
    let words: *mut AtomicU64 = unsafe { alloc_zeroed(layout) }.cast();
    (!words.is_null()).then_some(words)
}
