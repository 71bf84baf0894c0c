//! Prefixes for oracles of longest matches: drawn so that they nest and packets meet them, and asked one after the other.

#![allow(dead_code)]

use proptest::prelude::*;
use std::collections::BTreeMap;
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Where addresses are: few bits differ. IPv4 addresses are numbers of 32 bits.
#[derive(Clone, Copy, Debug)]
pub struct Space {
    pub base4: u32,
    pub bits4: u32,
    pub base6: u128,
    pub bits6: u128,
}

impl Space {
    pub fn address(&self, v6: bool, bits: u128) -> u128 {
        match v6 {
            true => self.base6 | bits & self.bits6,
            false => (self.base4 | bits as u32 & self.bits4).into(),
        }
    }

    /// Any prefix of any of its addresses.
    pub fn prefix(self) -> impl Strategy<Value = Prefix> {
        (any::<bool>(), any::<u128>(), 0u8..=128).prop_map(move |(v6, bits, depth)| {
            let depth = if v6 { depth } else { depth.min(64) / 2 };
            Prefix { v6, bits: cut(v6, self.address(v6, bits), depth), depth }
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Prefix {
    pub v6: bool,
    pub bits: u128,
    pub depth: u8,
}

impl Prefix {
    pub fn has(&self, v6: bool, address: u128) -> bool {
        self.v6 == v6 && cut(v6, address, self.depth) == self.bits
    }
}

/// As route files have it.
impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.v6 {
            true => write!(f, "{}/{}", Ipv6Addr::from(self.bits), self.depth),
            false => write!(f, "{}/{}", Ipv4Addr::from(self.bits as u32), self.depth),
        }
    }
}

/// What stands behind the longest prefix that has the address.
pub fn longest<T: Copy>(table: &BTreeMap<Prefix, T>, v6: bool, address: u128) -> Option<T> {
    table.iter().filter(|(p, _)| p.has(v6, address)).max_by_key(|(p, _)| p.depth).map(|(_, value)| *value)
}

fn cut(v6: bool, bits: u128, depth: u8) -> u128 {
    let width = if v6 { 128 } else { 32 };
    bits & u128::MAX.checked_shl(width - u32::from(depth)).unwrap_or(0)
}
