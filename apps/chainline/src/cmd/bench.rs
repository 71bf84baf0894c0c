//! `chainline bench`: measurements. A new one is a file under `bench/` with a `mod` line and a line in the list below,
//! as in [`crate::cmd`].

mod compare;
mod diff;
mod host;
mod niu;
mod queueing;
mod quick;
mod report;
mod run;
mod session;

use crate::exit::Exit;

/// Measures throughput, loss and latency of chains on this host.
#[derive(Debug, clap::Args)]
#[command(arg_required_else_help = true)]
pub struct Bench {
    #[command(subcommand)]
    command: Command,
}

super::commands! {
    Quick(quick::Quick),
    Run(run::Run),
    Niu(niu::Niu),
    Queueing(queueing::Queueing),
    Compare(compare::Compare),
    Host(host::Host),
    Diff(diff::Diff),
    Report(report::Report),
}

impl Bench {
    pub fn run(self) -> anyhow::Result<Exit> {
        self.command.run()
    }
}
