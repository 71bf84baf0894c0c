//! `chainline bench nfvnice`

use super::built_in;
use super::session::{Common, stop};
use crate::exit::Exit;
use crate::output::{self, Format};
use crate::report;
use chainline_bench::nfvnice::summary::{FORMAT, Scenario, Summary};
use chainline_bench::nfvnice::{ALSO, SCENARIOS, tcp};
use chainline_bench::results::Results;
use chainline_bench::sweep;

/// The experiments of the NFVnice paper (Kulkarni et al., SIGCOMM 2017) and those on scheduling of Zhang et al.: chains
/// that share cores, with no mechanism of ours (a stock platform), with some and with all, held against the same NFs fused.
///
/// Each scenario runs in rounds over all its cases, one after another. The papers' own figures stand beside ours where their
/// text or tables give them.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub struct Nfvnice {
    /// These scenarios alone; `--list` names them.
    #[arg(value_name = "SCENARIO", value_parser = names())]
    scenarios: Vec<String>,
    /// Lists the scenarios with their cases, and what this host cannot do of them, and measures nothing.
    #[arg(long = "list", conflicts_with = "print")]
    only_list: bool,
    /// Prints the scenarios as files for `bench run`, and measures nothing.
    #[arg(long)]
    print: bool,
    /// The form of the output.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
    #[command(flatten)]
    common: Common,
}

const HELP: &str = "\
Columns: throughput flat out; of the same NFs fused; packets a second dropped after work; Jain's index of the chains'
delivered shares; 99th percentile of the latency; context switches a second of all NFs, asleep and pre-empted.

Examples:
  chainline bench nfvnice --quick                  all of it in under five minutes
  chainline bench nfvnice fig7 fig11
  chainline bench nfvnice fig7 -o json | jq '.scenarios[].cases[] | [.name, .ratio_to_fused.median, .wasted.median]'
  chainline bench nfvnice fig7 --print > fig7.yaml

Exit code 0 if all was measured, 1 if not. What this host cannot do is no failure: the report says so.";

fn names() -> clap::builder::PossibleValuesParser {
    let also = ALSO.iter().map(|(name, _)| *name);
    SCENARIOS.iter().map(|(name, _)| *name).chain([tcp::NAME]).chain(also).collect::<Vec<_>>().into()
}

impl Nfvnice {
    pub fn run(self) -> anyhow::Result<Exit> {
        let named = |n: &str| ALSO.iter().find(|(also, _)| *also == n).map_or(n.to_owned(), |(_, of)| (*of).to_owned());
        let asked: Vec<String> = self.scenarios.iter().map(|n| named(n)).collect();
        let wanted = |name: &str| asked.is_empty() || asked.iter().any(|n| n == name);
        let scenarios: Vec<_> = SCENARIOS.iter().filter(|(name, _)| wanted(name)).collect();
        if self.print {
            // What real programs measure is no benchmark file.
            built_in::print(&scenarios)?;
            return Ok(Exit::Ok);
        }
        if self.only_list {
            built_in::list("nfvnice", &scenarios, &self.common)?;
            if wanted(tcp::NAME) {
                output::text(&format!("{}: {}\n", tcp::NAME, tcp::TITLE))?;
            }
            return Ok(Exit::Ok);
        }
        let jobs = built_in::jobs("nfvnice", &scenarios)?;
        let experiment = wanted(tcp::NAME).then(|| self.experiment()).transpose()?;
        let titles: Vec<(String, String)> = jobs.iter().map(|j| (j.name.clone(), j.spec.title.clone())).collect();
        let mut made = Vec::new();
        let mut each = |name: &str, bench: &chainline_bench::run::Bench, done: &chainline_bench::run::Done| {
            let title = titles.iter().find(|(n, _)| n == name).map_or("", |(_, t)| t);
            made.push(Scenario::of(name, title, bench, done));
        };
        let title = "NFVnice and Zhang et al.: chains that share cores";
        let mut real = None;
        let finish = |results: &mut Results| {
            let Some(experiment) = experiment.filter(|_| !stop()) else { return };
            let (section, scenario) = experiment.measure(stop, report::note);
            results.sections.push(section);
            real = Some(scenario);
        };
        let (exit, results) = self.common.run_each(title, "nfvnice", jobs, &mut each, finish)?;
        made.extend(real);
        let summary = Summary {
            format: FORMAT.into(),
            complete: results.complete,
            quick: self.common.quick(),
            environment: results.environment,
            scenarios: made,
        };
        output::value(self.output, &summary, |s| {
            s.scenarios.iter().map(Scenario::table).collect::<Vec<_>>().join("\n")
        })?;
        Ok(exit)
    }

    /// The experiment with real programs.
    fn experiment(&self) -> anyhow::Result<tcp::Experiment> {
        let quick = self.common.quick();
        Ok(tcp::Experiment {
            program: std::env::current_exe()?,
            cores: sweep::Cores::of(&self.common.cores()?),
            rounds: self.common.rounds().unwrap_or(if quick { 1 } else { 3 }),
            phase_s: if quick { 2 } else { 6 },
        })
    }
}
