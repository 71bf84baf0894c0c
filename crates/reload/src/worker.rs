//! The thread that reads files and builds what they say.

use chainline_nf::Error;
use chainline_sched::Task;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::thread::JoinHandle;

/// About a tenth of a core that the NF wants for itself, all of one that it leaves alone.
const NICE: i8 = 10;
/// Something to read, and what was in force before; bounded, so that nothing is allocated for a message.
const JOBS: usize = 4;

enum Job<T> {
    Read,
    Drop(T),
}

#[derive(Debug)]
pub(crate) struct Worker<T> {
    jobs: Option<SyncSender<Job<T>>>,
    done: Receiver<Result<T, Error>>,
    busy: bool,
    thread: Option<JoinHandle<()>>,
}

impl<T: Send + 'static> Worker<T> {
    pub fn new(mut read: impl FnMut() -> Result<T, Error> + Send + 'static) -> std::io::Result<Self> {
        let (jobs, inbox) = sync_channel(JOBS);
        let (outbox, done) = sync_channel(1);
        let thread = std::thread::Builder::new().name("reload".into()).spawn(move || {
            while let Ok(job) = inbox.recv() {
                match job {
                    Job::Read => {
                        stand_back();
                        if outbox.send(read()).is_err() {
                            break;
                        }
                    }
                    Job::Drop(old) => drop::<T>(old),
                }
            }
        })?;
        Ok(Self { jobs: Some(jobs), done, busy: false, thread: Some(thread) })
    }

    /// Whether something is being read.
    pub fn is_busy(&self) -> bool {
        self.busy
    }

    /// Starts to read.
    pub fn begin(&mut self) {
        self.busy = self.jobs.as_ref().is_some_and(|jobs| jobs.try_send(Job::Read).is_ok());
    }

    /// What was read, or why not, once it is there.
    pub fn take(&mut self) -> Option<Result<T, String>> {
        let result = match self.done.try_recv() {
            Ok(result) => result.map_err(|e| e.to_string()),
            Err(TryRecvError::Empty) => return None,
            Err(TryRecvError::Disconnected) => Err("the thread that reads it has died".to_owned()),
        };
        self.busy = false;
        Some(result)
    }

    pub fn retire(&mut self, old: T) {
        if let Some(jobs) = &self.jobs
            && let Err(TrySendError::Full(Job::Drop(old)) | TrySendError::Disconnected(Job::Drop(old))) =
                jobs.try_send(Job::Drop(old))
        {
            drop(old);
        }
    }
}

impl<T> Drop for Worker<T> {
    /// Waits for what is being read: libraries are not to be used while the process ends.
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Leaves the core to who handles packets, whatever policy this thread was given with the NF's: under a real-time one it
/// would keep the NF from running. If the kernel refuses, it goes on as it is.
fn stand_back() {
    let now = chainline_sched::task::read(0).map_or(0, |task| task.nice);
    let _ = Task { nice: now.max(NICE), ..Task::default() }.apply(0);
}
