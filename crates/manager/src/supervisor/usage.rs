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
    /// Of earlier incarnations.
    before: [u64; 4],
    /// What this incarnation had used when it began to run: building an NF is not its work.
    building: [u64; 4],
}

impl Usage {
    pub(super) fn begin_incarnation(&mut self) {
        self.before = [self.run_ns, self.run_delay_ns, self.voluntary, self.involuntary];
    }

    pub(super) fn end_incarnation(&mut self) {
        self.begin_incarnation();
    }

    /// It is built; what counts begins now.
    pub(super) fn begin_running(&mut self, tid: i32) {
        self.building = kernel_counts(tid).unwrap_or_default();
    }

    /// Reads the kernel's counts for thread `tid`; keeps the last ones if it is gone.
    pub(super) fn sample(&mut self, tid: i32) {
        let Some(now) = kernel_counts(tid) else { return };
        let total = |i: usize| self.before[i] + now[i].saturating_sub(self.building[i]);
        [self.run_ns, self.run_delay_ns, self.voluntary, self.involuntary] = [0, 1, 2, 3].map(total);
    }
}

/// Run time, delay, voluntary and involuntary switches of a thread. A thread of ours and the main thread of another
/// process are both found under their own id.
fn kernel_counts(tid: i32) -> Option<[u64; 4]> {
    let process = Process::new(tid).ok()?;
    let (sched, status) = (process.schedstat().ok()?, process.status().ok()?);
    let switches = |n: Option<u64>| n.unwrap_or(0);
    Some([
        sched.sum_exec_runtime,
        sched.run_delay,
        switches(status.voluntary_ctxt_switches),
        switches(status.nonvoluntary_ctxt_switches),
    ])
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
