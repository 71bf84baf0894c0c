//! Which share of its core each instance is to have: `Shares_i = Priority_i × load_i / TotalLoad(core)` (NFVnice,
//! section 3.2), and which weight gives it that share.
//!
//! Weights are in the units of cgroup v2 `cpu.weight`, where 100 is usual; they count against others on the core only.
//! Pure.

/// What a task has that nobody gave a weight.
pub const USUAL: f64 = 100.0;
/// Nobody gets less than this part of an even share, whatever its load: what arrives next must be able to run ("all
/// competing NFs get a minimal CPU share necessary to progress", section 2.1).
const LEAST: f64 = 0.01;
/// A weight is written when it differs by more than this part of what is in force.
const ENOUGH: f64 = 0.02;

/// What is known of one instance on a core.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Demand {
    /// Cores' worth of work, see [`crate::load::load`].
    pub load: f64,
    /// The operator's factor, 1 unless said.
    pub priority: f64,
    /// A weight that the operator fixed: it takes no part in the formula.
    pub fixed: Option<f64>,
}

/// The weight of each instance on one core. Those without a fixed weight share as much as they would have together at
/// [`USUAL`], so a fixed 100 stands for an even share. Without any load, priorities alone decide.
#[must_use]
pub fn weights(demands: &[Demand]) -> Vec<f64> {
    let auto = || demands.iter().filter(|d| d.fixed.is_none());
    let sane = |x: f64| if x.is_finite() { x.max(0.0) } else { 0.0 };
    let count = auto().count() as f64;
    let total: f64 = auto().map(|d| sane(d.load)).sum();
    let part = |d: &Demand| {
        let load = if total > 0.0 { sane(d.load) / total } else { 1.0 / count };
        sane(d.priority) * load
    };
    let parts: f64 = auto().map(part).sum();
    demands
        .iter()
        .map(|d| match d.fixed {
            Some(weight) => weight,
            None if parts > 0.0 => USUAL * count * (part(d) / parts).max(LEAST / count),
            None => USUAL,
        })
        .collect()
}

/// Loads to go by: an unknown one is taken for the mean of the others. Whoever was not sampled often enough yet would seem to
/// need nothing, be given next to nothing, and so be sampled next to never.
#[must_use]
pub fn presumed(loads: &[Option<f64>]) -> Vec<f64> {
    let known = || loads.iter().flatten();
    let sum: f64 = known().sum();
    let usual = if sum > 0.0 { sum / known().count() as f64 } else { 1.0 };
    loads.iter().map(|load| load.unwrap_or(usual)).collect()
}

/// The parts of a core that `weights` come to when all want more than they get; they add up to 1.
#[must_use]
pub fn parts(weights: &[f64]) -> Vec<f64> {
    let sum: f64 = weights.iter().sum();
    weights.iter().map(|w| if sum > 0.0 { w / sum } else { 0.0 }).collect()
}

/// Whether `wanted` is worth a write, with `now` in force.
#[must_use]
pub fn differs(now: f64, wanted: f64) -> bool {
    (wanted - now).abs() > ENOUGH * now
}

/// What the nice value makes of a weight: 1.25 for each step (the kernel's `sched_prio_to_weight`).
#[must_use]
pub fn nice_factor(nice: i8) -> f64 {
    1.25f64.powi(-i32::from(nice))
}

/// The nice value nearest to a weight.
#[must_use]
pub fn nearest_nice(weight: f64) -> i8 {
    if weight.is_nan() || weight <= 0.0 {
        return 19;
    }
    (-(weight / USUAL).ln() / 1.25f64.ln()).round().clamp(-20.0, 19.0) as i8
}

/// Groups of instances that can meet on a core: those whose cores overlap, and so on from one to the next. `cores` empty
/// means any core. Returns the group of each, numbered from 0.
#[must_use]
pub fn meeting(cores: &[Vec<usize>]) -> Vec<usize> {
    let mut group: Vec<usize> = (0..cores.len()).collect();
    let meet = |a: &[usize], b: &[usize]| a.is_empty() || b.is_empty() || a.iter().any(|c| b.contains(c));
    for i in 0..cores.len() {
        for j in 0..i {
            if group[i] != group[j] && meet(&cores[i], &cores[j]) {
                let (old, new) = (group[i].max(group[j]), group[i].min(group[j]));
                group.iter_mut().filter(|g| **g == old).for_each(|g| *g = new);
            }
        }
    }
    let mut names: Vec<usize> = Vec::new();
    group
        .iter()
        .map(|g| {
            names.iter().position(|n| n == g).unwrap_or_else(|| {
                names.push(*g);
                names.len() - 1
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn auto(load: f64) -> Demand {
        Demand { load, priority: 1.0, fixed: None }
    }

    fn shares(demands: &[Demand]) -> Vec<f64> {
        parts(&weights(demands))
    }

    #[test]
    fn the_formula() {
        let close = |got: &[f64], expected: &[f64]| {
            assert!(got.iter().zip(expected).all(|(g, e)| (g - e).abs() < 1e-9), "{got:?} {expected:?}");
        };
        // Equal rates, costs 1:2:5:20:40:60 (figure 15): shares as the costs, so equal throughput.
        let costs = [1.0, 2.0, 5.0, 20.0, 40.0, 60.0];
        let expected = costs.map(|c| c / 128.0);
        close(&shares(&costs.map(auto)), &expected);
        close(&shares(&[auto(0.0), auto(0.0)]), &[0.5, 0.5]);
        let favoured = Demand { priority: 3.0, ..auto(1.0) };
        close(&shares(&[favoured, auto(1.0)]), &[0.75, 0.25]);
        // Fixed weights stand aside: 100 is an even share of the three.
        let fixed = Demand { fixed: Some(100.0), ..auto(77.0) };
        close(&shares(&[fixed, auto(1.0), auto(3.0)]), &[1.0 / 3.0, 1.0 / 6.0, 0.5]);
        close(&shares(&[]), &[]);
    }

    #[test]
    fn who_is_not_known_yet_gets_an_even_part() {
        assert_eq!(presumed(&[Some(3.0), None, Some(1.0)]), [3.0, 2.0, 1.0]);
        assert_eq!(presumed(&[None, None]), [1.0, 1.0]);
        assert_eq!(presumed(&[Some(0.0), None]), [0.0, 1.0]);
        assert_eq!(presumed(&[]), [0.0; 0]);
    }

    #[test]
    fn nobody_starves() {
        let got = shares(&[auto(0.0), auto(1.0)]);
        assert!(got[0] > 0.004 && got[0] < 0.006, "{got:?}");
        assert!(shares(&[Demand { priority: 0.0, ..auto(1.0) }, auto(1.0)])[0] > 0.0);
    }

    #[test]
    fn nice_values() {
        assert_eq!([100.0, 125.0, 80.0, 1e9, 0.0, f64::NAN].map(nearest_nice), [0, -1, 1, -20, 19, 19]);
        for nice in -20..=19 {
            assert_eq!(nearest_nice(USUAL * nice_factor(nice)), nice);
        }
    }

    #[test]
    fn who_meets_whom() {
        let cores = [vec![1], vec![2], vec![1, 3], vec![4], vec![3]];
        assert_eq!(meeting(&cores), [0, 1, 0, 2, 0]);
        assert_eq!(meeting(&[vec![1], vec![2], vec![]]), [0, 0, 0]);
        assert_eq!(meeting(&[]), [0usize; 0]);
    }

    prop_compose! {
        fn demand()(load in 0.0f64..100.0, priority in 1u8..100, fixed in prop::option::of(1.0f64..10_000.0)) -> Demand {
            Demand { load, priority: f64::from(priority), fixed }
        }
    }

    proptest! {
        #[test]
        fn weights_are_positive_and_parts_add_up(demands in prop::collection::vec(demand(), 1..64)) {
            let w = weights(&demands);
            prop_assert!(w.iter().all(|w| w.is_finite() && *w > 0.0), "{w:?}");
            prop_assert!((parts(&w).iter().sum::<f64>() - 1.0).abs() < 1e-9);
        }

        /// Whoever has more load at the same priority has no smaller share, and whoever's unit of load changes keeps it.
        #[test]
        fn monotonic_and_without_unit(loads in prop::collection::vec(0.0f64..100.0, 2..32), unit in 0.001f64..1000.0) {
            let w = weights(&loads.iter().copied().map(auto).collect::<Vec<_>>());
            for i in 0..w.len() {
                for j in 0..w.len() {
                    prop_assert!(loads[i] > loads[j] || w[i] <= w[j] + 1e-9);
                }
            }
            let scaled = weights(&loads.iter().map(|l| auto(l * unit)).collect::<Vec<_>>());
            prop_assert!(w.iter().zip(&scaled).all(|(a, b)| (a - b).abs() < 1e-6 * a), "{w:?} {scaled:?}");
        }

        /// Against the formula as it stands in the paper, for shares above the least.
        #[test]
        fn proportional_to_priority_times_load(demands in prop::collection::vec((0.5f64..10.0, 1u8..5), 2..16)) {
            let list: Vec<Demand> =
                demands.iter().map(|&(load, p)| Demand { load, priority: f64::from(p), fixed: None }).collect();
            let total: f64 = list.iter().map(|d| d.load).sum();
            let paper: Vec<f64> = list.iter().map(|d| d.priority * d.load / total).collect();
            let (w, got) = (weights(&list), paper[0]);
            for (weight, share) in w.iter().zip(&paper) {
                prop_assert!((weight / w[0] - share / got).abs() < 1e-9 * (share / got));
            }
        }
    }
}
