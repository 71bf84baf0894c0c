//! The page: the same that `chainline bench` makes of its results, with a plot for each NF and one of them all.

use crate::cases::{Case, Locality, Subject};
use crate::rounds::NfsError;
use chainline_bench::figures::{Figure, Named};
use chainline_bench::report;
use chainline_bench::results::{Axis, FORMAT, Obtained, Point, Results, Section, Series, Unavailable, View, X};
use serde_json::Value;

/// The page as one text.
///
/// # Errors
/// Only for a fault of this program.
pub fn html(
    figures: &[Named],
    groups: &[(Subject, Vec<Case>)],
    environment: Value,
    remarks: Vec<String>,
) -> Result<String, NfsError> {
    let mut sections = vec![all_nfs(figures, groups)];
    sections.extend(groups.iter().map(|(subject, cases)| one_nf(figures, *subject, cases)));
    sections.push(goals(figures));
    let results = Results {
        format: FORMAT.into(),
        title: "NFs: throughput over the size of their state".into(),
        command: std::env::args().collect(),
        file: None,
        started: environment["started"].as_str().unwrap_or_default().to_owned(),
        complete: true,
        environment,
        sections,
        trials: Vec::new(),
        remarks,
    };
    report::html(&results).map_err(|e| NfsError::Made(e.to_string()))
}

fn axes() -> (Axis, Axis) {
    let axis = |label: &str, unit: &str, log| Axis { label: label.into(), unit: unit.into(), log };
    (axis("flows", "", true), axis("throughput", "Mpps", false))
}

fn points(figures: &[Named], cases: &[Case], locality: Locality) -> Vec<Point> {
    let of = |case: &Case| figures.iter().find(|f| f.name == case.name());
    let point = |case: &Case| match &of(case)?.figure {
        Figure::Measured(m) => {
            Some(Point { x: X::Number(case.flows as f64), samples: m.values.clone(), trials: Vec::new() })
        }
        Figure::Unavailable { .. } => None,
    };
    cases.iter().filter(|c| c.locality == locality).filter_map(point).collect()
}

fn all_nfs(figures: &[Named], groups: &[(Subject, Vec<Case>)]) -> Section {
    let (x, y) = axes();
    let series = |(subject, cases): &(Subject, Vec<Case>)| Series {
        name: subject.name(),
        obtained: Obtained::Measured,
        points: points(figures, cases, Locality::Random),
    };
    Section {
        id: "nfs".into(),
        title: "All NFs, flows in random order".into(),
        definition: "Packets of 64 bytes a second that go through the NF on one core, fused, over the number of \
                     flows, each from a host of its own, which is the number of entries in the NF's state. Any flow \
                     comes next with equal chance. The line of forward, which does nothing, is what generator, sink \
                     and the hand-over between the two cores allow."
            .into(),
        view: View::Lines,
        x,
        y,
        series: groups.iter().map(series).collect(),
        ..Section::default()
    }
}

fn one_nf(figures: &[Named], subject: Subject, cases: &[Case]) -> Section {
    let (x, y) = axes();
    let lines = Locality::ALL.map(|locality| Series {
        name: match locality {
            Locality::Best => "best: flow after flow".into(),
            Locality::Worst => "worst: round robin".into(),
            Locality::Random => "random order".into(),
        },
        obtained: Obtained::Measured,
        points: points(figures, cases, locality),
    });
    let missing = |case: &Case| match &figures.iter().find(|f| f.name == case.name())?.figure {
        Figure::Unavailable { unavailable } => Some(Unavailable { what: case.name(), why: unavailable.clone() }),
        Figure::Measured(_) => None,
    };
    Section {
        id: subject.name().replace('.', "-"),
        title: subject.name(),
        definition: "By the temporal locality of the flows' packets (docs/workload.md): each flow's sixteen packets \
                     in a row, flows in turn, or any flow next."
            .into(),
        view: View::Lines,
        x,
        y,
        series: lines.into_iter().filter(|s| !s.points.is_empty()).collect(),
        unavailable: cases.iter().filter_map(missing).collect(),
        ..Section::default()
    }
}

/// Each figure that has a goal, over the goal.
fn goals(figures: &[Named]) -> Section {
    use chainline_bench::figures::Goal;
    let point = |named: &Named| match (&named.figure, named.goal) {
        (Figure::Measured(m), Goal::AtLeast(goal)) => {
            let samples = m.values.iter().map(|v| v / goal).collect();
            Some(Point { x: X::Word(format!("{} ≥ {goal}", named.name)), samples, trials: Vec::new() })
        }
        _ => None,
    };
    let axis = |label: &str| Axis { label: label.into(), ..Axis::default() };
    Section {
        id: "goals".into(),
        title: "Goals".into(),
        definition: "Each figure that has a goal, over this goal: 1 or more is met.".into(),
        view: View::Table,
        x: axis("figure"),
        y: axis("share of the goal"),
        series: vec![Series {
            name: "of the goal".into(),
            obtained: Obtained::Measured,
            points: figures.iter().filter_map(point).collect(),
        }],
        ..Section::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{cases, figures};
    use chainline_bench::figures::Samples;

    #[test]
    fn a_page_has_a_plot_for_each_nf() {
        let groups = vec![(Subject::Lb, cases::of(Subject::Lb, false))];
        let mut s = Samples::default();
        s.put("lb.nat.10.random.mpps", &[20e6, 10e6]);
        let page = html(&figures::all(&s, &groups), &groups, Value::Null, vec!["a remark".into()]).unwrap();
        assert!(page.contains("lb.nat") && page.contains("a remark") && page.contains("no round succeeded"));
    }
}
