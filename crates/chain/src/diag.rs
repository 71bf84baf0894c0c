//! What is wrong with a file, and where.

use serde::Serialize;
use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The file cannot be used.
    Error,
    /// The file can be used, but this looks like a mistake.
    Warning,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Error => "error",
            Self::Warning => "warning",
        })
    }
}

/// A place in the file. The bytes are a valid range of its text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Span {
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
    /// First byte.
    pub start: usize,
    /// The byte after the last.
    pub end: usize,
}

impl Span {
    /// The bytes.
    #[must_use]
    pub fn range(&self) -> Range<usize> {
        self.start..self.end
    }
}

/// One thing that is wrong: what was found and what was expected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: Severity,
    /// Where.
    pub span: Span,
    /// What was found and what was expected.
    pub message: String,
    /// What to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
    /// Another place that matters, and why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub related: Option<Box<Related>>,
}

/// Another place that matters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Related {
    /// Where.
    pub span: Span,
    /// Why; a sentence that "at line 3" ends.
    pub why: String,
}

impl Diagnostic {
    pub(crate) fn error(span: Span, message: impl Into<String>) -> Self {
        Self { severity: Severity::Error, span, message: message.into(), help: None, related: None }
    }

    pub(crate) fn warning(span: Span, message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(span, message) }
    }

    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    pub(crate) fn maybe_help(mut self, help: Option<String>) -> Self {
        self.help = help.or(self.help);
        self
    }

    pub(crate) fn related(mut self, span: Span, why: impl Into<String>) -> Self {
        self.related = Some(Box::new(Related { span, why: why.into() }));
        self
    }
}

/// The text that a file was loaded from, and where each of its values stands.
///
/// Two sources are equal if their text is; a file that was put together in memory has an empty one.
#[derive(Clone, Debug, Default)]
pub struct Source {
    pub(crate) name: PathBuf,
    pub(crate) text: Arc<str>,
    pub(crate) spans: HashMap<String, Span>,
    pub(crate) keys: HashMap<String, Span>,
}

impl PartialEq for Source {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Source {
    /// The file's name as the caller gave it.
    #[must_use]
    pub fn name(&self) -> &Path {
        &self.name
    }

    /// The file's text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Where the value at `path` stands, or the nearest value around it: `spec.nfs.fw.args.rules`,
    /// `spec.chains[0].path[2]`.
    #[must_use]
    pub fn span(&self, path: &str) -> Span {
        let mut path = path;
        loop {
            if let Some(span) = self.spans.get(path) {
                return *span;
            }
            match path.rfind(['.', '[']) {
                Some(i) => path = &path[..i],
                None => return self.spans.get("").copied().unwrap_or_default(),
            }
        }
    }

    /// Whether the file has a value at `path`.
    #[must_use]
    pub fn has(&self, path: &str) -> bool {
        self.spans.contains_key(path)
    }

    /// Where the key stands that the value at `path` has, or the nearest value around it.
    #[must_use]
    pub fn key_span(&self, path: &str) -> Span {
        self.keys.get(path).copied().unwrap_or_else(|| self.span(path))
    }

    /// An error at the value at `path`, for checks that are made elsewhere (an NF that refuses its arguments).
    #[must_use]
    pub fn error(&self, path: &str, message: impl Into<String>) -> Diagnostics {
        Diagnostics {
            name: self.name.clone(),
            text: self.text.clone(),
            items: vec![Diagnostic::error(self.span(path), message)],
        }
    }
}

/// Everything that is wrong with a file, in the order of the file. Displays one line each:
/// `file:line:column: error: what`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Diagnostics {
    pub(crate) name: PathBuf,
    pub(crate) text: Arc<str>,
    pub(crate) items: Vec<Diagnostic>,
}

impl Diagnostics {
    pub(crate) fn new(name: &Path, text: &Arc<str>, mut items: Vec<Diagnostic>) -> Self {
        items.sort_by_key(|d| (d.span.start, d.severity));
        Self { name: name.to_owned(), text: text.clone(), items }
    }

    /// The file's name as the caller gave it.
    #[must_use]
    pub fn name(&self) -> &Path {
        &self.name
    }

    /// The file's text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What is wrong.
    #[must_use]
    pub fn items(&self) -> &[Diagnostic] {
        &self.items
    }

    /// These and others of the same file.
    #[must_use]
    pub fn merge(mut self, others: Self) -> Self {
        self.items.extend(others.items);
        Self::new(&self.name, &self.text, self.items)
    }

    /// How many of them are errors.
    #[must_use]
    pub fn errors(&self) -> usize {
        self.items.iter().filter(|d| d.severity == Severity::Error).count()
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name.display();
        for (i, d) in self.items.iter().enumerate() {
            if i > 0 {
                writeln!(f)?;
            }
            write!(f, "{name}:{}:{}: {}: {}", d.span.line, d.span.column, d.severity, d.message)?;
            if let Some(help) = &d.help {
                write!(f, "; {help}")?;
            }
            if let Some(Related { span, why }) = d.related.as_deref() {
                write!(f, " ({why} at {}:{})", span.line, span.column)?;
            }
        }
        Ok(())
    }
}
