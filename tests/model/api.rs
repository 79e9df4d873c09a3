// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The two ways to the tracker: its Rust interface and its C interface.

use std::ffi::{CStr, c_char, c_void};
use std::ptr;

use live_object_tracker::ffi::lot::*;
use live_object_tracker::{
    Attribution, Cause, Death, Description, End, Error, ErrorKind, Format, Observer, Ref, Stats,
    Tracker, Visit,
};

use crate::steps::Misuse;

pub type Result<T> = std::result::Result<T, ErrorKind>;

/// Every call that there is, with the same types for both interfaces.
pub trait Api: Copy + Send + Sync + 'static {
    const NAME: &'static str;

    fn new_tracker(self, name: &str) -> Result<Tracker>;
    fn destroy_tracker(self, tracker: Tracker) -> Result<()>;
    fn set_observer(self, tracker: Tracker, observer: Option<Observer>) -> Result<Kept>;
    fn stats(self, tracker: Tracker) -> Result<Stats>;
    fn exact_begin(self, tracker: Tracker) -> Result<()>;
    fn exact_end(self, tracker: Tracker) -> Result<()>;
    fn is_exact(self, tracker: Tracker) -> bool;

    fn create(self, tracker: Tracker, about: &Description) -> Result<Ref>;
    fn track(self, tracker: Tracker, about: &Description) -> Result<(Ref, usize)>;
    fn release(self, reference: Ref) -> Result<()>;
    fn find(self, tracker: Tracker, object: usize) -> Result<(Ref, usize)>;
    fn user(self, reference: Ref) -> Result<usize>;
    fn set_user(self, reference: Ref, user: usize) -> Result<()>;

    fn erase(self, tracker: Tracker, object: usize) -> Result<()>;
    fn parent_destroy(self, tracker: Tracker, object: usize) -> Result<()>;
    fn destroy(self, tracker: Tracker, object: usize) -> Result<()>;
    fn destroy_with(self, tracker: Tracker, object: usize, kinds: u32) -> Result<()>;
    fn move_to(self, tracker: Tracker, object: usize, ancestors: &[usize]) -> Result<()>;
    fn detach(self, tracker: Tracker, object: usize) -> Result<()>;
    fn opaque_mutation(self, tracker: Tracker, object: usize) -> Result<()>;
    fn clear_scope(self, tracker: Tracker, scope: u64) -> Result<()>;
    fn enter(self, next: Attribution) -> Attribution;
    fn leave(self, previous: Attribution);

    fn set_death_log(self, records: usize) -> Result<()>;
    fn death_log(self) -> usize;

    fn is_live(self, reference: Ref) -> bool;
    fn death(self, reference: Ref) -> Option<Death>;
    fn count(self, tracker: Tracker, scope: Option<u64>, kind: Option<u8>) -> Result<usize>;
    /// What a visit is shown that stops after `stop_after` others.
    fn visited(
        self,
        tracker: Tracker,
        scope: Option<u64>,
        kind: Option<u8>,
        stop_after: usize,
    ) -> Result<Vec<(Ref, usize)>>;
    fn children(self, reference: Ref, stop_after: usize) -> Result<Vec<(Ref, usize)>>;
    fn parent(self, reference: Ref) -> Result<Option<Ref>>;
    fn report(self, tracker: Tracker, format: Format) -> Result<String>;

    /// Misuses the interface, and says what it answered and should answer.
    fn misuse(self, tracker: Tracker, misuse: Misuse) -> Option<(Result<()>, ErrorKind)>;
}

/// What must be kept until no observer runs any more.
pub struct Kept {
    _observer: Option<Box<Observer>>,
}

fn kind<T>(result: std::result::Result<T, Error>) -> Result<T> {
    result.map_err(|error| {
        assert!(!error.message().is_empty());
        error.kind()
    })
}

#[derive(Clone, Copy)]
pub struct Rust;

impl Api for Rust {
    const NAME: &'static str = "rust";

    fn new_tracker(self, name: &str) -> Result<Tracker> {
        kind(Tracker::new(name))
    }
    fn destroy_tracker(self, tracker: Tracker) -> Result<()> {
        kind(tracker.destroy_tracker())
    }
    fn set_observer(self, tracker: Tracker, observer: Option<Observer>) -> Result<Kept> {
        kind(tracker.set_observer(observer)).map(|()| Kept { _observer: None })
    }
    fn stats(self, tracker: Tracker) -> Result<Stats> {
        kind(tracker.stats())
    }
    fn exact_begin(self, tracker: Tracker) -> Result<()> {
        kind(tracker.exact_begin())
    }
    fn exact_end(self, tracker: Tracker) -> Result<()> {
        kind(tracker.exact_end())
    }
    fn is_exact(self, tracker: Tracker) -> bool {
        tracker.is_exact()
    }
    fn create(self, tracker: Tracker, about: &Description) -> Result<Ref> {
        kind(tracker.create(about))
    }
    fn track(self, tracker: Tracker, about: &Description) -> Result<(Ref, usize)> {
        kind(tracker.track(about))
    }
    fn release(self, reference: Ref) -> Result<()> {
        kind(reference.release())
    }
    fn find(self, tracker: Tracker, object: usize) -> Result<(Ref, usize)> {
        kind(tracker.find(object))
    }
    fn user(self, reference: Ref) -> Result<usize> {
        kind(reference.user())
    }
    fn set_user(self, reference: Ref, user: usize) -> Result<()> {
        kind(reference.set_user(user))
    }
    fn erase(self, tracker: Tracker, object: usize) -> Result<()> {
        kind(tracker.erase(object))
    }
    fn parent_destroy(self, tracker: Tracker, object: usize) -> Result<()> {
        kind(tracker.parent_destroy(object))
    }
    fn destroy(self, tracker: Tracker, object: usize) -> Result<()> {
        kind(tracker.destroy(object))
    }
    fn destroy_with(self, tracker: Tracker, object: usize, kinds: u32) -> Result<()> {
        kind(tracker.destroy_with(object, kinds))
    }
    fn move_to(self, tracker: Tracker, object: usize, ancestors: &[usize]) -> Result<()> {
        kind(tracker.move_to(object, ancestors))
    }
    fn detach(self, tracker: Tracker, object: usize) -> Result<()> {
        kind(tracker.detach(object))
    }
    fn opaque_mutation(self, tracker: Tracker, object: usize) -> Result<()> {
        kind(tracker.opaque_mutation(object))
    }
    fn clear_scope(self, tracker: Tracker, scope: u64) -> Result<()> {
        kind(tracker.clear_scope(scope))
    }
    fn enter(self, next: Attribution) -> Attribution {
        next.enter()
    }
    fn leave(self, previous: Attribution) {
        Attribution::leave(previous);
    }
    fn set_death_log(self, records: usize) -> Result<()> {
        kind(live_object_tracker::set_death_log_capacity(records))
    }
    fn death_log(self) -> usize {
        live_object_tracker::death_log_capacity()
    }
    fn is_live(self, reference: Ref) -> bool {
        reference.is_live()
    }
    fn death(self, reference: Ref) -> Option<Death> {
        reference.death()
    }
    fn count(self, tracker: Tracker, scope: Option<u64>, of_kind: Option<u8>) -> Result<usize> {
        kind(tracker.count(scope, of_kind))
    }
    fn visited(
        self,
        tracker: Tracker,
        scope: Option<u64>,
        of_kind: Option<u8>,
        stop_after: usize,
    ) -> Result<Vec<(Ref, usize)>> {
        let mut seen = Vec::new();
        let visit = |shown, user| {
            seen.push((shown, user));
            if seen.len() > stop_after {
                Visit::Stop
            } else {
                Visit::Continue
            }
        };
        kind(tracker.for_each(scope, of_kind, visit)).map(|()| seen)
    }
    fn children(self, reference: Ref, stop_after: usize) -> Result<Vec<(Ref, usize)>> {
        let mut children = kind(reference.children())?;
        children.truncate(stop_after.saturating_add(1));
        Ok(children)
    }
    fn parent(self, reference: Ref) -> Result<Option<Ref>> {
        kind(reference.parent())
    }
    fn report(self, tracker: Tracker, format: Format) -> Result<String> {
        let mut text = String::new();
        kind(tracker.report(format, &mut text)).map(|()| text)
    }
    fn misuse(self, _: Tracker, _: Misuse) -> Option<(Result<()>, ErrorKind)> {
        None
    }
}

#[derive(Clone, Copy)]
pub struct C;

/// A status as a result. A refusal must come with a message.
fn status(status: lot_status) -> Result<()> {
    use ErrorKind::*;
    if status == LOT_OK {
        return Ok(());
    }
    // SAFETY: the message is a static, terminated string.
    let message = unsafe { CStr::from_ptr(lot_last_error_message()) };
    assert!(!message.is_empty(), "status {status} without a message");
    let kinds = [
        NullArgument,
        InvalidArgument,
        NoTracker,
        DeadRef,
        NotFound,
        Limit,
        NotActive,
        Unsupported,
        Internal,
    ];
    let is_it = |kind: &ErrorKind| *kind as i32 == status;
    Err(kinds
        .into_iter()
        .find(is_it)
        .expect("a status that lot.h names"))
}

fn handle(tracker: Tracker) -> lot_tracker {
    lot_tracker {
        id: tracker.to_raw(),
    }
}

fn pointer(object: usize) -> *const c_void {
    object as *const c_void
}

fn end_from(end: &lot_end) -> End {
    End {
        reference: end.r#ref.into(),
        death: death_from(&end.death),
        scope: end.scope,
        user: end.user as usize,
    }
}

fn death_from(death: &lot_death) -> Death {
    Death {
        by: death.by.into(),
        time_ns: death.time_ns,
        cause: Cause::from_number(death.cause),
        kind: death.kind,
    }
}

/// `data` is an [`Observer`] that outlives all calls.
unsafe extern "C" fn observe(ends: *const lot_end, count: usize, data: *mut c_void) {
    // SAFETY: the tracker gives an array of that many ends.
    let ends = unsafe { std::slice::from_raw_parts(ends, count) };
    let ends: Vec<End> = ends.iter().map(end_from).collect();
    // SAFETY: whoever set the observer keeps its data until it cannot run any more.
    let observer = unsafe { &*data.cast::<Observer>() };
    observer(&ends);
}

/// What a visit collects.
struct Seen {
    list: Vec<(Ref, usize)>,
    stop_after: usize,
}

/// `data` is a [`Seen`] that nobody else uses during the call.
unsafe extern "C" fn visit(shown: lot_ref, user: *mut c_void, data: *mut c_void) -> bool {
    // SAFETY: as the caller of `lot_for_each` or `lot_children` vouches.
    let seen = unsafe { &mut *data.cast::<Seen>() };
    seen.list.push((shown.into(), user as usize));
    seen.list.len() <= seen.stop_after
}

/// `data` is a vector of bytes that nobody else uses during the call.
unsafe extern "C" fn write(bytes: *const c_char, length: usize, data: *mut c_void) {
    // SAFETY: the tracker gives that many bytes.
    let bytes = unsafe { std::slice::from_raw_parts(bytes.cast::<u8>(), length) };
    // SAFETY: as the caller of `lot_dump` vouches.
    let text = unsafe { &mut *data.cast::<Vec<u8>>() };
    text.extend_from_slice(bytes);
}

fn description(about: &Description) -> lot_description {
    lot_description {
        object: pointer(about.object),
        scope: about.scope,
        ancestors: match about.ancestors {
            // An empty list has an address that is not null.
            Some(list) => list.as_ptr().cast(),
            None => ptr::null(),
        },
        ancestor_count: about.ancestors.map_or(0, <[usize]>::len),
        user: about.user as *mut c_void,
        kind: about.kind,
    }
}

/// Out-parameters hold this before a call. A refused call must leave it.
const UNTOUCHED: usize = 0x5a5a_5a5a_5a5a_5a5a;

const UNTOUCHED_REF: lot_ref = lot_ref {
    object: UNTOUCHED as *const c_void,
    epoch: UNTOUCHED as u64,
};

/// The results of a call, which must be untouched if it was refused.
fn results<T: Copy, const N: usize>(
    answer: lot_status,
    values: T,
    numbers: [usize; N],
) -> Result<T> {
    let answer = status(answer);
    if answer.is_err() {
        let untouched = [UNTOUCHED; N];
        assert_eq!(numbers, untouched, "a refused call wrote a result");
    }
    answer.map(|()| values)
}

impl Api for C {
    const NAME: &'static str = "c";

    fn new_tracker(self, name: &str) -> Result<Tracker> {
        let name = std::ffi::CString::new(name).unwrap();
        let mut made = lot_tracker {
            id: UNTOUCHED as u64,
        };
        // SAFETY: the name is terminated, and the place is ours.
        let answer = unsafe { lot_tracker_create(name.as_ptr(), &mut made) };
        results(answer, Tracker::from_raw(made.id), [made.id as usize])
    }
    fn destroy_tracker(self, tracker: Tracker) -> Result<()> {
        status(lot_tracker_destroy(handle(tracker)))
    }
    fn set_observer(self, tracker: Tracker, observer: Option<Observer>) -> Result<Kept> {
        let mut kept = observer.map(Box::new);
        let data = kept
            .as_mut()
            .map_or(ptr::null_mut(), |kept| &raw mut **kept);
        let function: lot_observer_fn = kept.as_ref().map(|_| observe as _);
        // SAFETY: the driver keeps what is given back until the tracker is destroyed.
        let answer = unsafe { lot_tracker_set_observer(handle(tracker), function, data.cast()) };
        status(answer).map(|()| Kept { _observer: kept })
    }
    fn stats(self, tracker: Tracker) -> Result<Stats> {
        let mut stats = lot_stats {
            tracked: UNTOUCHED,
            anchors: 0,
            created: 0,
            ended: 0,
            released: 0,
            missed_ends: 0,
            internal_errors: 0,
            exact_sources: 0,
        };
        // SAFETY: the place is ours.
        let answer = unsafe { lot_tracker_stats(handle(tracker), &mut stats) };
        let answered = Stats {
            tracked: stats.tracked,
            anchors: stats.anchors,
            created: stats.created,
            ended: stats.ended,
            released: stats.released,
            missed_ends: stats.missed_ends,
            internal_errors: stats.internal_errors,
            exact_sources: stats.exact_sources,
        };
        results(answer, answered, [stats.tracked])
    }
    fn exact_begin(self, tracker: Tracker) -> Result<()> {
        status(lot_exact_begin(handle(tracker)))
    }
    fn exact_end(self, tracker: Tracker) -> Result<()> {
        status(lot_exact_end(handle(tracker)))
    }
    fn is_exact(self, tracker: Tracker) -> bool {
        lot_is_exact(handle(tracker))
    }
    fn create(self, tracker: Tracker, about: &Description) -> Result<Ref> {
        let mut created = UNTOUCHED_REF;
        // SAFETY: the description and its list live during the call, and the place is ours.
        let answer = unsafe { lot_create(handle(tracker), &description(about), &mut created) };
        results(answer, created.into(), [created.object as usize])
    }
    fn track(self, tracker: Tracker, about: &Description) -> Result<(Ref, usize)> {
        let mut tracked = UNTOUCHED_REF;
        let mut user = UNTOUCHED as *mut c_void;
        // SAFETY: the description and its list live during the call, and the places are ours.
        let answer = unsafe {
            lot_track(
                handle(tracker),
                &description(about),
                &mut tracked,
                &mut user,
            )
        };
        let untouched = [tracked.object as usize, user as usize];
        results(answer, (tracked.into(), user as usize), untouched)
    }
    fn release(self, reference: Ref) -> Result<()> {
        status(lot_release(reference.into()))
    }
    fn find(self, tracker: Tracker, object: usize) -> Result<(Ref, usize)> {
        let mut found = UNTOUCHED_REF;
        let mut user = UNTOUCHED as *mut c_void;
        // SAFETY: the places are ours.
        let answer = unsafe { lot_find(handle(tracker), pointer(object), &mut found, &mut user) };
        let untouched = [found.object as usize, user as usize];
        results(answer, (found.into(), user as usize), untouched)
    }
    fn user(self, reference: Ref) -> Result<usize> {
        let mut user = UNTOUCHED as *mut c_void;
        // SAFETY: the place is ours.
        let answer = unsafe { lot_get_user(reference.into(), &mut user) };
        results(answer, user as usize, [user as usize])
    }
    fn set_user(self, reference: Ref, user: usize) -> Result<()> {
        status(lot_set_user(reference.into(), user as *mut c_void))
    }
    fn erase(self, tracker: Tracker, object: usize) -> Result<()> {
        status(lot_erase(handle(tracker), pointer(object)))
    }
    fn parent_destroy(self, tracker: Tracker, object: usize) -> Result<()> {
        status(lot_parent_destroy(handle(tracker), pointer(object)))
    }
    fn destroy(self, tracker: Tracker, object: usize) -> Result<()> {
        status(lot_destroy(handle(tracker), pointer(object)))
    }
    fn destroy_with(self, tracker: Tracker, object: usize, kinds: u32) -> Result<()> {
        status(lot_destroy_with(handle(tracker), pointer(object), kinds))
    }
    fn move_to(self, tracker: Tracker, object: usize, ancestors: &[usize]) -> Result<()> {
        let list = match ancestors {
            [] => ptr::null(),
            list => list.as_ptr().cast(),
        };
        // SAFETY: the list has that many elements.
        status(unsafe { lot_move(handle(tracker), pointer(object), list, ancestors.len()) })
    }
    fn detach(self, tracker: Tracker, object: usize) -> Result<()> {
        status(lot_detach(handle(tracker), pointer(object)))
    }
    fn opaque_mutation(self, tracker: Tracker, object: usize) -> Result<()> {
        status(lot_opaque_mutation(handle(tracker), pointer(object)))
    }
    fn clear_scope(self, tracker: Tracker, scope: u64) -> Result<()> {
        status(lot_clear_scope(handle(tracker), scope))
    }
    fn enter(self, next: Attribution) -> Attribution {
        let previous = lot_attribution_enter(lot_attribution {
            by: next.by.into(),
            cause: next.cause as u32,
        });
        Attribution {
            by: previous.by.into(),
            cause: Cause::from_number(previous.cause),
        }
    }
    fn leave(self, previous: Attribution) {
        lot_attribution_leave(lot_attribution {
            by: previous.by.into(),
            cause: previous.cause as u32,
        });
    }
    fn set_death_log(self, records: usize) -> Result<()> {
        status(lot_set_death_log_capacity(records))
    }
    fn death_log(self) -> usize {
        lot_death_log_capacity()
    }
    fn is_live(self, reference: Ref) -> bool {
        lot_is_live(reference.into())
    }
    fn death(self, reference: Ref) -> Option<Death> {
        let mut death = lot_death {
            by: UNTOUCHED_REF,
            time_ns: 0,
            cause: 0,
            kind: 0,
        };
        // SAFETY: the place is ours.
        let answer = unsafe { lot_get_death(reference.into(), &mut death) };
        match results(answer, (), [death.by.object as usize]) {
            Ok(()) => Some(death_from(&death)),
            Err(error) => {
                assert_eq!(error, ErrorKind::NotFound);
                None
            }
        }
    }
    fn count(self, tracker: Tracker, scope: Option<u64>, kind: Option<u8>) -> Result<usize> {
        let scope = scope.as_ref().map_or(ptr::null(), ptr::from_ref);
        let kind = kind.unwrap_or(LOT_KIND_ANY);
        let mut count = UNTOUCHED;
        // SAFETY: the scope is null or ours, and so is the place.
        let answer = unsafe { lot_count(handle(tracker), scope, kind, &mut count) };
        results(answer, count, [count])
    }
    fn visited(
        self,
        tracker: Tracker,
        scope: Option<u64>,
        kind: Option<u8>,
        stop_after: usize,
    ) -> Result<Vec<(Ref, usize)>> {
        let scope = scope.as_ref().map_or(ptr::null(), ptr::from_ref);
        let kind = kind.unwrap_or(LOT_KIND_ANY);
        let list = Vec::new();
        let mut seen = Seen { list, stop_after };
        let data = (&raw mut seen).cast();
        // SAFETY: the scope is null or ours, and `visit` takes what we give.
        let answer = unsafe { lot_for_each(handle(tracker), scope, kind, Some(visit), data) };
        status(answer).map(|()| seen.list)
    }
    fn children(self, reference: Ref, stop_after: usize) -> Result<Vec<(Ref, usize)>> {
        let list = Vec::new();
        let mut seen = Seen { list, stop_after };
        let data = (&raw mut seen).cast();
        // SAFETY: `visit` takes what we give.
        let answer = unsafe { lot_children(reference.into(), Some(visit), data) };
        status(answer).map(|()| seen.list)
    }
    fn parent(self, reference: Ref) -> Result<Option<Ref>> {
        let mut parent = UNTOUCHED_REF;
        // SAFETY: the place is ours.
        let answer = unsafe { lot_get_parent(reference.into(), &mut parent) };
        let parent = results(answer, Ref::from(parent), [parent.object as usize])?;
        Ok((parent != Ref::NULL).then_some(parent))
    }
    fn report(self, tracker: Tracker, format: Format) -> Result<String> {
        let format = match format {
            Format::Text => LOT_FORMAT_TEXT,
            Format::Json => LOT_FORMAT_JSON,
            Format::Dot => LOT_FORMAT_DOT,
        };
        let mut text: Vec<u8> = Vec::new();
        let data = (&raw mut text).cast();
        // SAFETY: `write` takes what we give.
        status(unsafe { lot_dump(handle(tracker), format, Some(write), data) })?;
        Ok(String::from_utf8(text).expect("a report is UTF-8"))
    }
    fn misuse(self, tracker: Tracker, misuse: Misuse) -> Option<(Result<()>, ErrorKind)> {
        use ErrorKind::{InvalidArgument, NullArgument};
        let tracker = handle(tracker);
        let nothing = Ref::NULL.into();
        let about = Description {
            object: 0x4440,
            ..Default::default()
        };
        let mut about = description(&about);
        let mut made = UNTOUCHED_REF;
        let (object, null) = (about.object, ptr::null_mut::<c_void>());
        let mut expected = NullArgument;
        // SAFETY: every pointer is null or ours, and the huge list is refused unread.
        let answer = unsafe {
            match misuse {
                Misuse::NoDescription => lot_track(tracker, ptr::null(), &mut made, null.cast()),
                Misuse::NoList => {
                    about.ancestor_count = 3;
                    lot_create(tracker, &about, &mut made)
                }
                Misuse::HugeList => {
                    expected = InvalidArgument;
                    about.ancestors = &object;
                    about.ancestor_count = usize::MAX / 2;
                    lot_create(tracker, &about, &mut made)
                }
                Misuse::NoPlaceForRef => lot_track(tracker, &about, ptr::null_mut(), null.cast()),
                Misuse::NoPlaceForUser => lot_get_user(nothing, null.cast()),
                Misuse::NoPlaceForDeath => lot_get_death(nothing, null.cast()),
                Misuse::NoPlaceForCount => {
                    lot_count(tracker, ptr::null(), LOT_KIND_ANY, null.cast())
                }
                Misuse::NoPlaceForParent => lot_get_parent(nothing, null.cast()),
                Misuse::NoPlaceForStats => lot_tracker_stats(tracker, null.cast()),
                Misuse::NoVisit => lot_for_each(tracker, ptr::null(), LOT_KIND_ANY, None, null),
                Misuse::NoVisitOfChildren => lot_children(nothing, None, null),
                Misuse::NoWrite => lot_dump(tracker, LOT_FORMAT_JSON, None, null),
                Misuse::NoSuchFormat => {
                    expected = InvalidArgument;
                    let mut text: Vec<u8> = Vec::new();
                    lot_dump(tracker, 3, Some(write), (&raw mut text).cast())
                }
                Misuse::NoPlaceForTracker => lot_tracker_create(ptr::null(), null.cast()),
            }
        };
        let untouched = made.epoch == UNTOUCHED as u64;
        assert!(untouched, "a refused call wrote a result");
        Some((status(answer), expected))
    }
}
