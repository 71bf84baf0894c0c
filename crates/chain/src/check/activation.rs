//! How NFs wait for packets: what goes with what, and who would take a core from others.

use super::Check;
use crate::diag::Diagnostic;
use crate::model::{Activation, Nf};
use crate::plan;
use crate::{cores, fuse, inherit};

pub(super) fn check(c: &mut Check<'_>) {
    spins(c);
    polls(c);
}

/// `spin_us` means something to hybrid NFs only.
fn spins(c: &mut Check<'_>) {
    let general = c.spec.defaults.activation;
    for (name, nf) in c.nfs() {
        if nf.spin_us.is_some() && nf.activation.or(general) != Some(Activation::Hybrid) {
            let message = format!("found `spin_us` of `{name}`, expected it with `activation: hybrid` only");
            c.error(&format!("spec.nfs.{name}.spin_us"), message);
        }
    }
    let hybrid = |a: Option<Activation>| a == Some(Activation::Hybrid);
    if c.spec.defaults.spin_us.is_some() && !hybrid(general) && !c.nfs().any(|(_, nf)| hybrid(nf.activation)) {
        c.error("spec.defaults.spin_us", "found `spin_us`, expected it with `activation: hybrid` only");
    }
}

/// A polling NF takes its core from whoever else is there.
fn polls(c: &mut Check<'_>) {
    let Some(host) = c.host.cores.filter(|cores| !cores.is_empty()) else { return };
    let (manager, base) = (cores::manager(c.spec, host), cores::base(c.spec, host));
    let groups: Vec<Vec<(&str, &Nf)>> = fuse::groups(c.spec)
        .iter()
        .map(|group| group.iter().filter_map(|i| c.spec.nfs.get_index(*i)).map(|(n, nf)| (n.as_str(), nf)).collect())
        .filter(|group: &Vec<_>| group.iter().any(|(name, _)| !c.visits(name).is_empty()))
        .collect();
    let replicas = groups.iter().map(|g| (fuse::replicas(g.iter().map(|(_, nf)| *nf)), g));
    let instances: Vec<(&Vec<_>, Vec<usize>)> = replicas
        .flat_map(|(n, g)| {
            let cores = cores::of(g.iter().map(|(_, nf)| *nf), &base);
            (0..n).map(move |k| (g, cores::of_replica(&cores, k, n)))
        })
        .collect();
    let shared = cores::shared(manager, &instances.iter().map(|(_, cores)| cores.as_slice()).collect::<Vec<_>>());
    let mut said = None;
    for ((group, _), shared) in instances.iter().zip(shared) {
        let Some((first, _)) = group.first() else { continue };
        // Once for all replicas.
        if !shared
            || said == Some(first)
            || inherit::activation(c.spec, group.iter().map(|(_, nf)| *nf), true) != plan::Activation::Poll
        {
            continue;
        }
        said = Some(first);
        let own = group.iter().map(|(n, _)| format!("spec.nfs.{n}.activation")).find(|path| c.file.source.has(path));
        let place = c.at(&own.unwrap_or_else(|| "spec.defaults.activation".to_owned()));
        let message = format!(
            "the NF `{first}` polls on a core that it shares: it takes time from the others there whether it has packets \
             or not"
        );
        let help = "give it a core of its own, or `activation: wake` or `hybrid`";
        c.push(Diagnostic::warning(place, message).help(help));
    }
}
