//! The command line as a whole.

use crate::cmd::Command;
use crate::exit::{Exit, WrongInput};
use crate::report;
use clap::Parser;
use std::io;
use std::process::ExitCode;

/// Runs service chains of network functions, many to a core, with nothing lost uncounted.
#[derive(Debug, Parser)]
#[command(name = "chainline", version, arg_required_else_help = true, after_help = HELP)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

const HELP: &str = "\
Examples:
  chainline validate edge.yaml               is the chain file right?
  chainline plan edge.yaml                   what would run where
  chainline plan edge.yaml -o json | jq .instances
  chainline graph edge.yaml -o dot | dot -Tsvg > edge.svg
  chainline run edge.yaml
  chainline describe nf firewall             arguments, counters, what it reads and remembers
  chainline ctl set-priority fw 4            change it while packets flow
  chainline schema > chain-file.schema.json  for editors

What machines read goes to standard output, words for people to standard error. NO_COLOR switches colours off.

Exit codes:
  0  all went well
  1  the work could not be done: the host, a device or an NF failed
  2  the command line or the chain file is wrong; standard error says where
  3  bench diff --fail-on-worse: something got worse";

/// Reads the command line, does what it says, reports what went wrong.
pub fn main() -> ExitCode {
    match Cli::parse().command.run() {
        Ok(exit) => exit.into(),
        Err(e) => failure(&e).into(),
    }
}

fn failure(error: &anyhow::Error) -> Exit {
    if let Some(diagnostics) = error.downcast_ref() {
        report::diagnostics(diagnostics);
        return Exit::Usage;
    }
    // `chainline … | head` is no failure.
    let broken = |e: &(dyn std::error::Error + 'static)| {
        e.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
    };
    if error.chain().any(broken) {
        return Exit::Ok;
    }
    report::error(&format!("{error:#}"));
    if error.is::<WrongInput>() { Exit::Usage } else { Exit::Failed }
}
