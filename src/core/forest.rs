// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The trees of live objects, cut into stripes.
//!
//! All objects of one scope belong to one stripe, chosen by hashing, and are guarded by its lock: a whole
//! subtree is under one lock, and scopes (MLIR: contexts) rarely wait for one another. A node is a slot of the
//! table; it is *tracked*, or an *anchor*: an untracked object that has something tracked below it.
//!
//! Invariants, whenever a stripe's lock is free:
//! - a node is in its tracker's index, and nothing else is;
//! - a node's children form a doubly linked list that starts at `first_child`; the nodes without a parent
//!   form one that starts at the scope's `roots`;
//! - parent links have no cycle, and stay within one scope;
//! - an anchor has a child (it may lack one for a moment, inside a method).

use std::collections::HashMap;

use super::quarantine::Quarantine;
use super::sync::{Lock, Ordering, Padded, now_ns};
use super::table::{
    self, Cold, MAX_SCOPES_PER_STRIPE, Meta, NONE, STRIPE_BITS, Slot, State, cold, hot,
};
use super::tracker::Inner;
use crate::{Cause, Death, End, Error, KIND_COUNT, Ref};

pub const STRIPES: usize = 1 << STRIPE_BITS;

static FOREST: [Padded<Lock<Stripe>>; STRIPES] =
    [const { Padded(Lock::new(Stripe::new())) }; STRIPES];

/// How many fresh slots a stripe takes from the table at once.
const BATCH: u32 = 64;

/// Which stripe a scope belongs to.
pub fn stripe_of(tracker: u64, scope: u64) -> u8 {
    let mixed = (scope ^ tracker.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
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
    nodes: u32,
    tracked: [u32; KIND_COUNT],
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
pub struct Node {
    pub object: usize,
    /// 0 for an anchor.
    pub epoch: u64,
    /// Position of the parent in the list of nodes.
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
            quarantine: Quarantine::new(),
        }
    }

    // Scopes -------------------------------------------------------------------------------------------

    pub fn find_scope(&mut self, tracker: u64, id: u64) -> Option<u32> {
        let key = (tracker, id);
        if self.last_scope.0 == key {
            return Some(self.last_scope.1);
        }
        let number = *self.scope_numbers.as_ref()?.get(&key)?;
        self.last_scope = (key, number);
        Some(number)
    }

    fn scope_for(&mut self, tracker: u64, id: u64) -> Result<u32, Error> {
        if let Some(number) = self.find_scope(tracker, id) {
            return Ok(number);
        }
        let scope = Scope {
            tracker,
            id,
            roots: NONE,
            nodes: 0,
            tracked: [0; KIND_COUNT],
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

    fn drop_scope_if_empty(&mut self, number: u32) {
        let scope = &self.scopes[number as usize];
        if scope.nodes != 0 {
            return;
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

    /// Which tracker and scope a node belongs to.
    pub fn owner(&self, slot: Slot) -> (u64, u64) {
        let scope = &self.scopes[cold(slot).meta().scope as usize];
        (scope.tracker, scope.id)
    }

    pub fn tracked_in(&self, scope: u32, kind: Option<u8>) -> usize {
        let tracked = &self.scopes[scope as usize].tracked;
        match kind {
            Some(kind) => tracked[kind as usize] as usize,
            None => tracked.iter().map(|count| *count as usize).sum(),
        }
    }

    // Slots --------------------------------------------------------------------------------------------

    fn take_slot(&mut self, stripe: u8) -> Result<Slot, Error> {
        if self.free != NONE {
            let slot = self.free;
            self.free = get(&cold(slot).next);
            return Ok(slot);
        }
        if self.fresh == self.fresh_end {
            self.fresh = table::reserve(BATCH, stripe).ok_or(Error::limit(
                c"the slot table is full, or there is no memory for it",
            ))?;
            self.fresh_end = self.fresh + BATCH;
        }
        let slot = self.fresh;
        self.fresh += 1;
        Ok(slot)
    }

    fn give_slot_back(&mut self, slot: Slot) {
        let cold = cold(slot);
        cold.set_meta(Meta {
            scope: 0,
            kind: 0,
            state: State::Free,
            ..cold.meta()
        });
        if !hot(slot).is_used_up() {
            set(&cold.next, self.free);
            self.free = slot;
        }
    }

    /// The node of an object, and whether it is new: then it is an anchor without a parent, in the scope. A node
    /// that was there may belong to any scope.
    fn get_or_add_node(
        &mut self,
        tracker: &Inner,
        stripe: u8,
        scope: u32,
        object: usize,
    ) -> Result<(Slot, bool), Error> {
        let found = tracker.index.get_or_insert(object, || {
            let slot = self.take_slot(stripe)?;
            let node = cold(slot);
            node.set_meta(Meta { scope, kind: 0, state: State::Anchor, stripe });
            set(&node.first_child, NONE);
            hot(slot).set_object(object);
            Ok(slot)
        })?;
        if let (slot, true) = found {
            self.attach(slot, NONE);
            self.scopes[scope as usize].nodes += 1;
            tracker.stripes[stripe as usize].0.add_node(tracker, stripe);
        }
        Ok(found)
    }

    /// Takes a node without children, and not tracked, out of everything.
    fn remove_node(&mut self, tracker: &Inner, slot: Slot) {
        debug_assert_eq!(get(&cold(slot).first_child), NONE);
        let meta = cold(slot).meta();
        self.detach(slot);
        tracker.index.remove(hot(slot).object());
        self.give_slot_back(slot);
        self.scopes[meta.scope as usize].nodes -= 1;
        tracker.stripes[meta.stripe as usize]
            .0
            .remove_node(tracker, meta.stripe);
        self.drop_scope_if_empty(meta.scope);
    }

    // Links --------------------------------------------------------------------------------------------

    fn first_of(&self, parent: Slot, scope: u32) -> Slot {
        if parent == NONE {
            self.scopes[scope as usize].roots
        } else {
            get(&cold(parent).first_child)
        }
    }

    fn set_first(&mut self, parent: Slot, scope: u32, first: Slot) {
        if parent == NONE {
            self.scopes[scope as usize].roots = first;
        } else {
            set(&cold(parent).first_child, first);
        }
    }

    fn attach(&mut self, slot: Slot, parent: Slot) {
        let node = cold(slot);
        let scope = node.meta().scope;
        let first = self.first_of(parent, scope);
        set(&node.parent, parent);
        set(&node.previous, NONE);
        set(&node.next, first);
        if first != NONE {
            set(&cold(first).previous, slot);
        }
        self.set_first(parent, scope, slot);
    }

    fn detach(&mut self, slot: Slot) {
        let node = cold(slot);
        let (previous, next) = (get(&node.previous), get(&node.next));
        if previous == NONE {
            self.set_first(get(&node.parent), node.meta().scope, next);
        } else {
            set(&cold(previous).next, next);
        }
        if next != NONE {
            set(&cold(next).previous, previous);
        }
    }

    /// Puts a node below another parent, or below none.
    fn relink(&mut self, tracker: &Inner, slot: Slot, parent: Slot) {
        let old = get(&cold(slot).parent);
        if old == parent {
            return;
        }
        self.detach(slot);
        self.attach(slot, parent);
        self.prune(tracker, old);
    }

    /// Drops anchors, from `slot` upwards, that have nothing below them any more (R12).
    fn prune(&mut self, tracker: &Inner, mut slot: Slot) {
        while slot != NONE {
            let node = cold(slot);
            if node.meta().state != State::Anchor || get(&node.first_child) != NONE {
                return;
            }
            let parent = get(&node.parent);
            self.remove_node(tracker, slot);
            slot = parent;
        }
    }

    /// Gives all children of a node to its parent: they stay below everything that encloses the node (R5).
    fn splice_children(&mut self, slot: Slot) {
        let node = cold(slot);
        let parent = get(&node.parent);
        loop {
            let child = get(&node.first_child);
            if child == NONE {
                return;
            }
            self.detach(child);
            self.attach(child, parent);
        }
    }

    // Registration -------------------------------------------------------------------------------------

    /// The node of an object in a scope. New ones are anchors without a parent: start or discard them.
    /// `Err(Conflict)` inside: the object is known in another scope.
    pub fn node_in_scope(
        &mut self,
        tracker: &Inner,
        tracker_id: u64,
        stripe: u8,
        scope: u64,
        object: usize,
    ) -> Result<Result<(Slot, bool), Conflict>, Error> {
        let scope = self.scope_for(tracker_id, scope)?;
        match self.get_or_add_node(tracker, stripe, scope, object) {
            Ok((slot, is_new)) if is_new || self.is_in_scope(slot, stripe, scope) => {
                Ok(Ok((slot, is_new)))
            }
            other => {
                self.drop_scope_if_empty(scope);
                other.map(|_| Err(Conflict(object)))
            }
        }
    }

    /// Starts an incarnation of an anchor's object. Its slot must not be used up.
    pub fn start(&mut self, tracker: &Inner, slot: Slot, kind: u8, user: usize) -> Ref {
        let (hot, cold) = (hot(slot), cold(slot));
        let meta = cold.meta();
        cold.set_meta(Meta {
            kind,
            state: State::Tracked,
            ..meta
        });
        cold.user.store(user, Ordering::Relaxed);
        self.scopes[meta.scope as usize].tracked[kind as usize] += 1;
        tracker.stripes[meta.stripe as usize].0.count_start(kind);
        Ref {
            object: hot.object(),
            epoch: hot.publish(slot),
        }
    }

    /// Replaces an anchor whose slot is used up by one with a fresh slot.
    pub fn renew(&mut self, tracker: &Inner, old: Slot) -> Result<Slot, Error> {
        let meta = cold(old).meta();
        let object = hot(old).object();
        let new = self.take_slot(meta.stripe)?;
        cold(new).set_meta(meta);
        set(&cold(new).first_child, NONE);
        hot(new).set_object(object);
        tracker.index.replace(object, new);
        self.attach(new, get(&cold(old).parent));
        loop {
            let child = get(&cold(old).first_child);
            if child == NONE {
                break;
            }
            self.detach(child);
            self.attach(child, new);
        }
        self.detach(old);
        self.give_slot_back(old);
        Ok(new)
    }

    /// Drops a node that was added but not started, with the anchors that only it needed.
    pub fn discard(&mut self, tracker: &Inner, slot: Slot) {
        self.prune(tracker, slot);
    }

    /// Puts a node where its ancestors say: nearest first, complete up to the outermost.
    pub fn place(
        &mut self,
        tracker: &Inner,
        slot: Slot,
        ancestors: &[usize],
    ) -> Result<Result<(), Conflict>, Error> {
        // Most reports repeat what is known: follow the links as long as they agree.
        let mut node = slot;
        let mut known = 0;
        loop {
            let parent = get(&cold(node).parent);
            match ancestors.get(known) {
                None if parent == NONE => return Ok(Ok(())),
                Some(ancestor) if parent != NONE && hot(parent).object() == *ancestor => {
                    node = parent;
                    known += 1;
                }
                _ => break,
            }
        }
        let object = hot(slot).object();
        check_ancestors(object, ancestors)?;
        let Meta { scope, stripe, .. } = cold(slot).meta();
        let missing = &ancestors[known..];
        for ancestor in missing {
            if let Some(other) = tracker.index.get(*ancestor)
                && !self.is_in_scope(other, stripe, scope)
            {
                return Ok(Err(Conflict(*ancestor)));
            }
        }
        // From the outermost inwards, so that each node gets a parent whose own place is already right:
        // what is below `node` now is moved out of its way first, and no cycle can close.
        let mut parent = NONE;
        for ancestor in missing.iter().rev() {
            let slot = match self.get_or_add_node(tracker, stripe, scope, *ancestor) {
                Ok((slot, is_new)) if is_new || self.is_in_scope(slot, stripe, scope) => slot,
                // Another stripe has put it in since the check above, or there is no slot.
                other => {
                    self.prune(tracker, parent);
                    return other.map(|_| Err(Conflict(*ancestor)));
                }
            };
            self.relink(tracker, slot, parent);
            parent = slot;
        }
        self.relink(tracker, node, parent);
        Ok(Ok(()))
    }

    /// Whether a slot that the index gave is a node of this scope. Slots of other stripes are not ours to
    /// read, except for the number of their stripe, which never changes.
    pub fn is_in_scope(&self, slot: Slot, stripe: u8, scope: u32) -> bool {
        let meta = cold(slot).meta();
        meta.stripe == stripe && meta.scope == scope
    }

    // Ends ---------------------------------------------------------------------------------------------

    /// Ends a node's incarnation, if it is tracked; the node becomes an anchor.
    fn end_incarnation(&mut self, tracker: &Inner, slot: Slot, cause: Cause, ending: &mut Ending) {
        let (hot, cold) = (hot(slot), cold(slot));
        let meta = cold.meta();
        let Some(epoch) = hot.live_epoch().filter(|_| meta.state == State::Tracked) else {
            return;
        };
        hot.end();
        let ended = Ref {
            object: hot.object(),
            epoch,
        };
        let by = if ending.by == ended {
            Ref::NULL
        } else {
            ending.by
        };
        let death = Death {
            by,
            time_ns: ending.time_ns,
            cause,
            kind: meta.kind,
        };
        self.quarantine.record(slot, ended, death);
        cold.set_meta(Meta {
            state: State::Anchor,
            ..meta
        });
        let scope = &mut self.scopes[meta.scope as usize];
        scope.tracked[meta.kind as usize] -= 1;
        tracker.stripes[meta.stripe as usize]
            .0
            .count_end(meta.kind, cause);
        if let Some(ends) = &mut ending.ends {
            let user = cold.user.load(Ordering::Relaxed);
            ends.push(End {
                reference: ended,
                death,
                scope: scope.id,
                user,
            });
        }
    }

    /// Ends everything strictly below a node (R4, R9). The node itself stays, also as a bare anchor.
    pub fn end_below(&mut self, tracker: &Inner, top: Slot, cause: Cause, ending: &mut Ending) {
        let mut node = top;
        loop {
            let mut child = get(&cold(node).first_child);
            while child != NONE {
                node = child;
                child = get(&cold(node).first_child);
            }
            if node == top {
                return;
            }
            let parent = get(&cold(node).parent);
            self.end_incarnation(tracker, node, cause, ending);
            self.remove_node(tracker, node);
            node = parent;
        }
    }

    /// Ends a node with everything below it.
    pub fn end_subtree(
        &mut self,
        tracker: &Inner,
        slot: Slot,
        cause: Cause,
        cause_below: Cause,
        ending: &mut Ending,
    ) {
        self.end_below(tracker, slot, cause_below, ending);
        self.end_alone(tracker, slot, cause, ending);
    }

    /// Ends a node alone (R7) and takes it out of the tree; what is below it moves up.
    pub fn end_alone(&mut self, tracker: &Inner, slot: Slot, cause: Cause, ending: &mut Ending) {
        self.end_incarnation(tracker, slot, cause, ending);
        self.splice_children(slot);
        let parent = get(&cold(slot).parent);
        self.remove_node(tracker, slot);
        self.prune(tracker, parent);
    }

    /// Ends those tracked children of a node whose kind is in `kinds`, with what is below them.
    pub fn end_parts(&mut self, tracker: &Inner, slot: Slot, kinds: u32, ending: &mut Ending) {
        let mut child = get(&cold(slot).first_child);
        while child != NONE {
            let meta = cold(child).meta();
            let next = get(&cold(child).next);
            if meta.state == State::Tracked && kinds >> meta.kind & 1 == 1 {
                let cause = Cause::AncestorDestroyed;
                self.end_below(tracker, child, cause, ending);
                self.end_incarnation(tracker, child, cause, ending);
                self.remove_node(tracker, child);
            }
            child = next;
        }
    }

    /// Ends a node's incarnation for the caller's part (R12): the node goes if nothing is below it.
    pub fn release(&mut self, tracker: &Inner, slot: Slot, ending: &mut Ending) {
        self.end_incarnation(tracker, slot, Cause::Released, ending);
        self.prune(tracker, slot);
    }

    /// Ends everything in a scope.
    pub fn clear_scope(&mut self, tracker: &Inner, scope: u32, ending: &mut Ending) {
        loop {
            let root = self.scopes[scope as usize].roots;
            if root == NONE {
                return;
            }
            self.end_below(tracker, root, Cause::ScopeCleared, ending);
            let last = self.scopes[scope as usize].nodes == 1;
            self.end_incarnation(tracker, root, Cause::ScopeCleared, ending);
            self.remove_node(tracker, root);
            // With its last node the scope's number is free for another scope.
            if last {
                return;
            }
        }
    }

    // Questions ----------------------------------------------------------------------------------------

    pub fn death(&self, dead: Ref) -> Option<Death> {
        self.quarantine.find(dead)
    }

    /// The nearest tracked ancestor of a node.
    pub fn tracked_parent(&self, slot: Slot) -> Option<Ref> {
        let mut node = get(&cold(slot).parent);
        while node != NONE {
            if cold(node).meta().state == State::Tracked {
                return live_ref(node);
            }
            node = get(&cold(node).parent);
        }
        None
    }

    /// The nearest tracked descendants of a node, with their user pointers.
    pub fn tracked_children(&self, slot: Slot) -> Vec<(Ref, usize)> {
        let mut found = Vec::new();
        walk(get(&cold(slot).first_child), slot, |node, meta| {
            if meta.state == State::Tracked {
                found.extend(live_ref(node).map(|child| (child, user_of(node))));
            }
            meta.state == State::Anchor
        });
        found
    }

    /// What is tracked in a scope, with user pointers.
    pub fn tracked(&self, scope: u32, kind: Option<u8>) -> Vec<(Ref, usize)> {
        let mut found = Vec::new();
        walk(self.scopes[scope as usize].roots, NONE, |node, meta| {
            if meta.state == State::Tracked && kind.is_none_or(|kind| kind == meta.kind) {
                found.extend(live_ref(node).map(|tracked| (tracked, user_of(node))));
            }
            true
        });
        found
    }

    /// All nodes of a scope, parents before their children.
    pub fn nodes(&self, scope: u32, nodes: &mut Vec<Node>) {
        let mut positions = HashMap::new();
        let id = self.scopes[scope as usize].id;
        walk(self.scopes[scope as usize].roots, NONE, |node, meta| {
            positions.insert(node, nodes.len());
            nodes.push(Node {
                object: hot(node).object(),
                epoch: hot(node).live_epoch().unwrap_or(0),
                parent: positions.get(&get(&cold(node).parent)).copied(),
                scope: id,
                kind: meta.kind,
                user: if meta.state == State::Tracked {
                    user_of(node)
                } else {
                    0
                },
            });
            true
        });
    }
}

fn user_of(slot: Slot) -> usize {
    cold(slot).user.load(Ordering::Relaxed)
}

fn live_ref(slot: Slot) -> Option<Ref> {
    let hot = hot(slot);
    Some(Ref {
        object: hot.object(),
        epoch: hot.live_epoch()?,
    })
}

/// Visits a list of siblings that starts at `first`, below `top`, in preorder; below a node only if the visit
/// says so.
fn walk(first: Slot, top: Slot, mut visit: impl FnMut(Slot, Meta) -> bool) {
    let mut node = first;
    while node != NONE {
        let links: &Cold = cold(node);
        let below = get(&links.first_child);
        if visit(node, links.meta()) && below != NONE {
            node = below;
            continue;
        }
        // On to the next sibling, or that of the nearest ancestor that has one.
        loop {
            let next = get(&cold(node).next);
            if next != NONE {
                node = next;
                break;
            }
            node = get(&cold(node).parent);
            if node == top {
                return;
            }
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
