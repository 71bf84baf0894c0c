//! What the tests of all NFs share: a host that plays bursts of frames.

#![allow(dead_code, clippy::unwrap_used)]

use chainline_nf::testing::NoHolds;
use chainline_nf::{Burst, Ctx, Declared, Decoded, Env, Kind, MAX_BURST, NfObject, Packet, PacketMeta};
use chainline_packet::{flow_hash, parse};
use proptest::prelude::*;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// Room before and behind each frame.
const ROOM: usize = 128;

pub struct Host {
    nf: Box<dyn NfObject>,
    declared: Declared,
    targets: Vec<String>,
    counters: Vec<AtomicU64>,
    /// The chain of the packets.
    pub chain: u16,
}

impl Host {
    pub fn new(kind: &Kind, args: serde_json::Value) -> Self {
        Self::in_dir(kind, args, Path::new(".")).unwrap_or_else(|e| panic!("{}: {e}", kind.name))
    }

    pub fn in_dir(kind: &Kind, args: serde_json::Value, dir: &Path) -> Result<Self, chainline_nf::Error> {
        Self::build(kind, args, dir, &[])
    }

    /// For an NF that diverts to these.
    pub fn with_targets(kind: &Kind, args: serde_json::Value, targets: &[&str]) -> Self {
        Self::build(kind, args, Path::new("."), targets).unwrap_or_else(|e| panic!("{}: {e}", kind.name))
    }

    fn build(kind: &Kind, args: serde_json::Value, dir: &Path, targets: &[&str]) -> Result<Self, chainline_nf::Error> {
        let targets: Vec<String> = targets.iter().map(|t| (*t).to_owned()).collect();
        let mut env = Env::new(dir, &targets);
        let nf = (kind.build)(args, &mut env)?;
        let declared = env.into_declared();
        let counters = declared.counters.iter().map(|_| AtomicU64::new(0)).collect();
        Ok(Self { nf, declared, targets, counters, chain: 0 })
    }

    /// Plays the frames, in bursts as long as they can be. Each verdict is "next", the drop's reason or the target.
    pub fn play(&mut self, now_ns: u64, frames: &mut [Vec<u8>]) -> Vec<&str> {
        self.play_in(now_ns, frames, &mut |process| process())
    }

    /// As [`Host::play`], with the NF's work done inside of `around`.
    pub fn play_in(
        &mut self,
        now_ns: u64,
        frames: &mut [Vec<u8>],
        around: &mut dyn FnMut(&mut dyn FnMut()),
    ) -> Vec<&str> {
        let mut verdicts = Vec::new();
        for frames in frames.chunks_mut(MAX_BURST) {
            let mut buffers: Vec<_> = frames.iter().map(|f| [&[0xa5; ROOM][..], f, &[0xa5; ROOM]].concat()).collect();
            let mut burst = Burst::new();
            for (frame, buffer) in frames.iter().zip(&mut buffers) {
                let flow_hash = flow_hash(&parse(frame).tuple);
                let len = u16::try_from(frame.len()).unwrap();
                let meta = PacketMeta { chain: self.chain, flow_hash, ..PacketMeta::default() };
                burst.push(Packet::new(buffer, ROOM as u16, len, meta).unwrap()).unwrap();
            }
            let mut holds = NoHolds;
            around(&mut || self.nf.process(&mut burst, &mut Ctx::new(now_ns, &self.counters, &mut holds)));
            verdicts.extend(burst.verdicts().iter().map(|v| v.decode()));
            for (frame, packet) in frames.iter_mut().zip(burst.packets()) {
                frame.clear();
                frame.extend(packet.data());
            }
        }
        let name = |v: Option<Decoded>| match v {
            Some(Decoded::Next) => "next",
            Some(Decoded::Drop(reason)) => self.declared.drop_reasons[usize::from(reason)].as_str(),
            Some(Decoded::Divert(target)) => self.targets[usize::from(target)].as_str(),
            other => panic!("verdict {other:?}"),
        };
        verdicts.into_iter().map(name).collect()
    }

    pub fn tick(&mut self, now_ns: u64) {
        let mut holds = NoHolds;
        self.nf.tick(&mut Ctx::new(now_ns, &self.counters, &mut holds));
    }

    /// Ticks until a changed file took effect, or was found to be wrong. Returns the time of the last one, 3 s later at
    /// most.
    pub fn until_reloaded(&mut self, now_ms: u64) -> u64 {
        let looked = |host: &Self| host.counter("reloads") + host.counter("reloads_failed");
        let (before, mut at_ms) = (looked(self), now_ms);
        while looked(self) == before {
            // It is read by a thread of its own, which has a clock of its own.
            at_ms = (at_ms + 10).min(now_ms + 3000);
            self.tick(at_ms * 1_000_000);
            std::thread::yield_now();
        }
        at_ms
    }

    pub fn counter(&self, name: &str) -> u64 {
        let i = self.declared.counters.iter().position(|c| c.name == name);
        self.counters[i.unwrap_or_else(|| panic!("no counter {name}"))].load(Relaxed)
    }

    pub fn counters_from(&self, name: &str) -> Vec<u64> {
        let i = self.declared.counters.iter().position(|c| c.name == name);
        let from = i.unwrap_or_else(|| panic!("no counter {name}"));
        self.counters[from..].iter().map(|c| c.load(Relaxed)).collect()
    }

    pub fn report(&self) -> Option<String> {
        self.nf.report()
    }
}

/// A folder for files that an NF reads, gone at the end.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("chainline-nf-{}-{}", std::process::id(), NEXT.fetch_add(1, Relaxed));
        let folder = Self(std::env::temp_dir().join(name));
        std::fs::create_dir(&folder.0).unwrap();
        folder
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// In place of what is there, as an editor does it.
    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.0.join("new"), text).unwrap();
        std::fs::rename(self.0.join("new"), self.0.join(name)).unwrap();
    }

    pub fn host(&self, kind: &Kind, args: serde_json::Value) -> Host {
        Host::in_dir(kind, args, &self.0).unwrap()
    }

    pub fn host_with_targets(&self, kind: &Kind, args: serde_json::Value, targets: &[&str]) -> Host {
        Host::build(kind, args, &self.0, targets).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// An Ethernet frame with an IPv4 packet, its checksum right.
pub fn ipv4(src: u32, dst: u32, proto: u8, ttl: u8, payload: &[u8]) -> Vec<u8> {
    let mut p = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0];
    p.extend((20 + payload.len() as u16).to_be_bytes());
    p.extend([0, 0, 0, 0, ttl, proto, 0, 0]);
    p.extend(src.to_be_bytes());
    p.extend(dst.to_be_bytes());
    let sum = chainline_packet::checksum::checksum(&p[14..34]);
    p[24..26].copy_from_slice(&sum.to_be_bytes());
    p.extend(payload);
    p
}

/// An Ethernet frame with an IPv6 packet.
pub fn ipv6(src: u128, dst: u128, next: u8, hop_limit: u8, payload: &[u8]) -> Vec<u8> {
    let mut p = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x86, 0xdd, 0x60, 0, 0, 0];
    p.extend((payload.len() as u16).to_be_bytes());
    p.extend([next, hop_limit]);
    p.extend(src.to_be_bytes());
    p.extend(dst.to_be_bytes());
    p.extend(payload);
    p
}

/// A header with ports for TCP, UDP and others, long enough to be right.
pub fn l4(proto: u8, src_port: u16, dst_port: u16) -> Vec<u8> {
    let mut h = [src_port.to_be_bytes(), dst_port.to_be_bytes()].concat();
    h.resize(20, 0);
    match proto {
        6 => h[12] = 0x50,
        17 => h[5] = 20,
        _ => {}
    }
    h
}

/// Frames of hostile senders: random bytes, and right packets with some bytes changed and the end cut.
pub fn hostile_frames() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let random = proptest::collection::vec(any::<u8>(), 0..120);
    let right = prop_oneof![
        (any::<u32>(), any::<u32>(), any::<u8>()).prop_map(|(s, d, proto)| ipv4(s, d, proto, 2, &l4(proto, 1, 2))),
        (any::<u128>(), any::<u128>(), any::<u8>()).prop_map(|(s, d, n)| ipv6(s, d, n, 2, &[n; 48])),
    ];
    let damaged = (right, proptest::collection::vec((0usize..80, any::<u8>()), 0..6), 0usize..100).prop_map(
        |(mut frame, changes, len)| {
            for (at, byte) in changes {
                if let Some(b) = frame.get_mut(at) {
                    *b = byte;
                }
            }
            frame.truncate(len.max(10));
            frame
        },
    );
    proptest::collection::vec(prop_oneof![random, damaged], 1..300)
}
