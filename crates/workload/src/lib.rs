//! Traffic that a generator port sends: which flows, which frame sizes, in which order, when.
//!
//! A [`Workload`] is an endless sequence of UDP or TCP frames over IPv4 or IPv6 with correct checksums. The same [`Spec`]
//! gives the same bytes on every machine, so a measurement can be repeated by its seed; a [`Schedule`] likewise gives
//! the same times. What every knob means, and who defined it, is in `docs/workload.md`.
//!
//! The sequence is yielded as [`Frame`]s: 64 bytes that differ from frame to frame, and a length. What follows the
//! 64 bytes in a longer frame is the same for all frames ([`payload`]), but for what is left of long headers
//! ([`Frame::more`]), so a caller whose buffers keep their content writes it once a buffer, not once a packet.
//!
//! Invariants: no allocation after [`Workload::new`]; flows that are alive at a time are distinct 5-tuples; over one
//! period of a [`Mix`] that repeats itself each frame size comes exactly as often as its weight says. Nothing random is
//! computed with the host's mathematical functions, which differ in their last bits: the crate `libm` does not. Pure: no
//! thread, clock, file or device.

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod alias;
mod flow;
mod frame;
mod genome;
mod hosts;
mod lengths;
mod lifetime;
mod mix;
mod named;
mod order;
mod rewrite;
mod rng;
mod schedule;
mod sequences;
pub mod stack;
mod stamp;
#[cfg(test)]
mod stat;
mod template;
mod text;
mod workload;
mod zipf;

pub use flow::{Flow, MAX_FLOWS, Prefix, Proto, Space};
pub use frame::{FCS_BYTES, Frame, HEAD_BYTES, Head, MAX_FRAME_BYTES, MIN_FRAME_BYTES, payload};
pub use genome::{GenomeError, LETTERS, genome};
pub use hosts::{Hosts, MAX_TIMES};
pub use lengths::{Bin, Histogram, Lengths};
pub use mix::{Mix, MixError};
pub use named::{NAMED, NamedMix};
pub use order::{MAX_EXPONENT, Order, WorkingSet, dial};
pub use rewrite::Rewrite;
pub use schedule::{Arrivals, Schedule, ScheduleError};
pub use sequences::{Arrival, Sequences};
pub use stamp::{MAX_STAMPED_FLOWS, STAMP_BYTES, Stamp, stamp_at};
pub use template::{MAX_VLAN, Vlan};
pub use text::{MAX_TEXT_BYTES, TextError};
pub use workload::{Error, MAX_LIVE_FLOWS, Spec, Workload};
