//! How the kernel schedules instances: applied, read back from the kernel, changed while packets flow, undone.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use chainline_chain::plan::Plan;
use chainline_manager::{Change, Happening, Interval, Observer, Operator, Report};
use chainline_sched::weights::Mounts;
use chainline_sched::{Policy, task};
use life_tests::command::Desk;
use life_tests::scene::{assert_lossless, assert_settled, shown, silent, stop};
use life_tests::{Scene, processes};
use rustix::process::Signal;
use std::path::{Path, PathBuf};

const HOST: &str = env!("CARGO_BIN_EXE_evil-host");

fn root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        println!("skipped: policies and control groups need root");
    }
    root
}

fn pid_of(name: &str) -> i32 {
    let all = processes::nfs_of(std::process::id());
    all.iter().find(|(_, n)| n == name).unwrap_or_else(|| panic!("no {name} in {all:?}")).0
}

/// What a test does while packets flow, with the operator at hand; it is called once an interval until it says true.
struct Script<F> {
    operator: Option<Operator>,
    step: F,
    happened: Vec<String>,
}

impl<F: FnMut(&Operator, &[String]) -> bool> Script<F> {
    fn new(step: F) -> Self {
        Self { operator: None, step, happened: Vec::new() }
    }
}

impl<F: FnMut(&Operator, &[String]) -> bool> Observer for Script<F> {
    fn operator(&mut self, operator: &Operator) {
        self.operator = Some(operator.clone());
    }
    fn running(&mut self, _: &Plan) {}
    fn interval(&mut self, _: &Interval) {
        if let Some(operator) = self.operator.clone()
            && (self.step)(&operator, &self.happened)
        {
            self.operator = None;
            stop();
        }
    }
    fn happened(&mut self, h: &Happening) {
        self.happened.push(h.what.clone());
    }
}

const NFS: [(&str, &str, Policy); 6] = [
    ("o", "policy: other, nice: -3", Policy::Other),
    ("b", "policy: batch, slice_us: 3000, priority: 4", Policy::Batch),
    ("i", "policy: idle", Policy::Idle),
    ("f", "policy: fifo, priority: 7", Policy::Fifo),
    ("r", "policy: rr, priority: 3", Policy::Rr),
    ("d", "policy: deadline, runtime_us: 1000, deadline_us: 5000, period_us: 10000", Policy::Deadline),
];

#[test]
fn every_policy_of_the_file_is_in_force() {
    if !root() {
        return;
    }
    let scene = Scene::new(HOST);
    let nfs: Vec<String> = NFS.iter().map(|(n, s, _)| format!("{n}: {{kind: pass, sched: {{{s}}}}}")).collect();
    let spec = format!(
        "
  ports: {{in: {{generator: {{frame_bytes: 64, rate: 20kpps}}}}, out: {{sink: {{}}}}}}
  nfs: {{{}}}
  chains:
    - {{name: all, path: [in, o, b, i, f, r, d, out]}}
",
        nfs.join(", ")
    );
    // The manager sets policies when an instance runs, and the run begins when all do: a few intervals suffice.
    let mut left = 500;
    let report = scene.run(
        &spec,
        &mut Script::new(|_, _| {
            left -= 1;
            let set = NFS.iter().all(|(name, _, policy)| task::read(pid_of(name)).unwrap().policy == *policy);
            if set {
                assert_eq!(task::read(pid_of("f")).unwrap().priority, 7);
                assert_eq!(task::read(pid_of("o")).unwrap().nice, -3);
                let d = task::read(pid_of("d")).unwrap();
                assert_eq!((d.runtime_us, d.deadline_us, d.period_us), (1000, 5000, 10_000));
            }
            set || left == 0
        }),
    );
    assert!(left > 0, "not every policy was in force: {}", shown(&report));
    for (name, _, policy) in NFS {
        let sched = report.nfs[name].sched.as_ref().unwrap();
        assert_eq!(sched.policy, policy.word(), "{}", shown(&report));
        assert_eq!(sched.weight_by.is_some(), policy.is_fair(), "{}", shown(&report));
    }
    assert_eq!(report.nfs["b"].sched.as_ref().unwrap().priority, 4);
    assert!(report.control.readings > 0, "{}", shown(&report));
}

const TWO: &str = "
  ports:
    in: {generator: {frame_bytes: 64, rate: 50kpps}}
    in2: {generator: {frame_bytes: 64, rate: 50kpps}}
    out: {sink: {}}
    out2: {sink: {}}
  nfs: {a: {kind: pass}, b: {kind: pass}}
  chains:
    - {name: one, path: [in, a, out]}
    - {name: two, path: [in2, b, out2]}
";

/// The group of a process in the hierarchy that weights go by.
fn group_of(pid: i32) -> Option<PathBuf> {
    let mounts = Mounts::find();
    let base = mounts.v1?;
    let text = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
    let own = text.lines().find_map(|l| {
        let mut parts = l.splitn(3, ':').skip(1);
        parts.next()?.split(',').any(|c| c == "cpu").then(|| parts.next())?
    })?;
    let below = own.rsplit_once("/chainline-").map_or(own, |(_, b)| b);
    Some(base.join(format!("chainline-{below}")))
}

fn number(file: impl AsRef<Path>) -> f64 {
    std::fs::read_to_string(file).unwrap().trim().parse().unwrap()
}

#[test]
fn an_operator_changes_priorities_and_policies_while_packets_flow() {
    if !root() {
        return;
    }
    let scene = Scene::new(HOST);
    let mut intervals = 0;
    let mut ratio = None;
    let report = scene.run(
        TWO,
        &mut Script::new(|operator, _| {
            intervals += 1;
            match intervals {
                1 => {
                    operator.change("a", Change::Priority(8)).unwrap();
                    let e = operator.change("nobody", Change::Priority(8)).unwrap_err();
                    assert!(e.contains("nobody"), "{e}");
                    let e = operator.change("a", Change::Priority(0)).unwrap_err();
                    assert!(e.contains("from 1 to 99"), "{e}");
                    let e = operator.change("a", Change::Cores(vec![])).unwrap_err();
                    assert!(e.contains("at least one"), "{e}");
                    let e = operator.change("a", Change::Cores(vec![900])).unwrap_err();
                    assert!(e.contains("run on cores [900]"), "{e}");
                    operator.change("b", Change::Sched(sched("fifo"))).unwrap();
                    assert_eq!(task::read(pid_of("b")).unwrap().policy, Policy::Fifo);
                    operator.change("b", Change::Sched(sched("other"))).unwrap();
                    assert_eq!(task::read(pid_of("b")).unwrap().policy, Policy::Other);
                }
                // Loads are those of the last 100 ms, an interval is 4 ms: by now the weights have settled.
                100 => {
                    let groups = group_of(pid_of("a")).zip(group_of(pid_of("b"))).filter(|(a, b)| a != b);
                    ratio = groups.map(|(a, b)| number(a.join("cpu.shares")) / number(b.join("cpu.shares")));
                }
                _ => {}
            }
            intervals == 100
        }),
    );
    assert_settled(&report);
    match ratio {
        // Eight times, times what the loads differ by.
        Some(ratio) => {
            let loads = report.nfs["a"].load / report.nfs["b"].load;
            println!("weights 8 × {loads:.2} asked, {ratio:.2} set");
            assert!(ratio > 1.0 && loads.is_finite(), "{ratio} {loads}: {}", shown(&report));
        }
        None => println!("skipped: no version 1 control groups here"),
    }
    assert_eq!(report.nfs["a"].sched.as_ref().unwrap().priority, 8);
}

fn sched(policy: &str) -> chainline_chain::model::Sched {
    use chainline_chain::model::{Policy, Sched};
    let policy = Policy::WORDS.iter().find(|(w, _)| *w == policy).unwrap().1;
    Sched { policy, ..Sched::default() }
}

#[test]
fn a_group_that_vanishes_is_made_again() {
    if !root() || Mounts::find().v1.is_none() {
        println!("skipped: no version 1 control groups here");
        return;
    }
    let scene = Scene::new(HOST);
    let mut removed = None;
    let mut intervals = 0;
    let report = scene.run(
        TWO,
        &mut Script::new(|operator, happened| {
            intervals += 1;
            if intervals == 5 {
                let group = group_of(pid_of("a")).unwrap();
                let base = Mounts::find().v1.unwrap();
                std::fs::write(base.join("cgroup.procs"), pid_of("a").to_string()).unwrap();
                std::fs::remove_dir(&group).unwrap();
                removed = Some(group);
                operator.change("a", Change::Priority(50)).unwrap();
            }
            intervals > 1000 || happened.iter().any(|h| h.contains("made again")) || {
                // A change of policy makes it as well, without a word.
                removed.as_ref().is_some_and(|g| g.exists())
            }
        }),
    );
    assert_settled(&report);
    assert!(intervals <= 1000, "{}", shown(&report));
    assert!(!removed.unwrap().exists(), "groups are removed at the end");
    assert_eq!(report.nfs["a"].sched.as_ref().unwrap().weight_by.as_deref(), Some("cgroup v1 cpu.shares"));
}

/// What the kernel refuses is said, and the run goes on.
#[test]
fn a_refused_policy_is_said_and_the_run_goes_on() {
    if !root() {
        return;
    }
    let scene = Scene::new(HOST);
    // More budget than there is: the kernel admits deadlines up to sched_rt_runtime_us of all cores together.
    let nf = |n: &str| format!("{n}: {{kind: pass, sched: {{policy: deadline, runtime_us: 9900, period_us: 10000}}}}");
    let names: Vec<String> = (0..64)
        .map(|i| format!("n{i}"))
        .take(std::thread::available_parallelism().map_or(2, usize::from) + 1)
        .collect();
    let spec = format!(
        "
  ports: {{in: {{generator: {{frame_bytes: 64, rate: 20kpps, count: 2000}}}}, out: {{sink: {{}}}}}}
  nfs: {{{}}}
  chains:
    - {{name: all, path: [in, {}, out]}}
",
        names.iter().map(|n| nf(n)).collect::<Vec<_>>().join(", "),
        names.join(", ")
    );
    let report = scene.run(&spec, &mut silent());
    let refused = report.happenings.iter().filter(|h| h.what.contains("the kernel refused policy deadline")).count();
    assert!(refused > 0, "{}", shown(&report));
    let batch = |r: &Report| r.nfs.values().filter(|n| n.sched.as_ref().unwrap().policy == "batch").count();
    assert_eq!(batch(&report), refused, "{}", shown(&report));
}

/// A killed manager leaves groups; the next one removes them.
#[test]
fn groups_of_a_killed_manager_go_with_the_next_start() {
    if !root() {
        return;
    }
    let Some(base) = Mounts::find().v1 else {
        println!("skipped: no version 1 control groups here");
        return;
    };
    let desk = Desk::new(HOST);
    let spec = TWO.replace("kind: pass", "kind: forward");
    let running = desk.start("first", &spec, &[]);
    let group = base.join(format!("chainline-{}", running.id()));
    processes::until("groups are made", || group.join("instance-1").exists());
    let orphans = processes::nfs_of(running.id());
    running.signal(Signal::KILL);
    let _ = running.end();
    assert!(group.exists());
    let second = desk.start("second", &spec, &["--duration", "100ms"]);
    let own = base.join(format!("chainline-{}", second.id()));
    let outcome = second.end();
    assert!(outcome.status.success(), "{}", outcome.stderr);
    assert!(!group.exists() && !own.exists());
    let said = outcome.report()["control"]["remarks"].to_string();
    assert!(said.contains("that a killed manager left"), "{said}");
    for (pid, _) in orphans {
        if let Some(pid) = rustix::process::Pid::from_raw(pid) {
            let _ = rustix::process::kill_process(pid, Signal::KILL);
        }
    }
}

/// Two NFs of costs 1 to 3 that share a core and are offered more than they can do: shares as the formula says. How near
/// they come depends on who else uses this host, so it is printed; asserted only where the core was theirs.
#[test]
fn achieved_shares_are_near_the_intended() {
    if !root() || std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        println!("skipped: needs root and two cores");
        return;
    }
    let desk = Desk::new(HOST);
    let spec = "
  defaults: {manager_core: 0, cores: [1]}
  ports:
    in: {generator: {frame_bytes: 64, rate: 4Mpps, lossless: false, dst_port: 1-9}}
    in2: {generator: {frame_bytes: 64, rate: 4Mpps, lossless: false, dst_port: 1-9}}
    out: {sink: {}}
    out2: {sink: {}}
  nfs:
    a: {kind: synthetic, args: {cost_cycles: 1000}}
    b: {kind: synthetic, args: {cost_cycles: 3000}}
  chains:
    - {name: one, path: [in, a, out]}
    - {name: two, path: [in2, b, out2]}
";
    let outcome = desk.start("shares", spec, &["--duration", "4s"]).end();
    assert!(outcome.status.success(), "{}", outcome.stderr);
    let report = outcome.report();
    for nf in ["a", "b"] {
        let sched = &report["nfs"][nf]["sched"];
        let Some((intended, achieved)) = sched["intended_share"].as_f64().zip(sched["achieved_share"].as_f64()) else {
            println!("skipped: the core was never theirs alone: {sched}");
            continue;
        };
        println!("{nf}: intended {:.1} %, achieved {:.1} %", intended * 100.0, achieved * 100.0);
        assert!(intended > 0.05 && intended < 0.95, "{report:#}");
        assert!((intended - achieved).abs() < 0.03, "{report:#}");
    }
    println!("control loop: {}", report["control"]);
}

/// The last core of this process: the manager has the first.
fn last_core() -> usize {
    let set = rustix::thread::sched_getaffinity(None).unwrap();
    (0..rustix::thread::CpuSet::MAX_CPU).rfind(|c| set.is_set(*c)).unwrap()
}

/// A real-time NF that never comes back from a burst, on a core that another chain needs: it is ended and goes by the usual
/// policy after that, and the other chain loses nothing.
#[test]
fn a_real_time_nf_that_never_yields() {
    const COUNT: u64 = 20_000;
    if !root() {
        return;
    }
    for policy in ["fifo", "rr"] {
        let scene = Scene::new(HOST);
        scene.script("s", &["spin 500"]);
        let spec = format!(
            "
  defaults: {{cores: [{}]}}
  ports:
    in: {{generator: {{frame_bytes: 64, flows: 9, count: {COUNT}}}}}
    in2: {{generator: {{frame_bytes: 64, flows: 9, count: {COUNT}}}}}
    out: {{sink: {{}}}}
    out2: {{sink: {{}}}}
  nfs:
    hog: {{kind: fault, args: {{script: s}}, sched: {{policy: {policy}, priority: 5}}}}
    meek: {{kind: pass}}
  chains:
    - {{name: hogs, path: [in, hog, out]}}
    - {{name: lives, path: [in2, meek, out2]}}
",
            last_core()
        );
        let report = scene.run(&spec, &mut silent());
        assert_lossless(&report, "lives");
        assert_eq!(report.chains["hogs"].received, COUNT, "{}", shown(&report));
        assert!(report.chains["hogs"].transmitted >= COUNT - 256, "a death costs a burst: {}", shown(&report));
        let hog = &report.nfs["hog"];
        assert_eq!((hog.restarts, report.nfs["meek"].restarts), (1, 0), "{}", shown(&report));
        let said = |words: &str| {
            let of_hog = |h: &&Happening| h.instance.as_deref() == Some("hog") && h.what.contains(words);
            report.happenings.iter().filter(of_hog).count()
        };
        assert_eq!(said("worked on one burst"), 1, "{}", shown(&report));
        // A kernel that refused the policy had nobody hang under it.
        let refused = said("the kernel refused");
        assert_eq!(said(&format!("hangs under {policy}")) + refused, 1, "{}", shown(&report));
        assert_eq!(hog.sched.as_ref().unwrap().policy, "batch", "{}", shown(&report));
    }
}

/// The same in a thread, which cannot be killed: that is said, it goes by the usual policy, and the others go on.
#[test]
fn a_real_time_thread_that_never_yields() {
    if !root() {
        return;
    }
    let desk = Desk::new(HOST);
    // A burst of all packets but the first few takes half a minute and more.
    let spec = format!(
        "
  defaults: {{cores: [{}], isolation: thread}}
  ports:
    in: {{generator: {{frame_bytes: 64, count: 32}}}}
    in2: {{generator: {{frame_bytes: 64, rate: 1kpps, lossless: true}}}}
    out: {{sink: {{}}}}
    out2: {{sink: {{}}}}
  nfs:
    hog: {{kind: synthetic, args: {{cost_cycles: 4000000000}}, sched: {{policy: fifo, priority: 5}}}}
    meek: {{kind: forward}}
  chains:
    - {{name: hogs, path: [in, hog, out]}}
    - {{name: lives, path: [in2, meek, out2]}}
",
        last_core()
    );
    let mut running = desk.start("thread", &spec, &["--duration", "60s", "--drain", "100ms"]);
    running.until_says("a thread cannot be killed");
    running.signal(Signal::INT);
    let outcome = running.end();
    let report: serde_json::Value =
        serde_json::from_str(&outcome.stdout).unwrap_or_else(|e| panic!("{e}: {outcome:?}"));
    assert_eq!(report["ledger"]["balanced"], true, "{report:#}");
    // What it still had at the end came back as from a dead one.
    let hogs = &report["chains"]["hogs"];
    let [received, transmitted, died] =
        [&hogs["received"], &hogs["transmitted"], &hogs["dropped"]["nf_died"]].map(|n| n.as_u64().unwrap_or(0));
    assert!(died > 0 && received == transmitted + died, "{report:#}");
    let lives = &report["chains"]["lives"];
    assert!(lives["received"] == lives["transmitted"] && lives["received"].as_u64() > Some(0), "{report:#}");
    assert_eq!(report["nfs"]["hog"]["sched"]["policy"], "batch", "{report:#}");
}
