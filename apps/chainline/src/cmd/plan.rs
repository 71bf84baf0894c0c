//! `chainline plan`

use crate::exit::Exit;
use crate::input::ChainFile;
use crate::output::{self, Format};
use chainline_chain::{plan, table};

/// Shows what would run where: instances, cores, scheduling, and the queues between them.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub struct Plan {
    #[command(flatten)]
    file: ChainFile,
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

const HELP: &str = "\
Examples:
  chainline plan edge.yaml
  chainline plan --cores 0-7 edge.yaml        on a host with eight cores
  chainline plan edge.yaml -o json | jq '.instances[] | {name, cores}'";

impl Plan {
    pub fn run(self) -> anyhow::Result<Exit> {
        let (file, cores) = self.file.load()?;
        output::value(self.output, &plan::Plan::build(&file, &cores)?, table)?;
        Ok(Exit::Ok)
    }
}
