//! How many whole bootstraps can be simulated in a second. The aim is 5,000.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use jiff::Timestamp;
use windrow::simulate::{Faults, Setup, Verdict, with_windrow, without_windrow};

fn benchmark(criterion: &mut Criterion) {
    // 2026-01-01T00:00:00Z
    let setup = Setup::first_vm(Timestamp::constant(1_767_225_600, 0));
    let run = with_windrow(&setup, &Faults::NONE, 0);
    assert_eq!(
        run.outcome.verdict,
        Verdict::Complete,
        "the bootstrap completes, or this measures nothing"
    );
    let mut group = criterion.benchmark_group("simulated bootstrap of first-vm");
    group.throughput(Throughput::Elements(1));
    let mut seed = 0;
    let mut next = || {
        seed += 1;
        seed
    };
    group.bench_function("without Windrow", |bencher| {
        bencher.iter(|| black_box(without_windrow(&setup, next())));
    });
    group.bench_function("with Windrow", |bencher| {
        bencher.iter(|| black_box(with_windrow(&setup, &Faults::NONE, next())));
    });
    group.bench_function("with Windrow and every fault", |bencher| {
        bencher.iter(|| black_box(with_windrow(&setup, &Faults::ALL, next())));
    });
    group.finish();
}

criterion_group!(benches, benchmark);
criterion_main!(benches);
