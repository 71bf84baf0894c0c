//! A host with files in memory.

#![allow(dead_code, clippy::unwrap_used)]

use chainline_nf::testing::NoHolds;
use chainline_nf::{
    Access, Burst, Ctx, Declared, Env, File, FileSpec, MAX_BURST, NfObject, Packet, PacketMeta, Refused, Storage,
    Verdict,
};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// A directory that goes when it is dropped.
pub struct Dir(pub PathBuf);

impl Dir {
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let n = NEXT.fetch_add(1, Relaxed);
        let path = std::env::temp_dir().join(format!("chainline-nf-monitor-{}-{n}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

struct Files {
    bytes: Vec<Vec<u8>>,
    sizes: Vec<u32>,
}

impl Storage for Files {
    fn write(&mut self, file: File, parts: &[&[u8]], _: Option<u64>) -> Result<(), Refused> {
        let i = file.to_bits() as usize;
        let len: usize = parts.iter().map(|p| p.len()).sum();
        if len > self.sizes[i] as usize {
            return Err(Refused::TooLong);
        }
        parts.iter().for_each(|p| self.bytes[i].extend_from_slice(p));
        Ok(())
    }
    fn read(&mut self, _: File, _: u64, _: u32, _: u64) -> Result<(), Refused> {
        Err(Refused::Absent)
    }
    fn flush(&mut self, _: File) -> Result<(), Refused> {
        Ok(())
    }
}

pub struct Host {
    nf: Box<dyn NfObject>,
    declared: Declared,
    counters: Vec<AtomicU64>,
    files: Files,
}

impl Host {
    pub fn new(args: serde_json::Value) -> Self {
        Self::in_dir(args, Path::new("."))
    }

    /// As [`Host::new`], with files in `dir`: of those that are there, what the NF keeps comes first.
    pub fn in_dir(args: serde_json::Value, dir: &Path) -> Self {
        let mut env = Env::new(dir, &[]);
        let nf = (nf_monitor::KIND.build)(args, &mut env).unwrap_or_else(|e| panic!("{e}"));
        let declared = env.into_declared();
        let counters = declared.counters.iter().map(|_| AtomicU64::new(0)).collect();
        let begun = |spec: &FileSpec| {
            // Room, so that a test which counts allocations counts the NF's alone.
            let mut bytes = Vec::with_capacity(8 << 20);
            bytes.extend(std::fs::read(&spec.path).unwrap_or_default());
            if let Access::Append { keep: Some(keep) } = spec.access {
                bytes.truncate(keep as usize);
            }
            bytes.extend(&spec.head);
            bytes
        };
        let files = Files {
            bytes: declared.files.iter().map(begun).collect(),
            sizes: declared.files.iter().map(|f| f.packet_bytes).collect(),
        };
        Self { nf, declared, counters, files }
    }

    pub fn play(&mut self, now_ns: u64, frames: &mut [Vec<u8>]) {
        self.play_in(now_ns, frames, &mut |process| process());
    }

    pub fn play_in(&mut self, now_ns: u64, frames: &mut [Vec<u8>], around: &mut dyn FnMut(&mut dyn FnMut())) {
        for frames in frames.chunks_mut(MAX_BURST) {
            let mut burst = Burst::new();
            for frame in frames {
                let len = u16::try_from(frame.len()).unwrap();
                burst.push(Packet::new(frame, 0, len, PacketMeta::default()).unwrap()).unwrap();
            }
            let mut holds = NoHolds;
            let Self { nf, counters, files, .. } = self;
            around(&mut || {
                nf.process(&mut burst, &mut Ctx::new(now_ns, counters, &mut holds).with_storage(Some(&mut *files)));
            });
            assert!(burst.verdicts().iter().all(|v| *v == Verdict::NEXT));
        }
    }

    pub fn tick(&mut self, now_ns: u64, ending: bool) {
        let mut holds = NoHolds;
        let ctx = Ctx::new(now_ns, &self.counters, &mut holds).with_storage(Some(&mut self.files));
        self.nf.tick(&mut ctx.with_ending(ending));
    }

    pub fn file(&self, i: usize) -> &[u8] {
        &self.files.bytes[i]
    }

    /// The JSON lines of a file.
    pub fn lines(&self, i: usize) -> Vec<serde_json::Value> {
        let text = std::str::from_utf8(self.file(i)).unwrap();
        text.lines().map(|l| serde_json::from_str(l).unwrap()).collect()
    }

    pub fn counter(&self, name: &str) -> u64 {
        let i = self.declared.counters.iter().position(|c| c.name == name);
        self.counters[i.unwrap_or_else(|| panic!("no counter {name}"))].load(Relaxed)
    }

    pub fn report(&self) -> String {
        self.nf.report().unwrap()
    }
}
