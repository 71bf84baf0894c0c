//! The hash by which network cards spread packets over queues: Toeplitz, as Microsoft's "RSS hashing functions" defines it
//! and DPDK's `rte_thash` computes it. Packets that hash alike here meet in one queue of a card with the same key.
//!
//! The hash of a bit string is the exclusive or of the 32 bits of the key that begin at each bit that is set. So what
//! bits are worth can be added up beforehand: here for each half byte, in 4.5 KiB that are computed when this is
//! compiled. Zeros at the end are worth nothing: the hash of addresses alone is that of addresses and ports 0.

use crate::layers::{Fragment, Layers};
use crate::tuple::FiveTuple;

/// Bytes that are hashed at most: two IPv6 addresses and two ports.
const INPUT: usize = 36;

/// The key of Microsoft's verification suite, which cards and drivers come with.
const USUAL: [u8; 40] = [
    0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0, 0xca, 0x2b,
    0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac,
    0x01, 0xfa,
];

/// A key that repeats itself after two bytes gives both directions of a connection the same hash (Woo and Park, "Scalable
/// TCP session monitoring with symmetric receive-side scaling", 2012, whose key this is).
const SYMMETRIC: [u8; 2] = [0x6d, 0x5a];

/// The 32 bits of a key from bit `at` on.
const fn window(key: &[u8], at: usize) -> u32 {
    let mut bits = 0;
    let mut i = 0;
    while i < 32 {
        let bit = (at + i) % (key.len() * 8);
        bits = bits << 1 | (key[bit / 8] >> (7 - bit % 8) & 1) as u32;
        i += 1;
    }
    bits
}

/// What each value of each half byte is worth.
const fn table<const HALVES: usize>(key: &[u8]) -> [[u32; 16]; HALVES] {
    let mut table = [[0; 16]; HALVES];
    let mut half = 0;
    while half < HALVES {
        let mut value = 0;
        while value < 16 {
            let mut bit = 0;
            while bit < 4 {
                if value >> (3 - bit) & 1 == 1 {
                    table[half][value] ^= window(key, half * 4 + bit);
                }
                bit += 1;
            }
            value += 1;
        }
        half += 1;
    }
    table
}

static TABLE: [[u32; 16]; 2 * INPUT] = table(&USUAL);
static SYMMETRIC_TABLE: [[u32; 16]; 4] = table(&SYMMETRIC);

#[inline]
fn sum(table: &[[u32; 16]], bytes: &[u8]) -> u32 {
    bytes
        .iter()
        .zip(table.chunks_exact(2))
        .fold(0, |hash, (byte, halves)| hash ^ halves[0][usize::from(byte >> 4)] ^ halves[1][usize::from(byte & 15)])
}

/// Hash of a flow: over addresses and ports. 0 for packets that are not IP.
///
/// The protocol does not count, as it does not in cards. Where a tuple has ports 0 this is the hash over the addresses.
#[inline]
#[must_use]
pub fn flow(tuple: &FiveTuple) -> u32 {
    let bytes = tuple.to_bytes();
    match tuple.version() {
        4 => sum(&TABLE, &bytes[..4]) ^ sum(&TABLE[8..], &bytes[16..20]) ^ sum(&TABLE[16..], &bytes[32..36]),
        6 => sum(&TABLE, &bytes[..36]),
        _ => 0,
    }
}

/// Hash of a connection: that of a flow, with a key by which both directions have the same.
#[inline]
#[must_use]
pub fn connection(tuple: &FiveTuple) -> u32 {
    // With a key that repeats itself every two bytes, these can be added up first.
    let pairs = tuple.to_bytes();
    let folded = pairs[..36].chunks_exact(2).fold([0, 0], |f, pair| [f[0] ^ pair[0], f[1] ^ pair[1]]);
    if tuple.is_ip() { sum(&SYMMETRIC_TABLE, &folded) } else { 0 }
}

/// Hash of a packet's source address; 0 for packets that are not IP.
#[inline]
#[must_use]
pub fn source_host(tuple: &FiveTuple) -> u32 {
    let bytes = tuple.src_bytes();
    match tuple.version() {
        4 => sum(&TABLE, &bytes[..4]),
        6 => sum(&TABLE, &bytes),
        _ => 0,
    }
}

/// What [`flow`] and [`connection`] are to hash of a packet. Of a fragment, the first one too, it is the addresses: the
/// others have no ports, and fragments of a datagram are not to part. Cards do the same.
#[inline]
#[must_use]
pub fn key(layers: &Layers) -> FiveTuple {
    if layers.fragment == Fragment::Whole { layers.tuple } else { layers.tuple.with_ports(0, 0) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

    /// "Verifying the RSS hash calculation": destination, source, hash over the addresses, and over the ports as well.
    const VECTORS: [(&str, u16, &str, u16, u32, u32); 8] = [
        ("161.142.100.80", 1766, "66.9.149.187", 2794, 0x323e_8fc2, 0x51cc_c178),
        ("65.69.140.83", 4739, "199.92.111.2", 14230, 0xd718_262a, 0xc626_b0ea),
        ("12.22.207.184", 38024, "24.19.198.95", 12898, 0xd2d0_a5de, 0x5c2b_394a),
        ("209.142.163.6", 2217, "38.27.205.30", 48228, 0x8298_9176, 0xafc7_327f),
        ("202.188.127.2", 1303, "153.39.163.191", 44251, 0x5d18_09c5, 0x10e8_28a2),
        ("3ffe:2501:200:3::1", 1766, "3ffe:2501:200:1fff::7", 2794, 0x2cc1_8cd5, 0x4020_7d3d),
        ("ff02::1", 4739, "3ffe:501:8::260:97ff:fe40:efab", 14230, 0x0f0c_461c, 0xdde5_1bbf),
        ("fe80::200:f8ff:fe21:67cf", 38024, "3ffe:1900:4545:3:200:f8ff:fe21:67cf", 44251, 0x4b61_e985, 0x02d1_feef),
    ];

    fn tuple(src: IpAddr, dst: IpAddr, src_port: u16, dst_port: u16) -> FiveTuple {
        match (src, dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => FiveTuple::v4(src, dst, src_port, dst_port, 6),
            (IpAddr::V6(src), IpAddr::V6(dst)) => FiveTuple::v6(src, dst, src_port, dst_port, 6),
            _ => FiveTuple::NONE,
        }
    }

    /// By the definition, bit by bit.
    fn slow(key: &[u8], input: &[u8]) -> u32 {
        let bits = (0..input.len() * 8).filter(|i| input[i / 8] >> (7 - i % 8) & 1 == 1);
        bits.fold(0, |hash, i| {
            let window = (0..32).fold(0, |w, k| {
                let at = (i + k) % (key.len() * 8);
                w << 1 | u32::from(key[at / 8] >> (7 - at % 8) & 1)
            });
            hash ^ window
        })
    }

    fn input(t: &FiveTuple) -> Vec<u8> {
        let address = |a: Option<IpAddr>| match a.unwrap() {
            IpAddr::V4(a) => a.octets().to_vec(),
            IpAddr::V6(a) => a.octets().to_vec(),
        };
        [address(t.src()), address(t.dst()), t.src_port().to_be_bytes().into(), t.dst_port().to_be_bytes().into()]
            .concat()
    }

    #[test]
    fn microsofts_vectors() {
        for (dst, dst_port, src, src_port, addresses, ports) in VECTORS {
            let t = tuple(src.parse().unwrap(), dst.parse().unwrap(), src_port, dst_port);
            assert_eq!((flow(&t), flow(&t.with_ports(0, 0))), (ports, addresses), "{t:?}");
        }
        assert_eq!((flow(&FiveTuple::NONE), source_host(&FiveTuple::NONE), connection(&FiveTuple::NONE)), (0, 0, 0));
    }

    fn tuples() -> impl Strategy<Value = FiveTuple> {
        let four = any::<[u8; 8]>()
            .prop_map(|b| (Ipv4Addr::new(b[0], b[1], b[2], b[3]).into(), Ipv4Addr::new(b[4], b[5], b[6], b[7]).into()));
        let six = any::<[u128; 2]>().prop_map(|b| (Ipv6Addr::from(b[0]).into(), Ipv6Addr::from(b[1]).into()));
        (prop_oneof![four, six], any::<[u16; 2]>()).prop_map(|((src, dst), [s, d])| tuple(src, dst, s, d))
    }

    proptest! {
        #[test]
        fn the_tables_give_what_the_definition_gives(t in tuples()) {
            let all = input(&t);
            prop_assert_eq!(flow(&t), slow(&USUAL, &all));
            prop_assert_eq!(source_host(&t), slow(&USUAL, &all[..if t.version() == 4 { 4 } else { 16 }]));
            prop_assert_eq!(connection(&t), slow(&SYMMETRIC.repeat(20), &all));
        }

        #[test]
        fn each_hash_is_a_function_of_what_it_is_named_after(t in tuples(), other in tuples()) {
            prop_assert_eq!(connection(&t), connection(&t.reversed()));
            if t.version() == other.version() {
                let same_source = tuple(t.src().unwrap(), other.dst().unwrap(), other.src_port(), other.dst_port());
                prop_assert_eq!(source_host(&same_source), source_host(&t));
            }
        }
    }

    #[test]
    fn flows_spread_evenly() {
        for hash in [flow, connection, source_host] {
            let mut queues = [0u32; 16];
            for i in 0..16_000u32 {
                let t = FiveTuple::v4((0x0a00_0000 + i).into(), 0xc0a8_0001.into(), 1024 + (i % 97) as u16, 80, 6);
                queues[(hash(&t) & 15) as usize] += 1;
            }
            assert!(queues.iter().all(|n| (700..1300).contains(n)), "{queues:?}");
        }
    }
}
