//! A seed means the same bytes on every machine and in every version: a digest of each shape of traffic, and of each
//! schedule, is committed. `UPDATE=1 cargo test -p chainline-workload --test golden` writes them anew; whoever does
//! says in the commit why everybody's packets change.
#![allow(clippy::unwrap_used)]

use chainline_workload::{
    Arrivals, Histogram, Hosts, Lengths, MAX_FRAME_BYTES, Mix, NAMED, Order, Prefix, Proto, Rewrite, Schedule, Space,
    Spec, Vlan, WorkingSet, Workload, dial, genome,
};

const FRAMES: usize = 1000;

/// FNV-1a, 64 bits.
struct Digest(u64);

impl Digest {
    fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    fn eat(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|b| self.0 = (self.0 ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3));
    }
}

fn prefix(text: &str, len: u8) -> Prefix {
    Prefix { addr: text.parse().unwrap(), len }
}

/// The digest of the frames with their lengths, flows and flow hashes, taken by bursts of `burst`.
fn frames(spec: &Spec, burst: usize, rewrite: Option<Rewrite>) -> u64 {
    let (mut digest, mut rewrite) = (Digest::new(), rewrite);
    let mut workload = Workload::new(spec).unwrap();
    let mut bytes = vec![0; MAX_FRAME_BYTES as usize];
    let mut left = FRAMES;
    while left > 0 {
        let n = burst.min(left);
        left -= n;
        workload.burst(n, |frame| {
            let len = frame.write(&mut bytes).unwrap();
            if let Some(rewrite) = &mut rewrite {
                rewrite.apply(&mut bytes[..len]);
            }
            [len as u32, frame.flow, frame.flow_hash].iter().for_each(|n| digest.eat(&n.to_le_bytes()));
            digest.eat(&bytes[..len]);
        });
    }
    digest.0
}

fn shapes() -> Vec<(String, Spec)> {
    let of = |mix: Mix| Spec { flows: 300, seed: 42, ..Spec::new(mix) };
    let small = || of(Mix::constant(64).unwrap());
    let long = || of(Mix::constant(200).unwrap());
    let imix = || Mix::weighted(&[(90, 7), (570, 4), (1518, 1)]).unwrap();
    let v6 =
        |proto| Space { proto, src: prefix("2001:db8:1::", 48), dst: prefix("2001:db8:2::", 48), ..Space::default() };
    let tcp = || Space { proto: Proto::Tcp, ..Space::default() };
    let hosts = |times, grouped| {
        let hosts = Some(Hosts { count: 20, times, grouped });
        Spec { space: Space { hosts, ..Space::default() }, ..small() }
    };
    let measured =
        || Lengths::Measured(Histogram::parse("1,2,478\n2,3,175\n3,9,190\n9,101,130\n101,1001,27\n").unwrap());
    let interleave = |flows| Spec { order: Order::Interleave { flows, packets: 10 }, ..small() };
    let mut all: Vec<(String, Spec)> = NAMED
        .iter()
        .map(|named| {
            let parts: Vec<_> = named.parts.iter().map(|&(size, w)| (u32::from(size), w)).collect();
            (format!("mix {}", named.name), of(Mix::weighted(&parts).unwrap()))
        })
        .collect();
    let drawn = Mix::parse("64,5\n90,3\n777,1\n1518,2\n").unwrap();
    let more = [
        ("64 bytes, round robin", small()),
        ("a million flows, round robin", Spec { flows: 1_000_000, ..small() }),
        ("9018 bytes", of(Mix::constant(9018).unwrap())),
        ("genome", of(genome("7a4(bc)z", &[('z', 9018)]).unwrap())),
        ("drawn sizes", of(drawn)),
        ("random order", Spec { order: Order::Random, ..small() }),
        ("Zipf 0.9", Spec { order: Order::Zipf(0.9), flows: 1_000_000, ..small() }),
        ("Zipf 1", Spec { order: Order::Zipf(1.0), ..small() }),
        ("Zipf 1.1 over an IMIX", Spec { order: Order::Zipf(1.1), ..of(imix()) }),
        ("flow after flow", interleave(dial(0, 4, 300))),
        ("interleaved, half way", interleave(dial(2, 4, 300))),
        ("interleaved, all", interleave(dial(4, 4, 300))),
        ("working set", Spec { working_set: Some(WorkingSet { flows: 17, packets: 100 }), ..small() }),
        ("working set, at random", {
            let working_set = Some(WorkingSet { flows: 17, packets: 100 });
            Spec { working_set, order: Order::Random, ..small() }
        }),
        ("hosts, uniform", hosts(1, false)),
        ("hosts, half of them ten times", hosts(10, false)),
        ("hosts, half of them ten times, grouped", hosts(10, true)),
        ("IPv6 UDP", Spec { space: v6(Proto::Udp), ..long() }),
        ("IPv6 TCP", Spec { space: v6(Proto::Tcp), ..long() }),
        ("VLAN", Spec { vlan: Vlan::One(100), ..long() }),
        ("two VLANs", Spec { vlan: Vlan::Two(200, 100), ..long() }),
        ("two VLANs, IPv6 TCP", Spec { vlan: Vlan::Two(200, 100), space: v6(Proto::Tcp), ..long() }),
        ("TCP without end", Spec { space: tcp(), ..of(imix()) }),
        ("TCP, ten packets", Spec { space: tcp(), lengths: Some(Lengths::Constant(10)), ..of(imix()) }),
        ("TCP, one packet", Spec { space: tcp(), lengths: Some(Lengths::Constant(1)), ..of(imix()) }),
        ("TCP, measured lengths", Spec { space: tcp(), lengths: Some(measured()), ..of(imix()) }),
        ("UDP, measured lengths, Zipf", { Spec { lengths: Some(measured()), order: Order::Zipf(1.1), ..of(imix()) } }),
        ("IPv6 TCP, five packets", { Spec { lengths: Some(Lengths::Constant(5)), space: v6(Proto::Tcp), ..long() } }),
        ("places of stamps", Spec { stamped: true, ..of(imix()) }),
        ("places of stamps, IPv6 TCP", Spec { stamped: true, space: v6(Proto::Tcp), ..long() }),
        ("other ports and addresses", {
            let space =
                Space { src: prefix("203.0.113.0", 25), src_ports: 7..=9000, dst_ports: 53..=54, ..Space::default() };
            Spec { space, src_mac: [2, 9, 8, 7, 6, 5], ..small() }
        }),
    ];
    all.extend(more.into_iter().map(|(name, spec)| (name.to_owned(), spec)));
    all
}

fn schedules() -> Vec<(&'static str, Arrivals)> {
    vec![
        ("constant", Arrivals::Constant),
        ("Poisson", Arrivals::Poisson),
        ("bursts", Arrivals::Bursts { packets: 32, gap_ns: 12_345.0 }),
        ("ramp", Arrivals::Ramp { from: 0.25, over_ns: 1e6, again: false }),
        ("ramp, again and again", Arrivals::Ramp { from: 3.0, over_ns: 1e5, again: true }),
    ]
}

#[test]
fn the_same_packets_at_the_same_times_on_every_machine() {
    let mut lines = Vec::new();
    for (name, spec) in shapes() {
        let whole = frames(&spec, FRAMES, None);
        for burst in [1, 7, 64] {
            assert_eq!(frames(&spec, burst, None), whole, "{name}: bursts of {burst} give other packets");
        }
        assert_ne!(frames(&Spec { seed: 43, ..spec.clone() }, FRAMES, None), whole, "{name}: the seed says nothing");
        lines.push(format!("{whole:016x} {name}"));
    }
    let rewrite = Rewrite::new(Some(prefix("10.0.0.0", 8)), Some(prefix("10.0.0.0", 8)));
    let (_, spec) = shapes().swap_remove(0);
    lines.push(format!("{:016x} rewritten addresses", frames(&spec, FRAMES, Some(rewrite))));
    for (name, arrivals) in schedules() {
        let mut digest = Digest::new();
        let mut schedule = Schedule::new(arrivals, 1.7e6, 42).unwrap();
        // To the last bit: a time that differs by one is another time when it is rounded.
        (0..10_000).for_each(|_| digest.eat(&schedule.next_ns().to_bits().to_le_bytes()));
        lines.push(format!("{:016x} schedule: {name}", digest.0));
    }
    let text = lines.join("\n") + "\n";
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden.txt"), &text).unwrap();
        return;
    }
    assert_eq!(text, include_str!("golden.txt"));
}
