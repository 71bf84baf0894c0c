//! One instance from its start to its end, and again.

use super::news::Patience;
use super::tables::{self, Share, Tables};
use super::usage::{NfTotals, Usage};
use super::{RunError, counters};
use crate::fabric::{Fabric, HOLDS};
use crate::report::Counters;
use chainline_chain::plan::{Host, Plan};
use chainline_nf::Declared;
use chainline_runtime::setup::{Built, FromInstance, Last, Start, TableSetup};
use chainline_runtime::wire::{self, WireError};
use chainline_runtime::{Builder, serve};
use chainline_shm::{Page, PageLayout};
use chainline_storage::StorageReport;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The first restart comes after this; each further one after twice the time.
const FIRST_BACKOFF: Duration = Duration::from_millis(10);
/// The longest time between restarts.
const LAST_BACKOFF: Duration = Duration::from_secs(5);
/// Whoever ran for so long begins anew with [`FIRST_BACKOFF`].
const HEALTHY: Duration = Duration::from_secs(10);
/// A dead process is gone when its parent has waited for it; the kernel closes its socket a little earlier.
const REAP: Duration = Duration::from_millis(50);

/// Where an instance is in its life.
pub(super) enum State {
    /// Spawned; it builds its NFs.
    Building,
    /// It has its page and is about to run.
    Attaching,
    /// It runs.
    Running,
    /// Dead; to be started again at that time.
    Down(Instant),
    /// Ended as told.
    Ended,
}

enum Body {
    Process(Child),
    Thread(JoinHandle<()>),
}

/// One instance.
pub(super) struct Instance {
    pub index: usize,
    queues: usize,
    nfs: usize,
    /// By NF.
    shares: Vec<Option<Share>>,
    pub name: String,
    pub state: State,
    pub socket: Option<OwnedFd>,
    body: Option<Body>,
    pub page: Option<Arc<Page>>,
    pub tid: Option<i32>,
    pub declared: Vec<Declared>,
    pub reports: Vec<Option<String>>,
    pub storage: Vec<Option<StorageReport>>,
    pub restarts: u64,
    /// From spawn to running, the first time.
    pub start_ns: Option<u64>,
    /// It was started while the chains ran.
    pub late: bool,
    /// Why it could not be started then.
    pub failed: Option<String>,
    /// It is not to come back.
    pub gone: bool,
    /// Why the manager killed it, if it did.
    pub killed_for: Option<String>,
    last_words: Option<String>,
    patience: Patience,
    told_to_stop: bool,
    backoff: Duration,
    spawned: Instant,
    pub usage: Usage,
    /// What earlier incarnations counted, by NF.
    pub before: Vec<NfTotals>,
    counted: Vec<Counters>,
}

/// What came of looking at an instance.
pub(super) enum Change {
    /// Nothing that others need to know.
    None,
    /// It has its page and runs.
    Running(Arc<Page>),
    /// One of its NFs has something to say: which, and what.
    Said(usize, String),
    /// It could not be built.
    Failed(String),
    /// It is dead: why.
    Died(String),
    /// It ended as told.
    Ended,
}

impl Instance {
    pub fn new(index: usize, plan: &Plan) -> Self {
        let p = &plan.instances[index];
        Self {
            index,
            queues: p.queues.len(),
            nfs: p.nfs.len(),
            shares: tables::shares(plan, index),
            name: p.name.clone(),
            state: State::Ended,
            socket: None,
            body: None,
            page: None,
            tid: None,
            declared: Vec::new(),
            reports: Vec::new(),
            storage: Vec::new(),
            restarts: 0,
            start_ns: None,
            late: false,
            failed: None,
            gone: false,
            killed_for: None,
            last_words: None,
            patience: Patience::new(Instant::now()),
            told_to_stop: false,
            backoff: FIRST_BACKOFF,
            spawned: Instant::now(),
            usage: Usage::default(),
            before: vec![NfTotals::default(); p.nfs.len()],
            counted: vec![Counters::new(); p.nfs.len()],
        }
    }

    /// One that is started while the chains run.
    pub fn late(index: usize, plan: &Plan) -> Self {
        Self { late: true, ..Self::new(index, plan) }
    }

    /// It has been ended for good; what it counted stays.
    pub fn retire(&mut self) {
        self.close_page();
        self.tid = None;
        self.state = State::Ended;
    }

    /// What its page says is what an earlier incarnation counted, from now on.
    fn close_page(&mut self) {
        let Some(page) = self.page.take() else { return };
        for (i, total) in self.before.iter_mut().enumerate() {
            total.add(page.nf(i));
        }
        for (i, (sum, declared)) in self.counted.iter_mut().zip(&self.declared).enumerate() {
            counters::add(sum, declared, page.counters(i));
        }
    }

    /// The own counters of its `nf`th NF, over all incarnations.
    pub fn counters(&self, nf: usize) -> Counters {
        let mut sum = self.counted.get(nf).cloned().unwrap_or_default();
        if let (Some(page), Some(declared)) = (&self.page, self.declared.get(nf)) {
            counters::add(&mut sum, declared, page.counters(nf));
        }
        sum
    }

    /// Starts it and sends it its setup.
    pub fn spawn(
        &mut self,
        plan: &Plan,
        fabric: &Fabric,
        dir: &Path,
        program: &Path,
        builder: &Arc<Builder>,
    ) -> Result<(), RunError> {
        let fail = |what: String| RunError::Spawn { instance: self.name.clone(), what };
        let (ours, theirs) = wire::pair().map_err(|e| fail(e.to_string()))?;
        self.spawned = Instant::now();
        self.body = Some(match plan.instances[self.index].host {
            Host::Process => {
                let mut command = Command::new(program);
                // A group of its own: Ctrl-C is for the manager, which drains first.
                command.arg("nf-host").arg(&self.name).stdin(Stdio::from(theirs)).process_group(0);
                chainline_shm::os::share_no_files(&mut command);
                Body::Process(command.spawn().map_err(|e| fail(format!("{}: {e}", program.display())))?)
            }
            Host::Thread => {
                let builder = builder.clone();
                let thread = std::thread::Builder::new().name(self.name.clone()).spawn(move || {
                    // What went wrong was said over the socket.
                    let _ = serve(theirs, &*builder);
                });
                Body::Thread(thread.map_err(|e| fail(e.to_string()))?)
            }
        });
        let (setup, fds) = fabric.setup(plan, self.index, dir);
        self.state = State::Building;
        self.page = None;
        self.tid = None;
        self.killed_for = None;
        self.last_words = None;
        self.told_to_stop = false;
        self.usage.begin_incarnation();
        // An instance that is dead already shows as such on its socket.
        match wire::send(&ours, &setup, &fds) {
            Ok(()) | Err(WireError::Closed) => {}
            Err(e) => return Err(fail(e.to_string())),
        }
        self.socket = Some(ours);
        Ok(())
    }

    /// Reads one message from its socket, which is readable.
    pub fn listen(&mut self, tables: &mut Tables) -> Change {
        let Some(socket) = &self.socket else { return Change::None };
        let message = match wire::recv_at_most::<FromInstance>(socket, 0) {
            Ok((message, _)) => message,
            Err(WireError::Closed) => return self.bury(tables),
            Err(e) => {
                self.kill(&format!("sent a malformed message ({e})"));
                return self.bury(tables);
            }
        };
        match (message, &self.state) {
            (FromInstance::Built(Built::Ready(declared)), State::Building) if declared.len() != self.nfs => {
                // The page is laid out by what was declared.
                self.kill(&format!("declared for {} NFs, expected {}", declared.len(), self.nfs));
                Change::None
            }
            (FromInstance::Built(Built::Ready(declared)), State::Building) => self.attach(declared, tables),
            (FromInstance::Built(Built::Failed(why)), State::Building) if self.start_ns.is_none() => {
                Change::Failed(why)
            }
            (FromInstance::Built(Built::Failed(why)), State::Building) => {
                self.last_words = Some(format!("could not be started again: {why}"));
                self.end_process();
                Change::None
            }
            (FromInstance::Running { tid }, State::Attaching) => {
                // A process serves in its main thread; whose id it says it has is only its word.
                self.tid = match &self.body {
                    Some(Body::Process(child)) => i32::try_from(child.id()).ok(),
                    _ => Some(tid),
                };
                self.state = State::Running;
                self.start_ns.get_or_insert(self.spawned.elapsed().as_nanos() as u64);
                self.page.clone().map_or(Change::None, Change::Running)
            }
            (FromInstance::News { nf, words }, State::Running) if nf < self.nfs => {
                let heard = self.patience.hear(&words, Instant::now());
                heard.map_or(Change::None, |words| Change::Said(nf, words))
            }
            // The stop word lies in its own page: that it ends is no proof that it was told to.
            (FromInstance::Last(Last::Ended { reports, storage }), State::Running) if self.told_to_stop => {
                self.reports = reports;
                self.storage = storage;
                self.state = State::Ended;
                Change::None
            }
            (FromInstance::Last(Last::Died(words)), _) => {
                self.last_words = Some(words);
                Change::None
            }
            _ => {
                self.kill("sent a message out of turn");
                Change::None
            }
        }
    }

    /// Gives it its page.
    fn attach(&mut self, declared: Vec<Declared>, tables: &mut Tables) -> Change {
        if declared.len() != self.before.len() {
            self.kill(&format!("declared {} NFs, expected {}", declared.len(), self.before.len()));
            return Change::None;
        }
        let layout = PageLayout {
            queues: self.queues,
            counters: declared.iter().map(|d| d.counters.len()).collect(),
            holds: HOLDS,
        };
        let page = match Page::create(layout.clone()) {
            Ok(page) => Arc::new(page),
            Err(e) => return Change::Failed(e.to_string()),
        };
        // Two handles of tables cannot be borrowed at once from what makes them.
        let mut shared = Vec::new();
        for (share, asked) in self.shares.iter().zip(declared.iter().map(|d| d.shares)) {
            let Some((share, asked)) = share.zip(asked) else {
                shared.push(None);
                continue;
            };
            let table = tables.of(share, asked).and_then(|t| Ok((t.mapping().dup_fd().map_err(|e| e.to_string())?, t)));
            match table {
                Ok((fd, table)) => shared.push(Some((fd, table.shape(), table.mapping().pages()))),
                Err(e) if self.start_ns.is_none() => return Change::Failed(format!("{}: {e}", self.name)),
                // The others go on with what they have.
                Err(e) => {
                    self.last_words = Some(format!("could not be started again: {e}"));
                    self.end_process();
                    return Change::None;
                }
            }
        }
        let numbers = shared.iter().scan(1, |next, table| {
            let fd = *next;
            *next += usize::from(table.is_some());
            Some(table.as_ref().map(|(_, shape, pages)| TableSetup { fd, shape: *shape, pages: *pages }))
        });
        let start = Start { layout, tables: numbers.collect() };
        let memory = shared.iter().flatten().map(|(fd, ..)| fd.as_fd());
        let fds: Vec<_> = std::iter::once(page.mapping().fd()).chain(memory).collect();
        if let Some(socket) = &self.socket {
            // If it is gone, its socket says so.
            let _ = wire::send(socket, &start, &fds);
        }
        self.declared = declared;
        self.page = Some(page);
        self.state = State::Attaching;
        Change::None
    }

    /// Its socket closed: waits until it is gone for certain, and says how it went.
    fn bury(&mut self, tables: &Tables) -> Change {
        self.socket = None;
        self.usage.end_incarnation();
        self.close_page();
        let how = match self.body.take() {
            Some(Body::Process(child)) => reap(child),
            Some(Body::Thread(thread)) => {
                let _ = thread.join();
                "its thread ended".to_owned()
            }
            None => String::new(),
        };
        tables.release(&self.shares);
        if matches!(self.state, State::Ended) {
            return Change::Ended;
        }
        let why = match (self.killed_for.take(), self.last_words.take()) {
            (Some(why), _) => format!("killed, as it {why}"),
            (None, Some(words)) => words,
            (None, None) => how,
        };
        if self.spawned.elapsed() > HEALTHY {
            self.backoff = FIRST_BACKOFF;
        }
        self.postpone();
        Change::Died(why)
    }

    /// It is down until the back-off is over, which doubles.
    pub fn postpone(&mut self) {
        self.state = State::Down(Instant::now() + self.backoff);
        self.backoff = (self.backoff * 2).min(LAST_BACKOFF);
    }

    /// Kills a process, and says whether it is one: a thread cannot be killed.
    pub fn kill(&mut self, why: &str) -> bool {
        let process = matches!(self.body, Some(Body::Process(_)));
        if process {
            self.killed_for.get_or_insert_with(|| why.to_owned());
            self.end_process();
        }
        process
    }

    /// Kills a process as somebody wants it dead; no reason to start it later than at once. Whether there is one.
    pub fn reset(&mut self) -> bool {
        self.backoff = FIRST_BACKOFF;
        self.kill("was reset as ordered")
    }

    /// Kills a process that has said why itself.
    fn end_process(&mut self) {
        if let Some(Body::Process(child)) = &mut self.body {
            let _ = child.kill();
        }
    }

    /// Kills a process that should be ready by now.
    pub fn kill_if_late(&mut self, limit: Duration) {
        if matches!(self.state, State::Building | State::Attaching) && self.spawned.elapsed() > limit {
            self.kill(&format!("was not ready after {} s", limit.as_secs()));
        }
    }

    /// Tells it to empty its queues and end.
    pub fn stop(&mut self) {
        self.told_to_stop = true;
        if let Some(page) = &self.page {
            page.control().stop.store(1, Relaxed);
        }
    }

    /// Ends whatever is left of it, without a word.
    pub fn discard(&mut self) {
        self.stop();
        self.socket = None;
        match self.body.take() {
            Some(Body::Process(mut child)) => {
                let _ = child.kill();
                let _ = child.wait();
            }
            // A thread that hangs ends with the process.
            Some(Body::Thread(thread)) if thread.is_finished() => _ = thread.join(),
            _ => {}
        }
    }
}

/// Waits for a process that closed its socket; kills it if it lives on.
fn reap(mut child: Child) -> String {
    let until = Instant::now() + REAP;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break Some(status),
            Ok(None) if Instant::now() < until => std::thread::sleep(Duration::from_millis(1)),
            _ => {
                let _ = child.kill();
                break child.wait().ok();
            }
        }
    };
    match status.map(|s| (s.signal(), s.code())) {
        Some((Some(signal), _)) => format!("ended by signal {signal}{}", signal_name(signal)),
        Some((None, Some(code))) => format!("exited with code {code}"),
        _ => "ended".to_owned(),
    }
}

fn signal_name(signal: i32) -> &'static str {
    match signal {
        libc::SIGKILL => " (SIGKILL)",
        libc::SIGSEGV => " (SIGSEGV)",
        libc::SIGABRT => " (SIGABRT)",
        libc::SIGBUS => " (SIGBUS)",
        libc::SIGILL => " (SIGILL)",
        libc::SIGFPE => " (SIGFPE)",
        libc::SIGTERM => " (SIGTERM)",
        _ => "",
    }
}
