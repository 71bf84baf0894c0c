//! What everybody counted so far: read once an interval, and when somebody asks.

use super::instance::{Instance, State};
use super::{NfTotals, RunError, Supervisor, Usage};
use crate::dataplane::{Command, Snapshot};
use crate::report::{Counters, Interval};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::channel;
use std::time::Instant;

/// Accounts, NFs' totals and instances' usage at one instant.
pub(super) struct Taken {
    pub at: Instant,
    pub snapshot: Box<Snapshot>,
    pub totals: Vec<NfTotals>,
    pub usage: Vec<Usage>,
}

impl Supervisor<'_> {
    pub(super) fn take_numbers(&mut self) -> Result<Taken, RunError> {
        let snapshot = self.snapshot()?;
        Ok(Taken { at: Instant::now(), snapshot, totals: self.totals(), usage: self.usages() })
    }

    /// The numbers from one instant to another.
    pub(super) fn interval(&self, from: &Taken, to: &Taken) -> Interval {
        let held = self.held();
        Interval::between(
            (&from.snapshot, &from.totals, &from.usage),
            (&to.snapshot, &to.totals, &to.usage),
            &self.plan,
            &self.declared(),
            &held,
            self.began.elapsed(),
        )
    }

    pub(super) fn snapshot(&self) -> Result<Box<Snapshot>, RunError> {
        let (answer, answered) = channel();
        self.command(Command::Snapshot(answer))?;
        answered.recv().map_err(|_| RunError::DataPath)
    }

    /// What each NF counted so far.
    pub(super) fn totals(&self) -> Vec<NfTotals> {
        let mut all = vec![NfTotals::default(); self.plan.nfs.len()];
        for (plan, instance) in self.plan.instances.iter().zip(&self.instances) {
            for (k, &nf) in plan.nfs.iter().enumerate() {
                all[nf] = instance.before[k].clone();
                if let Some(page) = &instance.page {
                    all[nf].add(page.nf(k));
                }
            }
        }
        all
    }

    /// The own counters of an NF so far.
    pub(super) fn counters(&self, nf: usize) -> Counters {
        let i = self.plan.nfs[nf].instance;
        let place = self.plan.instances[i].nfs.iter().position(|n| *n == nf);
        place.map(|k| self.instances[i].counters(k)).unwrap_or_default()
    }

    /// What each instance used so far.
    pub(super) fn usages(&mut self) -> Vec<Usage> {
        for i in &mut self.instances {
            if let (Some(tid), State::Running) = (i.tid, &i.state) {
                i.usage.sample(tid);
            }
        }
        self.instances.iter().map(|i| i.usage).collect()
    }

    /// Packets that NFs hold on purpose, by instance.
    pub(super) fn held(&self) -> Vec<u64> {
        let held = |i: &Instance| i.page.as_ref().map_or(0, |p| p.status().held.load(Relaxed));
        self.instances.iter().map(held).collect()
    }
}
