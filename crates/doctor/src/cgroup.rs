//! Control groups: where CPU weights are set, and what real-time policies may use.

use crate::{Check, Host};

/// Where the CPU controller is.
#[derive(Debug, PartialEq, Eq)]
enum Cpu {
    /// Version 2, the mount point; whether the root hands the controller down.
    V2 { mount: String, delegated: bool },
    /// Version 1, the mount point.
    V1 { mount: String },
    /// Neither.
    None,
}

fn cpu(host: &Host) -> Cpu {
    let mounts = host.text("/proc/self/mountinfo").unwrap_or_default();
    // proc_pid_mountinfo(5): … (5) mount point … - (9) type (10) source (11) super options
    let cgroups = mounts.lines().filter_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let (mut after, point) = (after.split(' '), before.split(' ').nth(4)?);
        Some((after.next()?, point, after.nth(1)?))
    });
    let mut v1 = Cpu::None;
    for (kind, point, options) in cgroups {
        let mount = point.to_owned();
        match kind {
            "cgroup2" if has_word(host, &format!("{point}/cgroup.controllers"), "cpu") => {
                let delegated = has_word(host, &format!("{point}/cgroup.subtree_control"), "cpu");
                return Cpu::V2 { mount, delegated };
            }
            "cgroup" if options.split(',').any(|o| o == "cpu") => v1 = Cpu::V1 { mount },
            _ => {}
        }
    }
    v1
}

fn has_word(host: &Host, path: &str, word: &str) -> bool {
    host.text(path).is_some_and(|t| t.split_whitespace().any(|w| w == word))
}

/// Whether there is a cpu controller at all.
pub(crate) fn has_cpu(host: &Host) -> bool {
    cpu(host) != Cpu::None
}

/// Control groups of managers that are gone: where they are. The next `chainline run` removes them.
pub(crate) fn stale(host: &Host) -> Vec<String> {
    let base = match cpu(host) {
        Cpu::V1 { mount } => own_group(host, &mount, false),
        Cpu::V2 { mount, .. } => own_group(host, &mount, true),
        Cpu::None => None,
    };
    let Some(base) = base else { return Vec::new() };
    let pid = |name: &str| name.strip_prefix("chainline-")?.split('-').next()?.parse::<u32>().ok();
    let gone = |name: &String| pid(name).is_some_and(|pid| !host.has(format!("/proc/{pid}")));
    host.names(&base).into_iter().filter(gone).map(|name| format!("{base}/{name}")).collect()
}

/// The group of this process below `mount`.
fn own_group(host: &Host, mount: &str, v2: bool) -> Option<String> {
    let groups = host.text("/proc/self/cgroup")?;
    let path = groups.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let controllers = parts.next()?;
        let ours = if v2 { controllers.is_empty() } else { controllers.split(',').any(|c| c == "cpu") };
        ours.then(|| parts.next())?
    })?;
    Some(format!("{mount}{}", path.trim_end_matches('/')))
}

/// Whether CPU weights can be set, and through which version.
pub(crate) fn cpu_controller(host: &Host) -> Check {
    const NAME: &str = "cgroup";
    match cpu(host) {
        Cpu::V2 { mount, delegated: true } => Check::ok(NAME, format!("version 2 with cpu at {mount}")),
        Cpu::V2 { mount, delegated: false } => {
            Check::warn(NAME, format!("version 2 at {mount}, but cpu is not handed down"))
                .means("groups below the root cannot have weights")
                .remedy(format!("echo +cpu | sudo tee {mount}/cgroup.subtree_control"))
        }
        Cpu::V1 { mount } => Check::ok(NAME, format!("version 1 with cpu at {mount} (cpu.shares)")),
        Cpu::None => Check::warn(NAME, "no cpu controller is mounted")
            .means("CPU weights cannot be set; NFs on a core share it evenly, or by nice")
            .remedy("boot with cgroup v2 (systemd.unified_cgroup_hierarchy=1), or run outside this container"),
    }
}

/// Time per period that the policies FIFO and RR may use.
pub(crate) fn real_time(host: &Host) -> Check {
    const NAME: &str = "real_time_budget";
    const GLOBAL: &str = "/proc/sys/kernel/sched_rt_runtime_us";
    let Some(global) = host.number(GLOBAL) else {
        return Check::info(NAME, "the kernel does not say");
    };
    let period = host.number("/proc/sys/kernel/sched_rt_period_us").unwrap_or(1_000_000);
    if global == 0 {
        return Check::warn(NAME, "0 µs")
            .means("the policies fifo and rr are refused")
            .remedy(format!("echo 950000 | sudo tee {GLOBAL}"));
    }
    let finding = if global < 0 { "no limit".to_owned() } else { format!("{global} µs of each {period} µs") };
    // With RT_GROUP_SCHED, each version 1 group has a budget of its own, and a new group has none.
    let Some((group, own)) = own_budget(host) else {
        return Check::ok(NAME, finding);
    };
    let finding = format!("{finding}; group {group}: {own} µs");
    if own == 0 {
        Check::warn(NAME, finding)
            .means("the policies fifo and rr are refused (EPERM) in this group")
            .remedy(format!("echo 900000 | sudo tee {group}/cpu.rt_runtime_us"))
    } else {
        Check::ok(NAME, finding)
    }
}

/// The version 1 group of this process and its `cpu.rt_runtime_us`, where there is such a thing.
fn own_budget(host: &Host) -> Option<(String, i64)> {
    let Cpu::V1 { mount } = cpu(host) else { return None };
    let group = own_group(host, &mount, false)?;
    Some((group.clone(), host.number(format!("{group}/cpu.rt_runtime_us"))?))
}
