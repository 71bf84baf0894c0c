//! What the programs of `make bench` and `make bench-nfs` share: samples of interleaved rounds, trials that others
//! disturbed, figures with their goals, the table.

mod goal;
mod repeat;
mod samples;
mod stats;
pub mod table;

pub use goal::{Goal, Named};
pub use repeat::{ATTEMPTS, Attempt, Repetitions};
pub use samples::{Samples, first_of};
pub use stats::{Figure, Measured, Sample, counting, median, slope};

/// From this share on, a core has nothing left: it is what bounds the throughput.
pub const BUSY: f64 = 0.9;
