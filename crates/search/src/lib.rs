//! Throughput search and the other benchmarks of RFC 2544 and its successors: which load to try next, and what the
//! trials come to. Pure: trials are made by a [`Measurer`], and no clock is read.
//!
//! ```
//! use chainline_search::{Budget, Goal, Input, Measured, Observation, Search, Session};
//!
//! // A system that forwards a million frames a second, and not one more.
//! let mut million = |trial: Input| {
//!     let intended = (trial.load_pps * trial.duration_s) as u64;
//!     let received = intended.min((1e6 * trial.duration_s) as u64);
//!     Measured::Valid(Observation { seconds: trial.duration_s, intended, received, latency: None })
//! };
//! let search = Search::new(vec![Goal::ndr(), Goal::pdr()], 1e3, 20e6).unwrap();
//! let found = search.run(&mut Session::new(&mut million, Budget::default()));
//! let ndr = found.goal("NDR").unwrap();
//! assert!(ndr.is_regular());
//! assert!((ndr.bounds.throughput_pps.unwrap() - 1e6).abs() <= 0.005 * 1e6);
//! assert!(found.spent_s < 60.0);
//! ```
//!
//! | benchmark | module | source |
//! |---|---|---|
//! | NDR, PDR and any other goals in one search | [`mlr`] | RFC 9971 |

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod classify;
mod goal;
mod history;
pub mod mlr;
mod session;
mod trial;

pub use classify::{Class, Sums, conditional_throughput};
pub use goal::{Goal, GoalError, MakeGoal};
pub use history::{Bounds, History};
pub use mlr::{Found, GoalFound, Outcome, Search, SearchError};
pub use session::{Budget, End, Progress, Rejected, Session};
pub use trial::{Input, Measured, Measurer, Observation, Trial};
