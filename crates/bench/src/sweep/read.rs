//! Text to a benchmark: everything that is wrong with it at once, with its place.

use super::factor::{FACTORS, nf};
use super::model::{Base, Quick, Shown, Spec};
use crate::results::{Point, Series, View, X};
use crate::run::{Hasty, Measure, PART, Protocol, scheduling};
use chainline_chain::Diagnostics;
use chainline_chain::document::{self, Decoder, Document, Fields, Kind, Node, Value as Yaml, did_you_mean, quote};
use indexmap::IndexMap;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Benchmark files.
pub const KIND: Kind = Kind { name: "Benchmark", noun: "benchmark" };

/// Rounds when the file says nothing.
const ROUNDS: u32 = 3;
/// Longest trial: an hour.
const MOST_MS: u64 = 3_600_000;

/// Reads a benchmark file: YAML or JSON. `name` is for messages.
///
/// # Errors
/// Everything that is wrong with it.
pub fn load(bytes: &[u8], name: &Path) -> Result<Document<Spec>, Diagnostics> {
    document::load(bytes, name, &KIND, spec)
}

fn spec(d: &mut Decoder, node: &Node) -> Option<Spec> {
    let mut f = Fields::of(d, node, "a map with `base`, `factors` and `measures`")?;
    let usual = Protocol::default();
    let ms = |d: &mut Decoder, n: &Node| d.int(n, 1..=MOST_MS);
    let spare_ms = |d: &mut Decoder, n: &Node| d.int(n, 0..=MOST_MS);
    let title = f.optional(d, "title", |d, n| d.filled(n, "a title")).unwrap_or_default();
    let base = f.required(d, "base", base);
    let factors = f.optional(d, "factors", factors).unwrap_or_default();
    let spec = Spec {
        title,
        base: base.unwrap_or_default(),
        ideal: f.optional(d, "ideal", combination).unwrap_or_default(),
        include: f.optional(d, "include", combinations).unwrap_or_default(),
        exclude: f.optional(d, "exclude", combinations).unwrap_or_default(),
        rounds: f.optional(d, "rounds", |d, n| d.int(n, 1..=1000_u32)).unwrap_or(ROUNDS),
        protocol: Protocol {
            measures: f.required(d, "measures", measures).unwrap_or_default(),
            trial_ms: f.optional(d, "trial_ms", ms).unwrap_or(usual.trial_ms),
            warmup_ms: f.optional(d, "warmup_ms", spare_ms).unwrap_or(usual.warmup_ms),
            drain_ms: f.optional(d, "drain_ms", spare_ms).unwrap_or(usual.drain_ms),
            latency_ms: f.optional(d, "latency_ms", ms).unwrap_or(usual.latency_ms),
            latency_at: f.optional(d, "latency_at", shares).unwrap_or(usual.latency_at),
            loads_pps: f
                .optional(d, "loads_pps", |d, n| {
                    d.list(n, "a list of loads in frames a second", |d, n| d.float(n, 1.0..=1e12))
                })
                .unwrap_or(usual.loads_pps),
            latency_pps: None,
            ideal_shares: f
                .optional(d, "ideal_shares", |d, n| {
                    d.list(n, "a list of shares of the ideal's throughput", |d, n| d.float(n, 0.001..=1000.0))
                })
                .unwrap_or_default(),
            slice_ms: f.optional(d, "slice_ms", ms).unwrap_or_default(),
            steps_ms: f
                .optional(d, "steps_ms", |d, n| d.list(n, "a list of times in milliseconds", ms))
                .unwrap_or_default(),
            trials: f.optional(d, "trials", |d, n| d.int(n, 1..=1000_u32)).unwrap_or(usual.trials),
            attempts: f.optional(d, "attempts", |d, n| d.int(n, 1..=100_u32)).unwrap_or(usual.attempts),
            max_pps: f.optional(d, "max_pps", |d, n| d.float(n, 1.0..=1e12)),
            line_bps: f.optional(d, "line_bps", |d, n| d.float(n, 1e3..=1e13)),
            budget_s: f.optional(d, "budget_s", |d, n| d.float(n, 0.01..=1e6)).unwrap_or(usual.budget_s),
            hasty: f.optional(d, "hasty", hasty),
            allow_disturbed: false,
        },
        sections: f.optional(d, "sections", |d, n| d.list(n, "a list of sections", shown)).unwrap_or_default(),
        quick: f.optional(d, "quick", quick).unwrap_or_default(),
        factors,
    };
    let loads = f.node("loads_pps").is_some();
    if spec.protocol.measures.contains(&Measure::Delay) && !loads {
        d.error(node.span, "found the measure `delay` without `loads_pps`, expected the loads to measure it at");
    }
    if !spec.protocol.ideal_shares.is_empty() && f.node("ideal").is_none() {
        d.error(
            node.span,
            "found `ideal_shares` without `ideal`, expected what the ideal is, such as {isolation: fused}",
        );
    }
    f.finish(d);
    Some(spec)
}

fn base(d: &mut Decoder, node: &Node) -> Option<Base> {
    let mut f = Fields::of(d, node, "a map with `file`, `spec` or `nfs`")?;
    let base = Base {
        file: f.optional(d, "file", |d, n| d.filled(n, "the path of a chain file")).map(PathBuf::from),
        spec: f.optional(d, "spec", |d, n| json_map(d, n, "the `spec` of a chain file")).unwrap_or_default(),
        nfs: f.optional(d, "nfs", |d, n| d.list(n, "a list of NFs", nf)).unwrap_or_default(),
        generator: f
            .optional(d, "generator", |d, n| json_map(d, n, "a map of the generator's fields"))
            .unwrap_or_default(),
        defaults: f
            .optional(d, "defaults", |d, n| json_map(d, n, "a map of the chain file's `defaults`"))
            .unwrap_or_default(),
    };
    let given: Vec<&str> = ["file", "spec", "nfs"].into_iter().filter(|name| f.node(name).is_some()).collect();
    let found = match given.as_slice() {
        [_] => None,
        [] => Some("none of `file`, `spec` and `nfs`".to_owned()),
        [a, b] => Some(format!("both `{a}` and `{b}`")),
        _ => Some("`file`, `spec` and `nfs`".to_owned()),
    };
    if let Some(found) = found {
        d.error(node.span, format_args!("found {found}, expected one of them"));
    }
    f.finish(d);
    Some(base)
}

fn hasty(d: &mut Decoder, node: &Node) -> Option<Hasty> {
    let mut f = Fields::of(d, node, "a map such as {trial_ms: 200, trials: 21}")?;
    let hasty = Hasty {
        trial_ms: f.required(d, "trial_ms", |d, n| d.int(n, 1..=MOST_MS))?,
        trials: f.required(d, "trials", |d, n| d.int(n, 1..=1000_u32))?,
    };
    f.finish(d);
    Some(hasty)
}

fn json_map(d: &mut Decoder, node: &Node, what: &str) -> Option<serde_json::Map<String, Value>> {
    match node.to_json() {
        Value::Object(map) => Some(map),
        _ => d.expected(node, what),
    }
}

fn measures(d: &mut Decoder, node: &Node) -> Option<Vec<Measure>> {
    let measures = d.list(node, "a list of measures, such as [ndr, latency]", |d, n| d.word(n, Measure::WORDS))?;
    match &node.value {
        Yaml::List(items) if items.is_empty() => d.expected(node, "a list of measures, such as [ndr, latency]"),
        _ => Some(measures),
    }
}

fn shares(d: &mut Decoder, node: &Node) -> Option<Vec<f64>> {
    d.list(node, "a list of shares, such as [0.1, 0.5, 0.9]", |d, n| d.float(n, 0.001..=1.0))
}

/// The reader of a factor's values; `None` for one that is unknown, which is reported.
type Read = fn(&mut Decoder, &Node) -> Option<Value>;

fn reader(d: &mut Decoder, key: &str, span: chainline_chain::Span) -> Option<Read> {
    if let Some(factor) = FACTORS.iter().find(|f| f.name == key) {
        return Some(factor.read);
    }
    if key.starts_with("spec.") {
        return Some(|_, n| Some(n.to_json()));
    }
    let names = FACTORS.iter().map(|f| f.name);
    let expected = document::one_of(names.clone());
    let message =
        format!("unknown factor {}, expected {expected}, or a field such as `spec.defaults.queue`", quote(key));
    match did_you_mean(key, names) {
        Some(help) => d.error_with_help(span, message, help),
        None => d.error(span, message),
    }
    None
}

fn factors(d: &mut Decoder, node: &Node) -> Option<IndexMap<String, Vec<Value>>> {
    let Yaml::Map(entries) = &node.value else {
        return d.expected(node, "a map from factors to lists of values");
    };
    let mut factors = IndexMap::new();
    for e in entries.iter().filter(|e| !e.key.starts_with("x-")) {
        let Some(read) = reader(d, &e.key, e.key_span) else { continue };
        let values = d.within(&e.key, |d| match &e.node.value {
            Yaml::List(items) if items.is_empty() => d.expected(&e.node, "at least one value"),
            _ => d.list(&e.node, "a list of values", read),
        });
        factors.extend(values.map(|v| (e.key.clone(), v)));
    }
    Some(factors)
}

fn combination(d: &mut Decoder, node: &Node) -> Option<IndexMap<String, Value>> {
    let Yaml::Map(entries) = &node.value else { return d.expected(node, "a map from factors to values") };
    let mut values = IndexMap::new();
    for e in entries.iter().filter(|e| !e.key.starts_with("x-")) {
        let Some(read) = reader(d, &e.key, e.key_span) else { continue };
        values.extend(d.within(&e.key, |d| read(d, &e.node)).map(|v| (e.key.clone(), v)));
    }
    if entries.is_empty() { d.expected(node, "at least one factor") } else { Some(values) }
}

fn combinations(d: &mut Decoder, node: &Node) -> Option<Vec<IndexMap<String, Value>>> {
    d.list(node, "a list of maps from factors to values", combination)
}

const VIEWS: &[(&str, View)] = &[
    ("table", View::Table),
    ("lines", View::Lines),
    ("bars", View::Bars),
    ("heat-map", View::HeatMap),
    ("percentiles", View::Percentiles),
];

fn shown(d: &mut Decoder, node: &Node) -> Option<Shown> {
    let mut f = Fields::of(d, node, "a map with `id`, `title` and `y`")?;
    let shown = Shown {
        id: f.required(d, "id", Decoder::name).unwrap_or_default(),
        title: f.required(d, "title", |d, n| d.filled(n, "a title")).unwrap_or_default(),
        definition: f.optional(d, "definition", |d, n| d.filled(n, "a text")).unwrap_or_default(),
        source: f.optional(d, "source", |d, n| d.filled(n, "a text")),
        y: f.required(d, "y", figure).unwrap_or_default(),
        x: f.optional(d, "x", |d, n| {
            let name = d.filled(n, "a factor, or `part`")?;
            if name == PART {
                return Some(name);
            }
            reader(d, &name, n.span).map(|_| name)
        }),
        only: f.optional(d, "only", combination).unwrap_or_default(),
        view: f.optional(d, "view", |d, n| d.word(n, VIEWS)),
        quoted: f.optional(d, "quoted", quoted).unwrap_or_default(),
    };
    f.finish(d);
    Some(shown)
}

/// A measure, or one percentile of the latency.
fn figure(d: &mut Decoder, node: &Node) -> Option<String> {
    let text = d.filled(node, "a measure, or `latency p99 at 50 % of PDR`")?;
    // Measures that come to more than one figure.
    const SIDES: &[&str] =
        &["cpu load", "delay mean", "delay p50", "delay p99", "back-to-back buffer", "reset by time"];
    if scheduling::is_figure(&text) || text.starts_with("latency p") || SIDES.contains(&text.as_str()) {
        return Some(text);
    }
    d.word(node, Measure::WORDS).map(|m| m.word().to_owned())
}

fn quoted(d: &mut Decoder, node: &Node) -> Option<Vec<Series>> {
    let Yaml::Map(entries) = &node.value else { return d.expected(node, "a map from names to lists of [x, y]") };
    let mut all = Vec::new();
    for e in entries {
        let points = d.within(&e.key, |d| d.list(&e.node, "a list of [x, y]", point))?;
        all.push(Series { name: e.key.clone(), obtained: Shown::QUOTED, points });
    }
    Some(all)
}

fn point(d: &mut Decoder, node: &Node) -> Option<Point> {
    let Yaml::List(items) = &node.value else { return d.expected(node, "[x, y]") };
    let [x, y] = items.as_slice() else { return d.expected(node, "[x, y]") };
    let x = match x.to_json() {
        Value::Number(n) => X::Number(n.as_f64()?),
        Value::String(text) => X::Word(text),
        _ => return d.expected(x, "a number or a word"),
    };
    Some(Point { x, samples: vec![d.float(y, -1e12..=1e12)?], trials: Vec::new() })
}

fn quick(d: &mut Decoder, node: &Node) -> Option<Quick> {
    let mut f = Fields::of(d, node, "a map with `factors` or `measures`")?;
    let quick = Quick {
        factors: f.optional(d, "factors", factors).unwrap_or_default(),
        measures: f.optional(d, "measures", measures).unwrap_or_default(),
        trial_ms: f.optional(d, "trial_ms", |d, n| d.int(n, 1..=MOST_MS)),
        warmup_ms: f.optional(d, "warmup_ms", |d, n| d.int(n, 0..=MOST_MS)),
    };
    f.finish(d);
    Some(quick)
}
