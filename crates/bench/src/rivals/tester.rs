//! The tester: `chainline run --steer` with a generator that stamps its frames and a sink that checks them, in the
//! lab's own namespace and on its own core. One process, so one clock.

use super::lab::{DESTINATIONS, Lab, SOURCES};
use super::process::Process;
use crate::dataplane::DataplaneError;
use chainline_trial::{Order, Outcome, Ready, Reply};
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

/// Longest line of a reply: a histogram of the whole range takes a few kilobytes, and there is one by trial.
const LONGEST: u64 = 16 << 20;
/// Time that a tester has to start: DPDK, and the self-test.
const START: Duration = Duration::from_secs(60);
/// Time beyond a trial's own after which the tester counts as hanging.
const SLACK: Duration = Duration::from_secs(20);

/// What the tester sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traffic {
    /// Length of each frame with FCS.
    pub frame_bytes: u16,
    /// Number of flows.
    pub flows: u32,
}

/// A tester that answers.
#[derive(Debug)]
pub struct Tester {
    process: Process,
    replies: Receiver<String>,
    ready: Ready,
}

/// The tester's chain file.
#[must_use]
pub fn chain_file(lab: &Lab, traffic: Traffic, core: usize) -> String {
    let [to, from] = lab.tester_ports();
    let Traffic { frame_bytes, flows } = traffic;
    format!(
        "apiVersion: chainline/v1alpha1
kind: ServiceChain
metadata: {{name: tester}}
spec:
  defaults: {{manager_core: {core}}}
  ports:
    generator: {{generator: {{frame_bytes: {frame_bytes}, flows: {flows}, src: {SOURCES}, dst: {DESTINATIONS}, stamp: true}}}}
    to: {to}
    from: {from}
    sink: {{sink: {{check: true}}}}
  chains:
    - {{name: there, path: [generator, to]}}
    - {{name: back, path: [from, sink]}}
"
    )
}

impl Tester {
    /// Starts the tester in its lab.
    ///
    /// # Errors
    /// When it does not become ready.
    pub fn start(lab: &Lab, traffic: Traffic, core: usize, chainline: &Path) -> Result<Self, DataplaneError> {
        let file = lab.dir().join("tester.yaml");
        std::fs::write(&file, chain_file(lab, traffic, core))
            .map_err(|source| DataplaneError::Io { what: file.display().to_string(), source })?;
        let mut command = lab.inside(&lab.tester());
        command.args(["taskset", "-c", &core.to_string()]).arg(chainline).args(["run", "--steer"]).arg(&file);
        Self::converse(&command, START)
    }

    /// Talks with whatever speaks the protocol.
    ///
    /// # Errors
    /// When it does not say in time that it is ready.
    pub fn converse(command: &Command, within: Duration) -> Result<Self, DataplaneError> {
        let (mut process, replies) = Process::converse(command, LONGEST)
            .map_err(|source| DataplaneError::Io { what: super::process::line(command), source })?;
        match hear(&mut process, &replies, within) {
            Ok(Reply::Ready(ready)) => Ok(Self { process, replies, ready }),
            Ok(Reply::Refused { why }) | Err(why) => Err(DataplaneError::NotReady { what: NAME.into(), why }),
            Ok(Reply::Outcome(_)) => {
                let why = "found the outcome of a trial before any order, expected that it is ready".into();
                Err(DataplaneError::NotReady { what: NAME.into(), why })
            }
        }
    }

    /// What is known before the first trial.
    #[must_use]
    pub fn ready(&self) -> &Ready {
        &self.ready
    }

    /// One trial.
    ///
    /// # Errors
    /// When it refuses the order, ends, hangs, or answers something else.
    pub fn trial(&mut self, order: &Order) -> Result<Outcome, DataplaneError> {
        let failed = |why: String| DataplaneError::Failed { what: NAME.into(), why };
        let line = serde_json::to_string(order).map_err(|e| failed(e.to_string()))?;
        self.process
            .say(&line)
            .map_err(|e| failed(format!("it does not listen: {e}; {}", self.process.last_words())))?;
        let ms = [order.warmup_ms, order.duration_ms, order.drain_ms].iter().fold(0, |a: u64, b| a.saturating_add(*b));
        let within = Duration::from_millis(ms).saturating_add(SLACK);
        match hear(&mut self.process, &self.replies, within).map_err(failed)? {
            Reply::Outcome(outcome) => Ok(*outcome),
            Reply::Refused { why } => Err(failed(format!("it refused the order {line}: {why}"))),
            Reply::Ready(_) => Err(failed("it says again that it is ready: it was started anew".into())),
        }
    }
}

const NAME: &str = "the tester";

/// The next reply.
fn hear(process: &mut Process, replies: &Receiver<String>, within: Duration) -> Result<Reply, String> {
    match replies.recv_timeout(within) {
        Ok(line) => serde_json::from_str(&line).map_err(|e| {
            let start: String = line.trim_end().chars().take(200).collect();
            format!("found {start:?}, expected a line of the steering protocol: {e}")
        }),
        Err(RecvTimeoutError::Timeout) => {
            Err(format!("it did not answer within {} s; {}", within.as_secs(), process.last_words()))
        }
        Err(RecvTimeoutError::Disconnected) => {
            let end = process.finish(Duration::from_secs(5)).map_or("closed its output".into(), |end| end.to_string());
            Err(format!("it {end}; its last words: {}", process.last_words()))
        }
    }
}
