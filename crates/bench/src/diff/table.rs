//! A comparison for people.

use super::{Compared, Diff, Scale, Verdict};
use crate::report::figure;
use crate::results::X;
use comfy_table::{Cell, CellAlignment, Table, presets};

/// Columns, then the verdict in a line. Without `all`, points without a difference are counted, and listed only where there is
/// something to know of them.
#[must_use]
pub fn table(diff: &Diff, all: bool) -> String {
    let mut out = String::new();
    let listed: Vec<_> =
        diff.points.iter().filter(|p| all || p.verdict != Verdict::NoDifference || p.why.is_some()).collect();
    if !listed.is_empty() {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        let interval = format!("{} % INTERVAL", figure(diff.settings.confidence * 100.0));
        table.set_header(["SECTION", "SERIES", "AT", "A", "B", "CHANGE", &interval, "P", "VERDICT"]);
        for p in &listed {
            table.add_row(row(p));
        }
        for n in 3..=7 {
            if let Some(column) = table.column_mut(n) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        out += &table.trim_fmt();
        out += "\n\n";
    }
    out += &summary(diff);
    out
}

/// What it comes to, in a few lines.
fn summary(diff: &Diff) -> String {
    let c = diff.count;
    let mut parts = Vec::new();
    for (n, word) in [
        (c.worse, "worse"),
        (c.better, "better"),
        (c.different, "different"),
        (c.no_difference, "no difference"),
        (c.cannot_compare, "cannot compare"),
    ] {
        if n > 0 {
            parts.push(format!("{n} {word}"));
        }
    }
    let what = if parts.is_empty() { "nothing to compare".into() } else { parts.join(", ") };
    let mut out = format!("{what}\n");
    let widths = diff.points.iter().filter_map(|p| p.change.as_ref()).filter(|c| c.scale == Scale::Ratio);
    let mut widths: Vec<f64> = widths.map(|c| (c.high / c.low).sqrt() - 1.0).filter(|w| w.is_finite()).collect();
    widths.sort_unstable_by(f64::total_cmp);
    if let Some(typical) = widths.get(widths.len() / 2) {
        let least = (typical + diff.settings.margin) * 100.0;
        out += &format!("Typically, a change of less than {least:.1} % would not have been seen with these rounds.\n");
    }
    out
}

fn row(p: &Compared) -> Vec<Cell> {
    let x = match &p.x {
        Some(X::Number(x)) => with(&x.to_string(), &p.x_unit),
        Some(X::Word(x)) => x.clone(),
        None => String::new(),
    };
    let side = |s: &Option<super::Side>| s.as_ref().map_or("–".into(), |s| with(&figure(s.median), &p.unit));
    let (change, interval, probability) = match &p.change {
        None => (String::new(), String::new(), String::new()),
        Some(c) => {
            let one = |v: f64| match c.scale {
                Scale::Ratio => percent(v),
                Scale::Difference => format!("{}{}", if v > 0.0 { "+" } else { "" }, with(&figure(v), &p.unit)),
            };
            (one(c.estimate), format!("{} … {}", one(c.low), one(c.high)), format!("{:.3}", c.p))
        }
    };
    let word = match p.verdict {
        Verdict::Better => "better",
        Verdict::Worse => "worse",
        Verdict::Different => "different",
        Verdict::NoDifference => "no difference",
        Verdict::CannotCompare => "cannot compare",
    };
    let verdict = p.why.as_ref().map_or(word.to_owned(), |why| format!("{word}: {why}"));
    [p.section.clone(), p.series.clone(), x, side(&p.a), side(&p.b), change, interval, probability, verdict]
        .map(|text| Cell::new(plain(&text)))
        .to_vec()
}

/// A ratio as a change in percent.
fn percent(ratio: f64) -> String {
    let change = (ratio - 1.0) * 100.0;
    if change.is_finite() { format!("{change:+.1} %") } else { "unknown".into() }
}

fn with(value: &str, unit: &str) -> String {
    if unit.is_empty() { value.into() } else { format!("{value} {unit}") }
}

/// Names come from a file: no control characters reach a terminal.
fn plain(text: &str) -> String {
    const MOST: usize = 120;
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).take(MOST).collect()
}
