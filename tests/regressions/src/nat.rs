//! Frames from anybody to a NAT: in a burst as packet by packet, checksums as right and as wrong as they were, nobody
//! inside seen outside, and answers to what went out find their way back.
//!
//! Input: as that of `packet_parse`. Of three frames, one gets a source inside and one an external address as its
//! destination first.

use crate::packet_parse::frames;
use crate::rig::{Outcome, Rig};
use chainline_nf::Decoded;
use chainline_packet::{Fragment, Layers, checksum, parse, proto};
use serde_json::json;
use std::cell::RefCell;

/// 192.0.2.0/28, outside; inside is 10.0.0.0/8.
const POOL: u32 = 0xc000_0200;

thread_local! {
    // Two that see the same, and draw the same ports.
    static RIGS: RefCell<(u64, [Rig; 2])> = RefCell::new((0, [rig(), rig()]));
}

fn rig() -> Rig {
    let args = json!({"inside": ["10.0.0.0/8"], "pool": ["192.0.2.0/28"], "flows": 4096, "subscribers": 1024,
        "on_full": "drop_new", "filter": "address_dependent", "seed": 1});
    Rig::new(&nf_nat::KIND, args).unwrap()
}

/// The target.
pub fn run(data: &[u8]) {
    let mut owned: Vec<Vec<u8>> = frames(data).into_iter().map(<[u8]>::to_vec).collect();
    for (i, frame) in owned.iter_mut().enumerate() {
        let layers = parse(frame);
        if layers.tuple.version() == 4 {
            let addresses = &mut frame[usize::from(layers.l3) + 12..][..8];
            match i % 3 {
                0 => addresses[0] = 10,
                1 => addresses[4..].copy_from_slice(&(POOL + 3).to_be_bytes()),
                _ => {}
            }
        }
    }
    let frames: Vec<&[u8]> = owned.iter().map(Vec::as_slice).collect();
    RIGS.with_borrow_mut(|(now_ns, rigs)| {
        // Nothing of the last input is left: the longest time-out is some two hours.
        *now_ns += 10_000_000_000_000;
        rigs.iter_mut().for_each(|rig| (0..64).for_each(|_| rig.tick(*now_ns)));
        let together = both(rigs, *now_ns, &frames);
        let mut answers = Vec::new();
        for (before, after) in frames.iter().zip(&together) {
            check(before, after);
            answers.extend(answer(before, after));
        }
        let sent: Vec<&[u8]> = answers.iter().map(|(frame, _)| frame.as_slice()).collect();
        for ((_, inside), after) in answers.iter().zip(both(rigs, *now_ns, &sent)) {
            let flow = parse(&after.frame).tuple;
            assert_eq!(
                (after.verdict, (flow.dst_v4(), flow.dst_port())),
                (Decoded::Next, *inside),
                "an answer is lost"
            );
        }
        assert!(rigs[0].report().is_none_or(|r| r.len() < 1 << 16));
    });
}

/// What becomes of frames, which is the same in a burst and one by one.
fn both(rigs: &mut [Rig; 2], now_ns: u64, frames: &[&[u8]]) -> Vec<Outcome> {
    let together = rigs[0].play(now_ns, frames, frames.len().max(1));
    assert_eq!(together, rigs[1].play(now_ns, frames, 1), "a burst and its packets one by one");
    together
}

fn check(before: &[u8], after: &Outcome) {
    // What is dropped may have been translated half: from inside to an external address that is nobody's.
    if after.verdict != Decoded::Next {
        return;
    }
    let flow = parse(&after.frame).tuple;
    if flow.version() != 4 {
        assert_eq!(after.frame, before);
        return;
    }
    assert_eq!(before[..14], after.frame[..14]);
    assert!(flow.src_v4() >> 24 != 10 || flow.dst_v4() >> 24 == 10, "seen outside: {flow:?}");
    assert_eq!(sums(before), sums(&after.frame), "{:02x?}", after.frame);
}

/// What the other end would answer to a packet that went out, and to whom that must go.
fn answer(before: &[u8], after: &Outcome) -> Option<(Vec<u8>, (u32, u16))> {
    let (old, new): (Layers, Layers) = (parse(before), parse(&after.frame));
    let (inside, outside) = (old.tuple, new.tuple);
    let went_out = after.verdict == Decoded::Next
        && inside.version() == 4
        && inside.src_v4() >> 24 == 10
        && outside.src_v4() & !15 == POOL
        && outside.dst_v4() == inside.dst_v4();
    if !went_out || old.fragment != Fragment::Whole || !matches!(inside.proto(), proto::TCP | proto::UDP) {
        return None;
    }
    let mut frame = after.frame.clone();
    let (l3, l4) = (usize::from(new.l3), usize::from(new.l4));
    // Sums are the same, whatever the order is.
    frame[l3 + 12..l3 + 20].rotate_left(4);
    frame[l4..l4 + 4].rotate_left(2);
    Some((frame, (inside.src_v4(), inside.src_port())))
}

/// Whether the checksums of the IP header and of layer 4 are right, where they can be told.
fn sums(frame: &[u8]) -> (bool, Option<bool>) {
    let layers = parse(frame);
    let (l3, l4, end) = (usize::from(layers.l3), usize::from(layers.l4), usize::from(layers.end));
    let header = &frame[l3..l3 + usize::from(frame[l3] & 15) * 4];
    let ip = checksum::checksum(header) == 0;
    if layers.malformed.is_some() || l4 == 0 || layers.fragment != Fragment::Whole {
        return (ip, None);
    }
    let (number, payload) = (layers.tuple.proto(), &frame[l4..end]);
    let address = |at: usize| [header[at], header[at + 1], header[at + 2], header[at + 3]];
    let pseudo = checksum::pseudo_ipv4(address(12), address(16), number, payload.len() as u16);
    let l4 = match number {
        proto::UDP if payload[6..8] == [0, 0] => None,
        proto::TCP | proto::UDP => Some(pseudo.bytes(payload).fold() == 0xffff),
        proto::ICMP => Some(checksum::checksum(payload) == 0),
        _ => None,
    };
    (ip, l4)
}
