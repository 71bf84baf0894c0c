//! One server and its queue: what theory says of waiting times, and a simulation in simulated time that must agree. The
//! *known truth* that measurements of a `synthetic` NF under Poisson arrivals are shown beside. Pure.
//!
//! ```
//! use chainline_queueing::{Cost, Queue};
//!
//! // 0.8 million packets a second that cost a microsecond each.
//! let queue = Queue { rate_pps: 0.8e6, service_ns: 1000.0, cost: Cost::Exponential };
//! assert!((queue.mean_wait_ns().unwrap() - 4000.0).abs() < 1e-6);
//! let constant = Queue { cost: Cost::Constant, ..queue };
//! assert!((constant.mean_wait_ns().unwrap() - 2000.0).abs() < 1e-6);
//! // Overload: waiting times grow without end.
//! assert_eq!(Queue { rate_pps: 1e6, ..queue }.mean_wait_ns(), None);
//! ```

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod constant;
mod simulate;
mod theory;

pub use simulate::{Run, simulate};
pub use theory::{Cost, Queue, loss_ratio_mm1k, mean_wait_ns};
