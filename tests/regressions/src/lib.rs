//! What must hold for any input at all, one module for each place where strangers' bytes come in.
//!
//! Each `run` takes bytes and panics when a promise is broken. `fuzz/` calls them with generated input; the test
//! here calls them with the committed seeds and with every input that ever broke one (`fuzz/seeds`,
//! `fuzz/regressions`), so that an ordinary `cargo test` keeps what fuzzing found.

#![forbid(unsafe_code)]
// All of this is test code: a broken promise is a panic.
#![allow(clippy::unwrap_used)]

pub mod answer;
pub mod bench_results;
pub mod capture;
pub mod chain_file;
pub mod control;
pub mod descriptor;
pub mod golden;
pub mod nat;
pub mod packet_parse;
pub mod router;
pub mod routes;
pub mod rules;
pub mod services;
pub mod setup;
pub mod traffic;

mod file;
mod rig;
mod scripted;

/// A target: breaks with a panic.
pub type Target = fn(&[u8]);

/// All targets by the name that they have in `fuzz/`.
pub const TARGETS: &[(&str, Target)] = &[
    ("answer", answer::run),
    ("bench_results", bench_results::run),
    ("capture", capture::run),
    ("chain_file", chain_file::run),
    ("control", control::run),
    ("descriptor", descriptor::run),
    ("genome", traffic::genome),
    ("golden", golden::run),
    ("histogram", traffic::histogram),
    ("mix_file", traffic::mix_file),
    ("nat", nat::run),
    ("packet_parse", packet_parse::run),
    ("router", router::run),
    ("routes", routes::run),
    ("rules", rules::run),
    ("services", services::run),
    ("setup", setup::run),
];
