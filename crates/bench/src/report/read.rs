//! `results.json`, read back: clear about what is wrong with it and where.

use super::check::faults;
use crate::results::{FORMAT, Results};
use serde::Deserialize;
use std::io::Read;
use std::path::{Path, PathBuf};

/// No longer file is read: 10⁵ trials with their histograms are about a third of it.
pub const MAX_BYTES: u64 = 1 << 30;

/// Why a file is not taken as results.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The system's word.
    #[error("cannot read {path}: {source}")]
    Io {
        /// Which file.
        path: String,
        /// The system's word.
        source: std::io::Error,
    },
    /// Too long.
    #[error("{path}: longer than {MAX_BYTES} bytes, which is more than any benchmark writes")]
    Long {
        /// Which file.
        path: String,
    },
    /// No JSON, or JSON that says something else.
    #[error("{path}:{line}:{column}: {what}{hint}")]
    Form {
        /// Which file.
        path: String,
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// What was found and what was expected, and in which field.
        what: String,
        /// What to do; empty where nothing is known.
        hint: String,
    },
    /// Another form of file.
    #[error("{path}: found the format {found}, expected \"{FORMAT}\": read it with the release that wrote it")]
    Format {
        /// Which file.
        path: String,
        /// What it says it is.
        found: String,
    },
    /// JSON of the right form that contradicts itself.
    #[error("{path}: {}", .faults.join("\n"))]
    Wrong {
        /// Which file.
        path: String,
        /// Everything that is wrong.
        faults: Vec<String>,
    },
}

/// Reads results from a file, or from `results.json` in a directory.
///
/// # Errors
/// When there is none, or what is there is not to be relied upon. The message names file, line and column.
pub fn read(path: &Path) -> Result<Results, ReadError> {
    let path = if path.is_dir() { path.join("results.json") } else { PathBuf::from(path) };
    let name = path.display().to_string();
    let io = |source| ReadError::Io { path: name.clone(), source };
    let mut bytes = Vec::new();
    std::fs::File::open(&path).map_err(io)?.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(io)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(ReadError::Long { path: name });
    }
    parse(&bytes, &name)
}

/// Results from the bytes of a file that messages call `name`.
///
/// # Errors
/// As [`read`].
pub fn parse(bytes: &[u8], name: &str) -> Result<Results, ReadError> {
    /// Enough to know whether the rest is understood: another version may differ anywhere else.
    #[derive(Deserialize)]
    struct Head {
        format: Option<serde_json::Value>,
    }
    let path = || name.to_owned();
    let head: Head = serde_json::from_slice(bytes).map_err(|e| form(name, "", &e))?;
    match head.format {
        Some(serde_json::Value::String(format)) if format == FORMAT => {}
        found => {
            let found = found.map_or("(none)".into(), |f| short(&f.to_string()));
            return Err(ReadError::Format { path: path(), found });
        }
    }
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let results: Results = serde_path_to_error::deserialize(&mut reader)
        .map_err(|e| form(name, &format!("{}: ", short(&e.path().to_string())), e.inner()))?;
    let faults = faults(&results);
    if faults.is_empty() { Ok(results) } else { Err(ReadError::Wrong { path: path(), faults }) }
}

/// The text of `results.json`.
///
/// # Errors
/// Only for a fault of this program.
pub fn to_json(results: &Results) -> Result<String, super::ReportError> {
    let text = serde_json::to_string_pretty(super::without_nonsense(results).as_ref());
    text.map(|t| t + "\n").map_err(|e| super::ReportError::Made { what: "results.json", why: e.to_string() })
}

fn form(path: &str, field: &str, e: &serde_json::Error) -> ReadError {
    let (line, column) = (e.line().max(1), e.column().max(1));
    // The place is said before.
    let words = e.to_string();
    let words = words.split(" at line ").next().unwrap_or_default();
    let field = if field == ".: " { "" } else { field };
    let hint = if e.is_eof() {
        ": the file ends too early; was its writer killed, or the disk full? `--resume` measures what is missing"
    } else {
        ""
    };
    ReadError::Form { path: path.into(), line, column, what: format!("{field}{}", short(words)), hint: hint.into() }
}

/// Strangers' words, in a length that a terminal bears, without control characters.
fn short(text: &str) -> String {
    const MOST: usize = 300;
    let mut out: String = text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).take(MOST).collect();
    if text.chars().nth(MOST).is_some() {
        out.push('…');
    }
    out
}
