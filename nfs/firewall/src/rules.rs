//! Rules: the model, and what both file formats have in common.

mod classbench;
mod readable;

pub(crate) use chainline_nf::words::Fault;
use std::net::{Ipv4Addr, Ipv6Addr};

/// What happens to a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// It goes on.
    Allow,
    /// It is dropped.
    Deny,
}

/// Which addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Prefix {
    Any,
    V4(u32, u8),
    V6(u128, u8),
}

/// A value, and the bits of it that count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Masked<T> {
    pub value: T,
    pub mask: T,
}

/// From and to, both included.
pub(crate) type Ports = (u16, u16);

/// A rule. All its parts must match.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Rule {
    pub action: Action,
    pub proto: Masked<u8>,
    pub src: Prefix,
    pub dst: Prefix,
    /// One of these; empty is any.
    pub src_ports: Vec<Ports>,
    /// One of these; empty is any.
    pub dst_ports: Vec<Ports>,
    /// TCP: the flags in the upper byte. ICMP and ICMPv6: type and code. ClassBench's last column is of this form.
    pub detail: Masked<u16>,
    /// Place and text, for people.
    pub name: String,
}

impl Rule {
    fn new() -> Self {
        Self {
            action: Action::Deny,
            proto: Masked::default(),
            src: Prefix::Any,
            dst: Prefix::Any,
            src_ports: Vec::new(),
            dst_ports: Vec::new(),
            detail: Masked::default(),
            name: String::new(),
        }
    }

    /// The same for all rules that differ in nothing but where they stand.
    pub fn anywhere(&self) -> Self {
        Self { name: String::new(), ..self.clone() }
    }

    /// Whether it asks for more than addresses and protocol, which is all that a later fragment has.
    pub fn needs_l4(&self) -> bool {
        !self.src_ports.is_empty() || !self.dst_ports.is_empty() || self.detail.mask != 0
    }
}

/// A line of a rule file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// A rule, and its action if the format has one.
    Rule(Rule, Option<Action>),
    /// The policy for what no rule matches.
    Default(Action),
}

/// Reads one line; `None` if it is empty or a comment. Lines that start with `@` are ClassBench's.
pub(crate) fn parse_line(text: &str) -> Result<Option<Line>, Fault> {
    let text = text.split('#').next().unwrap_or_default();
    match text.trim_start().chars().next() {
        None => Ok(None),
        Some('@') => classbench::parse(text).map(|rule| Some(Line::Rule(rule, None))),
        Some(_) => readable::parse(text).map(Some),
    }
}

/// Reads `address`, `address/length`; `bits_beyond`: whether address bits beyond the length may be set.
fn prefix(word: &str, bits_beyond: bool) -> Result<Prefix, String> {
    let (address, len) = match word.split_once('/') {
        Some((address, len)) => (address, Some(len)),
        None => (word, None),
    };
    let found = || format!("found '{word}', expected an address or a prefix such as 10.0.0.0/8 or 2001:db8::/32");
    let len = |most: u8| match len {
        None => Ok(most),
        Some(len) => match decimal::<u8>(len) {
            Some(len) if len <= most => Ok(len),
            _ => Err(format!("found prefix length '{len}', expected 0 to {most}")),
        },
    };
    let set = |clean: &dyn std::fmt::Display| format!("{word} has bits set beyond its length, expected {clean}");
    if let Ok(address) = address.parse::<Ipv4Addr>() {
        let (bits, len) = (u32::from(address), len(32)?);
        let clean = bits & u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0);
        if clean != bits && !bits_beyond {
            return Err(set(&format!("{}/{len}", Ipv4Addr::from(clean))));
        }
        Ok(Prefix::V4(clean, len))
    } else {
        let address = address.parse::<Ipv6Addr>().map_err(|_| found())?;
        let (bits, len) = (u128::from(address), len(128)?);
        let clean = bits & u128::MAX.checked_shl(128 - u32::from(len)).unwrap_or(0);
        if clean != bits && !bits_beyond {
            return Err(set(&format!("{}/{len}", Ipv6Addr::from(clean))));
        }
        Ok(Prefix::V6(clean, len))
    }
}

/// Digits only: `parse` alone would take a `+`.
fn decimal<T: std::str::FromStr>(word: &str) -> Option<T> {
    word.bytes().all(|b| b.is_ascii_digit()).then(|| word.parse().ok())?
}

/// Two prefixes of one family, or of any.
fn same_family(src: Prefix, dst: Prefix) -> bool {
    !matches!((src, dst), (Prefix::V4(..), Prefix::V6(..)) | (Prefix::V6(..), Prefix::V4(..)))
}
