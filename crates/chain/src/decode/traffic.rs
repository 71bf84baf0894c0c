//! What a generator sends.

use super::Decoder;
use super::fields::Fields;
use super::port::{file_name, frame_bytes, rate};
use super::spec::prefix;
use crate::model::{
    Bursts, FlowPackets, Generator, Genome, Group, Hosts, LetterSize, MAX_GAP_US, MAX_RAMP_S, Mac, MeasuredLengths,
    Mix, MixCapture, MixFile, MixName, MixPart, Order, Ramp, Rate, Rewrite, Schedule, Tags,
};
use crate::tree::{Node, Value};
use chainline_workload::{MAX_EXPONENT, MAX_FLOWS, MAX_TIMES, MAX_VLAN, Vlan};

/// What [`Mix`] can be.
const MIX: &str = "a list such as [{frame_bytes: 64, weight: 7}, {frame_bytes: 1518, weight: 1}], or a map with `genome`, \
                   `file` or `capture`";

pub(super) fn mix(d: &mut Decoder, node: &Node) -> Option<Mix> {
    /// As many as a mix of weights can have; more are a measured distribution, from a file.
    const MAX_PARTS: usize = 256;
    match &node.value {
        Value::List(items) if items.is_empty() || items.len() > MAX_PARTS => {
            d.expected(node, format_args!("1 to {MAX_PARTS} sizes; it has {}", items.len()))
        }
        Value::List(_) => {
            let parts = d.list(node, MIX, |d, n| {
                let mut f = Fields::of(d, n, "a map with `frame_bytes` and `weight`")?;
                let frame_bytes = f.required(d, "frame_bytes", frame_bytes);
                let weight = f.required(d, "weight", |d, n| d.int(n, 1..=1_000_000));
                f.finish(d);
                Some(MixPart { frame_bytes: frame_bytes?, weight: weight? })
            })?;
            (!parts.is_empty()).then_some(Mix::Parts(parts))
        }
        Value::Text(_) => d.word(node, &MixName::words()).map(Mix::Named),
        Value::Map(_) => mix_map(d, node),
        _ => d.expected(node, format_args!("{} or {MIX}", super::one_of(MixName::words().iter().map(|(w, _)| *w)))),
    }
}

fn mix_map(d: &mut Decoder, node: &Node) -> Option<Mix> {
    let mut f = Fields::of(d, node, MIX)?;
    let genome = f.optional(d, "genome", |d, n| d.filled(n, "a sequence of letters such as aaafg"));
    let sizes = f.optional(d, "sizes", |d, n| {
        d.list(n, "a list such as [{letter: z, frame_bytes: 9018}]", |d, n| {
            let mut f = Fields::of(d, n, "a map with `letter` and `frame_bytes`")?;
            let letter = f.required(d, "letter", letter);
            let frame_bytes = f.required(d, "frame_bytes", frame_bytes);
            f.finish(d);
            Some(LetterSize { letter: letter?, frame_bytes: frame_bytes? })
        })
    });
    let file = f.optional(d, "file", file_name);
    let capture = f.optional(d, "capture", file_name);
    let given = ["genome", "file", "capture"].map(|name| f.node(name)).into_iter().flatten().count();
    if let Some(sizes) = f.node("sizes").filter(|_| genome.is_none() && !f.broken) {
        d.error(sizes.span, "found `sizes` without `genome`, expected it beside one");
    }
    let place = f.node("genome");
    if !f.finish(d) {
        return None;
    }
    if given != 1 {
        d.error(node.span, "found a map with none or several of `genome`, `file` and `capture`, expected one of them");
        return None;
    }
    let mix = match (genome, file, capture) {
        (Some(genome), ..) => Genome { genome, sizes: sizes.unwrap_or_default() },
        (_, Some(file), _) => return Some(Mix::File(MixFile { file })),
        (.., Some(capture)) => return Some(Mix::Capture(MixCapture { capture })),
        _ => return None,
    };
    if let Err(e) = crate::traffic::genome(&mix) {
        d.error(place.unwrap_or(node).span, e);
        return None;
    }
    Some(Mix::Genome(mix))
}

fn letter(d: &mut Decoder, node: &Node) -> Option<char> {
    const WHAT: &str = "`z`, or a capital letter";
    let text = d.text(node, WHAT)?;
    let mut letters = text.chars();
    match (letters.next(), letters.next()) {
        (Some(c), None) if c == 'z' || c.is_ascii_uppercase() => Some(c),
        _ => d.expected(node, WHAT),
    }
}

pub(super) fn order(d: &mut Decoder, node: &Node) -> Option<Order> {
    const WHAT: &str = "`round-robin`, `random`, {zipf: 1.1} or {interleave: {flows: 8, packets: 16}}";
    match &node.value {
        Value::Text(_) => d.word(node, &[("round-robin", Order::RoundRobin), ("random", Order::Random)]),
        Value::Map(_) => {
            let mut f = Fields::of(d, node, WHAT)?;
            let zipf = f.optional(d, "zipf", |d, n| {
                let exponent = d.float(n, 0.0..=MAX_EXPONENT)?;
                if exponent > 0.0 { Some(exponent) } else { d.expected(n, "a number above 0; `random` is without") }
            });
            let interleave = f.optional(d, "interleave", group);
            let order = zipf.map(Order::Zipf).xor(interleave.map(Order::Interleave));
            only(d, f, node, order, "`zipf` and `interleave`")
        }
        _ => d.expected(node, WHAT),
    }
}

/// The one thing that a map says, or a complaint.
fn only<T>(d: &mut Decoder, f: Fields<'_>, node: &Node, value: Option<T>, what: &str) -> Option<T> {
    if f.finish(d) && value.is_none() {
        d.error(node.span, format_args!("found a map with none or both of {what}, expected one of them"));
    }
    value
}

pub(super) fn group(d: &mut Decoder, node: &Node) -> Option<Group> {
    let mut f = Fields::of(d, node, "a map such as {flows: 8, packets: 16} or {step: 2, of: 8, packets: 16}")?;
    let group = Group {
        flows: f.optional(d, "flows", |d, n| d.int(n, 1..=MAX_FLOWS)),
        step: f.optional(d, "step", |d, n| d.int(n, 0..=u32::MAX)),
        of: f.optional(d, "of", |d, n| d.int(n, 1..=u32::MAX)),
        packets: f.required(d, "packets", |d, n| d.int(n, 1..=u32::MAX)).unwrap_or(1),
    };
    if !f.broken {
        match (group.flows, group.step, group.of) {
            (Some(_), None, None) => {}
            (None, Some(step), Some(of)) if step <= of => {}
            (None, Some(step), Some(of)) => {
                let place = f.node("step").unwrap_or(node);
                d.error(place.span, format_args!("found step {step} of {of}, expected 0 to {of}"));
                f.broken = true;
            }
            _ => {
                d.error(node.span, "expected either `flows`, or `step` and `of`");
                f.broken = true;
            }
        }
    }
    f.finish(d).then_some(group)
}

pub(super) fn hosts(d: &mut Decoder, node: &Node) -> Option<Hosts> {
    let mut f = Fields::of(d, node, "a map such as {count: 1000, times: 10}")?;
    let count = f.required(d, "count", |d, n| d.int(n, 1..=u32::MAX));
    let times = f.optional(d, "times", |d, n| d.int(n, 1..=MAX_TIMES)).unwrap_or(1);
    let grouped = f.optional(d, "grouped", Decoder::bool).unwrap_or_default();
    f.finish(d);
    Some(Hosts { count: count?, times, grouped })
}

pub(super) fn flow_packets(d: &mut Decoder, node: &Node) -> Option<FlowPackets> {
    if let Value::Map(_) = node.value {
        let mut f = Fields::of(d, node, "a map with `histogram`")?;
        let histogram = f.required(d, "histogram", file_name);
        f.finish(d);
        return Some(FlowPackets::Measured(MeasuredLengths { histogram: histogram? }));
    }
    match node.value {
        Value::Int(n) if u32::try_from(n).is_ok_and(|n| n > 0) => u32::try_from(n).ok().map(FlowPackets::Constant),
        _ => d.expected(node, format_args!("a whole number from 1 to {}, or {{histogram: FILE}}", u32::MAX)),
    }
}

pub(super) fn schedule(d: &mut Decoder, node: &Node) -> Option<Schedule> {
    const WHAT: &str =
        "`constant`, `poisson`, {bursts: {packets: 32, gap_us: 100}} or {ramp: {from: 1kpps, over_s: 10}}";
    match &node.value {
        Value::Text(_) => d.word(node, &[("constant", Schedule::Constant), ("poisson", Schedule::Poisson)]),
        Value::Map(_) => {
            let mut f = Fields::of(d, node, WHAT)?;
            let bursts = f.optional(d, "bursts", bursts);
            let ramp = f.optional(d, "ramp", ramp);
            let schedule = bursts.map(Schedule::Bursts).xor(ramp.map(Schedule::Ramp));
            only(d, f, node, schedule, "`bursts` and `ramp`")
        }
        _ => d.expected(node, WHAT),
    }
}

/// A number above 0.
fn positive(d: &mut Decoder, node: &Node, most: f64) -> Option<f64> {
    match d.float(node, 0.0..=most)? {
        x if x > 0.0 => Some(x),
        _ => d.expected(node, format_args!("a number above 0, at most {most}")),
    }
}

fn bursts(d: &mut Decoder, node: &Node) -> Option<Bursts> {
    let mut f = Fields::of(d, node, "a map with `packets` and `gap_us`")?;
    let packets = f.required(d, "packets", |d, n| d.int(n, 1..=u32::MAX));
    let gap_us = f.required(d, "gap_us", |d, n| positive(d, n, MAX_GAP_US));
    f.finish(d);
    Some(Bursts { packets: packets?, gap_us: gap_us? })
}

fn ramp(d: &mut Decoder, node: &Node) -> Option<Ramp> {
    let mut f = Fields::of(d, node, "a map with `from` and `over_s`")?;
    let from = f.required(d, "from", |d, n| match rate(d, n, false)? {
        Rate::Max => d.expected(n, "a rate such as 100kpps"),
        rate => Some(rate),
    });
    let over_s = f.required(d, "over_s", |d, n| positive(d, n, MAX_RAMP_S));
    let repeat = f.optional(d, "repeat", Decoder::bool).unwrap_or_default();
    f.finish(d);
    Some(Ramp { from: from?, over_s: over_s?, repeat })
}

/// Whether a schedule that is not constant has the rate that it needs.
pub(super) fn check_rate(d: &mut Decoder, node: &Node, g: &Generator) {
    let unit = |rate: Rate| match rate {
        Rate::PacketsPerSecond(_) => "packets",
        Rate::BitsPerSecond(_) => "bits",
        _ => "none",
    };
    if unit(g.rate) == "none" {
        d.error(node.span, "found a `schedule` with `rate: max`, expected a rate such as `rate: 1Mpps` besides");
    } else if let Schedule::Ramp(ramp) = g.schedule
        && unit(ramp.from) != unit(g.rate)
    {
        d.error(node.span, format_args!("found a ramp from {} to {}, expected the same unit", ramp.from, g.rate));
    }
}

pub(super) fn tags(d: &mut Decoder, node: &Node) -> Option<Tags> {
    let what = format!("a VLAN identifier from 0 to {MAX_VLAN}, or two: [outer, inner]");
    let id = |node: &Node| match node.value {
        Value::Int(i) => u16::try_from(i).ok().filter(|id| *id <= MAX_VLAN),
        _ => None,
    };
    let tags = match &node.value {
        Value::List(items) => match items.as_slice() {
            [] => Some(Vlan::None),
            [one] => id(one).map(Vlan::One),
            [outer, inner] => id(outer).zip(id(inner)).map(|(outer, inner)| Vlan::Two(outer, inner)),
            _ => None,
        },
        _ => id(node).map(Vlan::One),
    };
    match tags {
        Some(tags) => Some(Tags(tags)),
        None => d.expected(node, what),
    }
}

pub(super) fn mac(d: &mut Decoder, node: &Node) -> Option<Mac> {
    const WHAT: &str = "a hardware address such as 02:00:00:00:00:01, in quotes if it has digits only";
    match d.text(node, WHAT)?.parse() {
        Ok(mac) => Some(Mac(mac)),
        Err(_) => d.expected(node, WHAT),
    }
}

pub(super) fn rewrite(d: &mut Decoder, node: &Node) -> Option<Rewrite> {
    const PREFIX: &str = "a prefix such as 10.0.0.0/8";
    let mut f = Fields::of(d, node, "a map with `src`, `dst` or both")?;
    let rewrite = Rewrite {
        src: f.optional(d, "src", |d, n| prefix(d, n, PREFIX)),
        dst: f.optional(d, "dst", |d, n| prefix(d, n, PREFIX)),
    };
    if rewrite == Rewrite::default() && !f.broken {
        d.error(node.span, "found neither `src` nor `dst`, expected one of them or both");
    }
    f.finish(d);
    Some(rewrite)
}
