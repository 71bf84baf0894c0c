//! What only asking the kernel can tell.

use perf_event::Builder;
use perf_event::events::Hardware;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use rustix::process::{Resource, getrlimit};
use std::time::Duration;

/// Facts from system calls. A refusal is the kernel's own word.
#[derive(Clone, Debug)]
pub struct Live {
    /// Whether this process can count its CPU cycles.
    pub cycles: Result<(), String>,
    /// Whether an AF_XDP socket can be made.
    pub af_xdp: Result<(), String>,
    /// Soft limit of locked memory in bytes; `None`: no limit.
    pub locked_bytes: Option<u64>,
    /// CPU time of the whole host over the sample; `None` if it is not to be had.
    pub cpu: Option<CpuTime>,
}

/// CPU time of all cores over an interval, in the kernel's ticks (`/proc/stat`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuTime {
    /// All of it.
    pub total: u64,
    /// What the hypervisor gave to others while a task here was ready to run.
    pub steal: u64,
}

impl Live {
    /// Asks the running kernel. Watches the host's CPU time for `sample`.
    #[must_use]
    pub fn probe(sample: Duration) -> Self {
        let before = cpu_time();
        std::thread::sleep(sample);
        let cpu = before
            .zip(cpu_time())
            .map(|(a, b)| CpuTime { total: b.total.saturating_sub(a.total), steal: b.steal.saturating_sub(a.steal) });
        Self {
            cycles: Builder::new(Hardware::CPU_CYCLES).build().map(drop).map_err(|e| e.to_string()),
            af_xdp: socket_with(AddressFamily::XDP, SocketType::RAW, SocketFlags::CLOEXEC, None)
                .map(drop)
                .map_err(|e| std::io::Error::from(e).to_string()),
            locked_bytes: getrlimit(Resource::Memlock).current,
            cpu,
        }
    }
}

fn cpu_time() -> Option<CpuTime> {
    parse_cpu_time(&std::fs::read_to_string("/proc/stat").ok()?)
}

/// proc_stat(5): user nice system idle iowait irq softirq steal; guest times after that are in user and nice already.
fn parse_cpu_time(stat: &str) -> Option<CpuTime> {
    let line = stat.lines().find_map(|l| l.strip_prefix("cpu "))?;
    let times: Vec<u64> = line.split_whitespace().take(8).map_while(|t| t.parse().ok()).collect();
    Some(CpuTime { total: times.iter().sum(), steal: *times.get(7)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_from_proc_stat() {
        let stat = "cpu  10 20 30 40 50 60 70 80 9 9\ncpu0 1 1 1 1 1 1 1 1 0 0\n";
        assert_eq!(parse_cpu_time(stat), Some(CpuTime { total: 360, steal: 80 }));
        assert_eq!(parse_cpu_time("cpu  1 2 3\n"), None);
        assert_eq!(parse_cpu_time(""), None);
    }
}
