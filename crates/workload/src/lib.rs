//! Traffic that a generator port sends: which flows, which frame sizes, in which order.
//!
//! A [`Workload`] is an endless sequence of UDP or TCP over IPv4 frames with correct checksums. The same [`Spec`] gives
//! the same bytes on every machine, so a measurement can be repeated by its seed.
//!
//! The sequence is yielded as [`Frame`]s: 64 bytes that differ from frame to frame, and a length. What follows the
//! 64 bytes in a longer frame is the same for all frames ([`payload`]), so a caller whose buffers keep their
//! content writes it once a buffer, not once a packet.
//!
//! Invariants: no allocation after [`Workload::new`]; flows are distinct 5-tuples; over one period of a [`Mix`]
//! each frame size comes exactly as often as its weight says. Pure: no thread, clock or device.
//!
//! Deliberately absent: arrival times. Rate belongs to the port.

#![forbid(unsafe_code)]

mod flow;
mod frame;
mod mix;
mod rng;
mod workload;

pub use flow::{Flow, MAX_FLOWS, Prefix, Proto, Space};
pub use frame::{FCS_BYTES, Frame, HEAD_BYTES, Head, MAX_FRAME_BYTES, MIN_FRAME_BYTES, payload};
pub use mix::{Mix, MixError};
pub use workload::{Error, Order, Spec, Workload};
