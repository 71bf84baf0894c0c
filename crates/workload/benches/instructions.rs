//! What a frame costs in instructions, for callgrind: `instructions CASE BURSTS` makes so many bursts of 64 frames.
//!
//! The difference of two runs, divided by the frames between them, is the cost of one: what happens once is in both.
//! `valgrind --tool=callgrind target/release/deps/instructions-… million 600`, and again with 100.

use chainline_workload::{Head, Hosts, Lengths, Mix, Order, Prefix, Proto, Space, Spec, Vlan, WorkingSet, Workload};
use std::hint::black_box;

const BURST: usize = 64;

fn spec(case: &str) -> Option<Spec> {
    let plain = Spec::new(Mix::constant(64).ok()?);
    Some(match case {
        "few" => Spec { flows: 100, ..plain },
        "million" => Spec { flows: 1_000_000, ..plain },
        "random" => Spec { flows: 1_000_000, order: Order::Random, ..plain },
        "zipf" => Spec { flows: 1_000_000, order: Order::Zipf(1.1), ..plain },
        "interleave" => Spec { flows: 1_000_000, order: Order::Interleave { flows: 64, packets: 16 }, ..plain },
        "working-set" => {
            Spec { flows: 1_000_000, working_set: Some(WorkingSet { flows: 1000, packets: 10_000 }), ..plain }
        }
        "hosts" => {
            let hosts = Some(Hosts { count: 1000, times: 10, grouped: false });
            Spec { flows: 1_000_000, space: Space { hosts, ..Space::default() }, ..plain }
        }
        "tcp-lives" => {
            let space = Space { proto: Proto::Tcp, ..Space::default() };
            Spec { flows: 100_000, lengths: Some(Lengths::Constant(10)), space, ..plain }
        }
        "v6-vlan" => {
            let prefix = |text: &str| text.parse().ok().map(|addr| Prefix { addr, len: 48 });
            let (src, dst) = (prefix("2001:db8:1::")?, prefix("2001:db8:2::")?);
            let space = Space { src, dst, ..Space::default() };
            Spec { flows: 1_000_000, vlan: Vlan::One(7), space, ..Spec::new(Mix::constant(78).ok()?) }
        }
        "drawn" => {
            let mix = Mix::drawn((64..=1518).map(|size| (size, u64::from(size % 97)))).ok()?;
            Spec { flows: 1_000_000, ..Spec::new(mix) }
        }
        _ => return None,
    })
}

fn main() {
    let mut args = std::env::args().skip(1).filter(|a| a != "--bench");
    let (case, bursts) = (args.next().unwrap_or_else(|| "few".into()), args.next());
    let bursts = bursts.and_then(|n| n.parse().ok()).unwrap_or(1);
    let Some(mut workload) = spec(&case).and_then(|s| Workload::new(&s).ok()) else {
        eprintln!("{case}: no such case");
        std::process::exit(2);
    };
    let mut buffers = vec![Head([0; 64]); 4096];
    let mut next = 0;
    for _ in 0..bursts {
        workload.burst(BURST, |frame| {
            buffers[next % 4096] = *frame.head;
            next += 1;
            black_box(frame.len);
        });
    }
    black_box(&buffers);
}
