//! Capture files: read with libpcap (pcap and pcapng, any precision), written by [`PcapWriter`].

use super::pace::Pace;
use super::{Frame, Frames, PORT_BURST, PcapWriter, Port, PortError, PortLoss};
use crate::buffers::Buffers;
use chainline_chain::model::{self, Laps, Rate};
use chainline_shm::{BufId, Clock, Desc, HEADROOM};
use pcap::{Linktype, Precision};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Captures are held in memory while they are replayed: a file may not be larger.
const MAX_BYTES: u64 = 4 << 30;

/// Link types that begin with an IP header (raw IP, as the pcap registry numbers them); they get an Ethernet one.
const RAW_IP: [i32; 4] = [12, 101, 228, 229];

/// The longest frame in bytes without FCS that the system carries.
pub const MAX_FRAME: u16 = 9018;

/// The port `pcap`: a file that is read, one that is written, or both.
pub struct Capture {
    reader: Option<CaptureReader>,
    writer: Option<CaptureWriter>,
}

impl Capture {
    /// As the chain file describes it; paths are relative to `dir`. Frames longer than `max_frame` bytes are left out
    /// and counted.
    ///
    /// # Errors
    /// When a file cannot be read or written.
    pub fn open(dir: &Path, spec: &model::Pcap, clock: &Clock, max_frame: u16) -> Result<Self, PortError> {
        let open = |path: &PathBuf| CaptureReader::open(&dir.join(path), spec, clock, max_frame);
        let reader = spec.read.as_ref().map(open).transpose()?;
        let writer = spec.write.as_ref().map(|p| CaptureWriter::create(&dir.join(p), clock)).transpose()?;
        Ok(Self { reader, writer })
    }
}

impl Port for Capture {
    fn receive(&mut self, max: usize, now: u64, buffers: &mut Buffers, frames: &mut Frames) {
        if let Some(r) = &mut self.reader {
            r.receive(max, now, buffers, frames);
        }
    }
    fn send(&mut self, frames: &[Frame], buffers: &mut Buffers) -> usize {
        self.writer.as_mut().map_or(0, |w| w.send(frames, buffers))
    }
    fn exhausted(&self) -> bool {
        self.reader.as_ref().is_none_or(CaptureReader::exhausted)
    }
    fn lossless(&self) -> bool {
        self.reader.as_ref().is_some_and(CaptureReader::lossless)
    }
    fn due(&self) -> Option<u64> {
        self.reader.as_ref().and_then(CaptureReader::due)
    }
    fn loss(&self) -> PortLoss {
        self.reader.as_ref().map_or_else(PortLoss::default, CaptureReader::loss)
    }
    fn remarks(&self) -> Vec<String> {
        self.reader.as_ref().map_or_else(Vec::new, |r| r.remarks.clone())
    }
    fn failed(&self) -> bool {
        self.writer.as_ref().is_some_and(|w| w.failed.is_some())
    }
    fn close(&mut self) -> Result<(), PortError> {
        self.writer.as_mut().map_or(Ok(()), CaptureWriter::close)
    }
}

struct Record {
    at_ns: u64,
    start: usize,
    len: u16,
    hash: u32,
}

/// A capture that is read.
pub struct CaptureReader {
    records: Vec<Record>,
    bytes: Vec<u8>,
    next: usize,
    /// Laps after the present one.
    laps_left: u64,
    recorded: bool,
    lossless: bool,
    pace: Pace,
    clock: Clock,
    /// Ticks at which the present lap began.
    lap: Option<u64>,
    loss: PortLoss,
    remarks: Vec<String>,
}

impl CaptureReader {
    /// Reads the file. Frames longer than `max_frame` bytes are left out and counted.
    ///
    /// # Errors
    /// When it is no capture, or too large.
    pub fn open(path: &Path, spec: &model::Pcap, clock: &Clock, max_frame: u16) -> Result<Self, PortError> {
        let max_frame = usize::from(max_frame.min(MAX_FRAME));
        let refuse = |message: String| PortError::Capture { path: path.to_owned(), message };
        let size = std::fs::metadata(path).map_err(|e| refuse(e.to_string()))?.len();
        if size > MAX_BYTES {
            return Err(refuse(format!("{size} bytes: captures of up to {MAX_BYTES} bytes can be replayed")));
        }
        let mut file =
            pcap::Capture::from_file_with_precision(path, Precision::Nano).map_err(|e| refuse(e.to_string()))?;
        let link = file.get_datalink();
        let raw_ip = RAW_IP.contains(&link.0);
        let mut remarks = Vec::new();
        if link != Linktype::ETHERNET && !raw_ip {
            let name = link.get_name().unwrap_or_else(|_| link.0.to_string());
            remarks.push(format!("{}: link type {name}: its packets are taken for Ethernet frames", path.display()));
        }
        let prefix = |p: model::Prefix| chainline_workload::Prefix { addr: p.addr, len: p.len };
        let mut rewrite = spec.rewrite.map(|r| chainline_workload::Rewrite::new(r.src.map(prefix), r.dst.map(prefix)));
        let (mut records, mut bytes, mut skipped_long) = (Vec::new(), Vec::with_capacity(size as usize), 0);
        loop {
            // libpcap gives an error for the packet at which a file is cut or damaged; what came before is good.
            let packet = match file.next_packet() {
                Ok(packet) => packet,
                Err(pcap::Error::NoMorePackets) => break,
                Err(e) => {
                    let good = records.len() as u64 + skipped_long;
                    if good == 0 {
                        return Err(refuse(e.to_string()));
                    }
                    remarks.push(format!("{}: after packet {good}: {e}: what comes before is used", path.display()));
                    break;
                }
            };
            let start = bytes.len();
            if raw_ip {
                let v6 = packet.data.first().is_some_and(|b| b >> 4 == 6);
                bytes.extend([2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1]);
                bytes.extend(if v6 { [0x86, 0xdd] } else { [8, 0] });
            }
            // A capture that kept only the first bytes of each frame is replayed at the frames' own lengths, with zeros
            // for what was cut off: NFs would drop the packets as truncated otherwise.
            let cut_off = (packet.header.len as usize).saturating_sub(packet.data.len());
            let len = bytes.len() - start + packet.data.len() + cut_off;
            if len <= max_frame {
                bytes.extend_from_slice(packet.data);
                bytes.resize(start + len, 0);
            }
            if bytes.len() as u64 > MAX_BYTES {
                return Err(refuse(format!("more than {MAX_BYTES} bytes of frames: too many to be replayed")));
            }
            if len > max_frame {
                bytes.truncate(start);
                skipped_long += 1;
                continue;
            }
            let ts = packet.header.ts;
            if let Some(rewrite) = &mut rewrite {
                rewrite.apply(&mut bytes[start..]);
            }
            records.push(Record {
                at_ns: (ts.tv_sec.max(0) as u64).saturating_mul(1_000_000_000).saturating_add(ts.tv_usec.max(0) as u64),
                start,
                len: len as u16,
                hash: chainline_packet::flow_hash(&chainline_packet::parse(&bytes[start..]).tuple),
            });
        }
        if let Some(shared) = rewrite.as_ref().map(chainline_workload::Rewrite::shared).filter(|n| *n > 0) {
            let all = rewrite.as_ref().map_or(0, chainline_workload::Rewrite::addresses);
            let path = path.display();
            remarks.push(format!("{path}: {shared} of {all} addresses share another's: `rewrite` has too few"));
        }
        if let Some(first) = records.first().map(|r| r.at_ns) {
            records.iter_mut().for_each(|r| r.at_ns = r.at_ns.saturating_sub(first));
        }
        let mean = bytes.len() as f64 / records.len().max(1) as f64;
        Ok(Self {
            pace: Pace::new(spec.rate, mean, clock),
            laps_left: match spec.laps {
                _ if records.is_empty() => 0,
                Laps::Forever => u64::MAX,
                Laps::Times(n) => u64::from(n) - 1,
            },
            recorded: spec.rate == Rate::Recorded,
            lossless: spec.lossless(),
            clock: *clock,
            next: 0,
            lap: None,
            loss: PortLoss { too_long: skipped_long, ..PortLoss::default() },
            records,
            bytes,
            remarks,
        })
    }

    /// The longest frame in bytes.
    #[must_use]
    pub fn longest(&self) -> u16 {
        self.records.iter().map(|r| r.len).max().unwrap_or(0)
    }

    /// Packets of one lap.
    #[must_use]
    pub fn packets(&self) -> usize {
        self.records.len()
    }

    /// When record `i` of the present lap is due, in ticks.
    fn recorded_at(&self, i: usize) -> u64 {
        self.lap.unwrap_or(0).saturating_add(self.clock.ticks_in(self.records[i].at_ns))
    }
}

impl CaptureReader {
    fn receive(&mut self, max: usize, now: u64, buffers: &mut Buffers, frames: &mut Frames) {
        if self.next == self.records.len() {
            if self.laps_left == 0 {
                return;
            }
            self.laps_left -= 1;
            // The gap between laps is the capture's mean gap.
            let last = self.records.last().map_or(0, |r| r.at_ns);
            let gap = last / self.records.len().max(2) as u64;
            self.lap = self
                .recorded
                .then(|| self.lap.unwrap_or(now).saturating_add(self.clock.ticks_in(last.saturating_add(gap))));
            self.next = 0;
        }
        if self.lap.is_none() {
            self.lap = Some(now);
            self.pace.start(now);
        }
        let left = self.records.len() - self.next;
        let mut n = self.pace.due_by(now, max.min(PORT_BURST).min(left));
        if self.recorded {
            n = (0..n).take_while(|i| self.recorded_at(self.next + i) <= now).count();
        }
        let mut indexes = [0; PORT_BURST];
        let indexes = &mut indexes[..n];
        if n == 0 {
            return;
        }
        if !buffers.alloc(indexes) {
            if !self.lossless {
                self.loss.no_buffer += n as u64;
                self.next += n;
                indexes.iter().for_each(|_| _ = self.pace.take(now));
            }
            return;
        }
        let mut loan = buffers.open();
        for &index in indexes.iter() {
            let r = &self.records[self.next];
            let due = self.pace.take(now);
            let at = if self.recorded { self.recorded_at(self.next) } else { due };
            let data = &self.bytes[r.start..r.start + usize::from(r.len)];
            let desc = Desc { buf: BufId::new(index, 0), off: HEADROOM, len: r.len, ..Desc::default() };
            // The region's buffers hold the longest frame that was kept.
            if let Some(buf) = loan.take(desc) {
                buf[usize::from(HEADROOM)..][..data.len()].copy_from_slice(data);
            }
            frames.push(Frame { index, off: HEADROOM, len: r.len, hash: Some(r.hash), at });
            self.next += 1;
        }
    }

    fn exhausted(&self) -> bool {
        self.next == self.records.len() && self.laps_left == 0
    }

    fn lossless(&self) -> bool {
        self.lossless
    }

    fn due(&self) -> Option<u64> {
        if self.recorded && self.next < self.records.len() {
            return Some(self.recorded_at(self.next));
        }
        self.pace.next()
    }

    fn loss(&self) -> PortLoss {
        self.loss
    }
}

/// A capture that is written.
pub struct CaptureWriter {
    path: PathBuf,
    file: PcapWriter,
    clock: Clock,
    began: Duration,
    /// Why nothing more can be written, and how many frames were by then.
    failed: Option<std::io::Error>,
    frames: u64,
}

impl CaptureWriter {
    /// Begins a file, in place of one that may be there.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn create(path: &Path, clock: &Clock) -> Result<Self, PortError> {
        let refuse = |e: std::io::Error| PortError::Capture { path: path.to_owned(), message: e.to_string() };
        let file = PcapWriter::create(path).map_err(refuse)?;
        let began = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let began = began.saturating_sub(Duration::from_nanos(clock.now_ns()));
        Ok(Self { path: path.to_owned(), file, clock: *clock, began, failed: None, frames: 0 })
    }
}

impl CaptureWriter {
    /// Writes the burst whole or not at all, so that the file has the frames that were counted as sent.
    fn send(&mut self, frames: &[Frame], buffers: &mut Buffers) -> usize {
        if self.failed.is_some() {
            return 0;
        }
        let now = self.began + Duration::from_nanos(self.clock.now_ns());
        let mut loan = buffers.open();
        for f in frames {
            let desc = Desc { buf: BufId::new(f.index, 0), off: f.off, len: f.len, ..Desc::default() };
            if let Some(buf) = loan.take(desc) {
                self.file.push(now, &buf[usize::from(f.off)..][..usize::from(f.len)]);
            }
        }
        if let Err(e) = self.file.flush() {
            self.failed = Some(e);
            return 0;
        }
        for f in frames {
            buffers.release(&[f.index]);
        }
        self.frames += frames.len() as u64;
        frames.len()
    }

    fn close(&mut self) -> Result<(), PortError> {
        self.failed.take().map_or(Ok(()), |e| {
            let message = format!("{e}: it ends after {} packets, later ones were dropped (`port_full`)", self.frames);
            Err(PortError::Capture { path: self.path.clone(), message })
        })
    }
}
