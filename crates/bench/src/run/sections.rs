//! Figures become sections of the report.

use super::bench::{Bench, Case};
use super::measure::{Figure, Found};
use super::protocol::Measure;
use super::scheduling::{self, PART};
use crate::dataplane::steered::CORE_TO_CORE;
use crate::results::{Axis, Obtained, Point, Results, Section, Series, Unavailable, View as Drawn, X};
use crate::rivals::compare::PORT_ALONE;
use crate::sweep::{self, PROGRAM};
use chainline_trial::Ready;
use serde_json::Value;
use std::collections::BTreeMap;

/// Factors that an ideal has other values of than what is held against it.
const IDEAL_FACTORS: [&str; 4] = ["isolation", "mechanisms", "sched", "placement"];
/// The section on the generator itself.
pub const GENERATOR: &str = "generator";

/// What to show in one section.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct View {
    /// A word for links.
    pub id: String,
    /// Its heading.
    pub title: String,
    /// What is shown and how it was obtained.
    pub definition: String,
    /// Where the experiment comes from.
    pub source: Option<String>,
    /// What is shown: a figure's name.
    pub y: String,
    /// The factor that lies to the right.
    pub x: Option<String>,
    /// Only cases with these factors.
    pub only: BTreeMap<String, Value>,
    /// How it is drawn; by default as the measure suggests.
    pub drawn: Option<Drawn>,
    /// Others' figures.
    pub quoted: Vec<Series>,
}

/// A figure's axes and definition.
#[derive(Clone, Debug, PartialEq)]
pub struct Axes {
    /// Label of the numbers.
    pub label: String,
    /// Their unit.
    pub unit: &'static str,
    /// What a value is divided by to be in this unit.
    pub scale: f64,
    /// The measure's own axis to the right, if it has one.
    pub x: Option<Axis>,
    /// How it is drawn when nobody says.
    pub drawn: Drawn,
    /// What it is.
    pub definition: &'static str,
}

/// What is known of a figure by its name.
#[must_use]
pub fn axes(what: &str) -> Axes {
    let rate = |label: &str, definition| Axes {
        label: label.into(),
        unit: "Mpps",
        scale: 1e6,
        x: None,
        drawn: Drawn::Lines,
        definition,
    };
    let axis = |label: &str, unit: &str| Some(Axis { label: label.into(), unit: unit.into(), log: false });
    match what {
        "ndr" => rate("NDR", "Non-drop rate: conditional throughput of RFC 9971 for a loss ratio of 0."),
        "pdr" => rate("PDR", "Partial drop rate: conditional throughput of RFC 9971 for a loss ratio of 0.5 %."),
        "pdr-0.1" => rate("PDR 0.1 %", "Conditional throughput of RFC 9971 for a loss ratio of 0.1 %."),
        "rfc2544" => rate("RFC 2544 throughput", "Highest load without loss in a trial of 60 s (RFC 2544 section 24)."),
        "tst009" => {
            rate("TST009 throughput", "Binary search with loss verification (ETSI GS NFV-TST 009 clause 12.3.3).")
        }
        "soak" => rate("soak", "Highest load at which no trial of a minute in half an hour loses more than 1 in 10^7."),
        "mrr" => rate("MRR", "Maximum receive rate: frames that arrive while the generator sends all it can."),
        "lossless" => rate("lossless rate", "Frames that arrive while the generator waits for room before it sends."),
        "back-to-back" => Axes {
            label: "longest burst without loss".into(),
            unit: "frames",
            scale: 1.0,
            drawn: Drawn::Bars,
            definition: "Back-to-back frames: the longest burst at the highest rate of which nothing is lost, mean of \
                         several searches (RFC 2544 section 26.4, RFC 9004).",
            ..rate("", "")
        },
        "back-to-back buffer" => Axes {
            label: "corrected buffer time".into(),
            unit: "µs",
            scale: 1e-6,
            drawn: Drawn::Bars,
            definition: "What the longest burst tells of the size of buffers: its time at the highest rate, times \
                         (1 - throughput / highest rate), since frames go out while others come in (RFC 9004 section 6.4).",
            ..rate("", "")
        },
        "reset" => Axes {
            label: "recovery from a reset, by lost frames".into(),
            unit: "ms",
            scale: 1e-3,
            drawn: Drawn::Bars,
            definition: "Software reset (RFC 6201): an NF's process is killed in a trial at half of NDR, and started \
                         again. Frames lost / rate, mean of several trials.",
            ..rate("", "")
        },
        "reset by time" => Axes {
            label: "recovery from a reset, by time".into(),
            unit: "ms",
            scale: 1e-3,
            drawn: Drawn::Bars,
            definition: "The same resets: the longest time in which nothing arrived.",
            ..rate("", "")
        },
        "cpu load" => Axes { scale: 1.0, ..rate("load", "Load at which core time was measured.") },
        "cpu" => Axes {
            label: "core time of all NFs".into(),
            unit: "%",
            scale: 1.0,
            drawn: Drawn::Bars,
            definition: "Time that all NFs' instances were on a core, as the kernel's scheduler counts it; 100 % is one core.",
            ..rate("", "")
        },
        "loss-curve" => Axes {
            label: "loss".into(),
            unit: "%",
            scale: 1.0,
            x: axis("load", "% of the highest"),
            definition: "Frame loss rate (RFC 2544 section 26.3): from the highest load that the generator makes down in \
                         steps of 10 %, until two in a row lose nothing.",
            ..rate("", "")
        },
        "latency" => Axes {
            label: "latency".into(),
            unit: "µs",
            scale: 1.0,
            x: axis("share of frames below", ""),
            drawn: Drawn::Percentiles,
            definition: "From the time at which a frame should have been sent to its arrival, so that a stall counts for \
                         every frame that it holds up; HDR histogram of three digits.",
        },
        what if what.starts_with("delay") => Axes {
            label: format!("time in the system{}", what.trim_start_matches("delay").replace(' ', ", ")),
            unit: "µs",
            scale: 1.0,
            x: axis("load", "frames/s"),
            definition: "From the time at which a frame should have been sent to its arrival, at given loads.",
            ..rate("", "")
        },
        what if scheduling::is_figure(what) => scheduling::axes(what).unwrap_or_else(|| rate(what, "")),
        what => Axes {
            label: what.to_owned(),
            unit: if what.starts_with("latency") { "µs" } else { "" },
            scale: 1.0,
            definition: "A percentile of the latency from the intended time of sending.",
            ..rate("", "")
        },
    }
}

/// All sections.
pub(super) fn all(bench: &Bench, found: &[(usize, u32, Found)]) -> Vec<Section> {
    let views = if bench.views.is_empty() { default_views(bench) } else { bench.views.clone() };
    views.iter().map(|view| section(bench, found, view)).collect()
}

/// One for each measure.
fn default_views(bench: &Bench) -> Vec<View> {
    // Builds are told apart by the name of the dataplane, so that they lie above one another.
    let first = bench.cases.first().and_then(|c| c.factors.keys().find(|f| *f != PROGRAM).cloned());
    let view =
        |what: &str| View { id: what.replace(['.', ' '], "-"), y: what.into(), x: first.clone(), ..View::default() };
    let of = |m: &Measure| match m {
        Measure::Scheduling => scheduling::SHOWN.to_vec(),
        m => vec![m.word()],
    };
    let mut views: Vec<View> = bench.protocol.measures.iter().flat_map(of).map(view).collect();
    // What some measures come to has two sides.
    for (measure, id, y) in
        [(Measure::BackToBack, "buffer", "back-to-back buffer"), (Measure::Reset, "reset-by-time", "reset by time")]
    {
        if let Some(at) = views.iter().position(|v| v.y == measure.word()) {
            views.insert(at + 1, View { id: id.into(), y: y.into(), ..views[at].clone() });
        }
    }
    views
}

fn section(bench: &Bench, found: &[(usize, u32, Found)], view: &View) -> Section {
    let axes = axes(&view.y);
    let own_x = axes.x.is_some();
    // The port alone lacks the factors of chains, and is shown beside all.
    let shown = |case: &Case| {
        let alone = case.dataplane == PORT_ALONE;
        view.only.iter().all(|(f, v)| case.factors.get(f).map_or(alone, |own| own == v))
    };
    let mut lines: Vec<Series> = Vec::new();
    let mut unavailable: Vec<Unavailable> = Vec::new();
    for (i, _, f) in found {
        let case = &bench.cases[*i];
        if !shown(case) {
            continue;
        }
        for figure in f.figures.iter().filter(|f| f.what == view.y) {
            let name = legend(bench, case, figure, view, own_x);
            for x in places(bench, case, figure, view) {
                add(&mut lines, name.clone(), x, figure.value / axes.scale, &figure.trials);
            }
        }
        // Of `latency p99 at 50 % of PDR` and `delay mean` the measure is what is missing.
        let measure = view.y.split(' ').next().unwrap_or_default();
        let at = format!("{measure} at");
        let missing = f.missing.iter().filter(|m| m.what == measure || m.what.starts_with(&at));
        unavailable
            .extend(missing.map(|m| Unavailable { what: format!("{}: {}", case.name, m.what), why: m.why.clone() }));
    }
    unavailable.dedup();
    let factor = view.x.as_deref();
    let x = axes.x.clone().unwrap_or_else(|| Axis {
        label: factor.map_or_else(|| "case".into(), |f| f.replace('_', " ")),
        unit: factor.map_or("", unit).into(),
        log: false,
    });
    let mut definition = if view.definition.is_empty() { axes.definition.to_owned() } else { view.definition.clone() };
    definition += &how(bench);
    lines.extend(view.quoted.iter().cloned());
    let words = lines.iter().flat_map(|s| &s.points).any(|p| matches!(p.x, X::Word(_)));
    let drawn = view.drawn.unwrap_or(if words && axes.drawn == Drawn::Lines { Drawn::Bars } else { axes.drawn });
    Section {
        id: view.id.clone(),
        title: if view.title.is_empty() { axes.label.clone() } else { view.title.clone() },
        definition,
        source: view.source.clone(),
        view: drawn,
        x,
        y: Axis { label: axes.label, unit: axes.unit.into(), log: false },
        series: lines,
        unavailable,
    }
}

/// How it was measured, in a sentence.
fn how(bench: &Bench) -> String {
    let p = &bench.protocol;
    let rounds = bench.rounds;
    let mut text = format!(
        " {rounds} round{} over all cases, one after another; the median counts. Windows of {} ms after {} ms of \
         warm-up, {} ms to drain.",
        if rounds == 1 { "" } else { "s" },
        p.trial_ms,
        p.warmup_ms,
        p.drain_ms
    );
    if let Some(hasty) = p.hasty {
        text += &format!(" Searched in haste: {} trials of {} ms decide.", hasty.trials, hasty.trial_ms);
    }
    text
}

fn unit(factor: &str) -> &'static str {
    match factor {
        "frame_bytes" => "bytes",
        _ => "",
    }
}

/// A row for each case that this host measures with less than it asks for.
pub(super) fn short(bench: &Bench) -> Vec<Unavailable> {
    let row = |c: &Case| Some(Unavailable { what: c.name.clone(), why: c.short_of.clone()? });
    bench.cases.iter().filter_map(row).collect()
}

/// Where a figure lies. That of a case without the factor on the axis (the port alone, where chains differ in length)
/// lies beside every other: it is the same for all.
fn places(bench: &Bench, case: &Case, figure: &Figure, view: &View) -> Vec<X> {
    if let Some(x) = figure.x {
        return vec![X::Number(x)];
    }
    if view.x.as_deref() == Some(PART) && !figure.line.is_empty() {
        return vec![X::Word(figure.line.clone())];
    }
    let of = |value: &Value| value.as_f64().map_or_else(|| X::Word(label(value)), X::Number);
    let Some(factor) = &view.x else {
        let word = if bench.cases.len() == 1 {
            case.dataplane.clone()
        } else if case.factors.contains_key(PROGRAM) {
            sweep::name(case.factors.iter().filter(|(f, _)| *f != PROGRAM))
        } else {
            case.name.clone()
        };
        return vec![X::Word(word)];
    };
    if let Some(value) = case.factors.get(factor) {
        return vec![of(value)];
    }
    let mut all: Vec<X> = Vec::new();
    for x in bench.cases.iter().filter_map(|c| c.factors.get(factor)).map(of) {
        if !all.contains(&x) {
            all.push(x);
        }
    }
    if all.is_empty() { vec![X::Word(case.name.clone())] } else { all }
}

/// What tells a series from the others: all factors that differ and are not on the axis.
fn legend(bench: &Bench, case: &Case, figure: &Figure, view: &View, own_x: bool) -> String {
    let differs = |f: &String| bench.cases.iter().any(|c| c.factors.get(f) != case.factors.get(f));
    let factors = case.factors.iter().filter(|(f, _)| (own_x || Some(*f) != view.x.as_ref()) && differs(f));
    let factors = factors.filter(|(f, _)| !view.only.contains_key(*f) && *f != PROGRAM);
    let mut words: Vec<String> = Vec::new();
    if bench.cases.iter().any(|c| c.dataplane != case.dataplane) {
        words.push(case.dataplane.clone());
    }
    // What makes it the ideal needs not be said.
    let ideal = case.ideal.is_some_and(|of| bench.cases.get(of) == Some(case));
    let factors = factors.filter(|(f, _)| !ideal || !IDEAL_FACTORS.contains(&f.as_str()));
    if ideal {
        words.push("fused".into());
    }
    // Of a field of the chain file its own name is enough.
    let short = |f: &str| f.rsplit('.').next().unwrap_or(f).replace('_', " ");
    words.extend(factors.map(|(f, v)| format!("{} {}", short(f), label(v))));
    if !figure.line.is_empty() && view.x.as_deref() != Some(PART) {
        words.push(figure.line.clone());
    }
    if words.is_empty() { case.dataplane.clone() } else { words.join(", ") }
}

/// A factor's value for people.
#[must_use]
pub fn label(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => match sizes(items) {
            Some((least, most)) => format!("mix of {least} to {most} bytes"),
            None => items.iter().map(label).collect::<Vec<_>>().join(" → "),
        },
        Value::Object(map) if map.contains_key("policy") => {
            let slice = map.get("slice_us").and_then(Value::as_f64).map(|us| format!(" {} ms", us / 1e3));
            label(&map["policy"]) + &slice.unwrap_or_default()
        }
        Value::Object(map) => match map.get("name").or(map.get("kind")) {
            Some(name) => label(name),
            None => match map.iter().next() {
                Some((field, value)) if map.len() == 1 => format!("{field} {}", label(value)),
                _ => value.to_string(),
            },
        },
        value => value.to_string(),
    }
}

/// The smallest and the largest size, if it is a mix of sizes.
fn sizes(items: &[Value]) -> Option<(u64, u64)> {
    let sizes: Option<Vec<u64>> = items.iter().map(|i| i.get("frame_bytes")?.as_u64()).collect();
    let sizes = sizes?;
    Some((*sizes.iter().min()?, *sizes.iter().max()?))
}

fn add(lines: &mut Vec<Series>, name: String, x: X, value: f64, trials: &[usize]) {
    let series = match lines.iter().position(|s| s.name == name) {
        Some(at) => &mut lines[at],
        None => {
            lines.push(Series { name, obtained: Obtained::Measured, points: Vec::new() });
            let last = lines.len() - 1;
            &mut lines[last]
        }
    };
    match series.points.iter_mut().find(|p| p.x == x) {
        Some(point) => {
            point.samples.push(value);
            point.trials.extend(trials);
        }
        None => series.points.push(Point { x, samples: vec![value], trials: trials.to_vec() }),
    }
}

/// Keeps what the generator said of itself, a row for each dataplane and frame size.
pub(super) fn note_ready(results: &mut Results, case: &Case, ready: &Ready) {
    if !results.sections.iter().any(|s| s.id == GENERATOR) {
        results.sections.insert(
            0,
            Section {
                id: GENERATOR.into(),
                title: "The generator itself".into(),
                definition:
                    "Measured before the first trial of each case, from the generator to the sink with nothing \
                             between: what it makes at most, and the latency that the measurement itself shows. The \
                             largest is the worst stall of the thread that generates. No latency below this means \
                             anything. And how far the first two cores were from each other: what a cache line took \
                             there and back. A hypervisor that moves virtual processors changes it, and with it what \
                             can be had of two cores."
                        .into(),
                source: Some("RFC 8219; docs/benchmarking.md".into()),
                view: Drawn::Table,
                x: Axis { label: "case".into(), ..Axis::default() },
                y: Axis { label: "Mpps, µs, ns".into(), ..Axis::default() },
                series: Vec::new(),
                unavailable: Vec::new(),
            },
        );
    }
    let Some(section) = results.sections.iter_mut().find(|s| s.id == GENERATOR) else { return };
    let floor = &ready.floor_ns;
    let us = |ns: u64| ns as f64 / 1e3;
    for (name, value) in [
        ("at most, Mpps", ready.generator_max_pps / 1e6),
        ("latency P50, µs", us(floor.p50)),
        ("latency P99, µs", us(floor.p99)),
        ("latency P99.9, µs", us(floor.p99_9)),
        ("worst stall, µs", us(floor.max)),
    ] {
        add(&mut section.series, name.into(), X::Word(case.name.clone()), value, &[]);
    }
    if let Some(ns) = ready.environment.get(CORE_TO_CORE).and_then(Value::as_f64) {
        add(&mut section.series, "core to core and back, ns".into(), X::Word(case.name.clone()), ns, &[]);
    }
    // Later rounds start the dataplane again; what it says of itself then is only more of the same.
    if results.environment.get("dataplanes").is_none()
        && let Some(all) = results.environment.as_object_mut()
    {
        all.insert("dataplanes".into(), Value::Object(serde_json::Map::new()));
    }
    if let Some(all) = results.environment.get_mut("dataplanes").and_then(Value::as_object_mut) {
        all.entry(case.dataplane.clone()).or_insert_with(|| ready.environment.clone());
    }
}
