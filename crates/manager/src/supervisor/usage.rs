//! What an instance used of its core, and what its NFs counted, over all its incarnations.

use chainline_shm::page::{COST_BUCKETS, CostHistogram, NfStats};
use procfs::process::Process;
use std::sync::atomic::Ordering::Relaxed;

/// CPU time and switches, as the kernel counts them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// Nanoseconds on a core.
    pub run_ns: u64,
    /// Nanoseconds runnable, but not running.
    pub run_delay_ns: u64,
    /// Switches as it went to sleep.
    pub voluntary: u64,
    /// Switches as it was pre-empted.
    pub involuntary: u64,
    before: [u64; 4],
}

impl Usage {
    pub(super) fn begin_incarnation(&mut self) {
        self.before = [self.run_ns, self.run_delay_ns, self.voluntary, self.involuntary];
    }

    pub(super) fn end_incarnation(&mut self) {
        self.begin_incarnation();
    }

    /// Reads the kernel's counts for thread `tid`; keeps the last ones if it is gone.
    pub(super) fn sample(&mut self, tid: i32) {
        // A thread of ours and the main thread of another process are both found under their own id.
        let Ok(process) = Process::new(tid) else { return };
        if let Ok(s) = process.schedstat() {
            self.run_ns = self.before[0] + s.sum_exec_runtime;
            self.run_delay_ns = self.before[1] + s.run_delay;
        }
        if let Ok(s) = process.status() {
            self.voluntary = self.before[2] + s.voluntary_ctxt_switches.unwrap_or(0);
            self.involuntary = self.before[3] + s.nonvoluntary_ctxt_switches.unwrap_or(0);
        }
    }
}

/// What an NF counted.
#[derive(Clone, Debug)]
pub struct NfTotals {
    /// Packets handed to it.
    pub received: u64,
    /// Their bytes, without FCS.
    pub bytes: u64,
    /// Packets that it passed on.
    pub passed: u64,
    /// Packets that it dropped.
    pub dropped: u64,
    /// Samples of its cost, by bucket of [`CostHistogram`].
    pub cost: Vec<u64>,
}

impl Default for NfTotals {
    fn default() -> Self {
        Self { received: 0, bytes: 0, passed: 0, dropped: 0, cost: vec![0; COST_BUCKETS] }
    }
}

impl NfTotals {
    /// Adds what a page says.
    pub(super) fn add(&mut self, page: &NfStats) {
        // Pages are the instances' own: a liar's numbers may wrap.
        self.received = self.received.wrapping_add(page.received.load(Relaxed));
        self.bytes = self.bytes.wrapping_add(page.bytes.load(Relaxed));
        self.passed = self.passed.wrapping_add(page.passed.load(Relaxed));
        self.dropped = self.dropped.wrapping_add(page.dropped.load(Relaxed));
        for (sum, n) in self.cost.iter_mut().zip(page.cost.snapshot()) {
            *sum = sum.wrapping_add(n);
        }
    }

    /// The median cost in nanoseconds a packet of the samples that `earlier` does not have; none without a sample.
    #[must_use]
    pub fn median_cost_ns(&self, earlier: Option<&Self>) -> Option<u64> {
        let counts: Vec<u64> = match earlier {
            Some(e) => self.cost.iter().zip(&e.cost).map(|(now, then)| now.saturating_sub(*then)).collect(),
            None => self.cost.clone(),
        };
        let total = counts.iter().fold(0u64, |sum, n| sum.saturating_add(*n));
        let mut seen = 0u64;
        counts
            .iter()
            .position(|n| {
                seen = seen.saturating_add(*n);
                total > 0 && seen >= total.div_ceil(2)
            })
            .map(CostHistogram::lower_bound)
    }
}
