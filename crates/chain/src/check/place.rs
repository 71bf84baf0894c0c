//! Who runs where, and who may run with whom.

use super::Check;
use crate::diag::Diagnostic;
use crate::fuse;
use crate::model::{Isolation, MAX_NFS, Nf, Policy};

pub(super) fn check(c: &mut Check<'_>) {
    tenants(c);
    fused(c);
    replicas(c);
    cores(c);
    inherited(c);
    kinds(c);
    for (name, nf) in c.nfs() {
        sizes(c, name, nf);
        deadline(c, name, nf);
    }
}

/// An NF sees the packets that it handles, so it serves one tenant; a thread sees the whole manager.
fn tenants(c: &mut Check<'_>) {
    for (name, nf) in c.nfs() {
        let Some((first, rest)) = c.visits(name).split_first() else { continue };
        let own = c.chain(*first);
        let foreign = rest.iter().copied().find(|v| c.chain(*v).tenant() != own.tenant());
        if let Some(visit) = foreign {
            let chain = c.chain(visit);
            let at = |v: super::Visit| c.at(&format!("spec.chains[{}].path[{}]", v.chain, v.hop + 1));
            let message = format!(
                "found the NF `{name}` in a chain of tenant `{}` and in one of tenant `{}`, expected one tenant",
                chain.tenant(),
                own.tenant()
            );
            let diagnostic = Diagnostic::error(at(visit), message)
                .related(at(*first), "the other is")
                .help("give each tenant an NF of its own");
            c.push(diagnostic);
        }
        let mixed = c.spec.chains.iter().any(|chain| chain.tenant() != own.tenant());
        if mixed && fuse::isolation(c.spec, nf) == Isolation::Thread {
            let path = format!("spec.nfs.{name}.isolation");
            let place = if c.file.source.has(&path) { path } else { "spec.defaults.isolation".into() };
            let message = format!(
                "found the NF `{name}` as a thread in a file with several tenants, expected `process` or `fused`: a \
                 thread can reach every tenant's buffers"
            );
            c.error(&place, message);
        }
    }
}

/// Fused neighbours are one instance: what they say of it must agree.
fn fused(c: &mut Check<'_>) {
    for group in fuse::groups(c.spec) {
        let members: Vec<(&str, &Nf)> =
            group.iter().filter_map(|i| c.spec.nfs.get_index(*i)).map(|(n, nf)| (n.as_str(), nf)).collect();
        if let [(name, nf)] = members.as_slice() {
            let alone = fuse::isolation(c.spec, nf) == Isolation::Fused && nf.isolation.is_some();
            if alone && !c.visits(name).is_empty() {
                let message = format!("the NF `{name}` has no fused neighbour on any path: it runs as a process");
                c.push(Diagnostic::warning(c.at(&format!("spec.nfs.{name}.isolation")), message));
            }
            continue;
        }
        let sorted = |nf: &Nf| {
            let mut cores = nf.cores.clone();
            cores.sort_unstable();
            (!cores.is_empty()).then_some(cores)
        };
        agree(c, &members, "cores", sorted);
        agree(c, &members, "sched", |nf| nf.sched);
        agree(c, &members, "batch", |nf| nf.batch);
        agree(c, &members, "activation", |nf| nf.activation);
        agree(c, &members, "spin_us", |nf| nf.spin_us);
        agree(c, &members, "replicas", |nf| nf.replicas);
        agree(c, &members, "dispatch", |nf| nf.dispatch);
    }
}

/// What is said of dispatching needs somebody to dispatch to; and there are so many instances in all.
fn replicas(c: &mut Check<'_>) {
    let mut instances = 0;
    for group in fuse::groups(c.spec) {
        let members: Vec<(&str, &Nf)> =
            group.iter().filter_map(|i| c.spec.nfs.get_index(*i)).map(|(n, nf)| (n.as_str(), nf)).collect();
        if members.iter().any(|(name, _)| !c.visits(name).is_empty()) {
            instances += fuse::replicas(members.iter().map(|(_, nf)| *nf));
        }
        if members.iter().any(|(_, nf)| nf.replicas.is_some()) {
            continue;
        }
        let lonely = |field: &str, given: &dyn Fn(&Nf) -> bool, help: &str| {
            let (name, _) = members.iter().find(|(_, nf)| given(nf))?;
            let message = format!("found `{field}` of `{name}` without `replicas`, expected both");
            Some(Diagnostic::error(c.at(&format!("spec.nfs.{name}.{field}")), message).help(help.to_owned()))
        };
        let dispatch = "with `replicas: 2` its packets are dealt out to two instances";
        let state = "with `replicas: 2` there are two instances that can share it";
        let found = [
            lonely("dispatch", &|nf| nf.dispatch.is_some(), dispatch),
            lonely("state", &|nf| nf.state.is_some_and(|s| !s.is_private()), state),
        ];
        found.into_iter().flatten().for_each(|diagnostic| c.push(diagnostic));
    }
    if instances > MAX_NFS {
        c.error(
            "spec.nfs",
            format!("the NFs with all their replicas are {instances} instances, expected at most {MAX_NFS}"),
        );
    }
}

fn agree<T: PartialEq>(c: &mut Check<'_>, members: &[(&str, &Nf)], field: &str, value: impl Fn(&Nf) -> Option<T>) {
    let mut given = members.iter().filter_map(|(name, nf)| value(nf).map(|v| (*name, v)));
    let Some((first, expected)) = given.next() else { return };
    for (name, found) in given {
        if found != expected {
            let at = |n: &str| c.at(&format!("spec.nfs.{n}.{field}"));
            let message = format!(
                "found `{field}` of `{name}` other than that of `{first}`, expected the same: they are fused into one \
                 loop"
            );
            let diagnostic = Diagnostic::error(at(name), message).related(at(first), "the other is");
            c.push(diagnostic);
        }
    }
}

/// An NF without a `sched` of its own has that of its chains, which must then be one and the same.
fn inherited(c: &mut Check<'_>) {
    for (name, nf) in c.nfs() {
        if nf.sched.is_some() {
            continue;
        }
        let visits: Vec<_> = c.visits(name).iter().filter(|v| c.chain(**v).sched.is_some()).copied().collect();
        let Some((first, rest)) = visits.split_first() else { continue };
        let Some(other) = rest.iter().find(|v| c.chain(**v).sched != c.chain(*first).sched) else { continue };
        let at = |v: super::Visit| c.at(&format!("spec.chains[{}].sched", v.chain));
        let message = format!("found another `sched` for the NF `{name}`, which the chain shares, expected the same");
        let diagnostic = Diagnostic::error(at(*other), message)
            .related(at(*first), "the other is")
            .help(format!("give `{name}` a `sched` of its own"));
        c.push(diagnostic);
    }
}

fn cores(c: &mut Check<'_>) {
    let Some(host) = c.host.cores.filter(|cores| !cores.is_empty()) else { return };
    let mut places: Vec<(usize, String)> = Vec::new();
    let defaults = &c.spec.defaults;
    places.extend(defaults.manager_core.map(|core| (core, "spec.defaults.manager_core".to_owned())));
    let list = |cores: &[usize], path: &str| -> Vec<(usize, String)> {
        cores.iter().enumerate().map(|(i, core)| (*core, format!("{path}.cores[{i}]"))).collect()
    };
    places.extend(list(&defaults.cores, "spec.defaults"));
    places.extend(c.spec.cores.keys().map(|core| (*core, format!("spec.cores.{core}"))));
    for (name, nf) in c.nfs() {
        places.extend(list(&nf.cores, &format!("spec.nfs.{name}")));
    }
    for (core, place) in places {
        if !host.contains(&core) {
            c.error(&place, format!("found core {core}, expected one that this host has: {}", ranges(host)));
        }
    }
}

/// `0-3, 8`
fn ranges(cores: &[usize]) -> String {
    let mut sorted = cores.to_vec();
    sorted.sort_unstable();
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for core in sorted {
        match runs.last_mut() {
            Some((_, last)) if core <= last.saturating_add(1) => *last = core,
            _ => runs.push((core, core)),
        }
    }
    let text = |(a, b): &(usize, usize)| if a == b { a.to_string() } else { format!("{a}-{b}") };
    runs.iter().map(text).collect::<Vec<_>>().join(", ")
}

fn kinds(c: &mut Check<'_>) {
    let Some(kinds) = c.host.kinds else { return };
    for (name, nf) in c.nfs() {
        if !nf.kind.is_empty() && !nf.kind.contains('/') && !kinds.contains(&nf.kind.as_str()) {
            let help = Check::suggestion(&nf.kind, "kinds", kinds.iter().copied());
            let message =
                format!("found the kind `{}`, expected a built-in one or a path such as ./libmine.so", nf.kind);
            c.push(Diagnostic::error(c.at(&format!("spec.nfs.{name}.kind")), message).help(help));
        }
    }
}

fn sizes(c: &mut Check<'_>, name: &str, nf: &Nf) {
    let batch = nf.batch.unwrap_or(c.spec.defaults.batch);
    let queue = nf.queue.unwrap_or(c.spec.defaults.queue);
    if u32::from(batch) > queue {
        let field = if nf.queue.is_some() || nf.batch.is_none() { "queue" } else { "batch" };
        let message = format!("found a queue of {queue} packets and a batch of {batch}, expected room for a batch");
        c.error(&format!("spec.nfs.{name}.{field}"), message);
    }
}

/// The kernel refuses SCHED_DEADLINE to a task that may not run on every core of its root domain (sched(7)).
fn deadline(c: &mut Check<'_>, name: &str, nf: &Nf) {
    let policy = crate::inherit::sched(c.spec, &[name], &nf.cores).policy;
    let pinned = !nf.cores.is_empty() || !c.spec.defaults.cores.is_empty();
    if policy == Policy::Deadline && pinned {
        let message = format!(
            "the NF `{name}` has the policy `deadline` and cores of its own: the kernel allows both only inside an \
             exclusive cpuset"
        );
        c.push(Diagnostic::warning(c.at(&format!("spec.nfs.{name}.sched")), message));
    }
}
