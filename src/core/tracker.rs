// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Trackers and refs as callers see them: registration, hooks and questions, over
//! [`super::forest`].

use std::cell::Cell;

use super::death_log;
use super::forest::{
    self, Ending, Entry, Found, Limited, Registered, Reserve, STRIPES, Stripe, reference_of,
};
use super::observers::{Observer, PendingEnds};
use super::registry::{self, PIECE};
use super::state::TrackerState;
use super::sync::{LockGuard, fork_lock, thread_static};
use super::table::{self, Node, State, slot_of};
use crate::{Attribution, Cause, Death, Description, Error, KIND_COUNT, Ref, Stats, Visit};

thread_static! {
    static ATTRIBUTION: Cell<Attribution> = Cell::new(Attribution::NONE);
}

/// A tracker: the registry of live objects of one binding library. This is its handle, a number
/// that can be copied. The tracker lives until [`destroy_tracker`](Tracker::destroy_tracker).
///
/// Any thread may call every method, also inside a destructor of the framework. Every method but
/// [`is_exact`](Tracker::is_exact) is refused with
/// [`ErrorKind::NoTracker`](crate::ErrorKind::NoTracker) if the handle is no tracker's. Address 0
/// is refused with [`ErrorKind::NullArgument`](crate::ErrorKind::NullArgument). A refused call has
/// changed nothing.
///
/// For *hooks* an unknown address is an ordinary answer: they do nothing, and succeed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Tracker {
    id: u64,
}

impl Tracker {
    // Trackers -----------------------------------------------------------------------------------------

    /// Makes a tracker. `name` is for reports.
    ///
    /// # Errors
    /// [`ErrorKind::Limit`](crate::ErrorKind::Limit) if 256 trackers exist.
    pub fn new(name: &str) -> Result<Self, Error> {
        registry::create(name).map(|id| Self { id })
    }

    /// The handle as a number. 0 is no tracker's.
    pub fn to_raw(self) -> u64 {
        self.id
    }

    /// The handle with the number that [`to_raw`](Self::to_raw) gave. Any number may be tried:
    /// methods refuse one that is no tracker's with [`Error::NO_TRACKER`].
    pub fn from_raw(id: u64) -> Self {
        Self { id }
    }

    /// Ends everything in the tracker ([`Cause::ScopeCleared`]), and the tracker. Its refs stay
    /// safe to ask about, and are dead.
    ///
    /// The observer is told of these ends. When this call has returned, the observer does not run
    /// and will not run (R15). A call from inside an observer does not wait for that.
    pub fn destroy_tracker(self) -> Result<(), Error> {
        registry::destroy(self.id)
    }

    /// Sets who is told of ends; with `None` nobody is. The observer is called on the thread of the
    /// hook, after the state has changed and with no lock held. It may call the tracker.
    ///
    /// When this call has returned, the earlier observer does not run and will not run (R15): the
    /// call waits for other threads. A call from inside an observer does not wait.
    pub fn set_observer(self, observer: Option<Observer>) -> Result<(), Error> {
        registry::set_observer(self.id, observer)
    }

    /// The tracker's figures. They are exact whenever no hook is running (R14).
    pub fn stats(self) -> Result<Stats, Error> {
        Ok(registry::open(self.id)?.state().stats())
    }

    /// The name that the tracker was given.
    pub fn name(self) -> Result<String, Error> {
        Ok(registry::open(self.id)?.state().name.clone())
    }

    /// States that a source now reports every destruction (R10). Sources nest: each needs its own
    /// [`exact_end`](Self::exact_end).
    pub fn exact_begin(self) -> Result<(), Error> {
        registry::open(self.id)?.state().exact_begin();
        Ok(())
    }

    /// Takes one [`exact_begin`](Self::exact_begin) back.
    ///
    /// # Errors
    /// [`ErrorKind::NotActive`](crate::ErrorKind::NotActive) if no source is active.
    pub fn exact_end(self) -> Result<(), Error> {
        match registry::open(self.id)?.state().exact_end() {
            true => Ok(()),
            false => Err(Error::not_active(c"no exact source is active")),
        }
    }

    /// Whether an exact source is active. False for a handle that is no tracker's.
    pub fn is_exact(self) -> bool {
        registry::is_exact(self.id)
    }

    // Registration -------------------------------------------------------------------------------------

    /// Registers a *new* object. What is known at its address has ended unseen, and so has what was
    /// below it ([`Cause::MissedEnd`], R6).
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) for a kind that is not
    /// below [`KIND_COUNT`], and for ancestors that contain 0, the object, or an address twice.
    /// [`ErrorKind::Limit`](crate::ErrorKind::Limit) if the slot table is full, too many scopes are
    /// in use, or there is no memory.
    pub fn create(self, description: &Description) -> Result<Ref, Error> {
        self.register(description, true).map(|(created, _)| created)
    }

    /// Registers an object that *exists*. If an incarnation is live there, the answer is its ref
    /// and its user pointer (R16). Otherwise an incarnation starts.
    ///
    /// What is known there in another scope, or tracked as another kind, was another object. Nobody
    /// reported its end: it ends now ([`Cause::MissedEnd`]) with what was below it.
    ///
    /// # Errors
    /// As for [`create`](Self::create).
    pub fn track(self, description: &Description) -> Result<(Ref, usize), Error> {
        self.register(description, false)
    }

    fn register(self, description: &Description, is_new: bool) -> Result<(Ref, usize), Error> {
        check_object(description.object)?;
        if description.kind as usize >= KIND_COUNT {
            return Err(Error::invalid(c"the kind is not below 16"));
        }
        let open = registry::open(self.id)?;
        let state = open.state();
        let mut ends = PendingEnds::new(state);
        let number = forest::stripe_of(self.id, description.scope);
        let mut ending = Ending::new(ends.list());
        let registered = forest::stripe(number).register(state, description, is_new, &mut ending);
        let registered = match registered {
            Registered::As(reference, user) => Ok((reference, user)),
            Registered::Refused(error) => Err(error),
            Registered::Conflict(_) => {
                register_after_conflicts(state, description, is_new, &mut ending)
            }
        };
        open.tell(ends);
        registered
    }

    /// The live incarnation at an address, with its user pointer (R16).
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`](crate::ErrorKind::NotFound) if nothing is tracked there.
    pub fn find(self, object: usize) -> Result<(Ref, usize), Error> {
        check_object(object)?;
        let open = registry::open(self.id)?;
        // Elsewhere the slot might be that of the same object in another tracker by now.
        let found = open
            .state()
            .index
            .get_with(object, |slot| Node::at(slot).live(object));
        let (epoch, user) = found.flatten().ok_or(Error::NOT_TRACKED)?;
        Ok((Ref { object, epoch }, user))
    }

    // Hooks --------------------------------------------------------------------------------------------

    /// Whether the tracker certainly does not know an address. Then a hook has nothing to do.
    #[inline]
    pub(crate) fn lacks(self, object: usize) -> bool {
        registry::lacks(self.id, object).unwrap_or(false)
    }

    /// Ends what a hook reports. It does nothing for an address that the tracker certainly does not
    /// know.
    #[inline]
    fn end(self, object: usize, report: Report) -> Result<(), Error> {
        check_object(object)?;
        if registry::lacks(self.id, object)? {
            return Ok(());
        }
        self.end_known(object, report)
    }

    /// The rest of [`end`](Self::end), for a caller that has asked [`lacks`](Self::lacks) already.
    #[inline]
    pub(crate) fn end_known(self, object: usize, report: Report) -> Result<(), Error> {
        let open = registry::open(self.id)?;
        let state = open.state();
        let mut ends = PendingEnds::new(state);
        let mut ending = Ending::new(ends.list());
        let cause = |node, ending: &mut Ending| report.cause(node, ending);
        let found = match forest::end_leaf_at(state, object, &mut ending, cause) {
            Found::Leaf | Found::Nothing => None,
            Found::Node(stripe, node) => Some((stripe, node)),
            Found::Busy => lock_node(state, object),
        };
        if let Some((mut stripe, node)) = found {
            end_node(state, &mut stripe, node, report, &mut ending);
        }
        open.tell(ends);
        Ok(())
    }

    /// The framework erases `object` now, with everything below it (R4). A hook.
    ///
    /// In exact mode `object` alone ends here. What is below it ends by its own report (R10), since
    /// it may have moved without one.
    pub fn erase(self, object: usize) -> Result<(), Error> {
        self.end(object, Report::Erased)
    }

    /// `object` is destroyed as the parent of what is below it (R4). It differs from
    /// [`erase`](Self::erase) in the cause on record of `object`: [`Cause::Destroyed`]. A hook.
    pub fn parent_destroy(self, object: usize) -> Result<(), Error> {
        self.end(object, Report::DestroyedAsParent)
    }

    /// The memory of exactly `object` goes away now (R7). What is below it stays below what
    /// encloses it. The cause on record goes by the thread's [`Attribution`]. A hook, which is
    /// cheap for an untracked address.
    #[inline]
    pub fn destroy(self, object: usize) -> Result<(), Error> {
        self.destroy_with(object, 0)
    }

    /// Like [`destroy`](Self::destroy), but the parts of `object` end too. Parts are tracked
    /// objects right below it whose kind is in `kinds`: bit k stands for kind k. Nobody reports
    /// parts one by one; an example is a block's arguments. A hook.
    #[inline]
    pub fn destroy_with(self, object: usize, kinds: u32) -> Result<(), Error> {
        self.end(object, Report::Destroyed { kinds })
    }

    /// `object` has new ancestors, nearest first and complete up to the outermost. All that is
    /// below it comes along (R8). A hook.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) for ancestors that contain
    /// 0, the object, or an address twice. [`ErrorKind::Limit`](crate::ErrorKind::Limit) if there
    /// is no slot for an ancestor.
    pub fn move_to(self, object: usize, ancestors: &[usize]) -> Result<(), Error> {
        check_object(object)?;
        let open = registry::open(self.id)?;
        forest::check_ancestors(object, ancestors)?;
        let state = open.state();
        let mut ends = PendingEnds::new(state);
        let mut ending = Ending::new(ends.list());
        let placed = match lock_node(state, object) {
            None => Ok(()),
            Some((mut stripe, node)) => match stripe.relocate(state, node, ancestors) {
                Registered::As(..) => Ok(()),
                Registered::Refused(error) => Err(error),
                Registered::Conflict(_) => {
                    let scope = stripe.scope_of(node).id;
                    drop(stripe);
                    move_after_conflicts(state, object, scope, ancestors, &mut ending)
                }
            },
        };
        open.tell(ends);
        placed
    }

    /// `object` has no parent any more (R8). A hook.
    pub fn detach(self, object: usize) -> Result<(), Error> {
        self.move_to(object, &[])
    }

    /// Something that cannot be observed changed the inside of `root`. Everything strictly below it
    /// ends, unless an exact source is active (R9). A hook.
    pub fn opaque_mutation(self, root: usize) -> Result<(), Error> {
        check_object(root)?;
        let open = registry::open(self.id)?;
        let state = open.state();
        let mut ends = PendingEnds::new(state);
        if let Some((mut stripe, node)) = lock_node(state, root)
            && !state.is_exact()
        {
            let mut ending = Ending::new(ends.list());
            ending.by = reference_of(node);
            stripe.end_inside(state, node, Cause::OpaqueMutation, &mut ending);
        }
        open.tell(ends);
        Ok(())
    }

    /// Ends everything in a scope ([`Cause::ScopeCleared`]). An unknown scope is an ordinary
    /// answer.
    pub fn clear_scope(self, scope: u64) -> Result<(), Error> {
        let number = forest::stripe_of(self.id, scope);
        let mut open = registry::open(self.id)?;
        let mut ends = PendingEnds::new(open.state());
        loop {
            let state = open.state();
            let mut stripe = forest::stripe(number);
            let found = stripe.find_scope(self.id, scope);
            let mut ending = Ending::new(ends.list());
            let is_more =
                found.is_some_and(|scope| stripe.clear_some(state, scope, PIECE, &mut ending));
            if !is_more {
                state.settle(number);
                break;
            }
            drop(stripe);
            // Lets a fork go on that waits.
            drop(open);
            match registry::open(self.id) {
                Ok(again) => open = again,
                // Another thread has destroyed the tracker meanwhile, with all that was left.
                Err(_) => return Ok(()),
            }
        }
        if !open.state().is_busy() {
            open.state().index.shrink();
        }
        open.tell(ends);
        Ok(())
    }

    // Questions ----------------------------------------------------------------------------------------

    /// How many incarnations are live: in one scope or all, of one kind or all (R14).
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) for a kind that is not
    /// below [`KIND_COUNT`].
    pub fn count(self, scope: Option<u64>, kind: Option<u8>) -> Result<usize, Error> {
        check_kind(kind)?;
        let open = registry::open(self.id)?;
        let Some(scope) = scope else {
            return Ok(open.state().count(kind));
        };
        let mut stripe = forest::stripe(forest::stripe_of(self.id, scope));
        let found = stripe.find_scope(self.id, scope);
        Ok(found.map_or(0, |scope| stripe.count(scope, kind)))
    }

    /// Visits live incarnations until the visit says [`Visit::Stop`]. No lock is held, so a visit
    /// may call the tracker. What is live during the whole call is visited once, in no particular
    /// order.
    ///
    /// # Errors
    /// As for [`count`](Self::count).
    pub fn for_each(
        self,
        scope: Option<u64>,
        kind: Option<u8>,
        mut visit: impl FnMut(Ref, usize) -> Visit,
    ) -> Result<(), Error> {
        check_kind(kind)?;
        let mut found = Vec::new();
        self.list(scope, |_, node| {
            if node.is(State::Tracked) && kind.is_none_or(|kind| kind == node.meta().kind()) {
                found.push((reference_of(node), node.user()));
            }
        })?;
        for (tracked, user) in found {
            if visit(tracked, user) == Visit::Stop {
                break;
            }
        }
        Ok(())
    }

    /// All nodes of the tracker, for reports.
    pub(crate) fn entries(self) -> Result<Vec<Entry>, Error> {
        let mut entries = Vec::new();
        self.list(None, |stripe, node| entries.push(stripe.entry(node)))?;
        Ok(entries)
    }

    /// Shows the nodes of a scope, or all. No lock is held for more than a limited number of nodes
    /// (R18).
    fn list(self, scope: Option<u64>, mut show: impl FnMut(&Stripe, Node)) -> Result<(), Error> {
        // Bit n is set if stripe n has too many nodes for one look.
        let mut large = 0_u32;
        let numbers = match scope {
            Some(scope) => {
                let number = forest::stripe_of(self.id, scope);
                number..number + 1
            }
            None => 0..STRIPES as u8,
        };
        for number in numbers {
            let open = registry::open(self.id)?;
            let mut stripe = forest::stripe(number);
            let listed = match scope {
                Some(scope) => match stripe.find_scope(self.id, scope) {
                    Some(scope) => stripe.nodes_of_scope(scope, &mut show),
                    None => Limited::Complete,
                },
                None => stripe.nodes_of_tracker(open.state(), &mut show),
            };
            if let Limited::TooMuch = listed {
                large |= 1 << number;
            }
        }
        if large != 0 {
            scan(|stripe, node| {
                let of = stripe.scope_of(node);
                let is_wanted = large >> stripe.number() & 1 == 1
                    && of.owner.tracker == self.id
                    && scope.is_none_or(|scope| scope == of.id);
                if is_wanted {
                    show(stripe, node);
                }
            });
        }
        Ok(())
    }

    /// Checks the invariants that `core/forest` states, and panics if one does not hold. It is for
    /// tests, when no hook runs.
    #[doc(hidden)]
    pub fn check_invariants(self) -> Result<(), Error> {
        let open = registry::open(self.id)?;
        for number in 0..STRIPES as u8 {
            forest::stripe(number).check_invariants_of(open.state());
        }
        Ok(())
    }
}

/// The way in which a hook reports an end.
#[derive(Clone, Copy)]
pub(crate) enum Report {
    Erased,
    DestroyedAsParent,
    /// The object alone, after its parts of these kinds.
    Destroyed {
        kinds: u32,
    },
}

impl Report {
    /// The cause of the end of the object itself. It sets the culprit.
    #[inline]
    fn cause(self, node: Node, ending: &mut Ending) -> Cause {
        match self {
            Self::Erased => Cause::Erased,
            Self::DestroyedAsParent => Cause::Destroyed,
            Self::Destroyed { .. } => {
                let cause;
                (cause, ending.by) = ATTRIBUTION.with(Cell::get).of_end(reference_of(node));
                cause
            }
        }
    }
}

impl Attribution {
    /// The cause and culprit to record for an end that a source reports.
    fn of_end(self, ended: Ref) -> (Cause, Ref) {
        let Attribution { by, cause } = self;
        let is_itself = by.object == ended.object && (by.epoch == ended.epoch || by.epoch == 0);
        match cause {
            Cause::Unknown => (Cause::Destroyed, Ref::NULL),
            _ if is_itself => (Cause::Erased, Ref::NULL),
            _ => (cause, by),
        }
    }

    /// Makes `self` the cause and culprit of ends that [`Tracker::destroy`] reports on this thread,
    /// until [`leave`](Self::leave). Gives the attribution that was in force before. An end of the
    /// culprit itself is recorded as [`Cause::Erased`].
    pub fn enter(self) -> Attribution {
        ATTRIBUTION.with(|attribution| attribution.replace(self))
    }

    /// Restores the attribution that [`enter`](Self::enter) gave, on the same thread.
    pub fn leave(previous: Attribution) {
        ATTRIBUTION.with(|attribution| attribution.set(previous));
    }
}

#[inline]
fn check_object(object: usize) -> Result<(), Error> {
    match object {
        0 => Err(Error::null(c"the object is null")),
        _ => Ok(()),
    }
}

fn check_kind(kind: Option<u8>) -> Result<(), Error> {
    match kind {
        Some(kind) if kind as usize >= KIND_COUNT => {
            Err(Error::invalid(c"the kind is not below 16"))
        }
        _ => Ok(()),
    }
}

// Nodes --------------------------------------------------------------------------------------------------

/// Ends a node as a hook reports it, with what is below it.
#[inline(never)]
fn end_node(
    state: &TrackerState,
    stripe: &mut Stripe,
    node: Node,
    report: Report,
    ending: &mut Ending,
) {
    let cause = report.cause(node, ending);
    match report {
        Report::Destroyed { kinds } if kinds != 0 => {
            stripe.end_with_parts(state, node, kinds, cause, ending);
        }
        Report::Erased | Report::DestroyedAsParent if !state.is_exact() => {
            ending.by = reference_of(node);
            stripe.end_subtree(state, node, cause, Cause::AncestorDestroyed, ending);
        }
        _ => stripe.end_alone(state, node, cause, ending),
    }
}

/// Locks the stripe of an object's node, if the object is known.
#[inline(always)]
fn lock_node(state: &TrackerState, object: usize) -> Option<(LockGuard<'static, Stripe>, Node)> {
    loop {
        let node = Node::at(state.index.look_up(object)?);
        let number = node.meta().stripe();
        let stripe = forest::stripe(number);
        // Before the lock was taken, the slot may have become another object's or another stripe's.
        if stripe.is_node_of(state, node, object) {
            return Some((stripe, node));
        }
    }
}

/// Ends what is known at an address in another scope than that one, as a missed end. Meanwhile another thread may have
/// ended it, and may have reported the object in the right scope: then its ref is out and stays live.
fn miss_end(state: &TrackerState, object: usize, scope: u64, ending: &mut Ending) {
    if let Some((mut stripe, node)) = lock_node(state, object)
        && stripe.scope_of(node).id != scope
    {
        stripe.end_missed(state, node, ending);
    }
}

/// Shows all nodes that there are, stripe by stripe as they come, a batch of slots at a time.
fn scan(mut show: impl FnMut(&mut Stripe, Node)) {
    let mut slot = 1;
    let end = table::end();
    while slot < end {
        let _guard = fork_lock::read();
        let number = Node::at(slot).meta().stripe();
        let mut stripe = forest::stripe(number);
        let piece = end.min(slot + table::BATCH);
        while slot < piece && Node::at(slot).meta().stripe() == number {
            let node = Node::at(slot);
            if stripe.has_node(node) {
                show(&mut stripe, node);
            }
            slot += 1;
        }
    }
}

/// A reserve with the stripe that it is from. With it, a call that has ended something in another
/// scope cannot be refused any more.
struct Reserved<'a> {
    state: &'a TrackerState,
    number: u8,
    scope: u64,
    ancestors: &'a [usize],
    slots: u32,
    /// `None` only after it was given back.
    reserve: Option<Reserve>,
}

impl<'a> Reserved<'a> {
    /// For a call that names these ancestors, and needs that many slots for other objects.
    fn take(
        state: &'a TrackerState,
        number: u8,
        scope: u64,
        ancestors: &'a [usize],
        others: u32,
    ) -> Result<Self, Error> {
        let slots = others + ancestors.len() as u32;
        let reserve = forest::stripe(number).reserve(state, scope, slots)?;
        Ok(Self {
            state,
            number,
            scope,
            ancestors,
            slots,
            reserve: Some(reserve),
        })
    }

    /// Repeats an attempt to change the tree. Before each repetition, what is in its way in another
    /// scope ends.
    fn retry(
        mut self,
        ending: &mut Ending,
        mut attempt: impl FnMut(&mut Stripe, &mut Ending) -> Registered,
    ) -> Result<(Ref, usize), Error> {
        loop {
            let mut stripe = forest::stripe(self.number);
            if let Some(reserve) = &mut self.reserve {
                stripe.use_reserve(reserve);
            }
            let attempted = attempt(&mut stripe, ending);
            if let Registered::Conflict(object) = attempted {
                if let Some(reserve) = &mut self.reserve {
                    stripe.renew_reserve(reserve, self.slots);
                }
                drop(stripe);
                // All of them at once: each attempt may look at each ancestor.
                for object in [object].iter().chain(self.ancestors) {
                    miss_end(self.state, *object, self.scope, ending);
                }
                continue;
            }
            if let Some(reserve) = self.reserve.take() {
                stripe.give_back(reserve);
            }
            return match attempted {
                Registered::As(reference, user) => Ok((reference, user)),
                Registered::Conflict(_) => unreachable!("it was tried again"),
                Registered::Refused(error) => Err(error),
            };
        }
    }
}

#[cold]
fn register_after_conflicts(
    state: &TrackerState,
    description: &Description,
    is_new: bool,
    ending: &mut Ending,
) -> Result<(Ref, usize), Error> {
    let scope = description.scope;
    let number = forest::stripe_of(state.id, scope);
    let ancestors = description.ancestors.unwrap_or_default();
    let reserved = Reserved::take(state, number, scope, ancestors, 1)?;
    reserved.retry(ending, |stripe, ending| {
        stripe.register(state, description, is_new, ending)
    })
}

#[cold]
fn move_after_conflicts(
    state: &TrackerState,
    object: usize,
    scope: u64,
    ancestors: &[usize],
    ending: &mut Ending,
) -> Result<(), Error> {
    let number = forest::stripe_of(state.id, scope);
    let reserved = Reserved::take(state, number, scope, ancestors, 0)?;
    let moved = reserved.retry(ending, |stripe, _| {
        // Another thread may have ended the object meanwhile, or reported it in another scope. Then
        // there is nothing to move.
        let node = state.index.look_up(object).map(Node::at);
        match node.filter(|node| node.meta().stripe() == number) {
            Some(node) => stripe.relocate(state, node, ancestors),
            None => Registered::As(Ref::NULL, 0),
        }
    });
    moved.map(|_| ())
}

// Refs ---------------------------------------------------------------------------------------------------

/// Runs `look` on a live ref's node under its stripe's lock.
#[inline]
fn with_live<T>(
    reference: Ref,
    look: impl FnOnce(&TrackerState, &mut Stripe, Node) -> T,
) -> Result<T, Error> {
    let node = Node::find(slot_of(reference.epoch)).ok_or(Error::DEAD_REF)?;
    // A live ref's slot stays in its stripe. If the slot changes its stripe before the lock is taken, the ref is dead, or
    // is one that was made up and is given out only now.
    let mut stripe = forest::stripe(node.meta().stripe());
    if !stripe.has_node(node) || !reference.is_live() {
        return Err(Error::DEAD_REF);
    }
    let state = stripe.state_of(node);
    Ok(look(state, &mut stripe, node))
}

impl Ref {
    /// Whether the incarnation is live. It takes no lock, and reads no memory of the object. Any
    /// bits may be asked about, from any thread, for ever (R3).
    #[inline]
    pub fn is_live(self) -> bool {
        table::is_live(self.object, self.epoch)
    }

    /// How a dead ref died, while that is on record (R13). `None` for a live ref, and for one that
    /// was never handed out. Any thread may call it.
    pub fn death(self) -> Option<Death> {
        death_log::find(self)
    }

    /// The caller is no longer interested: the incarnation ends ([`Cause::Released`]). What is
    /// below it stays tracked. Any thread may call it.
    ///
    /// # Errors
    /// [`ErrorKind::DeadRef`](crate::ErrorKind::DeadRef) if the ref is dead.
    pub fn release(self) -> Result<(), Error> {
        let guard = fork_lock::read();
        let (state, ends) = with_live(self, |state, stripe, node| {
            let mut ends = PendingEnds::new(state);
            stripe.release(state, node, &mut Ending::new(ends.list()));
            (state as *const TrackerState, ends)
        })?;
        // SAFETY: as in `Stripe::state_of`. This call has a read guard of the fork lock, and `tell`
        // uses the state only before it gives that up.
        ends.tell(unsafe { &*state }, guard);
        Ok(())
    }

    /// The user pointer that the incarnation carries. It takes no lock, and any thread may call it.
    ///
    /// # Errors
    /// [`ErrorKind::DeadRef`](crate::ErrorKind::DeadRef) if the ref is dead.
    pub fn user(self) -> Result<usize, Error> {
        let node = Node::find(slot_of(self.epoch)).ok_or(Error::DEAD_REF)?;
        let user = node.user();
        // The ref is live after the load, so the pointer was this incarnation's.
        if self.is_live() {
            Ok(user)
        } else {
            Err(Error::DEAD_REF)
        }
    }

    /// Replaces the user pointer. Any thread may call it.
    ///
    /// # Errors
    /// [`ErrorKind::DeadRef`](crate::ErrorKind::DeadRef) if the ref is dead.
    pub fn set_user(self, user: usize) -> Result<(), Error> {
        let _guard = fork_lock::read();
        with_live(self, |_, _, node| node.set_user(user))
    }

    /// The nearest tracked ancestor, by the ancestors last reported. Any thread may call it.
    ///
    /// # Errors
    /// [`ErrorKind::DeadRef`](crate::ErrorKind::DeadRef) if the ref is dead.
    pub fn parent(self) -> Result<Option<Ref>, Error> {
        let _guard = fork_lock::read();
        with_live(self, |state, stripe, node| {
            stripe.tracked_parent(state, node)
        })
    }

    /// The nearest tracked descendants with their user pointers, in no particular order. Any thread
    /// may call it.
    ///
    /// # Errors
    /// [`ErrorKind::DeadRef`](crate::ErrorKind::DeadRef) if the ref is dead.
    pub fn children(self) -> Result<Vec<(Ref, usize)>, Error> {
        let mut found = Vec::new();
        let listed = {
            let _guard = fork_lock::read();
            let show = |node: Node| found.push((reference_of(node), node.user()));
            with_live(self, |_, stripe, node| stripe.tracked_children(node, show))?
        };
        if let Limited::TooMuch = listed {
            found.clear();
            scan(|stripe, node| {
                if stripe.is_tracked_child(node, self) {
                    found.push((reference_of(node), node.user()));
                }
            });
            // The answer is right only if the ref was live all the time.
            if !self.is_live() {
                return Err(Error::DEAD_REF);
            }
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use super::*;

    fn describe(object: usize, ancestors: Option<&[usize]>) -> Description<'_> {
        Description {
            object,
            scope: 5,
            ancestors,
            ..Default::default()
        }
    }

    /// Registers an object and releases it, more often than a slot has generations. No epoch comes
    /// twice.
    fn use_slots_up(tracker: Tracker, meanwhile: impl Fn(Ref)) {
        let (mut epochs, mut slots) = (HashSet::new(), HashSet::new());
        for round in 0..250_000 {
            let (held, _) = tracker.track(&describe(0x1000, None)).unwrap();
            assert!(
                epochs.insert(held.epoch),
                "an epoch comes twice, in round {round}"
            );
            assert!(held.is_live());
            slots.insert(slot_of(held.epoch));
            meanwhile(held);
            held.release().unwrap();
        }
        assert!(slots.len() >= 3, "{slots:?}");
    }

    /// In tests a slot has 100,000 generations.
    #[test]
    fn r02_a_used_up_slot_is_retired() {
        let tracker = Tracker::new("exhaustion").unwrap();
        use_slots_up(tracker, |_| ());
        // With a child, the released object keeps its node.
        let (child, _) = tracker.track(&describe(0x2000, Some(&[0x1000]))).unwrap();
        use_slots_up(tracker, |held| assert_eq!(child.parent(), Ok(Some(held))));
        assert!(child.is_live());
        tracker.check_invariants().unwrap();
        tracker.erase(0x1000).unwrap();
        assert!(!child.is_live());
        tracker.destroy_tracker().unwrap();
    }

    /// A check answers while another thread holds every lock of the core.
    #[test]
    fn r03_a_check_takes_no_lock() {
        let tracker = Tracker::new("locks").unwrap();
        let (live, _) = tracker.track(&describe(0x1000, None)).unwrap();
        let (dead, _) = tracker.track(&describe(0x3000, None)).unwrap();
        tracker.erase(0x3000).unwrap();
        let open = registry::open(tracker.id).unwrap();
        let shards = open.state().index.lock_all();
        let stripes: Vec<_> = (0..STRIPES as u8).map(forest::stripe).collect();
        let registry = registry::hold_registry();
        let (say, answer) = mpsc::channel();
        thread::spawn(move || {
            let checks = (live.is_live(), dead.is_live());
            let questions = (live.user(), dead.death().map(|death| death.cause));
            say.send((checks, questions, tracker.destroy(0x7777)))
                .unwrap();
        });
        let answer = answer.recv_timeout(Duration::from_secs(20));
        drop((registry, stripes, shards));
        let (checks, questions, stranger) = answer.expect("a check waits for a lock");
        assert_eq!(checks, (true, false));
        assert_eq!(questions, (Ok(0), Some(Cause::Erased)));
        assert_eq!(
            stranger,
            Ok(()),
            "neither does the report of an object that nobody tracks"
        );
        drop(open);
        tracker.destroy_tracker().unwrap();
    }
}
