// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The tracker against a naive model of it.
//!
//! Random programs of calls run on both, through the Rust interface and through the C interface.
//! After each step all that can be asked is compared. `LOT_MODEL_STEPS` says how many steps in all
//! (1,000,000), or `LOT_MODEL_SECONDS` for how long. `LOT_MODEL_SEED` repeats a search.
//! `LOT_MODEL_SHRINKING` says for how many seconds a failing program is made smaller (120).

mod api;
mod cases;
mod compare;
mod naive;
mod search;
mod steps;

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use search::Until;

fn variable<T: FromStr>(name: &str) -> Option<T> {
    let text = std::env::var(name).ok()?;
    match text.replace('_', "").parse() {
        Ok(value) => Some(value),
        Err(_) => panic!("{name}={text} is not a number"),
    }
}

fn seed() -> u64 {
    variable("LOT_MODEL_SEED").unwrap_or_else(|| RandomState::new().hash_one(0))
}

/// Each interface has half of the steps, or of the time.
fn half() -> Until {
    match variable("LOT_MODEL_SECONDS") {
        Some(seconds) => Until::Time(Duration::from_secs(seconds) / 2),
        None => Until::Steps(variable("LOT_MODEL_STEPS").unwrap_or(1_000_000) / 2),
    }
}

#[test]
fn random_programs_through_the_rust_interface_agree_with_the_model() {
    search::search(api::Rust, seed(), half());
}

#[test]
fn random_programs_through_the_c_interface_agree_with_the_model() {
    search::search(api::C, seed(), half());
}

#[test]
fn programs_that_the_fuzzer_found_agree_with_the_model() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus/steps");
    let mut files = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        cases::agree_as_read(&path.display().to_string(), &bytes);
        files += 1;
    }
    assert!(files >= 20, "only {files} files in the corpus");
}
