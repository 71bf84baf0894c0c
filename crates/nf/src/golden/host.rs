//! A host for one case: builds the NF, hands it the packets, keeps what it holds.

use super::script::{Item, What};
use super::storage::Memory;
use super::{Subject, frame};
use crate::{Burst, Ctx, Decoded, Env, HoldId, Holds, MAX_BURST, Packet, PacketMeta, Verdict};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Bytes before the frame, as in DPDK's default (`RTE_PKTMBUF_HEADROOM`), and at least these behind it.
const HEADROOM: usize = 128;
const TAILROOM: usize = 256;

/// What fills a buffer outside the frame, so that an NF that sends stale bytes shows.
const FILL: u8 = 0xa5;

/// The surroundings that a case sets.
#[derive(Clone)]
pub(super) struct Setup {
    pub args: serde_json::Value,
    pub targets: Vec<String>,
    pub places: usize,
    pub burst: bool,
}

/// A packet that left the NF.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    /// In the words of the file.
    pub verdict: String,
    pub frame: Vec<u8>,
    /// Whether the frame is as it came in.
    pub same: bool,
    /// Whether a host would act on the verdict: it is known, and what it names is there.
    pub valid: bool,
}

/// What was seen at an item of the file, by its index.
#[derive(Default)]
pub(super) struct Played {
    pub error: Option<String>,
    pub outs: Vec<(usize, Seen)>,
    /// First and last packet of each call.
    pub batches: Vec<(usize, usize)>,
    /// The item is the last of the batch during which the NF released the packet.
    pub released: Vec<(usize, u32, Seen)>,
    pub counters: Vec<(usize, Vec<(String, u64)>)>,
    pub held: Vec<(usize, usize)>,
    pub report: Option<String>,
}

/// Plays the items of a case; batches of one packet, or as long as the file lets them be.
pub(super) fn play(subject: &dyn Subject, dir: &Path, setup: &Setup, items: &[Item], burst: bool) -> Played {
    let mut played = Played::default();
    let mut env = Env::new(dir, &setup.targets);
    let mut nf = match subject.build(setup.args.clone(), &mut env) {
        Ok(nf) => nf,
        Err(e) => {
            // Where the file lies must not matter.
            played.error = Some(e.to_string().replace(&format!("{}/", dir.display()), ""));
            return played;
        }
    };
    let declared = env.into_declared();
    let counters: Vec<AtomicU64> = declared.counters.iter().map(|_| AtomicU64::new(0)).collect();
    let words = Words { reasons: &declared.drop_reasons, targets: &setup.targets };
    let mut places = Places { slots: (0..setup.places).map(|_| Slot::Free).collect(), released: Vec::new() };
    let (mut now_ns, mut meta) = (0, PacketMeta::default());
    let mut files = Memory::new(&declared.files);
    let mut i = 0;
    while i < items.len() {
        match &items[i].what {
            What::Now(ns) => now_ns = *ns,
            What::Meta(m) => meta = *m,
            What::In(_) => {
                let batch = Batch::gather(&items[i..], meta, if burst { MAX_BURST } else { 1 });
                let last = i + batch.last;
                meta = batch.meta;
                played.batches.push((i, last));
                let buffers = batch.packets;
                let mut frames = buffers.clone();
                let mut load = Burst::new();
                for b in &mut frames {
                    if let Some(packet) = Packet::new(&mut b.bytes, b.off, b.len, b.meta) {
                        let _ = load.push(packet);
                    }
                }
                files.complete(&mut *nf, now_ns, &counters, &mut places);
                played.take_released(last, &mut places, &words);
                nf.process(&mut load, &mut Ctx::new(now_ns, &counters, &mut places).with_storage(Some(&mut files)));
                let ends: Vec<_> =
                    load.packets().iter().zip(load.verdicts()).map(|(p, v)| (p.offset(), p.len() as u16, *v)).collect();
                drop(load);
                for ((mut after, (off, len, verdict)), before) in frames.into_iter().zip(ends).zip(buffers) {
                    (after.off, after.len) = (off, len);
                    let seen = Seen::new(&after, before.frame(), &words, verdict);
                    let seen = match verdict.decode() {
                        Some(Decoded::Hold(id)) if !places.keep(id, after, before.frame()) => {
                            Seen { verdict: format!("hold {id}, which was not reserved"), valid: false, ..seen }
                        }
                        _ => seen,
                    };
                    played.outs.push((i + before.item, seen));
                }
                places.settle();
                played.take_released(last, &mut places, &words);
                i = last;
            }
            What::Tick => {
                files.complete(&mut *nf, now_ns, &counters, &mut places);
                nf.tick(&mut Ctx::new(now_ns, &counters, &mut places).with_storage(Some(&mut files)));
                places.settle();
                played.take_released(i, &mut places, &words);
            }
            What::Counters(_) => {
                let now = declared.counters.iter().zip(&counters).map(|(d, c)| (d.name.clone(), c.load(Relaxed)));
                played.counters.push((i, now.collect()));
            }
            What::Held(_) => {
                played.held.push((i, places.slots.iter().filter(|s| matches!(s, Slot::Held { .. })).count()));
            }
            _ => {}
        }
        i += 1;
    }
    played.report = nf.report();
    let now = declared.counters.iter().zip(&counters).map(|(d, c)| (d.name.clone(), c.load(Relaxed)));
    played.counters.push((items.len(), now.collect()));
    played
}

impl Played {
    fn take_released(&mut self, item: usize, places: &mut Places, words: &Words<'_>) {
        for (id, buffer, original, verdict) in places.released.drain(..) {
            self.released.push((item, id, Seen::new(&buffer, &original, words, verdict)));
        }
    }
}

impl Seen {
    fn new(buffer: &Buffer, before: &[u8], words: &Words<'_>, verdict: Verdict) -> Self {
        let frame = buffer.frame().to_vec();
        Self { verdict: words.of(verdict), same: frame == before, frame, valid: words.has(verdict) }
    }

    /// As a file has it: `next = eth(…)`.
    pub(super) fn in_file(&self) -> String {
        if self.verdict.starts_with("drop") {
            return self.verdict.clone();
        }
        let frame = if self.same { "same".to_owned() } else { frame::describe(&self.frame) };
        format!("{} = {frame}", self.verdict)
    }
}

/// Names for the numbers in verdicts.
struct Words<'a> {
    reasons: &'a [String],
    targets: &'a [String],
}

impl Words<'_> {
    fn has(&self, verdict: Verdict) -> bool {
        match verdict.decode() {
            Some(Decoded::Drop(r)) => usize::from(r) < self.reasons.len(),
            Some(Decoded::Divert(t)) => usize::from(t) < self.targets.len(),
            Some(Decoded::Next | Decoded::Hold(_)) => true,
            None => false,
        }
    }

    fn of(&self, verdict: Verdict) -> String {
        let name = |names: &[String], i: u8, what: &str| {
            names.get(usize::from(i)).cloned().unwrap_or_else(|| format!("({what} {i}, which does not exist)"))
        };
        match verdict.decode() {
            Some(Decoded::Next) => "next".into(),
            Some(Decoded::Drop(r)) => format!("drop {}", name(self.reasons, r, "reason")),
            Some(Decoded::Divert(t)) => format!("divert {}", name(self.targets, t, "target")),
            Some(Decoded::Hold(id)) => format!("hold {id}"),
            None => format!("(unknown verdict {:#010x})", verdict.to_bits()),
        }
    }
}

#[derive(Clone)]
struct Buffer {
    item: usize,
    bytes: Vec<u8>,
    off: u16,
    len: u16,
    meta: PacketMeta,
}

impl Buffer {
    fn new(item: usize, frame: &[u8], meta: PacketMeta) -> Self {
        let mut bytes = vec![FILL; HEADROOM + frame.len().max(2048) + TAILROOM];
        bytes[HEADROOM..HEADROOM + frame.len()].copy_from_slice(frame);
        Self { item, bytes, off: HEADROOM as u16, len: frame.len() as u16, meta }
    }

    fn frame(&self) -> &[u8] {
        &self.bytes[usize::from(self.off)..usize::from(self.off) + usize::from(self.len)]
    }
}

/// Packets that the NF gets in one call.
struct Batch {
    packets: Vec<Buffer>,
    /// The last packet's item, counted from the first's.
    last: usize,
    meta: PacketMeta,
}

impl Batch {
    fn gather(items: &[Item], mut meta: PacketMeta, most: usize) -> Self {
        let mut batch = Self { packets: Vec::new(), last: 0, meta };
        for (i, item) in items.iter().enumerate() {
            match &item.what {
                What::In(frame) if batch.packets.len() < most => {
                    batch.packets.push(Buffer::new(i, frame, meta));
                    (batch.last, batch.meta) = (i, meta);
                }
                // A burst is of one chain and hop.
                What::Meta(m) if (m.chain, m.hop) == (meta.chain, meta.hop) => meta = *m,
                What::Nothing | What::Out(_) | What::Released(..) => {}
                _ => break,
            }
        }
        batch
    }
}

enum Slot {
    Free,
    Reserved,
    Held { buffer: Buffer, original: Vec<u8> },
}

/// Where held packets are kept; the lowest free place is given first.
struct Places {
    slots: Vec<Slot>,
    released: Vec<(u32, Buffer, Vec<u8>, Verdict)>,
}

impl Places {
    /// After a call: places that were reserved and not used are free again.
    fn settle(&mut self) {
        for slot in self.slots.iter_mut().filter(|s| matches!(s, Slot::Reserved)) {
            *slot = Slot::Free;
        }
    }

    fn keep(&mut self, id: u32, buffer: Buffer, original: &[u8]) -> bool {
        match self.slots.get_mut(id as usize) {
            Some(slot @ Slot::Reserved) => {
                *slot = Slot::Held { buffer, original: original.to_vec() };
                true
            }
            _ => false,
        }
    }
}

impl Holds for Places {
    fn reserve(&mut self) -> Option<HoldId> {
        let i = self.slots.iter().position(|s| matches!(s, Slot::Free))?;
        self.slots[i] = Slot::Reserved;
        Some(HoldId::from_bits(i as u32))
    }

    fn with(&mut self, id: HoldId, f: &mut dyn FnMut(&mut Packet<'_>)) -> bool {
        let Some(Slot::Held { buffer, .. }) = self.slots.get_mut(id.to_bits() as usize) else { return false };
        let Some(mut packet) = Packet::new(&mut buffer.bytes, buffer.off, buffer.len, buffer.meta) else {
            return false;
        };
        f(&mut packet);
        let (off, len) = (packet.offset(), packet.len() as u16);
        (buffer.off, buffer.len) = (off, len);
        true
    }

    fn release(&mut self, id: HoldId, verdict: Verdict) -> bool {
        let Some(slot @ Slot::Held { .. }) = self.slots.get_mut(id.to_bits() as usize) else { return false };
        if let Slot::Held { buffer, original } = std::mem::replace(slot, Slot::Free) {
            self.released.push((id.to_bits(), buffer, original, verdict));
        }
        true
    }
}
