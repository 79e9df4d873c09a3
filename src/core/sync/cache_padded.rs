// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Values on cache lines of their own.

use std::ops::{Deref, DerefMut};

/// A value that shares no cache line with its neighbours. The alignment is 128 bytes, because
/// x86-64 prefetches lines in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct CachePadded<T>(pub T);

impl<T> Deref for CachePadded<T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for CachePadded<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}
