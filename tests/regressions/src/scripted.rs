//! An NF whose packets tell it what to do: it stands for any NF at all, wrong ones too.

use chainline_nf::{Burst, Ctx, Env, Error, HoldId, NfObject, Verdict};

/// The first bytes of a frame: what to do, then two little-endian words of 16 bits.
pub struct Scripted {
    held: Vec<HoldId>,
}

pub fn build(env: &mut Env<'_>) -> Result<Box<dyn NfObject>, Error> {
    env.counter("seen", "packets", "packets seen");
    env.drop_reason("told");
    Ok(Box::new(Scripted { held: Vec::new() }))
}

impl NfObject for Scripted {
    fn process(&mut self, burst: &mut Burst<'_>, ctx: &mut Ctx<'_>) {
        for i in 0..burst.len() {
            let Some([what, a, b, c, d]) = burst.packets()[i].data().first_chunk().copied() else { continue };
            let (x, y) = (u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d]));
            let packet = &mut burst.packets_mut()[i];
            match what % 8 {
                0 => {}
                1 => burst.set(i, Verdict::from_bits(u32::from(y) << 16 | u32::from(x))),
                2 => _ = packet.set_frame(x, y),
                3 => _ = packet.push_front(x),
                4 => _ = packet.pull_front(x) && packet.set_len(y),
                5 => {
                    if let Some(id) = ctx.hold() {
                        self.held.push(id);
                        burst.set(i, Verdict::hold(id));
                    }
                }
                6 => {
                    let id = HoldId::from_bits(u32::from(x));
                    ctx.with_held(id, |packet| _ = packet.set_len(y));
                    ctx.release(id, Verdict::from_bits(u32::from(y) << 24));
                }
                _ => burst.packets_mut()[i].data_mut().fill(x as u8),
            }
        }
    }

    fn tick(&mut self, ctx: &mut Ctx<'_>) {
        for id in self.held.drain(..) {
            ctx.release(id, Verdict::NEXT);
        }
    }

    fn report(&self) -> Option<String> {
        Some(format!("{} held", self.held.len()))
    }
}
