// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Adding to the filter against its renewal, in all that the memory model allows.

use std::sync::Arc;

use loom::thread;

use super::*;
use crate::core::sync::loom_check;

/// A filter, and what is in the part that it stands before.
struct Part {
    filter: Filter,
    keys: Lock<Vec<Key>>,
}

impl Part {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            filter: Filter::new(),
            keys: lock::new(Vec::new()),
        })
    }

    fn insert(&self, object: usize) {
        self.keys.lock().push(Key::of(object));
        self.filter.add(Key::of(object), || self.all());
        assert!(self.may_contain(object), "an entry is hidden");
    }

    fn remove(&self, object: usize) {
        self.keys.lock().retain(|key| *key != Key::of(object));
        self.filter.remove(|| self.all());
    }

    fn all(&self) -> impl Iterator<Item = Key> + use<> {
        self.keys.lock().clone().into_iter()
    }

    fn may_contain(&self, object: usize) -> bool {
        self.filter.may_contain(Key::of(object))
    }
}

const A: usize = 0x1000;
const B: usize = 0x7_2345_6780;
const C: usize = 0x55_5432_1560;

/// Each first one makes the words.
#[test]
fn entries_that_come_at_the_same_time_are_not_hidden() {
    loom_check(2, || {
        let part = Part::new();
        let other = part.clone();
        let thread = thread::spawn(move || other.insert(A));
        part.insert(B);
        thread.join().unwrap();
        assert!(
            part.may_contain(A) && part.may_contain(B),
            "an entry is hidden"
        );
    });
}

#[test]
fn an_entry_is_not_hidden_while_the_bits_are_computed_anew() {
    loom_check(3, || {
        let part = Part::new();
        part.insert(A);
        part.insert(C);
        // The next removal computes the bits anew.
        part.filter.patience.store(1, Ordering::Relaxed);
        let other = part.clone();
        let thread = thread::spawn(move || other.remove(C));
        part.insert(B);
        assert!(part.may_contain(A), "an entry is hidden");
        thread.join().unwrap();
        assert!(
            part.may_contain(A) && part.may_contain(B),
            "an entry is hidden"
        );
    });
}

/// A reader has no lock, and may have the old words.
#[test]
fn a_reader_misses_no_entry_while_the_filter_gets_more_words() {
    loom_check(3, || {
        let part = Part::new();
        part.insert(A);
        part.filter.room.store(1, Ordering::Relaxed);
        let other = part.clone();
        let thread = thread::spawn(move || {
            assert!(other.may_contain(A), "an entry is hidden");
            assert!(other.may_contain(A), "an entry is hidden");
        });
        // As many as need more words.
        let many = (1..=FIRST_LEN * 64 / CROWDED).map(|n| Key::of(A + n * 0x100));
        part.keys.lock().extend(many);
        part.insert(B);
        assert!(len(part.filter.words(Ordering::Relaxed).1) > FIRST_LEN);
        thread.join().unwrap();
    });
}
