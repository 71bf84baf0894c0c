//! Tables for spreadsheets and notebooks (RFC 4180).

use super::manifest::flat;
use super::{ReportError, without_nonsense};
use crate::results::{Results, Trial, X};
use indexmap::IndexMap;
use std::collections::HashMap;

/// As many columns as spreadsheets open. A trial has some for each NF: with 128 of them, 2,400.
const MOST_COLUMNS: usize = 16_384;

/// A row for each trial. The first column is its index; each other one is a field of the trial under the path that it
/// has in `results.json` (`factors.frame_bytes`, `outcome.latency.p99`, `outcome.drops.…`), empty where a trial has no
/// such field or it is null. Lists are joined by "; ".
///
/// # Errors
/// With more different fields than a table can have.
pub fn trials(results: &Results) -> Result<String, ReportError> {
    let results = without_nonsense(results);
    let mut columns: IndexMap<String, usize> = IndexMap::new();
    for trial in &results.trials {
        for (path, _) in fields(trial)? {
            let next = columns.len();
            columns.entry(path).or_insert(next);
        }
        if columns.len() > MOST_COLUMNS {
            return Err(ReportError::Columns { found: columns.len(), most: MOST_COLUMNS });
        }
    }
    together(&mut columns);
    let mut out = csv::Writer::from_writer(Vec::new());
    out.write_record(std::iter::once("trial").chain(columns.keys().map(String::as_str))).map_err(made)?;
    for (number, trial) in results.trials.iter().enumerate() {
        let mut row = vec![String::new(); columns.len()];
        for (path, words) in fields(trial)? {
            if let Some(cell) = columns.get_index_of(&path).and_then(|i| row.get_mut(i)) {
                *cell = words;
            }
        }
        let number = number.to_string();
        out.write_record(std::iter::once(&number).chain(&row)).map_err(made)?;
    }
    text(out)
}

/// A row for each sample: section, series, x, round, value, unit and how it was obtained. The rounds of a point are
/// numbered from 0 in their order.
///
/// # Errors
/// Only for a fault of this program.
pub fn figures(results: &Results) -> Result<String, ReportError> {
    let results = without_nonsense(results);
    let mut out = csv::Writer::from_writer(Vec::new());
    out.write_record(["section", "series", "x", "x_unit", "round", "value", "unit", "obtained"]).map_err(made)?;
    for section in &results.sections {
        for series in &section.series {
            let obtained = format!("{:?}", series.obtained).to_lowercase();
            for point in &series.points {
                let x = match &point.x {
                    X::Number(x) => x.to_string(),
                    X::Word(x) => x.clone(),
                };
                for (round, value) in point.samples.iter().enumerate() {
                    let (round, value) = (round.to_string(), value.to_string());
                    out.write_record([
                        &section.id,
                        &series.name,
                        &x,
                        &section.x.unit,
                        &round,
                        &value,
                        &section.y.unit,
                        &obtained,
                    ])
                    .map_err(made)?;
                }
            }
        }
    }
    text(out)
}

fn fields(trial: &Trial) -> Result<Vec<(String, String)>, ReportError> {
    Ok(flat(&serde_json::to_value(trial).map_err(made)?))
}

/// Columns of one object side by side, though some of them came up in a late trial only.
fn together(columns: &mut IndexMap<String, usize>) {
    // Rank of each prefix: where the first column below it came up.
    let mut first: HashMap<&str, usize> = HashMap::new();
    let prefixes = |path: &str| path.match_indices('.').map(|(at, _)| at).chain([path.len()]).collect::<Vec<_>>();
    for (path, rank) in columns.iter() {
        for end in prefixes(path) {
            let seen = first.entry(&path[..end]).or_insert(*rank);
            *seen = (*seen).min(*rank);
        }
    }
    let key = |path: &str| prefixes(path).iter().map(|end| first[&path[..*end]]).collect::<Vec<_>>();
    let keys: HashMap<String, Vec<usize>> = columns.keys().map(|path| (path.clone(), key(path))).collect();
    drop(first);
    columns.sort_by(|a, _, b, _| keys[a].cmp(&keys[b]));
}

fn made(e: impl std::fmt::Display) -> ReportError {
    ReportError::Made { what: "CSV", why: e.to_string() }
}

fn text(out: csv::Writer<Vec<u8>>) -> Result<String, ReportError> {
    String::from_utf8(out.into_inner().map_err(made)?).map_err(made)
}
