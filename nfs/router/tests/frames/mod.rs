//! A router for tests, and packets for it.

#![allow(dead_code, clippy::unwrap_used)]

use crate::support::{Host, ipv4, ipv6, l4};
use serde_json::json;

/// The hardware address of the first interface, where frames come in.
pub const MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];
/// Where packets leave: the interfaces.
pub const TARGETS: [&str; 2] = ["lan", "wan"];
/// The router's own addresses at the first interface.
pub const V4: u32 = 0x0a00_0001;
pub const V6: u128 = 0xfd00_0000_0000_0000_0000_0000_0000_0001;

/// A router between 10.0.0.0/24 and 10.1.0.0/16, which has a default route too.
pub fn router() -> Host {
    let args = json!({
        "interfaces": [
            {"name": "lan", "mac": "02:00:00:00:00:02", "addresses": ["10.0.0.1/24", "fd00::1/64"], "mtu": 9000},
            {"name": "wan", "mac": "02:00:00:00:00:03", "addresses": ["192.0.2.1/24", "fd01::1/64"]},
        ],
        "neighbours": [
            {"address": "192.0.2.2", "mac": "02:00:00:00:00:04"},
            {"address": "fd01::2", "mac": "02:00:00:00:00:04"},
            {"address": "10.0.0.2", "mac": "02:00:00:00:00:01"},
        ],
        "routes_inline": ["10.1.0.0/16 via 192.0.2.2", "0.0.0.0/1 via 192.0.2.2", "128.0.0.0/2 unreachable",
            "2000::/3 via fd01::2", "fd02::/16 blackhole"],
        "icmp_errors": {"per_s": 1_000_000_000, "burst": 1_000_000},
    });
    Host::with_targets(&nf_router::KIND, args, &TARGETS)
}

/// RFC 1071 as it is written, a word at a time.
pub fn slow_sum(parts: &[&[u8]]) -> u16 {
    let all = parts.concat();
    let mut sum: u32 = 0;
    for pair in all.chunks(2) {
        sum += u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// ICMPv6 with its pseudo-header.
pub fn slow_sum6(ip: &[u8], message: &[u8]) -> u16 {
    slow_sum(&[&ip[8..40], &(message.len() as u32).to_be_bytes(), &[0, 0, 0, 58], message])
}

/// The ICMP message with its checksum, over IPv4.
pub fn icmp4(kind: u8, code: u8, rest: &[u8]) -> Vec<u8> {
    let mut message = [&[kind, code, 0, 0][..], rest].concat();
    let sum = slow_sum(&[&message]);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    message
}

/// A frame with an ICMPv6 message, its checksum right.
pub fn icmp6(src: u128, dst: u128, hop_limit: u8, kind: u8, rest: &[u8]) -> Vec<u8> {
    let mut frame = ipv6(src, dst, 58, hop_limit, &[&[kind, 0, 0, 0][..], rest].concat());
    let sum = slow_sum6(&frame[14..54], &frame[54..]);
    frame[56..58].copy_from_slice(&sum.to_be_bytes());
    frame
}

/// Packets that the router answers, of each kind.
pub fn answered() -> Vec<Vec<u8>> {
    let (host4, host6, far4, far6) = (0x0a00_0002, V6 + 0x99, 0x0a01_0001, 0x2001 << 112 | 9);
    let solicitation = [&[0; 4][..], &V6.to_be_bytes(), &[1, 1, 2, 0, 0, 0, 0, 1]].concat();
    let arp = [&[0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 1, 10, 0, 0, 2, 0, 0, 0, 0, 0, 0, 10, 0, 0, 1][..]].concat();
    let mut big = ipv4(host4, far4, 17, 9, &[l4(17, 1, 2), vec![7; 1500]].concat());
    big[20] = 0x40;
    big[24..26].fill(0);
    let sum = slow_sum(&[&big[14..34]]);
    big[24..26].copy_from_slice(&sum.to_be_bytes());
    vec![
        ipv4(host4, V4, 1, 9, &icmp4(8, 0, &[0; 40])),
        icmp6(host6, V6, 9, 128, &[0; 40]),
        icmp6(host6, V6, 255, 135, &solicitation),
        [&[0xff; 6][..], &[2, 0, 0, 0, 0, 1, 8, 6], &arp].concat(),
        ipv4(host4, far4, 17, 1, &l4(17, 1, 2)),
        ipv4(host4, 0x8000_0001, 17, 9, &l4(17, 1, 2)),
        ipv4(host4, V4, 17, 9, &l4(17, 1, 33434)),
        ipv6(host6, far6, 17, 1, &l4(17, 1, 2)),
        ipv6(host6, far6, 17, 9, &[7; 1500]),
        ipv6(host6, 0x4000 << 112 | 9, 17, 9, &l4(17, 1, 2)),
        big,
    ]
}

/// What leaves a router: whole, and right as far as the router made it.
pub fn assert_sound(frame: &[u8]) {
    let ip = &frame[14..];
    match frame[12..14] {
        [8, 0] => {
            let header = usize::from(ip[0] & 15) * 4;
            assert_eq!(slow_sum(&[&ip[..header]]), 0, "{frame:02x?}");
            let len = usize::from(u16::from_be_bytes([ip[2], ip[3]]));
            assert!(len <= ip.len() && ip[8] > 0, "{frame:02x?}");
            if ip[9] == 1 && ip[8] == 64 && frame[6..12] == MAC && ip[12..16] == V4.to_be_bytes() {
                assert_eq!(slow_sum(&[&ip[header..len]]), 0, "{frame:02x?}");
            }
        }
        [0x86, 0xdd] => {
            let len = 40 + usize::from(u16::from_be_bytes([ip[4], ip[5]]));
            assert!(len <= ip.len() && ip[7] > 0, "{frame:02x?}");
            if ip[6] == 58 && frame[6..12] == MAC && ip[8..24] == V6.to_be_bytes() {
                assert_eq!(slow_sum6(ip, &ip[40..len]), 0, "{frame:02x?}");
            }
        }
        [8, 6] => assert_eq!(ip[6..8], [0, 2], "{frame:02x?}"),
        _ => panic!("{frame:02x?}"),
    }
}
