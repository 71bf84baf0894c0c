//! A known truth: what theory says of the queueing benchmark, to stand beside what was measured.

use crate::results::{Obtained, Point, Results, Series, X};
use chainline_queueing::{Cost, Queue};

/// Cost of a packet in TSC cycles, as the benchmark's file has it.
const COST_CYCLES: f64 = 100_000.0;
/// The section that theory is added to.
const SECTION: &str = "queueing-mean";

/// Adds the theory of M/D/1 and M/M/1 at the loads that were measured. The service time follows from the frequency of
/// the time-stamp counter that the dataplane told; without it there is no theory to add, which is said.
pub fn add_theory(results: &mut Results) {
    let tsc = results.environment.pointer("/dataplanes/chainline/tsc_hz").and_then(serde_json::Value::as_f64);
    let Some(section) = results.sections.iter_mut().find(|s| s.id == SECTION) else { return };
    let Some(service_ns) = tsc.filter(|hz| *hz > 0.0).map(|hz| COST_CYCLES / hz * 1e9) else {
        results.remarks.push("no theory is shown: the frequency of the time-stamp counter is not known".into());
        return;
    };
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
            // In overload the time grows without end: no point.
            let ns = Queue { rate_pps: *rate_pps, service_ns, cost }.mean_time_ns()?;
            Some(Point { x: X::Number(*rate_pps), samples: vec![ns / 1e3], trials: Vec::new() })
        };
        let points = loads.iter().filter_map(point).collect();
        section.series.push(Series { name: name.into(), obtained: Obtained::Modelled, points });
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
            sections: vec![Section { id: SECTION.into(), series: vec![measured], ..Section::default() }],
            ..Results::default()
        };
        add_theory(&mut results);
        let theory: Vec<_> = results.sections[0].series[1..]
            .iter()
            .map(|s| (s.name.as_str(), s.points[0].samples[0], s.points.len()))
            .collect();
        // At half of the capacity M/D/1 waits half a service time, and M/M/1 a whole one.
        assert_eq!(theory, [("M/D/1", 75.0, 1), ("M/M/1", 100.0, 1)]);
        results.environment = serde_json::json!({});
        add_theory(&mut results);
        assert!(results.remarks[0].contains("no theory"));
    }
}
