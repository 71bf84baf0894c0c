//! Cores: which, how alone, how fast.

use crate::host::cpu_list;
use crate::{Check, Host};
use std::collections::BTreeSet;

const CPU: &str = "/sys/devices/system/cpu";

/// The cores this process may use, against those the host has.
pub(crate) fn allowed(host: &Host) -> Check {
    const NAME: &str = "cores";
    let (Some(online), Some(allowed)) = (host.text(format!("{CPU}/online")), host.own_status("Cpus_allowed_list"))
    else {
        return Check::info(NAME, "the kernel does not say which cores there are");
    };
    let (have, may) = (cpu_list(&online), cpu_list(&allowed));
    let container = if host.has("/.dockerenv") || host.has("/run/.containerenv") { " in a container" } else { "" };
    if may.len() == 1 {
        return Check::warn(NAME, format!("one core ({allowed}) of {}{container}", have.len()))
            .means("the manager and all NFs share it: chains run, rates say little")
            .remedy("give this process more cores: taskset, docker --cpuset-cpus, AllowedCPUs=");
    }
    if may.len() < have.len() {
        return Check::info(NAME, format!("{allowed}{container}, while the host has {online}"))
            .means("a chain file may name only the allowed cores")
            .remedy("taskset, docker --cpuset-cpus, or AllowedCPUs= widen it");
    }
    Check::ok(NAME, format!("{allowed}{container}"))
}

/// Cores that the kernel keeps free of other work.
pub(crate) fn isolated(host: &Host) -> Check {
    const NAME: &str = "isolated_cores";
    let list = |file: &str| host.text(format!("{CPU}/{file}")).filter(|t| !t.is_empty() && t != "(null)");
    match (list("isolated"), list("nohz_full")) {
        (Some(isolated), nohz) => {
            Check::ok(NAME, format!("{isolated}; without timer ticks: {}", nohz.as_deref().unwrap_or("none")))
        }
        (None, _) => Check::info(NAME, "none")
            .means("other tasks and timer ticks run on the NFs' cores: longer tails of latency")
            .remedy("kernel parameters for cores 2 and 3, say: isolcpus=2-3 nohz_full=2-3 rcu_nocbs=2-3"),
    }
}

/// Whether cores are threads of one another.
pub(crate) fn smt(host: &Host) -> Check {
    const NAME: &str = "smt";
    if host.number(format!("{CPU}/smt/active")) != Some(1) {
        return Check::ok(NAME, "off, or the host has none");
    }
    let siblings: BTreeSet<_> = cpu_list(&host.text(format!("{CPU}/online")).unwrap_or_default())
        .into_iter()
        .filter_map(|cpu| host.text(format!("{CPU}/cpu{cpu}/topology/thread_siblings_list")))
        .filter(|list| cpu_list(list).len() > 1)
        .collect();
    const SHOWN: usize = 8;
    let shown = siblings.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(" ");
    let more = if siblings.len() > SHOWN { format!(" and {} more", siblings.len() - SHOWN) } else { String::new() };
    Check::info(NAME, format!("on; threads of one core: {shown}{more}"))
        .means("what runs on a core's other thread slows an NF by a third and more; give both threads to one chain")
        .remedy(format!("echo off | sudo tee {CPU}/smt/control"))
}

/// The policy for the cores' frequency.
pub(crate) fn governor(host: &Host) -> Check {
    const NAME: &str = "governor";
    let governors: BTreeSet<_> = cpu_list(&host.text(format!("{CPU}/online")).unwrap_or_default())
        .into_iter()
        .filter_map(|cpu| host.text(format!("{CPU}/cpu{cpu}/cpufreq/scaling_governor")))
        .collect();
    let finding = governors.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
    if governors.is_empty() {
        Check::info(NAME, "the frequency is not ours to set (usual in virtual machines)")
    } else if finding == "performance" {
        Check::ok(NAME, finding)
    } else {
        Check::warn(NAME, finding)
            .means("frequencies follow the load: rates differ from run to run")
            .remedy("sudo cpupower frequency-set -g performance")
    }
}
