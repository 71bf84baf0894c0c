//! What a running `monitor` keeps: the hosts it has seen.

use crate::config::Args;
use crate::heavy::Heavy;
use crate::records::Records;
use crate::shared::Shared;
use chainline_dpdk::tables::Hash;
use chainline_nf::{Counter, Ctx, Env, Error, MAX_BURST, Sharing, TableSpec};
use std::fmt::Write;
use std::net::Ipv6Addr;

/// A host's address; IPv4 as `::ffff:a.b.c.d` (RFC 4291 §2.5.5.2), which no IPv6 packet may carry as its source.
pub(crate) type Key = [u8; 16];

/// What is counted for a host. Half a cache line, so that one never straddles two.
#[derive(Clone, Copy, Default)]
#[repr(align(32))]
struct Host {
    packets: u64,
    bytes: u64,
    last_seen_ns: u64,
}

/// Positions that one tick looks at: a table of 16 million is gone through in 40 s, and no tick takes long.
const SWEEP: usize = 4096;

/// Hosts by position in the hash table, and the keys of the burst at hand.
pub struct State {
    table: Hash<16>,
    // Apart from what is counted: a look-up never needs them, sweeping and the report do.
    keys: Vec<Key>,
    hosts: Vec<Host>,
    in_use: u64,
    limit: u64,
    idle_ns: u64,
    /// Where the next sweep goes on.
    sweep: usize,
    top: usize,
    /// In place of all of the above, if replicas have their hosts together.
    pub(crate) shared: Option<Shared>,
    pub(crate) pending: Pending,
    pub(crate) counters: Counters,
    pub(crate) heavy: Option<Box<Heavy>>,
    pub(crate) records: Option<Box<Records>>,
}

pub(crate) struct Counters {
    pub hosts: Counter,
    pub forgotten: Counter,
    pub untracked_packets: Counter,
    pub untracked_bytes: Counter,
    pub non_ip: Counter,
    pub malformed: Counter,
}

/// The burst's sources.
pub(crate) struct Pending {
    pub keys: [Key; MAX_BURST],
    /// Frame lengths in bytes.
    pub bytes: [u16; MAX_BURST],
    pub found: [i32; MAX_BURST],
    pub len: usize,
}

impl State {
    pub(crate) fn new(args: &Args, env: &mut Env<'_>) -> Result<Self, Error> {
        let idle_ns = args.idle_ns(env.sharing())?;
        let shared = match env.sharing() {
            Sharing::Private => None,
            _ => Some(Shared::new(env.replica())),
        };
        // A cuckoo table refuses keys when it is nearly full, so it is larger than what it is to hold.
        let size = if shared.is_some() { 64 } else { (args.hosts + args.hosts / 8).max(64) };
        if shared.is_some() {
            env.share(TableSpec { entries: args.hosts })?;
        }
        let table = Hash::new(size).map_err(|e| Error::Library(format!("monitor: {e}")))?;
        let positions = table.positions();
        let counters = Counters {
            hosts: env.level("hosts", "entries", "hosts in the table"),
            forgotten: env.counter("hosts_forgotten", "entries", "hosts that were idle too long"),
            untracked_packets: env.counter("untracked_packets", "packets", "packets of hosts that found no room"),
            untracked_bytes: env.counter("untracked_bytes", "bytes", "bytes of hosts that found no room"),
            non_ip: env.counter("non_ip", "packets", "frames that are neither IPv4 nor IPv6"),
            malformed: env.counter("malformed", "packets", "packets without a usable source address"),
        };
        Ok(Self {
            table,
            keys: vec![[0; 16]; positions],
            hosts: vec![Host::default(); positions],
            in_use: 0,
            limit: args.hosts.into(),
            idle_ns,
            sweep: 0,
            top: args.top,
            shared,
            pending: Pending { keys: [[0; 16]; MAX_BURST], bytes: [0; MAX_BURST], found: [0; MAX_BURST], len: 0 },
            counters,
            heavy: args.heavy_hitters.as_ref().map(Heavy::new).transpose()?.map(Box::new),
            records: args.flow_records.as_ref().map(|r| Records::new(r, env)).transpose()?.map(Box::new),
        })
    }

    /// Counts the pending packets.
    #[inline]
    pub(crate) fn count(&mut self, ctx: &Ctx<'_>) {
        let n = self.pending.len.min(MAX_BURST);
        if let Some(shared) = &mut self.shared {
            return shared.count(&self.pending.keys[..n], &self.pending.bytes[..n], &self.counters, ctx);
        }
        self.table.lookup_bulk(&self.pending.keys[..n], &mut self.pending.found[..n]);
        let now_ns = ctx.now_ns();
        for i in 0..n {
            let found = usize::try_from(self.pending.found[i]).ok();
            let position = found.or_else(|| self.add(self.pending.keys[i], ctx));
            let bytes = u64::from(self.pending.bytes[i]);
            match position.and_then(|p| self.hosts.get_mut(p)) {
                Some(host) => {
                    host.packets += 1;
                    host.bytes += bytes;
                    host.last_seen_ns = now_ns;
                }
                None => {
                    ctx.count(self.counters.untracked_packets, 1);
                    ctx.count(self.counters.untracked_bytes, bytes);
                }
            }
        }
    }

    /// The position of a new host; `None` when there is no room.
    #[cold]
    fn add(&mut self, key: Key, ctx: &Ctx<'_>) -> Option<usize> {
        // An earlier packet of the burst may have added it.
        if let Some(position) = self.table.lookup(&key) {
            return Some(position as usize);
        }
        if self.in_use >= self.limit {
            return None;
        }
        let position = self.table.add(&key)? as usize;
        *self.keys.get_mut(position)? = key;
        *self.hosts.get_mut(position)? = Host::default();
        self.in_use += 1;
        ctx.set(self.counters.hosts, self.in_use);
        Some(position)
    }

    /// Forgets idle hosts, a part of the table at a time.
    pub(crate) fn sweep(&mut self, ctx: &Ctx<'_>) {
        if let Some(shared) = &self.shared {
            return shared.show(&self.counters, ctx);
        }
        if self.idle_ns == 0 || self.hosts.is_empty() {
            return;
        }
        let end = (self.sweep + SWEEP).min(self.hosts.len());
        let mut forgotten = 0;
        for (host, key) in self.hosts[self.sweep..end].iter_mut().zip(&self.keys[self.sweep..end]) {
            if host.packets > 0 && ctx.now_ns().saturating_sub(host.last_seen_ns) > self.idle_ns {
                self.table.del(key);
                *host = Host::default();
                forgotten += 1;
            }
        }
        self.sweep = if end == self.hosts.len() { 0 } else { end };
        self.in_use -= forgotten;
        ctx.count(self.counters.forgotten, forgotten);
        ctx.set(self.counters.hosts, self.in_use);
    }

    /// The top talkers by bytes.
    pub(crate) fn describe(&self) -> String {
        if let Some(shared) = &self.shared {
            return shared.describe(self.top);
        }
        let seen = self.hosts.iter().zip(&self.keys).filter(|(host, _)| host.packets > 0);
        let hosts = seen.map(|(host, key)| Talker { address: *key, packets: host.packets, bytes: host.bytes });
        format!("{} hosts\n{}", self.in_use, talkers(hosts.collect(), self.top))
    }
}

/// A row of the report.
pub(crate) struct Talker {
    pub address: Key,
    pub packets: u64,
    pub bytes: u64,
}

/// The table of the top talkers.
pub(crate) fn talkers(mut hosts: Vec<Talker>, top: usize) -> String {
    let order = |h: &Talker| (std::cmp::Reverse((h.bytes, h.packets)), h.address);
    if top < hosts.len() {
        hosts.select_nth_unstable_by_key(top, order);
    }
    hosts.truncate(top);
    hosts.sort_by_key(order);
    let mut text = format!("{:<39} {:>14} {:>16}\n", "source", "packets", "bytes");
    for Talker { address, packets, bytes } in hosts {
        let address = Ipv6Addr::from(address).to_canonical().to_string();
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{address:<39} {packets:>14} {bytes:>16}");
    }
    text
}
