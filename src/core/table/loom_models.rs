// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Checks without a lock against the ends and starts of a slot, in all that the memory model
//! allows.
//!
//! A model's table has four slots at first, and eight in all.

use loom::sync::atomic::{AtomicBool, Ordering::*};
use loom::thread;

use super::*;
use crate::Ref;
use crate::core::sync::loom_check;

const A: usize = 0x1000;
const B: usize = 0x2000;

/// A slot with an incarnation of [`A`], whose user pointer is 1.
fn first() -> (Node, Ref) {
    let (slot, _) = take_batch(0).expect("the table has a slot");
    let node = Node::at(slot);
    (node, start(node, A, 1))
}

fn start(node: Node, object: usize, user: usize) -> Ref {
    node.occupy(0, 0, object);
    let epoch = node.start(0, user);
    Ref { object, epoch }
}

/// What becomes of the node of an object that ends alone.
fn end(node: Node) {
    node.end();
    node.set_state(State::Gone);
    node.set_state(State::Free);
}

/// Runs `question` on a thread beside one that ends the first incarnation and starts one of `next`
/// in its slot.
fn against_an_end_and(next: usize, question: fn(Node, Ref)) {
    loom_check(3, move || {
        let (node, first) = first();
        let asking = thread::spawn(move || question(node, first));
        end(node);
        let second = start(node, next, 2);
        assert!(!first.is_live() && second.is_live());
        asking.join().unwrap();
    });
}

#[test]
fn r01_a_dead_ref_is_never_live_again() {
    for next in [A, B] {
        against_an_end_and(next, |_, first| {
            let was_live = first.is_live();
            let is_live = first.is_live();
            assert!(was_live || !is_live);
        });
    }
}

#[test]
fn r03_an_epoch_is_never_live_with_the_next_object_of_its_slot() {
    against_an_end_and(B, |_, first| assert!(!is_live(B, first.epoch)));
}

#[test]
fn r16_a_ref_never_has_the_user_pointer_of_the_next_incarnation() {
    for next in [A, B] {
        against_an_end_and(next, |_, first| {
            if let Ok(user) = first.user() {
                assert_eq!(user, 1);
            }
        });
    }
}

#[test]
fn r16_what_is_found_at_an_address_is_one_incarnation_with_its_user_pointer() {
    against_an_end_and(A, |node, first| {
        if let Some((epoch, user)) = node.live(A) {
            assert_eq!(user == 1, epoch == first.epoch);
        }
    });
    against_an_end_and(B, |node, first| {
        if let Some(found) = node.live(A) {
            assert_eq!(found, (first.epoch, 1));
        }
        if let Some((_, user)) = node.live(B) {
            assert_eq!(user, 2);
        }
    });
}

/// Another thread learns of a ref somehow: then it sees that the ref is live.
#[test]
fn r01_a_ref_that_was_handed_over_is_live_and_has_its_user_pointer() {
    loom_check(3, || {
        let (node, first) = first();
        let is_handed_over = std::sync::Arc::new(AtomicBool::new(false));
        let (handed_over, second) = (is_handed_over.clone(), first.epoch + (1 << 32));
        let asking = thread::spawn(move || {
            if handed_over.load(Acquire) {
                let second = Ref {
                    object: B,
                    epoch: second,
                };
                assert_eq!((second.is_live(), second.user()), (true, Ok(2)));
                assert!(!first.is_live());
            }
        });
        end(node);
        assert_eq!(start(node, B, 2).epoch, second);
        is_handed_over.store(true, Release);
        asking.join().unwrap();
    });
}

/// Epochs that name the slots which the table has not yet, or has only just got.
#[test]
fn r03_nothing_false_is_live_while_the_table_gets_its_first_memory() {
    loom_check(3, || {
        let asking = thread::spawn(|| {
            for epoch in [0, 1, 3] {
                assert!(!is_live(0, epoch), "{epoch}");
            }
            if let Some(node) = Node::find(3) {
                assert!(node.is(State::Free) && node.live(0).is_none());
            }
        });
        let (node, first) = first();
        assert!(first.is_live() && node.live(A).is_some());
        asking.join().unwrap();
    });
}

#[test]
fn r03_checks_are_right_while_the_table_grows() {
    loom_check(3, || {
        let (_, first) = first();
        let filled = take_batch(0);
        assert_eq!(filled.map(|(slot, count)| slot + count), Some(4));
        let asking = thread::spawn(move || {
            assert!(first.is_live());
            for slot in [0, 4, 7] {
                assert!(!is_live(0, slot), "{slot}");
                assert!(!is_live(A, first.epoch & !3 | slot), "{slot}");
            }
            if let Some(node) = Node::find(4) {
                assert_eq!(node.live(A), None);
            }
        });
        let (slot, _) = take_batch(0).expect("the table grows");
        assert_eq!(slot, 4);
        assert!(first.is_live());
        asking.join().unwrap();
    });
}
