//! What NFs say to the operator while they run.

use std::time::Instant;

/// So many at once; then one for each [`EVERY_S`].
const AT_ONCE: f64 = 8.0;
const EVERY_S: f64 = 10.0;
/// The most characters of one.
const LONGEST: usize = 1000;

/// How much an instance may still say. What it says is a stranger's word: it may be long, often, or meant for the terminal.
#[derive(Debug)]
pub(super) struct Patience {
    left: f64,
    at: Instant,
}

impl Patience {
    pub fn new(now: Instant) -> Self {
        Self { left: AT_ONCE, at: now }
    }

    /// The words as they can be shown, on one line; `None` if it has said too much.
    pub fn hear(&mut self, words: &str, now: Instant) -> Option<String> {
        let since = now.saturating_duration_since(self.at).as_secs_f64();
        (self.left, self.at) = ((self.left + since / EVERY_S).min(AT_ONCE), now);
        if self.left < 1.0 {
            return None;
        }
        self.left -= 1.0;
        let plain = words.trim().chars().map(|c| if c.is_control() { ' ' } else { c });
        Some(plain.take(LONGEST).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn who_says_much_is_not_heard() {
        let start = Instant::now();
        let mut patience = Patience::new(start);
        let heard =
            |p: &mut Patience, s: u64| (0..100).filter_map(|_| p.hear("x", start + Duration::from_secs(s))).count();
        assert_eq!([0, 5, 10, 40, 10_000].map(|s| heard(&mut patience, s)), [8, 0, 1, 3, 8]);
    }

    #[test]
    fn words_are_one_line_of_text() {
        let mut patience = Patience::new(Instant::now());
        let mut hear = |words: &str| patience.hear(words, Instant::now()).unwrap();
        assert_eq!(hear("\n a\u{1b}[2Jb\nc\n"), "a [2Jb c");
        assert_eq!(hear(&"é".repeat(5000)).chars().count(), LONGEST);
    }
}
