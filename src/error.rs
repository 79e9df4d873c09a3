// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Refusals, and the count of caught bugs.

use std::ffi::CStr;
use std::sync::atomic::{AtomicU64, Ordering};

/// What kind of refusal an [`Error`] is. The numbers are those of the C interface.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(i32)]
pub enum ErrorKind {
    /// An address is 0, or a pointer is null that must not be.
    NullArgument = 1,
    /// A kind is out of range, ancestors repeat or name the object itself, or the like.
    InvalidArgument = 2,
    /// The handle was never given out, or its tracker is destroyed.
    NoTracker = 3,
    /// The ref is dead, null or made up.
    DeadRef = 4,
    /// Nothing is tracked at the address, or no death is on record for the ref.
    NotFound = 5,
    /// A fixed limit is reached, or there is no memory for more.
    Limit = 6,
    /// Something is ended that was not begun.
    NotActive = 7,
    /// It cannot be done here; the message says why.
    Unsupported = 8,
    /// A bug of the tracker, or output that could not be written.
    Internal = 9,
}

/// A refusal: its kind, and a sentence for a person. Making one allocates nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Error {
    kind: ErrorKind,
    message: &'static CStr,
}

impl Error {
    /// The refusal of a handle that is no tracker's.
    pub const NO_TRACKER: Error = Error {
        kind: ErrorKind::NoTracker,
        message: c"no such tracker: the handle was never given out, or its tracker is destroyed",
    };
    /// The refusal of a dead ref.
    pub const DEAD_REF: Error = Error {
        kind: ErrorKind::DeadRef,
        message: c"the ref is dead: its object has ended, or it was never given out",
    };
    /// The answer where nothing is tracked at an address.
    pub const NOT_TRACKED: Error = Error {
        kind: ErrorKind::NotFound,
        message: c"nothing live is tracked at that address",
    };
    /// The answer where no death is on record.
    pub const NO_RECORD: Error = Error {
        kind: ErrorKind::NotFound,
        message:
            c"no death is on record: the ref is live, was never given out, or died too long ago",
    };

    pub(crate) const fn null(message: &'static CStr) -> Self {
        Self {
            kind: ErrorKind::NullArgument,
            message,
        }
    }
    pub(crate) const fn invalid(message: &'static CStr) -> Self {
        Self {
            kind: ErrorKind::InvalidArgument,
            message,
        }
    }
    pub(crate) const fn limit(message: &'static CStr) -> Self {
        Self {
            kind: ErrorKind::Limit,
            message,
        }
    }
    pub(crate) const fn not_active(message: &'static CStr) -> Self {
        Self {
            kind: ErrorKind::NotActive,
            message,
        }
    }
    pub(crate) const fn unsupported(message: &'static CStr) -> Self {
        Self {
            kind: ErrorKind::Unsupported,
            message,
        }
    }
    pub(crate) const fn internal(message: &'static CStr) -> Self {
        Self {
            kind: ErrorKind::Internal,
            message,
        }
    }

    /// What kind of refusal it is.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// A sentence for a person.
    pub fn message(&self) -> &'static CStr {
        self.message
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message.to_string_lossy())
    }
}

impl std::error::Error for Error {}

/// Bugs that were caught at the C boundary, in this process.
static INTERNAL_ERRORS: AtomicU64 = AtomicU64::new(0);

pub(crate) fn internal_errors() -> u64 {
    INTERNAL_ERRORS.load(Ordering::Relaxed)
}

pub(crate) fn count_internal_error() {
    INTERNAL_ERRORS.fetch_add(1, Ordering::Relaxed);
}
