//! Arguments.

use chainline_nf::{Error, Sharing};

/// The most hosts: about 2 GiB of table.
pub const MAX_HOSTS: u32 = 1 << 24;
/// The most rows of the report.
pub const MAX_TOP: usize = 100;

/// `args:` of a `monitor`.
#[derive(Clone, Debug, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Hosts that can be watched at once; memory for them is taken at start-up, about 80 bytes each.
    #[serde(default = "hosts")]
    pub hosts: u32,
    /// A host that has sent nothing for this long is forgotten, 300 if absent; 0 keeps all, and shared state does always.
    #[serde(default)]
    pub idle_timeout_s: Option<u64>,
    /// Rows in the report's table of top talkers.
    #[serde(default = "top")]
    pub top: usize,
    /// Who has a large share of all traffic, in bounded memory.
    #[serde(default)]
    pub heavy_hitters: Option<HeavyHitters>,
    /// Records of flows, written to files.
    #[serde(default)]
    pub flow_records: Option<FlowRecords>,
}

/// Who has a share of all traffic.
#[derive(Clone, Debug, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HeavyHitters {
    /// The share, from 0.0005 to 1: 0.01 is a hundredth. Counts are too large by a tenth of it at most.
    pub share: f64,
    /// Of what.
    pub by: By,
    /// Who.
    pub of: Of,
}

/// What is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum By {
    /// Bytes of frames without FCS.
    #[default]
    Bytes,
    /// Packets.
    Packets,
}

/// Who is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Of {
    /// Source hosts.
    #[default]
    Source,
    /// Destination hosts.
    Destination,
    /// 5-tuples.
    Flow,
}

/// Records of flows.
#[derive(Clone, Debug, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FlowRecords {
    /// An IPFIX file (RFC 5655), relative to the chain file. What is there stays.
    pub ipfix: Option<String>,
    /// A file of JSON lines, one a record.
    pub json: Option<String>,
    /// Flows at one time. When there are that many, one of those that are to end soon is written and makes room.
    #[serde(default = "flows")]
    pub flows: u32,
    /// A flow that was silent for this long is written and forgotten.
    #[serde(default = "idle_s")]
    pub idle_s: u32,
    /// A flow that goes on gets a record after this long, and counts from 0 again.
    #[serde(default = "active_s")]
    pub active_s: u32,
    /// IPFIX's observation domain.
    #[serde(default)]
    pub domain: u32,
}

/// The most flows: the records of all of them fit into one buffer of a file.
pub const MAX_FLOWS: u32 = 1 << 17;

impl Default for HeavyHitters {
    fn default() -> Self {
        Self { share: 0.01, by: By::Bytes, of: Of::Source }
    }
}

fn flows() -> u32 {
    1 << 14
}

fn idle_s() -> u32 {
    15
}

fn active_s() -> u32 {
    300
}

impl HeavyHitters {
    pub(crate) fn check(&self) -> Result<(), Error> {
        if (0.0005..=1.0).contains(&self.share) {
            return Ok(());
        }
        Err(Error::Args(format!("args.heavy_hitters.share: found {}, expected 0.0005 to 1", self.share)))
    }
}

impl FlowRecords {
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.ipfix.is_none() && self.json.is_none() {
            return Err(Error::Args("args.flow_records: expected at least one of ipfix and json".into()));
        }
        let range = |name: &str, found: u32, to: u32| match (1..=to).contains(&found) {
            true => Ok(()),
            false => Err(Error::Args(format!("args.flow_records.{name}: found {found}, expected 1 to {to}"))),
        };
        range("flows", self.flows, MAX_FLOWS)?;
        range("idle_s", self.idle_s, 1_000_000)?;
        range("active_s", self.active_s, 1_000_000)
    }
}

fn hosts() -> u32 {
    1 << 16
}

/// Seconds.
const IDLE_TIMEOUT_S: u64 = 300;

fn top() -> usize {
    10
}

impl Args {
    /// Nanoseconds until a host is forgotten, 0 for never.
    pub(crate) fn idle_ns(&self, sharing: Sharing) -> Result<u64, Error> {
        match (self.idle_timeout_s, sharing) {
            (found, Sharing::Private) => Ok(found.unwrap_or(IDLE_TIMEOUT_S).saturating_mul(1_000_000_000)),
            (None | Some(0), _) => Ok(0),
            (Some(found), shared) => Err(Error::Args(format!(
                "args.idle_timeout_s: found {found} with `state: {}`, expected 0: a shared table keeps all hosts",
                shared.word()
            ))),
        }
    }

    /// Checks what types cannot say.
    pub(crate) fn check(&self, sharing: Sharing) -> Result<(), Error> {
        self.idle_ns(sharing)?;
        self.heavy_hitters.as_ref().map_or(Ok(()), HeavyHitters::check)?;
        self.flow_records.as_ref().map_or(Ok(()), FlowRecords::check)?;
        if !(1..=MAX_HOSTS).contains(&self.hosts) {
            return Err(Error::Args(format!("args.hosts: found {}, expected 1 to {MAX_HOSTS}", self.hosts)));
        }
        if self.top > MAX_TOP {
            return Err(Error::Args(format!("args.top: found {}, expected at most {MAX_TOP}", self.top)));
        }
        Ok(())
    }
}
