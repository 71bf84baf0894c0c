//! Results for people and for other programs: one file of JSON with everything, two of CSV, and one page of HTML that
//! needs nothing but itself.
//!
//! | file | what |
//! |---|---|
//! | `results.json` | [`Results`], all of it; [`read()`] takes it back |
//! | `trials.csv` | a row for each raw trial, a column for each field |
//! | `figures.csv` | a row for each sample of each point of each figure |
//! | `report.html` | the page |
//!
//! Values that are no numbers (infinite, NaN) cannot be written as JSON: [`without_nonsense`] takes them out and says
//! so in the remarks. No function here prints, and none panics on any results.

mod check;
mod csv;
mod html;
mod manifest;
mod page;
mod read;
mod save;
mod shell;
pub mod synthetic;

pub use check::{faults, without_nonsense};
pub use csv::{figures, trials};
pub use html::html;
pub(crate) use manifest::flat;
pub(crate) use page::figure;
pub use read::{MAX_BYTES, ReadError, parse, read, to_json};
pub use save::{Files, save, save_json};
pub use shell::quoted;

use crate::results::Results;

/// The JSON Schema of `results.json`.
#[must_use]
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(Results).to_value()
}

/// Why results cannot be shown or written.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// A file could not be written.
    #[error("cannot write {path}: {source}")]
    Write {
        /// Which.
        path: String,
        /// The system's word.
        source: std::io::Error,
    },
    /// Trials with more different fields than a table can have.
    #[error("found {found} different fields in the trials, expected at most {most}: fewer factors, drops or NFs")]
    Columns {
        /// How many.
        found: usize,
        /// How many a table can have.
        most: usize,
    },
    /// Could not be put into words; a fault of this program.
    #[error("cannot make {what}: {why}")]
    Made {
        /// What.
        what: &'static str,
        /// Why.
        why: String,
    },
}
