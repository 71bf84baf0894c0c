//! What all benchmarks of chains share: arguments, Ctrl-C, where results go, what is said at the end.

use crate::exit::{Exit, WrongInput};
use crate::input::Cores;
use crate::{kinds, report};
use anyhow::Context;
use chainline_bench::report as page;
use chainline_bench::results::{InputFile, Results};
use chainline_bench::run::{Bench, BenchError, Cache, Done, Lab, Options, Terminal};
use chainline_bench::sweep::{self, ChainlineLab, PrepareError, Spec};
use chainline_bench::{host, watch::HostWatch};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Arguments of all benchmarks of chains.
#[derive(Debug, clap::Args)]
pub struct Common {
    /// Short trials and hasty searches: shows that everything works, not how fast it is.
    #[arg(long)]
    quick: bool,
    /// Rounds; each measures everything once, in turn.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: Option<u32>,
    /// The directory for results; by default a new one, named by benchmark and time.
    #[arg(short, long, value_name = "DIR", conflicts_with = "resume")]
    dir: Option<PathBuf>,
    /// Go on with a benchmark that was interrupted: the directory of its results.
    #[arg(long, value_name = "DIR")]
    resume: Option<PathBuf>,
    /// Measure everything, also what the cache has for the same program, files and host.
    #[arg(long)]
    fresh: bool,
    /// When every attempt at a trial was disturbed by other programs, take the least disturbed and say so, rather than
    /// print no number; other programs are then not kept off the NFs' cores either.
    #[arg(long)]
    allow_disturbed: bool,
    /// Measure another build of this program too, round by round in turn with this one. Then `chainline bench diff
    /// DIR --between PROGRAM chainline` says what differs.
    #[arg(long, value_name = "PROGRAM")]
    beside: Option<PathBuf>,
    /// Only what must be said.
    #[arg(long)]
    quiet: bool,
    #[command(flatten)]
    cores: Cores,
}

/// A benchmark to run.
pub struct Job<'a> {
    /// Its name, for the directory.
    pub name: String,
    /// The file that describes it.
    pub file: InputFile,
    /// Where files that it names lie.
    pub dir: &'a Path,
    /// What it says.
    pub spec: Spec,
    /// Whether results may come from the cache.
    pub cached: bool,
}

/// Whether the user wants an end.
static STOP: AtomicBool = AtomicBool::new(false);

/// Whether the user wants an end.
pub fn stop() -> bool {
    STOP.load(Ordering::Relaxed)
}

/// The first Ctrl-C ends the benchmark after the trial; the second ends the program.
fn listen() -> anyhow::Result<()> {
    use signal_hook::consts::{SIGINT, SIGTERM};
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM])?;
    std::thread::spawn(move || {
        for signal in signals.forever() {
            if STOP.swap(true, Ordering::Relaxed) {
                // As if nobody listened. Steered runs end with their input.
                let _ = signal_hook::low_level::emulate_default_handler(signal);
            }
        }
    });
    Ok(())
}

impl Common {
    /// Whether it is to be quick.
    pub fn quick(&self) -> bool {
        self.quick
    }

    /// How many rounds, if that was said.
    pub fn rounds(&self) -> Option<u32> {
        self.rounds
    }

    /// Lists the combinations of a benchmark.
    pub fn list(&self, spec: &Spec, dir: &Path) -> anyhow::Result<Exit> {
        let cores = sweep::Cores::of(&self.cores.get()?);
        let registry = kinds::registry();
        let kinds: Vec<&str> = registry.iter().map(|k| k.name).collect();
        let mut text = String::new();
        for case in spec.cases(dir, &cores, &kinds).map_err(explain)? {
            text += &case.name;
            text += &case.unavailable.map_or(String::new(), |why| format!(": not on this host: {why}"));
            text += &case.short_of.map_or(String::new(), |what| format!(": {what}"));
            text.push('\n');
        }
        crate::output::text(&text)?;
        Ok(Exit::Ok)
    }

    /// Runs several benchmarks into one set of results; their sections stand one after another.
    pub fn run(&self, title: &str, name: &str, jobs: Vec<Job<'_>>) -> anyhow::Result<(Exit, Results)> {
        self.run_with(title, name, jobs, |_| ())
    }

    /// As [`Common::run`]; `finish` adds to the results before they are written.
    pub fn run_with(
        &self,
        title: &str,
        name: &str,
        jobs: Vec<Job<'_>>,
        finish: impl FnOnce(&mut Results),
    ) -> anyhow::Result<(Exit, Results)> {
        self.run_each(title, name, jobs, &mut |_, _, _| (), finish)
    }

    /// As [`Common::run_with`]; `each` is told what each benchmark came to.
    pub fn run_each(
        &self,
        title: &str,
        name: &str,
        mut jobs: Vec<Job<'_>>,
        each: &mut dyn FnMut(&str, &Bench, &Done),
        finish: impl FnOnce(&mut Results),
    ) -> anyhow::Result<(Exit, Results)> {
        listen()?;
        let cores = sweep::Cores::of(&self.cores.get()?);
        let program = std::env::current_exe().context("cannot find this program")?;
        let environment = host::manifest(&program);
        let registry = kinds::registry();
        let kinds: Vec<&str> = registry.iter().map(|k| k.name).collect();
        let started = now();
        let dir = self.place(name, &started)?;
        let mut benches = Vec::new();
        for job in &mut jobs {
            if self.quick {
                job.spec.hurry();
            }
            job.spec.rounds = self.rounds.unwrap_or(job.spec.rounds);
            if let Some(other) = &self.beside {
                job.spec.factors.insert(sweep::PROGRAM.into(), vec![name_of(other)?, sweep::THIS.into()]);
            }
            job.spec.protocol.allow_disturbed |= self.allow_disturbed;
            let cases = job.spec.cases(job.dir, &cores, &kinds).map_err(explain)?;
            let bench = Bench {
                title: title.to_owned(),
                command: std::env::args().collect(),
                file: Some(job.file.clone()),
                started: started.clone(),
                environment: environment.clone(),
                cases,
                rounds: job.spec.rounds,
                protocol: job.spec.protocol.clone(),
                views: job.spec.views(),
                remarks: self.remarks(&environment),
            };
            benches.push((job.name.clone(), job.cached, bench));
        }
        let mut whole: Option<Results> = None;
        let mut stopped = false;
        for (part, cached, bench) in benches {
            // Each part of several has a directory of its own, with its own journal.
            let own = if jobs.len() > 1 { dir.join(&part) } else { dir.clone() };
            let options = Options {
                resume: self.resume.is_some(),
                cache: (cached && !self.fresh).then(Cache::default_dir).flatten().map(Cache::new),
                identity: json!({"program": environment["program_sha256"], "host": host::identity()}),
                dir: own,
            };
            let chains = options.dir.join("chains");
            let mut lab = ChainlineLab { program: program.clone(), chains, cores: cores.clone(), stop };
            let mut terminal = Terminal::new(self.quiet);
            let done = bench.run(&options, &mut lab, &mut HostWatch::default(), &mut terminal, &stop);
            let done = done.map_err(|e| self.explain_run(e, &dir))?;
            each(&part, &bench, &done);
            let Done { results, stopped: ended, .. } = done;
            stopped |= ended;
            whole = Some(whole.map_or(results.clone(), |all| join(all, results)));
            if stopped {
                break;
            }
        }
        // Without a job there is only what `finish` adds.
        let mut results = whole.unwrap_or_else(|| Results {
            format: chainline_bench::results::FORMAT.into(),
            title: title.to_owned(),
            command: std::env::args().collect(),
            started,
            complete: true,
            remarks: self.remarks(&environment),
            environment,
            ..Results::default()
        });
        results.complete &= !stopped;
        finish(&mut results);
        self.end(&dir, results, stopped || stop())
    }

    /// Runs one benchmark of other dataplanes than chains. `beside` is what is known of them, with its name, for the
    /// manifest.
    pub fn measure(
        &self,
        name: &str,
        mut bench: Bench,
        lab: &mut dyn Lab,
        beside: (&str, Value),
    ) -> anyhow::Result<(Exit, Results)> {
        if self.beside.is_some() {
            let word =
                "--beside measures another build of chains; here give it as a dataplane of its own: --dataplane FILE";
            return Err(WrongInput(word.into()).into());
        }
        listen()?;
        let program = std::env::current_exe().context("cannot find this program")?;
        let mut environment = host::manifest(&program);
        environment[beside.0] = beside.1.clone();
        bench.started = now();
        bench.command = std::env::args().collect();
        bench.rounds = self.rounds.unwrap_or(bench.rounds);
        bench.protocol.allow_disturbed |= self.allow_disturbed;
        bench.remarks.extend(self.remarks(&environment));
        let dir = self.place(name, &bench.started)?;
        let options = Options {
            resume: self.resume.is_some(),
            cache: (!self.fresh).then(Cache::default_dir).flatten().map(Cache::new),
            identity: json!({
                "program": environment["program_sha256"], "host": host::identity(), "beside": beside.1,
            }),
            dir: dir.clone(),
        };
        bench.environment = environment;
        let mut terminal = Terminal::new(self.quiet);
        let done = bench.run(&options, lab, &mut HostWatch::default(), &mut terminal, &stop);
        let Done { results, stopped, .. } = done.map_err(|e| self.explain_run(e, &dir))?;
        self.end(&dir, results, stopped)
    }

    /// The cores that there are.
    pub fn cores(&self) -> anyhow::Result<Vec<usize>> {
        self.cores.get()
    }

    /// Where results go.
    fn place(&self, name: &str, started: &str) -> anyhow::Result<PathBuf> {
        match (&self.resume, &self.dir) {
            (Some(dir), _) if !dir.is_dir() => {
                let word = format!("{} is no directory of results to go on with", dir.display());
                Err(WrongInput(word).into())
            }
            (Some(dir), _) | (None, Some(dir)) => Ok(dir.clone()),
            (None, None) => Ok(PathBuf::from(format!("bench-{name}-{}", started.replace([':', '-'], "")))),
        }
    }

    /// Writes the results, and says where they are.
    fn end(&self, dir: &Path, mut results: Results, stopped: bool) -> anyhow::Result<(Exit, Results)> {
        results.complete &= !stopped;
        let files = page::save(dir, &results)?;
        report::note(&format!("report: {}", files.html.display()));
        if stopped {
            report::note(&format!("stopped; what was measured is kept. Go on with: {}", self.go_on(dir)));
            return Ok((Exit::Failed, results));
        }
        if let Some(other) = &self.beside {
            let words = ["chainline", "bench", "diff"].map(str::to_owned).into_iter().chain([
                dir.display().to_string(),
                "--between".into(),
                name_of(other)?.as_str().unwrap_or_default().to_owned(),
                "chainline".into(),
            ]);
            report::note(&format!("compare the builds: {}", page::quoted(&words.collect::<Vec<_>>())));
        }
        Ok((Exit::Ok, results))
    }

    fn remarks(&self, environment: &serde_json::Value) -> Vec<String> {
        let mut remarks = Vec::new();
        if cfg!(debug_assertions) {
            remarks.push("the program is not an optimised build; these figures mean little".to_owned());
        }
        if self.quick {
            remarks.push("made with --quick: trials are too short for figures to be relied upon".to_owned());
        }
        if environment["modified"] == true {
            remarks.push("files of the work tree differed from the commit".to_owned());
        }
        remarks
    }

    /// The command that goes on.
    fn go_on(&self, dir: &Path) -> String {
        let mut words: Vec<String> = std::env::args().collect();
        let named = |w: &String| matches!(w.as_str(), "-d" | "--dir" | "--resume");
        while let Some(at) = words.iter().position(named) {
            words.drain(at..(at + 2).min(words.len()));
        }
        words.retain(|w| !w.starts_with("--dir=") && !w.starts_with("--resume="));
        words.extend(["--resume".into(), dir.display().to_string()]);
        page::quoted(&words)
    }

    fn explain_run(&self, error: BenchError, dir: &Path) -> anyhow::Error {
        match error {
            BenchError::Taken { .. } => WrongInput(error.to_string()).into(),
            error => {
                let go_on = format!("what was measured is kept in {}; go on with: {}", dir.display(), self.go_on(dir));
                anyhow::Error::from(error).context(go_on)
            }
        }
    }
}

/// A path as the value of a factor, whatever the directory is.
fn name_of(program: &Path) -> anyhow::Result<Value> {
    let path = std::path::absolute(program).with_context(|| format!("cannot make {} absolute", program.display()))?;
    let text = path.to_str().ok_or_else(|| WrongInput(format!("{} is no UTF-8", path.display())))?;
    Ok(text.into())
}

/// Two results as one: indexes of the second one's trials move on.
fn join(mut all: Results, more: Results) -> Results {
    let offset = all.trials.len();
    for mut section in more.sections {
        for point in section.series.iter_mut().flat_map(|s| &mut s.points) {
            point.trials.iter_mut().for_each(|t| *t += offset);
        }
        // The generator's own section is one for all.
        if let Some(same) = all.sections.iter_mut().find(|s| s.id == section.id) {
            for series in section.series {
                match same.series.iter_mut().find(|s| s.name == series.name) {
                    Some(s) => s.points.extend(
                        series.points.into_iter().filter(|p| !s.points.iter().any(|q| q.x == p.x)).collect::<Vec<_>>(),
                    ),
                    None => same.series.push(series),
                }
            }
            continue;
        }
        all.sections.push(section);
    }
    all.trials.extend(more.trials);
    all.remarks.extend(more.remarks.into_iter().filter(|r| !all.remarks.contains(r)).collect::<Vec<_>>());
    all.complete &= more.complete;
    if let (Some(a), Some(b)) = (&mut all.file, more.file) {
        a.name = format!("{}, {}", a.name, b.name);
        a.text = format!("{}\n---\n{}", a.text.trim_end(), b.text);
    }
    all
}

/// What is wrong with a chain file is shown as `validate` shows it.
fn explain(error: PrepareError) -> anyhow::Error {
    match error {
        PrepareError::Base(found) => (*found).into(),
        error => WrongInput(error.to_string()).into(),
    }
}

/// The time by RFC 3339, in UTC.
fn now() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    rfc3339(seconds)
}

fn rfc3339(seconds: u64) -> String {
    let (mut days, of_day) = (seconds / 86_400, seconds % 86_400);
    let leap = |y: u64| y.is_multiple_of(4) && (!y.is_multiple_of(100) || y.is_multiple_of(400));
    let mut year = 1970;
    while days >= 365 + u64::from(leap(year)) {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    let months = [31, 28 + u64::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while days >= months[month] {
        days -= months[month];
        month += 1;
    }
    let (h, m, s) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    format!("{year:04}-{:02}-{:02}T{h:02}:{m:02}:{s:02}Z", month + 1, days + 1)
}

#[cfg(test)]
mod tests {
    use super::rfc3339;

    #[test]
    fn times_by_rfc_3339() {
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00Z");
        assert_eq!(rfc3339(951_782_399), "2000-02-28T23:59:59Z");
        assert_eq!(rfc3339(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(rfc3339(1_795_254_889), "2026-11-21T09:54:49Z");
    }
}
