//! Where packets come from and go to.

use super::net::{NumRange, Prefix};
use super::traffic::{FlowPackets, Group, Hosts, Mac, Mix, Order, Rewrite, Schedule, Tags};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};
use std::fmt;
use std::path::PathBuf;

/// One port: exactly one of these.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Port {
    /// A capture file that is read or written (pcap or pcapng).
    Pcap(Pcap),
    /// A generator of traffic. Ingress only.
    Generator(Generator),
    /// Counts packets and lets them go. Egress only.
    Sink(Sink),
    /// A kernel interface through `AF_PACKET`: any driver, no preparation.
    AfPacket(Netdev),
    /// A kernel interface through `AF_XDP`.
    AfXdp(Netdev),
    /// A tap interface that is made for the run.
    Tap(Netdev),
    /// Shared memory to another dataplane (memif, as in VPP).
    Memif(Memif),
    /// Any virtual device, as DPDK's `--vdev` takes it: `net_null0,size=64`.
    Vdev(String),
    /// A device on the PCI bus, as DPDK's `-a` takes it: `0000:03:00.0`.
    Pci(String),
}

impl Port {
    /// The words in the file.
    pub const WORDS: &'static [&'static str] =
        &["pcap", "generator", "sink", "af_packet", "af_xdp", "tap", "memif", "vdev", "pci"];

    /// The word in the file.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Pcap(_) => "pcap",
            Self::Generator(_) => "generator",
            Self::Sink(_) => "sink",
            Self::AfPacket(_) => "af_packet",
            Self::AfXdp(_) => "af_xdp",
            Self::Tap(_) => "tap",
            Self::Memif(_) => "memif",
            Self::Vdev(_) => "vdev",
            Self::Pci(_) => "pci",
        }
    }

    /// Whether packets can come from it.
    #[must_use]
    pub fn can_receive(&self) -> bool {
        match self {
            Self::Pcap(p) => p.read.is_some(),
            Self::Sink(_) => false,
            _ => true,
        }
    }

    /// Whether packets can leave by it.
    #[must_use]
    pub fn can_transmit(&self) -> bool {
        match self {
            Self::Pcap(p) => p.write.is_some(),
            Self::Generator(_) => false,
            _ => true,
        }
    }
}

/// A capture file. `read`, `write` or both.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(default)]
pub struct Pcap {
    /// The file that packets come from, relative to the chain file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read: Option<PathBuf>,
    /// The file that packets go to, relative to the chain file; overwritten.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write: Option<PathBuf>,
    /// Begins again at the end of the file: `true` for ever, or how many times the file is read.
    #[serde(rename = "loop", skip_serializing_if = "Laps::is_one")]
    pub laps: Laps,
    /// How fast packets are read.
    #[serde(skip_serializing_if = "Rate::is_max")]
    pub rate: Rate,
    /// Sends the packets between other addresses than they were captured with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rewrite: Option<Rewrite>,
    /// Waits for room rather than shed packets. Default: true with `rate: max`, false otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lossless: Option<bool>,
}

impl Pcap {
    /// Whether the source waits for room rather than shed packets.
    #[must_use]
    pub fn lossless(&self) -> bool {
        self.lossless.unwrap_or(self.rate == Rate::Max)
    }
}

/// A generator of UDP or TCP packets, the same for the same seed.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(default)]
pub struct Generator {
    /// Bytes of each frame including FCS, without preamble and gap. Not together with `mix`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = *super::FRAME_BYTES.start(), max = *super::FRAME_BYTES.end()))]
    pub frame_bytes: Option<u16>,
    /// Several frame sizes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mix: Option<Mix>,
    /// Different flows (5-tuples); with `flow_packets`, those at a time.
    #[schemars(range(min = 1, max = 100_000_000))]
    pub flows: u32,
    /// In which order the flows come: popularity, and temporal locality.
    pub order: Order,
    /// Spatial locality: so many of the flows come for so many packets, then the next ones. Default: all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub working_set: Option<Group>,
    /// Source hosts and their load. Default: each flow has its own host, as long as there are enough.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hosts: Option<Hosts>,
    /// Packets of a flow, after which another begins: with SYN, data and FIN over TCP. Default: flows do not end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flow_packets: Option<FlowPackets>,
    /// How fast packets are made.
    pub rate: Rate,
    /// When packets are sent. Other than `constant` it needs a `rate`.
    #[serde(skip_serializing_if = "Schedule::is_constant")]
    pub schedule: Schedule,
    /// Seed of everything random.
    pub seed: u64,
    /// Ends after this many packets; default: never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// Waits for room rather than shed packets. Default: true with `rate: max`, false otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lossless: Option<bool>,
    /// Protocol above IP: `udp` or `tcp`.
    #[schemars(extend("enum" = ["udp", "tcp"]), with = "String")]
    #[serde(serialize_with = "serialize_proto")]
    pub proto: u8,
    /// Source addresses of the flows.
    pub src: Prefix,
    /// Destination addresses of the flows.
    pub dst: Prefix,
    /// Source ports of the flows.
    pub src_port: NumRange,
    /// Destination ports of the flows.
    pub dst_port: NumRange,
    /// VLAN tags; the frame sizes include them.
    #[serde(skip_serializing_if = "Tags::is_none")]
    pub vlan: Tags,
    /// Source hardware address.
    pub src_mac: Mac,
    /// Destination hardware address.
    pub dst_mac: Mac,
    /// Writes into the last 18 bytes of each frame's payload which frame it is and when it should have been sent, for a
    /// `sink` that checks (docs/reference/steer-protocol.md).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub stamp: bool,
}

fn serialize_proto<S: Serializer>(proto: &u8, s: S) -> Result<S::Ok, S::Error> {
    s.serialize_str(super::proto_name(*proto).unwrap_or("udp"))
}

impl Default for Generator {
    fn default() -> Self {
        // 198.18.0.0/15 is set aside for benchmarks of network devices (RFC 2544 appendix C.2.2).
        let prefix = |b| Prefix { addr: std::net::Ipv4Addr::new(198, b, 0, 0).into(), len: 16 };
        Self {
            frame_bytes: None,
            mix: None,
            flows: 1,
            rate: Rate::Max,
            seed: 1,
            count: None,
            lossless: None,
            proto: 17,
            src: prefix(18),
            dst: prefix(19),
            // All but the well-known ones (RFC 4814 section 4.5).
            src_port: NumRange { first: 1024, last: 65_535 },
            dst_port: NumRange { first: 9, last: 9 },
            order: Order::default(),
            working_set: None,
            hosts: None,
            flow_packets: None,
            schedule: Schedule::default(),
            vlan: Tags::default(),
            src_mac: Mac(chainline_packet::ether::Mac([2, 0, 0, 0, 0, 1])),
            dst_mac: Mac(chainline_packet::ether::Mac([2, 0, 0, 0, 0, 2])),
            stamp: false,
        }
    }
}

impl Generator {
    /// Whether the source waits for room rather than shed packets.
    #[must_use]
    pub fn lossless(&self) -> bool {
        self.lossless.unwrap_or(self.rate == Rate::Max)
    }
}

/// How many times a capture is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Laps {
    /// So many times, at least once.
    Times(u32),
    /// Until the run ends.
    Forever,
}

impl Default for Laps {
    fn default() -> Self {
        Self::Times(1)
    }
}

impl Laps {
    fn is_one(&self) -> bool {
        *self == Self::default()
    }
}

impl Serialize for Laps {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Forever => s.serialize_bool(true),
            Self::Times(n) => s.serialize_u32(*n),
        }
    }
}

impl JsonSchema for Laps {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Laps".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "`true`: until the run ends; or how many times the file is read.",
            "oneOf": [{"type": "boolean"}, {"type": "integer", "minimum": 1, "maximum": u32::MAX}],
        })
    }
}

/// How fast a source sends.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Rate {
    /// As fast as the chains take packets.
    #[default]
    Max,
    /// At the times recorded in the capture.
    Recorded,
    /// Packets per second.
    PacketsPerSecond(f64),
    /// Bits per second on the wire: each frame with FCS and 20 bytes of preamble and gap, so that 10 Gbit/s of
    /// 64-byte frames are 14.88 Mpps.
    BitsPerSecond(f64),
}

/// Largest rate of either unit that a file may ask for.
pub const MAX_RATE: f64 = 1e13;

impl Rate {
    fn is_max(&self) -> bool {
        *self == Self::Max
    }

    /// From the file's notation: `max`, `recorded`, `14.88Mpps`, `500kpps`, `10Gbps`. `None` if it is none of these,
    /// not positive, or above [`MAX_RATE`].
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "max" => return Some(Self::Max),
            "recorded" => return Some(Self::Recorded),
            _ => {}
        }
        let (rest, unit): (_, fn(f64) -> Self) = match (text.strip_suffix("pps"), text.strip_suffix("bps")) {
            (Some(rest), _) => (rest, Self::PacketsPerSecond),
            (_, Some(rest)) => (rest, Self::BitsPerSecond),
            _ => return None,
        };
        let (digits, scale) = match rest.char_indices().last()? {
            (i, 'k') => (&rest[..i], 1e3),
            (i, 'M') => (&rest[..i], 1e6),
            (i, 'G') => (&rest[..i], 1e9),
            _ => (rest, 1.0),
        };
        let digits = digits.trim_end();
        if !digits.bytes().all(|b| b.is_ascii_digit() || b == b'.') {
            return None; // f64's own notation has "inf", "nan" and exponents besides
        }
        let rate = digits.parse::<f64>().ok()? * scale;
        (rate > 0.0 && rate <= MAX_RATE).then(|| unit(rate))
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (rate, unit) = match self {
            Self::Max => return f.write_str("max"),
            Self::Recorded => return f.write_str("recorded"),
            Self::PacketsPerSecond(r) => (*r, "pps"),
            Self::BitsPerSecond(r) => (*r, "bps"),
        };
        match rate {
            r if r >= 1e9 => write!(f, "{}G{unit}", r / 1e9),
            r if r >= 1e6 => write!(f, "{}M{unit}", r / 1e6),
            r if r >= 1e3 => write!(f, "{}k{unit}", r / 1e3),
            r => write!(f, "{r}{unit}"),
        }
    }
}

impl Serialize for Rate {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl JsonSchema for Rate {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Rate".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "`max`; `recorded` (captures only); packets per second (14.88Mpps, 500kpps); or bits per \
                            second on the wire, where each frame counts with FCS and 20 bytes of preamble and gap \
                            (10Gbps).",
            "type": "string",
            "pattern": "^(max|recorded|[0-9]+([.][0-9]+)? *[kMG]?(pps|bps))$",
        })
    }
}

/// Counts packets and lets them go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(default)]
pub struct Sink {
    /// Reads the stamps of a generator of the same file: what arrived how late, twice, out of order or not at all.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub check: bool,
}

/// A network interface of the kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Netdev {
    /// The interface's name, at most 15 bytes.
    #[schemars(length(min = 1, max = 15))]
    pub interface: String,
}

/// A memif connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Memif {
    /// The control socket: a path, relative to the chain file, or an abstract name that begins with `@`.
    #[schemars(length(min = 1))]
    pub socket: String,
    /// Who makes the socket.
    pub role: MemifRole,
    /// The interface's id on this socket; both sides name the same.
    #[schemars(default)]
    pub id: u32,
}

/// The side of a memif connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum MemifRole {
    /// Makes the socket and waits.
    Server,
    /// Connects and owns the memory.
    Client,
}

#[cfg(test)]
mod tests {
    use super::Rate;
    use proptest::prelude::*;

    #[test]
    fn rates() {
        assert_eq!(Rate::parse("14.88Mpps"), Some(Rate::PacketsPerSecond(14.88e6)));
        assert_eq!(Rate::parse("10Gbps"), Some(Rate::BitsPerSecond(10e9)));
        assert_eq!(Rate::parse("500 kpps"), Some(Rate::PacketsPerSecond(500e3)));
        assert_eq!(Rate::parse("7pps"), Some(Rate::PacketsPerSecond(7.0)));
        for bad in ["", "pps", "Mpps", "10", "10M", "-1pps", "infpps", "1e3pps", "0pps", "1.2.3pps", "10gbps", "MAX"] {
            assert_eq!(Rate::parse(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn a_rate_written_is_the_rate_read(rate in 1e-3..1e13f64, packets in any::<bool>()) {
            let first = if packets { Rate::PacketsPerSecond(rate) } else { Rate::BitsPerSecond(rate) };
            let value = |r| match r {
                Some(Rate::PacketsPerSecond(x)) if packets => x,
                Some(Rate::BitsPerSecond(x)) if !packets => x,
                _ => f64::NAN,
            };
            let second = value(Rate::parse(&first.to_string()));
            // Scaling by a thousand may round the last bit.
            prop_assert!((second - rate).abs() <= rate * 1e-15, "{first} {second} {rate}");
        }
    }
}
