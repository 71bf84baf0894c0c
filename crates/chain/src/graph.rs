//! A plan as a picture: ports, NFs, the chains that join them, diverts.

use crate::plan::{Host, Plan};
use indexmap::IndexMap;
use std::fmt::Write;

/// A node of the picture.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Node {
    Port(usize),
    Nf(usize),
}

impl Node {
    fn id(self) -> String {
        match self {
            Self::Port(i) => format!("p{i}"),
            Self::Nf(i) => format!("n{i}"),
        }
    }
}

/// A line of the picture.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Line {
    from: Node,
    to: Node,
    divert: bool,
}

/// An NF and its replicas.
fn replicas(plan: &Plan, nf: usize) -> Vec<Node> {
    plan.replicas_of(nf).map(Node::Nf).collect()
}

/// Whom a node hands packets to: the one that shares its instance, else all.
fn meets(plan: &Plan, from: Node, to: &[Node]) -> Vec<(Node, Node)> {
    let instance = |n: &Node| if let Node::Nf(nf) = n { plan.nfs.get(*nf).map(|nf| nf.instance) } else { None };
    let own = to.iter().find(|n| instance(n).is_some() && instance(n) == instance(&from));
    own.map_or(to, std::slice::from_ref).iter().map(|n| (from, *n)).collect()
}

/// Lines with the names of the chains that they stand for.
fn lines(plan: &Plan) -> IndexMap<Line, Vec<&str>> {
    let mut lines: IndexMap<Line, Vec<&str>> = IndexMap::new();
    for chain in &plan.chains {
        let hops = chain.hops.iter().map(|nf| replicas(plan, *nf));
        let nodes: Vec<Vec<Node>> =
            [vec![Node::Port(chain.ingress)]].into_iter().chain(hops).chain([vec![Node::Port(chain.egress)]]).collect();
        for pair in nodes.windows(2) {
            if let [from, to] = pair {
                for (from, to) in from.iter().flat_map(|f| meets(plan, *f, to)) {
                    lines.entry(Line { from, to, divert: false }).or_default().push(&chain.name);
                }
            }
        }
    }
    for (i, nf) in plan.nfs.iter().enumerate() {
        for target in &nf.divert {
            let port = plan.ports.iter().position(|p| p.name == *target).map(|p| vec![Node::Port(p)]);
            let other = plan.nfs.iter().position(|n| n.base == *target).map(|nf| replicas(plan, nf));
            let chain = plan.chains.iter().find(|c| c.name == *target);
            let first = chain.map(|c| c.hops.first().map_or(vec![Node::Port(c.egress)], |nf| replicas(plan, *nf)));
            for (from, to) in port.or(other).or(first).iter().flat_map(|to| meets(plan, Node::Nf(i), to)) {
                lines.entry(Line { from, to, divert: true }).or_default().push(target);
            }
        }
    }
    lines
}

/// The first few names.
fn label(names: &[&str]) -> String {
    const SHOWN: usize = 3;
    let mut text = names.iter().take(SHOWN).copied().collect::<Vec<_>>().join(", ");
    if names.len() > SHOWN {
        text.push_str(&format!(" +{}", names.len() - SHOWN));
    }
    text
}

/// How an instance runs, for its frame.
fn frame(host: Host, cores: &[usize]) -> String {
    let cores = cores.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
    let word = match host {
        Host::Process => "process",
        Host::Thread => "thread",
    };
    format!("{word}, core {cores}")
}

/// As a Mermaid flowchart: one frame an instance, dashed lines for diverts.
#[must_use]
pub fn mermaid(plan: &Plan) -> String {
    let escape = |text: &str| text.replace('#', "#35;").replace('"', "#quot;").replace(['\n', '\r'], " ");
    let mut out = String::from("flowchart LR\n");
    for (i, port) in plan.ports.iter().enumerate() {
        out += &format!("  p{i}([\"{} ({})\"])\n", port.name, port.spec.word());
    }
    for (i, instance) in plan.instances.iter().enumerate() {
        out += &format!("  subgraph i{i}[\"{}\"]\n", frame(instance.host, &instance.cores));
        for nf in &instance.nfs {
            if let Some(n) = plan.nfs.get(*nf) {
                out += &format!("    n{nf}[\"{}: {}\"]\n", n.name, escape(&n.kind));
            }
        }
        out += "  end\n";
    }
    for (line, names) in lines(plan) {
        let arrow = if line.divert { "-.->" } else { "-->" };
        // Writing to a String cannot fail.
        let _ = writeln!(out, "  {} {arrow}|\"{}\"| {}", line.from.id(), label(&names), line.to.id());
    }
    out
}

/// As a Graphviz digraph: one cluster an instance, dashed lines for diverts.
#[must_use]
pub fn dot(plan: &Plan) -> String {
    let escape = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"").replace(['\n', '\r'], " ");
    let mut out = format!("digraph \"{}\" {{\n  rankdir=LR;\n  node [shape=box];\n", plan.name);
    for (i, port) in plan.ports.iter().enumerate() {
        out += &format!("  p{i} [label=\"{}\\n{}\", shape=ellipse];\n", port.name, port.spec.word());
    }
    for (i, instance) in plan.instances.iter().enumerate() {
        out += &format!("  subgraph cluster_{i} {{\n    label=\"{}\";\n", frame(instance.host, &instance.cores));
        for nf in &instance.nfs {
            if let Some(n) = plan.nfs.get(*nf) {
                out += &format!("    n{nf} [label=\"{}\\n{}\"];\n", n.name, escape(&n.kind));
            }
        }
        out += "  }\n";
    }
    for (line, names) in lines(plan) {
        let style = if line.divert { ", style=dashed" } else { "" };
        let _ = writeln!(out, "  {} -> {} [label=\"{}\"{style}];", line.from.id(), line.to.id(), label(&names));
    }
    out + "}\n"
}
