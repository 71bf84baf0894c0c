//! Packets in: from a port, past the classifier, into a chain or shed.

use super::Dataplane;
use super::entry::{Entry, Gate};
use crate::buffers::Buffers;
use crate::classifier::Classifier;
use crate::ports::{Frame, Frames, PORT_BURST};
use arrayvec::ArrayVec;
use chainline_packet::{Layers, flow_hash, parse};
use chainline_shm::{BufId, Desc, HEADROOM};

/// A port that chains begin at.
pub struct Ingress {
    pub port: usize,
    pub chains: Vec<usize>,
    classifier: Classifier,
    /// The tenant in whose buffers the port puts packets; others' are copied on.
    home: usize,
    /// Whether any chain's first NF has replicas.
    split: bool,
    frames: Frames,
    parsed: ArrayVec<(Layers, u32), PORT_BURST>,
    unused: ArrayVec<u32, PORT_BURST>,
}

impl Ingress {
    pub fn new(port: usize, chains: Vec<usize>, classifier: Classifier, home: usize, split: bool) -> Self {
        let (frames, parsed, unused) = (ArrayVec::new(), ArrayVec::new(), ArrayVec::new());
        Self { port, chains, classifier, home, split, frames, parsed, unused }
    }
}

impl Dataplane {
    /// Receives a burst. Returns how many packets came.
    #[inline]
    pub(super) fn receive(&mut self, i: usize, now: u64) -> usize {
        let Self { ingress, ports, entries, tenants, ledger, .. } = self;
        let ingress = &mut ingress[i];
        let port = &mut ports[ingress.port];
        // With many chains at a port it is done when the gauges are shown.
        if let Some(c) = ingress.classifier.only() {
            entries[usize::from(c)].heed();
        }
        let mut max = PORT_BURST as u32;
        if port.lossless() {
            // A chain that has the port to itself may wait for a dead NF; among others it sheds, and they go on.
            let waits = |e: &Entry| !e.down || ingress.chains.len() == 1;
            for &c in &ingress.chains {
                if waits(&entries[c]) {
                    max = max.min(entries[c].room(max));
                }
            }
            if max == 0 {
                return 0;
            }
        }
        let frames = &mut ingress.frames;
        frames.clear();
        port.receive(max as usize, now, &mut tenants[ingress.home], frames);
        if frames.is_empty() {
            return 0;
        }
        let n = frames.len();
        ingress.unused.clear();
        if let Some(c) = ingress.classifier.only() {
            if frames[0].hash.is_none() || ingress.split {
                Self::parse_all(ingress, &mut tenants[ingress.home]);
            }
            let c = usize::from(c);
            // The usual case: one chain, its buffers are the port's, and no window begins or ends within the burst.
            let (first, last) = (ingress.frames[0].at, ingress.frames[n - 1].at);
            let within = ledger.span.has(first) == ledger.span.has(last);
            if entries[c].tenant == ingress.home && within && !ingress.split {
                let (entry, count) = (&mut entries[c], ledger.account(c, first));
                let room = entry.room(n as u32) as usize;
                for f in &ingress.frames[..room] {
                    let buf = tenants[ingress.home].admit(f.index, c as u16, f.at);
                    count.received_bytes += u64::from(f.len);
                    let hash = f.hash.unwrap_or(0);
                    entry.lane.producer.push(Desc {
                        buf,
                        off: f.off,
                        len: f.len,
                        chain: c as u16,
                        hop: 0,
                        tag: 0,
                        hash,
                    });
                }
                entry.inside += room as u64;
                for f in &ingress.frames[room..] {
                    count.received_bytes += u64::from(f.len);
                    ingress.unused.push(f.index);
                }
                count.received += n as u64;
                match entry.gate {
                    Gate::Open => count.shed += (n - room) as u64,
                    Gate::Changing => count.reconfigured += (n - room) as u64,
                }
                entry.lane.publish(now);
            } else {
                Self::admit_all(ingress, entries, tenants, ledger, std::iter::repeat_n(Some(c), n));
                entries[c].publish(now);
            }
        } else {
            Self::parse_all(ingress, &mut tenants[ingress.home]);
            let mut chains = [None; PORT_BURST];
            ingress.classifier.classify(&ingress.parsed, &mut chains[..n]);
            let chains = chains[..n].iter().map(|c| c.map(usize::from));
            Self::admit_all(ingress, entries, tenants, ledger, chains);
            ingress.chains.iter().for_each(|&c| entries[c].publish(now));
        }
        if !ingress.unused.is_empty() {
            tenants[ingress.home].release(&ingress.unused);
        }
        n
    }

    /// Parses the frames and fills in the flow hashes that the port did not know.
    fn parse_all(ingress: &mut Ingress, buffers: &mut Buffers) {
        ingress.parsed.clear();
        let mut loan = buffers.open();
        for f in &mut ingress.frames {
            let desc = Desc { buf: BufId::new(f.index, 0), off: f.off, len: f.len, ..Desc::default() };
            let data = loan.take(desc).and_then(|b| b.get(usize::from(f.off)..usize::from(f.off) + usize::from(f.len)));
            let layers = parse(data.unwrap_or_default());
            let hash = *f.hash.get_or_insert_with(|| flow_hash(&layers.tuple));
            ingress.parsed.push((layers, hash));
        }
    }

    /// Admits each frame to the chain that it belongs to, or counts why not.
    #[inline]
    fn admit_all(
        ingress: &mut Ingress,
        entries: &mut [Entry],
        tenants: &mut [Buffers],
        ledger: &mut super::Ledger,
        chains: impl Iterator<Item = Option<usize>>,
    ) {
        if ingress.split {
            chains.enumerate().for_each(|(k, c)| Self::admit::<true>(ingress, entries, tenants, ledger, k, c));
        } else {
            chains.enumerate().for_each(|(k, c)| Self::admit::<false>(ingress, entries, tenants, ledger, k, c));
        }
    }

    /// Admits frame `k` to `chain`, or counts why not. `SPLIT`: some chain's first NF has replicas.
    fn admit<const SPLIT: bool>(
        ingress: &mut Ingress,
        entries: &mut [Entry],
        tenants: &mut [Buffers],
        ledger: &mut super::Ledger,
        k: usize,
        chain: Option<usize>,
    ) {
        let f = ingress.frames[k];
        let Some(c) = chain else {
            let port = &mut ledger.ports[ingress.port];
            port.no_match += 1;
            port.no_match_in_window += u64::from(ledger.span.has(f.at));
            ingress.unused.push(f.index);
            return;
        };
        let (entry, count) = (&mut entries[c], ledger.account(c, f.at));
        count.received += 1;
        count.received_bytes += u64::from(f.len);
        let (tenant, gate) = (entry.tenant, entry.gate);
        let Some(lane) = entry.lane_for::<SPLIT>(ingress.parsed.get(k).map(|p| &p.0)) else {
            match gate {
                Gate::Open => count.shed += 1,
                Gate::Changing => count.reconfigured += 1,
            }
            ingress.unused.push(f.index);
            return;
        };
        let (mut index, mut off) = (f.index, f.off);
        if tenant != ingress.home {
            ingress.unused.push(f.index);
            match copy_to(tenants, ingress.home, tenant, &f) {
                Some(i) => (index, off) = (i, HEADROOM),
                None => {
                    count.no_buffer += 1;
                    return;
                }
            }
        }
        let buf = tenants[tenant].admit(index, c as u16, f.at);
        let hash = f.hash.unwrap_or(0);
        lane.producer.push(Desc { buf, off, len: f.len, chain: c as u16, hop: 0, tag: 0, hash });
        entry.inside += 1;
    }
}

/// Copies a frame to another tenant's region: its NFs do not see the region of the port.
pub(super) fn copy_to(tenants: &mut [Buffers], from: usize, to: usize, f: &Frame) -> Option<u32> {
    let [from, to] = tenants.get_disjoint_mut([from, to]).ok()?;
    let mut index = [0];
    if !to.alloc(&mut index) {
        return None;
    }
    let desc = Desc { buf: BufId::new(f.index, 0), off: f.off, len: f.len, ..Desc::default() };
    let target = Desc { buf: BufId::new(index[0], 0), off: HEADROOM, ..desc };
    let (mut a, mut b) = (from.open(), to.open());
    match (a.take(desc), b.take(target)) {
        (Some(a), Some(b)) => {
            let len = usize::from(f.len);
            b[usize::from(HEADROOM)..][..len].copy_from_slice(&a[usize::from(f.off)..][..len]);
            Some(index[0])
        }
        _ => {
            to.release(&index);
            None
        }
    }
}
