//! The sequence of frames: which flows, which sizes, and that a seed means the same bytes for ever.
#![allow(clippy::unwrap_used)]

use chainline_workload::{Error, MAX_FLOWS, MAX_FRAME_BYTES, Mix, Order, Prefix, Proto, Space, Spec, Workload};
use proptest::prelude::*;
use std::collections::HashMap;

fn spec(mix: Mix, flows: u32, order: Order, seed: u64) -> Spec {
    Spec { flows, order, seed, ..Spec::new(mix) }
}

/// The next `n` frames, whole.
fn frames(workload: &mut Workload, n: usize) -> Vec<(u32, u32, Vec<u8>)> {
    let mut all = Vec::new();
    workload.burst(n, |frame| {
        let mut bytes = vec![0; MAX_FRAME_BYTES as usize];
        let len = frame.write(&mut bytes).unwrap();
        bytes.truncate(len);
        all.push((frame.flow, frame.flow_hash, bytes));
    });
    all
}

/// FNV-1a, 64 bits, over the frames with their lengths.
fn digest(spec: &Spec, n: usize) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut eat = |byte: u8| hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    for (_, _, bytes) in frames(&mut Workload::new(spec).unwrap(), n) {
        (bytes.len() as u32).to_le_bytes().into_iter().for_each(&mut eat);
        bytes.into_iter().for_each(&mut eat);
    }
    hash
}

#[test]
fn a_seed_means_the_same_bytes_on_every_machine_and_in_every_version() {
    let csit = Mix::weighted(&[(64, 28), (570, 16), (1518, 4)]).unwrap();
    let mixes = [Mix::constant(64).unwrap(), Mix::constant(9018).unwrap(), csit];
    let mut digests = Vec::new();
    for mix in mixes {
        for (flows, order) in [(100, Order::RoundRobin), (100, Order::Random), (1_000_000, Order::Random)] {
            for proto in [Proto::Udp, Proto::Tcp] {
                let space = Space { proto, ..Space::default() };
                let spec = Spec { space, ..spec(mix.clone(), flows, order, 42) };
                digests.push(format!("{:016x}", digest(&spec, 500)));
            }
        }
    }
    assert_eq!(digests.join("\n"), include_str!("digests.txt").trim_end());
}

#[test]
fn another_seed_means_other_flows() {
    let make = |seed| spec(Mix::constant(64).unwrap(), 1000, Order::RoundRobin, seed);
    assert_ne!(digest(&make(1), 100), digest(&make(2), 100));
}

#[test]
fn too_many_flows_or_none_are_refused() {
    let make = |flows| Workload::new(&spec(Mix::constant(64).unwrap(), flows, Order::RoundRobin, 0)).map(|_| ());
    assert_eq!(make(0), Err(Error::Flows(0)));
    assert_eq!(make(MAX_FLOWS + 1).unwrap_err().to_string(), "100000001 flows: expected 1 to 100000000");
    assert_eq!(make(MAX_FLOWS), Ok(()));
}

#[test]
fn flows_that_the_space_does_not_have_are_refused() {
    let host = |a| Prefix { addr: [a, 0, 0, 1].into(), len: 32 };
    let space = Space { src: host(10), dst: host(20), dst_ports: 53..=53, ..Space::default() };
    let make = |flows, dst_ports| {
        let space = Space { dst_ports, ..space.clone() };
        Workload::new(&Spec { space, flows, ..Spec::new(Mix::constant(64).unwrap()) }).map(|_| ())
    };
    assert_eq!(make(64_512, 53..=53), Ok(()));
    assert_eq!(make(64_513, 53..=53), Err(Error::Capacity { flows: 64_513, capacity: 64_512 }));
    #[allow(clippy::reversed_empty_ranges)]
    let reversed = 54..=53;
    assert_eq!(make(1, reversed), Err(Error::Ports { what: "destination", first: 54, last: 53 }));
}

#[test]
fn random_order_reaches_every_flow_about_equally() {
    let mut workload = Workload::new(&spec(Mix::constant(64).unwrap(), 64, Order::Random, 3)).unwrap();
    let mut counts = [0_u32; 64];
    workload.burst(64_000, |frame| counts[frame.flow as usize] += 1);
    // 1000 expected; eight standard deviations are 252.
    assert!(counts.iter().all(|c| (748..1252).contains(c)), "{counts:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Flows whose heads are kept and flows whose heads are computed give the same frames.
    #[test]
    fn the_number_of_flows_does_not_change_a_flow(seed: u64, sizes in prop::collection::vec((64_u32..=9022, 1_u32..5), 1..4)) {
        let mix = Mix::weighted(&sizes).unwrap();
        let mut few = Workload::new(&spec(mix.clone(), 1000, Order::RoundRobin, seed)).unwrap();
        let mut many = Workload::new(&spec(mix, MAX_FLOWS, Order::RoundRobin, seed)).unwrap();
        prop_assert_eq!(frames(&mut few, 100), frames(&mut many, 100));
    }

    #[test]
    fn round_robin_takes_flows_in_turn_and_sizes_by_weight(
        flows in 1_u32..200, sizes in prop::collection::vec((64_u32..=1518, 1_u32..30), 1..5), bursts in prop::collection::vec(0_usize..70, 1..20)
    ) {
        let mix = Mix::weighted(&sizes).unwrap();
        let mut workload = Workload::new(&spec(mix.clone(), flows, Order::RoundRobin, 1)).unwrap();
        let mut i = 0_usize;
        for n in bursts {
            for (flow, _, bytes) in frames(&mut workload, n) {
                prop_assert_eq!(flow as usize, i % flows as usize);
                let size = mix.sizes()[usize::from(mix.order()[i % mix.order().len()])];
                prop_assert_eq!(bytes.len() + 4, usize::from(size));
                i += 1;
            }
        }
    }

    /// What header parsing finds is the flow that was asked for, and its hash.
    #[test]
    fn parsing_gives_the_flow_and_its_hash(seed: u64, flows in prop::sample::select(vec![1_u32, 300, MAX_FLOWS]), size in 64_u32..=9022) {
        let mut workload = Workload::new(&spec(Mix::constant(size).unwrap(), flows, Order::Random, seed)).unwrap();
        let mut hashes = HashMap::new();
        for (flow, flow_hash, bytes) in frames(&mut workload, 50) {
            let layers = chainline_packet::parse(&bytes);
            let wanted = workload.flow(flow).unwrap().tuple();
            prop_assert_eq!(layers.tuple, wanted);
            prop_assert_eq!(flow_hash, chainline_packet::flow_hash(&wanted));
            prop_assert_eq!(*hashes.entry(flow).or_insert(flow_hash), flow_hash);
        }
        prop_assert!(workload.flow(flows).is_none());
    }
}
