//! Names and paths.

use super::{Check, MAX_QUEUES, Named};
use crate::diag::Diagnostic;
use crate::model::Port;
use std::collections::HashMap;

pub(super) fn check(c: &mut Check<'_>) {
    names(c);
    for index in 0..c.spec.chains.len() {
        path(c, index);
        if c.full() {
            break;
        }
    }
    unused(c);
    queues(c);
}

fn names(c: &mut Check<'_>) {
    for (name, _) in c.nfs() {
        if c.spec.ports.contains_key(name) || c.broken.ports.contains(name) {
            let (nf, port) = (c.key(&format!("spec.nfs.{name}")), c.key(&format!("spec.ports.{name}")));
            let message = format!("found the NF `{name}` besides a port `{name}`, expected different names");
            c.push(Diagnostic::error(nf, message).related(port, "the port is"));
        }
    }
    let mut seen: HashMap<&str, usize> = HashMap::new();
    for (i, chain) in c.spec.chains.iter().enumerate().filter(|(_, chain)| !chain.name.is_empty()) {
        let at = |i| c.at(&format!("spec.chains[{i}].name"));
        if let Some(&first) = seen.get(chain.name.as_str()) {
            let message = format!("found a second chain `{}`, expected different names", chain.name);
            let diagnostic = Diagnostic::error(at(i), message).related(at(first), "the first is");
            c.push(diagnostic);
        } else {
            seen.insert(&chain.name, i);
        }
    }
}

fn path(c: &mut Check<'_>, index: usize) {
    let chain = &c.spec.chains[index];
    let [ingress, .., egress] = chain.path.as_slice() else { return };
    let last = chain.path.len() - 1;
    end(c, index, 0, ingress, "ingress", Port::can_receive, "come from");
    end(c, index, last, egress, "egress", Port::can_transmit, "leave by");
    let mut seen: HashMap<&str, usize> = HashMap::new();
    for (hop, name) in chain.hops().iter().enumerate() {
        let place = format!("spec.chains[{index}].path[{}]", hop + 1);
        match c.named(name) {
            Named::Port(_) => {
                c.error(&place, format!("found the port `{name}` inside a path, expected ports at its two ends only"));
            }
            Named::Nf => {
                if let Some(first) = seen.insert(name, hop) {
                    let first = c.at(&format!("spec.chains[{index}].path[{}]", first + 1));
                    let message =
                        format!("found the NF `{name}` twice on one path, which is a cycle; expected it once");
                    let diagnostic = Diagnostic::error(c.at(&place), message)
                        .related(first, "the first is")
                        .help("give it a second name under `nfs` if it is to run twice");
                    c.push(diagnostic);
                }
            }
            Named::Unclear => {}
            Named::Nothing => {
                let help = Check::suggestion(name, "NFs", c.spec.nfs.keys().map(String::as_str));
                let message = format!("found `{name}` on the path, expected the name of an NF");
                c.push(Diagnostic::error(c.at(&place), message).help(help));
            }
        }
    }
}

/// One end of a path: a port that packets can take in this direction.
fn end(c: &mut Check<'_>, index: usize, at: usize, name: &str, role: &str, able: fn(&Port) -> bool, way: &str) {
    let place = format!("spec.chains[{index}].path[{at}]");
    match c.named(name) {
        Named::Port(port) if able(port) => {}
        Named::Port(Port::Pcap(_)) => {
            let field = if at == 0 { "read" } else { "write" };
            let message = format!("found the capture `{name}` as {role} port, expected one with `{field}`");
            let help = format!("packets cannot {way} it");
            c.push(Diagnostic::error(c.at(&place), message).help(help));
        }
        Named::Port(port) => {
            let message = format!("found the {} `{name}` as {role} port, which packets cannot {way}", port.word());
            let fit = c.spec.ports.iter().filter(|(_, p)| able(p)).map(|(n, _)| n.as_str());
            let help = Check::suggestion("", "such ports", fit);
            c.push(Diagnostic::error(c.at(&place), message).help(help));
        }
        Named::Nf => {
            let first = if at == 0 { "first" } else { "last" };
            c.error(&place, format!("found the NF `{name}` {first} on the path, expected the {role} port"));
        }
        Named::Unclear => {}
        Named::Nothing => {
            let fit = c.spec.ports.iter().filter(|(_, p)| able(p)).map(|(n, _)| n.as_str());
            let help = Check::suggestion(name, "such ports", fit);
            let message = format!("found `{name}` as {role} port, expected the name of a port");
            c.push(Diagnostic::error(c.at(&place), message).help(help));
        }
    }
}

fn unused(c: &mut Check<'_>) {
    if c.broken.lists {
        return;
    }
    for (name, _) in c.nfs() {
        if c.visits(name).is_empty() {
            let message = format!("the NF `{name}` is on no path and does not run");
            c.push(Diagnostic::warning(c.key(&format!("spec.nfs.{name}")), message));
        }
    }
    let ends = c.spec.chains.iter().flat_map(|chain| [chain.ingress(), chain.egress()]).flatten();
    let diverts = c.spec.nfs.values().flat_map(|nf| &nf.divert).map(String::as_str);
    let used: std::collections::HashSet<&str> = ends.chain(diverts).collect();
    for name in c.spec.ports.keys().filter(|name| !used.contains(name.as_str())) {
        let message = format!("the port `{name}` is on no path and is not opened");
        c.push(Diagnostic::warning(c.key(&format!("spec.ports.{name}")), message));
    }
}

fn queues(c: &mut Check<'_>) {
    let hops: usize = c.spec.chains.iter().map(|chain| chain.path.len().saturating_sub(1)).sum();
    let diverts: usize = c.spec.nfs.values().map(|nf| nf.divert.len()).sum();
    let queues = hops + diverts;
    if queues > MAX_QUEUES {
        c.error("spec.chains", format!("the chains need {queues} queues, expected at most {MAX_QUEUES}"));
    }
}
