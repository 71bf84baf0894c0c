//! CPU shares: every 10 ms each core's weights follow the loads of the instances on it (NFVnice, section 3.2).
//!
//! Also keeps the account of shares: which part of its cores each instance was meant to have, and which it had, over the
//! time in which the cores were worth contending for.

use super::kernel::{Kernel, factor, fixed};
use super::readings::Readings;
use chainline_chain::model::Sched;
use chainline_sched::shares::{Demand, meeting, parts, presumed, weights};

/// Milliseconds between two settings of the weights; of many NFs more.
pub const APPLY_EVERY: u64 = 10;
/// Milliseconds between two looks at what instances had.
pub const ACCOUNT_EVERY: u64 = 250;
/// A core counts as loaded if its instances used this part of it.
const LOADED: f64 = 0.9;

/// The account of one instance.
#[derive(Clone, Copy, Debug, Default)]
pub struct Account {
    /// Core seconds that it was meant to have.
    meant: f64,
    /// Core seconds that it had.
    had: f64,
    /// Core seconds of its cores in all.
    of: f64,
    /// Run time when last looked at, in nanoseconds; none if it did not run.
    run_ns: Option<u64>,
    /// Sum of the parts since then, and how many.
    parts: (f64, u32),
    /// The same since the begin.
    all: (f64, u64),
}

impl Account {
    /// The sum of the parts that it was to have so far, and of how many.
    pub fn meant_so_far(&self) -> (f64, u64) {
        self.all
    }

    /// The part of its cores that it was meant to have, and the part that it had, while these were loaded; none if they
    /// never were.
    pub fn shares(&self) -> Option<(f64, f64)> {
        (self.of > 0.0).then(|| (self.meant / self.of, self.had / self.of))
    }
}

/// See the module.
pub struct Shares {
    /// How each instance is to be scheduled.
    pub sched: Vec<Sched>,
    cores: Vec<Vec<usize>>,
    /// Instances that can meet on a core.
    groups: Vec<Vec<usize>>,
    pub accounts: Vec<Account>,
    /// The part of its cores that each is to have now.
    pub parts: Vec<f64>,
    accounted_ns: u64,
}

impl Shares {
    pub fn new(sched: Vec<Sched>, cores: Vec<Vec<usize>>) -> Self {
        let n = sched.len();
        let group_of = meeting(&cores);
        let groups = (0..n).map(|g| (0..n).filter(|i| group_of[*i] == g).collect::<Vec<_>>());
        Self {
            groups: groups.filter(|g| !g.is_empty()).collect(),
            sched,
            cores,
            accounts: vec![Account::default(); n],
            parts: vec![0.0; n],
            accounted_ns: 0,
        }
    }

    /// Sets the weights that follow from the loads now.
    pub fn apply(&mut self, now: &Readings, kernel: &mut Kernel) {
        for group in &self.groups {
            let members: Vec<usize> =
                group.iter().copied().filter(|&i| now.instances[i].up && kernel.is_weighted(i)).collect();
            if members.is_empty() {
                continue;
            }
            let loads = members.iter().map(|i| Some(&now.instances[*i]).filter(|n| !n.unknown).map(|n| n.load));
            let loads = presumed(&loads.collect::<Vec<_>>());
            let demand = |(&i, &load): (&usize, &f64)| Demand {
                load,
                priority: factor(&self.sched[i]),
                fixed: fixed(&self.sched[i]),
            };
            let weights = weights(&members.iter().zip(&loads).map(demand).collect::<Vec<_>>());
            for (&i, part) in members.iter().zip(parts(&weights)) {
                self.parts[i] = part;
                let account = &mut self.accounts[i];
                account.parts = (account.parts.0 + part, account.parts.1 + 1);
                account.all = (account.all.0 + part, account.all.1 + 1);
            }
            kernel.weigh(&members.iter().copied().zip(weights).collect::<Vec<_>>());
        }
    }

    /// Looks what everybody had since it last looked. `run_ns` asks the kernel for an instance's time on a core.
    pub fn account(&mut self, now_ns: u64, kernel: &Kernel, mut run_ns: impl FnMut(i32) -> Option<u64>) {
        let passed = now_ns.saturating_sub(self.accounted_ns) as f64;
        self.accounted_ns = now_ns;
        for group in &self.groups {
            let mut cores: Vec<usize> = group.iter().flat_map(|i| self.cores[*i].iter().copied()).collect();
            cores.sort_unstable();
            cores.dedup();
            let mut had: Vec<Option<f64>> = Vec::with_capacity(group.len());
            for &i in group {
                let account = &mut self.accounts[i];
                let tid = kernel.tid(i).filter(|_| group.len() > 1 && kernel.is_weighted(i));
                let run = tid.and_then(&mut run_ns);
                had.push(run.zip(account.run_ns).map(|(now, then)| now.saturating_sub(then) as f64));
                account.run_ns = run;
            }
            let sum: f64 = had.iter().flatten().sum();
            // A group in which somebody came or went in between says nothing.
            let whole = had.iter().all(Option::is_some) && group.len() > 1;
            let loaded = whole && sum >= LOADED * passed * cores.len() as f64;
            for (&i, had) in group.iter().zip(had) {
                let account = &mut self.accounts[i];
                let (parts, n) = std::mem::take(&mut account.parts);
                if let Some(had) = had.filter(|_| loaded && n > 0) {
                    account.had += had;
                    account.meant += parts / f64::from(n) * sum;
                    account.of += sum;
                }
            }
        }
    }
}
