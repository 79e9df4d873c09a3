// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The tracker itself. Addresses are plain numbers here; nothing in this folder follows one, and nothing
//! knows of C or MLIR.

pub mod forest;
pub mod index;
pub mod quarantine;
pub mod report;
pub mod sync;
pub mod table;
pub mod tracker;

/// An odd number that spreads what it is multiplied with over the high bits (Fibonacci hashing).
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
