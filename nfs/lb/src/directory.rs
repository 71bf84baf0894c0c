//! Which service a packet is for, or which backend's reply it is: by address, then by protocol and port.
//!
//! A small hash table by address that stays in the cache. Its keys come from the file alone, so nobody else can make
//! them collide.

use chainline_packet::FiveTuple;
use std::net::IpAddr;

/// Ports of an address, and what they stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rule {
    pub proto: u8,
    pub low: u16,
    pub high: u16,
    /// A service's index, or a backend's slot.
    pub target: u32,
}

/// What an address is.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    addr: u128,
    /// 4, 6; 0 is a free place.
    version: u8,
    /// Rules for packets to it, and for packets from it: from one index to the other.
    to: (u32, u32),
    from: (u32, u32),
}

/// Whom a packet is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum To {
    /// For this service.
    Service(u32),
    /// For a service's address, but none of its ports.
    Vip,
    /// For somebody else.
    Other,
}

#[derive(Debug, Default)]
pub(crate) struct Directory {
    /// Four places an address at least, a power of two.
    entries: Vec<Entry>,
    rules: Vec<Rule>,
}

impl Directory {
    /// `to`: services by their address; `from`: backends by theirs.
    pub fn new(to: Vec<(IpAddr, Rule)>, from: Vec<(IpAddr, Rule)>) -> Self {
        let size = ((to.len() + from.len()) * 4).next_power_of_two().max(16);
        let mut directory = Self { entries: vec![Entry::default(); size], rules: Vec::new() };
        directory.fill(to, |entry| &mut entry.to);
        directory.fill(from, |entry| &mut entry.from);
        directory
    }

    fn fill(&mut self, mut list: Vec<(IpAddr, Rule)>, side: fn(&mut Entry) -> &mut (u32, u32)) {
        list.sort_unstable();
        for of_address in list.chunk_by(|a, b| a.0 == b.0) {
            let start = self.rules.len() as u32;
            self.rules.extend(of_address.iter().map(|(_, rule)| *rule));
            let Some((addr, _)) = of_address.first() else { continue };
            let (addr, version) = key(*addr);
            let mut at = self.home(addr, version);
            // There are more places than addresses.
            while self.entries[at].version != 0 && (self.entries[at].addr, self.entries[at].version) != (addr, version)
            {
                at = (at + 1) % self.entries.len();
            }
            let entry = &mut self.entries[at];
            (entry.addr, entry.version) = (addr, version);
            *side(entry) = (start, self.rules.len() as u32);
        }
    }

    #[inline]
    fn home(&self, addr: u128, version: u8) -> usize {
        let folded = addr as u64 ^ ((addr >> 64) as u64).rotate_left(29) ^ u64::from(version);
        let mixed = (folded ^ folded >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> 40) as usize & (self.entries.len().wrapping_sub(1))
    }

    #[inline]
    fn find(&self, addr: u128, version: u8) -> Option<&Entry> {
        let mut at = self.home(addr, version);
        loop {
            let entry = self.entries.get(at)?;
            if entry.version == version && entry.addr == addr {
                return Some(entry);
            }
            if entry.version == 0 {
                return None;
            }
            at = (at + 1) & (self.entries.len() - 1);
        }
    }

    #[inline]
    fn rule(&self, (start, end): (u32, u32), proto: u8, port: u16) -> Option<u32> {
        let rules = self.rules.get(start as usize..end as usize)?;
        let after = rules.partition_point(|r| (r.proto, r.low) <= (proto, port));
        let rule = rules.get(after.checked_sub(1)?)?;
        (rule.proto == proto && port <= rule.high).then_some(rule.target)
    }

    /// Whom a packet of this flow is for.
    #[inline]
    pub fn to(&self, flow: &FiveTuple) -> To {
        match self.find(u128::from_le_bytes(flow.dst_bytes()), flow.version()) {
            Some(entry) if entry.to.0 < entry.to.1 => {
                self.rule(entry.to, flow.proto(), flow.dst_port()).map_or(To::Vip, To::Service)
            }
            _ => To::Other,
        }
    }

    /// The backend whose reply a packet of this flow is.
    #[inline]
    pub fn from(&self, flow: &FiveTuple) -> Option<u32> {
        let entry = self.find(u128::from_le_bytes(flow.src_bytes()), flow.version())?;
        self.rule(entry.from, flow.proto(), flow.src_port())
    }
}

fn key(addr: IpAddr) -> (u128, u8) {
    match addr {
        IpAddr::V4(a) => (u128::from(u32::from_le_bytes(a.octets())), 4),
        IpAddr::V6(a) => (u128::from_le_bytes(a.octets()), 6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    fn addr(i: u8) -> IpAddr {
        // 10.0.0.x, and the IPv6 addresses whose first bytes are the same.
        match i % 2 {
            0 => Ipv4Addr::new(10, 0, 0, i).into(),
            _ => Ipv6Addr::from(u128::from_be_bytes([10, 0, 0, i - 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])).into(),
        }
    }

    fn flow(src: IpAddr, dst: IpAddr, ports: (u16, u16), proto: u8) -> FiveTuple {
        match (src, dst) {
            (IpAddr::V4(s), IpAddr::V4(d)) => FiveTuple::v4(s, d, ports.0, ports.1, proto),
            (IpAddr::V6(s), IpAddr::V6(d)) => FiveTuple::v6(s, d, ports.0, ports.1, proto),
            _ => FiveTuple::NONE,
        }
    }

    proptest! {
        #[test]
        fn equals_a_list(
            ranges in prop::collection::vec((0u8..20, 0u8..2, 0u16..10, 0u16..3, any::<bool>()), 0..40),
            probes in prop::collection::vec((0u8..20, 0u8..20, 0u16..40, 0u16..40, 0u8..2), 1..80),
        ) {
            // Ranges of four ports that do not overlap, as the file's are.
            let mut to: Vec<(IpAddr, Rule)> = Vec::new();
            let mut from = Vec::new();
            for (i, (a, proto, low, len, is_to)) in ranges.into_iter().enumerate() {
                let rule = Rule { proto, low: low * 4, high: low * 4 + len, target: i as u32 };
                let list = if is_to { &mut to } else { &mut from };
                if !list.iter().any(|(b, r)| *b == addr(a) && (r.proto, r.low) == (proto, rule.low)) {
                    list.push((addr(a), rule));
                }
            }
            let directory = Directory::new(to.clone(), from.clone());
            let find = |list: &[(IpAddr, Rule)], a: IpAddr, proto: u8, port: u16| {
                let hit = |(b, r): &&(IpAddr, Rule)| *b == a && r.proto == proto && (r.low..=r.high).contains(&port);
                list.iter().find(hit).map(|(_, r)| r.target)
            };
            for (s, d, sport, dport, proto) in probes {
                let (s, d) = (addr(s), addr(d));
                let tuple = flow(s, d, (sport, dport), proto);
                if !tuple.is_ip() {
                    continue;
                }
                let vip = to.iter().any(|(a, _)| *a == d);
                let expected = match find(&to, d, proto, dport) {
                    Some(target) => To::Service(target),
                    None if vip => To::Vip,
                    None => To::Other,
                };
                prop_assert_eq!(directory.to(&tuple), expected);
                prop_assert_eq!(directory.from(&tuple), find(&from, s, proto, sport));
            }
        }
    }
}
