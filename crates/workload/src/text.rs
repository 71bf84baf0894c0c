//! Lines of numbers: what files of sizes and of flow lengths have in common.

use std::ops::RangeInclusive;

/// The longest file that is read, in bytes.
pub const MAX_TEXT_BYTES: usize = 64 << 20;

/// A mistake in a file of numbers.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}found {found}, expected {expected}", place(*.line, *.field))]
pub struct TextError {
    /// The line, from 1; 0: the whole file.
    pub line: usize,
    /// The field within it, from 1; 0: the whole line.
    pub field: usize,
    found: String,
    expected: String,
}

fn place(line: usize, field: usize) -> String {
    match (line, field) {
        (0, _) => String::new(),
        (line, 0) => format!("line {line}: "),
        (line, field) => format!("line {line}, field {field}: "),
    }
}

impl TextError {
    /// A file in which there is nothing.
    pub(crate) fn empty(expected: &str) -> Self {
        Self { line: 0, field: 0, found: "no line with numbers".into(), expected: expected.into() }
    }

    /// A mistake that concerns the whole file.
    pub(crate) fn whole(found: String, expected: String) -> Self {
        Self { line: 0, field: 0, found, expected }
    }
}

/// A field's place in a line, from 0.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field(pub(crate) usize);

/// A line that says something.
#[derive(Clone, Debug)]
pub(crate) struct Line<'a> {
    number: usize,
    fields: Vec<&'a str>,
}

/// The lines that say something: fields between commas or spaces; no comments, no empty ones, no heading.
pub(crate) struct Lines<'a> {
    lines: std::iter::Enumerate<std::str::Lines<'a>>,
    begun: bool,
    too_long: bool,
}

impl<'a> Lines<'a> {
    pub(crate) fn of(text: &'a str) -> Self {
        Self { lines: text.lines().enumerate(), begun: false, too_long: text.len() > MAX_TEXT_BYTES }
    }
}

impl<'a> Iterator for Lines<'a> {
    type Item = Result<Line<'a>, TextError>;

    fn next(&mut self) -> Option<Self::Item> {
        if std::mem::take(&mut self.too_long) {
            let most = format!("at most {MAX_TEXT_BYTES} bytes");
            return Some(Err(TextError::whole("a longer file".into(), most)));
        }
        for (i, line) in self.lines.by_ref() {
            let line = line.split('#').next().unwrap_or_default().trim_start_matches('\u{feff}').trim();
            if line.is_empty() {
                continue;
            }
            let heading =
                !std::mem::replace(&mut self.begun, true) && line.starts_with(|c: char| c.is_ascii_alphabetic());
            if heading {
                continue;
            }
            let fields = if line.contains(',') {
                line.split(',').map(str::trim).collect()
            } else {
                line.split_whitespace().collect()
            };
            return Some(Ok(Line { number: i + 1, fields }));
        }
        None
    }
}

impl Line<'_> {
    /// Field `i`, a whole number.
    pub(crate) fn number(&self, i: usize, what: &str, range: RangeInclusive<u64>) -> Result<u64, TextError> {
        let text = self.fields.get(i).copied().unwrap_or_default();
        let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        match text.parse() {
            Ok(n) if digits && range.contains(&n) => Ok(n),
            _ => Err(self.wrong(Field(i), &format!("{what} from {} to {}", range.start(), range.end()))),
        }
    }

    /// Field `i` is not what it should be.
    pub(crate) fn wrong(&self, field: Field, expected: &str) -> TextError {
        let found = match self.fields.get(field.0) {
            None | Some(&"") => "nothing".into(),
            Some(text) => format!("{:?}", text.chars().take(40).collect::<String>()),
        };
        TextError { line: self.number, field: field.0 + 1, found, expected: expected.into() }
    }

    /// How many fields there are.
    pub(crate) fn len(&self) -> usize {
        self.fields.len()
    }
}
