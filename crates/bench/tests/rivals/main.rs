//! Labs and adapters: what starts, what does not, and that nothing is left.
#![allow(clippy::unwrap_used)]

mod faults;
mod files;
mod left;
mod support;
