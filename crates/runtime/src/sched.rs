//! Where and how the kernel runs an instance: affinity, policy, nice. Applied by the instance to itself.

use chainline_shm::os::{policy, set_scheduler};
use rustix::thread::{CpuSet, sched_setaffinity};
use serde::{Deserialize, Serialize};
/// Scheduling parameters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sched {
    /// Cores that it may run on; empty: any.
    pub cores: Vec<usize>,
    /// The policy.
    pub policy: Policy,
    /// Nice value of `other` and `batch`.
    pub nice: i32,
    /// Priority of `fifo` and `rr`, 1 to 99.
    pub priority: u8,
}

/// Linux scheduling policies (`sched(7)`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Policy {
    /// `SCHED_OTHER`.
    Other,
    /// `SCHED_BATCH`: who is woken does not pre-empt who woke it, so bursts grow.
    #[default]
    Batch,
    /// `SCHED_IDLE`.
    Idle,
    /// `SCHED_FIFO`.
    Fifo,
    /// `SCHED_RR`.
    Rr,
}

impl Policy {
    /// The policy that a chain file calls by this word; none for one that instances cannot take yet.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        [("other", Self::Other), ("batch", Self::Batch), ("idle", Self::Idle), ("fifo", Self::Fifo), ("rr", Self::Rr)]
            .into_iter()
            .find_map(|(w, p)| (w == word).then_some(p))
    }
}

/// The kernel refused.
#[derive(Debug, thiserror::Error)]
#[error("{step}: {reason}")]
pub struct SchedError {
    step: String,
    reason: String,
}

impl Sched {
    /// Applies everything to the calling thread; threads that it makes later inherit it.
    ///
    /// # Errors
    /// The first step that the kernel refused.
    pub fn apply(&self) -> Result<(), SchedError> {
        if !self.cores.is_empty() {
            let mut set = CpuSet::new();
            self.cores.iter().filter(|&&c| c < CpuSet::MAX_CPU).for_each(|&c| set.set(c));
            sched_setaffinity(None, &set)
                .map_err(|e| SchedError { step: format!("run on cores {:?}", self.cores), reason: e.to_string() })?;
        }
        let (number, priority) = match self.policy {
            // What the parent may have been is not what was asked for: OTHER is set too.
            Policy::Other => (policy::OTHER, 0),
            Policy::Batch => (policy::BATCH, 0),
            Policy::Idle => (policy::IDLE, 0),
            Policy::Fifo => (policy::FIFO, i32::from(self.priority.max(1))),
            Policy::Rr => (policy::RR, i32::from(self.priority.max(1))),
        };
        set_scheduler(number, priority)
            .map_err(|e| SchedError { step: format!("policy {:?}", self.policy), reason: e.to_string() })?;
        if self.nice != 0 {
            rustix::process::setpriority_process(None, self.nice)
                .map_err(|e| SchedError { step: format!("nice {}", self.nice), reason: e.to_string() })?;
        }
        Ok(())
    }
}
