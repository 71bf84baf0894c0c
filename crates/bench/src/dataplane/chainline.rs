//! A chain of ours as dataplane under test: `chainline run --steer FILE`, started once and ordered to make trials.

use super::{Counters, Dataplane, DataplaneError};
use chainline_trial::{Order, Outcome, Ready, Reply};
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How long a chain may take to start: 100 NFs on one core.
const START: Duration = Duration::from_secs(60);
/// How much longer than ordered a trial may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long it may take to end.
const END: Duration = Duration::from_secs(10);
/// Lines of its last words that are kept.
const WORDS: usize = 12;
/// Between two looks whether the user wants an end.
const LOOK: Duration = Duration::from_millis(50);

/// A steered run. Dropping it ends the process, which ends its NFs.
pub struct Chainline {
    name: String,
    ready: Ready,
    process: Process,
    stop: Box<dyn Fn() -> bool>,
}

struct Process {
    child: Child,
    orders: Option<ChildStdin>,
    replies: Receiver<String>,
    words: Arc<Mutex<VecDeque<String>>>,
}

impl Chainline {
    /// Starts `program` with the chain file and waits until it is ready. `stop` ends a wait.
    ///
    /// # Errors
    /// When it cannot be started, does not become ready, or says something else than it should.
    pub fn start(
        name: &str,
        program: &Path,
        file: &Path,
        stop: impl Fn() -> bool + 'static,
    ) -> Result<Self, DataplaneError> {
        let mut command = Command::new(program);
        command.args(["run", "--steer", "--quiet"]).arg(file);
        Self::spawn(name, command, Box::new(stop))
    }

    fn spawn(name: &str, mut command: Command, stop: Box<dyn Fn() -> bool>) -> Result<Self, DataplaneError> {
        // Ctrl-C is for the benchmark, which then ends the run.
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let mut child = command.spawn().map_err(|source| DataplaneError::Io {
            what: format!("{name}: {}", command.get_program().display()),
            source,
        })?;
        let words = Arc::default();
        keep_words(child.stderr.take(), &words);
        let replies = lines(child.stdout.take());
        let orders = child.stdin.take();
        let mut process = Process { child, orders, replies, words };
        let not_ready = |why| DataplaneError::NotReady { what: name.to_owned(), why };
        let ready = match process.reply(START, &*stop).map_err(not_ready)? {
            Reply::Ready(ready) => ready,
            other => return Err(not_ready(format!("expected that it is ready, found {other:?}"))),
        };
        Ok(Self { name: name.to_owned(), ready, process, stop })
    }
}

impl Dataplane for Chainline {
    fn name(&self) -> &str {
        &self.name
    }

    fn ready(&self) -> &Ready {
        &self.ready
    }

    fn trial(&mut self, order: &Order) -> Result<Outcome, DataplaneError> {
        let failed = |why| DataplaneError::Failed { what: self.name.clone(), why };
        self.process.order(order).map_err(failed)?;
        let ordered = Duration::from_millis(order.warmup_ms + order.duration_ms + order.drain_ms);
        match self.process.reply(ordered + PATIENCE, &*self.stop).map_err(failed)? {
            Reply::Outcome(outcome) => Ok(*outcome),
            Reply::Refused { why } => Err(failed(format!("it refused the trial: {why}"))),
            Reply::Ready(_) => Err(failed("expected an outcome, found that it is ready again".into())),
        }
    }

    fn counters(&mut self) -> Result<Option<Counters>, DataplaneError> {
        // Its ledger is part of each outcome.
        Ok(None)
    }
}

impl Process {
    fn order(&mut self, order: &Order) -> Result<(), String> {
        let line = serde_json::to_string(order).map_err(|e| e.to_string())? + "\n";
        let sent = match &mut self.orders {
            Some(pipe) => pipe.write_all(line.as_bytes()).and_then(|()| pipe.flush()),
            None => return Err("it takes no orders any more".into()),
        };
        sent.map_err(|e| self.last_words(&format!("it takes no orders any more ({e})")))
    }

    fn reply(&mut self, within: Duration, stop: &dyn Fn() -> bool) -> Result<Reply, String> {
        let deadline = Instant::now() + within;
        loop {
            match self.replies.recv_timeout(LOOK) {
                Ok(line) => {
                    return serde_json::from_str(&line).map_err(|e| {
                        let shown: String = line.chars().take(200).collect();
                        self.last_words(&format!("expected a reply, found {shown:?} ({e})"))
                    });
                }
                Err(RecvTimeoutError::Timeout) if stop() => return Err("stopped on request".into()),
                Err(RecvTimeoutError::Timeout) if Instant::now() < deadline => {}
                Err(RecvTimeoutError::Timeout) => {
                    let seconds = within.as_secs();
                    return Err(self.last_words(&format!("no answer within {seconds} s")));
                }
                Err(RecvTimeoutError::Disconnected) => {
                    let how = match self.end() {
                        Some(status) => format!("it ended ({status})"),
                        None => "it closed its output".into(),
                    };
                    return Err(self.last_words(&how));
                }
            }
        }
    }

    /// Waits a moment for its end, so that its status can be told.
    fn end(&mut self) -> Option<std::process::ExitStatus> {
        let deadline = Instant::now() + Duration::from_secs(1);
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return Some(status),
                Ok(None) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(5)),
                _ => return None,
            }
        }
    }

    fn last_words(&self, what: &str) -> String {
        // What it said is still on its way for a moment; its reader lets go of the words at the end.
        let deadline = Instant::now() + Duration::from_millis(500);
        while Arc::strong_count(&self.words) > 1 && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        let words = self.words.lock().map(|w| w.iter().cloned().collect::<Vec<_>>().join("\n")).unwrap_or_default();
        if words.is_empty() { what.to_owned() } else { format!("{what}; its last words:\n{words}") }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The end of its input is the end of a steered run.
        self.orders = None;
        let deadline = Instant::now() + END;
        while Instant::now() < deadline {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn lines(pipe: Option<impl Read + Send + 'static>) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for line in pipe.map(BufReader::new).into_iter().flat_map(BufRead::lines).map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    receiver
}

fn keep_words(pipe: Option<impl Read + Send + 'static>, words: &Arc<Mutex<VecDeque<String>>>) {
    let words = words.clone();
    std::thread::spawn(move || {
        for line in pipe.map(BufReader::new).into_iter().flat_map(BufRead::lines).map_while(Result::ok) {
            if let Ok(mut words) = words.lock() {
                if words.len() == WORDS {
                    words.pop_front();
                }
                words.push_back(line);
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use chainline_trial::{Latency, Load};
    use serde_json::json;

    const ORDER: Order = Order { load: Load::Pps(1000.0), warmup_ms: 0, duration_ms: 1, drain_ms: 0 };

    /// A shell that plays a steered run.
    fn scripted(script: &str) -> Result<Chainline, DataplaneError> {
        let ready = Ready {
            environment: json!({}),
            generator_max_pps: 1e6,
            floor_ns: Latency::default(),
            mean_frame_bytes: 64.0,
        };
        let mut command = Command::new("sh");
        command.arg("-c").arg(script);
        command.env("READY", serde_json::to_string(&Reply::Ready(ready)).unwrap());
        let outcome = Reply::Outcome(Box::new(Outcome { received: 7, ..Outcome::default() }));
        command.env("OUTCOME", serde_json::to_string(&outcome).unwrap());
        Chainline::spawn("scripted", command, Box::new(|| false))
    }

    #[test]
    fn orders_are_answered_and_the_end_of_input_ends_it() {
        let script = r#"echo "$READY"; while read -r order; do echo "$OUTCOME"; done"#;
        let mut run = scripted(script).unwrap();
        assert_eq!(run.ready().generator_max_pps, 1e6);
        for _ in 0..3 {
            assert_eq!(run.trial(&ORDER).unwrap().received, 7);
        }
        let pid = run.process.child.id();
        drop(run);
        assert!(!Path::new(&format!("/proc/{pid}")).exists());
    }

    #[test]
    fn what_goes_wrong_is_told_with_its_last_words() {
        let failure = |script| match scripted(script) {
            Err(e) => e.to_string(),
            Ok(mut run) => run.trial(&ORDER).unwrap_err().to_string(),
        };
        let died = failure("echo no such file >&2; exit 3");
        assert!(died.contains("did not become ready") && died.contains("no such file"), "{died}");
        let died = failure(r#"echo "$READY"; read -r order; echo out of memory >&2; exit 1"#);
        assert!(died.contains("exit status: 1") && died.contains("out of memory"), "{died}");
        let nonsense = failure(r#"echo "$READY"; read -r order; echo hello"#);
        assert!(nonsense.contains("expected a reply, found \"hello\""), "{nonsense}");
        let refused = failure(r#"echo "$READY"; read -r order; echo '{"refused": {"why": "too fast"}}'; read -r x"#);
        assert!(refused.contains("it refused the trial: too fast"), "{refused}");
    }

    #[test]
    fn a_wait_ends_on_request() {
        let mut run = scripted(r#"echo "$READY"; while read -r order; do :; done"#).unwrap();
        run.stop = Box::new(|| true);
        assert!(run.trial(&ORDER).unwrap_err().to_string().contains("stopped on request"));
    }
}
