//! Routes for NFs that look destinations up: prefixes, route files, and tables that look a burst up at once
//! (`rte_fib`, `rte_fib6`).
//!
//! What a route leads to is a number, the NF's own; how it is written in a line is the NF's business too. Reading may
//! take its time; a look-up allocates nothing and belongs to one thread.

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod lines;
mod prefix;
mod routes;
mod table;

pub use chainline_dpdk::tables::NONE;
pub use prefix::{Prefix, digits};
pub use routes::{Place, Route, Routes};
pub use table::{Pending, Tables};
