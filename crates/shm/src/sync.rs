//! What the two ends of a queue meet by: atomics, one full fence, a word to sleep on, and the memory that these lie in.
//!
//! Bells, queues and the hand-over between them are written against this module and nothing else of the kind. A build
//! with `--cfg loom` puts a model in its place (`sync/model.rs`), in which loom goes through the orders in which the
//! instructions of the two sides can become visible: what is checked is the code that ships, not a copy of it.

#[cfg(loom)]
mod model;
#[cfg(not(loom))]
mod real;

#[cfg(loom)]
pub use model::*;
#[cfg(not(loom))]
pub use real::*;

/// Who puts a full fence between a store that the other side looks for and a load of what the other side stores. The
/// model leaves out one or the other, to show that it would notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Announced that it sleeps, and is about to look for work once more.
    Sleeper,
    /// Showed its work, and is about to look whether somebody sleeps.
    Waker,
}
