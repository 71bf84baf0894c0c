//! A token bucket that delays: what finds tokens goes on, the rest waits in order and goes in [`chainline_nf::Nf::tick`].

use crate::config::ShaperArgs;
use chainline_dpdk::meter::Clock;
use chainline_nf::{Counter, Ctx, Env, HoldId, Reason, Verdict};
use std::collections::VecDeque;

/// What a shaper counts, and what it drops for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tally {
    passed: Counter,
    delayed: Counter,
    held: Counter,
    full: Reason,
    too_long: Reason,
}

pub(crate) struct Shaper {
    clock: Clock,
    /// The clock when tokens came last.
    seen: u64,
    tokens: u64,
    burst: u64,
    /// Held packets and their lengths, in order. Its room is taken at start-up.
    queue: VecDeque<(HoldId, u16)>,
    limit: usize,
    tally: Tally,
}

impl Tally {
    /// For a class, or what several count as.
    pub fn declare(name: &str, env: &mut Env<'_>) -> Self {
        let mut count = |suffix: &str, help: &str| {
            env.counter(format!("{name}_{suffix}"), "packets", format!("packets of class {name} {help}"))
        };
        Self {
            passed: count("passed", "that found tokens at once"),
            delayed: count("delayed", "that were held and went on"),
            held: count("held", "that are held now"),
            full: env.drop_reason(&format!("{name}_queue_full")),
            too_long: env.drop_reason(&format!("{name}_too_long")),
        }
    }
}

impl Shaper {
    pub fn new(args: &ShaperArgs, tally: Tally) -> Self {
        Self {
            clock: Clock::new(args.rate_bytes_s),
            seen: 0,
            tokens: args.burst_bytes,
            burst: args.burst_bytes,
            queue: VecDeque::with_capacity(args.queue_packets as usize),
            limit: args.queue_packets as usize,
            tally,
        }
    }

    /// Goes on from where the shaper before this one was: with what it holds, and no more tokens than it has.
    pub fn go_on(&mut self, old: &mut Self) {
        self.tokens = old.tokens.min(self.burst);
        self.queue.extend(old.queue.drain(..));
    }

    /// Lets all go that it holds: there is no shaper any more.
    pub fn let_go(&mut self, ctx: &mut Ctx<'_>) {
        while let Some((id, _)) = self.pop(ctx) {
            if ctx.release(id, Verdict::NEXT) {
                ctx.count(self.tally.delayed, 1);
            }
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
            return Verdict::drop(self.tally.too_long);
        }
        // Nobody overtakes those that wait.
        if self.queue.is_empty() && self.tokens >= u64::from(len) {
            self.tokens -= u64::from(len);
            ctx.count(self.tally.passed, 1);
            return Verdict::NEXT;
        }
        if self.queue.len() >= self.limit {
            return Verdict::drop(self.tally.full);
        }
        match ctx.hold() {
            Some(id) => {
                self.queue.push_back((id, len));
                ctx.count(self.tally.held, 1);
                Verdict::hold(id)
            }
            None => Verdict::drop(self.tally.full),
        }
    }

    /// The first that is held, which is so no longer. Several shapers may count as one, so it is one less.
    fn pop(&mut self, ctx: &Ctx<'_>) -> Option<(HoldId, u16)> {
        let first = self.queue.pop_front()?;
        ctx.count(self.tally.held, u64::MAX);
        Some(first)
    }

    /// Lets go what there are tokens for.
    pub fn serve(&mut self, ctx: &mut Ctx<'_>) {
        self.advance(ctx.now_ns());
        while let Some((id, len)) = self.queue.front().copied() {
            if self.tokens < u64::from(len) {
                break;
            }
            self.pop(ctx);
            // A packet that the host lost costs no tokens.
            if ctx.release(id, Verdict::NEXT) {
                self.tokens -= u64::from(len);
                ctx.count(self.tally.delayed, 1);
            }
        }
    }
}
