//! The key of a flow and its hash.

use crate::bytes::part;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Addresses, ports and protocol of a packet: 40 bytes for IPv4 and IPv6 alike, compared and hashed as a whole.
///
/// The bytes, as [`FiveTuple::to_bytes`] gives them, all in network order:
///
/// | bytes | |
/// |---|---|
/// | 0..16 | source address; an IPv4 address is in the first four, the others are 0 |
/// | 16..32 | destination address, likewise |
/// | 32..34, 34..36 | source and destination port; 0 where there are none |
/// | 36 | protocol: the upper layer's, behind IPv6 extension headers |
/// | 37 | IP version: 4, 6, or 0 when the packet is not IP (then all is 0) |
/// | 38..40 | 0 |
// Words instead of bytes: built in registers and hashed from them, without stores of 4 bytes that loads of 8 wait for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct FiveTuple {
    src: [u64; 2],
    dst: [u64; 2],
    tail: u64,
}

/// Size of [`FiveTuple::to_bytes`].
pub const TUPLE_LEN: usize = 40;
const _: () = assert!(size_of::<FiveTuple>() == TUPLE_LEN);

const V4: u64 = 4 << 40;
const V6: u64 = 6 << 40;

impl FiveTuple {
    /// What a packet without an IP header has.
    pub const NONE: Self = Self { src: [0; 2], dst: [0; 2], tail: 0 };

    /// An IPv4 flow.
    #[must_use]
    pub fn v4(src: Ipv4Addr, dst: Ipv4Addr, src_port: u16, dst_port: u16, proto: u8) -> Self {
        let [a, b] = src_port.to_be_bytes();
        let [c, d] = dst_port.to_be_bytes();
        Self::v4_raw(src.octets(), dst.octets(), [a, b, c, d], proto)
    }

    /// An IPv6 flow.
    #[must_use]
    pub fn v6(src: Ipv6Addr, dst: Ipv6Addr, src_port: u16, dst_port: u16, proto: u8) -> Self {
        let [a, b] = src_port.to_be_bytes();
        let [c, d] = dst_port.to_be_bytes();
        Self::v6_raw(src.octets(), dst.octets(), [a, b, c, d], proto)
    }

    #[inline(always)]
    pub(crate) fn v4_raw(src: [u8; 4], dst: [u8; 4], ports: [u8; 4], proto: u8) -> Self {
        Self {
            src: [u64::from(u32::from_le_bytes(src)), 0],
            dst: [u64::from(u32::from_le_bytes(dst)), 0],
            tail: V4 | tail(ports, proto),
        }
    }

    #[inline(always)]
    pub(crate) fn v6_raw(src: [u8; 16], dst: [u8; 16], ports: [u8; 4], proto: u8) -> Self {
        Self { src: words(src), dst: words(dst), tail: V6 | tail(ports, proto) }
    }

    /// IP version: 4, 6, or 0 when the packet is not IP.
    #[inline]
    #[must_use]
    pub const fn version(&self) -> u8 {
        (self.tail >> 40) as u8
    }

    /// Whether the packet is IP.
    #[inline]
    #[must_use]
    pub const fn is_ip(&self) -> bool {
        self.tail != 0
    }

    /// The upper layer's protocol number, see [`crate::proto`].
    #[inline]
    #[must_use]
    pub const fn proto(&self) -> u8 {
        (self.tail >> 32) as u8
    }

    /// Source port; 0 where there is none.
    #[inline]
    #[must_use]
    pub const fn src_port(&self) -> u16 {
        (self.tail as u16).swap_bytes()
    }

    /// Destination port; 0 where there is none.
    #[inline]
    #[must_use]
    pub const fn dst_port(&self) -> u16 {
        ((self.tail >> 16) as u16).swap_bytes()
    }

    /// Source address in 16 bytes: IPv6 as it is, IPv4 in the first four with zeros behind.
    #[inline]
    #[must_use]
    pub fn src_bytes(&self) -> [u8; 16] {
        unwords(self.src)
    }

    /// Destination address, as [`FiveTuple::src_bytes`].
    #[inline]
    #[must_use]
    pub fn dst_bytes(&self) -> [u8; 16] {
        unwords(self.dst)
    }

    /// Source address of an IPv4 flow as a number: 10.0.0.1 is `0x0a00_0001`. Meaningless for others.
    #[inline]
    #[must_use]
    pub const fn src_v4(&self) -> u32 {
        (self.src[0] as u32).swap_bytes()
    }

    /// Destination address of an IPv4 flow as a number. Meaningless for others.
    #[inline]
    #[must_use]
    pub const fn dst_v4(&self) -> u32 {
        (self.dst[0] as u32).swap_bytes()
    }

    /// Source address; `None` when the packet is not IP.
    #[must_use]
    pub fn src(&self) -> Option<IpAddr> {
        self.address(self.src)
    }

    /// Destination address; `None` when the packet is not IP.
    #[must_use]
    pub fn dst(&self) -> Option<IpAddr> {
        self.address(self.dst)
    }

    /// The flow in the other direction.
    #[must_use]
    pub const fn reversed(&self) -> Self {
        let ports = self.tail & 0xffff_ffff;
        let swapped = (ports << 16 | ports >> 16) & 0xffff_ffff;
        Self { src: self.dst, dst: self.src, tail: self.tail & !0xffff_ffff | swapped }
    }

    /// The same ends and protocol with other ports: for what has something in their place, such as an echo's identifier.
    #[must_use]
    pub const fn with_ports(&self, src_port: u16, dst_port: u16) -> Self {
        let ports = (dst_port.swap_bytes() as u64) << 16 | src_port.swap_bytes() as u64;
        Self { src: self.src, dst: self.dst, tail: self.tail & !0xffff_ffff | ports }
    }

    /// The 40 bytes, for tables that want a key of bytes.
    #[inline]
    #[must_use]
    pub fn to_bytes(&self) -> [u8; TUPLE_LEN] {
        let mut out = [0; TUPLE_LEN];
        let words = [self.src[0], self.src[1], self.dst[0], self.dst[1], self.tail];
        for (chunk, word) in out.chunks_exact_mut(8).zip(words) {
            chunk.copy_from_slice(&word.to_le_bytes());
        }
        out
    }

    /// An IPv4 flow in 16 bytes: source, destination, ports, protocol, version, two zeros. Of an IPv6 flow it is only the
    /// first parts of the addresses: ask [`FiveTuple::version`] before.
    #[inline]
    #[must_use]
    pub fn to_v4_key(&self) -> [u8; 16] {
        let addresses = self.src[0] & 0xffff_ffff | self.dst[0] << 32;
        unwords([addresses, self.tail])
    }

    fn address(&self, words: [u64; 2]) -> Option<IpAddr> {
        let bytes = unwords(words);
        match self.version() {
            4 => Some(Ipv4Addr::from(part::<4>(&bytes, 0)).into()),
            6 => Some(Ipv6Addr::from(bytes).into()),
            _ => None,
        }
    }
}

impl fmt::Debug for FiveTuple {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.src(), self.dst()) {
            (Some(src), Some(dst)) => {
                write!(f, "{src}:{} > {dst}:{} proto {}", self.src_port(), self.dst_port(), self.proto())
            }
            _ => f.write_str("not IP"),
        }
    }
}

#[inline(always)]
fn tail(ports: [u8; 4], proto: u8) -> u64 {
    u64::from(u32::from_le_bytes(ports)) | u64::from(proto) << 32
}

#[inline(always)]
fn words(b: [u8; 16]) -> [u64; 2] {
    [u64::from_le_bytes(part(&b, 0)), u64::from_le_bytes(part(&b, 8))]
}

#[inline(always)]
fn unwords(w: [u64; 2]) -> [u8; 16] {
    (u128::from(w[0]) | u128::from(w[1]) << 64).to_le_bytes()
}

// Digits of pi. The tail has zeros in its upper 16 bits, so `tail ^ K[1]` is never 0 and the last product never
// loses the addresses.
const K: [u64; 6] = [
    0x243f_6a88_85a3_08d3,
    0x1319_8a2e_0370_7344,
    0xa409_3822_299f_31d0,
    0x082e_fa98_ec4e_6c89,
    0x4528_21e6_38d0_1377,
    0xbe54_66cf_34e9_0c6c,
];

#[inline(always)]
fn mul_fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

/// Hash of a flow, the same on every host; 0 for packets that are not IP.
///
/// The two directions of a connection have different hashes ([`FiveTuple::reversed`] gives the other one).
/// A fragment without ports hashes on addresses and protocol, since its tuple has ports 0.
/// It spreads well (a multiply-and-fold of 64 by 64 bits) but has no secret: who wants collisions finds them,
/// so tables that strangers can fill must bound their chains.
#[inline]
#[must_use]
pub fn flow_hash(tuple: &FiveTuple) -> u32 {
    let h = match tuple.version() {
        4 => mul_fold(tuple.src[0] | tuple.dst[0] << 32, K[2]) ^ tuple.src[0],
        6 => {
            mul_fold(tuple.src[0] ^ K[0], tuple.src[1] ^ K[2])
                ^ mul_fold(tuple.dst[0] ^ K[3], tuple.dst[1] ^ K[4]).rotate_left(17)
        }
        _ => return 0,
    };
    let h = mul_fold(h ^ K[5], tuple.tail ^ K[1]);
    (h ^ h >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(i: u32) -> FiveTuple {
        FiveTuple::v4(Ipv4Addr::from(0x0a00_0000 + i), Ipv4Addr::from(0xc0a8_0001), 1024, 80, 6)
    }

    #[test]
    fn bytes_are_where_the_table_says() {
        let b = FiveTuple::v4([1, 2, 3, 4].into(), [5, 6, 7, 8].into(), 0x0102, 0x0304, 17).to_bytes();
        assert_eq!(b[..5], [1, 2, 3, 4, 0]);
        assert_eq!(b[16..21], [5, 6, 7, 8, 0]);
        assert_eq!(b[32..], [1, 2, 3, 4, 17, 4, 0, 0]);
        let v4 = FiveTuple::v4([1, 2, 3, 4].into(), [5, 6, 7, 8].into(), 0x0102, 0x0304, 17).to_v4_key();
        assert_eq!(v4, [1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 17, 4, 0, 0]);
    }

    #[test]
    fn reversed_twice_is_the_same_and_once_is_not() {
        let t = flow(1);
        assert_eq!(t.reversed().reversed(), t);
        assert_eq!(t.reversed(), FiveTuple::v4(Ipv4Addr::from(0xc0a8_0001), Ipv4Addr::from(0x0a00_0001), 80, 1024, 6));
        assert_eq!(t.with_ports(80, 1024).with_ports(1024, 80), t);
        assert_eq!((t.with_ports(7, 9).src_port(), t.with_ports(7, 9).dst_port()), (7, 9));
        assert_ne!(flow_hash(&t), flow_hash(&t.reversed()));
        assert_eq!(flow_hash(&FiveTuple::NONE), 0);
    }

    /// Neighbouring flows must fill buckets evenly in the low and in the high bits: chi-square over 256 buckets.
    #[test]
    fn hash_spreads_neighbouring_flows() {
        const FLOWS: u32 = 1 << 16;
        type Make = fn(u32) -> FiveTuple;
        let kinds: [(&str, Make); 4] = [
            ("v4 sources", flow),
            ("v4 ports", |i| FiveTuple::v4([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), i as u16, 80, 17)),
            ("v4 both", |i| FiveTuple::v4(Ipv4Addr::from(i), Ipv4Addr::from(i), 1, 2, 6)),
            ("v6 sources", |i| FiveTuple::v6(Ipv6Addr::from(u128::from(i)), Ipv6Addr::LOCALHOST, 1, 2, 6)),
        ];
        for (name, make) in kinds {
            for shift in [0, 24] {
                let mut buckets = [0u32; 256];
                for i in 0..FLOWS {
                    buckets[(flow_hash(&make(i)) >> shift) as usize & 255] += 1;
                }
                let expected = f64::from(FLOWS) / 256.0;
                let chi: f64 = buckets.iter().map(|&b| (f64::from(b) - expected).powi(2) / expected).sum();
                // 255 degrees of freedom: 400 is far beyond the 99.99th percentile (347).
                assert!(chi < 400.0, "{name}, bits {shift}..: chi-square {chi}");
            }
        }
    }
}
