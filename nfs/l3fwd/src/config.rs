//! Arguments.

use chainline_nf::Error;
use chainline_packet::ether::Mac;
use std::path::PathBuf;

/// `args:` of an `l3fwd` NF.
#[derive(Clone, Debug, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// A route file, relative to the chain file.
    pub routes: Option<PathBuf>,
    /// A file of flows, relative to the chain file, see the README: those in it have a next hop of their own, whatever
    /// the routes say.
    pub flows: Option<PathBuf>,
    /// Flows as in such a file, one each.
    #[serde(default)]
    pub flows_inline: Vec<String>,
    /// How often the files are looked at, in seconds; 0 is never. A changed one is taken without losing a packet, a wrong
    /// one leaves the old one in force.
    #[serde(default = "reload_s")]
    pub reload_s: u32,
    /// What the route file's lines look like.
    #[serde(default)]
    pub format: Format,
    /// Routes as in a `native` route file, one each.
    #[serde(default)]
    pub routes_inline: Vec<String>,
    /// Next hops that routes name by their place in this list, from 0.
    #[serde(default)]
    pub next_hops: Vec<NextHop>,
    /// For frames that are neither IPv4 nor IPv6, such as ARP.
    #[serde(default)]
    pub non_ip: NonIp,
}

fn reload_s() -> u32 {
    1
}

/// What the lines of a route file look like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// `PREFIX via MAC [src MAC]` or `PREFIX INDEX`.
    #[default]
    Native,
    /// pyasn's `PREFIX<tab>ASN`: the next hop is number ASN modulo the length of `next_hops`.
    Pyasn,
}

/// A neighbour.
#[derive(Clone, Debug, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NextHop {
    /// Its hardware address.
    pub mac: String,
    /// The source address of frames sent to it; the one that the frame was sent to unless given.
    pub src_mac: Option<String>,
}

/// What happens to frames that are not IP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum NonIp {
    /// They go on, unchanged.
    #[default]
    Allow,
    /// They are dropped.
    Deny,
}

/// What a frame gets for its next hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Rewrite {
    pub dst: Mac,
    /// Absent: the address that the frame was sent to.
    pub src: Option<Mac>,
}

impl Args {
    /// The declared next hops.
    pub(crate) fn rewrites(&self) -> Result<Vec<Rewrite>, Error> {
        let mac = |i: usize, field: &str, text: &str| {
            text.parse().map_err(|e| Error::Args(format!("args.next_hops[{i}].{field}: found '{text}', {e}")))
        };
        let next_hop = |(i, hop): (usize, &NextHop)| {
            let src = hop.src_mac.as_deref().map(|text| mac(i, "src_mac", text)).transpose()?;
            Ok(Rewrite { dst: mac(i, "mac", &hop.mac)?, src })
        };
        self.next_hops.iter().enumerate().map(next_hop).collect()
    }
}
