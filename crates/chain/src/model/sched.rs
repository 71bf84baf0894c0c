//! How the kernel is to schedule an NF: sched(7), cgroup v2 `cpu.weight`.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};

/// Scheduling of an instance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(default)]
pub struct Sched {
    /// The policy of sched(7).
    pub policy: Policy,
    /// Nice value, -20 (favoured) to 19; with `other` and `batch`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = -20, max = 19))]
    pub nice: Option<i8>,
    /// Priority against others on the core, 1 to 99, 1 when absent. With `fifo` and `rr` it is the static priority of
    /// sched(7); with `other`, `batch` and `idle` and the weight `auto` it multiplies the share.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 99))]
    pub priority: Option<u8>,
    /// Share of the core against others on it.
    pub weight: Weight,
    /// Slice in microseconds, 100 to 100,000; with `other` and `batch` (EEVDF, Linux 6.12 and later), and with `rr`,
    /// where the kernel has one for the whole system, in milliseconds: the longest that a file asks for is set while
    /// it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 100, max = 100_000))]
    pub slice_us: Option<u32>,
    /// Time per period in microseconds; with `deadline`, where it is required.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 10, max = 10_000_000))]
    pub runtime_us: Option<u32>,
    /// Deadline in microseconds from the period's start; with `deadline`. Default: the period.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 10, max = 10_000_000))]
    pub deadline_us: Option<u32>,
    /// Period in microseconds; with `deadline`, where it is required.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 100, max = 10_000_000))]
    pub period_us: Option<u32>,
}

/// What holds for a core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(default)]
pub struct Core {
    /// Threads of other processes are moved off it while the chains run, and put back at the end.
    pub reserved: bool,
    /// Scheduling of NFs on it that have no `sched`, neither of their own nor of their chain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sched: Option<Sched>,
}

/// The policy of sched(7).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Policy {
    /// `SCHED_OTHER`.
    Other,
    /// `SCHED_BATCH`: a woken NF does not pre-empt the one that woke it, so bursts stay whole.
    #[default]
    Batch,
    /// `SCHED_FIFO`.
    Fifo,
    /// `SCHED_RR`.
    Rr,
    /// `SCHED_DEADLINE`.
    Deadline,
    /// `SCHED_IDLE`.
    Idle,
}

impl Policy {
    /// All, by the word in the file.
    pub const WORDS: &'static [(&'static str, Self)] = &[
        ("other", Self::Other),
        ("batch", Self::Batch),
        ("fifo", Self::Fifo),
        ("rr", Self::Rr),
        ("deadline", Self::Deadline),
        ("idle", Self::Idle),
    ];

    /// The word in the file.
    #[must_use]
    pub fn word(self) -> &'static str {
        Self::WORDS.iter().find(|(_, p)| *p == self).map_or("", |(w, _)| w)
    }
}

/// How an NF waits for packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Activation {
    /// Sleeps until it is woken.
    Wake,
    /// Looks for packets all the time. On a core that others use as well it gives the core up when it finds none.
    Poll,
    /// Looks for `spin_us` microseconds, then sleeps until it is woken.
    Hybrid,
}

impl Activation {
    /// All, by the word in the file.
    pub const WORDS: &'static [(&'static str, Self)] =
        &[("wake", Self::Wake), ("poll", Self::Poll), ("hybrid", Self::Hybrid)];
}

/// A share of the core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Weight {
    /// Follows arrival rate, cost per packet and priority.
    #[default]
    Auto,
    /// A fixed weight in the units of cgroup v2 `cpu.weight`: 1 to 10,000, where 100 is usual.
    Fixed(u32),
}

impl Serialize for Weight {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Auto => s.serialize_str("auto"),
            Self::Fixed(w) => s.serialize_u32(*w),
        }
    }
}

impl JsonSchema for Weight {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Weight".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "`auto`: follows arrival rate, cost per packet and priority; or fixed, in the units of \
                            cgroup v2 cpu.weight, where 100 is usual.",
            "oneOf": [{"const": "auto"}, {"type": "integer", "minimum": 1, "maximum": 10_000}],
        })
    }
}
