//! A plan as text for people.

use crate::model::{Match, Mechanisms, Weight};
use crate::plan::{End, Host, InstancePlan, NfPlan, Plan, Way};
use std::fmt::{Display, Write};

/// The plan as tables: chains, instances, queues.
#[must_use]
pub fn table(plan: &Plan) -> String {
    let mut out = format!("{}: manager on core {}, {} buffers a tenant\n", plan.name, plan.manager_core, plan.buffers);
    if !plan.reserved.is_empty() {
        out.push_str(&format!("reserved cores: {}\n", join(plan.reserved.iter(), ",")));
    }
    if plan.mechanisms != Mechanisms::default() {
        out.push_str(&format!("mechanisms: {}\n", plan.mechanisms.word()));
    }
    let chains = plan.chains.iter().map(|c| {
        let port = |p: usize| plan.ports.get(p).map(|p| p.name.clone()).unwrap_or_default();
        let mut path = vec![port(c.ingress)];
        path.extend(c.hops.iter().filter_map(|nf| plan.nfs.get(*nf)).map(|nf| hop(plan, nf)));
        path.push(port(c.egress));
        [c.name.clone(), c.tenant.clone(), rule(&c.matches), path.join(" > ")]
    });
    section(&mut out, ["CHAIN", "TENANT", "MATCH", "PATH"], chains.collect());
    let instances = plan.instances.iter().map(|i| {
        [
            i.name.clone(),
            match i.host {
                Host::Process => "process".into(),
                Host::Thread => "thread".into(),
            },
            join(i.cores.iter(), ","),
            if i.shares_core { "yes" } else { "no" }.into(),
            sched(i),
            i.activation.word().into(),
            i.batch.to_string(),
            i.queues.len().to_string(),
        ]
    });
    section(
        &mut out,
        ["INSTANCE", "HOST", "CORES", "SHARED", "SCHED", "WAITS", "BATCH", "QUEUES"],
        instances.collect(),
    );
    let end = |e: End| match e {
        End::Port(p) => plan.ports.get(p).map(|p| format!("port {}", p.name)).unwrap_or_default(),
        End::Instance(i) => plan.instances.get(i).map(|i| i.name.clone()).unwrap_or_default(),
    };
    let edges = plan.edges.iter().enumerate().map(|(i, e)| {
        let chain = plan.chains.get(e.chain).map(|c| c.name.clone()).unwrap_or_default();
        [i.to_string(), end(e.from), end(e.to), chain, e.hop.to_string(), e.capacity.to_string()]
    });
    section(&mut out, ["QUEUE", "FROM", "TO", "CHAIN", "HOP", "PACKETS"], edges.collect());
    out
}

/// An NF on a path, with how many replicas it has and what comes to each of them.
fn hop(plan: &Plan, nf: &NfPlan) -> String {
    if nf.replicas == 1 {
        return nf.name.clone();
    }
    let ways = plan
        .chains
        .iter()
        .map(|c| &c.entry)
        .chain(plan.instances.iter().flat_map(|i| &i.queues).flat_map(crate::plan::QueuePlan::ways));
    let to = |edge: &usize| plan.edges.get(*edge).is_some_and(|e| e.to == End::Instance(nf.instance));
    let dispatch = ways.filter(|way| way.edges().iter().any(to)).find_map(|way| match way {
        Way::Among { dispatch, .. } => Some(dispatch.word()),
        Way::To(_) => None,
    });
    let state = if nf.state.is_private() { String::new() } else { format!(", state {}", nf.state.word()) };
    format!("{} x{} by {}{state}", nf.base, nf.replicas, dispatch.unwrap_or_default())
}

fn sched(i: &InstancePlan) -> String {
    let s = &i.sched;
    let mut text = s.policy.word().to_owned();
    if let Weight::Fixed(weight) = s.weight {
        text.push_str(&format!(" weight {weight}"));
    }
    let numbers = [
        ("nice", s.nice.map(i64::from)),
        ("priority", s.priority.map(i64::from)),
        ("slice_us", s.slice_us.map(i64::from)),
        ("runtime_us", s.runtime_us.map(i64::from)),
        ("deadline_us", s.deadline_us.map(i64::from)),
        ("period_us", s.period_us.map(i64::from)),
    ];
    for (name, value) in numbers {
        if let Some(value) = value {
            text.push_str(&format!(" {name} {value}"));
        }
    }
    text
}

/// A match in the file's words.
fn rule(m: &Match) -> String {
    let proto = m.proto.map(|p| crate::model::proto_name(p).map_or_else(|| p.to_string(), str::to_owned));
    let fields = [
        ("proto", proto.unwrap_or_default()),
        ("src", join(&m.src, ",")),
        ("dst", join(&m.dst, ",")),
        ("src_port", join(&m.src_port, ",")),
        ("dst_port", join(&m.dst_port, ",")),
        ("vlan", join(&m.vlan, ",")),
    ];
    let given = fields.iter().filter(|(_, value)| !value.is_empty());
    let text = given.map(|(name, value)| format!("{name} {value}")).collect::<Vec<_>>().join(" ");
    if text.is_empty() { "any".into() } else { text }
}

fn join<T: Display>(items: impl IntoIterator<Item = T>, by: &str) -> String {
    items.into_iter().map(|i| i.to_string()).collect::<Vec<_>>().join(by)
}

fn section<const N: usize>(out: &mut String, head: [&str; N], rows: Vec<[String; N]>) {
    let width = |i: usize| rows.iter().map(|r| r[i].chars().count()).chain([head[i].len()]).max().unwrap_or(0);
    let widths: [usize; N] = std::array::from_fn(width);
    out.push('\n');
    for row in [head.map(str::to_owned)].iter().chain(&rows) {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(widths) {
            // Writing to a String cannot fail.
            let _ = write!(line, "{cell:width$}  ");
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
}
