//! `logger`: writes packets, or those that match, to a pcapng file, without waiting for the disk.
//!
//! Blocks are copied into the file's buffer, which the host writes in batches ([`chainline_nf::storage`]). With
//! `sync: hold` each packet is held until its batch is on disk, while the NF goes on with others. The file is appended to until
//! it is as long as `max_bytes` permits, and then begins anew: an instance that starts, also one that is started again after a crash,
//! cuts off a block that was left half done and begins a new section.

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod config;
mod pcapng;

pub use config::Args;

use chainline_nf::{
    Access, Burst, Completion, Counter, Ctx, Durable, Env, Errno, Error, Field, File, FileSpec, Footprint, HoldId, Nf,
    Reason, Sample, Sharing, Verdict,
};
use config::{Filter, OnError, Sync, Write};
use std::time::{SystemTime, UNIX_EPOCH};

/// The kind, for registries.
pub const KIND: chainline_nf::Kind = chainline_nf::Kind::of::<Logger>();

/// The NF.
pub struct Logger {
    file: File,
    filter: Option<Filter>,
    snaplen: usize,
    hold: bool,
    /// What a packet gets that could not be written.
    failed: Verdict,
    /// Nanoseconds from the host's clock to the time of day; read once, so that times never go back.
    epoch_ns: Option<u64>,
    last_error: Option<Errno>,
    counters: Counters,
}

struct Counters {
    packets_logged: Counter,
    bytes_written: Counter,
    io_errors: Counter,
}

impl Nf for Logger {
    const KIND: &'static str = "logger";
    const ABOUT: &'static str = "writes packets to a pcapng file";
    type Args = Args;
    const FOOTPRINT: Option<Footprint> = Footprint::new(&[Field::Frame], &[], &[]);
    const SAMPLE: Sample = Sample { args: "{\"file\": \"log.pcapng\"}", files: &[] };

    fn check(args: &Args, _: Sharing) -> Result<(), Error> {
        args.check()
    }

    fn new(args: Args, env: &mut Env<'_>) -> Result<Self, Error> {
        let filter = Filter::new(&args.matches)?;
        let path = env.path(&args.file);
        let keep = pcapng::whole_bytes(&path).map_err(|source| Error::Read { path: path.clone(), source })?;
        let file = env.open(FileSpec {
            access: Access::Append { keep },
            head: pcapng::head(args.snaplen),
            batch_bytes: args.batch_bytes,
            flush_ms: args.flush_ms,
            packet_bytes: pcapng::block_bytes(args.snaplen),
            limit_bytes: args.max_bytes,
            blocking: args.write == Write::Blocking,
            durable: if args.sync == Sync::None { Durable::Never } else { Durable::EachBatch },
            ..FileSpec::append(path)
        })?;
        if args.sync == Sync::Hold {
            env.may_hold_each();
        }
        let counters = Counters {
            packets_logged: env.counter("packets_logged", "packets", "in the file; with `sync` on disk"),
            bytes_written: env.counter("bytes_written", "bytes", "in the file, without the heads of its sections"),
            io_errors: env.counter("io_errors", "packets", "could not be written"),
        };
        let not_logged: Reason = env.drop_reason("not_logged");
        let failed = if args.on_error == OnError::Drop { Verdict::drop(not_logged) } else { Verdict::NEXT };
        let (snaplen, hold) = (args.snaplen as usize, args.sync == Sync::Hold);
        Ok(Self { file, filter, snaplen, hold, failed, epoch_ns: None, last_error: None, counters })
    }

    fn process(&mut self, burst: &mut Burst<'_>, ctx: &mut Ctx<'_>) {
        let time_ns = self.time_ns(ctx.now_ns());
        for (packet, verdict) in burst.iter_mut() {
            let frame = packet.data();
            if self.filter.as_ref().is_some_and(|f| !f.takes(frame)) {
                continue;
            }
            let kept = frame.get(..self.snaplen).unwrap_or(frame);
            let (before, behind, behind_len) = pcapng::around(time_ns, kept.len() as u32, frame.len() as u32);
            let parts = [&before[..], kept, behind.get(..behind_len).unwrap_or(&[])];
            // The host takes packets only while it has a place for each, so there is one.
            let id = if self.hold { ctx.hold() } else { None };
            let taken =
                self.hold == id.is_some() && { ctx.write(self.file, &parts, id.map(|id| id.to_bits().into())).is_ok() };
            match (taken, id) {
                (true, Some(id)) => *verdict = Verdict::hold(id),
                (true, None) => {}
                (false, _) => {
                    ctx.count(self.counters.io_errors, 1);
                    *verdict = self.failed;
                }
            }
        }
    }

    fn completed(&mut self, done: &Completion<'_>, ctx: &mut Ctx<'_>) {
        let verdict = match done.result {
            Ok(bytes) => {
                ctx.count(self.counters.packets_logged, done.count);
                ctx.count(self.counters.bytes_written, bytes);
                Verdict::NEXT
            }
            Err(e) => {
                ctx.count(self.counters.io_errors, done.count);
                self.last_error = Some(e);
                self.failed
            }
        };
        if let Some(id) = done.context {
            ctx.release(HoldId::from_bits(id as u32), verdict);
        }
    }

    fn report(&self) -> Option<String> {
        self.last_error.map(|e| format!("last error: {e}"))
    }
}

impl Logger {
    /// Nanoseconds since 1970.
    #[inline]
    fn time_ns(&mut self, now_ns: u64) -> u64 {
        let epoch = *self.epoch_ns.get_or_insert_with(|| {
            let day = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            (day.as_nanos() as u64).wrapping_sub(now_ns)
        });
        epoch.wrapping_add(now_ns)
    }
}

#[cfg(test)]
mod tests;
