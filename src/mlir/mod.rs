// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Exact sources for MLIR: what reports each destruction of an operation and of a block to a
//! [`Tracker`], whoever causes it, so that the tracker can work in exact mode (R10).
//!
//! - *load hooks* ([`install_load_hooks`]) for an unmodified shared library;
//! - *link hooks* ([`install_link_hooks`]) for a static MLIR, whose final link puts functions of this
//!   project before MLIR's own.
//!
//! Neither is believed before a self-test has seen every end it provoked. Where that fails, nothing
//! stays changed, the tracker stays in structural mode, and [`status`] says why.
//!
//! Nothing here depends on MLIR: what is watched is a list of names in `names.rs`.
//!
//! # Locks
//!
//! In this order: the fork lock, the list of watched libraries, the loader's list of objects (inside
//! `dl_iterate_phdr`); the two locks in this file and that of a list of subscribers are leaves. No
//! lock is held while the loader is asked for symbols, or while a self-test runs. Reports take none.

#[cfg(all(
    target_os = "linux",
    target_pointer_width = "64",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
mod elf;
#[cfg(all(
    target_os = "linux",
    target_pointer_width = "64",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
mod load_hooks;
#[cfg(not(all(
    target_os = "linux",
    target_pointer_width = "64",
    any(target_arch = "x86_64", target_arch = "aarch64")
)))]
#[path = "no_load_hooks.rs"]
mod load_hooks;
#[cfg(all(
    target_os = "linux",
    target_pointer_width = "64",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
mod loader;
#[cfg(all(
    target_os = "linux",
    target_pointer_width = "64",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
mod memory;
mod names;
mod reports;
#[cfg(feature = "mlir-sys")]
pub mod sys;

use std::ffi::{CStr, CString};
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::core::sync::{Lock, fork_lock};
use crate::{Error, Tracker};
use reports::Subscribers;

/// The kind of an operation.
pub const OPERATION: u8 = 0;
/// The kind of a block.
pub const BLOCK: u8 = 1;
/// The kind of a block argument.
pub const BLOCK_ARGUMENT: u8 = 2;

/// Where a tracker's knowledge of ends comes from, beyond what the binding reports itself.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u32)]
pub enum Source {
    /// Nowhere: structural mode.
    Structural = 0,
    /// Load hooks: exact.
    LoadHooks = 1,
    /// Link hooks: exact.
    LinkHooks = 2,
    /// A rewriter's listener. Not exact: it only sees what goes through its rewriter.
    Listener = 3,
}

/// The answer of [`status`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Status {
    /// Which source is active.
    pub source: Source,
    /// How many GOT entries lead to load hooks for this tracker.
    pub slots_patched: u32,
    /// In how many loaded objects, the MLIR library itself included.
    pub libraries_patched: u32,
    /// Why there is no exact source; empty if there is one.
    pub reason: &'static CStr,
}

/// Why an installation came to nothing.
enum Failure {
    /// There can be no exact reports here: a sentence for a person.
    Reason(String),
    Error(Error),
}

impl From<String> for Failure {
    fn from(reason: String) -> Self {
        Failure::Reason(reason)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Error(error)
    }
}

/// What is kept of a tracker between calls.
struct Note {
    tracker: Tracker,
    /// Of the last failure.
    reason: &'static CStr,
    /// Listeners that are alive.
    listeners: u32,
}

static NOTES: Lock<Vec<Note>> = Lock::new(Vec::new());

/// The trackers that link hooks report to.
static LINKED: Subscribers = Subscribers::new();

/// Installs load hooks for the MLIR library that has `symbol` (the address of a function or variable
/// in it), and puts `tracker` into exact mode. Done twice it is done once.
///
/// `self_test` gets a tracker of its own, in exact mode. It has to build IR with nested operations
/// and blocks, track each of them there, destroy all of it by the library's own means, and say
/// whether every ref is dead.
///
/// An error of kind [`Unsupported`](crate::ErrorKind::Unsupported) says why there are no hooks, as
/// does [`status`]; all slots are then as before, and sources that were active still are.
pub fn install_load_hooks(
    tracker: Tracker,
    symbol: usize,
    mut self_test: impl FnMut(Tracker) -> bool,
) -> Result<(), Error> {
    check(tracker)?;
    conclude(
        tracker,
        load_hooks::install(tracker, symbol, &mut self_test),
    )?;
    // If they were installed already.
    refresh(tracker)
}

/// Takes the load hooks of `tracker` back. With the last tracker of a library its slots are
/// restored, apart from those that others have changed since.
pub fn uninstall_load_hooks(tracker: Tracker) -> Result<(), Error> {
    check(tracker)?;
    taken_back(
        tracker,
        load_hooks::uninstall(tracker),
        c"the load hooks were uninstalled",
        c"no load hooks are installed for this tracker",
    )
}

/// Extends the load hooks of `tracker` to what was loaded since. Costs about a hundred nanoseconds
/// if nothing was. If it cannot be done, the hooks are given up for every tracker of that MLIR
/// library, which are in structural mode from then on.
pub fn refresh(tracker: Tracker) -> Result<(), Error> {
    check(tracker)?;
    if let Err((reason, affected)) = load_hooks::refresh(tracker) {
        let reason = keep(&reason);
        affected
            .iter()
            .for_each(|other| note(*other, |note| note.reason = reason));
        return Err(Error::unsupported(reason));
    }
    Ok(())
}

/// Has the link hooks of this program report to `tracker`, and puts it into exact mode. As
/// [`install_load_hooks`] otherwise.
pub fn install_link_hooks(
    tracker: Tracker,
    mut self_test: impl FnMut(Tracker) -> bool,
) -> Result<(), Error> {
    check(tracker)?;
    if LINKED.contains(tracker) {
        return Ok(());
    }
    let outcome = with_trial(|trial| {
        enter_and_attach(&LINKED, trial)?;
        let outcome = run(&mut self_test, trial).map_err(|reason| {
            Failure::Reason(format!(
                "{reason} (is LiveObjectTracker::mlir_link_hooks linked?)"
            ))
        });
        enter_and_detach(&LINKED, trial);
        outcome?;
        enter_and_attach(&LINKED, tracker)
    });
    conclude(tracker, outcome)
}

/// Takes the link hooks of `tracker` back.
pub fn uninstall_link_hooks(tracker: Tracker) -> Result<(), Error> {
    check(tracker)?;
    taken_back(
        tracker,
        enter_and_detach(&LINKED, tracker),
        c"the link hooks were uninstalled",
        c"no link hooks are installed for this tracker",
    )
}

/// A listener of a rewriter begins to report to `tracker`.
pub fn listener_begin(tracker: Tracker) -> Result<(), Error> {
    check(tracker)?;
    note(tracker, |note| note.listeners += 1);
    Ok(())
}

/// Takes one [`listener_begin`] back.
pub fn listener_end(tracker: Tracker) -> Result<(), Error> {
    check(tracker)?;
    let active = note(tracker, |note| {
        let fewer = note.listeners.checked_sub(1);
        note.listeners = fewer.unwrap_or(0);
        fewer.is_some()
    });
    active
        .then_some(())
        .ok_or(Error::not_active(c"no listener has begun"))
}

/// Which source is active for `tracker`, and why not a better one.
pub fn status(tracker: Tracker) -> Result<Status, Error> {
    check(tracker)?;
    let (reason, listeners) = note(tracker, |note| (note.reason, note.listeners));
    let (slots_patched, libraries_patched) = load_hooks::extent(tracker);
    let source = if load_hooks::is_installed(tracker) {
        Source::LoadHooks
    } else if LINKED.contains(tracker) {
        Source::LinkHooks
    } else if listeners > 0 {
        Source::Listener
    } else {
        Source::Structural
    };
    let exact = matches!(source, Source::LoadHooks | Source::LinkHooks);
    let reason = if exact { c"" } else { reason };
    Ok(Status {
        source,
        slots_patched,
        libraries_patched,
        reason,
    })
}

/// What a link hook says: `operation` is about to be destroyed.
pub fn report_operation(operation: usize) {
    LINKED.report(operation, names::Ends::Object);
}

/// What a link hook says: `block` is about to be destroyed, and its arguments with it.
pub fn report_block(block: usize) {
    LINKED.report(block, names::Ends::ObjectAndArguments);
}

fn exists(tracker: Tracker) -> bool {
    // The first answer is quick.
    tracker.is_exact() || tracker.stats().is_ok()
}

fn check(tracker: Tracker) -> Result<(), Error> {
    exists(tracker).then_some(()).ok_or(Error::NO_TRACKER)
}

/// What a link hook says: `argument`, of a block that stays, is about to be destroyed.
pub fn report_block_argument(argument: usize) {
    LINKED.report(argument, names::Ends::Object);
}

/// Whether anybody who has link hooks tracks block arguments. If not, their ends need no report.
pub fn wants_block_arguments() -> bool {
    LINKED.want_arguments()
}

/// The answer to a request to take hooks back; the reason for structural mode is noted if there were some.
fn taken_back(
    tracker: Tracker,
    there_were_some: bool,
    reason: &'static CStr,
    refusal: &'static CStr,
) -> Result<(), Error> {
    if !there_were_some {
        return Err(Error::not_active(refusal));
    }
    note(tracker, |note| note.reason = reason);
    Ok(())
}

/// Leaves the outcome of an installation in the tracker's note.
fn conclude(tracker: Tracker, outcome: Result<(), Failure>) -> Result<(), Error> {
    let error = match outcome {
        Ok(()) => return Ok(()),
        Err(Failure::Error(error)) => error,
        Err(Failure::Reason(reason)) => Error::unsupported(keep(&reason)),
    };
    note(tracker, |note| note.reason = error.message());
    Err(error)
}

fn note<T>(tracker: Tracker, change: impl FnOnce(&mut Note) -> T) -> T {
    let _guard = fork_lock::read();
    let mut notes = NOTES.lock();
    let known = notes.iter().position(|note| note.tracker == tracker);
    let place = known.unwrap_or_else(|| {
        // The only place where notes become more; those of destroyed trackers go.
        notes.retain(|note| exists(note.tracker));
        notes.push(Note {
            tracker,
            reason: c"no exact source was asked for",
            listeners: 0,
        });
        notes.len() - 1
    });
    change(&mut notes[place])
}

/// Keeps a text for the life of the process, once: C callers may hold on to it. There are few
/// different ones.
fn keep(text: &str) -> &'static CStr {
    static KEPT: Lock<Vec<&'static CStr>> = Lock::new(Vec::new());
    let text = CString::new(text.replace('\0', "?")).unwrap_or_default();
    let _guard = fork_lock::read();
    let mut kept = KEPT.lock();
    let known = kept.iter().copied().find(|known| *known == text.as_c_str());
    known.unwrap_or_else(|| {
        let text: &'static CStr = Box::leak(text.into_boxed_c_str());
        kept.push(text);
        text
    })
}

fn enter_and_attach(subscribers: &Subscribers, tracker: Tracker) -> Result<(), Failure> {
    let _guard = fork_lock::read();
    attach(subscribers, tracker)
}

fn enter_and_detach(subscribers: &Subscribers, tracker: Tracker) -> bool {
    let _guard = fork_lock::read();
    detach(subscribers, tracker)
}

/// Starts the reports of a source to `tracker`. The caller holds a read guard of the fork lock.
fn attach(subscribers: &Subscribers, tracker: Tracker) -> Result<(), Failure> {
    // In this order, so that it is never thought exact without reports.
    Ok(subscribers.add(tracker, || tracker.exact_begin())?)
}

/// Ends them. False if there were none. The caller holds a read guard of the fork lock.
fn detach(subscribers: &Subscribers, tracker: Tracker) -> bool {
    subscribers.remove(tracker, || {
        // It fails for a tracker that is destroyed; nothing is exact there.
        let _ = tracker.exact_end();
    })
}

/// Runs `body` with a tracker of its own.
fn with_trial(body: impl FnOnce(Tracker) -> Result<(), Failure>) -> Result<(), Failure> {
    let trial = Tracker::new("self-test of an exact source")?;
    let outcome = body(trial);
    // It fails if the self-test has done it already, which `run` has found out then.
    let _ = trial.destroy_tracker();
    outcome
}

/// Runs a self-test and checks what it says.
fn run(self_test: &mut dyn FnMut(Tracker) -> bool, trial: Tracker) -> Result<(), String> {
    let passed = catch_unwind(AssertUnwindSafe(|| self_test(trial)))
        .map_err(|_| "the self-test panicked".to_owned())?;
    let stats = trial
        .stats()
        .map_err(|_| "the self-test destroyed its tracker".to_owned())?;
    let reported = stats.ended - stats.missed_ends;
    if stats.created == 0 {
        Err("the self-test tracked nothing, so it proves nothing".to_owned())
    } else if reported != stats.created {
        Err(format!(
            "the self-test saw {reported} of the {} ends that it provoked",
            stats.created
        ))
    } else if !passed {
        Err(
            "the self-test failed: an end was reported too late, or one that did not happen"
                .to_owned(),
        )
    } else {
        Ok(())
    }
}
