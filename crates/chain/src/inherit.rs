//! Whose scheduling an instance has: its NFs' own, that of their chains, that of its cores, the defaults; the first
//! that there is, whole.

use crate::model::{Sched, Spec};

/// The scheduling of the instance with these NFs on these cores.
pub fn sched(spec: &Spec, nfs: &[&str], cores: &[usize]) -> Sched {
    let own = || nfs.iter().find_map(|n| spec.nfs.get(*n)?.sched);
    let chain =
        || spec.chains.iter().filter(|c| c.hops().iter().any(|h| nfs.contains(&h.as_str()))).find_map(|c| c.sched);
    let core = || cores.iter().find_map(|c| spec.cores.get(c)?.sched);
    own().or_else(chain).or_else(core).unwrap_or(spec.defaults.sched)
}
