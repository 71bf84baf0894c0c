//! What is promised of mappings, against maps that remember every flow.

#![allow(clippy::unwrap_used)]

#[path = "../../forward/tests/support/mod.rs"]
mod support;

use chainline_packet::{checksum, parse};
use proptest::prelude::*;
use serde_json::json;
use std::collections::{HashMap, HashSet};
use support::{Host, hostile_frames, ipv4, l4};

const MS: u64 = 1_000_000;
const INSIDE: u32 = 0x0a00_0000;
const POOL: u32 = 0xc000_0200;
const REMOTE: u32 = 0xc633_6400;

type End = (u32, u16);

fn udp(src: End, dst: End) -> Vec<u8> {
    let mut payload = l4(17, src.1, dst.1);
    let sum = checksum::pseudo_ipv4(src.0.to_be_bytes(), dst.0.to_be_bytes(), 17, 20).bytes(&payload).checksum();
    payload[6..8].copy_from_slice(&if sum == 0 { 0xffff } else { sum }.to_be_bytes());
    ipv4(src.0, dst.0, 17, 64, &payload)
}

fn src(frame: &[u8]) -> End {
    let t = parse(frame).tuple;
    (t.src_v4(), t.src_port())
}

fn dst(frame: &[u8]) -> End {
    let t = parse(frame).tuple;
    (t.dst_v4(), t.dst_port())
}

/// Plays frames, and returns each with its verdict.
fn play(host: &mut Host, now_ms: u64, mut frames: Vec<Vec<u8>>) -> Vec<(String, Vec<u8>)> {
    let verdicts: Vec<String> = host.play(now_ms * MS, &mut frames).iter().map(|v| (*v).to_owned()).collect();
    verdicts.into_iter().zip(frames).collect()
}

/// Whether the IP header's and layer 4's checksums are right, computed anew over all bytes.
fn sums(frame: &[u8]) -> Option<(bool, Option<bool>)> {
    let layers = parse(frame);
    if layers.malformed.is_some() || layers.tuple.version() != 4 {
        return None;
    }
    let (l3, l4, end) = (usize::from(layers.l3), usize::from(layers.l4), usize::from(layers.end));
    let ip = checksum::checksum(&frame[l3..l3 + usize::from(frame[l3] & 15) * 4]) == 0;
    if l4 == 0 || layers.fragment != chainline_packet::Fragment::Whole {
        return Some((ip, None));
    }
    let part = |a: usize| frame[l3 + a..l3 + a + 4].try_into().unwrap();
    let (proto, payload) = (layers.tuple.proto(), &frame[l4..end]);
    let pseudo = checksum::pseudo_ipv4(part(12), part(16), proto, payload.len() as u16);
    let l4 = match proto {
        17 if payload[6..8] == [0, 0] => None,
        6 | 17 => Some(pseudo.bytes(payload).fold() == 0xffff),
        1 => Some(checksum::checksum(payload) == 0),
        _ => None,
    };
    Some((ip, l4))
}

#[derive(Clone, Debug)]
enum Step {
    Out(u8, u16, u8),
    /// An answer to the flow of this number.
    Answer(usize),
    /// To a mapping's endpoint, from anybody.
    Stranger(usize, u8),
    Wait(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (0u8..6, 1000u16..1012, 0u8..5).prop_map(|(h, p, r)| Step::Out(h, p, r)),
        4 => any::<usize>().prop_map(Step::Answer),
        2 => (any::<usize>(), 0u8..8).prop_map(|(n, r)| Step::Stranger(n, r)),
        1 => (1u64..200_000).prop_map(Step::Wait),
    ];
    prop::collection::vec(step, 1..250)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    /// Mapping is a function, its inverse works, and no two flows share an endpoint towards the same remote one.
    #[test]
    fn mappings_are_functions_with_an_inverse(
        steps in steps(), reuse in 0usize..3, filter in 0usize..3, blocks: bool, small: bool, full: bool
    ) {
        let reuse = ["never", "exhausted", "always"][reuse];
        let filter = ["endpoint_independent", "address_dependent", "address_and_port_dependent"][filter];
        let mut args = json!({"inside": ["10.0.0.0/24"], "pool": ["192.0.2.0/31"], "flows": if full { 24 } else { 4096 },
            "subscribers": 64, "port_reuse": reuse, "filter": filter, "on_full": "drop_new",
            "ports": {"from": 1000, "to": if small { 1003 } else { 1255 }}});
        if blocks && !small {
            args["blocks"] = json!({"ports": 64, "per_subscriber": 1});
        }
        let mut host = Host::new(&nf_nat::KIND, args);
        let mut now_ms = 0;
        // (inside, remote) → external, of all flows since the last wait.
        let mut flows: HashMap<(End, End), End> = HashMap::new();
        let mut order: Vec<(End, End)> = Vec::new();
        for step in steps {
            match step {
                Step::Wait(ms) => {
                    now_ms += ms;
                    for _ in 0..100 {
                        now_ms += 10;
                        host.tick(now_ms * MS);
                    }
                    // What is left is not known without a model of time; all is over after the longest time-out.
                    now_ms += 400_000;
                    for _ in 0..10 {
                        now_ms += 8000;
                        host.tick(now_ms * MS);
                    }
                    prop_assert_eq!((host.counter("flows"), host.counter("mappings"), host.counter("subscribers")), (0, 0, 0));
                    flows.clear();
                    order.clear();
                }
                Step::Out(h, port, r) => {
                    let (inside, remote) = ((INSIDE + u32::from(h), port), (REMOTE + u32::from(r), 53));
                    let (verdict, frame) = play(&mut host, now_ms, vec![udp(inside, remote)]).remove(0);
                    if verdict != "next" {
                        prop_assert!(["no_port", "table_full"].contains(&verdict.as_str()), "{verdict}");
                        prop_assert!(!flows.contains_key(&(inside, remote)));
                        continue;
                    }
                    let external = src(&frame);
                    prop_assert_eq!(sums(&frame), Some((true, Some(true))));
                    prop_assert!(external.0 & !1 == POOL && (1000..=1255).contains(&external.1));
                    match flows.insert((inside, remote), external) {
                        Some(old) => prop_assert_eq!(old, external),
                        None => order.push((inside, remote)),
                    }
                    for ((i, r), e) in &flows {
                        // One host, one address.
                        prop_assert!(i.0 != inside.0 || e.0 == external.0);
                        if (*i, *r) != (inside, remote) && *e == external {
                            prop_assert!(*i == inside || (reuse != "never" && *r != remote), "{i:?} {inside:?}");
                        }
                        if *i == inside && reuse == "never" {
                            prop_assert_eq!(*e, external);
                        }
                    }
                }
                Step::Answer(n) if !order.is_empty() => {
                    let (inside, remote) = order[n % order.len()];
                    let external = flows[&(inside, remote)];
                    let (verdict, frame) = play(&mut host, now_ms, vec![udp(remote, external)]).remove(0);
                    prop_assert_eq!((verdict.as_str(), src(&frame), dst(&frame)), ("next", remote, inside));
                    prop_assert_eq!(sums(&frame), Some((true, Some(true))));
                }
                Step::Stranger(n, r) if !order.is_empty() => {
                    let external = flows[&order[n % order.len()]];
                    let stranger = (REMOTE + u32::from(r), 99);
                    let (verdict, frame) = play(&mut host, now_ms, vec![udp(stranger, external)]).remove(0);
                    let users: HashSet<End> = flows.iter().filter(|(_, e)| **e == external).map(|(k, _)| k.0).collect();
                    if verdict == "next" {
                        prop_assert!(users.contains(&dst(&frame)));
                        let met = flows.iter().any(|((i, remote), e)| *e == external && *i == dst(&frame) && remote.0 == stranger.0);
                        prop_assert!(filter == "endpoint_independent" || (filter == "address_dependent" && met));
                        prop_assert_ne!(reuse, "always");
                        flows.entry((dst(&frame), stranger)).or_insert(external);
                    } else {
                        prop_assert!(["filtered", "no_mapping", "table_full"].contains(&verdict.as_str()), "{verdict}");
                        if reuse == "never" && verdict != "table_full" {
                            let met = flows.keys().any(|(i, remote)| users.contains(i) && remote.0 == stranger.0 && remote.1 == 53);
                            prop_assert!(filter == "address_and_port_dependent" || (filter == "address_dependent" && !met));
                        }
                    }
                }
                _ => {}
            }
            prop_assert_eq!(host.counter("flows"), flows.len() as u64);
        }
    }

    /// Anything at all: a verdict for each; right checksums stay right and wrong ones wrong; no address from inside goes
    /// out; and nothing remains when time is over.
    #[test]
    fn hostile_frames_are_counted_and_keep_their_sums(mut frames in hostile_frames(), evict: bool) {
        let on_full = if evict { "evict_oldest" } else { "drop_new" };
        let mut host = Host::new(&nf_nat::KIND, json!({"inside": ["10.0.0.0/8"], "pool": ["192.0.2.0/28"], "flows": 64,
            "subscribers": 64, "on_full": on_full, "port_reuse": "exhausted", "filter": "address_dependent"}));
        for (i, frame) in frames.iter_mut().enumerate() {
            if parse(frame).tuple.version() == 4 && frame.len() >= 34 {
                match i % 3 {
                    0 => frame[26] = 10,
                    1 => frame[30..34].copy_from_slice(&(POOL + 3).to_be_bytes()),
                    _ => {}
                }
            }
        }
        let before = frames.clone();
        let verdicts: Vec<String> = host.play(0, &mut frames).iter().map(|v| (*v).to_owned()).collect();
        for ((old, new), verdict) in before.iter().zip(&frames).zip(&verdicts) {
            prop_assert_eq!(old.len(), new.len());
            prop_assert_eq!(old[..old.len().min(12)].to_vec(), new[..new.len().min(12)].to_vec());
            let t = parse(new).tuple;
            if verdict == "next" && t.version() == 4 {
                prop_assert_eq!(sums(old), sums(new));
                prop_assert!(t.src_v4() >> 24 != 10 || t.dst_v4() >> 24 == 10);
            }
        }
        let dropped = verdicts.iter().filter(|v| *v != "next").count() as u64;
        let passed = ["translated_out", "translated_in", "other", "icmp_errors"].map(|c| host.counter(c)).iter().sum::<u64>();
        prop_assert!(passed + dropped >= frames.len() as u64);
        for s in (0..20_000).step_by(8) {
            host.tick(s * 1000 * MS);
        }
        prop_assert_eq!((host.counter("flows"), host.counter("mappings"), host.counter("subscribers")), (0, 0, 0));
    }
}

/// One port each.
#[test]
fn a_million_flows_behind_sixteen_addresses() {
    let args = json!({"inside": ["10.0.0.0/8"], "pool": ["192.0.2.0/28"], "flows": 1_000_000, "subscribers": 1_000_000,
        "on_full": "drop_new"});
    let mut host = Host::new(&nf_nat::KIND, args);
    let mut seen = vec![0u64; 16 << 16 >> 6];
    let remote = (REMOTE, 53);
    for from in (0..1_000_000u32).step_by(256) {
        let frames: Vec<_> = (from..(from + 256).min(1_000_000)).map(|i| udp((INSIDE + i, 5000), remote)).collect();
        for (n, (verdict, frame)) in play(&mut host, 0, frames).into_iter().enumerate() {
            assert_eq!(verdict, "next", "flow {}", from as usize + n);
            let (address, port) = src(&frame);
            let bit = ((address - POOL) << 16 | u32::from(port)) as usize;
            assert!(seen[bit / 64] >> (bit % 64) & 1 == 0, "{address:x}:{port} twice");
            seen[bit / 64] |= 1 << (bit % 64);
            // Each answer finds its way, asked now and then.
            if n == 0 {
                let (verdict, answer) = play(&mut host, 0, vec![udp(remote, (address, port))]).remove(0);
                assert_eq!((verdict.as_str(), dst(&answer)), ("next", (INSIDE + from, 5000)));
            }
        }
    }
    assert_eq!((host.counter("flows"), host.counter("mappings")), (1_000_000, 1_000_000));
    // The next one is dropped by policy, and nothing else changes.
    let (verdict, _) = play(&mut host, 0, vec![udp((INSIDE + 2_000_000, 5000), remote)]).remove(0);
    assert_eq!(verdict, "table_full");
    assert_eq!((host.counter("flows"), host.counter("mappings")), (1_000_000, 1_000_000));
}

/// A flood displaces itself: connections with answers have a long time-out, and stay.
#[test]
fn a_flood_moves_no_established_flow() {
    for on_full in ["evict_oldest", "drop_new"] {
        let args = json!({"inside": ["10.0.0.0/8"], "pool": ["192.0.2.0/30"], "flows": 8192, "subscribers": 16_384,
            "on_full": on_full});
        let mut host = Host::new(&nf_nat::KIND, args);
        let tcp = |src: End, dst: End, flags: u8| {
            let mut header = l4(6, src.1, dst.1);
            header[13] = flags;
            ipv4(src.0, dst.0, 6, 64, &header)
        };
        let web = (REMOTE, 80);
        let ends: Vec<End> = (0..1000).map(|i| (INSIDE + i, 5000)).collect();
        let first = play(&mut host, 0, ends.iter().map(|e| tcp(*e, web, 2)).collect());
        let answers: Vec<_> = first.iter().map(|(_, f)| tcp(web, src(f), 0x12)).collect();
        assert!(play(&mut host, 1, answers.clone()).iter().all(|(v, _)| v == "next"));
        let mut dropped = 0;
        for round in 0..10u32 {
            let flood = (0..10_000).map(|i| tcp((INSIDE + 0x10_0000 + round * 10_000 + i, 6000), web, 2)).collect();
            dropped += play(&mut host, 10, flood).iter().filter(|(v, _)| v == "table_full").count();
        }
        for ((verdict, frame), end) in play(&mut host, 20, answers).iter().zip(&ends) {
            assert_eq!((verdict.as_str(), dst(frame)), ("next", *end), "{on_full}");
        }
        assert_eq!(host.counter("flows"), 8192);
        let refused = if on_full == "drop_new" { 101_000 - 8192 } else { 0 };
        assert_eq!((dropped, host.counter("flows_evicted")), (refused, 101_000 - 8192 - refused as u64), "{on_full}");
    }
}
