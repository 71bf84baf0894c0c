//! ClassBench filter sets (Taylor and Turner, "ClassBench: A Packet Classification Benchmark", 2007), with the
//! IPv6 variant of DPDK's test-acl:
//!
//! `@SRC/LEN DST/LEN LOW : HIGH LOW : HIGH PROTO/MASK [DETAIL/MASK]`

use super::{Masked, Ports, Prefix, Rule, decimal, prefix, same_family};
use chainline_nf::words::{Fault, Words};

pub(super) fn parse(text: &str) -> Result<Rule, Fault> {
    let mut words = Words::new(text);
    let mut address = |what, at: &str| -> Result<Prefix, Fault> {
        let word = words.expect(what)?;
        let (text, shift) = match word.text.strip_prefix(at) {
            Some(rest) => (rest, at.len()),
            None => (word.text, 0),
        };
        // Real files have addresses that are longer than their prefixes.
        prefix(text, true).map_err(|message| Fault::new(word.column + shift, message))
    };
    let src = address("a source prefix", "@")?;
    let dst = address("a destination prefix", "")?;
    if !same_family(src, dst) {
        return Err(Fault::new(1, "source and destination are of different IP versions"));
    }
    let src_ports = ports(&mut words)?;
    let dst_ports = ports(&mut words)?;
    let proto = masked(&mut words, "a protocol and its mask, such as 0x06/0xFF", 0xff)?;
    let proto = Masked { value: proto.value as u8, mask: proto.mask as u8 };
    let detail = match words.peek() {
        Some(_) => masked(&mut words, "flags and their mask, such as 0x1000/0x1000", 0xffff)?,
        None => Masked::default(),
    };
    if let Some(word) = words.next() {
        return Err(word.fault(format!("found '{}', expected the end of the line", word.text)));
    }
    Ok(Rule { proto, src, dst, src_ports, dst_ports, detail, ..Rule::new() })
}

fn ports(words: &mut Words<'_>) -> Result<Vec<Ports>, Fault> {
    let mut bound = || {
        let word = words.expect("a port")?;
        decimal(word.text).ok_or_else(|| word.fault(format!("found '{}', expected a port from 0 to 65535", word.text)))
    };
    let low: u16 = bound()?;
    let colon = words.expect("':'")?;
    if colon.text != ":" {
        return Err(colon.fault(format!("found '{}', expected ':'", colon.text)));
    }
    let column = words.peek().map_or(1, |w| w.column);
    let mut bound = || {
        let word = words.expect("a port")?;
        decimal(word.text).ok_or_else(|| word.fault(format!("found '{}', expected a port from 0 to 65535", word.text)))
    };
    let high: u16 = bound()?;
    if low > high {
        return Err(Fault::new(column, format!("found {low} : {high}, expected the lower port first")));
    }
    // The whole range is no condition.
    Ok(if (low, high) == (0, u16::MAX) { Vec::new() } else { vec![(low, high)] })
}

fn masked(words: &mut Words<'_>, what: &str, most: u16) -> Result<Masked<u16>, Fault> {
    let word = words.expect(what)?;
    let number = |text: &str| {
        let hex = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
        let value = match hex {
            Some(hex) if hex.bytes().all(|b| b.is_ascii_hexdigit()) => u16::from_str_radix(hex, 16).ok(),
            Some(_) => None,
            None => decimal(text),
        };
        value.filter(|v| *v <= most)
    };
    word.text
        .split_once('/')
        .and_then(|(value, mask)| Some(Masked { value: number(value)?, mask: number(mask)? }))
        .ok_or_else(|| word.fault(format!("found '{}', expected {what}", word.text)))
}
