// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Makes random programs, runs them in a process of their own, and makes a failing one small.
//!
//! The programs run in a child process, so that a tracker that hangs, crashes or eats memory is a
//! finding like any other. This process never uses the tracker: each attempt to make a failing
//! program smaller begins in a child with a fresh one.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use std::{fs, ptr, slice};

use proptest::array;
use proptest::collection::vec;
use proptest::num::u8::ANY;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use crate::api::Api;
use crate::compare::{self, Difference, Earlier};
use crate::steps::{self, PIECE, Pool};
use crate::variable;

/// How long the search may go without a new program before it counts as hanging.
const HANG: Duration = Duration::from_secs(30);
/// The same for one program that is being made smaller.
const HANG_ALONE: Duration = Duration::from_secs(3);
/// How much memory a child may use, in bytes of addresses.
const ADDRESSES: u64 = 6 << 30;
/// How long a failing program is made smaller at most, in seconds.
const SHRINKING: u64 = 120;

const MESSAGE: usize = 1 << 16;

/// What the child says, in memory that both processes share.
#[repr(C)]
struct Shared {
    program: AtomicU64,
    steps: AtomicU64,
    step: AtomicU64,
    length: AtomicU64,
    message: [u8; MESSAGE],
}

struct Channel(*mut Shared);

impl Channel {
    fn new() -> Self {
        let (protection, flags) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_ANONYMOUS,
        );
        // SAFETY: new memory, which nobody else has.
        let memory = unsafe {
            libc::mmap(
                ptr::null_mut(),
                size_of::<Shared>(),
                protection,
                flags,
                -1,
                0,
            )
        };
        assert_ne!(memory, libc::MAP_FAILED);
        Self(memory.cast())
    }

    fn shared(&self) -> &Shared {
        // SAFETY: mapped until this is dropped; zeros are a value of the type.
        unsafe { &*self.0 }
    }

    /// Written by the child alone, before it ends.
    fn say(&self, difference: &Difference) {
        let shared = self.shared();
        let text = difference.what.as_bytes();
        let text = &text[..text.len().min(MESSAGE)];
        // SAFETY: the memory is large enough, and nobody reads it before the child's end.
        unsafe {
            let message = (&raw mut (*self.0).message).cast::<u8>();
            message.copy_from_nonoverlapping(text.as_ptr(), text.len());
        }
        shared.step.store(difference.step as u64, Ordering::Relaxed);
        shared.length.store(text.len() as u64, Ordering::Release);
    }

    fn message(&self) -> String {
        let length = self.shared().length.load(Ordering::Acquire) as usize;
        // SAFETY: the child is gone, so nobody writes.
        let text =
            unsafe { slice::from_raw_parts((&raw const (*self.0).message).cast::<u8>(), length) };
        String::from_utf8_lossy(text).into_owned()
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`, and not used any more.
        unsafe { libc::munmap(self.0.cast(), size_of::<Shared>()) };
    }
}

/// How a child ended, if not well.
struct Failure {
    what: String,
}

/// Runs `work` in a child process; it says through the channel what it finds.
fn in_child(
    channel: &Channel,
    patience: Duration,
    work: impl FnOnce() -> Result<(), Difference>,
) -> Result<(), Failure> {
    let shared = channel.shared();
    shared.length.store(0, Ordering::Relaxed);
    shared.step.store(u64::MAX, Ordering::Relaxed);
    // SAFETY: the child runs our code only, and leaves without running what the parent registered.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "fork: {}", std::io::Error::last_os_error());
    if child == 0 {
        let limit = libc::rlimit {
            rlim_cur: ADDRESSES,
            rlim_max: libc::RLIM_INFINITY,
        };
        // SAFETY: the limit is ours. Where it cannot be set, memory has the limits of the system.
        unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) };
        std::panic::set_hook(Box::new(|_| {})); // The panic's text comes with the difference.
        let code = match work() {
            Ok(()) => 0,
            Err(difference) => {
                channel.say(&difference);
                1
            }
        };
        // SAFETY: ends the child.
        unsafe { libc::_exit(code) };
    }
    let mut seen = (u64::MAX, Instant::now());
    loop {
        let mut status = 0;
        // SAFETY: our own child.
        let ended = unsafe { libc::waitpid(child, &mut status, libc::WNOHANG) };
        if ended == child {
            return match (libc::WIFEXITED(status), libc::WEXITSTATUS(status)) {
                (true, 0) => Ok(()),
                (true, 1) => Err(Failure {
                    what: channel.message(),
                }),
                (true, code) => Err(Failure {
                    what: format!("the process ended with {code}"),
                }),
                (false, _) => Err(Failure {
                    what: format!("the process ended with signal {}", libc::WTERMSIG(status)),
                }),
            };
        }
        let program = shared.program.load(Ordering::Relaxed);
        if program != seen.0 {
            seen = (program, Instant::now());
        } else if seen.1.elapsed() > patience {
            // SAFETY: our own child, which has not been waited for.
            unsafe {
                libc::kill(child, libc::SIGKILL);
                libc::waitpid(child, &mut status, 0);
            }
            return Err(Failure {
                what: format!("no end after {patience:?}"),
            });
        }
        std::thread::sleep(match seen.1.elapsed().as_millis() {
            0..5 => Duration::from_micros(100),
            _ => Duration::from_millis(5),
        });
    }
}

fn strategy() -> impl Strategy<Value = (u8, Vec<[u8; PIECE]>)> {
    let piece = array::uniform12(ANY);
    let short = vec(piece, 1..=160);
    let long = vec(piece, 300..=1500);
    (ANY, proptest::prop_oneof![60 => short, 1 => long])
}

/// The program with that number.
fn tree(seed: u64, number: u64) -> impl ValueTree<Value = (u8, Vec<[u8; PIECE]>)> {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    bytes[8..16].copy_from_slice(&number.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let tree = strategy().new_tree(&mut runner);
    tree.unwrap_or_else(|reason| panic!("no program: {reason}"))
}

fn bytes_of((first, pieces): &(u8, Vec<[u8; PIECE]>)) -> Vec<u8> {
    let mut bytes = vec![*first];
    bytes.extend(pieces.as_flattened());
    bytes
}

/// When a search has done enough.
#[derive(Clone, Copy)]
pub enum Until {
    Steps(u64),
    Time(Duration),
}

/// Runs random programs; a difference is a panic that says how to repeat it.
pub fn search<A: Api>(api: A, seed: u64, until: Until) {
    let channel = Channel::new();
    let start = Instant::now();
    let searched = in_child(&channel, HANG, || {
        let shared = channel.shared();
        let mut earlier = Earlier::default();
        let (mut number, mut done) = (0, 0);
        let goes_on = |done: u64| match until {
            Until::Steps(steps) => done < steps,
            Until::Time(time) => start.elapsed() < time,
        };
        while goes_on(done) {
            shared.program.store(number, Ordering::Relaxed);
            let (pool, program) = steps::read(&bytes_of(&tree(seed, number).current()));
            compare::run(api, pool, &program, &mut earlier)?;
            number += 1;
            done += program.len() as u64;
            shared.steps.store(done, Ordering::Relaxed);
        }
        Ok(())
    });
    let shared = channel.shared();
    let done = shared.steps.load(Ordering::Relaxed);
    let programs = shared.program.load(Ordering::Relaxed);
    let Err(failure) = searched else {
        let per_step = start.elapsed().as_nanos() / u128::from(done.max(1));
        println!(
            "model, {}: {done} steps in {} programs without a difference, {per_step} ns each \
             (seed {seed})",
            A::NAME,
            programs + 1,
        );
        return;
    };
    let report = explain(api, seed, programs, failure);
    panic!(
        "model, {}: a difference after {done} steps, in program {programs} of seed {seed}\n\n\
         {report}\n\
         To repeat it: LOT_MODEL_SEED={seed} cargo test --profile model --test model\n",
        A::NAME,
    );
}

/// Makes the failing program small, and says what it is.
fn explain<A: Api>(api: A, seed: u64, number: u64, failure: Failure) -> String {
    let channel = Channel::new();
    let alone = |bytes: &[u8]| {
        in_child(&channel, HANG_ALONE, || {
            let (pool, program) = steps::read(bytes);
            compare::run(api, pool, &program, &mut Earlier::default())
        })
    };
    let mut tree = tree(seed, number);
    let first = bytes_of(&tree.current());
    let Err(mut last) = alone(&first) else {
        return format!(
            "It comes only after the programs before it.\n  {}\n{}",
            failure.what,
            listing(&first)
        );
    };
    let start = Instant::now();
    let shrinking = variable("LOT_MODEL_SHRINKING").unwrap_or(SHRINKING);
    let shrinking = Duration::from_secs(shrinking);
    let mut smallest = first;
    if tree.simplify() {
        while start.elapsed() < shrinking {
            let bytes = bytes_of(&tree.current());
            let goes_on = match alone(&bytes) {
                Err(failure) => {
                    (smallest, last) = (bytes, failure);
                    tree.simplify()
                }
                Ok(()) => tree.complicate(),
            };
            if !goes_on {
                break;
            }
        }
    }
    // Single steps are tried by now; two at once may go where none goes alone.
    let mut is_smaller = true;
    while is_smaller && start.elapsed() < shrinking {
        is_smaller = false;
        for bytes in smaller(&smallest) {
            if let Err(failure) = alone(&bytes) {
                (smallest, last) = (bytes, failure);
                is_smaller = true;
                break;
            }
        }
    }
    let name = format!("{}-{seed:x}-{number:x}", A::NAME);
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let kept = match fs::write(&file, &smallest) {
        Ok(()) => format!("As bytes, for fuzz/corpus/steps: {}", file.display()),
        Err(error) => format!("{}: {error}", file.display()),
    };
    format!("  {}\n{}\n{kept}", last.what, listing(&smallest))
}

/// The program without one or two of its steps.
fn smaller(bytes: &[u8]) -> Vec<Vec<u8>> {
    let count = (bytes.len() - 1) / PIECE;
    let mut candidates = Vec::new();
    for a in 0..count {
        for b in a..count {
            let mut pieces = bytes[1..]
                .chunks_exact(PIECE)
                .enumerate()
                .collect::<Vec<_>>();
            pieces.retain(|(at, _)| *at != a && *at != b);
            let mut candidate = vec![bytes[0]];
            pieces
                .iter()
                .for_each(|(_, piece)| candidate.extend_from_slice(piece));
            candidates.push(candidate);
        }
    }
    candidates.sort_by_key(Vec::len);
    candidates
}

/// The steps in a form that can be pasted into `cases.rs`.
fn listing(bytes: &[u8]) -> String {
    let (pool, program) = steps::read(bytes);
    let pool = match pool {
        Pool::Dozen => "Pool::Dozen",
        Pool::Wide => "Pool::Wide",
    };
    let mut text = format!("    agree(\n        {pool},\n        &[\n");
    for step in &program {
        let null = format!("object: {}", usize::MAX);
        let step = format!("{step:?}").replace(&null, "object: NULL");
        let _ = writeln!(text, "            {step},");
    }
    text.push_str("        ],\n    );\n");
    text
}
