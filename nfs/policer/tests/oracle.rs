//! The whole NF against a slow oracle: classes one after the other, a token bucket in integers for each class or flow as
//! RFC 2697 and 2698 write them, marks by hand.

#![allow(clippy::unwrap_used)]

#[path = "../../forward/tests/support/mod.rs"]
mod support;

use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::HashMap;
use support::{Host, ipv4, ipv6, l4};

const SECOND: u128 = 1_000_000_000;
const AF: [(u8, usize); 8] = [(12, 1), (20, 1), (28, 1), (36, 1), (14, 2), (22, 2), (30, 2), (38, 2)];

/// What the oracle knows of a class.
#[derive(Clone, Debug)]
struct Class {
    /// The last byte of the source address, and a DSCP.
    src: Option<u8>,
    dscp: Option<u8>,
    udp_to: Option<(u16, u16)>,
    per_flow: bool,
    aware: bool,
    two_rates: bool,
    rates: [u64; 2],
    buckets: [u64; 2],
    /// By colour: pass, drop, or a DSCP.
    acts: [Result<Option<u8>, ()>; 3],
}

#[derive(Clone, Debug)]
struct Probe {
    v6: bool,
    src: u8,
    port: u16,
    tcp: bool,
    tos: u8,
    payload: usize,
}

/// A class, and its flow if each has a bucket: version, source, port, protocol.
type Key = (usize, Option<(bool, u8, u16, bool)>);

struct Bucket {
    start: u64,
    /// Billionths of a tick that the clock of its class had at the start.
    rest: u128,
    come: [u64; 2],
    tokens: [u64; 2],
}

impl Class {
    fn args(&self, i: usize) -> Value {
        let act = |a: Result<Option<u8>, ()>| match a {
            Ok(None) => json!("pass"),
            Ok(Some(dscp)) => json!({"dscp": dscp}),
            Err(()) => json!("drop"),
        };
        let ([r0, r1], [b0, b1]) = (self.rates, self.buckets);
        let meter = match self.two_rates {
            true => json!({"trtcm": {"cir_bytes_s": r0, "cbs_bytes": b0, "pir_bytes_s": r1, "pbs_bytes": b1}}),
            false => json!({"srtcm": {"cir_bytes_s": r0, "cbs_bytes": b0, "ebs_bytes": b1}}),
        };
        let mut matches = json!({});
        if let Some(src) = self.src {
            matches["src"] = json!(format!("10.0.0.{src}"));
        }
        if let Some(dscp) = self.dscp {
            matches["dscp"] = json!([dscp]);
        }
        if let Some((low, high)) = self.udp_to {
            matches["proto"] = json!("udp");
            matches["dst_ports"] = json!([[low, high]]);
        }
        let mut class = json!({
            "name": format!("c{i}"), "match": matches, "per": if self.per_flow { "flow" } else { "class" },
            "meter": meter, "green": act(self.acts[0]), "yellow": act(self.acts[1]), "red": act(self.acts[2]),
        });
        if self.aware {
            class["aware"] = json!({});
        }
        class
    }

    /// Ticks a second of its clock: bytes of its rate, or of the least common multiple of both.
    fn ticks(&self) -> u64 {
        let [r0, r1] = self.rates;
        let (mut a, mut b) = (r0, r1);
        while b != 0 {
            (a, b) = (b, a % b);
        }
        if self.two_rates { r0 / a * r1 } else { r0 }
    }

    fn matches(&self, p: &Probe) -> bool {
        self.src.is_none_or(|s| !p.v6 && s == p.src)
            && self.dscp.is_none_or(|d| d == p.tos >> 2)
            && self.udp_to.is_none_or(|(low, high)| !p.tcp && (low..=high).contains(&p.port))
    }

    fn colour(&self, b: &mut Bucket, now_ns: u64, len: u64, before: usize) -> usize {
        let mut new = [0; 2];
        for (i, new) in new.iter_mut().enumerate().take(1 + usize::from(self.two_rates)) {
            let ticks = (u128::from(self.ticks()) * u128::from(now_ns - b.start) + b.rest) / SECOND;
            let all = (ticks / u128::from(self.ticks() / self.rates[i])) as u64;
            *new = all - b.come[i];
            b.come[i] = all;
        }
        let [max0, max1] = self.buckets;
        if self.two_rates {
            b.tokens = [(b.tokens[0] + new[0]).min(max0), (b.tokens[1] + new[1]).min(max1)];
            if before == 2 || b.tokens[1] < len {
                return 2;
            }
            b.tokens[1] -= len;
            if before == 1 || b.tokens[0] < len {
                return 1;
            }
            b.tokens[0] -= len;
            return 0;
        }
        let first = new[0].min(max0 - b.tokens[0]);
        b.tokens[0] += first;
        b.tokens[1] = (b.tokens[1] + new[0] - first).min(max1);
        if before == 0 && b.tokens[0] >= len {
            b.tokens[0] -= len;
            0
        } else if before <= 1 && b.tokens[1] >= len {
            b.tokens[1] -= len;
            1
        } else {
            2
        }
    }
}

fn class() -> impl Strategy<Value = Class> {
    let act = || prop_oneof![Just(Ok(None)), (0u8..64).prop_map(|d| Ok(Some(d))), Just(Err(()))];
    let rate = || prop_oneof![1u64..10_000, (1u64..10_000).prop_map(|r| r * 1000)];
    (
        (prop::option::of(0u8..3), prop::option::of(0u8..16), prop::option::of((0u16..4, 4u16..8))),
        (any::<bool>(), any::<bool>(), any::<bool>()),
        (rate(), rate(), 1u64..3000, 1u64..3000),
        [act(), act(), act()],
    )
        .prop_map(|((src, dscp, udp_to), (per_flow, aware, two_rates), (r0, r1, b0, b1), acts)| Class {
            src,
            dscp,
            udp_to,
            per_flow,
            aware,
            two_rates,
            rates: [r0.min(r1), r0.max(r1)],
            buckets: [b0, b1],
            acts,
        })
}

fn probe() -> impl Strategy<Value = Probe> {
    (any::<bool>(), 0u8..3, 0u16..8, any::<bool>(), 0u8..160, 0usize..400)
        .prop_map(|(v6, src, port, tcp, tos, payload)| Probe { v6, src, port, tcp, tos, payload })
}

/// A frame, and the bytes of its IP packet.
fn frame(p: &Probe) -> (Vec<u8>, u64) {
    let proto = if p.tcp { 6 } else { 17 };
    let mut payload = l4(proto, 1000, p.port);
    payload.resize(payload.len() + p.payload, 0);
    let mut frame = match p.v6 {
        true => ipv6(u128::from(p.src), 2, proto, 9, &payload),
        false => ipv4(0x0a00_0000 | u32::from(p.src), 2, proto, 9, &payload),
    };
    set_tos(&mut frame, p.tos);
    let bytes = frame.len() as u64 - 14;
    (frame, bytes)
}

/// Type of service or traffic class, the checksum computed anew.
fn set_tos(frame: &mut [u8], tos: u8) {
    if frame[14] >> 4 == 6 {
        frame[14] = 0x60 | tos >> 4;
        frame[15] = frame[15] & 15 | tos << 4;
        return;
    }
    frame[15] = tos;
    frame[24..26].copy_from_slice(&[0; 2]);
    let sum = chainline_packet::checksum::checksum(&frame[14..34]);
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn colours_actions_and_counts_are_those_of_the_oracle(
        classes in prop::collection::vec(class(), 1..5),
        start_ns in 1u64..1_000_000_000_000,
        bursts in prop::collection::vec((0u64..500_000_000, prop::collection::vec(probe(), 1..60)), 1..20),
    ) {
        let args: Vec<Value> = classes.iter().enumerate().map(|(i, c)| c.args(i)).collect();
        let mut host = Host::new(&nf_policer::KIND, json!({"classes": args, "flows": 1000, "flows6": 1000}));
        let mut buckets: HashMap<Key, Bucket> = HashMap::new();
        let mut counts: HashMap<String, u64> = HashMap::new();
        // The first burst is `start_ns` plus its gap.
        let first_ns = start_ns + bursts[0].0;
        let mut now_ns = start_ns;
        for (gap, probes) in bursts {
            now_ns += gap;
            let (mut frames, mut wanted, mut verdicts) = (Vec::new(), Vec::new(), Vec::new());
            for p in &probes {
                let (mut f, len) = frame(p);
                frames.push(f.clone());
                let Some(c) = classes.iter().position(|c| c.matches(p)) else {
                    *counts.entry("unmetered".into()).or_default() += 1;
                    wanted.push(f);
                    verdicts.push("next".to_owned());
                    continue;
                };
                let class = &classes[c];
                let key = (c, class.per_flow.then_some((p.v6, p.src, p.port, p.tcp)));
                // Meters of classes start with the NF's first burst, those of flows with their first packet, when the
                // clock of their class may be between two ticks.
                let start = if class.per_flow { now_ns } else { first_ns };
                let clock = u128::from(class.ticks());
                let rest = u128::from(start - first_ns) * clock % SECOND;
                let bucket = buckets.entry(key).or_insert(Bucket { start, rest, come: [0; 2], tokens: class.buckets });
                let before = AF.iter().find(|(d, _)| class.aware && *d == p.tos >> 2).map_or(0, |(_, c)| *c);
                let colour = class.colour(bucket, now_ns, len, before);
                let name = ["green", "yellow", "red"][colour];
                *counts.entry(format!("c{c}_{name}")).or_default() += 1;
                *counts.entry(format!("c{c}_{name}_bytes")).or_default() += len;
                verdicts.push(if class.acts[colour].is_err() { format!("c{c}_{name}") } else { "next".into() });
                if let Ok(Some(dscp)) = class.acts[colour] {
                    *counts.entry("marked".into()).or_default() += u64::from(dscp != p.tos >> 2);
                    set_tos(&mut f, dscp << 2 | p.tos & 3);
                }
                wanted.push(f);
            }
            prop_assert_eq!(host.play(now_ns, &mut frames), verdicts);
            prop_assert_eq!(&frames, &wanted);
        }
        for (name, count) in counts {
            prop_assert_eq!(host.counter(&name), count, "{}", name);
        }
    }
}
