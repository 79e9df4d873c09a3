// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Programs that showed a fault once, made small. Each is what a user would see.

use crate::api::{Api, C, Rust};
use crate::compare::{self, Earlier};
use crate::steps::Step::*;
use crate::steps::Which::*;
use crate::steps::{self, About, List, NULL, Pool, Step};

fn run<A: Api>(api: A, pool: Pool, program: &[Step]) -> Result<(), String> {
    let ran = compare::run(api, pool, program, &mut Earlier::default());
    ran.map_err(|difference| {
        let step = program.get(difference.step);
        format!("{}: after {step:?}: {}", A::NAME, difference.what)
    })
}

/// Both interfaces agree with the model.
pub fn agree(pool: Pool, program: &[Step]) {
    let ran = run(Rust, pool, program).and_then(|()| run(C, pool, program));
    if let Err(what) = ran {
        panic!("{what}");
    }
}

pub fn agree_as_read(name: &str, bytes: &[u8]) {
    let (pool, program) = steps::read(bytes);
    println!("{name}"); // Seen if it fails.
    agree(pool, &program);
}

fn list(places: &[usize]) -> List {
    List(places.to_vec())
}

/// An object of kind 0 with ancestors, for `Track` and `Create`.
fn about(object: usize, ancestors: &[usize]) -> About {
    About {
        tracker: 0,
        object,
        scope: 7,
        kind: 0,
        ancestors: Some(list(ancestors)),
        user: 0,
    }
}

#[rustfmt::skip]
fn destroy(object: usize) -> Step {
    Destroy { tracker: 0, object }
}

#[test]
fn r05_what_is_reported_below_what_was_below_it_is_found() {
    agree(
        Pool::Dozen,
        &[Track(about(6, &[2, 3])), Track(about(2, &[6]))],
    );
    let inside = Track(about(12, &[4, 2]));
    agree(
        Pool::Dozen,
        &[Track(about(8, &[])), inside, Track(about(2, &[8, 12]))],
    );
}

#[test]
fn r05_what_is_reported_below_what_was_below_it_dies_by_its_erase() {
    let upside_down = [Track(about(0, &[1, 2])), Track(about(2, &[3, 0]))];
    let erase = Erase {
        tracker: 0,
        object: 2,
    };
    agree(
        Pool::Dozen,
        &[&upside_down[..], &[erase, destroy(2)]].concat(),
    );
}

#[test]
fn r05_what_is_reported_below_what_was_below_it_lives_when_others_are_tracked() {
    let ancestors = list(&[1, 6, 7]);
    let moved = Move {
        tracker: 0,
        object: 0,
        ancestors,
    };
    agree(
        Pool::Dozen,
        &[
            Create(about(5, &[1, 0])),
            moved,
            Track(about(2, &[0, 1, 8])),
        ],
    );
}

#[test]
fn r08_an_untracked_object_can_be_moved_below_all_that_it_holds() {
    let moved = |object, ancestors: &[usize]| Move {
        tracker: 0,
        object,
        ancestors: list(ancestors),
    };
    let below_its_only_child = [Track(about(1, &[2])), moved(2, &[1])];
    let others = (3..12).map(|object| Track(about(object, &[])));
    let cleared = ClearScope {
        tracker: 0,
        scope: 7,
    };
    let program = below_its_only_child
        .into_iter()
        .chain(others)
        .chain([cleared]);
    agree(Pool::Dozen, &program.collect::<Vec<_>>());
    // Here a tracker went round in a circle.
    let deep = Track(about(2, &[1, 8, 7, 0, 3, 4]));
    agree(Pool::Dozen, &[deep, moved(3, &[1]), moved(1, &[0, 4, 3])]);
}

#[test]
fn r12_a_moved_placeholder_that_holds_nothing_goes() {
    let ancestors = list(&[0, 10]);
    let moved = Move {
        tracker: 0,
        object: 9,
        ancestors,
    };
    agree(Pool::Dozen, &[Track(about(3, &[0, 9])), moved]);
}

#[test]
fn r07_parts_that_moved_up_end_with_what_they_moved_to() {
    let argument = About {
        kind: 2,
        ..about(1, &[2, 3])
    };
    let with_parts = DestroyWith {
        tracker: 0,
        object: 3,
        kinds: 1 << 2,
    };
    let block = Track(about(2, &[3]));
    let operation = Track(about(3, &[]));
    agree(
        Pool::Dozen,
        &[Track(argument), block, operation, destroy(2), with_parts],
    );
}

#[test]
fn r06_a_new_object_does_not_stand_where_the_gone_one_at_its_address_stood() {
    let children = [Track(about(0, &[1])), Track(about(2, &[1]))];
    let gone = [Track(about(1, &[])), destroy(1)];
    let again = [Track(about(1, &[])), Track(about(0, &[1]))];
    let erase = Erase {
        tracker: 0,
        object: 1,
    };
    let program = [&children[..], &gone, &again, &[erase]].concat();
    agree(Pool::Dozen, &program);
}

#[test]
fn r06_a_new_object_does_not_inherit_a_place() {
    let unplaced = About {
        ancestors: None,
        ..about(0, &[])
    };
    let placeholder = Track(about(3, &[2, 0, 1, 4]));
    agree(Pool::Dozen, &[placeholder, Create(unplaced.clone())]);
    agree(Pool::Dozen, &[Track(about(0, &[1])), Create(unplaced)]);
}

#[test]
fn r13_an_attribution_to_an_earlier_object_at_the_address_is_not_to_this_one() {
    let by = Latest(0);
    let ancestor_destroyed = Enter { by, cause: 2 };
    let first = [Track(about(0, &[])), ancestor_destroyed, destroy(0)];
    let second = [Track(about(0, &[])), destroy(0)];
    agree(Pool::Dozen, &[&first[..], &second].concat());
    // One with epoch 0 is to whatever is at the address.
    let untracked = Enter {
        by: Untracked(0),
        cause: 2,
    };
    agree(Pool::Dozen, &[untracked, Track(about(0, &[])), destroy(0)]);
}

#[test]
fn r13_an_attribution_without_a_cause_says_nothing() {
    let by = Latest(0);
    let says_nothing = Enter { by, cause: 0 };
    let other = Track(about(4, &[]));
    agree(
        Pool::Dozen,
        &[Track(about(0, &[])), says_nothing, other, destroy(4)],
    );
}

#[test]
fn r17_the_null_address_is_refused_by_each_hook() {
    let (tracker, object) = (0, NULL);
    let ancestors = list(&[]);
    agree(
        Pool::Dozen,
        &[
            Destroy { tracker, object },
            DestroyWith {
                tracker,
                object,
                kinds: 1,
            },
            Erase { tracker, object },
            ParentDestroy { tracker, object },
            OpaqueMutation { tracker, object },
            Detach { tracker, object },
            Move {
                tracker,
                object,
                ancestors,
            },
        ],
    );
}

/// What is known already makes these look like reports that have just one new link.
#[test]
fn r08_ancestors_that_name_one_twice_are_refused_also_where_all_of_it_is_known() {
    for known in [&[2][..], &[2, 3]] {
        let above = &known[1..];
        let twice = [&[2, 2], above].concat();
        let itself = [&[1, 2], above].concat();
        let parent_itself = [&[2, 1], known].concat();
        for ancestors in [twice, itself, parent_itself] {
            let program = [Track(about(1, known)), Track(about(1, &ancestors))];
            agree(Pool::Dozen, &program);
        }
    }
    agree(Pool::Dozen, &[Track(about(1, &[])), Track(about(1, &[1]))]);
}
