//! The report as text.

use super::{counters, drops, grouped, rate, table, time, trimmed};
use chainline_manager::Report;

/// The report as tables for people.
pub fn text(r: &Report) -> String {
    let mut chains = table(&["chain", "received", "sent", "rate", "p50", "p99", "p99.9", "max", "dropped"], 1);
    for (name, c) in &r.chains {
        let l = &c.latency_ns;
        chains.add_row([
            name.clone(),
            grouped(c.received),
            grouped(c.transmitted),
            rate(c.pps, "pps"),
            time(l.p50),
            time(l.p99),
            time(l.p99_9),
            time(l.max),
            drops(&c.dropped),
        ]);
    }
    let mut nfs = table(&["NF", "received", "passed", "cost", "core", "switches", "restarts", "wasted", "dropped"], 1);
    for (name, n) in &r.nfs {
        nfs.add_row([
            name.clone(),
            grouped(n.received),
            grouped(n.transmitted),
            n.cost_ns.p50.map_or("-".into(), time),
            format!("{:.0} %", n.cpu_share * 100.0),
            grouped(n.voluntary_switches + n.involuntary_switches),
            n.restarts.to_string(),
            n.wasted.to_string(),
            drops(&n.dropped),
        ]);
    }
    let l = &r.ledger;
    let dropped: u64 = l.dropped.values().sum();
    let balanced = if l.balanced { "balanced" } else { "NOT BALANCED" };
    let own = counters(r.nfs.iter().map(|(name, n)| (name.as_str(), &n.counters)));
    let mut out = format!(
        "{}\n\n{}\n{own}\nreceived {} = sent {} + dropped {} + inside {}: {balanced}   ({:.1} s)\n",
        trimmed(&chains.to_string()),
        trimmed(&nfs.to_string()),
        grouped(l.received),
        grouped(l.transmitted),
        grouped(dropped),
        grouped(l.held),
        r.duration_s,
    );
    if dropped > 0 {
        out += &format!("dropped: {}\n", drops(&l.dropped));
    }
    if !r.control.weights.starts_with("cgroup") {
        out += &format!("CPU shares by {}: {}\n", r.control.weights, r.control.remarks.join("; "));
    }
    for h in &r.happenings {
        out += &format!(
            "{:.1} s  {}{}\n",
            h.at_s,
            h.instance.as_deref().map_or(String::new(), |i| format!("{i}: ")),
            h.what
        );
    }
    for (name, report) in r.nfs.iter().filter_map(|(name, n)| Some((name, n.report.as_ref()?))) {
        out += &format!("\n{name}\n");
        report.lines().for_each(|line| out += &format!("  {line}\n"));
    }
    if !r.environment.optimised {
        out += "\nThis build is not optimised: its figures mean little (cargo build --release).\n";
    }
    out
}
