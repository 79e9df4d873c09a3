// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The values that callers give and get.

use std::ffi::CStr;

/// Kinds of objects are numbers below this.
pub const KIND_COUNT: usize = 16;

/// A name of one incarnation of an object. It is a plain value of 16 bytes, safe to keep for ever.
///
/// A ref is live from the moment it is handed out until its incarnation ends. From then on it is
/// dead, whatever is allocated at the address later (R1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(C)]
pub struct Ref {
    /// The object's address.
    pub object: usize,
    /// The incarnation's number. It is not 0 in a ref that was handed out, and is never used twice in
    /// a process (R2).
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

    /// The cause with that number, or [`Cause::Unknown`] if none has it.
    pub fn from_number(number: u32) -> Cause {
        Self::ALL.get(number as usize).copied().unwrap_or_default()
    }

    /// The cause in words, for messages.
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

/// The record of how an incarnation ended (R13).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Death {
    /// The object whose end or change took it along, or [`Ref::NULL`]. The epoch is 0 if that object
    /// was not tracked.
    pub by: Ref,
    /// The time, in nanoseconds of the system's monotonic clock. On Linux this is
    /// `CLOCK_MONOTONIC_COARSE`, which advances with the timer tick of some milliseconds.
    pub time_ns: u64,
    /// Why it ended.
    pub cause: Cause,
    /// The kind that it was registered with.
    pub kind: u8,
}

/// An incarnation that has just ended, as observers see it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct End {
    /// The ref, which is dead now.
    pub reference: Ref,
    /// How it died.
    pub death: Death,
    /// The scope that it was in.
    pub scope: u64,
    /// The user pointer it carried.
    pub user: usize,
}

/// What a caller knows of an object when it registers it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Description<'a> {
    /// The object's address, which is not 0. The tracker never follows it.
    pub object: usize,
    /// The group that it belongs to; any number will do.
    pub scope: u64,
    /// The caller's own classification, below [`KIND_COUNT`].
    pub kind: u8,
    /// The objects that enclose it, nearest first and complete up to the outermost. `None` reports
    /// nothing: what is known of its place stays as it is. An empty list means that nothing
    /// encloses it.
    pub ancestors: Option<&'a [usize]>,
    /// The user pointer, which is kept with the incarnation. The tracker never follows it.
    pub user: usize,
}

/// The cause and culprit recorded for ends that an exact source reports on this thread; see
/// [`Attribution::enter`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Attribution {
    /// The object whose end or change takes others along. With epoch 0 it stands for whatever is at
    /// its address.
    pub by: Ref,
    /// The cause. [`Cause::Unknown`] means that there is no attribution.
    pub cause: Cause,
}

impl Attribution {
    /// No attribution: ends are recorded as [`Cause::Destroyed`], without a culprit.
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
    /// Placeholders: untracked objects that are known because something tracked is below them.
    pub anchors: usize,
    /// Incarnations that were started since the tracker was made.
    pub created: u64,
    /// Incarnations that ended other than by release, since the tracker was made.
    pub ended: u64,
    /// Incarnations that were released, since the tracker was made.
    pub released: u64,
    /// How many of `ended` ended without a report ([`Cause::MissedEnd`]).
    pub missed_ends: u64,
    /// Panics that were kept from crossing the C boundary, in the whole process (R17).
    pub internal_errors: u64,
    /// Exact sources that are active.
    pub exact_sources: u32,
}

/// Whether to go on visiting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Visit {
    /// Go on.
    Continue,
    /// Visit nothing more.
    Stop,
}
