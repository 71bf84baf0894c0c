//! A host for one NF that holds it to what every NF promises.

use chainline_nf::testing::NoHolds;
use chainline_nf::{Burst, Ctx, Declared, Decoded, Env, Error, Kind, MAX_BURST, NfObject, Packet, PacketMeta, Verdict};
use chainline_packet::{flow_hash, parse};
use std::path::Path;
use std::sync::atomic::AtomicU64;

/// Around each frame, filled with [`FILL`]: nobody may write there without moving the frame.
const HEADROOM: usize = 128;
const TAILROOM: usize = 64;
const FILL: u8 = 0xa5;

/// What became of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    pub verdict: Decoded,
    pub frame: Vec<u8>,
}

pub struct Rig {
    pub kind: &'static str,
    nf: Box<dyn NfObject>,
    declared: Declared,
    counters: Vec<AtomicU64>,
    targets: usize,
}

impl Rig {
    pub fn new(kind: &Kind, args: serde_json::Value) -> Result<Self, Error> {
        Self::with_targets(kind, args, &[])
    }

    /// For an NF that diverts to these targets, and then may also make frames longer and shorter.
    pub fn with_targets(kind: &Kind, args: serde_json::Value, targets: &[&str]) -> Result<Self, Error> {
        let targets: Vec<String> = targets.iter().map(|t| (*t).to_owned()).collect();
        let mut env = Env::new(Path::new("."), &targets);
        let nf = (kind.build)(args, &mut env)?;
        let declared = env.into_declared();
        let counters = declared.counters.iter().map(|_| AtomicU64::new(0)).collect();
        Ok(Self { kind: kind.name, nf, declared, counters, targets: targets.len() })
    }

    /// Plays the frames in bursts of `most`.
    pub fn play(&mut self, now_ns: u64, frames: &[&[u8]], most: usize) -> Vec<Outcome> {
        frames.chunks(most.min(MAX_BURST)).flat_map(|frames| self.burst(now_ns, frames)).collect()
    }

    fn burst(&mut self, now_ns: u64, frames: &[&[u8]]) -> Vec<Outcome> {
        let mut buffers: Vec<Vec<u8>> =
            frames.iter().map(|f| [&[FILL; HEADROOM][..], f, &[FILL; TAILROOM]].concat()).collect();
        let mut burst = Burst::new();
        for (buffer, frame) in buffers.iter_mut().zip(frames) {
            let meta = PacketMeta { flow_hash: flow_hash(&parse(frame).tuple), ..PacketMeta::default() };
            let packet = Packet::new(buffer, HEADROOM as u16, u16::try_from(frame.len()).unwrap(), meta).unwrap();
            burst.push(packet).unwrap();
        }
        self.nf.process(&mut burst, &mut Ctx::new(now_ns, &self.counters, &mut NoHolds));
        assert_eq!((burst.len(), burst.verdicts().len()), (frames.len(), frames.len()), "{}", self.kind);
        let places: Vec<(usize, usize, Verdict)> =
            burst.packets().iter().zip(burst.verdicts()).map(|(p, v)| (p.offset().into(), p.len(), *v)).collect();
        drop(burst);
        buffers.iter().zip(places).map(|(buffer, place)| self.outcome(buffer, place)).collect()
    }

    fn outcome(&self, buffer: &[u8], (off, len, verdict): (usize, usize, Verdict)) -> Outcome {
        let frame = buffer.get(off..off + len).unwrap_or_else(|| panic!("{}: a frame outside its buffer", self.kind));
        let before = HEADROOM..buffer.len() - TAILROOM;
        if self.targets == 0 {
            assert_eq!(off..off + len, before, "{}: moved a frame", self.kind);
        }
        let around = buffer[..off.min(before.start)].iter().chain(&buffer[(off + len).max(before.end)..]);
        assert!(around.copied().all(|b| b == FILL), "{}: wrote outside the frame", self.kind);
        let verdict = verdict.decode().unwrap_or_else(|| panic!("{}: {verdict:?}", self.kind));
        match verdict {
            Decoded::Next => {}
            Decoded::Drop(reason) => assert!(usize::from(reason) < self.declared.drop_reasons.len(), "{}", self.kind),
            Decoded::Divert(target) if usize::from(target) < self.targets => {}
            // There is no such target and no place to hold.
            Decoded::Divert(_) | Decoded::Hold(_) => panic!("{}: {verdict:?}", self.kind),
        }
        Outcome { verdict, frame: frame.to_vec() }
    }

    pub fn tick(&mut self, now_ns: u64) {
        self.nf.tick(&mut Ctx::new(now_ns, &self.counters, &mut NoHolds));
    }

    pub fn report(&self) -> Option<String> {
        self.nf.report()
    }
}
