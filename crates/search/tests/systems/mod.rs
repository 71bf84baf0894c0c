//! Simulated systems under test: what becomes of a trial, by a formula and a seed. `oracle.py` knows the same formulas,
//! operation by operation, so that both sides of the comparison search the same systems.
#![allow(dead_code)]

use chainline_search::{Goal, Input, Measured, Observation};
use serde::Serialize;

/// Range of loads in which all are searched, in frames a second.
pub const MIN_PPS: f64 = 1e3;
pub const MAX_PPS: f64 = 2e7;

/// SplitMix64's finalizer.
pub fn mix64(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// The `n`th number of a seed, from 0 to below 1.
pub fn draw(seed: u64, n: u64) -> f64 {
    let x = mix64(seed.wrapping_add((n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)));
    (x >> 11) as f64 / (1u64 << 53) as f64
}

/// How a system behaves. `c` is its capacity in frames a second; `x` and `y` mean what the kind says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Forwards `c` frames a second and not one more.
    Sharp,
    /// Above `c` loses a share `x` of what exceeds it.
    Soft,
    /// Sharp; beside, a share `x` of the trials loses a share `y` of its frames.
    Spikes,
    /// The capacity differs from trial to trial by up to a share `x` either way.
    Noisy,
    /// In a share `x` of the trials the capacity is `y` times `c`.
    Bistable,
    /// Each frame a second above `c` costs `x` frames a second of forwarding, down to none.
    Livelock,
    /// A buffer that holds `x` seconds at `c`: short trials see more than `c`.
    Buffered,
    /// Loses a share `x` of the frames at any load, beside a sharp limit.
    Lossy,
    /// Sharp; beside, loses 2 % at loads from `x` to `y` times `c`, both below 1: better again above.
    Window,
}

pub const KINDS: [Kind; 9] = [
    Kind::Sharp,
    Kind::Soft,
    Kind::Spikes,
    Kind::Noisy,
    Kind::Bistable,
    Kind::Livelock,
    Kind::Buffered,
    Kind::Lossy,
    Kind::Window,
];

#[derive(Clone, Copy, Debug, Serialize)]
pub struct System {
    pub kind: Kind,
    pub c: f64,
    pub x: f64,
    pub y: f64,
    pub seed: u64,
}

impl System {
    /// The `n`th system of a kind, between `min` and `max` frames a second in nine of ten cases.
    pub fn of(kind: Kind, seed: u64, min: f64, max: f64) -> Self {
        let u = |n| draw(!seed, n);
        let between = |n, low: f64, high: f64| low + (high - low) * u(n);
        // Spread over the decades by powers of two and a mantissa: no logarithm that two libraries could round apart.
        let mut c = min * (1.0 + u(0));
        let doublings = (max / min).log2() * 1.1 * u(1);
        for _ in 0..doublings as u32 {
            c *= 2.0;
        }
        let (x, y) = match kind {
            Kind::Sharp => (0.0, 0.0),
            Kind::Soft => (between(2, 0.05, 1.0), 0.0),
            Kind::Spikes => (between(2, 0.0, 0.35), between(3, 0.0, 0.05)),
            Kind::Noisy => (between(2, 0.0, 0.05), 0.0),
            Kind::Bistable => (between(2, 0.0, 1.0), between(3, 0.7, 1.0)),
            Kind::Livelock => (between(2, 0.0, 3.0), 0.0),
            Kind::Buffered => (between(2, 0.0, 2.0), 0.0),
            Kind::Lossy => (between(2, 0.0, 0.01), 0.0),
            Kind::Window => (between(2, 0.3, 0.6), between(3, 0.6, 0.95)),
        };
        Self { kind, c, x, y, seed }
    }

    /// What arrives in the `n`th trial. `oracle.py` does the same.
    pub fn trial(&self, n: u64, load: f64, duration: f64) -> (u64, u64) {
        let Self { kind, c, x, y, seed } = *self;
        let sent = (duration * load).floor();
        let u = draw(seed, n);
        let received = match kind {
            Kind::Sharp => sent.min((c * duration).floor()),
            Kind::Soft => sent - (sent * (x * (load - c).max(0.0) / load)).floor(),
            Kind::Spikes => {
                let spike = if u < x { (sent * y).floor() } else { 0.0 };
                sent.min((c * duration).floor()) - spike
            }
            Kind::Noisy => sent.min((c * (1.0 + x * (2.0 * u - 1.0)) * duration).floor()),
            Kind::Bistable => sent.min(((if u < x { c * y } else { c }) * duration).floor()),
            Kind::Livelock => sent.min(((c - x * (load - c).max(0.0)).max(0.0) * duration).floor()),
            Kind::Buffered => sent.min((c * duration + c * x).floor()),
            Kind::Lossy => (sent - (sent * x).ceil()).min((c * duration).floor()),
            Kind::Window => {
                let lost = if c * x <= load && load <= c * y { (sent * 0.02).ceil() } else { 0.0 };
                sent.min((c * duration).floor()) - lost
            }
        };
        (sent as u64, received.max(0.0) as u64)
    }

    /// The loads between which a full-length trial may be of low or of high loss: below the first none is high, above
    /// the second none is low. Where both are the same, every search must find it. `longest_s` is the longest trial
    /// that is made, for whichever goal.
    pub fn grey_zone(&self, goal: &Goal, longest_s: f64) -> (f64, f64) {
        let Self { kind, c, x, y, .. } = *self;
        let r = goal.loss_ratio;
        let knee = c / (1.0 - r);
        match kind {
            Kind::Sharp => (knee, knee),
            // Loss x (load - c) / load = r.
            Kind::Soft if x > r => (x * c / (x - r), x * c / (x - r)),
            Kind::Soft => (f64::INFINITY, f64::INFINITY),
            Kind::Spikes if y > r => (0.0, knee),
            Kind::Spikes => (c / (1.0 - r + y), knee),
            Kind::Noisy => (knee * (1.0 - x), knee * (1.0 + x)),
            Kind::Bistable => (knee * y, knee),
            // Loss (1 + x) (load - c) / load = r.
            Kind::Livelock => ((1.0 + x) * c / (1.0 + x - r), (1.0 + x) * c / (1.0 + x - r)),
            Kind::Buffered => (knee * (1.0 + x / longest_s), knee * (1.0 + x / goal.final_trial_s)),
            Kind::Lossy if x > r => (0.0, 0.0),
            // So few frames that the one which rounding takes is more than the goal allows.
            Kind::Lossy if MIN_PPS * goal.initial_trial_s * (r - x) < 1.0 => (0.0, knee),
            Kind::Lossy => (knee, knee),
            Kind::Window => (c * x, knee),
        }
    }

    /// A measurer of this system; `n` counts its trials.
    pub fn measurer(&self) -> impl FnMut(Input) -> Measured + use<> {
        let (system, mut n) = (*self, 0);
        move |trial| {
            let (intended, received) = system.trial(n, trial.load_pps, trial.duration_s);
            n += 1;
            Measured::Valid(Observation::counted(trial.duration_s, intended, received))
        }
    }
}
