// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The steps of a random program, and how they are read from bytes.
//!
//! A program is a byte that chooses the pool of addresses, and pieces of [`PIECE`] bytes. Each piece
//! is one step, so leaving a piece out leaves that step out. All zeros is the plainest program.
//! Every string of bytes is a program.

use std::fmt;

/// How many bytes a step is read from.
pub const PIECE: usize = 12;

/// As a place in a pool: the null address.
pub const NULL: usize = usize::MAX;
/// As a tracker: the handle of the tracker that was destroyed last, or one that was never given out.
pub const DESTROYED: usize = 3;
/// As a tracker: a handle that was never given out.
pub const MADE_UP: usize = 4;
/// How many trackers a program has at most. The first two exist when it begins.
pub const TRACKERS: usize = 3;

/// The scopes of a program.
pub const SCOPES: [u64; 4] = [7, 0, u64::MAX, 7 << 32];

/// Addresses that a program uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pool {
    /// A dozen, with short lists of ancestors in any order.
    Dozen,
    /// Two hundred, with chains of up to a hundred ancestors.
    Wide,
}

/// A region of 4 KiB, and two more that a multiplicative hash of 23 bits cannot tell from it.
const PAGE: usize = 0x7f12_3456_7000;
const SAME_HASH: [usize; 2] = [PAGES[0] << 12, PAGES[1] << 12];
const PAGES: [usize; 2] = [0x7_f17a_4a4e, 0x7_f096_789e];

const DOZEN: [usize; 13] = [
    PAGE + 0x40,
    PAGE + 0x80,
    PAGE + 0x48,
    SAME_HASH[0] + 0x40,
    SAME_HASH[1] + 0x40,
    PAGE + 0x1_0000_0040, // The same low 32 bits as the first.
    PAGE + 0x2_0000_0040,
    PAGE + 0x1040,     // The next page.
    PAGE + 0x10_0040,  // The next MiB.
    PAGE + 0x400_0040, // Another region of 64 MiB.
    0x10,
    0x5555_5555_0040,
    usize::MAX & !0x3f,
];

/// Outside of both pools: what an observer that calls back uses.
pub const ECHO: usize = 0x1234_0000;

impl Pool {
    pub fn len(self) -> usize {
        match self {
            Pool::Dozen => DOZEN.len(),
            Pool::Wide => 200,
        }
    }

    /// The address at a place of the pool; [`NULL`] is the null address.
    pub fn address(self, place: usize) -> usize {
        match self {
            _ if place == NULL => 0,
            Pool::Dozen => DOZEN[place],
            Pool::Wide => PAGE + place * 0x60,
        }
    }
}

/// Places in a pool. Its debug form can be pasted into a program.
#[derive(Clone, PartialEq, Eq)]
pub struct List(pub Vec<usize>);

impl fmt::Debug for List {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("list(&[")?;
        for (position, place) in self.0.iter().enumerate() {
            let comma = if position == 0 { "" } else { ", " };
            match *place {
                NULL => write!(f, "{comma}NULL")?,
                place => write!(f, "{comma}{place}")?,
            }
        }
        f.write_str("])")
    }
}

/// Which ref a step is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Which {
    /// One that was handed out: 0 is the latest.
    Latest(usize),
    /// The same with one bit of its epoch turned.
    OtherEpoch(usize, u32),
    /// The same with another address.
    OtherObject(usize, usize),
    /// An address with epoch 0.
    Untracked(usize),
    /// An address with a made-up epoch.
    MadeUp(usize, u64),
}

/// What an observer does when it is told of ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Observing {
    /// It asks questions.
    Asks,
    /// It also starts another object and destroys it.
    Echoes,
    /// It also takes itself back.
    Leaves,
}

/// Ways to misuse the C interface that the Rust interface does not have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Misuse {
    NoDescription,
    NoList,
    HugeList,
    NoPlaceForRef,
    NoPlaceForUser,
    NoPlaceForDeath,
    NoPlaceForCount,
    NoPlaceForParent,
    NoPlaceForStats,
    NoVisit,
    NoVisitOfChildren,
    NoWrite,
    NoSuchFormat,
    NoPlaceForTracker,
}

pub const MISUSES: [Misuse; 14] = [
    Misuse::NoDescription,
    Misuse::NoList,
    Misuse::HugeList,
    Misuse::NoPlaceForRef,
    Misuse::NoPlaceForUser,
    Misuse::NoPlaceForDeath,
    Misuse::NoPlaceForCount,
    Misuse::NoPlaceForParent,
    Misuse::NoPlaceForStats,
    Misuse::NoVisit,
    Misuse::NoVisitOfChildren,
    Misuse::NoWrite,
    Misuse::NoSuchFormat,
    Misuse::NoPlaceForTracker,
];

/// What is reported of an object that is registered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct About {
    pub tracker: usize,
    pub object: usize,
    pub scope: u64,
    pub kind: u8,
    pub ancestors: Option<List>,
    pub user: usize,
}

/// One call. Objects and ancestors are places in the pool.
#[derive(Clone, PartialEq, Eq, Debug)]
#[rustfmt::skip]
pub enum Step {
    Track(About),
    Create(About),
    Destroy { tracker: usize, object: usize },
    DestroyWith { tracker: usize, object: usize, kinds: u32 },
    Erase { tracker: usize, object: usize },
    ParentDestroy { tracker: usize, object: usize },
    Move { tracker: usize, object: usize, ancestors: List },
    Detach { tracker: usize, object: usize },
    OpaqueMutation { tracker: usize, object: usize },
    ClearScope { tracker: usize, scope: u64 },
    Release(Which),
    SetUser { which: Which, user: usize },
    Enter { by: Which, cause: u32 },
    Leave,
    NewTracker { tracker: usize },
    DestroyTracker { tracker: usize },
    Observe { tracker: usize, observing: Option<Observing> },
    ExactBegin { tracker: usize },
    ExactEnd { tracker: usize },
    Count { tracker: usize, scope: Option<u64>, kind: Option<u8> },
    ForEach { tracker: usize, scope: Option<u64>, kind: Option<u8>, stop_after: usize },
    Children { which: Which, stop_after: usize },
    Misuse { tracker: usize, misuse: Misuse },
}

/// The pool and the steps that bytes stand for.
pub fn read(bytes: &[u8]) -> (Pool, Vec<Step>) {
    let Some((first, pieces)) = bytes.split_first() else {
        return (Pool::Dozen, Vec::new());
    };
    let pool = match first {
        0..250 => Pool::Dozen,
        250.. => Pool::Wide,
    };
    let pieces = pieces.chunks_exact(PIECE);
    (pool, pieces.map(|piece| read_step(pool, piece)).collect())
}

/// How often each step comes, out of 256. What registers comes first: it is the plainest.
const WEIGHTS: [u8; 23] = [
    68, // Track
    28, // Create
    20, // Destroy
    14, // DestroyWith
    12, // Erase
    6,  // ParentDestroy
    30, // Move
    6,  // Detach
    6,  // OpaqueMutation
    4,  // ClearScope
    16, // Release
    6,  // SetUser
    6,  // Enter
    4,  // Leave
    4,  // NewTracker
    2,  // DestroyTracker
    5,  // Observe
    3,  // ExactBegin
    5,  // ExactEnd
    3,  // Count
    3,  // ForEach
    3,  // Children
    2,  // Misuse
];

const _: () = {
    let (mut sum, mut at) = (0, 0);
    while at < WEIGHTS.len() {
        sum += WEIGHTS[at] as usize;
        at += 1;
    }
    assert!(sum == 256);
};

fn read_step(pool: Pool, piece: &[u8]) -> Step {
    let &[
        choice,
        tracker,
        object,
        scope,
        kind,
        shape,
        p0,
        p1,
        p2,
        p3,
        user,
        fault,
    ] = piece
    else {
        unreachable!("a piece has {PIECE} bytes");
    };
    let mut left = choice;
    let mut number = 0;
    while left >= WEIGHTS[number] {
        left -= WEIGHTS[number];
        number += 1;
    }
    let tracker = match tracker {
        0..170 => 0,
        170..230 => 1,
        230..248 => 2,
        248..253 => DESTROYED,
        253.. => MADE_UP,
    };
    let seed = u32::from_le_bytes([p0, p1, p2, p3]);
    let ancestors = read_ancestors(pool, place(pool, object), shape, seed, fault);
    let object = if fault == 255 {
        NULL
    } else {
        place(pool, object)
    };
    let scope = match scope {
        0..180 => SCOPES[0],
        180..220 => SCOPES[1],
        220..240 => SCOPES[2],
        240.. => SCOPES[3],
    };
    let some_scope = (user < 200).then_some(scope);
    let kind = match kind {
        0..160 => 0,
        160..200 => 1,
        200..230 => 2,
        230..250 => 15,
        250..253 => 16,
        253.. => 255,
    };
    let some_kind = (fault < 128).then_some(if kind == 255 { 100 } else { kind });
    let user = usize::from(user);
    let which = read_which(object, p0, p1, seed);
    let about = || About {
        tracker,
        object,
        scope,
        kind,
        ancestors: (shape < 200).then(|| ancestors.clone()),
        user,
    };
    match number {
        0 => Step::Track(about()),
        1 => Step::Create(about()),
        2 => Step::Destroy { tracker, object },
        3 => Step::DestroyWith {
            tracker,
            object,
            // Mostly the kinds that there are.
            kinds: match shape {
                0..100 => 1,
                100..200 => seed & 0x8007,
                200.. => seed,
            },
        },
        4 => Step::Erase { tracker, object },
        5 => Step::ParentDestroy { tracker, object },
        6 => Step::Move {
            tracker,
            object,
            ancestors,
        },
        7 => Step::Detach { tracker, object },
        8 => Step::OpaqueMutation { tracker, object },
        9 => Step::ClearScope { tracker, scope },
        10 => Step::Release(which),
        11 => Step::SetUser { which, user },
        12 => Step::Enter {
            by: which,
            cause: u32::from(shape) % 8,
        },
        13 => Step::Leave,
        14 => Step::NewTracker {
            tracker: tracker % TRACKERS,
        },
        15 => Step::DestroyTracker { tracker },
        16 => Step::Observe {
            tracker,
            observing: match shape {
                0..120 => Some(Observing::Asks),
                120..180 => Some(Observing::Echoes),
                180..220 => Some(Observing::Leaves),
                220.. => None,
            },
        },
        17 => Step::ExactBegin { tracker },
        18 => Step::ExactEnd { tracker },
        19 => Step::Count {
            tracker,
            scope: some_scope,
            kind: some_kind,
        },
        20 => Step::ForEach {
            tracker,
            scope: some_scope,
            kind: some_kind,
            stop_after: usize::from(shape) % 5,
        },
        21 => Step::Children {
            which,
            stop_after: usize::from(shape) % 3,
        },
        _ => Step::Misuse {
            tracker,
            misuse: MISUSES[usize::from(shape) % MISUSES.len()],
        },
    }
}

fn place(pool: Pool, byte: u8) -> usize {
    usize::from(byte) % pool.len()
}

/// A list without the object and without repetition, except where a fault is asked for.
fn read_ancestors(pool: Pool, object: usize, shape: u8, seed: u32, fault: u8) -> List {
    let mut list = Vec::new();
    match pool {
        Pool::Dozen => {
            let mut others: Vec<usize> = (0..pool.len()).filter(|at| *at != object).collect();
            for position in 0..u32::from(shape) % 8 {
                let choice = (seed >> (4 * position) & 15) as usize;
                list.push(others.remove(choice % others.len()));
            }
        }
        Pool::Wide => {
            // Places that follow one another at a fixed distance, so that lists agree in part.
            let steps = [1, 1, 1, 3, 199, 199, 7, 101];
            let step = steps[(seed >> 8) as usize % steps.len()];
            let length = match shape {
                0..190 => usize::from(shape) % 12,
                190.. => usize::from(shape) - 100,
            };
            let mut at = seed as usize;
            for _ in 0..length {
                at += step;
                if at % pool.len() != object {
                    list.push(at % pool.len());
                }
            }
        }
    }
    let middle = list.len() / 2;
    match fault {
        252 => list.insert(middle, NULL),
        253 => list.insert(middle, object),
        254 if !list.is_empty() => list.push(list[middle]),
        _ => {}
    }
    List(list)
}

fn read_which(object: usize, p0: u8, p1: u8, seed: u32) -> Which {
    // Mostly one of the latest.
    let nth = match p0 {
        0..128 => usize::from(p0) % 8,
        128.. => usize::from(p0),
    };
    match p1 {
        0..220 => Which::Latest(nth),
        220..232 => Which::OtherEpoch(nth, (seed >> 16) % 64),
        232..240 => Which::OtherObject(nth, object),
        240..248 => Which::Untracked(object),
        248.. => Which::MadeUp(object, u64::from(seed >> 16) << (p0 % 48)),
    }
}
