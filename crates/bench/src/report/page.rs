//! What the page shows, as the template and the plots take it.

use super::manifest::{flat, words};
use super::shell::quoted;
use crate::results::{InputFile, Obtained, Point, Results, Section, Series, Spread, Unavailable, View, X};
use serde::Serialize;
use serde_json::{Value, json};

/// So many spoilt trials are listed; the table of raw trials has all.
const MOST_INVALID: usize = 200;

#[derive(Serialize)]
pub(super) struct Page<'a> {
    title: &'a str,
    started: &'a str,
    complete: bool,
    command: String,
    file: Option<&'a InputFile>,
    remarks: &'a [String],
    tiles: Vec<Tile>,
    environment: Vec<Group>,
    sections: Vec<Shown<'a>>,
    unavailable: usize,
    invalid: Vec<Spoilt<'a>>,
    invalid_total: usize,
    trials_total: usize,
}

#[derive(Serialize)]
struct Tile {
    value: String,
    label: &'static str,
    /// Whether a reader should take care.
    care: bool,
}

/// What stands below one key of the environment.
#[derive(Serialize)]
struct Group {
    name: String,
    rows: Vec<(String, String)>,
}

/// A section.
#[derive(Serialize)]
struct Shown<'a> {
    number: usize,
    anchor: String,
    id: &'a str,
    title: &'a str,
    definition: &'a str,
    source: Option<&'a str>,
    plotted: bool,
    words: String,
    range: String,
    widest: String,
    points: usize,
    table: Table,
    unavailable: &'a [Unavailable],
}

#[derive(Serialize)]
struct Table {
    corner: String,
    unit: String,
    head: Vec<Head>,
    rows: Vec<Row>,
}

#[derive(Serialize)]
struct Head {
    name: String,
    obtained: &'static str,
}

#[derive(Serialize)]
struct Row {
    name: String,
    obtained: &'static str,
    cells: Vec<Cell>,
}

#[derive(Serialize, Default)]
struct Cell {
    value: String,
    note: String,
}

/// A trial that does not count.
#[derive(Serialize)]
struct Spoilt<'a> {
    number: usize,
    dataplane: &'a str,
    purpose: &'a str,
    factors: String,
    round: u32,
    attempt: u32,
    reasons: &'a [String],
}

impl<'a> Page<'a> {
    pub(super) fn of(results: &'a Results) -> Self {
        let sections: Vec<_> = results.sections.iter().enumerate().map(|(n, s)| Shown::of(n, s)).collect();
        let invalid_total = results.trials.iter().filter(|t| !t.invalid.is_empty()).count();
        let unavailable = sections.iter().map(|s| s.unavailable.len()).sum();
        Self {
            title: &results.title,
            started: &results.started,
            complete: results.complete,
            command: quoted(&results.command),
            file: results.file.as_ref(),
            remarks: &results.remarks,
            tiles: tiles(results, invalid_total, unavailable),
            environment: groups(&results.environment),
            sections,
            unavailable,
            invalid: spoilt(results),
            invalid_total,
            trials_total: results.trials.len(),
        }
    }
}

fn tiles(results: &Results, invalid: usize, unavailable: usize) -> Vec<Tile> {
    let tile = |value: String, label, care| Tile { value, label, care };
    let points = results.sections.iter().flat_map(|s| &s.series).map(|s| s.points.len()).sum::<usize>();
    let rounds = results.trials.iter().map(|t| t.round + 1).max().unwrap_or(0);
    vec![
        tile(if results.complete { "complete" } else { "not complete" }.into(), "state", !results.complete),
        tile(grouped(points as f64), "points shown", false),
        tile(grouped((results.trials.len() - invalid) as f64), "trials that count", false),
        tile(grouped(invalid as f64), "trials that do not count", invalid > 0),
        tile(rounds.to_string(), "interleaved rounds", false),
        tile(unavailable.to_string(), "not measurable here", unavailable > 0),
    ]
}

fn spoilt(results: &Results) -> Vec<Spoilt<'_>> {
    let invalid = results.trials.iter().enumerate().filter(|(_, t)| !t.invalid.is_empty());
    let shown = invalid.take(MOST_INVALID).map(|(number, t)| Spoilt {
        number,
        dataplane: &t.dataplane,
        purpose: &t.purpose,
        factors: t.factors.iter().map(|(k, v)| format!("{k} {}", words(v))).collect::<Vec<_>>().join(", "),
        round: t.round,
        attempt: t.attempt,
        reasons: &t.invalid,
    });
    shown.collect()
}

fn groups(environment: &Value) -> Vec<Group> {
    let mut out = vec![Group { name: "host".into(), rows: Vec::new() }];
    for (path, value) in flat(environment) {
        let value = if value.is_empty() { "unknown".into() } else { value };
        match path.split_once('.') {
            None => out[0].rows.push((path.replace('_', " "), value)),
            Some((group, rest)) => {
                let group = group.replace('_', " ");
                if out.len() == 1 || out.last().is_none_or(|g| g.name != group) {
                    out.push(Group { name: group, rows: Vec::new() });
                }
                if let Some(last) = out.last_mut() {
                    last.rows.push((rest.replace('_', " "), value));
                }
            }
        }
    }
    out.retain(|g| !g.rows.is_empty());
    out
}

impl<'a> Shown<'a> {
    fn of(index: usize, section: &'a Section) -> Self {
        let points = || section.series.iter().flat_map(|s| &s.points);
        let plain = !section.id.is_empty() && section.id.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
        let spreads: Vec<Spread> = points().filter_map(Point::spread).collect();
        let low = spreads.iter().map(|s| s.median).min_by(f64::total_cmp);
        let high = spreads.iter().map(|s| s.median).max_by(f64::total_cmp);
        let range = match (low, high) {
            (Some(low), Some(high)) if figure(low) == figure(high) => figure(low),
            (Some(low), Some(high)) => format!("{} – {}", figure(low), figure(high)),
            _ => "nothing".into(),
        };
        // Of one sample there is no spread to tell of.
        let several = points().filter(|p| p.samples.len() > 1).filter_map(Point::spread);
        let widest = several.filter(|s| s.median != 0.0).map(|s| (s.max - s.min) / s.median.abs());
        let widest = widest.max_by(f64::total_cmp).map_or("–".into(), |w| format!("{:.1} %", w * 100.0));
        Self {
            number: index + 1,
            anchor: if plain { format!("s-{}", section.id) } else { format!("section-{index}") },
            id: &section.id,
            title: &section.title,
            definition: &section.definition,
            source: section.source.as_deref(),
            plotted: section.view != View::Table && points().any(|p| !p.samples.is_empty()),
            words: in_words(section),
            range: with_unit(&range, &section.y.unit),
            widest,
            points: points().count(),
            table: table(section),
            unavailable: &section.unavailable,
        }
    }
}

/// What a plot shows, for those who do not see it.
fn in_words(section: &Section) -> String {
    let kind = match section.view {
        View::Table => "Table",
        View::Lines => "Line plot",
        View::Bars => "Bar chart",
        View::HeatMap => "Heat map",
        View::Percentiles => "Percentile plot",
    };
    let (x, y) = (&section.x.label, &section.y.label);
    format!("{kind} of {y} by {x}, {} series. The table below has its numbers.", section.series.len())
}

/// The places of a section on the x axis, each once: numbers ascending if all are numbers, else as they come.
fn places(section: &Section) -> Vec<&X> {
    let mut seen = std::collections::HashSet::new();
    let points = section.series.iter().flat_map(|s| &s.points).map(|p| &p.x);
    let mut all: Vec<&X> = points.filter(|x| seen.insert(key(x))).collect();
    if all.iter().all(|x| matches!(x, X::Number(_))) {
        let number = |x: &X| if let X::Number(n) = x { *n } else { 0.0 };
        all.sort_by(|a, b| number(a).total_cmp(&number(b)));
    }
    all
}

fn key(x: &X) -> (Option<u64>, &str) {
    match x {
        // 0.0 and -0.0 are one place.
        X::Number(n) => (Some((n + 0.0).to_bits()), ""),
        X::Word(w) => (None, w),
    }
}

fn table(section: &Section) -> Table {
    let places = places(section);
    let labels: Vec<String> = places.iter().map(|x| label(x, section.view)).collect();
    let index: std::collections::HashMap<_, usize> = places.iter().enumerate().map(|(i, x)| (key(x), i)).collect();
    let columns: Vec<Vec<Cell>> = section.series.iter().map(|s| cells(s, &index, places.len())).collect();
    let corner = with_unit(&section.x.label, &section.x.unit);
    let unit = with_unit(&section.y.label, &section.y.unit);
    if section.view == View::HeatMap {
        let head = labels.into_iter().map(|name| Head { name, obtained: "" }).collect();
        let rows = section.series.iter().zip(columns);
        let rows = rows.map(|(s, cells)| Row { name: s.name.clone(), obtained: how(s.obtained), cells }).collect();
        return Table { corner, unit, head, rows };
    }
    let head = section.series.iter().map(|s| Head { name: s.name.clone(), obtained: how(s.obtained) }).collect();
    let mut rows: Vec<_> = labels.into_iter().map(|name| Row { name, obtained: "", cells: Vec::new() }).collect();
    for column in columns {
        rows.iter_mut().zip(column).for_each(|(row, cell)| row.cells.push(cell));
    }
    Table { corner, unit, head, rows }
}

fn cells(series: &Series, index: &std::collections::HashMap<(Option<u64>, &str), usize>, places: usize) -> Vec<Cell> {
    let mut out: Vec<Cell> = (0..places).map(|_| Cell::default()).collect();
    for point in &series.points {
        let cell = index.get(&key(&point.x)).and_then(|i| out.get_mut(*i));
        let (Some(cell), Some(spread)) = (cell, point.spread()) else { continue };
        let n = point.samples.len();
        // Two points of a series at one place: both are shown.
        if !cell.value.is_empty() {
            cell.value += " / ";
            cell.note += " / ";
        }
        cell.value += &figure(spread.median);
        if n > 1 {
            cell.note += &format!("{} – {}, n {n}", figure(spread.min), figure(spread.max));
        }
    }
    out
}

fn how(obtained: Obtained) -> &'static str {
    match obtained {
        Obtained::Measured => "measured",
        Obtained::Modelled => "modelled",
        Obtained::Quoted => "quoted",
    }
}

fn label(x: &X, view: View) -> String {
    match x {
        X::Word(w) => w.clone(),
        X::Number(q) if view == View::Percentiles => match *q {
            q if q <= 0.0 => "smallest".into(),
            q if q >= 1.0 => "largest".into(),
            q => format!("P{}", (q * 1e10).round() / 1e8),
        },
        X::Number(n) if n.abs() < 1e6 => n.to_string(),
        X::Number(n) => figure(*n),
    }
}

fn with_unit(label: &str, unit: &str) -> String {
    if unit.is_empty() { label.into() } else { format!("{label} {unit}") }
}

/// Four digits that say something, all of those before the point.
pub(crate) fn figure(v: f64) -> String {
    let size = v.abs();
    if v == 0.0 {
        "0".into()
    } else if !(1e-4..1e12).contains(&size) {
        format!("{v:.3e}")
    } else if size >= 1e4 {
        grouped(v)
    } else {
        let before = size.log10().floor() as i32;
        let text = format!("{v:.*}", usize::try_from(3 - before).unwrap_or(0));
        if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').into() } else { text }
    }
}

/// A whole number in groups of three digits.
fn grouped(v: f64) -> String {
    let digits = format!("{:.0}", v.abs());
    let mut out = String::from(if v < 0.0 { "-" } else { "" });
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) && digits.len() > 4 {
            out.push('\u{202f}');
        }
        out.push(c);
    }
    out
}

/// The sections as the plots take them: medians with their ranges, no single samples.
pub(super) fn plots(results: &Results) -> Value {
    let point = |p: &Point, view| {
        let s = p.spread()?;
        Some(
            json!({ "x": p.x, "label": label(&p.x, view), "m": s.median, "lo": s.min, "hi": s.max, "n": p.samples.len() }),
        )
    };
    let series = |s: &Series, view| {
        let points: Vec<_> = s.points.iter().filter_map(|p| point(p, view)).collect();
        json!({ "name": s.name, "obtained": s.obtained, "points": points })
    };
    let shown = results.sections.iter().enumerate();
    let all = shown.map(|(number, s)| {
        let places: Vec<_> = places(s).into_iter().map(|x| label(x, s.view)).collect();
        let series: Vec<_> = s.series.iter().map(|one| series(one, s.view)).collect();
        json!({ "number": number + 1, "id": s.id, "view": s.view, "x": s.x, "y": s.y, "places": places, "series": series })
    });
    Value::Array(all.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_four_digits() {
        let cases = [
            (0.0, "0"),
            (1.0, "1"),
            (14.880_95, "14.88"),
            (0.012_345, "0.01235"),
            (9_999.9, "10000"),
            (12_345.6, "12\u{202f}346"),
            (-1_234_567.0, "-1\u{202f}234\u{202f}567"),
            (1e-9, "1.000e-9"),
            (f64::NAN, "NaN"),
            (1e300, "1.000e300"),
        ];
        for (value, want) in cases {
            assert_eq!(figure(value), want);
        }
    }

    #[test]
    fn percentiles_have_their_names() {
        let of = |q| label(&X::Number(q), View::Percentiles);
        assert_eq!([0.0, 0.5, 0.999, 0.999_99, 1.0].map(of), ["smallest", "P50", "P99.9", "P99.999", "largest"]);
    }
}
