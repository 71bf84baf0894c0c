//! Hosts that the replicas of a monitor have together.

use crate::state::{Counters, Key, Talker, talkers};
use chainline_nf::{Ctx, SharedCounts};

/// The table, and what of it is this replica's to tell.
pub(crate) struct Shared {
    /// There before the first burst.
    table: Option<Box<dyn SharedCounts>>,
    replica: usize,
}

impl Shared {
    pub fn new(replica: usize) -> Self {
        Self { table: None, replica }
    }

    pub fn attach(&mut self, table: Box<dyn SharedCounts>) {
        self.table = Some(table);
    }

    /// Counts a burst.
    #[inline]
    pub fn count(&mut self, keys: &[Key], bytes: &[u16], counters: &Counters, ctx: &Ctx<'_>) {
        let Some(table) = &mut self.table else { return };
        let counted = table.count(keys, bytes);
        if counted.refused > 0 {
            ctx.count(counters.untracked_packets, counted.refused);
            ctx.count(counters.untracked_bytes, counted.refused_bytes);
        }
    }

    /// Shows how many hosts there are, whoever brought them.
    pub fn show(&self, counters: &Counters, ctx: &Ctx<'_>) {
        if let Some(table) = &self.table {
            ctx.set(counters.hosts, table.len());
        }
    }

    /// The top talkers of all replicas: the first one's to tell.
    pub fn describe(&self, top: usize) -> String {
        let Some(table) = &self.table else { return String::new() };
        let hosts = table.len();
        if self.replica > 0 {
            return format!("{hosts} hosts, shared with the other replicas: in the report of the first\n");
        }
        let mut seen = Vec::new();
        // Who died may have brought a host and not counted it.
        table.for_each(&mut |address, packets, bytes| {
            if packets > 0 {
                seen.push(Talker { address, packets, bytes });
            }
        });
        format!("{hosts} hosts, of all replicas together\n{}", talkers(seen, top))
    }
}
