// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Ends incarnations, alone or with what is below them.

use super::place::reference_of;
use super::{Stripe, TrackerState, try_stripe};
use crate::core::sync::{LockGuard, now_ns};
use crate::core::table::{Node, State};
use crate::{Cause, Death, End, Ref};

/// What the ends of one call have in common: the culprit, the time, and the list of pending ends.
pub struct Ending<'a> {
    pub by: Ref,
    time_ns: u64,
    /// The pending ends, if the tracker has an observer.
    ends: Option<&'a mut Vec<End>>,
}

impl<'a> Ending<'a> {
    /// Without a culprit. The clock is read when the first object ends.
    #[inline]
    pub fn new(ends: Option<&'a mut Vec<End>>) -> Self {
        Self {
            by: Ref::NULL,
            time_ns: 0,
            ends,
        }
    }

    #[inline]
    fn time_ns(&mut self) -> u64 {
        if self.time_ns == 0 {
            self.time_ns = now_ns();
        }
        self.time_ns
    }
}

/// What [`end_leaf_at`] found at an address.
pub enum Found {
    /// A node without children, which has ended.
    Leaf,
    /// A node with children, or one that needs more than one step. Nothing has changed.
    Node(LockGuard<'static, Stripe>, Node),
    /// A node of a stripe that another thread has locked. Nothing has changed.
    Busy,
    Nothing,
}

/// Ends the object at an address alone, if it has no children and nobody has its stripe locked. So
/// nearly all ends take one look into the index. `cause` gives the cause, and may set the culprit.
#[inline]
pub fn end_leaf_at<'a>(
    state: &TrackerState,
    object: usize,
    ending: &mut Ending<'a>,
    cause: impl FnOnce(Node, &mut Ending<'a>) -> Cause,
) -> Found {
    let mut found = None;
    let taken = state.index.take_if(object, |slot| {
        let node = Node::at(slot);
        // The slot stays in its stripe while it is in the index. Its stripe's holder may wait for
        // the index.
        let Some(mut stripe) = try_stripe(node.meta().stripe()) else {
            return false;
        };
        let goes = node.first_child().is_none() && stripe.deaths.is_ready();
        if goes {
            let cause = cause(node, ending);
            stripe.end_incarnation(state, node, cause, ending);
        }
        found = Some((stripe, node));
        goes
    });
    match (taken, found) {
        (None, _) => Found::Nothing,
        (Some(_), None) => Found::Busy,
        (Some(false), Some((stripe, node))) => Found::Node(stripe, node),
        (Some(true), Some((mut stripe, node))) => {
            state.remove_node(stripe.number);
            stripe.leave(state, node);
            Found::Leaf
        }
    }
}

impl Stripe {
    /// Ends a node's incarnation, if it is tracked. The node is a placeholder then.
    #[inline(always)]
    fn end_incarnation(
        &mut self,
        state: &TrackerState,
        node: Node,
        cause: Cause,
        ending: &mut Ending,
    ) {
        let Some(epoch) = node.live_epoch() else {
            return;
        };
        let meta = node.meta();
        let (object, kind) = (node.object(), meta.kind());
        let ended = Ref { object, epoch };
        let by = if ending.by == ended {
            Ref::NULL
        } else {
            ending.by
        };
        let death = Death {
            by,
            time_ns: ending.time_ns(),
            cause,
            kind,
        };
        // The death is on record before any thread can see that the ref is dead.
        self.deaths.record(node, ended, death);
        node.end();
        let scope = self.scope_mut(meta.scope());
        scope.tracked[kind as usize] -= 1;
        if let Some(ends) = &mut ending.ends {
            ends.push(End {
                reference: ended,
                death,
                scope: scope.id,
                user: node.user(),
            });
        }
        state.count_end(self.number, kind, cause);
    }

    /// Ends everything strictly below a node, leaves first (R4, R9). The node itself stays, even as
    /// a placeholder without children.
    fn end_below(&mut self, state: &TrackerState, top: Node, cause: Cause, ending: &mut Ending) {
        let mut node = top;
        loop {
            while let Some(child) = node.first_child() {
                node = child;
            }
            if node.slot == top.slot {
                return;
            }
            let parent = Node::at(node.parent_slot());
            self.end_leaf(state, node, cause, ending);
            node = parent;
        }
    }

    /// Ends a node without children, and drops it. Its parent may be superfluous then; the caller
    /// sees to that.
    #[inline]
    fn end_leaf(&mut self, state: &TrackerState, node: Node, cause: Cause, ending: &mut Ending) {
        self.end_incarnation(state, node, cause, ending);
        if !node.is(State::Gone) {
            self.forget_address(state, node);
        }
        self.drop_node(node);
    }

    /// Ends a node with everything below it. `cause` is that of the node, `cause_below` that of the
    /// others.
    pub fn end_subtree(
        &mut self,
        state: &TrackerState,
        node: Node,
        cause: Cause,
        cause_below: Cause,
        ending: &mut Ending,
    ) {
        self.end_below(state, node, cause_below, ending);
        self.end_alone(state, node, cause, ending);
    }

    /// Ends everything strictly below a node. The node stays if it is tracked.
    pub fn end_inside(
        &mut self,
        state: &TrackerState,
        node: Node,
        cause: Cause,
        ending: &mut Ending,
    ) {
        self.end_below(state, node, cause, ending);
        self.tidy(state, node.slot);
    }

    /// Ends a node alone (R7). What is below it stays below everything that encloses the node (R5).
    #[inline]
    pub fn end_alone(
        &mut self,
        state: &TrackerState,
        node: Node,
        cause: Cause,
        ending: &mut Ending,
    ) {
        self.end_incarnation(state, node, cause, ending);
        self.forget_address(state, node);
        self.leave(state, node);
    }

    /// Makes a node gone, and drops it unless it has several children. The caller has taken its
    /// address out of the index.
    ///
    /// Moving all children up would cost a destructor time for each, and mostly their own ends
    /// follow at once. So the node stays until at most one child is left.
    #[inline]
    pub(super) fn leave(&mut self, state: &TrackerState, node: Node) {
        if node.first_child().is_some() {
            node.set_state(State::Gone);
            self.tidy(state, node.slot);
        } else {
            let parent = node.parent_slot();
            self.drop_node(node);
            self.tidy(state, parent);
        }
    }

    /// Ends a node alone, after its parts. Parts are the tracked nodes right below it whose kind is
    /// in `kinds`; what is below them ends too. The children of a gone node count as children of
    /// the node above it.
    pub fn end_with_parts(
        &mut self,
        state: &TrackerState,
        top: Node,
        kinds: u32,
        cause: Cause,
        ending: &mut Ending,
    ) {
        let by = std::mem::replace(&mut ending.by, reference_of(top));
        let is_part = |node: Node| node.is(State::Tracked) && kinds >> node.meta().kind() & 1 == 1;
        let mut next = top.first_child();
        while let Some(node) = next {
            if node.is(State::Gone) {
                next = node.first_child();
                continue;
            }
            next = after(node, top);
            if is_part(node) {
                self.touch(node.parent_slot());
                self.end_below(state, node, Cause::AncestorDestroyed, ending);
                self.end_leaf(state, node, Cause::AncestorDestroyed, ending);
            }
        }
        ending.by = by;
        self.end_alone(state, top, cause, ending);
        self.settle(state);
    }

    /// Ends an incarnation that its holder gave up. The node goes if nothing is below it (R12).
    #[inline]
    pub fn release(&mut self, state: &TrackerState, node: Node, ending: &mut Ending) {
        self.end_incarnation(state, node, Cause::Released, ending);
        if node.first_child().is_none() {
            self.forget_address(state, node);
            self.leave(state, node);
        }
    }

    /// Ends up to `most` nodes of a scope. True if there are more.
    pub fn clear_some(
        &mut self,
        state: &TrackerState,
        scope: u32,
        most: usize,
        ending: &mut Ending,
    ) -> bool {
        let mut node = None;
        for _ in 0..most {
            let Some(mut leaf) = node.or_else(|| self.first_root(scope)) else {
                return false;
            };
            while let Some(child) = leaf.first_child() {
                leaf = child;
            }
            node = leaf.parent();
            self.end_leaf(state, leaf, Cause::ScopeCleared, ending);
        }
        if let Some(parent) = node {
            self.tidy(state, parent.slot);
        }
        self.first_root(scope).is_some()
    }
}

/// The node that follows `node` and all below it in preorder, in the tree below `top`.
fn after(mut node: Node, top: Node) -> Option<Node> {
    loop {
        if let Some(next) = node.next_sibling() {
            return Some(next);
        }
        node = node.parent()?;
        if node.slot == top.slot {
            return None;
        }
    }
}
