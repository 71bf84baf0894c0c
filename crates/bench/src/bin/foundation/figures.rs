//! From what the rounds saw to the figures that the results name. Their definitions are in `docs/performance.md`.

use crate::chains::{ORDERS, order_name};
use crate::rounds::{FORWARDS, STARTED};
use chainline_bench::figures::{BUSY, Figure, Goal, Named, Sample, Samples, counting, median, slope};
use serde_json::{Map, Value, json};

/// All figures; `instructions` comes from elsewhere.
pub fn all(s: &Samples) -> Vec<Named> {
    let orders = by_order(s);
    let worst = orders
        .iter()
        .filter(|(_, f)| f.median().is_some())
        .min_by(|a, b| f64::total_cmp(&a.1.median().unwrap_or(0.0), &b.1.median().unwrap_or(0.0)));
    let ratio = match worst {
        Some((order, figure)) => figure.clone().note("order", order.as_str()),
        None => Figure::unavailable("not measured in this run"),
    };
    let mpps = |name: &str| Figure::of_samples(s.get(name), 1e-6, "Mpps");
    let plain = |name: &str, unit| match s.unavailable.get(name) {
        Some(why) => Figure::unavailable(why.clone()),
        None => Figure::of_samples(s.get(name), 1.0, unit),
    };
    let named = |name: &str, figure, goal| Named { name: name.to_owned(), figure, goal };
    let hop = hop(s);
    let over = match hop.median() {
        Some(hop) if hop > 0.0 => Figure::of_samples(s.get("veth"), 1.0 / hop, "hops"),
        _ => Figure::unavailable("without hop_ns"),
    };
    vec![
        named("shared_core_ratio_min", ratio, Goal::AtLeast(0.90)),
        named("wasted", plain("wasted", "packets"), Goal::AtMost(0.0)),
        named("forward3_mpps", mpps("forward/3"), Goal::AtLeast(18.0)),
        named("forward3_inflight128_mpps", mpps("forward/few"), Goal::AtLeast(4.0)),
        named("hop_ns", hop, Goal::AtMost(20.0)),
        named("veth_hop_ns", plain("veth", "ns"), Goal::None),
        named("veth_hop_over_hop", over, Goal::AtLeast(20.0)),
        named("gen_forward_sink_mpps", bound(mpps("forward/1"), s), Goal::AtLeast(30.0)),
        named("gen_sink_mpps", mpps("forward/0"), Goal::None),
        named("core_to_core_ns", plain("core_to_core", "ns"), Goal::None),
        named("idle_core_share", plain("idle", "cores"), Goal::AtMost(0.02)),
        named("nf_start_ms", starts(s), Goal::AtMost(100.0)),
        named("nf100_start_ms", plain("start/100", "ms"), Goal::AtMost(5000.0)),
    ]
}

/// Throughput of three processes over that of the same three fused, by order of the costs, round by round.
pub fn by_order(s: &Samples) -> Vec<(String, Figure)> {
    let ratio = |order| {
        let name = order_name(order);
        let (ours, fused) = (s.get(&format!("process/{name}")), s.get(&format!("fused/{name}")));
        let ratios: Vec<_> = ours.iter().zip(fused).map(|(a, b)| a.with(*b, |a, b| a / b)).collect();
        let mpps = |v| median(&counting(v)).map_or(Value::Null, |m| (m / 1e6).into());
        let figure =
            Figure::of_samples(&ratios, 1.0, "ratio").note("process_mpps", mpps(ours)).note("fused_mpps", mpps(fused));
        (name, figure)
    };
    ORDERS.into_iter().map(ratio).collect()
}

/// What one more forwarding process costs: the slope of nanoseconds a packet over the number of processes. Only
/// where their core was busy: elsewhere the manager's core bounds the throughput, and a hop would look cheaper. One that
/// has the core to itself looks for packets all the time: what tells how busy it was is its load.
fn hop(s: &Samples) -> Figure {
    let series: Vec<_> = (1..=FORWARDS)
        .map(|n| {
            let busy = if n == 1 { "load" } else { "core_share" };
            (n, s.get(&format!("forward/{n}")), s.get(&format!("forward/{n}/{busy}")))
        })
        .collect();
    let rounds = series.iter().map(|(_, pps, _)| pps.len()).min().unwrap_or(0);
    if rounds == 0 {
        return Figure::unavailable("not measured in this run");
    }
    let of_round = |round: usize| {
        let busy: Vec<_> = series.iter().filter(|(_, _, share)| share[round].value >= BUSY).collect();
        let disturbed = busy.iter().any(|(_, pps, _)| pps[round].disturbed);
        let points: Vec<_> = busy.iter().map(|(n, pps, _)| (*n as f64, 1e9 / pps[round].value)).collect();
        slope(&points).map(|value| Sample { value, disturbed })
    };
    let slopes: Vec<_> = (0..rounds).filter_map(of_round).collect();
    if slopes.is_empty() {
        return Figure::unavailable("the NFs' core was never busy: something else took it, or bounded the throughput");
    }
    let run: Vec<_> = (1..=FORWARDS).map(|n| median(&counting(s.get(&format!("forward/{n}/run_ns"))))).collect();
    let packet: Vec<_> = series.iter().map(|(_, pps, _)| median(&counting(pps)).map(|m| 1e9 / m)).collect();
    Figure::of_samples(&slopes, 1.0, "ns")
        .note("packet_ns_by_processes", json!(packet))
        .note("core_ns_by_processes", json!(run))
}

/// Adds which side bounds a generator that feeds one NF.
fn bound(figure: Figure, s: &Samples) -> Figure {
    let of = |name: &str| median(&counting(s.get(name)));
    // An NF alone on its core looks for packets all the time, so its share of the core says nothing.
    let (Some(load), Some(alone)) = (of("forward/1/load"), of("forward/0")) else { return figure };
    let who = if load >= BUSY { "the NF's core" } else { "the manager's core: generator, entry, exit and sink" };
    figure
        .note("bounded_by", who)
        .note("nf_load", load)
        .note("nf_cost_ns", of("forward/1/cost_ns").map_or(Value::Null, Into::into))
        .note("nf_core_ns", of("forward/1/run_ns").map_or(Value::Null, Into::into))
        .note("manager_ns_without_nf", 1e9 / alone)
}

/// Start of the slowest kind, round by round.
fn starts(s: &Samples) -> Figure {
    let series = STARTED.map(|kind| (kind, s.get(&format!("start/{kind}"))));
    let rounds = series.iter().map(|(_, v)| v.len()).min().unwrap_or(0);
    let none = Sample { value: 0.0, disturbed: false };
    let of_round = |r: usize| series.iter().map(|(_, v)| v[r]).fold(none, |a, b| a.with(b, f64::max));
    let slowest: Vec<_> = (0..rounds).map(of_round).collect();
    let kinds: Map<_, _> =
        series.iter().map(|(kind, v)| ((*kind).to_owned(), json!(Figure::of_samples(v, 1.0, "ms")))).collect();
    Figure::of_samples(&slowest, 1.0, "ms").note("by_kind", kinds)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 10 ns for what is there anyway and 15 for each process; the first is bounded by the other core.
    #[test]
    fn a_hop_is_a_slope_where_the_core_is_busy() {
        let mut s = Samples::default();
        for (n, ns, share) in [(1, 38.0, 0.7), (2, 40.0, 1.0), (3, 55.0, 1.0), (4, 70.0, 0.99)] {
            s.put(&format!("forward/{n}"), &[1e9 / ns]);
            // One alone looks for packets all the time.
            s.put(&format!("forward/{n}/core_share"), &[if n == 1 { 1.0 } else { share }]);
            s.put(&format!("forward/{n}/load"), &[share]);
        }
        let hop = hop(&s).median().unwrap();
        assert!((hop - 15.0).abs() < 1e-9, "{hop}");
    }

    #[test]
    fn nothing_measured_is_unavailable() {
        for named in all(&Samples::default()) {
            assert_eq!(named.figure.median(), None, "{}", named.name);
        }
    }

    #[test]
    fn the_worst_order_counts() {
        let mut s = Samples::default();
        for (i, order) in ORDERS.into_iter().enumerate() {
            s.put(&format!("process/{}", order_name(order)), &[90.0 - i as f64, 95.0, 80.0]);
            s.put(&format!("fused/{}", order_name(order)), &[100.0; 3]);
        }
        let all = all(&s);
        assert_eq!(all[0].figure.median(), Some(0.85));
        let Figure::Measured(m) = &all[0].figure else { panic!("unavailable") };
        assert_eq!((m.notes["order"].as_str(), m.min, m.max), (Some("550-270-120"), 0.8, 0.95));
    }
}
