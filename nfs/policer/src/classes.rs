//! Which class a packet belongs to: the first that matches, looked up for a burst at once in `rte_acl`.

use crate::config::Listed;
use chainline_dpdk::tables::{Acl, FieldDef, FieldKind, FieldValue, MAX_PRIORITY, Rule};
use chainline_nf::Error;
use chainline_packet::{FiveTuple, proto};
use std::net::IpAddr;
use std::num::NonZeroU32;

/// Bytes of a key: protocol, addresses, ports, DSCP.
pub(crate) const KEY4: usize = 20;
pub(crate) const KEY6: usize = 44;

/// Rules that the lists of one class may multiply out to.
const MAX_RULES: usize = 4096;

/// Which packets; all that is given must match.
#[derive(Clone, Debug, Default, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Match {
    /// Source address or prefix: `10.0.0.0/8`, `2001:db8::1`.
    pub src: Option<String>,
    /// Destination address or prefix.
    pub dst: Option<String>,
    /// IP protocol.
    pub proto: Option<Proto>,
    /// One of these source ports; needs `proto: tcp`, `udp` or `sctp`.
    pub src_ports: Vec<Ports>,
    /// One of these destination ports.
    pub dst_ports: Vec<Ports>,
    /// One of these DSCP values, 0 to 63.
    pub dscp: Vec<u8>,
}

/// An IP protocol by name or number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, schemars::JsonSchema)]
#[serde(untagged, expecting = "tcp, udp, sctp, icmp, icmp6 or a number from 0 to 255")]
pub enum Proto {
    /// By name.
    Named(ProtoName),
    /// By number.
    Number(u8),
}

/// Protocols with a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "the names say it")]
pub enum ProtoName {
    Tcp,
    Udp,
    Sctp,
    Icmp,
    Icmp6,
}

impl Proto {
    fn number(self) -> u8 {
        match self {
            Self::Number(n) => n,
            Self::Named(ProtoName::Tcp) => proto::TCP,
            Self::Named(ProtoName::Udp) => proto::UDP,
            Self::Named(ProtoName::Sctp) => proto::SCTP,
            Self::Named(ProtoName::Icmp) => proto::ICMP,
            Self::Named(ProtoName::Icmp6) => proto::ICMPV6,
        }
    }
}

/// A port, or all from one to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, schemars::JsonSchema)]
#[serde(untagged, expecting = "a port such as 80, or a range such as [8000, 8080]")]
pub enum Ports {
    /// One.
    One(u16),
    /// From the first to the second, both included.
    Range([u16; 2]),
}

/// An address and how many bits of it count; the address is at the upper end of its 128 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Prefix {
    v6: bool,
    bits: u128,
    len: u8,
}

/// Reads `address` or `address/length`.
pub(crate) fn prefix(text: &str) -> Result<Prefix, String> {
    let expected = "an address or a prefix such as 10.0.0.0/8 or 2001:db8::/32";
    let (address, len) = text.split_once('/').map_or((text, None), |(a, l)| (a, Some(l)));
    let address: IpAddr = address.parse().map_err(|_| format!("found '{text}', expected {expected}"))?;
    let (v6, bits, most) = match address {
        IpAddr::V4(a) => (false, u128::from(u32::from(a)) << 96, 32),
        IpAddr::V6(a) => (true, u128::from(a), 128),
    };
    let digits = |l: &str| l.bytes().all(|b| b.is_ascii_digit()).then(|| l.parse::<u8>().ok())?;
    let len = match len {
        None => most,
        Some(l) => digits(l)
            .filter(|l| *l <= most)
            .ok_or_else(|| format!("found prefix length '{l}', expected 0 to {most}"))?,
    };
    if bits & !u128::MAX.checked_shl(128 - u32::from(len)).unwrap_or(0) != 0 {
        return Err(format!("{text} has bits set beyond its length"));
    }
    Ok(Prefix { v6, bits, len })
}

/// The compiled classes.
pub(crate) struct Classes {
    pub v4: Acl,
    pub v6: Acl,
}

impl Classes {
    /// Compiles the classes in order; a look-up returns a class's place from 1, or 0. Absent if the first class takes
    /// everything, so that nothing needs to be looked up.
    pub fn new(classes: &[Listed]) -> Result<Option<Self>, Error> {
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for (i, listed) in classes.iter().enumerate() {
            let matches = &listed.class.matches;
            matches.expand(i, &mut v4, &mut v6).map_err(|why| listed.fault(&format!(".match.{why}")))?;
        }
        if classes.first().is_some_and(|listed| listed.class.matches.is_all()) {
            return Ok(None);
        }
        let build = |words, rules: &[Rule]| {
            Acl::build(&layout(words), rules).map_err(|e| Error::Library(format!("policer: {e}")))
        };
        Ok(Some(Self { v4: build(1, &v4)?, v6: build(4, &v6)? }))
    }
}

impl Match {
    fn is_all(&self) -> bool {
        self.src.is_none()
            && self.dst.is_none()
            && self.proto.is_none()
            && self.src_ports.is_empty()
            && self.dst_ports.is_empty()
            && self.dscp.is_empty()
    }

    /// Adds the rules of class `index` for both IP versions.
    fn expand(&self, index: usize, v4: &mut Vec<Rule>, v6: &mut Vec<Rule>) -> Result<(), String> {
        let side = |name: &str, text: &Option<String>| {
            text.as_ref().map(|t| prefix(t).map_err(|e| format!("{name}: {e}"))).transpose()
        };
        let (src, dst) = (side("src", &self.src)?, side("dst", &self.dst)?);
        if let (Some(s), Some(d)) = (src, dst)
            && s.v6 != d.v6
        {
            return Err("dst: source and destination are of different IP versions".into());
        }
        let number = self.proto.map(Proto::number);
        let has_ports = matches!(number, Some(proto::TCP | proto::UDP | proto::SCTP));
        let ports = |name: &str, list: &[Ports]| -> Result<Vec<FieldValue>, String> {
            if !list.is_empty() && !has_ports {
                return Err(format!(
                    "{name}: found ports, which only tcp, udp and sctp have: set proto to one of them"
                ));
            }
            let range = |p: &Ports| match *p {
                Ports::One(p) => Ok(value(p, p)),
                Ports::Range([low, high]) if low <= high => Ok(value(low, high)),
                Ports::Range([low, high]) => {
                    Err(format!("{name}: found [{low}, {high}], expected the lower port first"))
                }
            };
            let list: Vec<FieldValue> = list.iter().map(range).collect::<Result<_, _>>()?;
            Ok(if list.is_empty() { vec![value(0, u16::MAX)] } else { list })
        };
        let (src_ports, dst_ports) = (ports("src_ports", &self.src_ports)?, ports("dst_ports", &self.dst_ports)?);
        if let Some(dscp) = self.dscp.iter().find(|d| **d > 63) {
            return Err(format!("dscp: found {dscp}, expected 0 to 63"));
        }
        let dscps = match self.dscp.is_empty() {
            true => vec![value(0, 0)],
            false => self.dscp.iter().map(|d| value(u16::from(*d), 63)).collect(),
        };
        let rules = src_ports.len() * dst_ports.len() * dscps.len();
        if rules > MAX_RULES {
            return Err(format!("dst_ports: the lists multiply out to {rules} rules, expected {MAX_RULES} at most"));
        }
        let versions = [(v4, false, 1), (v6, true, 4)];
        for (out, is_v6, words) in versions {
            if [src, dst].iter().flatten().any(|p| p.v6 != is_v6) {
                continue;
            }
            for s in &src_ports {
                for d in &dst_ports {
                    for dscp in &dscps {
                        let mut fields = vec![number.map_or(value(0, 0), |n| value(u16::from(n), 0xff))];
                        fields.extend([src, dst].into_iter().flat_map(|p| address(p, words)));
                        fields.extend([*s, *d, *dscp]);
                        out.push(Rule {
                            priority: MAX_PRIORITY - index as i32,
                            userdata: NonZeroU32::MIN.saturating_add(index as u32),
                            category_mask: 1,
                            fields,
                        });
                    }
                }
            }
        }
        Ok(())
    }
}

fn value(value: u16, mask_range: u16) -> FieldValue {
    FieldValue { value: value.into(), mask_range: mask_range.into() }
}

/// A prefix as fields of 32 bits.
fn address(prefix: Option<Prefix>, words: usize) -> Vec<FieldValue> {
    let (bits, len) = prefix.map_or((0, 0), |p| (p.bits, p.len));
    let word = |w: usize| {
        let len = usize::from(len).saturating_sub(32 * w).min(32);
        FieldValue { value: u64::from((bits >> (96 - 32 * w)) as u32), mask_range: len as u64 }
    };
    (0..words).map(word).collect()
}

fn layout(words: u8) -> Vec<FieldDef> {
    let mut defs = Vec::new();
    let mut field = |kind, size, input_index, offset| {
        let field_index = defs.len() as u8;
        defs.push(FieldDef { kind, size, field_index, input_index, offset });
    };
    field(FieldKind::Bitmask, 1, 0, 0);
    for w in 1..=2 * words {
        field(FieldKind::Mask, 4, w, 4 * u32::from(w));
    }
    let (ports, at) = (2 * words + 1, 4 * (2 * u32::from(words) + 1));
    field(FieldKind::Range, 2, ports, at);
    field(FieldKind::Range, 2, ports, at + 2);
    field(FieldKind::Bitmask, 4, ports + 1, at + 4);
    defs
}

#[inline]
pub(crate) fn key4(flow: &FiveTuple, dscp: u8) -> [u8; KEY4] {
    let tuple = flow.to_bytes();
    let mut key = [0; KEY4];
    key[0] = tuple[36];
    key[4..8].copy_from_slice(&tuple[..4]);
    key[8..12].copy_from_slice(&tuple[16..20]);
    key[12..16].copy_from_slice(&tuple[32..36]);
    key[19] = dscp;
    key
}

#[inline]
pub(crate) fn key6(flow: &FiveTuple, dscp: u8) -> [u8; KEY6] {
    let tuple = flow.to_bytes();
    let mut key = [0; KEY6];
    key[0] = tuple[36];
    key[4..40].copy_from_slice(&tuple[..36]);
    key[43] = dscp;
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_read() {
        assert_eq!(prefix("10.0.0.0/8"), Ok(Prefix { v6: false, bits: 10 << 120, len: 8 }));
        assert_eq!(prefix("0.0.0.0/0").map(|p| p.len), Ok(0));
        assert_eq!(prefix("2001:db8::1"), Ok(Prefix { v6: true, bits: 0x2001_0db8 << 96 | 1, len: 128 }));
        for (text, why) in [
            ("10.0.0.1/8", "10.0.0.1/8 has bits set beyond its length"),
            ("10.0.0.0/33", "found prefix length '33', expected 0 to 32"),
            ("::/+1", "found prefix length '+1'"),
            ("10.0.0.0/", "found prefix length ''"),
            ("ten", "found 'ten', expected an address or a prefix"),
        ] {
            let found = prefix(text).expect_err(text);
            assert!(found.starts_with(why), "{found}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_the_reader_panic(text in "[0-9a-f:./+é ]{0,24}") {
            let _either = prefix(&text);
        }
    }
}
