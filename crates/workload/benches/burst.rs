//! What a frame costs the generator: the 64 bytes copied into one of 4,096 buffers, as a port does it.
//!
//! `cargo bench -p chainline-workload`; the goal is under 33 ns, 30 Mpps, at 64 bytes.
#![allow(missing_docs)] // criterion_group! makes an undocumented function

use chainline_workload::{Head, Mix, Order, Spec, Workload};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};

const BURST: usize = 64;
const BUFFERS: usize = 4096;

fn burst(c: &mut Criterion) {
    let mut group = c.benchmark_group("burst");
    group.throughput(Throughput::Elements(BURST as u64));
    let mixes = [
        ("64", Mix::constant(64).expect("a valid size")),
        ("imix", Mix::weighted(&[(64, 7), (570, 4), (1518, 1)]).expect("a valid mix")),
    ];
    for (name, mix) in mixes {
        for order in [Order::RoundRobin, Order::Random] {
            for flows in [1, 1000, 4096, 65_536, 1 << 22] {
                let spec = Spec { flows, order, ..Spec::new(mix.clone()) };
                let mut workload = Workload::new(&spec).expect("a valid spec");
                let mut buffers = vec![Head([0; 64]); BUFFERS];
                let mut next = 0;
                group.bench_function(BenchmarkId::new(format!("{name}/{order:?}"), flows), |b| {
                    b.iter(|| {
                        let mut sum = 0_u64;
                        workload.burst(BURST, |frame| {
                            buffers[next % BUFFERS] = *frame.head;
                            next += 1;
                            sum += u64::from(frame.flow_hash) + u64::from(frame.len);
                        });
                        sum
                    });
                });
            }
        }
    }
    group.finish();
}

criterion_group!(benches, burst);
criterion_main!(benches);
