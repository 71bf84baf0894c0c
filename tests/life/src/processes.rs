//! NF processes, as the kernel knows them.

use procfs::process::{Process, all_processes};
use rustix::process::{Pid, Signal, kill_process};
use std::path::Path;
use std::time::{Duration, Instant};

/// Whoever waits longer for something that must happen fails.
pub const DEADLINE: Duration = Duration::from_secs(30);

/// Living NF processes whose parent is `manager`: process id and instance name.
#[must_use]
pub fn nfs_of(manager: u32) -> Vec<(i32, String)> {
    let ours = |p: Process| {
        let stat = p.stat().ok().filter(|s| s.ppid.unsigned_abs() == manager && s.state != 'Z')?;
        let words = p.cmdline().ok()?;
        let at = words.iter().position(|w| w == "nf-host")?;
        Some((stat.pid, words.get(at + 1)?.clone()))
    };
    all_processes().unwrap().filter_map(|p| ours(p.ok()?)).collect()
}

/// Kills the NF process `name` of this process's manager as `kill -9` does; `false` if there is none.
pub fn kill(name: &str) -> bool {
    let found = nfs_of(std::process::id()).into_iter().find(|(_, n)| n == name);
    let pid = found.and_then(|(pid, _)| Pid::from_raw(pid));
    pid.is_some_and(|pid| kill_process(pid, Signal::KILL).is_ok())
}

/// Whether a process is there and no zombie.
#[must_use]
pub fn lives(pid: i32) -> bool {
    Process::new(pid).and_then(|p| p.stat()).is_ok_and(|s| s.state != 'Z' && s.state != 'X')
}

/// Looks until `done` holds; fails after [`DEADLINE`].
pub fn until(what: &str, mut done: impl FnMut() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < DEADLINE, "not within {DEADLINE:?}: {what}");
        // A pause between two looks at a condition, not a wait for a time.
        std::thread::park_timeout(Duration::from_millis(5));
    }
}

/// File descriptors that this process has open.
#[must_use]
pub fn open_fds() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Of these, what instances are made of: regions, sockets, pipes. Files under `/proc` and `/sys` are not: the control
/// loop keeps those of weights and run times open.
#[must_use]
pub fn instance_fds() -> usize {
    let links =
        std::fs::read_dir("/proc/self/fd").unwrap().flatten().filter_map(|fd| std::fs::read_link(fd.path()).ok());
    links.filter(|file| !file.starts_with("/proc") && !file.starts_with("/sys")).count()
}

/// Everything that a run could leave behind in places that others see, sorted.
#[must_use]
pub fn traces() -> Vec<String> {
    let fixed =
        ["/dev/shm", "/run", "/run/netns", "/run/dpdk", "/dev/hugepages", "/sys/fs/cgroup", "/sys/fs/cgroup/cpu"];
    let mut places: Vec<String> = fixed.map(str::to_owned).into();
    places.extend(std::env::var("XDG_RUNTIME_DIR"));
    places.extend(std::env::var("XDG_RUNTIME_DIR").map(|dir| dir + "/dpdk"));
    let list = |place: &String| {
        let entries = std::fs::read_dir(Path::new(place)).into_iter().flatten().flatten();
        entries.map(|e| e.path().display().to_string()).collect::<Vec<_>>()
    };
    let mut found: Vec<String> = places.iter().flat_map(list).collect();
    // Others use these places, too: what is not ours by name is theirs.
    found.retain(|path| ["chainline", "dpdk", "rte_"].iter().any(|word| path.contains(word)));
    found.sort();
    found.dedup();
    found
}
