//! A full table of the Internet, from `$CHAINLINE_DATA/routes`.

#![allow(clippy::unwrap_used)]

#[path = "../../forward/tests/support/mod.rs"]
mod support;

use serde_json::json;
use std::collections::HashMap;
use std::io::Read;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use support::{Host, ipv4, ipv6, l4};

const HOPS: u32 = 16;

/// Unpacks a file into a directory that goes away with the value.
struct Unpacked(PathBuf);

impl Unpacked {
    fn new(packed: &Path) -> (Self, String) {
        let mut text = String::new();
        flate2::read::GzDecoder::new(std::fs::File::open(packed).unwrap()).read_to_string(&mut text).unwrap();
        let name = packed.file_stem().unwrap().to_string_lossy();
        let path = std::env::temp_dir().join(format!("l3fwd-{}-{name}", std::process::id()));
        std::fs::write(&path, &text).unwrap();
        (Self(path), text)
    }
}

impl Drop for Unpacked {
    fn drop(&mut self) {
        let _gone = std::fs::remove_file(&self.0);
    }
}

/// Longest match by trying all lengths in a map.
struct Oracle(HashMap<(IpAddr, u8), u32>);

impl Oracle {
    fn new(text: &str) -> Self {
        let route = |line: &str| {
            let (prefix, asn) = line.split_once('\t')?;
            let (address, depth) = prefix.split_once('/')?;
            Some(((address.parse().ok()?, depth.parse().ok()?), asn.trim().parse::<u32>().ok()? % HOPS))
        };
        Self(text.lines().filter(|l| !l.starts_with(';')).filter_map(route).collect())
    }

    fn hop(&self, dst: IpAddr) -> Option<u32> {
        let cut = |depth: u8| match dst {
            IpAddr::V4(a) => {
                IpAddr::from((u32::from(a) & u32::MAX.checked_shl(32 - u32::from(depth)).unwrap_or(0)).to_be_bytes())
            }
            IpAddr::V6(a) => {
                IpAddr::from((u128::from(a) & u128::MAX.checked_shl(128 - u32::from(depth)).unwrap_or(0)).to_be_bytes())
            }
        };
        let longest = if dst.is_ipv4() { 32 } else { 128 };
        (0..=longest).rev().find_map(|depth| self.0.get(&(cut(depth), depth)).copied())
    }
}

fn check(name: &str, at_least: usize) {
    let Some(data) = std::env::var_os("CHAINLINE_DATA") else {
        println!("skipped: CHAINLINE_DATA is not set");
        return;
    };
    let (file, text) = Unpacked::new(&PathBuf::from(data).join("routes").join(name));
    let oracle = Oracle::new(&text);
    assert!(oracle.0.len() >= at_least, "{} routes", oracle.0.len());
    let hops: Vec<_> = (0..HOPS).map(|i| json!({"mac": format!("02:00:00:00:00:{i:02x}")})).collect();
    let mut host = Host::new(&nf_l3fwd::KIND, json!({"routes": file.0, "format": "pyasn", "next_hops": hops}));
    println!("{}", host.report().unwrap());
    // Addresses in every 50th prefix, at its start and near its end, and some anywhere.
    let mut destinations: Vec<IpAddr> = Vec::new();
    let mut keys: Vec<_> = oracle.0.keys().collect();
    keys.sort();
    for (i, (address, depth)) in keys.iter().enumerate().step_by(50) {
        let noise = (i as u32).wrapping_mul(0x9e37_79b9);
        match address {
            IpAddr::V4(a) => {
                let host_bits = u32::MAX.checked_shr(u32::from(*depth)).unwrap_or(0);
                destinations.extend(
                    [u32::from(*a), u32::from(*a) | host_bits & noise, noise].map(|d| IpAddr::from(d.to_be_bytes())),
                );
            }
            IpAddr::V6(a) => {
                let host_bits = u128::MAX.checked_shr(u32::from(*depth)).unwrap_or(0);
                let last = u128::from(*a) | host_bits;
                destinations.extend([u128::from(*a), last].map(|d| IpAddr::from(d.to_be_bytes())));
            }
        }
    }
    let frame = |dst: &IpAddr| match dst {
        IpAddr::V4(a) => ipv4(1, u32::from(*a), 17, 64, &l4(17, 1, 2)),
        IpAddr::V6(a) => ipv6(1, u128::from(*a), 17, 64, &l4(17, 1, 2)),
    };
    let mut frames: Vec<_> = destinations.iter().map(frame).collect();
    let verdicts: Vec<String> = host.play(0, &mut frames).into_iter().map(str::to_owned).collect();
    for ((dst, verdict), frame) in destinations.iter().zip(&verdicts).zip(&frames) {
        match oracle.hop(*dst) {
            Some(hop) => assert_eq!((verdict.as_str(), u32::from(frame[5])), ("next", hop), "{dst}"),
            None => assert_eq!(verdict, "no_route", "{dst}"),
        }
    }
}

#[test]
fn ipv4_table() {
    check("pyasn_ipasn_20140513_v12.dat.gz", 500_000);
}

#[test]
fn ipv4_and_ipv6_table() {
    check("pyasn_ipasn6_20151101.dat.gz", 600_000);
}
