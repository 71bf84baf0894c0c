//! `chainline bench niu`

use super::built_in;
use super::quick::figures;
use super::session::Common;
use crate::exit::Exit;
use crate::output;
use chainline_bench::niu;

/// The experiments of Niu et al., "Benchmarking NFV Software Dataplanes": frame size, NF, CPU frequency, workers, chain
/// length, placement, colocation. The paper's own figures stand beside ours where its text gives them.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub struct Niu {
    /// These experiments alone.
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = names())]
    only: Vec<String>,
    /// Prints the experiments as files for `bench run`, and measures nothing.
    #[arg(long)]
    print: bool,
    #[command(flatten)]
    common: Common,
}

const HELP: &str = "\
The paper's dataplanes were virtual machines behind 10 GbE; ours are processes behind a generator. Shapes can be
compared, heights cannot. A second socket or a frequency that this host does not have is a row that says so.

Examples:
  chainline bench niu --quick                  all of it in some minutes
  chainline bench niu --only chain,cpu
  chainline bench niu --only chain --print > chain.yaml

Exit code 0 if all was measured, 1 if not. What this host cannot do is no failure: the report says so.";

fn names() -> clap::builder::PossibleValuesParser {
    niu::SWEEPS.iter().map(|(name, _)| *name).collect::<Vec<_>>().into()
}

impl Niu {
    pub fn run(self) -> anyhow::Result<Exit> {
        let wanted = |name: &str| self.only.is_empty() || self.only.iter().any(|n| n == name);
        let sweeps: Vec<_> = niu::SWEEPS.iter().filter(|(name, _)| wanted(name)).collect();
        if self.print {
            built_in::print(&sweeps)?;
            return Ok(Exit::Ok);
        }
        let jobs = built_in::jobs("niu", &sweeps)?;
        let (exit, results) = self.common.run("Niu et al., Benchmarking NFV Software Dataplanes", "niu", jobs)?;
        output::text(&figures(&results))?;
        Ok(exit)
    }
}
