//! Flow records: what was seen of each 5-tuple in one direction, written when the flow is silent, or long, or when its
//! place is needed.

use crate::config::FlowRecords;
use crate::ipfix::Message;
use crate::{json, resume};
use chainline_flowtable::{self as flowtable, Class, Config, FlowTable, Inserted, Keys, OnFull, Position, v6_key};
use chainline_nf::storage::MAX_BATCH_BYTES;
use chainline_nf::{Access, Completion, Counter, Ctx, Durable, Env, Error, File, FileSpec, MAX_BURST};
use chainline_packet::{Fragment, Layers, proto};
use std::time::{SystemTime, UNIX_EPOCH};

/// What is kept of a flow. Times are the host's, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flow {
    pub packets: u64,
    /// Of IP datagrams, headers included.
    pub ip_bytes: u64,
    /// Of frames without FCS.
    pub frame_bytes: u64,
    pub first_ns: u64,
    pub last_ns: u64,
    /// All of TCP's flags that were seen.
    pub tcp_flags: u8,
}

/// Why a record is written; the numbers of IPFIX's flowEndReason (RFC 5102 §5.11.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Idle = 1,
    Active = 2,
    Stopped = 4,
    NoRoom = 5,
}

/// What a packet adds to its flow.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    ip_bytes: u16,
    frame_bytes: u16,
    tcp_flags: u8,
}

/// The flows, and the burst's keys.
pub(crate) struct Records {
    table: FlowTable<48, Flow>,
    keys: Keys<48>,
    seen: Box<[Seen; MAX_BURST]>,
    active_ns: u64,
    out: Output,
    counters: flowtable::Counters,
}

/// Where records go.
struct Output {
    ipfix: Option<(File, Message)>,
    json: Option<File>,
    /// Nanoseconds from the host's clock to the time of day; read once, so that times never go back.
    epoch_ns: Option<u64>,
    written: u64,
    lost: u64,
    exported: Counter,
    not_written: Counter,
    io_errors: Counter,
}

impl Records {
    pub fn new(args: &FlowRecords, env: &mut Env<'_>) -> Result<Self, Error> {
        let config = Config {
            capacity: args.flows,
            timeouts_ms: &[u64::from(args.idle_s) * 1000],
            // Nothing is lost: who makes room is written.
            on_full: OnFull::EvictOldest,
        };
        let table = FlowTable::new(&config).map_err(|e| Error::Library(format!("monitor: {e}")))?;
        // At the end all flows are written at once.
        let buffer = |record: usize| (args.flows as usize * record + (256 << 10)).min(MAX_BATCH_BYTES as usize) as u32;
        let ipfix = match &args.ipfix {
            Some(path) => {
                let path = env.path(path);
                let resume::Resumed { keep, sequence } = resume::ipfix(&path, args.domain)?;
                let message = Message::new(args.domain, sequence);
                let spec = FileSpec {
                    access: Access::Append { keep },
                    head: Message::templates(args.domain, sequence),
                    batch_bytes: buffer(crate::ipfix::RECORD_BYTES),
                    packet_bytes: crate::ipfix::MESSAGE_BYTES as u32,
                    durable: Durable::AtEnd,
                    ..FileSpec::append(path)
                };
                Some((env.open(spec)?, message))
            }
            None => None,
        };
        let json = match &args.json {
            Some(path) => {
                let path = env.path(path);
                let spec = FileSpec {
                    access: Access::Append { keep: resume::lines(&path)? },
                    batch_bytes: buffer(json::LINE_BYTES),
                    packet_bytes: json::LINE_BYTES as u32,
                    durable: Durable::AtEnd,
                    ..FileSpec::append(path)
                };
                Some(env.open(spec)?)
            }
            None => None,
        };
        let exported = env.counter("records", "records", "flow records that were written");
        let not_written = env.counter("records_lost", "records", "flow records that found no room in a buffer");
        let io_errors = env.counter("io_errors", "writes", "messages and lines that could not be written");
        Ok(Self {
            table,
            keys: Keys::new(),
            seen: Box::new([Seen::default(); MAX_BURST]),
            active_ns: u64::from(args.active_s) * 1_000_000_000,
            out: Output { ipfix, json, epoch_ns: None, written: 0, lost: 0, exported, not_written, io_errors },
            counters: flowtable::Counters::declare(env, "flows"),
        })
    }

    pub fn begin(&mut self) {
        self.keys.clear();
    }

    #[inline]
    pub fn push(&mut self, at: usize, data: &[u8], layers: &Layers) {
        let is_tcp = layers.tuple.proto() == proto::TCP && layers.fragment != Fragment::Later && layers.l4 != 0;
        if let Some(seen) = self.seen.get_mut(self.keys.len()) {
            *seen = Seen {
                ip_bytes: layers.end.saturating_sub(layers.l3),
                frame_bytes: data.len() as u16,
                tcp_flags: if is_tcp { data.get(usize::from(layers.l4) + 13).copied().unwrap_or(0) } else { 0 },
            };
        }
        self.keys.push(at, v6_key(&layers.tuple));
    }

    pub fn count(&mut self, ctx: &mut Ctx<'_>) {
        let now_ns = ctx.now_ns();
        self.table.look_up(&mut self.keys, now_ns);
        for i in 0..self.keys.len() {
            let seen = self.seen[i];
            let at = match self.table.find(&self.keys, i) {
                Some(at) => self.again(at, i, ctx),
                None => self.begin_flow(i, ctx),
            };
            let Some(flow) = at.and_then(|at| self.table.entry_mut(at)) else { continue };
            flow.packets += 1;
            flow.ip_bytes += u64::from(seen.ip_bytes);
            flow.frame_bytes += u64::from(seen.frame_bytes);
            flow.tcp_flags |= seen.tcp_flags;
            flow.last_ns = now_ns;
        }
        self.show(ctx);
    }

    /// A flow that is known: silent or long enough for a record, it begins anew.
    #[inline]
    fn again(&mut self, at: Position, i: usize, ctx: &mut Ctx<'_>) -> Option<Position> {
        let over = self.table.is_over(at);
        let now_ns = ctx.now_ns();
        if let Some(flow) = self.table.entry_mut(at)
            && (over || now_ns.saturating_sub(flow.first_ns) >= self.active_ns)
        {
            let ended = std::mem::replace(flow, Flow { first_ns: now_ns, ..Flow::default() });
            self.out.write(self.keys.key(i), &ended, if over { End::Idle } else { End::Active }, ctx);
        }
        self.table.touch(at);
        Some(at)
    }

    #[cold]
    fn begin_flow(&mut self, i: usize, ctx: &mut Ctx<'_>) -> Option<Position> {
        let flow = Flow { first_ns: ctx.now_ns(), ..Flow::default() };
        let out = &mut self.out;
        let gone = |key: &[u8; 48], flow: &Flow| out.write(key, flow, End::NoRoom, ctx);
        match self.table.insert(self.keys.key(i), Class(0), flow, gone) {
            Inserted::New(at) | Inserted::There(at) => Some(at),
            Inserted::Full => {
                self.out.lost += 1;
                None
            }
        }
    }

    pub fn tick(&mut self, ctx: &mut Ctx<'_>) {
        let Self { table, out, .. } = self;
        table.sweep(ctx.now_ns(), |key, flow| out.write(key, flow, End::Idle, ctx));
        if ctx.is_ending() {
            for (_, key, flow) in table.iter() {
                out.write(&key, flow, End::Stopped, ctx);
            }
        }
        out.flush(ctx);
        self.show(ctx);
    }

    /// What became of a batch.
    pub fn completed(&self, done: &Completion<'_>, ctx: &Ctx<'_>) {
        if done.result.is_err() {
            ctx.count(self.out.io_errors, done.count);
        }
    }

    fn show(&mut self, ctx: &Ctx<'_>) {
        ctx.count(self.out.exported, std::mem::take(&mut self.out.written));
        ctx.count(self.out.not_written, std::mem::take(&mut self.out.lost));
        self.counters.show_table(&self.table, ctx);
    }
}

impl Output {
    /// Writes a record.
    #[cold]
    fn write(&mut self, key: &[u8; 48], flow: &Flow, end: End, ctx: &mut Ctx<'_>) {
        let epoch_ns = *self.epoch_ns.get_or_insert_with(|| {
            let day = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            (day.as_nanos() as u64).wrapping_sub(ctx.now_ns())
        });
        let ms = |ns: u64| epoch_ns.wrapping_add(ns) / 1_000_000;
        let times_ms = (ms(flow.first_ns), ms(flow.last_ns));
        let mut taken = true;
        if let Some((file, message)) = &mut self.ipfix {
            if !message.has_room(key) {
                self.lost += send(*file, message, ms(ctx.now_ns()), ctx);
            }
            message.push(key, flow, times_ms, end);
        }
        if let Some(file) = self.json {
            let (line, len) = json::line(key, flow, times_ms, end);
            taken = ctx.write(file, &[line.get(..len).unwrap_or_default()], None).is_ok();
        }
        self.written += u64::from(taken);
        self.lost += u64::from(!taken);
    }

    /// Sends the records that wait for their message to be full.
    fn flush(&mut self, ctx: &mut Ctx<'_>) {
        let (Some((file, message)), Some(epoch_ns)) = (&mut self.ipfix, self.epoch_ns) else { return };
        let now_ms = epoch_ns.wrapping_add(ctx.now_ns()) / 1_000_000;
        self.lost += send(*file, message, now_ms, ctx);
    }
}

/// Sends a message; returns how many records were lost with it.
fn send(file: File, message: &mut Message, now_ms: u64, ctx: &mut Ctx<'_>) -> u64 {
    let records = message.records();
    let lost = message.end((now_ms / 1000) as u32).is_some_and(|bytes| ctx.write(file, &[bytes], None).is_err());
    message.clear();
    if lost { records } else { 0 }
}
