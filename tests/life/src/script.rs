//! What an NF does in each of its lives: a file with one word (or a few) a line. After the last line it is honest.

use std::path::Path;

/// Begins the next life of whoever the file is for. `None`: an honest one.
#[must_use]
pub fn next_life(file: &Path) -> Option<String> {
    let text = std::fs::read_to_string(file).ok()?;
    // One incarnation at a time writes here.
    let lives = file.with_extension("lives");
    let before: usize = std::fs::read_to_string(&lives).ok().and_then(|n| n.parse().ok()).unwrap_or(0);
    std::fs::write(lives, (before + 1).to_string()).unwrap();
    text.lines().nth(before).map(str::to_owned).filter(|line| line != "honest")
}

/// A word and the number behind it: `abort 500`.
#[must_use]
pub fn word(line: &str) -> (&str, u64) {
    let (word, number) = line.split_once(' ').unwrap_or((line, "0"));
    (word, number.parse().unwrap_or_else(|e| panic!("script line {line:?}: {e}")))
}
