//! The fast path and its plain twin in `rare` do the same.

use super::*;
use chainline_nf::PacketMeta;
use chainline_nf::testing::NoHolds;
use proptest::prelude::*;
use serde_json::json;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

fn router() -> (Router, Vec<AtomicU64>) {
    let args = json!({
        "interfaces": [
            {"name": "lan", "mac": "02:00:00:00:00:02", "addresses": ["10.0.0.1/24", "fd00::1/64"]},
            {"name": "wan", "mac": "02:00:00:00:00:03", "addresses": ["10.1.0.1/24", "fd01::1/64"], "mtu": 1280, "next": [0]},
        ],
        "neighbours": [{"address": "10.1.0.2", "mac": "02:00:00:00:00:04"}, {"address": "fd01::2", "mac": "02:00:00:00:00:04"}],
        "routes_inline": ["0.0.0.0/1 via 10.1.0.2", "10.3.0.0/16 blackhole", "2000::/3 via fd01::2"],
        "icmp_errors": {"per_s": 1, "burst": 20},
    });
    let targets = ["lan".to_owned(), "wan".to_owned()];
    let mut env = Env::new(Path::new("."), &targets);
    let nf = <Router as Nf>::new(serde_json::from_value(args).unwrap(), &mut env).unwrap();
    let counters = env.into_declared().counters.iter().map(|_| AtomicU64::new(0)).collect();
    (nf, counters)
}

/// Headers that are right but for some bytes, to and from addresses of which some are special.
fn frame() -> impl Strategy<Value = Vec<u8>> {
    let v4 = prop_oneof![
        Just([10, 0, 0, 1]),
        Just([10, 0, 0, 7]),
        Just([10, 1, 0, 2]),
        Just([10, 1, 0, 9]),
        Just([10, 3, 0, 1]),
        Just([64, 1, 2, 3]),
        Just([200, 1, 2, 3]),
        any::<[u8; 4]>(),
    ];
    let v6 = prop_oneof![
        Just(0xfd00u128 << 112 | 1),
        Just(0xfd00 << 112 | 7),
        Just(0xfd01 << 112 | 2),
        Just(0xfe80 << 112 | 7),
        Just(0x2000 << 112 | 7),
        Just(0xff02 << 112 | 1),
        0u128..3,
    ];
    let (ttl, fill) = (0u8..5, prop_oneof![5 => 8usize..40, 1 => 1240usize..1290]);
    let kind = prop_oneof![8 => Just(0u8), 1 => 0u8..9];
    let damage = prop_oneof![6 => Just(None), 1 => (0usize..60, any::<u8>()).prop_map(Some)];
    (any::<bool>(), v4.clone(), v4, v6.clone(), v6, ttl, fill, kind, damage).prop_map(
        |(is6, s4, d4, s6, d6, ttl, fill, kind, damage)| {
            let mut f = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
            if is6 {
                f.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
                f.extend((fill as u16).to_be_bytes());
                f.extend([if kind == 0 { 17 } else { 58 }, ttl]);
                f.extend(s6.to_be_bytes());
                f.extend(d6.to_be_bytes());
            } else {
                let options: &[u8] = if kind == 1 { &[0x94, 4, 0, 0] } else { &[] };
                let mut ip = vec![0x45 + options.len() as u8 / 4, 0];
                ip.extend(((20 + options.len() + fill) as u16).to_be_bytes());
                ip.extend([0, 0, kind << 5, 0, ttl, if kind == 8 { 1 } else { 17 }, 0, 0]);
                ip.extend(s4);
                ip.extend(d4);
                ip.extend(options);
                let sum = checksum::checksum(&ip);
                ip[10..12].copy_from_slice(&sum.to_be_bytes());
                f.extend([8, 0]);
                f.extend(ip);
            }
            f.extend((0..fill).map(|i| [0, 1, 0, 2, (fill >> 8) as u8, fill as u8, 0, 0].get(i).copied().unwrap_or(7)));
            if let Some((at, byte)) = damage
                && let Some(b) = f.get_mut(at)
            {
                *b = byte;
            }
            f
        },
    )
}

/// Each frame with room around it.
fn buffers(frames: &[Vec<u8>]) -> Vec<Vec<u8>> {
    frames.iter().map(|f| [&[0; 128][..], f, &[0; 64]].concat()).collect()
}

fn packet<'a>(buffer: &'a mut [u8], frame: &[u8]) -> Packet<'a> {
    Packet::new(buffer, 128, frame.len() as u16, PacketMeta::default()).unwrap()
}

/// An NF before this one may have used the room in front of a frame up.
#[test]
fn without_room_there_is_no_error_and_no_change() {
    let (nf, counters) = router();
    let mut core = nf.core;
    for (ethertype, ip) in [
        ([8, 0], &b"\x45\0\0\x1c\0\0\0\0\x40\x11\0\0\x0a\0\0\x07\xc8\0\0\x01\0\x01\0\x02\0\x08\0\0"[..]),
        (
            [0x86, 0xdd],
            b"\x60\0\0\0\0\0\x3b\x40\xfd\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x07\x40\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01",
        ),
    ] {
        let mut frame = [&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1][..], &ethertype, ip].concat();
        if ethertype == [8, 0] {
            let sum = checksum::checksum(&frame[L3..L3 + 20]);
            frame[L3 + 10..L3 + 12].copy_from_slice(&sum.to_be_bytes());
        }
        let (before, len) = (frame.clone(), frame.len() as u16);
        let mut holds = NoHolds;
        let ctx = Ctx::new(5, &counters, &mut holds);
        let from = core.from(0).unwrap();
        let mut packet = Packet::new(&mut frame, 0, len, PacketMeta::default()).unwrap();
        assert_eq!(core.rare(&mut packet, from, &ctx), Verdict::drop(core.reasons.no_route));
        assert_eq!(packet.data(), before);
    }
    let all: u64 = counters.iter().map(|c| c.load(Relaxed)).sum();
    assert_eq!(all, 2, "two suppressed, and nothing else");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(80))]

    #[test]
    fn the_twins_do_the_same(frames in proptest::collection::vec(frame(), 1..256)) {
        let ((mut fast, fast_counters), (mut plain, plain_counters)) = (router(), router());
        let (mut a, mut b) = (buffers(&frames), buffers(&frames));
        let mut burst = Burst::new();
        for (buffer, frame) in a.iter_mut().zip(&frames) {
            burst.push(packet(buffer, frame)).unwrap();
        }
        fast.process(&mut burst, &mut Ctx::new(5, &fast_counters, &mut NoHolds));
        let from = plain.core.from(0).unwrap();
        let mut holds = NoHolds;
        let ctx = Ctx::new(5, &plain_counters, &mut holds);
        for (i, (buffer, frame)) in b.iter_mut().zip(&frames).enumerate() {
            let mut packet = packet(buffer, frame);
            let verdict = plain.core.rare(&mut packet, from, &ctx);
            prop_assert_eq!((burst.verdicts()[i], burst.packets()[i].data()), (verdict, packet.data()), "{:02x?}", frame);
        }
        let values = |counters: &[AtomicU64]| counters.iter().map(|c| c.load(Relaxed)).collect::<Vec<_>>();
        prop_assert_eq!(values(&fast_counters), values(&plain_counters));
    }
}
