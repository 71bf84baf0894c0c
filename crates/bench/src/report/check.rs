//! What results must be, beyond their form.

use crate::results::{Point, Results, Section, Trial, View, X};
use chainline_trial::Load;
use std::borrow::Cow;
use std::collections::HashSet;

/// As many faults are listed; more tell nobody more.
const MOST: usize = 20;

/// What contradicts itself, in words, with its place; empty if nothing does.
#[must_use]
pub fn faults(results: &Results) -> Vec<String> {
    let mut all = Vec::new();
    let mut ids = HashSet::new();
    for (number, section) in results.sections.iter().enumerate() {
        let place = format!("sections[{number}]");
        if section.id.is_empty() {
            all.push(format!("{place}.id: found nothing, expected a word"));
        } else if !ids.insert(section.id.as_str()) {
            all.push(format!("{place}.id: found {:?} a second time, expected one section of that id", section.id));
        }
        for (s, series) in section.series.iter().enumerate() {
            for (p, point) in series.points.iter().enumerate() {
                of_point(&format!("{place}.series[{s}].points[{p}]"), section, point, results.trials.len(), &mut all);
                if all.len() >= MOST {
                    all.push("… and perhaps more".into());
                    return all;
                }
            }
        }
    }
    all
}

fn of_point(place: &str, section: &Section, point: &Point, trials: usize, all: &mut Vec<String>) {
    match point.x {
        X::Number(x) if !x.is_finite() => all.push(format!("{place}.x: found {x}, expected a number")),
        X::Number(x) if section.view == View::Percentiles && !(0.0..=1.0).contains(&x) => {
            all.push(format!("{place}.x: found {x}, expected a share from 0 to 1, as the view is percentiles"));
        }
        _ => {}
    }
    if let Some(wrong) = point.samples.iter().find(|s| !s.is_finite()) {
        all.push(format!("{place}.samples: found {wrong}, expected numbers"));
    }
    if let Some(wrong) = point.trials.iter().find(|t| **t >= trials) {
        all.push(format!("{place}.trials: found {wrong}, expected an index below {trials}, the number of trials"));
    }
}

/// The results without values that are no numbers, which JSON cannot hold. A remark tells of each kind of place.
/// A trial with such a value does not count any more.
#[must_use]
pub fn without_nonsense(results: &Results) -> Cow<'_, Results> {
    let clean_points = results.sections.iter().flat_map(|s| &s.series).flat_map(|s| &s.points).all(sound);
    if clean_points && results.trials.iter().all(|t| numbers(&mut t.clone()).iter().all(|v| v.is_finite())) {
        return Cow::Borrowed(results);
    }
    let mut out = results.clone();
    for section in &mut out.sections {
        for series in &mut section.series {
            let before: usize = series.points.iter().map(|p| p.samples.len()).sum();
            series.points.retain(|p| !matches!(p.x, X::Number(x) if !x.is_finite()));
            series.points.iter_mut().for_each(|p| p.samples.retain(|s| s.is_finite()));
            let after: usize = series.points.iter().map(|p| p.samples.len()).sum();
            if after < before {
                let (name, id) = (&series.name, &section.id);
                let lost = before - after;
                out.remarks.push(format!("{id}, {name}: {lost} samples were no numbers and were left out"));
            }
        }
    }
    for trial in &mut out.trials {
        let mut spoilt = false;
        for value in numbers(trial).into_iter().filter(|v| !v.is_finite()) {
            *value = 0.0;
            spoilt = true;
        }
        if spoilt {
            trial.invalid.push("a value was no number; 0 stands for it".into());
        }
    }
    Cow::Owned(out)
}

fn sound(point: &Point) -> bool {
    !matches!(point.x, X::Number(x) if !x.is_finite()) && point.samples.iter().all(|s| s.is_finite())
}

/// Every floating-point number of a trial.
fn numbers(trial: &mut Trial) -> Vec<&mut f64> {
    let o = &mut trial.outcome;
    let mut all = vec![&mut trial.stolen_share, &mut trial.foreign_share, &mut o.seconds, &mut o.generator.busy];
    if let Load::Pps(pps) = &mut trial.load {
        all.push(pps);
    }
    all.extend(o.latency.as_mut().map(|l| &mut l.mean));
    all.extend(o.jitter_ns.as_mut());
    all.extend(o.nfs.values_mut().map(|nf| &mut nf.cpu_share));
    all
}
