//! The fields of a map: asked for by name, and what nobody asked for is unknown.

use super::Decoder;
use crate::diag::Diagnostic;
use crate::tree::{Entry, Node, Value, quote};

/// A map that is being read. Its end is [`Fields::finish`].
pub struct Fields<'n> {
    node: &'n Node,
    entries: &'n [Entry],
    asked: Vec<&'static str>,
    /// Whether a value that was there could not be read.
    pub broken: bool,
}

impl<'n> Fields<'n> {
    /// The fields of `node`; `what` is for "expected a map with …".
    pub fn of(d: &mut Decoder, node: &'n Node, what: &str) -> Option<Self> {
        let entries: &[Entry] = match &node.value {
            Value::Map(entries) => entries,
            _ => return d.expected(node, what),
        };
        Some(Self { node, entries, asked: Vec::new(), broken: false })
    }

    /// The value of a field, if the field is there.
    pub fn node(&mut self, name: &'static str) -> Option<&'n Node> {
        if !self.asked.contains(&name) {
            self.asked.push(name);
        }
        self.entries.iter().find(|e| e.key == name).map(|e| &e.node)
    }

    /// Reads a field that may be absent.
    pub fn optional<T>(
        &mut self,
        d: &mut Decoder,
        name: &'static str,
        read: impl FnOnce(&mut Decoder, &'n Node) -> Option<T>,
    ) -> Option<T> {
        let node = self.node(name)?;
        let value = d.within(name, |d| read(d, node));
        self.broken |= value.is_none();
        value
    }

    /// Reads a field that must be there.
    pub fn required<T>(
        &mut self,
        d: &mut Decoder,
        name: &'static str,
        read: impl FnOnce(&mut Decoder, &'n Node) -> Option<T>,
    ) -> Option<T> {
        if self.node(name).is_none() {
            self.broken = true;
            d.error(self.node.span, format_args!("found no field `{name}`, expected one"));
            return None;
        }
        self.optional(d, name, read)
    }

    /// Reports the fields that nobody asked for. Keys that begin with `x-` are the user's own.
    pub fn finish(mut self, d: &mut Decoder) -> bool {
        for e in self.entries {
            if self.asked.contains(&e.key.as_str()) || e.key.starts_with("x-") {
                continue;
            }
            self.broken = true;
            let help = crate::suggest::did_you_mean(&e.key, self.asked.iter().copied());
            let expected = match self.asked.as_slice() {
                [] => "no fields".to_owned(),
                asked => super::one_of(asked.iter().copied()),
            };
            let place = if d.path.is_empty() { String::new() } else { format!("{}: ", d.path) };
            let message = format!("{place}unknown field {}, expected {expected}", quote(&e.key));
            d.push(Diagnostic::error(e.key_span, message).maybe_help(help));
        }
        !self.broken
    }
}
