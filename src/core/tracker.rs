// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Trackers: what the hooks, the registration and the questions do, over [`super::forest`].

use std::cell::Cell;
use std::ptr;
use std::sync::Arc;

use super::forest::{self, Conflict, Ending, Entry, STRIPES, Stripe};
use super::index::Index;
use super::sync::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicU64, CachePadded, Lock, Ordering, fork_lock, lock,
};
use super::table::{self, Node, State, slot_of};
use crate::{Attribution, Cause, Death, Description, End, Error, KIND_COUNT, Ref, Stats, Visit};

/// How many trackers there can be at once.
const MAX_TRACKERS: usize = 256;

/// A tracker's share of one stripe. Written under the stripe's lock, read without it.
#[derive(Default)]
pub struct Share {
    nodes: AtomicU32,
    tracked: [AtomicU32; KIND_COUNT],
    ended: AtomicU64,
    released: AtomicU64,
    missed_ends: AtomicU64,
}

/// Is told of ends; see [`Tracker::set_observer`].
pub type Observer = Arc<dyn Fn(&[End]) + Send + Sync>;

/// What is behind a tracker's handle. Never freed, so that a late call finds something to be refused by;
/// the next tracker takes it over.
pub struct Inner {
    /// The handle of the tracker that uses it now; 0 for none.
    id: AtomicU64,
    pub index: Index,
    pub stripes: [CachePadded<Share>; STRIPES],
    /// Bit n: the tracker may have nodes in stripe n.
    busy: AtomicU32,
    exact_sources: AtomicU32,
    observed: AtomicBool,
    observer: Lock<Option<Observer>>,
    name: Lock<String>,
}

/// The handle's low byte says which of these.
static TRACKERS: [AtomicPtr<Inner>; MAX_TRACKERS] =
    [const { AtomicPtr::new(ptr::null_mut()) }; MAX_TRACKERS];
/// The number of the next tracker; guards the making and ending of trackers too.
static NEXT_SERIAL: Lock<u64> = lock::new(1);

thread_local! {
    static ATTRIBUTION: Cell<Attribution> = const { Cell::new(Attribution::NONE) };
}

fn bump(counter: &AtomicU64) {
    counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

fn step(counter: &AtomicU32, by: i32) -> u32 {
    let now = counter.load(Ordering::Relaxed).wrapping_add_signed(by);
    counter.store(now, Ordering::Relaxed);
    now
}

impl Share {
    pub fn add_node(&self, tracker: &Inner, stripe: u8) {
        step(&self.nodes, 1);
        // Looked at first: hooks of all threads read this line, so it must not be written without need.
        if tracker.busy.load(Ordering::Relaxed) & 1 << stripe == 0 {
            tracker.busy.fetch_or(1 << stripe, Ordering::Release);
        }
    }

    pub fn remove_node(&self) {
        step(&self.nodes, -1);
    }

    /// Takes the stripe's bit back if there are no nodes in it. Not done by every removal, since objects that come
    /// and go one at a time would then have all threads fight over the bits.
    pub fn settle(&self, tracker: &Inner, stripe: u8) {
        if self.nodes.load(Ordering::Relaxed) == 0 {
            tracker.busy.fetch_and(!(1 << stripe), Ordering::Release);
        }
    }

    pub fn count_start(&self, kind: u8) {
        step(&self.tracked[kind as usize], 1);
    }

    pub fn count_end(&self, kind: u8, cause: Cause) {
        step(&self.tracked[kind as usize], -1);
        bump(match cause {
            Cause::Released => &self.released,
            _ => &self.ended,
        });
        if cause == Cause::MissedEnd {
            bump(&self.missed_ends);
        }
    }
}

/// A tracker: the registry of live objects of one binding library. This is its handle, a copyable number; the
/// tracker lives until [`destroy_tracker`](Tracker::destroy_tracker).
///
/// Every method may be called from any thread, also inside a destructor of the framework. Methods that are
/// *hooks* take an unknown address for an ordinary answer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Tracker {
    id: u64,
}

#[inline]
fn inner_of(id: u64) -> Option<&'static Inner> {
    let inner = TRACKERS[id as usize % MAX_TRACKERS].load(Ordering::Acquire);
    // SAFETY: entries are null or point to an `Inner` that was leaked for good.
    let inner = unsafe { inner.as_ref() }?;
    (id != 0 && inner.id.load(Ordering::Acquire) == id).then_some(inner)
}

/// Collects ends while locks are held, and tells the observer of them afterwards (R15).
struct Notice {
    inner: &'static Inner,
    is_wanted: bool,
    ends: Vec<End>,
}

impl Notice {
    #[inline]
    fn new(inner: &'static Inner) -> Self {
        Self {
            inner,
            is_wanted: inner.observed.load(Ordering::Acquire),
            ends: Vec::new(),
        }
    }

    /// Where to put ends, if anybody wants to hear of them.
    #[inline]
    fn list(&mut self) -> Option<&mut Vec<End>> {
        self.is_wanted.then_some(&mut self.ends)
    }

    #[inline]
    fn deliver(self) {
        if self.is_wanted {
            tell(self.inner, &self.ends);
        }
    }
}

#[cold]
fn tell(inner: &Inner, ends: &[End]) {
    let pass = fork_lock::read();
    let observer = inner.observer.lock().clone();
    drop(pass);
    if let Some(observer) = observer.filter(|_| !ends.is_empty()) {
        observer(ends);
    }
}

impl Tracker {
    // Trackers -----------------------------------------------------------------------------------------

    /// Makes a tracker. `name` is for reports.
    pub fn new(name: &str) -> Result<Self, Error> {
        let _pass = fork_lock::read();
        let mut serial = NEXT_SERIAL.lock();
        for (position, entry) in TRACKERS.iter().enumerate() {
            let mut known = entry.load(Ordering::Acquire);
            if known.is_null() {
                known = Box::into_raw(Box::new(Inner::new()));
                entry.store(known, Ordering::Release);
            }
            // SAFETY: not null, and leaked for good.
            let inner: &'static Inner = unsafe { &*known };
            if inner.id.load(Ordering::Acquire) == 0 {
                *inner.name.lock() = name.to_owned();
                let id = *serial * MAX_TRACKERS as u64 + position as u64;
                *serial += 1;
                inner.id.store(id, Ordering::Release);
                return Ok(Self { id });
            }
        }
        Err(Error::limit(
            c"256 trackers exist already; destroy one, or share one",
        ))
    }

    /// The handle as a number; 0 is no tracker's.
    pub fn to_raw(self) -> u64 {
        self.id
    }

    /// The handle that [`to_raw`](Self::to_raw) gave. Any number may be tried: methods answer
    /// [`Error::NO_TRACKER`] for one that is no tracker's.
    pub fn from_raw(id: u64) -> Self {
        Self { id }
    }

    fn inner(self) -> Result<&'static Inner, Error> {
        inner_of(self.id).ok_or(Error::NO_TRACKER)
    }

    /// Ends everything in the tracker ([`Cause::ScopeCleared`]) and the tracker itself. Its refs stay safe to
    /// ask about, and are dead.
    pub fn destroy_tracker(self) -> Result<(), Error> {
        let pass = fork_lock::read();
        let serial = NEXT_SERIAL.lock();
        let inner = self.inner()?;
        // From here on nobody gets in any more; whoever holds a stripe's lock is done before we get it.
        inner.id.store(0, Ordering::Release);
        let mut notice = Notice::new(inner);
        for number in 0..STRIPES {
            let mut stripe = forest::stripe(number as u8).lock();
            for scope in stripe.scopes_of(self.id) {
                let mut ending = Ending::now(Ref::NULL, notice.list());
                stripe.clear_scope(inner, scope, &mut ending);
            }
            inner.stripes[number].0.settle(inner, number as u8);
            stripe.forget_scopes_of(self.id);
        }
        inner.index.shrink();
        for share in &inner.stripes {
            let share = &share.0;
            for counter in [&share.ended, &share.released, &share.missed_ends] {
                counter.store(0, Ordering::Relaxed);
            }
        }
        inner.exact_sources.store(0, Ordering::Release);
        inner.observed.store(false, Ordering::Release);
        let observer = inner.observer.lock().take();
        drop(serial);
        drop(pass);
        if let Some(observer) = observer
            && !notice.ends.is_empty()
        {
            observer(&notice.ends);
        }
        Ok(())
    }

    /// Sets who is told of ends, or `None`. Called on the thread of the hook, after the state has changed and
    /// with no lock held: it may call the tracker. A call that has begun on another thread may still be
    /// running when the observer has been replaced.
    pub fn set_observer(self, observer: Option<Observer>) -> Result<(), Error> {
        let old;
        {
            let _pass = fork_lock::read();
            let inner = self.inner()?;
            let mut place = inner.observer.lock();
            inner.observed.store(observer.is_some(), Ordering::Release);
            old = std::mem::replace(&mut *place, observer);
        }
        drop(old); // Runs foreign code, so not under the lock.
        Ok(())
    }

    pub fn stats(self) -> Result<Stats, Error> {
        let inner = self.inner()?;
        let mut stats = Stats {
            internal_errors: crate::internal_errors(),
            ..Stats::default()
        };
        let mut nodes = 0;
        for share in &inner.stripes {
            let share = &share.0;
            nodes += share.nodes.load(Ordering::Relaxed) as usize;
            let tracked = share
                .tracked
                .iter()
                .map(|count| count.load(Ordering::Relaxed) as usize);
            stats.tracked += tracked.sum::<usize>();
            stats.ended += share.ended.load(Ordering::Relaxed);
            stats.released += share.released.load(Ordering::Relaxed);
            stats.missed_ends += share.missed_ends.load(Ordering::Relaxed);
        }
        stats.created = stats.tracked as u64 + stats.ended + stats.released;
        stats.anchors = nodes.saturating_sub(stats.tracked);
        stats.exact_sources = inner.exact_sources.load(Ordering::Acquire);
        Ok(stats)
    }

    /// The name that the tracker was given.
    pub fn name(self) -> Result<String, Error> {
        let _pass = fork_lock::read();
        Ok(self.inner()?.name.lock().clone())
    }

    /// States that a source now reports every destruction (R10). Sources nest.
    pub fn exact_begin(self) -> Result<(), Error> {
        self.inner()?.exact_sources.fetch_add(1, Ordering::AcqRel);
        Ok(())
    }

    /// Takes one [`exact_begin`](Self::exact_begin) back.
    pub fn exact_end(self) -> Result<(), Error> {
        let sources = &self.inner()?.exact_sources;
        let less = |active: u32| active.checked_sub(1);
        match sources.fetch_update(Ordering::AcqRel, Ordering::Acquire, less) {
            Ok(_) => Ok(()),
            Err(_) => Err(Error::not_active(c"no exact source is active")),
        }
    }

    /// Whether an exact source is active. A handle that is no tracker's is not exact.
    pub fn is_exact(self) -> bool {
        inner_of(self.id).is_some_and(Inner::is_exact)
    }

    // Registration -------------------------------------------------------------------------------------

    /// Registers a *new* object: whatever is still live at its address has ended unseen
    /// ([`Cause::MissedEnd`]), and so has what was below it (R6).
    pub fn create(self, description: &Description) -> Result<Ref, Error> {
        self.register(description, true).map(|(created, _)| created)
    }

    /// Registers an object that *exists*: gives the incarnation that is live there with its user pointer, or
    /// starts to track it.
    ///
    /// What is live there in another scope, or is of another kind, was another object, whose end nobody
    /// reported.
    pub fn track(self, description: &Description) -> Result<(Ref, usize), Error> {
        self.register(description, false)
    }

    fn register(self, description: &Description, is_new: bool) -> Result<(Ref, usize), Error> {
        let Description {
            object,
            scope,
            kind,
            ancestors,
            user,
        } = *description;
        if object == 0 {
            return Err(Error::null(c"the object is null"));
        }
        if kind as usize >= KIND_COUNT {
            return Err(Error::invalid(c"the kind is not below 16"));
        }
        // A refused call changes nothing: whatever ends something here checks first.
        let check = || ancestors.map_or(Ok(()), |list| forest::check_ancestors(object, list));
        let pass = fork_lock::read();
        let inner = self.inner()?;
        let mut notice = Notice::new(inner);
        let number = forest::stripe_of(self.id, scope);
        let registered = loop {
            let mut stripe = forest::stripe(number).lock();
            // A tracker that is being destroyed clears each stripe under its lock: after that, no more.
            if inner.id.load(Ordering::Acquire) != self.id {
                break Err(Error::NO_TRACKER);
            }
            let placed = stripe.node_in_scope(inner, self.id, number, scope, object);
            let (node, is_new_node) = match placed {
                Ok(Ok(found)) => found,
                Ok(Err(Conflict(object))) => {
                    drop(stripe);
                    if let Err(error) = check() {
                        break Err(error);
                    }
                    self.miss_end(inner, object, &mut notice);
                    continue;
                }
                Err(error) => break Err(error),
            };
            if !is_new_node {
                let meta = node.cold.meta();
                let is_tracked = meta.is(State::Tracked);
                if (is_new || is_tracked && meta.kind() != kind)
                    && let Err(error) = check()
                {
                    break Err(error);
                }
                if is_tracked && (is_new || meta.kind() != kind) {
                    let mut ending = Ending::now(reference_of(node), notice.list());
                    let cause = Cause::MissedEnd;
                    stripe.end_subtree(inner, node, cause, cause, &mut ending);
                    continue;
                }
                if is_new {
                    let mut ending = Ending::now(reference_of(node), notice.list());
                    stripe.end_below(inner, node, Cause::MissedEnd, &mut ending);
                }
            }
            if let Some(ancestors) = ancestors {
                match stripe.place(inner, node, ancestors) {
                    Ok(Ok(())) => {}
                    Ok(Err(Conflict(ancestor))) => {
                        stripe.discard(inner, node);
                        drop(stripe);
                        self.miss_end(inner, ancestor, &mut notice);
                        continue;
                    }
                    Err(error) => {
                        stripe.discard(inner, node);
                        break Err(error);
                    }
                }
            }
            if node.cold.meta().is(State::Tracked) {
                let user = node.cold.user.load(Ordering::Relaxed);
                break Ok((reference_of(node), user));
            }
            let node = if node.hot.is_used_up() {
                match stripe.renew(inner, node) {
                    Ok(renewed) => renewed,
                    Err(error) => {
                        stripe.discard(inner, node);
                        break Err(error);
                    }
                }
            } else {
                node
            };
            break Ok((stripe.start(inner, node, kind, user), user));
        };
        drop(pass);
        notice.deliver();
        registered
    }

    /// Ends what is known at an address, in whatever scope, as a missed end.
    fn miss_end(self, inner: &'static Inner, object: usize, notice: &mut Notice) {
        self.with_node(inner, object, |stripe, node| {
            let mut ending = Ending::now(reference_of(node), notice.list());
            let cause = Cause::MissedEnd;
            stripe.end_subtree(inner, node, cause, cause, &mut ending);
        });
    }

    /// The live incarnation at an address, with its user pointer (R16).
    pub fn find(self, object: usize) -> Result<(Ref, usize), Error> {
        let _pass = fork_lock::read();
        let inner = self.inner()?;
        inner
            .index
            .get(object)
            .and_then(|slot| {
                let node = Node::at(slot);
                let epoch = node.live_epoch()?;
                let user = node.cold.user.load(Ordering::Acquire);
                // Still live, so the user pointer was that incarnation's.
                table::is_live(object, epoch).then_some((Ref { object, epoch }, user))
            })
            .ok_or(Error::NOT_TRACKED)
    }

    // Hooks --------------------------------------------------------------------------------------------

    /// Runs `change` on the node of an object under its stripe's lock. Does nothing for an unknown object.
    #[inline]
    fn with_node(
        self,
        inner: &'static Inner,
        object: usize,
        change: impl FnOnce(&mut Stripe, Node),
    ) {
        while let Some(slot) = inner.index.get(object) {
            let node = Node::at(slot);
            let mut stripe = forest::stripe(node.cold.meta().stripe()).lock();
            if self.is_tenant(&stripe, node, object) {
                change(&mut stripe, node);
                return;
            }
        }
    }

    /// Whether a slot that the index gave still is the node of that object, now that its stripe is locked: it may
    /// have got another tenant meanwhile.
    #[inline]
    fn is_tenant(self, stripe: &Stripe, node: Node, object: usize) -> bool {
        !node.cold.meta().is(State::Free)
            && node.hot.object() == object
            && stripe.owner(node) == self.id
    }

    /// Whether the tracker certainly has nothing at an address: then a hook has nothing to do. Nearly all reports
    /// of destructions are of such addresses.
    #[inline]
    pub(crate) fn lacks(self, object: usize) -> bool {
        inner_of(self.id).is_some_and(|inner| !inner.may_have(object))
    }

    /// A hook that ends things at or below `object`.
    #[inline]
    fn end_at(
        self,
        object: usize,
        end: impl FnOnce(&'static Inner, &mut Stripe, Node, &mut Notice),
    ) -> Result<(), Error> {
        self.hook(object, |inner, notice| {
            self.with_node(inner, object, |stripe, node| {
                end(inner, stripe, node, notice)
            });
        })
    }

    /// What every hook that ends something has around it: nothing is done for an address that the tracker lacks,
    /// and the observer hears of the ends when all locks are free.
    #[inline]
    fn hook(
        self,
        object: usize,
        work: impl FnOnce(&'static Inner, &mut Notice),
    ) -> Result<(), Error> {
        let inner = self.inner()?;
        if !inner.may_have(object) {
            return Ok(());
        }
        let mut notice = Notice::new(inner);
        {
            let _pass = fork_lock::read();
            work(inner, &mut notice);
        }
        notice.deliver();
        Ok(())
    }

    /// The framework erases `object` now, with everything below it (R4).
    ///
    /// In exact mode `object` alone ends here: what is below it ends as its own destruction is reported
    /// (R10), since moves that nobody reported may have taken it elsewhere.
    pub fn erase(self, object: usize) -> Result<(), Error> {
        self.end_with_all_below(object, Cause::Erased)
    }

    /// `object` is destroyed as the parent of what is below it (R4). Like [`erase`](Self::erase), but the
    /// cause on record is [`Cause::Destroyed`].
    pub fn parent_destroy(self, object: usize) -> Result<(), Error> {
        self.end_with_all_below(object, Cause::Destroyed)
    }

    fn end_with_all_below(self, object: usize, cause: Cause) -> Result<(), Error> {
        self.end_at(object, |inner, stripe, node, notice| {
            if inner.is_exact() {
                let mut ending = Ending::now(Ref::NULL, notice.list());
                stripe.end_alone(inner, node, cause, &mut ending);
            } else {
                let mut ending = Ending::now(reference_of(node), notice.list());
                stripe.end_subtree(inner, node, cause, Cause::AncestorDestroyed, &mut ending);
            }
        })
    }

    /// The memory of exactly `object` goes away now (R7). Costs a load and a branch when the tracker is
    /// empty.
    #[inline]
    pub fn destroy(self, object: usize) -> Result<(), Error> {
        self.destroy_with(object, 0)
    }

    /// As [`destroy`](Self::destroy), together with those direct children whose kind is in `kinds` (bit k is
    /// kind k): the parts that nobody reports one by one, such as a block's arguments.
    pub fn destroy_with(self, object: usize, kinds: u32) -> Result<(), Error> {
        self.hook(object, |inner, notice| {
            self.destroy_known(inner, object, kinds, notice);
        })
    }

    fn destroy_known(self, inner: &'static Inner, object: usize, kinds: u32, notice: &mut Notice) {
        let attribution = ATTRIBUTION.get();
        let cause = match attribution.cause {
            Cause::Unknown => Cause::Destroyed,
            _ if attribution.by.object == object => Cause::Erased,
            given => given,
        };
        // A tracked object leaves the index at once, in the look-up that finds it. From then on its address is
        // free, and its epoch says whether it still is the one that was found.
        let mut epoch = None;
        while let Some(found) = inner.index.take_if(object, |slot| {
            epoch = Node::at(slot).live_epoch();
            epoch.is_some()
        }) {
            let (Ok(slot) | Err(slot)) = found;
            let node = Node::at(slot);
            let mut stripe = forest::stripe(node.cold.meta().stripe()).lock();
            let is_same = match epoch {
                Some(_) => node.live_epoch() == epoch,
                None => self.is_tenant(&stripe, node, object),
            };
            if !is_same {
                continue; // Another thread was faster.
            }
            if kinds != 0 {
                let mut ending = Ending::now(reference_of(node), notice.list());
                stripe.end_parts(inner, node, kinds, &mut ending);
            }
            let mut ending = Ending::now(attribution.by, notice.list());
            if epoch.is_some() {
                stripe.end_unindexed(inner, node, cause, &mut ending);
            } else {
                stripe.end_alone(inner, node, cause, &mut ending);
            }
            return;
        }
    }

    /// `object` has new ancestors, nearest first and complete up to the outermost, and takes all below it
    /// along (R8).
    pub fn move_to(self, object: usize, ancestors: &[usize]) -> Result<(), Error> {
        let pass = fork_lock::read();
        let inner = self.inner()?;
        let mut notice = Notice::new(inner);
        let mut placed = Ok(Ok(()));
        loop {
            self.with_node(inner, object, |stripe, node| {
                placed = stripe.place(inner, node, ancestors);
            });
            match placed {
                Ok(Err(Conflict(ancestor))) => self.miss_end(inner, ancestor, &mut notice),
                _ => break,
            }
            placed = Ok(Ok(()));
        }
        drop(pass);
        notice.deliver();
        placed.map(|_| ())
    }

    /// `object` has no parent any more (R8).
    pub fn detach(self, object: usize) -> Result<(), Error> {
        self.move_to(object, &[])
    }

    /// Something that cannot be observed changed the inside of `root`: everything strictly below it ends,
    /// unless an exact source is active (R9).
    pub fn opaque_mutation(self, root: usize) -> Result<(), Error> {
        self.end_at(root, |inner, stripe, node, notice| {
            if !inner.is_exact() {
                let mut ending = Ending::now(reference_of(node), notice.list());
                stripe.end_below(inner, node, Cause::OpaqueMutation, &mut ending);
                stripe.discard(inner, node);
            }
        })
    }

    /// Ends everything in a scope.
    pub fn clear_scope(self, scope: u64) -> Result<(), Error> {
        let inner = self.inner()?;
        let mut notice = Notice::new(inner);
        {
            let _pass = fork_lock::read();
            let number = forest::stripe_of(self.id, scope);
            let mut stripe = forest::stripe(number).lock();
            if let Some(scope) = stripe.find_scope(self.id, scope) {
                let mut ending = Ending::now(Ref::NULL, notice.list());
                stripe.clear_scope(inner, scope, &mut ending);
            }
            inner.stripes[number as usize].0.settle(inner, number);
        }
        if inner.busy.load(Ordering::Acquire) == 0 {
            let _pass = fork_lock::read();
            inner.index.shrink();
        }
        notice.deliver();
        Ok(())
    }

    // Questions ----------------------------------------------------------------------------------------

    /// How many incarnations are live: of a scope or all, of a kind or all (R14).
    pub fn count(self, scope: Option<u64>, kind: Option<u8>) -> Result<usize, Error> {
        check_kind(kind)?;
        let inner = self.inner()?;
        if let Some(scope) = scope {
            let _pass = fork_lock::read();
            let mut stripe = forest::stripe(forest::stripe_of(self.id, scope)).lock();
            let found = stripe.find_scope(self.id, scope);
            return Ok(found.map_or(0, |scope| stripe.tracked(scope, kind).len()));
        }
        let of_share = |share: &CachePadded<Share>| -> usize {
            let tracked = &share.0.tracked;
            let load = |count: &AtomicU32| count.load(Ordering::Relaxed) as usize;
            match kind {
                Some(kind) => load(&tracked[kind as usize]),
                None => tracked.iter().map(load).sum(),
            }
        };
        Ok(inner.stripes.iter().map(of_share).sum())
    }

    /// Visits a snapshot of what is live, with no lock held, until the visit says [`Visit::Stop`].
    pub fn for_each(
        self,
        scope: Option<u64>,
        kind: Option<u8>,
        mut visit: impl FnMut(Ref, usize) -> Visit,
    ) -> Result<(), Error> {
        check_kind(kind)?;
        let mut found = Vec::new();
        self.with_scopes(scope, |stripe, number| {
            found.extend(stripe.tracked(number, kind))
        })?;
        for (tracked, user) in found {
            if visit(tracked, user) == Visit::Stop {
                break;
            }
        }
        Ok(())
    }

    /// All nodes, for reports; scopes are taken one stripe at a time.
    pub(crate) fn entries(self) -> Result<Vec<Entry>, Error> {
        let mut entries = Vec::new();
        self.with_scopes(None, |stripe, number| stripe.entries(number, &mut entries))?;
        Ok(entries)
    }

    fn with_scopes(
        self,
        scope: Option<u64>,
        mut look: impl FnMut(&Stripe, u32),
    ) -> Result<(), Error> {
        let _pass = fork_lock::read();
        self.inner()?;
        match scope {
            Some(scope) => {
                let mut stripe = forest::stripe(forest::stripe_of(self.id, scope)).lock();
                if let Some(number) = stripe.find_scope(self.id, scope) {
                    look(&stripe, number);
                }
            }
            None => {
                for number in 0..STRIPES {
                    let stripe = forest::stripe(number as u8).lock();
                    for scope in stripe.scopes_of(self.id) {
                        look(&stripe, scope);
                    }
                }
            }
        }
        Ok(())
    }
}

impl Inner {
    fn new() -> Self {
        Self {
            id: AtomicU64::new(0),
            index: Index::new(),
            stripes: std::array::from_fn(|_| CachePadded::default()),
            busy: AtomicU32::new(0),
            exact_sources: AtomicU32::new(0),
            observed: AtomicBool::new(false),
            observer: lock::new(None),
            name: lock::new(String::new()),
        }
    }

    fn is_exact(&self) -> bool {
        self.exact_sources.load(Ordering::Acquire) != 0
    }

    #[inline]
    fn may_have(&self, object: usize) -> bool {
        self.busy.load(Ordering::Acquire) != 0 && self.index.may_contain(object)
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

/// A node as a ref, with epoch 0 if it is not tracked.
fn reference_of(node: Node) -> Ref {
    Ref {
        object: node.hot.object(),
        epoch: node.live_epoch().unwrap_or(0),
    }
}

// Refs ---------------------------------------------------------------------------------------------------

/// Runs `look` on a live ref's node under its stripe's lock.
#[inline]
fn with_live<T>(
    reference: Ref,
    look: impl FnOnce(&mut Stripe, Node, &'static Inner) -> T,
) -> Result<T, Error> {
    let node = Node::find(slot_of(reference.epoch)).ok_or(Error::DEAD_REF)?;
    let mut stripe = forest::stripe(node.cold.meta().stripe()).lock();
    if !reference.is_live() {
        return Err(Error::DEAD_REF);
    }
    let position = stripe.owner(node) as usize % MAX_TRACKERS;
    // SAFETY: the entry is that of a tracker which has a node, so it is not null; it was leaked for good.
    // (The tracker may be in its last moments: its handle is 0 already, its nodes not yet gone.)
    let inner = unsafe { TRACKERS[position].load(Ordering::Acquire).as_ref() };
    let inner = inner.ok_or(Error::internal(c"a live ref without a tracker"))?;
    Ok(look(&mut stripe, node, inner))
}

impl Ref {
    /// Whether the incarnation is live. Lock-free; any bits may be asked about, from any thread, for ever
    /// (R3).
    #[inline]
    pub fn is_live(self) -> bool {
        table::is_live(self.object, self.epoch)
    }

    /// How a dead ref died, while that is on record (R13). `None` for a live one, or one that was never
    /// given out.
    pub fn death(self) -> Option<Death> {
        let _pass = fork_lock::read();
        let node = Node::find(slot_of(self.epoch))?;
        forest::stripe(node.cold.meta().stripe()).lock().death(self)
    }

    /// Ends the caller's interest: the incarnation ends ([`Cause::Released`]) and its slot is free.
    pub fn release(self) -> Result<(), Error> {
        let pass = fork_lock::read();
        let notice = with_live(self, |stripe, node, inner| {
            let mut notice = Notice::new(inner);
            let mut ending = Ending::now(Ref::NULL, notice.list());
            stripe.release(inner, node, &mut ending);
            notice
        });
        drop(pass);
        notice.map(Notice::deliver)
    }

    pub fn user(self) -> Result<usize, Error> {
        let node = Node::find(slot_of(self.epoch)).ok_or(Error::DEAD_REF)?;
        let user = node.cold.user.load(Ordering::Acquire);
        // Still live after the load, so it was this incarnation's.
        if self.is_live() {
            Ok(user)
        } else {
            Err(Error::DEAD_REF)
        }
    }

    pub fn set_user(self, user: usize) -> Result<(), Error> {
        let _pass = fork_lock::read();
        with_live(self, |_, node, _| {
            node.cold.user.store(user, Ordering::Release)
        })
    }

    /// The nearest tracked ancestor, by the ancestors last reported.
    pub fn parent(self) -> Result<Option<Ref>, Error> {
        let _pass = fork_lock::read();
        with_live(self, |stripe, node, _| stripe.tracked_parent(node))
    }

    /// The nearest tracked descendants with their user pointers, in no particular order.
    pub fn children(self) -> Result<Vec<(Ref, usize)>, Error> {
        let _pass = fork_lock::read();
        with_live(self, |stripe, node, _| stripe.tracked_children(node))
    }
}

impl Attribution {
    /// Puts the ends that an exact source reports on this thread down to `self`, until
    /// [`leave`](Self::leave). Gives what was in force before.
    pub fn enter(self) -> Attribution {
        ATTRIBUTION.replace(self)
    }

    /// Back to what [`enter`](Self::enter) gave.
    pub fn leave(previous: Attribution) {
        ATTRIBUTION.set(previous);
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

    /// A slot is retired when its generations are used up (tests make do with 100,000), also while its object
    /// stays in the tree as an anchor; no epoch comes twice.
    #[test]
    fn r02_a_used_up_slot_is_retired() {
        let tracker = Tracker::new("exhaustion").unwrap();
        let mut epochs = HashSet::new();
        let mut slots = HashSet::new();
        for round in 0..250_000 {
            let (held, _) = tracker.track(&describe(0x1000, Some(&[]))).unwrap();
            assert!(
                epochs.insert(held.epoch),
                "epoch given out twice in round {round}"
            );
            slots.insert(slot_of(held.epoch));
            held.release().unwrap();
        }
        assert!(slots.len() >= 3, "{slots:?}");

        // Now with a child, so that the released object keeps its node.
        let (child, _) = tracker.track(&describe(0x2000, Some(&[0x1000]))).unwrap();
        slots.clear();
        for round in 0..250_000 {
            let (held, _) = tracker.track(&describe(0x1000, None)).unwrap();
            assert!(
                epochs.insert(held.epoch),
                "epoch given out twice in round {round}"
            );
            assert!(held.is_live() && child.parent().unwrap() == Some(held));
            slots.insert(slot_of(held.epoch));
            held.release().unwrap();
        }
        assert!(slots.len() >= 3, "{slots:?}");
        assert!(child.is_live());
        tracker.erase(0x1000).unwrap();
        assert!(!child.is_live());
        tracker.destroy_tracker().unwrap();
    }

    /// A check answers while every lock that there is is held by somebody else.
    #[test]
    fn r03_a_check_takes_no_lock() {
        let tracker = Tracker::new("locks").unwrap();
        let (live, _) = tracker.track(&describe(0x1000, None)).unwrap();
        let (dead, _) = tracker.track(&describe(0x3000, None)).unwrap();
        tracker.erase(0x3000).unwrap();
        let stripes: Vec<_> = (0..STRIPES)
            .map(|n| forest::stripe(n as u8).lock())
            .collect();
        let serial = NEXT_SERIAL.lock();
        let inner = tracker.inner().unwrap();
        let shards = inner.index.lock_all();
        let (say, answer) = mpsc::channel();
        thread::spawn(move || {
            let answers = (
                live.is_live(),
                dead.is_live(),
                live.user(),
                tracker.destroy(0x7777),
            );
            say.send(answers).unwrap();
        });
        let answer = answer.recv_timeout(Duration::from_secs(20));
        drop((stripes, serial, shards));
        let (live_now, dead_now, user, miss) = answer.expect("a check waits for a lock");
        assert!(live_now && !dead_now && user == Ok(0));
        assert_eq!(
            miss,
            Ok(()),
            "neither does the report of an object that nobody tracks"
        );
        tracker.destroy_tracker().unwrap();
    }
}
