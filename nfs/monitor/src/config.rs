//! Arguments.

use chainline_nf::Error;

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
    /// A host that has sent nothing for this long is forgotten; 0 keeps all.
    #[serde(default = "idle_timeout_s")]
    pub idle_timeout_s: u64,
    /// Rows in the report's table of top talkers.
    #[serde(default = "top")]
    pub top: usize,
}

fn hosts() -> u32 {
    1 << 16
}

fn idle_timeout_s() -> u64 {
    300
}

fn top() -> usize {
    10
}

impl Args {
    pub(crate) fn check(&self) -> Result<(), Error> {
        if !(1..=MAX_HOSTS).contains(&self.hosts) {
            return Err(Error::Args(format!("args.hosts: found {}, expected 1 to {MAX_HOSTS}", self.hosts)));
        }
        if self.top > MAX_TOP {
            return Err(Error::Args(format!("args.top: found {}, expected at most {MAX_TOP}", self.top)));
        }
        Ok(())
    }
}
