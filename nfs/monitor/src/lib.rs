//! `monitor`: counts packets and bytes per source host, IPv4 and IPv6, and reports the top talkers.
//!
//! It drops nothing and changes nothing. The sources of a burst are looked up together in an `rte_hash` table, so
//! that their cache misses overlap. The table has a fixed size: hosts that find no room are counted as untracked, and
//! idle ones are forgotten to make room.

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod config;
mod state;

pub use config::Args;
pub use state::State as Monitor;

use chainline_nf::{Burst, Ctx, Env, Error, Nf};
use chainline_packet::parse;

/// The kind, for registries.
pub const KIND: chainline_nf::Kind = chainline_nf::Kind::of::<Monitor>();

impl Nf for Monitor {
    const KIND: &'static str = "monitor";
    const ABOUT: &'static str = "counts packets and bytes per source host";
    type Args = Args;

    fn new(args: Args, env: &mut Env<'_>) -> Result<Self, Error> {
        Self::new(&args, env)
    }

    fn process(&mut self, burst: &mut Burst<'_>, ctx: &mut Ctx<'_>) {
        let pending = &mut self.pending;
        pending.len = 0;
        for packet in burst.packets() {
            let layers = parse(packet.data());
            let source = layers.tuple.src_bytes();
            let key = match layers.tuple.version() {
                4 => mapped(source),
                6 => source,
                _ if layers.malformed.is_some() => {
                    ctx.count(self.counters.malformed, 1);
                    continue;
                }
                _ => {
                    ctx.count(self.counters.non_ip, 1);
                    continue;
                }
            };
            if let (Some(k), Some(b)) = (pending.keys.get_mut(pending.len), pending.bytes.get_mut(pending.len)) {
                (*k, *b) = (key, packet.len() as u16);
                pending.len += 1;
            }
        }
        self.count(ctx);
    }

    fn tick(&mut self, ctx: &mut Ctx<'_>) {
        self.sweep(ctx);
    }

    fn report(&self) -> Option<String> {
        Some(self.describe())
    }
}

/// An IPv4 address, which is in the first four bytes, as `::ffff:a.b.c.d`.
#[inline]
fn mapped(source: [u8; 16]) -> [u8; 16] {
    (u128::from_le_bytes(source) << 96 | 0xffff << 80).to_le_bytes()
}
