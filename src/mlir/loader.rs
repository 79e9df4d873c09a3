// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! What is asked of the dynamic loader. It takes its own lock for each of these, under which it also
//! runs initializers of libraries: so nothing here may be called with a lock of this crate held.

use super::elf::{Identity, Loaded};
use std::ffi::{CStr, c_int, c_void};
use std::ptr;

/// A loaded object that stays loaded while this lives.
pub(crate) struct Held(*mut c_void);

impl Drop for Held {
    fn drop(&mut self) {
        // SAFETY: a handle from `dlopen`, closed once.
        unsafe { libc::dlclose(self.0) };
    }
}

/// The start of glibc's and musl's `struct link_map`.
#[repr(C)]
struct LinkMap {
    base: usize,
}

impl Held {
    /// `None` if that very loading of the object is gone, or cannot be held (the kernel's own).
    pub fn new(identity: &Identity) -> Option<Held> {
        Held::open(identity, 0)
    }

    fn open(identity: &Identity, flags: c_int) -> Option<Held> {
        let name = if identity.name.is_empty() {
            ptr::null()
        } else {
            identity.name.as_ptr()
        };
        // SAFETY: `name` is null or a C string. With NOLOAD nothing is loaded, no foreign code runs.
        let handle = unsafe { libc::dlopen(name, libc::RTLD_LAZY | libc::RTLD_NOLOAD | flags) };
        if handle.is_null() {
            return None;
        }
        let held = Held(handle);
        let mut map: *const LinkMap = ptr::null();
        // SAFETY: the handle is valid, and the result of this request is one pointer.
        let found =
            unsafe { libc::dlinfo(handle, libc::RTLD_DI_LINKMAP, (&raw mut map).cast()) } == 0;
        // SAFETY: on success it points to the loader's own record.
        (found && unsafe { (*map).base } == identity.base).then_some(held)
    }

    /// The main program, with everything whose symbols are visible to all.
    pub fn main() -> Option<Held> {
        // SAFETY: null is allowed: the main program.
        let handle = unsafe { libc::dlopen(ptr::null(), libc::RTLD_LAZY) };
        (!handle.is_null()).then_some(Held(handle))
    }

    /// The address of `name` in this object or what it depends on.
    pub fn symbol(&self, name: &CStr) -> Option<usize> {
        // SAFETY: a valid handle and a C string.
        let address = unsafe { libc::dlsym(self.0, name.as_ptr()) };
        (!address.is_null()).then_some(address as usize)
    }
}

/// Waits until every `dlopen` that is under way on another thread has set its slots.
pub(crate) fn settle() {
    drop(Held::main());
}

/// Keeps the object loaded for the rest of the process. False if that cannot be had.
pub(crate) fn keep_for_ever(identity: &Identity) -> bool {
    if identity.name.is_empty() {
        return true; // The main program is not unloaded.
    }
    // The mark stays when this handle is closed.
    Held::open(identity, libc::RTLD_NODELETE).is_some()
}

/// The function that a reference to `name` in `object` leads to, by the loader's rules: the object
/// itself if it is symbolic, then what is visible to all, then the object and its dependencies.
pub(crate) fn resolve(object: &Loaded, held: &Held, name: &CStr) -> Option<usize> {
    let local = held.symbol(name);
    if object.symbolic && local.is_some_and(|address| object.contains(address)) {
        return local;
    }
    Held::main().and_then(|main| main.symbol(name)).or(local)
}

/// Whether a symbol of one of these names is defined at exactly this address.
pub(crate) fn is_definition<'a>(address: usize, mut names: impl Iterator<Item = &'a CStr>) -> bool {
    // SAFETY: all-zero is a valid value of this plain struct.
    let mut found: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: any address may be asked for.
    let known = unsafe { libc::dladdr(address as *const c_void, &mut found) } != 0;
    if !known || found.dli_sname.is_null() || found.dli_saddr as usize != address {
        return false;
    }
    // SAFETY: a C string of the object that has the address.
    let name = unsafe { CStr::from_ptr(found.dli_sname) };
    names.any(|other| other == name)
}
