//! Benchmark files: what is varied (*factors*), what is measured, what is shown of it. A file becomes [`crate::run::Case`]s, each
//! with a chain file of its own.
//!
//! | step | where |
//! |---|---|
//! | text → model, with everything that is wrong | `read` |
//! | all combinations, less what is excluded | `cases` |
//! | a base and the values of factors → a chain file | `apply` |
//! | generator and sink become a tester with real ports | `port` |
//! | what this host cannot do | `host` |

mod apply;
mod cases;
mod factor;
mod host;
mod model;
mod port;
mod prepare;
mod read;
#[cfg(test)]
mod tests;

pub use apply::{ApplyError, base, chain_file, pinned, shortage};
pub use cases::{Combination, combinations, name, with_ideals};
pub use factor::{FACTORS, Factor, PROGRAM, THIS};
pub use host::{Cores, Frequency};
pub use model::{Base, File, Quick, Shown, Spec};
pub use prepare::{ChainlineLab, PrepareError};
pub use read::{KIND, load};

/// The JSON Schema of benchmark files.
#[must_use]
pub fn schema() -> serde_json::Value {
    let mut schema = chainline_chain::document::schema_of::<File>();
    // Which factors there are.
    let names: Vec<&str> = FACTORS.iter().map(|f| f.name).collect();
    let names = serde_json::json!({"anyOf": [{"enum": names}, {"pattern": "^(spec\\.|x-)"}]});
    if let Some(factors) = schema.pointer_mut("/$defs/Spec/properties/factors").and_then(|f| f.as_object_mut()) {
        factors.insert("propertyNames".into(), names);
    }
    schema.to_value()
}
