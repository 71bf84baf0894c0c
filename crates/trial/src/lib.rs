//! What a trial is: so much load for so long, and what became of it. A *steered* run (`chainline run --steer`) reads
//! one [`Order`] a line from standard input and answers each with one [`Reply`] a line on standard output, so that a
//! chain is started once and measured many times. Pure: no devices, no clocks.
//!
//! ```
//! use chainline_trial::{Load, Order};
//!
//! let order: Order = serde_json::from_str(r#"{"load": {"pps": 1e6}, "duration_ms": 1000}"#).unwrap();
//! assert_eq!(order.load, Load::Pps(1e6));
//! assert_eq!(order.warmup_ms, 0);
//! ```

#![forbid(unsafe_code)]

mod latency;

pub use latency::{HistogramError, Latency};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One trial to make.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Order {
    /// How much is sent, by all generators together, each its share by the rate that the chain file gives it.
    pub load: Load,
    /// Sends at this load before the measured window begins, in milliseconds.
    #[serde(default)]
    pub warmup_ms: u64,
    /// Length of the measured window in milliseconds.
    pub duration_ms: u64,
    /// Time after the window for packets inside to leave, in milliseconds; what is not back by then is lost.
    #[serde(default = "default_drain_ms")]
    pub drain_ms: u64,
    /// Further nanoseconds of the window: a burst is shorter than a millisecond.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub duration_ns: u64,
    /// Kills the process that hosts this NF when a quarter of the window is over; it is started again as after any
    /// death (RFC 6201 section 4.2: software reset). The other NFs of its instance die with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reset: Option<String>,
    /// Cuts the window into slices of so many milliseconds, each with what the NFs did in it; 0: no slices.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub slice_ms: u64,
}

impl Default for Order {
    /// All that the generator makes for a second.
    fn default() -> Self {
        let (load, drain_ms) = (Load::Max, default_drain_ms());
        Self { load, warmup_ms: 0, duration_ms: 1000, drain_ms, duration_ns: 0, reset: None, slice_ms: 0 }
    }
}

fn default_drain_ms() -> u64 {
    200
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// How much is sent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Load {
    /// Frames a second.
    Pps(f64),
    /// As much as the generator makes; what the chain cannot take is lost.
    Max,
    /// As much as the chain takes: the generator waits for room, so nothing is lost at the entry.
    Lossless,
}

/// What a steered run says, a line each.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// Everything runs; orders may come.
    Ready(Ready),
    /// A trial is over.
    Outcome(Box<Outcome>),
    /// An order could not be followed; the next one may.
    Refused {
        /// Why.
        why: String,
    },
}

/// What is known before the first trial.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Ready {
    /// Where it runs: the same object as in a run's report.
    pub environment: serde_json::Value,
    /// Frames a second that the generators make at most when nothing holds them up (measured now, into no chain).
    pub generator_max_pps: f64,
    /// Smallest latency that the measurement itself shows, in nanoseconds: generator to sink with nothing between.
    pub floor_ns: Latency,
    /// Mean length of the generators' frames in bytes, with FCS.
    pub mean_frame_bytes: f64,
}

/// What became of a trial's packets. Packets belong to the trial in whose window they were due.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Outcome {
    /// Length of the window in seconds, as measured.
    pub seconds: f64,
    /// Frames due in the window by the schedule. With `max` and `lossless`: frames sent.
    pub intended: u64,
    /// Frames that the generators made in time to be sent.
    pub sent: u64,
    /// Of these, how many arrived (duplicates counted once).
    pub received: u64,
    /// `sent - received`.
    pub lost: u64,
    /// Lost packets by `PLACE/REASON`, as the ledger knows them: an NF's drops stand at the NF, those at a chain's
    /// entry and exit at the chain (`inside`: neither out nor dropped when the trial was over), those that a port lost at
    /// the port. What a dataplane outside lost is in [`Outcome::lost`] alone, so that a tester's own losses show.
    pub drops: BTreeMap<String, u64>,
    /// Frames that arrived more than once; `null` where frames carry no sequence numbers.
    pub duplicated: Option<u64>,
    /// Frames that arrived after a later one of their flow (RFC 4737 section 3); `null` as above.
    pub reordered: Option<u64>,
    /// Frames that came to a checking sink without a stamp of ours, from the trial's begin to its end: ARP, neighbour
    /// discovery, damaged ones; `null` as above. They are in no other number.
    #[serde(default)]
    pub foreign: Option<u64>,
    /// From the time at which a frame should have been sent to its arrival; `null` when none arrived.
    pub latency: Option<Latency>,
    /// Packet delay variation: P99.9 less smallest latency, in nanoseconds (RFC 5481 section 4.2, RFC 8219 section 7.3.1).
    pub pdv_ns: Option<u64>,
    /// Mean difference of the latencies of successive frames, in nanoseconds (RFC 3550 section 6.4.1 without its filter).
    pub jitter_ns: Option<f64>,
    /// Longest time between two arrivals that follow each other, in nanoseconds: how long nothing came through; `null`
    /// when fewer than two arrived.
    #[serde(default)]
    pub longest_gap_ns: Option<u64>,
    /// The generators' own state.
    pub generator: GeneratorState,
    /// By chain.
    #[serde(default)]
    pub chains: BTreeMap<String, ChainOutcome>,
    /// By NF.
    pub nfs: BTreeMap<String, NfOutcome>,
    /// The control loop of the dataplane; `null` where there is none.
    #[serde(default)]
    pub control: Option<ControlState>,
    /// The window in slices, if that was ordered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slices: Vec<Slice>,
    /// Whether the ledger balanced after the drain.
    pub balanced: bool,
    /// What happened to instances meanwhile.
    pub happenings: Vec<String>,
}

/// Whether the generators did what they were told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GeneratorState {
    /// Longest time that a frame was sent after it was due, in nanoseconds: the worst stall.
    pub worst_stall_ns: u64,
    /// It fell behind its schedule and did not catch up: the trial says nothing of the chain.
    pub saturated: bool,
    /// Share of its time that the thread that generates was busy, 0 to 1.
    pub busy: f64,
}

/// What the control loop took and did in the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ControlState {
    /// Share of one core that it used.
    pub cpu_share: f64,
    /// Readings that it took of all queues, NFs and chains.
    pub readings: u64,
}

/// One chain in a trial.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChainOutcome {
    /// Packets that the classifier gave to it.
    pub received: u64,
    /// Packets that a port sent.
    pub transmitted: u64,
    /// Packets dropped at its entry, before any work.
    pub shed: u64,
    /// 99th percentile of the time from when a packet should have been sent to the port, in nanoseconds; `null` when
    /// none left.
    pub p99_ns: Option<u64>,
}

/// A part of a trial's window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Slice {
    /// From the window's begin to the slice's end, in seconds, as measured.
    pub until_s: f64,
    /// How long it lasted, in seconds.
    pub seconds: f64,
    /// By NF.
    pub nfs: BTreeMap<String, NfSlice>,
}

/// One NF in a slice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NfSlice {
    /// Packets handed to it.
    pub received: u64,
    /// Share of one core, of its instance.
    pub cpu_share: f64,
}

/// One NF in a trial. Core time is that of its instance, which fused NFs share.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NfOutcome {
    /// The instance that hosts it.
    pub instance: String,
    /// Packets handed to it.
    pub received: u64,
    /// Packets dropped for lack of room after at least one NF had worked on them.
    pub wasted: u64,
    /// Share of one core.
    pub cpu_share: f64,
    /// Part of its cores that its instance was meant to have, by its weight among those that share them; `null` without weights,
    /// without company, or where the cores were not loaded (less than nine tenths used by them).
    #[serde(default)]
    pub intended_share: Option<f64>,
    /// The part that it had, of what all that share these cores had; `null` as above.
    #[serde(default)]
    pub achieved_share: Option<f64>,
    /// Median nanoseconds that it takes for a packet; sampled.
    pub cost_ns: Option<u64>,
    /// Nanoseconds runnable, but not running.
    pub run_delay_ns: u64,
    /// Switches as it went to sleep.
    pub voluntary_switches: u64,
    /// Switches as it was pre-empted.
    pub involuntary_switches: u64,
}

impl Outcome {
    /// Share of the sent frames that was lost; 0 when none was sent.
    #[must_use]
    pub fn loss_ratio(&self) -> f64 {
        if self.sent == 0 { 0.0 } else { self.lost as f64 / self.sent as f64 }
    }

    /// Frames a second that arrived.
    #[must_use]
    pub fn received_pps(&self) -> f64 {
        if self.seconds > 0.0 { self.received as f64 / self.seconds } else { 0.0 }
    }
}
