// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The tracker itself. Addresses of objects are plain numbers here, and no code follows one.
//! Nothing in this folder knows of C or MLIR.
//!
//! From the bottom up: [`sync`] (locks), [`storage`] (zeroed memory), [`table`] (slots),
//! [`death_log`], [`filter`] and [`index`], [`observers`], [`state`] (what one tracker keeps),
//! [`forest`] (the trees), [`registry`] (handles), [`tracker`] (what callers see), [`report`].

pub mod death_log;
mod filter;
mod forest;
mod index;
#[cfg(all(test, shuttle))]
mod interleavings;
pub mod observers;
mod registry;
pub mod report;
mod state;
mod storage;
pub mod sync;
mod table;
pub mod tracker;

/// An odd number that spreads what it is multiplied with over the high bits (Fibonacci hashing).
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
