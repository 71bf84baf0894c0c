//! Packets out: from the last queue of a chain to its port; and packets that NFs dropped, back.

use super::ingress::copy_to;
use super::origins::Origins;
use super::{Dataplane, Event, Ledger};
use crate::buffers::Buffers;
use crate::control::ChainGauge;
use crate::ports::{Frame, PORT_BURST};
use arrayvec::ArrayVec;
use chainline_packet::ecn;
use chainline_shm::{Bell, BufId, Consumer, Desc, HEADROOM, clock::ticks};

/// The last queue of a chain, or a queue of diverted packets.
pub(crate) struct Egress {
    pub port: usize,
    /// The chain of its edge.
    pub chain: usize,
    pub consumer: Consumer,
    /// The instance that fills it; none for a chain without NFs.
    producer: Option<(usize, Bell)>,
    tenant: usize,
    origins: Origins,
    /// The tenant in whose buffers the port sends; packets of another are copied first.
    pub home: usize,
    /// Frames that the port did not take yet, each with its chain.
    pub pending: ArrayVec<(Frame, u16), PORT_BURST>,
}

impl Egress {
    pub fn new(
        (port, chain): (usize, usize),
        consumer: Consumer,
        producer: Option<(usize, Bell)>,
        origins: Origins,
        tenant: usize,
        home: usize,
    ) -> Self {
        Self { port, chain, consumer, producer, tenant, origins, home, pending: ArrayVec::new() }
    }
}

/// Marks packets of chains that are overloaded "congestion experienced": here, and not at the entry, as it is then the
/// last thing that happens to a packet. No NF rewrites or drops it any more, and sources hear of it a queue earlier.
fn mark(frames: &[(Frame, u16)], buffers: &mut Buffers, gauges: &[ChainGauge], ledger: &mut Ledger) {
    let mut loan = buffers.open();
    for (f, chain) in frames.iter().filter(|(_, chain)| gauges[usize::from(*chain)].advice.marks()) {
        let desc = Desc { buf: BufId::new(f.index, 0), off: f.off, len: f.len, ..Desc::default() };
        let whole = usize::from(f.off)..usize::from(f.off) + usize::from(f.len);
        if loan.take(desc).and_then(|buffer| buffer.get_mut(whole)).is_some_and(ecn::mark) {
            ledger.account(usize::from(*chain), f.at).ecn_marked += 1;
        }
    }
}

impl Dataplane {
    /// Sends a burst. Returns how many packets moved.
    #[inline]
    pub(super) fn transmit(&mut self, e: usize) -> usize {
        let Self { egress, ports, tenants, ledger, entries, clock, events, gauges, marking, .. } = self;
        let egress = &mut egress[e];
        let buffers = &mut tenants[egress.tenant];
        let mut moved = 0;
        if egress.pending.is_empty() {
            let n = egress.consumer.available(2 * PORT_BURST as u32).min(PORT_BURST as u32);
            if n == 0 {
                return 0;
            }
            let now = ticks();
            let mut refused = None;
            // Packets of a burst were received together: one entry in the histogram for a run of equal times.
            let (mut run_chain, mut run_at, mut run) = (0, 0, 0);
            egress.consumer.prefetch(n, 2 * n);
            for i in 0..n {
                let desc = egress.consumer.peek(i);
                // It is in the cache of the core that worked on it last; whoever sends it copies or hands it out again.
                buffers.region().prefetch_to_write(desc);
                match buffers.claim_from(desc, |chain| egress.origins.have(chain)) {
                    Ok((chain, at)) => {
                        if (chain, at) != (run_chain, run_at) {
                            ledger.latency(run_chain, (run_at, now), clock.ns(now.saturating_sub(run_at)), run);
                            (run_chain, run_at, run) = (chain, at, 0);
                        }
                        run += 1;
                        entries[usize::from(chain)].inside -= 1;
                        let index = desc.buf.index();
                        let frame = Frame { index, off: desc.off, len: desc.len, hash: Some(desc.hash), at };
                        egress.pending.push((frame, chain));
                    }
                    Err(why) => refused = Some(why),
                }
            }
            ledger.latency(run_chain, (run_at, now), clock.ns(now.saturating_sub(run_at)), run);
            egress.consumer.release(n);
            moved = n as usize;
            if let Some((instance, bell)) = &egress.producer {
                egress.consumer.offer_room(bell);
                if let Some(why) = refused {
                    ledger.refused += 1;
                    let found =
                        format!("a descriptor on its way to port {}: {why:?}", self.plan.ports[egress.port].name);
                    let _ = events.send(Event::Lied { instance: *instance, found });
                }
            }
        }
        if *marking && moved > 0 {
            mark(&egress.pending, &mut tenants[egress.tenant], gauges, ledger);
        }
        if moved > 0 && egress.tenant != egress.home {
            egress.pending.retain(|(f, chain)| {
                let copy = copy_to(tenants, egress.tenant, egress.home, f);
                tenants[egress.tenant].release(&[f.index]);
                ledger.account(usize::from(*chain), f.at).port_full += u64::from(copy.is_none());
                (f.index, f.off) = (copy.unwrap_or_default(), HEADROOM);
                copy.is_some()
            });
        }
        if egress.pending.is_empty() {
            return moved;
        }
        let buffers = &mut tenants[egress.home];
        let frames: ArrayVec<Frame, PORT_BURST> = egress.pending.iter().map(|p| p.0).collect();
        let sent = ports[egress.port].send(&frames, buffers);
        for (f, chain) in &egress.pending[..sent] {
            let count = ledger.account(usize::from(*chain), f.at);
            count.transmitted += 1;
            count.transmitted_bytes += u64::from(f.len);
        }
        egress.pending.drain(..sent);
        if sent == 0 && ports[egress.port].failed() {
            for (f, chain) in egress.pending.drain(..) {
                tenants[egress.home].release(&[f.index]);
                ledger.account(usize::from(chain), f.at).port_full += 1;
            }
        }
        moved.max(sent)
    }

    /// Takes back packets that an instance dropped. Returns how many.
    #[inline]
    pub(super) fn take_back(&mut self, i: usize) -> usize {
        let n = self.returns[i].available(PORT_BURST as u32).min(PORT_BURST as u32);
        if n == 0 {
            return 0;
        }
        let chain = self.plan.instances[i].queues.first().map_or(0, |q| q.chain);
        let buffers = &mut self.tenants[self.entries[chain].tenant];
        let origins = &self.return_origins[i];
        let mut freed: ArrayVec<u32, PORT_BURST> = ArrayVec::new();
        let mut refused = None;
        for k in 0..n {
            let desc = self.returns[i].peek(k);
            match buffers.claim_from(desc, |chain| origins.have(chain)) {
                Ok((chain, at)) => {
                    freed.push(desc.buf.index());
                    self.entries[usize::from(chain)].inside -= 1;
                    self.ledger.dropped(&self.plan, i, chain, at, desc);
                }
                Err(why) => refused = Some(why),
            }
        }
        self.returns[i].release(n);
        buffers.release(&freed);
        self.returns[i].offer_room(&self.instances[i].bell);
        if let Some(why) = refused {
            self.ledger.refused += 1;
            let found = format!("a descriptor of a dropped packet: {why:?}");
            let _ = self.events.send(Event::Lied { instance: i, found });
        }
        n as usize
    }
}
