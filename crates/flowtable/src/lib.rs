//! State tables for NFs: what belongs to a flow, a host or any other key of fixed size.
//!
//! A [`FlowTable`] has a *capacity*, *ages* what is not used, and has a *policy* for when it is full. It is an `rte_hash`
//! from keys to positions, and an array of slots on huge pages by position. A burst is looked up at once, so that the
//! cache misses of a million random flows overlap:
//!
//! ```
//! use chainline_flowtable::{Class, Config, FlowTable, Inserted, Keys, OnFull};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // One class of entries, which time out after 30 s without a packet.
//! let config = Config { capacity: 1000, timeouts_ms: &[30_000], on_full: OnFull::EvictOldest };
//! let mut table = FlowTable::<16, u64>::new(&config)?;
//! let mut keys = Keys::new(); // belongs to the NF, like the table
//!
//! // In Nf::process: the keys of the burst with their packets' places in it, one look-up, then each packet in order.
//! keys.clear();
//! keys.push(0, [1; 16]);
//! keys.push(1, [1; 16]);
//! table.look_up(&mut keys, 5_000_000);
//! for i in 0..keys.len() {
//!     if let Some((_, packets)) = table.get(&keys, i) {
//!         *packets += 1;
//!     } else if let Inserted::Full = table.insert(keys.key(i), Class(0), 1, |_key, _ended| {}) {
//!         // No room by policy: the NF drops the packet or lets it go on without state.
//!     }
//! }
//! assert_eq!(table.find_one(&[1; 16]).and_then(|at| table.entry(at)), Some(&2));
//!
//! // In Nf::tick: a part of the table is gone through.
//! table.sweep(40_000_000_000, |_key, packets| assert_eq!(*packets, 2));
//! assert!(table.is_empty());
//! # Ok(())
//! # }
//! ```
//!
//! Invariants:
//! - A burst is as its packets one by one: a packet sees what an earlier one of its burst inserted or removed.
//! - No call allocates but `new`. Each packet costs a bounded number of steps, inserting and evicting included; `sweep`
//!   is bounded by a part of the table for each call.
//! - Keys are hashed with a secret of the table, so strangers cannot choose keys that collide. That is why
//!   `PacketMeta::flow_hash`, which anybody can compute, is not taken for it.
//! - Entries that end are counted and handed to the caller, each one once: `added = len + removed + expired + evicted`.
//!
//! The two directions of a connection are two keys ([`chainline_packet::FiveTuple::reversed`]); an NF that wants one
//! entry for both orders the key's halves, or keeps the [`Position`] of one in the entry of the other.
//!
//! A table is private to its instance: calls take `&mut self`. Tables shared between replicas can come behind the same
//! calls, because all that a burst needs stands between `look_up` and the last `get`: a lock is taken once a burst, and a
//! lock-free table hands out positions in the same way.

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod config;
mod counters;
mod keys;
mod table;

pub use chainline_dpdk::tables::HashError;
pub use config::{CLASSES, Class, Config, ConfigError, MAX_CAPACITY, MAX_TIMEOUT_MS, NEVER, OnFull};
pub use counters::Counters;
pub use keys::{Keys, datagram_key, host_key, v4_key, v6_key};
pub use table::{FlowTable, Inserted, Position, SAMPLE, Stats};
