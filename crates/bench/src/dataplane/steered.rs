//! Whatever speaks the steering protocol (`chainline run --steer`): started once and ordered to make trials. A chain of
//! ours with generator and sink inside is a dataplane of this kind; so is the tester around another dataplane.

use super::{Counters, Dataplane, DataplaneError};
use crate::core_to_core;
use crate::process::{Process, Tie};
use chainline_trial::{Order, Outcome, Ready, Reply};
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// How long it may take to start: 100 NFs on one core, DPDK, and the generator's measuring of itself.
pub const START: Duration = Duration::from_secs(60);
/// How much longer than ordered a trial may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long it may take to end.
const END: Duration = Duration::from_secs(10);
/// What a dataplane's environment says of how far its cores were from each other as it was started.
pub const CORE_TO_CORE: &str = "core_to_core_ns";
/// Longest line of a reply in bytes: a histogram of the whole range takes a few kilobytes, and there is one a trial.
const LONGEST: u64 = 16 << 20;
/// Between two looks whether the user wants an end.
const LOOK: Duration = Duration::from_millis(50);

/// Whether the user wants an end.
pub type Asked = fn() -> bool;

/// A steered run. Dropping it ends its input, which is its end; what has not ended by then is ended by force.
#[derive(Debug)]
pub struct Steered {
    name: String,
    ready: Ready,
    process: Process,
    replies: Receiver<String>,
    stop: Asked,
}

impl Steered {
    /// Starts `program` with a chain file and waits until it is ready.
    ///
    /// # Errors
    /// As [`Steered::start`].
    pub fn chain(name: &str, program: &Path, file: &Path, stop: Asked) -> Result<Self, DataplaneError> {
        let mut command = Command::new(program);
        command.args(["run", "--steer", "--quiet"]).arg(file);
        Self::start(name, &command, START, stop)
    }

    /// Starts a command that speaks the protocol, and waits until it is ready. `stop` ends every wait.
    ///
    /// # Errors
    /// When it cannot be started, is not ready in time, or says something else than it should.
    pub fn start(name: &str, command: &Command, within: Duration, stop: Asked) -> Result<Self, DataplaneError> {
        // Now, when both cores are idle.
        let distance = core_to_core::first_two().ok();
        // SIGTERM ends a steered run in good order, so that nothing of it is left when the bench is killed.
        let (mut process, replies) = Process::converse(command, LONGEST, Tie::Term).map_err(|source| {
            DataplaneError::Io { what: format!("{name}: {}", crate::process::line(command)), source }
        })?;
        let not_ready = |why| DataplaneError::NotReady { what: name.to_owned(), why };
        match hear(&mut process, &replies, within, stop).map_err(not_ready)? {
            Reply::Ready(mut ready) => {
                if let (Some(ns), Some(all)) = (distance, ready.environment.as_object_mut()) {
                    all.insert(CORE_TO_CORE.into(), ns.round().into());
                }
                Ok(Self { name: name.to_owned(), ready, process, replies, stop })
            }
            Reply::Refused { why } => Err(not_ready(why)),
            Reply::Outcome(_) => {
                Err(not_ready("found the outcome of a trial before any order, expected that it is ready".into()))
            }
        }
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }
}

impl Dataplane for Steered {
    fn name(&self) -> &str {
        &self.name
    }

    fn ready(&self) -> &Ready {
        &self.ready
    }

    fn trial(&mut self, order: &Order) -> Result<Outcome, DataplaneError> {
        let failed = |why| DataplaneError::Failed { what: self.name.clone(), why };
        let line = serde_json::to_string(order).map_err(|e| failed(e.to_string()))?;
        if let Err(e) = self.process.say(&line) {
            let end = ending(&mut self.process).unwrap_or_default();
            return Err(failed(format!("it takes no orders any more ({e}){end}")));
        }
        let ms = [order.warmup_ms, order.duration_ms, order.drain_ms].iter().fold(0, |a: u64, b| a.saturating_add(*b));
        let within = Duration::from_millis(ms).saturating_add(PATIENCE);
        match hear(&mut self.process, &self.replies, within, self.stop).map_err(failed)? {
            Reply::Outcome(outcome) => Ok(*outcome),
            Reply::Refused { why } => Err(DataplaneError::Refused { what: self.name.clone(), why }),
            Reply::Ready(_) => Err(failed("it says again that it is ready: it was started anew".into())),
        }
    }

    fn counters(&mut self) -> Result<Option<Counters>, DataplaneError> {
        // Its ledger is part of each outcome.
        Ok(None)
    }
}

impl Drop for Steered {
    fn drop(&mut self) {
        self.process.finish(END);
    }
}

/// The next reply.
fn hear(process: &mut Process, replies: &Receiver<String>, within: Duration, stop: Asked) -> Result<Reply, String> {
    let deadline = Instant::now().checked_add(within);
    loop {
        match replies.recv_timeout(LOOK.min(within)) {
            Ok(line) => {
                return serde_json::from_str(&line).map_err(|e| {
                    let start: String = line.trim_end().chars().take(200).collect();
                    format!("found {start:?}, expected a line of the steering protocol: {e}{}", words(process))
                });
            }
            Err(RecvTimeoutError::Timeout) if stop() => return Err("stopped on request".into()),
            Err(RecvTimeoutError::Timeout) if deadline.is_none_or(|d| Instant::now() < d) => {}
            Err(RecvTimeoutError::Timeout) => {
                return Err(format!("it did not answer within {} s{}", within.as_secs(), words(process)));
            }
            Err(RecvTimeoutError::Disconnected) => {
                return Err(ending(process).unwrap_or_else(|| format!("it closed its output{}", words(process))));
            }
        }
    }
}

/// How it ended, if it does within moments.
fn ending(process: &mut Process) -> Option<String> {
    let end = process.finish(Duration::from_secs(5))?;
    Some(format!("it {end}{}", words(process)))
}

fn words(process: &Process) -> String {
    let words = process.last_words();
    if words.is_empty() { String::new() } else { format!("; its last words: {words}") }
}
