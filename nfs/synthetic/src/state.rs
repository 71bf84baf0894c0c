//! What a running `synthetic` NF keeps.

use crate::calibrate::{self, Calibration, spin};
use crate::config::Args;
use crate::draws::{Draws, scale};
use chainline_nf::Error;

/// One cache line of the state.
#[derive(Clone)]
#[repr(align(64))]
struct Line([u64; 8]);

/// What the steps begin anew after: nanoseconds without a packet.
const PAUSE_NS: u64 = 500_000_000;

/// Iterations to draw from, the loop's value, the state.
pub struct State {
    /// What packets cost now.
    iterations: Draws<u32>,
    steps: Option<Steps>,
    value: u64,
    touches: u32,
    lines: Vec<Line>,
    tsc_hz: Option<u64>,
    calibration: Calibration,
    mean_cycles: f64,
}

/// Knuth's multiplier, which is odd.
const MIX: u64 = 0x9e37_79b9_7f4a_7c15;

/// Costs by time.
struct Steps {
    /// From so many nanoseconds after the first packet on, in order; the first from 0.
    costs: Vec<(u64, Draws<u32>)>,
    /// Which of them is in force.
    current: usize,
    /// When the first packet came, and the last.
    first_ns: u64,
    last_ns: Option<u64>,
}

impl Steps {
    /// A burst came at `now_ns`: the costs that begin with it.
    fn turn(&mut self, now_ns: u64) -> Option<&Draws<u32>> {
        if self.last_ns.is_none_or(|last| now_ns.saturating_sub(last) >= PAUSE_NS) {
            self.first_ns = now_ns;
        }
        self.last_ns = Some(now_ns);
        let at = now_ns.saturating_sub(self.first_ns);
        let turned = self.costs.partition_point(|(from, _)| *from <= at).saturating_sub(1);
        if turned == self.current {
            return None;
        }
        self.current = turned;
        self.costs.get(turned).map(|(_, costs)| costs)
    }
}

impl State {
    pub(crate) fn new(args: &Args) -> Result<Self, Error> {
        let costs = Draws::of(args)?;
        let (tsc_hz, calibration) = match args.iteration_cycles {
            Some(each) => (args.tsc_hz, Calibration { each, fixed: 0.0 }),
            None => {
                let hz = args.tsc_hz.map_or_else(calibrate::tsc_hz, Ok)?;
                (Some(hz), Calibration::measure(hz))
            }
        };
        let count = args.state_bytes.div_ceil(64) as usize;
        let mut lines = Vec::new();
        lines
            .try_reserve_exact(count)
            .map_err(|_| Error::Args(format!("args.state_bytes: this host cannot give {} bytes", args.state_bytes)))?;
        // Written, not only reserved: the first packets must not pay for page faults.
        lines.resize(count, Line([1; 8]));
        let iterations = |costs: &Draws<f64>| costs.map(|c| calibration.iterations(c));
        let mut by_time = vec![(0, iterations(&costs))];
        for (i, step) in args.steps.iter().enumerate() {
            by_time.push((step.at_ms.saturating_mul(1_000_000), iterations(&Draws::of_step(args, i)?)));
        }
        let mut now = iterations(&costs);
        now.make_room(by_time.iter().map(|(_, costs)| costs));
        let steps = (by_time.len() > 1).then_some(Steps { costs: by_time, current: 0, first_ns: 0, last_ns: None });
        Ok(Self {
            iterations: now,
            steps,
            value: 3,
            touches: args.touches,
            lines,
            tsc_hz,
            calibration,
            mean_cycles: costs.mean(),
        })
    }

    /// A burst came: packets cost from now on what the steps say of this time. Allocates nothing.
    #[inline]
    pub(crate) fn turn(&mut self, now_ns: u64) {
        if let Some(costs) = self.steps.as_mut().and_then(|s| s.turn(now_ns)) {
            self.iterations.take_over(costs);
        }
    }

    /// Does the work of one packet.
    #[inline]
    pub(crate) fn work(&mut self, flow_hash: u32) {
        if let Some(iterations) = self.iterations.next(flow_hash) {
            self.value = spin(self.value, iterations);
        }
        let mut at = u64::from(flow_hash);
        for _ in 0..self.touches {
            at = (at ^ at >> 29).wrapping_add(1).wrapping_mul(MIX);
            let i = scale((at >> 32) as u32, self.lines.len());
            if let Some(line) = self.lines.get_mut(i) {
                line.0[0] = std::hint::black_box(line.0[0].wrapping_add(1));
            }
        }
    }

    pub(crate) fn describe(&self) -> String {
        let hz = self.tsc_hz.map_or("not needed".into(), |hz| format!("{:.0} MHz", hz as f64 / 1e6));
        format!(
            "mean cost {:.1} cycles; an iteration {:.3} cycles and {:.1} once a packet; TSC {hz}; state {} bytes, {} touches",
            self.mean_cycles,
            self.calibration.each,
            self.calibration.fixed,
            self.lines.len() * 64,
            self.touches,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(args: serde_json::Value) -> State {
        State::new(&serde_json::from_value(args).unwrap()).unwrap()
    }

    fn mean(s: &State) -> f64 {
        s.iterations.values().iter().map(|n| f64::from(*n)).sum::<f64>() / s.iterations.values().len() as f64
    }

    #[test]
    fn the_table_has_the_mean_that_was_asked_for() {
        for (cost, wanted) in [
            (serde_json::json!(400), 400.0),
            (serde_json::json!({"uniform": [100, 700]}), 400.0),
            (serde_json::json!({"exponential": 400}), 400.0),
            (serde_json::json!({"per_flow": [100, 700]}), 400.0),
        ] {
            let s = state(serde_json::json!({"cost_cycles": cost, "iteration_cycles": 1.0}));
            assert!((mean(&s) - wanted).abs() < 0.5, "{cost}: {}", mean(&s));
        }
        let s = state(serde_json::json!({"cost_cycles": {"exponential": 1000}, "iteration_cycles": 1.0}));
        let over =
            s.iterations.values().iter().filter(|n| **n > 1000).count() as f64 / s.iterations.values().len() as f64;
        assert!((over - (-1.0f64).exp()).abs() < 0.01, "{over} of the packets cost more than the mean");
    }

    #[test]
    fn cost_is_the_flows_own_and_paid_for_every_packet() {
        let mut s = state(serde_json::json!({"cost_cycles": {"per_flow": [40, 400]}, "iteration_cycles": 4.0}));
        for (hash, iterations) in [(0, 10), (0x7fff_ffff, 10), (0x8000_0000, 100), (u32::MAX, 100)] {
            let expected = spin(s.value, iterations);
            s.work(hash);
            assert_eq!(s.value, expected, "{hash:#x}");
        }
    }

    #[test]
    fn steps_change_the_cost_and_begin_anew_after_a_pause() {
        let mut s = state(serde_json::json!({"cost_cycles": 40, "iteration_cycles": 4.0, "steps": [
            {"at_ms": 100, "cost_cycles": 400}, {"at_ms": 200, "cost_cycles": {"per_flow": [4, 8]}}
        ]}));
        let ms = 1_000_000;
        // The clock may stand anywhere when the first packet comes.
        for (at, wanted) in
            [(7000, 10.0), (7099, 10.0), (7100, 100.0), (7350, 1.5), (7849, 1.5), (8350, 10.0), (8449, 10.0)]
        {
            s.turn(at * ms);
            assert_eq!(mean(&s), wanted, "at {at} ms");
        }
        s.turn(8460 * ms);
        assert_eq!(mean(&s), 100.0);
    }

    #[test]
    fn a_flow_touches_its_own_lines_as_often_as_asked() {
        let mut s = state(serde_json::json!({"state_bytes": 1 << 20, "touches": 4, "iteration_cycles": 4.0}));
        let touched = |s: &State| s.lines.iter().filter(|l| l.0[0] != 1).count();
        let sum = |s: &State| s.lines.iter().map(|l| l.0[0] - 1).sum::<u64>();
        s.work(77);
        assert_eq!((touched(&s), sum(&s)), (4, 4));
        s.work(77);
        assert_eq!((touched(&s), sum(&s)), (4, 8));
        (0..10_000u32).for_each(|i| s.work(i.wrapping_mul(0x9e37_79b9)));
        assert_eq!(sum(&s), 8 + 40_000);
        // 16,384 lines, 40,000 touches: e^-2.44 of them are spared, about 1,430.
        assert!((14_700..15_200).contains(&touched(&s)), "{}", touched(&s));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for (args, message) in [
            (serde_json::json!({"cost_cycles": {"uniform": [5, 1]}}), "the lower one first"),
            (serde_json::json!({"cost_cycles": 5_000_000_000u64}), "more than 4000000000"),
            (serde_json::json!({"cost_cycles": {"per_flow": []}}), "expected 1 to 65536"),
            (
                serde_json::json!({"steps": [{"at_ms": 5, "cost_cycles": 1}, {"at_ms": 5, "cost_cycles": 2}]}),
                "steps[1].at_ms: found 5, expected a later time",
            ),
            (
                serde_json::json!({"steps": [{"at_ms": 5, "cost_cycles": {"uniform": [5, 1]}}]}),
                "steps[0].cost_cycles.uniform",
            ),
            (serde_json::json!({"touches": 1}), "nothing to touch"),
            (serde_json::json!({"touches": 5000, "state_bytes": 64}), "more than 4096"),
            (serde_json::json!({"state_bytes": 1u64 << 60}), "more than"),
            (serde_json::json!({"iteration_cycles": 0.0}), "expected 0.01"),
            (serde_json::json!({"tsc_hz": 3}), "expected a frequency"),
        ] {
            let error = State::new(&serde_json::from_value(args.clone()).unwrap()).err().map(|e| e.to_string());
            assert!(error.as_ref().is_some_and(|e| e.contains(message)), "{args}: {error:?}");
        }
        let error = serde_json::from_value::<Args>(serde_json::json!({"cost_cycles": "many"})).unwrap_err();
        assert!(error.to_string().contains("{per_flow: [cycles, ...]}"), "{error}");
    }
}
