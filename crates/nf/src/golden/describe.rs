//! From the bytes of a frame back to its layers, for messages and for `UPDATE=1`. A guess: whoever calls
//! builds the text again and compares.

use super::layers::TCP_FLAGS;
use std::fmt::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr};

/// The layers of `frame`; with `checksums` these are written out, for frames in which they are wrong.
pub(super) fn layers(frame: &[u8], checksums: bool) -> Option<String> {
    let (dst, src) = (mac(frame.get(..6)?)?, mac(frame.get(6..12)?)?);
    let mut out = format!("eth({dst}, {src}");
    let (mut kind, mut rest) = (be16(frame, 12)?, frame.get(14..)?);
    while matches!(kind, 0x8100 | 0x88a8) {
        let tag = be16(rest, 0)?;
        let _ = write!(out, ")/{}({}", if kind == 0x8100 { "vlan" } else { "qinq" }, tag & 0xfff);
        field(&mut out, "pcp", tag >> 13, 0);
        field(&mut out, "dei", tag >> 12 & 1, 0);
        (kind, rest) = (be16(rest, 2)?, rest.get(4..)?);
    }
    match kind {
        0x0800 => ipv4(&mut out, rest, checksums)?,
        0x86dd => ipv6(&mut out, rest, checksums)?,
        0x0806 => arp(&mut out, rest)?,
        _ => {
            let _ = write!(out, ", type=0x{kind:04x})");
            data(&mut out, rest);
        }
    }
    Some(out)
}

fn field<T: PartialEq + std::fmt::Display>(out: &mut String, name: &str, value: T, usual: T) {
    if value != usual {
        let _ = write!(out, ", {name}={value}");
    }
}

fn be16(b: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(b.get(at..at + 2)?.try_into().ok()?))
}

fn be32(b: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(b.get(at..at + 4)?.try_into().ok()?))
}

fn ip4(b: &[u8], at: usize) -> Option<Ipv4Addr> {
    be32(b, at).map(Ipv4Addr::from)
}

fn ip6(b: &[u8], at: usize) -> Option<Ipv6Addr> {
    Some(Ipv6Addr::from(<[u8; 16]>::try_from(b.get(at..at + 16)?).ok()?))
}

/// A MAC address with the zeros in its middle as `::`.
fn mac(b: &[u8]) -> Option<String> {
    Some(match b {
        [a, 0, 0, 0, 0, f] => format!("{a:02x}::{f:02x}"),
        [a, b, c, d, e, f] => format!("{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}"),
        _ => return None,
    })
}

fn data(out: &mut String, bytes: &[u8]) {
    let zeros = bytes.iter().rev().take_while(|b| **b == 0).count();
    let (body, pad) = if zeros > 4 { bytes.split_at(bytes.len() - zeros) } else { (bytes, &[][..]) };
    if !body.is_empty() {
        let hex: Vec<_> = body.iter().map(|b| format!("{b:02x}")).collect();
        let _ = write!(out, "/hex({})", hex.join(" "));
    }
    if !pad.is_empty() {
        let _ = write!(out, "/pad({})", pad.len());
    }
}

/// What follows the IP packet in the frame.
fn tail(out: &mut String, n: usize) {
    if n > 0 {
        let _ = write!(out, "/tail({n})");
    }
}

fn options(out: &mut String, bytes: &[u8]) {
    if !bytes.is_empty() {
        let hex: Vec<_> = bytes.iter().map(|b| format!("{b:02x}")).collect();
        let _ = write!(out, ", opt={}", hex.join(" "));
    }
}

fn ipv4(out: &mut String, b: &[u8], checksums: bool) -> Option<()> {
    let (head, len) = (usize::from(b.first()? & 15) * 4, usize::from(be16(b, 2)?));
    let _ = write!(out, ")/ipv4({}, {}", ip4(b, 12)?, ip4(b, 16)?);
    let frag = be16(b, 6)?;
    field(out, "ttl", b[8], 64);
    field(out, "tos", b[1], 0);
    field(out, "id", be16(b, 4)?, 0);
    field(out, "df", frag >> 14 & 1, 0);
    field(out, "mf", frag >> 13 & 1, 0);
    field(out, "frag", (frag & 0x1fff) * 8, 0);
    if checksums {
        let _ = write!(out, ", csum=0x{:04x}", be16(b, 10)?);
    }
    options(out, b.get(20..head)?);
    // A later fragment has no transport header.
    let protocol = if frag & 0x1fff == 0 { Some(b[9]) } else { None };
    transport(out, protocol, ("proto", b[9]), b.get(head..len)?, checksums)?;
    tail(out, b.len() - len);
    Some(())
}

fn ipv6(out: &mut String, b: &[u8], checksums: bool) -> Option<()> {
    let len = 40 + usize::from(be16(b, 4)?);
    let (word, mut next, mut rest) = (be32(b, 0)?, *b.get(6)?, b.get(40..len)?);
    let _ = write!(out, ")/ipv6({}, {}", ip6(b, 8)?, ip6(b, 24)?);
    field(out, "hop", b[7], 64);
    field(out, "tc", word >> 20 & 0xff, 0);
    field(out, "flow", word & 0xf_ffff, 0);
    let mut later = false;
    while let Some(name) = match next {
        0 => Some("hopopts"),
        43 => Some("routing"),
        44 => Some("frag"),
        60 => Some("dstopts"),
        _ => None,
    } {
        let size = if next == 44 { 8 } else { 8 + usize::from(*rest.get(1)?) * 8 };
        let head = rest.get(..size)?;
        if next == 44 {
            let off = be16(head, 2)?;
            later |= off >> 3 != 0;
            let _ = write!(out, ")/frag({}, {}, {}", off & !7, off & 1, be32(head, 4)?);
        } else {
            let hex: Vec<_> = head[2..].iter().map(|b| format!("{b:02x}")).collect();
            let _ = write!(out, ")/{name}({}", hex.join(" "));
        }
        (next, rest) = (head[0], &rest[size..]);
        if later {
            break;
        }
    }
    transport(out, (!later).then_some(next), ("next", next), rest, checksums)?;
    tail(out, b.len() - len);
    Some(())
}

fn transport(out: &mut String, protocol: Option<u8>, number: (&str, u8), b: &[u8], checksums: bool) -> Option<()> {
    let checksum = |out: &mut String, at| -> Option<()> {
        if checksums {
            let _ = write!(out, ", csum=0x{:04x}", be16(b, at)?);
        }
        Some(())
    };
    let (a, z) = (be16(b, 0), be16(b, 2));
    match protocol {
        Some(17) if b.len() >= 8 => {
            let _ = write!(out, ")/udp({}, {}", a?, z?);
            field(out, "len", usize::from(be16(b, 4)?), b.len());
            checksum(out, 6)?;
            out.push(')');
            data(out, &b[8..]);
        }
        Some(6) if b.len() >= 20 => {
            let flags: String =
                TCP_FLAGS.chars().enumerate().filter(|(i, _)| b[13] >> i & 1 == 1).map(|f| f.1).collect();
            let _ = write!(out, ")/tcp({}, {}, seq={}, ack={}", a?, z?, be32(b, 4)?, be32(b, 8)?);
            let _ = write!(out, ", flags={}", if flags.is_empty() { "-" } else { &flags });
            field(out, "win", be16(b, 14)?, 0xffff);
            checksum(out, 16)?;
            let head = usize::from(b[12] >> 4) * 4;
            options(out, b.get(20..head)?);
            out.push(')');
            data(out, b.get(head..)?);
        }
        Some(n @ (1 | 58)) if b.len() >= 8 => {
            let _ = write!(out, ")/{}({}, {}", if n == 1 { "icmp" } else { "icmp6" }, b[0], b[1]);
            field(out, "id", be16(b, 4)?, 0);
            field(out, "seq", be16(b, 6)?, 0);
            checksum(out, 2)?;
            out.push(')');
            data(out, &b[8..]);
        }
        _ => {
            let _ = write!(out, ", {}={})", number.0, number.1);
            data(out, b);
        }
    }
    Some(())
}

fn arp(out: &mut String, b: &[u8]) -> Option<()> {
    let op = be16(b, 6)?;
    let name = match op {
        1 => "request".to_owned(),
        2 => "reply".to_owned(),
        n => n.to_string(),
    };
    let _ = write!(out, ")/arp({name}, {}, {}", mac(b.get(8..14)?)?, ip4(b, 14)?);
    let _ = write!(out, ", {}, {})", mac(b.get(18..24)?)?, ip4(b, 24)?);
    data(out, &b[28..]);
    Some(())
}
