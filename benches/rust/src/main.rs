// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! For callgrind: does one contender's jobs once, in a function whose instructions can be counted alone.

use lot_benches::{CONTENDERS, Job, ROUND};

#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn lot_bench_counted(job: &mut Job) -> usize {
    job()
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let (Some(group), Some(name)) = (arguments.next(), arguments.next()) else {
        for contender in CONTENDERS {
            println!("{}\t{}", contender.group, contender.name);
        }
        return;
    };
    let found = CONTENDERS
        .iter()
        .find(|contender| contender.group == group && contender.name == name);
    let mut job = (found.expect("there is such a contender").make)();
    assert_eq!(job(), ROUND, "a wrong answer");
    assert_eq!(lot_bench_counted(&mut job), ROUND, "a wrong answer");
}
