//! The measure `scheduling`: what chains and NFs get of the cores that they share, and what is wasted.

use super::Axes;
use super::measure::{Figure, Ideal, Procedure};
use super::meter::Stop;
use super::tell::Event;
use crate::results::{Axis, View};
use chainline_trial::{Load, Order, Outcome};

/// As the x of a section: the NF or chain that a figure is of.
pub const PART: &str = "part";
/// What the throughput over the ideal's is called.
pub const RATIO: &str = "ratio to fused";
/// Throughput, in frames a second.
pub const THROUGHPUT: &str = "throughput";
/// Packets a second that were dropped after work.
pub const WASTED: &str = "wasted";
/// Jain's index of the chains' delivered shares.
pub const JAIN: &str = "jain";
/// 99th percentile of the latency.
pub const P99: &str = "p99";
/// How much of its highest throughput a chain keeps.
pub const PEAK: &str = "peak ratio";
/// How far shares were from what was intended.
pub const DEVIATION: &str = "share deviation";
/// Core time of the control loop.
pub const CONTROL: &str = "control loop";
/// How often it looked.
pub const READINGS: &str = "readings";
/// What each figure is called at the loads that are shares of the ideal's throughput.
const BY_LOAD: &str = " by load";
/// What each figure is called at loads in frames a second.
const BY_RATE: &str = " by rate";
/// What each figure is called in the slices of a window.
const OVER_TIME: &str = " over time";
/// Time until shares are right again.
pub const SETTLING: &str = "settling";
/// Shares are right where the index is at least this, for so many slices in a row.
const RIGHT: f64 = 0.99;
const IN_A_ROW: usize = 3;

/// Name, unit, what a value is divided by to be in it, definition.
type Row = (&'static str, &'static str, f64, &'static str);

/// All figures of a window, by name.
const FIGURES: &[Row] = &[
    (THROUGHPUT, "Mpps", 1e6, "Frames that arrive while the generator sends all it can."),
    (
        RATIO,
        "",
        1.0,
        "Throughput over that of the same NFs fused: called one after the other in one process, which wastes nothing and \
         switches nothing. Both of the same round.",
    ),
    (
        PEAK,
        "",
        1.0,
        "Throughput over the highest that the case has at any load; in a single number the least of the peak's load and \
         higher ones. Below 1 by more than noise, overload makes a chain carry less (congestion collapse).",
    ),
    (WASTED, "packets/s", 1.0, "Packets that were dropped for lack of room after at least one NF had worked on them."),
    (
        JAIN,
        "",
        1.0,
        "Jain's index of the chains' delivered shares (what left of what was offered): 1 if all are equal, 1/n if one \
         has everything.",
    ),
    (P99, "µs", 1e3, "99th percentile of the time from when a frame should have been sent to its arrival."),
    ("throughput of chains", "Mpps", 1e6, "Frames of each chain that left."),
    ("service rate", "Mpps", 1e6, "Packets that each NF was handed."),
    ("wasted by NF", "packets/s", 1.0, "Packets dropped for lack of room after this NF had worked on them."),
    ("core time", "%", 0.01, "Time that each NF's instance was on a core; 100 % is one core."),
    ("run delay", "ms/s", 1.0, "Time that each NF's instance was runnable and not running, of each second."),
    (
        DEVIATION,
        "%",
        0.01,
        "Largest distance of an instance's share of its cores from the one that its weight means, as a part of the latter.",
    ),
    (
        "intended share",
        "%",
        0.01,
        "Part of its cores that each NF's instance was meant to have among those that share them.",
    ),
    ("achieved share", "%", 0.01, "Part that it had, of what those that share these cores had."),
    (CONTROL, "%", 0.01, "Time that the manager's control loop was on a core; 100 % is one core."),
    (READINGS, "1/s", 1.0, "Readings that the control loop took of all queues, NFs and chains."),
    ("voluntary switches", "1/s", 1.0, "Context switches of each NF's instance as it went to sleep."),
    ("involuntary switches", "1/s", 1.0, "Context switches of each NF's instance as it was pre-empted."),
];

/// What is shown when a file does not say.
pub(super) const SHOWN: [&str; 4] = [THROUGHPUT, RATIO, WASTED, P99];
/// Figures that there are by load.
const LOADED: &[&str] = &[THROUGHPUT, RATIO, WASTED, P99, PEAK];

/// Whether the measure makes a figure of this name.
#[must_use]
pub fn is_figure(what: &str) -> bool {
    axes(what).is_some()
}

/// The axes of a figure of this measure.
#[must_use]
pub fn axes(what: &str) -> Option<Axes> {
    let of = |(name, unit, scale, definition): &Row| Axes {
        label: (*name).to_owned(),
        unit,
        scale: *scale,
        x: None,
        drawn: View::Bars,
        definition,
    };
    let row = |name: &str| FIGURES.iter().find(|r| r.0 == name).map(of);
    let axis = |label: &str, unit: &str| Some(Axis { label: label.into(), unit: unit.into(), log: false });
    if let Some(name) = what.strip_suffix(BY_LOAD).filter(|n| LOADED.contains(n)) {
        return Some(Axes { x: axis("load", "of the throughput fused"), drawn: View::Lines, ..row(name)? });
    }
    if let Some(name) = what.strip_suffix(BY_RATE) {
        return Some(Axes { x: axis("load", "frames/s"), drawn: View::Lines, ..row(name)? });
    }
    let over_time = axis("time in the window", "s");
    match what {
        "jain over time" => Some(Axes {
            definition: "Jain's index of the NFs' packets in each slice of the window.",
            x: over_time,
            drawn: View::Lines,
            ..row(JAIN)?
        }),
        "core time over time" => Some(Axes { x: over_time, drawn: View::Lines, ..row("core time")? }),
        "service rate over time" => Some(Axes { x: over_time, drawn: View::Lines, ..row("service rate")? }),
        SETTLING => Some(Axes {
            label: "time until shares are right again".into(),
            unit: "ms",
            scale: 1.0,
            x: axis("step at", "s"),
            drawn: View::Table,
            definition: "From a step of the cost to the begin of the first of three slices in a row in which Jain's \
                         index is at least 0.99. It is told to one slice.",
        }),
        name => row(name),
    }
}

impl Procedure<'_, '_> {
    /// A window at each load: the highest, or the given ones; then those that are shares of the ideal's throughput.
    /// `floor` is why latencies say nothing, if they do not.
    pub(super) fn scheduling(&mut self, floor: Option<&str>) -> Result<(), Stop> {
        self.windows()?;
        if let Some(why) = floor {
            self.found.figures.retain(|f| !f.what.starts_with(P99));
            self.found.lacks(P99, why);
        }
        Ok(())
    }

    fn windows(&mut self) -> Result<(), Stop> {
        let own = if self.protocol.loads_pps.is_empty() {
            vec![(Load::Max, None)]
        } else {
            self.protocol.loads_pps.iter().map(|pps| (Load::Pps(*pps), Some(*pps))).collect()
        };
        for (load, pps) in own {
            let Some((outcome, trial)) = self.window(load, "scheduling")? else { continue };
            let (mut figures, missing) = of_window(&outcome);
            for f in figures.iter_mut().filter(|_| pps.is_some()) {
                f.what += BY_RATE;
                f.x = pps;
            }
            if self.protocol.slice_ms > 0 {
                let begin_ms = self.protocol.warmup_ms;
                figures.extend(over_time(&outcome, &self.protocol.steps_ms, begin_ms));
            }
            self.take(figures, trial);
            if let Some((what, why)) = missing {
                self.found.lacks(what, why);
            }
        }
        if self.protocol.ideal_shares.is_empty() {
            return Ok(());
        }
        let ideal_pps = match self.ideal {
            Ideal::None => None,
            Ideal::Own => self.found.value(THROUGHPUT),
            Ideal::Other(pps) => pps,
        };
        let Some(ideal_pps) = ideal_pps.filter(|pps| *pps > 0.0) else {
            self.found.lacks("throughput by load", "the ideal's throughput, which loads are shares of, was not found");
            return Ok(());
        };
        let mut carried = Vec::new();
        for share in self.protocol.ideal_shares.clone() {
            let purpose = format!("scheduling at {share}");
            let Some((outcome, trial)) = self.window(Load::Pps(share * ideal_pps), &purpose)? else { continue };
            let mut figures: Vec<Figure> = of_window(&outcome).0;
            figures.retain(|f| LOADED.contains(&f.what.as_str()));
            figures.push(figure(RATIO, "", outcome.received_pps() / ideal_pps));
            for f in &mut figures {
                f.what += BY_LOAD;
                f.x = Some(share);
            }
            self.take(figures, trial);
            carried.push((share, outcome.received_pps()));
        }
        self.found.figures.extend(peak(carried));
        Ok(())
    }

    fn window(&mut self, load: Load, purpose: &str) -> Result<Option<(Outcome, usize)>, Stop> {
        (self.meter.tell)(Event::Step(purpose));
        let order = Order { slice_ms: self.protocol.slice_ms, ..self.order(load, self.protocol.trial_ms) };
        match self.meter.trial(&order, purpose) {
            Ok(made) => Ok(Some((made.trial.outcome, made.index))),
            Err(stop) => self.tolerate(purpose, stop).map(|()| None),
        }
    }

    fn take(&mut self, figures: Vec<Figure>, trial: usize) {
        self.found.figures.extend(figures.into_iter().map(|f| Figure { trials: vec![trial], ..f }));
    }
}

fn figure(what: &str, line: &str, value: f64) -> Figure {
    Figure { what: what.into(), line: line.into(), x: None, value, trials: Vec::new() }
}

/// What is kept of the peak, by load and in one number, of (load, throughput). One load has no peak.
fn peak(mut carried: Vec<(f64, f64)>) -> Vec<Figure> {
    carried.sort_by(|a, b| a.0.total_cmp(&b.0));
    let most = carried.iter().map(|c| c.1).fold(0.0, f64::max);
    let Some(at) = carried.iter().position(|c| c.1 == most).filter(|_| carried.len() > 1 && most > 0.0) else {
        return Vec::new();
    };
    let of =
        |(load, pps): &(f64, f64)| Figure { x: Some(*load), ..figure(&format!("{PEAK}{BY_LOAD}"), "", pps / most) };
    let least = carried[at..].iter().map(|c| c.1 / most).fold(1.0, f64::min);
    carried.iter().map(of).chain([figure(PEAK, "", least)]).collect()
}

/// What a window says, and what it cannot say.
fn of_window(o: &Outcome) -> (Vec<Figure>, Option<(&'static str, &'static str)>) {
    let seconds = o.seconds.max(1e-9);
    let per_second = |n: u64| n as f64 / seconds;
    let wasted: u64 = o.nfs.values().map(|nf| nf.wasted).sum();
    let mut all = vec![figure(THROUGHPUT, "", o.received_pps()), figure(WASTED, "", per_second(wasted))];
    if o.chains.len() > 1 {
        let shares: Vec<f64> = o.chains.values().map(|c| c.transmitted as f64 / c.received.max(1) as f64).collect();
        all.push(figure(JAIN, "", jain(&shares)));
        all.extend(o.chains.iter().map(|(name, c)| figure("throughput of chains", name, per_second(c.transmitted))));
    }
    all.extend(o.latency.iter().map(|l| figure(P99, "", l.p99 as f64)));
    for (name, nf) in &o.nfs {
        all.push(figure("service rate", name, per_second(nf.received)));
        all.push(figure("wasted by NF", name, per_second(nf.wasted)));
        all.push(figure("core time", name, nf.cpu_share));
        all.push(figure("run delay", name, nf.run_delay_ns as f64 / 1e6 / seconds));
        all.push(figure("voluntary switches", name, per_second(nf.voluntary_switches)));
        all.push(figure("involuntary switches", name, per_second(nf.involuntary_switches)));
        all.extend(nf.intended_share.map(|share| figure("intended share", name, share)));
        all.extend(nf.achieved_share.map(|share| figure("achieved share", name, share)));
    }
    let shares = o.nfs.values().filter_map(|nf| nf.intended_share.zip(nf.achieved_share));
    let farthest = shares.map(|(meant, had)| ((had - meant) / meant).abs()).reduce(f64::max);
    all.extend(farthest.filter(|d| d.is_finite()).map(|d| figure(DEVIATION, "", d)));
    if let Some(control) = &o.control {
        all.push(figure(CONTROL, "", control.cpu_share));
        all.push(figure(READINGS, "", per_second(control.readings)));
    }
    (all, o.latency.is_none().then_some((P99, "no frame arrived")))
}

/// What the slices say. `steps_ms` count from the first packet, which came `begin_ms` before the window began.
fn over_time(o: &Outcome, steps_ms: &[u64], begin_ms: u64) -> Vec<Figure> {
    let mut all = Vec::new();
    let mut indexes = Vec::with_capacity(o.slices.len());
    for slice in &o.slices {
        let rates: Vec<f64> = slice.nfs.values().map(|nf| nf.received as f64 / slice.seconds.max(1e-9)).collect();
        let index = jain(&rates);
        indexes.push((slice.until_s - slice.seconds, index));
        let at = |what: &str, line: &str, value| Figure { x: Some(slice.until_s), ..figure(what, line, value) };
        all.push(at(&format!("{JAIN}{OVER_TIME}"), "", index));
        for ((name, nf), rate) in slice.nfs.iter().zip(rates) {
            all.push(at(&format!("core time{OVER_TIME}"), name, nf.cpu_share));
            all.push(at(&format!("service rate{OVER_TIME}"), name, rate));
        }
    }
    for step in steps_ms {
        let at_s = (*step as f64 - begin_ms as f64) / 1e3;
        if let Some(ms) = settled_ms(&indexes, at_s) {
            all.push(Figure { x: Some(*step as f64 / 1e3), ..figure(SETTLING, "", ms) });
        }
    }
    all
}

/// Milliseconds from a step to the first slice from which on shares are right. `slices` are (begin in s, index).
fn settled_ms(slices: &[(f64, f64)], step_s: f64) -> Option<f64> {
    // The slice in which the step falls has both costs in it; a slice counts if it begins after the step, to the clock's
    // accuracy of some milliseconds.
    const ACCURACY_S: f64 = 0.005;
    let after: Vec<_> = slices.iter().filter(|(begin, _)| *begin >= step_s - ACCURACY_S).collect();
    let right = after.windows(IN_A_ROW).find(|w| w.iter().all(|(_, index)| *index >= RIGHT))?;
    let (begin, _) = right.first()?;
    Some((begin - step_s).max(0.0) * 1e3)
}

/// Jain, Chiu and Hawe, DEC-TR-301, 1984: the square of the sum over n times the sum of squares. 0 where nobody got
/// anything: the worst there is.
fn jain(x: &[f64]) -> f64 {
    let (sum, squares) = x.iter().fold((0.0, 0.0), |(s, q), v| (s + v, q + v * v));
    if squares > 0.0 { sum * sum / (x.len() as f64 * squares) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chainline_trial::{ChainOutcome, ControlState, Latency, NfOutcome, NfSlice, Slice};
    use std::collections::BTreeMap;

    fn value(all: &[Figure], what: &str, line: &str) -> f64 {
        all.iter().find(|f| f.what == what && f.line == line).map_or(f64::NAN, |f| f.value)
    }

    #[test]
    fn a_window_says_who_got_what() {
        let chain = |received, transmitted| ChainOutcome { received, transmitted, ..ChainOutcome::default() };
        let nf = NfOutcome {
            received: 600,
            wasted: 100,
            cpu_share: 0.25,
            run_delay_ns: 4_000_000,
            voluntary_switches: 20,
            involuntary_switches: 2,
            intended_share: Some(0.2),
            achieved_share: Some(0.25),
            ..NfOutcome::default()
        };
        let o = Outcome {
            seconds: 2.0,
            sent: 1200,
            received: 600,
            latency: Some(Latency { p99: 5000, ..Latency::default() }),
            chains: BTreeMap::from([("a".into(), chain(600, 450)), ("b".into(), chain(600, 150))]),
            nfs: BTreeMap::from([("x".into(), nf)]),
            control: Some(ControlState { cpu_share: 0.02, readings: 1900 }),
            ..Outcome::default()
        };
        let (all, missing) = of_window(&o);
        assert_eq!(missing, None);
        let get = |what, line| value(&all, what, line);
        assert_eq!((get(THROUGHPUT, ""), get(WASTED, ""), get(P99, "")), (300.0, 50.0, 5000.0));
        // (3/4 + 1/4)² over 2 (9/16 + 1/16)
        assert!((get(JAIN, "") - 0.8).abs() < 1e-12);
        assert_eq!((get("throughput of chains", "a"), get("throughput of chains", "b")), (225.0, 75.0));
        assert_eq!((get("core time", "x"), get("run delay", "x"), get("service rate", "x")), (0.25, 2.0, 300.0));
        assert_eq!((get("voluntary switches", "x"), get("involuntary switches", "x")), (10.0, 1.0));
        assert!((get(DEVIATION, "") - 0.25).abs() < 1e-12);
        assert_eq!((get("intended share", "x"), get("achieved share", "x")), (0.2, 0.25));
        assert_eq!((get(CONTROL, ""), get(READINGS, "")), (0.02, 950.0));
        // Every figure has axes.
        assert!(all.iter().all(|f| is_figure(&f.what)));
        let (none, missing) = of_window(&Outcome { latency: None, seconds: 1.0, ..Outcome::default() });
        assert!(value(&none, P99, "").is_nan() && missing.is_some());
    }

    #[test]
    fn shares_are_right_again_when_three_slices_say_so() {
        let slices: Vec<(f64, f64)> = [1.0, 1.0, 1.0, 0.8, 0.995, 0.9, 0.99, 0.999, 1.0, 1.0]
            .iter()
            .enumerate()
            .map(|(i, j)| (0.1 * i as f64, *j))
            .collect();
        assert!((settled_ms(&slices, 0.3).unwrap() - 300.0).abs() < 1e-6);
        assert!((settled_ms(&slices, 0.0).unwrap()).abs() < 1e-6);
        assert!((settled_ms(&slices, 0.25).unwrap() - 350.0).abs() < 1e-6);
        assert_eq!(settled_ms(&slices, 0.9), None, "too late to tell");
    }

    #[test]
    fn slices_become_lines_over_time() {
        let slice = |i: u32, a: u64, b: u64| Slice {
            until_s: f64::from(i) * 0.1,
            seconds: 0.1,
            nfs: [("a", a), ("b", b)].map(|(n, received)| (n.into(), NfSlice { received, cpu_share: 0.5 })).into(),
        };
        let slices = vec![slice(1, 100, 100), slice(2, 100, 0), slice(3, 70, 70), slice(4, 70, 70), slice(5, 70, 70)];
        let all = over_time(&Outcome { slices, ..Outcome::default() }, &[150], 50);
        let jains: Vec<f64> = all.iter().filter(|f| f.what == "jain over time").map(|f| f.value).collect();
        assert_eq!(jains, [1.0, 0.5, 1.0, 1.0, 1.0]);
        let settled: Vec<_> = all.iter().filter(|f| f.what == SETTLING).map(|f| (f.x, f.value.round())).collect();
        assert_eq!(settled, [(Some(0.15), 100.0)], "the step fell 100 ms after the window's begin");
        assert!(all.iter().all(|f| is_figure(&f.what)));
    }

    #[test]
    fn what_is_kept_of_the_peak_is_told_from_its_load_on() {
        let all = peak(vec![(10.0, 90.0), (0.5, 50.0), (1.5, 100.0), (3.0, 80.0)]);
        let by_load: Vec<_> = all.iter().filter(|f| f.what == "peak ratio by load").map(|f| (f.x, f.value)).collect();
        assert_eq!(by_load, [(Some(0.5), 0.5), (Some(1.5), 1.0), (Some(3.0), 0.8), (Some(10.0), 0.9)]);
        assert_eq!(value(&all, PEAK, ""), 0.8);
        assert!(all.iter().all(|f| is_figure(&f.what)));
        assert!(peak(vec![(1.0, 5.0)]).is_empty() && peak(vec![(1.0, 0.0), (2.0, 0.0)]).is_empty());
    }

    #[test]
    fn nobody_getting_anything_is_not_fair() {
        assert_eq!((jain(&[0.0, 0.0]), jain(&[2.0, 2.0]), jain(&[1.0, 0.0, 0.0, 0.0])), (0.0, 1.0, 0.25));
    }
}
