//! Text to a tree of values that know their places.
//!
//! serde stops at the first error and forgets places; the chain file's errors are to come all at once. So the events
//! of `serde-saphyr`'s parser become a tree here, and `decode` reads the tree. Hostile input is bounded: bytes,
//! depth, and values after the expansion of aliases.

use crate::diag::{Diagnostic, Span};
use serde_saphyr::granit_parser::{self as yaml, Event, Parser, ScalarStyle, StrInput};
use std::borrow::Cow;
use std::collections::HashMap;

/// Largest file, in bytes.
pub const MAX_BYTES: usize = 4 << 20;
/// Deepest nesting of lists and maps.
pub const MAX_DEPTH: usize = 64;
/// Most values in a file after aliases are expanded; long texts count more than once.
pub const MAX_WEIGHT: usize = 1 << 19;

/// A value and its place.
#[derive(Clone, Debug)]
pub struct Node {
    /// Where it stands.
    pub span: Span,
    /// What it is.
    pub value: Value,
}

/// What a [`Node`] holds: YAML 1.2 core schema (section 10.3).
#[derive(Clone, Debug)]
pub enum Value {
    /// Nothing, `~` or `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Int(i128),
    /// Another number.
    Float(f64),
    /// Everything else that is one value.
    Text(String),
    /// A list.
    List(Vec<Node>),
    /// A map, in the order of the file.
    Map(Vec<Entry>),
}

/// A key and its value.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// Where the key stands.
    pub key_span: Span,
    /// The value.
    pub node: Node,
}

impl Node {
    /// A short description for "found …".
    pub fn describe(&self) -> String {
        match &self.value {
            Value::Null => "nothing".into(),
            Value::Bool(b) => format!("`{b}`"),
            Value::Int(i) => format!("the number {i}"),
            Value::Float(x) => format!("the number {x}"),
            Value::Text(t) => quote(t),
            Value::List(items) if items.is_empty() => "an empty list".into(),
            Value::List(_) => "a list".into(),
            Value::Map(entries) if entries.is_empty() => "an empty map".into(),
            Value::Map(_) => "a map".into(),
        }
    }

    /// The value as JSON, for the arguments of NFs. Numbers that JSON has no room for become floats or text.
    pub fn to_json(&self) -> serde_json::Value {
        use serde_json::Value as J;
        match &self.value {
            Value::Null => J::Null,
            Value::Bool(b) => J::Bool(*b),
            Value::Int(i) => match (u64::try_from(*i), i64::try_from(*i)) {
                (Ok(u), _) => u.into(),
                (_, Ok(i)) => i.into(),
                _ => (*i as f64).into(),
            },
            Value::Float(x) => serde_json::Number::from_f64(*x).map_or_else(|| J::String(x.to_string()), J::Number),
            Value::Text(t) => J::String(t.clone()),
            Value::List(items) => J::Array(items.iter().map(Self::to_json).collect()),
            Value::Map(entries) => J::Object(entries.iter().map(|e| (e.key.clone(), e.node.to_json())).collect()),
        }
    }

    fn depth(&self) -> usize {
        match &self.value {
            Value::List(items) => 1 + items.iter().map(Self::depth).max().unwrap_or(0),
            Value::Map(entries) => 1 + entries.iter().map(|e| e.node.depth()).max().unwrap_or(0),
            _ => 0,
        }
    }
}

/// Text in quotes, cut to a readable length.
pub fn quote(text: &str) -> String {
    const SHOWN: usize = 60;
    let mut shown: String = text.chars().take(SHOWN).flat_map(char::escape_debug).collect();
    if text.chars().nth(SHOWN).is_some() {
        shown.push('…');
    }
    format!("\"{shown}\"")
}

/// The tree of a file that holds a `noun`. What is wrong without ending the parse (duplicate keys, tags) goes to
/// `found`.
///
/// # Errors
/// When the text is not one YAML document within the limits.
pub fn parse(text: &str, noun: &str, found: &mut Vec<Diagnostic>) -> Result<Node, Diagnostic> {
    if text.len() > MAX_BYTES {
        let message = format!("the file has {} bytes, expected at most {MAX_BYTES}", text.len());
        return Err(Diagnostic::error(START, message));
    }
    let options = yaml::options! {
        emit_comments: false,
        flow_nesting_limit: MAX_DEPTH,
        block_nesting_limit: MAX_DEPTH,
    };
    let parser = Parser::new_from_str_with_options(text, options);
    Builder { text, noun, parser, anchors: HashMap::new(), weight: 0, copies: 0, found }.document()
}

const START: Span = Span { line: 1, column: 1, start: 0, end: 0 };

struct Builder<'t, 'd> {
    text: &'t str,
    noun: &'d str,
    parser: Parser<'t, StrInput<'t>>,
    anchors: HashMap<usize, (Node, usize)>,
    weight: usize,
    /// Weight of the copies that anchors keep; not part of the values that hold the anchors.
    copies: usize,
    found: &'d mut Vec<Diagnostic>,
}

type Tag<'t> = Option<Cow<'t, yaml::Tag>>;

impl<'t> Builder<'t, '_> {
    fn document(mut self) -> Result<Node, Diagnostic> {
        let mut root = None;
        while let Some((event, span)) = self.next()? {
            match event {
                Event::StreamStart | Event::StreamEnd | Event::DocumentEnd | Event::Comment(..) => {}
                Event::DocumentStart(..) if root.is_some() => {
                    let message = format!("found a second document, expected one {} a file", self.noun);
                    return Err(Diagnostic::error(span, message));
                }
                Event::DocumentStart(..) => {}
                event => root = Some(self.node(event, span, 0)?),
            }
        }
        root.ok_or_else(|| Diagnostic::error(START, format!("the file is empty, expected a {}", self.noun)))
    }

    fn next(&mut self) -> Result<Option<(Event<'t>, Span)>, Diagnostic> {
        match self.parser.next() {
            None => Ok(None),
            Some(Ok((event, span))) => Ok(Some((event, self.span(span)))),
            Some(Err(e)) => {
                let place = self.span(yaml::Span::empty(*e.marker()));
                Err(Diagnostic::error(place, format!("not YAML: {}", e.kind())))
            }
        }
    }

    fn span(&self, span: yaml::Span) -> Span {
        let byte = |m: yaml::Marker| {
            let mut byte = m.byte_offset().unwrap_or(0).min(self.text.len());
            while !self.text.is_char_boundary(byte) {
                byte -= 1;
            }
            byte
        };
        let small = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let start = byte(span.start);
        let end = byte(span.end).max(start);
        // A block collection ends where the next token begins; its own text ends before.
        let end = start + self.text[start..end].trim_end().len();
        Span { line: small(span.start.line()), column: small(span.start.col().saturating_add(1)), start, end }
    }

    fn note(&mut self, diagnostic: Diagnostic) {
        if self.found.len() < crate::decode::MAX_DIAGNOSTICS {
            self.found.push(diagnostic);
        }
    }

    /// Charges for a value; the bound holds for the whole file.
    fn charge(&mut self, weight: usize, span: Span) -> Result<(), Diagnostic> {
        self.weight = self.weight.saturating_add(weight);
        if self.weight.saturating_add(self.copies) > MAX_WEIGHT { Err(too_many(span)) } else { Ok(()) }
    }

    fn node(&mut self, event: Event<'t>, span: Span, depth: usize) -> Result<Node, Diagnostic> {
        if depth > MAX_DEPTH {
            return Err(too_deep(span));
        }
        let before = self.weight;
        self.charge(1, span)?;
        let (value, span, anchor) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                self.charge(text.len() / 64, span)?;
                let text_only = style != ScalarStyle::Plain || is_core(&tag, "str");
                self.check_tag(&tag, span, &["str", "int", "float", "bool", "null"]);
                (if text_only { Value::Text(text.into_owned()) } else { resolve(&text) }, span, anchor)
            }
            Event::SequenceStart(_, anchor, tag) => {
                self.check_tag(&tag, span, &["seq"]);
                let (items, end) = self.list(span, depth)?;
                (Value::List(items), Span { end, ..span }, anchor)
            }
            Event::MappingStart(_, anchor, tag) => {
                self.check_tag(&tag, span, &["map"]);
                let (entries, end) = self.map(span, depth)?;
                (Value::Map(entries), Span { end, ..span }, anchor)
            }
            Event::Alias(id) => return self.alias(id, span, depth),
            other => return Err(Diagnostic::error(span, format!("not YAML: {other:?} out of place"))),
        };
        let node = Node { span, value };
        if anchor != 0 {
            // A value inside many anchors is copied for each.
            let weight = self.weight - before;
            self.copies = self.copies.saturating_add(weight);
            self.charge(0, span)?;
            self.anchors.insert(anchor, (node.clone(), weight));
        }
        Ok(node)
    }

    fn alias(&mut self, id: usize, span: Span, depth: usize) -> Result<Node, Diagnostic> {
        // An alias inside its own anchor is not there yet, and is so refused.
        let Some((node, weight)) = self.anchors.get(&id) else {
            return Err(Diagnostic::error(span, "this alias stands inside its own anchor, expected a value"));
        };
        self.weight = self.weight.saturating_add(*weight);
        if self.weight.saturating_add(self.copies) > MAX_WEIGHT {
            return Err(too_many(span));
        }
        if depth + node.depth() > MAX_DEPTH {
            return Err(too_deep(span));
        }
        // Places stay those of the anchored text: that is what has to be changed.
        Ok(node.clone())
    }

    fn list(&mut self, start: Span, depth: usize) -> Result<(Vec<Node>, usize), Diagnostic> {
        let mut items: Vec<Node> = Vec::new();
        while let Some((event, span)) = self.next()? {
            match event {
                Event::SequenceEnd => {
                    let last = items.last().map_or(start.end, |n| n.span.end);
                    return Ok((items, span.end.max(last)));
                }
                Event::Comment(..) => {}
                event => items.push(self.node(event, span, depth + 1)?),
            }
        }
        Err(Diagnostic::error(start, "this list does not end"))
    }

    fn map(&mut self, start: Span, depth: usize) -> Result<(Vec<Entry>, usize), Diagnostic> {
        let mut entries: Vec<Entry> = Vec::new();
        let mut seen: HashMap<String, Span> = HashMap::new();
        while let Some((event, key_span)) = self.next()? {
            let key = match event {
                Event::MappingEnd => {
                    let last = entries.last().map_or(start.end, |e| e.node.span.end);
                    return Ok((entries, key_span.end.max(last)));
                }
                Event::Comment(..) => continue,
                Event::Scalar(text, ..) => Some(text.into_owned()),
                event => {
                    let node = self.node(event, key_span, depth + 1)?;
                    let message = format!("found {} as a key, expected a name", node.describe());
                    self.note(Diagnostic::error(key_span, message));
                    None
                }
            };
            let Some((event, span)) = self.next()? else { break };
            let node = self.node(event, span, depth + 1)?;
            let Some(key) = key else { continue };
            self.charge(key.len() / 64, key_span)?;
            if let Some(first) = seen.get(&key) {
                let message = format!("found the key {} twice, expected it once", quote(&key));
                self.note(Diagnostic::error(key_span, message).related(*first, "the first is"));
                continue;
            }
            if key == "<<" {
                let message = "found the merge key `<<` of YAML 1.1, expected YAML 1.2, which has none";
                self.note(Diagnostic::error(key_span, message).help("write the fields out"));
                continue;
            }
            seen.insert(key.clone(), key_span);
            entries.push(Entry { key, key_span, node });
        }
        Err(Diagnostic::error(start, "this map does not end"))
    }

    fn check_tag(&mut self, tag: &Tag<'t>, span: Span, allowed: &[&str]) {
        if let Some(tag) = tag
            && !allowed.iter().any(|a| tag.is_yaml_core_schema_tag(a))
        {
            let message = format!("found the tag {}, expected a value without one", quote(&tag.to_string()));
            self.note(Diagnostic::error(span, message));
        }
    }
}

fn is_core(tag: &Tag<'_>, suffix: &str) -> bool {
    tag.as_ref().is_some_and(|t| t.is_yaml_core_schema_tag(suffix))
}

fn too_many(span: Span) -> Diagnostic {
    Diagnostic::error(span, format!("more than {MAX_WEIGHT} values with aliases expanded, expected fewer"))
}

fn too_deep(span: Span) -> Diagnostic {
    Diagnostic::error(span, format!("nested more than {MAX_DEPTH} levels deep, expected fewer"))
}

/// A plain scalar by the core schema (YAML 1.2.2 section 10.3.2). `yes`, `on` and `0777` are what they look like.
fn resolve(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        "true" | "True" | "TRUE" => return Value::Bool(true),
        "false" | "False" | "FALSE" => return Value::Bool(false),
        ".nan" | ".NaN" | ".NAN" => return Value::Float(f64::NAN),
        _ => {}
    }
    let (sign, unsigned) = match text.as_bytes() {
        [b'-', ..] => (-1, &text[1..]),
        [b'+', ..] => (1, &text[1..]),
        _ => (1, text),
    };
    if matches!(unsigned, ".inf" | ".Inf" | ".INF") {
        return Value::Float(f64::INFINITY * f64::from(sign));
    }
    let digits = |t: &str, radix| {
        let all = !t.is_empty() && t.chars().all(|c| c.is_digit(radix));
        if all { i128::from_str_radix(t, radix).ok() } else { None }
    };
    let int = match text.as_bytes() {
        [b'0', b'x', ..] => digits(&text[2..], 16),
        [b'0', b'o', ..] => digits(&text[2..], 8),
        _ => digits(unsigned, 10).map(|i| i * i128::from(sign)),
    };
    if let Some(int) = int {
        return Value::Int(int);
    }
    let number = unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.')
        && unsigned.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'e' | b'E' | b'+' | b'-'))
        && unsigned.bytes().any(|b| b.is_ascii_digit());
    match text.parse() {
        Ok(x) if number => Value::Float(x),
        _ => Value::Text(text.to_owned()),
    }
}

/// Places by path (`spec.chains[0].path[2]`): of values, and of the keys that they stand under.
pub type Places = (HashMap<String, Span>, HashMap<String, Span>);

/// The places of everything whose path is not absurdly long.
pub fn places(root: &Node) -> Places {
    let mut places = Places::default();
    walk(root, &mut String::new(), &mut places);
    places
}

/// Longest path that is noted: bounds memory, since every value has a path of its own.
const MAX_PATH: usize = 192;

fn walk(node: &Node, path: &mut String, places: &mut Places) {
    if path.len() > MAX_PATH {
        return;
    }
    places.0.insert(path.clone(), node.span);
    let len = path.len();
    match &node.value {
        Value::List(items) => {
            for (i, item) in items.iter().enumerate() {
                path.push_str(&format!("[{i}]"));
                walk(item, path, places);
                path.truncate(len);
            }
        }
        Value::Map(entries) => {
            for e in entries.iter().filter(|e| e.key.len() <= MAX_PATH) {
                if len > 0 {
                    path.push('.');
                }
                path.push_str(&e.key);
                places.1.insert(path.clone(), e.key_span);
                walk(&e.node, path, places);
                path.truncate(len);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
#[path = "tree_tests.rs"]
mod tests;
