//! Frames from anybody to a router, which answers: in a burst as packet by packet, and what leaves is right.
//!
//! Input: as that of `packet_parse`. Half of the frames are given the router's hardware address first.

use crate::packet_parse::frames;
use crate::rig::{Outcome, Rig};
use chainline_nf::Decoded;
use chainline_packet::{Layers, ipv4, parse};
use serde_json::json;
use std::cell::RefCell;

const MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];

thread_local! {
    // Two that see the same, as identifications and token buckets go on.
    static RIGS: RefCell<(u64, [Rig; 2])> = RefCell::new((0, [rig(), rig()]));
}

fn rig() -> Rig {
    let args = json!({
        "interfaces": [
            {"name": "lan", "mac": "02:00:00:00:00:02", "addresses": ["10.0.0.1/24", "2001:db8::1/64"]},
            {"name": "wan", "mac": "02:00:00:00:00:03", "addresses": ["192.0.2.1/24", "2001:db8:1::1/64"], "mtu": 1280},
        ],
        "neighbours": [{"address": "192.0.2.2", "mac": "02:00:00:00:00:04"},
            {"address": "2001:db8:1::2", "mac": "02:00:00:00:00:04"}],
        "routes_inline": ["0.0.0.0/1 via 192.0.2.2", "10.99.0.0/16 blackhole", "2001:db8::/33 via 2001:db8:1::2",
            "2000::/3 unreachable"],
        "icmp_errors": {"per_s": 10, "burst": 30},
    });
    Rig::with_targets(&nf_router::KIND, args, &["lan", "wan"]).unwrap()
}

/// The target.
pub fn run(data: &[u8]) {
    let mut owned: Vec<Vec<u8>> = frames(data).into_iter().map(<[u8]>::to_vec).collect();
    for mac in owned.iter_mut().step_by(2).filter_map(|frame| frame.first_chunk_mut()) {
        *mac = MAC;
    }
    let frames: Vec<&[u8]> = owned.iter().map(Vec::as_slice).collect();
    RIGS.with_borrow_mut(|(now_ns, [one, other])| {
        *now_ns += 1_000_000_000;
        let together = one.play(*now_ns, &frames, frames.len().max(1));
        let alone = other.play(*now_ns, &frames, 1);
        assert_eq!(together, alone, "a burst and its packets one by one");
        for (before, after) in frames.iter().zip(&together) {
            check(before, after);
        }
    });
}

fn check(before: &[u8], after: &Outcome) {
    let frame = &after.frame;
    match after.verdict {
        Decoded::Drop(_) => assert_eq!(frame, before, "changed, and dropped"),
        Decoded::Divert(out) => {
            let l: Layers = parse(frame);
            assert_eq!(l.tags, 0);
            // It leaves with the address of the interface, and not as something that is for nobody.
            assert_eq!(frame[6..12], [2, 0, 0, 0, 0, 2 + out], "{frame:02x?}");
            assert!(l.malformed.is_none_or(|m| m.is_l4() || parse(before).malformed == Some(m)), "{frame:02x?}");
            let header = &frame[usize::from(l.l3)..];
            match l.tuple.version() {
                4 => assert!(ipv4::Ipv4::new(header).is_some_and(|ip| ip.checksum_ok() && ip.ttl() > 0)),
                6 => assert!(header[7] > 0),
                _ => assert_eq!(l.ethertype, 0x0806),
            }
        }
        other => panic!("{other:?}"),
    }
}
