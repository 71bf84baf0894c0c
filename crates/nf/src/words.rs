//! The words of a line, with the columns where they start: for NFs that read rules, backends and the like from files.
//!
//! ```
//! use chainline_nf::words::Words;
//!
//! let mut words = Words::new("allow  tcp");
//! assert_eq!(words.next().map(|w| w.text), Some("allow"));
//! assert_eq!(words.expect("a protocol").map(|w| w.column), Ok(8));
//! assert_eq!(words.expect("from").unwrap_err().message, "the line ends, expected from");
//! ```

/// What is wrong with a line, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// In bytes, from 1.
    pub column: usize,
    /// What was found and what was expected.
    pub message: String,
}

impl Fault {
    /// A fault at a column.
    pub fn new(column: usize, message: impl Into<String>) -> Self {
        Self { column, message: message.into() }
    }
}

/// A word and its column.
#[derive(Clone, Copy, Debug)]
pub struct Word<'a> {
    /// The word.
    pub text: &'a str,
    /// Where it starts, in bytes, from 1.
    pub column: usize,
}

impl Word<'_> {
    /// A fault at this word.
    pub fn fault(&self, message: impl Into<String>) -> Fault {
        Fault::new(self.column, message)
    }
}

/// Reads a line word by word.
#[derive(Debug)]
pub struct Words<'a> {
    line: &'a str,
    at: usize,
}

impl<'a> Words<'a> {
    /// At the start of a line.
    #[must_use]
    pub fn new(line: &'a str) -> Self {
        Self { line, at: 0 }
    }

    /// The next word, without taking it.
    #[must_use]
    pub fn peek(&self) -> Option<Word<'a>> {
        let rest = self.line.get(self.at..)?;
        let start = self.at + (rest.len() - rest.trim_start().len());
        let text = self.line.get(start..)?.split_whitespace().next()?;
        Some(Word { text, column: start + 1 })
    }

    /// Takes the next word.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Option<Word<'a>> {
        let word = self.peek()?;
        self.at = word.column - 1 + word.text.len();
        Some(word)
    }

    /// Takes the next word, which must be there.
    ///
    /// # Errors
    /// A fault behind the end of the line that says `what` was expected.
    pub fn expect(&mut self, what: &str) -> Result<Word<'a>, Fault> {
        let column = self.line.trim_end().len() + 1;
        self.next().ok_or_else(|| Fault::new(column, format!("the line ends, expected {what}")))
    }
}
