//! Which chains' packets can come to a place: a descriptor that names another chain's packet is somebody's invention,
//! and that packet is still where it was (D2: ownership is checked before use).

use chainline_chain::plan::Plan;
use std::collections::BTreeSet;

/// The chains whose packets may come to one place.
#[derive(Clone, Debug)]
pub(crate) struct Origins {
    /// The usual one, told without a look at the rest.
    own: u16,
    /// A bit for each chain; empty if there is only the usual one.
    all: Box<[u64]>,
}

impl Origins {
    fn new(chains: &BTreeSet<u16>, total: usize) -> Self {
        let own = chains.first().copied().unwrap_or(u16::MAX);
        let mut all = vec![0; if chains.len() > 1 { total.div_ceil(64) } else { 0 }];
        if chains.len() > 1 {
            chains.iter().for_each(|c| all[usize::from(*c) / 64] |= 1 << (c % 64));
        }
        Self { own, all: all.into() }
    }

    /// Whether a packet that `chain` admitted may come here.
    #[inline]
    pub fn have(&self, chain: u16) -> bool {
        chain == self.own || self.all.get(usize::from(chain) / 64).is_some_and(|word| word & 1 << (chain % 64) != 0)
    }

    /// All of them.
    pub fn chains(&self) -> impl Iterator<Item = u16> + '_ {
        let only = Some(self.own).filter(|c| self.all.is_empty() && *c != u16::MAX);
        let bits = self
            .all
            .iter()
            .zip(0u16..)
            .flat_map(|(word, i)| (0..64).filter(move |bit| word & 1 << bit != 0).map(move |bit| i * 64 + bit));
        only.into_iter().chain(bits)
    }

    /// For each edge and for the return queue of each instance.
    pub fn of(plan: &Plan) -> (Vec<Self>, Vec<Self>) {
        let mut edges: Vec<BTreeSet<u16>> = vec![BTreeSet::new(); plan.edges.len()];
        for (c, chain) in plan.chains.iter().enumerate() {
            chain.entry.edges().iter().for_each(|e| _ = edges[*e].insert(c as u16));
        }
        // Along the paths and the diverts until nothing new comes anywhere.
        let mut changed = true;
        while changed {
            changed = false;
            for q in plan.instances.iter().flat_map(|i| &i.queues) {
                let from = edges[q.edge].clone();
                for to in q.outs() {
                    let before = edges[to].len();
                    edges[to].extend(&from);
                    changed |= edges[to].len() > before;
                }
            }
        }
        let total = plan.chains.len();
        let returns = plan.instances.iter().map(|i| {
            let all = i.queues.iter().flat_map(|q| edges[q.edge].iter().copied()).collect();
            Self::new(&all, total)
        });
        let returns = returns.collect();
        (edges.iter().map(|e| Self::new(e, total)).collect(), returns)
    }
}
