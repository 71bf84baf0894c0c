//! A logger that dies with packets in its hands that wait for the disk.

use chainline_nf::{Burst, Completion, Ctx, Env, Error, Nf};
use nf_logger::Logger;
use rustix::process::{Signal, getpid, kill_process};

pub struct Dying {
    logger: Logger,
    seen: u64,
    /// Dies when it has seen so many.
    after: Option<u64>,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Name of a script with a line `kill N`.
    script: String,
    logger: nf_logger::Args,
}

impl Nf for Dying {
    const KIND: &'static str = "dying_logger";
    const ABOUT: &'static str = "a logger that dies as its script says";
    type Args = Args;

    fn new(args: Args, env: &mut Env<'_>) -> Result<Self, Error> {
        let line = crate::script::next_life(&env.path(format!("{}.script", args.script)));
        let after = line.as_deref().map(|l| crate::script::word(l).1);
        Ok(Self { logger: Logger::new(args.logger, env)?, seen: 0, after })
    }

    fn process(&mut self, burst: &mut Burst<'_>, ctx: &mut Ctx<'_>) {
        // Those of the bursts before are held, and shown as held.
        if self.after.is_some_and(|n| self.seen >= n) {
            kill_process(getpid(), Signal::KILL).unwrap();
        }
        self.seen += burst.len() as u64;
        self.logger.process(burst, ctx);
    }

    fn completed(&mut self, done: &Completion<'_>, ctx: &mut Ctx<'_>) {
        self.logger.completed(done, ctx);
    }
}
