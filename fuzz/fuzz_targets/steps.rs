// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The programs of `tests/model`, from bytes that the fuzzer makes up.
//!
//! Bytes stand for the same steps there and here, so a file of one is a file of the other.
#![no_main]

#[path = "../../tests/model/api.rs"]
mod api;
#[path = "../../tests/model/compare.rs"]
mod compare;
#[path = "../../tests/model/naive.rs"]
mod naive;
#[path = "../../tests/model/steps.rs"]
mod steps;

use api::Api;
use compare::Earlier;
use libfuzzer_sys::fuzz_target;

fn run<A: Api>(api: A, bytes: &[u8]) {
    let (pool, program) = steps::read(bytes);
    if let Err(difference) = compare::run(api, pool, &program, &mut Earlier::default()) {
        let upto = program.len().min(difference.step + 1);
        panic!(
            "{}: {}\nafter {:#?}",
            A::NAME,
            difference.what,
            &program[..upto]
        );
    }
}

fuzz_target!(|bytes: &[u8]| {
    // The lowest bit chooses the interface; the rest of the first byte chooses the pool.
    if bytes.first().is_some_and(|first| first & 1 == 1) {
        run(api::C, bytes);
    } else {
        run(api::Rust, bytes);
    }
});
