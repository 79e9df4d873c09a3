// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The death log: how the latest refs of the process died (R13).
//!
//! The log consists of *runs* of records. A stripe writes into a run of its own. When that is full,
//! the stripe takes the run that was full first. So one busy scope has nearly all of the log, and
//! several share it.
//!
//! The records of one slot form a chain from its latest death back. They are read without a lock: a
//! reader compares a record's epoch before and after. That suffices because no epoch comes twice.

#[cfg(all(test, loom))]
mod loom_models;

use std::collections::VecDeque;
use std::ptr;

use super::storage::{self, zeroed};
use super::sync::{
    AtomicPtr, AtomicU64, AtomicUsize, Lock, Ordering, fence, fork_lock, lock, process_static,
};
use super::table::{Node, generation_of, slot_of};
use crate::{Cause, Death, Error, Ref};

/// Records in a run.
#[cfg(not(lot_small))]
const RUN: usize = 64;
#[cfg(lot_small)]
const RUN: usize = 1;

const MOST_RUNS: usize = 1 << 14;

/// The number of runs until [`set_capacity`] is called. Their records take 3 MiB.
#[cfg(not(lot_small))]
const DEFAULT_RUNS: usize = (1 << 16) / RUN;
#[cfg(lot_small)]
const DEFAULT_RUNS: usize = 7;

/// One death. A record that is all zero is valid, and stands for none.
struct Record {
    epoch: AtomicU64,
    object: AtomicUsize,
    by_object: AtomicUsize,
    by_epoch: AtomicU64,
    time_ns: AtomicU64,
    /// The previous position, the cause and the kind, packed by [`Record::fill`].
    rest: AtomicU64,
}

zeroed!(Record {
    epoch,
    object,
    by_object,
    by_epoch,
    time_ns,
    rest
});

process_static! {
    /// The records: as many as [`LEN`] says. They are freed while no thread is inside of the fork lock.
    static RECORDS: AtomicPtr<Record> = AtomicPtr::new(ptr::null_mut());
}

process_static! {
    /// Stored after [`RECORDS`].
    static LEN: AtomicUsize = AtomicUsize::new(0);
}

process_static! {
    static LOG: Lock<Log> = lock::new(Log {
        limit: DEFAULT_RUNS,
        used: 0,
        full: VecDeque::new(),
        change: 0,
    });
}

/// Which runs are whose.
struct Log {
    /// How many runs there may be.
    limit: usize,
    /// How many runs have been given out so far. It only grows, until the limit changes.
    used: usize,
    /// Runs that no stripe writes into; the one that was full first comes first.
    full: VecDeque<u32>,
    /// Counts the changes of the limit. A change takes all stripes' runs away.
    change: u64,
}

/// Where in the log a stripe writes.
pub struct Writer {
    run: u32,
    /// The next record of the run. [`RUN`] means that the run is full, or that there is none.
    next: usize,
    /// [`Log::change`] when the run was taken.
    change: u64,
}

process_static! {
    /// Which change of the limit was the latest.
    static CHANGE: AtomicU64 = AtomicU64::new(0);
}

impl Record {
    /// Stores everything but the epoch, which is stored last.
    fn fill(&self, object: usize, death: Death, previous: u32) {
        let rest = (previous as u64) | (death.cause as u64) << 32 | u64::from(death.kind) << 40;
        self.object.store(object, Ordering::Relaxed);
        self.by_object.store(death.by.object, Ordering::Relaxed);
        self.by_epoch.store(death.by.epoch, Ordering::Relaxed);
        self.time_ns.store(death.time_ns, Ordering::Relaxed);
        self.rest.store(rest, Ordering::Relaxed);
    }

    /// The object, its death, and the position of the slot's previous death.
    fn read(&self) -> (usize, Death, u32) {
        let rest = self.rest.load(Ordering::Relaxed);
        let death = Death {
            by: Ref {
                object: self.by_object.load(Ordering::Relaxed),
                epoch: self.by_epoch.load(Ordering::Relaxed),
            },
            time_ns: self.time_ns.load(Ordering::Relaxed),
            cause: Cause::from_number((rest >> 32) as u32 & 0xff),
            kind: (rest >> 40) as u8,
        };
        (self.object.load(Ordering::Relaxed), death, rest as u32)
    }
}

/// The record at a position. A position is a record's number plus 1; 0 is none.
#[inline]
fn record_at(position: u32) -> Option<&'static Record> {
    let position = (position as usize).checked_sub(1)?;
    if position >= LEN.load(Ordering::Acquire) {
        return None;
    }
    // SAFETY: the position is below the number of records. Records are freed under the exclusive
    // fork lock only. Both callers hold a read guard, and keep the reference no longer than it.
    Some(unsafe { &*RECORDS.load(Ordering::Relaxed).add(position) })
}

impl Writer {
    pub const fn new() -> Self {
        Self {
            run: NO_RUN,
            next: RUN,
            change: 0,
        }
    }

    /// Whether the next record takes no lock.
    #[inline]
    pub fn is_ready(&self) -> bool {
        self.next < RUN && self.change == CHANGE.load(Ordering::Relaxed)
    }

    /// Puts a death on record. The caller holds a read guard of the fork lock, and the lock of the
    /// slot's stripe.
    #[inline]
    pub fn record(&mut self, node: Node, ended: Ref, death: Death) {
        if !self.is_ready() {
            self.take_run();
        }
        let position = self.run * RUN as u32 + self.next as u32 + 1;
        let Some(record) = record_at(position) else {
            return; // There is no log: its limit is 0, or there was no memory.
        };
        self.next += 1;
        let previous = node.cold.last_death.load(Ordering::Relaxed);
        record.epoch.store(0, Ordering::Relaxed);
        // A reader that sees one of the new values does not see the old epoch afterwards.
        fence(Ordering::Release);
        record.fill(ended.object, death, previous);
        record.epoch.store(ended.epoch, Ordering::Release);
        node.cold.last_death.store(position, Ordering::Release);
        #[cfg(lot_small)]
        self.hand_in();
    }

    #[cold]
    fn take_run(&mut self) {
        let mut log = LOG.lock();
        if self.change == log.change && self.next == RUN && self.run != NO_RUN {
            log.put(self.run);
        }
        self.change = log.change;
        match log.take() {
            Some(run) => (self.run, self.next) = (run, 0),
            None => (self.run, self.next) = (NO_RUN, RUN),
        }
    }

    /// Gives a full run back at once. So, with runs of one record, the oldest death of the process
    /// is forgotten first.
    #[cfg(lot_small)]
    fn hand_in(&mut self) {
        LOG.lock().put(self.run);
        (self.run, self.next) = (NO_RUN, RUN);
    }
}

/// Stands for no run. It is larger than any run's number.
const NO_RUN: u32 = MOST_RUNS as u32;

impl Log {
    /// Gives a run to write into: a fresh one, or else the one that was full first.
    fn take(&mut self) -> Option<u32> {
        if self.used == self.limit {
            return self.full.pop_front();
        }
        if self.used == 0 {
            self.start()?;
        }
        self.used += 1;
        Some(self.used as u32 - 1)
    }

    /// Allocates the records, and room for all full runs, so that [`put`](Self::put) needs no
    /// memory. The system hands out pages as records are used.
    fn start(&mut self) -> Option<()> {
        self.full.try_reserve_exact(self.limit).ok()?;
        let len = self.limit * RUN;
        let records = storage::allocate::<Record>(len, align_of::<Record>())?;
        RECORDS.store(records, Ordering::Relaxed);
        LEN.store(len, Ordering::Release);
        Some(())
    }

    fn put(&mut self, run: u32) {
        self.full.push_back(run);
    }
}

/// How a dead ref died, if that is on record. Takes no lock but the fork lock.
pub fn find(dead: Ref) -> Option<Death> {
    let _guard = fork_lock::read();
    let slot = slot_of(dead.epoch);
    let mut position = Node::find(slot)?.cold.last_death.load(Ordering::Acquire);
    let mut newest_possible = u32::MAX;
    // The chain ends at a record that was overwritten. Such a record belongs to another slot, or is
    // newer than the one that leads to it.
    loop {
        let record = record_at(position)?;
        let epoch = record.epoch.load(Ordering::Acquire);
        let (object, death, previous) = record.read();
        fence(Ordering::Acquire);
        if record.epoch.load(Ordering::Relaxed) != epoch {
            return None; // It is being overwritten, so it was the oldest of all.
        }
        let generation = generation_of(epoch);
        let is_of_slot = epoch != 0 && slot_of(epoch) == slot;
        if !is_of_slot || generation > newest_possible || generation < generation_of(dead.epoch) {
            return None;
        }
        if epoch == dead.epoch {
            return (object == dead.object && !dead.is_live()).then_some(death);
        }
        newest_possible = generation - 1;
        position = previous;
    }
}

/// How many deaths of the whole process are on record at most. It is 65,536 at first, which takes 3
/// MiB.
///
/// Any thread may call it.
pub fn capacity() -> usize {
    let _guard = fork_lock::read();
    LOG.lock().limit * RUN
}

/// Sets how many deaths of the whole process are on record at most. The number is rounded up to a
/// multiple of 64. With 0 none are, and [`Ref::death`] knows nothing. What was on record is
/// forgotten, and its memory is given back.
///
/// When several scopes are at work, each of 32 groups of scopes has up to 64 records that the
/// others cannot use. So fewer than 4,096 records make little sense.
///
/// Any thread may call it. It waits for hooks that run on other threads.
///
/// # Errors
/// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) for more than 1,048,576.
pub fn set_capacity(records: usize) -> Result<(), Error> {
    let runs = records.div_ceil(RUN);
    if runs > MOST_RUNS {
        return Err(Error::invalid(
            c"the death log has at most 1,048,576 records",
        ));
    }
    let _nobody_else = fork_lock::exclusive();
    let mut log = LOG.lock();
    log.limit = runs;
    log.used = 0;
    log.full = VecDeque::new();
    log.change += 1;
    CHANGE.store(log.change, Ordering::Relaxed);
    let records = RECORDS.swap(ptr::null_mut(), Ordering::Relaxed);
    let len = LEN.swap(0, Ordering::Relaxed);
    if !records.is_null() {
        // SAFETY: `start` has allocated as many records. No thread is inside of the fork lock, so none has a
        // reference to one.
        unsafe { storage::free(records, len, align_of::<Record>()) };
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Description, Tracker};

    fn kill(tracker: Tracker, object: usize) -> Ref {
        let description = Description {
            object,
            ..Default::default()
        };
        let (dead, _) = tracker.track(&description).unwrap();
        tracker.erase(object).unwrap();
        dead
    }

    #[test]
    fn r12_the_death_log_has_the_size_that_is_set() {
        let tracker = Tracker::new("log").unwrap();
        let first = kill(tracker, 0x1000);
        assert!(first.death().is_some());
        set_capacity(3 * RUN).unwrap();
        assert_eq!(capacity(), 3 * RUN);
        assert_eq!(first.death(), None, "what was there is forgotten");
        let dead: Vec<_> = (0..10 * RUN)
            .map(|n| kill(tracker, 0x2000 + 8 * n))
            .collect();
        let on_record = |dead: &[Ref]| dead.iter().filter(|dead| dead.death().is_some()).count();
        assert_eq!(
            on_record(&dead[8 * RUN..]),
            2 * RUN,
            "the latest are on record"
        );
        assert_eq!(on_record(&dead[..7 * RUN]), 0, "the earlier ones are not");
        set_capacity(0).unwrap();
        assert_eq!(kill(tracker, 0x1000).death(), None);
        assert!(set_capacity(usize::MAX).is_err());
        assert_eq!(capacity(), 0, "a refused call has changed nothing");
        set_capacity(DEFAULT_RUNS * RUN).unwrap();
        assert!(kill(tracker, 0x1000).death().is_some());
        tracker.destroy_tracker().unwrap();
    }
}
