//! Several instances of one NF, and which packets each gets.

use schemars::JsonSchema;
use serde::Serialize;

/// Replicas of one NF.
pub const REPLICAS: std::ops::RangeInclusive<u32> = 1..=64;

/// Which packets come to the same replica of an NF.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Dispatch {
    /// Those of a flow: the Toeplitz hash over addresses and ports, as network cards compute it.
    #[default]
    Flow,
    /// Those of a connection, in both directions: the same with a symmetric key.
    Connection,
    /// Those of a source address.
    Host,
    /// None: each packet comes to the next replica. The order of packets of different replicas is not kept.
    Packet,
}

/// Whose the state of an NF with replicas is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Sharing {
    /// Each replica has its own.
    #[default]
    Private,
    /// All replicas have one table, under a lock that is taken once a burst.
    SharedLocked,
    /// All replicas have one table, without a lock.
    SharedLockfree,
}

impl Sharing {
    /// All, by the word in the file.
    pub const WORDS: &'static [(&'static str, Self)] =
        &[("private", Self::Private), ("shared-locked", Self::SharedLocked), ("shared-lockfree", Self::SharedLockfree)];

    /// The word in the file.
    #[must_use]
    pub fn word(self) -> &'static str {
        Self::WORDS.iter().find(|(_, s)| *s == self).map_or("", |(w, _)| w)
    }

    /// Whether each replica has its own.
    #[must_use]
    pub fn is_private(&self) -> bool {
        *self == Self::Private
    }
}

impl Dispatch {
    /// All, by the word in the file.
    pub const WORDS: &'static [(&'static str, Self)] =
        &[("flow", Self::Flow), ("connection", Self::Connection), ("host", Self::Host), ("packet", Self::Packet)];

    /// The word in the file.
    #[must_use]
    pub fn word(self) -> &'static str {
        Self::WORDS.iter().find(|(_, d)| *d == self).map_or("", |(w, _)| w)
    }
}
