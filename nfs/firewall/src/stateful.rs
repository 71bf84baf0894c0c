//! The arguments of the stateful mode.

use chainline_flowtable::OnFull;
use chainline_nf::Error;

/// The most connections of one IP version.
pub const MAX_CONNECTIONS: u32 = 1 << 26;

/// `args.stateful` of a `firewall`.
#[derive(Clone, Debug, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Stateful {
    /// IPv4 connections at one time; memory for them is taken at start-up, about 80 bytes each.
    pub connections: u32,
    /// The same for IPv6, about 115 bytes each.
    pub connections6: u32,
    /// What happens to new connections when there are that many.
    pub on_full: OnFull,
    /// What becomes of packets that fit no state.
    pub invalid: Invalid,
    /// Whether TCP connections that were there before are picked up by any packet with an ACK, if a rule allows it.
    pub midstream: bool,
    /// How long connections may be silent.
    pub timeouts: Timeouts,
}

/// What becomes of packets that fit no state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Invalid {
    /// They are dropped as `invalid_state`.
    #[default]
    Drop,
    /// The rules judge each of them.
    Match,
}

/// Seconds without a packet after which a connection is forgotten.
#[derive(Clone, Debug, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Timeouts {
    /// TCP: a SYN and no answer.
    pub tcp_syn_sent_s: u32,
    /// TCP: a SYN and a SYN-ACK.
    pub tcp_syn_received_s: u32,
    /// TCP: open.
    pub tcp_established_s: u32,
    /// TCP: one end has sent a FIN.
    pub tcp_fin_wait_s: u32,
    /// TCP: it was acknowledged.
    pub tcp_close_wait_s: u32,
    /// TCP: both ends have sent a FIN.
    pub tcp_last_ack_s: u32,
    /// TCP: both were acknowledged.
    pub tcp_time_wait_s: u32,
    /// TCP: after a RST.
    pub tcp_closed_s: u32,
    /// UDP and other protocols with ports: packets one way.
    pub udp_s: u32,
    /// UDP and other protocols with ports: packets both ways.
    pub udp_stream_s: u32,
    /// Pings.
    pub icmp_s: u32,
    /// Protocols without ports.
    pub other_s: u32,
}

impl Default for Stateful {
    fn default() -> Self {
        Self {
            connections: 1 << 18,
            connections6: 1 << 16,
            on_full: OnFull::EvictOldest,
            invalid: Invalid::Drop,
            midstream: false,
            timeouts: Timeouts::default(),
        }
    }
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            tcp_syn_sent_s: 120,
            tcp_syn_received_s: 60,
            tcp_established_s: 432_000,
            tcp_fin_wait_s: 120,
            tcp_close_wait_s: 60,
            tcp_last_ack_s: 30,
            tcp_time_wait_s: 120,
            tcp_closed_s: 10,
            udp_s: 30,
            udp_stream_s: 120,
            icmp_s: 30,
            other_s: 600,
        }
    }
}

impl Stateful {
    pub(crate) fn check(&self) -> Result<(), Error> {
        let range = |name: &str, found: u32, to: u32| match (1..=to).contains(&found) {
            true => Ok(()),
            false => Err(Error::Args(format!("args.stateful.{name}: found {found}, expected 1 to {to}"))),
        };
        range("connections", self.connections, MAX_CONNECTIONS)?;
        range("connections6", self.connections6, MAX_CONNECTIONS)?;
        self.timeouts.named().into_iter().try_for_each(|(name, s)| range(&format!("timeouts.{name}"), s, 1_000_000))
    }
}

impl Timeouts {
    fn named(&self) -> [(&'static str, u32); crate::track::CLASSES] {
        [
            ("tcp_syn_sent_s", self.tcp_syn_sent_s),
            ("tcp_syn_received_s", self.tcp_syn_received_s),
            ("tcp_established_s", self.tcp_established_s),
            ("tcp_fin_wait_s", self.tcp_fin_wait_s),
            ("tcp_close_wait_s", self.tcp_close_wait_s),
            ("tcp_last_ack_s", self.tcp_last_ack_s),
            ("tcp_time_wait_s", self.tcp_time_wait_s),
            ("tcp_closed_s", self.tcp_closed_s),
            ("udp_s", self.udp_s),
            ("udp_stream_s", self.udp_stream_s),
            ("icmp_s", self.icmp_s),
            ("other_s", self.other_s),
        ]
    }

    /// In milliseconds, by class of state.
    pub(crate) fn ms(&self) -> [u64; crate::track::CLASSES] {
        self.named().map(|(_, s)| u64::from(s) * 1000)
    }
}
