//! What a run says, as tables and as it came.

use super::{ask, rules};
use crate::exit::Exit;
use crate::output::{self, Format};
use crate::ui::{counters, drops, grouped, rate, table, time};
use chainline_ctl::{Call, Changed, Client, InstanceInfo, Overview, Run, Stats};
use serde_json::{Value, json};

pub fn runs(format: Format) -> anyhow::Result<Exit> {
    let runs = chainline_ctl::runs();
    let row = |r: &Run| json!({"name": r.name, "pid": r.pid, "socket": r.path});
    let all: Vec<Value> = runs.iter().map(row).collect();
    output::value(format, &all, |_| {
        let mut t = table(&["run", "socket", "process"], 2);
        for r in &runs {
            t.add_row([r.name.clone(), r.path.display().to_string(), r.pid.to_string()]);
        }
        format!("{t}\n")
    })?;
    Ok(Exit::Ok)
}

pub fn overview(client: &mut Client, format: Format) -> anyhow::Result<Exit> {
    let there: Overview = ask(client, &Call::List)?;
    output::value(format, &there, |o| {
        let mut chains = table(&["chain", "path", "match"], 3);
        for c in &o.chains {
            chains.add_row([c.name.clone(), c.path.join(" → "), rules::words(&c.matches)]);
        }
        let mut instances = table(&["instance", "kind", "state", "cores", "scheduling", "restarts", "thread"], 5);
        for i in &o.instances {
            let nfs = o.nfs.iter().filter(|n| n.instance == i.name);
            let kinds: Vec<_> = nfs.map(|n| n.kind.as_str()).collect();
            instances.add_row([
                i.name.clone(),
                kinds.join("+"),
                i.state.clone(),
                i.cores.iter().map(usize::to_string).collect::<Vec<_>>().join(","),
                scheduling(i),
                i.restarts.to_string(),
                i.tid.map_or("-".into(), |t| t.to_string()),
            ]);
        }
        format!("{} ({}), {:.0} s\n\n{chains}\n\n{instances}\n", o.name, o.pid, o.uptime_s)
    })?;
    Ok(Exit::Ok)
}

fn scheduling(i: &InstanceInfo) -> String {
    let mut words = vec![i.sched["policy"].as_str().unwrap_or("-").to_owned()];
    let rest = i.sched.as_object().into_iter().flatten().filter(|(k, v)| *k != "policy" && **v != json!("auto"));
    words.extend(rest.map(|(k, v)| format!("{k} {v}")));
    words.join(" ")
}

pub fn stats(client: &mut Client, format: Format) -> anyhow::Result<Exit> {
    let stats: Stats = ask(client, &Call::Stats)?;
    output::value(format, &stats, |s| numbers(s) + &counters(s.nfs.iter().map(|n| (n.name.as_str(), &n.counters))))?;
    Ok(Exit::Ok)
}

/// Statistics as tables.
pub fn numbers(s: &Stats) -> String {
    let mut chains =
        table(&["chain", "in", "out", "out", "shed", "inside", "p50", "p99", "received", "sent", "dropped"], 1);
    let ns = |n: Option<u64>| n.map_or("-".into(), time);
    for c in &s.chains {
        chains.add_row([
            c.name.clone(),
            rate(c.received_pps, "pps"),
            rate(c.transmitted_pps, "pps"),
            rate(c.transmitted_bps, "bit/s"),
            rate(c.shed_pps, "pps"),
            c.totals.held.to_string(),
            ns(c.p50_ns),
            ns(c.p99_ns),
            grouped(c.totals.received),
            grouped(c.totals.transmitted),
            drops(&c.totals.dropped),
        ]);
    }
    let mut nfs = table(&["NF", "in", "queue", "core", "cost", "holds", "received", "passed"], 1);
    for n in &s.nfs {
        nfs.add_row([
            n.name.clone(),
            rate(n.pps, "pps"),
            format!("{:.0} %", n.queue * 100.0),
            format!("{:.0} %", n.cpu_share * 100.0),
            ns(n.cost_ns),
            n.held.to_string(),
            grouped(n.received),
            grouped(n.transmitted),
        ]);
    }
    let l = &s.ledger;
    let all = format!(
        "received {} = sent {} + dropped {} + inside {}",
        grouped(l.received),
        grouped(l.transmitted),
        grouped(l.dropped.values().sum()),
        grouped(l.held)
    );
    format!("{:.0} s, rates over {:.1} s\n{all}\n\n{chains}\n\n{nfs}\n", s.at_s, s.interval_s)
}

pub fn file(client: &mut Client, format: Format) -> anyhow::Result<Exit> {
    let file: Value = ask(client, &Call::File)?;
    // A chain file has no form as a table.
    let format = if format == Format::Table { Format::Yaml } else { format };
    output::value(format, &file, Value::to_string)?;
    Ok(Exit::Ok)
}

/// What became of a change, in words.
pub fn changed(c: &Changed) -> String {
    let mut lines = c.changed.clone();
    let list = |what: &str, names: &[String]| (!names.is_empty()).then(|| format!("{what}: {}", names.join(", ")));
    lines.extend(list("started", &c.started));
    lines.extend(list("ended", &c.ended));
    if c.reconfigured > 0 {
        lines.push(format!("dropped as reconfigured: {}", grouped(c.reconfigured)));
    }
    if lines.is_empty() { "nothing differs\n".into() } else { lines.join("\n") + "\n" }
}
