//! What a manager tells an instance, and the instance that comes of it.
//!
//! Input: three parts that a zero byte ends, the setup and the start as JSON, then bytes for the shared memory: first
//! those of the queues, then those of the packets. File descriptors are always the same, see `fds`. Seeds are made by
//! `seeds`: `UPDATE=1 cargo test -p chainline-regressions` writes them.

pub mod seeds;

use crate::scripted;
use chainline_nf::{Env, Error, NfObject};
use chainline_runtime::setup::{FromInstance, Setup, Start};
use chainline_runtime::{ServeError, serve, wire};
use chainline_shm::{Bell, Page, PageLayout, Region, Ring};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use std::fs::File;
use std::io::{IoSlice, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering::Relaxed;

const BUFFERS: u32 = 32;
const FRAME: u16 = 200;
const RINGS: usize = 6;
const RING_CAPACITY: u32 = 16;
/// The first bytes of the third part go to each queue in turn: its indexes, then descriptors.
const RING_BYTES: usize = 8 + 4 * 16;

thread_local! {
    // Made once: its pages cost more than an input. The packets are written anew each time.
    static REGION: Region = Region::create(BUFFERS, FRAME).unwrap();
}

/// The target.
pub fn run(data: &[u8]) {
    let _ = play(data);
}

/// Plays an input, and says how many packets the NFs were handed; nothing if there was no instance.
pub fn play(data: &[u8]) -> Option<u64> {
    let mut parts = data.splitn(3, |b| *b == 0);
    let [setup, start, memory] = [(); 3].map(|()| parts.next().unwrap_or_default());
    let fds = fds(memory);
    let fds: Vec<BorrowedFd<'_>> = fds.iter().map(AsFd::as_fd).collect();
    let (ours, theirs) = wire::pair().unwrap();
    match serde_json::from_slice::<Setup>(setup) {
        Ok(mut setup) => {
            // How the kernel runs the fuzzer is not up to its input.
            setup.cores = Vec::new();
            wire::send(&ours, &setup, &fds).unwrap();
        }
        Err(_) => send_raw(&ours, setup, &fds),
    }
    let start = serde_json::from_slice::<Start>(start)
        .unwrap_or(Start { layout: PageLayout { queues: 1, counters: vec![1], holds: 4 }, tables: Vec::new() });
    let page = send_start(&ours, &start);
    rustix::net::shutdown(&ours, rustix::net::Shutdown::Write).unwrap();
    let outcome = serve(theirs, &|_: &str,
                                  _: serde_json::Value,
                                  env: &mut Env<'_>|
     -> Result<Box<dyn NfObject>, Error> { scripted::build(env) });
    if let Err(ServeError::Died(words)) = outcome {
        panic!("the instance died: {words}");
    }
    let mut ran = false;
    while let Ok((message, _)) = wire::recv_at_most::<FromInstance>(&ours, 0) {
        ran |= matches!(message, FromInstance::Running { .. });
    }
    ran.then(|| (0..start.layout.counters.len()).map(|nf| page.nf(nf).received.load(Relaxed)).sum())
}

/// A region, two bells, queues; then what is none of them: memory that can shrink, a socket, an empty file.
fn fds(memory: &[u8]) -> Vec<OwnedFd> {
    let region = REGION.with(Clone::clone);
    let mut fds = vec![region.mapping().dup_fd().unwrap()];
    fds.extend((0..2).map(|_| Bell::create().unwrap().mapping().dup_fd().unwrap()));
    let mut bytes = memory;
    for _ in 0..RINGS {
        let file = File::from(Ring::create(RING_CAPACITY).unwrap().mapping().dup_fd().unwrap());
        let (mine, rest) = bytes.split_at(bytes.len().min(RING_BYTES));
        let (indexes, descs) = mine.split_at(mine.len().min(8));
        file.write_all_at(&indexes[..indexes.len().min(4)], 0).unwrap();
        file.write_all_at(&indexes[indexes.len().min(4)..], 128).unwrap();
        file.write_all_at(descs, 256).unwrap();
        fds.push(file.into());
        bytes = rest;
    }
    let packets = File::from(fds[0].try_clone().unwrap());
    let mut content = bytes.to_vec();
    content.resize(BUFFERS as usize * region.stride() as usize, 0);
    packets.write_all_at(&content, 0).unwrap();
    let unsealed = rustix::fs::memfd_create("t", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    rustix::fs::ftruncate(&unsealed, 4096).unwrap();
    fds.extend([unsealed, wire::pair().unwrap().0, File::open("/dev/null").unwrap().into()]);
    fds
}

/// A page as the layout says, if that is possible, else a small one; the instance is told to stop when it is done.
fn send_start(socket: &OwnedFd, start: &Start) -> Page {
    let small = PageLayout { queues: 1, counters: vec![1], holds: 1 };
    let sensible = start.layout.queues < 1 << 10
        && start.layout.holds < 1 << 10
        && start.layout.counters.len() < 1 << 10
        && start.layout.counters.iter().all(|n| *n < 1 << 10);
    let page = Page::create(if sensible { start.layout.clone() } else { small }).unwrap();
    page.control().stop.store(1, Relaxed);
    wire::send(socket, start, &[page.mapping().fd()]).unwrap();
    page
}

/// As [`wire::send`], with a body that nobody has looked at.
pub fn send_raw(socket: &OwnedFd, body: &[u8], fds: &[BorrowedFd<'_>]) {
    let mut file = File::from(rustix::fs::memfd_create("t", rustix::fs::MemfdFlags::CLOEXEC).unwrap());
    file.write_all(body).unwrap();
    let all: Vec<BorrowedFd<'_>> = std::iter::once(file.as_fd()).chain(fds.iter().copied()).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(32))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    assert!(control.push(SendAncillaryMessage::ScmRights(&all)));
    let total = (all.len() as u32).to_le_bytes();
    sendmsg(socket, &[IoSlice::new(&total)], &mut control, SendFlags::NOSIGNAL).unwrap();
}
