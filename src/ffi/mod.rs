// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The C interface: the only folder with `extern "C"`. Each function checks its pointers, does one thing of the
//! Rust interface behind a panic boundary, and answers with a status; results go to out-parameters, which a
//! failed call leaves alone.

#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

pub mod lot;
#[cfg(unix)]
pub mod mlir;

use std::cell::Cell;
use std::ffi::CStr;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::{Error, count_internal_error};

const OK: i32 = 0;

thread_local! {
    // A constant: setting it allocates nothing, and it has no destructor that a hook could come after.
    static LAST_MESSAGE: Cell<&'static CStr> = const { Cell::new(c"") };
}

/// Runs the body of an exported function: no panic gets past it (R17), and a refusal's message is kept for
/// this thread.
pub(crate) fn guard(body: impl FnOnce() -> Result<(), Error>) -> i32 {
    match catch(body) {
        Ok(()) => OK,
        Err(error) => {
            LAST_MESSAGE.set(error.message());
            error.kind() as i32
        }
    }
}

/// Runs the body; a panic becomes an internal error, and is counted.
fn catch<T>(body: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|payload| {
        count_internal_error();
        // The payload's own destructor may panic in its turn.
        std::mem::forget(payload);
        Err(Error::internal(
            c"a bug in the live object tracker; it was kept from crossing the C boundary",
        ))
    })
}

/// The place that a C caller gives for a result.
pub(crate) struct Out<T>(*mut T);

impl<T> Out<T> {
    /// # Safety
    /// `place` is null, or points to a `T`, initialised or not, that nobody else uses during the call.
    pub(crate) unsafe fn required(place: *mut T) -> Result<Self, Error> {
        if place.is_null() {
            Err(Error::null(c"an out-parameter is null"))
        } else {
            Ok(Self(place))
        }
    }

    /// # Safety
    /// As for [`required`](Self::required); a null place swallows the result.
    pub(crate) unsafe fn optional(place: *mut T) -> Self {
        Self(place)
    }

    pub(crate) fn set(self, value: T) {
        if !self.0.is_null() {
            // SAFETY: the constructors' callers vouch for the place.
            unsafe { self.0.write(value) };
        }
    }
}

#[cfg(test)]
#[allow(clippy::panic, clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::internal_errors;

    /// A payload whose destructor panics in its turn.
    struct Nasty;

    impl Drop for Nasty {
        fn drop(&mut self) {
            panic!("again");
        }
    }

    #[test]
    fn r17_a_panic_becomes_a_status_and_is_counted() {
        let before = internal_errors();
        assert_eq!(guard(|| panic!("a bug")), lot::LOT_ERROR_INTERNAL);
        assert_eq!(
            guard(|| std::panic::panic_any(Nasty)),
            lot::LOT_ERROR_INTERNAL
        );
        assert_eq!(internal_errors(), before + 2);
        let tracker = crate::Tracker::new("counted").unwrap();
        assert_eq!(tracker.stats().unwrap().internal_errors, before + 2);
        tracker.destroy_tracker().unwrap();
        let message = LAST_MESSAGE.get().to_str().unwrap();
        assert!(
            message.contains("a bug in the live object tracker"),
            "{message}"
        );
        assert_eq!(guard(|| Ok(())), OK);
    }
}
