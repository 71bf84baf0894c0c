//! `chainline bench quick`

use super::session::{Common, Job};
use crate::exit::{Exit, WrongInput};
use crate::output;
use chainline_bench::results::{InputFile, Results, View, X};
use chainline_bench::run::Measure;
use chainline_bench::{niu, sweep};
use std::path::{Path, PathBuf};

/// Measures one chain in under three minutes: NDR, PDR, and latency at 10, 50 and 90 % of PDR.
///
/// NDR and PDR are searched for together as RFC 9971 (MLRsearch) has it: loss 0 and 0.5 %, 21 trials to a decision, but of
/// a fifth of a second each; 0.5 % width. If the time is up before, the report says how far apart the bounds are. The ports
/// of the file must be a `generator` and sinks; without a file the chain of the quickstart is measured, and other
/// programs are kept off its NFs' core meanwhile, where that is permitted.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub struct Quick {
    /// A chain file with a generator.
    file: Option<PathBuf>,
    /// Measures NDR alone, so many times, and prints its relative standard deviation.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=1000), conflicts_with = "rounds")]
    repeat: Option<u32>,
    /// Prints the benchmark as a file for `bench run`, and measures nothing.
    #[arg(long, conflicts_with_all = ["file", "repeat"])]
    print: bool,
    #[command(flatten)]
    common: Common,
}

const HELP: &str = "\
The figures go to standard output, progress and the report's place to standard error.

Examples:
  chainline bench quick
  chainline bench quick edge.yaml -d results
  chainline bench quick --repeat 10            how much NDR varies on this host
  chainline bench quick --print > my.yaml      a file to begin with, for `chainline bench run`

Exit code 0 if all was measured, 1 if not; 2 if the file is wrong.";

impl Quick {
    pub fn run(self) -> anyhow::Result<Exit> {
        if self.print {
            output::text(niu::QUICK)?;
            return Ok(Exit::Ok);
        }
        let mut spec = sweep::load(niu::QUICK.as_bytes(), Path::new("quick.yaml"))?.spec;
        let mut file = InputFile { name: "quick.yaml".into(), text: niu::QUICK.into() };
        let mut title = spec.title.clone();
        if let Some(path) = &self.file {
            let text = std::fs::read_to_string(path)
                .map_err(|e| WrongInput(format!("cannot read {}: {e}", path.display())))?;
            file = InputFile { name: path.display().to_string(), text };
            spec.base = sweep::Base { file: Some(path.clone()), ..sweep::Base::default() };
            title = format!("NDR, PDR and latency of {}", path.display());
        }
        if let Some(rounds) = self.repeat {
            spec.protocol.measures = vec![Measure::Ndr];
            spec.rounds = rounds;
        }
        let job = Job { name: "quick".into(), file, dir: Path::new(""), spec, cached: false };
        let (exit, results) = self.common.run(&title, "quick", vec![job])?;
        let mut text = figures(&results);
        if self.repeat.is_some() {
            text += &deviation(&results);
        }
        output::text(&text)?;
        let all = results.sections.iter().all(|s| s.unavailable.is_empty());
        Ok(if exit == Exit::Ok && !all { Exit::Failed } else { exit })
    }
}

/// Each figure in a line: median, and extremes where there are several samples.
pub fn figures(results: &Results) -> String {
    let mut text = String::new();
    for section in &results.sections {
        text += &format!("{}\n", section.title);
        let unit = &section.y.unit;
        // Of the generator each case says much the same: here it is how far apart they are, the report has each.
        if section.id == "generator" && section.series.iter().any(|s| s.points.len() > 3) {
            for series in &section.series {
                let samples = series.points.iter().flat_map(|p| p.samples.iter().copied());
                let (least, most) = samples.fold((f64::MAX, f64::MIN), |(a, b), s| (a.min(s), b.max(s)));
                if least <= most {
                    text += &format!("  {:<44} {} to {}\n", series.name, trim(least, 3), trim(most, 3));
                }
            }
            continue;
        }
        for series in &section.series {
            for point in &series.points {
                let Some(spread) = point.spread() else { continue };
                let x = match &point.x {
                    X::Number(x) if section.view == View::Percentiles => format!("P{}", trim(100.0 * x, 4)),
                    X::Number(x) => format!("{} {}", trim(*x, 3), section.x.unit).trim().to_owned(),
                    X::Word(word) => word.clone(),
                };
                let what = if x == series.name { x } else { format!("{}, {x}", series.name) };
                text += &format!("  {what:<44} {:>12} {unit}", trim(spread.median, 3));
                if point.samples.len() > 1 {
                    text += &format!("  ({} to {})", trim(spread.min, 3), trim(spread.max, 3));
                }
                text = text.trim_end().to_owned() + "\n";
            }
        }
        for missing in &section.unavailable {
            text += &format!("  {}: not measured: {}\n", missing.what, missing.why);
        }
    }
    text
}

/// A number with at most so many digits behind the point.
fn trim(x: f64, digits: usize) -> String {
    let text = format!("{x:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// Standard deviation of a sample over its mean.
fn deviation(results: &Results) -> String {
    let series = results.sections.iter().filter(|s| s.id == "ndr").flat_map(|s| &s.series);
    let samples: Vec<f64> = series.flat_map(|s| &s.points).flat_map(|p| p.samples.clone()).collect();
    match relative_deviation(&samples) {
        Some(share) => {
            format!("relative standard deviation of NDR over {} runs: {:.2} %\n", samples.len(), 100.0 * share)
        }
        None => format!("relative standard deviation of NDR: {} runs gave a number, two are needed\n", samples.len()),
    }
}

fn relative_deviation(samples: &[f64]) -> Option<f64> {
    let n = samples.len() as f64;
    let mean = samples.iter().sum::<f64>() / n;
    let squares = samples.iter().map(|x| (x - mean).powi(2)).sum::<f64>();
    (samples.len() > 1 && mean > 0.0).then(|| (squares / (n - 1.0)).sqrt() / mean)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deviation_of_a_sample() {
        assert_eq!(relative_deviation(&[1.0]), None);
        assert_eq!(relative_deviation(&[2.0, 2.0]), Some(0.0));
        assert!((relative_deviation(&[9.0, 10.0, 11.0]).unwrap() - 0.1).abs() < 1e-12);
    }

    #[test]
    fn numbers_for_people() {
        assert_eq!((trim(3.0, 3), trim(99.99, 4), trim(0.12345, 3)), ("3".into(), "99.99".into(), "0.123".into()));
    }
}
