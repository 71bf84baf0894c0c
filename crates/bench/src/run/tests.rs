//! The runner against dataplanes that are made up: capacities, disturbances, crashes.

use super::*;
use crate::dataplane::{Counters, Dataplane, DataplaneError};
use crate::results::Results;
use crate::scratch::Scratch;
use crate::watch::{Seen, Watch};
use chainline_trial::{Latency, Load, Order, Outcome, Ready};
use serde_json::{Value, json};
use std::cell::{Cell, RefCell};
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// What all dataplanes of a test saw.
#[derive(Default)]
struct World {
    /// Name of the case, and the load, of each trial that was really made.
    made: RefCell<Vec<(String, Load)>>,
    /// Dataplanes started.
    started: Cell<usize>,
    /// Trials that others disturb, counted over all.
    disturbed: RefCell<Vec<usize>>,
    watched: Cell<usize>,
    /// The user wants an end before this trial.
    stop_at: Cell<Option<usize>>,
    /// The dataplane of this name dies in its second trial.
    dies: RefCell<String>,
    /// So many dataplanes measure themselves while others have their core.
    absurd: Cell<usize>,
    /// Frames that find room for a while.
    buffer: Cell<u64>,
    /// The generator is saturated above this, in frames a second.
    saturated_above: Cell<Option<f64>>,
}

struct Scripted {
    case: String,
    world: Rc<World>,
    ready: Ready,
    trials: usize,
}

const GENERATOR_PPS: f64 = 10e6;
const CAPACITY_PPS: f64 = 3e6;

impl Dataplane for Scripted {
    fn name(&self) -> &str {
        &self.case
    }
    fn ready(&self) -> &Ready {
        &self.ready
    }
    fn trial(&mut self, order: &Order) -> Result<Outcome, DataplaneError> {
        self.trials += 1;
        if *self.world.dies.borrow() == self.case && self.trials == 2 {
            return Err(DataplaneError::Failed { what: self.case.clone(), why: "segmentation fault".into() });
        }
        self.world.made.borrow_mut().push((self.case.clone(), order.load));
        let seconds = order.duration_ms as f64 / 1e3 + order.duration_ns as f64 / 1e9;
        let pps = match order.load {
            Load::Pps(pps) => pps,
            Load::Max => GENERATOR_PPS,
            Load::Lossless => CAPACITY_PPS,
        };
        let intended = (pps * seconds) as u64;
        let limit = self.world.saturated_above.get().filter(|_| matches!(order.load, Load::Pps(_)));
        let saturated = limit.is_some_and(|l| pps > l);
        let sent = intended;
        let capacity = if self.case == "stock" { CAPACITY_PPS / 2.0 } else { CAPACITY_PPS };
        let mut received = sent.min((capacity * seconds) as u64 + self.world.buffer.get());
        if let Some(nf) = &order.reset {
            if self.case != "a" {
                return Err(DataplaneError::Refused { what: self.case.clone(), why: format!("{nf} is a thread") });
            }
            // Down for 10 ms.
            received -= (pps / 100.0) as u64;
        }
        let mut outcome = Outcome { seconds, intended, sent, received, lost: sent - received, ..Outcome::default() };
        if order.reset.is_some() {
            outcome.longest_gap_ns = Some(11_000_000);
            outcome.happenings = vec!["p1: killed, as it was reset as ordered".into()];
        }
        for (nf, instance) in [("fw", "p1"), ("mon", "p1"), ("nat", "p2")] {
            let nf_outcome = chainline_trial::NfOutcome { instance: instance.into(), ..Default::default() };
            outcome.nfs.insert(nf.into(), nf_outcome);
        }
        outcome.generator.saturated = saturated;
        outcome.balanced = true;
        let mut h = hdrhistogram::Histogram::<u64>::new(3).unwrap();
        h.record_n(20_000, received).unwrap();
        outcome.latency = Latency::of(&h);
        Ok(outcome)
    }
    fn counters(&mut self) -> Result<Option<Counters>, DataplaneError> {
        Ok(None)
    }
}

struct TestLab(Rc<World>);

impl Lab for TestLab {
    fn start(&mut self, case: &Case) -> Result<Box<dyn Dataplane>, DataplaneError> {
        self.0.started.set(self.0.started.get() + 1);
        let p50 = if self.0.started.get() <= self.0.absurd.get() { 500_000 } else { 400 };
        let ready = Ready {
            environment: json!({}),
            generator_max_pps: GENERATOR_PPS,
            floor_ns: Latency { p50, ..Latency::default() },
            mean_frame_bytes: 64.0,
        };
        Ok(Box::new(Scripted { case: case.name.clone(), world: self.0.clone(), ready, trials: 0 }))
    }
}

struct TestWatch(Rc<World>);

impl Watch for TestWatch {
    fn begin(&mut self) {}
    fn end(&mut self) -> Seen {
        let n = self.0.watched.get();
        self.0.watched.set(n + 1);
        if self.0.disturbed.borrow().contains(&n) {
            return Seen { stolen_share: 0.2, foreign_share: 0.0, disturbed: vec!["stolen".into()] };
        }
        Seen::default()
    }
}

struct Silent;

impl Tell for Silent {
    fn tell(&mut self, _: Event<'_>) {}
}

fn case(name: &str, content: Value) -> Case {
    let factors = [("which".to_owned(), json!(name))].into();
    Case { name: name.into(), dataplane: "chainline".into(), factors, content, ..Case::default() }
}

fn bench(measures: &[Measure], rounds: u32) -> Bench {
    let protocol = Protocol { measures: measures.to_vec(), trials: 2, ..Protocol::default() };
    Bench { cases: vec![case("a", json!(1)), case("b", json!(2))], rounds, protocol, ..Bench::default() }
}

fn options(dir: &Path) -> Options {
    Options { dir: dir.join("out"), resume: false, cache: None, identity: json!("this host") }
}

fn run(bench: &Bench, options: &Options, world: &Rc<World>) -> Result<Done, BenchError> {
    let stop = || world.stop_at.get().is_some_and(|at| world.made.borrow().len() >= at);
    let (mut lab, mut watch) = (TestLab(world.clone()), TestWatch(world.clone()));
    bench.run(options, &mut lab, &mut watch, &mut Silent, &stop)
}

fn journal(options: &Options) -> PathBuf {
    options.dir.join("journal.jsonl")
}

/// Everything that was found, without the indexes of trials.
fn numbers(results: &Results) -> Vec<(String, String, Vec<f64>)> {
    let series = results.sections.iter().flat_map(|s| s.series.iter().map(move |l| (s, l)));
    let points = series.flat_map(|(s, l)| l.points.iter().map(move |p| (s, l, p)));
    points.map(|(s, l, p)| (s.id.clone(), format!("{} {:?}", l.name, p.x), p.samples.clone())).collect()
}

#[test]
fn rounds_are_interleaved_over_all_cases() {
    let (dir, world) = (Scratch::new(), Rc::new(World::default()));
    let done = run(&bench(&[Measure::Mrr], 3), &options(dir.path()), &world).unwrap();
    let order: Vec<String> = world.made.borrow().iter().map(|(case, _)| case.clone()).collect();
    assert_eq!(order, ["a", "a", "b", "b"].repeat(3));
    assert!(done.results.complete);
    let mrr = done.results.sections.iter().find(|s| s.id == "mrr").unwrap();
    assert_eq!(mrr.series.iter().flat_map(|s| &s.points).map(|p| p.samples.clone()).collect::<Vec<_>>(), [[3.0; 3]; 2]);
}

#[test]
fn ndr_and_latency_of_a_known_system_are_found() {
    let (dir, world) = (Scratch::new(), Rc::new(World::default()));
    let done = run(
        &bench(&[Measure::Ndr, Measure::Pdr, Measure::Latency, Measure::LossCurve], 1),
        &options(dir.path()),
        &world,
    )
    .unwrap();
    let found = &done.found[0].2;
    let value = |what: &str| found.figures.iter().find(|f| f.what == what).unwrap().value;
    assert!((value("ndr") - CAPACITY_PPS).abs() < 0.006 * CAPACITY_PPS, "{}", value("ndr"));
    assert!((value("pdr") - CAPACITY_PPS / 0.995).abs() < 0.006 * CAPACITY_PPS, "{}", value("pdr"));
    assert!((value("latency p50 at 50 % of PDR") - 20.0).abs() < 0.1);
    // Of 9.5 Mpps, 30 % fit; two loads without loss are enough.
    let curve: Vec<_> = found.figures.iter().filter(|f| f.what == "loss-curve").map(|f| f.x.unwrap()).collect();
    assert_eq!(curve, [100.0, 90.0, 80.0, 70.0, 60.0, 50.0, 40.0, 30.0, 20.0]);
    assert!(found.missing.is_empty(), "{:?}", found.missing);
    assert!(crate::report::faults(&done.results).is_empty(), "{:?}", crate::report::faults(&done.results));
}

#[test]
fn cases_are_held_against_their_ideal_of_the_same_round() {
    let (dir, world) = (Scratch::new(), Rc::new(World::default()));
    let mut bench = bench(&[Measure::Scheduling], 2);
    bench.cases = ["fused", "stock"].map(|n| Case { ideal: Some(0), ..case(n, json!(n)) }).to_vec();
    bench.cases[1].short_of = Some("needs 4 cores: run with 2 sharing".into());
    bench.protocol.ideal_shares = vec![0.4, 2.0];
    let done = run(&bench, &options(dir.path()), &world).unwrap();
    // Both get the same loads: those of the ideal.
    let loads: Vec<Load> = world.made.borrow().iter().map(|(_, load)| *load).collect();
    assert_eq!(loads, [Load::Max, Load::Pps(0.4 * CAPACITY_PPS), Load::Pps(2.0 * CAPACITY_PPS)].repeat(4));
    let ratios = |case: usize| -> Vec<f64> {
        let of_case = done.found.iter().filter(|(i, _, _)| *i == case).flat_map(|(_, _, f)| &f.figures);
        of_case.filter(|f| f.what.starts_with("ratio to fused")).map(|f| (f.value * 1e6).round() / 1e6).collect()
    };
    assert_eq!(ratios(0), [0.4, 1.0, 1.0, 0.4, 1.0, 1.0]);
    assert_eq!(ratios(1), [0.4, 0.5, 0.5, 0.4, 0.5, 0.5]);
    let section = done.results.sections.iter().find(|s| s.y.label == "throughput").unwrap();
    assert_eq!(section.unavailable[0].why, "needs 4 cores: run with 2 sharing");
    assert!(crate::report::faults(&done.results).is_empty(), "{:?}", crate::report::faults(&done.results));
}

#[test]
fn without_its_ideal_a_case_has_no_ratio_and_says_why() {
    let (dir, world) = (Scratch::new(), Rc::new(World::default()));
    // All attempts at the ideal are disturbed.
    *world.disturbed.borrow_mut() = (0..4).collect();
    let mut bench = bench(&[Measure::Scheduling], 1);
    bench.cases = ["fused", "stock"].map(|n| Case { ideal: Some(0), ..case(n, json!(n)) }).to_vec();
    bench.protocol.ideal_shares = vec![0.4];
    let done = run(&bench, &options(dir.path()), &world).unwrap();
    let stock = &done.found[1].2;
    assert!(
        stock.figures.iter().any(|f| f.what == "throughput")
            && stock.figures.iter().all(|f| f.what != "ratio to fused")
    );
    let why: Vec<&str> = stock.missing.iter().map(|m| m.why.as_str()).collect();
    assert!(why.contains(&"the ideal's throughput was not found in this round"), "{why:?}");
}

#[test]
fn what_was_disturbed_is_repeated_and_said() {
    let (dir, world) = (Scratch::new(), Rc::new(World::default()));
    *world.disturbed.borrow_mut() = vec![0, 1];
    let done = run(&bench(&[Measure::Mrr], 1), &options(dir.path()), &world).unwrap();
    let attempts: Vec<_> = done.results.trials.iter().map(|t| (t.attempt, t.invalid.len())).collect();
    assert_eq!(attempts, [(0, 1), (1, 1), (2, 0), (0, 0), (0, 0), (0, 0)]);
    assert!(
        done.results.remarks.iter().any(|r| r.starts_with("2 of 6 trials did not count")),
        "{:?}",
        done.results.remarks
    );
}

#[test]
fn without_a_valid_trial_there_is_no_number_unless_the_user_wants_one() {
    let (dir, world) = (Scratch::new(), Rc::new(World::default()));
    *world.disturbed.borrow_mut() = (0..1000).collect();
    let mut bench = bench(&[Measure::Mrr, Measure::Ndr], 1);
    let done = run(&bench, &options(dir.path()), &world).unwrap();
    assert_eq!(done.results.sections.iter().filter(|s| s.id != "generator").map(|s| s.series.len()).sum::<usize>(), 0);
    let mrr = done.results.sections.iter().find(|s| s.id == "mrr").unwrap();
    assert!(mrr.unavailable[0].why.contains("none of 4 attempts was valid"), "{:?}", mrr.unavailable);
    bench.protocol.allow_disturbed = true;
    let done = run(&bench, &Options { dir: dir.path().join("b"), ..options(dir.path()) }, &world).unwrap();
    assert!(done.found[0].2.figures.iter().any(|f| f.what == "ndr"));
    assert!(done.results.remarks.iter().any(|r| r.contains("not to be relied upon")));
}

#[test]
fn a_generator_at_its_limit_makes_the_range_smaller() {
    let (dir, world) = (Scratch::new(), Rc::new(World::default()));
    world.saturated_above.set(Some(8e6));
    let done = run(&bench(&[Measure::Ndr], 1), &options(dir.path()), &world).unwrap();
    let ndr = done.found[0].2.figures.iter().find(|f| f.what == "ndr").unwrap().value;
    assert!((ndr - CAPACITY_PPS).abs() < 0.006 * CAPACITY_PPS);
    world.saturated_above.set(Some(2e6));
    let done =
        run(&bench(&[Measure::Ndr], 1), &Options { dir: dir.path().join("b"), ..options(dir.path()) }, &world).unwrap();
    let missing = &done.found[0].2;
    assert!(!missing.missing.is_empty() || missing.remarks.iter().any(|r| r.contains("at least")), "{missing:?}");
}

#[test]
fn a_dataplane_that_dies_is_a_row_and_the_others_go_on() {
    let (dir, world) = (Scratch::new(), Rc::new(World::default()));
    *world.dies.borrow_mut() = "a".into();
    let done = run(&bench(&[Measure::Mrr], 2), &options(dir.path()), &world).unwrap();
    let mrr = done.results.sections.iter().find(|s| s.id == "mrr").unwrap();
    assert!(
        mrr.unavailable.iter().any(|u| u.what == "a" && u.why.contains("segmentation fault")),
        "{:?}",
        mrr.unavailable
    );
    assert_eq!(world.made.borrow().iter().filter(|(case, _)| case == "b").count(), 4);
    assert_eq!(world.started.get(), 3, "it is not started again in the next round");
}

#[test]
fn ctrl_c_keeps_what_was_measured_and_resume_goes_on_to_the_same_end() {
    let (dir, world) = (Scratch::new(), Rc::new(World::default()));
    let bench = bench(&[Measure::Ndr, Measure::Mrr], 2);
    let whole = run(&bench, &options(dir.path()), &world).unwrap();
    let all = world.made.borrow().len();
    for stop_at in [0, 1, 7, all / 2, all - 1] {
        let world = Rc::new(World::default());
        let mut options = Options { dir: dir.path().join(format!("stopped-{stop_at}")), ..options(dir.path()) };
        world.stop_at.set(Some(stop_at));
        let cut = run(&bench, &options, &world).unwrap();
        assert!(cut.stopped && !cut.results.complete);
        assert_eq!(cut.results.trials.len(), stop_at);
        let kept = crate::report::read(&options.dir.join("results.json")).unwrap();
        assert_eq!(kept.trials.len(), stop_at);
        assert!(matches!(run(&bench, &options, &world), Err(BenchError::Taken { .. })));
        world.stop_at.set(None);
        options.resume = true;
        let resumed = run(&bench, &options, &world).unwrap();
        assert_eq!(numbers(&resumed.results), numbers(&whole.results));
        assert_eq!(world.made.borrow().len(), all, "nothing is measured twice");
    }
}

#[test]
fn a_journal_that_was_cut_off_at_any_byte_is_gone_on_with() {
    let (dir, world) = (Scratch::new(), Rc::new(World::default()));
    let bench = bench(&[Measure::Mrr], 1);
    let mut options = options(dir.path());
    let whole = run(&bench, &options, &world).unwrap();
    let bytes = fs::read(journal(&options)).unwrap();
    let lines = |b: &[u8]| b.iter().filter(|b| **b == b'\n').count();
    let path = dir.path().join("cut.jsonl");
    for cut in 0..=bytes.len() {
        fs::write(&path, &bytes[..cut]).unwrap();
        let (_, entries) = Journal::resume(&path).unwrap();
        assert_eq!(entries.values().map(Vec::len).sum::<usize>(), lines(&bytes[..cut]), "at {cut}");
        assert!(
            fs::read(&path).unwrap()
                == bytes[..cut]
                    .split_inclusive(|b| *b == b'\n')
                    .filter(|l| l.ends_with(b"\n"))
                    .collect::<Vec<_>>()
                    .concat()
        );
    }
    options.resume = true;
    for cut in (0..=bytes.len()).step_by(211) {
        fs::write(journal(&options), &bytes[..cut]).unwrap();
        let world = Rc::new(World::default());
        let done = run(&bench, &options, &world).unwrap();
        assert_eq!(numbers(&done.results), numbers(&whole.results), "cut at {cut}");
        let trials = String::from_utf8_lossy(&bytes[..cut]).matches("\"order\"").count();
        assert!(world.made.borrow().len() >= 4 - trials.min(4) && world.made.borrow().len() <= 4);
        assert_eq!(lines(&fs::read(journal(&options)).unwrap()), lines(&bytes));
    }
}

#[test]
fn a_journal_that_is_none_is_refused_with_its_place() {
    let (dir, world) = (Scratch::new(), Rc::new(World::default()));
    let options = Options { resume: true, ..options(dir.path()) };
    fs::create_dir_all(&options.dir).unwrap();
    fs::write(journal(&options), "{\"job\": 1}\nnothing\n").unwrap();
    let error = run(&bench(&[Measure::Mrr], 1), &options, &world).unwrap_err().to_string();
    assert!(error.contains("journal.jsonl:1: found a line that is no record of a benchmark"), "{error}");
}

#[test]
fn a_full_disk_is_named() {
    let mut journal = Journal::create(Path::new("/dev/full")).unwrap();
    let entry = Entry::Trial {
        order: Order { load: Load::Max, duration_ms: 1, drain_ms: 0, ..Order::default() },
        trial: Box::new(crate::results::Trial {
            dataplane: "x".into(),
            factors: [].into(),
            round: 0,
            attempt: 0,
            load: Load::Max,
            purpose: "mrr".into(),
            outcome: Outcome::default(),
            stolen_share: 0.0,
            foreign_share: 0.0,
            invalid: Vec::new(),
        }),
    };
    let error = journal.add(&Line { job: "j".into(), entry }).unwrap_err().to_string();
    assert!(error.starts_with("cannot write /dev/full: No space left on device"), "{error}");
}

#[test]
fn what_is_in_the_cache_is_not_measured_again() {
    let (dir, world) = (Scratch::new(), Rc::new(World::default()));
    let cache = Cache::new(dir.path().join("cache"));
    let with = |name: &str| Options { dir: dir.path().join(name), cache: Some(cache.clone()), ..options(dir.path()) };
    let bench = bench(&[Measure::Ndr], 2);
    let first = run(&bench, &with("1"), &world).unwrap();
    let (made, started) = (world.made.borrow().len(), world.started.get());
    let second = run(&bench, &with("2"), &world).unwrap();
    assert_eq!((world.made.borrow().len(), world.started.get(), second.played), (made, started, 4));
    assert_eq!(numbers(&first.results), numbers(&second.results));
    assert!(second.results.remarks.iter().any(|r| r.contains("made before")));

    // Another file, another host, other rules: measured.
    let mut other = bench.clone();
    other.cases[0].content = json!("another file");
    assert_eq!(run(&other, &with("3"), &world).unwrap().played, 2);
    let elsewhere = Options { identity: json!("another host"), ..with("4") };
    assert_eq!(run(&bench, &elsewhere, &world).unwrap().played, 0);
    let mut longer = bench.clone();
    longer.protocol.trial_ms += 1;
    assert_eq!(run(&longer, &with("5"), &world).unwrap().played, 0);

    // A broken file of the cache is said, and measured again.
    for file in fs::read_dir(dir.path().join("cache")).unwrap().flatten() {
        fs::write(file.path(), "{\"half\": ").unwrap();
    }
    let again = run(&bench, &with("6"), &world).unwrap();
    assert_eq!((again.played, numbers(&again.results)), (0, numbers(&first.results)));
    assert_eq!(run(&bench, &with("7"), &world).unwrap().played, 4, "and then kept again");
}

#[test]
fn line_rates_count_preamble_and_gap() {
    assert_eq!(line_rate_pps(10e9, 64.0).round(), 14_880_952.0);
}

/// The value of a section's series at its first point.
fn value(results: &Results, section: &str, series: &str) -> Option<f64> {
    let section = results.sections.iter().find(|s| s.id == section)?;
    section.series.iter().find(|s| s.name == series)?.points.first()?.samples.first().copied()
}

#[test]
fn standards_are_measured_step_by_step() {
    let (dir, world) = (Scratch::new(), Rc::new(World::default()));
    world.buffer.set(3000);
    let mut bench = bench(&[Measure::Tst009, Measure::BackToBack, Measure::Reset], 1);
    bench.protocol.hurry();
    let done = run(&bench, &options(dir.path()), &world).unwrap();
    let results = &done.results;
    // Rungs of 0.5 % of 95 % of what the generator sends; the buffer lets a little more through in a short trial.
    let throughput = value(results, "tst009", "chainline").unwrap();
    assert!((3.0 - 0.0475..3.0 + 0.0475).contains(&throughput), "{throughput} Mpps");
    // (highest rate - capacity) × burst / highest rate = buffer.
    let burst = value(results, "back-to-back", "chainline").unwrap();
    let highest = 0.95 * GENERATOR_PPS;
    let expected = 3000.0 * highest / (highest - CAPACITY_PPS);
    assert!((burst - expected).abs() <= 64.0, "{burst} frames, not {expected}");
    let us = value(results, "buffer", "chainline").unwrap();
    assert!((us / (3000.0 / highest * 1e6) - 1.0).abs() < 0.05, "{us} µs");
    for nf in ["fw", "nat"] {
        assert!((value(results, "reset", nf).unwrap() - 10.0).abs() < 0.01, "one of each process");
        assert_eq!(value(results, "reset-by-time", nf), Some(11.0));
    }
    assert_eq!(value(results, "reset", "mon"), None, "it dies with fw");
    let reset = results.sections.iter().find(|s| s.id == "reset").unwrap();
    let refused: Vec<&str> = reset.unavailable.iter().map(|u| u.why.as_str()).collect();
    assert_eq!(refused, ["b refused the order: fw is a thread", "b refused the order: nat is a thread"]);
    assert!(results.trials.iter().all(|t| t.invalid.is_empty()), "a reset is no disturbance");

    // The same again from the journal: nothing is made anew but what was refused.
    let made = world.made.borrow().len();
    let again = run(&bench, &Options { resume: true, ..options(dir.path()) }, &world).unwrap();
    assert_eq!(numbers(&again.results), numbers(results));
    assert!(world.made.borrow().len() - made <= 2);
}

#[test]
fn a_disturbed_floor_is_measured_again_and_no_latency_stands_on_one() {
    let bench = Bench { cases: vec![case("b", json!(1))], ..bench(&[Measure::Mrr, Measure::Latency], 1) };
    let run = |absurd: usize| {
        let (dir, world) = (Scratch::new(), Rc::new(World::default()));
        world.absurd.set(absurd);
        let results = run(&bench, &options(dir.path()), &world).unwrap().results;
        let latency = results.sections.iter().find(|s| s.id == "latency").unwrap().clone();
        (world.started.get(), value(&results, "mrr", "chainline"), latency)
    };
    let (started, mrr, latency) = run(2);
    assert_eq!((started, mrr), (3, Some(3.0)));
    assert!(latency.unavailable.is_empty() && !latency.series.is_empty());
    let (started, mrr, latency) = run(99);
    assert_eq!((started, mrr), (4, Some(3.0)), "four attempts, and rates all the same");
    assert!(latency.series.is_empty() && latency.unavailable[0].why.contains("median 500.0 µs"), "{latency:?}");
}
