//! The chain file: model, checks, plan. Pure: reads no host, opens no device.
//!
//! [`load`] reads a file and reports everything that is wrong with it; [`plan::Plan::build`] says what it means on
//! a host with given cores.

#![forbid(unsafe_code)]

mod build;
mod check;
mod cores;
mod decode;
mod diag;
pub mod document;
mod fuse;
mod graph;
mod inherit;
mod load;
pub mod model;
pub mod overlay;
pub mod plan;
mod schema;
mod suggest;
mod table;
pub mod traffic;
mod tree;

pub use diag::{Diagnostic, Diagnostics, Related, Severity, Source, Span};
pub use fuse::with_replicas as replicas;
pub use graph::{dot, mermaid};
pub use load::{Host, load, load_bytes, load_for};
pub use schema::schema;
pub use table::table;
pub use tree::MAX_BYTES;
