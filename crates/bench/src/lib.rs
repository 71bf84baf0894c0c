//! Measures dataplanes: ours and others, with the same packets, on the same cores, by the same search. What comes out
//! are [`results::Results`]: every raw trial, and sections of figures made from them, which `report` shows to people
//! and `diff` compares.
//!
//! | step | where |
//! |---|---|
//! | a dataplane is started, and measured by trials | `dataplane` |
//! | other dataplanes are started, asked, stopped, by adapter files | `rivals` |
//! | processes with deadlines, last words, and no life without ours | `process` |
//! | what others did on the host meanwhile | `host`, `watch` |
//! | how far two cores are from each other | `core_to_core` |
//! | figures of `make bench` and `make bench-nfs`, with goals, from interleaved rounds | `figures` |
//! | benchmark files: factors, and the chain files made of them | `sweep` |
//! | all cases in rounds: trials judged, repeated, recorded, played back | `run` |
//! | trials and figures, as they are kept | `results` |
//! | files and the page made of them | `report` |
//! | two results, held against each other | `diff` |

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod core_to_core;
pub mod dataplane;
pub mod diff;
pub mod figures;
pub mod host;
pub mod nfvnice;
pub mod niu;
pub mod process;
pub mod queueing;
pub mod report;
pub mod results;
pub mod rivals;
pub mod run;
#[cfg(test)]
mod scratch;
pub mod sweep;
pub mod watch;
pub mod zheng;
