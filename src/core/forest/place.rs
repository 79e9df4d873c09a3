// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Registers objects, and puts nodes where reports say. The latest report wins for the objects that
//! it names: each gets the parent that the report gives it (R5). A report is complete up to the
//! outermost object. So no cycle can arise, even if a report contradicts what is known.

use super::{Ending, Stripe, TrackerState};
use crate::core::table::{NONE, Node, Slot, State};
use crate::{Cause, Description, Error, Ref};

/// The result of a registration or a placement.
pub enum Registered {
    /// It is done. This is the ref with its user pointer; a placement gives the null ref.
    As(Ref, usize),
    /// Nothing was changed, because this object is known in another scope. Addresses are unique, so
    /// the object of that scope has ended without a report.
    Conflict(usize),
    /// Nothing was changed, for this reason.
    Refused(Error),
}

enum Found {
    /// The object was unknown. This is its new placeholder, without parent and children.
    Added(Node),
    /// The object is known in this slot, in whatever scope.
    Known(Slot),
    Refused(Error),
}

enum Placed {
    Done,
    /// As [`Registered::Conflict`].
    Conflict(usize),
    Refused(Error),
}

impl Stripe {
    /// Registers an object that is new (`is_new`) or exists. The caller has checked the
    /// description, apart from the ancestors.
    #[inline]
    pub fn register(
        &mut self,
        state: &TrackerState,
        description: &Description,
        is_new: bool,
        ending: &mut Ending,
    ) -> Registered {
        let scope = match self.scope_for(state, description.scope) {
            Ok(scope) => scope,
            Err(error) => return Registered::Refused(error),
        };
        let registered = self.register_in(state, scope, description, is_new, ending);
        if !matches!(registered, Registered::As(..)) {
            self.note_if_empty(scope);
        }
        registered
    }

    #[inline]
    fn register_in(
        &mut self,
        state: &TrackerState,
        scope: u32,
        description: &Description,
        is_new: bool,
        ending: &mut Ending,
    ) -> Registered {
        let Description {
            object,
            kind,
            ancestors,
            user,
            ..
        } = *description;
        let known = match self.add_or_find(state, scope, object) {
            Found::Added(node) => return self.place_and_start(state, node, ancestors, kind, user),
            Found::Known(slot) => Node::at(slot),
            Found::Refused(error) => return Registered::Refused(error),
        };
        if !known.meta().is_in(self.number, scope) {
            return match self.check(state, scope, object, ancestors) {
                Placed::Refused(error) => Registered::Refused(error),
                _ => Registered::Conflict(object),
            };
        }
        let is_another = known.is(State::Tracked) && known.meta().kind() != kind;
        if is_new || is_another {
            return self.replace(state, known, description, ending);
        }
        if known.is_used_up() && !known.is(State::Tracked) {
            return self.register_in_new_slot(state, known, description);
        }
        self.place_and_start(state, known, ancestors, kind, user)
    }

    /// Adds an object, or gives the slot that it has already.
    #[inline]
    fn add_or_find(&mut self, state: &TrackerState, scope: u32, object: usize) -> Found {
        if let Err(error) = self.ensure(1) {
            return match state.index.look_up(object) {
                Some(slot) => Found::Known(slot),
                None => Found::Refused(error),
            };
        }
        match self.add(state, scope, object) {
            Ok(node) => Found::Added(node),
            Err(slot) => Found::Known(slot),
        }
    }

    /// Ends what is known at a new object's address in its scope, and registers the object.
    #[cold]
    fn replace(
        &mut self,
        state: &TrackerState,
        known: Node,
        description: &Description,
        ending: &mut Ending,
    ) -> Registered {
        let Description {
            object,
            ancestors,
            kind,
            user,
            ..
        } = *description;
        let scope = known.meta().scope();
        match self.check(state, scope, object, ancestors) {
            Placed::Done => {}
            Placed::Conflict(ancestor) => return Registered::Conflict(ancestor),
            Placed::Refused(error) => return Registered::Refused(error),
        }
        let slots = 1 + ancestors.unwrap_or_default().len() as u32;
        if let Err(error) = self.ensure(slots) {
            return Registered::Refused(error);
        }
        self.end_missed(state, known, ending);
        match self.add(state, scope, object) {
            Ok(node) => self.place_and_start(state, node, ancestors, kind, user),
            // A thread with another stripe's lock has added the object meanwhile.
            Err(_) => Registered::Conflict(object),
        }
    }

    #[inline(always)]
    fn place_and_start(
        &mut self,
        state: &TrackerState,
        node: Node,
        ancestors: Option<&[usize]>,
        kind: u8,
        user: usize,
    ) -> Registered {
        let placed = ancestors.map_or(Placed::Done, |list| self.place(state, node, list));
        let registered = match placed {
            Placed::Done if node.is(State::Tracked) => {
                let epoch = node.live_epoch().unwrap_or_default();
                Registered::As(reference(node, epoch), node.user())
            }
            Placed::Done => {
                let epoch = node.start(kind, user);
                self.scope_mut(node.meta().scope()).tracked[kind as usize] += 1;
                state.count_start(self.number, kind);
                Registered::As(reference(node, epoch), user)
            }
            Placed::Conflict(ancestor) => {
                self.touch(node.slot);
                Registered::Conflict(ancestor)
            }
            Placed::Refused(error) => {
                self.touch(node.slot);
                Registered::Refused(error)
            }
        };
        self.settle(state);
        registered
    }

    /// Registers an object whose placeholder's slot is used up. The object moves to another slot.
    #[cold]
    fn register_in_new_slot(
        &mut self,
        state: &TrackerState,
        old: Node,
        description: &Description,
    ) -> Registered {
        if let Err(error) = self.ensure(1) {
            return Registered::Refused(error);
        }
        let (object, scope) = (old.object(), old.meta().scope());
        self.forget_address(state, old);
        let Ok(new) = self.add(state, scope, object) else {
            // A thread with another stripe's lock has added the address just now. So this object
            // has ended. What is below it stays below what encloses it.
            self.leave(state, old);
            return Registered::Conflict(object);
        };
        self.take_place_of(old, new);
        self.drop_node(old);
        let Description {
            ancestors,
            kind,
            user,
            ..
        } = *description;
        self.place_and_start(state, new, ancestors, kind, user)
    }

    /// Puts the node of an object below its reported ancestors.
    pub fn relocate(
        &mut self,
        state: &TrackerState,
        node: Node,
        ancestors: &[usize],
    ) -> Registered {
        let placed = self.place(state, node, ancestors);
        // The node itself may be superfluous too: what was below it may be above it now.
        self.touch(node.slot);
        self.settle(state);
        match placed {
            Placed::Done => Registered::As(Ref::NULL, 0),
            Placed::Conflict(ancestor) => Registered::Conflict(ancestor),
            Placed::Refused(error) => Registered::Refused(error),
        }
    }

    /// Puts a node below its reported ancestors. The caller settles.
    #[inline]
    fn place(&mut self, state: &TrackerState, placed: Node, ancestors: &[usize]) -> Placed {
        // Most reports repeat what is known. So the links are followed as long as they agree. A
        // report that agrees with the links is valid, since links have no cycle.
        let mut node = placed;
        let mut agreed = 0;
        loop {
            match (node.parent(), ancestors.get(agreed)) {
                (None, None) => return Placed::Done,
                (Some(parent), Some(ancestor)) if parent.is_at(*ancestor) => node = parent,
                _ => break,
            }
            agreed += 1;
        }
        // Often only one link is new, and what is above it is known to be where the report says.
        let meta = placed.meta();
        if let Some(ancestor) = ancestors.get(agreed)
            && let Some(parent) = state.index.look_up(*ancestor).map(Node::at)
            && parent.meta().is_in(self.number, meta.scope())
            && leads_up_through(parent, &ancestors[agreed + 1..], node)
        {
            self.move_below(node, parent.slot);
            return Placed::Done;
        }
        self.place_anew(state, placed, ancestors)
    }

    fn place_anew(&mut self, state: &TrackerState, placed: Node, ancestors: &[usize]) -> Placed {
        let scope = placed.meta().scope();
        match self.check(state, scope, placed.object(), Some(ancestors)) {
            Placed::Done => {}
            other => return other,
        }
        if let Err(error) = self.ensure(ancestors.len() as u32) {
            return Placed::Refused(error);
        }
        debug_assert!(self.path.is_empty());
        for ancestor in ancestors {
            let known = state.index.look_up(*ancestor);
            let slot = match known {
                Some(slot) if Node::at(slot).meta().is_in(self.number, scope) => slot,
                _ => match self.add(state, scope, *ancestor) {
                    Ok(added) => added.slot,
                    // A thread with another stripe's lock has added it since the check above.
                    Err(_) => {
                        self.touched.append(&mut self.path);
                        return Placed::Conflict(*ancestor);
                    }
                },
            };
            self.path.push(slot);
        }
        let mut parent = NONE;
        while let Some(slot) = self.path.pop() {
            self.move_below(Node::at(slot), parent);
            parent = slot;
        }
        self.move_below(placed, parent);
        Placed::Done
    }

    /// Checks that ancestors are valid, and that none of them is known in another scope.
    fn check(
        &self,
        state: &TrackerState,
        scope: u32,
        object: usize,
        ancestors: Option<&[usize]>,
    ) -> Placed {
        let ancestors = ancestors.unwrap_or_default();
        if let Err(error) = check_ancestors(object, ancestors) {
            return Placed::Refused(error);
        }
        for ancestor in ancestors {
            if let Some(slot) = state.index.look_up(*ancestor)
                && !Node::at(slot).meta().is_in(self.number, scope)
            {
                return Placed::Conflict(*ancestor);
            }
        }
        Placed::Done
    }

    /// Ends what is known at an address, with all below it, because another object is there now.
    pub fn end_missed(&mut self, state: &TrackerState, node: Node, ending: &mut Ending) {
        ending.by = reference_of(node);
        self.end_subtree(state, node, Cause::MissedEnd, Cause::MissedEnd, ending);
    }
}

fn reference(node: Node, epoch: u64) -> Ref {
    Ref {
        object: node.object(),
        epoch,
    }
}

/// The ref of a node's object. Its epoch is 0 if the node is not tracked.
pub fn reference_of(node: Node) -> Ref {
    reference(node, node.live_epoch().unwrap_or(0))
}

/// Whether the links from `node` upwards lead through exactly these objects, and not through
/// `moved`. Then `moved` can be put below `node` without a cycle.
fn leads_up_through(mut node: Node, ancestors: &[usize], moved: Node) -> bool {
    for ancestor in ancestors {
        match node.parent() {
            Some(parent) if parent.is_at(*ancestor) && node.slot != moved.slot => node = parent,
            _ => return false,
        }
    }
    node.slot != moved.slot && node.parent_slot() == NONE
}

/// Refuses ancestors that contain 0, the object itself, or an address twice.
pub fn check_ancestors(object: usize, ancestors: &[usize]) -> Result<(), Error> {
    /// Up to this number, comparing each with each is faster than sorting a copy.
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
