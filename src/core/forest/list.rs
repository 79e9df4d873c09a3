// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Reads the trees. A lock is held for at most [`MOST_AT_ONCE`] nodes (R18). What is larger is read
//! slot by slot, and the lock is free in between (see [`Limited`]).

use super::place::reference_of;
use super::{Stripe, TrackerState};
use crate::Ref;
use crate::core::table::{Node, Slot, State};

/// The most nodes that are read under one lock.
pub const MOST_AT_ONCE: usize = 4096;

/// The result of reading a tree under one lock.
pub enum Limited {
    Complete,
    /// There are more nodes than may be read under one lock. The caller goes through the slots
    /// instead.
    TooMuch,
}

/// A node as reports see it.
pub struct Entry {
    pub slot: Slot,
    /// The slot of the parent, which may be gone. 0 is none.
    pub parent: Slot,
    pub state: State,
    pub object: usize,
    /// 0 if the node is not tracked.
    pub epoch: u64,
    pub scope: u64,
    pub kind: u8,
    pub user: usize,
}

impl Stripe {
    /// The nearest tracked ancestor of a node. What is gone on the way to it is passed only once: the node and all that is
    /// passed are put below the end of that way, which changes nothing that can be seen.
    pub fn tracked_parent(&mut self, state: &TrackerState, node: Node) -> Option<Ref> {
        let mut nearest = node.parent();
        let mut passed = 0;
        while let Some(parent) = nearest
            && parent.is(State::Gone)
            && parent.parent().is_some()
        {
            nearest = parent.parent();
            passed += 1;
        }
        if let Some(parent) = nearest
            && passed > 0
        {
            let mut node = node;
            while let Some(next) = node.parent()
                && next.slot != parent.slot
            {
                self.move_below(node, parent.slot);
                node = next;
            }
            self.settle(state);
        }
        nearest_tracked(node.parent())
    }

    /// Shows the nearest tracked descendants of a node.
    pub fn tracked_children(&self, node: Node, mut show: impl FnMut(Node)) -> Limited {
        walk(node.first_child(), Some(node), |node| {
            if node.is(State::Tracked) {
                show(node);
            }
            !node.is(State::Tracked)
        })
    }

    /// Whether a node is one of the nearest tracked descendants of a live one.
    pub fn is_tracked_child(&mut self, node: Node, of: Ref) -> bool {
        node.is(State::Tracked) && self.tracked_parent(self.state_of(node), node) == Some(of)
    }

    /// Shows all nodes of a scope.
    pub fn nodes_of_scope(&self, scope: u32, show: impl FnMut(&Stripe, Node)) -> Limited {
        let mut show = show;
        if self.scope(scope).nodes as usize > MOST_AT_ONCE {
            return Limited::TooMuch;
        }
        walk(self.first_root(scope), None, |node| {
            show(self, node);
            true
        })
    }

    /// Shows all nodes that a tracker has in this stripe.
    pub fn nodes_of_tracker(
        &self,
        state: &TrackerState,
        mut show: impl FnMut(&Stripe, Node),
    ) -> Limited {
        let mut left = MOST_AT_ONCE;
        let mut next = self.first_scope(state);
        let mut scopes = Vec::new();
        while let Some(scope) = next {
            let Some(less) = left.checked_sub(1 + self.scope(scope).nodes as usize) else {
                return Limited::TooMuch;
            };
            left = less;
            scopes.push(scope);
            next = self.next_scope(scope);
        }
        for scope in scopes {
            self.nodes_of_scope(scope, &mut show);
        }
        Limited::Complete
    }

    pub fn entry(&self, node: Node) -> Entry {
        let meta = node.meta();
        let epoch = node.live_epoch().unwrap_or(0);
        Entry {
            slot: node.slot,
            parent: node.parent_slot(),
            state: match epoch {
                0 if meta.is(State::Gone) => State::Gone,
                0 => State::Placeholder,
                _ => State::Tracked,
            },
            object: node.object(),
            epoch,
            scope: self.scope_of(node).id,
            kind: meta.kind(),
            user: if epoch != 0 { node.user() } else { 0 },
        }
    }
}

fn nearest_tracked(mut next: Option<Node>) -> Option<Ref> {
    while let Some(node) = next {
        if node.is(State::Tracked) {
            return Some(reference_of(node));
        }
        next = node.parent();
    }
    None
}

/// Visits a list of siblings below `top` in preorder, from `first` on. It goes below a node only if
/// the visit says so. It stops after [`MOST_AT_ONCE`] nodes.
fn walk(first: Option<Node>, top: Option<Node>, mut visit: impl FnMut(Node) -> bool) -> Limited {
    let mut next = first;
    let mut visited = 0;
    while let Some(mut node) = next {
        if visited == MOST_AT_ONCE {
            return Limited::TooMuch;
        }
        visited += 1;
        if visit(node)
            && let Some(child) = node.first_child()
        {
            next = Some(child);
            continue;
        }
        // Go on with the next sibling, or with that of the nearest ancestor that has one.
        next = loop {
            if let Some(sibling) = node.next_sibling() {
                break Some(sibling);
            }
            match node.parent() {
                Some(parent) if top.is_none_or(|top| top.slot != parent.slot) => node = parent,
                _ => break None,
            }
        };
    }
    Limited::Complete
}
