//! A Rust NF in a shared object that misbehaves where its arguments say.

use chainline_nf::{
    Burst, Completion, Counter, Ctx, Env, Error, Field, File, FileSpec, Footprint, HoldId, Nf, Reason, Refused, Scope,
    State, Target, Verdict,
};

#[derive(Clone, Copy, PartialEq, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
enum When {
    New,
    Process,
    Tick,
    Held,
    Report,
    Drop,
    Never,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    panic: When,
    #[serde(default)]
    rules: Option<String>,
    #[serde(default)]
    shrink: bool,
}

/// Drops runts, diverts ARP, holds ICMP until the tick, counts the rest.
struct Odd {
    panic: When,
    shrink: bool,
    seen: Counter,
    bytes: Counter,
    logged: Counter,
    log: File,
    table: File,
    runt: Reason,
    late: Reason,
    scrub: Option<Target>,
    held: Vec<HoldId>,
}

fn may(nf: &Odd, at: When) {
    assert!(nf.panic != at, "on purpose");
}

impl Nf for Odd {
    const KIND: &'static str = "odd";
    const ABOUT: &'static str = "panics on request";
    type Args = Args;
    const FOOTPRINT: Option<Footprint> = Footprint::new(
        &[Field::EtherType, Field::Protocol],
        &[Field::Frame],
        &[State::new("held", Scope::Instance, 4), State::new("rules", Scope::Configured, 0).with("rules")],
    );

    fn new(args: Args, env: &mut Env<'_>) -> Result<Self, Error> {
        assert!(args.panic != When::New, "on purpose");
        if let Some(rules) = &args.rules {
            let text = env.read(rules)?;
            let path = env.path(rules);
            return Err(Error::at(&path, 1, 1, format!("'{}'; expected a rule", text.trim())));
        }
        Ok(Self {
            panic: args.panic,
            shrink: args.shrink,
            seen: env.counter("seen", "packets", "looked at"),
            bytes: env.counter("bytes", "bytes", "looked at"),
            logged: env.counter("logged", "bytes", "written"),
            log: env.open(FileSpec { head: b"head".to_vec(), ..FileSpec::append("log") })?,
            table: env.open(FileSpec::read("table"))?,
            runt: env.drop_reason("runt"),
            late: env.drop_reason("late"),
            scrub: env.target("scrub").ok(),
            held: Vec::new(),
        })
    }

    fn process(&mut self, burst: &mut Burst<'_>, ctx: &mut Ctx<'_>) {
        may(self, When::Process);
        for (packet, verdict) in burst.iter_mut() {
            ctx.count(self.seen, 1);
            ctx.count(self.bytes, packet.len() as u64);
            let data = packet.data();
            if data.len() < 14 {
                *verdict = Verdict::drop(self.runt);
            } else if data[12..14] == [8, 6] {
                *verdict = self.scrub.map_or(Verdict::NEXT, Verdict::divert);
            } else if data.get(23) == Some(&1) {
                if let Some(id) = ctx.hold() {
                    self.held.push(id);
                    *verdict = Verdict::hold(id);
                }
            } else if data.get(23) == Some(&6) {
                let twenty = [&data[..1]; 20];
                assert_eq!(ctx.write(self.log, &twenty, Some(5)), Ok(()));
                assert_eq!(ctx.write(self.log, &[data, data], None), Ok(()));
                assert_eq!(ctx.flush(self.log), Ok(()));
                assert_eq!(ctx.read(self.table, u64::MAX, 10, 9), Ok(()));
                assert_eq!(ctx.write(self.table, &[data], None), Err(Refused::Absent));
                assert_eq!(ctx.read(self.table, 0, 9999, 9), Err(Refused::TooLong));
            } else if data.get(23) == Some(&17) && packet.push_front(4) {
                // Room for a tag: the frame starts earlier in its buffer.
                packet.data_mut().copy_within(4..16, 0);
                packet.data_mut()[12..16].copy_from_slice(&[0x81, 0, 0, 7]);
            }
        }
        if self.shrink {
            burst.retain(|i, _| i == 0);
        }
    }

    fn completed(&mut self, done: &Completion<'_>, ctx: &mut Ctx<'_>) {
        let n = done.result.unwrap_or_else(|e| panic!("{e}"));
        match (done.file == self.log, done.context) {
            (true, Some(5) | None) => ctx.count(self.logged, n),
            (false, Some(9)) => assert_eq!((n, done.data), (0, &[][..])),
            other => panic!("{other:?}"),
        }
    }

    fn tick(&mut self, ctx: &mut Ctx<'_>) {
        may(self, When::Tick);
        if ctx.is_ending() {
            ctx.set(self.bytes, u64::MAX);
        }
        let (late, panic) = (self.late, self.panic);
        for id in self.held.drain(..) {
            ctx.with_held(id, |p| {
                assert!(panic != When::Held, "on purpose");
                p.data_mut()[0] = 0xee;
            });
            let verdict = if ctx.now_ns() > 1_000_000_000 { Verdict::drop(late) } else { Verdict::NEXT };
            ctx.release(id, verdict);
        }
    }

    fn report(&self) -> Option<String> {
        may(self, When::Report);
        Some(format!("held {}\nnow", self.held.len()))
    }
}

impl Drop for Odd {
    fn drop(&mut self) {
        may(self, When::Drop);
    }
}

chainline_nf_c::export_nf!(Odd);
