//! What the host did meanwhile: stolen time, processor time of processes, and where a run took place.

use procfs::CurrentSI;
use procfs::process::{Process, all_processes};
use serde_json::{Value, json};
use std::process::Command;

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

/// Where the run took place: the report's own words, and what only this program knows.
pub fn environment(report: &Value) -> Value {
    let mut environment = report.clone();
    let first_line = |path: &str| std::fs::read_to_string(path).map(|s| s.trim().to_owned()).ok();
    let own = json!({
        "commit": git(&["rev-parse", "HEAD"]),
        "modified": git(&["status", "--porcelain", "--untracked-files=no"]).map(|s| !s.is_empty()),
        "huge_pages": first_line("/proc/sys/vm/nr_hugepages").and_then(|n| n.parse::<u64>().ok()),
        "transparent_huge_pages": first_line("/sys/kernel/mm/transparent_hugepage/enabled"),
        "governor": first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "smt": first_line("/sys/devices/system/cpu/smt/active").map(|s| s == "1"),
        "isolated_cores": first_line("/sys/devices/system/cpu/isolated"),
        "autogroup": first_line("/proc/sys/kernel/sched_autogroup_enabled").map(|s| s == "1"),
        "mitigations": mitigations(),
    });
    if let (Some(all), Some(own)) = (environment.as_object_mut(), own.as_object()) {
        all.extend(own.clone());
    }
    environment
}

fn git(args: &[&str]) -> Option<String> {
    let out = Command::new("git").args(args).output().ok().filter(|o| o.status.success())?;
    String::from_utf8(out.stdout).ok().map(|s| s.trim().to_owned())
}

/// The kernel's word on each weakness of the processor that concerns it.
fn mitigations() -> Value {
    let files = std::fs::read_dir("/sys/devices/system/cpu/vulnerabilities").into_iter().flatten().flatten();
    let words = files.filter_map(|f| {
        let words = std::fs::read_to_string(f.path()).ok()?;
        (words.trim() != "Not affected")
            .then(|| (f.file_name().to_string_lossy().into_owned(), Value::from(words.trim())))
    });
    Value::Object(words.collect())
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
