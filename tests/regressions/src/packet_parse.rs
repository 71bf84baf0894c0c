//! Frames from anybody: parsed, hashed, and handed to every NF.
//!
//! Input: frames one after the other, each behind its length in 16 bits, little-endian; the last may be cut.

use crate::rig::{Outcome, Rig};
use chainline_nf::Decoded;
use chainline_packet::{Layers, MAX_TAGS, Malformed, ether, flow_hash, ipv4, ipv6, l4, parse};
use serde_json::json;
use std::cell::RefCell;

/// The longest frame in bytes without FCS that the system carries, and the most frames of one input.
const MAX_FRAME: usize = 9018;
const MAX_FRAMES: usize = 64;

thread_local! {
    // Built once: tables take longer than a thousand packets.
    static RIGS: RefCell<(u64, Vec<Rig>)> = RefCell::new((0, rigs()));
}

fn rigs() -> Vec<Rig> {
    let rules = [
        "deny tcp from any to any port 23 flags S/SA",
        "allow udp from 10.0.0.0/8 to any port 53,1000-2000",
        "allow icmp type 8",
        "allow tcp from 2001:db8::/32 to any",
        "deny proto 50",
    ];
    let args = [
        (&nf_forward::KIND, json!({})),
        (&nf_firewall::KIND, json!({"rules_inline": rules, "default": "allow"})),
        (&nf_firewall::KIND, json!({"default": "deny", "fragments": "deny", "non_ip": "deny"})),
        // So few that the table is often full.
        (&nf_monitor::KIND, json!({"hosts": 16, "idle_timeout_s": 1})),
        (
            &nf_l3fwd::KIND,
            json!({"routes_inline": ["0.0.0.0/1 via 02:00:00:00:00:07", "10.0.0.0/8 via 02:00:00:00:00:08 src 02:00:00:00:00:09",
                "::/0 via 02:00:00:00:00:07", "2001:db8::/32 via 02:00:00:00:00:08"]}),
        ),
        (
            &nf_synthetic::KIND,
            json!({"cost_cycles": {"per_flow": [0, 10]}, "iteration_cycles": 4.0, "state_bytes": 256, "touches": 2}),
        ),
    ];
    args.into_iter().map(|(kind, args)| Rig::new(kind, args).unwrap_or_else(|e| panic!("{}: {e}", kind.name))).collect()
}

/// The target.
pub fn run(data: &[u8]) {
    let frames = frames(data);
    for frame in &frames {
        check_layers(frame);
    }
    RIGS.with_borrow_mut(|(now_ns, rigs)| {
        *now_ns += 2_000_000_000;
        for rig in rigs {
            rig.tick(*now_ns);
            let together = rig.play(*now_ns, &frames, frames.len().max(1));
            let alone = rig.play(*now_ns, &frames, 1);
            assert_eq!(together, alone, "{}: a burst and its packets one by one", rig.kind);
            for (before, after) in frames.iter().zip(&together) {
                check_outcome(rig.kind, before, after);
            }
            assert!(rig.report().is_none_or(|r| r.len() < 1 << 16));
        }
    });
}

/// Takes an input apart.
pub(crate) fn frames(mut data: &[u8]) -> Vec<&[u8]> {
    let mut frames = Vec::new();
    while let Some((len, rest)) = data.split_first_chunk()
        && frames.len() < MAX_FRAMES
    {
        let len = usize::from(u16::from_le_bytes(*len)).min(MAX_FRAME).min(rest.len());
        let (frame, rest) = rest.split_at(len);
        frames.push(frame);
        data = rest;
    }
    frames
}

fn check_layers(frame: &[u8]) {
    let layers = parse(frame);
    let (l3, l4_at, end) = (usize::from(layers.l3), usize::from(layers.l4), usize::from(layers.end));
    assert!(end <= frame.len() && l3 <= frame.len(), "{layers:?}");
    assert!(l4_at == 0 || l3 < l4_at && l4_at <= end, "{layers:?}");
    assert!(usize::from(layers.tags) <= MAX_TAGS, "{layers:?}");
    if !layers.tuple.is_ip() {
        assert_eq!(flow_hash(&layers.tuple), 0);
    }
    // A tag in front changes offsets only. What has none took the fast path before and cannot take it now. Where the tag
    // makes one too many, nobody sees any longer that the last one is cut.
    let room = MAX_TAGS - usize::from(layers.tags);
    if frame.len() >= 14 && (room > 1 || room == 1 && layers.malformed != Some(Malformed::Vlan)) {
        let tagged = [&frame[..12], &[0x81, 0x00, 0x20, 0x07], &frame[12..]].concat();
        let [a, _] = layers.tci;
        let moved = |at: u16| if at == 0 { 0 } else { at + 4 };
        let expected = Layers {
            l3: moved(layers.l3),
            l4: moved(layers.l4),
            end: moved(layers.end),
            tags: layers.tags + 1,
            tci: [0x2007, a],
            ..layers
        };
        assert_eq!(parse(&tagged), expected);
    }
    check_views(frame, l3, l4_at);
}

/// The views take any bytes, wherever they begin.
fn check_views(frame: &[u8], l3: usize, l4_at: usize) {
    let inner = frame.get(l3..).unwrap_or_default();
    for data in [frame, inner] {
        if let Some(ip) = ipv4::Ipv4::new(data) {
            assert!(ip.options().len() <= 40 && ip.fragment_offset() < 1 << 16);
            let _ = ip.checksum_ok();
        }
        let _ = ether::Arp::new(data).map(|arp| (arp.operation(), arp.target_ip()));
        for next in [0, 6, 43, 44, 51, 59, 60] {
            if let Ok(upper) = ipv6::upper_layer(data, l3.min(data.len()), next) {
                assert!(upper.offset <= data.len());
            }
        }
    }
    let upper = frame.get(l4_at..).unwrap_or_default();
    assert!(l4::Tcp::new(upper).is_none_or(|tcp| tcp.options().len() <= 40));
}

fn check_outcome(kind: &str, before: &[u8], after: &Outcome) {
    let next = after.verdict == Decoded::Next;
    let frame = &after.frame;
    match kind {
        "forward" if next => {
            assert_eq!((&frame[..6], &frame[6..12], &frame[12..]), (&before[6..12], &before[..6], &before[12..]));
        }
        "l3fwd" if next && parse(before).tuple.is_ip() => {
            let layers = parse(before);
            let l3 = usize::from(layers.l3);
            // Addresses in front; time to live and, in IPv4, the checksum.
            let (ttl, may_change) = if layers.tuple.version() == 4 { (8, 8..12) } else { (7, 7..8) };
            assert_eq!(frame[l3 + ttl], before[l3 + ttl] - 1);
            for (i, (a, b)) in before.iter().zip(frame).enumerate().skip(12) {
                assert!(a == b || (i >= l3 && may_change.contains(&(i - l3)) && i - l3 != 9), "byte {i}");
            }
            if layers.tuple.version() == 4 {
                assert!(ipv4::Ipv4::new(&frame[l3..]).is_some_and(|ip| ip.checksum_ok()));
            }
        }
        "monitor" | "synthetic" => assert!(next && frame == before, "{kind}"),
        _ => assert_eq!(frame, before, "{kind} changed a packet"),
    }
}
