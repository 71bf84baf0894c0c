//! Which cores an instance may run on, and whether somebody else may run there.

use crate::model::{Nf, Spec};
use std::collections::HashMap;

/// The manager's core. `host` lists the cores that there are in the order of preference.
pub fn manager(spec: &Spec, host: &[usize]) -> usize {
    spec.defaults.manager_core.or(host.first().copied()).unwrap_or(0)
}

/// The cores of NFs that name none.
pub fn base(spec: &Spec, host: &[usize]) -> Vec<usize> {
    if !spec.defaults.cores.is_empty() {
        return spec.defaults.cores.clone();
    }
    let manager = manager(spec, host);
    let others: Vec<usize> = host.iter().copied().filter(|c| *c != manager).collect();
    if others.is_empty() { vec![manager] } else { others }
}

/// The cores of an instance with these NFs.
pub fn of<'a>(mut nfs: impl Iterator<Item = &'a Nf>, base: &[usize]) -> Vec<usize> {
    nfs.find(|nf| !nf.cores.is_empty()).map_or_else(|| base.to_vec(), |nf| nf.cores.clone())
}

/// The cores of replica `k` of `replicas`: they are dealt out in turn. Fewer cores than replicas are shared.
pub fn of_replica(cores: &[usize], k: usize, replicas: usize) -> Vec<usize> {
    let n = cores.len().max(1);
    if replicas >= n {
        return cores.get(k % n).copied().into_iter().collect();
    }
    cores.iter().skip(k).step_by(replicas).copied().collect()
}

/// For each of `instances`, given by their cores, whether the manager or another may run on one of them.
pub fn shared(manager: usize, instances: &[&[usize]]) -> Vec<bool> {
    let mut users: HashMap<usize, usize> = HashMap::from([(manager, 1)]);
    for core in instances.iter().flat_map(|cores| cores.iter()) {
        *users.entry(*core).or_default() += 1;
    }
    instances.iter().map(|cores| cores.iter().any(|core| users.get(core).is_some_and(|n| *n > 1))).collect()
}
