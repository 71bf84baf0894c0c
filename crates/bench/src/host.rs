//! What the host did meanwhile: stolen time, processor time of processes; and where a run took place.

mod manifest;

pub(crate) use manifest::hex;
pub use manifest::{environment, identity, manifest};

use procfs::CurrentSI;
use procfs::process::{Process, all_processes};

/// What all cores did, in clock ticks, since the host was started or between two moments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ticks {
    /// The hypervisor gave these to others.
    pub stolen: u64,
    /// Other programs had these. Of this program, its finished children are part.
    pub foreign: u64,
    /// All there were.
    pub all: u64,
}

impl Ticks {
    /// Since the host was started; none where the kernel does not tell. To be read when no child runs.
    pub fn now() -> Option<Self> {
        let t = procfs::KernelStats::current().ok()?.total;
        let own = Process::myself().and_then(|p| p.stat()).ok()?;
        let own = own.utime + own.stime + u64::try_from(own.cutime + own.cstime).unwrap_or(0);
        let stolen = t.steal.unwrap_or(0);
        let busy = t.user + t.nice + t.system + t.irq.unwrap_or(0) + t.softirq.unwrap_or(0);
        let all = busy + t.idle + t.iowait.unwrap_or(0) + stolen;
        Some(Self { stolen, foreign: busy.saturating_sub(own), all })
    }

    /// As [`Ticks::now`], while children run: their time is this program's, and so is that of the kernel's software
    /// interrupts, which move packets between kernel interfaces, and of the threads that do their work.
    pub fn with_children() -> Option<Self> {
        let t = procfs::KernelStats::current().ok()?.total;
        let stolen = t.steal.unwrap_or(0);
        let busy = t.user + t.nice + t.system + t.irq.unwrap_or(0);
        let all = busy + t.softirq.unwrap_or(0) + t.idle + t.iowait.unwrap_or(0) + stolen;
        Some(Self { stolen, foreign: busy.saturating_sub(tree_ticks()?), all })
    }

    /// Since `earlier`.
    pub fn since(self, earlier: Self) -> Self {
        Self {
            stolen: self.stolen.saturating_sub(earlier.stolen),
            foreign: self.foreign.saturating_sub(earlier.foreign),
            all: self.all.saturating_sub(earlier.all),
        }
    }

    /// Stolen share.
    pub fn stolen_share(self) -> f64 {
        share(self.stolen, self.all)
    }

    /// Share that other programs had.
    pub fn foreign_share(self) -> f64 {
        share(self.foreign, self.all)
    }

    /// How much a trial was disturbed: what was taken from it.
    pub fn taken(self) -> f64 {
        self.stolen_share() + self.foreign_share()
    }

    /// Why a trial says little, if so: more than 1 % was stolen, or other programs had more than 3 %. One tick, of
    /// others two, are what the counting itself is off by.
    pub fn spoil(self) -> Option<&'static str> {
        if self.stolen > 1 && self.stolen_share() > 0.01 {
            Some("more than 1 % of the time was stolen by the hypervisor")
        } else if self.foreign > 2 && self.foreign_share() > 0.03 {
            Some("other programs had more than 3 % of the time")
        } else {
            None
        }
    }
}

fn share(part: u64, all: u64) -> f64 {
    if all == 0 { 0.0 } else { part as f64 / all as f64 }
}

/// The threads in which the kernel moves packets, when not within a software interrupt: threaded NAPI, and what interrupts were
/// put off to. The kernel counts their time as the system's.
fn moves_packets(thread: &procfs::process::Stat) -> bool {
    thread.ppid == KTHREADD && ["napi/", "ksoftirqd/"].iter().any(|name| thread.comm.starts_with(name))
}

/// The parent of all kernel threads.
const KTHREADD: i32 = 2;

/// Ticks that this program, everything below it and [`moves_packets`] had since each began, finished children included.
fn tree_ticks() -> Option<u64> {
    let all: Vec<_> = all_processes().ok()?.flatten().filter_map(|p| p.stat().ok()).collect();
    let mut tree = vec![i32::try_from(std::process::id()).ok()?];
    let mut next = 0;
    while let Some(parent) = tree.get(next).copied() {
        tree.extend(all.iter().filter(|s| s.ppid == parent && s.pid != parent).map(|s| s.pid));
        next += 1;
    }
    let finished = |s: &procfs::process::Stat| u64::try_from(s.cutime + s.cstime).unwrap_or(0);
    Some(
        all.iter().filter(|s| tree.contains(&s.pid) || moves_packets(s)).map(|s| s.utime + s.stime + finished(s)).sum(),
    )
}

/// Nanoseconds that a process, its threads and its children were on a core.
pub fn tree_run_ns(pid: i32) -> u64 {
    let children = all_processes().into_iter().flatten().flatten().filter(|p| p.stat().is_ok_and(|s| s.ppid == pid));
    children.chain(Process::new(pid)).map(|p| run_ns(&p)).sum()
}

fn run_ns(process: &Process) -> u64 {
    // The process's own file tells of its first thread alone.
    let tasks = process.tasks().into_iter().flatten().flatten();
    tasks.filter_map(|t| t.schedstat().ok()).map(|s| s.sum_exec_runtime).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_take_spoils() {
        let spoils = |stolen, foreign, all| Ticks { stolen, foreign, all }.spoil().is_some();
        assert!(!spoils(1, 2, 60), "that is below the resolution");
        assert!(!spoils(2, 6, 200));
        assert!(spoils(3, 0, 200));
        assert!(spoils(0, 7, 200));
        assert_eq!(Ticks::default().taken(), 0.0);
    }

    #[test]
    fn a_process_has_run() {
        assert!(tree_run_ns(std::process::id() as i32) > 0);
    }
}
