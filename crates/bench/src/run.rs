//! Runs a benchmark: all cases, in rounds, with every trial judged, recorded and, if it was disturbed, repeated.
//!
//! | step | where |
//! |---|---|
//! | rounds over all cases, what is kept and when | `bench` |
//! | one trial: valid or not, repeated, recorded, or played back | `meter` |
//! | what is measured, how long, how often | `protocol` |
//! | NDR, PDR, latency and so on of one case | `measure` |
//! | TST009, back-to-back frames, resets of one case | `standards` |
//! | the measure `scheduling` | `scheduling` |
//! | what survives a crash; what need not be measured again | `journal` |
//! | figures become sections of the report | `sections` |
//! | what people see meanwhile | `tell` |

mod bench;
mod journal;
mod measure;
mod meter;
mod protocol;
pub mod scheduling;
mod sections;
mod standards;
mod tell;
#[cfg(test)]
mod tests;

pub use bench::{Bench, BenchError, Case, Done, Lab, Options};
pub use journal::{Cache, Entries, Entry, Journal, JournalError, Line, key};
pub use measure::{Figure, Found, Missing};
pub use protocol::{Hasty, Measure, Protocol, line_rate_pps};
pub use scheduling::PART;
pub use sections::{Axes, View, axes, label};
pub use tell::{Event, Tell, Terminal};
