//! Reserved cores: the threads of other processes are moved off them, and put back at the end.
//!
//! Moved are threads that may run elsewhere. Kernel threads that are bound to a core stay, as do threads that may run on
//! reserved cores only; how many is said. What others start later inherits the cores of who starts it. A manager that is
//! killed cannot put anything back: what it moved stands in its [`Journal`], from which the next one does.

mod journal;

pub use journal::{Journal, PutBack, put_back};

use crate::task::{cores, pin};
use procfs::process::Process;
use std::collections::HashSet;

/// A thread that was moved: who, when it was started (ids are used again), where it could run, where it can run now.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Moved {
    tid: i32,
    started: u64,
    before: Vec<usize>,
    now: Vec<usize>,
}

impl Moved {
    /// Whether the thread is where it was moved to. Whoever moved it since, or has its id now, is left alone.
    fn stands(&self) -> bool {
        started(self.tid) == Some(self.started) && cores(self.tid).is_ok_and(|now| now == self.now)
    }
}

/// The moved threads; dropping it puts them back.
#[derive(Debug)]
pub struct Reserved {
    moved: Vec<Moved>,
    stayed: usize,
    /// Goes after they were put back.
    journal: Option<Journal>,
}

/// Threads of all processes but those in `own`.
#[must_use]
pub fn others(own: &[i32]) -> Vec<i32> {
    let own: HashSet<i32> = own.iter().copied().collect();
    let all = procfs::process::all_processes().into_iter().flatten().flatten();
    all.filter(|p| !own.contains(&p.pid))
        .flat_map(|p| p.tasks().into_iter().flatten().flatten())
        .map(|t| t.tid)
        .collect()
}

impl Reserved {
    /// Moves `threads` off `reserved` cores, and writes each down before.
    #[must_use]
    pub fn new(reserved: &[usize], threads: &[i32], journal: Option<Journal>) -> Self {
        let mut this = Self { moved: Vec::new(), stayed: 0, journal };
        for &tid in threads {
            this.move_off(tid, reserved);
        }
        this
    }

    fn move_off(&mut self, tid: i32, reserved: &[usize]) {
        // A thread that ends in between is none of our concern.
        let (Ok(before), Some(started)) = (cores(tid), started(tid)) else { return };
        if !before.iter().any(|c| reserved.contains(c)) {
            return;
        }
        let now: Vec<usize> = before.iter().copied().filter(|c| !reserved.contains(c)).collect();
        let moved = Moved { tid, started, before, now };
        if !moved.now.is_empty() {
            // Written first: this process may be killed in between.
            if self.journal.as_mut().is_some_and(|j| j.note(&moved).is_err()) {
                self.journal = None;
            }
            if pin(Some(tid), &moved.now).is_ok() {
                self.moved.push(moved);
                return;
            }
        }
        self.stayed += 1;
    }

    /// Threads that were moved.
    #[must_use]
    pub fn moved(&self) -> usize {
        self.moved.len()
    }

    /// Threads that could not be moved.
    #[must_use]
    pub fn stayed(&self) -> usize {
        self.stayed
    }

    /// Whether all that were moved are written down.
    #[must_use]
    pub fn written_down(&self) -> bool {
        self.journal.is_some()
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        for m in self.moved.iter().filter(|m| m.stands()) {
            let _ = pin(Some(m.tid), &m.before);
        }
    }
}

/// When a thread was started, in ticks since boot.
fn started(tid: i32) -> Option<u64> {
    Some(Process::new(tid).ok()?.stat().ok()?.starttime)
}
