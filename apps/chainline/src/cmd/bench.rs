//! `chainline bench`: measurements. A new one is a file under `bench/` with a `mod` line and a line in the list below,
//! as in [`crate::cmd`].

mod built_in;
mod compare;
mod diff;
mod host;
mod nfvnice;
mod niu;
mod queueing;
mod quick;
mod report;
mod run;
mod session;
mod zheng;

use crate::exit::Exit;

/// Measures throughput, loss and latency of chains on this host.
///
/// A benchmark is made of trials: so many frames a second for so long, sent by a generator inside the chain's manager or
/// by a tester behind real ports. Each trial is judged: one that other programs disturbed does not count and is made
/// again. What comes out is a directory with every trial (results.json, trials.csv) and a page to hand on (report.html).
#[derive(Debug, clap::Args)]
#[command(arg_required_else_help = true, after_help = HELP)]
pub struct Bench {
    #[command(subcommand)]
    command: Command,
}

const HELP: &str = "\
Where to begin:
  chainline bench quick                     three minutes: NDR, PDR and latency of one chain
  chainline bench quick edge.yaml           of one's own, which needs a `generator` port
  chainline bench run sweep.yaml --list     what a benchmark file would measure, and what this host cannot do of it
  sudo chainline bench compare --quick      the same packets through the kernel, Open vSwitch, testpmd and a chain
  chainline bench diff before/ after/       better, worse, or no difference

Words: NDR is the highest load at which nothing is lost, PDR the highest at which half a percent is (RFC 9971); MRR is what
arrives when the generator sends all it can. Latency counts from when a frame should have been sent.
Ctrl-C ends after the trial that is being made; --resume DIR goes on.
How each figure is measured, with sources: docs/benchmarking.md.";

super::commands! {
    Quick(quick::Quick),
    Run(run::Run),
    Niu(niu::Niu),
    Nfvnice(nfvnice::Nfvnice),
    Zheng(zheng::Zheng),
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
