//! The accounts: received = transmitted + dropped + held, for each chain and for all, at every instant (D7).
//!
//! A packet is on the account of the chain that admitted it, wherever it leaves or ends.

use chainline_chain::plan::Plan;
use chainline_runtime::host::TAG_BAD_VERDICT;
use chainline_shm::Desc;
use hdrhistogram::Histogram;

/// The longest latency told apart: one minute.
const LONGEST_NS: u64 = 60_000_000_000;
/// Histograms are copied into snapshots during a run only for so many chains: it takes tens of microseconds each.
const LIVE_HISTOGRAMS: usize = 16;

/// One chain's account.
#[derive(Clone)]
pub struct ChainLedger {
    /// Packets that the classifier gave to the chain.
    pub received: u64,
    /// Their bytes, without FCS.
    pub received_bytes: u64,
    /// Packets that a port took.
    pub transmitted: u64,
    /// Their bytes, without FCS.
    pub transmitted_bytes: u64,
    /// Dropped at the entry, before any work, as there was no room.
    pub shed: u64,
    /// Dropped at the entry, as the tenant had no free buffer.
    pub no_buffer: u64,
    /// Dropped by an NF: `drops[hop * 256 + reason]`.
    pub drops: Vec<u64>,
    /// In the hands of an instance that died, or made away with by one.
    pub nf_died: u64,
    /// Waiting in the queue of an instance that stayed dead.
    pub nf_down: u64,
    /// Ready to leave when the run ended, but the port took no more: lost after work.
    pub port_full: u64,
    /// Inside the chain.
    pub held: u64,
    /// Nanoseconds from receipt to hand-over to the egress port.
    pub latency: Option<Histogram<u64>>,
}

impl ChainLedger {
    /// Dropped for whatever reason.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.shed + self.no_buffer + self.nf_died + self.nf_down + self.port_full + self.drops.iter().sum::<u64>()
    }
}

/// What a port did.
#[derive(Clone, Copy, Debug, Default)]
pub struct PortLedger {
    /// Received, but no chain matched.
    pub no_match: u64,
    /// Received and lost before the classifier.
    pub loss: crate::ports::PortLoss,
}

/// All accounts.
pub struct Ledger {
    pub(crate) chains: Vec<ChainLedger>,
    pub(crate) ports: Vec<PortLedger>,
    /// Drops by NF and reason.
    pub(crate) nf_drops: Vec<[u64; 256]>,
    /// Descriptors refused by the manager.
    pub(crate) refused: u64,
}

impl Ledger {
    pub(super) fn new(plan: &Plan) -> Self {
        let chains = plan.chains.iter().map(|c| ChainLedger {
            received: 0,
            received_bytes: 0,
            transmitted: 0,
            transmitted_bytes: 0,
            shed: 0,
            no_buffer: 0,
            drops: vec![0; c.hops.len() * 256],
            nf_died: 0,
            nf_down: 0,
            port_full: 0,
            held: 0,
            latency: Histogram::new_with_bounds(1, LONGEST_NS, 3).ok(),
        });
        Self {
            chains: chains.collect(),
            ports: vec![PortLedger::default(); plan.ports.len()],
            nf_drops: vec![[0; 256]; plan.nfs.len()],
            refused: 0,
        }
    }

    /// `n` packets of a chain left after `ns` nanoseconds.
    #[inline]
    pub(super) fn latency(&mut self, chain: u16, ns: u64, n: u64) {
        if n > 0
            && let Some(h) = &mut self.chains[usize::from(chain)].latency
        {
            h.saturating_record_n(ns.max(1), n);
        }
    }

    /// An NF of `instance` dropped a packet that `chain` admitted. Where it happened is the instance's allegation:
    /// a place that is not the instance's counts at its first NF, as a bad verdict.
    #[inline]
    pub(super) fn dropped(&mut self, plan: &Plan, instance: usize, chain: u16, desc: Desc) {
        let (mut tag, hop) = (desc.tag, usize::from(desc.hop));
        let alleged = plan.chains.get(usize::from(desc.chain)).and_then(|c| c.hops.get(hop)).copied();
        let hosted = &plan.instances[instance].nfs;
        let nf = alleged.filter(|nf| hosted.contains(nf)).unwrap_or_else(|| {
            tag = TAG_BAD_VERDICT;
            hosted[0]
        });
        self.nf_drops[nf][usize::from(tag)] += 1;
        let hops = &plan.chains[usize::from(chain)].hops;
        // After a divert the packet may end at an NF that its own chain does not have: its last hop stands for that.
        let place = hops.iter().position(|h| *h == nf).unwrap_or(hops.len() - 1);
        self.chains[usize::from(chain)].drops[place * 256 + usize::from(tag)] += 1;
    }
}

/// The accounts at one instant.
pub struct Snapshot {
    /// Nanoseconds since the manager's clock began.
    pub at_ns: u64,
    /// By chain.
    pub chains: Vec<ChainLedger>,
    /// By port.
    pub ports: Vec<PortLedger>,
    /// Drops by NF and reason.
    pub nf_drops: Vec<[u64; 256]>,
    /// Descriptors refused by the manager.
    pub refused: u64,
    /// Fill of each queue, in packets.
    pub queues: Vec<u32>,
    /// Packets inside, counted buffer by buffer rather than from the accounts: the other side of the balance.
    pub held_counted: u64,
    /// Ports that could not be closed properly.
    pub close_errors: Vec<String>,
}

impl super::Dataplane {
    /// The accounts now; histograms and the count of buffers always when it is the last.
    pub(super) fn snapshot(&mut self, last: bool) -> Box<Snapshot> {
        for i in &self.ingress {
            self.ledger.ports[i.port].loss = self.ports[i.port].loss();
        }
        let keep = last || self.ledger.chains.len() <= LIVE_HISTOGRAMS;
        let pending: usize = self.egress.iter().map(|e| e.pending.len()).sum();
        let mut chains: Vec<ChainLedger> = if keep {
            self.ledger.chains.clone()
        } else {
            let mut copies = Vec::with_capacity(self.ledger.chains.len());
            for c in &mut self.ledger.chains {
                let latency = c.latency.take();
                copies.push(c.clone());
                c.latency = latency;
            }
            copies
        };
        for (c, e) in chains.iter_mut().zip(&self.entries) {
            c.held = e.inside;
        }
        for (_, chain) in self.egress.iter().flat_map(|e| &e.pending) {
            chains[usize::from(*chain)].held += 1;
        }
        Box::new(Snapshot {
            at_ns: self.clock.now_ns(),
            chains,
            ports: self.ledger.ports.clone(),
            nf_drops: self.ledger.nf_drops.clone(),
            refused: self.ledger.refused,
            queues: self.fabric.rings.iter().map(chainline_shm::Ring::len).collect(),
            held_counted: self.tenants.iter().map(crate::buffers::Buffers::count_inside).sum::<u64>() + pending as u64,
            close_errors: self.close_errors.iter().map(ToString::to_string).collect(),
        })
    }
}
