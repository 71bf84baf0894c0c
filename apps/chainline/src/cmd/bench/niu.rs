//! `chainline bench niu`

use super::quick::figures;
use super::session::{Common, Job};
use crate::exit::Exit;
use crate::output;
use chainline_bench::results::InputFile;
use chainline_bench::{niu, sweep};
use std::path::Path;

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
            let texts: Vec<&str> = sweeps.iter().map(|(_, text)| *text).collect();
            output::text(&texts.join("---\n"))?;
            return Ok(Exit::Ok);
        }
        let mut jobs = Vec::new();
        for (name, text) in sweeps {
            let file = format!("niu-{name}.yaml");
            let spec = sweep::load(text.as_bytes(), Path::new(&file))?.spec;
            let file = InputFile { name: file, text: (*text).to_owned() };
            jobs.push(Job { name: (*name).to_owned(), file, dir: Path::new(""), spec, cached: true });
        }
        let (exit, results) = self.common.run("Niu et al., Benchmarking NFV Software Dataplanes", "niu", jobs)?;
        output::text(&figures(&results))?;
        Ok(exit)
    }
}
