//! Time: who takes it away, how it is read and shared out.

use crate::{Check, Host, Live};

/// CPU time that the hypervisor gave to others.
pub(crate) fn steal(live: &Live) -> Check {
    const NAME: &str = "steal";
    let Some(cpu) = live.cpu.filter(|cpu| cpu.total > 0) else {
        return Check::info(NAME, "the kernel does not say");
    };
    let percent = cpu.steal as f64 * 100.0 / cpu.total as f64;
    let finding = format!("{percent:.1} % of the sample");
    if percent >= 1.0 {
        Check::warn(NAME, finding)
            .means("the hypervisor runs others on these cores: measurements are not to be trusted")
            .remedy("measure on a machine with dedicated cores, or when its neighbours are quiet")
    } else {
        Check::ok(NAME, finding)
    }
}

/// What the kernel reads the time from.
pub(crate) fn clock(host: &Host) -> Check {
    const NAME: &str = "clock";
    match host.text("/sys/devices/system/clocksource/clocksource0/current_clocksource") {
        None => Check::info(NAME, "the kernel does not say"),
        Some(c) if ["tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter"].contains(&c.as_str()) => {
            Check::ok(NAME, c)
        }
        Some(c) => Check::warn(NAME, format!("{c}, which is read by a system call"))
            .means("reading the time once a burst costs hundreds of nanoseconds")
            .remedy("echo tsc | sudo tee /sys/devices/system/clocksource/clocksource0/current_clocksource"),
    }
}

/// Whether the processor's event counters can be used.
pub(crate) fn counters(host: &Host, live: &Live) -> Check {
    const NAME: &str = "performance_counters";
    const PARANOID: &str = "/proc/sys/kernel/perf_event_paranoid";
    let Err(error) = &live.cycles else {
        return Check::ok(NAME, "cycles can be counted");
    };
    // Where the kernel would allow it, the hardware lacks it.
    let paranoid = host.number(PARANOID).unwrap_or(2);
    let check = Check::info(NAME, format!("none: {error}"))
        .means("cache and TLB figures of a profile are unavailable; nanoseconds and CPU shares are not affected");
    if paranoid > 2 { check.remedy("sudo sysctl -w kernel.perf_event_paranoid=2") } else { check }
}

/// Whether sessions share the cores before tasks do.
pub(crate) fn autogroup(host: &Host) -> Check {
    const NAME: &str = "autogroup";
    match host.number("/proc/sys/kernel/sched_autogroup_enabled") {
        // Tasks in a group below the root of the cpu controller are in no automatic group.
        Some(1) if crate::cgroup::has_cpu(host) => Check::ok(NAME, "on; NFs in control groups are not concerned"),
        Some(1) => Check::info(NAME, "on")
            .means("without control groups, CPU shares go by nice, which counts only among the tasks of one session")
            .remedy("sudo sysctl -w kernel.sched_autogroup_enabled=0"),
        _ => Check::ok(NAME, "off"),
    }
}

/// Whether a task can have a slice of its own (EEVDF, Linux 6.12).
pub(crate) fn slices(host: &Host) -> Check {
    const NAME: &str = "slices";
    let Some(release) = host.text("/proc/sys/kernel/osrelease") else {
        return Check::info(NAME, "the kernel does not say its version");
    };
    let mut parts = release.split(|c: char| !c.is_ascii_digit()).map(|p| p.parse::<u32>().unwrap_or(0));
    let version = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
    let slices = "`slice` in a chain file has no effect on the policies other and batch";
    if version >= (6, 12) {
        Check::ok(NAME, format!("Linux {release}: each task can have its own, 0.1 to 100 ms"))
    } else if version >= (6, 6) {
        Check::info(NAME, format!("Linux {release}: EEVDF with one slice for all")).means(slices)
    } else {
        Check::info(NAME, format!("Linux {release}: CFS")).means(slices)
    }
}
