//! DPDK, safe: start-up, look-up tables, and ports over buffers that somebody else owns.
//!
//! Three users: an NF that wants a table (`Acl`, `Fib4`, `Fib6`, `Hash`: EAL starts by itself, private to the
//! process) or meters ([`meter::Meters`], without EAL), the manager (a [`Pool`] over the shared region and an [`EthDev`] per port), and the manager's own ports
//! ([`FreeList`] alone, without EAL).
//!
//! Invariants: one EAL per process, started once, never with secondary processes; the [`FreeList`] is the only
//! authority on which buffers are free, also for the drivers.
//!
//! Deliberately absent: lcores (threads belong to the caller), telemetry, and files: EAL leaves none behind.

pub mod eal;
pub mod ethdev;
mod free_list;
mod log;
mod mbuf;
mod memory;
pub mod meter;
pub mod pool;
pub mod tables;
mod version;

pub use eal::{EalConfig, EalError};
pub use ethdev::{EthConfig, EthDev, EthError, EthStats, Frame};
pub use free_list::FreeList;
pub use pool::{HEADROOM, Pool, PoolError};
pub use version::release;
