//! A known truth: what theory says of the queueing benchmark, to stand beside what was measured.

use crate::results::{Obtained, Point, Results, Series, X};
use chainline_queueing::{Cost, Queue};

/// Cost of a packet in TSC cycles, as the benchmark's file has it.
const COST_CYCLES: f64 = 100_000.0;
/// What theory says in nanoseconds; none in overload, where the time grows without end.
type Truth = fn(&Queue) -> Option<f64>;
/// The sections that theory is added to, and what it says there.
const SECTIONS: [(&str, Truth); 3] = [
    ("queueing-mean", Queue::mean_time_ns),
    ("queueing-p50", |q| q.time_quantile_ns(0.5)),
    ("queueing-p99", |q| q.time_quantile_ns(0.99)),
];

/// Adds the theory of M/D/1 and M/M/1 at the loads that were measured. The service time follows from the frequency of
/// the time-stamp counter that the dataplane told; without it there is no theory to add, which is said.
pub fn add_theory(results: &mut Results) {
    let tsc = results.environment.pointer("/dataplanes/chainline/tsc_hz").and_then(serde_json::Value::as_f64);
    let Some(service_ns) = tsc.filter(|hz| *hz > 0.0).map(|hz| COST_CYCLES / hz * 1e9) else {
        results.remarks.push("no theory is shown: the frequency of the time-stamp counter is not known".into());
        return;
    };
    for (id, truth) in SECTIONS {
        let Some(section) = results.sections.iter_mut().find(|s| s.id == id) else { continue };
        let mut loads: Vec<f64> = Vec::new();
        for point in section.series.iter().flat_map(|s| &s.points) {
            if let X::Number(x) = point.x
                && !loads.contains(&x)
            {
                loads.push(x);
            }
        }
        for (name, cost) in [("M/D/1", Cost::Constant), ("M/M/1", Cost::Exponential)] {
            let point = |rate_pps: &f64| {
                let ns = truth(&Queue { rate_pps: *rate_pps, service_ns, cost })?;
                Some(Point { x: X::Number(*rate_pps), samples: vec![ns / 1e3], trials: Vec::new() })
            };
            let points = loads.iter().filter_map(point).collect();
            section.series.push(Series { name: name.into(), obtained: Obtained::Modelled, points });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Section;

    #[test]
    fn theory_stands_at_the_measured_loads_below_capacity() {
        let at = |x| Point { x: X::Number(x), samples: vec![1.0], trials: Vec::new() };
        let measured =
            Series { name: "cost cycles 100000".into(), points: vec![at(10_000.0), at(20_000.0)], ..Series::default() };
        let mut results = Results {
            // 100,000 cycles are 50 µs: room for 20,000 packets a second.
            environment: serde_json::json!({"dataplanes": {"chainline": {"tsc_hz": 2e9}}}),
            sections: SECTIONS
                .map(|(id, _)| Section { id: id.into(), series: vec![measured.clone()], ..Section::default() })
                .into(),
            ..Results::default()
        };
        add_theory(&mut results);
        let theory = |section: usize| -> Vec<(&str, f64, usize)> {
            let series = results.sections[section].series[1..].iter();
            series.map(|s| (s.name.as_str(), s.points[0].samples[0], s.points.len())).collect()
        };
        // At half of the capacity M/D/1 waits half a service time, and M/M/1 a whole one.
        assert_eq!(theory(0), [("M/D/1", 75.0, 1), ("M/M/1", 100.0, 1)]);
        // Half of the packets do not wait.
        assert_eq!(theory(1)[0], ("M/D/1", 50.0, 1));
        // Time in M/M/1 is exponential.
        for (section, share) in [(1, 0.5), (2, 0.99)] {
            let (_, us, _) = theory(section)[1];
            assert!((us - 100.0 * -(1.0_f64 - share).ln()).abs() < 1e-9, "{us}");
        }
        assert!(theory(2)[0].1 < theory(2)[1].1);
        results.environment = serde_json::json!({});
        add_theory(&mut results);
        assert!(results.remarks[0].contains("no theory"));
    }
}
