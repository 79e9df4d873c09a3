// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Somebody else's Rust library in the same program: threads, the heap, and a panic that it catches.

use std::collections::HashMap;
use std::panic::catch_unwind;

/// Counts the letters of a text on a thread of its own.
#[unsafe(no_mangle)]
pub extern "C" fn other_counts_letters() -> usize {
    let counting = std::thread::spawn(|| {
        let mut letters = HashMap::new();
        for letter in "the quick brown fox"
            .chars()
            .filter(|letter| letter.is_alphabetic())
        {
            *letters.entry(letter).or_insert(0usize) += 1;
        }
        letters.values().sum()
    });
    counting.join().unwrap_or(0)
}

/// Whether a panic, raised three frames down and past a value with a destructor, arrives here.
#[unsafe(no_mangle)]
pub extern "C" fn other_catches_its_panic() -> bool {
    let caught = catch_unwind(|| {
        let guard = vec![String::from("dropped on the way")];
        raise(guard.len())
    });
    caught.is_err()
}

#[inline(never)]
fn raise(number: usize) -> usize {
    if std::hint::black_box(number) == 1 {
        panic!("the other library's");
    }
    number
}
