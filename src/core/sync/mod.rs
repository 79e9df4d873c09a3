// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Everything that threads of the core share: the atomics, the one kind of lock, the fork lock and
//! the clock.
//!
//! Under `--cfg loom` the atomics and threads are those of the model checker loom, and the same
//! code is explored in every interleaving. loom's atomics have no `const` constructor, so shared
//! statics are declared with [`process_static!`] and thread-locals with [`thread_static!`].
//!
//! # Lock order
//!
//! 1. The [`fork_lock`]: shared by whatever takes another lock, exclusive while the process forks.
//! 2. One stripe of the forest ([`crate::core::forest`]). No thread holds two stripes.
//! 3. The lock of one filter ([`crate::core::filter`]), while its bits are computed anew.
//! 4. One shard of the pointer index ([`crate::core::index`]), for the length of one map operation.
//!
//! The locks of the slot table's memory, of the death log, of a tracker's observer and of the list
//! of trackers are leaves. No lock is taken under them. Observers and visitors run with none of
//! these locks held.

mod backoff;
mod cache_padded;
mod clock;
pub mod fork_lock;
pub mod lock;
mod membarrier;
#[cfg(all(test, not(loom), target_os = "linux"))]
mod realtime_tests;

pub use backoff::Backoff;
pub use cache_padded::CachePadded;
pub use clock::now_ns;
pub use lock::{Lock, LockGuard};

#[cfg(loom)]
#[allow(unused_imports, reason = "the models use some of them")]
pub use loom::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};
#[cfg(not(loom))]
#[allow(unused_imports, reason = "the same list as under loom")]
pub use std::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};

/// Declares a `static` that holds atomics or locks. Under loom each execution of a model gets a
/// fresh one.
macro_rules! process_static {
    (
        $(#[$attribute:meta])*
        $(pub $(($($place:tt)+))?)? static $name:ident: $type:ty = $value:expr;
    ) => {
        #[cfg(not(loom))]
        $(#[$attribute])*
        $(pub $(($($place)+))?)? static $name: $type = $value;
        #[cfg(loom)]
        loom::lazy_static! {
            $(#[$attribute])*
            $(pub $(($($place)+))?)? static ref $name: $type = $value;
        }
    };
}

/// Declares a thread-local. Under loom it belongs to a thread of the model.
macro_rules! thread_static {
    ($(#[$attribute:meta])* $visibility:vis static $name:ident: $type:ty = $value:expr;) => {
        #[cfg(not(loom))]
        thread_local! {
            $(#[$attribute])*
            $visibility static $name: $type = const { $value };
        }
        #[cfg(loom)]
        loom::thread_local! {
            $(#[$attribute])*
            $visibility static $name: $type = $value;
        }
    };
}

pub(crate) use {process_static, thread_static};
