//! Life and death: what a run does when its NFs crash, hang, lie or fall silent, and when the manager itself is ended.
//!
//! The manager is the real one. Its NFs are [`nfs`], hosted by `evil-host`, which is the real runtime until a
//! [`script`] in the run's directory says otherwise: then it is a [`liar`] or [`rude`]. Tests judge counts, the ledger
//! and what is left on the host, never time; a deadline only turns a hang into a failure.

#![forbid(unsafe_code)]
// All of this is test code: what is not as expected is a panic.
#![allow(clippy::unwrap_used, missing_docs)]

pub mod command;
pub mod dir;
pub mod frames;
pub mod liar;
pub mod logs;
pub mod nfs;
pub mod processes;
pub mod random;
pub mod rude;
pub mod scene;
pub mod script;
mod tally;

pub use dir::Dir;
pub use random::Random;
pub use scene::{Scene, Seen, Watch};
