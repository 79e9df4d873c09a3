// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The pointer index of a tracker: from an object's address to the slot that stands for it now.
//!
//! It changes only under the lock of the stripe that the slot is in. Checks of refs do not use it.
//! No code of a caller runs under a shard's lock, and no thread locks two shards at once.
//!
//! # Parts
//!
//! An index has [`PARTS`] parts. Each is a dashmap with a [`Filter`] in front. A filter is computed
//! from all entries of its part, and dashmap gives no access to single shards. So parts are small:
//! a thread may have to walk a whole one.
//!
//! The objects in one MiB of memory share a few parts. Allocators give each thread regions of
//! megabytes. So two threads with objects of their own rarely touch the same part. Within a part,
//! neighbours in memory are neighbours in the map. They mostly come and go together, which spares
//! cache misses.

use std::hash::{BuildHasherDefault, Hash, Hasher};

use dashmap::DashMap;
use dashmap::mapref::entry::Entry;

use super::SPREAD;
use super::filter::Filter;
use super::sync::without_switches;
use super::table::Slot;

const PART_BITS: u32 = 7;
/// There are enough parts to keep the growth of one shard short, which moves all its entries at
/// once. There are few enough to keep an idle tracker small.
pub const PARTS: usize = 1 << PART_BITS;
/// The fewest shards that a dashmap can have.
const SHARDS_OF_A_PART: usize = 2;

const REGION_BITS: u32 = 20;
/// The objects of one region are spread over 2 to this power parts.
const SPREAD_BITS: u32 = 3;
const PAGE_BITS: u32 = 12;

/// An address as the map keeps it. It is aligned to 4 bytes, so that an entry takes 12.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Key([u32; 2]);

impl Key {
    #[inline]
    pub fn of(object: usize) -> Self {
        let object = object as u64;
        Self([object as u32, (object >> 32) as u32])
    }

    #[inline]
    fn object(self) -> u64 {
        u64::from(self.0[1]) << 32 | u64::from(self.0[0])
    }

    /// The number of the page, mixed.
    #[inline]
    fn page(self) -> u64 {
        (self.object() >> PAGE_BITS).wrapping_mul(SPREAD)
    }

    #[inline]
    fn part(self) -> usize {
        let region = (self.object() >> REGION_BITS).wrapping_mul(SPREAD) >> (64 - PART_BITS);
        let within = self.page() >> (64 - SPREAD_BITS) << (PART_BITS - SPREAD_BITS);
        (region ^ within) as usize
    }

    /// The number of a group of neighbours, whose bits are in one word of a filter. The groups of a
    /// page have consecutive numbers.
    #[inline]
    pub fn group(self) -> u64 {
        (self.page() >> 36) + (self.object() >> 8 & 0xf)
    }

    /// Where in a shard the entry should be. Neighbours have consecutive positions.
    #[inline]
    fn position(self) -> u64 {
        self.group() << 4 | self.object() >> 4 & 0xf
    }

    #[inline]
    fn mixed(self) -> u64 {
        (self.object() >> 3).wrapping_mul(SPREAD)
    }

    /// The key's two bits in a word of a filter.
    #[inline]
    pub fn bits(self) -> u64 {
        let choice = self.mixed() >> 40;
        1 << (choice % 64) | 1 << (choice / 64 % 64)
    }
}

impl Hash for Key {
    /// The hash has the position in its low bits, from which dashmap's tables take the bucket. Its
    /// seven highest bits are mixed, and become the control byte. The bit below them chooses the
    /// shard.
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        const HIGH: u64 = 0xff << 56;
        state.write_u64(self.mixed() & HIGH | self.position() & !HIGH);
    }
}

/// Hands on the hash that a [`Key`] has computed.
#[derive(Default)]
pub struct KeyHasher(u64);

impl Hasher for KeyHasher {
    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }

    #[inline]
    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("a key is hashed as one number");
    }
}

type Part = DashMap<Key, Slot, BuildHasherDefault<KeyHasher>>;

/// The filters of an index, which outlive it; see [`Filter`].
pub struct Filters([Filter; PARTS]);

pub struct Index {
    parts: Box<[Part]>,
    filters: &'static Filters,
}

impl Filters {
    pub fn new() -> Self {
        Self(std::array::from_fn(|_| Filter::new()))
    }

    /// Whether an object may be in the index. A `false` is certain. It takes no lock.
    #[inline]
    pub fn may_contain(&self, object: usize) -> bool {
        let key = Key::of(object);
        self.0[key.part()].may_contain(key)
    }

    /// Clears all filters. The index is empty, and no thread uses it.
    pub fn clear(&self) {
        self.0.iter().for_each(Filter::clear);
    }
}

impl Index {
    pub fn new(filters: &'static Filters) -> Self {
        let part = |_| {
            let hasher = BuildHasherDefault::default();
            Part::with_capacity_and_hasher_and_shard_amount(0, hasher, SHARDS_OF_A_PART)
        };
        Self {
            parts: (0..PARTS).map(part).collect(),
            filters,
        }
    }

    /// The slot of an object. This is for objects that are mostly not in the index: it asks the
    /// filter first.
    #[inline]
    pub fn get(&self, object: usize) -> Option<Slot> {
        if !self.filters.may_contain(object) {
            return None;
        }
        self.look_up(object)
    }

    /// The slot of an object. This is for objects that mostly are in the index: it does not ask the
    /// filter.
    #[inline(always)]
    pub fn look_up(&self, object: usize) -> Option<Slot> {
        let key = Key::of(object);
        self.parts[key.part()].get(&key).map(|slot| *slot)
    }

    /// As [`get`](Self::get), but shows the slot while it is sure to be the object's. `show` takes
    /// no lock.
    #[inline]
    pub fn get_with<T>(&self, object: usize, show: impl FnOnce(Slot) -> T) -> Option<T> {
        if !self.filters.may_contain(object) {
            return None;
        }
        let key = Key::of(object);
        let slot = self.parts[key.part()].get(&key)?;
        Some(without_switches(|| show(*slot)))
    }

    /// Puts an object in. If it is there already, the error is the slot that it has. `prepare`
    /// makes the new slot stand for the object, before any thread can find it there. `prepare`
    /// takes no lock.
    #[inline]
    pub fn insert(&self, object: usize, slot: Slot, prepare: impl FnOnce()) -> Result<(), Slot> {
        let key = Key::of(object);
        let part = key.part();
        match self.parts[part].entry(key) {
            Entry::Occupied(entry) => return Err(*entry.get()),
            Entry::Vacant(entry) => {
                without_switches(prepare);
                drop(entry.insert(slot));
            }
        }
        self.filters.0[part].add(key, || self.keys(part));
        Ok(())
    }

    /// Takes an object out if the index has that slot for it.
    #[inline]
    pub fn remove(&self, object: usize, slot: Slot) {
        let key = Key::of(object);
        let part = key.part();
        if self.parts[part]
            .remove_if(&key, |_, known| *known == slot)
            .is_some()
        {
            self.filters.0[part].remove(|| self.keys(part));
        }
    }

    /// Takes an object out if `may_go` says so of its slot. `None`: it is not in the index.
    /// Meanwhile the slot is sure to be the object's. `may_go` runs under a shard's lock, so it waits
    /// for no lock.
    #[inline]
    pub fn take_if(&self, object: usize, may_go: impl FnOnce(Slot) -> bool) -> Option<bool> {
        let key = Key::of(object);
        let part = key.part();
        let mut answer = None;
        self.parts[part].remove_if(&key, |_, slot| {
            let goes = without_switches(|| may_go(*slot));
            answer = Some(goes);
            goes
        });
        if answer == Some(true) {
            self.filters.0[part].remove(|| self.keys(part));
        }
        answer
    }

    fn keys(&self, part: usize) -> impl Iterator<Item = Key> {
        self.parts[part].iter().map(|entry| *entry.key())
    }

    /// Gives memory back that the maps no longer need.
    pub fn shrink(&self) {
        self.parts.iter().for_each(|part| part.shrink_to_fit());
    }
}

#[cfg(test)]
impl Index {
    /// Locks all shards.
    pub fn lock_all(&self) -> impl Sized + '_ {
        let mut locked = std::collections::HashMap::new();
        for page in 0.. {
            let key = Key::of(page << PAGE_BITS | 8);
            let mut hasher = KeyHasher::default();
            key.hash(&mut hasher);
            let shard = (key.part(), hasher.finish() >> 56 & 1);
            locked
                .entry(shard)
                .or_insert_with(|| self.parts[shard.0].entry(key));
            if locked.len() == PARTS * SHARDS_OF_A_PART {
                break;
            }
        }
        locked
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn at(number: usize) -> usize {
        0x7f12_3456_0000 + number * 48
    }

    fn index() -> Index {
        Index::new(Box::leak(Box::new(Filters::new())))
    }

    /// What is in the index is always found, whatever comes and goes around it. The filter answers
    /// for nearly all other objects.
    #[test]
    fn the_filter_never_hides_an_entry() {
        let index = index();
        let mut inside = HashMap::new();
        let mut bits = 88_172_645_463_325_252_u64;
        for round in 0..400_000_u32 {
            bits ^= bits << 13;
            bits ^= bits >> 7;
            bits ^= bits << 17;
            // The index mostly grows at first, and mostly shrinks later.
            let grows = (bits >> 40) % 4 != if round < 200_000 { 0 } else { 1 };
            let object = at(bits as usize % 60_000);
            if grows || round < 200_000 && bits.is_multiple_of(3) {
                let inserted = index.insert(object, round + 1, || ());
                assert_eq!(inserted.err(), inside.get(&object).copied());
                inside.entry(object).or_insert(round + 1);
            } else if let Some(slot) = inside.remove(&object) {
                index.remove(object, slot + 1); // Another's: nothing happens.
                assert_eq!(index.get(object), Some(slot));
                index.remove(object, slot);
            }
            let probe = at((bits >> 20) as usize % 60_000);
            assert_eq!(index.get(probe), inside.get(&probe).copied());
        }
        for object in inside.keys() {
            assert!(index.filters.may_contain(*object));
        }
        let strangers = (0..100_000).map(|n| at(n + 60_000));
        let passed = strangers
            .filter(|object| index.filters.may_contain(*object))
            .count();
        assert!(
            passed < 10_000,
            "{passed} of 100,000 strangers got past the filter"
        );
    }

    /// Threads insert while the insertions of others renew the filter.
    #[test]
    fn the_filter_hides_nothing_while_it_is_renewed() {
        let index = &index();
        for round in 0..20 {
            std::thread::scope(|scope| {
                for thread in 0..4 {
                    scope.spawn(move || {
                        for number in 0..5_000 {
                            let object = at(round * 100_000 + thread * 7_000 + number);
                            index.insert(object, 1, || ()).unwrap();
                            assert_eq!(index.get(object), Some(1));
                            if number % 3 == 0 {
                                index.remove(object, 1);
                                assert_eq!(index.get(object), None);
                            }
                        }
                    });
                }
            });
        }
    }

    /// Addresses that share whatever the index looks at first are told apart.
    #[test]
    fn r16_addresses_are_told_apart() {
        let index = index();
        let addresses = [
            1,
            8,
            16,
            1 << 32,
            1 << 32 | 8,
            1 << 63 | 8,
            usize::MAX,
            usize::MAX - 8,
        ];
        for (number, address) in addresses.into_iter().enumerate() {
            assert_eq!(index.get(address), None);
            index.insert(address, number as u32 + 1, || ()).unwrap();
        }
        for (number, address) in addresses.into_iter().enumerate() {
            assert_eq!(index.get(address), Some(number as u32 + 1));
        }
        assert_eq!(index.insert(8, 9, || ()), Err(2));
        index.shrink();
        assert_eq!(index.get(8), Some(2));
    }
}
