// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Reads the tables of the loaded objects (main program and shared libraries) from memory: where
//! each one refers to a watched function.
//!
//! Everything is read inside the callback of `dl_iterate_phdr`: while it runs, the loader neither
//! adds nor unmaps an object. Table addresses are not trusted: each must lie within a readable
//! segment of its object, else the object counts as one without tables.

use super::names::{FUNCTION_COUNT, FUNCTIONS};
use object::NativeEndian as NE;
use object::elf;
use std::ffi::{CStr, CString, c_int, c_void};
use std::mem::size_of;
use std::ops::{ControlFlow, Range};
use std::slice;

type ProgramHeader = elf::ProgramHeader64<object::NativeEndian>;
type DynamicEntry = elf::Dyn64<object::NativeEndian>;
type Symbol = elf::Sym64<object::NativeEndian>;
type Relocation = elf::Rela64<object::NativeEndian>;

#[cfg(target_arch = "x86_64")]
mod kinds {
    use object::elf;
    pub const JUMP_SLOT: elf::RelocationType = elf::R_X86_64_JUMP_SLOT;
    pub const GLOB_DAT: elf::RelocationType = elf::R_X86_64_GLOB_DAT;
    pub const ABSOLUTE: elf::RelocationType = elf::R_X86_64_64;
}
#[cfg(target_arch = "aarch64")]
mod kinds {
    use object::elf;
    pub const JUMP_SLOT: elf::RelocationType = elf::R_AARCH64_JUMP_SLOT;
    pub const GLOB_DAT: elf::RelocationType = elf::R_AARCH64_GLOB_DAT;
    pub const ABSOLUTE: elf::RelocationType = elf::R_AARCH64_ABS64;
}

/// How an object refers to a function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SlotKind {
    /// The slot that the object's calls go through; the number is the relocation's place in its
    /// table, which an unbound slot's stub carries.
    Call(u32),
    /// The slot that the object loads the function's address from.
    Address,
    /// A pointer in the object's own data. The program may have changed it since.
    Data,
}

/// A word in memory that the loader sets to the address of a watched function.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    pub address: usize,
    pub function: usize,
    pub kind: SlotKind,
    /// What the word holds, as of the last look.
    pub value: usize,
    /// The protection of its page, by what the object's headers say.
    pub protection: c_int,
}

/// Tells one loading of one object from all others that are loaded at the same time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Identity {
    // Compared in this order: nearly all differ in the first.
    pub base: usize,
    headers: usize,
    /// As the loader knows it; empty for the main program.
    pub name: CString,
}

impl Identity {
    /// For people.
    pub fn label(&self) -> String {
        if self.name.is_empty() {
            "the main program".to_owned()
        } else {
            self.name.to_string_lossy().into_owned()
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Segment {
    pub range: Range<usize>,
    pub protection: c_int,
}

#[derive(Debug)]
pub(crate) struct Loaded {
    pub identity: Identity,
    pub segments: Vec<Segment>,
    /// What the loader makes read-only once it has set the slots.
    relro: Range<usize>,
    pub slots: Vec<Slot>,
    /// Its own definitions come first (`-Bsymbolic`).
    pub symbolic: bool,
    /// Where a program that is not position independent gives out the address of its own call stub
    /// as the function's address (0: nowhere). Such a stub goes on through that program's own slot.
    pub stubs: [usize; FUNCTION_COUNT],
}

impl Loaded {
    pub fn contains(&self, address: usize) -> bool {
        self.segments.iter().any(|s| s.range.contains(&address))
    }

    fn protection(&self, address: usize) -> c_int {
        // Whole pages only: the last one, which is shared with writable data, stays writable.
        let end = self.relro.end & !(super::memory::page_size() - 1);
        let segment = self.segments.iter().find(|s| s.range.contains(&address));
        let protection = segment.map_or(libc::PROT_NONE, |segment| segment.protection);
        if (self.relro.start..end).contains(&address) {
            protection & !libc::PROT_WRITE
        } else {
            protection
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Snapshot {
    /// How many objects the loader has ever added, at the time of reading.
    pub additions: u64,
    /// And removed.
    pub removals: u64,
    pub objects: Vec<Loaded>,
}

/// Objects whose tables need not be read again.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    pub objects: Vec<Identity>,
    /// How many objects the loader had removed. When it has removed another one, what looks the same may
    /// have been loaded anew.
    pub removals: u64,
}

/// How many objects the loader has ever added to this process.
pub(crate) fn additions() -> u64 {
    let mut additions = 0;
    visit(|info| {
        additions = info.dlpi_adds;
        ControlFlow::Break(())
    });
    additions
}

/// Reads every loaded object, but not the slots of those that are known.
pub(crate) fn snapshot(known: &Known) -> Snapshot {
    let mut snapshot = Snapshot::default();
    visit(|info| {
        snapshot.additions = info.dlpi_adds;
        snapshot.removals = info.dlpi_subs;
        // SAFETY: the loader gave us `info`, and keeps the object mapped while we are called.
        snapshot.objects.extend(unsafe { read(info, known) });
        ControlFlow::Continue(())
    });
    snapshot
}

/// Calls `act` with the identity of each loaded object; the loader unmaps none of them meanwhile.
pub(crate) fn with_each_loaded(mut act: impl FnMut(&Identity)) {
    visit(|info| {
        // SAFETY: as above.
        act(&unsafe { identity(info) });
        ControlFlow::Continue(())
    });
}

fn visit<F: FnMut(&libc::dl_phdr_info) -> ControlFlow<()>>(mut act: F) {
    unsafe extern "C" fn call<F: FnMut(&libc::dl_phdr_info) -> ControlFlow<()>>(
        info: *mut libc::dl_phdr_info,
        _size: usize,
        data: *mut c_void,
    ) -> c_int {
        // SAFETY: `data` is the closure below, and `info` is valid during this call.
        let (act, info) = unsafe { (&mut *data.cast::<F>(), &*info) };
        act(info).is_break() as c_int
    }
    // SAFETY: `call` gets the closure it was made for, which outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(call::<F>), (&raw mut act).cast()) };
}

/// # Safety
/// `info` describes an object that stays mapped during the call.
unsafe fn identity(info: &libc::dl_phdr_info) -> Identity {
    let name = if info.dlpi_name.is_null() {
        CString::default()
    } else {
        // SAFETY: the loader's names are C strings.
        unsafe { CStr::from_ptr(info.dlpi_name) }.to_owned()
    };
    Identity {
        name,
        base: info.dlpi_addr as usize,
        headers: info.dlpi_phdr as usize,
    }
}

/// # Safety
/// `info` describes an object that stays mapped during the call.
unsafe fn read(info: &libc::dl_phdr_info, known: &Known) -> Option<Loaded> {
    let base = info.dlpi_addr as usize;
    // SAFETY: the loader gives `dlpi_phnum` headers at `dlpi_phdr`.
    let headers = unsafe {
        slice::from_raw_parts(
            info.dlpi_phdr.cast::<ProgramHeader>(),
            info.dlpi_phnum.into(),
        )
    };
    let mut loaded = Loaded {
        // SAFETY: as for this function.
        identity: unsafe { identity(info) },
        segments: Vec::new(),
        relro: 0..0,
        slots: Vec::new(),
        symbolic: false,
        stubs: [0; FUNCTION_COUNT],
    };
    let mut dynamic = None;
    for header in headers {
        let start = base.wrapping_add(header.p_vaddr.get(NE) as usize);
        let range = start..start.checked_add(header.p_memsz.get(NE) as usize)?;
        match header.p_type.get(NE) {
            elf::PT_LOAD => {
                loaded.segments.push(Segment {
                    range,
                    protection: protection(header),
                });
            }
            elf::PT_GNU_RELRO => loaded.relro = range,
            elf::PT_DYNAMIC => dynamic = Some(range),
            _ => {}
        }
    }
    let identity = &loaded.identity;
    // The main program's stubs are wanted each time.
    let is_known = info.dlpi_subs == known.removals
        && !identity.name.is_empty()
        && known.objects.contains(identity);
    if let Some(dynamic) = dynamic
        && !is_known
    {
        // SAFETY: the segments are mapped.
        unsafe { read_tables(&mut loaded, dynamic) };
    }
    Some(loaded)
}

fn protection(header: &ProgramHeader) -> c_int {
    let flags = header.p_flags.get(NE);
    let mut protection = libc::PROT_NONE;
    for (flag, bit) in [
        (elf::PF_R, libc::PROT_READ),
        (elf::PF_W, libc::PROT_WRITE),
        (elf::PF_X, libc::PROT_EXEC),
    ] {
        if flags.0 & flag.0 != 0 {
            protection |= bit;
        }
    }
    protection
}

/// A view of an object's memory that gives out nothing outside of its segments.
struct Memory<'a> {
    base: usize,
    segments: &'a [Segment],
}

impl<'a> Memory<'a> {
    fn readable(&self, address: usize, size: usize) -> bool {
        let Some(end) = address.checked_add(size) else {
            return false;
        };
        self.segments.iter().any(|segment| {
            segment.protection & libc::PROT_READ != 0
                && segment.range.start <= address
                && end <= segment.range.end
        })
    }

    /// The table of `bytes` bytes that a dynamic entry points to. glibc has replaced the file's
    /// offset by an address there, musl has not, and glibc does not do it for a read-only section.
    fn table<T: object::Pod>(&self, value: usize, bytes: usize) -> Option<&'a [T]> {
        let address = [value, self.base.wrapping_add(value)]
            .into_iter()
            .find(|address| {
                self.readable(*address, bytes) && address.is_multiple_of(align_of::<T>())
            })?;
        // SAFETY: `Pod` types allow any bytes; these are mapped, readable and aligned.
        Some(unsafe { slice::from_raw_parts(address as *const T, bytes / size_of::<T>()) })
    }

    /// One word, which other threads may write at the same time.
    fn word(&self, address: usize) -> Option<usize> {
        if !self.readable(address, size_of::<usize>())
            || !address.is_multiple_of(align_of::<usize>())
        {
            return None;
        }
        // SAFETY: mapped, readable, aligned.
        Some(unsafe { super::memory::load(address) })
    }
}

/// # Safety
/// The segments of `loaded` are mapped.
unsafe fn read_tables(loaded: &mut Loaded, dynamic: Range<usize>) -> Option<()> {
    let segments = loaded.segments.clone();
    let memory = Memory {
        base: loaded.identity.base,
        segments: &segments,
    };

    let [mut symbols, mut strings, mut string_bytes] = [0; 3];
    let [
        mut relocations,
        mut relocation_bytes,
        mut calls,
        mut call_bytes,
    ] = [0; 4];
    for entry in memory.table::<DynamicEntry>(dynamic.start, dynamic.len())? {
        let value = entry.d_val.get(NE) as usize;
        match entry.d_tag.get(NE) {
            elf::DT_NULL => break,
            elf::DT_SYMTAB => symbols = value,
            elf::DT_STRTAB => strings = value,
            elf::DT_STRSZ => string_bytes = value,
            elf::DT_RELA => relocations = value,
            elf::DT_RELASZ => relocation_bytes = value,
            elf::DT_JMPREL => calls = value,
            elf::DT_PLTRELSZ => call_bytes = value,
            elf::DT_SYMBOLIC => loaded.symbolic = true,
            elf::DT_FLAGS => loaded.symbolic |= value as u64 & elf::DF_SYMBOLIC.0 != 0,
            _ => {}
        }
    }
    let strings = memory.table::<u8>(strings, string_bytes)?;
    let symbol_at = |index: u32| -> Option<&Symbol> {
        let offset = (index as usize).checked_mul(size_of::<Symbol>())?;
        memory
            .table::<Symbol>(symbols.checked_add(offset)?, size_of::<Symbol>())?
            .first()
    };
    // Relative relocations (DT_RELR too) name no symbol: an address that the linker has already
    // bound within the object cannot be told from a call that it has bound, so that such an object
    // is left to the self-test.
    for (table, bytes) in [(relocations, relocation_bytes), (calls, call_bytes)] {
        let Some(table) = memory.table::<Relocation>(table, bytes) else {
            continue;
        };
        for (place, relocation) in table.iter().enumerate() {
            let kind = match relocation.r_type(NE, false) {
                kinds::JUMP_SLOT => SlotKind::Call(place as u32),
                kinds::GLOB_DAT => SlotKind::Address,
                kinds::ABSOLUTE if relocation.r_addend.get(NE) == 0 => SlotKind::Data,
                _ => continue,
            };
            let Some(symbol) = symbol_at(relocation.r_sym(NE, false)) else {
                continue;
            };
            let Some(function) = watched(strings, symbol.st_name.get(NE) as usize) else {
                continue;
            };
            let address = loaded
                .identity
                .base
                .wrapping_add(relocation.r_offset.get(NE) as usize);
            let Some(value) = memory.word(address) else {
                continue;
            };
            if symbol.st_shndx.get(NE) == elf::SHN_UNDEF && symbol.st_value.get(NE) != 0 {
                loaded.stubs[function] = loaded
                    .identity
                    .base
                    .wrapping_add(symbol.st_value.get(NE) as usize);
            }
            let protection = loaded.protection(address);
            loaded.slots.push(Slot {
                address,
                function,
                kind,
                value,
                protection,
            });
        }
    }
    Some(())
}

/// Which watched function the string at `offset` names.
fn watched(strings: &[u8], offset: usize) -> Option<usize> {
    let rest = strings.get(offset..)?;
    FUNCTIONS
        .iter()
        .position(|function| rest.starts_with(function.name.to_bytes_with_nul()))
}

/// Whether `slot` holds what a call slot of `loaded` does before its first call: the address of a
/// stub that has the loader find the function.
pub(crate) fn is_unbound(loaded: &Loaded, slot: &Slot) -> bool {
    let SlotKind::Call(place) = slot.kind else {
        return false;
    };
    let value = slot.value;
    let mut own = loaded.segments.iter();
    let code = own.find(|s| s.range.contains(&value) && s.protection & libc::PROT_EXEC != 0);
    let Some(code) = code else { return false };
    let length = (code.range.end - value).min(16);
    // SAFETY: within a mapped segment of the object (the caller is inside `with_each_loaded`, or
    // holds the object).
    let bytes = unsafe { slice::from_raw_parts(value as *const u8, length) };
    is_stub(bytes, place)
}

/// The slot's own entry, which pushes its place and jumps to the first entry; with mold the first one
/// itself, which pushes r11. With or without the landing pad of CET.
#[cfg(target_arch = "x86_64")]
fn is_stub(bytes: &[u8], place: u32) -> bool {
    let bytes = bytes
        .strip_prefix(&[0xf3, 0x0f, 0x1e, 0xfa])
        .unwrap_or(bytes);
    if bytes.starts_with(&[0x41, 0x53, 0xff, 0x35]) {
        return true;
    }
    let Some(rest) = bytes.strip_prefix(&[0x68]) else {
        return false;
    };
    let Some(rest) = rest.strip_prefix(&place.to_le_bytes()) else {
        return false;
    };
    rest.starts_with(&[0xe9]) || rest.starts_with(&[0xf2, 0xe9])
}

/// The first entry of the table, which all unbound slots share: it starts by saving x16 and x30,
/// with or without the landing pad of BTI.
#[cfg(target_arch = "aarch64")]
fn is_stub(bytes: &[u8], _place: u32) -> bool {
    let bytes = bytes
        .strip_prefix(&[0x5f, 0x24, 0x03, 0xd5])
        .unwrap_or(bytes);
    bytes.starts_with(&[0xf0, 0x7b, 0xbf, 0xa9])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loaded_objects_are_read() {
        let here = the_loaded_objects_are_read as fn() as usize;
        let snapshot = snapshot(&Known::default());
        assert!(snapshot.additions > 0);
        assert_eq!(snapshot.additions, additions());
        let own: Vec<&Loaded> = snapshot
            .objects
            .iter()
            .filter(|o| o.contains(here))
            .collect();
        assert_eq!(own.len(), 1, "segments of different objects do not overlap");
        let own = own[0];
        assert!(own.identity.name.is_empty() && own.identity.label() == "the main program");
        assert!(own.slots.is_empty(), "this program has no MLIR");
        assert_eq!(own.protection(here) & libc::PROT_EXEC, libc::PROT_EXEC);
        // A test program is linked with read-only tables.
        assert!(!own.relro.is_empty());
        assert_eq!(own.protection(own.relro.start) & libc::PROT_WRITE, 0);

        let libc = libc::getpid as unsafe extern "C" fn() -> i32 as usize;
        let libc = snapshot
            .objects
            .iter()
            .find(|object| object.contains(libc))
            .unwrap();
        assert!(libc.identity.label().contains("libc"), "{libc:?}");
        let mut seen = 0;
        with_each_loaded(|identity| seen += usize::from(*identity == libc.identity));
        assert_eq!(seen, 1);
    }

    #[test]
    fn nothing_outside_of_an_object_is_read() {
        let words = [1_u64, 2, 3];
        let start = words.as_ptr() as usize;
        let segments = [
            Segment {
                range: start..start + 24,
                protection: libc::PROT_READ,
            },
            Segment {
                range: 0x1000..0x2000,
                protection: libc::PROT_WRITE,
            },
        ];
        let memory = Memory {
            base: start,
            segments: &segments,
        };
        // By address, and by the distance from the start.
        assert_eq!(memory.table::<u64>(start, 24), Some(&words[..]));
        assert_eq!(memory.table::<u64>(8, 16), Some(&words[1..]));
        assert_eq!(memory.word(start + 16), Some(3));
        assert_eq!(memory.table::<u64>(start, 25), None);
        assert_eq!(memory.table::<u64>(start + 4, 8), None, "not aligned");
        assert_eq!(memory.table::<u64>(usize::MAX - 7, 16), None);
        assert_eq!(memory.table::<u64>(0x1000, 8), None, "not readable");
        assert_eq!(memory.word(start + 24), None);
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn stubs_are_known_by_their_code() {
        // GNU ld and lld; the same with CET; the same with `bnd`; mold.
        assert!(is_stub(&[0x68, 7, 0, 0, 0, 0xe9, 1, 2, 3, 4], 7));
        assert!(is_stub(
            &[0xf3, 0x0f, 0x1e, 0xfa, 0x68, 7, 0, 0, 0, 0xe9, 1, 2],
            7
        ));
        assert!(is_stub(
            &[0xf3, 0x0f, 0x1e, 0xfa, 0x68, 7, 0, 0, 0, 0xf2, 0xe9, 1],
            7
        ));
        assert!(is_stub(
            &[0xf3, 0x0f, 0x1e, 0xfa, 0x41, 0x53, 0xff, 0x35, 1, 2],
            7
        ));
        // Another slot's; a function; too short.
        assert!(!is_stub(&[0x68, 8, 0, 0, 0, 0xe9, 1, 2, 3, 4], 7));
        assert!(!is_stub(&[0x55, 0x48, 0x89, 0xe5], 7));
        assert!(!is_stub(&[0x68, 7], 7));
    }
}
