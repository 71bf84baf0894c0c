//! The repository as data: its crates, who depends on whom, its files. The rules about them are in `tests/`.

#![forbid(unsafe_code)]

use cargo_metadata::{DependencyKind, MetadataCommand, Package};
use proc_macro2::{TokenStream, TokenTree};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// One of our crates.
#[derive(Clone, Debug)]
pub struct Crate {
    /// Its name.
    pub name: String,
    /// Its directory.
    pub dir: PathBuf,
    /// Our crates that it is built with; not those that only its tests use.
    pub ours: BTreeSet<String>,
    /// Everybody's crates that it is built with, ours too.
    pub all: BTreeSet<String>,
}

impl Crate {
    /// Whether it lies directly in this folder of the repository.
    #[must_use]
    pub fn is_in(&self, folder: &str) -> bool {
        self.dir.parent() == Some(root().join(folder).as_path())
    }
}

/// The repository's directory.
#[must_use]
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_owned()
}

/// The workspace's crates.
///
/// # Errors
/// Cargo's own words.
pub fn crates() -> Result<Vec<Crate>, cargo_metadata::Error> {
    let metadata = MetadataCommand::new()
        .manifest_path(root().join("Cargo.toml"))
        .no_deps()
        .other_options(["--offline".into()])
        .exec()?;
    let names: BTreeSet<String> = metadata.packages.iter().map(|p| p.name.to_string()).collect();
    let describe = |p: &Package| {
        let built_with = p.dependencies.iter().filter(|d| d.kind != DependencyKind::Development);
        let all: BTreeSet<String> = built_with.map(|d| d.name.clone()).collect();
        Crate {
            name: p.name.to_string(),
            dir: p.manifest_path.parent().map(|d| d.as_std_path().to_owned()).unwrap_or_default(),
            ours: all.intersection(&names).cloned().collect(),
            all,
        }
    };
    Ok(metadata.packages.iter().map(describe).collect())
}

/// The repository's files that version control would take.
#[must_use]
pub fn files() -> Vec<PathBuf> {
    let walk = ignore::WalkBuilder::new(root()).hidden(false).filter_entry(|e| e.file_name() != ".git").build();
    let mut files: Vec<_> =
        walk.flatten().filter(|e| e.file_type().is_some_and(|t| t.is_file())).map(|e| e.into_path()).collect();
    files.sort_unstable();
    files
}

/// Rust files below a directory.
#[must_use]
pub fn rust_files(dir: &Path) -> Vec<PathBuf> {
    files().into_iter().filter(|f| f.starts_with(dir) && f.extension().is_some_and(|e| e == "rs")).collect()
}

/// A path as messages show it.
#[must_use]
pub fn shown(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).display().to_string()
}

/// The lines with the word `unsafe`, as the language understands it: not in comments and strings, and not in the
/// type of a function pointer (`unsafe extern "C" fn(…)`), which does nothing by itself.
///
/// # Errors
/// When the text is not Rust.
pub fn unsafe_lines(source: &str) -> Result<Vec<usize>, String> {
    let mut lines = Vec::new();
    find_unsafe(source.parse().map_err(|e: proc_macro2::LexError| e.to_string())?, &mut lines);
    Ok(lines)
}

fn find_unsafe(tokens: TokenStream, lines: &mut Vec<usize>) {
    let tokens: Vec<_> = tokens.into_iter().collect();
    for (i, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Group(group) => find_unsafe(group.stream(), lines),
            TokenTree::Ident(word) if word == "unsafe" && !is_pointer_type(&tokens[i + 1..]) => {
                lines.push(word.span().start().line);
            }
            _ => {}
        }
    }
}

/// Whether what follows `unsafe` is `fn(…)` or `extern "C" fn(…)`: a function without a name.
fn is_pointer_type(rest: &[TokenTree]) -> bool {
    let is = |token: &TokenTree, word: &str| matches!(token, TokenTree::Ident(i) if i == word);
    let rest = match rest {
        [a, TokenTree::Literal(_), rest @ ..] if is(a, "extern") => rest,
        [a, rest @ ..] if is(a, "extern") => rest,
        rest => rest,
    };
    matches!(rest, [a, TokenTree::Group(_), ..] if is(a, "fn"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_unsafe_code_counts() {
        let source = "// unsafe
            fn f() { \"unsafe\"; r#\"unsafe\"#;
                unsafe_code;
                unsafe {} }
            #[unsafe(no_mangle)] fn g() {}
            struct S { f: unsafe extern \"C\" fn(u8), g: unsafe fn() }
            unsafe extern \"C\" fn h() {}
            unsafe extern \"C\" { fn i(); }
            unsafe impl Send for S {}";
        assert_eq!(unsafe_lines(source).unwrap(), [4, 5, 7, 8, 9]);
    }
}
