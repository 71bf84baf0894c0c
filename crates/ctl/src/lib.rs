//! Control at run time: what may be asked of a run over its UNIX socket, how it is served, and how it is asked.
//!
//! Each line is one JSON document (docs/reference/control-protocol.md). A [`Server`] reads requests in a thread of its
//! own, within limits that hold whatever clients do, and passes them on as [`Ask`]s; a [`Client`] asks.
//!
//! ```
//! use chainline_ctl::{Call, parse};
//!
//! let (id, call) = parse(br#"{"id": 1, "method": "list"}"#).unwrap();
//! assert_eq!((id, call), (chainline_ctl::Id::Number(1), Call::List));
//! ```

#![forbid(unsafe_code)]

mod answer;
mod client;
mod place;
mod request;
mod schema;
mod server;

pub use answer::{
    ChainInfo, ChainStats, Changed, Fault, InstanceInfo, NfInfo, NfStats, Overview, PortInfo, Reply, Stats, Totals,
    Word,
};
pub use client::{Client, ClientError, answer};
pub use place::{Listener, Run, SocketPath, run_dir, run_dirs, runs};
pub use request::{Add, Call, Id, METHODS, Remove, Target, parse};
pub use schema::schema;
pub use server::{Answer, Ask, Limits, Server};
