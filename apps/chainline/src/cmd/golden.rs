//! `chainline golden`

use crate::exit::{Exit, WrongInput};
use crate::{kinds, output, report};
use chainline_nf::golden::{GoldenError, Subject, check};
use std::path::PathBuf;

/// Plays golden files through an NF: packets in, and the verdicts, bytes and counters that must come out.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub struct Golden {
    /// A built-in kind, or the path of a shared object.
    kind: String,
    /// The golden files.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Writes what was seen into the files, as the environment's UPDATE=1 does.
    #[arg(long)]
    update: bool,
}

const HELP: &str = "\
Examples:
  chainline golden firewall nfs/firewall/tests/golden/*.golden
  chainline golden ./libmine.so tests/*.golden
  chainline golden ./libmine.so new.golden --update

The exit code is 1 if the NF does something else than a file says.";

impl Golden {
    pub fn run(self) -> anyhow::Result<Exit> {
        let subject = subject(&self.kind)?;
        let update = self.update || std::env::var_os("UPDATE").is_some_and(|v| v == "1");
        let mut exit = Exit::Ok;
        for file in &self.files {
            match check(&*subject, file, update) {
                Ok(passed) => {
                    let updated = if passed.updated { ", updated" } else { "" };
                    let (cases, packets) = (count(passed.cases, "case"), count(passed.packets, "packet"));
                    output::text(&format!("{}: {cases}, {packets}{updated}\n", file.display()))?;
                }
                Err(e @ GoldenError::Mismatch(_)) => {
                    report::note(&e.to_string());
                    exit = Exit::Failed;
                }
                Err(e) => return Err(WrongInput(e.to_string()).into()),
            }
        }
        Ok(exit)
    }
}

fn count(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

/// The kind of this name; whatever looks like a path is a shared object.
fn subject(kind: &str) -> anyhow::Result<Box<dyn Subject>> {
    if kind.contains('/') || kind.ends_with(".so") {
        let loaded = chainline_nf_c::load(kind).map_err(|e| WrongInput(e.to_string()))?;
        return Ok(Box::new(loaded));
    }
    let registry = kinds::registry();
    let Some(found) = registry.get(kind) else {
        let known: Vec<_> = registry.iter().map(|k| k.name).collect();
        let message =
            format!("no kind \"{kind}\"; expected one of {}, or a path such as ./libmine.so", known.join(", "));
        return Err(WrongInput(message).into());
    };
    Ok(Box::new(found.clone()))
}
