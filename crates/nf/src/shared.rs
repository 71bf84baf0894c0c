//! State that the replicas of an NF have together: the vocabulary. The memory is the host's.
//!
//! An NF asks with [`Env::sharing`](crate::Env::sharing) whether its state is shared, says with
//! [`Env::share`](crate::Env::share) how large a table it wants, and gets it by [`Nf::shared`](crate::Nf::shared) before
//! its first burst.

use serde::{Deserialize, Serialize};

/// Whose the state of an NF with replicas is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Sharing {
    /// Each replica has its own.
    #[default]
    Private,
    /// All have one table, under a lock that is taken once a burst.
    Locked,
    /// All have one table, without a lock.
    LockFree,
}

impl Sharing {
    /// The word in the chain file.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Private => "private",
            Self::Locked => "shared-locked",
            Self::LockFree => "shared-lockfree",
        }
    }
}

/// A table that an NF wants to have together with its replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableSpec {
    /// Entries that it holds, 1 to [`MAX_ENTRIES`].
    pub entries: u32,
}

/// The most entries of a shared table.
pub const MAX_ENTRIES: u32 = 1 << 24;

/// A key of a shared table.
pub type SharedKey = [u8; 16];

/// What became of a burst.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Entries that this burst brought.
    pub added: u64,
    /// Packets that found no room.
    pub refused: u64,
    /// Their bytes.
    pub refused_bytes: u64,
}

/// Packets and bytes by key, counted by all replicas of an NF in one table. Entries stay: a place that could be taken back
/// while another replica counts in it would lose what that one counts.
pub trait SharedCounts: Send {
    /// Counts a packet of `bytes[i]` bytes for each `keys[i]`.
    fn count(&mut self, keys: &[SharedKey], bytes: &[u16]) -> Counted;
    /// Entries now.
    fn len(&self) -> u64;
    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Hands each entry to `each`: key, packets, bytes. While others count these are of different instants.
    fn for_each(&self, each: &mut dyn FnMut(SharedKey, u64, u64));
}
