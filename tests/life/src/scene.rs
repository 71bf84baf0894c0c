//! A run of the real manager in this process.

use crate::Dir;
use chainline_chain::plan::Plan;
use chainline_chain::{Host, load_bytes};
use chainline_ctl::SocketPath;
use chainline_manager::{Happening, Interval, Observer, Options, Remote, Report, RunError};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Runs of one test program take turns: they count this process's children and file descriptors.
static TURN: Mutex<()> = Mutex::new(());
static STOPS: AtomicUsize = AtomicUsize::new(0);
/// Ends a run that would not end; no test passes that comes so far.
const FAILSAFE: Duration = Duration::from_secs(20);

/// Waits for this test's turn.
pub fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Asks the run to stop, as Ctrl-C does.
pub fn stop() {
    STOPS.fetch_add(1, Ordering::Relaxed);
}

/// A directory with the program that is started as NF process in it.
pub struct Scene {
    dir: Dir,
    program: PathBuf,
    drain: Duration,
    remote: bool,
    _turn: MutexGuard<'static, ()>,
}

impl Scene {
    /// `evil_host` is the path of that program.
    #[must_use]
    pub fn new(evil_host: &str) -> Self {
        let turn = turn();
        let dir = Dir::new();
        let program = dir.join("evil-host");
        // The link tells the program where its scripts are.
        std::os::unix::fs::symlink(evil_host, &program).unwrap();
        Self { dir, program, drain: Duration::from_secs(10), remote: false, _turn: turn }
    }

    #[must_use]
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    #[must_use]
    pub fn join(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Time for the chains to run empty at the end.
    #[must_use]
    pub fn drain(mut self, drain: Duration) -> Self {
        self.drain = drain;
        self
    }

    /// With a control socket, `control` in its directory.
    #[must_use]
    pub fn remote(mut self) -> Self {
        self.remote = true;
        self
    }

    /// What the process of `instance`, or the NF with this `script` argument, does in each of its lives.
    pub fn script(&self, instance: &str, lives: &[&str]) {
        self.dir.write(&format!("{instance}.script"), lives.join("\n"));
    }

    /// Runs a chain file with this `spec`, a YAML mapping indented by two, to its end.
    pub fn try_run(&self, spec: &str, observer: &mut dyn Observer) -> Result<Report, RunError> {
        STOPS.store(0, Ordering::Relaxed);
        let set = rustix::thread::sched_getaffinity(None).unwrap();
        let cores: Vec<usize> = (0..rustix::thread::CpuSet::MAX_CPU).filter(|c| set.is_set(*c)).collect();
        let text =
            format!("apiVersion: chainline/v1alpha1\nkind: ServiceChain\nmetadata: {{name: life}}\nspec:\n{spec}");
        let host = Host { cores: Some(&cores), kinds: None };
        let file = load_bytes(text.as_bytes(), Path::new("life.yaml"), &host).unwrap_or_else(|e| panic!("{e}\n{text}"));
        let plan = Plan::build(&file, &cores).unwrap_or_else(|e| panic!("{e}\n{text}"));
        let known = cores.clone();
        let remote = self.remote.then(|| Remote {
            at: SocketPath::At(self.join("control")),
            file,
            cores,
            mechanisms: None,
            load: Arc::new(move |text, name| {
                load_bytes(text, name, &Host { cores: Some(&known), kinds: None }).map_err(|e| e.to_string())
            }),
        });
        let options = Options {
            dir: self.dir().to_owned(),
            program: self.program.clone(),
            builder: Arc::new(crate::nfs::build),
            duration: Some(FAILSAFE),
            interval: Duration::from_millis(4),
            drain: self.drain,
            remote,
            stop: || STOPS.load(Ordering::Relaxed),
        };
        chainline_manager::run(plan, &options, observer)
    }

    /// As [`Scene::try_run`]; the run must end by itself, with every packet accounted for and none left inside.
    pub fn run(&self, spec: &str, observer: &mut dyn Observer) -> Report {
        let report = self.try_run(spec, observer).unwrap_or_else(|e| panic!("{e}"));
        assert_settled(&report);
        assert!(report.duration_s < FAILSAFE.as_secs_f64(), "did not end by itself: {}", shown(&report));
        report
    }
}

/// The report for messages.
#[must_use]
pub fn shown(report: &Report) -> String {
    serde_json::to_string_pretty(report).unwrap()
}

/// Every packet has left or is counted as dropped, chain by chain and over all.
pub fn assert_settled(report: &Report) {
    let ledger = &report.ledger;
    assert!(ledger.balanced, "{}", shown(report));
    assert_eq!(ledger.held, 0, "{}", shown(report));
    let dropped: u64 = ledger.dropped.values().sum();
    assert_eq!(ledger.received, ledger.transmitted + dropped, "{}", shown(report));
    for (name, c) in &report.chains {
        assert_eq!(c.received, c.transmitted + c.dropped.values().sum::<u64>() + c.held, "{name}: {}", shown(report));
    }
}

/// Nothing was lost on this chain.
pub fn assert_lossless(report: &Report, chain: &str) {
    let c = &report.chains[chain];
    assert!(c.dropped.is_empty() && c.received == c.transmitted && c.received > 0, "{chain}: {}", shown(report));
}

/// What an observer is told.
pub enum Seen<'a> {
    Running,
    Interval(&'a Interval),
    Happened(&'a Happening),
    Draining,
}

/// An observer that is a function.
pub struct Watch<F>(pub F);

impl<F: FnMut(Seen<'_>)> Observer for Watch<F> {
    fn running(&mut self, _: &Plan) {
        self.0(Seen::Running);
    }
    fn interval(&mut self, interval: &Interval) {
        self.0(Seen::Interval(interval));
    }
    fn happened(&mut self, happening: &Happening) {
        self.0(Seen::Happened(happening));
    }
    fn draining(&mut self) {
        self.0(Seen::Draining);
    }
}

/// Looks on.
#[must_use]
pub fn silent() -> impl Observer {
    Watch(|_: Seen<'_>| {})
}
