//! `chainline bench report`

use super::diff::results;
use crate::exit::Exit;
use crate::output;
use crate::report::note;
use anyhow::Context;
use chainline_bench::report::{html, save};
use std::path::PathBuf;

/// Makes the page and the tables of results anew.
///
/// Without --output, `report.html`, `trials.csv` and `figures.csv` are written beside `results.json`, which is written
/// again in the form of this release.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub struct Report {
    /// A `results.json`, or a directory with one.
    results: PathBuf,
    /// Write the page alone, to this file; `-` is standard output.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

const HELP: &str = "\
The page needs nothing but itself: no network, no other file. Open it in any browser, or mail it.

Examples:
  chainline bench report target/bench/quick
  chainline bench report results.json -o page.html && xdg-open page.html";

impl Report {
    pub fn run(self) -> anyhow::Result<Exit> {
        let found = results(&self.results)?;
        match self.output {
            Some(path) if path.as_os_str() == "-" => output::text(&html(&found)?)?,
            Some(path) => {
                std::fs::write(&path, html(&found)?).with_context(|| format!("cannot write {}", path.display()))?;
                note(&format!("wrote {}", path.display()));
            }
            None => {
                let dir = if self.results.is_dir() { Some(self.results.as_path()) } else { self.results.parent() };
                let dir = dir.filter(|d| !d.as_os_str().is_empty()).unwrap_or(std::path::Path::new("."));
                let files = save(dir, &found)?;
                for file in [&files.html, &files.trials, &files.figures] {
                    note(&format!("wrote {}", file.display()));
                }
            }
        }
        Ok(Exit::Ok)
    }
}
