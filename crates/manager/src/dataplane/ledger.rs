//! The accounts: received = transmitted + dropped + held, for each chain and for all, at every instant (D7).
//!
//! A packet is on the account of the chain that admitted it, wherever it leaves or ends.

use crate::ports::Checked;
use chainline_chain::plan::Plan;
use chainline_runtime::host::{TAG_BAD_VERDICT, TAG_QUEUE_FULL};
use chainline_shm::Desc;
use hdrhistogram::Histogram;

/// The longest latency told apart: one minute.
const LONGEST_NS: u64 = 60_000_000_000;
/// Histograms are copied into snapshots during a run only for so many chains: it takes tens of microseconds each.
const LIVE_HISTOGRAMS: usize = 16;

/// A stretch of time, in ticks. Packets that were received, or due, in it are on accounts of their own: those of a
/// trial's window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    from: u64,
    len: u64,
}

impl Span {
    /// From `from` to just before `until`.
    pub fn new(from: u64, until: u64) -> Self {
        Self { from, len: until.saturating_sub(from) }
    }

    /// Whether `at` lies in it. An empty one has nothing.
    #[inline]
    pub fn has(self, at: u64) -> bool {
        at.wrapping_sub(self.from) < self.len
    }
}

/// The mean difference of the latencies of packets that left one after the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Jitter {
    last: Option<u64>,
    /// Sum of the differences.
    pub sum_ns: u64,
    /// How many.
    pub count: u64,
}

impl Jitter {
    /// `n` more packets, all with this latency.
    #[inline]
    pub fn record(&mut self, ns: u64, n: u64) {
        let before = self.last.replace(ns);
        self.sum_ns = self.sum_ns.saturating_add(before.map_or(0, |b| b.abs_diff(ns)));
        self.count += n - u64::from(before.is_none());
    }

    /// Takes the differences of another series together with these.
    pub fn add(&mut self, other: &Self) {
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
        self.count += other.count;
    }

    /// The mean in nanoseconds; none of fewer than two packets.
    #[must_use]
    pub fn mean_ns(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum_ns as f64 / self.count as f64)
    }
}

/// The longest time between two arrivals that follow each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gap {
    last: Option<u64>,
    longest: Option<u64>,
}

impl Gap {
    /// Something arrives at `now`, in ticks.
    #[inline]
    pub fn record(&mut self, now: u64) {
        let Some(last) = self.last.replace(now) else { return };
        self.longest = self.longest.max(Some(now.saturating_sub(last)));
    }

    /// In ticks; none of fewer than two arrivals.
    #[must_use]
    pub fn longest(&self) -> Option<u64> {
        self.longest
    }

    /// The longer one of two places.
    pub fn add(&mut self, other: &Self) {
        self.longest = self.longest.max(other.longest);
    }
}

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
    /// Came, or was inside, while the chain was changed at run time, and could not wait.
    pub reconfigured: u64,
    /// Ready to leave when the run ended, but the port took no more: lost after work.
    pub port_full: u64,
    /// Marked "congestion experienced".
    pub ecn_marked: u64,
    /// Inside the chain.
    pub held: u64,
    /// Nanoseconds from receipt to hand-over to the egress port.
    pub latency: Option<Histogram<u64>>,
    /// Of the latencies; kept in windows alone.
    pub jitter: Jitter,
    /// Between packets that left; kept in windows alone.
    pub gap: Gap,
}

impl ChainLedger {
    /// The account of a chain with so many hops, empty.
    pub(crate) fn new(hops: usize) -> Self {
        Self {
            received: 0,
            received_bytes: 0,
            transmitted: 0,
            transmitted_bytes: 0,
            shed: 0,
            no_buffer: 0,
            drops: vec![0; hops * 256],
            nf_died: 0,
            nf_down: 0,
            reconfigured: 0,
            port_full: 0,
            ecn_marked: 0,
            held: 0,
            latency: latencies(),
            jitter: Jitter::default(),
            gap: Gap::default(),
        }
    }

    /// Takes what is on another account on this one.
    pub(crate) fn add(&mut self, other: &Self) {
        self.received += other.received;
        self.received_bytes += other.received_bytes;
        self.transmitted += other.transmitted;
        self.transmitted_bytes += other.transmitted_bytes;
        self.shed += other.shed;
        self.no_buffer += other.no_buffer;
        self.drops.resize(self.drops.len().max(other.drops.len()), 0);
        self.drops.iter_mut().zip(&other.drops).for_each(|(sum, n)| *sum += n);
        self.nf_died += other.nf_died;
        self.nf_down += other.nf_down;
        self.reconfigured += other.reconfigured;
        self.port_full += other.port_full;
        self.ecn_marked += other.ecn_marked;
        self.held += other.held;
        if let (Some(sum), Some(h)) = (&mut self.latency, &other.latency) {
            // Both have the same bounds, so this cannot fail.
            let _ = sum.add(h);
        }
    }

    /// Dropped for whatever reason.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.shed
            + self.no_buffer
            + self.nf_died
            + self.nf_down
            + self.reconfigured
            + self.port_full
            + self.drops.iter().sum::<u64>()
    }

    /// Dropped by each hop, as the queue behind it was full: only without credit.
    pub fn queue_full(&self) -> impl Iterator<Item = u64> + '_ {
        self.drops.chunks_exact(256).map(|reasons| reasons[usize::from(TAG_QUEUE_FULL)])
    }

    /// Dropped for lack of room after an NF had worked on them.
    #[must_use]
    pub fn wasted(&self) -> u64 {
        self.port_full + self.queue_full().sum::<u64>()
    }
}

/// An empty histogram of latencies in nanoseconds: three digits, up to a minute.
pub fn latencies() -> Option<Histogram<u64>> {
    Histogram::new_with_bounds(1, LONGEST_NS, 3).ok()
}

/// What a port did.
#[derive(Clone, Copy, Debug, Default)]
pub struct PortLedger {
    /// Received, but no chain matched.
    pub no_match: u64,
    /// Of these, in the window.
    pub no_match_in_window: u64,
    /// Received and lost before the classifier.
    pub loss: crate::ports::PortLoss,
}

impl PortLedger {
    /// Packets that came to no chain, by reason.
    pub fn lost(&self) -> [(&'static str, u64); 3] {
        [("no_match", self.no_match), ("no_buffer", self.loss.no_buffer), ("too_long", self.loss.too_long)]
    }
}

/// All accounts.
pub struct Ledger {
    /// Packets outside of the window.
    pub(super) chains: Vec<ChainLedger>,
    /// Packets in it; empty as long as there was none.
    pub(super) window: Vec<ChainLedger>,
    pub(super) span: Span,
    pub(crate) ports: Vec<PortLedger>,
    /// Drops by NF and reason.
    pub(crate) nf_drops: Vec<[u64; 256]>,
    /// Descriptors refused by the manager.
    pub(crate) refused: u64,
}

impl Ledger {
    pub(super) fn new(plan: &Plan) -> Self {
        let chains = plan.chains.iter().map(|c| ChainLedger::new(c.hops.len()));
        Self {
            chains: chains.collect(),
            window: Vec::new(),
            span: Span::default(),
            ports: vec![PortLedger::default(); plan.ports.len()],
            nf_drops: vec![[0; 256]; plan.nfs.len()],
            refused: 0,
        }
    }

    /// The account that a packet of `chain` is on which was received, or due, at `at`. Every packet is on one.
    #[inline]
    pub(super) fn account(&mut self, chain: usize, at: u64) -> &mut ChainLedger {
        if self.span.has(at) { &mut self.window[chain] } else { &mut self.chains[chain] }
    }

    /// Packets that came to a chain so far, and those of them that were not let in; in the window or not.
    pub(super) fn at_entry(&self, chain: usize) -> (u64, u64) {
        let of = |c: &ChainLedger| (c.received, c.shed + c.no_buffer);
        let (all, window) = (of(&self.chains[chain]), self.window.get(chain).map_or((0, 0), of));
        (all.0 + window.0, all.1 + window.1)
    }

    /// Packets of that time are on accounts of their own from now on. The last window's go to all others'.
    pub(super) fn open_window(&mut self, span: Span) {
        self.close_window();
        self.window = self.chains.iter().map(|c| ChainLedger::new(c.drops.len() / 256)).collect();
        self.span = span;
        self.ports.iter_mut().for_each(|p| p.no_match_in_window = 0);
    }

    /// Puts the window's packets on the accounts of all others, and returns what was on its own.
    pub(super) fn close_window(&mut self) -> Vec<ChainLedger> {
        self.span = Span::default();
        let window = std::mem::take(&mut self.window);
        self.chains.iter_mut().zip(&window).for_each(|(all, w)| all.add(w));
        window
    }

    /// `n` packets of a chain that were received, or due, at `at` left at `now`, in ticks, after `ns` nanoseconds.
    #[inline]
    pub(super) fn latency(&mut self, chain: u16, (at, now): (u64, u64), ns: u64, n: u64) {
        if n == 0 {
            return;
        }
        let in_window = self.span.has(at);
        let account = self.account(usize::from(chain), at);
        if let Some(h) = &mut account.latency {
            h.saturating_record_n(ns.max(1), n);
        }
        if in_window {
            account.jitter.record(ns, n);
            account.gap.record(now);
        }
    }

    /// An NF of `instance` dropped a packet that `chain` admitted. Where it happened is the instance's allegation:
    /// a place that is not the instance's counts at its first NF, as a bad verdict.
    #[inline]
    pub(super) fn dropped(&mut self, plan: &Plan, instance: usize, chain: u16, at: u64, desc: Desc) {
        let (mut tag, hop) = (desc.tag, usize::from(desc.hop));
        let alleged = plan.chains.get(usize::from(desc.chain)).and_then(|c| c.hops.get(hop)).copied();
        let hosted = &plan.instances[instance].nfs;
        // A path names the first of an NF's replicas.
        let own = |nf: usize| hosted.iter().copied().find(|h| *h == nf || plan.nfs[*h].first == nf);
        let nf = alleged.and_then(own).unwrap_or_else(|| {
            tag = TAG_BAD_VERDICT;
            hosted[0]
        });
        self.nf_drops[nf][usize::from(tag)] += 1;
        let hops = &plan.chains[usize::from(chain)].hops;
        // After a divert the packet may end at an NF that its own chain does not have: its last hop stands for that.
        let place = hops.iter().position(|h| *h == plan.nfs[nf].first).unwrap_or(hops.len() - 1);
        self.account(usize::from(chain), at).drops[place * 256 + usize::from(tag)] += 1;
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
    /// Times that the loop rested for NFs of its core.
    pub rests: u64,
    /// What sinks that read stamps found, by port; of the last trial in a steered run. Only in the last snapshot.
    pub checked: Vec<(usize, Checked)>,
}

impl super::Dataplane {
    fn checked(&mut self) -> Vec<(usize, Checked)> {
        let checks = self.ports.iter_mut().enumerate().filter_map(|(i, p)| Some((i, p.check()?.found().clone())));
        checks.collect()
    }

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
        chains.iter_mut().zip(&self.ledger.window).for_each(|(all, w)| all.add(w));
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
            rests: self.rests,
            checked: if last { self.checked() } else { Vec::new() },
            close_errors: self.close_errors.iter().map(ToString::to_string).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger(chains: usize) -> Ledger {
        Ledger {
            chains: (0..chains).map(|_| ChainLedger::new(1)).collect(),
            window: Vec::new(),
            span: Span::default(),
            ports: vec![PortLedger::default()],
            nf_drops: Vec::new(),
            refused: 0,
        }
    }

    /// Whatever windows open and close, the sum over both accounts only grows, by one a packet.
    #[test]
    fn each_packet_is_on_one_account() {
        let mut l = ledger(2);
        let span = Span::new(100, 200);
        for (round, at) in [0, 99, 100, 150, 199, 200, u64::MAX].into_iter().enumerate() {
            if round == 1 {
                l.open_window(span);
            }
            let account = l.account(1, at);
            account.received += 1;
            account.shed += 1;
            l.latency(1, (at, at.saturating_add(5)), 5 + at % 7, 1);
            assert_eq!((l.at_entry(0), l.at_entry(1)), ((0, 0), (round as u64 + 1, round as u64 + 1)));
        }
        let window = l.close_window();
        assert_eq!((window[0].received, window[1].received, window[1].shed), (0, 3, 3));
        assert_eq!(window[1].latency.as_ref().map(Histogram::len), Some(3));
        assert_eq!((l.at_entry(1), l.chains[1].latency.as_ref().map(Histogram::len)), ((7, 7), Some(7)));
        // Nothing is in a window that is closed, not even its own late packets.
        l.account(1, 150).transmitted += 1;
        assert_eq!(l.chains[1].transmitted, 1);
    }

    #[test]
    fn spans_have_what_lies_in_them() {
        assert!(!Span::default().has(0) && !Span::new(5, 5).has(5) && !Span::new(9, 5).has(7));
        assert!(Span::new(5, 6).has(5) && !Span::new(5, 6).has(4) && !Span::new(5, 6).has(6));
        assert!(Span::new(0, u64::MAX).has(0));
    }

    #[test]
    fn jitter_is_the_mean_difference() {
        let mut j = Jitter::default();
        assert_eq!(j.mean_ns(), None);
        j.record(100, 3);
        j.record(160, 1);
        j.record(140, 2);
        // 0, 0, 60, 20, 0.
        assert_eq!((j.count, j.mean_ns()), (5, Some(16.0)));
    }
}
