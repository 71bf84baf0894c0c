//! The files that the NFs read: rules, routes, services. Made from a fixed seed, the same on every machine.

use chainline_workload::Flow;
use std::collections::HashSet;
use std::fmt::Write as _;
use std::fs;
use std::io::{self, Read};
use std::net::Ipv4Addr;
use std::path::Path;

/// The service that all packets go to, but those that are routed.
pub const SERVICE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 10);
/// The network around it: where packets go that only rules look at.
pub const SERVICES: &str = "192.0.0.0/16";
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

/// First bytes of networks without routes: no unicast, the traffic's sources, the router's own.
const SPECIAL: [u32; 4] = [0, 10, 127, 192];

/// Writes all files into a directory. The prefixes are made, or read from a table in pyasn's form, gzip or not.
///
/// # Errors
/// As the system says.
pub fn write(dir: &Path, table: Option<&Path>) -> io::Result<()> {
    for count in RULES {
        fs::write(dir.join(rules_file(count)), rules(count))?;
    }
    fs::write(dir.join("lb.services"), services())?;
    let prefixes = match table {
        Some(path) => parse(&text_of(path)?),
        None => prefixes(ROUTES),
    };
    fs::write(dir.join("l3fwd.routes"), routes(&prefixes, |hop| hop.to_string()))?;
    fs::write(dir.join("router.routes"), routes(&prefixes, |hop| format!("via {}", neighbour(hop))))
}

/// Where so many flows stand.
pub fn flows_file(count: u64) -> String {
    format!("l3fwd-{count}.flows")
}

/// Flows, each with a next hop of its own.
pub fn flows(tuples: impl Iterator<Item = Flow>) -> String {
    let mut rng = fastrand::Rng::with_seed(4);
    let mut text = String::from("# Written by bench-nfs.\n");
    for Flow { src, dst, src_port, dst_port, .. } in tuples {
        let _ = writeln!(text, "udp {src}:{src_port} {dst}:{dst_port} {}", rng.usize(..NEXT_HOPS));
    }
    text
}

/// Where so many rules stand.
pub fn rules_file(count: usize) -> String {
    format!("firewall-{count}.rules")
}

/// The address of the router's next hop with this number.
pub fn neighbour(hop: usize) -> Ipv4Addr {
    Ipv4Addr::new(192, 168, 1, 10 + hop as u8)
}

/// So many rules, of which the last one alone matches the traffic: the worst case for whoever looks at one after the
/// other. Half of the others lie in the network that packets go to, so that a trie cannot rule them out at its root.
fn rules(count: usize) -> String {
    let mut rng = fastrand::Rng::with_seed(1);
    let mut text = String::from("# Written by bench-nfs.\n");
    for _ in 1..count {
        let (source_len, service_len) = (rng.u32(12..=28), rng.u32(24..=32));
        let source = net(10 << 24 | rng.u32(..) >> 8, source_len);
        let near = u32::from(SERVICE) & !0xffff | rng.u32(..=0xffff);
        let service = net(if rng.bool() { near } else { rng.u32(0x1400_0000..0x7f00_0000) }, service_len);
        // The traffic is UDP to port 53: no packet may be denied, or it would cost less than one that goes on.
        let (action, protocol) = [("allow", "udp"), ("allow", "tcp"), ("deny", "tcp")][rng.usize(..3)];
        let port = [" port 80", " port 123", " port 443", " port 8000-8080"][rng.usize(..4)];
        let _ = writeln!(text, "{action} {protocol} from {source} to {service}{port}");
    }
    let _ = writeln!(text, "allow udp from 10.0.0.0/8 to {SERVICES} port {SERVICE_PORT}");
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
        if !SPECIAL.contains(&(address >> 24)) && seen.insert((address, len)) {
            out.push((address, len));
        }
    }
    out.push((0, 0));
    out
}

/// A file's text, unpacked if its name ends in `.gz`.
fn text_of(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let mut file = fs::File::open(path)?;
    if path.extension().is_some_and(|e| e == "gz") {
        flate2::read::GzDecoder::new(file).read_to_string(&mut text)?;
    } else {
        file.read_to_string(&mut text)?;
    }
    Ok(text)
}

/// The IPv4 prefixes of lines `PREFIX<tab>NUMBER`, without those that are no routes here, and a default route.
fn parse(text: &str) -> Vec<(u32, u32)> {
    let prefix = |line: &str| {
        let (address, len) = line.split_once('\t')?.0.split_once('/')?;
        Some((address.parse::<Ipv4Addr>().ok()?.into(), len.parse::<u32>().ok().filter(|l| (1..=32).contains(l))?))
    };
    let mut seen = HashSet::new();
    let usable = |p: &(u32, u32)| !SPECIAL.contains(&(p.0 >> 24)) && seen.insert(*p);
    text.lines().filter_map(prefix).filter(usable).chain([(0, 0)]).collect()
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
        let first = "deny tcp from 10.243.26.0/24 to 52.2.93.88/30 port 8000-8080";
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
    fn a_real_table_is_read() {
        let text = "; a comment\n1.0.0.0/24\t13335\n1.0.0.0/24\t1\n10.0.0.0/8\t2\n2001:db8::/32\t3\n8.8.0.0/16\t4\n";
        assert_eq!(parse(text), [(0x0100_0000, 24), (0x0808_0000, 16), (0, 0)]);
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
