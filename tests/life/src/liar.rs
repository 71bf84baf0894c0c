//! An instance that keeps to the protocol and lies about packets: it passes packets on like an honest NF until its
//! time has come, does its one misdeed, and goes on as if nothing had been.

use chainline_nf::Declared;
use chainline_runtime::setup::{Built, FromInstance, Last, Setup, Start};
use chainline_runtime::wire::{self, WireError};
use chainline_shm::mapping::MapError;
use chainline_shm::{Bell, BufId, Consumer, Desc, Mapping, Page, PageKind, Producer, Ring};
use rustix::process::{Signal, getpid, kill_process};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Places of the two indexes in a queue's memory.
const TAIL_AT: u64 = 0;
const HEAD_AT: u64 = 128;
/// Packets that it passes on after a misdeed that nobody sees, before it dies.
const ATONES_AFTER: u64 = 2_000;

/// The liar has no connection or no memory.
#[derive(Debug, thiserror::Error)]
pub enum LiarError {
    #[error("{0}")]
    Wire(#[from] WireError),
    #[error("{0}")]
    Map(#[from] MapError),
}

struct Liar {
    region_count: u32,
    stride: u32,
    inputs: Vec<(Consumer, File, usize)>,
    outs: Vec<(Producer, File, Bell)>,
    return_out: usize,
    bells: Vec<File>,
    own: Bell,
    page: Page,
    page_file: File,
}

fn file(fd: &OwnedFd) -> File {
    fd.try_clone().unwrap().into()
}

/// Serves; lies with `lie` after `after` packets.
///
/// # Errors
/// When the manager is gone.
pub fn serve(socket: OwnedFd, lie: &str, after: u64) -> Result<(), LiarError> {
    let (setup, fds) = wire::recv::<Setup>(&socket)?;
    let declared = vec![Declared::default(); setup.nfs.len()];
    wire::send(&socket, &FromInstance::Built(Built::Ready(declared)), &[])?;
    let (start, page) = wire::recv::<Start>(&socket)?;
    let mut liar = Liar::new(&setup, &fds, start, &page[0])?;
    let tid = rustix::thread::gettid().as_raw_nonzero().get();
    wire::send(&socket, &FromInstance::Running { tid }, &[])?;
    liar.run(lie, after);
    wire::send(
        &socket,
        &FromInstance::Last(Last::Ended { reports: vec![None; setup.nfs.len()], storage: vec![] }),
        &[],
    )?;
    Ok(())
}

impl Liar {
    fn new(setup: &Setup, fds: &[OwnedFd], start: Start, page: &OwnedFd) -> Result<Self, LiarError> {
        let ring = |fd: usize, capacity: u32| -> Result<(Ring, File), MapError> {
            let map = Mapping::open(fds[fd].try_clone().unwrap(), Ring::bytes(capacity), PageKind::Small)?;
            Ok((Ring::over(Arc::new(map), capacity)?, file(&fds[fd])))
        };
        let bell = |i: usize| -> Result<Bell, MapError> {
            let map = Mapping::open(fds[setup.bells[i]].try_clone().unwrap(), 4, PageKind::Small)?;
            Bell::over(Arc::new(map))
        };
        let (mut inputs, mut outs) = (Vec::new(), Vec::new());
        for q in &setup.queues {
            let (ring, file) = ring(q.ring.fd, q.ring.capacity)?;
            inputs.push((Consumer::attach(ring), file, q.next));
        }
        for o in &setup.outs {
            let (ring, file) = ring(o.ring.fd, o.ring.capacity)?;
            outs.push((Producer::attach(ring), file, bell(o.consumer_bell)?));
        }
        Ok(Self {
            region_count: setup.region.count,
            stride: setup.region.stride,
            inputs,
            outs,
            return_out: setup.return_out,
            bells: setup.bells.iter().map(|b| file(&fds[*b])).collect(),
            own: bell(setup.own_bell)?,
            page: Page::open(page.try_clone().unwrap(), start.layout)?,
            page_file: file(page),
        })
    }

    fn run(&mut self, lie: &str, after: u64) {
        let (mut passed, mut lied) = (0, false);
        // Lies that nobody sees end with its death, but for those that are about living on.
        let seen = ["lie-index", "lie-far", "lie-long", "lie-twice", "lie-stale", "lie-back", "lie-others"];
        let dies = !seen.contains(&lie) && !lie.ends_with("-on");
        loop {
            let mut moved = 0;
            for q in 0..self.inputs.len() {
                moved += self.pass_on(q);
            }
            passed += moved;
            if passed >= after && !lied {
                lied = true;
                self.lie(lie);
            }
            if lied && dies && passed >= after + ATONES_AFTER {
                kill_process(getpid(), Signal::KILL).unwrap();
            }
            if moved > 0 {
                continue;
            }
            if self.page.control().stop.load(Relaxed) != 0 && (!lied || lie != "lie-page") {
                return;
            }
            // It need not be woken, only not to burn the core.
            self.own.announce_sleep();
            self.own.sleep(Duration::from_millis(1));
        }
    }

    /// Passes a burst on as an honest NF would.
    fn pass_on(&mut self, q: usize) -> u64 {
        let (consumer, _, next) = &mut self.inputs[q];
        let (producer, _, bell) = &mut self.outs[*next];
        let n = consumer.available(32).min(32).min(producer.room(32));
        for i in 0..n {
            let desc = consumer.peek(i);
            producer.push(Desc { tag: 0, ..desc });
        }
        if n > 0 {
            producer.publish();
            consumer.release(n);
            bell.ring();
        }
        u64::from(n)
    }

    /// Takes up to `n` packets out of its queues.
    fn take(&mut self, n: usize) -> Vec<Desc> {
        let mut taken = Vec::new();
        for (consumer, ..) in &mut self.inputs {
            // They come in at any time; a lie needs something to lie about.
            while taken.len() < n {
                if consumer.available(1) > 0 {
                    taken.push(consumer.peek(0));
                    consumer.release(1);
                } else if self.page.control().stop.load(Relaxed) != 0 {
                    return taken;
                }
            }
        }
        taken
    }

    fn send(&mut self, out: usize, descs: impl IntoIterator<Item = Desc>) {
        let (producer, _, bell) = &mut self.outs[out];
        for desc in descs {
            while producer.room(1) == 0 {
                producer.publish();
                bell.ring();
                std::hint::spin_loop();
            }
            producer.push(desc);
        }
        producer.publish();
        bell.ring();
    }

    fn lie(&mut self, lie: &str) {
        let next = self.inputs[0].2;
        let (count, stride) = (self.region_count, self.stride);
        match lie {
            // A buffer that is not there.
            "lie-index" => {
                let bad = [count, count + 1, (1 << 24) - 1].map(|i| Desc { buf: BufId::new(i, 1), ..Desc::default() });
                self.send(next, bad);
            }
            // A frame outside its buffer, by offset and by length.
            "lie-far" => {
                let taken = self.take(8);
                self.send(next, taken.into_iter().map(|d| Desc { off: u16::MAX, len: u16::MAX, ..d }));
            }
            "lie-long" => {
                let taken = self.take(8);
                self.send(next, taken.into_iter().map(|d| Desc { off: 1, len: stride as u16, ..d }));
            }
            // The same packet twice.
            "lie-twice" => {
                let taken = self.take(40);
                self.send(next, taken.iter().copied().chain(taken.iter().copied()).collect::<Vec<_>>());
            }
            // A descriptor of an earlier packet in the same buffer.
            "lie-stale" => {
                let taken = self.take(8);
                let old = |d: Desc| Desc { buf: BufId::new(d.buf.index(), d.buf.generation().wrapping_sub(1)), ..d };
                self.send(next, taken.into_iter().map(old));
            }
            // Garbage among the dropped.
            "lie-back" => {
                let all = (0..64).map(|i| Desc {
                    buf: BufId(i * 0x0101_0101),
                    chain: 77,
                    hop: 200,
                    tag: 9,
                    ..Desc::default()
                });
                self.send(self.return_out, all);
            }
            // Whatever buffers there are, in whatever generation: among them those of other chains of the tenant.
            "lie-others" => {
                let generations = 1..=3;
                let all = generations.flat_map(|g| (0..count).map(move |i| (i, g)));
                let desc = |(i, g)| Desc { buf: BufId::new(i, g), off: 128, len: 60, ..Desc::default() };
                self.send(next, all.map(desc));
            }
            // Right descriptors, dropped at a place and for a reason that are not there: no lie that can be seen.
            "lie-place" => {
                let taken = self.take(8);
                let nowhere = |d: Desc| Desc { chain: 99, hop: 99, tag: 99, ..d };
                self.send(self.return_out, taken.into_iter().map(nowhere));
            }
            // Packets that never come back.
            "lie-swallow" | "lie-swallow-on" => _ = self.take(300),
            // Both indexes of all its queues, by values that can and that cannot be.
            "lie-indexes" => self.scribble(&[TAIL_AT, HEAD_AT], 0x5555_5555),
            "lie-heads" => self.scribble(&[HEAD_AT], 0x7777_7777),
            "lie-tails" => self.scribble(&[TAIL_AT], 0x7777_7777),
            "lie-bells" | "lie-bells-on" => {
                for bell in &self.bells {
                    bell.write_all_at(&[0xee; 64], 0).unwrap();
                }
            }
            // Everything that it says of itself, and the manager's word to it.
            "lie-page" | "lie-page-on" => {
                let len = self.page.mapping().len();
                self.page_file.write_all_at(&vec![0xff; len], 0).unwrap();
            }
            // All of the tenant's packets' bytes and, in its queues, all descriptors.
            "lie-slots" => {
                for (_, file, _) in &self.inputs {
                    Self::flood(file);
                }
                for (_, file, _) in &self.outs {
                    Self::flood(file);
                }
            }
            other => panic!("no such lie: {other}"),
        }
    }

    fn scribble(&mut self, at: &[u64], value: u32) {
        let files = self.inputs.iter().map(|i| &i.1).chain(self.outs.iter().map(|o| &o.1));
        for (n, file) in files.enumerate() {
            for at in at {
                file.write_all_at(&value.wrapping_mul(n as u32 + 1).to_le_bytes(), *at).unwrap();
            }
        }
    }

    fn flood(file: &File) {
        let len = file.metadata().unwrap().len();
        file.write_all_at(&vec![0xa5; (len - 256) as usize], 256).unwrap();
    }
}
