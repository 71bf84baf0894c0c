//! Our search beside the one that the authors of RFC 9971 keep, the PyPI package MLRsearch 1.2.1, on simulated systems.
//!
//! Skipped where `target/oracle-venv` has no Python with the package (`scripts/deps.sh --test` makes it). The first 1,000
//! systems; `CHAINLINE_ORACLE_SYSTEMS=100000` as many as that, `CHAINLINE_ORACLE_SYSTEMS=40000..60000` those (a run in
//! pieces, or on several cores). More than 1,000 take about ten minutes of a core per 60,000, nearly all of it the
//! package's; what was found is printed every 2,000.
//!
//! # What agreement means
//!
//! The RFC leaves open which load is tried next and fixes what trials come to. So, for each system and goal:
//!
//! 1. **Same trials, same answer, exactly.** Relevant bounds and conditional throughput that our code finds in the
//!    package's trials are those that the package found, and the package's data base finds in our trials what we found:
//!    the same loads bit for bit, throughputs to 1e-12. Not one exception is allowed.
//! 2. **Each search ends with what the goal asks for:** bounds no further apart than the goal's width, or the irregular
//!    result that the system forces (the maximum load holds, the minimum load fails), the same on both sides.
//! 3. **Different trials, the same capacity.** Each kind of system has, by its formula, a *grey zone*: below it no trial
//!    of full length is of high loss, above it none is of low loss. A lower bound above the zone or an upper bound below
//!    it is wrong, and none is allowed. For kinds whose zone is a point it follows that both intervals hold that point:
//!    they overlap, so that lower bounds differ by at most a width, and so do conditional throughputs of what a width
//!    and a loss ratio allow.
//!
//! Within a grey zone the answer depends on chance (which trial met the bad moment), and two searches that draw
//! differently find different intervals. How often is counted, and judged by a control: the package against itself with
//! another seed. Ours must not differ from it noticeably more often than it differs from itself.
#![allow(clippy::unwrap_used)]

mod systems;

use chainline_search::{Budget, Found, Goal, History, Input, Observation, Outcome, Search, Session, Trial};
use serde::Deserialize;
use serde_json::json;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use systems::{KINDS, Kind, MAX_PPS, MIN_PPS, System};

const WARMUP_S: f64 = 1.0;

/// Bounds and throughput as bit patterns, so that no decimal rounds them.
type Told = [Option<u64>; 3];

#[derive(Deserialize)]
struct Answer {
    goals: Vec<Told>,
    trials: Vec<(u64, u64, u64, u64)>,
    replayed: Vec<Told>,
    again: Option<Vec<Told>>,
}

fn goal_sets() -> Vec<Vec<Goal>> {
    let exceed =
        |exceed_ratio, goal: Goal| Goal { exceed_ratio, name: format!("{}, {exceed_ratio}", goal.name), ..goal };
    let quick = |goal: Goal| Goal { duration_sum_s: 5.0, ..goal };
    vec![
        vec![Goal::ndr(), Goal::pdr()],
        vec![
            quick(Goal::ndr()),
            quick(Goal::pdr()),
            Goal { width: 0.01, name: "1 %".into(), loss_ratio: 0.01, ..Goal::ndr() },
        ],
        vec![Goal { exceed_ratio: 0.0, duration_sum_s: 1.0, ..Goal::ndr() }],
        vec![Goal { initial_trial_s: 0.125, ..Goal::ndr() }, Goal { initial_trial_s: 0.125, ..Goal::pdr() }],
        vec![Goal::rfc2544()],
        vec![Goal::tst009(), Goal::pdr_strict()],
        vec![exceed(0.2, Goal::pdr()), exceed(0.75, Goal::ndr()), Goal { width: 0.002, ..Goal::pdr_strict() }],
    ]
}

fn python() -> Option<PathBuf> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let python = root.join("target/oracle-venv/bin/python");
    let has_it = Command::new(&python).args(["-c", "import MLRsearch"]).stderr(Stdio::null()).status();
    has_it.is_ok_and(|status| status.success()).then_some(python)
}

fn told(bounds: chainline_search::Bounds) -> Told {
    [bounds.lower_pps, bounds.upper_pps, bounds.throughput_pps].map(|x| x.map(f64::to_bits))
}

fn same(ours: Told, theirs: Told) -> bool {
    let close = |a: Option<u64>, b: Option<u64>| match (a.map(f64::from_bits), b.map(f64::from_bits)) {
        (Some(a), Some(b)) => (a - b).abs() <= 1e-12 * a.max(b),
        (a, b) => a == b,
    };
    ours[..2] == theirs[..2] && close(ours[2], theirs[2])
}

/// Whether lower bounds are further apart than the goal's width, or one has none.
fn apart(goal: &Goal, a: Told, b: Told) -> bool {
    match (a[0].map(f64::from_bits), b[0].map(f64::from_bits)) {
        (Some(a), Some(b)) => (a - b).abs() > goal.width * a.max(b),
        (a, b) => a.is_some() != b.is_some(),
    }
}

/// Whether both may be right about one capacity.
fn overlap(a: Told, b: Told) -> bool {
    let at = |t: Told, i: usize, none: f64| t[i].map_or(none, f64::from_bits);
    at(a, 0, 0.0) <= at(b, 1, f64::INFINITY) && at(b, 0, 0.0) <= at(a, 1, f64::INFINITY)
}

/// Whether it differs from trial to trial.
fn random(kind: Kind) -> bool {
    matches!(kind, Kind::Spikes | Kind::Noisy | Kind::Bistable)
}

/// Of one kind of system.
#[derive(Default)]
struct Tally {
    systems: u64,
    results: u64,
    regular: u64,
    apart: u64,
    apart_from_itself: u64,
    other_outcome: u64,
    ours_s: f64,
    theirs_s: f64,
    /// ln(our lower bound / theirs), and the same for the package with another seed.
    ours_to_theirs: Spread,
    theirs_to_itself: Spread,
}

/// Mean and root mean square.
#[derive(Default)]
struct Spread {
    n: f64,
    sum: f64,
    squares: f64,
}

impl Spread {
    fn add(&mut self, a: Told, b: Told) {
        if let (Some(a), Some(b)) = (a[0], b[0]) {
            let x = (f64::from_bits(a) / f64::from_bits(b)).ln();
            self.n += 1.0;
            self.sum += x;
            self.squares += x * x;
        }
    }

    fn mean(&self) -> f64 {
        self.sum / self.n.max(1.0)
    }

    fn rms(&self) -> f64 {
        (self.squares / self.n.max(1.0)).sqrt()
    }
}

struct Case {
    system: System,
    goals: Vec<Goal>,
    found: Found,
    trials: Vec<Trial>,
}

fn search(n: u64) -> Case {
    let sets = goal_sets();
    let kind = KINDS[(n % KINDS.len() as u64) as usize];
    let goals = sets[(n / KINDS.len() as u64 % sets.len() as u64) as usize].clone();
    let system = System::of(kind, systems::mix64(n), MIN_PPS, MAX_PPS);
    let mut measurer = system.measurer();
    let mut session = Session::new(&mut measurer, Budget { seconds: f64::INFINITY, ..Budget::default() });
    let search = Search::new(goals.clone(), MIN_PPS, MAX_PPS).unwrap().warmup(WARMUP_S).unwrap();
    let found = search.run(&mut session);
    // The warm-up counts for nothing.
    let trials = session.trials()[1..].to_vec();
    Case { system, goals, found, trials }
}

impl Case {
    fn request(&self) -> serde_json::Value {
        let replay: Vec<_> = self
            .trials
            .iter()
            .map(|t| json!([t.input.load_pps, t.input.duration_s, t.seen.intended, t.seen.received]))
            .collect();
        json!({
            "system": self.system, "goals": self.goals, "min": MIN_PPS, "max": MAX_PPS, "warmup": WARMUP_S,
            "replay": replay, "again": random(self.system.kind).then(|| systems::mix64(!self.system.seed)),
        })
    }

    /// Every broken promise in words; none if all is well.
    fn compare(&self, answer: &Answer, tally: &mut Tally) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut history = History::default();
        for (n, (load, duration, intended, received)) in answer.trials.iter().enumerate() {
            let (load_pps, duration_s) = (f64::from_bits(*load), f64::from_bits(*duration));
            if self.system.trial(n as u64, load_pps, duration_s) != (*intended, *received) {
                wrong.push(format!("trial {n}: the two simulations differ"));
            }
            let seen = Observation { intended: *intended, received: *received, ..Observation::default() };
            if n > 0 {
                history.add(Trial { input: Input { load_pps, duration_s }, seen });
            }
            tally.theirs_s += duration_s;
        }
        tally.systems += 1;
        tally.ours_s += self.found.spent_s;
        let longest_s = self.goals.iter().map(|g| g.final_trial_s).fold(0.0, f64::max);
        for (i, ours) in self.found.goals.iter().enumerate() {
            let (goal, theirs) = (&ours.goal, answer.goals[i]);
            let mine = told(ours.bounds);
            tally.results += 1;
            if !same(told(history.bounds(goal)), theirs) {
                wrong.push(format!(
                    "{}: of their trials we make {:?}, they {theirs:?}",
                    goal.name,
                    history.bounds(goal)
                ));
            }
            if !same(mine, answer.replayed[i]) {
                wrong.push(format!("{}: of our trials we make {mine:?}, they {:?}", goal.name, answer.replayed[i]));
            }
            // Loads at which a frame more or less decides.
            let (low, high) = self.system.grey_zone(goal, longest_s);
            let frames = 2.0 / goal.initial_trial_s / if self.system.kind == Kind::Soft { self.system.x } else { 1.0 };
            let (low, high) = (low * (1.0 - 1e-9) - frames, high * (1.0 + 1e-9) + frames);
            for (who, bounds) in [("we", mine), ("they", theirs)] {
                let [lower, upper, throughput] = bounds.map(|b| b.map(f64::from_bits));
                if lower.is_some_and(|l| l > high) || upper.is_some_and(|u| u < low) {
                    wrong.push(format!("{}: {who} find {lower:?} to {upper:?} outside of {low} to {high}", goal.name));
                }
                if let (Some(l), Some(u)) = (lower, upper)
                    && (u - l) > goal.width * u * (1.0 + 1e-9)
                {
                    wrong.push(format!("{}: {who} find {l} to {u}, wider than {}", goal.name, goal.width));
                }
                if let (Some(l), Some(t)) = (lower, throughput)
                    && (t > l || t < l * (1.0 - goal.loss_ratio) * (1.0 - 1e-12))
                {
                    wrong.push(format!("{}: {who} say {t} at a lower bound of {l}", goal.name));
                }
            }
            let outcome = |told: Told| match told {
                [Some(_), Some(_), _] => Outcome::Regular,
                [Some(_), None, _] => Outcome::MaxLoadHolds,
                [None, Some(_), _] => Outcome::MinLoadFails,
                [None, None, _] => Outcome::Unfinished,
            };
            tally.regular += u64::from(ours.is_regular());
            if outcome(mine) != ours.outcome {
                wrong.push(format!("{}: {:?} does not fit {:?}", goal.name, ours.outcome, ours.bounds));
            }
            // A point, as far as whole frames can tell loads apart; where that is further than the goal's width (a thousand
            // frames a trial, of which a few decide), trials of other lengths round to other answers.
            let point = high - low <= 3.0 * frames + 4e-9 * high && 2.0 * frames <= goal.width * high;
            let clear = |edge: f64| (low..=high).contains(&edge) || (high / edge - 1.0).abs() < goal.width;
            if outcome(theirs) != ours.outcome {
                tally.other_outcome += 1;
                // Where the capacity is at an end of the range, or the grey zone reaches it, either may be met.
                if point && !clear(MIN_PPS) && !clear(MAX_PPS) {
                    wrong.push(format!("{}: {:?}, they {theirs:?}", goal.name, ours));
                }
            }
            tally.apart += u64::from(apart(goal, mine, theirs));
            if point && !overlap(mine, theirs) {
                wrong.push(format!("{}: {mine:?} and {theirs:?} do not overlap", goal.name));
            }
            tally.ours_to_theirs.add(mine, theirs);
            if let Some(again) = &answer.again {
                tally.theirs_to_itself.add(again[i], theirs);
                tally.apart_from_itself += u64::from(apart(goal, again[i], theirs));
            }
        }
        wrong
    }
}

/// Asks the package about a batch, in one process.
fn ask(python: &PathBuf, cases: &[Case]) -> Vec<Answer> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/oracle.py");
    let mut child =
        Command::new(python).arg(script).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("python starts");
    let mut stdin = child.stdin.take().unwrap();
    let stdout = BufReader::new(child.stdout.take().unwrap());
    let answers = std::thread::scope(|scope| {
        scope.spawn(move || {
            for case in cases {
                // The other end is closed early only if the script failed, which the count of answers shows.
                let _ = writeln!(stdin, "{}", case.request());
            }
        });
        stdout.lines().map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect::<Vec<Answer>>()
    });
    assert!(child.wait().unwrap().success(), "{script} failed: its words are above");
    assert_eq!(answers.len(), cases.len());
    answers
}

fn print(tallies: &BTreeMap<Kind, Tally>) {
    println!(
        "of systems, results (one a goal): regular ones; lower bounds further than a width from the package's, and"
    );
    println!(
        "of the package's own with another seed; other outcomes; mean and rms of ln(lower bound / the package's) in %,"
    );
    println!("ours and its own with another seed; seconds of trials a system, ours and the package's");
    println!("kind      systems results regular  apart (itself)  other   mean    rms  (itself)        ours   theirs");
    for (kind, t) in tallies {
        let per = |x: f64| x / t.systems as f64;
        println!(
            "{:9} {:7} {:7} {:7} {:6} {:8} {:6} {:6.2} {:6.2} {:6.2} {:6.2} {:8.1} {:8.1}",
            format!("{kind:?}"),
            t.systems,
            t.results,
            t.regular,
            t.apart,
            t.apart_from_itself,
            t.other_outcome,
            t.ours_to_theirs.mean() * 100.0,
            t.ours_to_theirs.rms() * 100.0,
            t.theirs_to_itself.mean() * 100.0,
            t.theirs_to_itself.rms() * 100.0,
            per(t.ours_s),
            per(t.theirs_s)
        );
    }
}

#[test]
fn agrees_with_the_python_package() {
    let Some(python) = python() else {
        println!("skipped: target/oracle-venv has no MLRsearch; scripts/deps.sh --test installs it");
        return;
    };
    let wanted = std::env::var("CHAINLINE_ORACLE_SYSTEMS").unwrap_or_else(|_| "1000".into());
    let (first, systems) = wanted.split_once("..").unwrap_or(("0", &wanted));
    let number = |n: &str| n.parse::<u64>().expect("CHAINLINE_ORACLE_SYSTEMS: expected a number, or FIRST..END");
    let (first, systems) = (number(first), number(systems));
    let mut tallies: BTreeMap<Kind, Tally> = BTreeMap::new();
    let mut wrong = Vec::new();
    let mut n = first;
    while n < systems {
        let batch: Vec<Case> = (n..systems.min(n + 2000)).map(search).collect();
        for (i, (case, answer)) in batch.iter().zip(ask(&python, &batch)).enumerate() {
            let found = case.compare(&answer, tallies.entry(case.system.kind).or_default());
            wrong.extend(found.into_iter().map(|w| format!("system {} {:?}: {w}", n + i as u64, case.system)));
        }
        n += batch.len() as u64;
        println!("systems {first}..{n}: {} broken promises", wrong.len());
        print(&tallies);
    }
    for (kind, t) in &tallies {
        let itself = t.apart_from_itself as f64;
        // A quarter more, and three standard deviations of a count.
        if random(*kind) && t.apart as f64 > 1.25 * itself + 3.0 * itself.sqrt() + 5.0 {
            wrong.push(format!("{kind:?}: {} apart, of the package from itself {itself}", t.apart));
        }
    }
    let shown: Vec<_> = wrong.iter().take(20).cloned().collect();
    assert!(wrong.is_empty(), "{} broken promises, the first:\n{}", wrong.len(), shown.join("\n"));
}
