//! Exact match against a slow oracle: flows one after the other, then the longest of all prefixes.

#![allow(clippy::unwrap_used)]

#[path = "../../forward/tests/support/mod.rs"]
mod support;

use proptest::prelude::*;
use serde_json::json;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};
use support::{Folder, Host, ipv4, ipv6, l4};

/// Few addresses and ports, so that flows and packets meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Flow {
    v6: bool,
    proto: u8,
    src: (u8, u16),
    dst: (u8, u16),
}

const PROTOS: [u8; 5] = [6, 17, 132, 136, 89];

fn flow() -> impl Strategy<Value = Flow> {
    let end = || (0u8..3, 1u16..4);
    (any::<bool>(), prop::sample::select(&PROTOS[..]), end(), end()).prop_map(|(v6, proto, src, dst)| {
        let port = |p: u16| if proto == 89 { 0 } else { p };
        Flow { v6, proto, src: (src.0, port(src.1)), dst: (dst.0, port(dst.1)) }
    })
}

fn address(v6: bool, host: u8) -> u128 {
    if v6 { 0x2001_0db8 << 96 | u128::from(host) } else { 0x0a00_0000 | u128::from(host) }
}

fn text(v6: bool, host: u8) -> String {
    let bits = address(v6, host);
    if v6 { Ipv6Addr::from(bits).to_string() } else { Ipv4Addr::from(bits as u32).to_string() }
}

fn line((flow, hop): (&Flow, &u8)) -> String {
    let end = |(host, port): (u8, u16)| match (flow.proto, flow.v6) {
        (89, _) => text(flow.v6, host),
        (_, true) => format!("[{}]:{port}", text(true, host)),
        (_, false) => format!("{}:{port}", text(false, host)),
    };
    let proto = [(6, "tcp"), (17, "udp"), (132, "sctp")].iter().find(|(n, _)| *n == flow.proto);
    let proto = proto.map_or_else(|| flow.proto.to_string(), |(_, name)| (*name).to_owned());
    format!("{proto} {} {} via 02:00:00:00:01:{hop:02x}", end(flow.src), end(flow.dst))
}

/// A packet of a flow, whole, or a fragment of an IPv4 datagram.
fn frame(flow: &Flow, ttl: u8, fragment: Option<u8>) -> Vec<u8> {
    let payload = l4(flow.proto, flow.src.1, flow.dst.1);
    let (src, dst) = (address(flow.v6, flow.src.0), address(flow.v6, flow.dst.0));
    if flow.v6 {
        return ipv6(src, dst, flow.proto, ttl, &payload);
    }
    let mut frame = ipv4(src as u32, dst as u32, flow.proto, ttl, &payload);
    if let Some(offset) = fragment {
        // More fragments, at this offset.
        frame[20..22].copy_from_slice(&[0x20, offset]);
        frame[24..26].fill(0);
        let sum = chainline_packet::checksum::checksum(&frame[14..34]);
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
    }
    frame
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn a_flow_wins_over_all_prefixes(
        flows in proptest::collection::btree_map(flow(), 0u8..100, 1..60),
        prefixes in proptest::collection::btree_map((any::<bool>(), 0u8..3), 100u8..200, 0..5),
        default: bool,
        packets in proptest::collection::vec((flow(), 0u8..4, prop::option::weighted(0.1, 0u8..3)), 1..300),
    ) {
        let flows: BTreeMap<Flow, u8> = flows;
        let mut routes: Vec<String> = prefixes.iter().map(|((v6, host), hop)| {
            format!("{}/{} via 02:00:00:00:01:{hop:02x}", text(*v6, *host), if *v6 { 128 } else { 32 })
        }).collect();
        if default {
            routes.push("0.0.0.0/0 via 02:00:00:00:01:fe".into());
        }
        let lines: Vec<String> = flows.iter().map(line).collect();
        let mut host = Host::new(&nf_l3fwd::KIND, json!({"flows_inline": lines, "routes_inline": routes}));
        let mut frames: Vec<_> = packets.iter().map(|(flow, ttl, fragment)| frame(flow, *ttl, *fragment)).collect();
        let before = frames.clone();
        let verdicts: Vec<String> = host.play(0, &mut frames).into_iter().map(str::to_owned).collect();
        let mut exact = 0;
        for (((flow, ttl, fragment), verdict), (old, new)) in packets.iter().zip(&verdicts).zip(before.iter().zip(&frames)) {
            let own = flows.get(flow).filter(|_| fragment.is_none() || flow.v6);
            let route = prefixes.get(&(flow.v6, flow.dst.0)).copied().or((default && !flow.v6).then_some(0xfe));
            let mut expected = old.clone();
            let outcome = match own.copied().or(route) {
                _ if *ttl <= 1 => "ttl_expired",
                None => "no_route",
                Some(hop) => {
                    exact += u64::from(own.is_some());
                    expected[..12].copy_from_slice(&[2, 0, 0, 0, 1, hop, 2, 0, 0, 0, 0, 2]);
                    expected[if flow.v6 { 21 } else { 22 }] -= 1;
                    if !flow.v6 {
                        expected[24..26].fill(0);
                        let sum = chainline_packet::checksum::checksum(&expected[14..34]);
                        expected[24..26].copy_from_slice(&sum.to_be_bytes());
                    }
                    "next"
                }
            };
            prop_assert_eq!(verdict, outcome);
            prop_assert_eq!(new, &expected);
        }
        prop_assert_eq!(host.counter("exact"), exact);
    }
}

#[test]
fn changed_flows_take_the_place_of_old_ones() {
    let folder = Folder::new();
    let flow = Flow { v6: false, proto: 17, src: (1, 1), dst: (2, 2) };
    folder.write("flows", &line((&flow, &7)));
    folder.write("routes", "0.0.0.0/0 via 02:00:00:00:01:01\n");
    let mut host = folder.host(&nf_l3fwd::KIND, json!({"flows": "flows", "routes": "routes"}));
    let hop = |host: &mut Host| {
        let mut frames = [frame(&flow, 9, None)];
        assert_eq!(host.play(0, &mut frames), ["next"]);
        frames[0][5]
    };
    assert_eq!(hop(&mut host), 7);
    folder.write("flows", "# none has one of its own\n");
    let now_ms = host.until_reloaded(0);
    assert_eq!((hop(&mut host), host.counter("reloads")), (1, 1));
    // One wrong file of two leaves both as they were.
    folder.write("routes", "0.0.0.0/0 via 02:00:00:00:01:02\n");
    folder.write("flows", "udp 10.0.0.1:1 10.0.0.2 via 02:00:00:00:01:07\n");
    let now_ms = host.until_reloaded(now_ms);
    assert!(host.report().unwrap().contains("flows:1:16: found '10.0.0.2', expected an address with a port"));
    assert_eq!((hop(&mut host), host.counter("reloads_failed")), (1, 1));
    folder.write("flows", &line((&flow, &8)));
    host.until_reloaded(now_ms);
    assert_eq!((hop(&mut host), host.report().unwrap().lines().count()), (8, 1));
}

#[test]
fn a_million_flows_have_a_hop_each() {
    let mut text = String::new();
    for i in 0..1_000_000u32 {
        text += &format!("udp {}:1 192.0.2.1:2 {}\n", Ipv4Addr::from(0x0a00_0000 + i), i % 3);
    }
    let folder = Folder::new();
    folder.write("flows", &text);
    let next_hops: Vec<_> = (0..3).map(|i| json!({"mac": format!("02:00:00:00:00:1{i}")})).collect();
    let mut host = folder.host(&nf_l3fwd::KIND, json!({"flows": "flows", "next_hops": next_hops, "reload_s": 0}));
    assert_eq!(host.report().unwrap(), "0 IPv4 and 0 IPv6 routes, 1000000 IPv4 and 0 IPv6 flows, 3 next hops");
    let sources: Vec<u32> = (0..1_000_000).step_by(997).collect();
    let mut frames: Vec<_> = sources.iter().map(|i| ipv4(0x0a00_0000 + i, 0xc000_0201, 17, 9, &l4(17, 1, 2))).collect();
    assert!(host.play(0, &mut frames).iter().all(|v| *v == "next"));
    assert!(sources.iter().zip(&frames).all(|(i, f)| u32::from(f[5]) == 0x10 + i % 3));
}
