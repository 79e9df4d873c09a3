// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Reading a record against overwriting it, in all that the memory model allows. The log has one
//! record (with `--cfg lot_small` each run is one), so each death overwrites the one before.

use loom::thread;

use super::*;
use crate::core::sync::loom_check;
use crate::core::table::take_batch;

const SLOTS: usize = 2;

/// The deaths that are told apart by all their fields.
fn death(number: usize) -> Death {
    Death {
        by: Ref {
            object: number,
            epoch: number as u64,
        },
        time_ns: number as u64,
        cause: Cause::from_number(number as u32),
        kind: number as u8,
    }
}

/// The ref number `number` that a slot has had; it is dead.
fn dead(node: Node, number: usize) -> Ref {
    let epoch = u64::from(generation_of(1 << 62)) << 32;
    Ref {
        object: 0x1000 * number,
        epoch: epoch + ((number as u64) << 32) + u64::from(node.slot),
    }
}

/// The writer of a log with that many records, and two slots.
fn start(records: usize) -> (Writer, [Node; SLOTS]) {
    LOG.lock().limit = records;
    take_batch(0);
    let (slot, count) = take_batch(0).expect("the table has slots");
    assert_eq!(count as usize, SLOTS);
    (Writer::new(), [slot, slot + 1].map(Node::at))
}

fn is_right_or_forgotten(node: Node, number: usize) {
    if let Some(found) = find(dead(node, number)) {
        assert_eq!(found, death(number), "the record of another death");
    }
}

#[test]
fn r13_a_record_that_is_being_overwritten_is_never_mixed_up() {
    for other in [0, 1] {
        loom_check(3, move || {
            let (mut writer, nodes) = start(1);
            writer.record(nodes[0], dead(nodes[0], 1), death(1));
            assert_eq!(find(dead(nodes[0], 1)), Some(death(1)));
            let reader = thread::spawn(move || {
                is_right_or_forgotten(nodes[other], 2);
                is_right_or_forgotten(nodes[0], 1);
            });
            writer.record(nodes[other], dead(nodes[other], 2), death(2));
            reader.join().unwrap();
            assert_eq!(find(dead(nodes[0], 1)), None);
            assert_eq!(find(dead(nodes[other], 2)), Some(death(2)));
        });
    }
}

#[test]
fn r13_the_chain_of_a_slots_deaths_leads_to_no_wrong_one() {
    loom_check(2, || {
        let (mut writer, [node, other]) = start(2);
        writer.record(node, dead(node, 1), death(1));
        let reader = thread::spawn(move || {
            is_right_or_forgotten(node, 1);
            is_right_or_forgotten(node, 2);
        });
        writer.record(node, dead(node, 2), death(2));
        writer.record(other, dead(other, 3), death(3));
        reader.join().unwrap();
        assert_eq!(find(dead(node, 1)), None);
        assert_eq!(find(dead(node, 2)), Some(death(2)));
    });
}
