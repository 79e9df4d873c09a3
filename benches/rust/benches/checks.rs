// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The time that each contender takes for one job.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use lot_benches::{CONTENDERS, ROUND};

fn checks(criterion: &mut Criterion) {
    for contender in CONTENDERS {
        let mut group = criterion.benchmark_group(contender.group);
        group.throughput(Throughput::Elements(ROUND as u64));
        // Made when it is its turn, and dropped after it, so that contenders do not share the caches.
        let mut job = None;
        group.bench_function(contender.name, |bencher| {
            let job = job.get_or_insert_with(contender.make);
            assert_eq!(job(), ROUND, "{}: a wrong answer", contender.name);
            bencher.iter(job);
        });
        group.finish();
    }
}

criterion_group!(benches, checks);
criterion_main!(benches);
