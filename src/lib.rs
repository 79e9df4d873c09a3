// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#![doc = include_str!("lib.md")]
#![warn(missing_docs)]

mod core;
mod error;
pub mod ffi;
#[cfg(unix)]
pub mod mlir;
mod types;

pub use crate::core::death_log::{
    capacity as death_log_capacity, set_capacity as set_death_log_capacity,
};
pub use crate::core::observers::Observer;
pub use crate::core::report::Format;
pub use crate::core::tracker::Tracker;
pub use crate::error::{Error, ErrorKind};
pub(crate) use crate::error::{count_internal_error, internal_errors};
pub use crate::types::{
    Attribution, Cause, Death, Description, End, KIND_COUNT, Ref, Stats, Visit,
};
