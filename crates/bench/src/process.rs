//! Processes of a dataplane: with a deadline, in groups of their own, and with their last words kept.

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Output that is kept of a process, in bytes; older output is forgotten.
const KEPT: usize = 256 << 10;

/// A program on the path, as `execvp` finds it.
#[must_use]
pub fn find(program: &str) -> Option<PathBuf> {
    use std::os::unix::fs::PermissionsExt;
    let runs = |p: &PathBuf| p.metadata().is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0);
    if program.contains('/') {
        return Some(PathBuf::from(program)).filter(runs);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    // root's programs are not on everybody's path.
    let dirs = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    dirs.map(|d| d.join(program)).find(runs)
}

/// A command as a person would type it.
#[must_use]
pub fn line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|w| w.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// What a process has printed, on both of its outputs.
#[derive(Debug, Default)]
struct Output {
    state: Mutex<OutputState>,
    more: Condvar,
}

#[derive(Debug, Default)]
struct OutputState {
    bytes: Vec<u8>,
    /// Bytes that were forgotten before the first of `bytes`.
    forgotten: usize,
    /// Pipes that are still open.
    open: u32,
}

impl Output {
    fn drain(self: &Arc<Self>, mut from: impl Read + Send + 'static) {
        self.lock().open += 1;
        let this = self.clone();
        std::thread::spawn(move || {
            let mut block = [0; 4096];
            while let Ok(n) = from.read(&mut block)
                && n > 0
            {
                let mut state = this.lock();
                state.bytes.extend_from_slice(&block[..n]);
                // Forgets by halves, so that each byte is moved once at most.
                if state.bytes.len() > 2 * KEPT {
                    let old = state.bytes.len() - KEPT;
                    state.bytes.drain(..old);
                    state.forgotten += old;
                }
                drop(state);
                this.more.notify_all();
            }
            this.lock().open -= 1;
            this.more.notify_all();
        });
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, OutputState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was printed after the first `from` bytes.
    fn since(&self, from: usize) -> String {
        let state = self.lock();
        let start = from.saturating_sub(state.forgotten).min(state.bytes.len());
        String::from_utf8_lossy(&state.bytes[start..]).into_owned()
    }

    fn len(&self) -> usize {
        let state = self.lock();
        state.forgotten + state.bytes.len()
    }
}

/// What the kernel sends a process when the *thread* that started it ends, so that a dead bench leaves none; the thread
/// must therefore live as long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tie {
    /// SIGTERM, for what then ends in good order.
    Term,
    /// SIGKILL, for anything.
    Kill,
}

/// A process that was started, and everything that it started unless that went into a group of its own. Dropping it
/// kills the group.
#[derive(Debug)]
pub struct Process {
    child: Child,
    line: String,
    output: Arc<Output>,
    stdin: Option<ChildStdin>,
    ended: Option<End>,
    /// Its end was taken from the kernel: its number may be another's by now.
    reaped: bool,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// With this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

impl std::fmt::Display for End {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Code(code) => write!(f, "ended with {code}"),
            Self::Signal(signal) => write!(f, "was ended by signal {signal}"),
        }
    }
}

impl Process {
    /// Starts `command` in a group of its own: a Ctrl-C for the bench is not one for it. It is killed with the bench.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(command: &Command) -> std::io::Result<Self> {
        let mut this = Self::spawn(command, Tie::Kill)?;
        this.child.stdout.take().into_iter().for_each(|p| this.output.drain(p));
        Ok(this)
    }

    /// The same, for one whose standard output is a conversation: its lines come by the channel, and only what it
    /// says on standard error counts as its words. The channel ends with the output, or after a line that is longer
    /// than `longest` bytes.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn converse(command: &Command, longest: u64, tie: Tie) -> std::io::Result<(Self, Receiver<String>)> {
        let mut this = Self::spawn(command, tie)?;
        let (send, receive) = sync_channel(16);
        if let Some(stdout) = this.child.stdout.take() {
            std::thread::spawn(move || {
                let mut from = BufReader::new(stdout);
                let mut line = String::new();
                while (&mut from).take(longest).read_line(&mut line).is_ok_and(|n| n > 0) && line.ends_with('\n') {
                    if send.send(std::mem::take(&mut line)).is_err() {
                        break;
                    }
                }
            });
        }
        Ok((this, receive))
    }

    fn spawn(command: &Command, tie: Tie) -> std::io::Result<Self> {
        let line = line(command);
        let mut tied = match find("setpriv") {
            Some(setpriv) => {
                let signal = if tie == Tie::Term { "TERM" } else { "KILL" };
                let mut tied = Command::new(setpriv);
                tied.args(["--pdeathsig", signal, "--"]).arg(command.get_program());
                tied
            }
            // A lab asks for it; a chain of ours ends with its input, too.
            None => Command::new(command.get_program()),
        };
        tied.args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => tied.env(name, value),
                None => tied.env_remove(name),
            };
        }
        if let Some(dir) = command.get_current_dir() {
            tied.current_dir(dir);
        }
        tied.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = tied.spawn()?;
        let output = Arc::new(Output::default());
        child.stderr.take().into_iter().for_each(|p| output.drain(p));
        let stdin = child.stdin.take();
        Ok(Self { child, line, output, stdin, ended: None, reaped: false })
    }

    /// The command.
    #[must_use]
    pub fn line(&self) -> &str {
        &self.line
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, if it has. The kernel is not told that this is known, so that its number stays its own and its
    /// group can be killed.
    pub fn ended(&mut self) -> Option<End> {
        if self.ended.is_none()
            && let Some(pid) = self.raw()
            && let Ok(Some(status)) =
                waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT)
        {
            let signal = status.terminating_signal().map(End::Signal);
            self.ended = signal.or(status.exit_status().map(End::Code));
        }
        self.ended
    }

    fn raw(&self) -> Option<Pid> {
        i32::try_from(self.child.id()).ok().and_then(Pid::from_raw)
    }

    /// Where its output stands now; what is printed later is told from what was printed before.
    #[must_use]
    pub fn mark(&self) -> usize {
        self.output.len()
    }

    /// What it has printed since a mark.
    #[must_use]
    pub fn since(&self, mark: usize) -> String {
        self.output.since(mark)
    }

    /// The last lines of its output, for messages.
    #[must_use]
    pub fn last_words(&self) -> String {
        last_words(&self.output.since(0))
    }

    /// Says a line. One that does not listen holds nobody up longer than a pipe has room.
    ///
    /// # Errors
    /// When its standard input is closed.
    pub fn say(&mut self, line: &str) -> std::io::Result<()> {
        let stdin = self.stdin.as_mut().ok_or_else(|| std::io::Error::from(std::io::ErrorKind::BrokenPipe))?;
        stdin.write_all(line.as_bytes())?;
        stdin.write_all(b"\n")?;
        stdin.flush()
    }

    /// Waits until `good` is content with the output since `mark`, the process has ended and said all, or the time is
    /// over. Whether `good` was content.
    pub fn until(&mut self, mark: usize, within: Duration, mut good: impl FnMut(&str) -> bool) -> bool {
        let deadline = Instant::now() + within;
        let mut seen = usize::MAX;
        loop {
            let len = self.output.len();
            if len != seen {
                seen = len;
                if good(&self.output.since(mark)) {
                    return true;
                }
                continue;
            }
            let ended = self.ended().is_some();
            let state = self.output.lock();
            let now = Instant::now();
            if (state.open == 0 && ended) || now >= deadline {
                let unchanged = state.forgotten + state.bytes.len() == seen;
                drop(state);
                return !unchanged && good(&self.output.since(mark));
            }
            // The end of the process alone wakes nobody.
            let nap = (deadline - now).min(Duration::from_millis(20));
            drop(self.output.more.wait_timeout(state, nap));
        }
    }

    /// Waits for its end.
    pub fn wait(&mut self, within: Duration) -> Option<End> {
        let deadline = Instant::now() + within;
        loop {
            if self.ended().is_some() || Instant::now() >= deadline {
                return self.ended;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits for its end, and for the rest of its output.
    pub fn finish(&mut self, within: Duration) -> Option<End> {
        self.stdin = None;
        let ended = self.wait(within)?;
        // A grandchild may hold the pipes for ever.
        let _ = self.until(0, Duration::from_millis(200), |_| false);
        Some(ended)
    }

    /// SIGTERM, and SIGKILL for what still runs after `grace`.
    pub fn stop(&mut self, grace: Duration) {
        if self.reaped {
            return;
        }
        if self.ended().is_none() {
            self.signal(Signal::TERM);
            self.wait(grace);
        }
        // Even if the process itself has ended: others of its group may not have.
        self.signal(Signal::KILL);
        // A killed process ends; only one that hangs in a device does not, and nobody is to hang with it.
        if self.wait(Duration::from_secs(2)).is_some() {
            self.reaped = self.child.wait().is_ok();
        }
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.raw() {
            let _ = kill_process_group(group, signal);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.stop(Duration::ZERO);
    }
}

/// The last lines of a text.
#[must_use]
pub fn last_words(text: &str) -> String {
    const LINES: usize = 6;
    const BYTES: usize = 800;
    let lines: Vec<_> = text.lines().map(str::trim_end).filter(|l| !l.is_empty()).collect();
    let words = lines[lines.len().saturating_sub(LINES)..].join("\n");
    let start = words.len().saturating_sub(BYTES);
    let start = (start..words.len()).find(|i| words.is_char_boundary(*i)).unwrap_or(words.len());
    words[start..].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Process {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Process::start(&command).unwrap()
    }

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn output_is_waited_for() {
        let mut p = shell("echo one; read x; echo got $x; exec sleep 600");
        assert!(p.until(0, LONG, |t| t.contains("one")));
        let mark = p.mark();
        p.say("two").unwrap();
        assert!(p.until(mark, LONG, |t| t == "got two\n"));
        assert!(!p.until(mark, Duration::from_millis(30), |t| t.contains("three")));
        assert!(p.ended().is_none());
        p.stop(LONG);
        assert!(p.ended().is_some());
    }

    #[test]
    fn the_end_is_seen_and_the_group_goes() {
        let mut p = shell("sleep 600 & echo $!; exit 3");
        assert!(p.until(0, LONG, |t| t.ends_with('\n')));
        let child: u32 = p.since(0).trim().parse().unwrap();
        assert_eq!(p.wait(LONG), Some(End::Code(3)));
        p.stop(LONG);
        let gone = || !std::path::Path::new(&format!("/proc/{child}")).exists() || zombie(child);
        let began = Instant::now();
        while !gone() && began.elapsed() < LONG {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(gone(), "{child} stays");
    }

    fn zombie(pid: u32) -> bool {
        procfs::process::Process::new(pid as i32).and_then(|p| p.stat()).is_ok_and(|s| s.state == 'Z')
    }

    #[test]
    fn endless_output_is_forgotten() {
        let mut p = shell("yes 0123456789012345678901234567890123456789 | head -c 3000000; echo end; exec sleep 600");
        assert!(p.until(0, LONG, |t| t.ends_with("end\n")));
        assert!(p.since(0).len() <= 2 * KEPT && p.mark() == 3_000_004);
        assert!(p.last_words().len() <= 800);
    }

    #[test]
    fn who_ignores_sigterm_is_killed() {
        let mut p = shell("trap '' TERM; echo on; while :; do sleep 600; done");
        assert!(p.until(0, LONG, |t| t.contains("on")));
        p.stop(Duration::from_millis(50));
        assert_eq!(p.ended(), Some(End::Signal(9)));
    }
}
