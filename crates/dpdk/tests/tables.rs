//! The tables against slow oracles.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use chainline_dpdk::tables::{Acl, AclError, Fib4, Fib6, FibError, FieldDef, FieldKind, FieldValue, Hash, NONE, Rule};
use proptest::prelude::*;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::num::NonZeroU32;

const fn field(kind: FieldKind, size: u8, field_index: u8, input_index: u8, offset: u32) -> FieldDef {
    FieldDef { kind, size, field_index, input_index, offset }
}

/// Protocol, addresses, ports: the layout of DPDK's own examples, in a key of 16 bytes.
const TUPLE: [FieldDef; 5] = [
    field(FieldKind::Bitmask, 1, 0, 0, 0),
    field(FieldKind::Mask, 4, 1, 1, 4),
    field(FieldKind::Mask, 4, 2, 2, 8),
    field(FieldKind::Range, 2, 3, 3, 12),
    field(FieldKind::Range, 2, 4, 3, 14),
];

fn key(proto: u8, src: u32, dst: u32, sport: u16, dport: u16) -> [u8; 16] {
    let mut key = [0; 16];
    key[0] = proto;
    key[4..8].copy_from_slice(&src.to_be_bytes());
    key[8..12].copy_from_slice(&dst.to_be_bytes());
    key[12..14].copy_from_slice(&sport.to_be_bytes());
    key[14..16].copy_from_slice(&dport.to_be_bytes());
    key
}

fn matches(rule: &Rule, key: &[u8; 16]) -> bool {
    TUPLE.iter().zip(&rule.fields).all(|(def, want)| {
        let bytes = &key[def.offset as usize..][..usize::from(def.size)];
        let found = bytes.iter().fold(0u64, |v, b| v << 8 | u64::from(*b));
        match def.kind {
            FieldKind::Bitmask => found & want.mask_range == want.value & want.mask_range,
            FieldKind::Mask => {
                let shift = u64::from(def.size) * 8 - want.mask_range;
                found >> shift == want.value >> shift
            }
            FieldKind::Range => (want.value..=want.mask_range).contains(&found),
        }
    })
}

prop_compose! {
    // Few distinct bits, so that rules overlap and keys hit.
    fn rule()(proto in 0u64..4, proto_mask in prop_oneof![Just(0u64), Just(0xff), Just(1)],
              src in 0u64..8, src_len in 0u64..=32, dst in 0u64..8, dst_len in 29u64..=32,
              sport in 0u64..6, sports in 0u64..4, dport in 0u64..6, dports in 0u64..65530) -> Vec<FieldValue> {
        [(proto, proto_mask), (src, src_len), (dst, dst_len), (sport, sport + sports), (dport, dport + dports)]
            .map(|(value, mask_range)| FieldValue { value, mask_range }).to_vec()
    }
}

fn numbered(fields: Vec<Vec<FieldValue>>) -> Vec<Rule> {
    let count = fields.len();
    let number = |(i, fields)| Rule {
        priority: (count - i) as i32,
        userdata: NonZeroU32::MIN.saturating_add(i as u32),
        category_mask: 1,
        fields,
    };
    fields.into_iter().enumerate().map(number).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn acl_finds_the_first_match(
        fields in prop::collection::vec(rule(), 0..40),
        keys in prop::collection::vec((0u8..4, 0u32..8, 0u32..8, 0u16..10, any::<u16>()), 1..150),
    ) {
        let rules = numbered(fields);
        let acl = Acl::build(&TUPLE, &rules).unwrap();
        let keys: Vec<_> = keys.into_iter().map(|(p, s, d, sp, dp)| key(p, s, d, sp, dp)).collect();
        let mut found = vec![u32::MAX; keys.len()];
        acl.classify(&keys, &mut found);
        for (key, found) in keys.iter().zip(found) {
            let expected = rules.iter().find(|r| matches(r, key)).map_or(0, |r| r.userdata.get());
            prop_assert_eq!(found, expected, "key {:?}", key);
        }
    }

    #[test]
    fn fib4_is_longest_prefix_match(
        changes in prop::collection::vec((any::<bool>(), 0u32..1 << 12, 0u8..=32, 0u32..1000), 0..60),
        ips in prop::collection::vec(0u32..1 << 12, 1..150), at_the_end in any::<bool>(), small in any::<bool>(),
    ) {
        let mut fib = Fib4::for_next_hops(1000, 256, if small { 999 } else { NONE - 1 }).unwrap();
        let base = if at_the_end { 0xffff_f000u32 } else { 0x0a00_0000 };
        let mut oracle: BTreeMap<(u8, u32), u32> = BTreeMap::new();
        let cut = |ip: u32, depth: u8| if depth == 0 { 0 } else { ip >> (32 - depth) << (32 - depth) };
        for (add, bits, depth, hop) in changes {
            // The low bits select within a /24, the next ones a /24.
            let prefix = base | bits;
            if add {
                fib.add(prefix, depth, hop).unwrap();
                oracle.insert((depth, cut(prefix, depth)), hop);
            } else {
                prop_assert_eq!(fib.delete(prefix, depth).unwrap(), oracle.remove(&(depth, cut(prefix, depth))).is_some());
            }
        }
        let ips: Vec<u32> = ips.into_iter().map(|bits| base | bits).collect();
        let mut found = vec![0; ips.len()];
        fib.lookup_bulk(&ips, &mut found);
        for (ip, found) in ips.iter().zip(found) {
            let expected = (0..=32).rev().find_map(|d| oracle.get(&(d, cut(*ip, d)))).copied().unwrap_or(NONE);
            prop_assert_eq!(found, expected, "address {:#x}", ip);
        }
    }

    #[test]
    fn fib6_is_longest_prefix_match(
        changes in prop::collection::vec((any::<bool>(), any::<[u8; 3]>(), 0u8..=128, 0u32..1000), 0..40),
        ips in prop::collection::vec(any::<[u8; 3]>(), 1..100), at_the_end in any::<bool>(), small in any::<bool>(),
    ) {
        let mut fib = Fib6::for_next_hops(1000, 8192, if small { 999 } else { NONE - 1 }).unwrap();
        let mut oracle: BTreeMap<(u8, u128), u32> = BTreeMap::new();
        let cut = |ip: u128, depth: u8| if depth == 0 { 0 } else { ip >> (128 - depth) << (128 - depth) };
        // Three nibbles that vary, far apart, on a common base.
        let fixed = !(3u128 << 80 | 3 << 40 | 3);
        let base = if at_the_end { fixed } else { 0x2001_0db8 << 96 };
        let address = |[a, b, c]: [u8; 3]| {
            base | u128::from(a & 3) << 80 | u128::from(b & 3) << 40 | u128::from(c & 3)
        };
        for (add, bits, depth, hop) in changes {
            let prefix = address(bits);
            if add {
                fib.add(prefix.to_be_bytes(), depth, hop).unwrap();
                oracle.insert((depth, cut(prefix, depth)), hop);
            } else {
                let was = oracle.remove(&(depth, cut(prefix, depth))).is_some();
                prop_assert_eq!(fib.delete(prefix.to_be_bytes(), depth).unwrap(), was);
            }
        }
        let ips: Vec<u128> = ips.into_iter().map(address).collect();
        let keys: Vec<[u8; 16]> = ips.iter().map(|ip| ip.to_be_bytes()).collect();
        let mut found = vec![0; ips.len()];
        fib.lookup_bulk(&keys, &mut found);
        for (ip, found) in ips.iter().zip(found) {
            let expected = (0..=128).rev().find_map(|d| oracle.get(&(d, cut(*ip, d)))).copied().unwrap_or(NONE);
            prop_assert_eq!(found, expected, "address {:#x}", ip);
        }
    }

    #[test]
    fn hash_is_a_map(ops in prop::collection::vec((any::<bool>(), 0u8..60), 1..300)) {
        let mut hash = Hash::<13>::new(256).unwrap();
        let mut oracle: HashMap<[u8; 13], u32> = HashMap::new();
        for (add, k) in ops {
            let key = [k; 13];
            if add {
                let at = hash.add(&key).unwrap();
                prop_assert!((at as usize) < hash.positions());
                prop_assert!(oracle.iter().all(|(k, p)| (*p == at) == (*k == key)), "position {} is taken", at);
                oracle.insert(key, at);
            } else {
                prop_assert_eq!(hash.del(&key), oracle.remove(&key));
            }
        }
        let keys: Vec<[u8; 13]> = (0..150).map(|k| [k; 13]).collect();
        let mut found = vec![0; keys.len()];
        hash.lookup_bulk(&keys, &mut found);
        for (key, found) in keys.iter().zip(found) {
            prop_assert_eq!(u32::try_from(found).ok(), oracle.get(key).copied());
            prop_assert_eq!(hash.lookup(key), oracle.get(key).copied());
        }
        for position in 0..hash.positions() as u32 + 2 {
            let known = oracle.iter().find(|(_, at)| **at == position).map(|(key, _)| *key);
            prop_assert_eq!(hash.key_at(position), known);
        }
        prop_assert_eq!(hash.len(), oracle.len());
        prop_assert_eq!(hash.iter().map(|(p, k)| (k, p)).collect::<HashMap<_, _>>(), oracle);
    }
}

/// Numbers without pattern, the same in each run.
struct Scatter(u64);

impl Scatter {
    fn next(&mut self) -> u64 {
        // SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }
}

#[test]
fn fib4_takes_a_full_table() {
    const ROUTES: u32 = 500_000;
    let mut fib = Fib4::new(ROUTES, 32_768).unwrap();
    let mut scatter = Scatter(4);
    let mut oracle = HashMap::new();
    while oracle.len() < ROUTES as usize {
        let bits = scatter.next();
        // As in the Internet's table, most prefixes are /24 and few are longer.
        let depth = match bits >> 32 & 0x3f {
            0 => 25 + (bits >> 40 & 7) as u8,
            1..=24 => 12 + (bits >> 40 & 7) as u8,
            _ => 20 + (bits >> 40 & 3) as u8 + (bits >> 42 & 1) as u8,
        };
        let prefix = (bits as u32) >> (32 - depth) << (32 - depth);
        let hop = oracle.len() as u32;
        if let Entry::Vacant(new) = oracle.entry((prefix, depth)) {
            new.insert(hop);
            fib.add(prefix, depth, hop).unwrap();
        }
    }
    let ips: Vec<u32> = (0..100_000).map(|_| scatter.next() as u32).collect();
    let mut found = vec![0; ips.len()];
    fib.lookup_bulk(&ips, &mut found);
    let mut hits = 0;
    for (ip, found) in ips.iter().zip(found) {
        let expected = (12..=32).rev().find_map(|d| oracle.get(&(ip >> (32 - d) << (32 - d), d))).copied();
        assert_eq!(found, expected.unwrap_or(NONE), "{ip:#x}");
        hits += u32::from(expected.is_some());
    }
    assert!(hits > 10_000, "only {hits} look-ups hit a route");
}

#[test]
fn fib6_takes_many_routes() {
    const ROUTES: u32 = 25_000;
    let mut fib = Fib6::new(ROUTES, 80_000).unwrap();
    let mut scatter = Scatter(6);
    let mut prefixes = Vec::new();
    for hop in 0..ROUTES {
        let prefix = (0x2 << 124 | u128::from(scatter.next() & 0x0fff_ffff_ffff) << 80) >> 80 << 80;
        fib.add(prefix.to_be_bytes(), 48, hop).unwrap();
        prefixes.push(prefix);
    }
    let latest: HashMap<u128, u32> = prefixes.iter().zip(0..).map(|(p, hop)| (*p, hop)).collect();
    let ips: Vec<[u8; 16]> = prefixes.iter().map(|p| (p | 0x1234).to_be_bytes()).collect();
    let mut found = vec![0; ips.len()];
    fib.lookup_bulk(&ips, &mut found);
    for (prefix, found) in prefixes.iter().zip(found) {
        assert_eq!(found, latest[prefix]);
    }
}

/// Martians, then a default route: what made the library fill its whole table with the default.
#[test]
fn a_default_route_after_the_end_of_the_address_space() {
    let mut fib = Fib4::new(10, 1).unwrap();
    for (prefix, depth, hop) in [(0x0a00_0000, 8, 1), (0xe000_0000, 4, 2), (0xf000_0000, 4, 3), (0, 0, 4)] {
        fib.add(prefix, depth, hop).unwrap();
    }
    let mut hops = [0; 5];
    fib.lookup_bulk(&[0x0a00_0001, 0xe000_0001, 0xffff_ffff, 0, 0x0b00_0000], &mut hops);
    assert_eq!(hops, [1, 2, 3, 4, 4]);
    assert!(fib.delete(0, 0).unwrap());
    fib.lookup_bulk(&[0x0a00_0001, 0xe000_0001, 0xffff_ffff, 0, 0x0b00_0000], &mut hops);
    assert_eq!(hops, [1, 2, 3, NONE, NONE]);
}

/// Prefixes that come and go, with and without the next hop of the one around them.
#[test]
fn churn_does_not_wear_the_tables_out() {
    let (mut fib4, mut fib6) = (Fib4::new(100, 64).unwrap(), Fib6::new(100, 64).unwrap());
    let v6 = |low: u128| (0x2001_0db8 << 96 | low).to_be_bytes();
    fib4.add(0x0a00_0000, 8, 1).unwrap();
    fib6.add(v6(0), 32, 1).unwrap();
    for (i, prefix) in [(0, 0), (1, 1), (2, 24), (3, 32)] {
        fib4.add(0xffff_ff00, prefix, i).unwrap();
    }
    for i in 0..200 {
        let hop = 1 + i % 3;
        fib4.add(0x0a00_0080, 25, hop).unwrap();
        fib4.add(0x0a00_0081, 32, hop).unwrap();
        assert!(fib4.delete(0x0a00_0080, 25).unwrap() && fib4.delete(0x0a00_0081, 32).unwrap());
        fib6.add(v6(0), 48, hop).unwrap();
        fib6.add(v6(1), 128, hop).unwrap();
        assert!(fib6.delete(v6(0), 48).unwrap() && fib6.delete(v6(1), 128).unwrap());
    }
    for i in 0..60 {
        fib4.add(0x0a01_0000 | i << 8, 32, 7).unwrap();
    }
    for i in 0..4 {
        fib6.add(v6(i << 64), 128, 7).unwrap();
    }
    let mut hops = [0; 6];
    fib4.lookup_bulk(&[0x0a00_0081, 0x0a01_0000, 0x0a01_3b00, 0x0a01_3b01, 0xffff_ff01, 0xffff_ff00], &mut hops);
    assert_eq!(hops, [1, 7, 7, 1, 2, 3]);
    fib6.lookup_bulk(&[v6(1), v6(0), v6(3 << 64), v6(4 << 64), [0; 16], [255; 16]], &mut hops);
    assert_eq!(hops, [1, 7, 7, 1, NONE, NONE]);
}

#[test]
fn a_full_table_says_so() {
    let mut fib = Fib4::new(100_000, 1).unwrap();
    let full = (0..1000u32).map(|i| fib.add(i << 8, 32, 1)).find_map(Result::err);
    assert!(matches!(full, Some(FibError::Full { .. })), "{full:?}");

    let mut hash = Hash::<8>::new(8).unwrap();
    let fit = (0..100u64).filter(|k| hash.add(&k.to_ne_bytes()).is_some()).count();
    assert!((8..100).contains(&fit), "{fit} keys");
}

#[test]
fn memory_is_used_again() {
    // Far more than the host has, if dropped tables kept theirs.
    for _ in 0..200 {
        let mut fib = Fib4::new(1000, 64).unwrap();
        fib.add(0x0a00_0000, 8, 7).unwrap();
        let mut hop = [0];
        fib.lookup_bulk(&[0x0a01_0203], &mut hop);
        assert_eq!(hop, [7]);
    }
}

#[test]
fn wrong_arguments_are_refused() {
    assert!(matches!(Fib4::new(0, 1), Err(FibError::Size(0))));
    assert!(matches!(Fib4::new(10, 1).unwrap().add(0, 33, 1), Err(FibError::Depth { depth: 33, most: 32 })));
    assert!(matches!(Fib4::new(10, 1).unwrap().add(0, 3, NONE), Err(FibError::NextHop { found: NONE, .. })));
    assert!(Hash::<300>::new(100).is_err());

    let bad_layout = [field(FieldKind::Mask, 4, 0, 0, 0)];
    assert!(matches!(Acl::build(&bad_layout, &[]), Err(AclError::Field { index: 0, .. })));
    let any = FieldValue { value: 0, mask_range: 0 };
    let mut rules = numbered(vec![vec![any; 5]]);
    rules[0].fields[1].mask_range = 33;
    assert!(matches!(Acl::build(&TUPLE, &rules), Err(AclError::Rule { index: 0, .. })));
    rules[0].fields[1].mask_range = 32;
    rules[0].fields[4] = FieldValue { value: 2, mask_range: 1 };
    assert!(matches!(Acl::build(&TUPLE, &rules), Err(AclError::Rule { index: 0, .. })));
}

#[test]
fn many_rules_build() {
    let any = FieldValue { value: 0, mask_range: 0 };
    let ports = FieldValue { value: 0, mask_range: 65535 };
    let host = |i: u64| vec![any, FieldValue { value: 0x0a00_0000 + i * 3, mask_range: 32 }, any, ports, ports];
    let rules = numbered((0..20_000).map(host).collect());
    let acl = Acl::build(&TUPLE, &rules).unwrap();
    let keys: Vec<_> = (0..60_000).map(|i| key(6, 0x0a00_0000 + i, i, 1, 2)).collect();
    let mut found = vec![0; keys.len()];
    acl.classify(&keys, &mut found);
    for (i, found) in (0..60_000).zip(found) {
        assert_eq!(found, if i % 3 == 0 { i / 3 + 1 } else { 0 });
    }
}

/// CRC-32C of bytes, as `rte_hash_crc` reckons it: reflected, neither start nor end inverted.
fn crc32c(seed: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(seed, |crc, b| {
        (0..8).fold(crc ^ u32::from(*b), |c, _| if c & 1 != 0 { c >> 1 ^ 0x82f6_3b78 } else { c >> 1 })
    })
}

/// A CRC is linear: the difference that four bytes make is the same for every seed, and the next four can undo it. With
/// the library's default hash, a table takes sixteen or so of these keys, whatever its seed is.
#[test]
fn keys_that_collide_in_a_crc_do_not_collide_here() {
    let key = |i: u64| {
        let mut key = [0; 16];
        key[..8].copy_from_slice(&i.to_le_bytes());
        key[8..12].copy_from_slice(&crc32c(0, &i.to_le_bytes()).to_le_bytes());
        key
    };
    let keys: Vec<[u8; 16]> = (1..=2000).map(key).collect();
    for seed in [0, 0xdead_beef] {
        assert!(keys.iter().all(|k| crc32c(seed, k) == crc32c(seed, &keys[0])));
    }
    let mut hash = Hash::<16>::new(4096).unwrap();
    assert!(keys.iter().all(|k| hash.add(k).is_some()));
    assert_eq!(hash.len(), 2000);
}
