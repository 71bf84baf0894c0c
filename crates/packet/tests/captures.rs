//! Real and malformed captures: `$CHAINLINE_DATA/captures` and `corpora`, thousands of files.

mod support;

use chainline_packet::{Malformed, flow_hash, parse};
use std::collections::BTreeMap;

#[test]
fn every_capture_is_parsed() {
    let (mut captures, mut seen, mut ip) = (0u32, 0u64, 0u64);
    let mut faults: BTreeMap<&str, u64> = BTreeMap::new();
    let there = support::captures(&mut |frames| {
        captures += 1;
        for frame in &frames {
            let l = parse(frame);
            assert!(usize::from(l.end) <= frame.len() && l.l4 <= l.end);
            assert_eq!(l.tuple.is_ip(), flow_hash(&l.tuple) != 0);
            seen += 1;
            ip += u64::from(l.tuple.is_ip());
            *faults.entry(l.malformed.map_or("none", Malformed::name)).or_default() += 1;
        }
    });
    if there {
        println!("{captures} captures, {seen} packets, {ip} IP, {faults:?}");
        assert!(ip > seen / 2, "{ip} of {seen} packets are IP");
    }
}
