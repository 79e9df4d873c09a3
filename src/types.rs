// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The values that callers give and get.

use std::ffi::CStr;

/// Kinds of objects are numbers below this.
pub const KIND_COUNT: usize = 16;

/// One incarnation of an object: the key of everything. A plain value of 16 bytes, safe to keep for ever.
///
/// Live from the moment it is handed out until its incarnation ends, and dead from then on, whatever is
/// allocated at the address later (R1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(C)]
pub struct Ref {
    /// The object's address.
    pub object: usize,
    /// Names the incarnation; never 0 in a ref that was handed out, never used twice in a process (R2).
    pub epoch: u64,
}

const _: () = assert!(size_of::<Ref>() == 16 && align_of::<Ref>() == 8);

impl Ref {
    /// No incarnation; always dead.
    pub const NULL: Ref = Ref {
        object: 0,
        epoch: 0,
    };
}

/// What ended an incarnation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(u32)]
pub enum Cause {
    /// Not known, or no longer.
    #[default]
    Unknown = 0,
    /// It was erased itself.
    Erased = 1,
    /// Something that enclosed it was erased or destroyed.
    AncestorDestroyed = 2,
    /// Its own destruction was reported.
    Destroyed = 3,
    /// A new object appeared at its address, so it had ended without a report.
    MissedEnd = 4,
    /// Something that could not be observed changed the inside of an object that enclosed it.
    OpaqueMutation = 5,
    /// Its whole scope, or the tracker, ended.
    ScopeCleared = 6,
    /// Its holder gave it up.
    Released = 7,
}

impl Cause {
    const ALL: [Cause; 8] = [
        Cause::Unknown,
        Cause::Erased,
        Cause::AncestorDestroyed,
        Cause::Destroyed,
        Cause::MissedEnd,
        Cause::OpaqueMutation,
        Cause::ScopeCleared,
        Cause::Released,
    ];

    /// The cause with that number; [`Cause::Unknown`] for any other.
    pub fn from_number(number: u32) -> Cause {
        Self::ALL.get(number as usize).copied().unwrap_or_default()
    }

    /// In words, for messages.
    pub const fn name(self) -> &'static CStr {
        match self {
            Cause::Unknown => c"unknown",
            Cause::Erased => c"erased",
            Cause::AncestorDestroyed => c"ancestor destroyed",
            Cause::Destroyed => c"destroyed",
            Cause::MissedEnd => c"missed end",
            Cause::OpaqueMutation => c"opaque mutation",
            Cause::ScopeCleared => c"scope cleared",
            Cause::Released => c"released",
        }
    }
}

/// How an incarnation ended (R13).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Death {
    /// Whose end, or change, took it along; [`Ref::NULL`] if nobody else's. Its epoch is 0 if that object was
    /// not tracked.
    pub by: Ref,
    /// When, in nanoseconds of the system's monotonic clock; on Linux `CLOCK_MONOTONIC_COARSE`, which steps with the
    /// timer tick (some milliseconds).
    pub time_ns: u64,
    pub cause: Cause,
    pub kind: u8,
}

/// An incarnation that has just ended, as observers see it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct End {
    pub reference: Ref,
    pub death: Death,
    pub scope: u64,
    /// The user pointer it carried.
    pub user: usize,
}

/// What a caller knows of an object when it registers it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Description<'a> {
    /// The object's address; not 0.
    pub object: usize,
    /// Which group it belongs to: any number.
    pub scope: u64,
    /// The caller's own classification, below [`KIND_COUNT`].
    pub kind: u8,
    /// The objects that enclose it, nearest first and complete up to the outermost. `None`: not reported; what
    /// is known of its place stays as it is.
    pub ancestors: Option<&'a [usize]>,
    /// Kept with the incarnation.
    pub user: usize,
}

/// What ends that an exact source reports are due to; see [`Attribution::enter`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Attribution {
    pub by: Ref,
    /// [`Cause::Unknown`]: nothing is said.
    pub cause: Cause,
}

impl Attribution {
    pub const NONE: Attribution = Attribution {
        by: Ref::NULL,
        cause: Cause::Unknown,
    };
}

/// The figures of a tracker. Exact whenever no hook is running (R14).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// Live incarnations.
    pub tracked: usize,
    /// Untracked ancestors that are kept for their place.
    pub anchors: usize,
    /// Incarnations that were started, since the tracker was made; so are the others below.
    pub created: u64,
    /// Incarnations that ended other than by release.
    pub ended: u64,
    pub released: u64,
    /// Those of the ended whose end nobody reported in time.
    pub missed_ends: u64,
    /// Bugs that were kept from crossing the C boundary, in the whole process.
    pub internal_errors: u64,
    /// Exact sources that are active.
    pub exact_sources: u32,
}

/// Whether to go on visiting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Visit {
    Continue,
    Stop,
}
