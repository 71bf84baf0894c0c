//! Files with one thing a line, where `#` or `;` starts a comment.

use chainline_nf::Error;
use chainline_nf::words::{Fault, Words};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

/// The longest line that is read: a file that is something else must not fill the memory.
const MAX_LINE: u64 = 1024;

/// Takes a line's number, from 1, and its text with comment and all.
pub type TakeLine<'a> = dyn FnMut(u32, &str) -> Result<(), Fault> + 'a;

/// Reads a file; `what` is what a line has, for messages: "a route".
///
/// # Errors
/// What is wrong with the first wrong line.
pub fn read_file(path: &Path, what: &str, take: &mut TakeLine<'_>) -> Result<(), Error> {
    let file = std::fs::File::open(path).map_err(|source| Error::Read { path: path.to_owned(), source })?;
    read_lines(path, BufReader::with_capacity(1 << 16, file), what, take)
}

/// As [`read_file`], from anything; `path` is for messages.
///
/// # Errors
/// What is wrong with the first wrong line.
pub fn read_lines(path: &Path, mut file: impl BufRead, what: &str, take: &mut TakeLine<'_>) -> Result<(), Error> {
    let mut line = Vec::with_capacity(MAX_LINE as usize);
    for number in 1u32.. {
        line.clear();
        let read = file.by_ref().take(MAX_LINE).read_until(b'\n', &mut line);
        let at = |column, message: String| Error::at(path, number as usize, column, message);
        match read.map_err(|source| Error::Read { path: path.to_owned(), source })? {
            0 => break,
            n if n as u64 == MAX_LINE && line.last() != Some(&b'\n') => {
                return Err(at(1, format!("the line is longer than {MAX_LINE} bytes, expected {what}")));
            }
            _ => {}
        }
        let text = std::str::from_utf8(&line)
            .map_err(|e| at(e.valid_up_to() + 1, format!("found bytes that are not UTF-8, expected {what}")))?;
        take(number, text).map_err(|f| at(f.column, f.message))?;
    }
    Ok(())
}

/// The words of a line, without its comment.
#[must_use]
pub fn words(text: &str) -> Words<'_> {
    Words::new(&text[..text.find(['#', ';']).unwrap_or(text.len())])
}

/// The line must end here.
///
/// # Errors
/// What there is instead.
pub fn end(words: &mut Words<'_>) -> Result<(), Fault> {
    match words.next() {
        None => Ok(()),
        Some(word) => Err(word.fault(format!("found '{}', expected the end of the line", word.text))),
    }
}
