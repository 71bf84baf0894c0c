//! `chainline bench queueing`

use super::quick::figures;
use super::session::{Common, Job};
use crate::exit::Exit;
use crate::output;
use chainline_bench::results::InputFile;
use chainline_bench::{niu, queueing, sweep};
use std::path::Path;

/// Measures a known truth: a `synthetic` NF with constant and exponential cost under Poisson arrivals, beside what the
/// theory of M/D/1 and M/M/1 says.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub struct Queueing {
    /// Prints the benchmark as a file for `bench run`, and measures nothing.
    #[arg(long)]
    print: bool,
    #[command(flatten)]
    common: Common,
}

const HELP: &str = "\
A measurement can be trusted as far as it finds what is known. One NF that takes 100,000 cycles a packet, one packet at a
time, is a queue whose times theory gives; the report draws both, mean, median and P99. What is measured lies above
theory by what theory does not have: the generator's own latency, two queues, and waking the NF.

Examples:
  chainline bench queueing
  chainline bench queueing --rounds 10 -d results";

impl Queueing {
    pub fn run(self) -> anyhow::Result<Exit> {
        if self.print {
            output::text(niu::QUEUEING)?;
            return Ok(Exit::Ok);
        }
        let spec = sweep::load(niu::QUEUEING.as_bytes(), Path::new("queueing.yaml"))?.spec;
        let file = InputFile { name: "queueing.yaml".into(), text: niu::QUEUEING.into() };
        let title = spec.title.clone();
        let job = Job { name: "queueing".into(), file, dir: Path::new(""), spec, cached: true };
        let (exit, results) = self.common.run_with(&title, "queueing", vec![job], queueing::add_theory)?;
        output::text(&figures(&results))?;
        Ok(exit)
    }
}
