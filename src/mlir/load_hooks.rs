// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Load hooks: every slot of every loaded object that leads to a watched function of one MLIR library
//! is made to lead to a hook of ours instead.
//!
//! # Who holds what
//!
//! Questions to the loader (module `loader`) are asked first, with no lock held. Slots are written
//! under the lock of [`LIBRARIES`], within `dl_iterate_phdr`, which keeps the loader from unmapping
//! anything, and keeps other copies of this crate from changing the same page's protection. The
//! self-test runs with no lock held.

use super::elf::{Identity, Known, Loaded, Slot, SlotKind, Snapshot};
use super::loader::Held;
use super::memory::Pages;
use super::names::{FUNCTION_COUNT, FUNCTIONS, Needed};
use super::reports::{INSTANCE_COUNT, INSTANCES, hook_address};
use super::{Failure, elf, loader};
use crate::core::sync::{Lock, fork_lock};
use crate::{Error, Tracker};
use std::sync::atomic::Ordering;

/// A watched library. Its place in [`LIBRARIES`] is its place in [`INSTANCES`], for ever: code that
/// put itself on top of a hook of ours may call that hook at any time.
struct Library {
    identity: Identity,
    patched: Vec<Patched>,
    /// What has been looked through: apart from `patched`, nothing in there leads to the library.
    covered: Known,
}

/// A slot that holds a hook of ours.
struct Patched {
    object: Identity,
    slot: Slot,
}

static LIBRARIES: Lock<Vec<Library>> = Lock::new(Vec::new());

/// What is to be done for one library, found out with no lock held.
struct Plan {
    library: Identity,
    originals: [usize; FUNCTION_COUNT],
    slots: Vec<(Identity, Slot)>,
    /// Keeps the objects of the slots from being unloaded, and loaded anew, before they are written.
    /// Letting go may run code of an object that nobody else wants any more: so not under a lock.
    _held: Vec<Held>,
    /// How many objects the loader had added, all of which `slots` covers.
    additions: u64,
    /// What has been looked through with this plan; `None` if more was just being added.
    covered: Option<Known>,
}

/// Why there are no hooks: a sentence for a person.
type Reason = String;

/// Watches the library that `symbol` lives in for `tracker`. `self_test` gets a tracker of its own.
pub(super) fn install(
    tracker: Tracker,
    symbol: usize,
    self_test: &mut dyn FnMut(Tracker) -> bool,
) -> Result<(), Failure> {
    let plan = plan_for(None, |snapshot| {
        let mut objects = snapshot.objects.iter();
        let place = objects.position(|object| object.contains(symbol));
        place.ok_or_else(|| {
            "the given address is in no loaded library: it has to be that of a function or a \
             variable in the MLIR library"
                .to_owned()
        })
    })?;
    let index = instance_for(&plan)?;
    let subscribers = &INSTANCES[index].subscribers;
    if subscribers.contains(tracker) {
        return Ok(());
    }
    super::with_trial(|trial| {
        super::enter_and_attach(subscribers, trial)?;
        let outcome = cover(index, plan)
            .and_then(|plan| super::run(self_test, trial).map(|()| plan))
            // Once more: a thread that was just looking up the function for its first call may have
            // put the original back.
            .and_then(|plan| cover(index, plan))
            .map_err(Failure::Reason)
            .and_then(|_| promote(index, trial, tracker));
        detach(index, trial);
        outcome
    })
}

/// Gives the hooks up. False if there were none for this tracker.
pub(super) fn uninstall(tracker: Tracker) -> bool {
    let of_tracker = |index: &usize| INSTANCES[*index].subscribers.contains(tracker);
    let indices: Vec<usize> = (0..INSTANCE_COUNT).filter(of_tracker).collect();
    indices.iter().for_each(|index| detach(*index, tracker));
    !indices.is_empty()
}

pub(super) fn is_installed(tracker: Tracker) -> bool {
    INSTANCES
        .iter()
        .any(|instance| instance.subscribers.contains(tracker))
}

/// Looks for slots in what was loaded since. On an error the hooks are given up, for all trackers
/// that the library's ends were reported to; they are given with it.
pub(super) fn refresh(tracker: Tracker) -> Result<(), (Reason, Vec<Tracker>)> {
    for (index, instance) in INSTANCES.iter().enumerate() {
        if !instance.subscribers.contains(tracker)
            || instance.additions.load(Ordering::Acquire) == elf::additions()
        {
            continue;
        }
        if let Err(reason) = addition_to(index).and_then(|plan| cover(index, plan)) {
            let affected: Vec<Tracker> = instance.subscribers.all().collect();
            affected.iter().for_each(|tracker| detach(index, *tracker));
            return Err((reason, affected));
        }
    }
    Ok(())
}

/// Does what the plan says, and gives the plan back that was done. Calls and installations on other
/// threads change slots at any time, so that it may take a new plan: which also finds out if it was a
/// stranger.
fn cover(index: usize, mut plan: Plan) -> Result<Plan, Reason> {
    for _ in 0..100 {
        if apply(index, &plan).is_ok() {
            return Ok(plan);
        }
        plan = plan_of(index)?;
    }
    apply(index, &plan).map(|()| plan)
}

/// A new plan for a library that is known.
fn plan_of(index: usize) -> Result<Plan, Reason> {
    let guard = fork_lock::read();
    let library = LIBRARIES.lock()[index].identity.clone();
    drop(guard);
    plan_among_all(library, None)
}

/// A plan for what was loaded since the last one, if everything else still is as it was left.
fn addition_to(index: usize) -> Result<Plan, Reason> {
    let guard = fork_lock::read();
    let libraries = LIBRARIES.lock();
    let Library {
        identity,
        patched,
        covered,
    } = &libraries[index];
    let mut in_place = 0;
    elf::with_each_loaded(|object| {
        let slots = patched.iter().filter(|patched| patched.object == *object);
        for Patched { slot, .. } in slots {
            // SAFETY: an aligned word of an object that is loaded.
            let value = unsafe { super::memory::load(slot.address) };
            in_place += usize::from(value == hook_address(index, slot.function));
        }
    });
    let found = (in_place == patched.len()).then(|| {
        let originals = INSTANCES[index].originals.each_ref();
        let originals = originals.map(|original| original.load(Ordering::Acquire));
        (covered.clone(), originals)
    });
    let library = identity.clone();
    drop(libraries);
    drop(guard);
    plan_among_all(library, found)
}

/// What need not be looked through again, and the library's functions.
type Found = (Known, [usize; FUNCTION_COUNT]);

fn plan_among_all(library: Identity, found: Option<Found>) -> Result<Plan, Reason> {
    plan_for(found, |snapshot| {
        let mut objects = snapshot.objects.iter();
        let place = objects.position(|object| object.identity == library);
        place.ok_or_else(|| format!("{} is no longer loaded", library.label()))
    })
}

/// How many slots lead to hooks that report to `tracker`, and how many objects they are in.
pub(super) fn extent(tracker: Tracker) -> (u32, u32) {
    let _guard = fork_lock::read();
    let libraries = LIBRARIES.lock();
    let (mut slots, mut objects) = (0, Vec::new());
    for (library, instance) in libraries.iter().zip(&INSTANCES) {
        if instance.subscribers.contains(tracker) {
            slots += library.patched.len();
            objects.extend(library.patched.iter().map(|patched| patched.object.base));
        }
    }
    objects.sort_unstable();
    objects.dedup();
    (slots as u32, objects.len() as u32)
}

/// Has the reports go to `tracker` too, unless the hooks that `trial` has tried are gone already.
fn promote(index: usize, trial: Tracker, tracker: Tracker) -> Result<(), Failure> {
    let _guard = fork_lock::read();
    let _lock = LIBRARIES.lock();
    let subscribers = &INSTANCES[index].subscribers;
    if !subscribers.contains(trial) {
        return Err("the hooks were given up while they were tried"
            .to_owned()
            .into());
    }
    super::attach(subscribers, tracker)
}

/// Ends the reports to `tracker`; with the last one of the library, its slots are restored.
fn detach(index: usize, tracker: Tracker) {
    let _guard = fork_lock::read();
    let mut libraries = LIBRARIES.lock();
    let subscribers = &INSTANCES[index].subscribers;
    super::detach(subscribers, tracker);
    if subscribers.is_idle()
        && let Some(library) = libraries.get_mut(index)
    {
        restore(index, &mut library.patched);
        library.covered = Known::default();
    }
}

/// The place of the plan's library, a new one if need be.
fn instance_for(plan: &Plan) -> Result<usize, Failure> {
    let _guard = fork_lock::read();
    let mut libraries = LIBRARIES.lock();
    if let Some(index) = libraries
        .iter()
        .position(|library| library.identity == plan.library)
    {
        return Ok(index);
    }
    let index = libraries.len();
    let instance = INSTANCES.get(index).ok_or(Failure::Error(Error::limit(
        c"8 MLIR libraries are watched already",
    )))?;
    for (place, original) in instance.originals.iter().zip(plan.originals) {
        place.store(original, Ordering::Release);
    }
    libraries.push(Library {
        identity: plan.library.clone(),
        patched: Vec::new(),
        covered: Known::default(),
    });
    Ok(index)
}

/// Finds the functions of the library that `choose` picks, and all slots that lead to them.
fn plan_for(
    found: Option<Found>,
    choose: impl FnOnce(&Snapshot) -> Result<usize, Reason>,
) -> Result<Plan, Reason> {
    // Counted before waiting: what is added later is not covered, even if it is seen.
    let additions = elf::additions();
    loader::settle();
    let (known, originals) = found.unzip();
    let snapshot = elf::snapshot(&known.unwrap_or_default());
    let library = &snapshot.objects[choose(&snapshot)?];
    let label = library.identity.label();
    let originals = originals.map_or_else(|| originals_in(library), Ok)?;
    let ours = snapshot
        .objects
        .iter()
        .find(|object| object.contains(hook_address(0, 0)));
    let stays = |object: &Loaded| loader::keep_for_ever(&object.identity);
    if !ours.is_some_and(stays) || !stays(library) {
        return Err(format!(
            "the loader does not keep the tracker and {label} loaded"
        ));
    }
    let (mut slots, mut all_held) = (Vec::new(), Vec::new());
    let mut covered = Vec::new();
    for object in &snapshot.objects {
        if object.slots.is_empty() {
            covered.push(object.identity.clone());
            continue;
        }
        // Waits for a thread that is just loading it. What cannot be held is gone.
        let Some(held) = Held::new(&object.identity) else {
            continue;
        };
        let mut is_settled = true;
        for slot in &object.slots {
            // SAFETY: an aligned word of the object, which is held.
            let value = unsafe { super::memory::load(slot.address) };
            let slot = Slot { value, ..*slot };
            let original = originals[slot.function];
            if original != 0 && leads_to(original, object, &held, &slot, &snapshot)? {
                slots.push((object.identity.clone(), slot));
            } else {
                // Where it leads may still change.
                is_settled &= value != 0 && !elf::is_unbound(object, &slot);
            }
        }
        if is_settled {
            covered.push(object.identity.clone());
        }
        all_held.push(held);
    }
    Ok(Plan {
        library: library.identity.clone(),
        originals,
        slots,
        _held: all_held,
        additions,
        covered: (snapshot.additions == additions).then_some(Known {
            objects: covered,
            removals: snapshot.removals,
        }),
    })
}

/// The addresses of the watched functions in `library`, which has to call them through slots.
fn originals_in(library: &Loaded) -> Result<[usize; FUNCTION_COUNT], Reason> {
    let label = library.identity.label();
    let held = Held::new(&library.identity).ok_or_else(|| format!("{label} cannot be held"))?;
    let mut originals = [0; FUNCTION_COUNT];
    for (index, function) in FUNCTIONS.iter().enumerate() {
        let address = held
            .symbol(function.name)
            .filter(|address| library.contains(*address));
        originals[index] = address.unwrap_or(0);
        if function.needed >= Needed::Defined && address.is_none() {
            return Err(format!(
                "{label} does not export {}: MLIR is not in there, or is hidden (hidden \
                 visibility, a version script)",
                function.label
            ));
        }
        let mut own = library.slots.iter().filter(|slot| slot.function == index);
        if function.needed >= Needed::Called && !own.any(|slot| slot.kind != SlotKind::Data) {
            return Err(format!(
                "{label} calls {} directly, where no hook can be put (linked with -Bsymbolic, with \
                 hidden visibility or with link-time optimisation)",
                function.label
            ));
        }
    }
    Ok(originals)
}

/// Whether calls through `slot` reach `original`, a function of the watched library. An error if
/// they should, but other code has got in between, and if that cannot be found out.
fn leads_to(
    original: usize,
    object: &Loaded,
    held: &Held,
    slot: &Slot,
    snapshot: &Snapshot,
) -> Result<bool, Reason> {
    let value = slot.value;
    if value == original || leads_through_a_hook(value) == Some(original) {
        return Ok(true);
    }
    if slot.kind == SlotKind::Data
        || value == 0
        || leads_through_a_hook(value).is_some()
        || snapshot
            .objects
            .iter()
            .any(|other| other.stubs[slot.function] == value)
    {
        // A variable that the program has changed; a weak reference to nothing; another library's;
        // or a detour through a slot of the main program, which is gone through by itself.
        return Ok(false);
    }
    let function = &FUNCTIONS[slot.function];
    let unbound = elf::is_unbound(object, slot);
    let same_shape = FUNCTIONS.iter().filter(|other| other.ends == function.ends);
    if !unbound && loader::is_definition(value, same_shape.map(|other| other.name)) {
        return Ok(false); // Another MLIR's.
    }
    let caller = object.identity.label();
    match loader::resolve(object, held, function.name) {
        Some(address) if address != original => Ok(false),
        Some(_) if unbound => Ok(true),
        Some(_) => Err(format!(
            "calls of {} in {caller} are redirected by other code already (a second copy of the \
             tracker, or another tool)",
            function.label
        )),
        None => Err(format!(
            "it cannot be told which library {caller} takes {} from",
            function.label
        )),
    }
}

/// The function that a hook of this crate goes on to.
fn leads_through_a_hook(value: usize) -> Option<usize> {
    let pairs = (0..INSTANCE_COUNT).flat_map(|i| (0..FUNCTION_COUNT).map(move |f| (i, f)));
    let hook = pairs
        .into_iter()
        .find(|(i, f)| hook_address(*i, *f) == value);
    hook.map(|(i, f)| INSTANCES[i].originals[f].load(Ordering::Acquire))
}

/// Makes the slots of the plan lead to the hooks. Slots that do already are fine.
fn apply(index: usize, plan: &Plan) -> Result<(), Reason> {
    let _guard = fork_lock::read();
    let mut libraries = LIBRARIES.lock();
    let Library {
        patched, covered, ..
    } = &mut libraries[index];
    let mut pages = None;
    let mut outcome = Ok(());
    let mut loaded = Vec::new();
    elf::with_each_loaded(|object| {
        loaded.push(object.clone());
        for (_, slot) in plan.slots.iter().filter(|(identity, _)| identity == object) {
            let pages = pages.get_or_insert_with(Pages::read);
            match patch(
                pages,
                slot,
                plan.originals[slot.function],
                hook_address(index, slot.function),
            ) {
                Ok(previous) => {
                    let known = patched
                        .iter()
                        .any(|p| p.slot.address == slot.address && p.object == *object);
                    if !known {
                        let slot = Slot {
                            value: previous,
                            ..*slot
                        };
                        patched.push(Patched {
                            object: object.clone(),
                            slot,
                        });
                    }
                }
                Err(why) if outcome.is_ok() => {
                    let function = FUNCTIONS[slot.function].label;
                    outcome = Err(format!("calls of {function} in {}: {why}", object.label()));
                }
                Err(_) => {}
            }
        }
    });
    // What was unloaded has taken its slots along.
    patched.retain(|patched| loaded.contains(&patched.object));
    if outcome.is_ok() {
        INSTANCES[index]
            .additions
            .store(plan.additions, Ordering::Release);
        if let Some(known) = &plan.covered {
            covered.clone_from(known);
        }
    }
    outcome
}

/// Gives what the slot held before, or why it could not be set.
fn patch(pages: &Pages, slot: &Slot, original: usize, hook: usize) -> Result<usize, Reason> {
    // A call that another thread made since may have bound the slot.
    for expected in [slot.value, original] {
        // SAFETY: the object of the slot is loaded, since the caller is within `with_each_loaded`,
        // which also keeps others from changing its page.
        let result = unsafe { pages.replace(slot.address, slot.protection, expected, hook) };
        match result {
            Ok(Ok(())) if expected != hook => return Ok(expected),
            Ok(Ok(())) => return Ok(original),
            Ok(Err(held)) if held == hook => return Ok(original),
            Ok(Err(_)) => {}
            Err(error) => return Err(format!("the slot cannot be written: {error}")),
        }
    }
    Err("other code has just changed the slot".to_owned())
}

/// Gives each slot that still holds a hook of ours what it held before.
fn restore(index: usize, patched: &mut Vec<Patched>) {
    if patched.is_empty() {
        return;
    }
    let mut pages = None;
    elf::with_each_loaded(|object| {
        for Patched { slot, .. } in patched.iter().filter(|patched| patched.object == *object) {
            let hook = hook_address(index, slot.function);
            let pages = pages.get_or_insert_with(Pages::read);
            // SAFETY: as in `patch`. A slot that others have changed since is theirs; one that
            // cannot be written keeps a hook that goes on to the original.
            let _ = unsafe { pages.replace(slot.address, slot.protection, hook, slot.value) };
        }
    });
    patched.clear();
}
