// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Writes one word into memory that may be read-only, and leaves the page as it was.

use std::ffi::c_int;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

pub(crate) fn page_size() -> usize {
    // SAFETY: no preconditions.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as usize }
}

/// The protection of the pages of this process, as the kernel tells it.
pub(crate) struct Pages {
    mappings: Vec<(Range<usize>, c_int)>,
    size: usize,
}

impl Pages {
    pub fn read() -> Pages {
        // Without /proc, what the object's headers say is used instead.
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
        Pages {
            mappings: maps.lines().filter_map(parse).collect(),
            size: page_size(),
        }
    }

    fn protection(&self, page: usize) -> Option<c_int> {
        let mut mappings = self.mappings.iter();
        mappings
            .find(|(range, _)| range.contains(&page))
            .map(|(_, protection)| *protection)
    }

    /// Sets the word at `slot` to `new` if it holds `expected`. `Ok(Err(held))`: it holds `held`.
    /// `fallback` is the page's protection, should the kernel not tell it.
    ///
    /// # Safety
    /// `slot` is an aligned word in a mapped page, which stays mapped meanwhile, and no other thread
    /// changes the page's protection.
    pub unsafe fn replace(
        &self,
        slot: usize,
        fallback: c_int,
        expected: usize,
        new: usize,
    ) -> io::Result<Result<(), usize>> {
        // SAFETY: mapped, aligned, readable.
        let held = unsafe { load(slot) };
        if held != expected {
            return Ok(Err(held)); // Without a write, which even a failing exchange is.
        }
        let page = slot & !(self.size - 1);
        let protection = self.protection(page).unwrap_or(fallback);
        if protection & libc::PROT_WRITE != 0 {
            // SAFETY: mapped, aligned, writable.
            return Ok(unsafe { exchange(slot, expected, new) });
        }
        self.protect(page, protection | libc::PROT_READ | libc::PROT_WRITE)?;
        // SAFETY: mapped, aligned, now writable.
        let result = unsafe { exchange(slot, expected, new) };
        self.protect(page, protection)?;
        Ok(result)
    }

    fn protect(&self, page: usize, protection: c_int) -> io::Result<()> {
        // SAFETY: a whole page of a loaded object; its contents stay, and it stays readable.
        match unsafe { libc::mprotect(page as *mut _, self.size, protection) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// `start-end rwxp ...`
fn parse(line: &str) -> Option<(Range<usize>, c_int)> {
    let mut fields = line.split(' ');
    let (start, end) = fields.next()?.split_once('-')?;
    let range = usize::from_str_radix(start, 16).ok()?..usize::from_str_radix(end, 16).ok()?;
    let bits =
        [b'r', b'w', b'x']
            .into_iter()
            .zip([libc::PROT_READ, libc::PROT_WRITE, libc::PROT_EXEC]);
    let flags = fields.next()?.bytes();
    let protection = flags.zip(bits).filter(|(f, (letter, _))| f == letter);
    Some((
        range,
        protection.fold(libc::PROT_NONE, |all, (_, (_, bit))| all | bit),
    ))
}

/// # Safety
/// `slot` is an aligned word in a readable page.
pub(crate) unsafe fn load(slot: usize) -> usize {
    // SAFETY: as promised by the caller; the loader writes slots with plain, word-sized stores.
    unsafe { AtomicUsize::from_ptr(slot as *mut usize) }.load(Ordering::Acquire)
}

/// # Safety
/// `slot` is an aligned word in a writable page.
unsafe fn exchange(slot: usize, expected: usize, new: usize) -> Result<(), usize> {
    // SAFETY: as promised by the caller.
    unsafe { AtomicUsize::from_ptr(slot as *mut usize) }
        .compare_exchange(expected, new, Ordering::AcqRel, Ordering::Acquire)
        .map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_maps() {
        let line = "7f10a000-7f10b000 r-xp 00001000 08:01 42   /usr/lib/a b.so";
        assert_eq!(
            parse(line),
            Some((0x7f10a000..0x7f10b000, libc::PROT_READ | libc::PROT_EXEC))
        );
        let line = "7ffd0000-7ffd1000 ---p 00000000 00:00 0";
        assert_eq!(parse(line), Some((0x7ffd0000..0x7ffd1000, libc::PROT_NONE)));
        assert_eq!(parse("nonsense"), None);
    }
}
