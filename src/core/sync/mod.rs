// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Everything that threads of the core share: the atomics, the one kind of lock, the fork lock and
//! the clock.
//!
//! Two model checkers run the same code in many interleavings (`tools/interleavings.sh`):
//! - Under `--cfg loom` the atomics and threads are loom's. It explores all interleavings of small
//!   parts, with all that the C11 memory model allows. Its atomics have no `const` constructor and
//!   must not be zeroed memory.
//! - Under `--cfg shuttle` the atomics are real ones, and shuttle's scheduler may switch to another
//!   thread before each use (`shuttle_model.rs`). It explores random interleavings of the whole
//!   core.
//!
//! So shared statics are declared with [`process_static!`], arrays in them with [`array_of!`],
//! and thread-locals with [`thread_static!`].
//!
//! # Lock order
//!
//! 1. The [`fork_lock`]: shared by whatever takes another lock, exclusive while the process forks.
//! 2. One stripe of the forest ([`crate::core::forest`]). No thread holds two stripes.
//! 3. The lock of one filter ([`crate::core::filter`]), while its bits are computed anew.
//! 4. One shard of the pointer index ([`crate::core::index`]), for the length of one map operation.
//!    Under it a stripe may be *tried*: that waits for nobody.
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
#[cfg(all(test, not(any(loom, shuttle)), target_os = "linux"))]
mod realtime_tests;
#[cfg(shuttle)]
pub mod shuttle_model;

pub use backoff::Backoff;
pub use cache_padded::CachePadded;
pub use clock::now_ns;
pub use lock::{Lock, LockGuard};

#[cfg(loom)]
#[allow(unused_imports, reason = "the models use some of them")]
pub use loom::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};
#[cfg(shuttle)]
pub use shuttle_model::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence, without_switches,
};
#[cfg(not(any(loom, shuttle)))]
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
        // Attributes are for the linker and for readers.
        #[cfg(loom)]
        loom::lazy_static! {
            $(pub $(($($place)+))?)? static ref $name: $type = $value;
        }
    };
}

/// An array for a `static`, of values that hold atomics or locks.
#[cfg(not(loom))]
macro_rules! array_of {
    ($value:expr; $len:expr) => {
        [const { $value }; $len]
    };
}
#[cfg(loom)]
macro_rules! array_of {
    ($value:expr; $len:expr) => {
        std::array::from_fn::<_, { $len }, _>(|_| $value)
    };
}

/// Declares a thread-local. In a model it belongs to a thread of the model.
macro_rules! thread_static {
    ($(#[$attribute:meta])* $visibility:vis static $name:ident: $type:ty = $value:expr;) => {
        #[cfg(not(any(loom, shuttle)))]
        thread_local! {
            $(#[$attribute])*
            $visibility static $name: $type = const { $value };
        }
        #[cfg(loom)]
        loom::thread_local! {
            $(#[$attribute])*
            $visibility static $name: $type = $value;
        }
        #[cfg(shuttle)]
        shuttle::thread_local! {
            $visibility static $name: $type = $value;
        }
    };
}

pub(crate) use {array_of, process_static, thread_static};

/// Does something under a lock that is not ours, such as a shard's of dashmap. A model of shuttle
/// switches to no other thread meanwhile: that one could wait for the lock, and never switch back.
#[cfg(not(shuttle))]
#[inline(always)]
pub fn without_switches<T>(run: impl FnOnce() -> T) -> T {
    run()
}

/// Checks all interleavings of a model with at most `preemptions` involuntary switches.
#[cfg(all(test, loom))]
pub fn loom_check(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 20_000;
    builder.check(model);
}
