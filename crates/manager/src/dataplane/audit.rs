//! The audit: finds packets that an instance took with it.
//!
//! An instance that dies has packets in hand, and one that corrupts a descriptor makes a packet's buffer
//! unreachable. Neither can be asked. So the chains concerned admit nothing for the few milliseconds until they are
//! empty: every queue is, and every instance has made a whole pass, or slept, since. A buffer that is still inside
//! then, and that no instance shows as held, is lost, and comes back as a counted drop. Other chains go on.

use super::{Dataplane, Event};
use chainline_shm::{BufId, Consumer, Desc};
use std::collections::HashSet;
use std::sync::atomic::{
    Ordering::{Acquire, Relaxed},
    fence,
};

/// An audit that waits so long (an NF hangs, say) gives up; the next death, or the end, begins another.
const PATIENCE_NS: u64 = 2_000_000_000;
/// Passes over its queues after which an instance has handed on whatever it had when the first began.
const PASSES: u64 = 2;

/// An audit that waits for chains to be empty.
pub(crate) struct Audit {
    chains: Vec<bool>,
    began: u64,
    /// Set when all queues were seen empty.
    seen: Option<Seen>,
}

/// What was seen when all queues were empty, by edge and by instance.
struct Seen {
    pushed: Vec<u32>,
    /// Packets that it had ever taken into holding.
    entered: Vec<u64>,
    passes: Vec<u64>,
    /// What was held then, by tenant.
    held: Vec<HashSet<BufId>>,
}

impl Audit {
    /// There are so many chains now.
    pub fn widen(&mut self, chains: usize) {
        self.chains.resize(chains, false);
    }

    pub fn covers(&self, chain: usize) -> bool {
        self.chains[chain]
    }
}

impl Dataplane {
    /// Begins an audit of all chains that an instance serves, or widens the one that runs.
    pub(super) fn begin_audit(&mut self, instance: usize, now: u64) {
        let plan = self.plan.clone();
        self.audit_chains(plan.instances[instance].queues.iter().map(|q| q.chain), now);
    }

    /// Nothing more comes in and no queue has anything, but packets are inside: somebody made away with them, or holds
    /// them. Without an audit the run would never end.
    pub(super) fn audit_the_rest(&mut self, now: u64) {
        let idle = self.audit.is_none() && now >= self.audit_again;
        if idle && self.fabric.rings.iter().chain(&self.fabric.returns).all(chainline_shm::Ring::is_empty) {
            self.audit_again = now + self.clock.ticks_in(PATIENCE_NS);
            let inside: Vec<usize> = (0..self.entries.len()).filter(|&c| self.entries[c].inside > 0).collect();
            self.audit_chains(inside.into_iter(), now);
        }
    }

    fn audit_chains(&mut self, concerned: impl Iterator<Item = usize>, now: u64) {
        let mut chains = self.audit.take().map_or_else(|| vec![false; self.plan.chains.len()], |a| a.chains);
        concerned.for_each(|c| chains[c] = true);
        // Diverted packets are on the account of the chain that they came from: take both ends of every divert.
        loop {
            let before = chains.clone();
            for q in self.plan.instances.iter().flat_map(|i| &i.queues) {
                for d in q.stages.iter().flat_map(|s| &s.divert).flat_map(|way| way.edges().iter().copied()) {
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
        // Who is being started may run already, and what it takes nobody can see before its page is here.
        if instances.iter().any(|&i| self.instances[i].reviving) {
            self.see(None);
            return;
        }
        // The order of looks matters, as instances go on meanwhile. What one has in hand it hands on, or shows as held
        // and counts as entered, before it is not busy any more, or has made two passes. While none enters, whatever is
        // in hand after these passes was held before or belongs to other chains. So: first what is to stay the same,
        // then who is quiet, then what is held, then both again.
        let quiet = || audit.seen.as_ref().is_some_and(|seen| self.all_quiet(&instances, seen));
        let held = quiet().then(|| self.held_by(&instances));
        fence(Acquire);
        let held = held.filter(|_| quiet());
        let pushed: Vec<u32> = edges.iter().map(|&e| self.fabric.rings[e].pushed()).collect();
        let empty = edges.iter().all(|&e| self.fabric.rings[e].is_empty())
            && instances.iter().all(|&i| self.fabric.returns[i].is_empty());
        match (&audit.seen, held) {
            (Some(seen), _) if !empty || seen.pushed != pushed => self.see(None),
            (Some(seen), Some(mut held)) => {
                held.iter_mut().zip(&seen.held).for_each(|(all, then)| all.extend(then));
                self.reclaim(&held);
            }
            (None, _) if empty => {
                let entered = instances.iter().map(|&i| self.entered(i)).collect();
                let held = self.held_by(&instances);
                fence(Acquire);
                let passes = instances.iter().map(|&i| self.passes(i)).collect();
                self.see(Some(Seen { pushed, entered, passes, held }));
            }
            _ => {}
        }
    }

    fn see(&mut self, seen: Option<Seen>) {
        if let Some(audit) = &mut self.audit {
            audit.seen = seen;
        }
    }

    /// Whether no instance has a packet in hand that it had, or could have got from a queue, when `seen` was seen.
    fn all_quiet(&self, instances: &[usize], seen: &Seen) -> bool {
        instances.iter().zip(seen.passes.iter().zip(&seen.entered)).all(|(&i, (passes, entered))| {
            // No page: dead, and has nothing.
            let Some(page) = &self.instances[i].page else { return true };
            let idle = page.status().busy.load(Acquire) == 0;
            idle || self.passes(i).wrapping_sub(*passes) >= PASSES && self.entered(i) == *entered
        })
    }

    fn passes(&self, instance: usize) -> u64 {
        self.instances[instance].page.as_ref().map_or(0, |p| p.status().passes.load(Acquire))
    }

    /// Packets that the NFs of an instance ever took into holding.
    fn entered(&self, instance: usize) -> u64 {
        let page = self.instances[instance].page.as_ref();
        let nfs = 0..self.plan.instances[instance].nfs.len();
        // Its own word: it may wrap.
        page.map_or(0, |p| nfs.fold(0, |sum, nf| sum.wrapping_add(p.nf(nf).held.load(Acquire))))
    }

    fn reclaim(&mut self, held: &[HashSet<BufId>]) {
        let Some(audit) = self.audit.take() else { return };
        let packets = self.claim_lost(&audit.chains, held);
        self.unpause();
        if packets > 0 {
            let _ = self.events.send(Event::Reclaimed { packets });
        }
    }

    /// The last audit, when all instances have ended: what is in no queue and not shown as held went with one of them.
    pub(super) fn audit_at_the_end(&mut self) {
        let all: Vec<usize> = (0..self.instances.len()).collect();
        let mut spare = self.held_by(&all);
        for (edge, ring) in self.plan.edges.iter().zip(&self.fabric.rings) {
            let mut queue = Consumer::attach(ring.clone());
            let queued = (0..queue.available(ring.capacity())).map(|i| queue.peek(i).buf);
            spare[self.entries[edge.chain].tenant].extend(queued);
        }
        self.claim_lost(&vec![true; self.entries.len()], &spare);
    }

    /// Takes back every packet of `chains` that is not in `spare`, by tenant. Returns how many.
    fn claim_lost(&mut self, chains: &[bool], spare: &[HashSet<BufId>]) -> u64 {
        let Self { tenants, ledger, entries, .. } = self;
        let mut packets = 0;
        for (tenant, spare) in tenants.iter_mut().zip(spare) {
            tenant.claim_lost(chains, spare, |chain, at| {
                ledger.account(usize::from(chain), at).nf_died += 1;
                entries[usize::from(chain)].inside -= 1;
                packets += 1;
            });
        }
        packets
    }

    /// Buffers that living instances show as held, by tenant.
    fn held_by(&self, instances: &[usize]) -> Vec<HashSet<BufId>> {
        let mut held = vec![HashSet::new(); self.tenants.len()];
        for &i in instances {
            let (Some(page), Some(queue)) = (&self.instances[i].page, self.plan.instances[i].queues.first()) else {
                continue;
            };
            let words = page.holds().chunks_exact(2);
            let descs = words.map(|w| Desc::from_words(w[0].load(Relaxed), w[1].load(Relaxed)));
            held[self.entries[queue.chain].tenant].extend(descs.filter(|d| *d != Desc::default()).map(|d| d.buf));
        }
        held
    }
}
