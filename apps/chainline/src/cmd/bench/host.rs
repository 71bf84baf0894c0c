//! `chainline bench host`

use crate::exit::Exit;
use crate::output::{self, Format};
use anyhow::Context;
use chainline_bench::host;
use serde_json::Value;

/// Shows what results will say of this host and this build: processor, caches, kernel, mitigations, huge pages, commit.
///
/// What the host does not tell is `null`, not a guess.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub struct Host {
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

const HELP: &str = "\
Two results are comparable as far as this agrees; `chainline bench diff` says what does not.

Examples:
  chainline bench host
  chainline bench host -o json | jq .mitigations";

impl Host {
    pub fn run(self) -> anyhow::Result<Exit> {
        let program = std::env::current_exe().context("cannot find this program")?;
        output::value(self.output, &host::manifest(&program), table)?;
        Ok(Exit::Ok)
    }
}

/// A line for each field; fields of fields are joined by dots.
fn table(manifest: &Value) -> String {
    let mut rows = Vec::new();
    flatten("", manifest, &mut rows);
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    rows.into_iter().map(|(name, value)| format!("{name:width$}  {value}\n")).collect()
}

fn flatten(path: &str, value: &Value, rows: &mut Vec<(String, String)>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                flatten(&path, value, rows);
            }
        }
        Value::Null => rows.push((path.to_owned(), "not told by this host".into())),
        Value::String(text) => rows.push((path.to_owned(), text.clone())),
        value => rows.push((path.to_owned(), value.to_string())),
    }
}
