//! What the benchmarks of all NFs share: an NF built as a host builds it, and bursts of 64-byte frames for it.

use chainline_nf::testing::NoHolds;
use chainline_nf::{Burst, Ctx, Declared, Env, FileSpec, Kind, NfObject, Packet, PacketMeta, Storage, Verdict};
use chainline_packet::{flow_hash, parse};
use std::path::Path;
use std::sync::atomic::AtomicU64;

/// Packets in a burst.
pub const BURST: usize = 32;
/// A 64-byte frame without its FCS.
const FRAME_LEN: usize = 60;
/// Ethernet, IPv4 and UDP headers.
const HEADERS: usize = 42;
/// Headroom as hosts give it.
const HEADROOM: usize = 128;

/// Files for an NF that has some, and what their host does after a burst.
pub trait Files {
    /// What the NF gets.
    fn lend(&mut self) -> Option<&mut dyn Storage>;
    /// Makes room for another burst.
    fn after(&mut self);
}

/// An NF, its counters, and frames of `flows` flows in an order that strides through them.
pub struct Rig {
    nf: Box<dyn NfObject>,
    counters: Vec<AtomicU64>,
    buffers: Vec<[u8; HEADROOM + FRAME_LEN]>,
    /// The buffers' headers as they were.
    headers: Vec<[u8; HEADERS]>,
    metas: Vec<PacketMeta>,
    next: usize,
    specs: Vec<FileSpec>,
    files: Option<Box<dyn Files>>,
}

impl Rig {
    /// Builds the NF; files are relative to its package. `flows` is rounded up to whole bursts.
    pub fn new(kind: &Kind, args: serde_json::Value, flows: usize) -> Self {
        // Destinations far apart, so that a route table is not always asked in one place.
        Self::towards(kind, args, flows, |i| i.wrapping_mul(0x9e37_79b9) & 0x7fff_ffff)
    }

    /// As [`Rig::new`], with flow `i` to the address `destination(i)`.
    pub fn towards(kind: &Kind, args: serde_json::Value, flows: usize, destination: fn(u32) -> u32) -> Self {
        Self::diverting(kind, args, &[], flows, destination)
    }

    /// As [`Rig::towards`], for an NF that diverts to `targets`.
    pub fn diverting(
        kind: &Kind,
        args: serde_json::Value,
        targets: &[&str],
        flows: usize,
        destination: fn(u32) -> u32,
    ) -> Self {
        let targets: Vec<String> = targets.iter().map(|t| (*t).to_owned()).collect();
        let mut env = Env::new(Path::new("."), &targets);
        let nf = (kind.build)(args, &mut env).unwrap_or_else(|e| panic!("{}: {e}", kind.name));
        let declared: Declared = env.into_declared();
        let counters = declared.counters.iter().map(|_| AtomicU64::new(0)).collect();
        let flows = flows.next_multiple_of(BURST);
        let (mut buffers, mut headers, mut metas) = (Vec::new(), Vec::new(), Vec::new());
        for i in 0..flows as u32 {
            let frame = frame(i, destination(i));
            let mut buffer = [0; HEADROOM + FRAME_LEN];
            buffer[HEADROOM..].copy_from_slice(&frame);
            buffers.push(buffer);
            let mut header = [0; HEADERS];
            header.copy_from_slice(&frame[..HEADERS]);
            headers.push(header);
            metas.push(PacketMeta { flow_hash: flow_hash(&parse(&frame).tuple), ..PacketMeta::default() });
        }
        Self { nf, counters, buffers, headers, metas, next: 0, specs: declared.files, files: None }
    }

    /// For an NF with files: `make` opens them.
    #[allow(dead_code)]
    pub fn with_files(mut self, make: impl FnOnce(&[FileSpec]) -> Box<dyn Files>) -> Self {
        self.files = Some(make(&self.specs));
        self
    }

    /// One burst through the NF; returns how many of its packets go on.
    pub fn burst(&mut self) -> usize {
        let chunk = self.next..self.next + BURST;
        self.next = chunk.end % self.buffers.len();
        let mut burst = Burst::new();
        let frames = self.buffers[chunk.clone()].iter_mut().zip(&self.headers[chunk.clone()]).zip(&self.metas[chunk]);
        for ((buffer, header), meta) in frames {
            // The TTL again, so that no packet dies of age between rounds; and the ends, which some NFs translate.
            buffer[HEADROOM..HEADROOM + HEADERS].copy_from_slice(header);
            let packet = Packet::new(buffer, HEADROOM as u16, FRAME_LEN as u16, *meta);
            let _full = packet.map(|p| burst.push(p));
        }
        let mut holds = NoHolds;
        let files = self.files.as_mut().and_then(|f| f.lend());
        let mut ctx = Ctx::new(0, &self.counters, &mut holds).with_storage(files);
        self.nf.process(&mut burst, &mut ctx);
        if let Some(files) = &mut self.files {
            files.after();
        }
        burst.verdicts().iter().filter(|v| **v == Verdict::NEXT).count()
    }
}

fn ip_header(i: u32, destination: u32) -> [u8; 20] {
    let mut h = [0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 0, 192, 168, 0, 0];
    h[13..16].copy_from_slice(&i.to_be_bytes()[1..]);
    h[16..20].copy_from_slice(&destination.to_be_bytes());
    let sum = chainline_packet::checksum::checksum(&h);
    h[10..12].copy_from_slice(&sum.to_be_bytes());
    h
}

fn frame(i: u32, destination: u32) -> [u8; FRAME_LEN] {
    let mut p = [0; FRAME_LEN];
    p[..14].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0]);
    p[14..34].copy_from_slice(&ip_header(i, destination));
    // A checksum that is there, so that NFs which mend it do, and need not be right.
    p[34..42].copy_from_slice(&[0x30, 0x39, 0, 53, 0, 26, 0x12, 0x34]);
    p
}

/// `main` of `benches/instructions.rs`: as many bursts as the first argument says, for a count of instructions.
/// Two runs with different numbers, subtracted, leave out what it takes to start; callgrind's
/// `--toggle-collect='*NfObject*process*'` leaves out this program as well.
#[allow(dead_code)]
pub fn instructions(kind: &Kind, args: serde_json::Value) {
    count(kind, |flows| Rig::new(kind, args.clone(), flows));
}

/// As [`instructions`], with flow `i` to the address `destination(i)`.
#[allow(dead_code)]
pub fn instructions_towards(kind: &Kind, args: serde_json::Value, destination: fn(u32) -> u32) {
    count(kind, |flows| Rig::towards(kind, args.clone(), flows, destination));
}

/// As [`instructions`], with a rig of one's own.
#[allow(dead_code)]
pub fn count(kind: &Kind, rig: impl Fn(usize) -> Rig) {
    // `cargo bench` adds `--bench`.
    let bursts = std::env::args().find_map(|a| a.parse::<u32>().ok()).unwrap_or(1000);
    let mut rig = rig(1024);
    // Until tables know all flows.
    for _ in 0..1024 / BURST {
        rig.burst();
    }
    let passed: usize = (0..bursts).map(|_| rig.burst()).sum();
    println!("{}: {bursts} bursts of {BURST}, {passed} packets passed", kind.name);
}

/// For `benches/burst.rs`: times bursts of `flows` flows.
#[allow(dead_code)]
pub fn bursts(bencher: divan::Bencher<'_, '_>, kind: &Kind, args: serde_json::Value, flows: usize) {
    time(bencher, Rig::new(kind, args, flows), flows);
}

/// Times a rig of `flows` flows.
#[allow(dead_code)]
pub fn time(bencher: divan::Bencher<'_, '_>, mut rig: Rig, flows: usize) {
    for _ in 0..flows.div_ceil(BURST) {
        rig.burst();
    }
    bencher.counter(divan::counter::ItemsCount::new(BURST)).bench_local(move || rig.burst());
}
