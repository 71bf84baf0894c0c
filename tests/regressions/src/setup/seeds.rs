//! What fuzzing of setups begins with, made of the types themselves: a field more is an error of the compiler here.

use super::{BUFFERS, FRAME, RING_BYTES, RING_CAPACITY, RINGS};
use chainline_nf::Sharing;
use chainline_runtime::setup::{
    Activation, NfSetup, OutSetup, QueueSetup, RegionSetup, RingSetup, Setup, SplitSetup, StageSetup, Start, VERSION,
};
use chainline_runtime::split::Dispatch;
use chainline_shm::{BufId, Desc, PageKind, PageLayout, Region};
use serde_json::json;

/// A seed, and what comes of it.
pub struct Seed {
    /// Its file.
    pub name: &'static str,
    /// What stands there.
    pub bytes: Vec<u8>,
    /// Packets that its NFs are handed; none: the setup is refused.
    pub received: Option<u64>,
}

/// All of them.
#[must_use]
pub fn all() -> Vec<Seed> {
    let one = || setup(&["n"], &[0]);
    let frames = [&[2, 0, 0, 64, 1][..], &[3, 128], &[4, 5, 0, 255], &[7, 5]];
    let holds = [&[5][..], &[5], &[6], &[6, 1, 0, 1]];
    let verdicts = [&[0][..], &[1, 0, 0, 0, 1], &[1, 0, 0, 0, 2], &[1, 7]];
    let both = [&[5][..], &[0], &[1, 0, 0, 0, 1], &[0]];
    let seed = |name, setup: &Setup, memory: Vec<u8>, received| {
        let counters = vec![1; setup.nfs.len()];
        let layout = PageLayout { queues: setup.queues.len(), counters, holds: setup.holds };
        let start = Start { layout, tables: vec![None; setup.nfs.len()] };
        let parts = [serde_json::to_vec(setup).unwrap(), serde_json::to_vec(&start).unwrap(), memory];
        Seed { name, bytes: parts.join(&0), received }
    };
    let stock = Setup { credit: false, activation: Activation::Hybrid { spin_ns: 1000 }, ..one() };
    let polls = Setup { activation: Activation::Poll { alone: false }, batch: 2, ..one() };
    let mut gives_way = one();
    gives_way.outs.iter_mut().for_each(|o| (o.same_core, o.urgent) = (true, !o.urgent));
    let mut split = Setup { replicas: 2, replica: 1, ..one() };
    split.outs.push(out(6));
    split.splits.push(SplitSetup { dispatch: Dispatch::Connection, outs: vec![0, 2] });
    split.queues[0].next = split.outs.len();
    let version = Setup { version: VERSION + 1, ..one() };
    let shares = Setup { nfs: vec![NfSetup { sharing: Sharing::LockFree, ..nf("n") }], ..one() };
    vec![
        seed("frames", &one(), memory(&frames), Some(4)),
        seed("fused", &setup(&["a", "b"], &[0, 1]), memory(&both), Some(7)),
        seed("gives-way", &gives_way, memory(&verdicts), Some(4)),
        seed("hold", &one(), memory(&holds), Some(4)),
        // The first of them is none.
        seed("lies", &one(), lies(), Some(1)),
        seed("next", &one(), memory(&verdicts), Some(4)),
        seed("polls", &polls, memory(&frames), Some(4)),
        seed("shares", &shares, memory(&frames), None),
        seed("split", &split, memory(&frames), Some(4)),
        seed("stock", &stock, memory(&verdicts), Some(4)),
        seed("version", &version, Vec::new(), None),
    ]
}

/// What broke a promise once, of this version.
#[must_use]
pub fn regressions() -> Vec<Seed> {
    let setup = serde_json::to_vec(&setup(&["a", "b"], &[0, 1])).unwrap();
    // A start that is none: the page is for one NF.
    let parts = [setup, b"{".to_vec(), memory(&[&[0][..], &[0], &[0], &[0]])];
    vec![Seed { name: "page-of-fewer-nfs", bytes: parts.join(&0), received: None }]
}

fn nf(name: &str) -> NfSetup {
    NfSetup {
        name: name.into(),
        kind: "scripted".into(),
        args: json!(null),
        sharing: Sharing::Private,
        divert: vec!["x".into()],
    }
}

fn out(fd: usize) -> OutSetup {
    let ring = RingSetup { fd, capacity: RING_CAPACITY };
    OutSetup { ring, consumer_bell: 1, wake_at: 1, urgent: false, same_core: false, chain: 0, hop: 1 }
}

/// An instance with one queue, whose packets go through `stages`, and on or back.
fn setup(nfs: &[&str], stages: &[usize]) -> Setup {
    Setup {
        version: VERSION,
        instance: "a".into(),
        dir: ".".into(),
        nfs: nfs.iter().map(|n| nf(n)).collect(),
        replicas: 1,
        replica: 0,
        region: RegionSetup { fd: 0, stride: Region::stride_for(FRAME), count: BUFFERS, pages: PageKind::Small },
        bells: vec![1, 2],
        own_bell: 0,
        queues: vec![QueueSetup {
            ring: RingSetup { fd: 3, capacity: RING_CAPACITY },
            producer_bell: Some(1),
            chain: 0,
            hop: 0,
            weight: 1,
            stages: stages.iter().map(|&nf| StageSetup { nf, divert: vec![1] }).collect(),
            next: 0,
        }],
        outs: vec![out(4), OutSetup { wake_at: 8, ..out(5) }],
        splits: Vec::new(),
        return_out: 1,
        credit: true,
        batch: 32,
        activation: Activation::Wake,
        holds: 4,
        clock: serde_json::from_value(json!({"origin": 0, "hz": 2_600_000_000_u64, "mult": 1_651_910_498_u64}))
            .unwrap(),
        cores: Vec::new(),
    }
}

fn desc(buf: u32, off: u16, len: u16) -> Desc {
    Desc { buf: BufId::new(buf, 0), off, len, hash: 1, ..Desc::default() }
}

/// A queue's bytes: written up to `written`, nothing taken, and the first descriptors.
fn ring(written: u32, descs: [Desc; 4]) -> Vec<u8> {
    let words = descs.iter().map(|d| d.to_words()).flat_map(|(a, b)| [a, b]);
    let indexes = [written.to_le_bytes(), [0; 4]].concat();
    indexes.into_iter().chain(words.flat_map(u64::to_le_bytes)).collect()
}

/// Four packets wait, which begin like this.
fn memory(packets: &[&[u8]; 4]) -> Vec<u8> {
    const OFF: u16 = 128;
    let mut bytes = ring(4, [0, 1, 2, 3].map(|buf| desc(buf, OFF, 60)));
    bytes.resize(RINGS * RING_BYTES, 0);
    for packet in packets {
        let begin = bytes.len() + usize::from(OFF);
        bytes.resize(bytes.len() + Region::stride_for(FRAME) as usize, 0);
        bytes[begin..begin + packet.len()].copy_from_slice(packet);
    }
    bytes
}

/// The same buffer twice, one that is not there, a frame out of bounds, and more of them; the other queues are nonsense.
fn lies() -> Vec<u8> {
    let mut bytes = ring(9, [desc(0, 128, 60), desc(0, 128, 60), desc(40, 128, 60), desc(1, 300, 300)]);
    bytes.resize(4 * RING_BYTES, 0xff);
    bytes
}
