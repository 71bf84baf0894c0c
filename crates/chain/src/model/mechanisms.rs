//! Which of the mechanisms against wasted work are in force: each can be had alone, to see what it does.

use schemars::JsonSchema;
use serde::Serialize;

/// Scheduling mechanisms in force. A policy that the file gives counts in each of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Mechanisms {
    /// None, as a stock platform has it: an NF takes packets whether or not there is room behind it, and what then
    /// does not fit into the next queue is dropped, after work; all NFs have even weights.
    Default,
    /// CPU weights alone.
    Weights,
    /// Credit and backpressure alone: nothing is dropped for lack of room once an NF has worked on it.
    Backpressure,
    /// Both.
    #[default]
    All,
}

impl Mechanisms {
    /// All, by the word in the file.
    pub const WORDS: &'static [(&'static str, Self)] = &[
        ("default", Self::Default),
        ("weights", Self::Weights),
        ("backpressure", Self::Backpressure),
        ("all", Self::All),
    ];

    /// The word in the file.
    #[must_use]
    pub fn word(self) -> &'static str {
        Self::WORDS.iter().find(|(_, m)| *m == self).map_or("", |(w, _)| w)
    }

    /// Whether CPU weights follow the loads.
    #[must_use]
    pub fn weights(self) -> bool {
        matches!(self, Self::Weights | Self::All)
    }

    /// Whether packets are taken only with room for them, and overloaded chains shed at their entry.
    #[must_use]
    pub fn backpressure(self) -> bool {
        matches!(self, Self::Backpressure | Self::All)
    }
}

impl std::str::FromStr for Mechanisms {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::WORDS.iter().find(|(w, _)| *w == text);
        found.map(|(_, m)| *m).ok_or_else(|| {
            let words: Vec<&str> = Self::WORDS.iter().map(|(w, _)| *w).collect();
            format!("found \"{text}\", expected one of {}", words.join(", "))
        })
    }
}
