//! Heavy hitters in bounded memory: Space-Saving (Metwally, Agrawal, El Abbadi, ICDT 2005, §3), with weights.
//!
//! Of `m` entries, whoever is not known takes the place of the smallest, whose count it inherits. Counts sum up to all
//! that was counted, `total`, so the smallest is at most `total / m`, and so is the error of each: a count is never too
//! small, and never too large by more than the entry's `error`. Nobody with more than `total / m` is missing.

use crate::config::{By, HeavyHitters, Of};
use chainline_flowtable::{Class, Config, FlowTable, Inserted, Keys, NEVER, OnFull, Position, host_key, v6_key};
use chainline_nf::{Error, MAX_BURST};
use chainline_packet::FiveTuple;
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A flow, or an address in the first 16 bytes.
pub(crate) type Name = [u8; 48];

/// Entries for each of those that can have the share: the error is at most a tenth of the share.
const PRECISION: f64 = 10.0;
/// Rows of the report.
const ROWS: usize = 50;

/// An entry of the heap.
#[derive(Clone, Copy, Debug)]
struct Node {
    count: u64,
    error: u64,
    at: Position,
}

/// Counts by name; the smallest is at the root of a heap.
pub(crate) struct SpaceSaving {
    /// Where a name's node is in the heap.
    table: FlowTable<48, u32>,
    heap: Vec<Node>,
    entries: usize,
    total: u64,
}

impl SpaceSaving {
    /// With `entries` of them.
    pub fn new(entries: u32) -> Result<Self, Error> {
        // Much larger than it is to hold, so that a cuckoo table has no reason to refuse a name even when it is small.
        let config = Config { capacity: 4 * entries + 256, timeouts_ms: &[NEVER], on_full: OnFull::DropNew };
        let table = FlowTable::new(&config).map_err(|e| Error::Library(format!("monitor: {e}")))?;
        let entries = entries as usize;
        Ok(Self { table, heap: Vec::with_capacity(entries), entries, total: 0 })
    }

    /// Counts key `i` of `keys`, which were looked up.
    #[inline]
    pub fn count(&mut self, keys: &Keys<48>, i: usize, weight: u64) {
        self.total += weight;
        let Some(found) = self.table.find(keys, i).and_then(|at| self.table.entry(at)).copied() else {
            return self.enter(keys.key(i), weight);
        };
        let i = found as usize;
        if let Some(node) = self.heap.get_mut(i) {
            node.count += weight;
            self.sink(i);
        }
    }

    #[cold]
    fn enter(&mut self, name: &Name, weight: u64) {
        let Inserted::New(at) = self.table.insert(name, Class(0), 0, |_, _| {}) else {
            // Next to impossible; the smallest answers for it, so that the sum stays right.
            if let Some(root) = self.heap.first_mut() {
                (root.count, root.error) = (root.count + weight, root.error + weight);
            }
            return self.sink(0);
        };
        if self.heap.len() < self.entries {
            self.heap.push(Node { count: weight, error: 0, at });
            return self.rise(self.heap.len() - 1);
        }
        if let Some(root) = self.heap.first_mut() {
            self.table.remove(root.at);
            *root = Node { count: root.count + weight, error: root.count, at };
        }
        self.sink(0);
    }

    /// Moves a node down until no child is smaller.
    #[inline]
    fn sink(&mut self, mut i: usize) {
        loop {
            let mut least = i;
            for child in [2 * i + 1, 2 * i + 2] {
                if child < self.heap.len() && self.heap[child].count < self.heap[least].count {
                    least = child;
                }
            }
            if least == i {
                return self.place(i);
            }
            self.heap.swap(i, least);
            self.place(i);
            i = least;
        }
    }

    fn rise(&mut self, mut i: usize) {
        while i > 0 && self.heap[i].count < self.heap[(i - 1) / 2].count {
            self.heap.swap(i, (i - 1) / 2);
            self.place(i);
            i = (i - 1) / 2;
        }
        self.place(i);
    }

    /// Tells a node's name where the node is.
    #[inline]
    fn place(&mut self, i: usize) {
        if let Some(entry) = self.heap.get(i).and_then(|node| self.table.entry_mut(node.at)) {
            *entry = i as u32;
        }
    }

    /// All that was counted.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Names with their counts and errors, the largest first, of at least `least`.
    pub fn largest(&self, least: u64) -> Vec<(Name, u64, u64)> {
        let row = |node: &Node| Some((self.table.key_at(node.at)?, node.count, node.error));
        let mut rows: Vec<_> = self.heap.iter().filter(|node| node.count >= least.max(1)).filter_map(row).collect();
        rows.sort_by_key(|(name, count, error)| (std::cmp::Reverse((*count, count - error)), *name));
        rows
    }
}

/// Who is counted by what, and the burst's names.
pub(crate) struct Heavy {
    counts: SpaceSaving,
    keys: Keys<48>,
    weights: Box<[u32; MAX_BURST]>,
    args: HeavyHitters,
}

impl Heavy {
    pub fn new(args: &HeavyHitters) -> Result<Self, Error> {
        let counts = SpaceSaving::new((PRECISION / args.share).ceil() as u32)?;
        Ok(Self { counts, keys: Keys::new(), weights: Box::new([0; MAX_BURST]), args: args.clone() })
    }

    pub fn begin(&mut self) {
        self.keys.clear();
    }

    #[inline]
    pub fn push(&mut self, at: usize, flow: &FiveTuple, bytes: usize) {
        let name = match self.args.of {
            Of::Source => host_name(flow),
            Of::Destination => host_name(&flow.reversed()),
            Of::Flow => v6_key(flow),
        };
        if let Some(weight) = self.weights.get_mut(self.keys.len()) {
            *weight = if self.args.by == By::Bytes { bytes as u32 } else { 1 };
        }
        self.keys.push(at, name);
    }

    pub fn count(&mut self, now_ns: u64) {
        self.counts.table.look_up(&mut self.keys, now_ns);
        for i in 0..self.keys.len() {
            self.counts.count(&self.keys, i, self.weights[i].into());
        }
    }

    /// Those with the share or, within the error, more.
    pub fn describe(&self) -> String {
        let HeavyHitters { share, by, of } = &self.args;
        let total = self.counts.total();
        let rows = self.counts.largest((total as f64 * share).ceil() as u64);
        let (by, of) = (format!("{by:?}").to_lowercase(), format!("{of:?}").to_lowercase());
        let error = total as f64 / self.counts.entries as f64;
        let mut text = format!(
            "heavy hitters: {of}s with {} % of all {total} {by}; counts are too large by {error:.0} at most\n\
             {of:<39} {:>16} {:>16}\n",
            share * 100.0,
            format!("{by} at least"),
            "at most",
        );
        for (name, count, error) in rows.iter().take(ROWS) {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{:<39} {:>16} {:>16}", self.name(name), count - error, count);
        }
        if rows.len() > ROWS {
            let _ = writeln!(text, "and {} more", rows.len() - ROWS);
        }
        text
    }

    fn name(&self, name: &Name) -> String {
        if self.args.of != Of::Flow {
            let bytes: [u8; 16] = name.first_chunk().copied().unwrap_or_default();
            return Ipv6Addr::from(bytes).to_canonical().to_string();
        }
        let address = |at: usize| -> IpAddr {
            let bytes: [u8; 16] = name[at..].first_chunk().copied().unwrap_or_default();
            if name[37] == 4 { Ipv4Addr::new(bytes[0], bytes[1], bytes[2], bytes[3]).into() } else { bytes.into() }
        };
        let port = |at: usize| u16::from_be_bytes([name[at], name[at + 1]]);
        format!("{} {} > {} {} proto {}", address(0), port(32), address(16), port(34), name[36])
    }
}

/// An address as a name.
#[inline]
fn host_name(flow: &FiveTuple) -> Name {
    let mut name = [0; 48];
    name[..16].copy_from_slice(&host_key(flow));
    name
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn name(i: u16) -> Name {
        let mut name = [7; 48];
        name[..2].copy_from_slice(&i.to_be_bytes());
        name
    }

    proptest! {
        /// A few names often, many seldom, in an order that suits or spites the algorithm.
        #[test]
        fn counts_are_within_their_errors(
            packets in proptest::collection::vec((prop_oneof![0u16..4, 0u16..500], 1u64..1500), 1..3000),
            entries in 1u32..60,
        ) {
            let mut counts = SpaceSaving::new(entries).unwrap();
            let mut exact: BTreeMap<Name, u64> = BTreeMap::new();
            let mut keys = Keys::new();
            for burst in packets.chunks(32) {
                keys.clear();
                burst.iter().enumerate().for_each(|(i, (n, _))| keys.push(i, name(*n)));
                counts.table.look_up(&mut keys, 0);
                for (i, (n, weight)) in burst.iter().enumerate() {
                    counts.count(&keys, i, *weight);
                    *exact.entry(name(*n)).or_default() += weight;
                }
            }
            let total: u64 = exact.values().sum();
            prop_assert_eq!(counts.total(), total);
            let rows = counts.largest(0);
            prop_assert_eq!(rows.len(), exact.len().min(entries as usize));
            prop_assert_eq!(rows.iter().map(|r| r.1).sum::<u64>(), total);
            for (name, count, error) in &rows {
                prop_assert!((count - error..=*count).contains(&exact[name]));
                prop_assert!(*error <= total / u64::from(entries));
            }
            for (name, count) in &exact {
                prop_assert!(*count <= total / u64::from(entries) || rows.iter().any(|r| r.0 == *name));
            }
            let sorted = rows.is_sorted_by_key(|r| std::cmp::Reverse(r.1));
            prop_assert!(sorted);
        }
    }
}
