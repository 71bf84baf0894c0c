//! A token bucket that delays: what finds tokens goes on, the rest waits in order and goes in [`chainline_nf::Nf::tick`].

use crate::config::ShaperArgs;
use chainline_dpdk::meter::Clock;
use chainline_nf::{Counter, Ctx, Env, HoldId, Reason, Verdict};
use std::collections::VecDeque;

pub(crate) struct Shaper {
    clock: Clock,
    /// The clock when tokens came last.
    seen: u64,
    tokens: u64,
    burst: u64,
    /// Held packets and their lengths, in order. Its room is taken at start-up.
    queue: VecDeque<(HoldId, u16)>,
    limit: usize,
    passed: Counter,
    delayed: Counter,
    held: Counter,
    full: Reason,
    too_long: Reason,
}

impl Shaper {
    pub fn new(name: &str, args: &ShaperArgs, env: &mut Env<'_>) -> Self {
        let mut count = |suffix: &str, help: &str| {
            env.counter(format!("{name}_{suffix}"), "packets", format!("packets of class {name} {help}"))
        };
        let passed = count("passed", "that found tokens at once");
        let delayed = count("delayed", "that were held and went on");
        let held = count("held", "that are held now");
        Self {
            clock: Clock::new(args.rate_bytes_s),
            seen: 0,
            tokens: args.burst_bytes,
            burst: args.burst_bytes,
            queue: VecDeque::with_capacity(args.queue_packets as usize),
            limit: args.queue_packets as usize,
            passed,
            delayed,
            held,
            full: env.drop_reason(&format!("{name}_queue_full")),
            too_long: env.drop_reason(&format!("{name}_too_long")),
        }
    }

    /// Tokens of the time since the last call.
    #[inline]
    pub fn advance(&mut self, now_ns: u64) {
        let now = self.clock.read(now_ns);
        self.tokens = self.tokens.saturating_add(now.wrapping_sub(self.seen)).min(self.burst);
        self.seen = now;
    }

    /// What becomes of the class's next packet.
    #[inline]
    pub fn offer(&mut self, len: u16, ctx: &mut Ctx<'_>) -> Verdict {
        // It would wait for ever.
        if u64::from(len) > self.burst {
            return Verdict::drop(self.too_long);
        }
        // Nobody overtakes those that wait.
        if self.queue.is_empty() && self.tokens >= u64::from(len) {
            self.tokens -= u64::from(len);
            ctx.count(self.passed, 1);
            return Verdict::NEXT;
        }
        if self.queue.len() >= self.limit {
            return Verdict::drop(self.full);
        }
        match ctx.hold() {
            Some(id) => {
                self.queue.push_back((id, len));
                Verdict::hold(id)
            }
            None => Verdict::drop(self.full),
        }
    }

    /// Shows how many are held.
    #[inline]
    pub fn show(&self, ctx: &Ctx<'_>) {
        ctx.set(self.held, self.queue.len() as u64);
    }

    /// Lets go what there are tokens for.
    pub fn serve(&mut self, ctx: &mut Ctx<'_>) {
        self.advance(ctx.now_ns());
        while let Some((id, len)) = self.queue.front().copied() {
            if self.tokens < u64::from(len) {
                break;
            }
            self.queue.pop_front();
            // A packet that the host lost costs no tokens.
            if ctx.release(id, Verdict::NEXT) {
                self.tokens -= u64::from(len);
                ctx.count(self.delayed, 1);
            }
        }
        self.show(ctx);
    }
}
