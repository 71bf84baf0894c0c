//! What holds for every system, also for one that answers as a coin falls or as spitefully as it can.
#![allow(clippy::unwrap_used)]

mod systems;

use chainline_search::{
    BackToBack, Budget, Class, End, Goal, History, Input, LossCurve, Measured, Observation, Outcome, Search, Session,
    Sums, Tst009,
};
use proptest::prelude::*;
use systems::{KINDS, MAX_PPS, MIN_PPS, System, draw};

/// How the simulated measurer answers.
#[derive(Clone, Copy, Debug)]
enum Spite {
    /// By chance, any loss.
    Coin,
    /// All or nothing, by turns.
    Turns,
    /// Loses below half of the range and not above.
    UpsideDown,
    /// No loss at loads that are seen for the first time, all lost later.
    Betrayal,
    /// The other way round.
    Regret,
    /// Loses a little at any load.
    Trickle,
    /// Everything arrives, twice.
    Echo,
}

fn spite() -> impl Strategy<Value = Spite> {
    use Spite::{Betrayal, Coin, Echo, Regret, Trickle, Turns, UpsideDown};
    prop::sample::select(vec![Coin, Turns, UpsideDown, Betrayal, Regret, Trickle, Echo])
}

fn answer(spite: Spite, seed: u64) -> impl FnMut(Input) -> Measured {
    let (mut n, mut seen) = (0u64, std::collections::BTreeSet::new());
    move |trial| {
        n += 1;
        let intended = 1_000_000u64;
        let new = seen.insert(trial.load_pps.to_bits());
        let received = match spite {
            Spite::Coin => (draw(seed, n) * 1.4 * intended as f64) as u64,
            Spite::Turns => intended * (n % 2),
            Spite::UpsideDown => intended * u64::from(trial.load_pps > MAX_PPS / 2.0),
            Spite::Betrayal => intended * u64::from(new),
            Spite::Regret => intended * u64::from(!new),
            Spite::Trickle => intended - 1 - (draw(seed, n) * 100.0) as u64,
            Spite::Echo => 2 * intended,
        };
        Measured::Valid(Observation::counted(trial.duration_s, intended, received))
    }
}

prop_compose! {
    fn goal()(
        loss_ratio in prop::sample::select(vec![0.0, 1e-7, 0.001, 0.005, 0.1, 0.9]),
        exceed_ratio in prop::sample::select(vec![0.0, 0.2, 0.5, 0.75, 0.99]),
        initial_trial_s in prop::sample::select(vec![0.1, 1.0]),
        longer in prop::sample::select(vec![1.0, 3.0, 60.0]),
        trials in 1.0..30.0f64,
        width in prop::sample::select(vec![0.002, 0.005, 0.05, 0.6]),
    ) -> Goal {
        let final_trial_s = initial_trial_s * longer;
        let duration_sum_s = final_trial_s * trials;
        Goal { name: "any".into(), loss_ratio, exceed_ratio, initial_trial_s, final_trial_s, duration_sum_s, width }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// A search ends by itself, within its range, with a result for each goal that its trials bear out.
    #[test]
    fn a_search_ends_and_keeps_its_word(
        goals in prop::collection::vec(goal(), 1..4), spite in spite(), seed: u64, min in 0.1..1e6f64, ratio in 1.0001..1e5f64,
    ) {
        let max = min * ratio;
        let search = Search::new(goals.clone(), min, max).unwrap();
        let mut system = answer(spite, seed);
        let unlimited = Budget { seconds: f64::INFINITY, trials: u32::MAX, ..Budget::default() };
        let mut session = Session::new(&mut system, unlimited);
        let found = search.run(&mut session);
        prop_assert_eq!(found.end, None);
        let mut history = History::default();
        for trial in &session.trials()[1..] {
            prop_assert!((min..=max).contains(&trial.input.load_pps), "{:?}", trial.input);
            let fits = |g: &Goal| (g.initial_trial_s..=g.final_trial_s).contains(&trial.input.duration_s);
            prop_assert!(goals.iter().any(fits), "{:?}", trial.input);
            history.add(trial.clone());
        }
        for g in &found.goals {
            prop_assert_eq!(g.bounds, history.bounds(&g.goal));
            match (g.outcome, g.bounds.lower_pps, g.bounds.upper_pps) {
                (Outcome::Regular, Some(lower), Some(upper)) => prop_assert!(g.goal.is_narrow(lower, upper), "{:?}", g),
                (Outcome::MaxLoadHolds, Some(lower), None) => prop_assert_eq!(lower, max),
                (Outcome::MinLoadFails, None, Some(upper)) => prop_assert_eq!(upper, min),
                _ => prop_assert!(false, "{:?}", g),
            }
        }
    }

    /// However little the budget, it is kept, and what was found until then is told.
    #[test]
    fn a_budget_is_kept(goals in prop::collection::vec(goal(), 1..3), spite in spite(), seed: u64, seconds in 0.0..300.0f64, trials in 0u32..200) {
        let search = Search::new(goals, MIN_PPS, MAX_PPS).unwrap();
        let mut system = answer(spite, seed);
        let budget = Budget { seconds, trials, overhead_s: 0.25, repeats: 1 };
        let mut session = Session::new(&mut system, budget);
        let found = search.run(&mut session);
        prop_assert!(found.spent_s <= seconds && session.trials().len() <= trials as usize);
        prop_assert_eq!(found.trials, session.trials().len());
        let unfinished = found.goals.iter().any(|g| g.outcome == Outcome::Unfinished);
        prop_assert_eq!(unfinished, matches!(found.end, Some(End::Budget { .. })));
    }

    /// A classified load leans the way it is classified: locating and confirming cannot contradict each other.
    #[test]
    fn leaning_and_class_agree(g in goal(), full_low in 0u32..99, full_high in 0u32..99, short_low in 0u32..99, short_high in 0u32..99) {
        let [full_low, full_high, short_low, short_high] = [full_low, full_high, short_low, short_high].map(f64::from);
        let sums = Sums { full_low, full_high, short_low, short_high };
        match sums.class(&g) {
            Class::Undecided => {}
            Class::Lower => prop_assert_eq!(sums.leans_high(&g), Some(false)),
            // With full-length trials; short ones alone may prove a load wrong that most of them like.
            Class::Upper if full_low + full_high > 0.0 => prop_assert_eq!(sums.leans_high(&g), Some(true)),
            Class::Upper => prop_assert!(sums.effective_high(&g) > 0.0),
        }
        let whole = full_low + full_high;
        if whole >= g.duration_sum_s {
            prop_assert!(sums.class(&g) != Class::Undecided, "{:?}", sums);
        }
    }

    /// The other procedures end for any system too.
    #[test]
    fn the_other_procedures_end(spite in spite(), seed: u64, max in 100.0..1e8f64, share in 0.0..1.5f64) {
        let budget = Budget { seconds: f64::INFINITY, trials: 100_000, ..Budget::default() };
        let mut system = answer(spite, seed);
        let found = Tst009::new(max / 1e3, max).unwrap().run(&mut Session::new(&mut system, budget)).unwrap();
        prop_assert_eq!(found.end, None);
        prop_assert!(LossCurve::new(max).run(&mut Session::new(&mut system, budget)).end.is_none());
        let bursts = BackToBack::new(max, max * share).run(&mut Session::new(&mut system, budget));
        prop_assert!(bursts.end.is_none());
        prop_assert!(bursts.corrected_s.is_none_or(|s| (0.0..=30.0).contains(&s)), "{:?}", bursts);
    }
}

/// NDR and PDR to 0.5 % in a minute of trials, warm-up included, on well-behaved systems: those with a limit, sharp, or
/// that lose a share of what exceeds it, or whose forwarding falls in overload by up to a frame for each two in excess,
/// wherever in four decades the limit is. 3,000 of them; the longest search counts.
#[test]
fn ndr_and_pdr_in_a_minute() {
    let search = Search::new(vec![Goal::ndr(), Goal::pdr()], MIN_PPS, MAX_PPS).unwrap();
    let (mut worst, mut sum, mut count) = (0.0f64, 0.0, 0.0);
    for seed in 0..3000 {
        let kind = [systems::Kind::Sharp, systems::Kind::Soft, systems::Kind::Livelock][(seed % 3) as usize];
        let mut system = System::of(kind, systems::mix64(seed), MIN_PPS, MAX_PPS);
        if kind == systems::Kind::Livelock {
            system.x = system.x.min(0.5);
        }
        let mut measurer = system.measurer();
        let found = search.run(&mut Session::new(&mut measurer, Budget::default()));
        assert!(found.goals.iter().all(|g| g.outcome != Outcome::Unfinished));
        worst = worst.max(found.spent_s);
        sum += found.spent_s;
        count += 1.0;
    }
    println!(
        "NDR and PDR: {:.1} s of trials in the mean, {worst} s at worst; told in advance: {:?}",
        sum / count,
        search.estimate()
    );
    assert!(worst <= 60.0, "{worst} s");
}

/// The seconds that every kind of system takes: the harder ones are allowed more, and the budget's limit is far away.
#[test]
fn harder_systems_take_longer_but_not_forever() {
    let search = Search::new(vec![Goal::ndr(), Goal::pdr()], MIN_PPS, MAX_PPS).unwrap();
    for kind in KINDS {
        let mut spent: Vec<f64> = (0..200)
            .map(|seed| {
                let mut measurer = System::of(kind, systems::mix64(seed), MIN_PPS, MAX_PPS).measurer();
                let found = search.run(&mut Session::new(&mut measurer, Budget::default()));
                assert_eq!(found.end, None, "{kind:?}, seed {seed}");
                found.spent_s
            })
            .collect();
        spent.sort_by(f64::total_cmp);
        println!(
            "{:9} {:5.0} s in the median, {:5.0} s at P95, {:5.0} s at worst",
            format!("{kind:?}"),
            spent[100],
            spent[190],
            spent[199]
        );
        assert!(spent[100] <= 120.0, "{kind:?}: {} s", spent[100]);
    }
}

#[test]
fn invalid_trials_are_repeated_and_told_and_a_stop_keeps_what_was_found() {
    let mut n = 0;
    let mut flaky = |trial: Input| {
        n += 1;
        let received = (trial.load_pps * trial.duration_s).min(1e6 * trial.duration_s) as u64;
        match n {
            n if n % 3 == 0 => Measured::Invalid("steal time 2 %".into()),
            31 => Measured::Stopped,
            _ => Measured::Valid(Observation::counted(
                trial.duration_s,
                (trial.load_pps * trial.duration_s) as u64,
                received,
            )),
        }
    };
    let mut told = Vec::new();
    let mut progress =
        |p: chainline_search::Progress<'_>| told.push((p.step.to_owned(), p.invalid.is_some(), p.spent_s, p.likely_s));
    let mut session = Session::new(&mut flaky, Budget::default()).on_progress(&mut progress);
    let search = Search::new(vec![Goal::ndr(), Goal::pdr()], MIN_PPS, MAX_PPS).unwrap();
    let found = search.run(&mut session);
    assert_eq!(found.end, Some(End::Stopped));
    assert_eq!((session.trials().len(), session.rejected().len()), (20, 10));
    let ndr = found.goal("NDR").unwrap();
    let (low, high) = ndr.believed_pps.unwrap();
    assert!(ndr.outcome == Outcome::Unfinished && low <= 1e6 && high >= 1e6, "{ndr:?}");
    assert_eq!(told.iter().filter(|t| t.1).count(), 10);
    assert!(told.iter().all(|t| t.2 <= t.3) && told[0].0 == "warm-up" && told[29].0.contains("confirming"));

    let mut always = |_: Input| Measured::Invalid("the generator was saturated".into());
    let found = search.run(&mut Session::new(&mut always, Budget { repeats: 2, ..Budget::default() }));
    let words = found.end.unwrap().to_string();
    assert!(words.ends_with("was invalid 3 times, last: the generator was saturated"), "{words}");

    let stop = std::cell::Cell::new(false);
    let mut stops = |trial: Input| {
        stop.set(true);
        Measured::Valid(Observation::counted(trial.duration_s, 1, 1))
    };
    let asked = || stop.get();
    let mut session = Session::new(&mut stops, Budget::default()).stop_when(&asked);
    assert_eq!((search.run(&mut session).end, session.trials().len()), (Some(End::Stopped), 1));

    let mut dead = |_: Input| Measured::Broken("the process ended".into());
    let found = search.run(&mut Session::new(&mut dead, Budget::default()));
    assert_eq!(found.end.unwrap().to_string(), "no more trials are possible: the process ended");
}
