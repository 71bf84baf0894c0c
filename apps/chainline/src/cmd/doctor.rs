//! `chainline doctor`

use crate::exit::Exit;
use crate::output::{self, Format};
use chainline_doctor::{Host, Live, Status, examine};
use std::time::Duration;

/// Checks this host: what it lacks for running chains well, what follows, and what to do.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub struct Doctor {
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
    /// How long to watch the CPU time that a hypervisor takes away, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 250, value_parser = clap::value_parser!(u64).range(0..=60_000))]
    sample_ms: u64,
}

const HELP: &str = "\
Status: fail – chains cannot run; warn – they run, but slower, less even, or without a feature;
info – worth knowing, no fault; ok. The exit code is 1 if any check fails, else 0.

Examples:
  chainline doctor
  chainline doctor -o json | jq '.checks[] | select(.status == \"warn\")'";

impl Doctor {
    pub fn run(self) -> anyhow::Result<Exit> {
        let mut host = Host::default();
        if let Ok(dir) = std::env::var("XDG_RUNTIME_DIR") {
            host = host.with_runtime_dir(dir);
        }
        let report = examine(&host, &Live::probe(Duration::from_millis(self.sample_ms)));
        output::value(self.output, &report, ToString::to_string)?;
        Ok(if report.worst() == Status::Fail { Exit::Failed } else { Exit::Ok })
    }
}
