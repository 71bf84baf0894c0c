//! `forward`: swaps the Ethernet source and destination address of every frame.
//!
//! The smallest NF that touches a packet, so what is measured with it is the price of a hop. It looks at nothing
//! behind the Ethernet addresses.

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod config;
mod state;

pub use config::Args;
pub use state::State as Forward;

use chainline_nf::{Burst, Ctx, Env, Error, Field, Footprint, Nf, Verdict};
use chainline_packet::ether;

/// The kind, for registries.
pub const KIND: chainline_nf::Kind = chainline_nf::Kind::of::<Forward>();

impl Nf for Forward {
    const KIND: &'static str = "forward";
    const ABOUT: &'static str = "swaps Ethernet source and destination";
    type Args = Args;
    const FOOTPRINT: Option<Footprint> = Footprint::new(
        &[Field::EthernetSource, Field::EthernetDestination],
        &[Field::EthernetSource, Field::EthernetDestination],
        &[],
    );

    fn new(_: Args, env: &mut Env<'_>) -> Result<Self, Error> {
        Ok(Self::new(env))
    }

    fn process(&mut self, burst: &mut Burst<'_>, _: &mut Ctx<'_>) {
        for (packet, verdict) in burst.iter_mut() {
            if !ether::swap_addresses(packet.data_mut()) {
                *verdict = Verdict::drop(self.malformed);
            }
        }
    }
}
