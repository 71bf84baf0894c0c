//! Whose scheduling an instance has: its NFs' own, that of their chains, that of its cores, the defaults; the first
//! that there is, whole. And how it waits for packets: as its NFs say, else as the defaults say.

use crate::model::{Activation, DEFAULT_SPIN_US, Nf, Sched, Spec};
use crate::plan;

/// The scheduling of the instance with these NFs on these cores.
pub fn sched(spec: &Spec, nfs: &[&str], cores: &[usize]) -> Sched {
    let own = || nfs.iter().find_map(|n| spec.nfs.get(*n)?.sched);
    let chain =
        || spec.chains.iter().filter(|c| c.hops().iter().any(|h| nfs.contains(&h.as_str()))).find_map(|c| c.sched);
    let core = || cores.iter().find_map(|c| spec.cores.get(c)?.sched);
    own().or_else(chain).or_else(core).unwrap_or(spec.defaults.sched)
}

/// How the instance with these NFs waits for packets.
pub fn activation<'a>(spec: &Spec, nfs: impl Iterator<Item = &'a Nf>, shares_core: bool) -> plan::Activation {
    let (mut own, mut spin_us) = (None, None);
    for nf in nfs {
        own = own.or(nf.activation);
        spin_us = spin_us.or(nf.spin_us);
    }
    // Who is alone on a core takes nothing from anybody by looking, and saves the cost of being woken.
    let usual = if shares_core { Activation::Wake } else { Activation::Hybrid };
    match own.or(spec.defaults.activation).unwrap_or(usual) {
        Activation::Wake => plan::Activation::Wake,
        Activation::Poll => plan::Activation::Poll,
        Activation::Hybrid => {
            plan::Activation::Hybrid { spin_us: spin_us.or(spec.defaults.spin_us).unwrap_or(DEFAULT_SPIN_US) }
        }
    }
}
