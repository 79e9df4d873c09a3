// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The trees of known objects, cut into stripes.
//!
//! All objects of one scope belong to one stripe, which is chosen by hashing. The stripe's lock
//! guards them. So a whole subtree is under one lock, and scopes (MLIR: contexts) rarely wait for
//! one another. A node is a slot of the table. Its [`State`] says what it stands for.
//!
//! # Who does what
//!
//! - Only `links.rs` changes links between nodes, and drops superfluous nodes ([`Stripe::settle`]).
//! - `place.rs` registers objects and puts nodes where reports say. `end.rs` ends them, and
//!   `list.rs` reads them.
//! - This file has the stripe itself, with its scopes and its free slots.
//!
//! # Invariants, whenever a stripe's lock is free
//!
//! [`Stripe::check_invariants`] checks them. The model tests run it after their steps.
//! - A placeholder or tracked node is in its tracker's index, and nothing else is.
//! - A node's children form a doubly linked list that starts at `first_child`. The nodes of a scope
//!   without a parent form one that starts at the scope's `roots`.
//! - Parent links have no cycle, and stay within one scope.
//! - A placeholder has a child. A gone node has two or more.
//! - A scope's and a tracker's counts are those of their nodes.

mod end;
mod links;
mod list;
mod place;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

pub use self::end::{Ending, Found, end_leaf_at};
pub use self::list::{Entry, Limited};
pub use self::place::{Registered, check_ancestors, reference_of};
use super::SPREAD;
use super::state::TrackerState;
use super::sync::{CachePadded, Lock, LockGuard, Ordering, array_of, lock, process_static};
use super::table::{self, BATCH, MAX_SCOPES_PER_STRIPE, NONE, Node, STRIPE_BITS, Slot, State};
use crate::{Error, KIND_COUNT};

pub const STRIPES: usize = 1 << STRIPE_BITS;

process_static! {
    static FOREST: [CachePadded<Lock<Stripe>>; STRIPES] =
        array_of![CachePadded(lock::new(Stripe::new())); STRIPES];
}

/// A stripe keeps this many free slots for itself, and gives surplus back in batches.
const MOST_FREE: u32 = 2 * BATCH;

/// The stripe that a scope belongs to.
pub fn stripe_of(tracker: u64, scope: u64) -> u8 {
    let mixed = (scope ^ tracker.rotate_left(32)).wrapping_mul(SPREAD);
    (mixed >> (64 - STRIPE_BITS)) as u8
}

/// Locks a stripe. The caller has a read guard of the fork lock, and no other stripe's lock.
#[inline]
pub fn stripe(number: u8) -> LockGuard<'static, Stripe> {
    let mut stripe = FOREST[number as usize].0.lock();
    // The number is set here, since the elements of the static are made by one constant.
    stripe.number = number;
    stripe
}

/// Locks a stripe unless somebody has it locked.
#[inline]
fn try_stripe(number: u8) -> Option<LockGuard<'static, Stripe>> {
    let mut stripe = FOREST[number as usize].0.try_lock()?;
    stripe.number = number;
    Some(stripe)
}

/// Whether nobody has the stripe locked.
#[cfg(all(test, shuttle))]
pub fn is_free(number: u8) -> bool {
    !FOREST[number as usize].0.is_locked()
}

/// A scope of a tracker, for as long as it has nodes.
pub struct Scope {
    pub owner: Owner,
    pub id: u64,
    roots: Slot,
    /// How many nodes there are, in whatever state.
    nodes: u32,
    /// How many incarnations are live, by kind.
    tracked: [u32; KIND_COUNT],
    /// How many reserves need the scope; see [`Reserve`].
    pins: u32,
    /// The tracker's scopes in this stripe form a list. This is the next one, as a number plus 1; 0
    /// is none.
    next: u32,
    /// The previous scope in that list, likewise.
    previous: u32,
}

/// The tracker that a scope belongs to: its handle, and the state behind that.
#[derive(Clone, Copy)]
pub struct Owner {
    pub tracker: u64,
    state: *const TrackerState,
}

// SAFETY: the pointer leads to a `TrackerState`, which is `Sync`. Only `state_of` and
// `drop_empty_scope` follow it, and say why they may.
unsafe impl Send for Owner {}

impl Owner {
    pub fn of(state: &TrackerState) -> Self {
        Self {
            tracker: state.id,
            state,
        }
    }
}

pub struct Stripe {
    number: u8,
    /// The first of the free slots, which are linked through `next`.
    free: Slot,
    /// How many free slots there are.
    free_count: u32,
    /// How many of the free slots are those of a reserve in use, which are not to be given back.
    reserved: u32,
    scopes: Vec<Option<Scope>>,
    scope_numbers: Option<HashMap<(u64, u64), u32, BuildHasherDefault<ScopeHasher>>>,
    free_scopes: Vec<u32>,
    /// The scope that was looked up last. The next look-up is mostly of the same one.
    last_scope: ((u64, u64), u32),
    /// A scope that has become empty and is kept, since the same one is often filled again.
    empty_scope: Option<u32>,
    /// Nodes that the operation under way has taken a child from. They may be superfluous.
    touched: Vec<Slot>,
    /// The nodes of a list of ancestors, while they are being placed.
    path: Vec<Slot>,
    /// Where in the death log this stripe writes its deaths.
    deaths: super::death_log::Writer,
}

/// Slots and a scope that a call has set aside. With them, nothing can refuse the call once it has
/// begun to change something. [`Stripe::give_back`] ends a reserve.
pub struct Reserve {
    scope: u32,
    slots: Slot,
    count: u32,
}

impl Stripe {
    const fn new() -> Self {
        Self {
            number: 0,
            free: NONE,
            free_count: 0,
            reserved: 0,
            scopes: Vec::new(),
            scope_numbers: None,
            free_scopes: Vec::new(),
            last_scope: ((0, 0), 0),
            empty_scope: None,
            touched: Vec::new(),
            path: Vec::new(),
            deaths: super::death_log::Writer::new(),
        }
    }

    pub fn number(&self) -> u8 {
        self.number
    }

    /// Whether a node of this stripe stands for that object of that tracker.
    #[inline]
    pub fn is_node_of(&self, state: &TrackerState, node: Node, object: usize) -> bool {
        // Looked at once: a slot in a batch may become another stripe's between two looks.
        let meta = node.meta();
        meta.stripe() == self.number
            && meta.has_address()
            && node.is_at(object)
            && self.scope(meta.scope()).owner.tracker == state.id
    }

    /// Whether the slot has a node, and the node is this stripe's.
    #[inline]
    pub fn has_node(&self, node: Node) -> bool {
        let meta = node.meta();
        meta.stripe() == self.number && !meta.is(State::Free) && !meta.is(State::Retired)
    }

    // Scopes -------------------------------------------------------------------------------------------

    #[inline]
    fn scope(&self, number: u32) -> &Scope {
        self.scopes[number as usize]
            .as_ref()
            .expect("a node's scope exists")
    }

    #[inline]
    fn scope_mut(&mut self, number: u32) -> &mut Scope {
        self.scopes[number as usize]
            .as_mut()
            .expect("a node's scope exists")
    }

    /// The scope of a node that this stripe guards.
    #[inline]
    pub fn scope_of(&self, node: Node) -> &Scope {
        self.scope(node.meta().scope())
    }

    /// The state of the tracker that a node of this stripe belongs to.
    #[inline]
    pub fn state_of<'a>(&self, node: Node) -> &'a TrackerState {
        // SAFETY: the state outlives the tracker's nodes. It also outlives every call that found it
        // by a node: `registry::destroy` frees it after it has held the fork lock exclusively.
        // Callers have a read guard of the fork lock, and keep the reference no longer than that.
        unsafe { &*self.scope_of(node).owner.state }
    }

    #[inline]
    pub fn find_scope(&mut self, tracker: u64, id: u64) -> Option<u32> {
        let key = (tracker, id);
        if self.last_scope.0 == key {
            return Some(self.last_scope.1);
        }
        let number = *self.scope_numbers.as_ref()?.get(&key)?;
        self.last_scope = (key, number);
        Some(number)
    }

    #[inline]
    fn scope_for(&mut self, state: &TrackerState, id: u64) -> Result<u32, Error> {
        match self.find_scope(state.id, id) {
            Some(number) => Ok(number),
            None => self.add_scope(state, id),
        }
    }

    #[cold]
    fn add_scope(&mut self, state: &TrackerState, id: u64) -> Result<u32, Error> {
        let no_memory = |_| Error::limit(c"there is no memory for another scope");
        let numbers = self.scope_numbers.get_or_insert_default();
        numbers.try_reserve(1).map_err(no_memory)?;
        if self.free_scopes.is_empty() {
            let number = self.scopes.len() as u32;
            if number >= MAX_SCOPES_PER_STRIPE {
                return Err(Error::limit(c"too many scopes are in use at once"));
            }
            self.scopes.try_reserve(1).map_err(no_memory)?;
            // There is room for all scopes, so that dropping one needs no memory.
            let all = self.scopes.len() + 1;
            self.free_scopes.try_reserve(all).map_err(no_memory)?;
            self.scopes.push(None);
            self.free_scopes.push(number);
        }
        let number = self.free_scopes.pop().expect("one was added");
        numbers.insert((state.id, id), number);
        let first = &state.counters(self.number).first_scope;
        let next = first.load(Ordering::Relaxed);
        first.store(number + 1, Ordering::Relaxed);
        if next != 0 {
            self.scope_mut(next - 1).previous = number + 1;
        }
        self.scopes[number as usize] = Some(Scope {
            owner: Owner::of(state),
            id,
            roots: NONE,
            nodes: 0,
            tracked: [0; KIND_COUNT],
            pins: 0,
            next,
            previous: 0,
        });
        self.last_scope = ((state.id, id), number);
        Ok(number)
    }

    /// Notes that a scope is empty, if it has no nodes.
    #[inline]
    fn note_if_empty(&mut self, number: u32) {
        if self.scope(number).nodes == 0 {
            self.note_empty(number);
        }
    }

    #[inline]
    fn note_empty(&mut self, number: u32) {
        if self.empty_scope != Some(number) {
            self.drop_empty_scope();
            self.empty_scope = Some(number);
        }
    }

    #[cold]
    fn drop_empty_scope(&mut self) {
        let Some(number) = self.empty_scope.take() else {
            return;
        };
        let scope = self.scope(number);
        if scope.nodes != 0 || scope.pins != 0 {
            return; // It is in use again.
        }
        let (tracker, id, next, previous) =
            (scope.owner.tracker, scope.id, scope.next, scope.previous);
        match previous {
            0 => {
                // SAFETY: `registry::destroy` drops a tracker's scopes before it frees the state.
                let state = unsafe { &*scope.owner.state };
                let first = &state.counters(self.number).first_scope;
                first.store(next, Ordering::Relaxed);
            }
            _ => self.scope_mut(previous - 1).next = next,
        }
        if next != 0 {
            self.scope_mut(next - 1).previous = previous;
        }
        if let Some(numbers) = &mut self.scope_numbers {
            numbers.remove(&(tracker, id));
        }
        self.scopes[number as usize] = None;
        self.free_scopes.push(number); // Its place was reserved when the scope was added.
        self.last_scope = ((0, 0), 0);
        if self.free_scopes.len() == self.scopes.len() && self.scopes.len() > 1000 {
            // All of many scopes are gone. Their memory is given back.
            self.free_scopes = Vec::new();
            self.scopes = Vec::new();
            self.scope_numbers = None;
        }
    }

    /// The first of a tracker's scopes in this stripe.
    pub fn first_scope(&self, state: &TrackerState) -> Option<u32> {
        let first = state
            .counters(self.number)
            .first_scope
            .load(Ordering::Relaxed);
        first.checked_sub(1)
    }

    fn next_scope(&self, number: u32) -> Option<u32> {
        self.scope(number).next.checked_sub(1)
    }

    /// Drops an empty scope of a tracker that is being destroyed, at once.
    pub fn forget_scope(&mut self, number: u32) {
        if self.empty_scope != Some(number) {
            self.drop_empty_scope();
        }
        self.empty_scope = Some(number);
        self.drop_empty_scope();
    }

    /// Checks the invariants of what a tracker has in this stripe.
    pub fn check_invariants_of(&self, state: &TrackerState) {
        let mut next = self.first_scope(state);
        while let Some(scope) = next {
            self.check_invariants(scope);
            next = self.next_scope(scope);
        }
    }

    /// How many incarnations are live in a scope, of one kind or of all.
    pub fn count(&self, scope: u32, kind: Option<u8>) -> usize {
        let tracked = &self.scope(scope).tracked;
        match kind {
            Some(kind) => tracked[kind as usize] as usize,
            None => tracked.iter().map(|count| *count as usize).sum(),
        }
    }

    // Slots --------------------------------------------------------------------------------------------

    /// Makes sure that `count` slots are free. Taking them cannot fail then.
    #[inline]
    fn ensure(&mut self, count: u32) -> Result<(), Error> {
        if self.free_count >= count {
            return Ok(());
        }
        self.fetch_slots(count)
    }

    #[cold]
    fn fetch_slots(&mut self, count: u32) -> Result<(), Error> {
        while self.free_count < count {
            let full = Error::limit(c"the slot table is full, or there is no memory for it");
            let (first, added) = table::take_batch(self.number).ok_or(full)?;
            let mut last = Node::at(first);
            while let next @ 1.. = last.cold.next.load(Ordering::Relaxed) {
                last = Node::at(next);
            }
            last.cold.next.store(self.free, Ordering::Relaxed);
            self.free = first;
            self.free_count += added;
        }
        Ok(())
    }

    /// Takes a free slot. [`ensure`](Self::ensure) has made sure that there is one.
    #[inline]
    fn take_slot(&mut self) -> Node {
        let node = Node::at(self.free);
        self.free = node.cold.next.load(Ordering::Relaxed);
        self.free_count -= 1;
        node
    }

    /// Frees the slot of a node that has no links and is not in the index. A used-up slot is
    /// retired.
    #[inline]
    fn give_slot_back(&mut self, node: Node) {
        if node.is_used_up() {
            node.set_state(State::Retired);
            return;
        }
        node.set_state(State::Free);
        node.cold.next.store(self.free, Ordering::Relaxed);
        self.free = node.slot;
        self.free_count += 1;
        if self.has_surplus() {
            self.return_batch();
        }
    }

    /// Whether there are free slots for others. What a reserve has set aside is not: a use of it may have to be
    /// repeated.
    #[inline]
    fn has_surplus(&self) -> bool {
        self.free_count >= self.reserved + MOST_FREE + BATCH
    }

    #[cold]
    fn return_batch(&mut self) {
        // The newest free slots are kept, since they are in the cache.
        let mut last_kept = Node::at(self.free);
        for _ in 1..MOST_FREE {
            last_kept = Node::at(last_kept.cold.next.load(Ordering::Relaxed));
        }
        let first = last_kept.cold.next.load(Ordering::Relaxed);
        let mut last = Node::at(first);
        for _ in 1..BATCH {
            last = Node::at(last.cold.next.load(Ordering::Relaxed));
        }
        let rest = last.cold.next.load(Ordering::Relaxed);
        last.cold.next.store(NONE, Ordering::Relaxed);
        last_kept.cold.next.store(rest, Ordering::Relaxed);
        self.free_count -= BATCH;
        table::give_batch(first);
    }

    /// Sets a scope and slots aside for a call that frees the lock in between.
    pub fn reserve(
        &mut self,
        state: &TrackerState,
        scope: u64,
        slots: u32,
    ) -> Result<Reserve, Error> {
        let scope = self.scope_for(state, scope)?;
        self.note_if_empty(scope);
        self.ensure(slots)?;
        let mut reserve = Reserve {
            scope,
            slots: NONE,
            count: 0,
        };
        self.renew_reserve(&mut reserve, slots);
        self.scope_mut(scope).pins += 1;
        Ok(reserve)
    }

    /// Makes the slots of a reserve free slots. The caller renews the reserve before it frees the
    /// lock.
    pub fn use_reserve(&mut self, reserve: &mut Reserve) {
        self.reserved = reserve.count;
        while reserve.count > 0 {
            let node = Node::at(reserve.slots);
            reserve.slots = node.cold.next.load(Ordering::Relaxed);
            reserve.count -= 1;
            node.cold.next.store(self.free, Ordering::Relaxed);
            self.free = node.slot;
            self.free_count += 1;
        }
    }

    /// Sets as many slots aside again, after a use that took none of them; or one less, if it put an
    /// object into a new slot, since it needs no other then.
    pub fn renew_reserve(&mut self, reserve: &mut Reserve, slots: u32) {
        self.reserved = 0;
        while reserve.count < slots && self.free_count > 0 {
            let node = self.take_slot();
            node.cold.next.store(reserve.slots, Ordering::Relaxed);
            reserve.slots = node.slot;
            reserve.count += 1;
        }
        debug_assert!(reserve.count + 1 >= slots, "slots are lost");
    }

    /// Ends a reserve. Its slots are free.
    pub fn give_back(&mut self, mut reserve: Reserve) {
        self.use_reserve(&mut reserve);
        self.reserved = 0;
        self.scope_mut(reserve.scope).pins -= 1;
        self.note_if_empty(reserve.scope);
        while self.has_surplus() {
            self.return_batch();
        }
    }
}

/// A fast hasher for keys that nobody chooses to collide.
#[derive(Default)]
struct ScopeHasher(u64);

impl Hasher for ScopeHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes
            .iter()
            .for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0.rotate_left(29) ^ number).wrapping_mul(SPREAD);
        // The table takes the bucket from the low bits, which the product does not mix.
        self.0 ^= self.0 >> 32;
    }
}

impl std::ops::Drop for Reserve {
    fn drop(&mut self) {
        debug_assert_eq!(self.count, 0, "slots are lost");
    }
}
