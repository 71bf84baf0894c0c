//! `chainline schema`

use crate::exit::{Exit, WrongInput};
use crate::{kinds, output};

/// Prints the JSON Schema of the chain file, of the arguments of one kind of NF, of the report of `run`, of its control
/// socket, of benchmark files, or of their results.
///
/// Editors with a YAML language server complete and check chain files that begin with
/// `# yaml-language-server: $schema=chain-file.schema.json`.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub struct Schema {
    /// A built-in kind of NF, such as `firewall`: the schema of its `args`.
    kind: Option<String>,
    /// The schema of what `chainline run -o json` prints.
    #[arg(long, conflicts_with = "kind")]
    report: bool,
    /// The schema of the files that `chainline bench run` reads.
    #[arg(long, conflicts_with_all = ["kind", "report"])]
    benchmark: bool,
    /// The schema of `results.json`, which benchmarks write.
    #[arg(long, conflicts_with_all = ["kind", "report", "benchmark"])]
    results: bool,
    /// The schema of the control socket's requests and replies.
    #[arg(long, conflicts_with_all = ["kind", "report", "benchmark", "results"])]
    control: bool,
}

const HELP: &str = "\
Examples:
  chainline schema > chain-file.schema.json
  chainline schema firewall
  chainline schema --report
  chainline schema --benchmark
  chainline schema --results
  chainline schema --control";

impl Schema {
    pub fn run(self) -> anyhow::Result<Exit> {
        let schema = match self.kind {
            None if self.report => chainline_manager::report_schema(),
            None if self.benchmark => chainline_bench::sweep::schema(),
            None if self.results => chainline_bench::report::schema(),
            None if self.control => chainline_ctl::schema(),
            None => chainline_chain::schema(),
            Some(name) => {
                let registry = kinds::registry();
                let Some(kind) = registry.get(&name) else {
                    let kinds = registry.iter().map(|k| k.name).collect::<Vec<_>>().join(", ");
                    return Err(WrongInput(format!("found the kind \"{name}\", expected one of {kinds}")).into());
                };
                (kind.args_schema)()
            }
        };
        output::text(&(serde_json::to_string_pretty(&schema)? + "\n"))?;
        Ok(Exit::Ok)
    }
}
