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
//!     Measured::Valid(Observation::counted(trial.duration_s, intended, received))
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
//! | NDR, PDR, RFC 2544 throughput, soak and any other goals in one search | [`mlr`] | RFC 9971 |
//! | throughput by binary search, with or without loss verification | [`tst009`] | ETSI GS NFV-TST 009, RFC 2544 §24 |
//! | latency at throughput, or at shares of it | [`latency`] | RFC 2544 §26.2, RFC 8219 §7.2 |
//! | frame loss curve | [`loss_curve`] | RFC 2544 §26.3 |
//! | back-to-back frames, corrected buffer time | [`back_to_back`] | RFC 9004 |
//! | reset recovery time | [`reset`] | RFC 6201 |
//! | MRR | [`mrr`] | FD.io CSIT |
//! | soak at one load | [`soak`] | |
//!
//! All run in a [`Session`], which repeats invalid trials, keeps to a [`Budget`], tells [`Progress`] and ends on request
//! with what was found so far.

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod back_to_back;
mod classify;
mod goal;
mod history;
pub mod latency;
pub mod loss_curve;
pub mod mlr;
pub mod mrr;
pub mod reset;
mod session;
pub mod soak;
mod spread;
mod trial;
pub mod tst009;

pub use back_to_back::{BackToBack, BackToBackFound};
pub use classify::{Class, Sums, conditional_throughput};
pub use goal::{Goal, GoalError, MakeGoal};
pub use history::{Bounds, History};
pub use latency::{LatencyAt, LatencyFound, LatencyTest};
pub use loss_curve::{LossCurve, LossCurveFound, LossPoint};
pub use mlr::{Estimate, Found, GoalFound, Outcome, Search, SearchError};
pub use mrr::{Mrr, MrrFound};
pub use reset::{Reset, ResetFound};
pub use session::{Budget, End, Progress, Rejected, Session};
pub use soak::{Soak, SoakFound};
pub use spread::Spread;
pub use trial::{Input, Measured, Measurer, Observation, Trial};
pub use tst009::{Tst009, Tst009Found};
