//! Other dataplanes under the same test: each is an *adapter file* that says how to start it, when it is ready, how to
//! read its counters and how to stop it, in a *lab* of its own.
//!
//! | step | where |
//! |---|---|
//! | an adapter file is read | `decode` → [`adapter::Spec`] |
//! | namespaces, veth pairs, a directory | [`lab::Lab`] |
//! | started, asked, stopped | [`started::Started`], over [`crate::process`] |
//! | a generator and a checking sink around it | [`tester`] |
//! | which of them, side by side | [`compare::Comparison`] |
//! | all of it as a dataplane under test, counted twice | [`rival::Rival`] |

pub mod adapter;
pub mod builtin;
pub mod compare;
mod decode;
pub mod install;
pub mod lab;
pub mod rival;
pub mod started;
pub mod tester;
pub mod words;

pub use decode::{json, load};

/// The JSON Schema of adapter files.
#[must_use]
pub fn schema() -> serde_json::Value {
    chainline_chain::document::schema_of::<adapter::File>().to_value()
}
