//! Against the running kernel: what was applied is read back from where the kernel shows it.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use chainline_sched::reserve::{Journal, PutBack, Reserved, put_back};
use chainline_sched::task::{cores, pin, read};
use chainline_sched::weights::{Backend, Kind, Member, Mounts, Nice, Stale, V1, V2, detect};
use chainline_sched::{Policy, Task};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A process to do things to; it ends with its value.
struct Sleeper(Child);

impl Sleeper {
    fn new() -> Self {
        Self(Command::new("sleep").arg("600").stdin(Stdio::null()).spawn().unwrap())
    }
    fn tid(&self) -> i32 {
        self.0.id() as i32
    }
    fn member(&self, id: usize, policy: Policy) -> Member {
        Member { id, tid: self.tid(), thread: false, policy }
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn root(what: &str) -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        println!("skipped: {what} needs root");
    }
    root
}

/// Tests that look at all groups in one place take turns.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A group of this test's own, so that others on this host are left alone.
struct Base(PathBuf);

impl Base {
    fn new(name: &str) -> Option<Self> {
        let Some(own) = Mounts::find().v1 else {
            println!("skipped: no cgroup version 1 with the cpu controller");
            return None;
        };
        let path = own.join(format!("sched-test-{name}-{}", std::process::id()));
        match std::fs::create_dir(&path) {
            Ok(()) => Some(Self(path)),
            Err(e) => {
                println!("skipped: {}: {e}", path.display());
                None
            }
        }
    }
    fn number(&self, path: impl AsRef<Path>) -> i64 {
        std::fs::read_to_string(self.0.join(path)).unwrap().trim().parse().unwrap()
    }
}

impl Drop for Base {
    fn drop(&mut self) {
        std::fs::remove_dir(&self.0).unwrap();
    }
}

/// What the kernel says in the group file of a process.
fn group_of(tid: i32) -> String {
    let text = std::fs::read_to_string(format!("/proc/{tid}/cgroup")).unwrap();
    text.lines().find(|l| l.contains(":cpu:") || l.contains(":cpu,")).unwrap_or("").to_owned()
}

#[test]
fn every_policy_is_applied_and_read_back() {
    if !root("policies") {
        return;
    }
    let sleeper = Sleeper::new();
    let tid = sleeper.tid();
    let tasks = [
        Task { policy: Policy::Other, nice: -5, ..Task::default() },
        Task { policy: Policy::Batch, nice: 7, ..Task::default() },
        Task { policy: Policy::Idle, ..Task::default() },
        Task { policy: Policy::Fifo, priority: 42, ..Task::default() },
        Task { policy: Policy::Rr, priority: 3, ..Task::default() },
        Task { policy: Policy::Deadline, runtime_us: 500, deadline_us: 4_000, period_us: 10_000, ..Task::default() },
        Task { policy: Policy::Batch, ..Task::default() },
    ];
    for task in tasks {
        assert_eq!(task.apply(tid).unwrap_or_else(|e| panic!("{e}")), [""; 0]);
        let mut got = read(tid).unwrap();
        got.slice_us = None; // the kernel names its own default
        assert_eq!(got, task, "sched_getattr");
        // And where operators look.
        let shown = std::fs::read_to_string(format!("/proc/{tid}/sched")).unwrap();
        let policy = shown.lines().find(|l| l.starts_with("policy")).unwrap().split(':').nth(1).unwrap().trim();
        let number = [Policy::Other, Policy::Fifo, Policy::Rr, Policy::Batch].iter().position(|p| *p == task.policy);
        let number = number.unwrap_or(if task.policy == Policy::Idle { 5 } else { 6 });
        assert_eq!(policy, number.to_string(), "{shown}");
    }
}

#[test]
fn slices_and_cores() {
    if !root("slices") {
        return;
    }
    let sleeper = Sleeper::new();
    let before = cores(sleeper.tid()).unwrap();
    let one = vec![before[before.len() - 1]];
    let task = Task { policy: Policy::Batch, slice_us: Some(700), cores: one.clone(), ..Task::default() };
    let remarks = task.apply(sleeper.tid()).unwrap();
    assert_eq!(cores(sleeper.tid()).unwrap(), one);
    match read(sleeper.tid()).unwrap().slice_us {
        Some(700) => assert_eq!(remarks, [""; 0]),
        got => {
            assert!(remarks.iter().any(|r| r.contains("Linux 6.12")), "{got:?} {remarks:?}");
            println!("skipped: this kernel has no slices of a thread's own");
        }
    }
    // Pinned, deadline cannot be had: it is let onto all cores, and that is said.
    let task = Task { policy: Policy::Deadline, runtime_us: 100, period_us: 10_000, cores: one, ..Task::default() };
    let remarks = task.apply(sleeper.tid()).unwrap();
    assert_eq!(cores(sleeper.tid()).unwrap(), before);
    assert!(before.len() == 1 || remarks.iter().any(|r| r.contains("exclusive cpuset")), "{remarks:?}");
}

#[test]
fn refusals_say_what_was_asked_and_why() {
    let gone = {
        let sleeper = Sleeper::new();
        sleeper.tid()
    };
    let e = Task { policy: Policy::Fifo, priority: 9, ..Task::default() }.apply(gone).unwrap_err();
    assert!(e.to_string().contains("policy fifo priority 9") && e.to_string().contains("No such process"), "{e}");
    assert!(read(gone).is_err() && cores(gone).is_err());
    let e = pin(Some(gone), &[]).unwrap_err();
    assert!(e.to_string().starts_with("run on cores []"), "{e}");
    let sleeper = Sleeper::new();
    // Longer than its period: sched(7) refuses it.
    let task = Task { policy: Policy::Deadline, runtime_us: 20_000, period_us: 10_000, ..Task::default() };
    let e = task.apply(sleeper.tid()).unwrap_err();
    assert!(e.to_string().contains("deadline runtime 20000 deadline 10000 period 10000"), "{e}");
    assert_eq!(read(sleeper.tid()).unwrap().policy, Policy::Other);
}

#[test]
fn version_1_groups_come_and_go() {
    let _turn = turn();
    let Some(base) = root("control groups").then(|| Base::new("v1")).flatten() else { return };
    let (a, b) = (Sleeper::new(), Sleeper::new());
    let mut remarks = Vec::new();
    let mut v1 = V1::create(&base.0, &mut remarks).unwrap();
    assert_eq!((v1.kind(), remarks), (Kind::V1, vec![]));
    let home = v1.path().to_owned();
    v1.enter(&a.member(0, Policy::Batch)).unwrap();
    v1.enter(&b.member(7, Policy::Idle)).unwrap();
    assert!(group_of(a.tid()).ends_with("/instance-0"), "{}", group_of(a.tid()));
    assert_eq!(base.number(home.join("cpu.shares")), 2048);
    if home.join("instance-7/cpu.idle").exists() {
        assert_eq!(base.number(home.join("instance-7/cpu.idle")), 1);
    }
    v1.enter(&b.member(7, Policy::Other)).unwrap();
    assert!(v1.set(&[(0, 300.0), (7, 25.0)]).iter().all(Result::is_ok));
    assert_eq!(base.number(home.join("instance-0/cpu.shares")), 3072);
    assert_eq!(base.number(home.join("instance-7/cpu.shares")), 256);
    assert!((v1.get(7).unwrap() - 25.0).abs() < 0.1);
    // A group that somebody removes behind our back is an error for it alone, and can be made again.
    let tasks = Mounts::find().v1.unwrap().join("cgroup.procs");
    std::fs::write(tasks, b.tid().to_string()).unwrap();
    std::fs::remove_dir(home.join("instance-7")).unwrap();
    let results = v1.set(&[(0, 50.0), (7, 50.0)]);
    assert!(results[0].is_ok(), "{results:?}");
    assert!(results[1].as_ref().unwrap_err().to_string().contains("instance-7"), "{results:?}");
    v1.enter(&b.member(7, Policy::Other)).unwrap();
    assert!(v1.set(&[(7, 50.0)])[0].is_ok());
    // Real-time: in a group without a budget the kernel refuses. The test's own group has none, so one is asked for.
    v1.enter(&b.member(7, Policy::Fifo)).unwrap();
    if base.0.join("cpu.rt_runtime_us").exists() {
        assert!(base.number("cpu.rt_runtime_us") > 0);
        assert!(!home.join("instance-7").exists());
    }
    Task { policy: Policy::Fifo, priority: 1, ..Task::default() }.apply(b.tid()).unwrap();
    assert_eq!(read(b.tid()).unwrap().policy, Policy::Fifo);
    Task::default().apply(b.tid()).unwrap();
    drop(v1);
    assert!(!home.exists());
    // Their processes went up, and live.
    assert!(group_of(a.tid()).contains("sched-test-v1"), "{}", group_of(a.tid()));
    drop((a, b));
}

/// A manager that was killed holds no lock: the next one removes what it left, and nothing else.
#[test]
fn stale_groups_go_and_living_ones_stay() {
    let _turn = turn();
    let Some(base) = root("control groups").then(|| Base::new("stale")).flatten() else { return };
    let living = V1::create(&base.0, &mut Vec::new()).unwrap();
    let dead = base.0.join("chainline-4711");
    std::fs::create_dir_all(dead.join("instance-0")).unwrap();
    let orphan = Sleeper::new();
    std::fs::write(dead.join("instance-0/cgroup.procs"), orphan.tid().to_string()).unwrap();
    std::fs::create_dir(base.0.join("chainline-mine")).unwrap();
    assert_eq!(Stale::clean(&base.0, "tasks"), Stale { removed: 1, left: 0 });
    assert!(!dead.exists() && living.path().exists() && base.0.join("chainline-mine").exists());
    assert!(orphan.tid() > 0 && group_of(orphan.tid()).contains("sched-test-stale"));
    std::fs::remove_dir(base.0.join("chainline-mine")).unwrap();
    drop((living, orphan));
}

/// A tree of plain files stands for the version 2 hierarchy, which has no cpu controller on a host with version 1.
#[test]
fn version_2_writes_what_the_kernel_expects() {
    let own = std::env::temp_dir().join(format!("chainline-v2-{}", std::process::id()));
    let file = |path: &Path, text: &str| std::fs::write(path, text).unwrap();
    std::fs::create_dir(&own).unwrap();
    // Not handed down and not writable: a clear word.
    let e = V2::create(&own, &mut Vec::new()).unwrap_err().to_string();
    assert!(e.contains("cgroup.subtree_control"), "{e}");
    file(&own.join("cgroup.subtree_control"), "cpu memory\n");
    // The kernel makes the files of a group with the group; here the test must, and so V2 fails half-way first.
    assert!(V2::create(&own, &mut Vec::new()).is_err());
    let pid = std::process::id();
    assert!(!own.join(format!("chainline-{pid}")).exists(), "what was begun is undone");
    std::fs::remove_dir_all(&own).unwrap();
}

#[test]
fn nice_values_follow_weights() {
    if !root("lowering nice values") {
        return;
    }
    let (a, b) = (Sleeper::new(), Sleeper::new());
    // The test itself may run with another than 0.
    let before = read(a.tid()).unwrap().nice;
    let mut nice = Nice::create().unwrap();
    nice.enter(&a.member(0, Policy::Batch)).unwrap();
    nice.enter(&b.member(1, Policy::Batch)).unwrap();
    assert!(nice.set(&[(0, 150.0), (1, 50.0)]).iter().all(Result::is_ok));
    assert_eq!((read(a.tid()).unwrap().nice, read(b.tid()).unwrap().nice), (-2, 3));
    assert!((nice.get(0).unwrap() / nice.get(1).unwrap() - 3.0).abs() < 0.2);
    assert!(nice.set(&[(2, 1.0)])[0].is_err());
    drop(b);
    assert!(nice.set(&[(0, 100.0), (1, 100.0)])[1].as_ref().unwrap_err().to_string().contains("instance 1"));
    nice.leave(0);
    assert_eq!(read(a.tid()).unwrap().nice, before);
}

#[test]
fn detection_says_why() {
    let nowhere = Mounts { v1: Some("/nonexistent/v1".into()), v2: Some("/nonexistent/v2".into()) };
    let found = detect(&nowhere);
    assert!(matches!(found.backend.kind(), Kind::Nice | Kind::None));
    assert!(found.remarks[0].contains("version 2") && found.remarks[1].contains("version 1"), "{:?}", found.remarks);
    let found = detect(&Mounts::default());
    assert!(found.remarks[0].contains("no cpu controller is mounted"), "{:?}", found.remarks);
}

/// Only a process of this test is moved.
#[test]
fn reserved_cores_are_left_and_come_back() {
    let sleeper = Sleeper::new();
    let before = cores(sleeper.tid()).unwrap();
    let [first, rest @ ..] = before.as_slice() else { return };
    if rest.is_empty() {
        println!("skipped: one core");
        return;
    }
    let reserved = Reserved::new(&[*first], &[sleeper.tid(), i32::MAX], None);
    assert_eq!((reserved.moved(), reserved.stayed()), (1, 0));
    assert_eq!(cores(sleeper.tid()).unwrap(), rest);
    drop(reserved);
    assert_eq!(cores(sleeper.tid()).unwrap(), before);
    // Who may run nowhere else stays; who was moved on since is left where it is.
    assert_eq!(Reserved::new(&before, &[sleeper.tid()], None).stayed(), 1);
    let reserved = Reserved::new(&[*first], &[sleeper.tid()], None);
    pin(Some(sleeper.tid()), &[*first]).unwrap();
    drop(reserved);
    assert_eq!(cores(sleeper.tid()).unwrap(), [*first]);
}

/// A directory that goes with its value.
struct Dir(PathBuf);

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn files(dir: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).collect()
}

/// What a manager wrote down is its own as long as it lives; after its death only those are put back who are the same
/// threads still, and stand where they were moved to.
#[test]
fn what_a_killed_manager_moved_is_put_back() {
    let dir = Dir(std::env::temp_dir().join(format!("sched-test-journal-{}", std::process::id())));
    std::fs::create_dir(&dir.0).unwrap();
    let [moved, gone_on, stranger] = [Sleeper::new(), Sleeper::new(), Sleeper::new()];
    let before = cores(moved.tid()).unwrap();
    let [first, rest @ ..] = before.as_slice() else { return };
    if rest.is_empty() {
        println!("skipped: one core");
        return;
    }
    let all = [&moved, &gone_on, &stranger].map(Sleeper::tid);
    let reserved = Reserved::new(&[*first], &all, Some(Journal::create(&dir.0).unwrap()));
    assert_eq!((reserved.moved(), reserved.written_down()), (3, true));
    let [file] = files(&dir.0).try_into().unwrap();
    let text = std::fs::read_to_string(&file).unwrap();
    assert_eq!(put_back(&dir.0), [], "its owner lives");
    assert_eq!((cores(moved.tid()).unwrap(), files(&dir.0).len()), (rest.to_vec(), 1));
    drop(reserved);
    assert_eq!((cores(moved.tid()).unwrap(), files(&dir.0).len()), (before.clone(), 0), "it cleans up after itself");
    // Killed: the file is there, and nobody holds its lock. One thread was moved on since; one id is another thread's now.
    all.into_iter().for_each(|tid| pin(Some(tid), rest).unwrap());
    pin(Some(gone_on.tid()), &[*first]).unwrap();
    let line = text.lines().find(|l| l.starts_with(&format!("{} ", stranger.tid()))).unwrap();
    let mut words: Vec<String> = line.split(' ').map(str::to_owned).collect();
    words[1] = (words[1].parse::<u64>().unwrap() - 1).to_string();
    let torn = format!("{} 1 0", moved.tid());
    std::fs::write(&file, text.replace(line, &words.join(" ")) + &torn).unwrap();
    let pid = std::process::id();
    assert_eq!(put_back(&dir.0), [PutBack { pid, threads: 1, refused: 0 }]);
    let now = all.map(|tid| cores(tid).unwrap());
    assert_eq!(now, [before.clone(), vec![*first], rest.to_vec()]);
    assert_eq!(files(&dir.0).len(), 0);
    // Of another boot: it goes, and nobody is touched. Of another namespace, or of a later format: it stays.
    let boot = text.lines().nth(1).unwrap().split(' ').next().unwrap();
    for (other, left) in [
        (text.replace(boot, "00000000-0000-0000-0000-000000000000"), 0),
        (text.replace("pid:[", "pid:[1"), 1),
        (text.replace("reserved 1", "reserved 2"), 1),
        ("garbage".to_owned(), 1),
    ] {
        pin(Some(moved.tid()), rest).unwrap();
        std::fs::write(&file, &other).unwrap();
        assert_eq!((put_back(&dir.0), files(&dir.0).len()), (vec![], left), "{other}");
        assert_eq!(cores(moved.tid()).unwrap(), rest, "{other}");
    }
}
