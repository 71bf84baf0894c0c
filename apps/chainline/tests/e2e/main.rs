//! The command end to end: real captures, real kernel clients, devices, wrong input. What needs root or
//! `$CHAINLINE_DATA` says so by name and passes without.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod backpressure;
mod bench;
mod capture;
mod chains;
mod cli;
mod command;
mod corpora;
mod counters;
mod ctl;
mod describe;
mod devices;
mod full_disk;
mod isolation;
mod kernel_clients;
mod lab;
mod mechanisms;
mod nat;
mod new_nf;
mod references;
mod reload;
mod replicas;
mod reserved;
mod restructure;
mod rivals;
mod router;
mod shared;
mod steer;
mod workload;
