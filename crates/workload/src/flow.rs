//! The 5-tuples of a workload, computed from a flow's number: nothing is stored, so millions cost no memory.

use crate::rng::mix64;
use chainline_packet::FiveTuple;
use std::net::Ipv4Addr;
use std::ops::RangeInclusive;

/// The most flows a workload can have.
pub const MAX_FLOWS: u32 = 100_000_000;

/// Source ports, as RFC 4814 section 4.5 wants them: all but the well-known ones.
const FIRST_SRC_PORT: u16 = 1024;
const SRC_PORTS: u32 = 65_536 - FIRST_SRC_PORT as u32;

/// The protocol above IPv4.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Proto {
    /// UDP, with a checksum.
    #[default]
    Udp,
    /// TCP: segments without options of an established connection (ACK).
    Tcp,
}

impl Proto {
    /// The protocol's number in the IPv4 header.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Self::Tcp => 6,
            Self::Udp => 17,
        }
    }
}

/// An IPv4 prefix that flows take their addresses from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Prefix {
    /// The network; bits behind `len` are ignored.
    pub addr: Ipv4Addr,
    /// Length in bits; above 32 counts as 32.
    pub len: u8,
}

impl Prefix {
    /// Bits of an address that the prefix leaves open.
    fn open_bits(self) -> u32 {
        32_u32.saturating_sub(u32::from(self.len))
    }
}

/// Where the 5-tuples of a workload's flows come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Space {
    /// Protocol of all flows.
    pub proto: Proto,
    /// Source addresses. As long as there are enough, each flow has its own.
    pub src: Prefix,
    /// Destination addresses.
    pub dst: Prefix,
    /// Destination ports.
    pub dst_ports: RangeInclusive<u16>,
}

impl Default for Space {
    /// UDP from 198.18.0.0/16 to 198.19.0.0/16 (set aside for benchmarks: RFC 2544 appendix C.2.2), to port 9.
    fn default() -> Self {
        let prefix = |b| Prefix { addr: Ipv4Addr::new(198, b, 0, 0), len: 16 };
        Self { proto: Proto::Udp, src: prefix(18), dst: prefix(19), dst_ports: 9..=9 }
    }
}

impl Space {
    /// How many different flows there are; source ports are 1024 to 65535.
    #[must_use]
    pub fn capacity(&self) -> u128 {
        let ports = u128::from(self.dst_ports.end() - self.dst_ports.start().min(self.dst_ports.end())) + 1;
        (1_u128 << (self.src.open_bits() + self.dst.open_bits())) * u128::from(SRC_PORTS) * ports
    }
}

/// A flow over IPv4; numbers in host byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Flow {
    /// Source address.
    pub src: u32,
    /// Destination address.
    pub dst: u32,
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Protocol.
    pub proto: Proto,
}

impl Flow {
    /// The flow as header parsing finds it.
    #[inline]
    #[must_use]
    pub fn tuple(self) -> FiveTuple {
        FiveTuple::v4(self.src.into(), self.dst.into(), self.src_port, self.dst_port, self.proto.number())
    }

    /// Sum of the 16-bit words of the addresses, for checksums (RFC 1071).
    #[inline]
    pub(crate) fn address_sum(self) -> u32 {
        (self.src >> 16) + (self.src & 0xffff) + (self.dst >> 16) + (self.dst & 0xffff)
    }
}

/// Flows of a [`Space`] by number.
///
/// A number is taken apart into digits: source host, source port, destination host, destination port. Each digit
/// is then moved round by an amount that depends on the digits before it. Every step can be undone, so different
/// numbers give different flows.
#[derive(Clone, Debug)]
pub(crate) struct Flows {
    seed: u64,
    proto: Proto,
    src_net: u32,
    src_mask: u32,
    src_bits: u32,
    dst_net: u32,
    dst_mask: u32,
    dst_bits: u32,
    dst_port: u16,
    dst_ports: u32,
}

impl Flows {
    pub(crate) fn new(space: &Space, seed: u64) -> Self {
        let mask = |p: Prefix| ((1_u64 << p.open_bits()) - 1) as u32;
        let (src_mask, dst_mask) = (mask(space.src), mask(space.dst));
        Self {
            seed,
            proto: space.proto,
            src_net: u32::from(space.src.addr) & !src_mask,
            src_mask,
            src_bits: space.src.open_bits(),
            dst_net: u32::from(space.dst.addr) & !dst_mask,
            dst_mask,
            dst_bits: space.dst.open_bits(),
            dst_port: *space.dst_ports.start(),
            dst_ports: u32::from(space.dst_ports.end().saturating_sub(*space.dst_ports.start())) + 1,
        }
    }

    /// Flow `i`; those below the space's capacity are distinct.
    #[inline]
    pub(crate) fn nth(&self, i: u32) -> Flow {
        // 64-bit shifts, since a prefix of length 0 leaves 32 bits open.
        let src = i & self.src_mask;
        let rest = (u64::from(i) >> self.src_bits) as u32;
        let (src_port, rest) = (rest % SRC_PORTS, rest / SRC_PORTS);
        let dst = rest & self.dst_mask;
        let dst_port = (u64::from(rest) >> self.dst_bits) as u32;

        let r = mix64(self.seed ^ u64::from(src));
        let src_port = turn(src_port, (r >> 48) as u16, SRC_PORTS);
        let r = mix64(r ^ u64::from(src_port));
        Flow {
            src: self.src_net | permute(src, self.src_mask, self.seed),
            dst: self.dst_net | (dst.wrapping_add(r as u32) & self.dst_mask),
            src_port: FIRST_SRC_PORT + src_port as u16,
            dst_port: self.dst_port + turn(dst_port, (r >> 48) as u16, self.dst_ports) as u16,
            proto: self.proto,
        }
    }
}

/// `digit` moved round a circle of `n` (at most 65,536) places by the share `r` of it.
#[inline]
fn turn(digit: u32, r: u16, n: u32) -> u32 {
    let moved = digit + ((u32::from(r) * n) >> 16);
    if moved >= n { moved - n } else { moved }
}

/// A bijection on the numbers up to `mask` (2^n - 1): adding, multiplying by an odd number and xor with a right
/// shift can each be undone within n bits.
#[inline]
fn permute(x: u32, mask: u32, seed: u64) -> u32 {
    let x = x.wrapping_add(seed as u32).wrapping_mul(0x9e37_79b1) & mask;
    let x = (x ^ (x >> 7)).wrapping_add((seed >> 32) as u32).wrapping_mul(0x85eb_ca6b) & mask;
    x ^ (x >> 11)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    fn space(src_len: u8, dst_len: u8, first: u16, last: u16) -> Space {
        let prefix = |a, len| Prefix { addr: Ipv4Addr::new(a, 1, 2, 3), len };
        Space { proto: Proto::Tcp, src: prefix(10, src_len), dst: prefix(20, dst_len), dst_ports: first..=last }
    }

    #[test]
    fn every_source_host_is_used_before_one_is_used_again() {
        let flows = Flows::new(&space(8, 16, 80, 80), 7);
        let hosts: HashSet<_> = (0..1 << 20).map(|i| flows.nth(i).src).collect();
        assert_eq!(hosts.len(), 1 << 20);
    }

    #[test]
    fn one_address_pair_has_as_many_flows_as_ports() {
        let space = space(32, 32, 80, 81);
        let flows = Flows::new(&space, 1);
        let count = u32::try_from(space.capacity()).unwrap();
        assert_eq!(count, 2 * 64_512);
        let all: HashSet<_> = (0..count).map(|i| flows.nth(i)).collect();
        assert_eq!(all.len(), 2 * 64_512);
        assert!(all.iter().all(|f| f.src == 0x0a01_0203 && f.dst == 0x1401_0203 && f.src_port >= 1024));
    }

    proptest! {
        #[test]
        fn flows_are_distinct_and_inside_their_space(
            seed: u64, src_len in 0_u8..=32, dst_len in 0_u8..=32, first in 1_u16..=9, more in 0_u16..=65_526, at: u32
        ) {
            let space = space(src_len, dst_len, first, first + more);
            let flows = Flows::new(&space, seed);
            let last = u32::try_from(space.capacity().min(u128::from(MAX_FLOWS))).unwrap() - 1;
            let start = at % last.saturating_sub(2000).max(1);
            let some: HashSet<_> = (start..=last.min(start + 2000)).map(|i| flows.nth(i)).collect();
            prop_assert_eq!(some.len() as u32, last.min(start + 2000) - start + 1);
            for f in some {
                let inside = |a: u32, p: Prefix| (u64::from(a ^ u32::from(p.addr)) >> p.open_bits()) == 0;
                prop_assert!(inside(f.src, space.src) && inside(f.dst, space.dst), "{:?}", f);
                prop_assert!(f.src_port >= FIRST_SRC_PORT && space.dst_ports.contains(&f.dst_port), "{:?}", f);
            }
        }
    }
}
