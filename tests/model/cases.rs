// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Programs that the search found once, made small. Each is what a user would see.

use crate::api::{Api, C, Rust};
use crate::compare::{self, Earlier};
use crate::steps::{self, Pool, Step};

fn run<A: Api>(api: A, pool: Pool, program: &[Step]) -> Result<(), String> {
    let ran = compare::run(api, pool, program, &mut Earlier::default());
    ran.map_err(|difference| {
        let step = program.get(difference.step);
        format!("{}: after {step:?}: {}", A::NAME, difference.what)
    })
}

/// Both interfaces agree with the model.
pub fn agree(pool: Pool, program: &[Step]) {
    run(Rust, pool, program).unwrap();
    run(C, pool, program).unwrap();
}

pub fn agree_as_read(name: &str, bytes: &[u8]) {
    let (pool, program) = steps::read(bytes);
    let ran = run(Rust, pool, &program).and_then(|()| run(C, pool, &program));
    if let Err(what) = ran {
        panic!("{name}: {what}");
    }
}
