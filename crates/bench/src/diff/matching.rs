//! Which point of A is which of B, and what stands against comparing them.

use super::verdict::{LEAST, Samples, Tested, judge};
use super::{Better, Change, Compared, Count, Diff, Settings, Side, Verdict, better, differences};
use crate::results::{Obtained, Point, Results, Section, Series, X};
use std::collections::{HashMap, HashSet};

/// Compares two results; `a` and `b` are their names in the answer. Set `paired` when both were measured in one run,
/// round by round next to each other.
#[must_use]
pub fn diff(a: (&str, &Results), b: (&str, &Results), paired: bool, settings: Settings) -> Diff {
    let mut pairs = Pairs::new(a.1, b.1, paired);
    let in_b: HashMap<&str, &Section> = b.1.sections.iter().map(|s| (s.id.as_str(), s)).collect();
    for section in &a.1.sections {
        match in_b.get(section.id.as_str()) {
            Some(other) => pairs.sections(section, other),
            None => pairs.missing(section, "", "this section is only in A"),
        }
    }
    let in_a: HashSet<&str> = a.1.sections.iter().map(|s| s.id.as_str()).collect();
    for section in b.1.sections.iter().filter(|s| !in_a.contains(s.id.as_str())) {
        pairs.missing(section, "", "this section is only in B");
    }
    let mut remarks = Vec::new();
    for (name, results) in [a, b] {
        if !results.complete {
            remarks.push(format!("{name} is not complete: its run ended before all was measured"));
        }
    }
    let environment = differences(&a.1.environment, &b.1.environment);
    if environment.iter().any(|d| d.weighty) {
        remarks.push("the environments differ in what figures depend on: a change may be the host's".into());
    }
    if !paired {
        remarks.push(
            "A and B are two runs: what drifted between them looks like a change. Measured interleaved in one run, \
             they can be told apart better"
                .into(),
        );
    }
    pairs.judged(a.0, b.0, environment, remarks, settings)
}

/// Compares two series of one run, in every section that has both; also those that begin with these names: `A, 50 % of
/// PDR`. Rounds are pairs, as a run interleaves them.
#[must_use]
pub fn between(results: &Results, a: &str, b: &str, settings: Settings) -> Diff {
    let mut pairs = Pairs::new(results, results, true);
    for section in &results.sections {
        for from in &section.series {
            let Some(rest) = belongs(&from.name, a) else { continue };
            if let Some(to) = section.series.iter().find(|s| belongs(&s.name, b) == Some(rest)) {
                pairs.series(section, section, from, to, &format!("{a} → {b}{rest}"));
            }
        }
    }
    let remarks = if results.complete { Vec::new() } else { vec!["the run ended before all was measured".into()] };
    pairs.judged(a, b, Vec::new(), remarks, settings)
}

/// What follows `of` in the name of one of its series.
#[must_use]
pub fn belongs<'n>(name: &'n str, of: &str) -> Option<&'n str> {
    name.strip_prefix(of).filter(|rest| rest.is_empty() || rest.starts_with(", "))
}

/// What is compared, as it is found.
struct Pairs<'a> {
    from: &'a Results,
    to: &'a Results,
    paired: bool,
    points: Vec<Compared>,
    /// Samples of those that can be compared, with their index.
    samples: Vec<(usize, Samples)>,
}

impl<'a> Pairs<'a> {
    fn new(from: &'a Results, to: &'a Results, paired: bool) -> Self {
        Self { from, to, paired, points: Vec::new(), samples: Vec::new() }
    }

    fn missing(&mut self, section: &Section, series: &str, why: &str) {
        let mut point = row(section, series, None);
        point.why = Some(why.into());
        self.points.push(point);
    }

    fn sections(&mut self, from: &Section, to: &Section) {
        for series in &from.series {
            match to.series.iter().find(|s| s.name == series.name) {
                Some(other) => self.series(from, to, series, other, &series.name),
                None => self.missing(from, &series.name, "this series is only in A"),
            }
        }
        for series in to.series.iter().filter(|s| !from.series.iter().any(|o| o.name == s.name)) {
            self.missing(to, &series.name, "this series is only in B");
        }
    }

    fn series(&mut self, from: &Section, to: &Section, a: &Series, b: &Series, name: &str) {
        if from.y.unit != to.y.unit || from.x.unit != to.x.unit {
            let units = |s: &Section| format!("{} by {}", s.y.unit, s.x.unit);
            return self.missing(from, name, &format!("the units differ: {} in A, {} in B", units(from), units(to)));
        }
        if a.obtained != Obtained::Measured || b.obtained != Obtained::Measured {
            // Quoted and modelled figures are beside the measured ones for people; no run makes them better.
            return;
        }
        let (in_a, in_b) = (by_place(a), by_place(b));
        let mut seen = HashSet::new();
        for point in a.points.iter().chain(&b.points).filter(|p| seen.insert(place(&p.x))) {
            self.point(from, name, &point.x, in_a.get(&place(&point.x)), in_b.get(&place(&point.x)));
        }
    }

    fn point(&mut self, section: &Section, name: &str, x: &X, a: Option<&Vec<&Point>>, b: Option<&Vec<&Point>>) {
        let mut row = row(section, name, Some(x.clone()));
        row.better = better(name, &section.y.label, &section.y.unit);
        let side = |found: Option<&Vec<&Point>>| {
            let point = found.and_then(|all| all.first())?;
            Some(Side { median: point.spread()?.median, rounds: point.samples.len() })
        };
        (row.a, row.b) = (side(a), side(b));
        let several = |found: Option<&Vec<&Point>>| found.is_some_and(|all| all.len() > 1);
        row.why = match (&row.a, &row.b) {
            _ if several(a) || several(b) => Some("this series has several points at this place".into()),
            (None, None) => Some("neither A nor B has a sample here".into()),
            (None, Some(_)) => Some("A has no sample here".into()),
            (Some(_), None) => Some("B has no sample here".into()),
            (Some(a), Some(b)) if a.rounds.min(b.rounds) < LEAST => Some(format!(
                "{} and {} rounds cannot tell a difference from chance; at least {LEAST} each can, better 5",
                a.rounds, b.rounds
            )),
            _ => None,
        };
        let index = self.points.len();
        if let (None, Some([a]), Some([b])) = (&row.why, a.map(Vec::as_slice), b.map(Vec::as_slice)) {
            let spoilt = spoilt(self.from, a) + spoilt(self.to, b);
            if spoilt > 0 {
                row.why = Some(format!("{spoilt} of its trials do not count: see the report"));
            }
            let samples = Samples { a: a.samples.clone(), b: b.samples.clone(), paired: self.paired };
            self.samples.push((index, samples));
        }
        self.points.push(row);
    }

    fn judged(
        mut self,
        a: &str,
        b: &str,
        environment: Vec<super::Differs>,
        mut remarks: Vec<String>,
        settings: Settings,
    ) -> Diff {
        let (indexes, samples): (Vec<usize>, Vec<Samples>) = std::mem::take(&mut self.samples).into_iter().unzip();
        for ((index, samples), tested) in indexes.into_iter().zip(&samples).zip(judge(&samples, settings)) {
            if let Some(row) = self.points.get_mut(index) {
                verdict(row, samples, tested);
            }
        }
        let mut count = Count::default();
        for p in &self.points {
            *match p.verdict {
                Verdict::Better => &mut count.better,
                Verdict::Worse => &mut count.worse,
                Verdict::Different => &mut count.different,
                Verdict::NoDifference => &mut count.no_difference,
                Verdict::CannotCompare => &mut count.cannot_compare,
            } += 1;
        }
        if self.points.is_empty() {
            remarks.push("there is not one measured point in both".into());
        }
        Diff { a: a.into(), b: b.into(), settings, count, points: self.points, environment, remarks }
    }
}

fn verdict(row: &mut Compared, samples: &Samples, tested: Option<Tested>) {
    let Some(t) = tested else {
        row.why = Some("its samples are no numbers".into());
        return;
    };
    row.verdict = match (t.differs, row.better) {
        (false, _) => Verdict::NoDifference,
        (true, None) => Verdict::Different,
        (true, Some(way)) if (way == Better::More) == t.more => Verdict::Better,
        (true, Some(_)) => Verdict::Worse,
    };
    if t.alone && !t.differs && row.why.is_none() {
        row.why = Some("alone it would differ; among so many points, one such comes by chance".into());
    }
    if t.differs && row.better.is_none() {
        row.why = Some("which way is better, its name and unit do not tell".into());
    }
    let (Some(a), Some(b)) = (&row.a, &row.b) else { return };
    let of_medians = match t.scale {
        super::Scale::Ratio => b.median / a.median,
        super::Scale::Difference => b.median - a.median,
    };
    row.change = Some(Change {
        scale: t.scale,
        estimate: t.interval.estimate,
        low: t.interval.low,
        high: t.interval.high,
        of_medians,
        p: t.p,
        method: t.method,
        paired: samples.paired && samples.a.len() == samples.b.len(),
    });
}

fn row(section: &Section, series: &str, x: Option<X>) -> Compared {
    Compared {
        section: section.id.clone(),
        series: series.into(),
        x,
        x_unit: section.x.unit.clone(),
        unit: section.y.unit.clone(),
        verdict: Verdict::CannotCompare,
        why: None,
        better: None,
        a: None,
        b: None,
        change: None,
    }
}

/// Trials behind a point that do not count.
fn spoilt(results: &Results, point: &Point) -> usize {
    point.trials.iter().filter_map(|t| results.trials.get(*t)).filter(|t| !t.invalid.is_empty()).count()
}

#[derive(Clone, PartialEq, Eq, Hash)]
enum Place {
    Number(u64),
    Word(String),
}

fn place(x: &X) -> Place {
    match x {
        // 0.0 and -0.0 are one place.
        X::Number(n) => Place::Number((n + 0.0).to_bits()),
        X::Word(w) => Place::Word(w.clone()),
    }
}

fn by_place(series: &Series) -> HashMap<Place, Vec<&Point>> {
    let mut out: HashMap<Place, Vec<&Point>> = HashMap::new();
    for point in &series.points {
        out.entry(place(&point.x)).or_default().push(point);
    }
    out
}
