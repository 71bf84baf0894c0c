//! How large a table is, how long entries last, and what happens when it is full.

use chainline_dpdk::tables::{HashError, MemoryError};

/// Kinds of entries with a time-out of their own.
pub const CLASSES: usize = 16;
/// The most entries: 2²⁶, some gigabytes.
pub const MAX_CAPACITY: u32 = 1 << 26;
/// The longest time-out, about 12 days: times are kept in 32 bits, see `table.rs`.
pub const MAX_TIMEOUT_MS: u64 = 1_000_000_000;
/// A time-out: entries of this class stay until they are removed or evicted.
pub const NEVER: u64 = u64::MAX;

/// Which of [`Config::timeouts_ms`] an entry has: TCP that is opening, established, UDP …
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Class(pub u8);

/// What happens to a new key when the table is full. In all three, entries whose time is over make room first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnFull {
    /// It gets no entry, and the NF drops its packet.
    DropNew,
    /// It takes the place of an entry that was to end soon: of [`crate::SAMPLE`] entries, spread over the table and
    /// others each time (in tables of about a hundred: of all), the one whose time-out comes first. In one class that is approximately the one that was idle
    /// longest; of several classes those with short time-outs go first, so half-open connections before established
    /// ones.
    EvictOldest,
    /// It gets no entry, and its packet goes on without state.
    Bypass,
}

/// What a table is to be.
#[derive(Clone, Copy, Debug)]
pub struct Config<'a> {
    /// Entries that it holds, 1 to [`MAX_CAPACITY`].
    pub capacity: u32,
    /// For each [`Class`], how long an entry stays without a packet, in milliseconds: 1 to [`MAX_TIMEOUT_MS`], or
    /// [`NEVER`]. One to [`CLASSES`] of them.
    pub timeouts_ms: &'a [u64],
    /// When it is full.
    pub on_full: OnFull,
}

/// Why a table could not be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigError {
    /// The configuration is wrong: what was found, what was expected.
    Wrong(String),
    /// No memory, or DPDK refused.
    Table(String),
}

impl std::fmt::Display for ConfigError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (Self::Wrong(text) | Self::Table(text)) = self;
        f.write_str(text)
    }
}

impl std::error::Error for ConfigError {}

impl From<HashError> for ConfigError {
    fn from(e: HashError) -> Self {
        Self::Table(e.to_string())
    }
}

impl From<MemoryError> for ConfigError {
    fn from(e: MemoryError) -> Self {
        Self::Table(e.to_string())
    }
}

impl Config<'_> {
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        let wrong = |text: String| Err(ConfigError::Wrong(text));
        if !(1..=MAX_CAPACITY).contains(&self.capacity) {
            return wrong(format!("a table of {} entries, expected 1 to {MAX_CAPACITY}", self.capacity));
        }
        if !(1..=CLASSES).contains(&self.timeouts_ms.len()) {
            return wrong(format!("{} time-outs, expected 1 to {CLASSES}", self.timeouts_ms.len()));
        }
        match self.timeouts_ms.iter().find(|t| **t != NEVER && !(1..=MAX_TIMEOUT_MS).contains(*t)) {
            Some(t) => wrong(format!("a time-out of {t} ms, expected 1 to {MAX_TIMEOUT_MS}")),
            None => Ok(()),
        }
    }
}
