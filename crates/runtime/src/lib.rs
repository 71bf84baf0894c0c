//! The host of an instance: what runs NFs, as a process or as a thread, over shared-memory queues.
//!
//! [`serve`] speaks with the manager over a UNIX socket: it gets a [`setup::Setup`] with file descriptors, builds
//! the NFs, answers what they declared, gets the instance's page and runs the loop of [`host::Host`] until it is
//! told to stop. A process and a thread do exactly the same.
//!
//! Deliberately absent: any knowledge of the chain file, of ports and of other instances than the neighbours.

#![forbid(unsafe_code)]

mod files;
mod holds;
pub mod host;
mod idle;
mod queues;
mod sampling;
mod serve;
pub mod setup;
mod shared;
pub mod split;
pub mod wire;

pub use serve::{Builder, ServeError, serve};
