//! What machines read, on standard output.

use std::io::{Write, stdout};

/// The form of the output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// Columns for people.
    #[default]
    Table,
    /// JSON.
    Json,
    /// YAML.
    Yaml,
}

/// Prints text as it is.
pub fn text(text: &str) -> anyhow::Result<()> {
    let mut out = stdout().lock();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

/// Prints a value as JSON or YAML, or as the table that `table` makes.
pub fn value<T: serde::Serialize>(format: Format, value: &T, table: impl FnOnce(&T) -> String) -> anyhow::Result<()> {
    match format {
        Format::Table => text(&table(value)),
        Format::Json => text(&(serde_json::to_string_pretty(value)? + "\n")),
        Format::Yaml => text(&serde_saphyr::to_string(value)?),
    }
}
