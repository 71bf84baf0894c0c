//! A tree of values to the model, collecting every error on the way.
//!
//! A value that cannot be read is reported, replaced by its default and remembered in [`Broken`], so that reading
//! goes on and the checks that follow do not report its consequences.

mod fields;
mod nf;
mod port;
mod pressure;
mod spec;
mod traffic;

pub use fields::Fields;
pub use spec::file;

use crate::diag::{Diagnostic, Span};
use crate::tree::{Node, Value, quote};
use std::collections::HashSet;
use std::fmt::Display;
use std::ops::RangeInclusive;

/// Most diagnostics that are kept.
pub const MAX_DIAGNOSTICS: usize = 500;

/// Parts of the file that were reported already and that checks must not trust.
#[derive(Debug, Default)]
pub struct Broken {
    /// Ports by name.
    pub ports: HashSet<String>,
    /// NFs by name.
    pub nfs: HashSet<String>,
    /// Chains by index, whose `match` is not what the file means.
    pub matches: HashSet<usize>,
    /// Whether there may be more ports, NFs or chains than were read.
    pub lists: bool,
}

/// Reads nodes; knows where it is and what was wrong so far.
pub struct Decoder {
    pub(crate) found: Vec<Diagnostic>,
    pub(crate) broken: Broken,
    path: String,
}

impl Decoder {
    pub(crate) fn new(found: Vec<Diagnostic>) -> Self {
        Self { found, broken: Broken::default(), path: String::new() }
    }

    /// Reports `diagnostic`.
    pub fn push(&mut self, diagnostic: Diagnostic) {
        if self.found.len() < MAX_DIAGNOSTICS {
            self.found.push(diagnostic);
        }
    }

    /// Reports at `span`, naming the field.
    pub fn error(&mut self, span: Span, message: impl Display) {
        let message = if self.path.is_empty() { message.to_string() } else { format!("{}: {message}", self.path) };
        self.push(Diagnostic::error(span, message));
    }

    /// Reports what was found and what was expected instead.
    pub fn expected<T>(&mut self, node: &Node, what: impl Display) -> Option<T> {
        self.error(node.span, format_args!("found {}, expected {what}", node.describe()));
        None
    }

    /// Reports at `span` with a word on what to do.
    pub fn error_with_help(&mut self, span: Span, message: impl Display, help: impl Into<String>) {
        let message = if self.path.is_empty() { message.to_string() } else { format!("{}: {message}", self.path) };
        self.push(Diagnostic::error(span, message).help(help));
    }

    /// Runs `read` with the path extended by `.name`.
    pub fn within<T>(&mut self, name: &str, read: impl FnOnce(&mut Self) -> T) -> T {
        let len = self.path.len();
        if len > 0 {
            self.path.push('.');
        }
        self.path.extend(name.chars().take(64));
        let value = read(self);
        self.path.truncate(len);
        value
    }

    /// Runs `read` for each item of a list; the items that could be read.
    pub fn list<T>(
        &mut self,
        node: &Node,
        what: &str,
        mut read: impl FnMut(&mut Self, &Node) -> Option<T>,
    ) -> Option<Vec<T>> {
        let Value::List(items) = &node.value else { return self.expected(node, what) };
        let len = self.path.len();
        let mut values = Vec::with_capacity(items.len());
        for (i, item) in items.iter().enumerate() {
            self.path.push_str(&format!("[{i}]"));
            values.extend(read(self, item));
            self.path.truncate(len);
        }
        Some(values)
    }

    /// A list, or a single item.
    pub fn one_or_more<T>(
        &mut self,
        node: &Node,
        what: &str,
        mut read: impl FnMut(&mut Self, &Node) -> Option<T>,
    ) -> Option<Vec<T>> {
        match &node.value {
            Value::List(items) if items.is_empty() => {
                self.expected(node, format_args!("{what}, or no such field: an empty list matches nothing"))
            }
            Value::List(items) => {
                let values = self.list(node, what, read)?;
                (values.len() == items.len()).then_some(values)
            }
            _ => Some(vec![read(self, node)?]),
        }
    }

    /// Text.
    pub fn text<'n>(&mut self, node: &'n Node, what: &str) -> Option<&'n str> {
        match &node.value {
            Value::Text(text) => Some(text),
            Value::Null | Value::List(_) | Value::Map(_) => self.expected(node, what),
            _ => self.expected(node, format_args!("{what}; put it in quotes if it is meant as text")),
        }
    }

    /// Text that is not empty.
    pub fn filled(&mut self, node: &Node, what: &str) -> Option<String> {
        let text = self.text(node, what)?;
        // A NUL can be in no path, no interface name and no device string.
        if text.is_empty() || text.contains('\0') { self.expected(node, what) } else { Some(text.to_owned()) }
    }

    /// `true` or `false`.
    pub fn bool(&mut self, node: &Node) -> Option<bool> {
        match node.value {
            Value::Bool(b) => Some(b),
            _ => self.expected(node, "`true` or `false`"),
        }
    }

    /// A whole number within `range`.
    pub fn int<T>(&mut self, node: &Node, range: RangeInclusive<T>) -> Option<T>
    where
        T: Copy + Display + Into<i128> + TryFrom<i128>,
    {
        let wide = (*range.start()).into()..=(*range.end()).into();
        match node.value {
            Value::Int(i) if wide.contains(&i) => T::try_from(i).ok(),
            _ => self.expected(node, format_args!("a whole number from {} to {}", range.start(), range.end())),
        }
    }

    /// A number within `range`.
    pub fn float(&mut self, node: &Node, range: RangeInclusive<f64>) -> Option<f64> {
        let x = match node.value {
            Value::Int(i) => i as f64,
            Value::Float(x) => x,
            _ => f64::NAN,
        };
        if range.contains(&x) {
            return Some(x);
        }
        self.expected(node, format_args!("a number from {} to {}", range.start(), range.end()))
    }

    /// A core's number.
    pub fn core(&mut self, node: &Node) -> Option<usize> {
        /// More than any kernel is built for (`CONFIG_NR_CPUS` is at most 8192).
        const MAX_CORE: u32 = 65_535;
        self.int(node, 0..=MAX_CORE).map(|c| c as usize)
    }

    /// Cores, each once.
    pub fn cores(&mut self, node: &Node) -> Option<Vec<usize>> {
        const WHAT: &str = "a list of cores, such as [1, 2]";
        let mut cores = Vec::new();
        if matches!(&node.value, Value::List(items) if items.is_empty()) {
            return self.expected(node, WHAT);
        }
        self.list(node, WHAT, |d, item| {
            let core = d.core(item)?;
            if cores.contains(&core) {
                d.error(item.span, format_args!("found core {core} twice, expected it once"));
            } else {
                cores.push(core);
            }
            Some(())
        })?;
        Some(cores)
    }

    /// One of several words.
    pub fn word<T: Clone>(&mut self, node: &Node, words: &[(&str, T)]) -> Option<T> {
        if let Value::Text(text) = &node.value
            && let Some((_, value)) = words.iter().find(|(w, _)| w == text)
        {
            return Some(value.clone());
        }
        let names = words.iter().map(|(w, _)| *w);
        let help = match &node.value {
            Value::Text(text) => crate::suggest::did_you_mean(text, names.clone()),
            _ => None,
        };
        let message = format!("{}: found {}, expected {}", self.path, node.describe(), one_of(names));
        self.push(Diagnostic::error(node.span, message).maybe_help(help));
        None
    }
}

/// `a`, `b` or `c`
pub fn one_of<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    let words: Vec<_> = words.into_iter().map(|w| format!("`{w}`")).collect();
    match words.as_slice() {
        [] => "nothing".into(),
        [one] => one.clone(),
        [head @ .., last] => format!("{} or {last}", head.join(", ")),
    }
}

/// Whether `name` is one that ports, NFs and chains can have ([`crate::model::NAME_PATTERN`]).
pub fn is_name(name: &str) -> bool {
    name.len() <= 63
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
}

/// What [`is_name`] wants, in words.
pub const NAME: &str = "a name of 1 to 63 letters, digits, `-` and `_` that begins with a letter or a digit";

impl Decoder {
    /// A name of a port, an NF or a chain.
    pub fn name(&mut self, node: &Node) -> Option<String> {
        let text = self.text(node, NAME)?;
        if is_name(text) { Some(text.to_owned()) } else { self.expected(node, NAME) }
    }

    /// Reports a key that is no name.
    pub fn check_key(&mut self, key: &str, span: Span) -> bool {
        let good = is_name(key);
        if !good {
            self.error(span, format_args!("found the name {}, expected {NAME}", quote(key)));
        }
        good
    }
}
