//! Which chain a packet belongs to: the first in file order, of those that begin at its port, that matches.
//!
//! `rte_acl` compares all rules at once, so thousands of them cost little more than ten. Before it stands a cache of
//! recent flows, which a packet of a known flow does not get past.

use chainline_chain::model::{Match, NumRange, Prefix};
use chainline_dpdk::tables::{Acl, AclError, FieldDef, FieldKind, FieldValue, Rule};
use chainline_packet::{FiveTuple, Layers};
use std::net::IpAddr;
use std::num::NonZeroU32;

/// Entries of the flow cache, of 48 bytes each: about half of a level-2 cache.
const CACHE: usize = 8192;
/// Bytes of the keys: protocol and padding, addresses, ports, VLAN and padding.
const KEY4: usize = 20;
const KEY6: usize = 44;
/// Protocols that have ports: those a rule with ports and no protocol means.
const WITH_PORTS: [u8; 3] = [6, 17, 132];
const NONE: u16 = u16::MAX;

#[derive(Clone, Copy)]
struct Cached {
    tuple: FiveTuple,
    vlan: u16,
    chain: u16,
}

/// The classifier of one port.
pub struct Classifier {
    /// Set when every packet belongs to one chain: then nothing is looked at.
    only: Option<u16>,
    v4: Acl,
    v6: Acl,
    /// For packets that are not IP: the chain of each VLAN id.
    other: Box<[u16]>,
    cache: Box<[Cached]>,
}

impl Classifier {
    /// For a port, with the chains that begin there, in file order.
    ///
    /// # Errors
    /// When there are more rules than `rte_acl` takes.
    pub fn new(chains: &[(u16, &Match)]) -> Result<Self, AclError> {
        let only = match chains {
            [(id, m), ..] if m.is_any() => Some(*id),
            _ => None,
        };
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        let mut other = vec![NONE; 4096].into_boxed_slice();
        for (rank, (id, m)) in chains.iter().enumerate() {
            // With `only` the tables are never asked.
            if only.is_some() {
                break;
            }
            let priority = (chains.len() - rank) as i32;
            let data = NonZeroU32::MIN.saturating_add(u32::from(*id));
            v4.extend(rules::<1>(m, priority, data, Prefix::ANY4));
            v6.extend(rules::<4>(m, priority, data, Prefix::ANY6));
            let about_ip = m.proto.is_some()
                || ![m.src.len(), m.dst.len(), m.src_port.len(), m.dst_port.len()].iter().all(|n| *n == 0);
            if !about_ip {
                for (vlan, chain) in other.iter_mut().enumerate().filter(|(_, c)| **c == NONE) {
                    if m.vlan.is_empty() || m.vlan.iter().any(|r| r.contains(vlan as u16)) {
                        *chain = *id;
                    }
                }
            }
        }
        Ok(Self {
            only,
            v4: Acl::build(&fields(1), &v4)?,
            v6: Acl::build(&fields(4), &v6)?,
            other,
            cache: vec![Cached { tuple: FiveTuple::NONE, vlan: 0, chain: NONE }; CACHE].into_boxed_slice(),
        })
    }

    /// The chain of every packet, if that is one.
    #[inline]
    #[must_use]
    pub fn only(&self) -> Option<u16> {
        self.only
    }

    /// The chain of each packet, given what it was parsed to and its flow hash; none if no chain matches.
    pub fn classify(&mut self, packets: &[(Layers, u32)], chains: &mut [Option<u16>]) {
        const AT_ONCE: usize = crate::ports::PORT_BURST;
        let (mut keys4, mut keys6) = ([[0; KEY4]; AT_ONCE], [[0; KEY6]; AT_ONCE]);
        let (mut who4, mut who6) = ([0; AT_ONCE], [0; AT_ONCE]);
        for (packets, chains) in packets.chunks(AT_ONCE).zip(chains.chunks_mut(AT_ONCE)) {
            let (mut n4, mut n6) = (0, 0);
            for (i, ((layers, hash), chain)) in packets.iter().zip(chains.iter_mut()).enumerate() {
                let vlan = layers.tci[0] & chainline_packet::ether::VLAN_ID_MASK;
                if !layers.tuple.is_ip() {
                    *chain = known(self.other[usize::from(vlan)]);
                    continue;
                }
                let cached = &self.cache[*hash as usize % CACHE];
                if cached.tuple == layers.tuple && cached.vlan == vlan {
                    *chain = known(cached.chain);
                } else if layers.tuple.version() == 4 {
                    keys4[n4] = key4(&layers.tuple, vlan);
                    who4[n4] = i;
                    n4 += 1;
                } else {
                    keys6[n6] = key6(&layers.tuple, vlan);
                    who6[n6] = i;
                    n6 += 1;
                }
            }
            let mut found = [0; AT_ONCE];
            for (acl, n, who) in [(0, n4, &who4), (1, n6, &who6)] {
                if n == 0 {
                    continue;
                }
                match acl {
                    0 => self.v4.classify(&keys4[..n], &mut found[..n]),
                    _ => self.v6.classify(&keys6[..n], &mut found[..n]),
                }
                for (&i, &data) in who[..n].iter().zip(&found) {
                    let chain = if data == 0 { NONE } else { (data - 1) as u16 };
                    let (layers, hash) = &packets[i];
                    let vlan = layers.tci[0] & chainline_packet::ether::VLAN_ID_MASK;
                    self.cache[*hash as usize % CACHE] = Cached { tuple: layers.tuple, vlan, chain };
                    chains[i] = known(chain);
                }
            }
        }
    }
}

fn known(chain: u16) -> Option<u16> {
    (chain != NONE).then_some(chain)
}

fn key4(t: &FiveTuple, vlan: u16) -> [u8; KEY4] {
    let mut k = [0; KEY4];
    k[0] = t.proto();
    k[4..8].copy_from_slice(&t.src_v4().to_be_bytes());
    k[8..12].copy_from_slice(&t.dst_v4().to_be_bytes());
    k[12..14].copy_from_slice(&t.src_port().to_be_bytes());
    k[14..16].copy_from_slice(&t.dst_port().to_be_bytes());
    k[16..18].copy_from_slice(&vlan.to_be_bytes());
    k
}

fn key6(t: &FiveTuple, vlan: u16) -> [u8; KEY6] {
    let mut k = [0; KEY6];
    k[0] = t.proto();
    k[4..20].copy_from_slice(&t.src_bytes());
    k[20..36].copy_from_slice(&t.dst_bytes());
    k[36..38].copy_from_slice(&t.src_port().to_be_bytes());
    k[38..40].copy_from_slice(&t.dst_port().to_be_bytes());
    k[40..42].copy_from_slice(&vlan.to_be_bytes());
    k
}

/// The key's fields, with addresses of `words` groups of four bytes.
fn fields(words: u32) -> Vec<FieldDef> {
    let mut f = vec![FieldDef { kind: FieldKind::Bitmask, size: 1, field_index: 0, input_index: 0, offset: 0 }];
    let mut add = |kind, size, group, offset| {
        let field_index = f.len() as u8;
        f.push(FieldDef { kind, size, field_index, input_index: group, offset });
    };
    for w in 0..2 * words {
        add(FieldKind::Mask, 4, 1 + w as u8, 4 + 4 * w);
    }
    let (group, at) = (1 + 2 * words as u8, 4 + 8 * words);
    add(FieldKind::Range, 2, group, at);
    add(FieldKind::Range, 2, group, at + 2);
    add(FieldKind::Range, 2, group + 1, at + 4);
    add(FieldKind::Range, 2, group + 1, at + 6);
    f
}

/// The rules of a match for addresses of `WORDS` groups of four bytes: one for each combination.
fn rules<const WORDS: usize>(m: &Match, priority: i32, userdata: NonZeroU32, any: Prefix) -> Vec<Rule> {
    let of_family = |list: &[Prefix]| -> Vec<Prefix> {
        if list.is_empty() {
            return vec![any];
        }
        list.iter().copied().filter(|p| p.addr.is_ipv4() == any.addr.is_ipv4()).collect()
    };
    let ports = |list: &[NumRange], last| -> Vec<NumRange> {
        if list.is_empty() { vec![NumRange { first: 0, last }] } else { list.to_vec() }
    };
    let protos: Vec<Option<u8>> = match m.proto {
        None if !(m.src_port.is_empty() && m.dst_port.is_empty()) => WITH_PORTS.map(Some).to_vec(),
        proto => vec![proto],
    };
    let range = |r: NumRange| FieldValue { value: r.first.into(), mask_range: r.last.into() };
    let mut rules = Vec::new();
    for proto in protos {
        for src in of_family(&m.src) {
            for dst in of_family(&m.dst) {
                for sport in ports(&m.src_port, u16::MAX) {
                    for dport in ports(&m.dst_port, u16::MAX) {
                        for vlan in ports(&m.vlan, u16::MAX) {
                            let proto = match proto {
                                Some(p) => FieldValue { value: p.into(), mask_range: 0xff },
                                None => FieldValue { value: 0, mask_range: 0 },
                            };
                            let mut fields = vec![proto];
                            fields.extend(masks::<WORDS>(src));
                            fields.extend(masks::<WORDS>(dst));
                            fields.extend([range(sport), range(dport), range(vlan)]);
                            fields.push(range(NumRange { first: 0, last: u16::MAX }));
                            rules.push(Rule { priority, userdata, category_mask: 1, fields });
                        }
                    }
                }
            }
        }
    }
    rules
}

/// A prefix as groups of four bytes, each with the bits that count in it.
fn masks<const WORDS: usize>(p: Prefix) -> impl Iterator<Item = FieldValue> {
    let bytes = match p.addr {
        IpAddr::V4(a) => a.to_ipv6_compatible().octets(),
        IpAddr::V6(a) => a.octets(),
    };
    let first = 16 - 4 * WORDS;
    (0..WORDS).map(move |w| {
        let at = first + 4 * w;
        let value = u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let bits = i32::from(p.len) - 32 * w as i32;
        FieldValue { value: value.into(), mask_range: bits.clamp(0, 32) as u64 }
    })
}

#[cfg(test)]
mod tests;
