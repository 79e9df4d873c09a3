// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! How refs died, for as long as it is remembered (R13).

use super::sync::Ordering;
use super::table::{Node, generation_of, slot_of};
use crate::{Cause, Death, Ref};

/// How many deaths one stripe remembers. With all stripes in full use that is 2^19 deaths, 24 MiB.
pub const CAPACITY: usize = 1 << 14;

struct Record {
    epoch: u64,
    object: usize,
    by: Ref,
    time_ns: u64,
    /// Where the death of the slot's incarnation before this one is; as in `Cold::last_death`.
    previous: u32,
    cause: Cause,
    kind: u8,
}

/// A ring of records. The records of one slot form a chain from the latest back.
pub struct Quarantine {
    records: Vec<Record>,
    next: usize,
}

impl Quarantine {
    pub const fn new() -> Self {
        Self {
            records: Vec::new(),
            next: 0,
        }
    }

    /// Remembers a death and forgets the oldest one if the ring is full.
    #[inline]
    pub fn record(&mut self, node: Node, ended: Ref, death: Death) {
        let cold = node.cold;
        let record = Record {
            epoch: ended.epoch,
            object: ended.object,
            by: death.by,
            time_ns: death.time_ns,
            previous: cold.last_death.load(Ordering::Relaxed),
            cause: death.cause,
            kind: death.kind,
        };
        let position = self.next;
        match self.records.get_mut(position) {
            Some(oldest) => *oldest = record,
            None => {
                if position == 0 {
                    // All at once: the system gives the pages as they are touched, and no hook ever moves records.
                    self.records.reserve_exact(CAPACITY);
                }
                self.records.push(record);
            }
        }
        self.next = (position + 1) % CAPACITY;
        cold.last_death
            .store(position as u32 + 1, Ordering::Relaxed);
    }

    pub fn find(&self, dead: Ref) -> Option<Death> {
        let slot = slot_of(dead.epoch);
        let mut position = Node::find(slot)?.cold.last_death.load(Ordering::Relaxed);
        let mut newest_possible = u32::MAX;
        // A record that was overwritten belongs to another slot, or is newer than the one that pointed
        // to it: then the rest of the chain is gone.
        while let Some(record) = (position as usize)
            .checked_sub(1)
            .and_then(|at| self.records.get(at))
        {
            let generation = generation_of(record.epoch);
            if slot_of(record.epoch) != slot || generation > newest_possible {
                return None;
            }
            if record.epoch == dead.epoch {
                return (record.object == dead.object).then_some(Death {
                    by: record.by,
                    time_ns: record.time_ns,
                    cause: record.cause,
                    kind: record.kind,
                });
            }
            if generation < generation_of(dead.epoch) {
                return None;
            }
            newest_possible = generation - 1;
            position = record.previous;
        }
        None
    }
}
