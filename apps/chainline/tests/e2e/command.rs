//! Runs `chainline` as a user does, and judges its report.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use serde_json::Value;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Nothing here takes as long on any machine; whoever waits longer fails.
pub const DEADLINE: Duration = Duration::from_secs(60);
/// Between two looks at a condition.
const LOOK: Duration = Duration::from_millis(10);

/// The repository.
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A name that no other test, nor another run of this one, has.
pub fn unique() -> String {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    format!("{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// A directory that goes with its value.
pub struct Dir(PathBuf);

impl Dir {
    pub fn new() -> Self {
        let path = std::env::temp_dir().join(format!("chainline-e2e-{}", unique()));
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub fn write(&self, name: &str, contents: impl AsRef<[u8]>) -> PathBuf {
        std::fs::write(self.path(name), contents).unwrap();
        self.path(name)
    }

    /// A chain file with this `spec`, a YAML mapping indented by two.
    pub fn chain_file(&self, name: &str, spec: &str) -> PathBuf {
        let head = "apiVersion: chainline/v1alpha1\nkind: ServiceChain\nmetadata: {name: e2e}\nspec:\n";
        self.write(name, format!("{head}{spec}"))
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// How a command ended.
pub struct Outcome {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

impl Outcome {
    /// The command failed with exit code `code`, one error, and nothing that looks like a crash.
    pub fn assert_refused(&self, code: i32, what: &str) {
        let Self { status, stderr, .. } = self;
        assert_eq!(status.code(), Some(code), "{what}: {stderr}");
        let errors = stderr.lines().filter(|l| l.starts_with("error")).count();
        assert_eq!(errors, 1, "{what}: expected one message, found\n{stderr}");
        self.assert_no_crash(what);
    }

    pub fn assert_no_crash(&self, what: &str) {
        let all = format!("{}{}", self.stdout, self.stderr);
        for word in ["panicked", "backtrace", "RUST_BACKTRACE", "unwrap", "core dumped", ".rs:"] {
            assert!(!all.contains(word), "{what}: found {word:?} in\n{all}");
        }
    }
}

/// A command of ours in this process's network. Its control socket is not where others look for runs.
pub fn chainline() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_chainline"));
    command.env("XDG_RUNTIME_DIR", env!("CARGO_TARGET_TMPDIR"));
    command
}

/// Runs a command to its end.
pub fn outcome(command: &mut Command) -> Outcome {
    Running::start(command).end()
}

/// Runs a chain file to its end and returns the report, which has been judged.
pub fn run(file: &Path, args: &[&str]) -> Value {
    Running::start(chainline().args(["run", "--quiet", "-o", "json"]).args(args).arg(file)).report()
}

/// The report of a run that carried `frames` frames of a capture, whatever became of them.
pub fn sum(drops: &Value) -> u64 {
    drops.as_object().unwrap().values().map(|n| n.as_u64().unwrap()).sum()
}

/// A command that runs. Dropping it kills it.
pub struct Running {
    child: Child,
    dir: Dir,
}

impl Running {
    pub fn start(command: &mut Command) -> Self {
        let dir = Dir::new();
        let file = |name| File::create(dir.path(name)).unwrap();
        let child = command.stdin(Stdio::null()).stdout(file("out")).stderr(file("err")).spawn();
        Self { child: child.unwrap_or_else(|e| panic!("{command:?}: {e}")), dir }
    }

    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// The file with what it said on standard error so far.
    pub fn words(&self) -> PathBuf {
        self.dir.path("err")
    }

    pub fn stderr(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(self.words()).unwrap()).into_owned()
    }

    /// Looks until there is something to see. Fails when the command ends before that, or takes too long.
    pub fn until<T>(&mut self, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
        let pidfd = pidfd_open(self.pid(), PidfdFlags::empty()).unwrap();
        let began = Instant::now();
        loop {
            if let Some(seen) = look() {
                return seen;
            }
            let ended = self.child.try_wait().unwrap();
            assert!(ended.is_none(), "ended ({ended:?}) before {what}:\n{}", self.stderr());
            assert!(began.elapsed() < DEADLINE, "not within {DEADLINE:?}: {what}\n{}", self.stderr());
            let pause = Timespec { tv_sec: 0, tv_nsec: LOOK.subsec_nanos().into() };
            let _ = poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], Some(&pause));
        }
    }

    /// Until the chains run.
    pub fn until_running(&mut self) {
        let words = self.words();
        self.until("the chains run", || std::fs::read_to_string(&words).ok().filter(|t| t.contains("Ctrl-C ends")));
    }

    /// Until a file is `len` bytes long.
    pub fn until_file(&mut self, path: &Path, len: u64) {
        let what = format!("{} has {len} bytes", path.display());
        self.until(&what, || std::fs::metadata(path).ok().filter(|m| m.len() >= len));
    }

    /// As Ctrl-C does.
    pub fn interrupt(&self) {
        kill_process(self.pid(), Signal::INT).unwrap();
    }

    /// Waits for its end.
    pub fn end(mut self) -> Outcome {
        let pidfd = pidfd_open(self.pid(), PidfdFlags::empty()).unwrap();
        let wait = Timespec { tv_sec: DEADLINE.as_secs() as i64, tv_nsec: 0 };
        let ended = poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], Some(&wait)).unwrap();
        assert_eq!(ended, 1, "still runs after {DEADLINE:?}:\n{}", self.stderr());
        let status = self.child.wait().unwrap();
        let text = |name| String::from_utf8_lossy(&std::fs::read(self.dir.path(name)).unwrap()).into_owned();
        Outcome { status, stdout: text("out"), stderr: text("err") }
    }

    /// Waits for its end and returns the report, which has been judged.
    pub fn report(self) -> Value {
        let outcome = self.end();
        outcome.assert_no_crash("run");
        assert_eq!(outcome.status.code(), Some(0), "{}\n{}", outcome.stderr, outcome.stdout);
        let report = serde_json::from_str(&outcome.stdout).unwrap_or_else(|e| panic!("{e}: {}", outcome.stdout));
        judge(&report);
        report
    }

    /// Interrupts it and returns the report.
    pub fn finish(self) -> Value {
        self.interrupt();
        self.report()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What holds for every run: the schema, the ledger, and that no NF died.
fn judge(report: &Value) {
    let schema = chainline_manager::report_schema();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let errors: Vec<String> = validator.iter_errors(report).map(|e| format!("{}: {e}", e.instance_path())).collect();
    assert!(errors.is_empty(), "{errors:?}\n{report:#}");
    let ledger = &report["ledger"];
    assert_eq!(ledger["balanced"], true, "{report:#}");
    let number = |key: &str| ledger[key].as_u64().unwrap();
    assert_eq!(number("received"), number("transmitted") + sum(&ledger["dropped"]) + number("held"), "{report:#}");
    for (name, nf) in report["nfs"].as_object().unwrap() {
        assert_eq!((&nf["restarts"], &nf["wasted"]), (&0.into(), &0.into()), "{name}: {report:#}");
    }
}
