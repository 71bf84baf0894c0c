//! `chainline validate`

use crate::exit::Exit;
use crate::input::{Cores, load};
use crate::output::{self, Format};
use crate::{args, report};
use chainline_chain::model::File;
use chainline_chain::{Diagnostic, Diagnostics};
use std::path::PathBuf;

/// Checks chain files: everything that is wrong with each, with line, column and what to write instead.
///
/// Names, types, ranges and paths are checked, rules that can never match, cores that the host does not have, and
/// the arguments of built-in NFs. Files that the arguments name are not read; `run` does that.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub struct Validate {
    /// Chain files, YAML or JSON; `-` is standard input.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    cores: Cores,
    /// `table`: words on standard error only.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

const HELP: &str = "\
Examples:
  chainline validate edge.yaml
  chainline validate --cores 0-63 edge.yaml   for a host with 64 cores
  chainline validate *.yaml -o json | jq '.[] | select(.valid | not)'";

/// One file's result.
#[derive(serde::Serialize)]
struct Checked {
    file: PathBuf,
    valid: bool,
    diagnostics: Vec<Diagnostic>,
}

impl Validate {
    pub fn run(self) -> anyhow::Result<Exit> {
        let cores = self.cores.get()?;
        let mut results = Vec::new();
        for path in self.files {
            let loaded = load(&path, &cores).and_then(|file| {
                args::check(&file)?;
                Ok(file)
            });
            let (valid, diagnostics) = match loaded {
                Ok(file) => {
                    if self.output == Format::Table {
                        report::warnings(&file);
                        report::note(&summary(&file));
                    }
                    (true, file.warnings)
                }
                Err(e) => {
                    let wrong: Diagnostics = e.downcast()?;
                    if self.output == Format::Table {
                        report::diagnostics(&wrong);
                    }
                    (false, wrong.items().to_vec())
                }
            };
            results.push(Checked { file: path, valid, diagnostics });
        }
        if self.output != Format::Table {
            output::value(self.output, &results, |_| String::new())?;
        }
        Ok(if results.iter().all(|r| r.valid) { Exit::Ok } else { Exit::Usage })
    }
}

fn summary(file: &File) -> String {
    let count = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
    let spec = &file.spec;
    format!(
        "{}: valid: {}, {}, {}",
        file.source.name().display(),
        count(spec.chains.len(), "chain"),
        count(spec.nfs.len(), "NF"),
        count(spec.ports.len(), "port")
    )
}
