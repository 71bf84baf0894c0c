//! The one interface to whatever is measured: a chain of ours, the kernel, Open vSwitch, `testpmd`, anything that an
//! adapter file describes.

pub mod steered;

use chainline_trial::{Order, Outcome, Ready};
use serde::{Deserialize, Serialize};

/// A dataplane under test. It is started by whoever makes the value; dropping it ends its processes and removes the
/// interfaces and namespaces that it made, whatever happened before.
pub trait Dataplane {
    /// Its name in tables.
    fn name(&self) -> &str;

    /// What is known of the measuring itself.
    fn ready(&self) -> &Ready;

    /// One trial.
    ///
    /// # Errors
    /// When it died, hangs, or is not to be measured any more for another reason.
    fn trial(&mut self, order: &Order) -> Result<Outcome, DataplaneError>;

    /// Its own counters since its start, to be held against ours; `None` where it has none.
    ///
    /// # Errors
    /// When it should have some and they cannot be read.
    fn counters(&mut self) -> Result<Option<Counters>, DataplaneError>;
}

/// A dataplane's own counters since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Counters {
    /// Frames that it received on the port towards the generator.
    pub received: u64,
    /// Frames that it sent on the port towards the sink.
    pub transmitted: u64,
}

/// Why a dataplane cannot be measured.
#[derive(Debug, thiserror::Error)]
pub enum DataplaneError {
    /// It is not installed, or the host cannot run it. A row of the report, not a failure.
    #[error("{what}: {why}")]
    Unavailable {
        /// Which.
        what: String,
        /// Why, and what to install.
        why: String,
    },
    /// It did not become ready in time, or what it said was not so.
    #[error("{what} did not become ready: {why}")]
    NotReady {
        /// Which.
        what: String,
        /// What was waited for, and its last words.
        why: String,
    },
    /// It ended, or stopped answering, while it was measured.
    #[error("{what} failed: {why}")]
    Failed {
        /// Which.
        what: String,
        /// How, and its last words.
        why: String,
    },
    /// It does not follow this order. Others it would follow.
    #[error("{what} refused the order: {why}")]
    Refused {
        /// Which.
        what: String,
        /// Why.
        why: String,
    },
    /// A file or a process of ours.
    #[error("{what}: {source}")]
    Io {
        /// Of what.
        what: String,
        /// The system's word.
        source: std::io::Error,
    },
}
