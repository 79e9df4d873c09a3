// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The trees of live objects, cut into stripes.
//!
//! All objects of one scope belong to one stripe, chosen by hashing, and are guarded by its lock: a whole
//! subtree is under one lock, and scopes (MLIR: contexts) rarely wait for one another. A node is a slot of the
//! table; it is *tracked*, or an *anchor*: an untracked object that has something tracked below it, or had it when its
//! own end was reported ([`GONE`]).
//!
//! Invariants, whenever a stripe's lock is free:
//! - a node is in its tracker's index, and nothing else is; only a node whose own destruction has been reported
//!   may be out of it already, so that its address is free for another;
//! - a node's children form a doubly linked list that starts at `first_child`; the nodes without a parent
//!   form one that starts at the scope's `roots`;
//! - parent links have no cycle, and stay within one scope;
//! - an anchor has a child (it may lack one for a moment, inside a method).

use std::collections::HashMap;

use super::SPREAD;
use super::quarantine::Quarantine;
use super::sync::{CachePadded, Lock, Ordering, lock, now_ns};
use super::table::{self, MAX_SCOPES_PER_STRIPE, Meta, NONE, Node, STRIPE_BITS, Slot, State};
use super::tracker::{Inner, Share};
use crate::{Cause, Death, End, Error, Ref};

pub const STRIPES: usize = 1 << STRIPE_BITS;

static FOREST: [CachePadded<Lock<Stripe>>; STRIPES] =
    [const { CachePadded(lock::new(Stripe::new())) }; STRIPES];

/// The object of a node that has ended alone and had others below it. It stays until they are gone: to move them up
/// would cost a destructor time for each, and mostly their own ends follow at once. No object has this address.
const GONE: usize = 0;

/// How many fresh slots a stripe takes from the table at once.
const BATCH: u32 = 64;

/// Which stripe a scope belongs to.
pub fn stripe_of(tracker: u64, scope: u64) -> u8 {
    let mixed = (scope ^ tracker.rotate_left(32)).wrapping_mul(SPREAD);
    (mixed >> (64 - STRIPE_BITS)) as u8
}

pub fn stripe(number: u8) -> &'static Lock<Stripe> {
    &FOREST[number as usize].0
}

/// A scope of a tracker, for as long as it has nodes.
struct Scope {
    tracker: u64,
    id: u64,
    roots: Slot,
}

pub struct Stripe {
    /// Slots that may be used again, linked through `next`.
    free: Slot,
    fresh: Slot,
    fresh_end: Slot,
    scopes: Vec<Scope>,
    scope_numbers: Option<HashMap<(u64, u64), u32>>,
    free_scopes: Vec<u32>,
    /// The scope that was asked for last: the next question is mostly the same.
    last_scope: ((u64, u64), u32),
    /// A scope that has become empty and is kept, since the same one is often filled again. At most one is.
    empty_scope: Option<u32>,
    quarantine: Quarantine,
}

/// Why and when a group of objects ends, and who wants to hear of it.
pub struct Ending<'a> {
    pub by: Ref,
    pub time_ns: u64,
    /// The ends, for the tracker's observer, if it has one.
    pub ends: Option<&'a mut Vec<End>>,
}

impl<'a> Ending<'a> {
    pub fn now(by: Ref, ends: Option<&'a mut Vec<End>>) -> Self {
        Self {
            by,
            time_ns: now_ns(),
            ends,
        }
    }
}

/// A node as reports see it.
pub struct Entry {
    pub object: usize,
    /// 0 for an anchor.
    pub epoch: u64,
    /// Position of the parent in the list of entries.
    pub parent: Option<usize>,
    pub scope: u64,
    pub kind: u8,
    pub user: usize,
}

/// What stands in the way of a placement: an ancestor that is known in another scope. Addresses are unique,
/// so the object of that scope must have ended without a report.
pub struct Conflict(pub usize);

fn get(link: &super::sync::AtomicU32) -> Slot {
    link.load(Ordering::Relaxed)
}

fn set(link: &super::sync::AtomicU32, slot: Slot) {
    link.store(slot, Ordering::Relaxed);
}

impl Stripe {
    const fn new() -> Self {
        Self {
            free: NONE,
            fresh: NONE,
            fresh_end: NONE,
            scopes: Vec::new(),
            scope_numbers: None,
            free_scopes: Vec::new(),
            last_scope: ((0, 0), 0),
            empty_scope: None,
            quarantine: Quarantine::new(),
        }
    }

    // Scopes -------------------------------------------------------------------------------------------

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
    fn scope_for(&mut self, tracker: u64, id: u64) -> Result<u32, Error> {
        if let Some(number) = self.find_scope(tracker, id) {
            return Ok(number);
        }
        self.add_scope(tracker, id)
    }

    #[cold]
    fn add_scope(&mut self, tracker: u64, id: u64) -> Result<u32, Error> {
        let scope = Scope {
            tracker,
            id,
            roots: NONE,
        };
        let number = match self.free_scopes.pop() {
            Some(number) => {
                self.scopes[number as usize] = scope;
                number
            }
            None => {
                let number = self.scopes.len() as u32;
                if number >= MAX_SCOPES_PER_STRIPE {
                    return Err(Error::limit(c"too many scopes are in use at once"));
                }
                self.scopes.push(scope);
                number
            }
        };
        self.scope_numbers
            .get_or_insert_default()
            .insert((tracker, id), number);
        self.last_scope = ((tracker, id), number);
        Ok(number)
    }

    /// Lets a scope go that has no nodes (any more).
    #[inline]
    fn note_if_empty(&mut self, number: u32) {
        if self.scopes[number as usize].roots == NONE && self.empty_scope != Some(number) {
            self.drop_empty_scope();
            self.empty_scope = Some(number);
        }
    }

    #[cold]
    fn drop_empty_scope(&mut self) {
        let Some(number) = self.empty_scope.take() else {
            return;
        };
        let scope = &self.scopes[number as usize];
        if scope.roots != NONE {
            return; // Filled again.
        }
        if let Some(numbers) = &mut self.scope_numbers {
            numbers.remove(&(scope.tracker, scope.id));
        }
        self.free_scopes.push(number);
        self.last_scope = ((0, 0), 0);
    }

    pub fn scopes_of(&self, tracker: u64) -> Vec<u32> {
        let numbers = self.scope_numbers.iter().flatten();
        numbers
            .filter(|((owner, _), _)| *owner == tracker)
            .map(|(_, number)| *number)
            .collect()
    }

    /// Which tracker a node belongs to.
    #[inline]
    pub fn owner(&self, node: Node) -> u64 {
        self.scopes[node.cold.meta().scope() as usize].tracker
    }

    // Slots --------------------------------------------------------------------------------------------

    #[inline]
    fn take_slot(&mut self, stripe: u8) -> Result<Node, Error> {
        if self.free == NONE {
            return self.take_fresh_slot(stripe);
        }
        let node = Node::at(self.free);
        self.free = get(&node.cold.next);
        Ok(node)
    }

    #[cold]
    fn take_fresh_slot(&mut self, stripe: u8) -> Result<Node, Error> {
        if self.fresh == self.fresh_end {
            let full = Error::limit(c"the slot table is full, or there is no memory for it");
            self.fresh = table::reserve(BATCH, stripe).ok_or(full)?;
            self.fresh_end = self.fresh + BATCH;
        }
        let node = Node::at(self.fresh);
        self.fresh += 1;
        Ok(node)
    }

    #[inline]
    fn give_slot_back(&mut self, node: Node) {
        node.cold.set_meta(node.cold.meta().with(0, State::Free));
        if !node.hot.is_used_up() {
            set(&node.cold.next, self.free);
            self.free = node.slot;
        }
    }

    /// The slot of an object's node, and whether it is new: then it is an anchor without a parent, in the scope. A
    /// node that was there may belong to any scope.
    #[inline]
    fn get_or_add_node(
        &mut self,
        tracker: &Inner,
        stripe: u8,
        scope: u32,
        object: usize,
    ) -> Result<(Slot, bool), Error> {
        let (slot, is_new) = tracker.index.get_or_insert(object, || {
            let node = self.take_slot(stripe)?;
            node.cold
                .set_meta(Meta::new(stripe, scope, 0, State::Anchor));
            set(&node.cold.first_child, NONE);
            node.hot.set_object(object);
            Ok(node.slot)
        })?;
        if is_new {
            self.attach(Node::at(slot), NONE);
            tracker.stripes[stripe as usize].0.add_node(tracker, stripe);
        }
        Ok((slot, is_new))
    }

    /// Takes a node without children, and not tracked, out of everything.
    #[inline]
    fn remove_node(&mut self, tracker: &Inner, node: Node) {
        if node.hot.object() != GONE {
            tracker.index.remove(node.hot.object(), node.slot);
            share_of(tracker, node).remove_node();
        }
        self.unlink(node);
    }

    /// Takes a node without children out of its tree.
    #[inline]
    fn unlink(&mut self, node: Node) {
        debug_assert_eq!(get(&node.cold.first_child), NONE);
        self.detach(node);
        self.give_slot_back(node);
        self.note_if_empty(node.cold.meta().scope());
    }

    // Links --------------------------------------------------------------------------------------------

    fn set_first(&mut self, parent: Slot, scope: u32, first: Slot) {
        if parent == NONE {
            self.scopes[scope as usize].roots = first;
        } else {
            set(&Node::at(parent).cold.first_child, first);
        }
    }

    #[inline]
    fn attach(&mut self, node: Node, parent: Slot) {
        let first = if parent == NONE {
            let roots = &mut self.scopes[node.cold.meta().scope() as usize].roots;
            std::mem::replace(roots, node.slot)
        } else {
            let parent = Node::at(parent).cold;
            let first = get(&parent.first_child);
            set(&parent.first_child, node.slot);
            first
        };
        set(&node.cold.parent, parent);
        set(&node.cold.previous, NONE);
        set(&node.cold.next, first);
        if first != NONE {
            set(&Node::at(first).cold.previous, node.slot);
        }
    }

    #[inline]
    fn detach(&mut self, node: Node) {
        let (previous, next) = (get(&node.cold.previous), get(&node.cold.next));
        if previous == NONE {
            self.set_first(get(&node.cold.parent), node.cold.meta().scope(), next);
        } else {
            set(&Node::at(previous).cold.next, next);
        }
        if next != NONE {
            set(&Node::at(next).cold.previous, previous);
        }
    }

    /// Puts a node below another parent, or below none.
    fn relink(&mut self, tracker: &Inner, node: Node, parent: Slot) {
        let old = get(&node.cold.parent);
        if old == parent {
            return;
        }
        self.detach(node);
        self.attach(node, parent);
        self.prune(tracker, old);
    }

    /// Drops anchors, from `slot` upwards, that have nothing below them any more (R12).
    #[inline]
    fn prune(&mut self, tracker: &Inner, mut slot: Slot) {
        while slot != NONE {
            let node = Node::at(slot);
            if !node.cold.meta().is(State::Anchor) || get(&node.cold.first_child) != NONE {
                return;
            }
            slot = get(&node.cold.parent);
            self.remove_node(tracker, node);
        }
    }

    /// Gives all children of a node to `parent`.
    #[inline]
    fn give_children(&mut self, node: Node, parent: Slot) {
        loop {
            let child = get(&node.cold.first_child);
            if child == NONE {
                return;
            }
            self.detach(Node::at(child));
            self.attach(Node::at(child), parent);
        }
    }

    // Registration -------------------------------------------------------------------------------------

    /// The node of an object in a scope, and whether it is new. New ones are anchors without a parent: start or
    /// discard them. `Err(Conflict)` inside: the object is known in another scope.
    #[inline]
    pub fn node_in_scope(
        &mut self,
        tracker: &Inner,
        tracker_id: u64,
        stripe: u8,
        scope: u64,
        object: usize,
    ) -> Result<Result<(Node, bool), Conflict>, Error> {
        let scope = self.scope_for(tracker_id, scope)?;
        match self.get_or_add_node(tracker, stripe, scope, object) {
            Ok((slot, is_new)) if is_new || is_in_scope(Node::at(slot), stripe, scope) => {
                Ok(Ok((Node::at(slot), is_new)))
            }
            other => {
                self.note_if_empty(scope);
                other.map(|_| Err(Conflict(object)))
            }
        }
    }

    /// Starts an incarnation of an anchor's object. Its slot must not be used up.
    #[inline]
    pub fn start(&mut self, tracker: &Inner, node: Node, kind: u8, user: usize) -> Ref {
        let meta = node.cold.meta();
        node.cold.set_meta(meta.with(kind, State::Tracked));
        node.cold.user.store(user, Ordering::Relaxed);
        share_of(tracker, node).count_start(kind);
        Ref {
            object: node.hot.object(),
            epoch: node.hot.publish(node.slot),
        }
    }

    /// Replaces an anchor whose slot is used up by one with a slot that is not.
    #[cold]
    pub fn renew(&mut self, tracker: &Inner, old: Node) -> Result<Node, Error> {
        let meta = old.cold.meta();
        let new = self.take_slot(meta.stripe())?;
        new.cold.set_meta(meta);
        set(&new.cold.first_child, NONE);
        new.hot.set_object(old.hot.object());
        tracker.index.replace(old.hot.object(), new.slot);
        self.attach(new, get(&old.cold.parent));
        self.give_children(old, new.slot);
        self.detach(old);
        self.give_slot_back(old);
        Ok(new)
    }

    /// Drops a node that was added but not started, with the anchors that only it needed.
    pub fn discard(&mut self, tracker: &Inner, node: Node) {
        self.prune(tracker, node.slot);
    }

    /// Puts a node where its ancestors say: nearest first, complete up to the outermost.
    pub fn place(
        &mut self,
        tracker: &Inner,
        placed: Node,
        ancestors: &[usize],
    ) -> Result<Result<(), Conflict>, Error> {
        // Most reports repeat what is known: follow the links as long as they agree.
        let mut node = placed;
        let mut known = 0;
        loop {
            let parent = get(&node.cold.parent);
            match ancestors.get(known) {
                None if parent == NONE => return Ok(Ok(())),
                Some(ancestor) if parent != NONE && is_at(Node::at(parent), *ancestor) => {
                    node = Node::at(parent);
                    known += 1;
                }
                _ => break,
            }
        }
        let meta = placed.cold.meta();
        let (scope, stripe) = (meta.scope(), meta.stripe());
        // Often only this link is new, and what encloses it is known to be where the report says.
        if let Some(ancestor) = ancestors.get(known)
            && let Some(slot) = tracker.index.get(*ancestor)
            && is_in_scope(Node::at(slot), stripe, scope)
            && leads_up_through(Node::at(slot), &ancestors[known + 1..], node)
        {
            self.relink(tracker, node, slot);
            return Ok(Ok(()));
        }
        check_ancestors(placed.hot.object(), ancestors)?;
        let missing = &ancestors[known..];
        for ancestor in missing {
            if let Some(other) = tracker.index.get(*ancestor)
                && !is_in_scope(Node::at(other), stripe, scope)
            {
                return Ok(Err(Conflict(*ancestor)));
            }
        }
        // From the outermost inwards, so that each node gets a parent whose own place is already right:
        // what is below `node` now is moved out of its way first, and no cycle can close.
        let mut parent = NONE;
        for ancestor in missing.iter().rev() {
            let enclosing = match self.get_or_add_node(tracker, stripe, scope, *ancestor) {
                Ok((slot, is_new)) if is_new || is_in_scope(Node::at(slot), stripe, scope) => slot,
                // Another stripe has put it in since the check above, or there is no slot.
                other => {
                    self.prune(tracker, parent);
                    return other.map(|_| Err(Conflict(*ancestor)));
                }
            };
            self.relink(tracker, Node::at(enclosing), parent);
            parent = enclosing;
        }
        self.relink(tracker, node, parent);
        Ok(Ok(()))
    }

    // Ends ---------------------------------------------------------------------------------------------

    /// Ends a node's incarnation, if it is tracked; the node becomes an anchor.
    #[inline]
    fn end_incarnation(&mut self, tracker: &Inner, node: Node, cause: Cause, ending: &mut Ending) {
        let meta = node.cold.meta();
        if !meta.is(State::Tracked) {
            return;
        }
        let ended = Ref {
            object: node.hot.object(),
            epoch: node.hot.end(),
        };
        let by = if ending.by == ended {
            Ref::NULL
        } else {
            ending.by
        };
        let kind = meta.kind();
        let death = Death {
            by,
            time_ns: ending.time_ns,
            cause,
            kind,
        };
        self.quarantine.record(node, ended, death);
        node.cold.set_meta(meta.with(kind, State::Anchor));
        share_of(tracker, node).count_end(kind, cause);
        if let Some(ends) = &mut ending.ends {
            ends.push(End {
                reference: ended,
                death,
                scope: self.scopes[meta.scope() as usize].id,
                user: user_of(node),
            });
        }
    }

    /// Ends everything strictly below a node (R4, R9). The node itself stays, also as a bare anchor.
    pub fn end_below(&mut self, tracker: &Inner, top: Node, cause: Cause, ending: &mut Ending) {
        let mut node = top;
        loop {
            loop {
                match get(&node.cold.first_child) {
                    NONE => break,
                    child => node = Node::at(child),
                }
            }
            if node.slot == top.slot {
                return;
            }
            let parent = get(&node.cold.parent);
            self.end_incarnation(tracker, node, cause, ending);
            self.remove_node(tracker, node);
            node = Node::at(parent);
        }
    }

    /// Ends a node with everything below it.
    pub fn end_subtree(
        &mut self,
        tracker: &Inner,
        node: Node,
        cause: Cause,
        cause_below: Cause,
        ending: &mut Ending,
    ) {
        self.end_below(tracker, node, cause_below, ending);
        self.end_alone(tracker, node, cause, ending);
    }

    /// Ends a node alone (R7); what is below it stays below everything that encloses the node (R5).
    #[inline]
    pub fn end_alone(&mut self, tracker: &Inner, node: Node, cause: Cause, ending: &mut Ending) {
        tracker.index.remove(node.hot.object(), node.slot);
        self.end_unindexed(tracker, node, cause, ending);
    }

    /// The same for a node that is not in the index any more.
    #[inline]
    pub fn end_unindexed(
        &mut self,
        tracker: &Inner,
        node: Node,
        cause: Cause,
        ending: &mut Ending,
    ) {
        self.end_incarnation(tracker, node, cause, ending);
        share_of(tracker, node).remove_node();
        if get(&node.cold.first_child) != NONE {
            node.hot.set_object(GONE);
            return;
        }
        let parent = get(&node.cold.parent);
        self.unlink(node);
        self.prune(tracker, parent);
    }

    /// Ends those tracked children of a node whose kind is in `kinds`, with what is below them.
    pub fn end_parts(&mut self, tracker: &Inner, node: Node, kinds: u32, ending: &mut Ending) {
        let mut next = get(&node.cold.first_child);
        while next != NONE {
            let child = Node::at(next);
            let meta = child.cold.meta();
            next = get(&child.cold.next);
            if meta.is(State::Tracked) && kinds >> meta.kind() & 1 == 1 {
                let cause = Cause::AncestorDestroyed;
                self.end_below(tracker, child, cause, ending);
                self.end_incarnation(tracker, child, cause, ending);
                self.remove_node(tracker, child);
            }
        }
    }

    /// Ends a node's incarnation for the caller's part (R12): the node goes if nothing is below it.
    #[inline]
    pub fn release(&mut self, tracker: &Inner, node: Node, ending: &mut Ending) {
        self.end_incarnation(tracker, node, Cause::Released, ending);
        self.prune(tracker, node.slot);
    }

    /// Ends everything in a scope.
    pub fn clear_scope(&mut self, tracker: &Inner, scope: u32, ending: &mut Ending) {
        loop {
            let root = self.scopes[scope as usize].roots;
            if root == NONE {
                return;
            }
            let root = Node::at(root);
            self.end_below(tracker, root, Cause::ScopeCleared, ending);
            self.end_incarnation(tracker, root, Cause::ScopeCleared, ending);
            self.remove_node(tracker, root);
        }
    }

    /// Forgets the scope that is kept empty, if it is a tracker's that ends.
    pub fn forget_scopes_of(&mut self, tracker: u64) {
        if self
            .empty_scope
            .is_some_and(|number| self.scopes[number as usize].tracker == tracker)
        {
            self.drop_empty_scope();
        }
    }

    // Questions ----------------------------------------------------------------------------------------

    pub fn death(&self, dead: Ref) -> Option<Death> {
        self.quarantine.find(dead)
    }

    /// The nearest tracked ancestor of a node.
    pub fn tracked_parent(&self, node: Node) -> Option<Ref> {
        let mut next = get(&node.cold.parent);
        while next != NONE {
            let node = Node::at(next);
            if node.cold.meta().is(State::Tracked) {
                return live_ref(node);
            }
            next = get(&node.cold.parent);
        }
        None
    }

    /// The nearest tracked descendants of a node, with their user pointers.
    pub fn tracked_children(&self, node: Node) -> Vec<(Ref, usize)> {
        let mut found = Vec::new();
        walk(get(&node.cold.first_child), node.slot, |node| {
            found.extend(live_ref(node).map(|child| (child, user_of(node))));
            !node.cold.meta().is(State::Tracked)
        });
        found
    }

    /// What is tracked in a scope, with user pointers.
    pub fn tracked(&self, scope: u32, kind: Option<u8>) -> Vec<(Ref, usize)> {
        let mut found = Vec::new();
        walk(self.scopes[scope as usize].roots, NONE, |node| {
            if kind.is_none_or(|kind| kind == node.cold.meta().kind()) {
                found.extend(live_ref(node).map(|tracked| (tracked, user_of(node))));
            }
            true
        });
        found
    }

    /// All nodes of a scope, parents before their children.
    pub fn entries(&self, scope: u32, entries: &mut Vec<Entry>) {
        let mut positions = HashMap::new();
        let Scope { roots, id, .. } = self.scopes[scope as usize];
        walk(roots, NONE, |node| {
            let parent = positions.get(&get(&node.cold.parent)).copied();
            if node.hot.object() == GONE {
                positions.extend(parent.map(|position| (node.slot, position)));
                return true;
            }
            positions.insert(node.slot, entries.len());
            let epoch = node.live_epoch().unwrap_or(0);
            entries.push(Entry {
                object: node.hot.object(),
                epoch,
                parent,
                scope: id,
                kind: node.cold.meta().kind(),
                user: if epoch != 0 { user_of(node) } else { 0 },
            });
            true
        });
    }
}

/// Whether the links from `node` upwards pass through just these objects, and not through `below`.
fn leads_up_through(mut node: Node, ancestors: &[usize], below: Node) -> bool {
    for ancestor in ancestors {
        let parent = get(&node.cold.parent);
        if parent == NONE || node.slot == below.slot || !is_at(Node::at(parent), *ancestor) {
            return false;
        }
        node = Node::at(parent);
    }
    node.slot != below.slot && get(&node.cold.parent) == NONE
}

/// The tracker's figures of the stripe that a node is in.
#[inline]
fn share_of(tracker: &Inner, node: Node) -> &Share {
    &tracker.stripes[node.cold.meta().stripe() as usize].0
}

/// Whether a node that the index gave belongs to this scope. Nodes of other stripes are not ours to read, except
/// for the number of their stripe, which never changes.
#[inline]
fn is_in_scope(node: Node, stripe: u8, scope: u32) -> bool {
    let meta = node.cold.meta();
    meta.stripe() == stripe && meta.scope() == scope
}

/// Whether a node stands for the object at that address, now.
#[inline]
fn is_at(node: Node, object: usize) -> bool {
    node.hot.object() == object && object != GONE
}

fn user_of(node: Node) -> usize {
    node.cold.user.load(Ordering::Relaxed)
}

fn live_ref(node: Node) -> Option<Ref> {
    Some(Ref {
        object: node.hot.object(),
        epoch: node.live_epoch()?,
    })
}

/// Visits a list of siblings that starts at `first`, below `top`, in preorder; below a node only if the visit
/// says so.
fn walk(first: Slot, top: Slot, mut visit: impl FnMut(Node) -> bool) {
    let mut slot = first;
    while slot != NONE {
        let mut node = Node::at(slot);
        let below = get(&node.cold.first_child);
        if visit(node) && below != NONE {
            slot = below;
            continue;
        }
        // On to the next sibling, or that of the nearest ancestor that has one.
        loop {
            slot = get(&node.cold.next);
            if slot != NONE {
                break;
            }
            let parent = get(&node.cold.parent);
            if parent == top {
                return;
            }
            node = Node::at(parent);
        }
    }
}

/// Ancestors are addresses of objects, each named once, the object itself not among them.
pub fn check_ancestors(object: usize, ancestors: &[usize]) -> Result<(), Error> {
    /// Up to here comparing each with each is faster than sorting a copy.
    const FEW: usize = 16;
    if ancestors.contains(&0) {
        return Err(Error::invalid(c"an ancestor is null"));
    }
    if ancestors.contains(&object) {
        return Err(Error::invalid(c"an object is named as its own ancestor"));
    }
    let repeats = if ancestors.len() <= FEW {
        (1..ancestors.len()).any(|i| ancestors[..i].contains(&ancestors[i]))
    } else {
        let mut sorted = ancestors.to_vec();
        sorted.sort_unstable();
        sorted.windows(2).any(|pair| pair[0] == pair[1])
    };
    if repeats {
        return Err(Error::invalid(c"an ancestor is named twice"));
    }
    Ok(())
}
