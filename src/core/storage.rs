// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Zeroed memory for atomics, and how much of it the slot table takes at a time.
//!
//! loom's atomics must be made one by one, each in the execution that uses it. So the memory of its
//! models comes from here too, and is small.

use std::alloc::{Layout, alloc_zeroed, dealloc};

#[cfg(loom)]
pub use loom_memory::*;
#[cfg(not(loom))]
pub use system::*;

/// Atomics, or a structure of atomics, for which zeroed memory is a valid value. Implemented by
/// [`zeroed!`].
///
/// # Safety
/// Zero bytes are a valid value. It needs no drop.
pub unsafe trait Zeroed {
    /// What zeroed memory stands for.
    #[cfg(loom)]
    fn zeroed() -> Self;
}

/// Implements [`Zeroed`] for a structure by naming all of its fields, each of which is [`Zeroed`].
macro_rules! zeroed {
    ($name:ident { $($field:ident),* $(,)? }) => {
        // SAFETY: `$name` has no other fields, which the pattern below checks.
        unsafe impl $crate::core::storage::Zeroed for $name {
            #[cfg(loom)]
            fn zeroed() -> Self {
                Self { $($field: $crate::core::storage::Zeroed::zeroed()),* }
            }
        }
        const _: fn(&$name) = |value| {
            fn is_zeroed(_: &impl $crate::core::storage::Zeroed) {}
            let $name { $($field),* } = value;
            $(is_zeroed($field);)*
        };
    };
}
pub(super) use zeroed;

macro_rules! zeroed_atomics {
    ($($name:ident),*) => {
        // SAFETY: a number, of which zero is one.
        $(unsafe impl Zeroed for super::sync::$name {
            #[cfg(loom)]
            fn zeroed() -> Self {
                Self::new(0)
            }
        })*
    };
}
zeroed_atomics!(AtomicU32, AtomicU64, AtomicUsize);

/// An array of zeroed values. `None` if there is no memory, or if `len` is 0.
pub fn allocate<T: Zeroed>(len: usize, alignment: usize) -> Option<*mut T> {
    let layout = layout::<T>(len, alignment)?;
    if layout.size() == 0 {
        return None;
    }
    // SAFETY: the layout is not of size zero.
    let array: *mut T = unsafe { alloc_zeroed(layout) }.cast();
    if array.is_null() {
        return None;
    }
    #[cfg(loom)]
    // SAFETY: there is memory for so many, and nobody uses it yet.
    unsafe {
        add_memory(array, 0, len)?;
    }
    Some(array)
}

/// # Safety
/// The array was allocated with this length and alignment. Nobody uses it any more.
pub unsafe fn free<T: Zeroed>(array: *mut T, len: usize, alignment: usize) {
    if let Some(layout) = layout::<T>(len, alignment) {
        // SAFETY: the caller's promise.
        unsafe { dealloc(array.cast(), layout) };
    }
}

fn layout<T>(len: usize, alignment: usize) -> Option<Layout> {
    Layout::array::<T>(len).ok()?.align_to(alignment).ok()
}

#[cfg(not(loom))]
mod system {
    use std::ptr;

    use super::Zeroed;

    /// How many slots addresses are reserved for: 3 GiB. The tracker's memory for so many objects
    /// is 5 GB, and that of the objects themselves and of their wrappers many times more.
    pub const RESERVED: usize = 1 << 26;
    /// How many slots get memory at first: 3 MiB, which the system hands out page by page as they
    /// are touched. Later on their number doubles.
    pub const FIRST_LEN: usize = 1 << 16;
    /// How many slots a stripe takes or gives back at once.
    pub const BATCH: u32 = 64;

    /// Reserves addresses, which have no memory yet.
    pub fn reserve(size: usize) -> Option<*mut u8> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANON;
        // SAFETY: a new mapping, wherever the system likes; nothing in it can be read or written
        // yet.
        let place = unsafe { libc::mmap(ptr::null_mut(), size, libc::PROT_NONE, flags, -1, 0) };
        (place != libc::MAP_FAILED).then_some(place.cast())
    }

    /// # Safety
    /// [`reserve`] has reserved these addresses, and nobody uses them.
    pub unsafe fn release(place: *mut u8, size: usize) {
        // SAFETY: the caller's promise.
        unsafe { libc::munmap(place.cast(), size) };
    }

    /// Makes elements of an array usable. The system zeroes each page as it is touched: no hook
    /// pays for all.
    ///
    /// # Safety
    /// The elements are in reserved addresses, and nobody has used them yet.
    pub unsafe fn add_memory<T: Zeroed>(array: *mut T, from: usize, to: usize) -> Option<()> {
        let (place, size) = (array.wrapping_add(from), (to - from) * size_of::<T>());
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the caller's promise.
        let result = unsafe { libc::mprotect(place.cast(), size, access) };
        (result == 0).then_some(())
    }

    /// How many bytes of addresses the process may use.
    pub fn address_limit() -> usize {
        let mut limit = libc::rlimit {
            rlim_cur: 0,
            rlim_max: 0,
        };
        // SAFETY: `limit` is a valid place for the result.
        match unsafe { libc::getrlimit(libc::RLIMIT_AS, &mut limit) } {
            0 => usize::try_from(limit.rlim_cur).unwrap_or(usize::MAX),
            _ => usize::MAX,
        }
    }
}

#[cfg(loom)]
mod loom_memory {
    use std::alloc::{Layout, alloc_zeroed};

    use super::Zeroed;

    /// Few enough that an execution makes them quickly, and enough that the table grows once.
    pub const RESERVED: usize = 8;
    pub const FIRST_LEN: usize = 4;
    pub const BATCH: u32 = 2;

    /// Never freed: a kilobyte for each execution.
    pub fn reserve(size: usize) -> Option<*mut u8> {
        let layout = Layout::from_size_align(size, 64).ok()?;
        // SAFETY: the layout is not of size zero.
        let place = unsafe { alloc_zeroed(layout) };
        (!place.is_null()).then_some(place)
    }

    /// # Safety
    /// As for the system's memory.
    pub unsafe fn release(_: *mut u8, _: usize) {}

    /// # Safety
    /// As for the system's memory.
    pub unsafe fn add_memory<T: Zeroed>(array: *mut T, from: usize, to: usize) -> Option<()> {
        for number in from..to {
            // SAFETY: the caller's promise.
            unsafe { array.add(number).write(T::zeroed()) };
        }
        Some(())
    }

    pub fn address_limit() -> usize {
        usize::MAX
    }
}
