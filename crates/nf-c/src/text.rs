//! Text from the other side, read with a bound.

use std::ffi::c_char;

/// The longest name, help line or message, in bytes.
pub(crate) const MAX_WORDS: usize = 4096;

/// What is wrong with text from the other side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadText {
    Null,
    TooLong(usize),
    NotUtf8,
}

impl std::fmt::Display for BadText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Null => f.write_str("NULL; expected text"),
            Self::TooLong(max) => write!(f, "no NUL within {max} bytes"),
            Self::NotUtf8 => f.write_str("not UTF-8"),
        }
    }
}

/// The text at `at`, up to its NUL.
///
/// # Safety
/// `at` is NULL, or readable up to the first NUL or for `max` bytes, and unchanged meanwhile.
pub(crate) unsafe fn read(at: *const c_char, max: usize) -> Result<String, BadText> {
    if at.is_null() {
        return Err(BadText::Null);
    }
    let mut bytes = Vec::new();
    for i in 0..max {
        // SAFETY: no NUL came before this byte, so it is readable by the caller's word.
        match unsafe { at.add(i).read() } {
            0 => return String::from_utf8(bytes).map_err(|_| BadText::NotUtf8),
            b => bytes.push(b as u8),
        }
    }
    Err(BadText::TooLong(max))
}
