//! NFs and their scheduling.

use super::Decoder;
use super::fields::Fields;
use super::spec::{ISOLATION, queue};
use crate::model::{
    Activation, BATCH, Core, Dispatch, MAX_DIVERT, Nf, Policy, REPLICAS, SPIN_US, Sched, Sharing, Weight,
};
use crate::tree::{Node, Value};

/// One NF. One that is no map is left out and noted.
pub(super) fn nf(d: &mut Decoder, name: &str, node: &Node) -> Option<Nf> {
    let Some(mut f) = Fields::of(d, node, "a map with `kind`") else {
        d.broken.nfs.insert(name.to_owned());
        return None;
    };
    let nf = Nf {
        kind: f.required(d, "kind", kind).unwrap_or_default(),
        args: f.node("args").map(Node::to_json).unwrap_or_default(),
        isolation: f.optional(d, "isolation", |d, n| d.word(n, ISOLATION)),
        cores: f.optional(d, "cores", Decoder::cores).unwrap_or_default(),
        sched: f.optional(d, "sched", sched),
        activation: f.optional(d, "activation", activation),
        spin_us: f.optional(d, "spin_us", spin_us),
        divert: f.optional(d, "divert", divert).unwrap_or_default(),
        batch: f.optional(d, "batch", |d, n| d.int(n, BATCH)),
        queue: f.optional(d, "queue", queue),
        replicas: f.optional(d, "replicas", |d, n| d.int(n, REPLICAS)),
        dispatch: f.optional(d, "dispatch", |d, n| d.word(n, Dispatch::WORDS)),
        state: f.optional(d, "state", |d, n| d.word(n, Sharing::WORDS)),
    };
    f.finish(d);
    Some(nf)
}

/// A built-in word or the path of a shared object. Which words there are is not known here.
fn kind(d: &mut Decoder, node: &Node) -> Option<String> {
    const WHAT: &str = "a built-in kind such as `firewall`, or a shared object's path such as ./libmine.so";
    let kind = d.filled(node, WHAT)?;
    let path = kind.contains('/') || kind.ends_with(".so");
    let good = if path {
        kind.ends_with(".so") && ["./", "../", "/"].iter().any(|p| kind.starts_with(p))
    } else {
        super::is_name(&kind)
    };
    if good { Some(kind) } else { d.expected(node, WHAT) }
}

fn divert(d: &mut Decoder, node: &Node) -> Option<Vec<String>> {
    const WHAT: &str = "a list of names of chains, NFs or ports";
    if matches!(&node.value, Value::List(items) if items.len() > MAX_DIVERT) {
        return d.expected(node, format_args!("at most {MAX_DIVERT} targets"));
    }
    // A place that cannot be read stays as an empty name: a verdict carries the index.
    d.list(node, WHAT, |d, n| Some(d.text(n, "a name").unwrap_or_default().to_owned()))
}

/// How an NF waits for packets.
pub(super) fn activation(d: &mut Decoder, node: &Node) -> Option<Activation> {
    d.word(node, Activation::WORDS)
}

pub(super) fn spin_us(d: &mut Decoder, node: &Node) -> Option<u32> {
    d.int(node, SPIN_US)
}

/// Scheduling. Which fields go with which policy is checked here, where both are seen.
pub(super) fn sched(d: &mut Decoder, node: &Node) -> Option<Sched> {
    let mut f = Fields::of(d, node, "a map such as {policy: batch, weight: auto}")?;
    let base = Sched::default();
    let policy = f.optional(d, "policy", |d, n| d.word(n, Policy::WORDS)).unwrap_or_default();
    let policy_known = !f.broken;
    const MOST_US: u32 = 10_000_000;
    let sched = Sched {
        policy,
        nice: f.optional(d, "nice", |d, n| d.int(n, -20..=19)),
        priority: f.optional(d, "priority", |d, n| d.int(n, 1..=99)),
        weight: f.optional(d, "weight", weight).unwrap_or(base.weight),
        slice_us: f.optional(d, "slice_us", |d, n| d.int(n, 100..=100_000)),
        runtime_us: f.optional(d, "runtime_us", |d, n| d.int(n, 10..=MOST_US)),
        deadline_us: f.optional(d, "deadline_us", |d, n| d.int(n, 10..=MOST_US)),
        period_us: f.optional(d, "period_us", |d, n| d.int(n, 100..=MOST_US)),
    };
    if policy_known {
        fields_of_policy(d, &mut f, &sched);
        priority_of_fixed(d, &mut f, &sched);
    }
    if !f.broken && policy == Policy::Deadline {
        deadline(d, &mut f, node, &sched);
    }
    f.finish(d);
    Some(sched)
}

fn weight(d: &mut Decoder, node: &Node) -> Option<Weight> {
    match &node.value {
        Value::Text(text) if text == "auto" => Some(Weight::Auto),
        Value::Int(i @ 1..=10_000) => u32::try_from(*i).ok().map(Weight::Fixed),
        _ => d.expected(node, "`auto` or a whole number from 1 to 10000"),
    }
}

fn fields_of_policy(d: &mut Decoder, f: &mut Fields<'_>, sched: &Sched) {
    const FAIR: &[Policy] = &[Policy::Other, Policy::Batch];
    // The slice of `rr` is the system's.
    const SLICED: &[Policy] = &[Policy::Other, Policy::Batch, Policy::Rr];
    const PRIORITIES: &[Policy] = &[Policy::Other, Policy::Batch, Policy::Fifo, Policy::Rr, Policy::Idle];
    const DEADLINE: &[Policy] = &[Policy::Deadline];
    // Weights are shares of the fair class, which `idle` belongs to as well.
    const WEIGHTED: &[Policy] = &[Policy::Other, Policy::Batch, Policy::Idle];
    let fixed = matches!(sched.weight, Weight::Fixed(_));
    let rules = [
        ("nice", sched.nice.is_some(), FAIR),
        ("slice_us", sched.slice_us.is_some(), SLICED),
        ("weight", fixed, WEIGHTED),
        ("priority", sched.priority.is_some(), PRIORITIES),
        ("runtime_us", sched.runtime_us.is_some(), DEADLINE),
        ("deadline_us", sched.deadline_us.is_some(), DEADLINE),
        ("period_us", sched.period_us.is_some(), DEADLINE),
    ];
    for (name, given, policies) in rules {
        if given && !policies.contains(&sched.policy) {
            let Some(node) = f.node(name) else { continue };
            let words = super::one_of(policies.iter().map(|p| p.word()));
            let found = sched.policy.word();
            d.error(node.span, format_args!("found `{name}` with policy `{found}`, expected it with {words} only"));
        }
    }
}

/// A priority multiplies a share that is computed, not one that is fixed.
fn priority_of_fixed(d: &mut Decoder, f: &mut Fields<'_>, sched: &Sched) {
    if let (Weight::Fixed(weight), Some(_), Some(node)) = (sched.weight, sched.priority, f.node("priority")) {
        d.error(node.span, format_args!("found `priority` with the fixed weight {weight}, expected one of them"));
    }
}

/// What holds for a core.
pub(super) fn core(d: &mut Decoder, node: &Node) -> Option<Core> {
    let mut f = Fields::of(d, node, "a map such as {reserved: true}")?;
    let core = Core {
        reserved: f.optional(d, "reserved", Decoder::bool).unwrap_or_default(),
        sched: f.optional(d, "sched", sched),
    };
    f.finish(d);
    Some(core)
}

/// sched(7): runtime <= deadline <= period.
fn deadline(d: &mut Decoder, f: &mut Fields<'_>, node: &Node, sched: &Sched) {
    let (Some(runtime), Some(period)) = (sched.runtime_us, sched.period_us) else {
        d.error(node.span, "found policy `deadline` alone, expected `runtime_us` and `period_us` with it");
        return;
    };
    let deadline = sched.deadline_us.unwrap_or(period);
    if runtime > deadline || deadline > period {
        let place = f.node("runtime_us").map_or(node.span, |n| n.span);
        d.error(place, format_args!("found runtime {runtime}, deadline {deadline} and period {period} microseconds, expected each no longer than the next"));
    }
}
