// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The pointer index of a tracker: from an object's address to the slot that stands for it now.
//!
//! One dashmap for a tracker, never one for a scope (an empty one costs tens of KiB). Checks of a ref do not
//! come here. No guard of the map outlives a method, and no method calls out, so that no two shards are ever
//! locked at once.

use std::hash::{BuildHasher, Hasher};

use dashmap::DashMap;

use super::table::Slot;

/// Enough that one shard's growth, which moves all its entries at once, stays below a millisecond with
/// ten million entries in the map; few enough that an idle tracker stays small.
const SHARDS: usize = 256;

/// An address in halves: with an alignment of 4 an entry takes 12 bytes instead of 16.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Address([u32; 2]);

impl Address {
    fn new(object: usize) -> Self {
        let object = object as u64;
        Self([object as u32, (object >> 32) as u32])
    }
}

impl std::hash::Hash for Address {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0[0] as u64 | (self.0[1] as u64) << 32);
    }
}

/// Hashes one address with one multiplication. dashmap takes the shard from the high bits and the bucket
/// from the low ones, so both must be good; nobody chooses addresses to make them collide.
#[derive(Clone, Copy, Default)]
struct AddressHasher(u64);

impl Hasher for AddressHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(self.0 << 8 ^ *byte as u64);
        }
    }

    fn write_u64(&mut self, value: u64) {
        let wide = u128::from(value) * 0x9e37_79b9_7f4a_7c15;
        self.0 = wide as u64 ^ (wide >> 64) as u64;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[derive(Clone, Copy, Default)]
struct AddressHasherBuilder;

impl BuildHasher for AddressHasherBuilder {
    type Hasher = AddressHasher;

    fn build_hasher(&self) -> AddressHasher {
        AddressHasher::default()
    }
}

pub struct Index {
    map: DashMap<Address, Slot, AddressHasherBuilder>,
}

impl Index {
    pub fn new() -> Self {
        Self {
            map: DashMap::with_capacity_and_hasher_and_shard_amount(
                0,
                AddressHasherBuilder,
                SHARDS,
            ),
        }
    }

    pub fn get(&self, object: usize) -> Option<Slot> {
        self.map.get(&Address::new(object)).map(|slot| *slot)
    }

    /// Puts an object in that is not there. (Whoever holds the stripe of its scope decides that.)
    /// Gives the slot that is there already, if another stripe was faster.
    pub fn insert(&self, object: usize, slot: Slot) -> Result<(), Slot> {
        match self.map.entry(Address::new(object)) {
            dashmap::Entry::Vacant(entry) => {
                entry.insert(slot);
                Ok(())
            }
            dashmap::Entry::Occupied(entry) => Err(*entry.get()),
        }
    }

    /// Lets another slot stand for an object that is in the index.
    pub fn replace(&self, object: usize, slot: Slot) {
        self.map.insert(Address::new(object), slot);
    }

    pub fn remove(&self, object: usize, slot: Slot) {
        self.map
            .remove_if(&Address::new(object), |_, known| *known == slot);
    }

    /// Gives the memory of a map that has become empty back.
    pub fn shrink(&self) {
        self.map.shrink_to_fit();
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.map.len()
    }
}
