//! Advice to the kernel's scheduler: what load an NF has, which share of its core follows from that, and how the kernel
//! is told.
//!
//! Pure, and tested as such: [`load`] (arrival rate, service time), [`shares`] (the formula of NFVnice, section 3.2),
//! [`jain`], [`pressure`] (overloaded queues, and how many packets a chain should have inside). The rest talks to the kernel: [`task`] (policies, nice, slice, affinity), [`weights`] (CPU weights through
//! one trait with several back ends: cgroup v2, cgroup v1, nice, none), [`rr`] (the system's round-robin slice),
//! [`reserve`] (cores that other processes are moved off).
//!
//! Nothing here is called on the data path. What the kernel refuses comes back as an error that names the step, the
//! kernel's reason and what to do; the callers go on without.

#![forbid(unsafe_code)]

pub mod jain;
pub mod load;
pub mod pressure;
pub mod reserve;
pub mod rr;
pub mod shares;
pub mod task;
pub mod weights;

pub use task::{Policy, SchedError, Task};
