//! `chainline graph`

use crate::exit::Exit;
use crate::input::ChainFile;
use crate::output;
use chainline_chain::plan::Plan;
use chainline_chain::{dot, mermaid};

/// Draws the chains: ports, NFs in their instances, and diverts as dashed lines.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub struct Graph {
    #[command(flatten)]
    file: ChainFile,
    #[arg(short, long, value_enum, default_value_t)]
    output: Language,
}

/// The language of the picture.
#[derive(Clone, Copy, Debug, Default, clap::ValueEnum)]
enum Language {
    /// Mermaid, which GitHub and GitLab draw inside Markdown.
    #[default]
    Mermaid,
    /// Graphviz.
    Dot,
}

const HELP: &str = "\
Examples:
  chainline graph edge.yaml
  chainline graph edge.yaml -o dot | dot -Tsvg > edge.svg";

impl Graph {
    pub fn run(self) -> anyhow::Result<Exit> {
        let (file, cores) = self.file.load()?;
        let plan = Plan::build(&file, &cores)?;
        output::text(&match self.output {
            Language::Mermaid => mermaid(&plan),
            Language::Dot => dot(&plan),
        })?;
        Ok(Exit::Ok)
    }
}
