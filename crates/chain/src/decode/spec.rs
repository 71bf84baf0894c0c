//! The file's frame: metadata, defaults, chains, service level.

use super::fields::Fields;
use super::{Broken, Decoder, nf, port};
use crate::diag::Diagnostic;
use crate::model::{
    API_VERSION, BATCH, BUFFERS, CHAIN_WEIGHT, Chain, Core, Defaults, FRAME_BYTES, Fabric, File, Isolation, KIND,
    MAX_CHAINS, MAX_HOPS, MAX_NFS, MAX_PORTS, Match, Mechanisms, Metadata, NumRange, Prefix, QUEUE, Slo, Spec,
    proto_names, proto_number,
};
use crate::tree::{Node, Value, quote};
use indexmap::IndexMap;
use std::collections::BTreeMap;

/// How NFs are kept apart, by the word in the file.
pub(super) const ISOLATION: &[(&str, Isolation)] =
    &[("process", Isolation::Process), ("thread", Isolation::Thread), ("fused", Isolation::Fused)];

/// Fabrics that are planned (system design, "fabrics") and refused until they exist.
const PLANNED_FABRICS: &[&str] = &["veth", "bridge", "ovs", "af_xdp", "memif", "vhost-user"];

/// The file, as far as it could be read.
pub fn file(root: &Node, found: &mut Vec<Diagnostic>) -> (File, Broken) {
    let mut d = Decoder::new(std::mem::take(found));
    let mut file = File {
        api_version: API_VERSION.into(),
        kind: KIND.into(),
        metadata: Metadata::default(),
        spec: Spec::default(),
        source: crate::Source::default(),
        warnings: Vec::new(),
    };
    match Fields::of(&mut d, root, "a map with `apiVersion`, `kind`, `metadata` and `spec`") {
        None => d.broken.lists = true,
        Some(mut f) => {
            f.required(&mut d, "apiVersion", |d, n| d.word(n, &[(API_VERSION, ())]));
            f.required(&mut d, "kind", |d, n| d.word(n, &[(KIND, ())]));
            file.metadata = f.required(&mut d, "metadata", metadata).unwrap_or_default();
            match f.required(&mut d, "spec", spec) {
                Some(spec) => file.spec = spec,
                None => d.broken.lists = true,
            }
            f.finish(&mut d);
        }
    }
    *found = d.found;
    (file, d.broken)
}

fn metadata(d: &mut Decoder, node: &Node) -> Option<Metadata> {
    let mut f = Fields::of(d, node, "a map with `name`")?;
    let name = f.required(d, "name", Decoder::name).unwrap_or_default();
    f.finish(d);
    Some(Metadata { name })
}

fn spec(d: &mut Decoder, node: &Node) -> Option<Spec> {
    let mut f = Fields::of(d, node, "a map with `ports`, `nfs` and `chains`")?;
    let defaults = f.optional(d, "defaults", defaults).unwrap_or_default();
    let cores = f.optional(d, "cores", cores).unwrap_or_default();
    let ports = f.required(d, "ports", |d, n| {
        named(d, n, "ports", MAX_PORTS, |d, name, n| {
            port::port(d, n).or_else(|| {
                d.broken.ports.insert(name.to_owned());
                None
            })
        })
    });
    let nfs = f.optional(d, "nfs", |d, n| named(d, n, "NFs", MAX_NFS, nf::nf));
    let nfs_broken = f.broken;
    let chains = f.required(d, "chains", chains);
    let slo = f.optional(d, "slo", slo);
    d.broken.lists |= ports.is_none() || chains.is_none() || nfs_broken;
    f.finish(d);
    Some(Spec {
        defaults,
        cores,
        ports: ports.unwrap_or_default(),
        nfs: nfs.unwrap_or_default(),
        chains: chains.unwrap_or_default(),
        slo,
    })
}

/// A map from core numbers to what holds for them.
fn cores(d: &mut Decoder, node: &Node) -> Option<BTreeMap<usize, Core>> {
    let Value::Map(entries) = &node.value else {
        return d.expected(node, "a map from core numbers, such as {1: {reserved: true}}");
    };
    let mut map = BTreeMap::new();
    for e in entries.iter().filter(|e| !e.key.starts_with("x-")) {
        // Keys are text in JSON and may be numbers in YAML.
        let Some(core) = e.key.parse::<u16>().ok().filter(|c| c.to_string() == e.key) else {
            d.error(e.key_span, format_args!("found {}, expected the number of a core", quote(&e.key)));
            continue;
        };
        if let Some(value) = d.within(&e.key, |d| nf::core(d, &e.node)) {
            map.insert(usize::from(core), value);
        }
    }
    Some(map)
}

/// A map from names to what `read` makes of them, in the order of the file.
fn named<T>(
    d: &mut Decoder,
    node: &Node,
    what: &str,
    most: usize,
    mut read: impl FnMut(&mut Decoder, &str, &Node) -> Option<T>,
) -> Option<IndexMap<String, T>> {
    let Value::Map(entries) = &node.value else {
        return d.expected(node, format_args!("a map from names to {what}"));
    };
    if entries.len() > most {
        d.error(node.span, format_args!("found {} {what}, expected at most {most}", entries.len()));
        return None;
    }
    let mut map = IndexMap::with_capacity(entries.len());
    for e in entries {
        d.check_key(&e.key, e.key_span);
        if let Some(value) = d.within(&e.key, |d| read(d, &e.key, &e.node)) {
            map.insert(e.key.clone(), value);
        }
    }
    Some(map)
}

fn defaults(d: &mut Decoder, node: &Node) -> Option<Defaults> {
    let mut f = Fields::of(d, node, "a map of defaults")?;
    let base = Defaults::default();
    let defaults = Defaults {
        fabric: f.optional(d, "fabric", fabric).unwrap_or_default(),
        isolation: f.optional(d, "isolation", |d, n| d.word(n, ISOLATION)).unwrap_or_default(),
        batch: f.optional(d, "batch", |d, n| d.int(n, BATCH)).unwrap_or(base.batch),
        queue: f.optional(d, "queue", queue).unwrap_or(base.queue),
        buffers: f.optional(d, "buffers", |d, n| d.int(n, BUFFERS)),
        max_frame_bytes: f
            .optional(d, "max_frame_bytes", |d, n| {
                let largest = u32::from(*FRAME_BYTES.end() - crate::model::FCS_BYTES);
                d.int(n, 0..=largest)
            })
            .unwrap_or(base.max_frame_bytes),
        manager_core: f.optional(d, "manager_core", Decoder::core),
        cores: f.optional(d, "cores", Decoder::cores).unwrap_or_default(),
        sched: f.optional(d, "sched", nf::sched).unwrap_or_default(),
        mechanisms: f.optional(d, "mechanisms", |d, n| d.word(n, Mechanisms::WORDS)).unwrap_or_default(),
        activation: f.optional(d, "activation", nf::activation),
        spin_us: f.optional(d, "spin_us", nf::spin_us),
    };
    f.finish(d);
    Some(defaults)
}

fn fabric(d: &mut Decoder, node: &Node) -> Option<Fabric> {
    if let Value::Text(text) = &node.value
        && PLANNED_FABRICS.contains(&text.as_str())
    {
        let planned = super::one_of(PLANNED_FABRICS.iter().copied()).replace(" or ", " and ");
        let message = format!("found {}, expected `shm`: {planned} are planned and not there yet", quote(text));
        d.error(node.span, message);
        return None;
    }
    d.word(node, &[("shm", Fabric::Shm)])
}

/// Packets in a queue.
pub(super) fn queue(d: &mut Decoder, node: &Node) -> Option<u32> {
    match node.value {
        Value::Int(i) if u32::try_from(i).is_ok_and(|n| n.is_power_of_two() && QUEUE.contains(&n)) => {
            u32::try_from(i).ok()
        }
        Value::Int(i) if QUEUE.contains(&u32::try_from(i).unwrap_or(0)) => {
            // The nearest sizes are what the operator wants to know.
            let above = u32::try_from(i).unwrap_or(0).next_power_of_two();
            d.expected(node, format_args!("a power of two, such as {} or {above}", above / 2))
        }
        _ => d.expected(node, format_args!("a power of two from {} to {}", QUEUE.start(), QUEUE.end())),
    }
}

fn slo(d: &mut Decoder, node: &Node) -> Option<Slo> {
    let mut f = Fields::of(d, node, "a map with `p99_us` and `loss`")?;
    let slo = Slo {
        // From a nanosecond to a minute.
        p99_us: f.optional(d, "p99_us", |d, n| d.float(n, 0.001..=60e6)),
        loss: f.optional(d, "loss", |d, n| d.float(n, 0.0..=1.0)),
    };
    f.finish(d);
    Some(slo)
}

fn chains(d: &mut Decoder, node: &Node) -> Option<Vec<Chain>> {
    const WHAT: &str = "a list of one or more chains";
    match &node.value {
        Value::List(items) if items.len() > MAX_CHAINS => {
            return d.expected(node, format_args!("at most {MAX_CHAINS} chains: it has {}", items.len()));
        }
        Value::List(items) if items.is_empty() => return d.expected(node, WHAT),
        _ => {}
    }
    let mut index = 0;
    d.list(node, WHAT, |d, n| {
        let chain = chain(d, n, index);
        index += 1;
        // An unreadable one keeps its place: indexes in diagnostics are those of the file.
        Some(chain.unwrap_or(Chain {
            name: String::new(),
            matches: Match::default(),
            path: Vec::new(),
            weight: 1,
            tenant: None,
            max_in_flight: None,
            sched: None,
        }))
    })
}

fn chain(d: &mut Decoder, node: &Node, index: usize) -> Option<Chain> {
    let Some(mut f) = Fields::of(d, node, "a map with `name` and `path`") else {
        d.broken.matches.insert(index);
        return None;
    };
    let name = f.required(d, "name", Decoder::name).unwrap_or_default();
    let matches = match f.optional(d, "match", |d, n| matches(d, n, index)) {
        Some(matches) => matches,
        None => {
            if f.node("match").is_some() {
                d.broken.matches.insert(index);
            }
            Match::default()
        }
    };
    let chain = Chain {
        name,
        matches,
        path: f.required(d, "path", path).unwrap_or_default(),
        weight: f.optional(d, "weight", |d, n| d.int(n, CHAIN_WEIGHT)).unwrap_or(1),
        tenant: f.optional(d, "tenant", Decoder::name),
        max_in_flight: f.optional(d, "max_in_flight", |d, n| d.int(n, 1..=u32::MAX)),
        sched: f.optional(d, "sched", nf::sched),
    };
    f.finish(d);
    Some(chain)
}

fn path(d: &mut Decoder, node: &Node) -> Option<Vec<String>> {
    const WHAT: &str = "the ingress port, NFs in order, and the egress port: [in, firewall, out]";
    match &node.value {
        Value::List(items) if items.len() < 2 => d.expected(node, format_args!("{WHAT}; it has {}", items.len())),
        Value::List(items) if items.len() > MAX_HOPS + 2 => {
            d.expected(node, format_args!("at most {MAX_HOPS} NFs between two ports; it has {}", items.len()))
        }
        // A place that cannot be read stays as an empty name, which the checks pass over.
        _ => d.list(node, WHAT, |d, n| Some(d.text(n, "a name").unwrap_or_default().to_owned())),
    }
}

fn matches(d: &mut Decoder, node: &Node, index: usize) -> Option<Match> {
    const PORT: &str = "a port, a range such as 80-443, or a list of them";
    const VLAN: &str = "a VLAN identifier from 0 to 4094, a range such as 100-199, or a list of them";
    const PREFIX: &str = "a prefix such as 10.0.0.0/8 or 2001:db8::/32, an address, or a list of them";
    let mut f = Fields::of(d, node, "a map such as {proto: tcp, dst_port: 443}")?;
    let prefixes = |d: &mut Decoder, f: &mut Fields<'_>, name| {
        f.optional(d, name, |d, n| d.one_or_more(n, PREFIX, |d, n| prefix(d, n, PREFIX))).unwrap_or_default()
    };
    let src = prefixes(d, &mut f, "src");
    let dst = prefixes(d, &mut f, "dst");
    let ranges = |d: &mut Decoder, f: &mut Fields<'_>, name, last, what| {
        f.optional(d, name, |d, n| d.one_or_more(n, what, |d, n| num_range(d, n, last, what))).unwrap_or_default()
    };
    let matches = Match {
        proto: f.optional(d, "proto", proto),
        src,
        dst,
        src_port: ranges(d, &mut f, "src_port", u16::MAX, PORT),
        dst_port: ranges(d, &mut f, "dst_port", u16::MAX, PORT),
        vlan: ranges(d, &mut f, "vlan", 4094, VLAN),
    };
    if !f.finish(d) {
        d.broken.matches.insert(index);
    }
    Some(matches)
}

fn proto(d: &mut Decoder, node: &Node) -> Option<u8> {
    if let Value::Text(text) = &node.value {
        if let Some(number) = proto_number(text) {
            return Some(number);
        }
        let help = crate::suggest::did_you_mean(text, proto_names());
        let names = super::one_of(proto_names());
        let message = format!("{}: found {}, expected {names}, or a number from 0 to 255", d.path, quote(text));
        d.push(Diagnostic::error(node.span, message).maybe_help(help));
        return None;
    }
    d.int(node, 0..=255)
}

/// An address prefix. Bits after the length are an error: somebody meant another length or another address.
pub(super) fn prefix(d: &mut Decoder, node: &Node, what: &str) -> Option<Prefix> {
    let text = d.text(node, what)?;
    let (addr, len) = match text.split_once('/') {
        Some((addr, len)) => (addr, Some(len)),
        None => (text, None),
    };
    let Ok(addr) = addr.parse::<std::net::IpAddr>() else { return d.expected(node, what) };
    let most = Prefix::max_len(addr);
    let len = match len {
        None => most,
        Some(len) => match len.parse::<u8>() {
            Ok(n) if n <= most && !len.starts_with('+') => n,
            _ => return d.expected(node, format_args!("a prefix length from 0 to {most}")),
        },
    };
    let prefix = Prefix::new(addr, len)?;
    if prefix.addr != addr {
        return d.expected(node, format_args!("no bits after the first {len}: {prefix}"));
    }
    Some(prefix)
}

/// A number or a range, at most `most`.
pub(super) fn num_range(d: &mut Decoder, node: &Node, most: u16, what: &str) -> Option<NumRange> {
    let number = |text: &str| {
        let text = text.trim();
        let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        text.parse::<u16>().ok().filter(|n| digits && *n <= most)
    };
    let range = match &node.value {
        Value::Int(i) => u16::try_from(*i).ok().filter(|n| *n <= most).map(|n| (n, n)),
        Value::Text(text) => match text.split_once('-') {
            Some((first, last)) => number(first).zip(number(last)),
            None => number(text).map(|n| (n, n)),
        },
        _ => None,
    };
    match range {
        Some((first, last)) if first <= last => Some(NumRange { first, last }),
        Some((first, last)) => d.expected(node, format_args!("the smaller number first: {last}-{first}")),
        None => d.expected(node, what),
    }
}
