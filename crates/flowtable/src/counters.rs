//! A table's counts as an NF's counters.

use crate::{FlowTable, Stats};
use chainline_nf::{Counter, Ctx, Env};

/// Counters of one table, or of several that an NF shows as one: `flows`, `flows_added`, `flows_expired`,
/// `flows_evicted`, `flows_removed`, `flows_refused`, with another word in place of `flows` if asked.
#[derive(Clone, Copy, Debug)]
pub struct Counters {
    now: Counter,
    added: Counter,
    expired: Counter,
    evicted: Counter,
    removed: Counter,
    refused: Counter,
}

impl Counters {
    /// Declares them. `what` is in the plural: `flows`, `hosts`, `mappings`.
    #[must_use]
    pub fn declare(env: &mut Env<'_>, what: &str) -> Self {
        let now = env.level(what, "entries", format!("{what} in the table"));
        let mut counter = |suffix: &str, help: &str| env.counter(format!("{what}{suffix}"), "entries", help);
        Self {
            now,
            added: counter("_added", &format!("{what} that got an entry")),
            expired: counter("_expired", &format!("{what} that were idle too long")),
            evicted: counter("_evicted", &format!("{what} that had to make room")),
            removed: counter("_removed", &format!("{what} that ended")),
            refused: counter("_refused", &format!("times that new {what} found no room")),
        }
    }

    /// Shows the counts of `stats`; of several tables, the sum ([`Stats::plus`]). Once a burst is enough.
    #[inline]
    pub fn show(&self, stats: &Stats, ctx: &Ctx<'_>) {
        ctx.set(self.now, stats.len);
        ctx.set(self.added, stats.added);
        ctx.set(self.expired, stats.expired);
        ctx.set(self.evicted, stats.evicted);
        ctx.set(self.removed, stats.removed);
        ctx.set(self.refused, stats.refused);
    }

    /// As [`Counters::show`], for one table.
    #[inline]
    pub fn show_table<const N: usize, E: Copy + Default>(&self, table: &FlowTable<N, E>, ctx: &Ctx<'_>) {
        self.show(&table.stats(), ctx);
    }
}
