//! Rules that can never match.
//!
//! A chain is found dead if its own fields contradict each other, or if one earlier chain of the same ingress port
//! takes every packet that it could match. Several earlier chains that do so together are not looked for: that is
//! the union of boxes in six dimensions, and a chain that is dead in this way is not an error of one line.

use super::Check;
use crate::diag::Diagnostic;
use crate::model::{Match, NumRange, Prefix};
use std::collections::HashMap;

/// Protocols whose headers have ports: TCP, UDP, SCTP.
const WITH_PORTS: [u8; 3] = [6, 17, 132];
const ICMP: u8 = 1;
const ICMP6: u8 = 58;

pub(super) fn check(c: &mut Check<'_>) {
    let mut earlier: HashMap<&str, Vec<usize>> = HashMap::new();
    for (i, chain) in c.spec.chains.iter().enumerate() {
        let Some(ingress) = chain.ingress() else { continue };
        if c.broken.matches.contains(&i) || ingress.is_empty() || c.full() {
            continue;
        }
        if contradiction(c, i, &chain.matches) {
            continue;
        }
        let before = earlier.entry(ingress).or_default();
        let cover = before.iter().copied().find(|&e| covers(&c.spec.chains[e].matches, &chain.matches));
        match cover {
            None => before.push(i),
            Some(e) => {
                let first = &c.spec.chains[e];
                let what =
                    if first.matches.is_any() { "all of that port's packets" } else { "all that it could match" };
                let message = format!(
                    "the chain `{}` can never match: `{}` before it takes {what}; expected the narrower rule first",
                    chain.name, first.name
                );
                let place = |i| {
                    let path = format!("spec.chains[{i}]");
                    let own = format!("{path}.match");
                    if c.file.source.has(&own) { c.key(&own) } else { c.at(&format!("{path}.name")) }
                };
                let diagnostic = Diagnostic::error(place(i), message).related(place(e), "the earlier rule is");
                c.push(diagnostic);
            }
        }
    }
}

/// Reports fields that no packet can satisfy together.
fn contradiction(c: &mut Check<'_>, index: usize, m: &Match) -> bool {
    let place = |field: &str| format!("spec.chains[{index}].match.{field}");
    if let Some(proto) = m.proto
        && !WITH_PORTS.contains(&proto)
    {
        for (field, ranges) in [("src_port", &m.src_port), ("dst_port", &m.dst_port)] {
            if !ranges.is_empty() {
                let found = crate::model::proto_name(proto).map_or_else(|| proto.to_string(), str::to_owned);
                let message = format!(
                    "can never match: found `{field}` with protocol `{found}`, expected `tcp`, `udp` or `sctp`"
                );
                c.error(&place(field), message);
                return true;
            }
        }
    }
    let four = |prefixes: &[Prefix]| prefixes.iter().any(|p| p.addr.is_ipv4());
    let six = |prefixes: &[Prefix]| prefixes.iter().any(|p| p.addr.is_ipv6());
    let both = !m.src.is_empty() && !m.dst.is_empty();
    if both && !(four(&m.src) && four(&m.dst)) && !(six(&m.src) && six(&m.dst)) {
        let message = "can never match: found `src` and `dst` of different IP versions, expected the same";
        c.error(&place("dst"), message);
        return true;
    }
    let prefixes: Vec<_> = m.src.iter().chain(&m.dst).copied().collect();
    let odd = match m.proto {
        Some(ICMP) => six(&prefixes) && !four(&prefixes),
        Some(ICMP6) => four(&prefixes) && !six(&prefixes),
        _ => false,
    };
    if odd {
        let message = "`icmp` belongs to IPv4 and `icmp6` to IPv6: hardly any packet matches";
        c.push(Diagnostic::warning(c.at(&place("proto")), message));
    }
    false
}

/// Whether every packet that matches `b` matches `a`.
pub(super) fn covers(a: &Match, b: &Match) -> bool {
    (a.proto.is_none() || a.proto == b.proto)
        && prefixes_cover(&a.src, &b.src)
        && prefixes_cover(&a.dst, &b.dst)
        && ranges_cover(&a.src_port, &b.src_port)
        && ranges_cover(&a.dst_port, &b.dst_port)
        && ranges_cover(&a.vlan, &b.vlan)
}

/// An empty list is any packet, also one that is not IP.
fn prefixes_cover(a: &[Prefix], b: &[Prefix]) -> bool {
    a.is_empty() || !b.is_empty() && b.iter().all(|b| a.iter().any(|a| a.covers(b)))
}

/// An empty list is any packet, also one without ports (a fragment) or without a tag.
fn ranges_cover(a: &[NumRange], b: &[NumRange]) -> bool {
    if a.is_empty() || b.is_empty() {
        return a.is_empty();
    }
    let mut merged: Vec<NumRange> = Vec::with_capacity(a.len());
    let mut sorted = a.to_vec();
    sorted.sort_by_key(|r| r.first);
    for r in sorted {
        match merged.last_mut() {
            Some(last) if u32::from(r.first) <= u32::from(last.last) + 1 => last.last = last.last.max(r.last),
            _ => merged.push(r),
        }
    }
    b.iter().all(|b| merged.iter().any(|a| a.covers(b)))
}

#[cfg(test)]
mod tests {
    use super::covers;
    use crate::model::{Match, NumRange, Prefix};
    use proptest::prelude::*;
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

    /// A packet, as far as a match sees it.
    #[derive(Clone, Copy, Debug)]
    struct Packet {
        proto: Option<u8>,
        addrs: Option<(IpAddr, IpAddr)>,
        ports: Option<(u16, u16)>,
        vlan: u16,
    }

    fn matches(m: &Match, p: &Packet) -> bool {
        let address = |list: &[Prefix], addr: Option<IpAddr>| {
            list.is_empty()
                || addr.is_some_and(|a| {
                    list.iter().any(|l| a.is_ipv4() == l.addr.is_ipv4() && Prefix::new(a, l.len) == Some(*l))
                })
        };
        let port = |list: &[NumRange], port: Option<u16>| {
            list.is_empty() || port.is_some_and(|p| list.iter().any(|r| r.contains(p)))
        };
        (m.proto.is_none() || m.proto == p.proto)
            && address(&m.src, p.addrs.map(|a| a.0))
            && address(&m.dst, p.addrs.map(|a| a.1))
            && port(&m.src_port, p.ports.map(|p| p.0))
            && port(&m.dst_port, p.ports.map(|p| p.1))
            && port(&m.vlan, Some(p.vlan))
    }

    /// Few values, so that matches overlap often.
    fn addr() -> impl Strategy<Value = IpAddr> {
        (any::<bool>(), 0..4u8).prop_map(|(four, n)| {
            if four { Ipv4Addr::new(10, 0, 0, n).into() } else { Ipv6Addr::new(0, 0, 0, 0, 0, 0, 0, n.into()).into() }
        })
    }

    fn prefixes() -> impl Strategy<Value = Vec<Prefix>> {
        let prefix = (addr(), 0..3u8).prop_map(|(a, host)| Prefix::new(a, Prefix::max_len(a) - host));
        sparse(prefix.prop_filter_map("length", |p| p))
    }

    fn ranges() -> impl Strategy<Value = Vec<NumRange>> {
        sparse((0..4u16, 0..3u16).prop_map(|(first, n)| NumRange { first, last: first + n }))
    }

    /// Mostly empty, so that many packets match.
    fn sparse<S: Strategy>(item: S) -> impl Strategy<Value = Vec<S::Value>>
    where
        S::Value: Clone,
    {
        (any::<bool>(), prop::collection::vec(item, 1..3)).prop_map(|(given, list)| if given { list } else { vec![] })
    }

    fn matching() -> impl Strategy<Value = Match> {
        (prop::option::of(select()), prefixes(), prefixes(), ranges(), ranges(), ranges())
            .prop_map(|(proto, src, dst, src_port, dst_port, vlan)| Match { proto, src, dst, src_port, dst_port, vlan })
    }

    fn select() -> impl Strategy<Value = u8> {
        prop::sample::select(vec![6, 17])
    }

    fn packet() -> impl Strategy<Value = Packet> {
        let ports = prop::option::weighted(0.8, (0..7u16, 0..7u16));
        (prop::option::weighted(0.8, select()), prop::option::weighted(0.8, (addr(), addr())), ports, 0..7u16)
            .prop_map(|(proto, addrs, ports, vlan)| Packet { proto, addrs, ports, vlan })
    }

    proptest! {
        // The cases that matter are rare, and cheap.
        #![proptest_config(ProptestConfig::with_cases(8192))]

        #[test]
        fn what_the_covered_match_takes_the_covering_one_takes(
            a in matching(),
            other in matching(),
            field in 0..6,
            packets in prop::collection::vec(packet(), 64),
        ) {
            // Different in one field, since unrelated matches hardly ever cover each other.
            let mut b = a.clone();
            match field {
                0 => b.proto = other.proto,
                1 => b.src = other.src,
                2 => b.dst = other.dst,
                3 => b.src_port = other.src_port,
                4 => b.dst_port = other.dst_port,
                _ => b.vlan = other.vlan,
            }
            if covers(&a, &b) {
                for p in packets.iter().filter(|p| matches(&b, p)) {
                    prop_assert!(matches(&a, p), "{p:?}");
                }
            }
        }

        #[test]
        fn a_narrower_match_is_covered(a in matching(), proto in select(), src in prefixes(), vlan in ranges()) {
            let mut b = a.clone();
            b.proto = b.proto.or(Some(proto));
            if b.src.is_empty() { b.src = src; }
            if b.vlan.is_empty() { b.vlan = vlan; }
            prop_assert!(covers(&a, &b));
            prop_assert!(covers(&Match::default(), &a));
        }
    }
}
