//! Other files of ours than chains (benchmarks, dataplanes), read by the same means: the same YAML, everything that
//! is wrong at once with its place, "did you mean".
//!
//! ```
//! use chainline_chain::document::{self, Fields};
//!
//! let text = "{apiVersion: chainline/v1alpha1, kind: Tea, metadata: {name: green}, spec: {minutes: 3}}";
//! let tea = document::Kind { name: "Tea", noun: "cup of tea" };
//! let read = document::load(text.as_bytes(), "tea.yaml".as_ref(), &tea, |d, node| {
//!     let mut f = Fields::of(d, node, "a map with `minutes`")?;
//!     let minutes = f.required(d, "minutes", |d, n| d.int(n, 1..=10_u8));
//!     f.finish(d);
//!     minutes
//! });
//! assert_eq!(read.unwrap().spec, 3);
//! ```

pub use crate::decode::{Decoder, Fields, is_name, one_of};
pub use crate::schema::of as schema_of;
pub use crate::suggest::{did_you_mean, nearest};
pub use crate::tree::{Entry, Node, Value, quote};

use crate::diag::{Diagnostic, Diagnostics, Source};
use crate::load::{settle, utf8};
use crate::model::API_VERSION;
use crate::tree;
use std::path::Path;
use std::sync::Arc;

/// A kind of file.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// The word after `kind:`.
    pub name: &'static str,
    /// What the file holds, for messages.
    pub noun: &'static str,
}

/// A file that was read without error.
#[derive(Clone, Debug)]
pub struct Document<T> {
    /// `metadata.name`.
    pub name: String,
    /// What is under `spec`.
    pub spec: T,
    /// Where everything stands, for errors that are found later.
    pub source: Source,
    /// What is allowed but looks like a mistake.
    pub warnings: Vec<Diagnostic>,
}

/// Reads a file with `apiVersion`, `kind`, `metadata.name` and `spec`; `read` makes something of the `spec`. What
/// `read` returns counts only if nothing was wrong, so it may go on with defaults after an error.
///
/// # Errors
/// Everything that is wrong with the file, not only the first.
pub fn load<T>(
    bytes: &[u8],
    name: &Path,
    kind: &Kind,
    read: impl FnOnce(&mut Decoder, &Node) -> Option<T>,
) -> Result<Document<T>, Diagnostics> {
    let text = utf8(bytes, name)?;
    let shared: Arc<str> = text.into();
    let mut found = Vec::new();
    let root = match tree::parse(text, kind.noun, &mut found) {
        Ok(root) => root,
        Err(e) => {
            found.push(e);
            return Err(Diagnostics::new(name, &shared, found));
        }
    };
    let mut d = Decoder::new(found);
    let values = frame(&mut d, &root, kind, read);
    if values.is_none() && d.found.is_empty() {
        d.error(root.span, format_args!("this is no {}", kind.noun));
    }
    let warnings = settle(name, &shared, d.found)?;
    let Some((title, spec)) = values else {
        // Only warnings were found, yet nothing was read: `read` broke its promise to say why.
        let silent = Diagnostic::error(root.span, format!("this is no {}", kind.noun));
        return Err(Diagnostics::new(name, &shared, vec![silent]));
    };
    let (spans, keys) = tree::places(&root);
    let source = Source { name: name.to_owned(), text: shared, spans, keys };
    Ok(Document { name: title, spec, source, warnings })
}

fn frame<T>(
    d: &mut Decoder,
    root: &Node,
    kind: &Kind,
    read: impl FnOnce(&mut Decoder, &Node) -> Option<T>,
) -> Option<(String, T)> {
    let mut f = Fields::of(d, root, "a map with `apiVersion`, `kind`, `metadata` and `spec`")?;
    f.required(d, "apiVersion", |d, n| d.word(n, &[(API_VERSION, ())]));
    f.required(d, "kind", |d, n| d.word(n, &[(kind.name, ())]));
    let name = f.required(d, "metadata", |d, n| {
        let mut f = Fields::of(d, n, "a map with `name`")?;
        let name = f.required(d, "name", Decoder::name);
        f.finish(d);
        name
    });
    let spec = f.required(d, "spec", read);
    f.finish(d);
    Some((name?, spec?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEA: Kind = Kind { name: "Tea", noun: "cup of tea" };

    fn said(bytes: &[u8]) -> String {
        let read = |d: &mut Decoder, node: &Node| {
            let mut f = Fields::of(d, node, "a map with `minutes`")?;
            let minutes = f.required(d, "minutes", |d, n| d.int(n, 1..=10_u8));
            f.finish(d);
            minutes
        };
        load(bytes, "t.yaml".as_ref(), &TEA, read).map_or_else(|e| e.to_string(), |t| t.spec.to_string())
    }

    #[test]
    fn everything_wrong_is_said_at_once() {
        let text = b"apiVersion: chainline/v1alpha1\nkind: Taa\nmetadata: {nam: x}\nspec: {minutes: 11}\n";
        assert_eq!(
            said(text),
            "t.yaml:2:7: error: kind: found \"Taa\", expected `Tea`; did you mean `Tea`?\n\
             t.yaml:3:11: error: metadata: found no field `name`, expected one\n\
             t.yaml:3:12: error: metadata: unknown field \"nam\", expected `name`; did you mean `name`?\n\
             t.yaml:4:17: error: spec.minutes: found the number 11, expected a whole number from 1 to 10"
        );
        assert_eq!(said(b""), "t.yaml:1:1: error: the file is empty, expected a cup of tea");
        assert_eq!(said(b"a\xff"), "t.yaml:1:2: error: found the byte 0xff, expected UTF-8 text");
    }
}
