//! The readable format:
//!
//! ```text
//! allow tcp from 10.0.0.0/8 to any port 80,443,8000-8080 flags S/SA   # a comment
//! deny icmp type 8 code 0
//! allow proto 89
//! deny any
//! default allow
//! ```

use super::{Action, Line, Masked, Ports, Prefix, Rule, decimal, prefix, same_family};
use chainline_nf::words::{Fault, Word, Words};
use chainline_packet::proto;

/// Port ranges in one list; each pair of a source and a destination range is a rule to `rte_acl`.
const MAX_LIST: usize = 15;

const FIRST: &str = "'allow', 'deny' or 'default'";
const PROTO: &str = "'any', 'tcp', 'udp', 'sctp', 'icmp', 'icmp6' or 'proto'";

pub(super) fn parse(text: &str) -> Result<Line, Fault> {
    let mut words = Words::new(text);
    let first = words.expect(FIRST)?;
    let line = match first.text {
        "default" => {
            let word = words.expect("'allow' or 'deny'")?;
            Line::Default(action(word).ok_or_else(|| found(word, "'allow' or 'deny'"))?)
        }
        _ => {
            let action = action(first).ok_or_else(|| found(first, FIRST))?;
            Line::Rule(rule(&mut words)?, Some(action))
        }
    };
    match words.next() {
        Some(word) => Err(found(word, "the end of the line")),
        None => Ok(line),
    }
}

fn found(word: Word<'_>, expected: &str) -> Fault {
    word.fault(format!("found '{}', expected {expected}", word.text))
}

fn action(word: Word<'_>) -> Option<Action> {
    match word.text {
        "allow" => Some(Action::Allow),
        "deny" => Some(Action::Deny),
        _ => None,
    }
}

fn rule(words: &mut Words<'_>) -> Result<Rule, Fault> {
    let mut rule = Rule::new();
    let mut version = None;
    if !words.peek().is_some_and(|w| matches!(w.text, "from" | "to")) {
        let word = words.expect(PROTO)?;
        let number = match word.text {
            "any" => None,
            "tcp" => Some(proto::TCP),
            "udp" => Some(proto::UDP),
            "sctp" => Some(proto::SCTP),
            "icmp" => Some(proto::ICMP),
            "icmp6" => Some(proto::ICMPV6),
            "proto" => Some(byte(words, "a protocol number from 0 to 255")?),
            _ => return Err(found(word, PROTO)),
        };
        rule.proto = number.map_or(Masked::default(), |value| Masked { value, mask: 0xff });
        version = match word.text {
            "icmp" => Some((Prefix::V4(0, 0), "icmp is IPv4's, for IPv6 say icmp6")),
            "icmp6" => Some((Prefix::V6(0, 0), "icmp6 is IPv6's, for IPv4 say icmp")),
            _ => None,
        };
    }
    while let Some(word) = words.next() {
        match word.text {
            "from" => (rule.src, rule.src_ports) = (address(words)?, ports(words, &rule)?),
            "to" => {
                (rule.dst, rule.dst_ports) = (address(words)?, ports(words, &rule)?);
            }
            "flags" if rule.proto.value == proto::TCP => rule.detail = flags(words)?,
            "flags" => return Err(word.fault("found 'flags', which only tcp has")),
            "type" if is_icmp(&rule) => {
                let value = u16::from(byte(words, "a type from 0 to 255")?) << 8;
                rule.detail = Masked { value, mask: 0xff00 };
            }
            "code" if is_icmp(&rule) && rule.detail.mask == 0xff00 => {
                let value = rule.detail.value | u16::from(byte(words, "a code from 0 to 255")?);
                rule.detail = Masked { value, mask: 0xffff };
            }
            "type" => return Err(word.fault("found 'type', which only icmp and icmp6 have")),
            "code" => return Err(word.fault("found 'code', expected it behind 'type' of icmp or icmp6")),
            _ => return Err(found(word, "'from', 'to', 'flags', 'type' or the end of the line")),
        }
        if !same_family(rule.src, rule.dst) {
            return Err(word.fault("source and destination are of different IP versions"));
        }
        if let Some((family, why)) = version
            && !(same_family(rule.src, family) && same_family(rule.dst, family))
        {
            return Err(word.fault(why));
        }
    }
    if let (Some((family, _)), Prefix::Any) = (version, rule.src) {
        rule.src = family;
    }
    Ok(rule)
}

fn is_icmp(rule: &Rule) -> bool {
    rule.proto.mask != 0 && matches!(rule.proto.value, proto::ICMP | proto::ICMPV6)
}

fn byte(words: &mut Words<'_>, what: &str) -> Result<u8, Fault> {
    let word = words.expect(what)?;
    decimal(word.text).ok_or_else(|| found(word, what))
}

fn address(words: &mut Words<'_>) -> Result<Prefix, Fault> {
    let word = words.expect("'any' or an address")?;
    match word.text {
        "any" => Ok(Prefix::Any),
        text => prefix(text, false).map_err(|message| word.fault(message)),
    }
}

fn ports(words: &mut Words<'_>, rule: &Rule) -> Result<Vec<Ports>, Fault> {
    let Some(keyword) = words.peek().filter(|w| w.text == "port") else { return Ok(Vec::new()) };
    words.next();
    if rule.proto.mask == 0 || !matches!(rule.proto.value, proto::TCP | proto::UDP | proto::SCTP | proto::UDP_LITE) {
        return Err(keyword.fault("found 'port', which only tcp, udp and sctp have: name one of them"));
    }
    let word = words.expect("a port")?;
    let mut column = word.column;
    let mut list = Vec::new();
    for item in word.text.split(',') {
        let fault = |message: String| Err(Fault::new(column, message));
        let (low, high) = item.split_once('-').unwrap_or((item, item));
        match (decimal::<u16>(low), decimal::<u16>(high)) {
            (Some(low), Some(high)) if low <= high => list.push((low, high)),
            (Some(_), Some(_)) => return fault(format!("found '{item}', expected the lower port first")),
            _ => return fault(format!("found '{item}', expected a port such as 80 or a range such as 8000-8080")),
        }
        if list.len() > MAX_LIST {
            return fault(format!("found more than {MAX_LIST} ports in a list"));
        }
        column += item.len() + 1;
    }
    Ok(list)
}

/// `S/SA`: of SYN and ACK, SYN only. Without a mask, those named must be set.
fn flags(words: &mut Words<'_>) -> Result<Masked<u16>, Fault> {
    const WHAT: &str = "TCP flags such as S/SA, of the letters FSRPAUEC";
    let word = words.expect(WHAT)?;
    let bits = |text: &str| {
        text.chars().try_fold(0u16, |bits, c| Some(bits | 0x100u16 << "FSRPAUEC".find(c)?)).filter(|bits| *bits != 0)
    };
    let (set, of) = word.text.split_once('/').unwrap_or((word.text, word.text));
    let set = if set.is_empty() { Some(0) } else { bits(set) };
    match (set, bits(of)) {
        (Some(value), Some(mask)) if value & !mask == 0 => Ok(Masked { value, mask }),
        _ => Err(found(word, WHAT)),
    }
}
