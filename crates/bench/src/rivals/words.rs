//! Texts with placeholders.

use chainline_chain::document::did_you_mean;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;
use std::fmt::Write as _;

/// A text of an adapter file whose placeholders are all known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Text(String);

impl JsonSchema for Text {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Text".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let mut places = String::new();
        for (name, what) in PLACEHOLDERS {
            let _ = write!(places, "; `{{{name}}}`: {what}");
        }
        json_schema!({
            "description": format!("A text with placeholders{places}. Whole numbers need no quotes."),
            "type": ["string", "integer"],
        })
    }
}

/// What the placeholders stand for in one lab. The documentation of each is in `docs/benchmarking.md`.
#[derive(Clone, Debug, Default)]
pub struct Values(Vec<(&'static str, String)>);

/// Every placeholder, and what it stands for.
pub const PLACEHOLDERS: &[(&str, &str)] = &[
    ("in", "the port towards the generator: the name of an interface, or the path of a memif socket"),
    ("out", "the port towards the sink"),
    ("in_devargs", "the same port as DPDK's --vdev takes it"),
    ("out_devargs", "the port towards the sink as DPDK's --vdev takes it"),
    ("in_port", "the same port as Chainline's chain file takes it"),
    ("out_port", "the port towards the sink as Chainline's chain file takes it"),
    ("in_mac", "hardware address of the port towards the generator; frames come with it as destination"),
    ("out_mac", "hardware address of the port towards the sink"),
    ("generator_mac", "hardware address that frames come from"),
    ("sink_mac", "hardware address that frames should go to"),
    ("sources", "the network of the frames' source addresses"),
    ("destinations", "the network of the frames' destination addresses"),
    ("core", "the number of the core that the dataplane may use"),
    ("core_mask", "the same as a hexadecimal mask"),
    ("dir", "a directory for this run alone, removed at its end"),
    ("chainline", "the path of this program"),
];

/// A part of a text.
enum Part<'t> {
    Plain(&'t str),
    /// A placeholder's name.
    Place(&'t str),
}

/// Parts of a text: `{name}` with lower-case letters and `_` alone is a placeholder, `{{name}}` is `{name}`.
fn parts(text: &str) -> impl Iterator<Item = Part<'_>> {
    let name = |from: &str| {
        let end = from.find(|c: char| !c.is_ascii_lowercase() && c != '_')?;
        (end > 0 && from[end..].starts_with('}')).then_some(end)
    };
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        if let Some(inner) = rest.strip_prefix("{{")
            && let Some(end) = name(inner)
            && inner[end..].starts_with("}}")
        {
            let plain = &rest[1..end + 3];
            rest = &inner[end + 2..];
            return Some(Part::Plain(plain));
        }
        if let Some(inner) = rest.strip_prefix('{')
            && let Some(end) = name(inner)
        {
            let place = &inner[..end];
            rest = &inner[end + 1..];
            return Some(Part::Place(place));
        }
        let next = rest.char_indices().skip(1).find(|(_, c)| *c == '{').map_or(rest.len(), |(i, _)| i);
        let (plain, after) = rest.split_at(next);
        rest = after;
        Some(Part::Plain(plain))
    })
}

impl Text {
    /// A text whose placeholders are known.
    ///
    /// # Errors
    /// The first that is not, and what may have been meant.
    pub fn new(text: &str) -> Result<Self, (String, String)> {
        let known = || PLACEHOLDERS.iter().map(|(name, _)| *name);
        for part in parts(text) {
            if let Part::Place(name) = part
                && !known().any(|k| k == name)
            {
                let mut message = format!("unknown placeholder `{{{name}}}`, expected one of");
                for k in known() {
                    let _ = write!(message, " {{{k}}}");
                }
                let help = did_you_mean(name, known());
                return Err((message, help.unwrap_or_else(|| format!("write `{{{{{name}}}}}` for the text itself"))));
            }
        }
        Ok(Self(text.to_owned()))
    }

    /// The text as it stands in the file.
    #[must_use]
    pub fn raw(&self) -> &str {
        &self.0
    }

    /// The text with `values` for its placeholders.
    #[must_use]
    pub fn fill(&self, values: &Values) -> String {
        parts(&self.0)
            .map(|part| match part {
                Part::Plain(plain) => plain,
                Part::Place(name) => values.get(name),
            })
            .collect()
    }
}

impl Values {
    /// Sets one; the name must be one of [`PLACEHOLDERS`].
    pub fn set(&mut self, name: &'static str, value: impl Into<String>) {
        debug_assert!(PLACEHOLDERS.iter().any(|(n, _)| *n == name), "{name}");
        self.0.push((name, value.into()));
    }

    /// The value, or nothing.
    #[must_use]
    pub fn get(&self, name: &str) -> &str {
        self.0.iter().rev().find(|(n, _)| *n == name).map_or("", |(_, v)| v)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn placeholders_are_filled() {
        let mut values = Values::default();
        values.set("in", "eth7");
        values.set("core", "3");
        let fill = |text: &str| Text::new(text).unwrap().fill(&values);
        assert_eq!(fill("{in}"), "eth7");
        assert_eq!(fill("a{in}b{core}"), "aeth7b3");
        assert_eq!(fill("{{in}} { in } {in {} {1} {"), "{in} { in } {in {} {1} {");
        assert_eq!(fill("table ip t { chain c { type filter; } }"), "table ip t { chain c { type filter; } }");
        let (message, help) = Text::new("x {inn}").unwrap_err();
        assert!(message.starts_with("unknown placeholder `{inn}`, expected one of {in} {out}"), "{message}");
        assert_eq!(help, "did you mean `in`?");
    }

    proptest! {
        #[test]
        fn text_without_placeholders_stays(text in "[{}a-z_ é\n]{0,40}") {
            if let Ok(t) = Text::new(&text)
                && !parts(&text).any(|p| matches!(p, Part::Place(_)))
                && !text.contains("{{")
            {
                prop_assert_eq!(t.fill(&Values::default()), text);
            }
        }
    }
}
