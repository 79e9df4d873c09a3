// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The tracker itself. Addresses are plain numbers here; nothing in this folder follows one, and nothing
//! knows of C or MLIR.
//!
//! Under `--cfg loom` only [`sync`] is compiled: the statics of the other files hold atomics that
//! loom cannot make in a constant.

#[cfg(not(loom))]
pub mod forest;
#[cfg(not(loom))]
pub mod index;
#[cfg(not(loom))]
pub mod quarantine;
#[cfg(not(loom))]
pub mod report;
pub mod sync;
#[cfg(not(loom))]
pub mod table;
#[cfg(not(loom))]
pub mod tracker;

/// An odd number that spreads what it is multiplied with over the high bits (Fibonacci hashing).
#[cfg(not(loom))]
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
