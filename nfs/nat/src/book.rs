//! Who has which external port: mappings, the hosts that have them, and the way back of each flow.
//!
//! A *mapping* ties an endpoint inside (address, port, protocol) to an external one, whatever it talks to (RFC 4787
//! §4.1). It lives as long as any of its flows. A flow for which a port is reused has no mapping: the port is its own
//! towards its remote endpoint alone.

use crate::config::{Args, Filter, MAX_BLOCKS, Pooling, Reuse};
use crate::pool::{Owner, Pool};
use crate::track::{Origin, Seen};
use chainline_flowtable::{Class, Config, ConfigError, FlowTable, Inserted, NEVER, OnFull, Position};
use chainline_packet::checksum::Delta;

/// No position.
pub(crate) const NONE: u32 = u32::MAX;
/// The one class of tables whose entries end with their flows.
const KEPT: Class = Class(0);
/// Ports that are tried for one that can be reused.
const TRIES: usize = 64;

/// A flow from inside: found by its addresses and ports as they are there.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Out {
    /// External address, in the packet's byte order, and port.
    pub addr: [u8; 4],
    pub port: u16,
    pub seen: Seen,
    /// Who sent the first packet: 0 inside, 1 outside.
    pub begun_outside: bool,
    pub ip: Delta,
    pub l4: Delta,
    /// The position of its [`Back`].
    pub back: u32,
    /// The position of its mapping, or [`NONE`] if it reuses a port.
    pub mapping: u32,
}

impl Out {
    pub fn begun(&self) -> Origin {
        if self.begun_outside { Origin::Outside } else { Origin::Inside }
    }
}

/// The same flow from outside.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Back {
    /// Address inside, in the packet's byte order, and port.
    pub addr: [u8; 4],
    pub port: u16,
    pub ip: Delta,
    pub l4: Delta,
    /// The position of its [`Out`].
    pub out: u32,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Mapping {
    pub index: u32,
    pub port: u16,
    pub flows: u32,
}

/// A host inside.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Subscriber {
    /// The index of its address.
    index: u32,
    /// Mappings, and flows with a reused port.
    uses: u32,
    blocks: [u16; MAX_BLOCKS],
    blocks_len: u8,
}

/// An external endpoint for a new flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    pub addr: u32,
    pub port: u16,
    /// Or [`NONE`].
    pub mapping: u32,
}

/// Why there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    NoPort,
    Limit,
    TableFull,
}

/// An endpoint inside and where it sends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ends {
    pub space: u8,
    pub inside: (u32, u16),
    pub remote: (u32, u16),
}

impl Ends {
    /// The flow as it is inside.
    pub fn out_key(&self) -> [u8; 16] {
        key(self.inside, self.remote, self.space)
    }

    /// As packets to the external endpoint come in.
    pub fn back_key(&self, external: (u32, u16)) -> [u8; 16] {
        key(self.remote, external, self.space)
    }
}

/// IP's numbers of the spaces.
pub(crate) const PROTOS: [u8; 3] = [6, 17, 1];

/// As [`chainline_flowtable::v4_key`]; a query's identifier is the port inside and outside, and the remote end has 0.
fn key(src: (u32, u16), dst: (u32, u16), space: u8) -> [u8; 16] {
    let proto = PROTOS.get(usize::from(space)).copied().unwrap_or(0);
    chainline_packet::FiveTuple::v4(src.0.into(), dst.0.into(), src.1, dst.1, proto).to_v4_key()
}

fn mapping_key(inside: (u32, u16), space: u8) -> [u8; 16] {
    key(inside, (0, 0), space)
}

fn host_key(address: u32) -> [u8; 16] {
    key((address, 0), (0, 0), 0)
}

fn external_key(external: (u32, u16), remote: u32, space: u8) -> [u8; 16] {
    key(external, (remote, 0), space)
}

#[derive(Debug)]
pub(crate) struct Book {
    pub back: FlowTable<16, Back>,
    pub mappings: FlowTable<16, Mapping>,
    pub subscribers: FlowTable<16, Subscriber>,
    /// Flows that a mapping began towards a host: who may answer, if that depends on the address.
    peers: Option<FlowTable<16, u32>>,
    pub pool: Pool,
    pub filter: Filter,
    reuse: Reuse,
    pooling: Pooling,
    blocks: u8,
    limit: u32,
}

fn kept<E: Copy + Default>(capacity: u32) -> Result<FlowTable<16, E>, ConfigError> {
    FlowTable::new(&Config { capacity, timeouts_ms: &[NEVER], on_full: OnFull::DropNew })
}

impl Book {
    pub fn new(args: &Args, pool: Pool) -> Result<Self, ConfigError> {
        Ok(Self {
            back: kept(args.flows)?,
            // A new flow has its mapping before it takes another's place.
            mappings: kept(args.flows + 1)?,
            subscribers: kept(args.subscribers)?,
            peers: (args.filter == Filter::AddressDependent).then(|| kept(args.flows + 1)).transpose()?,
            pool,
            filter: args.filter,
            reuse: args.port_reuse,
            pooling: args.pooling,
            blocks: args.blocks.map_or(0, |b| b.per_subscriber),
            limit: args.mappings_per_subscriber,
        })
    }

    /// An external endpoint for a flow from inside that has none. Whoever gets it says [`Book::release`] at the end.
    pub fn acquire(&mut self, ends: &Ends) -> Result<Grant, Refusal> {
        if self.reuse != Reuse::Always {
            match self.own(ends) {
                Err(Refusal::NoPort) if self.reuse == Reuse::Exhausted => {}
                Ok(None) => {}
                Ok(Some(grant)) => return Ok(grant),
                Err(refusal) => return Err(refusal),
            }
        }
        self.share(ends)
    }

    /// The mapping of the endpoint inside; `None` if it cannot serve this flow, because another reuses its port.
    fn own(&mut self, ends: &Ends) -> Result<Option<Grant>, Refusal> {
        let mkey = mapping_key(ends.inside, ends.space);
        let Some(at) = self.mappings.find_one(&mkey) else { return self.map(ends, &mkey).map(Some) };
        let Some(mapping) = self.mappings.entry_mut(at) else { return Ok(None) };
        let external = (self.pool.address(mapping.index), mapping.port);
        if self.back.find_one(&ends.back_key(external)).is_some() {
            return Ok(None);
        }
        mapping.flows += 1;
        Ok(Some(Grant { addr: external.0, port: external.1, mapping: at.index() as u32 }))
    }

    /// A new mapping.
    fn map(&mut self, ends: &Ends, mkey: &[u8; 16]) -> Result<Grant, Refusal> {
        let at = self.subscriber(ends.inside.0, ends.space)?;
        let granted = self.map_for(at, ends, mkey);
        if granted.is_err() {
            self.drop_if_idle(at);
        }
        granted
    }

    fn map_for(&mut self, at: Position, ends: &Ends, mkey: &[u8; 16]) -> Result<Grant, Refusal> {
        let space = ends.space;
        let (index, port) = self.port(at, ends).ok_or(Refusal::NoPort)?;
        let mapping = match self.mappings.insert(mkey, KEPT, Mapping { index, port, flows: 1 }, |_, _| {}) {
            Inserted::New(mapping) => mapping,
            Inserted::There(_) | Inserted::Full => {
                self.pool.release(index, space, port);
                return Err(Refusal::TableFull);
            }
        };
        let owner = self.pool.owner(index, space, port);
        self.pool.set_owner(index, space, port, Owner { mapping: mapping.index() as u32 + 1, ..owner });
        if let Some(subscriber) = self.subscribers.entry_mut(at) {
            subscriber.uses += 1;
        }
        Ok(Grant { addr: self.pool.address(index), port, mapping: mapping.index() as u32 })
    }

    /// A free port for a host.
    fn port(&mut self, at: Position, ends: &Ends) -> Option<(u32, u16)> {
        let (pool, want) = (&mut self.pool, ends.inside.1);
        let subscriber = self.subscribers.entry_mut(at)?;
        let index = subscriber.index;
        if self.blocks == 0 {
            let area = pool.ports();
            let first = pool.take(index, ends.space, area, want).map(|port| (index, port));
            return match self.pooling {
                Pooling::Paired => first,
                Pooling::Arbitrary => first.or_else(|| {
                    let other = pool.choose(ends.space)?;
                    Some((other, pool.take(other, ends.space, area, want)?))
                }),
            };
        }
        for block in &subscriber.blocks[..usize::from(subscriber.blocks_len)] {
            let area = pool.area(*block);
            if let Some(port) = pool.take(index, ends.space, area, want) {
                return Some((index, port));
            }
        }
        if subscriber.blocks_len >= self.blocks {
            return None;
        }
        let block = pool.take_block(index)?;
        *subscriber.blocks.get_mut(usize::from(subscriber.blocks_len))? = block;
        subscriber.blocks_len += 1;
        let area = pool.area(block);
        Some((index, pool.take(index, ends.space, area, want)?))
    }

    /// A port that others may use as well, towards other endpoints.
    fn share(&mut self, ends: &Ends) -> Result<Grant, Refusal> {
        let at = self.subscriber(ends.inside.0, ends.space)?;
        let found = self.shareable(at, ends);
        let Some((index, port)) = found else {
            self.drop_if_idle(at);
            return Err(Refusal::NoPort);
        };
        self.pool.hold(index, ends.space, port);
        let owner = self.pool.owner(index, ends.space, port);
        self.pool.set_owner(index, ends.space, port, Owner { shared: owner.shared + 1, ..owner });
        if let Some(subscriber) = self.subscribers.entry_mut(at) {
            subscriber.uses += 1;
        }
        Ok(Grant { addr: self.pool.address(index), port, mapping: NONE })
    }

    fn shareable(&mut self, at: Position, ends: &Ends) -> Option<(u32, u16)> {
        if self.blocks != 0 && self.subscribers.entry(at)?.blocks_len == 0 {
            // Its first block; the port is held anew below, or given back.
            let (index, port) = self.port(at, ends)?;
            self.pool.release(index, ends.space, port);
        }
        let subscriber = *self.subscribers.entry(at)?;
        let index = subscriber.index;
        let address = self.pool.address(index);
        let blocks = &subscriber.blocks[..usize::from(subscriber.blocks_len)];
        for n in 0..TRIES {
            let area = match blocks.get(n % blocks.len().max(1)) {
                Some(block) => self.pool.area(*block),
                None => self.pool.ports(),
            };
            let drawn = self.pool.draw(area);
            let wanted = (area.from..=area.to).contains(&ends.inside.1) && n == 0;
            let port = if wanted { ends.inside.1 } else { drawn };
            if self.back.find_one(&ends.back_key((address, port))).is_none() {
                return Some((index, port));
            }
        }
        None
    }

    /// The entry of a host, made if it has none.
    fn subscriber(&mut self, address: u32, space: u8) -> Result<Position, Refusal> {
        let key = host_key(address);
        if let Some(at) = self.subscribers.find_one(&key) {
            let uses = self.subscribers.entry(at).map_or(0, |s| s.uses);
            return if self.limit != 0 && uses >= self.limit { Err(Refusal::Limit) } else { Ok(at) };
        }
        // Without a free port a reused one will do.
        let fallback = (self.reuse != Reuse::Never && self.blocks == 0).then(|| self.pool.least_crowded());
        let index = self.pool.choose(space).or(fallback).ok_or(Refusal::NoPort)?;
        let entry = Subscriber { index, ..Subscriber::default() };
        match self.subscribers.insert(&key, KEPT, entry, |_, _| {}) {
            Inserted::New(at) => {
                self.pool.join(index);
                Ok(at)
            }
            Inserted::There(_) | Inserted::Full => Err(Refusal::TableFull),
        }
    }

    /// Ends a host that uses nothing.
    fn drop_if_idle(&mut self, at: Position) {
        if self.subscribers.entry(at).is_none_or(|s| s.uses > 0) {
            return;
        }
        if let Some((_, gone)) = self.subscribers.remove(at) {
            for block in &gone.blocks[..usize::from(gone.blocks_len)] {
                self.pool.release_block(gone.index, *block);
            }
            self.pool.leave(gone.index);
        }
    }

    /// The inverse of [`Book::acquire`], for a flow of a host inside.
    pub fn release(&mut self, grant: &Grant, host: u32, space: u8) {
        let Some(index) = self.pool.index_of(grant.addr) else { return };
        let owner = self.pool.owner(index, space, grant.port);
        if grant.mapping == NONE {
            let shared = owner.shared.saturating_sub(1);
            self.pool.set_owner(index, space, grant.port, Owner { shared, ..owner });
        } else {
            let at = Position::from_index(grant.mapping);
            let Some(mapping) = self.mappings.entry_mut(at) else { return };
            mapping.flows = mapping.flows.saturating_sub(1);
            if mapping.flows > 0 {
                return;
            }
            self.mappings.remove(at);
            self.pool.set_owner(index, space, grant.port, Owner { mapping: 0, ..owner });
        }
        self.pool.release(index, space, grant.port);
        if let Some(at) = self.subscribers.find_one(&host_key(host)) {
            if let Some(subscriber) = self.subscribers.entry_mut(at) {
                subscriber.uses = subscriber.uses.saturating_sub(1);
            }
            self.drop_if_idle(at);
        }
    }

    /// The mapping that has an external endpoint, with the endpoint inside.
    pub fn mapped(&self, external: (u32, u16), space: u8) -> Option<(Position, (u32, u16))> {
        let index = self.pool.index_of(external.0)?;
        let at = self.pool.owner(index, space, external.1).mapping.checked_sub(1).map(Position::from_index)?;
        let key = self.mappings.key_at(at)?;
        Some((at, inside_of(&key)))
    }

    /// One flow more of a mapping, begun from outside.
    pub fn join(&mut self, at: Position) {
        if let Some(mapping) = self.mappings.entry_mut(at) {
            mapping.flows += 1;
        }
    }

    /// Whether a host outside may begin a flow to a mapping.
    pub fn admits(&self, external: (u32, u16), remote: u32, space: u8) -> bool {
        match (self.filter, &self.peers) {
            (Filter::EndpointIndependent, _) => true,
            (Filter::AddressDependent, Some(peers)) => peers.find_one(&external_key(external, remote, space)).is_some(),
            _ => false,
        }
    }

    /// A mapping sends to a host outside; `false` without room to remember.
    #[must_use]
    pub fn meet(&mut self, external: (u32, u16), remote: u32, space: u8) -> bool {
        let Some(peers) = &mut self.peers else { return true };
        match peers.insert(&external_key(external, remote, space), KEPT, 1, |_, _| {}) {
            Inserted::New(_) => true,
            Inserted::There(at) => {
                if let Some(flows) = peers.entry_mut(at) {
                    *flows += 1;
                }
                true
            }
            Inserted::Full => false,
        }
    }

    fn part(&mut self, external: (u32, u16), remote: u32, space: u8) {
        let Some(peers) = &mut self.peers else { return };
        let Some(at) = peers.find_one(&external_key(external, remote, space)) else { return };
        let left = peers.entry_mut(at).map_or(0, |flows| {
            *flows = flows.saturating_sub(1);
            *flows
        });
        if left == 0 {
            peers.remove(at);
        }
    }

    /// A flow has ended: what it had is given back.
    pub fn end(&mut self, key: &[u8; 16], out: &Out) {
        let external = (u32::from_be_bytes(out.addr), out.port);
        let space = space_of(key[12]);
        if out.back != NONE {
            self.back.remove(Position::from_index(out.back));
        }
        if !out.begun_outside && out.mapping != NONE {
            self.part(external, u32::from_be_bytes([key[4], key[5], key[6], key[7]]), space);
        }
        let grant = Grant { addr: external.0, port: external.1, mapping: out.mapping };
        self.release(&grant, inside_of(key).0, space);
    }
}

/// The source in a key.
pub(crate) fn inside_of(key: &[u8; 16]) -> (u32, u16) {
    (u32::from_be_bytes([key[0], key[1], key[2], key[3]]), u16::from_be_bytes([key[8], key[9]]))
}

#[inline]
pub(crate) fn space_of(proto: u8) -> u8 {
    match proto {
        6 => 0,
        17 => 1,
        _ => 2,
    }
}
