//! Control at run time: answers what clients of the control socket ask. Runs in the supervisor's thread, between two
//! looks at the instances; the socket itself is served by a thread of its own (`chainline_ctl::Server`).

use super::instance::State;
use super::numbers::Taken;
use super::{RunError, Supervisor};
use crate::Observer;
use chainline_chain::model::{File, Mechanisms};
use chainline_ctl::{
    Call, ChainInfo, ChainStats, Changed, Fault, InstanceInfo, Limits, Listener, NfInfo, NfStats, Overview, PortInfo,
    Server, SocketPath, Stats, Word,
};
use serde::Serialize;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Statistics are read anew after this: a reading costs the data path some tens of microseconds.
const FRESH: Duration = Duration::from_millis(100);
/// Happenings in the statistics.
const HAPPENINGS: usize = 20;

/// Reads a chain file's text as the command does, and says all that is wrong with it.
pub type Load = dyn Fn(&[u8], &Path) -> Result<File, String> + Send + Sync;

/// How a run can be asked and changed while it lasts.
#[derive(Clone)]
pub struct Remote {
    /// Where its socket is.
    pub at: SocketPath,
    /// The chain file that the plan was built from.
    pub file: File,
    /// The cores that the plan was built for.
    pub cores: Vec<usize>,
    /// Mechanisms that are in force whatever a file says.
    pub mechanisms: Option<Mechanisms>,
    /// Reads another chain file.
    pub load: Arc<Load>,
}

impl std::fmt::Debug for Remote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Remote").field("at", &self.at).finish_non_exhaustive()
    }
}

/// What the supervisor has of it.
pub(super) struct Desk {
    /// Until the run is open.
    listener: Option<Listener>,
    server: Option<Server>,
    /// The chain file in force.
    pub file: File,
    /// The one that the run was started with.
    pub path: PathBuf,
    pub cores: Vec<usize>,
    pub mechanisms: Option<Mechanisms>,
    pub load: Arc<Load>,
    stats: Option<(Instant, Value)>,
}

impl Desk {
    /// Makes the socket. The second one is why there is none: only in the usual place may it be missing.
    pub fn new(remote: &Remote, name: &str) -> Result<(Self, Option<String>), RunError> {
        let (listener, missing) = match (Listener::bind(&remote.at, name), &remote.at) {
            (Ok(listener), _) => (Some(listener), None),
            (Err(e), SocketPath::Usual) => (None, Some(format!("no control socket: {e}; the run goes on without"))),
            (Err(e), SocketPath::At(path)) => {
                return Err(RunError::Control(format!("{}: {e}", path.display())));
            }
        };
        let Remote { file, cores, mechanisms, load, .. } = remote.clone();
        let path = file.source.name().to_owned();
        Ok((Self { listener, server: None, file, path, cores, mechanisms, load, stats: None }, missing))
    }

    /// Begins to listen.
    pub fn open(&mut self) -> Result<(), RunError> {
        if let Some(listener) = self.listener.take() {
            let server = Server::start(listener, Limits::default()).map_err(|e| RunError::Control(e.to_string()))?;
            self.server = Some(server);
        }
        Ok(())
    }

    pub fn server(&self) -> Option<&Server> {
        self.server.as_ref()
    }
}

/// A request that could not be followed: because of what it asks for, or because the run itself is at an end.
pub(super) enum Failure {
    Fault(Fault),
    Run(RunError),
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Self {
        Self::Run(error)
    }
}

impl Supervisor<'_> {
    /// Answers what has been asked meanwhile.
    pub(super) fn serve(&mut self, observer: &mut dyn Observer) -> Result<(), RunError> {
        while let Some(ask) = self.desk.as_ref().and_then(Desk::server).and_then(Server::take) {
            match self.answer(ask.call, observer) {
                Ok(result) => ask.answer.send(Ok(result)),
                Err(Failure::Fault(fault)) => ask.answer.send(Err(fault)),
                Err(Failure::Run(error)) => return Err(error),
            }
        }
        Ok(())
    }

    fn answer(&mut self, call: Call, observer: &mut dyn Observer) -> Result<Value, Failure> {
        match call {
            Call::List => value(&self.overview()),
            Call::Stats => self.stats(),
            Call::File => value(&self.desk.as_ref().map(|d| &d.file)),
            change => {
                let changed = self.change(change, observer);
                // Whoever asks next sees what it came to.
                if let Some(desk) = &mut self.desk {
                    desk.stats = None;
                }
                let changed = changed?;
                self.announce(&changed, observer);
                value(&changed)
            }
        }
    }

    fn announce(&mut self, changed: &Changed, observer: &mut dyn Observer) {
        if !changed.changed.is_empty() {
            self.happened(None, format!("changed: {}", changed.changed.join("; ")), observer);
        }
    }

    fn overview(&self) -> Overview {
        let plan = &self.plan;
        let ports = plan.ports.iter().map(|p| PortInfo { name: p.name.clone(), kind: p.spec.word().to_owned() });
        let nfs = (0..plan.nfs.len()).filter(|n| plan.has_nf(*n)).map(|n| &plan.nfs[n]).map(|n| NfInfo {
            name: n.name.clone(),
            kind: n.kind.clone(),
            instance: plan.instances[n.instance].name.clone(),
            divert: n.divert.clone(),
        });
        let there = plan.instances.iter().zip(&self.instances).filter(|(_, i)| !i.gone);
        let instances = there.map(|(p, i)| InstanceInfo {
            name: p.name.clone(),
            host: word(&p.host),
            state: state(&i.state).to_owned(),
            tid: i.tid.filter(|_| matches!(i.state, State::Running)),
            cores: p.cores.clone(),
            sched: serde_json::to_value(p.sched).unwrap_or_default(),
            restarts: i.restarts,
        });
        let chains = plan.chains_in_force().into_iter().map(|c| &plan.chains[c]).map(|c| {
            let ends = [&plan.ports[c.ingress].name, &plan.ports[c.egress].name];
            let hops = c.hops.iter().map(|n| &plan.nfs[*n].base);
            ChainInfo {
                name: c.name.clone(),
                matches: serde_json::to_value(&c.matches).unwrap_or_default(),
                path: std::iter::once(ends[0]).chain(hops).chain([ends[1]]).cloned().collect(),
                tenant: c.tenant.clone(),
            }
        });
        Overview {
            name: plan.name.clone(),
            pid: std::process::id(),
            uptime_s: self.began.elapsed().as_secs_f64(),
            manager_core: plan.manager_core,
            ports: ports.collect(),
            nfs: nfs.collect(),
            instances: instances.collect(),
            chains: chains.collect(),
        }
    }

    /// Statistics, made anew only if the last ones are old: floods of requests do not reach the data path.
    fn stats(&mut self) -> Result<Value, Failure> {
        let old = self.desk.as_ref().and_then(|d| d.stats.clone());
        if let Some((_, stats)) = old.filter(|(at, _)| at.elapsed() < FRESH) {
            return Ok(stats);
        }
        let now = self.take_numbers()?;
        let stats = value(&self.statistics(&now))?;
        if let Some(desk) = &mut self.desk {
            desk.stats = Some((Instant::now(), stats.clone()));
        }
        Ok(stats)
    }

    fn statistics(&self, now: &Taken) -> Stats {
        // Rates over less than a good part of an interval would be noise.
        let enough = |t: &&Taken| now.at.saturating_duration_since(t.at) >= self.options.interval / 2;
        let since = self.taken.iter().rev().find(enough).or(self.taken.front()).unwrap_or(now);
        let interval = self.interval(since, now);
        let accounts = crate::report::accounts(&self.plan, &self.declared(), &now.snapshot);
        let chains = interval.chains.into_iter().zip(accounts.chains).map(|(c, totals)| ChainStats {
            name: c.name,
            totals,
            received_pps: c.received_pps,
            transmitted_pps: c.transmitted_pps,
            transmitted_bps: c.transmitted_bps,
            shed_pps: c.shed_pps,
            dropped_pps: c.dropped_pps,
            p50_ns: c.latency_ns.map(|l| l.p50),
            p99_ns: c.latency_ns.map(|l| l.p99),
        });
        let nfs = interval
            .nfs
            .into_iter()
            .zip((0..self.plan.nfs.len()).filter(|n| self.plan.has_nf(*n)).map(|n| (&now.totals[n], self.counters(n))))
            .map(|(n, (totals, counters))| NfStats {
                name: n.name,
                received: totals.received,
                transmitted: totals.passed,
                pps: n.pps,
                dropped_pps: n.dropped_pps,
                queue: n.queue,
                cpu_share: n.cpu_share,
                cost_ns: n.cost_ns,
                held: n.held,
                counters,
            });
        let last = &self.happenings[self.happenings.len().saturating_sub(HAPPENINGS)..];
        Stats {
            at_s: self.began.elapsed().as_secs_f64(),
            interval_s: interval.seconds,
            ledger: accounts.all,
            chains: chains.collect(),
            nfs: nfs.collect(),
            happenings: last
                .iter()
                .map(|h| h.instance.iter().chain([&h.what]).cloned().collect::<Vec<_>>().join(": "))
                .collect(),
        }
    }
}

fn state(state: &State) -> &'static str {
    match state {
        State::Building | State::Attaching => "starting",
        State::Running => "running",
        State::Down(_) => "down",
        State::Ended => "ended",
    }
}

/// A word as it is spelt in files.
fn word<T: Serialize>(value: &T) -> String {
    serde_json::to_value(value).ok().and_then(|v| v.as_str().map(str::to_owned)).unwrap_or_default()
}

fn value<T: Serialize>(value: &T) -> Result<Value, Failure> {
    // All keys are texts; a number that JSON cannot have becomes null.
    serde_json::to_value(value).map_err(|e| Fault::new(Word::Unsupported, e.to_string()).into())
}
