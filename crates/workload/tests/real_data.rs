//! Flow lengths and captures that others measured, from the folder that `$CHAINLINE_DATA` names: what the workload makes
//! of them is what they say.
#![allow(clippy::unwrap_used)]

#[path = "../../packet/tests/support/mod.rs"]
mod support;

use chainline_packet::{checksum, parse, proto};
use chainline_workload::{
    FCS_BYTES, Histogram, Lengths, MAX_FRAME_BYTES, MIN_FRAME_BYTES, Mix, Prefix, Proto, Rewrite, Space, Spec, Workload,
};
use std::collections::BTreeMap;
use std::io::Read;
use std::path::PathBuf;

fn histogram(name: &str) -> Option<(String, Histogram)> {
    let Some(data) = std::env::var_os("CHAINLINE_DATA") else {
        println!("skipped: CHAINLINE_DATA is not set");
        return None;
    };
    let path = PathBuf::from(data).join("workload").join(format!("agh2015_hist_{name}_length.csv.xz"));
    let bytes = std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut text = String::new();
    lzma_rust2::XzReader::new(&bytes[..], true).read_to_string(&mut text).unwrap();
    let histogram = Histogram::parse(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    Some((text, histogram))
}

/// Share of the flows that have at most `n` packets.
fn share(h: &Histogram, n: u32) -> f64 {
    let all: f64 = h.bins().iter().map(|b| b.flows as f64).sum();
    let whole = |b: &&chainline_workload::Bin| b.last <= n;
    h.bins().iter().filter(whole).map(|b| b.flows as f64).sum::<f64>() / all
}

#[test]
fn published_flow_lengths_are_those_of_the_flows_made() {
    const SLOTS: u32 = 100_000;
    for (name, proto) in [("all", Proto::Udp), ("udp", Proto::Udp), ("tcp", Proto::Tcp)] {
        let Some((text, h)) = histogram(name) else { return };
        // Column 3 is the number of packets: the mean as those who published it have it.
        let sums = text.lines().skip(1).map(|l| l.split(',').map(|f| f.parse().unwrap()).collect::<Vec<f64>>());
        let (flows, packets) = sums.fold((0.0, 0.0), |(f, p), l| (f + l[2], p + l[3]));
        assert!((h.mean() / (packets / flows) - 1.0).abs() < 0.005, "{name}: mean {} packets", h.mean());
        if name == "all" {
            // "How Many Mice Make an Elephant?", table of the data set.
            assert!((packets / flows - 78.578).abs() < 0.001 && (share(&h, 1) - 0.478_326).abs() < 1e-6);
        }
        let space = Space { proto, ..Space::default() };
        let mix = Mix::constant(64).unwrap();
        let spec = Spec { flows: SLOTS, lengths: Some(Lengths::Measured(h.clone())), space, seed: 5, ..Spec::new(mix) };
        let mut workload = Workload::new(&spec).unwrap();
        // All begin at once and take turns: in turn n come those first flows that have n packets or more.
        let mut first: Vec<u32> = Vec::new();
        workload.burst(SLOTS as usize, |frame| first.push(frame.flow));
        for n in 1..=16 {
            let (mut slot, mut ended) = (0, 0);
            workload.burst(SLOTS as usize, |frame| {
                ended += u32::from(frame.flow != first[slot]);
                slot += 1;
            });
            let (got, wanted) = (f64::from(ended) / f64::from(SLOTS), share(&h, n));
            // Five standard deviations.
            let bound = 5.0 * (wanted * (1.0 - wanted) / f64::from(SLOTS)).sqrt();
            assert!((got - wanted).abs() < bound, "{name}: {got} of the flows end after {n} packets, not {wanted}");
        }
    }
}

/// Whether the IPv4 header's checksum and that of UDP or TCP are right; `None` where there is none to look at.
fn right(frame: &[u8]) -> Option<bool> {
    let l = parse(frame);
    let (l3, l4, end) = (usize::from(l.l3), usize::from(l.l4), usize::from(l.end));
    let known = matches!(l.tuple.proto(), proto::TCP | proto::UDP);
    if l.malformed.is_some() || !known || l.fragment != chainline_packet::Fragment::Whole || l4 == 0 {
        return None;
    }
    let pseudo = match l.tuple.version() {
        4 if checksum::checksum(&frame[l3..l3 + usize::from(frame[l3] & 15) * 4]) != 0 => return Some(false),
        4 => {
            let (src, dst) = (l.tuple.src_v4().to_be_bytes(), l.tuple.dst_v4().to_be_bytes());
            checksum::pseudo_ipv4(src, dst, l.tuple.proto(), (end - l4) as u16)
        }
        6 => checksum::pseudo_ipv6(&l.tuple.src_bytes(), &l.tuple.dst_bytes(), l.tuple.proto(), (end - l4) as u32),
        _ => return None,
    };
    Some(pseudo.bytes(&frame[l4..end]).checksum() == 0)
}

#[test]
fn captures_between_other_addresses_keep_what_was_right_right() {
    let v4 = Prefix { addr: [10, 0, 0, 0].into(), len: 8 };
    let (mut files, mut packets, mut sound, mut replaced) = (0, 0_u64, 0_u64, 0_u64);
    let there = support::captures(&mut |frames| {
        files += 1;
        let mut rewrite = Rewrite::new(Some(v4), Some(v4));
        for mut frame in frames {
            packets += 1;
            let (before, was) = (parse(&frame).tuple, right(&frame));
            rewrite.apply(&mut frame);
            let after = parse(&frame).tuple;
            assert_eq!((before.src_port(), before.dst_port()), (after.src_port(), after.dst_port()));
            if before.version() == 4 {
                assert_eq!((after.src_v4() >> 24, after.dst_v4() >> 24), (10, 10));
                replaced += 1;
            }
            if was == Some(true) {
                sound += 1;
                assert_eq!(right(&frame), Some(true), "{before:?} became {after:?}");
            }
        }
    });
    if there {
        println!("{files} captures, {packets} packets, {replaced} with other addresses, {sound} had right checksums");
        assert!(replaced > packets / 2 && sound > packets / 10);
    }
}

#[test]
fn sizes_of_captures_are_those_of_the_frames_made() {
    const FRAMES: usize = 50_000;
    let mut files = 0;
    support::captures(&mut |frames| {
        let mut sizes = BTreeMap::<u32, u64>::new();
        for frame in frames {
            let size = (frame.len() as u32 + FCS_BYTES).max(MIN_FRAME_BYTES);
            *sizes.entry(size).or_default() += u64::from(size <= MAX_FRAME_BYTES);
        }
        sizes.retain(|_, n| *n > 0);
        let all: u64 = sizes.values().sum();
        // Many captures are of a handful of packets and say nothing of sizes.
        if all < 1000 {
            return;
        }
        files += 1;
        let mut workload = Workload::new(&Spec::new(Mix::drawn(sizes.clone()).unwrap())).unwrap();
        let mut made = BTreeMap::<u32, u64>::new();
        workload.burst(FRAMES, |f| *made.entry(u32::from(f.len) + FCS_BYTES).or_default() += 1);
        assert!(made.keys().all(|size| sizes.contains_key(size)));
        let (mut wanted, mut got) = (0.0, 0.0);
        for (size, n) in &sizes {
            wanted += *n as f64 / all as f64;
            got += made.get(size).map_or(0.0, |n| *n as f64 / FRAMES as f64);
            // Kolmogorov and Smirnov at one in 10^8 for a continuous distribution, and less for this.
            assert!((wanted - got).abs() < 3.1 / (FRAMES as f64).sqrt(), "up to {size} bytes: {got}, not {wanted}");
        }
    });
    println!("{files} captures");
}
