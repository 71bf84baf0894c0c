//! A whole benchmark: all cases, interleaved in rounds, so that a slow minute of the host hits all alike.

use super::journal::{Cache, Entries, Entry, Journal, JournalError, Line, key};
use super::measure::{Found, Ideal, measure};
use super::meter::{Meter, Rules, Stop};
use super::protocol::Protocol;
use super::scheduling::{RATIO, THROUGHPUT};
use super::sections::{self, View};
use super::tell::{Event, Tell};
use crate::dataplane::{Dataplane, DataplaneError};
use crate::report::{self, ReportError};
use crate::results::{FORMAT, InputFile, Results, Unavailable};
use crate::watch::Watch;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

/// One thing to measure: a dataplane, set up in one way.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Case {
    /// What people call it: `64 B, l3fwd`.
    pub name: String,
    /// The dataplane's name in tables.
    pub dataplane: String,
    /// What was varied.
    pub factors: BTreeMap<String, Value>,
    /// Everything else that its figures depend on: files, versions. Part of the key under which they are kept.
    pub content: Value,
    /// Why this host cannot do it, if it cannot.
    pub unavailable: Option<String>,
    /// The index of the case that is its ideal, which stands before it; its own if it is one.
    pub ideal: Option<usize>,
    /// What this host has too little of for it, where it is measured all the same: `needs 4 cores: run with 2 sharing`.
    pub short_of: Option<String>,
}

/// Starts dataplanes.
pub trait Lab {
    /// Starts what a case describes, and waits until it is ready.
    ///
    /// # Errors
    /// When it is not available or does not come up.
    fn start(&mut self, case: &Case) -> Result<Box<dyn Dataplane>, DataplaneError>;
}

/// What to measure, how, and what to show of it.
#[derive(Clone, Debug, Default)]
pub struct Bench {
    /// A line.
    pub title: String,
    /// What repeats it.
    pub command: Vec<String>,
    /// The file that describes it.
    pub file: Option<InputFile>,
    /// When it began, by RFC 3339.
    pub started: String,
    /// The host and the build.
    pub environment: Value,
    /// What is measured.
    pub cases: Vec<Case>,
    /// How often.
    pub rounds: u32,
    /// How.
    pub protocol: Protocol,
    /// What is shown of it; by default a section for each measure.
    pub views: Vec<View>,
    /// What a reader must know.
    pub remarks: Vec<String>,
}

/// Where things are kept.
#[derive(Clone, Debug)]
pub struct Options {
    /// The directory of the results; made if it is missing.
    pub dir: PathBuf,
    /// Goes on with what the journal in it has.
    pub resume: bool,
    /// Finished jobs of earlier benchmarks; `None`: everything is measured anew, and nothing kept for others.
    pub cache: Option<Cache>,
    /// What the program under test and the host are: part of every key.
    pub identity: Value,
}

/// Name of the journal among the results.
pub const JOURNAL: &str = "journal.jsonl";

/// Why a benchmark could not be run or kept.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The journal, or a file of the cache.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The results.
    #[error(transparent)]
    Report(#[from] ReportError),
    /// The directory of the results.
    #[error("cannot make the directory {path}: {source}")]
    Directory {
        /// Which.
        path: String,
        /// Why not.
        source: std::io::Error,
    },
    /// There is a journal already.
    #[error("{path} is there already: go on with it by --resume, or choose another directory")]
    Taken {
        /// The journal.
        path: String,
    },
}

/// What a benchmark came to.
#[derive(Clone, Debug)]
pub struct Done {
    /// Everything.
    pub results: Results,
    /// Jobs that were played back from the cache or the journal.
    pub played: usize,
    /// Whether the user ended it.
    pub stopped: bool,
    /// For each case and round in which it was measured, what was found.
    pub found: Vec<(usize, u32, Found)>,
}

/// What is at hand while a benchmark runs.
struct Running<'a> {
    bench: &'a Bench,
    options: &'a Options,
    journal: Journal,
    recorded: Entries,
    done: Done,
    /// Cases that are not to be tried again, and why.
    out: BTreeMap<usize, String>,
}

impl Bench {
    /// Runs all of it, as far as the user lets it. Results are written after each trial that is made, so that nothing
    /// is lost whatever happens.
    ///
    /// # Errors
    /// When something cannot be written, or a journal or a cache cannot be read. What was measured before is kept.
    pub fn run(
        &self,
        options: &Options,
        lab: &mut dyn Lab,
        watch: &mut dyn Watch,
        tell: &mut dyn Tell,
        stop: &dyn Fn() -> bool,
    ) -> Result<Done, BenchError> {
        fs::create_dir_all(&options.dir)
            .map_err(|source| BenchError::Directory { path: options.dir.display().to_string(), source })?;
        let path = options.dir.join(JOURNAL);
        let (journal, recorded) = if options.resume {
            Journal::resume(&path)?
        } else if path.exists() {
            return Err(BenchError::Taken { path: path.display().to_string() });
        } else {
            (Journal::create(&path)?, Entries::new())
        };
        let results = Results {
            format: FORMAT.into(),
            title: self.title.clone(),
            command: self.command.clone(),
            file: self.file.clone(),
            started: self.started.clone(),
            environment: self.environment.clone(),
            remarks: self.remarks.clone(),
            ..Results::default()
        };
        let done = Done { results, played: 0, stopped: false, found: Vec::new() };
        let mut running = Running { bench: self, options, journal, recorded, done, out: BTreeMap::new() };
        for (i, case) in self.cases.iter().enumerate() {
            running.out.extend(case.unavailable.clone().map(|why| (i, why)));
        }
        let outcome = running.rounds(lab, watch, tell, stop);
        running.finish(outcome.is_ok());
        tell.tell(Event::End);
        report::save_json(&options.dir, &running.done.results)?;
        outcome?;
        Ok(running.done)
    }
}

impl Running<'_> {
    fn rounds(
        &mut self,
        lab: &mut dyn Lab,
        watch: &mut dyn Watch,
        tell: &mut dyn Tell,
        stop: &dyn Fn() -> bool,
    ) -> Result<(), BenchError> {
        tell.tell(Event::Begin { each_s: self.bench.protocol.estimate_s() });
        let cases = self.bench.cases.len();
        let of = cases * self.bench.rounds as usize;
        for round in 0..self.bench.rounds {
            for (i, case) in self.bench.cases.iter().enumerate() {
                if self.out.contains_key(&i) {
                    continue;
                }
                let index = round as usize * cases + i;
                tell.tell(Event::Case { index, of, name: &case.name, round });
                if self.job(i, round, lab, watch, tell, stop)? == Next::End {
                    self.done.stopped = true;
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn job(
        &mut self,
        i: usize,
        round: u32,
        lab: &mut dyn Lab,
        watch: &mut dyn Watch,
        tell: &mut dyn Tell,
        stop: &dyn Fn() -> bool,
    ) -> Result<Next, BenchError> {
        let (bench, dir) = (self.bench, self.options.dir.clone());
        let case = &bench.cases[i];
        let job = key(&json!({
            "identity": self.options.identity, "dataplane": case.dataplane, "factors": case.factors,
            "content": case.content, "protocol": bench.protocol, "round": round,
        }));
        let tape = self.tape(&job, tell);
        let recorded = tape.len();
        let first = self.done.results.trials.len();
        let journal = &mut self.journal;
        let mut keep = |entry: &Entry| journal.add(&Line { job: job.clone(), entry: entry.clone() });
        let mut start = || lab.start(case);
        let (tell_cell, mut unsaved) = (std::cell::RefCell::new(tell), None);
        let mut tell = |event: Event<'_>| tell_cell.borrow_mut().tell(event);
        let Protocol { attempts, allow_disturbed, .. } = bench.protocol;
        let mut trials = std::mem::take(&mut self.done.results.trials);
        let mut meter = Meter {
            dataplane: case.dataplane.clone(),
            factors: case.factors.clone(),
            round,
            rules: Rules { attempts, allow_disturbed },
            start: &mut start,
            watch,
            stop,
            keep: &mut keep,
            tell: &mut tell,
            tape: tape.into(),
            live: None,
            ready: None,
            trials: &mut trials,
            entries: Vec::new(),
            disturbed: None,
            played: 0,
            made: &mut |trials| {
                // Written as they come; that it failed is said when the job is over, and the journal has them.
                let results = Results { trials: trials.to_vec(), ..self.done.results.clone() };
                unsaved = report::save_json(&dir, &results).err();
            },
        };
        let ideal = match case.ideal {
            None => Ideal::None,
            Some(of) if of == i => Ideal::Own,
            Some(of) => Ideal::Other(throughput(&self.done.found, of, round)),
        };
        let (mut found, stopped) = measure(&mut meter, &bench.protocol, ideal);
        let (entries, ready, played) = (std::mem::take(&mut meter.entries), meter.ready.take(), meter.played);
        drop(meter);
        self.done.results.trials = trials;
        if let Some(error) = unsaved {
            return Err(error.into());
        }
        let measured = self.done.results.trials.len() - first;
        let cached = recorded > 0 && played == measured;
        tell_cell.borrow_mut().tell(Event::CaseDone { cached });
        if let Some(ready) = ready {
            sections::note_ready(&mut self.done.results, case, &ready);
        }
        held_against(ideal, &mut found);
        self.done.found.push((i, round, found));
        match stopped {
            None => {
                self.done.played += usize::from(cached);
                if !cached && let Some(cache) = &self.options.cache {
                    cache.put(&job, &entries)?;
                }
                Ok(Next::GoOn)
            }
            Some(Stop::Asked) => Ok(Next::End),
            Some(Stop::Journal(e)) => Err(e.into()),
            Some(why) => {
                // A dataplane that fails is not tried again: the others are not to wait for it.
                tell_cell.borrow_mut().tell(Event::Note(&format!("{}: {why}", case.name)));
                self.out.insert(i, why.to_string());
                Ok(Next::GoOn)
            }
        }
    }

    /// What is known of a job already.
    fn tape(&mut self, job: &str, tell: &mut dyn Tell) -> Vec<Entry> {
        if let Some(entries) = self.recorded.remove(job) {
            return entries;
        }
        let Some(cache) = &self.options.cache else { return Vec::new() };
        cache
            .get(job)
            .map_err(|e| tell.tell(Event::Note(&format!("{e}; it is measured again"))))
            .ok()
            .flatten()
            .unwrap_or_default()
    }

    /// Makes the sections, and says what a reader must know.
    fn finish(&mut self, whole: bool) {
        let Done { results, played, stopped, found } = &mut self.done;
        results.complete = whole && !*stopped;
        results.sections.extend(sections::all(self.bench, found));
        let missing: Vec<Unavailable> = self
            .out
            .iter()
            .map(|(i, why)| Unavailable { what: self.bench.cases[*i].name.clone(), why: why.clone() })
            .collect();
        for section in results.sections.iter_mut().filter(|s| s.id != sections::GENERATOR) {
            section.unavailable.extend(missing.clone());
            section.unavailable.extend(sections::short(self.bench));
        }
        let invalid = results.trials.iter().filter(|t| !t.invalid.is_empty()).count();
        if invalid > 0 {
            let all = results.trials.len();
            results.remarks.push(format!("{invalid} of {all} trials did not count; each says why"));
        }
        if *played > 0 {
            let word = format!(
                "{played} of the measurements were made before, with the same program, files and host, and not again"
            );
            results.remarks.push(word);
        }
        let mut said: Vec<String> = Vec::new();
        for (i, _, f) in found.iter() {
            said.extend(f.remarks.iter().map(|r| format!("{}: {r}", self.bench.cases[*i].name)));
        }
        said.sort();
        said.dedup();
        results.remarks.extend(said);
    }
}

/// The throughput of a case in a round.
fn throughput(found: &[(usize, u32, Found)], of: usize, round: u32) -> Option<f64> {
    found.iter().find(|(i, r, _)| (*i, *r) == (of, round)).and_then(|(_, _, f)| f.value(THROUGHPUT))
}

/// Adds the throughput over the ideal's.
fn held_against(ideal: Ideal, found: &mut Found) {
    let Some(own) = found.value(THROUGHPUT) else { return };
    let pps = match ideal {
        Ideal::None => return,
        Ideal::Own => Some(own),
        Ideal::Other(pps) => pps,
    };
    match pps.filter(|pps| *pps > 0.0) {
        Some(pps) => found.figure(RATIO, own / pps, Vec::new()),
        None => found.lacks(RATIO, "the ideal's throughput was not found in this round"),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    GoOn,
    End,
}
