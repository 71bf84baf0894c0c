//! The route tables on real routes: Internet tables of 2014 and 2015, 600,000 prefixes of IPv4 and 27,000 of IPv6.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use chainline_dpdk::tables::{Fib4, Fib6, NONE};
use std::collections::HashMap;
use std::hash::Hash;
use std::io::{BufRead, BufReader};
use std::net::IpAddr;
use std::path::PathBuf;

/// Lines of `prefix/length<TAB>origin`.
fn routes(file: &str) -> Option<Vec<(IpAddr, u8, u32)>> {
    let Some(data) = std::env::var_os("CHAINLINE_DATA") else {
        println!("skipped: CHAINLINE_DATA is not set");
        return None;
    };
    let file = std::fs::File::open(PathBuf::from(data).join("routes").join(file)).unwrap();
    let lines = BufReader::new(flate2::read::GzDecoder::new(file)).lines().map(Result::unwrap);
    let route = |line: String| {
        let (prefix, origin) = line.split_once('\t')?;
        let (ip, depth) = prefix.split_once('/')?;
        Some((ip.parse().ok()?, depth.parse().ok()?, origin.parse::<u32>().ok()?))
    };
    Some(lines.filter_map(route).collect())
}

/// The oracle: a map for each prefix length, asked from the longest on.
struct Oracle<A>(Vec<HashMap<A, u32>>);

impl<A: Copy + Eq + Hash> Oracle<A> {
    fn lookup(&self, ip: A, cut: impl Fn(A, u8) -> A) -> u32 {
        let by_depth = self.0.iter().enumerate().rev().filter(|(_, routes)| !routes.is_empty());
        by_depth.filter_map(|(depth, routes)| routes.get(&cut(ip, depth as u8)).copied()).next().unwrap_or(NONE)
    }
}

fn cut4(ip: u32, depth: u8) -> u32 {
    ip & u32::MAX.checked_shl(32 - u32::from(depth)).unwrap_or(0)
}

fn cut6(ip: u128, depth: u8) -> u128 {
    ip & u128::MAX.checked_shl(128 - u32::from(depth)).unwrap_or(0)
}

#[test]
fn ipv4() {
    let Some(routes) = routes("pyasn_ipasn6_20151101.dat.gz") else { return };
    let mut fib = Fib4::new(700_000, 4096).unwrap();
    let mut oracle = Oracle(vec![HashMap::new(); 33]);
    let mut ips = Vec::new();
    for (ip, depth, origin) in routes {
        let (IpAddr::V4(ip), true) = (ip, origin < NONE) else { continue };
        let ip = ip.to_bits();
        fib.add(ip, depth, origin).unwrap();
        oracle.0[usize::from(depth)].insert(cut4(ip, depth), origin);
        // Just inside, just outside, and somewhere in the neighbourhood.
        ips.extend([ip, ip | !cut4(u32::MAX, depth), ip.wrapping_sub(1), ip ^ 0x0101_0101]);
    }
    assert!(ips.len() > 4 * 600_000, "{} routes", ips.len() / 4);
    let mut found = vec![0; ips.len()];
    fib.lookup_bulk(&ips, &mut found);
    for (ip, found) in ips.iter().zip(found) {
        assert_eq!(found, oracle.lookup(*ip, cut4), "{ip:#x}");
    }
}

#[test]
fn ipv6() {
    let Some(routes) = routes("pyasn_ipasn6_20151101.dat.gz") else { return };
    let mut fib = Fib6::new(40_000, 40_000).unwrap();
    let mut oracle = Oracle(vec![HashMap::new(); 129]);
    let mut ips = Vec::new();
    for (ip, depth, origin) in routes {
        let (IpAddr::V6(ip), true) = (ip, origin < NONE) else { continue };
        let ip = ip.to_bits();
        fib.add(ip.to_be_bytes(), depth, origin).unwrap();
        oracle.0[usize::from(depth)].insert(cut6(ip, depth), origin);
        ips.extend([ip, ip | !cut6(u128::MAX, depth), ip.wrapping_sub(1), ip ^ 1 << 80]);
    }
    assert!(ips.len() > 4 * 27_000, "{} routes", ips.len() / 4);
    let keys: Vec<[u8; 16]> = ips.iter().map(|ip| ip.to_be_bytes()).collect();
    let mut found = vec![0; ips.len()];
    fib.lookup_bulk(&keys, &mut found);
    for (ip, found) in ips.iter().zip(found) {
        assert_eq!(found, oracle.lookup(*ip, cut6), "{ip:#x}");
    }
}
