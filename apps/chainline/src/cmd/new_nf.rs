//! `chainline new-nf`

use crate::exit::{Exit, WrongInput};
use crate::output;
use anyhow::Context;
use std::path::{Path, PathBuf};

/// Makes the project of a new NF: it builds, has a golden test and a chain file, and drops short frames to begin with.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub struct NewNf {
    /// Its name and its directory's: lower-case letters, digits, `-` and `_`.
    name: String,
    /// The language.
    #[arg(long, value_enum)]
    lang: Lang,
    /// The checkout of Chainline with the SDK, for Rust; the one that this command was built from unless given.
    #[arg(long, value_name = "DIR", env = "CHAINLINE")]
    sdk: Option<PathBuf>,
}

const HELP: &str = "\
Examples:
  chainline new-nf my-nf --lang rust && cd my-nf && cargo test && cargo build --release && chainline run chain.yaml
  chainline new-nf my-nf --lang c && cd my-nf && make test && chainline run chain.yaml

docs/write-an-nf.md tells what stands where.";

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Lang {
    /// A crate whose library is a shared object.
    Rust,
    /// One source file and a Makefile; links against nothing of Chainline's.
    C,
}

const GOLDEN: (&str, &str) = ("tests/golden/NEW_KIND.golden", include_str!("new_nf/nf.golden.txt"));
const CHAIN: (&str, &str) = ("chain.yaml", include_str!("new_nf/chain.yaml.txt"));
const README: (&str, &str) = ("README.md", include_str!("new_nf/README.md.txt"));

/// Files and what is in them; words that begin with NEW are replaced in both.
const RUST: &[(&str, &str)] = &[
    ("Cargo.toml", include_str!("new_nf/Cargo.toml.txt")),
    ("src/lib.rs", include_str!("new_nf/lib.rs.txt")),
    ("tests/golden.rs", include_str!("new_nf/golden.rs.txt")),
    (".gitignore", "/target\n"),
    GOLDEN,
    CHAIN,
    README,
];
const C: &[(&str, &str)] = &[
    ("NEW_KIND.c", include_str!("new_nf/nf.c.txt")),
    ("Makefile", include_str!("new_nf/Makefile.txt")),
    ("chainline_nf.h", include_str!("../../../../crates/nf-abi/include/chainline_nf.h")),
    (".gitignore", "*.so\n"),
    GOLDEN,
    CHAIN,
    README,
];

impl NewNf {
    pub fn run(self) -> anyhow::Result<Exit> {
        let name = self.name.as_str();
        let right = name.starts_with(|c: char| c.is_ascii_lowercase())
            && name.len() <= 40
            && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_".contains(c));
        if !right {
            let message = format!(
                "found the name \"{name}\", expected up to 40 lower-case letters, digits, - and _, and a letter first"
            );
            return Err(WrongInput(message).into());
        }
        if Path::new(name).exists() {
            return Err(WrongInput(format!("{name} is there already, expected a new name")).into());
        }
        let kind = name.replace('-', "_");
        let (files, object, how) = match self.lang {
            Lang::Rust => (
                RUST,
                format!("./target/release/lib{kind}.so"),
                "`cargo test` plays its golden test; `cargo build --release` and `chainline run chain.yaml` run it.",
            ),
            Lang::C => (
                C,
                format!("./lib{kind}.so"),
                "`make test` builds it and plays its golden test; `chainline run chain.yaml` runs it.",
            ),
        };
        let sdk = if self.lang == Lang::Rust { sdk(self.sdk.as_deref())? } else { String::new() };
        let words = [
            ("NEW_KIND", kind.as_str()),
            ("NEW_NAME", name),
            ("NEW_TYPE", &type_name(&kind)),
            ("NEW_SDK", &sdk),
            ("NEW_OBJECT", &object),
            ("NEW_HOW", how),
        ];
        let fill = |text: &str| words.iter().fold(text.to_owned(), |text, (word, value)| text.replace(word, value));
        for (path, text) in files {
            let path = Path::new(name).join(fill(path));
            let place = || format!("cannot write {}", path.display());
            std::fs::create_dir_all(path.parent().unwrap_or(Path::new("."))).with_context(place)?;
            std::fs::write(&path, fill(text)).with_context(place)?;
            output::text(&format!("{}\n", path.display()))?;
        }
        Ok(Exit::Ok)
    }
}

/// Where the crates are.
fn sdk(given: Option<&Path>) -> anyhow::Result<String> {
    let dir = given.unwrap_or(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")));
    let whole = dir.join("crates/nf/Cargo.toml").is_file().then(|| dir.canonicalize().ok()).flatten();
    let whole = whole.and_then(|dir| dir.to_str().map(str::to_owned)).ok_or_else(|| {
        let message =
            format!("{} is no checkout of Chainline: --sdk names the directory that has crates/nf", dir.display());
        WrongInput(message)
    })?;
    Ok(whole)
}

/// `ttl_guard` is `TtlGuard`.
fn type_name(kind: &str) -> String {
    let capital = |part: &str| part[..1].to_uppercase() + &part[1..];
    kind.split('_').filter(|part| !part.is_empty()).map(capital).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn types_are_named_as_rust_does() {
        assert_eq!(["a", "ttl_guard", "x__9_"].map(super::type_name), ["A", "TtlGuard", "X9"]);
    }
}
