// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! What one tracker keeps: its index, its figures, its observer.

use super::forest::STRIPES;
use super::index::{Filters, Index};
use super::observers::Observers;
use super::sync::{AtomicU32, AtomicU64, CachePadded, Ordering};
use crate::{Cause, KIND_COUNT, Stats};

/// The state behind a tracker's handle. [`super::registry`] owns it, and frees it when no call can
/// use it any more.
pub struct TrackerState {
    /// The handle.
    pub id: u64,
    pub name: String,
    pub index: Index,
    pub observers: Observers,
    counters: [CachePadded<StripeCounters>; STRIPES],
    glance: &'static Glance,
}

/// What calls read of a tracker without entering the fork lock. It is in the tracker's place, and
/// outlives the tracker as its filters do.
#[derive(Default)]
pub struct Glance {
    /// Bit n is set while the tracker may have nodes in stripe n.
    pub busy: AtomicU32,
    /// How many exact sources are active.
    pub exact_sources: AtomicU32,
}

/// A tracker's figures of one stripe. They are written under the stripe's lock, and read without
/// it.
#[derive(Default)]
pub struct StripeCounters {
    /// How many nodes are placeholders or tracked.
    known: AtomicU32,
    tracked: [AtomicU32; KIND_COUNT],
    ended: AtomicU64,
    released: AtomicU64,
    missed_ends: AtomicU64,
    /// The first of the tracker's scopes in the stripe, as a number plus 1. 0 is none.
    pub first_scope: AtomicU32,
}

fn bump(counter: &AtomicU64) {
    counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

fn step(counter: &AtomicU32, by: i32) {
    let now = counter.load(Ordering::Relaxed).wrapping_add_signed(by);
    counter.store(now, Ordering::Relaxed);
}

impl Glance {
    #[inline]
    pub fn is_exact(&self) -> bool {
        self.exact_sources.load(Ordering::Acquire) != 0
    }
}

impl TrackerState {
    pub fn new(id: u64, name: &str, filters: &'static Filters, glance: &'static Glance) -> Self {
        Self {
            id,
            name: name.to_owned(),
            index: Index::new(filters),
            observers: Observers::new(),
            counters: std::array::from_fn(|_| CachePadded::default()),
            glance,
        }
    }

    #[inline]
    pub fn counters(&self, stripe: u8) -> &StripeCounters {
        &self.counters[stripe as usize].0
    }

    // Exact sources ------------------------------------------------------------------------------------

    #[inline]
    pub fn is_exact(&self) -> bool {
        self.glance.is_exact()
    }

    pub fn exact_begin(&self) {
        self.glance.exact_sources.fetch_add(1, Ordering::AcqRel);
    }

    /// Ends one exact source. False if there was none.
    pub fn exact_end(&self) -> bool {
        let less = |active: u32| active.checked_sub(1);
        let sources = &self.glance.exact_sources;
        sources
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, less)
            .is_ok()
    }

    // Figures ------------------------------------------------------------------------------------------

    #[inline]
    pub fn add_node(&self, stripe: u8) {
        step(&self.counters(stripe).known, 1);
        // Reads first, since hooks of all threads read this line: a needless write would slow them
        // all.
        if self.glance.busy.load(Ordering::Relaxed) & 1 << stripe == 0 {
            self.glance.busy.fetch_or(1 << stripe, Ordering::Release);
        }
    }

    #[inline]
    pub fn remove_node(&self, stripe: u8) {
        step(&self.counters(stripe).known, -1);
    }

    /// Clears the stripe's bit if the tracker has no known objects there. The caller holds the
    /// stripe's lock, or is destroying the tracker. Removals do not do this, or threads whose
    /// objects come and go one at a time would contend for the bits.
    pub fn settle(&self, stripe: u8) {
        if self.counters(stripe).known.load(Ordering::Relaxed) == 0 {
            self.glance
                .busy
                .fetch_and(!(1 << stripe), Ordering::Release);
        }
    }

    /// Whether the tracker may know any object.
    pub fn is_busy(&self) -> bool {
        self.glance.busy.load(Ordering::Acquire) != 0
    }

    #[inline]
    pub fn count_start(&self, stripe: u8, kind: u8) {
        step(&self.counters(stripe).tracked[kind as usize], 1);
    }

    #[inline]
    pub fn count_end(&self, stripe: u8, kind: u8, cause: Cause) {
        let counters = self.counters(stripe);
        step(&counters.tracked[kind as usize], -1);
        bump(match cause {
            Cause::Released => &counters.released,
            _ => &counters.ended,
        });
        if cause == Cause::MissedEnd {
            bump(&counters.missed_ends);
        }
    }

    /// How many incarnations are live, of one kind or of all.
    pub fn count(&self, kind: Option<u8>) -> usize {
        let of_stripe = |counters: &CachePadded<StripeCounters>| -> usize {
            let tracked = &counters.0.tracked;
            let load = |count: &AtomicU32| count.load(Ordering::Relaxed) as usize;
            match kind {
                Some(kind) => load(&tracked[kind as usize]),
                None => tracked.iter().map(load).sum(),
            }
        };
        self.counters.iter().map(of_stripe).sum()
    }

    pub fn stats(&self) -> Stats {
        let mut stats = Stats {
            internal_errors: crate::internal_errors(),
            exact_sources: self.glance.exact_sources.load(Ordering::Acquire),
            tracked: self.count(None),
            ..Stats::default()
        };
        let mut known = 0_usize;
        for CachePadded(counters) in &self.counters {
            known += counters.known.load(Ordering::Relaxed) as usize;
            stats.ended += counters.ended.load(Ordering::Relaxed);
            stats.released += counters.released.load(Ordering::Relaxed);
            stats.missed_ends += counters.missed_ends.load(Ordering::Relaxed);
        }
        stats.created = stats.tracked as u64 + stats.ended + stats.released;
        stats.anchors = known.saturating_sub(stats.tracked);
        stats
    }
}
