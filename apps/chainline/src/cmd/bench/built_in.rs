//! Benchmark files that are built in: what the sub-commands for papers have in common.

use super::session::{Common, Job};
use crate::output;
use chainline_bench::results::InputFile;
use chainline_bench::sweep;
use std::path::Path;

/// Prints the files, one after another, for `bench run`.
pub fn print(files: &[&(&str, &str)]) -> anyhow::Result<()> {
    let texts: Vec<&str> = files.iter().map(|(_, text)| *text).collect();
    output::text(&texts.join("---\n"))
}

/// Names each with its cases, and what this host cannot do of them.
pub fn list(paper: &str, files: &[&(&str, &str)], common: &Common) -> anyhow::Result<()> {
    for Job { name, mut spec, dir, .. } in jobs(paper, files)? {
        if common.quick() {
            spec.hurry();
        }
        output::text(&format!("{name}: {}\n", spec.title))?;
        common.list(&spec, dir)?;
    }
    Ok(())
}

/// What is to be measured: files of the paper by their names and texts.
pub fn jobs(paper: &str, files: &[&(&str, &str)]) -> anyhow::Result<Vec<Job<'static>>> {
    let job = |(name, text): &(&str, &str)| {
        let file = format!("{paper}-{name}.yaml");
        let spec = sweep::load(text.as_bytes(), Path::new(&file))?.spec;
        let file = InputFile { name: file, text: (*text).to_owned() };
        Ok(Job { name: (*name).to_owned(), file, dir: Path::new(""), spec, cached: true })
    };
    files.iter().map(|f| job(f)).collect()
}
