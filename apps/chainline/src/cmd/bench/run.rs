//! `chainline bench run`

use super::quick::figures;
use super::session::{Common, Job};
use crate::exit::{Exit, WrongInput};
use crate::output;
use chainline_bench::results::InputFile;
use chainline_bench::sweep;
use std::path::PathBuf;

/// Measures what a benchmark file lists: all combinations of its factors, in interleaved rounds.
///
/// What was measured before with the same program, files and host is taken from the cache ($XDG_CACHE_HOME or
/// ~/.cache, chainline/bench).
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub struct Run {
    /// The benchmark file, YAML or JSON.
    file: PathBuf,
    /// Lists the combinations and what this host cannot do of them, and measures nothing.
    #[arg(long = "list")]
    only_list: bool,
    #[command(flatten)]
    common: Common,
}

const HELP: &str = "\
A benchmark file, which measures four combinations:
  apiVersion: chainline/v1alpha1
  kind: Benchmark
  metadata: {name: batches}
  spec:
    base: {nfs: [monitor]}                 or {file: edge.yaml}, a chain file with a `generator` port
    factors: {frame_bytes: [64, 1518], batch: [1, 32]}
    measures: [mrr, ndr, latency]

Measures: ndr, pdr, pdr-0.1, rfc2544, tst009, soak, mrr, lossless, latency, loss-curve, delay, back-to-back, reset, cpu,
scheduling.
Factors: frame_bytes, mix, flows, locality, working_set, nf, nfs, chain_length, placement, colocated, workers, replicas, batch,
policy, sched, activation, mechanisms, variant, isolation, port, program, cpu_frequency, or the path of any field of the chain file (spec.defaults.queue).
What each is: docs/benchmarking.md.

Ctrl-C ends after the trial that is being made; what was measured is kept, and the command to go on is printed. After
a crash, --resume goes on too.

Examples:
  chainline bench run sweep.yaml
  chainline bench run sweep.yaml --quick --list
  chainline bench run sweep.yaml --resume bench-sweep-20261121T095449Z
  chainline bench run sweep.yaml --fresh       measure also what is in the cache

Exit code 0 if all was measured, 1 if not; 2 if the file is wrong. What this host cannot do is no failure: the report
says so.";

impl Run {
    pub fn run(self) -> anyhow::Result<Exit> {
        let wrong = |e| WrongInput(format!("cannot read {}: {e}", self.file.display()));
        let bytes = std::fs::read(&self.file).map_err(wrong)?;
        let document = sweep::load(&bytes, &self.file)?;
        let mut spec = document.spec;
        if self.only_list {
            if self.common.quick() {
                spec.hurry();
            }
            return self.common.list(&spec, self.file.parent().unwrap_or("".as_ref()));
        }
        let title = if spec.title.is_empty() { document.name.clone() } else { spec.title.clone() };
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let file = InputFile { name: self.file.display().to_string(), text };
        let dir = self.file.parent().unwrap_or("".as_ref());
        let job = Job { name: document.name.clone(), file, dir, spec, cached: true };
        let (exit, results) = self.common.run(&title, &document.name, vec![job])?;
        output::text(&figures(&results))?;
        Ok(exit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chainline_bench::run::Measure;

    #[test]
    fn the_help_names_every_measure_and_factor() {
        let words: Vec<&str> =
            HELP.split(|c: char| c.is_whitespace() || c == ',').map(|w| w.trim_end_matches('.')).collect();
        let measures = Measure::WORDS.iter().map(|(word, _)| *word);
        for name in measures.chain(sweep::FACTORS.iter().map(|f| f.name)) {
            assert!(words.contains(&name), "{name}");
        }
    }
}
