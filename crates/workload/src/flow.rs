//! The 5-tuples of a workload, computed from a flow's number: nothing is stored, so millions cost no memory.

use crate::hosts::{Hosts, Placement};
use crate::rng::mix64;
use crate::workload::Error;
use chainline_packet::FiveTuple;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;

/// The most flows a workload can have.
pub const MAX_FLOWS: u32 = 100_000_000;

/// Source ports, as RFC 4814 section 4.5 wants them: all but the well-known ones.
const SRC_PORTS: RangeInclusive<u16> = 1024..=65_535;
/// Bits of an IPv6 address that differ from flow to flow at most: the last ones.
const OPEN_BITS: u32 = 32;

/// The protocol above IP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Proto {
    /// UDP, with a checksum.
    #[default]
    Udp,
    /// TCP: one direction, segments without options. Flows that end begin with SYN and end with FIN, with sequence
    /// numbers that count the bytes between; flows that do not are segments of an established connection (ACK).
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

/// A prefix that flows take their addresses from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Prefix {
    /// The network; bits behind `len` are ignored.
    pub addr: IpAddr,
    /// Length in bits; above 32 (128) counts as 32 (128). Of an IPv6 prefix that leaves more open than the last 32 bits,
    /// the others stay as `addr` has them.
    pub len: u8,
}

impl Prefix {
    /// Bits of an address that flows differ in.
    pub(crate) fn open_bits(self) -> u32 {
        let bits: u32 = if self.addr.is_ipv4() { 32 } else { 128 };
        bits.saturating_sub(u32::from(self.len)).min(OPEN_BITS)
    }

    /// A one for each open bit.
    pub(crate) fn mask(self) -> u32 {
        ((1_u64 << self.open_bits()) - 1) as u32
    }

    /// The last 32 bits of the network.
    pub(crate) fn low(self) -> u32 {
        let low = match self.addr {
            IpAddr::V4(a) => u32::from(a),
            IpAddr::V6(a) => u128::from(a) as u32,
        };
        low & !self.mask()
    }

    /// The address with these last 32 bits.
    pub(crate) fn with_low(self, low: u32) -> IpAddr {
        match self.addr {
            IpAddr::V4(_) => Ipv4Addr::from(low).into(),
            IpAddr::V6(a) => Ipv6Addr::from(u128::from(a) >> 32 << 32 | u128::from(low)).into(),
        }
    }
}

/// Where the 5-tuples of a workload's flows come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Space {
    /// Protocol of all flows.
    pub proto: Proto,
    /// Source addresses. As long as there are enough, each flow has its own, unless there are `hosts`.
    pub src: Prefix,
    /// Destination addresses, of the same IP version.
    pub dst: Prefix,
    /// Source ports.
    pub src_ports: RangeInclusive<u16>,
    /// Destination ports.
    pub dst_ports: RangeInclusive<u16>,
    /// How many source addresses there are and how the flows are spread over them.
    pub hosts: Option<Hosts>,
}

impl Default for Space {
    /// UDP from 198.18.0.0/16 to 198.19.0.0/16 (set aside for benchmarks: RFC 2544 appendix C.2.2), to port 9, from
    /// ports 1024 to 65535 (RFC 4814 section 4.5: all but the well-known ones).
    fn default() -> Self {
        let prefix = |b| Prefix { addr: Ipv4Addr::new(198, b, 0, 0).into(), len: 16 };
        Self {
            proto: Proto::Udp,
            src: prefix(18),
            dst: prefix(19),
            src_ports: SRC_PORTS,
            dst_ports: 9..=9,
            hosts: None,
        }
    }
}

impl Space {
    /// How many different flows there are.
    #[must_use]
    pub fn capacity(&self) -> u128 {
        let ports = u128::from(count(&self.src_ports)) * u128::from(count(&self.dst_ports));
        let of_one_source = (1_u128 << self.dst.open_bits()) * ports;
        match self.hosts {
            None => of_one_source << self.src.open_bits(),
            Some(hosts) => hosts.capacity(of_one_source),
        }
    }

    /// Whether the ranges can be.
    pub(crate) fn check(&self) -> Result<(), Error> {
        for (what, range) in [("source", &self.src_ports), ("destination", &self.dst_ports)] {
            if range.start() > range.end() {
                return Err(Error::Ports { what, first: *range.start(), last: *range.end() });
            }
        }
        if self.src.addr.is_ipv4() != self.dst.addr.is_ipv4() {
            return Err(Error::Versions);
        }
        self.hosts.map_or(Ok(()), |hosts| hosts.check(1_u64 << self.src.open_bits()))
    }

    /// Whether the fast path makes these flows: IPv4, default source ports, no hosts.
    pub(crate) fn is_plain(&self) -> bool {
        self.src.addr.is_ipv4() && self.dst.addr.is_ipv4() && self.src_ports == SRC_PORTS && self.hosts.is_none()
    }
}

/// Ports of a range; 1 if it is reversed.
fn count(ports: &RangeInclusive<u16>) -> u32 {
    u32::from(ports.end().saturating_sub(*ports.start())) + 1
}

/// A flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Flow {
    /// Source address.
    pub src: IpAddr,
    /// Destination address.
    pub dst: IpAddr,
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Protocol.
    pub proto: Proto,
}

impl Flow {
    /// The flow as header parsing finds it.
    #[must_use]
    pub fn tuple(self) -> FiveTuple {
        let proto = self.proto.number();
        match (self.src, self.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => FiveTuple::v4(src, dst, self.src_port, self.dst_port, proto),
            (IpAddr::V6(src), IpAddr::V6(dst)) => FiveTuple::v6(src, dst, self.src_port, self.dst_port, proto),
            _ => FiveTuple::NONE, // no space has both
        }
    }
}

/// What differs from flow to flow: the last 32 bits of both addresses and the ports, in host byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Ends {
    pub(crate) src: u32,
    pub(crate) dst: u32,
    pub(crate) src_port: u16,
    pub(crate) dst_port: u16,
}

impl Ends {
    /// The 5-tuple over IPv4.
    #[inline]
    pub(crate) fn v4(self, proto: Proto) -> FiveTuple {
        FiveTuple::v4(self.src.into(), self.dst.into(), self.src_port, self.dst_port, proto.number())
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
    src_net: u32,
    src_mask: u32,
    src_bits: u32,
    dst_net: u32,
    dst_mask: u32,
    dst_bits: u32,
    dst_port: u16,
    dst_ports: u32,
    src_port: u16,
    src_ports: Divisor,
    hosts: Option<Placement>,
}

impl Flows {
    /// The flows of a space that was checked; `flows` of them will be asked for.
    pub(crate) fn new(space: &Space, flows: u32, seed: u64) -> Self {
        Self {
            seed,
            src_net: space.src.low(),
            src_mask: space.src.mask(),
            src_bits: space.src.open_bits(),
            dst_net: space.dst.low(),
            dst_mask: space.dst.mask(),
            dst_bits: space.dst.open_bits(),
            dst_port: *space.dst_ports.start(),
            dst_ports: count(&space.dst_ports),
            src_port: *space.src_ports.start(),
            src_ports: Divisor::new(count(&space.src_ports)),
            hosts: space.hosts.map(|hosts| Placement::new(hosts, flows)),
        }
    }

    /// Flow `i` of a plain space ([`Space::is_plain`]); those below the space's capacity are distinct.
    #[inline]
    pub(crate) fn plain(&self, i: u32) -> Ends {
        const FIRST: u16 = *SRC_PORTS.start();
        const COUNT: u32 = *SRC_PORTS.end() as u32 - FIRST as u32 + 1;
        // 64-bit shifts, since a prefix of length 0 leaves 32 bits open.
        let rest = (u64::from(i) >> self.src_bits) as u32;
        self.ends(i & self.src_mask, (rest / COUNT, rest % COUNT), (FIRST, COUNT))
    }

    /// Flow `i` of any space.
    #[inline]
    pub(crate) fn nth(&self, i: u32) -> Ends {
        let (src, rest) = match &self.hosts {
            None => (i & self.src_mask, (u64::from(i) >> self.src_bits) as u32),
            Some(hosts) => hosts.place(i),
        };
        let n = self.src_ports.n;
        let (rest, src_port) = self.src_ports.divide(rest);
        self.ends(src, (rest, src_port), (self.src_port, n))
    }

    /// From the digits: source host, (what is left, source port), and the source ports there are.
    #[inline(always)]
    fn ends(&self, src: u32, (rest, src_port): (u32, u32), (first, ports): (u16, u32)) -> Ends {
        let dst = rest & self.dst_mask;
        let dst_port = (u64::from(rest) >> self.dst_bits) as u32;

        let r = mix64(self.seed ^ u64::from(src));
        let src_port = turn(src_port, (r >> 48) as u16, ports);
        let r = mix64(r ^ u64::from(src_port));
        Ends {
            src: self.src_net | permute(src, self.src_mask, self.seed),
            dst: self.dst_net | (dst.wrapping_add(r as u32) & self.dst_mask),
            src_port: first + src_port as u16,
            dst_port: self.dst_port + turn(dst_port, (r >> 48) as u16, self.dst_ports) as u16,
        }
    }
}

/// Division of 32-bit numbers by a number that is known beforehand, as a multiplication.
///
/// With m = floor((2^64 - 1) / n), floor(m × (x + 1) / 2^64) is x / n: m × (x + 1) / 2^64 lies below (x + 1) / n by less
/// than 2^-32, which crosses a whole number only where (x + 1) / n is one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Divisor {
    pub(crate) n: u32,
    magic: u64,
}

impl Divisor {
    /// By `n`, at least 1.
    pub(crate) fn new(n: u32) -> Self {
        let n = n.max(1);
        Self { n, magic: u64::MAX / u64::from(n) }
    }

    /// Quotient and remainder.
    #[inline]
    pub(crate) fn divide(self, x: u32) -> (u32, u32) {
        let quotient = ((u128::from(self.magic) * (u128::from(x) + 1)) >> 64) as u32;
        (quotient, x - quotient * self.n)
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
        let prefix = |a, len| Prefix { addr: [a, 1, 2, 3].into(), len };
        let (src, dst) = (prefix(10, src_len), prefix(20, dst_len));
        Space { proto: Proto::Tcp, src, dst, dst_ports: first..=last, ..Space::default() }
    }

    #[test]
    fn every_source_host_is_used_before_one_is_used_again() {
        let flows = Flows::new(&space(8, 16, 80, 80), 1 << 20, 7);
        let hosts: HashSet<_> = (0..1 << 20).map(|i| flows.nth(i).src).collect();
        assert_eq!(hosts.len(), 1 << 20);
    }

    #[test]
    fn one_address_pair_has_as_many_flows_as_ports() {
        let space = space(32, 32, 80, 81);
        let flows = Flows::new(&space, 1, 1);
        let count = u32::try_from(space.capacity()).unwrap();
        assert_eq!(count, 2 * 64_512);
        let all: HashSet<_> = (0..count).map(|i| flows.nth(i)).collect();
        assert_eq!(all.len(), 2 * 64_512);
        assert!(all.iter().all(|f| f.src == 0x0a01_0203 && f.dst == 0x1401_0203 && f.src_port >= 1024));
    }

    #[test]
    fn addresses_of_ipv6_differ_in_their_last_bits() {
        let addr: Ipv6Addr = "2001:db8:1:2:3:4:5:6".parse().unwrap();
        let low = |len| Prefix { addr: addr.into(), len }.low();
        let with = |len, low| Prefix { addr: addr.into(), len }.with_low(low).to_string();
        assert_eq!((low(128), low(112), low(64)), (0x0005_0006, 0x0005_0000, 0));
        assert_eq!(with(64, 0xa_000b), "2001:db8:1:2:3:4:a:b");
    }

    proptest! {
        #[test]
        fn flows_are_distinct_and_inside_their_space(
            seed: u64, src_len in 0_u8..=32, dst_len in 0_u8..=32, first in 1_u16..=9, more in 0_u16..=65_526,
            src_ports in 0_u16..=3, at: u32
        ) {
            let src_ports = if src_ports == 3 { 1024..=65_535 } else { 5000..=5000 + src_ports };
            let space = Space { src_ports, ..space(src_len, dst_len, first, first + more) };
            let last = u32::try_from(space.capacity().min(u128::from(MAX_FLOWS))).unwrap() - 1;
            let flows = Flows::new(&space, last + 1, seed);
            let start = at % last.saturating_sub(2000).max(1);
            let some: HashSet<_> = (start..=last.min(start + 2000)).map(|i| flows.nth(i)).collect();
            prop_assert_eq!(some.len() as u32, last.min(start + 2000) - start + 1);
            for f in some {
                let inside = |a: u32, p: Prefix| a & !p.mask() == p.low();
                prop_assert!(inside(f.src, space.src) && inside(f.dst, space.dst), "{:?}", f);
                prop_assert!(space.src_ports.contains(&f.src_port) && space.dst_ports.contains(&f.dst_port), "{:?}", f);
            }
        }

        /// The path for plain spaces and the one for any give the same flows.
        #[test]
        fn both_paths_agree(seed: u64, src_len in 0_u8..=32, dst_len in 0_u8..=32, i: u32) {
            let space = space(src_len, dst_len, 1, 65_535);
            prop_assert!(space.is_plain());
            let flows = Flows::new(&space, 1, seed);
            prop_assert_eq!(flows.plain(i), flows.nth(i));
        }

        #[test]
        fn multiplying_divides(x: u32, n in prop::sample::select(vec![1_u32, 2, 3, 7, 64_512, 65_536, 0x7fff_ffff, u32::MAX])) {
            for x in [x, 0, n - 1, n, (x / n).wrapping_mul(n), u32::MAX] {
                prop_assert_eq!(Divisor::new(n).divide(x), (x / n, x % n));
            }
        }
    }
}
