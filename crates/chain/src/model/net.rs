//! What a chain's `match` is made of: protocols, prefixes, ranges.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Which packets belong to a chain. Every field that is given must hold; in a list, any entry.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(default)]
pub struct Match {
    /// IP protocol (IANA "Assigned Internet Protocol Numbers").
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "serialize_proto")]
    #[schemars(schema_with = "proto_schema")]
    pub proto: Option<u8>,
    /// Source addresses.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "one_or_more::<Prefix>")]
    pub src: Vec<Prefix>,
    /// Destination addresses.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "one_or_more::<Prefix>")]
    pub dst: Vec<Prefix>,
    /// Source ports of TCP, UDP or SCTP.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "one_or_more::<NumRange>")]
    pub src_port: Vec<NumRange>,
    /// Destination ports of TCP, UDP or SCTP.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "one_or_more::<NumRange>")]
    pub dst_port: Vec<NumRange>,
    /// VLAN identifiers of the outer tag, 0 to 4094; 0 matches frames without a tag (and priority tags).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "one_or_more::<NumRange>")]
    pub vlan: Vec<NumRange>,
}

impl Match {
    /// Whether it matches every packet.
    #[must_use]
    pub fn is_any(&self) -> bool {
        *self == Self::default()
    }
}

const PROTOS: &[(&str, u8)] = &[("icmp", 1), ("tcp", 6), ("udp", 17), ("icmp6", 58), ("sctp", 132)];

/// The number of a protocol that the file may call by name.
#[must_use]
pub fn proto_number(name: &str) -> Option<u8> {
    PROTOS.iter().find(|(n, _)| *n == name).map(|&(_, p)| p)
}

/// The name that the file has for a protocol.
#[must_use]
pub fn proto_name(number: u8) -> Option<&'static str> {
    PROTOS.iter().find(|(_, p)| *p == number).map(|&(n, _)| n)
}

/// The names that [`proto_number`] knows.
pub(crate) fn proto_names() -> impl Iterator<Item = &'static str> {
    PROTOS.iter().map(|&(n, _)| n)
}

fn serialize_proto<S: Serializer>(proto: &Option<u8>, s: S) -> Result<S::Ok, S::Error> {
    match proto.map(|p| (proto_name(p), p)) {
        None => s.serialize_none(),
        Some((Some(name), _)) => s.serialize_str(name),
        Some((None, number)) => s.serialize_u8(number),
    }
}

fn proto_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "description": "IP protocol, by name or by number.",
        "oneOf": [
            {"enum": proto_names().collect::<Vec<_>>()},
            {"type": "integer", "minimum": 0, "maximum": 255},
        ],
    })
}

pub(super) fn one_or_more<T: JsonSchema>(g: &mut SchemaGenerator) -> Schema {
    let one = g.subschema_for::<T>();
    json_schema!({"anyOf": [one.clone(), {"type": "array", "items": one, "minItems": 1}]})
}

/// An address prefix (RFC 4632, RFC 4291 section 2.3). Bits after `len` are zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Prefix {
    /// The address; an IPv4 one matches IPv4 packets only.
    pub addr: IpAddr,
    /// Leading bits that count: at most 32 or 128.
    pub len: u8,
}

impl Prefix {
    /// All of IPv4.
    pub const ANY4: Self = Self { addr: IpAddr::V4(Ipv4Addr::UNSPECIFIED), len: 0 };
    /// All of IPv6.
    pub const ANY6: Self = Self { addr: IpAddr::V6(Ipv6Addr::UNSPECIFIED), len: 0 };

    /// Bits in an address of this family.
    #[must_use]
    pub fn max_len(addr: IpAddr) -> u8 {
        if addr.is_ipv4() { 32 } else { 128 }
    }

    /// The prefix with the bits after `len` cleared; `None` when `len` is too large for the address.
    #[must_use]
    pub fn new(addr: IpAddr, len: u8) -> Option<Self> {
        let addr = match addr {
            IpAddr::V4(a) => {
                let host = u32::MAX.checked_shr(len.into()).unwrap_or(0);
                IpAddr::V4(Ipv4Addr::from_bits(a.to_bits() & !host))
            }
            IpAddr::V6(a) => {
                let host = u128::MAX.checked_shr(len.into()).unwrap_or(0);
                IpAddr::V6(Ipv6Addr::from_bits(a.to_bits() & !host))
            }
        };
        (len <= Self::max_len(addr)).then_some(Self { addr, len })
    }

    /// Whether every address of `other` is in this prefix.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        self.addr.is_ipv4() == other.addr.is_ipv4()
            && self.len <= other.len
            && Self::new(other.addr, self.len).is_some_and(|p| p.addr == self.addr)
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.addr, self.len)
    }
}

impl Serialize for Prefix {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl JsonSchema for Prefix {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Prefix".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "An IPv4 or IPv6 prefix or address: 10.0.0.0/8, 2001:db8::/32, 192.0.2.1.",
            "type": "string",
            "pattern": "^[0-9A-Fa-f:.]+(/[0-9]{1,3})?$",
        })
    }
}

/// Numbers from `first` to `last`, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NumRange {
    /// The smallest.
    pub first: u16,
    /// The largest, not below `first`.
    pub last: u16,
}

impl NumRange {
    /// Whether every number of `other` is in this range.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        self.first <= other.first && other.last <= self.last
    }

    /// Whether `number` is in this range.
    #[must_use]
    pub fn contains(&self, number: u16) -> bool {
        (self.first..=self.last).contains(&number)
    }
}

impl fmt::Display for NumRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first == self.last { write!(f, "{}", self.first) } else { write!(f, "{}-{}", self.first, self.last) }
    }
}

impl Serialize for NumRange {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        if self.first == self.last { s.serialize_u16(self.first) } else { s.collect_str(self) }
    }
}

impl JsonSchema for NumRange {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Range".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "One number, or a range with both ends included: 80, 80-443.",
            "oneOf": [
                {"type": "integer", "minimum": 0, "maximum": 65_535},
                {"type": "string", "pattern": "^[0-9]{1,5}(-[0-9]{1,5})?$"},
            ],
        })
    }
}
