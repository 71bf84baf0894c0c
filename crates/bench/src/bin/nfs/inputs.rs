//! The files that the NFs read: rules, routes, services. Made from a fixed seed, the same on every machine.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::path::Path;

/// The service that all packets go to, but those that are routed.
pub const SERVICE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 10);
/// Its port.
pub const SERVICE_PORT: u16 = 53;
/// Backends of the service.
pub const BACKENDS: usize = 100;
/// Next hops of the routes.
pub const NEXT_HOPS: usize = 16;
/// Routes of a full table.
pub const ROUTES: usize = 500_000;
/// Rules of the two sets.
pub const RULES: [usize; 2] = [10, 10_000];

/// Prefixes of a hundred thousand by length, from /8 on: the 512,490 of pyasn's table of 13 May 2014, without the 5 in
/// 1000 that are longer than /24 and that no provider takes.
const LENGTHS: [u32; 17] = [3, 2, 6, 18, 51, 95, 189, 337, 2540, 1375, 2324, 4864, 6986, 7338, 11_272, 9_244, 52_681];

/// Writes all files into a directory.
///
/// # Errors
/// As the system says.
pub fn write(dir: &Path) -> io::Result<()> {
    for count in RULES {
        fs::write(dir.join(rules_file(count)), rules(count))?;
    }
    fs::write(dir.join("lb.services"), services())?;
    let prefixes = prefixes(ROUTES);
    fs::write(dir.join("l3fwd.routes"), routes(&prefixes, |hop| hop.to_string()))?;
    fs::write(dir.join("router.routes"), routes(&prefixes, |hop| format!("via {}", neighbour(hop))))
}

/// Where so many rules stand.
pub fn rules_file(count: usize) -> String {
    format!("firewall-{count}.rules")
}

/// The address of the router's next hop with this number.
pub fn neighbour(hop: usize) -> Ipv4Addr {
    Ipv4Addr::new(192, 168, 1, 10 + hop as u8)
}

/// So many rules, of which the last alone matches the traffic: the worst case for whoever looks at one after the
/// other. All others have the traffic's protocol and many its networks, so that a trie cannot rule them out at its root.
fn rules(count: usize) -> String {
    let mut rng = fastrand::Rng::with_seed(1);
    let mut text = String::from("# Written by bench-nfs.\n");
    for _ in 1..count {
        // Sources as the traffic has them (10.0.0.0/8), but to services at other addresses, half of them near.
        let (source_len, service_len) = (rng.u32(12..=28), rng.u32(24..=32));
        let source = net(10 << 24 | rng.u32(..) >> 8, source_len);
        let near = u32::from(SERVICE) & !0xffff | rng.u32(0x0300..=0xffff);
        let service = net(if rng.bool() { near } else { rng.u32(0x1400_0000..0x7f00_0000) }, service_len);
        let action = if rng.u8(..4) == 0 { "deny" } else { "allow" };
        let protocol = if rng.bool() { "udp" } else { "tcp" };
        let port = *rng.choice([" port 53", " port 80", " port 443", " port 8000-8080", ""].iter()).unwrap_or(&"");
        let _ = writeln!(text, "{action} {protocol} from {source} to {service}{port}");
    }
    let _ = writeln!(text, "allow udp from 10.0.0.0/8 to {SERVICE} port {SERVICE_PORT}");
    text
}

fn net(address: u32, len: u32) -> String {
    format!("{}/{len}", Ipv4Addr::from(address & u32::MAX << (32 - len)))
}

/// One service with its backends.
fn services() -> String {
    let mut text = format!("# Written by bench-nfs.\nservice dns udp {SERVICE} port {SERVICE_PORT} nat\n");
    for backend in 1..=BACKENDS {
        let _ = writeln!(text, "backend 172.16.0.{backend}");
    }
    text
}

/// So many different prefixes in unicast space, with the lengths of a real table. None has an address of the
/// traffic's sources, or of the router.
fn prefixes(count: usize) -> Vec<(u32, u32)> {
    let mut rng = fastrand::Rng::with_seed(2);
    let all: u32 = LENGTHS.iter().sum();
    let mut seen = HashSet::with_capacity(count);
    let mut out = Vec::with_capacity(count);
    // The default route stands for the rest.
    while out.len() + 1 < count {
        let mut left = rng.u32(..all);
        let len = LENGTHS.iter().position(|share| left.checked_sub(*share).map(|l| left = l).is_none());
        let len = 8 + len.unwrap_or(16) as u32;
        let address = rng.u32(1 << 24..224 << 24) & u32::MAX << (32 - len);
        if !matches!(address >> 24, 0 | 10 | 127 | 192) && seen.insert((address, len)) {
            out.push((address, len));
        }
    }
    out.push((0, 0));
    out
}

fn routes(prefixes: &[(u32, u32)], next_hop: impl Fn(usize) -> String) -> String {
    let mut rng = fastrand::Rng::with_seed(3);
    let mut text = String::from("# Written by bench-nfs.\n");
    for (address, len) in prefixes {
        let _ = writeln!(text, "{}/{len} {}", Ipv4Addr::from(*address), next_hop(rng.usize(..NEXT_HOPS)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_on_every_machine() {
        let first = "allow udp from 10.243.26.0/24 to 52.2.93.88/30 port 8000-8080";
        assert_eq!(rules(10).lines().nth(1), Some(first));
        let text = routes(&prefixes(4), |h| h.to_string());
        assert_eq!(
            text.lines().skip(1).collect::<Vec<_>>(),
            ["91.197.240.0/21 9", "8.181.2.0/23 5", "140.173.129.0/24 6", "0.0.0.0/0 15"]
        );
        assert_eq!(prefixes(1000), prefixes(1000));
    }

    #[test]
    fn as_many_as_they_say() {
        for count in RULES {
            assert_eq!(rules(count).lines().filter(|l| !l.starts_with('#')).count(), count);
        }
        assert_eq!(services().lines().filter(|l| l.starts_with("backend")).count(), BACKENDS);
    }

    #[test]
    fn lengths_are_those_of_a_real_table() {
        let prefixes = prefixes(100_000);
        assert_eq!(prefixes.len(), 100_000);
        let of = |len| prefixes.iter().filter(|p| p.1 == len).count();
        // Of a hundred thousand, 52,681 and 2,540 of the 99,325 that are not longer than /24; short ones collide.
        assert!((51_500..55_500).contains(&of(24)), "{}", of(24));
        assert!((2_300..2_800).contains(&of(16)), "{}", of(16));
        assert!(prefixes.iter().all(|(a, len)| *len == 0 || a & !(u32::MAX << (32 - len)) == 0));
    }
}
