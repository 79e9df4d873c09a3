// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! `lot/lot.h`. The doc comments below are that header's documentation.

// The names are C's.
#![allow(non_camel_case_types)]

use std::ffi::{CStr, c_char, c_void};
use std::fmt;
use std::slice;
use std::sync::Arc;

use super::{LAST_MESSAGE, Out, guard};
use crate::core::tracker::Report;
use crate::{
    Attribution, Cause, Death, Description, End, Error, ErrorKind, Format, Ref, Tracker, Visit,
};

/// Changes when a program that was built against an older header would misbehave.
pub const LOT_ABI_VERSION: u32 = 1;

/// What a call answered: `LOT_OK` or one of the `LOT_ERROR_` values, which are never reused for another
/// meaning. A failed call has changed nothing and left its out-parameters alone.
pub type lot_status = i32;

/// The call did what it says.
pub const LOT_OK: lot_status = 0;
/// A pointer is null that must not be.
pub const LOT_ERROR_NULL_ARGUMENT: lot_status = 1;
/// A kind is out of range, ancestors repeat or name the object itself, a format is unknown, or the like.
pub const LOT_ERROR_INVALID_ARGUMENT: lot_status = 2;
/// The tracker's handle was never given out, or the tracker is destroyed.
pub const LOT_ERROR_NO_TRACKER: lot_status = 3;
/// The ref is dead, null or made up.
pub const LOT_ERROR_DEAD_REF: lot_status = 4;
/// Nothing live is tracked at the address, or no death is on record for the ref.
pub const LOT_ERROR_NOT_FOUND: lot_status = 5;
/// A fixed limit is reached, or there is no memory for more slots or scopes. At once there can be 256
/// trackers, and 67,108,863 objects in all of them together (tracked ones, and untracked ancestors of
/// such). Where any other allocation fails, the process ends, as Rust programs do.
pub const LOT_ERROR_LIMIT: lot_status = 6;
/// An end without its beginning.
pub const LOT_ERROR_NOT_ACTIVE: lot_status = 7;
/// It cannot be done here; the message says why.
pub const LOT_ERROR_UNSUPPORTED: lot_status = 8;
/// A bug in the tracker, kept from crossing the C boundary; counted in `lot_stats`.
pub const LOT_ERROR_INTERNAL: lot_status = 9;

const _: () = {
    assert!(LOT_ERROR_NULL_ARGUMENT == ErrorKind::NullArgument as i32);
    assert!(LOT_ERROR_INVALID_ARGUMENT == ErrorKind::InvalidArgument as i32);
    assert!(LOT_ERROR_NO_TRACKER == ErrorKind::NoTracker as i32);
    assert!(LOT_ERROR_DEAD_REF == ErrorKind::DeadRef as i32);
    assert!(LOT_ERROR_NOT_FOUND == ErrorKind::NotFound as i32);
    assert!(LOT_ERROR_LIMIT == ErrorKind::Limit as i32);
    assert!(LOT_ERROR_NOT_ACTIVE == ErrorKind::NotActive as i32);
    assert!(LOT_ERROR_UNSUPPORTED == ErrorKind::Unsupported as i32);
    assert!(LOT_ERROR_INTERNAL == ErrorKind::Internal as i32);
};

/// One incarnation of an object: a value of 16 bytes, passed by value, safe to keep for ever. Live from the
/// moment it is handed out until its incarnation ends, and dead from then on, whatever is allocated at the
/// address later. `{NULL, 0}` is the null ref, which is always dead.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct lot_ref {
    /// The object's address. Of a dead ref: to compare with, not to follow.
    pub object: *const c_void,
    /// Names the incarnation. Never 0 in a ref that was handed out, never used twice in a process.
    pub epoch: u64,
}

/// A tracker's handle, passed by value. `{0}` is no tracker's. Handles are never reused: one whose tracker is
/// destroyed is answered with `LOT_ERROR_NO_TRACKER`, for ever.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct lot_tracker {
    /// Not 0 in a handle that was given out.
    pub id: u64,
}

/// The caller's own classification of objects, below `LOT_KIND_COUNT`.
pub type lot_kind = u8;

/// The number of kinds.
pub const LOT_KIND_COUNT: u8 = 16;
/// In questions: whatever kind.
pub const LOT_KIND_ANY: lot_kind = 255;

const _: () = assert!(LOT_KIND_COUNT as usize == crate::KIND_COUNT);

/// What ended an incarnation: one of the `LOT_CAUSE_` values.
pub type lot_cause = u32;

/// Not known, or no longer.
pub const LOT_CAUSE_UNKNOWN: lot_cause = 0;
/// It was erased itself.
pub const LOT_CAUSE_ERASED: lot_cause = 1;
/// Something that enclosed it was erased or destroyed.
pub const LOT_CAUSE_ANCESTOR_DESTROYED: lot_cause = 2;
/// Its own destruction was reported.
pub const LOT_CAUSE_DESTROYED: lot_cause = 3;
/// A new object appeared at its address, so it had ended without a report.
pub const LOT_CAUSE_MISSED_END: lot_cause = 4;
/// Something that could not be observed changed the inside of an object that enclosed it.
pub const LOT_CAUSE_OPAQUE_MUTATION: lot_cause = 5;
/// Its whole scope, or the tracker, ended.
pub const LOT_CAUSE_SCOPE_CLEARED: lot_cause = 6;
/// Its holder gave it up.
pub const LOT_CAUSE_RELEASED: lot_cause = 7;

const _: () = {
    assert!(LOT_CAUSE_ERASED == Cause::Erased as u32);
    assert!(LOT_CAUSE_ANCESTOR_DESTROYED == Cause::AncestorDestroyed as u32);
    assert!(LOT_CAUSE_DESTROYED == Cause::Destroyed as u32);
    assert!(LOT_CAUSE_MISSED_END == Cause::MissedEnd as u32);
    assert!(LOT_CAUSE_OPAQUE_MUTATION == Cause::OpaqueMutation as u32);
    assert!(LOT_CAUSE_SCOPE_CLEARED == Cause::ScopeCleared as u32);
    assert!(LOT_CAUSE_RELEASED == Cause::Released as u32);
};

/// What a caller knows of an object when it registers it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct lot_description {
    /// The object's address; not null. The tracker never follows it.
    pub object: *const c_void,
    /// Which group it belongs to: any number. For MLIR the context's address.
    pub scope: u64,
    /// The objects that enclose it, nearest first and complete up to the outermost (`ancestor_count` of
    /// them, none null or named twice). Null: not reported; what is known of its place stays as it is.
    pub ancestors: *const *const c_void,
    /// How many ancestors there are; 0 with a null list.
    pub ancestor_count: usize,
    /// Kept with the incarnation and found again by address. The tracker never follows it.
    pub user: *mut c_void,
    /// Below `LOT_KIND_COUNT`.
    pub kind: lot_kind,
}

/// How an incarnation ended.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct lot_death {
    /// Whose end, or change, took it along; the null ref if nobody else's. Its epoch is 0 if that object was
    /// not tracked.
    pub by: lot_ref,
    /// When, in nanoseconds of the system's monotonic clock; on Linux CLOCK_MONOTONIC_COARSE, which steps with the
    /// timer tick (some milliseconds).
    pub time_ns: u64,
    /// Why it ended.
    pub cause: lot_cause,
    /// The kind that it was registered with.
    pub kind: lot_kind,
}

/// An incarnation that has just ended.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct lot_end {
    /// The ref, which is dead now.
    pub r#ref: lot_ref,
    /// How it died.
    pub death: lot_death,
    /// The scope that it was in.
    pub scope: u64,
    /// The user pointer it carried.
    pub user: *mut c_void,
}

/// The figures of a tracker. Exact whenever no hook is running.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct lot_stats {
    /// Live incarnations.
    pub tracked: usize,
    /// Untracked ancestors that are kept for their place in the tree.
    pub anchors: usize,
    /// Incarnations that were started, since the tracker was created; so are the others below.
    pub created: u64,
    /// Incarnations that ended other than by release.
    pub ended: u64,
    /// Incarnations that were released.
    pub released: u64,
    /// Those of the ended whose end nobody reported in time.
    pub missed_ends: u64,
    /// Bugs that were kept from crossing the C boundary, in the whole process.
    pub internal_errors: u64,
    /// Exact sources that are active.
    pub exact_sources: u32,
}

/// The cause and culprit recorded for ends that an exact source reports on this thread; see
/// `lot_attribution_enter`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct lot_attribution {
    /// The object whose end or change takes others along. With epoch 0 it stands for whatever is at
    /// its address.
    pub by: lot_ref,
    /// `LOT_CAUSE_UNKNOWN` means that there is no attribution.
    pub cause: lot_cause,
}

/// Is told of ends, also of those by release: `count` of them, at least 1, in an array that is valid during the
/// call. Runs on the thread of the hook, perhaps inside a destructor, after the tracker's state has changed and
/// with no lock held; it may call the tracker. It must not throw: that ends the process. Never null where it is
/// called.
pub type lot_observer_fn =
    Option<unsafe extern "C" fn(ends: *const lot_end, count: usize, data: *mut c_void)>;

/// Is shown a live incarnation and its user pointer; false stops. No lock is held: it may call the tracker. It
/// must not throw.
pub type lot_visit_fn =
    Option<unsafe extern "C" fn(r#ref: lot_ref, user: *mut c_void, data: *mut c_void) -> bool>;

/// Takes a piece of a report: `length` bytes of UTF-8, not terminated. It must not throw.
pub type lot_write_fn =
    Option<unsafe extern "C" fn(bytes: *const c_char, length: usize, data: *mut c_void)>;

/// How a report is written: one of the `LOT_FORMAT_` values.
pub type lot_format = u32;

/// For people: one line an object, indented by depth.
pub const LOT_FORMAT_TEXT: lot_format = 0;
/// For programs; addresses and epochs are strings of hexadecimal digits.
pub const LOT_FORMAT_JSON: lot_format = 1;
/// For pictures: a Graphviz digraph; untracked ancestors are dashed.
pub const LOT_FORMAT_DOT: lot_format = 2;

impl From<Ref> for lot_ref {
    fn from(reference: Ref) -> Self {
        Self {
            object: reference.object as *const c_void,
            epoch: reference.epoch,
        }
    }
}

impl From<lot_ref> for Ref {
    fn from(reference: lot_ref) -> Self {
        Self {
            object: reference.object as usize,
            epoch: reference.epoch,
        }
    }
}

impl From<Death> for lot_death {
    fn from(death: Death) -> Self {
        let Death {
            by,
            time_ns,
            cause,
            kind,
        } = death;
        Self {
            by: by.into(),
            time_ns,
            cause: cause as u32,
            kind,
        }
    }
}

impl From<&End> for lot_end {
    fn from(end: &End) -> Self {
        Self {
            r#ref: end.reference.into(),
            death: end.death.into(),
            scope: end.scope,
            user: end.user as *mut c_void,
        }
    }
}

impl From<lot_tracker> for Tracker {
    fn from(tracker: lot_tracker) -> Self {
        Tracker::from_raw(tracker.id)
    }
}

/// Foreign data that a foreign function wants back; whoever gave both vouches for the threads.
struct Data(*mut c_void);

// SAFETY: the tracker only hands the pointer back; the functions that take one say from which threads.
unsafe impl Send for Data {}
// SAFETY: as above.
unsafe impl Sync for Data {}

impl Data {
    fn get(&self) -> *mut c_void {
        self.0
    }
}

/// A list of addresses as numbers; `None` for a null list.
///
/// # Safety
/// A list that is not null has `count` readable elements, which nobody changes during the call.
unsafe fn addresses<'a>(
    list: *const *const c_void,
    count: usize,
) -> Result<Option<&'a [usize]>, Error> {
    if list.is_null() {
        return match count {
            0 => Ok(None),
            _ => Err(Error::null(
                c"the list of ancestors is null, but its count is not 0",
            )),
        };
    }
    if count > isize::MAX as usize / size_of::<usize>() {
        return Err(Error::invalid(c"the count of ancestors is impossible"));
    }
    // SAFETY: the caller vouches for the elements; an address is a number of the same size.
    Ok(Some(unsafe {
        slice::from_raw_parts(list.cast::<usize>(), count)
    }))
}

/// # Safety
/// As for [`lot_track`].
unsafe fn describe<'a>(description: *const lot_description) -> Result<Description<'a>, Error> {
    // SAFETY: the caller vouches for a description that is not null.
    let description = unsafe { description.as_ref() };
    let description = description.ok_or(Error::null(c"the description is null"))?;
    Ok(Description {
        object: description.object as usize,
        scope: description.scope,
        kind: description.kind,
        // SAFETY: the caller vouches for the list.
        ancestors: unsafe { addresses(description.ancestors, description.ancestor_count) }?,
        user: description.user as usize,
    })
}

fn kind_from(kind: lot_kind) -> Option<u8> {
    (kind != LOT_KIND_ANY).then_some(kind)
}

fn check_object(object: *const c_void) -> Result<usize, Error> {
    if object.is_null() {
        Err(Error::null(c"the object is null"))
    } else {
        Ok(object as usize)
    }
}

/// A hook that ends something at or below an object.
#[inline]
fn hook(tracker: lot_tracker, object: *const c_void, report: Report) -> lot_status {
    let tracker = Tracker::from(tracker);
    // Before anything that costs: mostly there is nothing to do.
    if !object.is_null() && tracker.lacks(object as usize) {
        return LOT_OK;
    }
    guarded_hook(tracker, object, report)
}

/// The rest of [`hook`], out of line so that the way out above needs no stack frame.
#[inline(never)]
fn guarded_hook(tracker: Tracker, object: *const c_void, report: Report) -> lot_status {
    guard(|| tracker.end_known(check_object(object)?, report))
}

// The library -------------------------------------------------------------------------------------------

/// The `LOT_ABI_VERSION` of the library that is loaded; compare it with the header's. Any thread.
#[unsafe(no_mangle)]
pub extern "C" fn lot_abi_version() -> u32 {
    LOT_ABI_VERSION
}

/// The version of the library that is loaded, such as "1.2.3". Static; any thread.
#[unsafe(no_mangle)]
pub extern "C" fn lot_version_string() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// The name of a status's constant, such as "LOT_OK"; "LOT_ERROR_?" for a number that is none. Static; never
/// null; any thread.
#[unsafe(no_mangle)]
pub extern "C" fn lot_status_name(status: lot_status) -> *const c_char {
    let name = match status {
        LOT_OK => c"LOT_OK",
        LOT_ERROR_NULL_ARGUMENT => c"LOT_ERROR_NULL_ARGUMENT",
        LOT_ERROR_INVALID_ARGUMENT => c"LOT_ERROR_INVALID_ARGUMENT",
        LOT_ERROR_NO_TRACKER => c"LOT_ERROR_NO_TRACKER",
        LOT_ERROR_DEAD_REF => c"LOT_ERROR_DEAD_REF",
        LOT_ERROR_NOT_FOUND => c"LOT_ERROR_NOT_FOUND",
        LOT_ERROR_LIMIT => c"LOT_ERROR_LIMIT",
        LOT_ERROR_NOT_ACTIVE => c"LOT_ERROR_NOT_ACTIVE",
        LOT_ERROR_UNSUPPORTED => c"LOT_ERROR_UNSUPPORTED",
        LOT_ERROR_INTERNAL => c"LOT_ERROR_INTERNAL",
        _ => c"LOT_ERROR_?",
    };
    name.as_ptr()
}

/// A cause in words, such as "ancestor destroyed"; "unknown" for a number that is none. Static; never null;
/// any thread.
#[unsafe(no_mangle)]
pub extern "C" fn lot_cause_name(cause: lot_cause) -> *const c_char {
    Cause::from_number(cause).name().as_ptr()
}

/// What the last call that failed on this thread has to say about it, as a sentence for a person; "" if none
/// has failed yet. Static; never null.
#[unsafe(no_mangle)]
pub extern "C" fn lot_last_error_message() -> *const c_char {
    LAST_MESSAGE.get().as_ptr()
}

// Trackers ----------------------------------------------------------------------------------------------

/// Makes a tracker. A binding library has one, normally for the life of the process. Any thread.
///
/// `name` is for reports, in UTF-8; it is copied, and may be null. `LOT_ERROR_NULL_ARGUMENT` without
/// `out_tracker`; `LOT_ERROR_LIMIT` when 256 trackers exist.
///
/// # Safety
/// `name` is null or a terminated string; `out_tracker` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lot_tracker_create(
    name: *const c_char,
    out_tracker: *mut lot_tracker,
) -> lot_status {
    guard(|| {
        // SAFETY: the caller vouches for the place.
        let out = unsafe { Out::required(out_tracker) }?;
        let name = if name.is_null() {
            c""
        } else {
            // SAFETY: the caller vouches for the string.
            unsafe { CStr::from_ptr(name) }
        };
        out.set(lot_tracker {
            id: Tracker::new(&name.to_string_lossy())?.to_raw(),
        });
        Ok(())
    })
}

/// Ends everything in a tracker (`LOT_CAUSE_SCOPE_CLEARED`; its observer is told) and the tracker itself.
/// Refs stay safe to ask about, and are dead. Calls on other threads that are under way finish first; later
/// ones are answered with `LOT_ERROR_NO_TRACKER`. Any thread.
///
/// When this has returned, the observer does not run on any thread, and never will again: its `data` may
/// go. One case is different: a call from inside an observer does not wait, since it would wait for itself.
#[unsafe(no_mangle)]
pub extern "C" fn lot_tracker_destroy(tracker: lot_tracker) -> lot_status {
    guard(|| Tracker::from(tracker).destroy_tracker())
}

/// Sets who is told of ends; null tells nobody. `data` is handed to it, from whatever thread a hook runs on.
/// Any thread.
///
/// When this has returned, the old observer does not run on any thread, and never will again: its `data` may
/// go. One case is different: a call from inside an observer does not wait, since it would wait for itself.
///
/// # Safety
/// The observer may be called with `data` from any thread until a call that replaces it, or that destroys
/// the tracker, has returned.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lot_tracker_set_observer(
    tracker: lot_tracker,
    observer: lot_observer_fn,
    data: *mut c_void,
) -> lot_status {
    let data = Data(data);
    guard(move || {
        let tracker = Tracker::from(tracker);
        let Some(observer) = observer else {
            return tracker.set_observer(None);
        };
        tracker.set_observer(Some(Arc::new(move |ends: &[End]| {
            let ends: Vec<lot_end> = ends.iter().map(lot_end::from).collect();
            // SAFETY: the caller of `lot_tracker_set_observer` vouches for the function and its data.
            unsafe { observer(ends.as_ptr(), ends.len(), data.get()) };
        })))
    })
}

/// The figures of a tracker. Any thread; takes no lock.
///
/// # Safety
/// `out_stats` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lot_tracker_stats(
    tracker: lot_tracker,
    out_stats: *mut lot_stats,
) -> lot_status {
    guard(|| {
        // SAFETY: the caller vouches for the place.
        let out = unsafe { Out::required(out_stats) }?;
        let stats = Tracker::from(tracker).stats()?;
        out.set(lot_stats {
            tracked: stats.tracked,
            anchors: stats.anchors,
            created: stats.created,
            ended: stats.ended,
            released: stats.released,
            missed_ends: stats.missed_ends,
            internal_errors: stats.internal_errors,
            exact_sources: stats.exact_sources,
        });
        Ok(())
    })
}

/// States that a source now reports every destruction with `lot_destroy` (exact mode): an object then ends
/// when, and only when, its own destruction is reported. Sources nest. Any thread.
#[unsafe(no_mangle)]
pub extern "C" fn lot_exact_begin(tracker: lot_tracker) -> lot_status {
    guard(|| Tracker::from(tracker).exact_begin())
}

/// Takes one `lot_exact_begin` back. `LOT_ERROR_NOT_ACTIVE` if there is none. Any thread.
#[unsafe(no_mangle)]
pub extern "C" fn lot_exact_end(tracker: lot_tracker) -> lot_status {
    guard(|| Tracker::from(tracker).exact_end())
}

/// Whether an exact source is active; false for a handle that is no tracker's. Any thread; takes no lock.
#[unsafe(no_mangle)]
pub extern "C" fn lot_is_exact(tracker: lot_tracker) -> bool {
    Tracker::from(tracker).is_exact()
}

// Registration ------------------------------------------------------------------------------------------

/// Registers an object that is *new* at its address: whatever is still live there has ended unseen
/// (`LOT_CAUSE_MISSED_END`), and so has what was below it. Any thread.
///
/// # Safety
/// `description` is null or valid, and so is its list of ancestors; `out_ref` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lot_create(
    tracker: lot_tracker,
    description: *const lot_description,
    out_ref: *mut lot_ref,
) -> lot_status {
    guard(|| {
        // SAFETY: the caller vouches for the place and the description.
        let (out, description) = unsafe { (Out::required(out_ref)?, describe(description)?) };
        out.set(Tracker::from(tracker).create(&description)?.into());
        Ok(())
    })
}

/// Registers an object that *exists*: gives the ref of the incarnation that is live at its address, with the
/// user pointer it carries (then `description->user` is not used), or starts to track it. What is live there
/// in another scope or as another kind was another object, which ended unseen (`LOT_CAUSE_MISSED_END`).
/// Ancestors that are reported replace what was known. Any thread.
///
/// # Safety
/// `description` is null or valid, and so is its list of ancestors; `out_ref` is null or writable, and so is
/// `out_user`, which may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lot_track(
    tracker: lot_tracker,
    description: *const lot_description,
    out_ref: *mut lot_ref,
    out_user: *mut *mut c_void,
) -> lot_status {
    guard(|| {
        // SAFETY: the caller vouches for the place and the description.
        let (out, description) = unsafe { (Out::required(out_ref)?, describe(description)?) };
        let (tracked, user) = Tracker::from(tracker).track(&description)?;
        out.set(tracked.into());
        // SAFETY: the caller vouches for the place.
        unsafe { Out::optional(out_user) }.set(user as *mut c_void);
        Ok(())
    })
}

/// The caller is not interested any more: the incarnation ends (`LOT_CAUSE_RELEASED`) and gives its memory
/// back. What is below it stays tracked. `LOT_ERROR_DEAD_REF` if it has ended already. Any thread.
#[unsafe(no_mangle)]
pub extern "C" fn lot_release(r#ref: lot_ref) -> lot_status {
    guard(|| Ref::from(r#ref).release())
}

/// The incarnation that is live at an address, and its user pointer. `LOT_ERROR_NOT_FOUND` if none is. Any
/// thread.
///
/// # Safety
/// `out_ref` is null or writable, and so is `out_user`, which may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lot_find(
    tracker: lot_tracker,
    object: *const c_void,
    out_ref: *mut lot_ref,
    out_user: *mut *mut c_void,
) -> lot_status {
    guard(|| {
        // SAFETY: the caller vouches for the place.
        let out = unsafe { Out::required(out_ref) }?;
        let (found, user) = Tracker::from(tracker).find(check_object(object)?)?;
        out.set(found.into());
        // SAFETY: the caller vouches for the place.
        unsafe { Out::optional(out_user) }.set(user as *mut c_void);
        Ok(())
    })
}

/// The user pointer of a live ref. Any thread; takes no lock.
///
/// # Safety
/// `out_user` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lot_get_user(r#ref: lot_ref, out_user: *mut *mut c_void) -> lot_status {
    guard(|| {
        // SAFETY: the caller vouches for the place.
        let out = unsafe { Out::required(out_user) }?;
        out.set(Ref::from(r#ref).user()? as *mut c_void);
        Ok(())
    })
}

/// Replaces the user pointer of a live ref. Any thread.
#[unsafe(no_mangle)]
pub extern "C" fn lot_set_user(r#ref: lot_ref, user: *mut c_void) -> lot_status {
    guard(|| Ref::from(r#ref).set_user(user as usize))
}

// Hooks -------------------------------------------------------------------------------------------------
// For an address that nobody tracks each of these is `LOT_OK` and does nothing. They may be called from any
// thread, twice, in any order, and inside a destructor of the framework.

/// The framework erases `object` now, with everything below it: all of that is dead when this returns.
///
/// In exact mode `object` alone ends here; what is below it ends as its own destruction is reported, since
/// moves that nobody reported may have taken it elsewhere.
#[unsafe(no_mangle)]
pub extern "C" fn lot_erase(tracker: lot_tracker, object: *const c_void) -> lot_status {
    hook(tracker, object, Report::Erased)
}

/// `object` is destroyed as the parent of what is below it. As `lot_erase`, but the cause on record for
/// `object` itself is `LOT_CAUSE_DESTROYED`.
#[unsafe(no_mangle)]
pub extern "C" fn lot_parent_destroy(tracker: lot_tracker, object: *const c_void) -> lot_status {
    hook(tracker, object, Report::DestroyedAsParent)
}

/// The memory of exactly `object` goes away now: the hook of a source that reports each object. What is below
/// it moves up to its parent. Costs next to nothing for an address that nobody tracks.
#[unsafe(no_mangle)]
pub extern "C" fn lot_destroy(tracker: lot_tracker, object: *const c_void) -> lot_status {
    hook(tracker, object, Report::Destroyed { kinds: 0 })
}

/// As `lot_destroy`, together with those direct children of `object` whose kind is in `kinds` (bit k is kind
/// k): its parts, which nobody reports one by one.
#[unsafe(no_mangle)]
pub extern "C" fn lot_destroy_with(
    tracker: lot_tracker,
    object: *const c_void,
    kinds: u32,
) -> lot_status {
    hook(tracker, object, Report::Destroyed { kinds })
}

/// `object` has new ancestors, nearest first and complete up to the outermost, and takes all below it along.
/// No ancestors: it has no parent any more.
///
/// # Safety
/// `ancestors` has `ancestor_count` readable elements; it may be null if that is 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lot_move(
    tracker: lot_tracker,
    object: *const c_void,
    ancestors: *const *const c_void,
    ancestor_count: usize,
) -> lot_status {
    guard(|| {
        // SAFETY: the caller vouches for the list.
        let ancestors = unsafe { addresses(ancestors, ancestor_count) }?;
        Tracker::from(tracker).move_to(check_object(object)?, ancestors.unwrap_or_default())
    })
}

/// `object` has no parent any more, and takes all below it along.
#[unsafe(no_mangle)]
pub extern "C" fn lot_detach(tracker: lot_tracker, object: *const c_void) -> lot_status {
    guard(|| Tracker::from(tracker).detach(check_object(object)?))
}

/// Something that cannot be observed changed the inside of `root`: everything tracked strictly below it ends.
/// In exact mode nothing does.
#[unsafe(no_mangle)]
pub extern "C" fn lot_opaque_mutation(tracker: lot_tracker, root: *const c_void) -> lot_status {
    guard(|| Tracker::from(tracker).opaque_mutation(check_object(root)?))
}

/// Ends everything in a scope (`LOT_CAUSE_SCOPE_CLEARED`).
#[unsafe(no_mangle)]
pub extern "C" fn lot_clear_scope(tracker: lot_tracker, scope: u64) -> lot_status {
    guard(|| Tracker::from(tracker).clear_scope(scope))
}

/// Puts the ends that `lot_destroy` reports on this thread down to `next.cause` and `next.by`, until
/// `lot_attribution_leave`; the object `next.by` itself is then on record as erased. Gives what was in force
/// before, for leaving.
#[unsafe(no_mangle)]
pub extern "C" fn lot_attribution_enter(next: lot_attribution) -> lot_attribution {
    let next = Attribution {
        by: next.by.into(),
        cause: Cause::from_number(next.cause),
    };
    let previous = next.enter();
    lot_attribution {
        by: previous.by.into(),
        cause: previous.cause as u32,
    }
}

/// Back to what `lot_attribution_enter` gave, on the same thread.
#[unsafe(no_mangle)]
pub extern "C" fn lot_attribution_leave(previous: lot_attribution) {
    Attribution::leave(Attribution {
        by: previous.by.into(),
        cause: Cause::from_number(previous.cause),
    });
}

// Questions ---------------------------------------------------------------------------------------------

/// Whether a ref is live. Any bits may be asked about, from any thread, for ever, also after its tracker is
/// destroyed. Takes no lock, and never reads the object's memory.
#[unsafe(no_mangle)]
pub extern "C" fn lot_is_live(r#ref: lot_ref) -> bool {
    Ref::from(r#ref).is_live()
}

/// How a ref died. `LOT_ERROR_NOT_FOUND` for one that is live, was never given out, or died too long ago. Any
/// thread.
///
/// The deaths on record are those of the whole process: 65,536 of them by default, in at most 4 MB.
///
/// # Safety
/// `out_death` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lot_get_death(r#ref: lot_ref, out_death: *mut lot_death) -> lot_status {
    guard(|| {
        // SAFETY: the caller vouches for the place.
        let out = unsafe { Out::required(out_death) }?;
        out.set(Ref::from(r#ref).death().ok_or(Error::NO_RECORD)?.into());
        Ok(())
    })
}

/// Sets how many deaths of the whole process are on record at most; 65,536 at first, which takes 3 MiB. The number is
/// rounded up to a multiple of 64. What was on record is forgotten, and its memory is given back. 0: nothing is on
/// record. `LOT_ERROR_INVALID_ARGUMENT` above 1,048,576. Any thread; waits for the hooks that other threads are in.
#[unsafe(no_mangle)]
pub extern "C" fn lot_set_death_log_capacity(records: usize) -> lot_status {
    guard(|| crate::set_death_log_capacity(records))
}

/// How many deaths of the whole process are on record at most. Any thread.
#[unsafe(no_mangle)]
pub extern "C" fn lot_death_log_capacity() -> usize {
    let mut capacity = 0;
    // A panic, which would be a bug, is counted; then the answer is 0.
    guard(|| {
        capacity = crate::death_log_capacity();
        Ok(())
    });
    capacity
}

/// How many incarnations are live: in `*scope`, or in all for null; of one kind, or `LOT_KIND_ANY`. Any thread.
///
/// # Safety
/// `scope` is null or readable; `out_count` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lot_count(
    tracker: lot_tracker,
    scope: *const u64,
    kind: lot_kind,
    out_count: *mut usize,
) -> lot_status {
    guard(|| {
        // SAFETY: the caller vouches for the place and the scope.
        let (out, scope) = unsafe { (Out::required(out_count)?, scope.as_ref().copied()) };
        out.set(Tracker::from(tracker).count(scope, kind_from(kind))?);
        Ok(())
    })
}

/// Visits what is live, in no particular order: a snapshot, so that some of it may have ended when it is
/// visited. `scope` and `kind` as for `lot_count`. Any thread.
///
/// # Safety
/// `scope` is null or readable; `visit` may be called with `data`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lot_for_each(
    tracker: lot_tracker,
    scope: *const u64,
    kind: lot_kind,
    visit: lot_visit_fn,
    data: *mut c_void,
) -> lot_status {
    guard(|| {
        let visit = visit.ok_or(Error::null(c"the visit function is null"))?;
        // SAFETY: the caller vouches for the scope.
        let scope = unsafe { scope.as_ref().copied() };
        Tracker::from(tracker).for_each(scope, kind_from(kind), |found, user| {
            // SAFETY: the caller vouches for the function and its data.
            match unsafe { visit(found.into(), user as *mut c_void, data) } {
                true => Visit::Continue,
                false => Visit::Stop,
            }
        })
    })
}

/// Visits the nearest tracked descendants of a live ref, in no particular order. Any thread.
///
/// # Safety
/// `visit` may be called with `data`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lot_children(
    r#ref: lot_ref,
    visit: lot_visit_fn,
    data: *mut c_void,
) -> lot_status {
    guard(|| {
        let visit = visit.ok_or(Error::null(c"the visit function is null"))?;
        for (child, user) in Ref::from(r#ref).children()? {
            // SAFETY: the caller vouches for the function and its data.
            if !unsafe { visit(child.into(), user as *mut c_void, data) } {
                break;
            }
        }
        Ok(())
    })
}

/// The nearest tracked ancestor of a live ref, by the ancestors last reported; the null ref if there is none.
/// Any thread.
///
/// # Safety
/// `out_parent` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lot_get_parent(r#ref: lot_ref, out_parent: *mut lot_ref) -> lot_status {
    guard(|| {
        // SAFETY: the caller vouches for the place.
        let out = unsafe { Out::required(out_parent) }?;
        out.set(Ref::from(r#ref).parent()?.unwrap_or(Ref::NULL).into());
        Ok(())
    })
}

// Reports -----------------------------------------------------------------------------------------------

/// Writes what a tracker holds, in pieces. Any thread.
///
/// # Safety
/// `write` may be called with `data`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lot_dump(
    tracker: lot_tracker,
    format: lot_format,
    write: lot_write_fn,
    data: *mut c_void,
) -> lot_status {
    struct Sink {
        write: unsafe extern "C" fn(*const c_char, usize, *mut c_void),
        data: *mut c_void,
    }
    impl fmt::Write for Sink {
        fn write_str(&mut self, piece: &str) -> fmt::Result {
            // SAFETY: the caller of `lot_dump` vouches for the function and its data.
            unsafe { (self.write)(piece.as_ptr().cast(), piece.len(), self.data) };
            Ok(())
        }
    }
    guard(|| {
        let write = write.ok_or(Error::null(c"the write function is null"))?;
        let format = match format {
            LOT_FORMAT_TEXT => Format::Text,
            LOT_FORMAT_JSON => Format::Json,
            LOT_FORMAT_DOT => Format::Dot,
            _ => return Err(Error::invalid(c"no such format")),
        };
        Tracker::from(tracker).report(format, &mut Sink { write, data })
    })
}

const _: () =
    assert!(size_of::<lot_ref>() == 16 && size_of::<*const c_void>() == size_of::<usize>());
