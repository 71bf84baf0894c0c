//! Diverts: whether the targets exist, can be reached, and do not lead in a circle.

use super::{Check, Named};
use crate::diag::Diagnostic;
use std::collections::{HashMap, HashSet};

pub(super) fn check(c: &mut Check<'_>) {
    let mut chains: HashMap<&str, usize> = HashMap::new();
    for (i, chain) in c.spec.chains.iter().enumerate() {
        chains.entry(&chain.name).or_insert(i);
    }
    for (nf, spec) in c.nfs() {
        let mut seen = HashSet::new();
        for (i, target) in spec.divert.iter().enumerate().filter(|(_, t)| !t.is_empty()) {
            let place = format!("spec.nfs.{nf}.divert[{i}]");
            if !seen.insert(target) {
                c.error(&place, format!("found the target `{target}` twice, expected it once"));
                continue;
            }
            match (c.named(target), chains.get(target.as_str())) {
                (Named::Port(_) | Named::Nf, Some(_)) => {
                    let message = format!("found `{target}`, which is a chain and also a port or an NF; expected one");
                    c.error(&place, message);
                }
                (Named::Port(port), None) if !port.can_transmit() => {
                    let message = format!("found the {} `{target}`, which packets cannot leave by", port.word());
                    c.error(&place, message);
                }
                (Named::Port(_) | Named::Unclear, None) => {}
                (Named::Nf, None) => to_nf(c, nf, target, &place),
                (_, Some(&chain)) => to_chain(c, nf, chain, &place),
                (Named::Nothing, None) => {
                    let names = chains.keys().copied().chain(c.spec.nfs.keys().map(String::as_str));
                    let names: Vec<_> = names.chain(c.spec.ports.keys().map(String::as_str)).collect();
                    let help = crate::suggest::did_you_mean(target, names.iter().copied());
                    let message = format!("found `{target}`, expected the name of a chain, an NF or a port");
                    c.push(Diagnostic::error(c.at(&place), message).maybe_help(help));
                }
            }
        }
        if c.full() {
            return;
        }
    }
    cycles(c, &chains);
}

/// To an NF: it must come later on every path that the diverting NF is on, since the packet stays in its chain.
fn to_nf(c: &mut Check<'_>, nf: &str, target: &str, place: &str) {
    if nf == target {
        c.error(place, format!("found `{target}` itself, expected another NF"));
        return;
    }
    let behind = c.visits(nf).iter().copied().find(|visit| {
        let rest = c.chain(*visit).hops().get(visit.hop + 1..).unwrap_or_default();
        !rest.iter().any(|name| name == target)
    });
    if let Some(visit) = behind {
        let chain = &c.chain(visit).name;
        let message =
            format!("found the NF `{target}`, which does not come after `{nf}` on the path of chain `{chain}`");
        let help = "divert to a chain, or to an NF further down every path";
        let related = c.at(&format!("spec.chains[{}].path", visit.chain));
        c.push(Diagnostic::error(c.at(place), message).help(help).related(related, "the path is"));
    }
}

/// To a chain: packets stay in their tenant's buffers.
fn to_chain(c: &mut Check<'_>, nf: &str, chain: usize, place: &str) {
    let target = &c.spec.chains[chain];
    let foreign = c.visits(nf).iter().map(|v| c.chain(*v)).find(|from| from.tenant() != target.tenant());
    if let Some(from) = foreign {
        let message = format!(
            "found the chain `{}` of tenant `{}`, expected one of tenant `{}`: tenants share no buffers",
            target.name,
            target.tenant(),
            from.tenant()
        );
        c.error(place, message);
    }
}

/// Finds circles in the graph of chains and the NFs on them: a packet could go round for ever.
///
/// Depth first with an explicit stack; every divert that closes a circle is reported.
fn cycles(c: &mut Check<'_>, chains: &HashMap<&str, usize>) {
    #[derive(Clone, Copy, PartialEq)]
    enum State {
        New,
        Open,
        Done,
    }
    let n_chains = c.spec.chains.len();
    let mut state = vec![State::New; n_chains + c.spec.nfs.len()];
    // Nodes are chains, then NFs. Edges: a chain to the NFs on its path, an NF to the chains it may divert to.
    let edge = |node: usize, nth: usize| -> Option<Option<usize>> {
        if node < n_chains {
            let name = c.spec.chains[node].hops().get(nth)?;
            Some(c.spec.nfs.get_index_of(name).map(|nf| n_chains + nf))
        } else {
            let (_, nf) = c.spec.nfs.get_index(node - n_chains)?;
            let target = nf.divert.get(nth)?;
            Some(chains.get(target.as_str()).copied())
        }
    };
    let mut reports = Vec::new();
    for start in 0..n_chains {
        if state[start] != State::New {
            continue;
        }
        state[start] = State::Open;
        let mut stack = vec![(start, 0)];
        while let Some((node, nth)) = stack.last_mut() {
            let (from, at) = (*node, *nth);
            *nth += 1;
            match edge(from, at) {
                None => {
                    state[from] = State::Done;
                    stack.pop();
                }
                Some(Some(to)) if state[to] == State::New => {
                    state[to] = State::Open;
                    stack.push((to, 0));
                }
                Some(Some(to)) if state[to] == State::Open => {
                    // The stack from `to` on is the circle. It may close at an NF: the divert is then further up.
                    let circle: Vec<usize> = stack.iter().map(|(n, _)| *n).skip_while(|n| *n != to).collect();
                    let divert = if from >= n_chains {
                        Some((from, at))
                    } else {
                        stack.iter().rev().find(|(n, _)| *n >= n_chains).map(|&(n, nth)| (n, nth.saturating_sub(1)))
                    };
                    reports.extend(divert.map(|d| (d, circle)));
                }
                Some(_) => {}
            }
            if reports.len() > crate::decode::MAX_DIAGNOSTICS {
                break;
            }
        }
    }
    let mut seen = HashSet::new();
    for ((nf, nth), circle) in reports {
        let Some((name, _)) = c.spec.nfs.get_index(nf - n_chains) else { continue };
        if !seen.insert((nf, nth)) {
            continue;
        }
        const SHOWN: usize = 8;
        let mut names: Vec<&str> =
            circle.iter().filter(|n| **n < n_chains).map(|n| c.spec.chains[*n].name.as_str()).collect();
        names.truncate(SHOWN);
        let first = names.first().copied().unwrap_or_default();
        let way = names.iter().chain([&first]).map(|n| format!("`{n}`")).collect::<Vec<_>>().join(" to ");
        let message = format!("found a cycle of diverts, {way}; expected that every packet ends somewhere");
        c.error(&format!("spec.nfs.{name}.divert[{nth}]"), message);
    }
}
