//! A host with real files, and with places for packets that it does not keep: it only counts what is held.

#![allow(dead_code, clippy::unwrap_used)]

use chainline_nf::{Burst, Ctx, Declared, Env, HoldId, Holds, MAX_BURST, NfObject, Packet, PacketMeta, Verdict};
use chainline_storage::{Choice, Storage};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// A directory that goes when it is dropped.
pub struct Dir(pub PathBuf);

impl Dir {
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let n = NEXT.fetch_add(1, Relaxed);
        let path = std::env::temp_dir().join(format!("chainline-nf-logger-{}-{n}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Places for held packets: which are free, which are taken, and who was let go.
struct Places {
    free: Vec<u32>,
    released: Vec<(u32, Verdict)>,
}

impl Holds for Places {
    fn reserve(&mut self) -> Option<HoldId> {
        self.free.pop().map(HoldId::from_bits)
    }
    fn with(&mut self, _: HoldId, _: &mut dyn FnMut(&mut Packet<'_>)) -> bool {
        false
    }
    fn release(&mut self, id: HoldId, verdict: Verdict) -> bool {
        self.free.push(id.to_bits());
        self.released.push((id.to_bits(), verdict));
        true
    }
}

const PLACES: u32 = 1024;

pub struct Host {
    nf: Box<dyn NfObject>,
    pub declared: Declared,
    storage: Storage,
    counters: Vec<AtomicU64>,
    places: Places,
    now_ns: u64,
}

impl Host {
    pub fn new(dir: &Path, args: serde_json::Value, choice: Choice) -> Self {
        let mut env = Env::new(dir, &[]);
        let nf = (nf_logger::KIND.build)(args, &mut env).unwrap_or_else(|e| panic!("{e}"));
        let declared = env.into_declared();
        let storage = Storage::open(&[&declared.files], choice, Arc::new(|| {})).unwrap_or_else(|(_, e)| panic!("{e}"));
        let counters = declared.counters.iter().map(|_| AtomicU64::new(0)).collect();
        let places = Places { free: (0..PLACES).rev().collect(), released: Vec::with_capacity(PLACES as usize) };
        Self { nf, declared, storage, counters, places, now_ns: 0 }
    }

    /// Plays the frames in bursts as long as there is credit, with the NF's and the storage's work done inside of
    /// `around`. Returns how many got the verdict next.
    pub fn play_in(&mut self, frames: &mut [Vec<u8>], around: &mut dyn FnMut(&mut dyn FnMut())) -> usize {
        let mut next = 0;
        let mut rest = frames;
        while !rest.is_empty() {
            let left = rest.len();
            let credit = self.storage.room(0).min(self.places.free.len() as u32) as usize;
            let (now, later) = std::mem::take(&mut rest).split_at_mut(credit.min(left).min(MAX_BURST));
            rest = later;
            let mut burst = Burst::new();
            for frame in now {
                let len = u16::try_from(frame.len()).unwrap();
                burst.push(Packet::new(frame, 0, len, PacketMeta::default()).unwrap()).unwrap();
            }
            self.now_ns += 1000;
            let waits = burst.is_empty();
            around(&mut || self.pass(&mut burst, waits));
            next += burst.verdicts().iter().filter(|v| **v == Verdict::NEXT).count();
        }
        next
    }

    fn pass(&mut self, burst: &mut Burst<'_>, waits: bool) {
        let Self { nf, storage, counters, places, now_ns, .. } = self;
        if waits {
            storage.flush();
        } else {
            let files = storage.files(0, *now_ns);
            nf.process(burst, &mut Ctx::new(*now_ns, counters, places).with_storage(files));
        }
        storage.submit(*now_ns);
        places.released.clear();
        storage.complete(*now_ns, &mut |_, done, files| {
            nf.completed(done, &mut Ctx::new(*now_ns, counters, places).with_storage(Some(files)));
        });
    }

    pub fn play(&mut self, frames: &mut [Vec<u8>]) -> usize {
        self.play_in(frames, &mut |f| f())
    }

    /// Until all is written and nothing is held.
    pub fn drain(&mut self) {
        while self.storage.pending() {
            self.pass(&mut Burst::new(), true);
        }
        assert_eq!(self.places.free.len(), PLACES as usize, "packets are held for ever");
    }

    pub fn counter(&self, name: &str) -> u64 {
        let i = self.declared.counters.iter().position(|c| c.name == name);
        self.counters[i.unwrap_or_else(|| panic!("no counter {name}"))].load(Relaxed)
    }
}
