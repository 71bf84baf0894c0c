//! The IMIX genome of RFC 6985: frame sizes in exact order, one letter each.
//!
//! | letter | a | b | c | d | e | f | g | z | A to Z |
//! |---|---|---|---|---|---|---|---|---|---|
//! | bytes with FCS | 64 | 128 | 256 | 512 | 1024 | 1280 | 1518 | given | given |
//!
//! RFC 6985 leaves `z` to the interface's MTU; here it is given, as are capital letters (its custom IMIX). A number before
//! a letter, or before letters in brackets, repeats them: `7a4(bc)g` is `aaaaaaabcbcbcbcg`.

use crate::frame::{MAX_FRAME_BYTES, MIN_FRAME_BYTES};
use crate::mix::{Mix, MixError};

/// Sizes of the letters that have one, in bytes with FCS.
pub const LETTERS: &[(char, u16)] =
    &[('a', 64), ('b', 128), ('c', 256), ('d', 512), ('e', 1024), ('f', 1280), ('g', 1518)];

/// The longest sequence, in frames.
const MAX_FRAMES: usize = 1 << 20;
/// How deep brackets may lie in brackets.
const MAX_DEPTH: usize = 8;

/// Why a genome is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GenomeError {
    /// A letter without a size.
    #[error("character {at}: found {letter:?}, expected `a` to `g`, or a letter (`z`, `A` to `Z`) whose size is given")]
    Letter {
        /// Where, from 1.
        at: usize,
        /// What was found.
        letter: char,
    },
    /// Brackets or numbers that do not belong together.
    #[error("character {at}: found {found}, expected {expected}")]
    Shape {
        /// Where, from 1.
        at: usize,
        /// What was found.
        found: &'static str,
        /// What belongs there.
        expected: &'static str,
    },
    /// Too many frames.
    #[error("character {at}: more than {MAX_FRAMES} frames, expected fewer")]
    Long {
        /// Where, from 1.
        at: usize,
    },
    /// A size for a letter that cannot have one, or one that no frame has.
    #[error(
        "size {size} for letter {letter:?}: expected `z` or `A` to `Z`, and {MIN_FRAME_BYTES} to {MAX_FRAME_BYTES} bytes"
    )]
    Custom {
        /// The letter.
        letter: char,
        /// Its size in bytes with FCS.
        size: u32,
    },
    /// No frame at all.
    #[error("found no letter, expected a sequence such as aaafg")]
    Empty,
}

/// The mix that a genome says, with sizes for the letters that have none of their own.
///
/// # Errors
/// The character, from 1, what was found there and what was expected.
pub fn genome(text: &str, custom: &[(char, u16)]) -> Result<Mix, GenomeError> {
    for &(letter, size) in custom {
        let size = u32::from(size);
        if !(letter == 'z' || letter.is_ascii_uppercase()) || !(MIN_FRAME_BYTES..=MAX_FRAME_BYTES).contains(&size) {
            return Err(GenomeError::Custom { letter, size });
        }
    }
    // Brackets that are open: where their frames begin, and how often they come.
    let mut open: Vec<(usize, usize)> = Vec::new();
    let mut frames: Vec<u32> = Vec::new();
    let mut times: Option<usize> = None;
    let mut end = 0;
    for (i, letter) in text.chars().enumerate() {
        let at = i + 1;
        end = at;
        let shape = |found, expected| GenomeError::Shape { at, found, expected };
        match letter {
            '0'..='9' => {
                let digit = letter as usize - '0' as usize;
                let n = times.unwrap_or(0) * 10 + digit;
                if n > MAX_FRAMES {
                    return Err(GenomeError::Long { at });
                }
                times = Some(n);
            }
            ' ' | '\t' | '\n' | '\r' if times.is_none() => {}
            '(' if open.len() == MAX_DEPTH => return Err(shape("a bracket", "fewer brackets in brackets")),
            '(' => open.push((frames.len(), times.take().unwrap_or(1))),
            ')' if times.is_some() => return Err(shape("a bracket after a number", "a letter or `(`")),
            ')' => {
                let Some((from, n)) = open.pop() else { return Err(shape("a bracket", "`(` before it")) };
                repeat(&mut frames, from, n).ok_or(GenomeError::Long { at })?;
            }
            _ => {
                let known = LETTERS.iter().chain(custom).find(|(l, _)| *l == letter);
                let &(_, size) = known.ok_or(GenomeError::Letter { at, letter })?;
                let from = frames.len();
                frames.push(u32::from(size));
                repeat(&mut frames, from, times.take().unwrap_or(1)).ok_or(GenomeError::Long { at })?;
            }
        }
    }
    let shape = |found, expected| Err(GenomeError::Shape { at: end, found, expected });
    if times.is_some() {
        return shape("a number at the end", "a letter after it");
    }
    if !open.is_empty() {
        return shape("the end", "`)`");
    }
    Mix::sequence(&frames).map_err(|e| match e {
        MixError::Length(n) if n > 0 => GenomeError::Long { at: end },
        _ => GenomeError::Empty,
    })
}

/// Has what lies from `from` on `times` times; `None` if that is too much.
fn repeat(frames: &mut Vec<u32>, from: usize, times: usize) -> Option<()> {
    let part = frames.get(from..)?.to_vec();
    if from + part.len().checked_mul(times)? > MAX_FRAMES {
        return None;
    }
    frames.truncate(from);
    (0..times).for_each(|_| frames.extend_from_slice(&part));
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sizes(text: &str, custom: &[(char, u16)]) -> Vec<u16> {
        let mix = genome(text, custom).unwrap();
        mix.order().iter().map(|&i| mix.sizes()[usize::from(i)]).collect()
    }

    #[test]
    fn letters_are_sizes_in_order() {
        assert_eq!(sizes("aaafg", &[]), [64, 64, 64, 1280, 1518]);
        assert_eq!(sizes("abcdefgz", &[('z', 9018)]), [64, 128, 256, 512, 1024, 1280, 1518, 9018]);
        assert_eq!(sizes("ABA", &[('A', 78), ('B', 577)]), [78, 577, 78]);
        assert_eq!(sizes("2a 3(bc)g", &[]), [64, 64, 128, 256, 128, 256, 128, 256, 1518]);
        assert_eq!(sizes("2(a2(b)c)", &[]), [64, 128, 128, 256, 64, 128, 128, 256]);
    }

    #[test]
    fn mistakes_are_shown_with_their_place() {
        let words = |text: &str| genome(text, &[]).unwrap_err().to_string();
        assert!(words("abx").starts_with("character 3: found 'x', expected `a` to `g`"));
        assert!(words("z").starts_with("character 1: found 'z'"));
        assert_eq!(words(""), "found no letter, expected a sequence such as aaafg");
        assert_eq!(words("0a"), "found no letter, expected a sequence such as aaafg");
        assert_eq!(words("a)"), "character 2: found a bracket, expected `(` before it");
        assert_eq!(words("(a"), "character 2: found the end, expected `)`");
        assert_eq!(words("a3"), "character 2: found a number at the end, expected a letter after it");
        assert_eq!(words("(a3)b"), "character 4: found a bracket after a number, expected a letter or `(`");
        assert!(words("1048577a").ends_with("more than 1048576 frames, expected fewer"));
        assert!(words("1048576a1b").contains("more than"));
        assert!(words("1000(1000(1000(1000a)))").contains("more than"));
        assert!(genome("a", &[('a', 70)]).unwrap_err().to_string().starts_with("size 70 for letter 'a'"));
        assert!(genome("z", &[('z', 63)]).unwrap_err().to_string().starts_with("size 63 for letter 'z'"));
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[a-hzA-C0-9() ]{0,40}|\\PC{0,20}") {
            if let Ok(mix) = genome(&text, &[('z', 9000)]) {
                prop_assert!(!mix.order().is_empty() && mix.order().len() <= MAX_FRAMES);
            }
        }
    }
}
