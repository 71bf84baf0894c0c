//! Reserved cores: the threads of other processes are moved off them, and put back at the end.
//!
//! Moved are threads that may run elsewhere. Kernel threads that are bound to a core stay, as do threads that may run on
//! reserved cores only; how many is said. What others start later inherits the cores of who starts it. A manager that is
//! killed cannot put anything back: threads then stay off the cores until their owners say otherwise.

use crate::task::{cores, pin};
use procfs::process::Process;
use std::collections::HashSet;

/// A thread that was moved: who, when it was started (ids are used again), where it could run, where it can run now.
#[derive(Debug)]
struct Moved {
    tid: i32,
    started: u64,
    before: Vec<usize>,
    now: Vec<usize>,
}

/// The moved threads; dropping it puts them back.
#[derive(Debug, Default)]
pub struct Reserved {
    moved: Vec<Moved>,
    stayed: usize,
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
    /// Moves `threads` off `reserved` cores.
    #[must_use]
    pub fn new(reserved: &[usize], threads: &[i32]) -> Self {
        let mut this = Self::default();
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
        if now.is_empty() || pin(Some(tid), &now).is_err() {
            self.stayed += 1;
            return;
        }
        self.moved.push(Moved { tid, started, before, now });
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
}

impl Drop for Reserved {
    fn drop(&mut self) {
        for m in &self.moved {
            // Whoever moved a thread since, or has its id now, is left alone.
            if started(m.tid) == Some(m.started) && cores(m.tid).is_ok_and(|now| now == m.now) {
                let _ = pin(Some(m.tid), &m.before);
            }
        }
    }
}

/// When a thread was started, in ticks since boot.
fn started(tid: i32) -> Option<u64> {
    Some(Process::new(tid).ok()?.stat().ok()?.starttime)
}
