//! The loop of an instance: take a burst, call the NFs, hand the packets on.
//!
//! Invariants:
//! - *Credit before work*: a packet is taken only if every queue that it may need has room (D4). Nothing is
//!   dropped here but by an NF's verdict. A setup without credit, which shows what a stock platform does, asks for
//!   room in the return queue alone, and drops there what then does not fit into the next queue.
//! - A packet is in one queue or in this process's custody; [`Status::busy`](chainline_shm::page::Status) is not
//!   0 while it is in custody, so the manager can tell a quiet instance from one that works.
//! - *Yield*: before each burst the manager's word about the queue is looked at. One whose packets would only wait in
//!   an overloaded queue further down stays as it is, and the others are served.
//! - *Giving way*: who has emptied its queues, and woke somebody who needs the same core, rests until there is a burst
//!   again. Otherwise an NF that is fed from another core would go on with a packet or two at a time for as long as the
//!   kernel lets it, which costs it more than the packets, and the others their turn.
//! - Bursts keep their order. Queues are served by deficit round robin (Shreedhar and Varghese 1996), counted in
//!   packets, so one chain cannot block another behind it (D3).

use crate::holds::{HoldTable, Origin};
use crate::idle::Waits;
use crate::queues::{Inlet, Outlet};
use crate::sampling::Sampling;
use crate::split::Split;
use chainline_nf::{Burst, Ctx, Decoded, MAX_BURST, NfObject, Packet, PacketMeta, Verdict};
use chainline_shm::region::Slots;
use chainline_shm::{Bell, Clock, Desc, Page, clock::ticks, handover};
use chainline_storage::Storage;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::Release, fence};

/// Tag of a descriptor on its way back to the manager: 0 to 253 are the NF's own drop reasons, in the order of
/// declaration, and these are the host's.
pub const TAG_BAD_VERDICT: u8 = 255;
/// Without credit: the NF passed the packet on, but the next queue was full.
pub const TAG_QUEUE_FULL: u8 = 254;

/// An instance, ready to run.
pub struct Host {
    pub(crate) nfs: Vec<Box<dyn NfObject>>,
    pub(crate) inlets: Vec<Inlet>,
    pub(crate) outlets: Vec<Outlet>,
    pub(crate) splits: Vec<Split>,
    pub(crate) return_out: usize,
    /// Whether packets are taken only with room for them in every queue that they may need.
    pub(crate) credit: bool,
    pub(crate) slots: Slots,
    pub(crate) holds: HoldTable,
    pub(crate) storage: Storage,
    pub(crate) page: Arc<Page>,
    pub(crate) own_bell: Bell,
    pub(crate) clock: Clock,
    pub(crate) batch: u32,
    pub(crate) waits: Waits,
    /// All queues were empty, or their packets could not be taken, when they were last looked at.
    pub(crate) drained: bool,
    /// It rests for others, so that less than a burst is no reason to go on.
    pub(crate) gives_way: bool,
    /// The last reading of the counter.
    pub(crate) now: u64,
    pub(crate) sampling: Sampling,
    pub(crate) tick_at: u64,
    /// What NFs said in the last tick, by NF.
    pub(crate) news: Vec<(usize, String)>,
    /// Descriptors of the burst in hand, in step with the packets.
    pub(crate) descs: Box<[Desc; MAX_BURST]>,
}

/// What serving a queue came to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Served {
    /// And more packets wait.
    Worked,
    /// All that waited was taken. What has come since waits for the next pass.
    Drained,
    Empty,
    Blocked,
}

/// Time between two ticks.
const TICK_NS: u64 = 10_000_000;

#[inline]
pub(crate) fn add(counter: &AtomicU64, n: u64) {
    counter.store(counter.load(Relaxed).wrapping_add(n), Relaxed);
}

/// Whether the manager says that nothing is to be taken from queue `q` for now. Who is told to end empties it.
#[inline]
fn yields(page: &Page, q: usize) -> bool {
    page.queue_control(q).yields.load(Relaxed) != 0 && page.control().stop.load(Relaxed) == 0
}

/// The output queue of a frame on its way to `to`: this one, or, from `queues` on, that of a split which it is dealt to.
#[inline]
fn choose(splits: &mut [Split], queues: usize, to: usize, frame: &[u8]) -> usize {
    match to.checked_sub(queues) {
        None => to,
        Some(split) => splits[split].outs[splits[split].dealer.pick(frame)],
    }
}

impl Host {
    /// Runs until the manager says stop and the queues are empty. `say` gets what an NF has to say meanwhile, by NF.
    pub fn run(&mut self, say: &mut dyn FnMut(usize, String)) {
        let mut first = 0;
        loop {
            let worked = self.pass(first) | self.move_files();
            first = (first + 1) % self.inlets.len().max(1);
            // A pass counts when all that was in hand is in a queue or shown as held.
            if self.holds.released() == 0 {
                add(&self.page.status().passes, 1);
            }
            if !worked && self.page.control().stop.load(Relaxed) != 0 && !self.waits_for_files() {
                break;
            }
            if !worked || self.gives_way() {
                self.idle(worked);
                // Each burst reads the clock; without one it is read here.
                self.now = ticks();
            } else {
                self.waits.worked();
            }
            if self.now >= self.tick_at {
                self.tick(self.now);
                self.news.drain(..).for_each(|(nf, words)| say(nf, words));
            }
        }
        self.tick_once(ticks(), true);
        while self.flush_released() {}
        self.end_files();
        handover::give_away(self);
    }

    /// What the NFs have to say at the end.
    #[must_use]
    pub fn reports(&self) -> Vec<Option<String>> {
        self.nfs.iter().map(|nf| nf.report()).collect()
    }

    /// Visits every input queue once. Returns whether there was work.
    fn pass(&mut self, first: usize) -> bool {
        let n = self.inlets.len();
        self.drained = true;
        let mut worked = self.holds.released() > 0 && self.flush_released();
        for k in 0..n {
            let q = if first + k < n { first + k } else { first + k - n };
            let inlet = &mut self.inlets[q];
            inlet.deficit = inlet.deficit.saturating_add(inlet.quantum).min(inlet.quantum * 2);
            loop {
                match self.serve(q) {
                    Served::Worked => worked = true,
                    Served::Drained => {
                        worked = true;
                        self.inlets[q].deficit = 0;
                        break;
                    }
                    Served::Blocked => break,
                    Served::Empty => {
                        self.inlets[q].deficit = 0;
                        break;
                    }
                }
                if self.inlets[q].deficit == 0 {
                    break;
                }
            }
        }
        worked
    }

    /// Whether there is anything to do, or a burst of it: asked before sleeping.
    pub(crate) fn may_go_on(&mut self, burst: bool) -> bool {
        // Told to stop, it only rests while what is in its queues waits for a file.
        if self.page.control().stop.load(Relaxed) != 0 && !self.waits_for_files() {
            return true;
        }
        let Self { outlets, storage, holds, page, inlets, batch, .. } = self;
        let least = if burst { *batch } else { 1 };
        let mut ready = |(q, inlet): (usize, &mut Inlet)| {
            !yields(page, q)
                && inlet.has_burst(least)
                && (!inlet.blocked || inlet.needs.iter().all(|&o| outlets[o].has_half_free()))
                && inlet.credit(storage, holds) > 0
        };
        inlets.iter_mut().enumerate().any(&mut ready) || storage.ready()
    }

    /// Handles one burst from queue `q`.
    #[inline]
    fn serve(&mut self, q: usize) -> Served {
        let inlet = &mut self.inlets[q];
        let waiting = inlet.consumer.available(self.batch * 3);
        if waiting == 0 {
            return Served::Empty;
        }
        if yields(&self.page, q) {
            return Served::Blocked;
        }
        if inlet.blocked {
            if !inlet.needs.iter().all(|&o| self.outlets[o].has_half_free()) {
                return Served::Blocked;
            }
            inlet.blocked = false;
        }
        let mut n = waiting.min(self.batch).min(inlet.deficit).min(inlet.credit(&self.storage, &self.holds));
        for &o in &inlet.needs {
            n = n.min(self.outlets[o].producer.room(n));
        }
        if n == 0 {
            inlet.blocked = true;
            return Served::Blocked;
        }
        for i in 0..n {
            self.descs[i as usize] = inlet.consumer.peek(i);
        }
        // The headers of the burst after this one travel while this one is worked on.
        for i in n..waiting.min(n + self.batch) {
            self.slots.region().prefetch(inlet.consumer.peek(i));
        }
        inlet.consumer.prefetch(n + self.batch, n + 2 * self.batch);
        inlet.deficit -= n;
        self.page.status().busy.store(n, Relaxed);
        inlet.consumer.release(n);
        if inlet.offer_room() {
            add(&self.page.status().wakes, 1);
        }
        self.work(q, 0, n as usize);
        self.page.status().busy.store(self.holds.released() as u32, Release);
        if n == waiting {
            return Served::Drained;
        }
        self.drained = false;
        Served::Worked
    }

    /// Whether somebody whom it woke waits for its core, and it has nothing in hand that was there before.
    #[inline]
    fn gives_way(&self) -> bool {
        self.drained && self.waits.sleeps() && self.outlets.iter().any(Outlet::keeps_waiting)
    }

    /// Calls the stages of queue `q` from `first` on for the `n` descriptors in hand, and hands the packets on.
    fn work(&mut self, q: usize, first: usize, n: usize) {
        let started = ticks();
        self.now = started;
        let now_ns = self.clock.at_ns(started);
        let sample = self.sampling.takes(started, self.clock);
        let Self { nfs, inlets, outlets, splits, slots, holds, storage, page, descs, credit, .. } = self;
        let (inlet, queues) = (&inlets[q], outlets.len());

        let mut loan = slots.open();
        let mut burst = Burst::new();
        let (mut kept, mut bytes) = (0, 0u64);
        for i in 0..n {
            let d = descs[i];
            let meta = PacketMeta { chain: inlet.chain, hop: inlet.hop, flow_hash: d.hash };
            let packet = loan.take(d).and_then(|buf| Packet::new(buf, d.off, d.len, meta));
            if let Some(packet) = packet
                && burst.push(packet).is_ok()
            {
                bytes += u64::from(d.len);
                descs[kept] = d;
                kept += 1;
            }
        }
        let stats = page.queue(q);
        add(&stats.packets, n as u64);
        add(&stats.bytes, bytes);
        if kept < n {
            add(&stats.bad, (n - kept) as u64);
            add(&page.status().bad_descriptors, (n - kept) as u64);
        }

        let mut in_nfs = 0u64;
        for (at, stage) in inlet.stages.iter().enumerate().skip(first) {
            let count = burst.len();
            if count == 0 {
                break;
            }
            let files = storage.files(stage.nf, now_ns);
            let mut ctx = Ctx::new(now_ns, page.counters(stage.nf), holds).with_storage(files);
            // Between the two readings of the clock stands the NF alone.
            let before = if sample { ticks() } else { started };
            nfs[stage.nf].process(&mut burst, &mut ctx);
            let took = if sample { ticks().saturating_sub(before) } else { 0 };
            let stats = page.nf(stage.nf);
            add(&stats.received, count as u64);
            add(&stats.bytes, burst.packets().iter().map(|p| p.len() as u64).sum());
            if sample {
                stats.cost.record(self.clock.ns(took) / count as u64);
                stats.service.add(self.clock.ns(took.saturating_mul(1000)) / count as u64);
                in_nfs += took;
            }
            let all_next = burst.verdicts().iter().fold(0, |acc, v| acc | v.to_bits()) == 0;
            if all_next {
                add(&stats.passed, count as u64);
                continue;
            }
            let origin = Origin { inlet: q, stage: at };
            let hop = inlet.hop + at as u8;
            let (mut passed, mut dropped) = (0, 0);
            for (i, verdict) in burst.verdicts().iter().enumerate() {
                let packet = &burst.packets()[i];
                let desc = Desc { off: packet.offset(), len: packet.len() as u16, ..descs[i] };
                match verdict.decode() {
                    Some(Decoded::Next) => passed += 1,
                    Some(Decoded::Divert(t)) if usize::from(t) < stage.divert.len() => {
                        let to = stage.divert[usize::from(t)];
                        let out = &mut outlets[choose(splits, queues, to, packet.data())];
                        if *credit || out.producer.room(1) > 0 {
                            out.push(desc);
                        } else {
                            outlets[self.return_out].producer.push(Desc { hop, tag: TAG_QUEUE_FULL, ..desc });
                        }
                        passed += 1;
                    }
                    Some(Decoded::Hold(id)) if holds.enter(id, desc, origin, stage.nf) => {}
                    Some(Decoded::Drop(reason)) => {
                        outlets[self.return_out].producer.push(Desc { hop, tag: reason, ..desc });
                        dropped += 1;
                    }
                    _ => {
                        outlets[self.return_out].producer.push(Desc { hop, tag: TAG_BAD_VERDICT, ..desc });
                        dropped += 1;
                    }
                }
            }
            add(&stats.passed, passed);
            add(&stats.dropped, dropped);
            let mut write = 0;
            burst.retain(|i, v| {
                let next = v == Verdict::NEXT;
                if next {
                    descs[write] = descs[i];
                    write += 1;
                }
                next
            });
        }
        let (count, last) = (burst.len(), inlet.hop + inlet.stages.len() as u8 - 1);
        let packets = burst.packets().iter().zip(descs.iter());
        let packets = packets.map(|(p, d)| (p, Desc { off: p.offset(), len: p.len() as u16, tag: 0, ..*d }));
        if let Some(next) = outlets.get_mut(inlet.next) {
            let fits = if *credit { count } else { count.min(next.producer.room(count as u32) as usize) };
            packets.clone().take(fits).for_each(|(_, desc)| next.push(desc));
            if fits < count {
                for (_, desc) in packets.skip(fits) {
                    outlets[self.return_out].producer.push(Desc { hop: last, tag: TAG_QUEUE_FULL, ..desc });
                }
            }
        } else {
            for (packet, desc) in packets {
                let out = &mut outlets[choose(splits, queues, inlet.next, packet.data())];
                if *credit || out.producer.room(1) > 0 {
                    out.push(desc);
                } else {
                    outlets[self.return_out].producer.push(Desc { hop: last, tag: TAG_QUEUE_FULL, ..desc });
                }
            }
        }
        drop(burst);
        holds.settle(slots);
        page.status().held.store(holds.held() as u64, Relaxed);
        add(&page.status().bursts, 1);
        for &o in &inlet.outs {
            if outlets[o].publish() {
                add(&page.status().wakes, 1);
            }
        }
        if sample
            && first == 0
            && let Some(stage) = inlet.stages.first()
        {
            let took = ticks().saturating_sub(started).saturating_sub(in_nfs);
            page.nf(stage.nf).overhead.add(self.clock.ns(took.saturating_mul(1000)) / n.max(1) as u64);
        }
    }

    /// Hands on packets that NFs released, as far as there is room. Returns whether there was one.
    pub(crate) fn flush_released(&mut self) -> bool {
        let mut any = false;
        while let Some(origin) = self.holds.peek_released() {
            let inlet = &self.inlets[origin.inlet];
            let room = inlet.needs.iter().all(|&o| self.outlets[o].producer.room(1) > 0);
            // A place to be held in again is kept for it, see `HoldTable::room`.
            if !room || inlet.file_room(&self.storage) == 0 {
                break;
            }
            let Some((kept, origin, verdict)) = self.holds.next_released() else { break };
            any = true;
            let desc = self.slots.give_back(kept);
            let inlet = &self.inlets[origin.inlet];
            let stage = &inlet.stages[origin.stage];
            match verdict.decode() {
                Some(Decoded::Next) => {
                    add(&self.page.nf(stage.nf).passed, 1);
                    self.descs[0] = desc;
                    self.work(origin.inlet, origin.stage + 1, 1);
                }
                Some(Decoded::Divert(t)) if usize::from(t) < stage.divert.len() => {
                    add(&self.page.nf(stage.nf).passed, 1);
                    let mut loan = self.slots.open();
                    let whole = usize::from(desc.off)..usize::from(desc.off) + usize::from(desc.len);
                    let frame = loan.take(desc).and_then(|buf| buf.get(whole)).unwrap_or_default();
                    let to = stage.divert[usize::from(t)];
                    let mut out = choose(&mut self.splits, self.outlets.len(), to, frame);
                    if self.credit || self.outlets[out].producer.room(1) > 0 {
                        self.outlets[out].push(desc);
                    } else {
                        let hop = inlet.hop + origin.stage as u8;
                        out = self.return_out;
                        self.outlets[out].producer.push(Desc { hop, tag: TAG_QUEUE_FULL, ..desc });
                    }
                    self.outlets[out].publish();
                }
                decoded => {
                    let tag = if let Some(Decoded::Drop(reason)) = decoded { reason } else { TAG_BAD_VERDICT };
                    let hop = inlet.hop + origin.stage as u8;
                    add(&self.page.nf(stage.nf).dropped, 1);
                    self.outlets[self.return_out].producer.push(Desc { hop, tag, ..desc });
                    self.outlets[self.return_out].publish();
                }
            }
        }
        self.page.status().held.store(self.holds.held() as u64, Relaxed);
        self.page.status().busy.store(self.holds.released() as u32, Release);
        any
    }

    /// The NFs' own time.
    pub(crate) fn tick(&mut self, now: u64) {
        self.tick_once(now, false);
    }

    fn tick_once(&mut self, now: u64, ending: bool) {
        let now_ns = self.clock.at_ns(now);
        // What an NF releases is no longer shown as held and not yet in a queue.
        self.page.status().busy.store(1, Relaxed);
        fence(Release);
        for (i, nf) in self.nfs.iter_mut().enumerate() {
            let files = self.storage.files(i, now_ns);
            let ctx = Ctx::new(now_ns, self.page.counters(i), &mut self.holds).with_storage(files);
            nf.tick(&mut ctx.with_ending(ending));
            self.news.extend(nf.news().map(|words| (i, words)));
        }
        self.holds.settle(&mut self.slots);
        self.tick_at = now + self.clock.ticks_in(TICK_NS);
        self.flush_released();
    }
}

#[cfg(test)]
mod tests;
