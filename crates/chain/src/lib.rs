//! The chain file: model, checks, plan. Pure: reads no host, opens no device.

#![forbid(unsafe_code)]

mod diag;
pub mod model;
pub mod plan;

pub use diag::{Diagnostic, Diagnostics, Severity, Source, Span};
