//! What a kind of NF reads and writes of packets, and what its state belongs to: which NFs may change places, and by
//! what traffic may be spread over instances (traffic affinity: Zheng et al., §III-B).

/// A part of a packet that an NF reads, or changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum Field {
    EthernetSource,
    EthernetDestination,
    /// VLAN tags and EtherType.
    EtherType,
    IpSource,
    IpDestination,
    /// Of the upper layer, behind IPv6 extension headers.
    Protocol,
    /// DSCP and ECN.
    TrafficClass,
    /// TTL, or hop limit.
    Ttl,
    IpLength,
    /// Identification, flags and offset.
    Fragment,
    IpChecksum,
    SourcePort,
    DestinationPort,
    TcpFlags,
    L4Checksum,
    IcmpType,
    IcmpIdentifier,
    /// The packet that an ICMP error quotes.
    IcmpQuote,
    /// All bytes of the frame.
    Frame,
    FrameLength,
}

/// What an entry of state belongs to. Packets of one such must come to one instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// The 5-tuple, each direction for itself.
    Flow,
    /// The 5-tuple, both directions.
    Connection,
    /// The source address.
    SourceHost,
    /// The destination address.
    DestinationHost,
    /// The datagram that fragments are of.
    Datagram,
    /// What the arguments name: a class, a service, a rule. Instances that share its packets each have their own.
    Configured,
    /// All packets.
    Instance,
}

/// A kind of state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct State {
    /// What it is: `connections`.
    pub name: &'static str,
    /// What an entry belongs to.
    pub scope: Scope,
    /// Bytes of memory an entry, key and place in a table included, rounded; 0 is none of fixed size.
    pub entry_bytes: u32,
    /// The argument without which it is not there; empty: it always is.
    pub with: &'static str,
    /// Whether replicas can have it together (`state: shared-…`).
    pub shareable: bool,
}

/// Reads, writes and state of a kind of NF, whatever its arguments are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Footprint {
    /// What verdicts, counters and writes depend on.
    pub reads: &'static [Field],
    /// What may be different behind the NF.
    pub writes: &'static [Field],
    /// What it remembers between packets, except for compiled arguments and counters.
    pub state: &'static [State],
}

impl Footprint {
    /// For [`crate::Nf::FOOTPRINT`].
    #[must_use]
    pub const fn new(reads: &'static [Field], writes: &'static [Field], state: &'static [State]) -> Option<Self> {
        Some(Self { reads, writes, state })
    }
}

impl State {
    /// State that is always there.
    #[must_use]
    pub const fn new(name: &'static str, scope: Scope, entry_bytes: u32) -> Self {
        Self { name, scope, entry_bytes, with: "", shareable: false }
    }

    /// State that replicas can have together.
    #[must_use]
    pub const fn shareable(self) -> Self {
        Self { shareable: true, ..self }
    }

    /// State that is there with an argument.
    #[must_use]
    pub const fn with(self, argument: &'static str) -> Self {
        Self { with: argument, ..self }
    }
}

/// Arguments with which a kind can be built anywhere, to see what it declares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// JSON.
    pub args: &'static str,
    /// Files that the arguments name, and their content.
    pub files: &'static [(&'static str, &'static str)],
}

impl Sample {
    /// No arguments.
    pub const EMPTY: Self = Self { args: "{}", files: &[] };
}
