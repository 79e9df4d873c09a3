// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! `lot/mlir.h`. The doc comments below are that header's documentation.

// The names are C's.
#![allow(non_camel_case_types)]

use std::ffi::{c_char, c_void};

use super::lot::{lot_kind, lot_status, lot_tracker};
use super::{Out, guard};
use crate::mlir::{self, Source};
use crate::{Error, Tracker};

/// The kinds that MLIR's objects are tracked with. An operation:
pub const LOT_MLIR_OPERATION: lot_kind = 0;
/// A block.
pub const LOT_MLIR_BLOCK: lot_kind = 1;
/// An argument of a block. It ends with its block, by its place: so it is to be tracked with its
/// ancestors, of which the block is the first.
pub const LOT_MLIR_BLOCK_ARGUMENT: lot_kind = 2;

const _: () = {
    assert!(LOT_MLIR_OPERATION == mlir::OPERATION);
    assert!(LOT_MLIR_BLOCK == mlir::BLOCK);
    assert!(LOT_MLIR_BLOCK_ARGUMENT == mlir::BLOCK_ARGUMENT);
};

/// What tells a tracker of ends, beyond what the binding reports itself: one of the `LOT_MLIR_SOURCE_`
/// values.
pub type lot_mlir_source = u32;

/// Nothing does: structural mode.
pub const LOT_MLIR_SOURCE_STRUCTURAL: lot_mlir_source = 0;
/// Hooks in the tables of the loaded libraries: exact mode.
pub const LOT_MLIR_SOURCE_LOAD_HOOKS: lot_mlir_source = 1;
/// Hooks that were linked before a static MLIR: exact mode.
pub const LOT_MLIR_SOURCE_LINK_HOOKS: lot_mlir_source = 2;
/// A rewriter's listener (lot/mlir.hpp). Structural mode, since it only sees what goes through its
/// rewriter.
pub const LOT_MLIR_SOURCE_LISTENER: lot_mlir_source = 3;

const _: () = {
    assert!(LOT_MLIR_SOURCE_STRUCTURAL == Source::Structural as u32);
    assert!(LOT_MLIR_SOURCE_LOAD_HOOKS == Source::LoadHooks as u32);
    assert!(LOT_MLIR_SOURCE_LINK_HOOKS == Source::LinkHooks as u32);
    assert!(LOT_MLIR_SOURCE_LISTENER == Source::Listener as u32);
};

/// Proves that a source sees every end. It gets a tracker of its own, in exact mode; it has to build
/// IR with nested operations and blocks, track each of them there, destroy all of it by MLIR's own
/// means, and return whether every ref is dead. `lot::mlir::selfTest` (lot/mlir.hpp) and
/// `lot_mlir_c_self_test` (lot/mlir_c.h) do this.
///
/// Called before the installation returns, on its thread, with no lock held. It must not throw.
pub type lot_mlir_self_test_fn =
    Option<unsafe extern "C" fn(private_tracker: lot_tracker, data: *mut c_void) -> bool>;

/// Which source is active, and why not a better one.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct lot_mlir_status {
    /// Which source is active.
    pub source: lot_mlir_source,
    /// How many GOT entries lead to load hooks for this tracker.
    pub slots_patched: u32,
    /// In how many loaded objects (program, libraries), the MLIR library itself included.
    pub libraries_patched: u32,
    /// Why there is no exact source, as a sentence for a person; "" if there is one. Static; never null.
    pub reason: *const c_char,
}

/// # Safety
/// The function, if there is one, may be called with `data`.
unsafe fn self_test_from(
    function: lot_mlir_self_test_fn,
    data: *mut c_void,
) -> Result<impl FnMut(Tracker) -> bool, Error> {
    let function = function.ok_or(Error::null(c"the self-test is null"))?;
    Ok(move |trial: Tracker| {
        let trial = lot_tracker { id: trial.to_raw() };
        // SAFETY: the caller vouches for the function and its data.
        unsafe { function(trial, data) }
    })
}

/// Puts a tracker into exact mode by load hooks, for an MLIR in a shared library that was not built
/// for it: each slot in the tables of each loaded object that leads to one of the library's functions
/// which destroy operations and blocks is made to lead to a hook, which reports the end and goes on
/// to the function. Linux on 64-bit x86 and ARM.
///
/// `symbol` is the address of any function or variable in the MLIR library. Installing again, for the
/// same library, does nothing but what `lot_mlir_refresh` does; another tracker's hooks are not
/// disturbed. The MLIR library and this one stay loaded for the rest of the process.
///
/// `LOT_ERROR_UNSUPPORTED` if not every end can be seen, which the self-test finds out at last: all
/// slots are then as they were, and the reason is in `lot_last_error_message` and
/// `lot_mlir_get_status`. `LOT_ERROR_NULL_ARGUMENT` without symbol or self-test; `LOT_ERROR_LIMIT`
/// when 8 MLIR libraries are watched already, or 32 trackers watch this one.
///
/// Any thread, but not from an initializer that another thread's `dlopen` may wait for. MLIR may be in
/// use on other threads.
///
/// # Safety
/// `self_test` is null or may be called with `data`, once, during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lot_mlir_install_load_hooks(
    tracker: lot_tracker,
    symbol: *const c_void,
    self_test: lot_mlir_self_test_fn,
    data: *mut c_void,
) -> lot_status {
    guard(|| {
        // SAFETY: the caller vouches for the self-test.
        let self_test = unsafe { self_test_from(self_test, data) }?;
        if symbol.is_null() {
            return Err(Error::null(c"the symbol is null"));
        }
        mlir::install_load_hooks(tracker.into(), symbol as usize, self_test)
    })
}

/// Takes a tracker's load hooks back; it is then in structural mode, unless another source is active.
/// With the last tracker of an MLIR library its slots are restored, apart from those that somebody
/// else has changed since. `LOT_ERROR_NOT_ACTIVE` if there are none. Any thread; MLIR may be in use on
/// other threads.
#[unsafe(no_mangle)]
pub extern "C" fn lot_mlir_uninstall_load_hooks(tracker: lot_tracker) -> lot_status {
    guard(|| mlir::uninstall_load_hooks(tracker.into()))
}

/// Extends a tracker's load hooks to libraries that were loaded since; to be called before such a
/// library uses MLIR. Returns at once if none was, and if the tracker has no load hooks.
///
/// `LOT_ERROR_UNSUPPORTED` if a library cannot be covered: the hooks of that MLIR library are then
/// given up for all of its trackers, and `lot_mlir_get_status` says why. Any thread.
#[unsafe(no_mangle)]
pub extern "C" fn lot_mlir_refresh(tracker: lot_tracker) -> lot_status {
    guard(|| mlir::refresh(tracker.into()))
}

/// Puts a tracker into exact mode by link hooks, for an MLIR that is linked statically into the final
/// program or library, together with the CMake target `LiveObjectTracker::mlir_link_hooks`.
///
/// Installing again does nothing. `LOT_ERROR_UNSUPPORTED` if the self-test does not see every end,
/// with the reason as for `lot_mlir_install_load_hooks`; `LOT_ERROR_NULL_ARGUMENT` without a
/// self-test; `LOT_ERROR_LIMIT` when 32 trackers have link hooks. Any thread.
///
/// # Safety
/// `self_test` is null or may be called with `data`, once, during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lot_mlir_install_link_hooks(
    tracker: lot_tracker,
    self_test: lot_mlir_self_test_fn,
    data: *mut c_void,
) -> lot_status {
    guard(|| {
        // SAFETY: the caller vouches for the self-test.
        let self_test = unsafe { self_test_from(self_test, data) }?;
        mlir::install_link_hooks(tracker.into(), self_test)
    })
}

/// Takes a tracker's link hooks back; it is then in structural mode, unless another source is active.
/// `LOT_ERROR_NOT_ACTIVE` if there are none. Any thread.
#[unsafe(no_mangle)]
pub extern "C" fn lot_mlir_uninstall_link_hooks(tracker: lot_tracker) -> lot_status {
    guard(|| mlir::uninstall_link_hooks(tracker.into()))
}

/// For link hooks: the memory of exactly this operation is about to go away. Reported to every tracker
/// with link hooks. Null and unknown addresses are fine. Any thread; callable in destructors.
#[unsafe(no_mangle)]
pub extern "C" fn lot_mlir_report_operation(operation: *const c_void) {
    mlir::report_operation(operation as usize);
}

/// For link hooks: the memory of exactly this block, and of its arguments, is about to go away. As
/// `lot_mlir_report_operation` otherwise.
#[unsafe(no_mangle)]
pub extern "C" fn lot_mlir_report_block(block: *const c_void) {
    mlir::report_block(block as usize);
}

/// For link hooks: the memory of exactly this block argument, of a block that stays, is about to go
/// away. As `lot_mlir_report_operation` otherwise.
#[unsafe(no_mangle)]
pub extern "C" fn lot_mlir_report_block_argument(argument: *const c_void) {
    mlir::report_block_argument(argument as usize);
}

/// For link hooks: whether any tracker with link hooks tracks block arguments; if not, their ends need
/// no report. Any thread.
#[unsafe(no_mangle)]
pub extern "C" fn lot_mlir_wants_block_arguments() -> bool {
    mlir::wants_block_arguments()
}

/// States that a rewriter's listener begins to report to a tracker, for `lot_mlir_get_status`. Nests;
/// the mode of the tracker does not change. Any thread.
#[unsafe(no_mangle)]
pub extern "C" fn lot_mlir_listener_begin(tracker: lot_tracker) -> lot_status {
    guard(|| mlir::listener_begin(tracker.into()))
}

/// Takes one `lot_mlir_listener_begin` back; `LOT_ERROR_NOT_ACTIVE` if there is none. Any thread.
#[unsafe(no_mangle)]
pub extern "C" fn lot_mlir_listener_end(tracker: lot_tracker) -> lot_status {
    guard(|| mlir::listener_end(tracker.into()))
}

/// Which source is active for a tracker, and why not a better one. `LOT_ERROR_NULL_ARGUMENT` without
/// `out_status`. Any thread.
///
/// # Safety
/// `out_status` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lot_mlir_get_status(
    tracker: lot_tracker,
    out_status: *mut lot_mlir_status,
) -> lot_status {
    guard(|| {
        // SAFETY: the caller vouches for the place.
        let out = unsafe { Out::required(out_status) }?;
        let status = mlir::status(tracker.into())?;
        out.set(lot_mlir_status {
            source: status.source as u32,
            slots_patched: status.slots_patched,
            libraries_patched: status.libraries_patched,
            reason: status.reason.as_ptr(),
        });
        Ok(())
    })
}
