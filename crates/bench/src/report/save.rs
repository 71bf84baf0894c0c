//! Files, each whole or not at all.

use super::{ReportError, figures, html, to_json, trials};
use crate::results::Results;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

/// What [`save`] wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    /// `results.json`.
    pub json: PathBuf,
    /// `trials.csv`.
    pub trials: PathBuf,
    /// `figures.csv`.
    pub figures: PathBuf,
    /// `report.html`.
    pub html: PathBuf,
}

/// Writes all four files into `dir`, which is made if it is missing. JSON comes first: when something fails later, the
/// figures are there, and `chainline bench report` makes the rest of them.
///
/// # Errors
/// When a file cannot be written. What was there before is then still whole.
pub fn save(dir: &Path, results: &Results) -> Result<Files, ReportError> {
    let files = Files {
        json: save_json(dir, results)?,
        trials: dir.join("trials.csv"),
        figures: dir.join("figures.csv"),
        html: dir.join("report.html"),
    };
    whole(&files.figures, figures(results)?.as_bytes())?;
    whole(&files.html, html(results)?.as_bytes())?;
    whole(&files.trials, trials(results)?.as_bytes())?;
    Ok(files)
}

/// Writes `results.json` alone.
///
/// # Errors
/// As [`save`].
pub fn save_json(dir: &Path, results: &Results) -> Result<PathBuf, ReportError> {
    fs::create_dir_all(dir).map_err(|source| ReportError::Write { path: dir.display().to_string(), source })?;
    let path = dir.join("results.json");
    whole(&path, to_json(results)?.as_bytes())?;
    Ok(path)
}

/// Beside its place first, then moved there: a reader sees the old file or the new one.
fn whole(path: &Path, bytes: &[u8]) -> Result<(), ReportError> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{}.part", std::process::id()));
    let beside = PathBuf::from(beside);
    let write = || {
        let mut file = fs::File::create(&beside)?;
        file.write_all(bytes)?;
        // Else a crash of the host could leave the new name with no bytes.
        file.sync_all()?;
        fs::rename(&beside, path)
    };
    write().map_err(|source| {
        // Nobody wants half a file; whether it could be removed changes nothing.
        let _ = fs::remove_file(&beside);
        ReportError::Write { path: path.display().to_string(), source }
    })
}
