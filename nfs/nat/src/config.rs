//! Arguments.

use crate::pool::MIN_BLOCK;
use chainline_flowtable::OnFull;
use chainline_nf::Error;
use std::net::Ipv4Addr;

/// The most flows.
pub const MAX_FLOWS: u32 = (1 << 26) - 1;
/// The most external addresses.
pub const MAX_ADDRESSES: u32 = 256;
/// The most blocks of a subscriber.
pub const MAX_BLOCKS: usize = 8;

/// `args:` of a `nat`.
#[derive(Clone, Debug, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Prefixes of the hosts whose addresses are translated: `10.0.0.0/8`.
    pub inside: Vec<String>,
    /// External addresses: `198.51.100.7`, `198.51.100.0/28`, `198.51.100.1-198.51.100.9`.
    pub pool: Vec<String>,
    /// Chains whose packets come from inside, by their place in the chain file's list, from 0; all others' come from
    /// outside. Absent: told by the source address, which outsiders can forge.
    #[serde(default)]
    pub inside_chains: Option<Vec<u16>>,
    /// Where packets from inside to a host inside go that was addressed by its external address: a word of the NF's
    /// `divert` list. Absent: on in their chain.
    #[serde(default)]
    pub hairpin: Option<String>,
    /// External ports, and identifiers of ICMP queries.
    #[serde(default)]
    pub ports: Ports,
    /// Ports for each subscriber in blocks; absent: all subscribers of an address share its ports.
    #[serde(default)]
    pub blocks: Option<Blocks>,
    /// Whether all mappings of a host inside have one external address.
    #[serde(default)]
    pub pooling: Pooling,
    /// Who may answer, and who may begin.
    #[serde(default)]
    pub filter: Filter,
    /// Whether a port may serve several hosts inside, each towards remote endpoints of its own.
    #[serde(default)]
    pub port_reuse: Reuse,
    /// The most mappings of a host inside; 0 is no limit.
    #[serde(default)]
    pub mappings_per_subscriber: u32,
    /// Hosts inside at one time.
    #[serde(default = "subscribers")]
    pub subscribers: u32,
    /// Flows at one time; memory for them is taken at start-up, about 250 bytes each.
    #[serde(default = "flows")]
    pub flows: u32,
    /// What happens to new flows when there are that many: `evict_oldest` or `drop_new`.
    #[serde(default = "on_full")]
    pub on_full: OnFull,
    /// Whether packets from outside keep a flow.
    #[serde(default = "inbound_refresh")]
    pub inbound_refresh: bool,
    /// How long flows last without a packet.
    #[serde(default)]
    pub timeouts: Timeouts,
    /// For tests: the same ports each time. Absent: nobody can tell the next port.
    #[serde(default)]
    pub seed: Option<u64>,
}

/// A range of ports.
#[derive(Clone, Copy, Debug, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Ports {
    /// The first.
    pub from: u16,
    /// The last.
    pub to: u16,
}

impl Default for Ports {
    fn default() -> Self {
        Self { from: 1024, to: 65_535 }
    }
}

/// Blocks of ports.
#[derive(Clone, Copy, Debug, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Blocks {
    /// Ports of a block.
    pub ports: u16,
    /// Blocks that a host inside gets at most, 1 to 8.
    #[serde(default = "per_subscriber")]
    pub per_subscriber: u8,
}

/// RFC 4787 §4.1, "IP address pooling".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Pooling {
    /// One address, as long as the host has any mapping; without ports there, its new flows are dropped.
    #[default]
    Paired,
    /// Another address when the first has no ports left.
    Arbitrary,
}

/// RFC 4787 §5.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Filter {
    /// Everybody who knows the mapping.
    #[default]
    EndpointIndependent,
    /// Hosts to which the mapping has sent.
    AddressDependent,
    /// Endpoints to which the mapping has sent.
    AddressAndPortDependent,
}

/// When a port serves several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Reuse {
    /// A port has one owner.
    #[default]
    Never,
    /// When no free one is left.
    Exhausted,
    /// From the start: mappings depend on the remote endpoint.
    Always,
}

/// Seconds without a packet after which a flow is forgotten.
#[derive(Clone, Debug, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Timeouts {
    /// UDP that nobody answered.
    pub udp_unanswered_s: u32,
    /// UDP after that.
    pub udp_s: u32,
    /// TCP after SYNs in both directions.
    pub tcp_established_s: u32,
    /// TCP before that, and after FINs in both directions or a RST.
    pub tcp_transitory_s: u32,
    /// TCP from outside after the first SYN.
    pub tcp_unanswered_s: u32,
    /// ICMP queries.
    pub icmp_s: u32,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            udp_unanswered_s: 120,
            udp_s: 300,
            tcp_established_s: 7440,
            tcp_transitory_s: 240,
            tcp_unanswered_s: 6,
            icmp_s: 60,
        }
    }
}

fn subscribers() -> u32 {
    1 << 16
}

fn flows() -> u32 {
    1 << 18
}

fn on_full() -> OnFull {
    OnFull::EvictOldest
}

fn inbound_refresh() -> bool {
    true
}

fn per_subscriber() -> u8 {
    1
}

/// Ranges of IPv4 addresses, in the order in which they were written, none in two.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Addresses {
    /// First and last, and how many are before them.
    ranges: Vec<(u32, u32, u32)>,
    len: u64,
}

impl Addresses {
    /// From addresses, prefixes and ranges; `name` is the argument's.
    pub fn parse(words: &[String], name: &str) -> Result<Self, Error> {
        let mut all = Self { ranges: Vec::new(), len: 0 };
        if words.is_empty() {
            return Err(Error::Args(format!("args.{name}: found an empty list, expected addresses")));
        }
        for (n, word) in words.iter().enumerate() {
            let wrong = |why: &str| Error::Args(format!("args.{name}[{n}]: found '{word}', {why}"));
            let (from, to) = range(word).ok_or_else(|| {
                wrong("expected an IPv4 address, a prefix like 10.0.0.0/8 or a range like 192.0.2.1-192.0.2.9")
            })?;
            if from > to {
                return Err(wrong("expected a range whose end is not before its start"));
            }
            if all.ranges.iter().any(|r| from <= r.1 && r.0 <= to) {
                return Err(wrong("which overlaps what stands before"));
            }
            all.ranges.push((from, to, all.len.min(u64::from(u32::MAX)) as u32));
            all.len += u64::from(to - from) + 1;
        }
        Ok(all)
    }

    #[inline]
    pub fn index_of(&self, address: u32) -> Option<u32> {
        let range = self.ranges.iter().find(|r| (r.0..=r.1).contains(&address))?;
        Some(address - range.0 + range.2)
    }

    #[inline]
    pub fn has(&self, address: u32) -> bool {
        self.ranges.iter().any(|r| (r.0..=r.1).contains(&address))
    }

    /// The address of an index below [`Addresses::len`].
    pub fn at(&self, index: u32) -> u32 {
        let range = self.ranges.iter().rev().find(|r| r.2 <= index);
        range.map_or(0, |r| r.0 + (index - r.2))
    }

    pub fn len(&self) -> u32 {
        self.len.min(u64::from(u32::MAX)) as u32
    }

    fn overlaps(&self, other: &Self) -> bool {
        self.ranges.iter().any(|a| other.ranges.iter().any(|b| a.0 <= b.1 && b.0 <= a.1))
    }
}

fn range(word: &str) -> Option<(u32, u32)> {
    let address = |text: &str| text.parse::<Ipv4Addr>().ok().map(u32::from);
    if let Some((net, len)) = word.split_once('/') {
        let (net, len) = (address(net)?, len.parse::<u32>().ok().filter(|l| *l <= 32)?);
        let hosts = u32::MAX.checked_shr(len).unwrap_or(0);
        return (net & hosts == 0).then_some((net, net | hosts));
    }
    match word.split_once('-') {
        Some((from, to)) => Some((address(from)?, address(to)?)),
        None => address(word).map(|a| (a, a)),
    }
}

impl Args {
    /// Checks what types cannot say; the addresses inside, and the external ones.
    pub(crate) fn check(&self) -> Result<(Addresses, Addresses), Error> {
        let range = |name: &str, found: u32, from: u32, to: u32| match (from..=to).contains(&found) {
            true => Ok(()),
            false => Err(Error::Args(format!("args.{name}: found {found}, expected {from} to {to}"))),
        };
        let (inside, pool) = (Addresses::parse(&self.inside, "inside")?, Addresses::parse(&self.pool, "pool")?);
        if inside.overlaps(&pool) {
            return Err(Error::Args("args.pool: has addresses of args.inside too, expected others".into()));
        }
        if pool.len() > MAX_ADDRESSES {
            let found = pool.len();
            return Err(Error::Args(format!("args.pool: found {found} addresses, expected 1 to {MAX_ADDRESSES}")));
        }
        range("flows", self.flows, 1, MAX_FLOWS)?;
        range("subscribers", self.subscribers, 1, MAX_FLOWS)?;
        range("ports.to", self.ports.to.into(), self.ports.from.into(), 65_535)?;
        if let Some(blocks) = self.blocks {
            let ports = u32::from(self.ports.to - self.ports.from) + 1;
            range("blocks.ports", blocks.ports.into(), MIN_BLOCK.into(), ports)?;
            range("blocks.per_subscriber", blocks.per_subscriber.into(), 1, MAX_BLOCKS as u32)?;
            if self.pooling == Pooling::Arbitrary {
                return Err(Error::Args("args.pooling: found arbitrary, expected paired with blocks".into()));
            }
        }
        if self.on_full == OnFull::Bypass {
            let why = "found bypass, expected evict_oldest or drop_new: what is not translated may not go out";
            return Err(Error::Args(format!("args.on_full: {why}")));
        }
        let t = &self.timeouts;
        for (name, s) in [
            ("timeouts.udp_unanswered_s", t.udp_unanswered_s),
            ("timeouts.udp_s", t.udp_s),
            ("timeouts.tcp_established_s", t.tcp_established_s),
            ("timeouts.tcp_transitory_s", t.tcp_transitory_s),
            ("timeouts.tcp_unanswered_s", t.tcp_unanswered_s),
            ("timeouts.icmp_s", t.icmp_s),
        ] {
            range(name, s, 1, 1_000_000)?;
        }
        Ok((inside, pool))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_indexes() {
        let words = ["192.0.2.8/30", "10.0.0.1", "192.0.2.1-192.0.2.3"].map(str::to_owned);
        let all = Addresses::parse(&words, "pool").unwrap();
        assert_eq!(all.len(), 8);
        for i in 0..8 {
            assert_eq!(all.index_of(all.at(i)), Some(i));
        }
        assert_eq!(all.at(4), 0x0a00_0001);
        assert_eq!(all.index_of(0xc000_0204), None);
        assert_eq!(Addresses::parse(&["0.0.0.0/0".into()], "inside").unwrap().len(), u32::MAX);
        for wrong in ["", "10.0.0.1/8", "10.0.0.0/33", "10.0.0.9-10.0.0.1", "::1", "10.0.0.0/"] {
            assert!(Addresses::parse(&[wrong.into()], "inside").is_err(), "{wrong}");
        }
        assert!(Addresses::parse(&["10.0.0.0/8".into(), "10.1.0.0".into()], "inside").is_err());
        assert!(Addresses::parse(&[], "inside").is_err());
    }
}
