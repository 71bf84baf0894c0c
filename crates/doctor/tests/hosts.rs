//! The checks on made hosts, and on the host that runs the tests.
#![allow(clippy::unwrap_used)]

use chainline_doctor::{Check, CpuTime, Host, Live, Report, Status, examine};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

/// A root directory with made files; gone when dropped.
struct Root(PathBuf);

impl Root {
    fn new(name: &str) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let unique = (std::process::id(), NEXT.fetch_add(1, Relaxed));
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}-{}", unique.0, unique.1));
        std::fs::create_dir_all(&dir).unwrap();
        Self(dir)
    }
    /// Makes a file with its directories.
    fn file(self, path: &str, text: &str) -> Self {
        let path = self.0.join(path.trim_start_matches('/'));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
        self
    }
    fn check(&self, name: &str) -> Check {
        self.report(&quiet()).get(name).unwrap().clone()
    }
    fn report(&self, live: &Live) -> Report {
        examine(&Host::at(&self.0), live)
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Facts of a host where nothing is wrong.
fn quiet() -> Live {
    Live { cycles: Ok(()), af_xdp: Ok(()), locked_bytes: None, cpu: Some(CpuTime { total: 1000, steal: 0 }) }
}

fn has(check: &Check, status: Status, finding: &str) {
    assert_eq!((check.status, check.finding.as_str()), (status, finding), "{check:?}");
    // Whatever is not as it should be says what follows or what to do.
    assert!(status < Status::Warn || check.consequence.is_some() || check.remedy.is_some(), "{check:?}");
}

const V2: &str = "25 30 0:22 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";
const V1: &str = "31 30 0:27 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
                  32 30 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";

fn server() -> Root {
    let mut root = Root::new("server")
        .file("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "512\n")
        .file("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "500\n")
        .file("/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages", "0\n")
        .file("/sys/kernel/mm/hugepages/hugepages-1048576kB/free_hugepages", "0\n")
        .file("/sys/kernel/mm/transparent_hugepage/shmem_enabled", "always [advise] never\n")
        .file("/sys/devices/system/cpu/online", "0-3\n")
        .file("/sys/devices/system/cpu/isolated", "2-3\n")
        .file("/sys/devices/system/cpu/nohz_full", "2-3\n")
        .file("/sys/devices/system/cpu/smt/active", "0\n")
        .file("/sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n")
        .file("/proc/self/status", "Name:\tx\nCapEff:\t000001ffffffffff\nCpus_allowed_list:\t0-3\n")
        .file("/proc/self/mountinfo", V2)
        .file("/sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory\n")
        .file("/sys/fs/cgroup/cgroup.subtree_control", "cpu memory\n")
        .file("/proc/sys/kernel/sched_rt_runtime_us", "950000\n")
        .file("/proc/sys/kernel/sched_rt_period_us", "1000000\n")
        .file("/proc/sys/kernel/sched_autogroup_enabled", "0\n")
        .file("/proc/sys/kernel/osrelease", "6.12.5-amd64\n")
        .file("/proc/self/ns/net", "")
        .file("/usr/lib/x86_64-linux-gnu/librte_eal.so.23.0", "");
    for cpu in 0..4 {
        root = root.file(&format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor"), "performance\n");
    }
    for driver in ["af_packet", "af_xdp", "memif", "null", "pcap", "tap"] {
        root = root.file(&format!("/usr/lib/x86_64-linux-gnu/dpdk/pmds-23.0/librte_net_{driver}.so.23.0"), "");
    }
    root
}

#[test]
fn a_server_made_for_it_is_all_ok() {
    let root = server();
    let report = root.report(&quiet());
    assert_eq!(report.worst(), Status::Ok, "{report}");
    has(report.get("dpdk").unwrap(), Status::Ok, "22.11 in /usr/lib/x86_64-linux-gnu");
    has(report.get("huge_pages").unwrap(), Status::Ok, "1 GiB: 0 of 0 free; 2 MiB: 500 of 512 free");
    has(report.get("isolated_cores").unwrap(), Status::Ok, "2-3; without timer ticks: 2-3");
    has(report.get("cgroup").unwrap(), Status::Ok, "version 2 with cpu at /sys/fs/cgroup");
    has(report.get("slices").unwrap(), Status::Ok, "Linux 6.12.5-amd64: each task can have its own, 0.1 to 100 ms");
}

#[test]
fn an_empty_host_gives_findings_and_no_panic() {
    let report = Root::new("empty").report(&Live {
        cycles: Err("Permission denied (os error 13)".into()),
        af_xdp: Err("Address family not supported".into()),
        locked_bytes: Some(8 << 20),
        cpu: None,
    });
    assert_eq!(report.worst(), Status::Fail);
    has(report.get("dpdk").unwrap(), Status::Fail, "librte_eal is in none of the usual directories");
    has(report.get("locked_memory").unwrap(), Status::Warn, "up to 8192 KiB");
    has(report.get("capabilities").unwrap(), Status::Warn, "without CAP_NET_RAW, CAP_NET_ADMIN, CAP_SYS_NICE");
    has(report.get("cgroup").unwrap(), Status::Warn, "no cpu controller is mounted");
    has(report.get("performance_counters").unwrap(), Status::Info, "none: Permission denied (os error 13)");
}

#[test]
fn garbage_in_the_kernels_files_gives_findings_and_no_panic() {
    let garbage = "\u{0}-,:[ 18446744073709551616 -1 - - -\n - \n0::::::\ncpu cpu";
    let mut root = server();
    let mut files = vec![root.0.clone()];
    while let Some(path) = files.pop() {
        if path.is_dir() {
            files.extend(std::fs::read_dir(path).unwrap().map(|e| e.unwrap().path()));
        } else {
            std::fs::write(path, garbage).unwrap();
        }
    }
    root = root.file("/proc/self/cgroup", garbage).file("/run/dpdk/chainline-/config", "");
    assert_eq!(root.report(&quiet()).checks.len(), 19);
}

#[test]
fn no_huge_page_left() {
    let root = server().file("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "0\n");
    let check = root.check("huge_pages");
    has(&check, Status::Warn, "1 GiB: 0 of 0 free; 2 MiB: 0 of 512 free");
    assert!(check.remedy.unwrap().contains("/proc/sys/vm/nr_hugepages"));
}

#[test]
fn cgroup_version_2_that_does_not_hand_cpu_down() {
    let root = server().file("/sys/fs/cgroup/cgroup.subtree_control", "memory\n");
    let check = root.check("cgroup");
    has(&check, Status::Warn, "version 2 at /sys/fs/cgroup, but cpu is not handed down");
    assert_eq!(check.remedy.unwrap(), "echo +cpu | sudo tee /sys/fs/cgroup/cgroup.subtree_control");
}

#[test]
fn cgroup_version_1_and_a_group_without_real_time_budget() {
    let root = server()
        .file("/proc/self/mountinfo", V1)
        .file("/proc/self/cgroup", "4:cpu,cpuacct:/jobs/a:b\n0::/\n")
        .file("/sys/fs/cgroup/cpu,cpuacct/jobs/a:b/cpu.rt_runtime_us", "0\n");
    has(&root.check("cgroup"), Status::Ok, "version 1 with cpu at /sys/fs/cgroup/cpu,cpuacct (cpu.shares)");
    has(
        &root.check("real_time_budget"),
        Status::Warn,
        "950000 µs of each 1000000 µs; group /sys/fs/cgroup/cpu,cpuacct/jobs/a:b: 0 µs",
    );
    let root = root.file("/sys/fs/cgroup/cpu,cpuacct/jobs/a:b/cpu.rt_runtime_us", "900000\n");
    assert_eq!(root.check("real_time_budget").status, Status::Ok);
}

#[test]
fn fewer_cores_allowed_than_there_are() {
    let status = |cores: &str| format!("CapEff:\t0\nCpus_allowed_list:\t{cores}\n");
    let root = server().file("/proc/self/status", &status("1-2")).file("/.dockerenv", "");
    has(&root.check("cores"), Status::Info, "1-2 in a container, while the host has 0-3");
    let root = root.file("/proc/self/status", &status("3"));
    has(&root.check("cores"), Status::Warn, "one core (3) of 4 in a container");
}

#[test]
fn threads_of_a_core_and_a_saving_governor() {
    let mut root = server().file("/sys/devices/system/cpu/smt/active", "1\n");
    for (cpu, list) in [(0, "0,2"), (1, "1,3"), (2, "0,2"), (3, "1,3")] {
        root = root.file(&format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"), list);
    }
    root = root.file("/sys/devices/system/cpu/cpu3/cpufreq/scaling_governor", "powersave");
    has(&root.check("smt"), Status::Info, "on; threads of one core: 0,2 1,3");
    has(&root.check("governor"), Status::Warn, "performance, powersave");
}

#[test]
fn steal_and_a_slow_clock() {
    let root = server().file("/sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet");
    let live = Live { cpu: Some(CpuTime { total: 1000, steal: 25 }), ..quiet() };
    let report = root.report(&live);
    has(report.get("steal").unwrap(), Status::Warn, "2.5 % of the sample");
    has(report.get("clock").unwrap(), Status::Warn, "hpet, which is read by a system call");
}

#[test]
fn an_old_dpdk_and_one_without_a_driver() {
    let root = server();
    std::fs::remove_file(root.0.join("usr/lib/x86_64-linux-gnu/dpdk/pmds-23.0/librte_net_memif.so.23.0")).unwrap();
    has(&root.check("dpdk"), Status::Warn, "22.11 in /usr/lib/x86_64-linux-gnu; no driver for ports: memif");
    std::fs::rename(
        root.0.join("usr/lib/x86_64-linux-gnu/librte_eal.so.23.0"),
        root.0.join("usr/lib/x86_64-linux-gnu/librte_eal.so.21.0"),
    )
    .unwrap();
    has(&root.check("dpdk"), Status::Fail, "20.11 in /usr/lib/x86_64-linux-gnu");
}

#[test]
fn some_capabilities_missing() {
    // CAP_NET_RAW (13) alone.
    let root = server().file("/proc/self/status", "CapEff:\t0000000000002000\nCpus_allowed_list:\t0-3\n");
    let check = root.check("capabilities");
    has(&check, Status::Warn, "without CAP_NET_ADMIN, CAP_SYS_NICE");
    assert!(check.remedy.unwrap().starts_with("sudo setcap cap_net_admin,cap_sys_nice+ep "));
}

#[test]
fn what_a_killed_manager_left_is_named_and_what_a_running_one_uses_is_not() {
    let root = server()
        .file("/proc/77/comm", "chainline\n")
        .file("/proc/80/cmdline", "/usr/bin/chainline\0nf-host\0fw\0")
        .file("/proc/80/status", "Name:\tchainline\nPPid:\t77\n")
        .file("/run/dpdk/chainline-77/config", "")
        .file("/run/dpdk/rte/config", "");
    has(&root.check("stale_state"), Status::Ok, "none");

    let root = root.file("/run/dpdk/chainline-78/config", "");
    has(&root.check("stale_state"), Status::Info, "folders of managers that are gone: /run/dpdk/chainline-78");

    // Of a manager that lives, one of a user without a directory of his own, and one that is gone.
    let root = root
        .file("/run/chainline/reserved-77", "")
        .file("/run/chainline/edge-78.sock", "")
        .file("/tmp/chainline-1000/reserved-79", "")
        .file("/run/chainline/reserved-78", "");
    let check = root.check("stale_state");
    let files = "/run/chainline/reserved-78, /tmp/chainline-1000/reserved-79";
    has(&check, Status::Warn, &format!("managers that are gone moved threads off reserved cores: {files}"));

    let root = root.file("/proc/80/status", "Name:\tchainline\nPPid:\t1\n").file("/proc/1/comm", "systemd\n");
    let check = root.check("stale_state");
    has(&check, Status::Warn, "NF processes without a manager: 80");
    assert_eq!(check.remedy.unwrap(), "kill 80");
}

#[test]
fn slices_by_kernel() {
    let slices = |release: &str| server().file("/proc/sys/kernel/osrelease", release).check("slices").status;
    assert_eq!(slices("6.18.0"), Status::Ok);
    assert_eq!(slices("7.0-rc1"), Status::Ok);
    assert_eq!(slices("6.11.0"), Status::Info);
    assert_eq!(slices("6.1.0-49-amd64"), Status::Info);
}

#[test]
fn the_report_as_json_and_as_a_table() {
    let report = server().report(&quiet());
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["checks"][0]["name"], "dpdk");
    assert_eq!(json["checks"][0]["status"], "ok");
    assert!(json["checks"][0].get("remedy").is_none());
    assert!(report.to_string().ends_with("19 ok, 0 info, 0 warn, 0 fail\n"), "{report}");
}

#[test]
fn this_host_can_be_examined() {
    let report = examine(&Host::default(), &Live::probe(Duration::ZERO));
    assert_eq!(report.checks.len(), 19);
    let mut names: Vec<_> = report.checks.iter().map(|c| c.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), 19, "two checks of one name");
    // The tests were linked with DPDK's headers and libraries at hand, and run on some core.
    assert_ne!(report.get("cores").unwrap().status, Status::Fail);
    assert!(report.checks.iter().all(|c| !c.finding.is_empty()));
}

#[test]
fn what_concerns_shares() {
    let root = Root::new("shares").file("/proc/sys/kernel/sched_autogroup_enabled", "1\n");
    let check = root.check("autogroup");
    has(&check, Status::Info, "on");
    assert!(check.consequence.unwrap().contains("CPU shares go by nice"));
    // Groups take their tasks out of it. Of those of managers, the first one's owner is gone.
    let root = root
        .file("/proc/self/mountinfo", V1)
        .file("/proc/self/cgroup", "2:cpu,cpuacct:/user\n0::/\n")
        .file("/sys/fs/cgroup/cpu,cpuacct/user/chainline-77/instance-0/cpu.shares", "1024\n")
        .file("/sys/fs/cgroup/cpu,cpuacct/user/chainline-78/cpu.shares", "1024\n")
        .file("/proc/78/comm", "chainline\n");
    has(&root.check("autogroup"), Status::Ok, "on; NFs in control groups are not concerned");
    let finding = "control groups of managers that are gone: /sys/fs/cgroup/cpu,cpuacct/user/chainline-77";
    has(&root.check("stale_state"), Status::Info, finding);
}
