//! Why an NF could not be built.

use std::path::{Path, PathBuf};

/// An error for the operator. It says what was found and what was expected, never how the code got there.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The arguments are wrong: `args.rules: …`.
    #[error("{0}")]
    Args(String),
    /// A file that the arguments name is wrong.
    #[error("{}:{line}:{column}: {message}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// What was found and what was expected.
        message: String,
    },
    /// A file could not be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's word.
        source: std::io::Error,
    },
    /// A library refused.
    #[error("{0}")]
    Library(String),
}

impl Error {
    /// An error in a file at a line and column, both from 1.
    pub fn at(path: &Path, line: usize, column: usize, message: impl Into<String>) -> Self {
        Self::File { path: path.to_owned(), line, column, message: message.into() }
    }
}
