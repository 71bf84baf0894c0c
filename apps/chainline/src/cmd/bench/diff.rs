//! `chainline bench diff`

use crate::exit::{Exit, WrongInput};
use crate::output::{self, Format};
use crate::report::note;
use chainline_bench::diff::{Diff as Compared, Settings, belongs, between, diff, table};
use chainline_bench::report::{ReadError, read};
use chainline_bench::results::Results;
use std::path::{Path, PathBuf};

/// Compares two results point by point: better, worse, no difference, or not to be compared.
///
/// A point is better or worse if its whole confidence interval lies beyond the margin, and if so large a difference
/// comes up anywhere among equal builds in at most one comparison of twenty. Points are matched by section, series and
/// place on the x axis; quoted and modelled figures are left out.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub struct Diff {
    /// The results to compare with: a `results.json`, or a directory with one.
    a: PathBuf,
    /// The results that are to be better or worse.
    #[arg(required_unless_present = "between", conflicts_with = "between")]
    b: Option<PathBuf>,
    /// Compare these two series of A instead, wherever both are.
    #[arg(long, num_args = 2, value_names = ["SERIES", "SERIES"])]
    between: Option<Vec<String>>,
    /// A and B were measured in one run, round by round next to each other.
    #[arg(long, conflicts_with = "between")]
    paired: bool,
    /// A change of up to so many percent counts as none.
    #[arg(long, value_name = "PERCENT", default_value_t = 1.0, value_parser = percent)]
    margin: f64,
    /// Confidence of the intervals, in percent.
    #[arg(long, value_name = "PERCENT", default_value_t = 95.0, value_parser = confidence)]
    confidence: f64,
    /// List the points without a difference too.
    #[arg(long)]
    all: bool,
    /// End with 3 when any point got worse.
    #[arg(long)]
    fail_on_worse: bool,
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

const HELP: &str = "\
Exit codes:
  0  compared; with --fail-on-worse: and nothing got worse
  1  the comparison could not be written
  2  the command line is wrong, or a file is no results; standard error says where
  3  with --fail-on-worse: something got worse

Examples:
  chainline bench diff before/ after/
  chainline bench diff before/ after/ --fail-on-worse --margin 2
  chainline bench diff compare/ --between chainline testpmd-io --all
  chainline bench diff before/ after/ -o json | jq '.points[] | select(.verdict == \"worse\")'";

impl Diff {
    pub fn run(self) -> anyhow::Result<Exit> {
        let settings = Settings { confidence: self.confidence / 100.0, margin: self.margin / 100.0 };
        let from = results(&self.a)?;
        let compared = match (&self.between, &self.b) {
            (Some(series), _) => {
                let [a, b] = series.as_slice() else { anyhow::bail!("found {} series, expected two", series.len()) };
                known(&from, a)?;
                known(&from, b)?;
                between(&from, a, b, settings)
            }
            (None, Some(path)) => {
                let to = results(path)?;
                let names = [&self.a, path].map(|p| p.display().to_string());
                diff((&names[0], &from), (&names[1], &to), self.paired, settings)
            }
            (None, None) => anyhow::bail!("found one file, expected two"),
        };
        words(&compared);
        output::value(self.output, &compared, |c| table(c, self.all))?;
        Ok(if self.fail_on_worse && compared.count.worse > 0 { Exit::Worse } else { Exit::Ok })
    }
}

/// Reads results; what is wrong with them is the user's to mend.
pub fn results(path: &Path) -> anyhow::Result<Results> {
    read(path).map_err(|e: ReadError| WrongInput(e.to_string()).into())
}

fn known(results: &Results, name: &str) -> anyhow::Result<()> {
    let mut names: Vec<_> = results.sections.iter().flat_map(|s| &s.series).map(|s| s.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    if names.iter().any(|n| belongs(n, name).is_some()) {
        return Ok(());
    }
    Err(WrongInput(format!("found no series {name:?}, expected one of {names:?}")).into())
}

/// What to know of the comparison as a whole.
fn words(compared: &Compared) {
    for remark in &compared.remarks {
        note(&format!("note: {remark}"));
    }
    for d in &compared.environment {
        let or = |s: &str| if s.is_empty() { "(not there)".to_owned() } else { format!("{s:?}") };
        note(&format!("  {} {}: {} in A, {} in B", if d.weighty { "!" } else { " " }, d.what, or(&d.a), or(&d.b)));
    }
}

fn percent(text: &str) -> Result<f64, String> {
    within(text, 0.0, 90.0)
}

fn confidence(text: &str) -> Result<f64, String> {
    within(text, 50.0, 99.9)
}

fn within(text: &str, least: f64, most: f64) -> Result<f64, String> {
    let value = text.parse().ok().filter(|v: &f64| (least..=most).contains(v));
    value.ok_or_else(|| format!("found {text:?}, expected a number from {least} to {most}"))
}
