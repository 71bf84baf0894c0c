//! What people see while a benchmark runs: a bar with the time left on a terminal, a line for each case elsewhere.

use crate::results::Trial;
use chainline_trial::{Load, Ready};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// Something that happened.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// All begins. One case takes about so many seconds in a round.
    Begin {
        /// See [`super::Protocol::estimate_s`].
        each_s: f64,
    },
    /// A case is begun in a round.
    Case {
        /// Which of all, from 0.
        index: usize,
        /// How many there are, in all rounds.
        of: usize,
        /// What it is called.
        name: &'a str,
        /// The round, from 0.
        round: u32,
    },
    /// Its dataplane is being started.
    Starting,
    /// The dataplane is ready.
    Ready(&'a Ready),
    /// A part of a procedure begins.
    Step(&'a str),
    /// A trial was made or played back.
    Trial(&'a Trial),
    /// A case is over.
    CaseDone {
        /// Whether everything was played back.
        cached: bool,
    },
    /// A word for the user.
    Note(&'a str),
    /// All is over.
    End,
}

/// Takes events.
pub trait Tell {
    /// One.
    fn tell(&mut self, event: Event<'_>);
}

/// Standard error.
pub struct Terminal {
    bar: Option<ProgressBar>,
    quiet: bool,
    begun: Instant,
    name: String,
    step: String,
    /// How long a case takes, as long as none has shown it.
    each: Duration,
    /// Trials of this case so far.
    trials: u32,
    /// Cases measured, and the time that they took.
    measured: (u32, Duration),
    case_begun: Instant,
    left: usize,
    said_generator: bool,
    invalid: u32,
}

impl Terminal {
    /// With a bar if standard error is a terminal; `quiet` says only what must be said.
    #[must_use]
    pub fn new(quiet: bool) -> Self {
        let terminal = !quiet && std::io::stderr().is_terminal();
        let bar = terminal.then(|| {
            let style = ProgressStyle::with_template("{elapsed_precise} [{bar:24}] {pos}/{len} {wide_msg}");
            let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr());
            style.map_or(bar.clone(), |s| bar.with_style(s.progress_chars("=> ")))
        });
        let now = Instant::now();
        Self {
            bar,
            quiet,
            begun: now,
            name: String::new(),
            step: String::new(),
            each: Duration::ZERO,
            trials: 0,
            measured: (0, Duration::ZERO),
            case_begun: now,
            left: 0,
            said_generator: false,
            invalid: 0,
        }
    }

    fn line(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.println(text),
            None => eprintln!("{text}"),
        }
    }

    /// What is left, if the cases to come take as long as those that were measured.
    fn time_left(&self) -> String {
        let (cases, took) = self.measured;
        let each = took.checked_div(cases).unwrap_or(self.each);
        if each.is_zero() {
            return String::new();
        }
        let of_this = each.saturating_sub(self.case_begun.elapsed());
        let left = each * u32::try_from(self.left.saturating_sub(1)).unwrap_or(u32::MAX) + of_this;
        format!("about {} left", duration(left))
    }
}

/// `1 h 02 min`, `3 min 20 s` or `20 s`.
pub(crate) fn duration(d: Duration) -> String {
    let s = d.as_secs();
    match (s / 3600, s / 60 % 60, s % 60) {
        (0, 0, s) => format!("{s} s"),
        (0, m, s) => format!("{m} min {s:02} s"),
        (h, m, _) => format!("{h} h {m:02} min"),
    }
}

fn load(load: Load) -> String {
    match load {
        Load::Pps(pps) => format!("{:.4} Mpps", pps / 1e6),
        Load::Max => "all it makes".into(),
        Load::Lossless => "all that fits".into(),
    }
}

impl Tell for Terminal {
    fn tell(&mut self, event: Event<'_>) {
        match event {
            Event::Begin { each_s } => self.each = Duration::try_from_secs_f64(each_s).unwrap_or_default(),
            Event::Case { index, of, name, round } => {
                self.trials = 0;
                self.name = format!("round {}: {name}", round + 1);
                self.step.clear();
                self.case_begun = Instant::now();
                self.left = of - index;
                match &self.bar {
                    Some(bar) => {
                        bar.set_length(of as u64);
                        bar.set_position(index as u64);
                        bar.set_message(format!("{}; {}", self.time_left(), self.name));
                    }
                    None if !self.quiet => {
                        let elapsed = duration(self.begun.elapsed());
                        let left = self.time_left();
                        eprintln!("[{}/{of}] {} (after {elapsed}, {left})", index + 1, self.name);
                    }
                    None => {}
                }
            }
            Event::Starting => self.step = "starting".into(),
            Event::Ready(ready) => {
                if !self.said_generator && !self.quiet {
                    self.said_generator = true;
                    let floor = &ready.floor_ns;
                    self.line(&format!(
                        "the generator alone: at most {:.2} Mpps of {:.0} bytes; its own latency {:.1} µs in the \
                         median, {:.1} µs at worst",
                        ready.generator_max_pps / 1e6,
                        ready.mean_frame_bytes,
                        floor.p50 as f64 / 1e3,
                        floor.max as f64 / 1e3
                    ));
                }
            }
            Event::Step(step) => step.clone_into(&mut self.step),
            Event::Trial(trial) => {
                self.trials += 1;
                if let Some(bar) = &self.bar {
                    let (name, step, n, left) = (&self.name, &self.step, self.trials, self.time_left());
                    bar.set_message(format!("{left}; {name}: trial {n}: {step}: {}", load(trial.load)));
                }
                if !trial.invalid.is_empty() {
                    self.invalid += 1;
                    // On a busy host this would be most of what is said.
                    if !self.quiet && self.invalid <= 10 {
                        let why = trial.invalid.join("; ");
                        self.line(&format!("{}: a trial at {} does not count: {why}", self.name, load(trial.load)));
                    }
                    if !self.quiet && self.invalid == 10 {
                        self.line("further trials that do not count are in the results only");
                    }
                }
            }
            Event::CaseDone { cached } => {
                if !cached {
                    self.measured.0 += 1;
                    self.measured.1 += self.case_begun.elapsed();
                }
            }
            Event::Note(text) => self.line(text),
            Event::End => {
                if let Some(bar) = &self.bar {
                    bar.finish_and_clear();
                }
                if self.invalid > 0 && !self.quiet {
                    eprintln!("{} trials did not count; the results say why", self.invalid);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_is_estimated_before_anything_was_measured() {
        let mut terminal = Terminal::new(true);
        terminal.tell(Event::Begin { each_s: 60.0 });
        terminal.tell(Event::Case { index: 0, of: 3, name: "a", round: 0 });
        // Some of the first minute may be over.
        let left = terminal.time_left();
        assert!(left == "about 3 min 00 s left" || left.starts_with("about 2 min 5"), "{left}");
        terminal.tell(Event::CaseDone { cached: false });
        terminal.tell(Event::Case { index: 1, of: 3, name: "b", round: 0 });
        assert!(terminal.time_left() < "about 2".into(), "the first one took no time: {}", terminal.time_left());
    }

    #[test]
    fn times_for_people() {
        let say = |s| duration(Duration::from_secs(s));
        assert_eq!((say(20), say(200), say(3725)), ("20 s".into(), "3 min 20 s".into(), "1 h 02 min".into()));
    }
}
