//! `synthetic`: costs what it is told to, for experiments with scheduling, backpressure and caches.
//!
//! A packet's cost is paid in a loop of dependent multiplications (see `calibrate`) and in cache lines of a state
//! array that are read and written. No clock is read on the way. Packets are not looked at: what decides is the
//! flow hash that came with them.

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod calibrate;
mod config;
mod draws;
mod state;

pub use config::{Args, Cost, Distribution, Step};
pub use draws::Draws;
pub use state::State as Synthetic;

use chainline_nf::{Burst, Ctx, Env, Error, Footprint, Nf, Sample};

/// The kind, for registries.
pub const KIND: chainline_nf::Kind = chainline_nf::Kind::of::<Synthetic>();

impl Nf for Synthetic {
    const KIND: &'static str = "synthetic";
    const ABOUT: &'static str = "costs a given number of cycles and touches a given amount of state";
    type Args = Args;
    const FOOTPRINT: Option<Footprint> = Footprint::new(
        &[],
        &[],
        &[chainline_nf::State::new("cache lines", chainline_nf::Scope::Instance, 0).with("state_bytes")],
    );
    const SAMPLE: Sample = Sample { args: "{\"iteration_cycles\": 1.0, \"tsc_hz\": 1000000000}", files: &[] };

    fn new(args: Args, _: &mut Env<'_>) -> Result<Self, Error> {
        Self::new(&args)
    }

    fn process(&mut self, burst: &mut Burst<'_>, ctx: &mut Ctx<'_>) {
        self.turn(ctx.now_ns());
        for packet in burst.packets() {
            self.work(packet.meta().flow_hash);
        }
    }

    fn report(&self) -> Option<String> {
        Some(self.describe())
    }
}
