//! One trial: the released program with a chain file, and what its report says.

use chainline_bench::figures::{Attempt, Repetitions};
use chainline_bench::host::{self, Ticks};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Longest time that a trial may take beyond its own: 100 NFs start on one core.
const PATIENCE: Duration = Duration::from_secs(30);

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    /// A file or a process.
    #[error("{what}: {source}")]
    Io {
        /// Of what.
        what: String,
        /// The system's word.
        source: std::io::Error,
    },
    /// The program ended with an error.
    #[error("{label}: {status}: {words}")]
    Failed {
        /// The trial.
        label: String,
        /// How it ended.
        status: std::process::ExitStatus,
        /// What it said.
        words: String,
    },
    /// The program did not end.
    #[error("{label}: still running {seconds} s after its time; killed")]
    Stuck {
        /// The trial.
        label: String,
        /// How long it was waited for.
        seconds: u64,
    },
    /// The report is not what it should be.
    #[error("{label}: report: {what}")]
    Report {
        /// The trial.
        label: String,
        /// What was found and what was expected.
        what: String,
    },
}

/// The part of the report that figures are made of.
#[derive(Debug, Deserialize)]
pub struct Report {
    pub environment: Value,
    pub duration_s: f64,
    pub ledger: Ledger,
    pub chains: BTreeMap<String, Chain>,
    pub nfs: BTreeMap<String, Nf>,
    pub happenings: Vec<Value>,
}

#[derive(Debug, Deserialize)]
pub struct Ledger {
    pub transmitted: u64,
    pub balanced: bool,
}

#[derive(Debug, Deserialize)]
pub struct Chain {
    pub latency_ns: Latency,
}

#[derive(Debug, Deserialize)]
pub struct Latency {
    pub p50: u64,
}

#[derive(Debug, Deserialize)]
pub struct Nf {
    pub instance: String,
    pub wasted: u64,
    pub cpu_share: f64,
    pub cost_ns: Cost,
    pub run_ns: u64,
    /// Cores' worth of work: packets that come a second times what one costs.
    pub load: f64,
    pub start_ns: Option<u64>,
    pub report: Option<String>,
}

#[derive(Debug, Deserialize)]
pub struct Cost {
    pub p50: Option<u64>,
}

impl Report {
    /// Packets a second that went through. What is inside when a trial's time is over still leaves, so the time that
    /// this takes is counted too: one median latency.
    pub fn pps(&self) -> f64 {
        let latency = self.chains.values().map(|c| c.latency_ns.p50).max().unwrap_or(0);
        self.ledger.transmitted as f64 / (self.duration_s + latency as f64 / 1e9)
    }

    /// Packets dropped for lack of room after an NF had worked on them.
    pub fn wasted(&self) -> u64 {
        self.nfs.values().map(|nf| nf.wasted).sum()
    }

    /// Of each instance one NF: fused NFs all show the times of their instance.
    fn instances(&self) -> impl Iterator<Item = &Nf> {
        let by_instance: BTreeMap<&str, &Nf> = self.nfs.values().map(|nf| (nf.instance.as_str(), nf)).collect();
        by_instance.into_values()
    }

    /// Share of a core that all instances had together.
    pub fn nf_core_share(&self) -> f64 {
        self.instances().map(|nf| nf.cpu_share).sum()
    }

    /// Cores' worth of work that came to the NFs.
    pub fn nf_load(&self) -> f64 {
        self.nfs.values().map(|nf| nf.load).sum()
    }

    /// Nanoseconds on a core for a packet, all instances together.
    pub fn nf_run_ns_a_packet(&self) -> f64 {
        self.instances().map(|nf| nf.run_ns).sum::<u64>() as f64 / self.ledger.transmitted.max(1) as f64
    }
}

/// A trial that came to its end.
#[derive(Debug)]
pub struct Trial {
    pub report: Report,
    /// From the program's start to the moment when all NFs ran.
    pub started: Duration,
    /// Share of a core that manager and NFs had together during the window; 0 without one.
    pub share: f64,
    /// What others did while the trial ran.
    pub ticks: Ticks,
}

impl Trial {
    /// Whether others took so much of the host that it says little.
    pub fn disturbed(&self) -> bool {
        self.ticks.spoil().is_some()
    }
}

impl Attempt for Trial {
    fn ticks(&self) -> Ticks {
        self.ticks
    }
}

/// The program under test.
#[derive(Debug)]
pub struct Program {
    pub path: PathBuf,
    /// Where the chain files go: anybody can run them again.
    pub chains: PathBuf,
    pub repetitions: Repetitions,
}

/// When a trial's processor time is looked at.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// So long after all NFs run.
    pub after: Duration,
    /// For so long.
    pub length: Duration,
}

impl Program {
    /// Runs a chain file for `duration`; again if others disturbed it, and of these the least disturbed counts.
    ///
    /// # Errors
    /// When a run fails, or its ledger does not balance.
    pub fn run(
        &self,
        label: &str,
        file: &Value,
        duration: Duration,
        window: Option<Window>,
    ) -> Result<Trial, TrialError> {
        self.repetitions.least_disturbed(|| self.attempt(label, file, duration, window))
    }

    fn attempt(
        &self,
        label: &str,
        file: &Value,
        duration: Duration,
        window: Option<Window>,
    ) -> Result<Trial, TrialError> {
        let io = |what: &str| {
            let what = what.to_owned();
            move |source| TrialError::Io { what, source }
        };
        let path = self.chains.join(format!("{}.json", label.replace('/', "-")));
        std::fs::write(&path, format!("{file:#}\n")).map_err(io(&path.display().to_string()))?;
        let ticks = Ticks::now();
        let begun = Instant::now();
        let mut child = Command::new(&self.path)
            .args(["run", "--quiet", "--output", "json", "--duration"])
            .arg(format!("{}ms", duration.as_millis()))
            .arg(&path)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(io(&self.path.display().to_string()))?;
        let out = read_all(child.stdout.take());
        let words = read_words(child.stderr.take(), begun);
        let share = window.map_or(0.0, |w| share_of(&child, w));
        let status = wait(&mut child, label, begun + duration + PATIENCE)?;
        let (out, (words, started)) = (out.join().unwrap_or_default(), words.join().unwrap_or_default());
        let ticks = Ticks::now().zip(ticks).map(|(now, then)| now.since(then)).unwrap_or_default();
        if !status.success() {
            return Err(TrialError::Failed { label: label.to_owned(), status, words });
        }
        let wrong = |what: String| TrialError::Report { label: label.to_owned(), what };
        let report: Report = serde_json::from_slice(&out).map_err(|e| wrong(e.to_string()))?;
        if !report.ledger.balanced {
            return Err(wrong("the ledger does not balance".into()));
        }
        if !report.happenings.is_empty() {
            return Err(wrong(format!("expected a quiet run, found {}", Value::from(report.happenings))));
        }
        let started = started.ok_or_else(|| wrong("the program never said that its NFs run".into()))?;
        Ok(Trial { report, started, share, ticks })
    }
}

/// Takes everything that a process writes, so that it never waits for a reader.
fn read_all(pipe: Option<impl Read + Send + 'static>) -> thread::JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut all = Vec::new();
        // Half a report is refused when it is parsed.
        let _ = pipe.map(|mut p| p.read_to_end(&mut all));
        all
    })
}

/// Takes what a process says; its first line says that all NFs run, so the time of that is kept.
fn read_words(
    pipe: Option<impl Read + Send + 'static>,
    begun: Instant,
) -> thread::JoinHandle<(String, Option<Duration>)> {
    thread::spawn(move || {
        let (mut all, mut started) = (String::new(), None);
        for line in pipe.map(BufReader::new).into_iter().flat_map(BufRead::lines).map_while(Result::ok) {
            started.get_or_insert_with(|| begun.elapsed());
            all += &line;
            all.push('\n');
        }
        (all, started)
    })
}

/// Share of a core that a process and its children have during a window.
fn share_of(child: &Child, window: Window) -> f64 {
    let pid = i32::try_from(child.id()).unwrap_or(-1);
    thread::sleep(window.after);
    let (at, before) = (Instant::now(), host::tree_run_ns(pid));
    thread::sleep(window.length);
    let run = host::tree_run_ns(pid).saturating_sub(before);
    run as f64 / 1e9 / at.elapsed().as_secs_f64()
}

fn wait(child: &mut Child, label: &str, deadline: Instant) -> Result<std::process::ExitStatus, TrialError> {
    let io = |source| TrialError::Io { what: label.to_owned(), source };
    loop {
        if let Some(status) = child.try_wait().map_err(io)? {
            return Ok(status);
        }
        if Instant::now() >= deadline {
            child.kill().map_err(io)?;
            child.wait().map_err(io)?;
            return Err(TrialError::Stuck { label: label.to_owned(), seconds: PATIENCE.as_secs() });
        }
        thread::sleep(Duration::from_millis(10));
    }
}

/// What an iteration of the synthetic NF's loop costs, as its report says: `… an iteration 3.194 cycles …`.
pub fn iteration_cycles(report: &Report) -> Option<f64> {
    let words = report.nfs.values().find_map(|nf| nf.report.as_deref())?;
    let mut rest = words.split_whitespace().skip_while(|w| *w != "iteration");
    rest.nth(1)?.parse().ok()
}

/// Creates a directory and those above it.
///
/// # Errors
/// As the system says.
pub fn directory(path: &Path) -> Result<(), TrialError> {
    std::fs::create_dir_all(path).map_err(|source| TrialError::Io { what: path.display().to_string(), source })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn report(nfs: Value) -> Report {
        serde_json::from_value(json!({
            "environment": {}, "duration_s": 0.9, "happenings": [],
            "ledger": {"transmitted": 1000, "balanced": true},
            "chains": {"all": {"latency_ns": {"p50": 100_000_000}}},
            "nfs": nfs,
        }))
        .unwrap()
    }

    fn nf(instance: &str, report: Value) -> Value {
        json!({"instance": instance, "wasted": 2, "cpu_share": 0.25, "cost_ns": {"p50": 7}, "run_ns": 5000, "load": 0.1,
            "start_ns": null, "report": report})
    }

    #[test]
    fn fused_nfs_share_one_instance() {
        let r = report(json!({"a": nf("a+b", Value::Null), "b": nf("a+b", Value::Null), "c": nf("c", Value::Null)}));
        assert_eq!((r.pps(), r.wasted(), r.nf_core_share(), r.nf_run_ns_a_packet()), (1000.0, 6, 0.5, 10.0));
    }

    #[test]
    fn the_synthetic_nf_says_what_it_measured() {
        let words = "mean cost 120.0 cycles; an iteration 3.226 cycles and 0.0 once a packet; TSC 2596 MHz";
        assert_eq!(iteration_cycles(&report(json!({"s": nf("s", words.into())}))), Some(3.226));
        assert_eq!(iteration_cycles(&report(json!({"s": nf("s", "nothing of the kind".into())}))), None);
    }

    #[test]
    fn a_program_that_fails_is_quoted() {
        let dir = std::env::temp_dir();
        let program = Program { path: "/bin/false".into(), chains: dir, repetitions: Repetitions::new(0) };
        let label = format!("chainline-bench-test-{}", std::process::id());
        let error = program.run(&label, &json!({}), Duration::from_millis(1), None).unwrap_err();
        std::fs::remove_file(program.chains.join(label + ".json")).unwrap();
        assert!(matches!(error, TrialError::Failed { .. }), "{error}");
    }
}
