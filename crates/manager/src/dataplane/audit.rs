//! The audit: finds packets that an instance took with it.
//!
//! An instance that dies has packets in hand, and one that corrupts a descriptor makes a packet's buffer
//! unreachable. Neither can be asked. So the chains concerned admit nothing for the few milliseconds until they are
//! empty: every queue is, and every instance has made a whole pass, or slept, since. A buffer that is still inside
//! then, and that no instance shows as held, is lost, and comes back as a counted drop. Other chains go on.

use super::{Dataplane, Event};
use chainline_shm::Desc;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

/// An audit that waits so long (an NF hangs, say) gives up; the next event begins another.
const PATIENCE_NS: u64 = 2_000_000_000;
/// Passes over its queues after which an instance has handed on whatever it had when the first began.
const PASSES: u64 = 2;

/// An audit that waits for chains to be empty.
pub(crate) struct Audit {
    chains: Vec<bool>,
    began: u64,
    /// Set when all queues were seen empty: their producers' indexes and the instances' passes then.
    seen: Option<Seen>,
}

struct Seen {
    pushed: Vec<u32>,
    passes: Vec<u64>,
}

impl Audit {
    pub fn covers(&self, chain: usize) -> bool {
        self.chains[chain]
    }
}

impl Dataplane {
    /// Begins an audit of all chains that an instance serves, or widens the one that runs.
    pub(super) fn begin_audit(&mut self, instance: usize, now: u64) {
        let mut chains = self.audit.take().map_or_else(|| vec![false; self.plan.chains.len()], |a| a.chains);
        self.plan.instances[instance].queues.iter().for_each(|q| chains[q.chain] = true);
        // Diverted packets are on the account of the chain that they came from: take both ends of every divert.
        loop {
            let before = chains.clone();
            for q in self.plan.instances.iter().flat_map(|i| &i.queues) {
                for &d in q.stages.iter().flat_map(|s| &s.divert) {
                    let target = self.plan.edges[d].chain;
                    let either = chains[q.chain] || chains[target];
                    (chains[q.chain], chains[target]) = (either, either);
                }
            }
            if before == chains {
                break;
            }
        }
        self.audit = Some(Audit { chains, began: now, seen: None });
        self.unpause();
    }

    /// One step of the audit, if one runs.
    pub(super) fn step_audit(&mut self, now: u64) {
        let Some(audit) = &self.audit else { return };
        if self.clock.ns(now - audit.began.min(now)) > PATIENCE_NS {
            self.audit = None;
            self.unpause();
            return;
        }
        let edges: Vec<usize> =
            (0..self.plan.edges.len()).filter(|&e| audit.covers(self.plan.edges[e].chain)).collect();
        let instances: Vec<usize> = (0..self.instances.len())
            .filter(|&i| self.plan.instances[i].queues.iter().any(|q| audit.covers(q.chain)))
            .collect();
        let empty = edges.iter().all(|&e| self.fabric.rings[e].is_empty())
            && instances.iter().all(|&i| self.fabric.returns[i].is_empty())
            && self.egress.iter().all(|e| e.pending.is_empty());
        if !empty {
            if let Some(audit) = &mut self.audit {
                audit.seen = None;
            }
            return;
        }
        let pushed: Vec<u32> = edges.iter().map(|&e| self.fabric.rings[e].pushed()).collect();
        let status = |i: usize, f: fn(&chainline_shm::page::Status) -> u64| {
            self.instances[i].page.as_ref().map(|p| f(p.status()))
        };
        let quiet = |i: &usize, before: u64| {
            // No page: dead, and has nothing.
            status(*i, |s| u64::from(s.busy.load(Acquire))).is_none_or(|busy| {
                busy == 0 || status(*i, |s| s.passes.load(Acquire)).is_none_or(|p| p.wrapping_sub(before) >= PASSES)
            })
        };
        match &audit.seen {
            Some(seen) if seen.pushed == pushed => {
                if instances.iter().zip(&seen.passes).all(|(i, before)| quiet(i, *before)) {
                    self.reclaim(&instances);
                }
            }
            _ => {
                let passes = instances.iter().map(|&i| status(i, |s| s.passes.load(Acquire)).unwrap_or(0)).collect();
                if let Some(audit) = &mut self.audit {
                    audit.seen = Some(Seen { pushed, passes });
                }
            }
        }
    }

    fn reclaim(&mut self, instances: &[usize]) {
        let Some(audit) = self.audit.take() else { return };
        let held = self.held_by(instances);
        let mut packets = 0;
        for t in 0..self.tenants.len() {
            let (ledger, entries) = (&mut self.ledger, &mut self.entries);
            self.tenants[t].claim_lost(&audit.chains, &held, |chain| {
                ledger.chains[usize::from(chain)].nf_died += 1;
                entries[usize::from(chain)].inside -= 1;
                packets += 1;
            });
        }
        self.unpause();
        if packets > 0 {
            let _ = self.events.send(Event::Reclaimed { packets });
        }
    }

    /// Buffers that living instances show as held.
    pub(super) fn held_by(&self, instances: &[usize]) -> Vec<u32> {
        let pages = instances.iter().filter_map(|&i| self.instances[i].page.as_ref());
        let words = pages.flat_map(|p| p.holds().chunks_exact(2));
        words
            .map(|w| Desc::from_words(w[0].load(Relaxed), w[1].load(Relaxed)))
            .filter(|d| *d != Desc::default())
            .map(|d| d.buf.index())
            .collect()
    }
}
