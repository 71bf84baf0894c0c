//! NFs that do as they are told.

use chainline_nf::{Burst, Ctx, Env, Error, HoldId, Kind, Nf, NfObject, Reason, Registry, Target, Verdict};
use rustix::process::{Signal, getpid, kill_process};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use std::collections::VecDeque;

/// Builds them, in the process or in the manager.
///
/// # Errors
/// As the NF itself, or for a kind that is not here.
pub fn build(kind: &str, args: Value, env: &mut Env<'_>) -> Result<Box<dyn NfObject>, Error> {
    let all = [
        Kind::of::<Pass>(),
        Kind::of::<Chatty>(),
        Kind::of::<Fault>(),
        Kind::of::<Hold>(),
        Kind::of::<Split>(),
        Kind::of::<Table>(),
        Kind::of::<crate::logs::Dying>(),
        Kind::of::<crate::tally::Tally>(),
        nf_logger::KIND,
        nf_monitor::KIND,
    ];
    let registry = Registry::new(all);
    let kind = registry.get(kind).ok_or_else(|| Error::Library(format!("no kind {kind:?}")))?;
    (kind.build)(args, env)
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NoArgs {}

/// Lets every packet pass.
struct Pass;

impl Nf for Pass {
    const KIND: &'static str = "pass";
    const ABOUT: &'static str = "lets every packet pass";
    type Args = NoArgs;

    fn new(_: NoArgs, _: &mut Env<'_>) -> Result<Self, Error> {
        Ok(Self)
    }
    fn process(&mut self, _: &mut Burst<'_>, _: &mut Ctx<'_>) {}
}

/// Has something to say after each tick, and a way with terminals.
struct Chatty(u64);

impl Nf for Chatty {
    const KIND: &'static str = "chatty";
    const ABOUT: &'static str = "talks all the time";
    type Args = NoArgs;

    fn new(_: NoArgs, _: &mut Env<'_>) -> Result<Self, Error> {
        Ok(Self(0))
    }
    fn process(&mut self, _: &mut Burst<'_>, _: &mut Ctx<'_>) {}
    fn tick(&mut self, _: &mut Ctx<'_>) {
        self.0 += 1;
    }
    fn news(&mut self) -> Option<String> {
        Some(format!("news {}\x1b[2J\n{}", self.0, "x".repeat(100_000)))
    }
    fn report(&self) -> Option<String> {
        Some(self.0.to_string())
    }
}

/// Lets packets pass until its script says that this life is over.
struct Fault {
    seen: u64,
    /// What to do, after how many packets.
    fault: Option<(String, u64)>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct FaultArgs {
    /// The script's name without `.script`.
    script: String,
}

impl Nf for Fault {
    const KIND: &'static str = "fault";
    const ABOUT: &'static str = "dies as its script says";
    type Args = FaultArgs;

    fn new(args: FaultArgs, env: &mut Env<'_>) -> Result<Self, Error> {
        let line = crate::script::next_life(&env.path(format!("{}.script", args.script)));
        let fault = line.as_deref().map(crate::script::word).map(|(word, after)| (word.to_owned(), after));
        match fault {
            Some((word, _)) if word == "unbuildable" => {
                Err(Error::Args("args.script: unbuildable in this life".into()))
            }
            fault => Ok(Self { seen: 0, fault }),
        }
    }

    fn process(&mut self, burst: &mut Burst<'_>, _: &mut Ctx<'_>) {
        self.seen += burst.len() as u64;
        let Some((word, after)) = &self.fault else { return };
        if self.seen < *after {
            return;
        }
        match word.as_str() {
            "abort" => std::process::abort(),
            "panic" => panic!("panicked as the script says"),
            "exit" => std::process::exit(7),
            "segv" => kill_process(getpid(), Signal::SEGV).unwrap(),
            "kill" => kill_process(getpid(), Signal::KILL).unwrap(),
            "spin" => loop {
                std::hint::spin_loop();
            },
            other => panic!("no such fault: {other}"),
        }
    }
}

/// Holds packets and lets them go some ticks later, in order.
struct Hold {
    ticks: u64,
    now: u64,
    held: VecDeque<(u64, HoldId)>,
    /// Dies with so many packets in its hands.
    dies_with: Option<usize>,
    /// Where every third held packet goes when it is released, and every other third ends.
    divert: Option<Target>,
    third: Reason,
    released: u64,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct HoldArgs {
    /// Ticks from hold to release.
    ticks: u64,
    /// Name of a script with a line `kill N`.
    #[serde(default)]
    script: Option<String>,
    /// Held packets are diverted, dropped and passed on in turn.
    #[serde(default)]
    thirds: Option<String>,
}

impl Nf for Hold {
    const KIND: &'static str = "hold";
    const ABOUT: &'static str = "holds packets for a while";
    type Args = HoldArgs;

    fn new(args: HoldArgs, env: &mut Env<'_>) -> Result<Self, Error> {
        let line = args.script.and_then(|s| crate::script::next_life(&env.path(format!("{s}.script"))));
        Ok(Self {
            ticks: args.ticks,
            now: 0,
            held: VecDeque::new(),
            dies_with: line.as_deref().map(|l| crate::script::word(l).1 as usize),
            divert: args.thirds.map(|name| env.target(&name)).transpose()?,
            third: env.drop_reason("third"),
            released: 0,
        })
    }

    fn process(&mut self, burst: &mut Burst<'_>, ctx: &mut Ctx<'_>) {
        for (_, verdict) in burst.iter_mut() {
            if let Some(id) = ctx.hold() {
                *verdict = Verdict::hold(id);
                self.held.push_back((self.now + self.ticks, id));
            }
        }
        if self.dies_with.is_some_and(|n| self.held.len() >= n) {
            kill_process(getpid(), Signal::KILL).unwrap();
        }
    }

    fn tick(&mut self, ctx: &mut Ctx<'_>) {
        self.now += 1;
        while let Some((_, id)) = self.held.front().copied().filter(|(due, _)| *due <= self.now) {
            self.held.pop_front();
            let verdict = match (self.divert, self.released % 3) {
                (Some(target), 0) => Verdict::divert(target),
                (Some(_), 1) => Verdict::drop(self.third),
                _ => Verdict::NEXT,
            };
            assert!(ctx.release(id, verdict), "a packet that is not held");
            self.released += 1;
        }
    }

    fn report(&self) -> Option<String> {
        Some(format!("released {}", self.released))
    }
}

/// Diverts every second packet.
struct Split {
    to: Target,
    seen: usize,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SplitArgs {
    to: String,
}

impl Nf for Split {
    const KIND: &'static str = "split";
    const ABOUT: &'static str = "diverts every second packet";
    type Args = SplitArgs;

    fn new(args: SplitArgs, env: &mut Env<'_>) -> Result<Self, Error> {
        Ok(Self { to: env.target(&args.to)?, seen: 0 })
    }

    fn process(&mut self, burst: &mut Burst<'_>, _: &mut Ctx<'_>) {
        for (_, verdict) in burst.iter_mut() {
            if self.seen % 2 == 1 {
                *verdict = Verdict::divert(self.to);
            }
            self.seen += 1;
        }
    }
}

/// Reads a file of numbers, one a line.
struct Table;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TableArgs {
    file: String,
}

impl Nf for Table {
    const KIND: &'static str = "table";
    const ABOUT: &'static str = "reads a file of numbers";
    type Args = TableArgs;

    fn new(args: TableArgs, env: &mut Env<'_>) -> Result<Self, Error> {
        for (n, line) in env.read(&args.file)?.lines().enumerate() {
            let digits = line.bytes().take_while(u8::is_ascii_digit).count();
            if digits < line.len() || line.is_empty() {
                let found = line.get(digits..).unwrap_or_default();
                let message = format!("found {found:?}, expected a number");
                return Err(Error::at(&env.path(&args.file), n + 1, digits + 1, message));
            }
        }
        Ok(Self)
    }
    fn process(&mut self, _: &mut Burst<'_>, _: &mut Ctx<'_>) {}
}
