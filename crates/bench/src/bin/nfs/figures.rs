//! From what the rounds saw to the figures that the results name. Their definitions are in `docs/performance.md`.

use crate::cases::{Case, Locality, Subject};
use crate::inputs::RULES;
use chainline_bench::figures::{Figure, Goal, Named, Samples, counting, median};
use serde_json::json;

/// From this share of its time on that the generator's core is busy, it is what bounds the throughput.
const GENERATOR_BUSY: f64 = 0.95;
/// Flows of a state that is in the cache, and of one that is not.
const FEW: u64 = 10;
/// As above.
const MANY: u64 = 1_000_000;

/// All figures of the cases, and for each NF with state what is left of its rate when there are many flows.
pub fn all(s: &Samples, groups: &[(Subject, Vec<Case>)]) -> Vec<Named> {
    let mut out = Vec::new();
    for (subject, cases) in groups {
        out.extend(cases.iter().map(|case| rate(s, *case)));
        out.extend(subject.has_state().then(|| cliff(s, *subject)));
    }
    let core_to_core = match s.unavailable.get("core_to_core") {
        Some(why) => Figure::unavailable(why.clone()),
        // One value before each trial.
        None => Figure::of_samples(s.get("core_to_core"), 1.0, "ns"),
    };
    out.push(Named { name: "core_to_core_ns".into(), figure: core_to_core, goal: Goal::None });
    out
}

fn rate(s: &Samples, case: Case) -> Named {
    let name = case.name();
    let of = |what: &str| median(&counting(s.get(&format!("{name}/{what}"))));
    let mut figure = Figure::of_samples(s.get(&name), 1e-6, "Mpps").note("state_entries", case.flows);
    if let Some(busy) = of("generator_busy") {
        let who = if busy >= GENERATOR_BUSY { "generator" } else { "nf" };
        figure = figure.note("bounded_by", who).note("generator_busy", busy);
    }
    if let Some(ns) = of("cost_ns") {
        figure = figure.note("nf_cost_ns", ns);
    }
    let distances: Vec<f64> = s.get(&format!("{name}/core_to_core")).iter().map(|s| s.value.round()).collect();
    Named { goal: goal(case), figure: figure.note("core_to_core_ns", json!(distances)), name }
}

/// What a rate should be. State in cache: few flows, round robin, so that packets of one flow do not follow each other.
fn goal(case: Case) -> Goal {
    let in_cache = case.flows == FEW && case.locality == Locality::Worst;
    match case.subject {
        Subject::Chain4 if case.flows == FEW => Goal::AtLeast(12.0),
        Subject::Chain4 if case.flows == MANY => Goal::AtLeast(5.0),
        _ if !in_cache => Goal::None,
        Subject::Lb => Goal::AtLeast(18.0),
        Subject::Monitor | Subject::L3fwd => Goal::AtLeast(25.0),
        Subject::Firewall(rules) => Goal::AtLeast(if rules == RULES[0] { 25.0 } else { 8.0 }),
        Subject::Nat => Goal::AtLeast(15.0),
        _ => Goal::None,
    }
}

/// The rate with many flows in random order over that with few, round by round.
fn cliff(s: &Samples, subject: Subject) -> Named {
    let of = |flows| s.get(&Case { subject, flows, locality: Locality::Random }.name());
    let ratios: Vec<_> = of(MANY).iter().zip(of(FEW)).map(|(many, few)| many.with(*few, |a, b| a / b)).collect();
    // The goal is of NFs; what a chain of them must reach is said in packets.
    let goal = if subject == Subject::Chain4 { Goal::None } else { Goal::AtLeast(0.5) };
    Named { name: format!("{}.cliff", subject.name()), figure: Figure::of_samples(&ratios, 1.0, "ratio"), goal }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases;

    fn groups() -> Vec<(Subject, Vec<Case>)> {
        Subject::ALL.into_iter().map(|s| (s, cases::of(s, false))).collect()
    }

    fn figure<'a>(all: &'a [Named], name: &str) -> &'a Named {
        all.iter().find(|n| n.name == name).unwrap()
    }

    #[test]
    fn nothing_measured_is_unavailable() {
        for named in all(&Samples::default(), &groups()) {
            assert_eq!(named.figure.median(), None, "{}", named.name);
        }
    }

    #[test]
    fn each_goal_has_a_figure() {
        let all = all(&Samples::default(), &groups());
        let goals = all.iter().filter(|n| n.goal != Goal::None).count();
        // Six NFs in cache, the chain twice, and five with a state that may not fall.
        assert_eq!(goals, 6 + 2 + 5);
        assert_eq!(figure(&all, "firewall.rules10000.10.worst.mpps").goal, Goal::AtLeast(8.0));
        assert_eq!(figure(&all, "chain4.1000000.mpps").goal, Goal::AtLeast(5.0));
    }

    #[test]
    fn a_cliff_is_a_ratio_within_rounds() {
        let mut s = Samples::default();
        s.put("lb.nat.10.random.mpps", &[20e6, 10e6]);
        s.put("lb.nat.1000000.random.mpps", &[10e6, 6e6]);
        let all = all(&s, &groups());
        let cliff = figure(&all, "lb.nat.cliff");
        assert_eq!(cliff.figure.median(), Some(0.55));
        assert_eq!(cliff.goal.met(cliff.figure.median()), Some(true));
    }

    #[test]
    fn who_bounds_is_said() {
        let mut s = Samples::default();
        s.put("forward.plain.10.best.mpps", &[30e6]);
        s.put("forward.plain.10.best.mpps/generator_busy", &[0.99]);
        s.put("lb.nat.10.best.mpps", &[10e6]);
        s.put("lb.nat.10.best.mpps/generator_busy", &[0.5]);
        let all = all(&s, &groups());
        let by = |name| match &figure(&all, name).figure {
            Figure::Measured(m) => m.notes["bounded_by"].clone(),
            Figure::Unavailable { .. } => panic!("unavailable"),
        };
        assert_eq!((by("forward.plain.10.best.mpps"), by("lb.nat.10.best.mpps")), ("generator".into(), "nf".into()));
    }
}
