//! Policy, nice, priority, slice and cores of a thread: sched(7), `sched_setattr(2)`.
//!
//! The manager sets them from outside when an instance runs, and again when the operator changes them. What an NF builds
//! (tables of seconds) is so built under the usual policy and not under a real-time one.

use chainline_shm::os::{TaskAttr, policy, set_task_attr, task_attr};
use rustix::io::Errno;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Linux scheduling policies.
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
    /// `SCHED_DEADLINE`.
    Deadline,
}

impl Policy {
    /// All, by the word that files use.
    pub const WORDS: &'static [(&'static str, Self)] = &[
        ("other", Self::Other),
        ("batch", Self::Batch),
        ("idle", Self::Idle),
        ("fifo", Self::Fifo),
        ("rr", Self::Rr),
        ("deadline", Self::Deadline),
    ];

    /// The policy that a chain file calls by this word.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        Self::WORDS.iter().find_map(|(w, p)| (*w == word).then_some(*p))
    }

    /// The word that a chain file uses.
    #[must_use]
    pub fn word(self) -> &'static str {
        Self::WORDS.iter().find(|(_, p)| *p == self).map_or("", |(w, _)| w)
    }

    fn number(self) -> u32 {
        match self {
            Self::Other => policy::OTHER,
            Self::Batch => policy::BATCH,
            Self::Idle => policy::IDLE,
            Self::Fifo => policy::FIFO,
            Self::Rr => policy::RR,
            Self::Deadline => policy::DEADLINE,
        }
    }

    /// Whether CPU weights count: with `other`, `batch` and, among its like, `idle`.
    #[must_use]
    pub fn is_fair(self) -> bool {
        matches!(self, Self::Other | Self::Batch | Self::Idle)
    }

    /// Whether it runs before everything fair, within the real-time budget.
    #[must_use]
    pub fn is_real_time(self) -> bool {
        matches!(self, Self::Fifo | Self::Rr)
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// How a thread is to be scheduled. What does not belong to the policy is not looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// Cores that it may run on; empty: left as they are.
    pub cores: Vec<usize>,
    /// The policy.
    pub policy: Policy,
    /// Nice value of `other` and `batch`.
    pub nice: i8,
    /// Priority of `fifo` and `rr`, 1 to 99.
    pub priority: u8,
    /// Slice of `other` and `batch` in microseconds; none: the kernel's. That of `rr` is the system's: [`crate::rr`].
    pub slice_us: Option<u32>,
    /// Budget of `deadline` in microseconds.
    pub runtime_us: u32,
    /// Deadline of `deadline` in microseconds; 0: the period.
    pub deadline_us: u32,
    /// Period of `deadline` in microseconds.
    pub period_us: u32,
}

/// The kernel refused.
#[derive(Debug, thiserror::Error)]
#[error("{step}: {reason}")]
pub struct SchedError {
    /// What was asked.
    pub step: String,
    /// What it said, and what would help.
    pub reason: String,
    /// Its number.
    pub errno: Errno,
}

impl SchedError {
    fn new(step: impl Into<String>, errno: Errno, help: &str) -> Self {
        Self { step: step.into(), reason: format!("{}{help}", std::io::Error::from(errno)), errno }
    }
}

/// Lets thread `tid` run on `cores` only; none: the calling thread.
///
/// # Errors
/// When the host has none of the cores, this process may not use them, or the thread is gone.
pub fn pin(tid: Option<i32>, cores: &[usize]) -> Result<(), SchedError> {
    let mut set = CpuSet::new();
    cores.iter().filter(|&&c| c < CpuSet::MAX_CPU).for_each(|&c| set.set(c));
    sched_setaffinity(tid.and_then(Pid::from_raw), &set)
        .map_err(|e| SchedError::new(format!("run on cores {cores:?}"), e, ""))
}

/// The cores that thread `tid` may run on.
///
/// # Errors
/// When the thread is gone.
pub fn cores(tid: i32) -> Result<Vec<usize>, SchedError> {
    let set = sched_getaffinity(Pid::from_raw(tid)).map_err(|e| SchedError::new("read cores", e, ""))?;
    Ok((0..CpuSet::MAX_CPU).filter(|c| set.is_set(*c)).collect())
}

/// What the kernel says of thread `tid`; cores are not asked for.
///
/// # Errors
/// When the thread is gone, or has a policy that is none of ours (`sched_ext`).
pub fn read(tid: i32) -> Result<Task, SchedError> {
    let a = task_attr(tid).map_err(|e| SchedError::new("read the policy", e, ""))?;
    let known = Policy::WORDS.iter().find(|(_, p)| p.number() == a.policy);
    let (_, policy) = *known
        .ok_or_else(|| SchedError::new(format!("read the policy: found number {}", a.policy), Errno::INVAL, ""))?;
    let us = |ns: u64| u32::try_from(ns / 1000).unwrap_or(u32::MAX);
    let fair = matches!(policy, Policy::Other | Policy::Batch);
    let deadline = policy == Policy::Deadline;
    Ok(Task {
        cores: Vec::new(),
        policy,
        nice: if fair { i8::try_from(a.nice).unwrap_or(0) } else { 0 },
        priority: u8::try_from(a.priority).unwrap_or(0),
        slice_us: (fair && a.runtime_ns > 0).then(|| us(a.runtime_ns)),
        runtime_us: if deadline { us(a.runtime_ns) } else { 0 },
        deadline_us: if deadline { us(a.deadline_ns) } else { 0 },
        period_us: if deadline { us(a.period_ns) } else { 0 },
    })
}

impl Task {
    /// The policy with what belongs to it, for messages: `fifo priority 5`.
    #[must_use]
    pub fn words(&self) -> String {
        match self.policy {
            Policy::Fifo | Policy::Rr => format!("{} priority {}", self.policy, self.priority.max(1)),
            Policy::Deadline => {
                let deadline = if self.deadline_us == 0 { self.period_us } else { self.deadline_us };
                format!("deadline runtime {} deadline {deadline} period {} µs", self.runtime_us, self.period_us)
            }
            Policy::Other | Policy::Batch => {
                let slice = self.slice_us.map_or(String::new(), |us| format!(" slice {us} µs"));
                format!("{} nice {}{slice}", self.policy, self.nice)
            }
            Policy::Idle => "idle".to_owned(),
        }
    }

    fn attr(&self) -> TaskAttr {
        let fair = matches!(self.policy, Policy::Other | Policy::Batch);
        let ns = |us: u32| u64::from(us) * 1000;
        let mut attr = TaskAttr { policy: self.policy.number(), ..TaskAttr::default() };
        if fair {
            attr.nice = i32::from(self.nice);
            attr.runtime_ns = self.slice_us.map_or(0, ns);
        } else if self.policy.is_real_time() {
            attr.priority = u32::from(self.priority.max(1));
        } else if self.policy == Policy::Deadline {
            attr.runtime_ns = ns(self.runtime_us);
            attr.period_ns = ns(self.period_us);
            attr.deadline_ns = if self.deadline_us == 0 { attr.period_ns } else { ns(self.deadline_us) };
        }
        attr
    }

    /// Applies cores and policy to thread `tid` (0: the calling one). Returns what an operator should know: what was
    /// applied otherwise than asked.
    ///
    /// # Errors
    /// What the kernel refused. The thread then has the policy that it had before.
    pub fn apply(&self, tid: i32) -> Result<Vec<String>, SchedError> {
        let mut remarks = Vec::new();
        let target = (tid != 0).then_some(tid);
        if self.policy == Policy::Deadline {
            self.deadline(tid, &mut remarks)?;
        } else {
            // From `deadline` the policy goes first: such a thread's cores cannot be changed.
            self.set(tid)?;
            if !self.cores.is_empty() {
                pin(target, &self.cores)?;
            }
        }
        if let Some(asked) = self.slice_us.filter(|_| matches!(self.policy, Policy::Other | Policy::Batch)) {
            let got = read(tid)?.slice_us;
            if got != Some(asked) {
                let got = got.map_or("none of its own".to_owned(), |us| format!("{us} µs"));
                remarks.push(format!(
                    "slice_us {asked}: the kernel gave {got}; slices of a thread's own need Linux 6.12 or later"
                ));
            }
        }
        Ok(remarks)
    }

    fn set(&self, tid: i32) -> Result<(), SchedError> {
        set_task_attr(tid, &self.attr()).map_err(|e| {
            let help = match (e, self.policy) {
                (Errno::PERM | Errno::ACCESS, Policy::Fifo | Policy::Rr) => {
                    "; it needs CAP_SYS_NICE, and a cgroup version 1 group with cpu.rt_runtime_us above 0"
                }
                (Errno::PERM | Errno::ACCESS, Policy::Deadline) => {
                    "; it needs CAP_SYS_NICE, and leave to run on every core or an exclusive cpuset"
                }
                (Errno::PERM | Errno::ACCESS, _) => "; it needs CAP_SYS_NICE or RLIMIT_NICE",
                (Errno::BUSY, _) => "; the deadlines of all threads do not fit the cores (sched_rt_runtime_us)",
                _ => "",
            };
            SchedError::new(format!("policy {}", self.words()), e, help)
        })
    }

    /// The kernel gives `deadline` only to threads that may run on every core of their root domain, sched(7). A thread
    /// that may not is let onto all cores, and that is said.
    fn deadline(&self, tid: i32, remarks: &mut Vec<String>) -> Result<(), SchedError> {
        let Err(refused) = self.set(tid) else { return Ok(()) };
        if refused.errno != Errno::PERM {
            return Err(refused);
        }
        let before = cores(tid)?;
        let every: Vec<usize> = (0..CpuSet::MAX_CPU).collect();
        let target = (tid != 0).then_some(tid);
        pin(target, &every)?;
        if let Err(e) = self.set(tid) {
            pin(target, &before)?;
            return Err(e);
        }
        if !self.cores.is_empty() {
            remarks.push(format!(
                "runs on every core and not on {:?} only: the kernel gives `deadline` to no pinned thread outside an \
                 exclusive cpuset",
                self.cores
            ));
        }
        Ok(())
    }
}
