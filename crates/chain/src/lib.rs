//! The chain file: model, checks, plan. Pure: reads no host, opens no device.
//!
//! [`load`] reads a file and reports everything that is wrong with it; [`plan::Plan::build`] says what it means on
//! a host with given cores.

#![forbid(unsafe_code)]

mod build;
mod check;
mod decode;
mod diag;
mod fuse;
mod load;
pub mod model;
pub mod plan;
mod suggest;
mod tree;

pub use diag::{Diagnostic, Diagnostics, Severity, Source, Span};
pub use load::{Host, load, load_bytes, load_for};
