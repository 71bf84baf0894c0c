//! How often `bench diff` cries wolf, and how often it sees one: comparisons of simulated builds under noise as
//! benchmarks have it. Everything is drawn from fixed seeds, so the counts are the same on every machine.
//!
//! `cargo test -p chainline-bench --test false_alarms -- --nocapture` prints the tables of `docs/benchmarking.md`.
#![allow(clippy::unwrap_used)]

use chainline_bench::diff::{Samples, Settings, judge};
use fastrand::Rng;

/// Noise of one round, as a factor.
#[derive(Clone, Copy, Debug)]
enum Noise {
    /// Log-normal of this standard deviation.
    LogNormal(f64),
    /// One of two modes so far apart (layout of memory, frequency), the second with this probability.
    TwoModes { apart: f64, second: f64 },
    /// Now and then a round is up to a fifth slower.
    Outliers,
    /// Log-normal of 1 %, as a search to 0.5 % shows it.
    Rounded,
    /// The host slows down evenly by so much during a run, and goes on doing so in the next one.
    Drift(f64),
    /// Half of the noise hits all points of a round alike.
    SlowMinutes,
}

const NOISES: &[Noise] = &[
    Noise::LogNormal(0.005),
    Noise::LogNormal(0.01),
    Noise::LogNormal(0.03),
    Noise::TwoModes { apart: 0.05, second: 0.2 },
    Noise::TwoModes { apart: 0.05, second: 0.5 },
    Noise::Outliers,
    Noise::Rounded,
    Noise::Drift(0.005),
    Noise::SlowMinutes,
];

fn normal(rng: &mut Rng) -> f64 {
    // Box and Muller.
    (-2.0 * (1.0 - rng.f64()).ln()).sqrt() * (std::f64::consts::TAU * rng.f64()).cos()
}

impl Noise {
    /// `position` is where the round lies in its run, 0 to 1, plus the number of runs before; `common` belongs to all
    /// points of the round.
    fn factor(self, rng: &mut Rng, position: f64, common: f64) -> f64 {
        match self {
            Self::LogNormal(sigma) => (sigma * normal(rng)).exp(),
            Self::TwoModes { apart, second } => {
                let mode = if rng.f64() < second { 1.0 - apart } else { 1.0 };
                mode * (0.005 * normal(rng)).exp()
            }
            Self::Outliers => {
                let slow = if rng.f64() < 0.1 { 0.05 + 0.15 * rng.f64() } else { 0.0 };
                (0.007 * normal(rng) - slow).exp()
            }
            Self::Rounded => (200.0 * (0.01 * normal(rng)).exp()).round() / 200.0,
            Self::Drift(by) => (0.005 * normal(rng) - by * position).exp(),
            Self::SlowMinutes => (0.007 * normal(rng) + 0.007 * common).exp(),
        }
    }
}

/// Two results of `points` points and `rounds` rounds; B is faster by the factor `gain` at every point.
fn simulate(rng: &mut Rng, noise: Noise, points: usize, rounds: usize, gain: f64, paired: bool) -> Vec<Samples> {
    let mut all = vec![Samples { a: vec![], b: vec![], paired }; points];
    for round in 0..rounds {
        let (in_a, in_b) = (normal(rng), normal(rng));
        // Interleaved, a round of B follows that of A; else all of B comes after all of A.
        let at = round as f64 / rounds as f64;
        let (at_a, at_b) = if paired { (at, at + 0.5 / rounds as f64) } else { (at, at + 1.0) };
        let in_b = if paired { in_a } else { in_b };
        for (i, p) in all.iter_mut().enumerate() {
            let level = 1.0 + i as f64;
            p.a.push(level * noise.factor(rng, at_a, in_a));
            p.b.push(level * gain * noise.factor(rng, at_b, in_b));
        }
    }
    all
}

/// Of `runs` comparisons: how many called any point different, and of all points the share that was.
fn alarms(noise: Noise, points: usize, rounds: usize, gain: f64, paired: bool, runs: usize) -> (usize, f64) {
    let mut rng = Rng::with_seed(20_260_101);
    let (mut any, mut each) = (0, 0);
    for _ in 0..runs {
        let tested = judge(&simulate(&mut rng, noise, points, rounds, gain, paired), Settings::default());
        let differ = tested.iter().filter(|t| t.as_ref().unwrap().differs).count();
        each += differ;
        any += usize::from(differ > 0);
    }
    (any, each as f64 / (runs * points) as f64)
}

/// So many of `runs` are at most one in twenty, but for the chance of the simulation itself (three standard deviations).
fn one_in_twenty(runs: usize) -> usize {
    let runs = runs as f64;
    (0.05 * runs + 3.0 * (runs * 0.05 * 0.95).sqrt()) as usize
}

#[test]
fn equal_builds_differ_in_at_most_one_comparison_of_twenty() {
    println!("comparisons of equal builds with any point called different");
    println!("{:40} {:>6} {:>6} {:>9} {:>8} {:>6}", "noise", "points", "rounds", "two runs", "one run", "of");
    let mut wrong = Vec::new();
    for &noise in NOISES {
        for points in [1, 20] {
            for rounds in [3, 5, 10] {
                let runs = if rounds < 10 { 400 } else { 80 };
                let of = |paired| alarms(noise, points, rounds, 1.0, paired, runs).0;
                let (two, one) = (of(false), of(true));
                let name = format!("{noise:?}");
                println!("{name:40} {points:>6} {rounds:>6} {two:>9} {one:>8} {runs:>6}");
                if two.max(one) > one_in_twenty(runs) {
                    wrong.push(format!("{name}, {points} points, {rounds} rounds: {two} and {one} of {runs}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "more than one in twenty:\n{}", wrong.join("\n"));
}

#[test]
fn changes_are_seen() {
    const RUNS: usize = 60;
    println!("share of points of a changed build called different, in percent");
    println!("{:42} {:>6} {:>6} {:>5} {:>5} {:>5}", "noise", "points", "rounds", "2 %", "5 %", "10 %");
    for noise in
        [Noise::LogNormal(0.005), Noise::LogNormal(0.01), Noise::LogNormal(0.03), Noise::Outliers, Noise::Rounded]
    {
        for points in [1, 20] {
            for rounds in [3, 5, 10] {
                let seen = [1.02, 1.05, 1.1].map(|gain| alarms(noise, points, rounds, gain, false, RUNS).1 * 100.0);
                let [two, five, ten] = seen;
                println!("{:42} {points:>6} {rounds:>6} {two:>5.0} {five:>5.0} {ten:>5.0}", format!("{noise:?}"));
                let clear = matches!(noise, Noise::LogNormal(s) if s <= 0.01) && rounds >= 5;
                assert!(
                    !clear || (five >= 90.0 && ten >= 95.0),
                    "{noise:?}, {points} points, {rounds} rounds: {seen:?}"
                );
                let long = matches!(noise, Noise::LogNormal(s) if s <= 0.005) && rounds >= 10;
                assert!(!long || two >= 80.0, "{noise:?}, {points} points, {rounds} rounds: {seen:?}");
            }
        }
    }
}

#[test]
fn an_interval_holds_the_truth_as_often_as_it_says() {
    const RUNS: usize = 600;
    // Noise that is the same on both sides: the truth is the gain.
    for noise in [Noise::LogNormal(0.01), Noise::LogNormal(0.03), Noise::Rounded] {
        for rounds in [3, 5, 10] {
            for paired in [false, true] {
                let mut rng = Rng::with_seed(7);
                let held = (0..RUNS).filter(|_| {
                    let tested = judge(&simulate(&mut rng, noise, 1, rounds, 1.05, paired), Settings::default());
                    let i = tested[0].as_ref().unwrap().interval;
                    i.low <= 1.05 && 1.05 <= i.high
                });
                let missed = RUNS - held.count();
                assert!(
                    missed <= one_in_twenty(RUNS),
                    "{noise:?}, {rounds} rounds, paired {paired}: {missed} of {RUNS}"
                );
            }
        }
    }
}

/// Ten points of a hundred changed: these are found, and the others are left alone.
#[test]
fn changed_points_do_not_hide_nor_infect_others() {
    const RUNS: usize = 100;
    let mut rng = Rng::with_seed(99);
    let (mut found, mut infected) = (0, 0);
    for _ in 0..RUNS {
        let mut points = simulate(&mut rng, Noise::LogNormal(0.01), 100, 5, 1.0, false);
        points[..10].iter_mut().for_each(|p| p.b.iter_mut().for_each(|v| *v *= 0.9));
        let tested = judge(&points, Settings::default());
        let differs = |i: usize| tested[i].as_ref().unwrap().differs;
        found += (0..10).filter(|i| differs(*i)).count();
        infected += usize::from((10..100).any(differs));
    }
    println!("{found} of {} found, others called different in {infected} of {RUNS}", 10 * RUNS);
    assert!(found >= 9 * RUNS, "{found}");
    assert!(infected <= one_in_twenty(RUNS), "{infected}");
}
