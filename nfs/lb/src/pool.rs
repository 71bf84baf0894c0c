//! Services and backends as they are in force, and how the next ones come to be.
//!
//! A backend has a *slot*, which flows name. It keeps it as long as the file has it or a flow is still on its account, so
//! that a reload moves nobody. Tables are built a part at a time, and all that is new takes effect in one moment.

use crate::directory::{Directory, Rule};
use crate::maglev::{Builder, Candidate, place};
use crate::rewrite::{Target, bytes};
use crate::services::{self, Health, Mode};
use chainline_packet::ether::Mac;
use chainline_packet::{FiveTuple, flow_hash};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

/// A slot: what packets need.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Backend {
    /// How destinations are rewritten to it, and sources of replies back; `None` for `dsr`.
    pub nat: Option<(Target, Target)>,
    pub mac: Mac,
    /// The service's identity, see [`Service::id`].
    pub service: u32,
    /// Whether its flows may go to it.
    pub alive: bool,
    pub packets: u64,
    pub bytes: u64,
}

/// A slot: what is asked rarely.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub service: u32,
    pub addr: IpAddr,
    pub port: Option<u16>,
    /// What the service is called there, for errors in ICMP.
    pub vip: IpAddr,
    pub vip_port: Option<u16>,
    /// Whether the file has it.
    pub listed: bool,
    pub flows: u64,
    pub flows_total: u64,
    /// Signs that it does not answer.
    pub signs: Signs,
}

/// What a backend owes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Signs {
    /// New connections since the last answer, and refusals in a row.
    pub unanswered: u32,
    pub refused: u32,
    /// When the first of them was.
    pub since_ns: u64,
    /// Until when it is taken for dead; 0: it is not.
    pub suspect_until_ns: u64,
}

/// A service in force.
#[derive(Clone, Debug)]
pub(crate) struct Service {
    /// The same as long as the file has a service of this name, protocol and address.
    pub id: u32,
    pub spec: services::Service,
    /// Slots, in the order of `spec.backends`.
    pub members: Vec<u32>,
    candidates: Vec<Candidate>,
    /// Indexes into `members`; empty if nobody takes new flows.
    table: Arc<[u16]>,
}

impl Service {
    /// The backend for a new flow.
    pub fn pick(&self, hash: u32) -> Option<u32> {
        let member = self.table.get(place(hash, self.table.len()))?;
        self.members.get(usize::from(*member)).copied()
    }
}

/// The next services, being made.
#[derive(Debug)]
struct Next {
    specs: Vec<services::Service>,
    tables: Vec<(Vec<Candidate>, Table)>,
}

#[derive(Debug)]
enum Table {
    Ready(Arc<[u16]>),
    Building(Builder),
}

/// All of it.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    pub services: Vec<Service>,
    pub directory: Directory,
    pub backends: Vec<Backend>,
    pub records: Vec<Record>,
    slots: HashMap<(u32, IpAddr, Option<u16>), u32>,
    /// Indexes of services by what they are known by.
    known: HashMap<(String, u8, IpAddr), usize>,
    last_id: u32,
    table_size: usize,
    next: Option<Next>,
}

impl Pool {
    /// With these services in force.
    pub fn new(specs: Vec<services::Service>, table_size: u32) -> Self {
        let mut pool = Self { table_size: table_size as usize, ..Self::default() };
        pool.begin(specs);
        while !pool.step(usize::MAX) {}
        pool
    }

    /// Whether services are being made.
    pub fn is_busy(&self) -> bool {
        self.next.is_some()
    }

    /// Starts to make these services, in place of others that are being made.
    pub fn begin(&mut self, specs: Vec<services::Service>) {
        let tables = specs.iter().map(|spec| {
            let old = self.known(spec);
            let candidates = self.candidates(spec, old.map(|s| s.id));
            let table = match old {
                Some(old) if old.candidates == candidates => Table::Ready(old.table.clone()),
                _ if candidates.is_empty() => Table::Ready(Arc::default()),
                _ => Table::Building(Builder::new(&candidates, self.table_size)),
            };
            (candidates, table)
        });
        self.next = Some(Next { tables: tables.collect(), specs });
    }

    /// Starts anew with the same services, since what backends are worth has changed.
    pub fn begin_again(&mut self) {
        let specs = match self.next.take() {
            Some(next) => next.specs,
            None => self.services.iter().map(|s| s.spec.clone()).collect(),
        };
        self.begin(specs);
    }

    /// Goes on, looking at about `budget` places of tables; `true` when the new services took effect.
    pub fn step(&mut self, mut budget: usize) -> bool {
        let Some(next) = &mut self.next else { return false };
        for (_, table) in &mut next.tables {
            if let Table::Building(builder) = table {
                budget = builder.step(budget);
                if !builder.is_ready() {
                    return false;
                }
            }
        }
        if let Some(next) = self.next.take() {
            self.take_effect(next);
        }
        true
    }

    fn known(&self, spec: &services::Service) -> Option<&Service> {
        self.services.get(*self.known.get(&key(spec))?)
    }

    /// Who takes new flows. Backends that do not answer are left out, unless nobody else is there.
    fn candidates(&self, spec: &services::Service, id: Option<u32>) -> Vec<Candidate> {
        let suspect = |b: &services::Backend| {
            let slot = id.and_then(|id| self.slots.get(&(id, b.addr, b.port)));
            slot.and_then(|s| self.records.get(*s as usize)).is_some_and(|r| r.signs.suspect_until_ns != 0)
        };
        let up: Vec<_> = spec.backends.iter().enumerate().filter(|(_, b)| b.health == Health::Up).collect();
        let nobody_else = up.iter().all(|(_, b)| suspect(b));
        up.iter()
            .filter(|(_, b)| nobody_else || !suspect(b))
            .map(|(i, b)| Candidate { hashes: hashes(spec, b), weight: b.weight, member: *i as u16 })
            .collect()
    }

    fn take_effect(&mut self, next: Next) {
        let mut services = Vec::new();
        let (mut to, mut from) = (Vec::new(), Vec::new());
        for backend in &mut self.backends {
            backend.alive = false;
        }
        for record in &mut self.records {
            record.listed = false;
        }
        // Slots that no flow names and no service of the last file had.
        let mut free: Vec<u32> = (0..self.records.len() as u32).filter(|s| !self.is_known(*s)).collect();
        for (index, (spec, (candidates, table))) in next.specs.into_iter().zip(next.tables).enumerate() {
            let id = match self.known(&spec) {
                Some(service) => service.id,
                None => {
                    self.last_id += 1;
                    self.last_id
                }
            };
            let Table::Ready(table) = ready(table) else { continue };
            for (low, high) in &spec.ports {
                let rule = Rule { proto: spec.proto, low: *low, high: *high, target: index as u32 };
                to.push((spec.vip, rule));
            }
            let mut members = Vec::with_capacity(spec.backends.len());
            for backend in &spec.backends {
                let slot = self.slot(id, &spec, backend, &mut free);
                members.push(slot);
                if spec.mode == Mode::Nat {
                    let ports = backend.port.map_or_else(|| spec.ports.clone(), |p| vec![(p, p)]);
                    let rule = |(low, high)| (backend.addr, Rule { proto: spec.proto, low, high, target: slot });
                    from.extend(ports.into_iter().map(rule));
                }
            }
            services.push(Service { id, spec, members, candidates, table });
        }
        self.known = services.iter().enumerate().map(|(i, s): (usize, &Service)| (key(&s.spec), i)).collect();
        self.services = services;
        self.directory = Directory::new(to, from);
        let gone: Vec<_> = self.slots.iter().filter(|(_, s)| !self.has_slot(**s)).map(|(k, _)| *k).collect();
        for key in gone {
            self.slots.remove(&key);
        }
    }

    /// Whether a slot is taken: by the file, or by flows that name it.
    fn has_slot(&self, slot: u32) -> bool {
        self.records.get(slot as usize).is_some_and(|r| r.listed || r.flows > 0)
    }

    /// A backend's slot: the one it has, or a free one.
    fn slot(&mut self, id: u32, spec: &services::Service, backend: &services::Backend, free: &mut Vec<u32>) -> u32 {
        let vip_port = spec.ports.first().map(|(low, _)| *low).filter(|_| backend.port.is_some());
        let nat = (spec.mode == Mode::Nat).then(|| {
            let ports = vip_port.zip(backend.port);
            let back = ports.map(|(vip, own)| (own, vip));
            (Target::new(spec.vip, backend.addr, ports), Target::new(backend.addr, spec.vip, back))
        });
        let (mac, alive) = (backend.mac.unwrap_or_default(), backend.health != Health::Down);
        let hot = Backend { nat, mac, service: id, alive, packets: 0, bytes: 0 };
        let key = (id, backend.addr, backend.port);
        if let Some(slot) = self.slots.get(&key).copied()
            && let (Some(b), Some(r)) = (self.backends.get_mut(slot as usize), self.records.get_mut(slot as usize))
        {
            *b = Backend { packets: b.packets, bytes: b.bytes, ..hot };
            (r.listed, r.vip_port) = (true, vip_port);
            return slot;
        }
        let record = Record {
            service: id,
            addr: backend.addr,
            port: backend.port,
            vip: spec.vip,
            vip_port,
            listed: true,
            flows: 0,
            flows_total: 0,
            signs: Signs::default(),
        };
        let slot = free.pop().unwrap_or(self.records.len() as u32);
        match (self.backends.get_mut(slot as usize), self.records.get_mut(slot as usize)) {
            (Some(b), Some(r)) => (*b, *r) = (hot, record),
            _ => {
                self.backends.push(hot);
                self.records.push(record);
            }
        }
        self.slots.insert(key, slot);
        slot
    }

    /// Whether a slot's backend would find it again, or flows name it.
    fn is_known(&self, slot: u32) -> bool {
        let known = |r: &Record| r.flows > 0 || self.slots.contains_key(&(r.service, r.addr, r.port));
        self.records.get(slot as usize).is_some_and(known)
    }
}

/// What a service is known by.
fn key(spec: &services::Service) -> (String, u8, IpAddr) {
    (spec.name.clone(), spec.proto, spec.vip)
}

/// A table whose turn has come is ready.
fn ready(table: Table) -> Table {
    match table {
        Table::Building(builder) => Table::Ready(builder.into_places().into()),
        ready => ready,
    }
}

/// What a backend's order of places depends on: its address and port, and nothing that differs between load balancers.
fn hashes(spec: &services::Service, backend: &services::Backend) -> [u32; 2] {
    let addr = Ipv6Addr::from(bytes(backend.addr));
    [1u16, 2].map(|n| {
        let salt = Ipv6Addr::from(u128::from(n));
        flow_hash(&FiveTuple::v6(addr, salt, backend.port.unwrap_or(0), n, spec.proto))
    })
}
