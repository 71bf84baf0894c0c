//! Arguments.

use crate::maglev::is_prime;
use chainline_flowtable::OnFull;
use chainline_nf::Error;
use chainline_packet::ether::Mac;

/// The most flows of one IP version.
pub const MAX_FLOWS: u32 = 1 << 26;
/// The largest table of a service.
pub const MAX_TABLE: u32 = 1 << 23;

/// `args:` of an `lb`.
#[derive(Clone, Debug, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// The file of services and their backends, see the README.
    #[serde(default)]
    pub services: Option<String>,
    /// In its place: the lines of such a file.
    #[serde(default)]
    pub services_inline: Vec<String>,
    /// How often the file is looked at, in seconds; 0 is never. A changed file is taken without losing a packet, a wrong
    /// one leaves the old one in force.
    #[serde(default = "reload_s")]
    pub reload_s: u32,
    /// IPv4 flows that have a backend of their own; memory for them is taken at start-up, about 80 bytes each.
    #[serde(default = "flows")]
    pub flows: u32,
    /// The same for IPv6; about 130 bytes each.
    #[serde(default = "flows6")]
    pub flows6: u32,
    /// What happens to new flows when there are that many.
    #[serde(default = "on_full")]
    pub on_full: OnFull,
    /// Places in each service's table; a prime, best a hundred times the number of backends or more.
    #[serde(default = "table_size")]
    pub table_size: u32,
    /// How long flows last without a packet from the client.
    #[serde(default)]
    pub timeouts: Timeouts,
    /// Backends that do not answer get no new flows for a while; absent: nobody looks.
    #[serde(default)]
    pub passive: Option<Passive>,
    /// Source hardware address of frames to backends of `dsr` services; absent: as it was.
    #[serde(default)]
    pub mac: Option<String>,
}

/// Seconds without a packet after which a flow is forgotten.
#[derive(Clone, Debug, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Timeouts {
    /// TCP after one packet.
    pub tcp_opening_s: u32,
    /// TCP after more.
    pub tcp_s: u32,
    /// TCP after a FIN or RST.
    pub tcp_closing_s: u32,
    /// UDP.
    pub udp_s: u32,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self { tcp_opening_s: 30, tcp_s: 900, tcp_closing_s: 30, udp_s: 180 }
    }
}

/// When a backend is taken for dead without being asked; of `nat` services, whose replies come by.
#[derive(Clone, Debug, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Passive {
    /// New TCP connections in a row that it refused or that got no answer at all.
    pub failures: u32,
    /// How long it must have been silent besides.
    pub silent_ms: u32,
    /// How long it gets no new flows then.
    pub retry_s: u32,
}

impl Default for Passive {
    fn default() -> Self {
        Self { failures: 5, silent_ms: 2000, retry_s: 10 }
    }
}

fn reload_s() -> u32 {
    1
}

fn flows() -> u32 {
    1 << 18
}

fn flows6() -> u32 {
    1 << 16
}

fn on_full() -> OnFull {
    OnFull::EvictOldest
}

fn table_size() -> u32 {
    65_537
}

impl Args {
    /// Checks what types cannot say, and returns the hardware address.
    pub(crate) fn check(&self) -> Result<Option<Mac>, Error> {
        let range = |name: &str, found: u32, from: u32, to: u32| match (from..=to).contains(&found) {
            true => Ok(()),
            false => Err(Error::Args(format!("args.{name}: found {found}, expected {from} to {to}"))),
        };
        if self.services.is_some() != self.services_inline.is_empty() {
            return Err(Error::Args("args: expected one of services and services_inline".into()));
        }
        range("flows", self.flows, 1, MAX_FLOWS)?;
        range("flows6", self.flows6, 1, MAX_FLOWS)?;
        range("table_size", self.table_size, 3, MAX_TABLE)?;
        if !is_prime(self.table_size) {
            return Err(Error::Args(format!("args.table_size: found {}, expected a prime number", self.table_size)));
        }
        let t = &self.timeouts;
        for (name, s) in [
            ("timeouts.tcp_opening_s", t.tcp_opening_s),
            ("timeouts.tcp_s", t.tcp_s),
            ("timeouts.tcp_closing_s", t.tcp_closing_s),
            ("timeouts.udp_s", t.udp_s),
        ] {
            range(name, s, 1, 1_000_000)?;
        }
        if let Some(p) = &self.passive {
            range("passive.failures", p.failures, 1, 1_000_000)?;
            range("passive.retry_s", p.retry_s, 1, 1_000_000)?;
        }
        let mac = self
            .mac
            .as_ref()
            .map(|text| text.parse().map_err(|e| Error::Args(format!("args.mac: found '{text}', {e}"))));
        mac.transpose()
    }
}
