//! The words of a line, with the columns where they start.

/// What is wrong with a line, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// In bytes, from 1.
    pub column: usize,
    pub message: String,
}

impl Fault {
    pub fn new(column: usize, message: impl Into<String>) -> Self {
        Self { column, message: message.into() }
    }
}

/// A word and its column.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Word<'a> {
    pub text: &'a str,
    pub column: usize,
}

impl Word<'_> {
    pub fn fault(&self, message: impl Into<String>) -> Fault {
        Fault::new(self.column, message)
    }
}

/// Reads a line word by word.
pub(crate) struct Words<'a> {
    line: &'a str,
    at: usize,
}

impl<'a> Words<'a> {
    pub fn new(line: &'a str) -> Self {
        Self { line, at: 0 }
    }

    pub fn peek(&self) -> Option<Word<'a>> {
        let rest = self.line.get(self.at..)?;
        let start = self.at + (rest.len() - rest.trim_start().len());
        let text = self.line.get(start..)?.split_whitespace().next()?;
        Some(Word { text, column: start + 1 })
    }

    pub fn next(&mut self) -> Option<Word<'a>> {
        let word = self.peek()?;
        self.at = word.column - 1 + word.text.len();
        Some(word)
    }

    pub fn expect(&mut self, what: &str) -> Result<Word<'a>, Fault> {
        let column = self.line.trim_end().len() + 1;
        self.next().ok_or_else(|| Fault::new(column, format!("the line ends, expected {what}")))
    }
}
