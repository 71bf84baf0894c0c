//! The life of an instance: build, answer, run, end.

use crate::holds::HoldTable;
use crate::host::Host;
use crate::idle::Waits;
use crate::queues::{Inlet, Outlet};
use crate::sampling::Sampling;
use crate::setup::{Built, FromInstance, Last, RingSetup, Setup, Start, VERSION};
use crate::shared;
use crate::split::{Dealer, MAX_REPLICAS, Split};
use crate::wire::{self, WireError};
use chainline_nf::{Declared, Env, Error, FileSpec, NfObject, Sharing};
use chainline_sched::SchedError;
use chainline_shm::mapping::MapError;
use chainline_shm::region::Slots;
use chainline_shm::{Bell, Consumer, Desc, Mapping, Page, PageKind, PageLayout, Producer, Region, Ring};
use chainline_storage::{Choice, Storage};
use std::os::fd::{AsFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Builds an NF of a kind (a built-in word, or the path of a shared object) from its arguments. The program that
/// embeds the runtime knows its kinds; this crate does not.
pub type Builder = dyn Fn(&str, serde_json::Value, &mut Env<'_>) -> Result<Box<dyn NfObject>, Error> + Send + Sync;

/// Why an instance could not run to its end.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The connection to the manager.
    #[error("connection to the manager: {0}")]
    Wire(#[from] WireError),
    /// The manager's memory.
    #[error("{0}")]
    Map(#[from] MapError),
    /// The manager's message does not make sense.
    #[error("setup: {0}")]
    Setup(String),
    /// An NF could not be built.
    #[error("{nf}: {error}")]
    Build {
        /// Its name in the chain file.
        nf: String,
        /// Why.
        error: Error,
    },
    /// The kernel refused the cores.
    #[error("{0}")]
    Sched(#[from] SchedError),
    /// An NF panicked.
    #[error("{0}")]
    Died(String),
}

/// Serves as an instance: everything from the first message to the last. Returns when told to stop, when the
/// manager is gone, or when an NF died.
///
/// # Errors
/// Whatever ended it early; the manager has been told.
pub fn serve(socket: OwnedFd, builder: &Builder) -> Result<(), ServeError> {
    let (setup, fds) = wire::recv::<Setup>(&socket)?;
    match build(&setup, fds, builder) {
        Ok((mut nfs, declared, parts, storage)) => {
            wire::send(&socket, &FromInstance::Built(Built::Ready(declared.clone())), &[])?;
            let (start, fds) = wire::recv::<Start>(&socket)?;
            check_page(&setup, &declared, &start.layout)?;
            let mut fds: Vec<Option<OwnedFd>> = fds.into_iter().map(Some).collect();
            let page = fds.first_mut().and_then(Option::take).ok_or_else(|| ServeError::Setup("no page".into()))?;
            let page = Arc::new(Page::open(page, start.layout)?);
            shared::hand_out(&mut nfs, &declared, &start.tables, fds, setup.replica)?;
            run(&socket, assemble(&setup, nfs, parts, (page, storage))?)
        }
        Err(e) => {
            wire::send(&socket, &FromInstance::Built(Built::Failed(e.to_string())), &[])?;
            Err(e)
        }
    }
}

fn run(socket: impl AsFd, mut host: Host) -> Result<(), ServeError> {
    wire::send(&socket, &FromInstance::Running { tid: rustix::thread::gettid().as_raw_nonzero().get() }, &[])?;
    // A panicking NF ends its instance and nothing else; what it had in hand the manager finds by its audit.
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        // Should the manager not listen, the report has it.
        host.run(&mut |nf, words| _ = wire::try_send(&socket, &FromInstance::News { nf, words }));
        Last::Ended { reports: host.reports(), storage: host.storage.finish() }
    }));
    match outcome {
        Ok(ended) => Ok(wire::send(&socket, &FromInstance::Last(ended), &[])?),
        Err(panic) => {
            let words = panic
                .downcast_ref::<&str>()
                .map(|s| (*s).to_owned())
                .or_else(|| panic.downcast_ref::<String>().cloned())
                .unwrap_or_else(|| "panic".into());
            wire::send(&socket, &FromInstance::Last(Last::Died(words.clone())), &[])?;
            Err(ServeError::Died(words))
        }
    }
}

/// What is built before the page comes.
struct Parts {
    region: Region,
    bells: Vec<Bell>,
    inlets: Vec<Inlet>,
    outlets: Vec<Outlet>,
    splits: Vec<Split>,
}

type BuiltNfs = (Vec<Box<dyn NfObject>>, Vec<Declared>, Parts, Storage);

fn build(setup: &Setup, fds: Vec<OwnedFd>, builder: &Builder) -> Result<BuiltNfs, ServeError> {
    if setup.version != VERSION {
        return Err(ServeError::Setup(format!("the manager speaks version {}, this is {VERSION}", setup.version)));
    }
    // Before anything is built: memory is placed where it is first touched. The policy the manager sets later, so that
    // nothing is built under a real-time one.
    if !setup.cores.is_empty() {
        chainline_sched::task::pin(None, &setup.cores)?;
    }
    let mut parts = parts(setup, fds)?;
    let (mut nfs, mut declared) = (Vec::new(), Vec::new());
    for nf in &setup.nfs {
        let mut env = Env::new(&setup.dir, &nf.divert).with_sharing(nf.sharing, setup.replica);
        let built = builder(&nf.kind, nf.args.clone(), &mut env);
        nfs.push(built.map_err(|error| ServeError::Build { nf: nf.name.clone(), error })?);
        let words = env.into_declared();
        if let Some(file) = words.files.first().filter(|_| setup.replicas > 1) {
            let n = setup.replicas;
            let what = format!("found {n} replicas that would all write {}, expected one", file.path.display());
            return Err(ServeError::Build { nf: nf.name.clone(), error: Error::Args(what) });
        }
        if nf.sharing != Sharing::Private && words.shares.is_none() {
            let what = format!("found `state: {}`, expected `private`: it shares nothing", nf.sharing.word());
            return Err(ServeError::Build { nf: nf.name.clone(), error: Error::Args(what) });
        }
        declared.push(words);
    }
    for inlet in &mut parts.inlets {
        let stages = || inlet.stages.iter().map(|s| s.nf);
        inlet.may_hold = stages().any(|nf| declared[nf].holds);
        inlet.with_files = stages().filter(|&nf| !declared[nf].files.is_empty()).collect();
    }
    let storage = open_files(setup, &declared, &parts)?;
    Ok((nfs, declared, parts, storage))
}

/// Opens what the NFs named, when all of them are built: one that is refused has changed no file.
fn open_files(setup: &Setup, declared: &[Declared], parts: &Parts) -> Result<Storage, ServeError> {
    let specs: Vec<&[FileSpec]> = declared.iter().map(|d| d.files.as_slice()).collect();
    let bell = parts.bells.get(setup.own_bell).cloned();
    let waker = Arc::new(move || {
        Bell::publish_fence();
        if let Some(bell) = bell.as_ref().filter(|b| b.is_asleep()) {
            bell.ring();
        }
    });
    Storage::open(&specs, Choice::Auto, waker)
        .map_err(|(nf, why)| ServeError::Build { nf: setup.nfs[nf].name.clone(), error: Error::Library(why) })
}

fn parts(setup: &Setup, fds: Vec<OwnedFd>) -> Result<Parts, ServeError> {
    let mut fds: Vec<Option<OwnedFd>> = fds.into_iter().map(Some).collect();
    let mut take = |i: usize| {
        fds.get_mut(i)
            .and_then(Option::take)
            .ok_or_else(|| ServeError::Setup(format!("file descriptor {i} is missing")))
    };
    let small = |fd, bytes| Mapping::open(fd, bytes, PageKind::Small).map(Arc::new);
    let r = setup.region;
    let region = Region::open(take(r.fd)?, r.stride, r.count, r.pages)?;
    let mut bells = Vec::new();
    for &b in &setup.bells {
        bells.push(Bell::over(small(take(b)?, 4)?)?);
    }
    let mut ring = |r: &RingSetup| -> Result<Ring, ServeError> {
        Ok(Ring::over(small(take(r.fd)?, Ring::bytes(r.capacity))?, r.capacity)?)
    };
    let bell = |i: usize| bells.get(i).cloned().ok_or_else(|| ServeError::Setup(format!("bell {i} is missing")));
    let mut outlets = Vec::new();
    for o in &setup.outs {
        outlets.push(Outlet {
            producer: Producer::attach(ring(&o.ring)?),
            bell: bell(o.consumer_bell)?,
            wake_at: o.wake_at,
            urgent: o.urgent,
            same_core: o.same_core,
            chain: o.chain,
            hop: o.hop,
        });
    }
    let mut splits = Vec::new();
    for s in &setup.splits {
        if s.outs.is_empty() || s.outs.len() > MAX_REPLICAS || s.outs.iter().any(|&o| o >= outlets.len()) {
            return Err(ServeError::Setup(format!("a split among {} queues", s.outs.len())));
        }
        splits.push(Split { dealer: Dealer::new(s.dispatch, s.outs.len()), outs: s.outs.clone() });
    }
    let mut inlets = Vec::new();
    for q in &setup.queues {
        let mut outs = vec![setup.return_out];
        for &o in std::iter::once(&q.next).chain(q.stages.iter().flat_map(|s| &s.divert)) {
            // Which of its queues a packet goes to is known when it goes there: there must be room in all of them.
            match o.checked_sub(outlets.len()).and_then(|s| splits.get(s)) {
                Some(split) => outs.extend(&split.outs),
                None => outs.push(o),
            }
        }
        outs.sort_unstable();
        outs.dedup();
        if outs.iter().any(|&o| o >= outlets.len()) || q.stages.iter().any(|s| s.nf >= setup.nfs.len()) {
            return Err(ServeError::Setup("a queue leads nowhere".into()));
        }
        let needs = if setup.credit { outs.clone() } else { vec![setup.return_out] };
        // Hops are counted in a byte.
        if usize::from(q.hop) + q.stages.len() > usize::from(u8::MAX) {
            let (hop, stages) = (q.hop, q.stages.len());
            return Err(ServeError::Setup(format!("{stages} stages from hop {hop} on, expected at most 255 hops")));
        }
        inlets.push(Inlet {
            consumer: Consumer::attach(ring(&q.ring)?),
            producer_bell: q.producer_bell.map(bell).transpose()?,
            chain: q.chain,
            hop: q.hop,
            // The deficit is at most twice the quantum.
            quantum: q.weight.max(1).saturating_mul(u32::from(setup.batch)).min(u32::MAX / 2),
            deficit: 0,
            stages: q.stages.clone(),
            next: q.next,
            outs,
            needs,
            with_files: Vec::new(),
            may_hold: false,
            blocked: false,
        });
    }
    Ok(Parts { region, bells, inlets, outlets, splits })
}

/// The loop asks the page for each queue and NF of the setup.
fn check_page(setup: &Setup, declared: &[Declared], found: &PageLayout) -> Result<(), ServeError> {
    let counters: Vec<usize> = declared.iter().map(|d| d.counters.len()).collect();
    let expected = PageLayout { queues: setup.queues.len(), counters, holds: setup.holds };
    if *found == expected {
        Ok(())
    } else {
        Err(ServeError::Setup(format!("found a page for {found:?}, expected one for {expected:?}")))
    }
}

fn assemble(
    setup: &Setup,
    nfs: Vec<Box<dyn NfObject>>,
    parts: Parts,
    (page, storage): (Arc<Page>, Storage),
) -> Result<Host, ServeError> {
    let own = parts.bells.get(setup.own_bell).cloned();
    if usize::from(setup.batch) > chainline_nf::MAX_BURST || setup.batch == 0 || setup.return_out >= parts.outlets.len()
    {
        return Err(ServeError::Setup(format!("batch {} or return queue is out of range", setup.batch)));
    }
    Ok(Host {
        nfs,
        inlets: parts.inlets,
        outlets: parts.outlets,
        splits: parts.splits,
        return_out: setup.return_out,
        credit: setup.credit,
        slots: Slots::new(parts.region),
        holds: HoldTable::new(setup.holds, page.clone()),
        storage,
        page,
        own_bell: own.ok_or_else(|| ServeError::Setup("its own bell is missing".into()))?,
        clock: setup.clock,
        batch: u32::from(setup.batch),
        waits: Waits::new(setup.activation, &setup.clock),
        drained: false,
        gives_way: false,
        now: 0,
        sampling: Sampling::default(),
        tick_at: 0,
        news: Vec::new(),
        descs: Box::new([Desc::default(); chainline_nf::MAX_BURST]),
    })
}
