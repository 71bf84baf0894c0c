//! A dataplane from its adapter: started step by step, asked for its counters, stopped.

use super::adapter::{Action, Ask, CounterSource, PortKind, Spec, Step, Worker};
use super::lab::Lab;
use super::words::{Text, Values};
use crate::dataplane::{Counters, DataplaneError};
use crate::process::{self, End, Process, last_words};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Time between two looks at something that is waited for.
const LOOK: Duration = Duration::from_millis(20);

/// A dataplane that has said that it is ready. Whether that is so, packets show.
#[derive(Debug)]
pub struct Started {
    name: String,
    spec: Spec,
    values: Values,
    ports: PortKind,
    namespace: String,
    /// As `taskset` takes them.
    cores: String,
    /// In the order of their start.
    serving: Vec<Process>,
    /// What it says its version is.
    version: Option<String>,
    /// The kernel's thread that does the work, with [`Worker::Kernel`].
    thread: Option<u32>,
}

/// Whether everything is there that a dataplane needs.
///
/// # Errors
/// [`DataplaneError::Unavailable`] with what to install.
pub fn check(name: &str, spec: &Spec) -> Result<(), DataplaneError> {
    let missing: Vec<_> = spec.needs.programs.iter().filter(|p| process::find(p).is_none()).cloned().collect();
    if missing.is_empty() {
        return Ok(());
    }
    let what = match missing.as_slice() {
        [one] => format!("no program `{one}` is installed"),
        all => format!("the programs `{}` are not installed", all.join("`, `")),
    };
    let why = match spec.needs.debian.as_slice() {
        [] => what,
        packages => format!("{what}; on Debian, as root: {}", apt_line(packages)),
    };
    Err(DataplaneError::Unavailable { what: name.to_owned(), why })
}

/// What root types to install packages.
#[must_use]
pub fn apt_line(packages: &[String]) -> String {
    format!("apt-get install --no-install-recommends {}", packages.join(" "))
}

impl Started {
    /// Starts it in `lab`, on `cores`.
    ///
    /// # Errors
    /// When something is not installed, a step fails, or takes too long. Everything that was started by then is ended.
    pub fn new(name: &str, spec: &Spec, lab: &Lab, cores: &[usize], chainline: &Path) -> Result<Self, DataplaneError> {
        check(name, spec)?;
        let core = cores.first().copied().unwrap_or(0);
        let values = lab.values(core, chainline);
        let mut this = Self {
            name: name.to_owned(),
            spec: spec.clone(),
            ports: lab.kind(),
            namespace: lab.dataplane(),
            cores: cores.iter().map(ToString::to_string).collect::<Vec<_>>().join(","),
            values,
            serving: Vec::new(),
            version: None,
            thread: None,
        };
        for (file, text) in &spec.files {
            let path = lab.dir().join(file);
            std::fs::write(&path, text.fill(&this.values))
                .map_err(|source| DataplaneError::Io { what: path.display().to_string(), source })?;
        }
        if spec.worker == Worker::Kernel {
            this.thread = Some(lab.threaded(core)?);
        }
        this.version = this.find_version();
        for step in &spec.start {
            this.step(step).map_err(|why| this.not_ready(why))?;
        }
        Ok(this)
    }

    /// Its name in tables.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it says its version is.
    #[must_use]
    pub fn version(&self) -> Option<&str> {
        self.version.as_deref()
    }

    /// Nanoseconds that its processes, or the kernel's thread for it, were on a core, and on which core that was last;
    /// the processes that serve, not the commands that ask them.
    #[must_use]
    pub fn run_ns(&self) -> u64 {
        let pids = self.serving.iter().map(Process::pid).chain(self.thread);
        pids.filter_map(|p| i32::try_from(p).ok()).map(crate::host::tree_run_ns).sum()
    }

    /// The last lines of the program that was started last.
    #[must_use]
    pub fn last_words(&self) -> String {
        self.serving.last().map(Process::last_words).unwrap_or_default()
    }

    /// An error if one of its programs has ended.
    ///
    /// # Errors
    /// With how it ended, and its last words.
    pub fn alive(&mut self) -> Result<(), DataplaneError> {
        match self.dead() {
            None => Ok(()),
            Some(why) => Err(DataplaneError::Failed { what: self.name.clone(), why }),
        }
    }

    /// Its own counters now.
    ///
    /// # Errors
    /// When they cannot be read in time.
    pub fn counters(&mut self) -> Result<Option<Counters>, DataplaneError> {
        let here = |c: &&CounterSource| c.ports.is_empty() || c.ports.contains(&self.ports);
        let Some(source) = self.spec.counters.as_ref().filter(here).cloned() else { return Ok(None) };
        let read = self.read_counters(&source);
        read.map(Some).map_err(|why| DataplaneError::Failed { what: self.name.clone(), why })
    }

    fn read_counters(&mut self, source: &CounterSource) -> Result<Counters, String> {
        let within = millis(source.within_ms);
        let find = |text: &str| {
            Some(Counters { received: source.received.sum(text)?, transmitted: source.transmitted.sum(text)? })
        };
        let said = match &source.ask {
            Ask::Run(words) => {
                let (end, text) = self.run(words, within)?;
                if end != End::Code(0) {
                    return Err(format!(
                        "its counters cannot be read: `{}` {end}: {}",
                        self.line(words),
                        last_words(&text)
                    ));
                }
                text
            }
            Ask::Say(line) => {
                let line = line.fill(&self.values);
                let Some(process) = self.serving.last_mut() else { return Err("no program serves".into()) };
                let mark = process.mark();
                process.say(&line).map_err(|e| format!("it does not listen to `{line}`: {e}"))?;
                // Half a number would be taken for the whole: only complete lines count, and all that come at once.
                if process.until(mark, within, |text| find(complete(text)).is_some()) {
                    let mut len = 0;
                    while std::mem::replace(&mut len, process.mark()) != len {
                        process.until(len, LOOK, |_| false);
                    }
                }
                complete(&process.since(mark)).to_owned()
            }
        };
        find(&said).ok_or_else(|| {
            let dead = self.dead().map(|why| format!("; {why}")).unwrap_or_default();
            format!(
                "its counters were not in its answer within {} ms, expected `{}` and `{}`{dead}; it said: {}",
                source.within_ms,
                source.received.0,
                source.transmitted.0,
                last_words(&said)
            )
        })
    }

    /// Stops it, step by step, and by force what still runs.
    pub fn stop(&mut self) {
        let steps = std::mem::take(&mut self.spec.stop);
        let asked = !steps.is_empty();
        for step in steps {
            // What matters is that it is gone in the end, and that is seen to below.
            let _ = self.step(&step);
        }
        let grace = millis(self.spec.grace_ms);
        // What was started first may serve the others.
        while let Some(mut process) = self.serving.pop() {
            if asked {
                process.wait(grace);
            }
            process.stop(grace);
        }
    }

    fn not_ready(&mut self, why: String) -> DataplaneError {
        let why = match self.dead() {
            Some(dead) => format!("{why}; {dead}"),
            None => why,
        };
        DataplaneError::NotReady { what: self.name.clone(), why }
    }

    fn dead(&mut self) -> Option<String> {
        self.serving.iter_mut().find_map(|p| {
            let end = p.ended()?;
            Some(format!("`{}` {end}; its last words: {}", p.line(), p.last_words()))
        })
    }

    fn find_version(&mut self) -> Option<String> {
        version(&self.spec, &self.values, |program| self.inside(program))
    }

    fn step(&mut self, step: &Step) -> Result<(), String> {
        let within = millis(step.within_ms);
        let until = step.until.as_ref();
        let lacks = |words: &str, pattern: &regex::Regex| {
            format!("`{words}` did not print `{pattern}` within {} ms", step.within_ms)
        };
        match &step.action {
            Action::Run(words) => {
                let deadline = Instant::now() + within;
                loop {
                    let left = deadline.saturating_duration_since(Instant::now());
                    let (end, text) = self.run(words, left)?;
                    match until {
                        None if end == End::Code(0) => return Ok(()),
                        None => return Err(format!("`{}` {end}: {}", self.line(words), last_words(&text))),
                        Some(pattern) if end == End::Code(0) && pattern.0.is_match(&text) => return Ok(()),
                        Some(pattern) if Instant::now() + LOOK >= deadline || self.dead().is_some() => {
                            return Err(format!(
                                "{}, but {end}: {}",
                                lacks(&self.line(words), &pattern.0),
                                last_words(&text)
                            ));
                        }
                        Some(_) => std::thread::sleep(LOOK),
                    }
                }
            }
            Action::Serve(words) => {
                let line = self.line(words);
                let process =
                    Process::start(&self.command(words)).map_err(|e| format!("cannot start `{line}`: {e}"))?;
                self.serving.push(process);
                self.hear(0, until, within, |pattern| lacks(&line, pattern))
            }
            Action::Say(text) => {
                let line = text.fill(&self.values);
                let Some(process) = self.serving.last_mut() else { return Err(format!("nobody listens to `{line}`")) };
                let mark = process.mark();
                process.say(&line).map_err(|e| format!("it does not listen to `{line}`: {e}"))?;
                self.hear(mark, until, within, |pattern| {
                    format!("it did not print `{pattern}` within {} ms after `{line}`", step.within_ms)
                })
            }
            Action::WaitFor(path) => {
                let path = path.fill(&self.values);
                let deadline = Instant::now() + within;
                while !Path::new(&path).exists() {
                    if Instant::now() >= deadline || self.dead().is_some() {
                        return Err(format!("there was no {path} within {} ms", step.within_ms));
                    }
                    std::thread::sleep(LOOK);
                }
                Ok(())
            }
        }
    }

    fn hear(
        &mut self,
        mark: usize,
        until: Option<&super::adapter::Pattern>,
        within: Duration,
        lacks: impl Fn(&regex::Regex) -> String,
    ) -> Result<(), String> {
        let (Some(pattern), Some(process)) = (until, self.serving.last_mut()) else { return Ok(()) };
        if process.until(mark, within, |text| pattern.0.is_match(text)) {
            return Ok(());
        }
        let words = process.last_words();
        let said = if words.is_empty() { "it said nothing".to_owned() } else { format!("it said: {words}") };
        Err(format!("{}; {said}", lacks(&pattern.0)))
    }

    /// Runs a command to its end and returns what it printed.
    fn run(&mut self, words: &[Text], within: Duration) -> Result<(End, String), String> {
        let line = self.line(words);
        let mut process = Process::start(&self.command(words)).map_err(|e| format!("cannot start `{line}`: {e}"))?;
        match process.finish(within) {
            Some(end) => Ok((end, process.since(0))),
            None => Err(format!("`{line}` hangs: it did not end within {} ms", within.as_micros().div_ceil(1000))),
        }
    }

    fn line(&self, words: &[Text]) -> String {
        words.iter().map(|w| w.fill(&self.values)).collect::<Vec<_>>().join(" ")
    }

    fn command(&self, words: &[Text]) -> Command {
        let mut words = words.iter().map(|w| w.fill(&self.values));
        let mut command = self.inside(&words.next().unwrap_or_default());
        command.args(words);
        command.envs(self.spec.env.iter().map(|(name, text)| (name, text.fill(&self.values))));
        command
    }

    /// A program in the dataplane's network, on its cores.
    fn inside(&self, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.namespace, "taskset", "-c", &self.cores, program]);
        command
    }
}

/// What a dataplane says its version is; `None` if it does not.
pub fn version(spec: &Spec, values: &Values, program: impl Fn(&str) -> Command) -> Option<String> {
    let version = spec.version.as_ref()?;
    let mut words = version.run.iter().map(|w| w.fill(values));
    let mut command = program(&words.next()?);
    command.args(words);
    command.envs(spec.env.iter().map(|(name, text)| (name, text.fill(values))));
    let mut process = Process::start(&command).ok()?;
    process.finish(Duration::from_secs(5))?;
    let text = process.since(0);
    let found = match &version.find {
        Some(pattern) => pattern.0.captures(&text)?.get(1)?.as_str().to_owned(),
        None => text.lines().find(|l| !l.trim().is_empty())?.to_owned(),
    };
    Some(found.trim().to_owned())
}

impl Drop for Started {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A text's complete lines.
fn complete(text: &str) -> &str {
    text.rfind('\n').map_or("", |end| &text[..=end])
}

fn millis(ms: u32) -> Duration {
    Duration::from_millis(ms.into())
}
