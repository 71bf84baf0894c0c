//! Ports.

use super::Decoder;
use super::fields::Fields;
use super::spec::{num_range, prefix};
use super::traffic;
use crate::diag::Diagnostic;
use crate::model::{
    FRAME_BYTES, Generator, Laps, MAX_RATE, Memif, MemifRole, Netdev, NumRange, Pcap, Port, Rate, Schedule, Sink,
    proto_number,
};
use crate::tree::{Entry, Node, Value, quote};
use std::path::PathBuf;

/// One port: a map with exactly one of the words.
pub(super) fn port(d: &mut Decoder, node: &Node) -> Option<Port> {
    let what = || format!("a map with one of {}", super::one_of(Port::WORDS.iter().copied()));
    let Value::Map(entries) = &node.value else {
        if let Value::Text(text) = &node.value
            && text == "sink"
        {
            return d.expected(node, "a map: `sink: {}`");
        }
        return d.expected(node, what());
    };
    let own: Vec<&Entry> = entries.iter().filter(|e| !e.key.starts_with("x-")).collect();
    let mut known = own.iter().filter(|e| Port::WORDS.contains(&e.key.as_str()));
    let Some(first) = known.next() else {
        match own.first() {
            None => d.error(node.span, format_args!("found no kind of port, expected {}", what())),
            Some(e) => unknown(d, e),
        }
        return None;
    };
    for e in &own {
        if !Port::WORDS.contains(&e.key.as_str()) {
            unknown(d, e);
        }
    }
    if let Some(second) = known.next() {
        let message = format!("found `{}` and `{}`, expected one of them", first.key, second.key);
        d.error(second.key_span, message);
        return None;
    }
    let word = first.key.as_str();
    let node = &first.node;
    d.within(word, |d| match word {
        "pcap" => pcap(d, node).map(Port::Pcap),
        "generator" => generator(d, node).map(Port::Generator),
        "sink" => sink(d, node).map(Port::Sink),
        "af_packet" => netdev(d, node).map(Port::AfPacket),
        "af_xdp" => netdev(d, node).map(Port::AfXdp),
        "tap" => netdev(d, node).map(Port::Tap),
        "memif" => memif(d, node).map(Port::Memif),
        "vdev" => vdev(d, node).map(Port::Vdev),
        _ => pci(d, node).map(Port::Pci),
    })
}

fn unknown(d: &mut Decoder, e: &Entry) {
    let help = crate::suggest::did_you_mean(&e.key, Port::WORDS.iter().copied());
    let words = super::one_of(Port::WORDS.iter().copied());
    let message = format!("{}: unknown kind of port {}, expected {words}", d.path, quote(&e.key));
    d.push(Diagnostic::error(e.key_span, message).maybe_help(help));
}

pub(super) fn file_name(d: &mut Decoder, node: &Node) -> Option<PathBuf> {
    d.filled(node, "the path of a file").map(PathBuf::from)
}

pub(super) fn rate(d: &mut Decoder, node: &Node, recorded: bool) -> Option<Rate> {
    let words = if recorded { "`max`, `recorded`" } else { "`max`" };
    let what = format!("{words}, or a rate such as 14.88Mpps, 500kpps or 10Gbps, at most {MAX_RATE:.0e}");
    let Value::Text(text) = &node.value else { return d.expected(node, what) };
    match Rate::parse(text) {
        Some(Rate::Recorded) if !recorded => d.expected(node, what),
        Some(rate) => Some(rate),
        None => d.expected(node, what),
    }
}

fn laps(d: &mut Decoder, node: &Node) -> Option<Laps> {
    match &node.value {
        Value::Bool(true) => Some(Laps::Forever),
        Value::Bool(false) => Some(Laps::default()),
        Value::Int(n) if u32::try_from(*n).is_ok_and(|n| n > 0) => u32::try_from(*n).ok().map(Laps::Times),
        _ => d.expected(node, "`true`, `false`, or how many times the file is read"),
    }
}

fn pcap(d: &mut Decoder, node: &Node) -> Option<Pcap> {
    let mut f = Fields::of(d, node, "a map with `read` or `write`")?;
    let pcap = Pcap {
        read: f.optional(d, "read", file_name),
        write: f.optional(d, "write", file_name),
        laps: f.optional(d, "loop", laps).unwrap_or_default(),
        rate: f.optional(d, "rate", |d, n| rate(d, n, true)).unwrap_or_default(),
        rewrite: f.optional(d, "rewrite", traffic::rewrite),
        lossless: f.optional(d, "lossless", Decoder::bool),
    };
    if pcap.read.is_none() && pcap.write.is_none() && !f.broken {
        d.error(node.span, "found neither `read` nor `write`, expected one of them or both");
        return None;
    }
    if pcap.read.is_none() && !f.broken {
        for name in ["loop", "rate", "rewrite", "lossless"] {
            if let Some(node) = f.node(name) {
                d.error(node.span, format_args!("found `{name}` without `read`, expected it where a file is read"));
            }
        }
    }
    if pcap.read.is_some() && pcap.read == pcap.write {
        let node = f.node("write").unwrap_or(node);
        d.error(node.span, "found the same file as `read` and `write`, expected two");
    }
    // Without a file that could be read its role is not known.
    let role_known =
        pcap.read.is_some() == f.node("read").is_some() && pcap.write.is_some() == f.node("write").is_some();
    f.finish(d);
    role_known.then_some(pcap)
}

pub(super) fn frame_bytes(d: &mut Decoder, node: &Node) -> Option<u16> {
    d.int(node, FRAME_BYTES)
}

fn ports(d: &mut Decoder, node: &Node) -> Option<NumRange> {
    num_range(d, node, u16::MAX, "a port, or a range such as 80-443")
}

fn generator(d: &mut Decoder, node: &Node) -> Option<Generator> {
    const PREFIX: &str = "a prefix such as 198.18.0.0/16";
    let mut f = Fields::of(d, node, "a map such as {frame_bytes: 64, flows: 1000, rate: max}")?;
    let base = Generator::default();
    let g = Generator {
        frame_bytes: f.optional(d, "frame_bytes", frame_bytes),
        mix: f.optional(d, "mix", traffic::mix),
        flows: f.optional(d, "flows", |d, n| d.int(n, 1..=100_000_000)).unwrap_or(base.flows),
        order: f.optional(d, "order", traffic::order).unwrap_or_default(),
        working_set: f.optional(d, "working_set", traffic::group),
        hosts: f.optional(d, "hosts", traffic::hosts),
        flow_packets: f.optional(d, "flow_packets", traffic::flow_packets),
        rate: f.optional(d, "rate", |d, n| rate(d, n, false)).unwrap_or(base.rate),
        schedule: f.optional(d, "schedule", traffic::schedule).unwrap_or_default(),
        seed: f.optional(d, "seed", |d, n| d.int(n, 0..=u64::MAX)).unwrap_or(base.seed),
        count: f.optional(d, "count", |d, n| d.int(n, 1..=u64::MAX)),
        lossless: f.optional(d, "lossless", Decoder::bool),
        proto: f
            .optional(d, "proto", |d, n| d.word(n, &["udp", "tcp"].map(|w| (w, proto_number(w).unwrap_or_default()))))
            .unwrap_or(base.proto),
        src: f.optional(d, "src", |d, n| prefix(d, n, PREFIX)).unwrap_or(base.src),
        dst: f.optional(d, "dst", |d, n| prefix(d, n, PREFIX)).unwrap_or(base.dst),
        src_port: f.optional(d, "src_port", ports).unwrap_or(base.src_port),
        dst_port: f.optional(d, "dst_port", ports).unwrap_or(base.dst_port),
        vlan: f.optional(d, "vlan", traffic::tags).unwrap_or_default(),
        src_mac: f.optional(d, "src_mac", traffic::mac).unwrap_or(base.src_mac),
        dst_mac: f.optional(d, "dst_mac", traffic::mac).unwrap_or(base.dst_mac),
        stamp: f.optional(d, "stamp", Decoder::bool).unwrap_or_default(),
    };
    if let Some(at) = f.node("schedule").filter(|_| !f.broken && g.schedule != Schedule::Constant) {
        traffic::check_rate(d, at, &g);
    }
    if g.frame_bytes.is_some() && g.mix.is_some() {
        let place = f.node("mix").map_or(node.span, |n| n.span);
        d.error(place, "found `mix` besides `frame_bytes`, expected one of them");
    }
    if !f.broken && g.src.addr.is_ipv4() != g.dst.addr.is_ipv4() {
        let place = f.node("dst").or(f.node("src")).map_or(node.span, |n| n.span);
        d.error(place, format_args!("found source {} and destination {}, expected the same IP version", g.src, g.dst));
    }
    f.finish(d);
    Some(g)
}

fn sink(d: &mut Decoder, node: &Node) -> Option<Sink> {
    let mut f = Fields::of(d, node, "a map, empty or with `check`: `sink: {}`")?;
    let check = f.optional(d, "check", Decoder::bool).unwrap_or_default();
    f.finish(d);
    Some(Sink { check })
}

fn netdev(d: &mut Decoder, node: &Node) -> Option<Netdev> {
    /// `IFNAMSIZ` of the kernel, less the NUL.
    const MAX_NAME: usize = 15;
    let mut f = Fields::of(d, node, "a map with `interface`")?;
    let interface = f.required(d, "interface", |d, n| {
        let what = format!("an interface name of 1 to {MAX_NAME} characters without `/`, `,` and spaces");
        let name = d.filled(n, &what)?;
        // As the kernel's dev_valid_name(); a comma would end the device argument.
        let bad = name.len() > MAX_NAME
            || name == "."
            || name == ".."
            || name.chars().any(|c| matches!(c, '/' | ':' | ',') || c.is_whitespace() || c.is_control());
        if bad { d.expected(n, what) } else { Some(name) }
    });
    f.finish(d);
    Some(Netdev { interface: interface? })
}

fn memif(d: &mut Decoder, node: &Node) -> Option<Memif> {
    const WHAT: &str = "a socket's path, or an abstract name that begins with `@`, without commas, at most 107 bytes";
    const ROLES: &[(&str, MemifRole)] = &[("server", MemifRole::Server), ("client", MemifRole::Client)];
    let mut f = Fields::of(d, node, "a map with `socket` and `role`")?;
    let socket = f.required(d, "socket", |d, n| {
        let socket = d.filled(n, WHAT)?;
        // sockaddr_un has 108 bytes; a comma would end the device argument.
        if socket.len() > 107 || socket.contains(',') || socket == "@" { d.expected(n, WHAT) } else { Some(socket) }
    });
    let role = f.required(d, "role", |d, n| d.word(n, ROLES));
    let id = f.optional(d, "id", |d, n| d.int(n, 0..=u32::MAX)).unwrap_or_default();
    f.finish(d);
    Some(Memif { socket: socket?, role: role?, id })
}

fn vdev(d: &mut Decoder, node: &Node) -> Option<String> {
    const WHAT: &str = "a virtual device as DPDK names it, such as net_null0 or \"net_tap0,iface=tap0\"";
    let text = d.filled(node, WHAT)?;
    let name = text.split(',').next().unwrap_or_default();
    let good = text.len() <= 1024
        && !name.is_empty()
        && name.len() < 64 // RTE_DEV_NAME_MAX_LEN
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.'))
        && name.starts_with(|c: char| c.is_ascii_alphabetic())
        && !text.contains(char::is_control);
    if good { Some(text) } else { d.expected(node, WHAT) }
}

/// `0000:03:00.0` or `03:00.0`, with device arguments after a comma.
fn pci(d: &mut Decoder, node: &Node) -> Option<String> {
    const WHAT: &str = "a PCI address in quotes, such as \"0000:03:00.0\"";
    let text = d.filled(node, WHAT)?;
    let address = text.split(',').next().unwrap_or_default();
    let hex = |part: &str, most: usize| (1..=most).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_hexdigit());
    let bdf: Vec<&str> = address.split(':').collect();
    let (domain, bus, rest) = match bdf.as_slice() {
        [domain, bus, rest] => (*domain, *bus, *rest),
        [bus, rest] => ("0", *bus, *rest),
        _ => return d.expected(node, WHAT),
    };
    let good = text.len() <= 1024
        && !text.contains(char::is_control)
        && hex(domain, 8)
        && hex(bus, 2)
        && rest.split_once('.').is_some_and(|(dev, func)| hex(dev, 2) && matches!(func.as_bytes(), [b'0'..=b'7']));
    if good { Some(text) } else { d.expected(node, WHAT) }
}
