//! Drops IP packets whose TTL or hop limit is too low: they come from too far away (GTSM, RFC 5082).

use chainline_nf::{Burst, Counter, Ctx, Env, Error, Nf, Reason, Verdict};

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// The lowest TTL that passes.
    min_ttl: u8,
}

struct TtlGuard {
    min_ttl: u8,
    passed: Counter,
    too_far: Reason,
}

impl Nf for TtlGuard {
    const KIND: &'static str = "ttl_guard";
    const ABOUT: &'static str = "drops IP packets that come from too far away";
    type Args = Args;

    fn new(args: Args, env: &mut Env<'_>) -> Result<Self, Error> {
        let passed = env.counter("passed", "packets", "near enough, or not IP");
        Ok(Self { min_ttl: args.min_ttl, passed, too_far: env.drop_reason("too_far") })
    }

    fn process(&mut self, burst: &mut Burst<'_>, ctx: &mut Ctx<'_>) {
        let mut passed = 0;
        for (packet, verdict) in burst.iter_mut() {
            let ttl = match packet.data() {
                [_, _, _, _, _, _, _, _, _, _, _, _, 0x08, 0x00, ip @ ..] => ip.get(8),
                [_, _, _, _, _, _, _, _, _, _, _, _, 0x86, 0xdd, ip @ ..] => ip.get(7),
                _ => Some(&u8::MAX),
            };
            if ttl.is_some_and(|ttl| *ttl >= self.min_ttl) {
                passed += 1;
            } else {
                *verdict = Verdict::drop(self.too_far);
            }
        }
        ctx.count(self.passed, passed);
    }
}

chainline_nf_c::export_nf!(TtlGuard);
