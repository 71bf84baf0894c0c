//! The layers that a frame can be written in, and how their bytes come about.

use super::frame::{MAX_FRAME, from_hex};
use std::net::{Ipv4Addr, Ipv6Addr};

/// Name, fields that may stand without their names, fields that need them.
const LAYERS: &[(&str, &[&str], &[&str])] = &[
    ("eth", &["dst", "src"], &["type"]),
    ("vlan", &["id"], &["pcp", "dei", "type"]),
    ("qinq", &["id"], &["pcp", "dei", "type"]),
    ("arp", &["op", "sha", "spa", "tha", "tpa"], &[]),
    ("ipv4", &["src", "dst"], &["ttl", "tos", "id", "df", "mf", "frag", "proto", "len", "csum", "opt"]),
    ("ipv6", &["src", "dst"], &["hop", "tc", "flow", "next", "len"]),
    ("hopopts", &["data"], &["next"]),
    ("dstopts", &["data"], &["next"]),
    ("routing", &["data"], &["next"]),
    ("frag", &["off", "more", "id"], &["next"]),
    ("udp", &["src", "dst"], &["len", "csum"]),
    ("tcp", &["src", "dst"], &["seq", "ack", "flags", "win", "csum", "opt"]),
    ("icmp", &["type", "code"], &["id", "seq", "csum"]),
    ("icmp6", &["type", "code"], &["id", "seq", "csum"]),
    ("hex", &["bytes"], &[]),
    ("text", &["text"], &[]),
    ("pad", &["n"], &[]),
    ("tail", &["n"], &[]),
    ("cut", &["n"], &[]),
];

/// The letters of `tcp(flags=…)`, from bit 0 (RFC 9293 §3.1).
pub(super) const TCP_FLAGS: &str = "FSRPAUEC";

/// One layer of a frame as written.
pub(super) struct Layer<'a> {
    name: &'static str,
    fields: Vec<(&'static str, &'a str)>,
}

impl<'a> Layer<'a> {
    /// Reads `name` or `name(value, key=value)`.
    pub(super) fn parse(text: &'a str) -> Result<Self, String> {
        let (name, rest) = text.split_once('(').unwrap_or((text, ")"));
        let args = rest.strip_suffix(')').ok_or_else(|| format!("`{text}` goes on after its `)`"))?;
        let Some((name, places, keys)) = LAYERS.iter().find(|l| l.0 == name.trim()) else {
            let known: Vec<_> = LAYERS.iter().map(|l| l.0).collect();
            return Err(format!("no layer `{}`; there are {}", name.trim(), known.join(", ")));
        };
        let mut fields: Vec<(&'static str, &'a str)> = Vec::new();
        // Text may hold commas and equals signs.
        let parts: Vec<&str> = if *name == "text" { vec![args] } else { args.split(',').collect() };
        for (i, part) in parts.into_iter().map(str::trim).enumerate().filter(|(_, p)| !p.is_empty()) {
            let (key, value) = match part.split_once('=') {
                Some((k, v)) if *name != "text" => {
                    let k = k.trim();
                    let key = places.iter().chain(keys.iter()).find(|n| **n == k);
                    (
                        key.ok_or_else(|| format!("`{name}` has no field `{k}`; it has {places:?} and {keys:?}"))?,
                        v.trim(),
                    )
                }
                _ => (places.get(i).ok_or_else(|| format!("`{name}`: `{part}` is one value too many"))?, part),
            };
            if fields.iter().any(|f| f.0 == *key) {
                return Err(format!("`{name}`: `{key}` is there twice"));
            }
            fields.push((key, value));
        }
        Ok(Self { name, fields })
    }

    fn get(&self, key: &str) -> Option<&'a str> {
        self.fields.iter().find(|f| f.0 == key).map(|f| f.1)
    }

    fn wrong(&self, key: &str, value: &str, expected: &str) -> String {
        format!("{}({key}={value}): expected {expected}", self.name)
    }

    fn number(&self, key: &str, default: u64, max: u64) -> Result<u64, String> {
        let Some(text) = self.get(key) else { return Ok(default) };
        let n = match text.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16).ok(),
            None => text.parse().ok(),
        };
        n.filter(|n| *n <= max).ok_or_else(|| self.wrong(key, text, &format!("a number up to {max}")))
    }

    fn u8(&self, key: &str, default: u8) -> Result<u8, String> {
        Ok(self.number(key, default.into(), 0xff)? as u8)
    }

    fn u16(&self, key: &str, default: u16) -> Result<u16, String> {
        Ok(self.number(key, default.into(), 0xffff)? as u16)
    }

    fn bytes(&self, key: &str) -> Result<Vec<u8>, String> {
        self.get(key).map_or(Ok(Vec::new()), from_hex).map_err(|e| format!("{}({key}=…): {e}", self.name))
    }

    fn ip4(&self, key: &str, default: u8) -> Result<Ipv4Addr, String> {
        let Some(text) = self.get(key) else { return Ok(Ipv4Addr::new(10, 0, 0, default)) };
        text.parse().map_err(|_| self.wrong(key, text, "an IPv4 address"))
    }

    fn ip6(&self, key: &str, default: u16) -> Result<Ipv6Addr, String> {
        let Some(text) = self.get(key) else { return Ok(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, default)) };
        text.parse().map_err(|_| self.wrong(key, text, "an IPv6 address"))
    }

    /// A MAC address; like in IPv6 one `::` stands for the zeros.
    fn mac(&self, key: &str, default: u8) -> Result<[u8; 6], String> {
        let Some(text) = self.get(key) else { return Ok([2, 0, 0, 0, 0, default]) };
        let group = |s: &str| -> Option<Vec<u8>> {
            s.split(':').filter(|g| !g.is_empty()).map(|g| u8::from_str_radix(g, 16).ok()).collect()
        };
        let mac = match text.split_once("::") {
            Some((a, b)) => group(a).zip(group(b)).filter(|(a, b)| a.len() + b.len() < 6).map(|(mut a, b)| {
                a.resize(6 - b.len(), 0);
                a.extend(b);
                a
            }),
            None => group(text),
        };
        mac.and_then(|m| m.try_into().ok()).ok_or_else(|| self.wrong(key, text, "a MAC address"))
    }

    /// `None` for what is not a header.
    fn ethertype(&self) -> Option<u16> {
        Some(match self.name {
            "vlan" => 0x8100,
            "qinq" => 0x88a8,
            "arp" => 0x0806,
            "ipv4" => 0x0800,
            "ipv6" => 0x86dd,
            _ => return None,
        })
    }

    fn protocol(&self) -> Option<u8> {
        Some(match self.name {
            "hopopts" => 0,
            "icmp" => 1,
            "ipv4" => 4,
            "tcp" => 6,
            "udp" => 17,
            "ipv6" => 41,
            "routing" => 43,
            "frag" => 44,
            "icmp6" => 58,
            "dstopts" => 60,
            _ => return None,
        })
    }
}

/// The bytes of a frame, built from the innermost layer out, since each header needs what follows it.
pub(super) fn build(layers: &[Layer<'_>]) -> Result<Vec<u8>, String> {
    let (mut body, mut tail, mut cut): (Vec<u8>, _, _) = (Vec::new(), 0, None);
    for (i, layer) in layers.iter().enumerate().rev() {
        let inner = layers.get(i + 1);
        // 0x88b5 and 253 are the numbers set apart for experiments (IEEE 802, RFC 3692).
        let ethertype = || layer.u16("type", inner.and_then(Layer::ethertype).unwrap_or(0x88b5));
        let protocol = |key| layer.u8(key, inner.and_then(Layer::protocol).unwrap_or(253));
        let head = match layer.name {
            "eth" => [&layer.mac("dst", 2)?[..], &layer.mac("src", 1)?, &ethertype()?.to_be_bytes()].concat(),
            "vlan" | "qinq" => {
                let tag = layer.number("pcp", 0, 7)? << 13 | layer.number("dei", 0, 1)? << 12;
                let tag = (tag | layer.number("id", 1, 4095)?) as u16;
                [tag.to_be_bytes(), ethertype()?.to_be_bytes()].concat()
            }
            "arp" => arp(layer)?,
            "ipv4" => ipv4(layer, protocol("proto")?, body.len())?,
            "ipv6" => {
                let word = 6 << 28 | u32::from(layer.u8("tc", 0)?) << 20 | layer.number("flow", 0, 0xf_ffff)? as u32;
                let (src, dst) = (layer.ip6("src", 1)?.octets(), layer.ip6("dst", 2)?.octets());
                let len = layer.u16("len", body.len() as u16)?.to_be_bytes();
                [&word.to_be_bytes()[..], &len, &[protocol("next")?, layer.u8("hop", 64)?], &src, &dst].concat()
            }
            "hopopts" | "dstopts" | "routing" => {
                let data = if layer.get("data").is_some() { layer.bytes("data")? } else { vec![1, 4, 0, 0, 0, 0] };
                if data.len() % 8 != 6 || data.len() > 2046 {
                    return Err(format!("{}: {} bytes of data; expected 6, 14, 22 …", layer.name, data.len()));
                }
                [&[protocol("next")?, (data.len() / 8) as u8][..], &data].concat()
            }
            "frag" => {
                let off = offset(layer, "off")? << 3 | layer.number("more", 0, 1)? as u16;
                let id = layer.number("id", 0, u32::MAX.into())? as u32;
                [&[protocol("next")?, 0][..], &off.to_be_bytes(), &id.to_be_bytes()].concat()
            }
            "udp" | "tcp" | "icmp" | "icmp6" => transport(layer, &layers[..i], &body)?,
            "hex" => layer.bytes("bytes")?,
            "text" => layer.get("text").unwrap_or_default().trim_matches('"').as_bytes().to_vec(),
            "pad" => vec![0; layer.number("n", 0, MAX_FRAME as u64)? as usize],
            "tail" if inner.is_none_or(|l| l.name == "cut") => {
                tail = layer.number("n", 0, MAX_FRAME as u64)? as usize;
                continue;
            }
            "cut" if inner.is_none() => {
                cut = Some(layer.number("n", 0, MAX_FRAME as u64)? as usize);
                continue;
            }
            name => return Err(format!("`{name}` can only be the last layer")),
        };
        body.splice(0..0, head);
    }
    body.resize(body.len() + tail, 0);
    body.truncate(cut.unwrap_or(usize::MAX));
    Ok(body)
}

/// A fragment offset, written in bytes.
fn offset(layer: &Layer<'_>, key: &str) -> Result<u16, String> {
    let bytes = layer.u16(key, 0)?;
    if bytes % 8 == 0 { Ok(bytes / 8) } else { Err(layer.wrong(key, &bytes.to_string(), "a multiple of 8 bytes")) }
}

fn arp(layer: &Layer<'_>) -> Result<Vec<u8>, String> {
    let op: u16 = match layer.get("op") {
        None | Some("request") => 1,
        Some("reply") => 2,
        Some(_) => layer.u16("op", 1)?,
    };
    let (sha, tha) = (layer.mac("sha", 1)?, layer.mac("tha", 0)?);
    let (spa, tpa) = (layer.ip4("spa", 1)?.octets(), layer.ip4("tpa", 2)?.octets());
    Ok([&[0, 1, 8, 0, 6, 4][..], &op.to_be_bytes(), &sha, &spa, &tha, &tpa].concat())
}

fn ipv4(layer: &Layer<'_>, protocol: u8, body: usize) -> Result<Vec<u8>, String> {
    let options = layer.bytes("opt")?;
    if options.len() > 40 || options.len() % 4 != 0 {
        return Err(format!("ipv4(opt=…): {} bytes; expected a multiple of 4, up to 40", options.len()));
    }
    let size = 20 + options.len();
    let len = layer.u16("len", (size + body) as u16)?.to_be_bytes();
    let frag = (layer.number("df", 0, 1)? << 14 | layer.number("mf", 0, 1)? << 13) as u16 | offset(layer, "frag")?;
    let (src, dst) = (layer.ip4("src", 1)?.octets(), layer.ip4("dst", 2)?.octets());
    let first = [0x40 | (size / 4) as u8, layer.u8("tos", 0)?];
    let life = [layer.u8("ttl", 64)?, protocol, 0, 0];
    let id = layer.u16("id", 0)?.to_be_bytes();
    let mut head = [&first[..], &len, &id, &frag.to_be_bytes(), &life, &src, &dst, &options].concat();
    let sum = layer.u16("csum", checksum(&head))?;
    head[10..12].copy_from_slice(&sum.to_be_bytes());
    Ok(head)
}

fn transport(layer: &Layer<'_>, outer: &[Layer<'_>], body: &[u8]) -> Result<Vec<u8>, String> {
    let (mut head, at) = match layer.name {
        "udp" => {
            let len = layer.u16("len", (8 + body.len()) as u16)?;
            ([layer.u16("src", 1000)?, layer.u16("dst", 2000)?, len, 0].map(u16::to_be_bytes).concat(), 6)
        }
        "tcp" => (tcp(layer)?, 16),
        _ => {
            let kind = [layer.u8("type", if layer.name == "icmp" { 8 } else { 128 })?, layer.u8("code", 0)?, 0, 0];
            ([&kind[..], &layer.u16("id", 0)?.to_be_bytes(), &layer.u16("seq", 0)?.to_be_bytes()].concat(), 2)
        }
    };
    // The pseudo header (RFC 768, RFC 9293 §3.1, RFC 8200 §8.1); ICMP for IPv4 has none.
    let len = (head.len() + body.len()) as u32;
    let protocol = u32::from(layer.protocol().unwrap_or(0));
    let pseudo = match outer.iter().rev().find(|l| matches!(l.name, "ipv4" | "ipv6")) {
        _ if layer.name == "icmp" => Vec::new(),
        Some(ip) if ip.name == "ipv4" => [&ip.ip4("src", 1)?.octets()[..], &ip.ip4("dst", 2)?.octets()].concat(),
        Some(ip) => [&ip.ip6("src", 1)?.octets()[..], &ip.ip6("dst", 2)?.octets()].concat(),
        None => Vec::new(),
    };
    let numbers = if pseudo.is_empty() { Vec::new() } else { [protocol, len].map(u32::to_be_bytes).concat() };
    let sum = match checksum(&[&pseudo, &numbers, &head[..], body].concat()) {
        0 if layer.name == "udp" => 0xffff,
        sum => sum,
    };
    let sum = layer.u16("csum", sum)?;
    head[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    Ok(head)
}

fn tcp(layer: &Layer<'_>) -> Result<Vec<u8>, String> {
    let options = layer.bytes("opt")?;
    if options.len() > 40 || options.len() % 4 != 0 {
        return Err(format!("tcp(opt=…): {} bytes; expected a multiple of 4, up to 40", options.len()));
    }
    let mut flags = 0_u8;
    for c in layer.get("flags").unwrap_or("A").chars().filter(|c| *c != '-') {
        let bit = TCP_FLAGS.find(c).ok_or_else(|| layer.wrong("flags", &c.to_string(), "letters of FSRPAUEC"))?;
        flags |= 1 << bit;
    }
    let ports = [layer.u16("src", 1000)?, layer.u16("dst", 2000)?].map(u16::to_be_bytes).concat();
    let seq = (layer.number("seq", 0, u32::MAX.into())? as u32).to_be_bytes();
    let ack = (layer.number("ack", 0, u32::MAX.into())? as u32).to_be_bytes();
    let win = layer.u16("win", 0xffff)?.to_be_bytes();
    let offset = [(((20 + options.len()) / 4) << 4) as u8, flags];
    Ok([&ports[..], &seq, &ack, &offset, &win, &[0; 4], &options].concat())
}

/// The Internet checksum (RFC 1071).
fn checksum(bytes: &[u8]) -> u16 {
    let word = |c: &[u8]| u32::from(c[0]) << 8 | c.get(1).map_or(0, |b| u32::from(*b));
    let mut sum: u32 = bytes.chunks(2).map(word).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}
