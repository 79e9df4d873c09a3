// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Links between nodes. Only this file changes them, and only this file drops nodes.

use super::{Stripe, TrackerState};
use crate::core::sync::{AtomicU32, Ordering};
use crate::core::table::{NONE, Node, Slot, State};

fn get(link: &AtomicU32) -> Slot {
    link.load(Ordering::Relaxed)
}

fn set(link: &AtomicU32, slot: Slot) {
    link.store(slot, Ordering::Relaxed);
}

fn some(slot: Slot) -> Option<Node> {
    (slot != NONE).then(|| Node::at(slot))
}

/// Reads links. The caller holds the lock of the node's stripe.
impl Node {
    #[inline]
    pub(super) fn parent(self) -> Option<Node> {
        some(get(&self.cold.parent))
    }

    #[inline]
    pub(super) fn first_child(self) -> Option<Node> {
        some(get(&self.cold.first_child))
    }

    #[inline]
    pub(super) fn next_sibling(self) -> Option<Node> {
        some(get(&self.cold.next))
    }

    /// The parent's slot, or [`NONE`].
    #[inline]
    pub(super) fn parent_slot(self) -> Slot {
        get(&self.cold.parent)
    }
}

impl Stripe {
    /// The first node of a scope's list of nodes without a parent.
    #[inline]
    pub(super) fn first_root(&self, scope: u32) -> Option<Node> {
        some(self.scope(scope).roots)
    }

    /// Adds an object to a scope, as a placeholder with neither parent nor children. A slot is
    /// free, by [`ensure`](Stripe::ensure). If the object is known already, the error is its slot,
    /// and nothing has changed.
    #[inline]
    pub(super) fn add(
        &mut self,
        state: &TrackerState,
        scope: u32,
        object: usize,
    ) -> Result<Node, Slot> {
        let node = Node::at(self.free);
        state.index.insert(object, node.slot, || {
            // This comes before any thread can find the slot in the index.
            node.occupy(self.number, scope, object);
        })?;
        self.take_slot();
        set(&node.cold.first_child, NONE);
        self.attach(node, NONE);
        self.scope_mut(scope).nodes += 1;
        state.add_node(self.number);
        Ok(node)
    }

    /// Takes a node's address out of the index. The caller makes it gone or drops it next.
    #[inline]
    pub(super) fn forget_address(&mut self, state: &TrackerState, node: Node) {
        debug_assert!(!node.is(State::Gone));
        state.index.remove(node.object(), node.slot);
        state.remove_node(self.number);
    }

    /// Puts a node below another parent, or below none. The old parent may be superfluous then, so
    /// it is noted.
    pub(super) fn move_below(&mut self, node: Node, parent: Slot) {
        let old = node.parent_slot();
        if old == parent {
            return;
        }
        self.detach(node);
        self.attach(node, parent);
        self.touch(old);
    }

    /// Frees the slot of a node that has no children and is not in the index.
    #[inline(always)]
    pub(super) fn drop_node(&mut self, node: Node) {
        debug_assert!(node.first_child().is_none() && !node.is(State::Tracked));
        self.detach(node);
        self.give_slot_back(node);
        let number = node.meta().scope();
        let scope = self.scope_mut(number);
        scope.nodes -= 1;
        if scope.nodes == 0 {
            self.note_empty(number);
        }
    }

    /// Puts `new`, which has neither parent nor children, in the place of `old`. Afterwards `old`
    /// has no children.
    #[cold]
    pub(super) fn take_place_of(&mut self, old: Node, new: Node) {
        self.detach(new);
        self.attach(new, old.parent_slot());
        while let Some(child) = old.first_child() {
            self.detach(child);
            self.attach(child, new.slot);
        }
    }

    // Superfluous nodes --------------------------------------------------------------------------------

    /// Notes that a node may have lost a child. [`settle`](Stripe::settle) looks at it later.
    #[inline]
    pub(super) fn touch(&mut self, slot: Slot) {
        if slot != NONE {
            self.touched.push(slot);
        }
    }

    /// Drops the noted nodes that are superfluous. It is the last step of an operation. So nodes
    /// that the operation uses are complete, and no slot freed here gets another node before the
    /// operation ends.
    #[inline]
    pub(super) fn settle(&mut self, state: &TrackerState) {
        if self.touched.is_empty() {
            return;
        }
        while let Some(slot) = self.touched.pop() {
            self.tidy(state, slot);
        }
        // The memory for a very long list of ancestors is not kept.
        if self.touched.capacity() > 1000 || self.path.capacity() > 1000 {
            self.touched = Vec::new();
            self.path = Vec::new();
        }
    }

    /// Drops a node if it is superfluous, then its parent, and so on. A placeholder without
    /// children is superfluous (R12), and so is a gone node with fewer than two, since one child
    /// can take its place.
    #[inline]
    pub(super) fn tidy(&mut self, state: &TrackerState, mut slot: Slot) {
        while slot != NONE {
            let node = Node::at(slot);
            // Looked at once: a slot that was dropped already may be in a batch, or another stripe's by now.
            let meta = node.meta();
            if meta.stripe() != self.number {
                return;
            }
            let child = node.first_child();
            if meta.is(State::Placeholder) && child.is_none() {
                self.forget_address(state, node);
            } else if meta.is(State::Gone) {
                match child {
                    None => {}
                    Some(child) if child.next_sibling().is_none() => {
                        self.detach(child);
                        self.attach(child, node.parent_slot());
                    }
                    Some(_) => return,
                }
            } else {
                return; // It is needed, or was dropped already.
            }
            slot = node.parent_slot();
            self.drop_node(node);
        }
    }

    // The lists ----------------------------------------------------------------------------------------

    #[inline]
    fn attach(&mut self, node: Node, parent: Slot) {
        let first = match some(parent) {
            Some(parent) => {
                let first = get(&parent.cold.first_child);
                set(&parent.cold.first_child, node.slot);
                first
            }
            None => {
                let roots = &mut self.scope_mut(node.meta().scope()).roots;
                std::mem::replace(roots, node.slot)
            }
        };
        set(&node.cold.parent, parent);
        set(&node.cold.previous, NONE);
        set(&node.cold.next, first);
        if let Some(first) = some(first) {
            set(&first.cold.previous, node.slot);
        }
    }

    #[inline(always)]
    fn detach(&mut self, node: Node) {
        let next = get(&node.cold.next);
        match some(get(&node.cold.previous)) {
            Some(previous) => set(&previous.cold.next, next),
            None => match node.parent() {
                Some(parent) => set(&parent.cold.first_child, next),
                None => self.scope_mut(node.meta().scope()).roots = next,
            },
        }
        if let Some(next) = some(next) {
            set(&next.cold.previous, get(&node.cold.previous));
        }
    }

    // Checks -------------------------------------------------------------------------------------------

    /// Checks the invariants of `mod.rs` for one scope, and panics if one does not hold. It visits
    /// all nodes of the scope.
    pub fn check_invariants(&self, scope: u32) {
        let state = |node: Node| self.state_of(node);
        let record = self.scope(scope);
        let (mut nodes, mut tracked) = (0, [0; crate::KIND_COUNT]);
        let mut lists = vec![(NONE, record.roots)];
        while let Some((parent, first)) = lists.pop() {
            let (mut previous, mut slot) = (NONE, first);
            while slot != NONE {
                let node = Node::at(slot);
                let meta = node.meta();
                nodes += 1;
                assert!(nodes <= record.nodes, "a list of nodes has no end");
                assert!(
                    meta.is_in(self.number, scope),
                    "a node is in another's scope"
                );
                assert_eq!(node.parent_slot(), parent, "a child has another parent");
                assert_eq!(get(&node.cold.previous), previous, "a list is broken");
                let children = std::iter::successors(node.first_child(), |c| c.next_sibling());
                let children = children.take(2).count();
                let is_live = node.live_epoch().is_some();
                assert_eq!(is_live, meta.is(State::Tracked), "state and epoch differ");
                if meta.is(State::Gone) {
                    assert!(children == 2, "a gone node has {children} children");
                } else {
                    let indexed = state(node).index.get(node.object());
                    assert_eq!(indexed, Some(slot), "the index has another slot");
                    match meta.is(State::Tracked) {
                        true => tracked[meta.kind() as usize] += 1,
                        false => assert!(meta.is(State::Placeholder) && children > 0, "{slot}"),
                    }
                }
                lists.push((slot, get(&node.cold.first_child)));
                (previous, slot) = (slot, get(&node.cold.next));
            }
        }
        assert_eq!(nodes, record.nodes, "nodes are not counted");
        assert_eq!(tracked, record.tracked, "incarnations are not counted");
        assert!(self.touched.is_empty() && self.path.is_empty());
    }
}
