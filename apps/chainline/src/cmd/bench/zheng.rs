//! `chainline bench zheng`

use super::built_in;
use super::quick::figures;
use super::session::Common;
use crate::exit::Exit;
use crate::output;
use chainline_bench::zheng::{FIGURES, SWEEPS};

/// The experiments of Zheng et al., "NFV Performance Profiling on Multi-core Servers", on single NFs: packet size, size of
/// state, temporal locality, and scaling out with state that replicas have for themselves or share.
///
/// The paper's NM is the kind `monitor`, its L4LB is `lb`. Its own figures stand beside ours where its text gives them.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub struct Zheng {
    /// These experiments alone, by name or by the paper's figure; `--list` names them.
    #[arg(value_name = "EXPERIMENT", value_parser = names())]
    experiments: Vec<String>,
    /// Lists the experiments with their cases, and what this host cannot do of them, and measures nothing.
    #[arg(long = "list", conflicts_with = "print")]
    only_list: bool,
    /// Prints the experiments as files for `bench run`, and measures nothing.
    #[arg(long)]
    print: bool,
    #[command(flatten)]
    common: Common,
}

const HELP: &str = "\
The paper's NFs have up to 22 cores of a 48-core server, a 100 GbE card that deals packets out, and another server that
sends them. Here the manager's core sends and deals out. Replicas on cores of their own that this host does not have are
rows that say so; replicas that share one core are measured and named so.

Examples:
  chainline bench zheng --quick           all of it in under five minutes
  chainline bench zheng fig3 fig7
  chainline bench zheng scaling --print > scaling.yaml

Exit code 0 if all was measured, 1 if not. What this host cannot do is no failure: the report says so.";

fn names() -> clap::builder::PossibleValuesParser {
    let mut all: Vec<&str> = SWEEPS.iter().chain(FIGURES).map(|(name, _)| *name).collect();
    all.dedup();
    all.into()
}

impl Zheng {
    pub fn run(self) -> anyhow::Result<Exit> {
        let means = |asked: &str, name: &str| asked == name || FIGURES.contains(&(asked, name));
        let wanted = |name: &str| self.experiments.is_empty() || self.experiments.iter().any(|a| means(a, name));
        let sweeps: Vec<_> = SWEEPS.iter().filter(|(name, _)| wanted(name)).collect();
        if self.print {
            built_in::print(&sweeps)?;
            return Ok(Exit::Ok);
        }
        if self.only_list {
            built_in::list("zheng", &sweeps, &self.common)?;
            return Ok(Exit::Ok);
        }
        let jobs = built_in::jobs("zheng", &sweeps)?;
        let title = "Zheng et al., NFV Performance Profiling on Multi-core Servers";
        let (exit, results) = self.common.run(title, "zheng", jobs)?;
        output::text(&figures(&results))?;
        Ok(exit)
    }
}
