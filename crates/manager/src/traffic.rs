//! What a `generator` sends: the chain file's words, with the files that they name, as a workload. Used by the port and by
//! whoever wants the same packets without running a chain.

use crate::ports::{PcapWriter, PortError};
use chainline_chain::model::{self, FlowPackets, Mix};
use chainline_workload::stack::StackDistance;
use chainline_workload::{
    FCS_BYTES, Histogram, Lengths, MAX_FRAME_BYTES, MAX_TEXT_BYTES, MIN_FRAME_BYTES, Schedule, Spec, Workload,
};
use std::path::Path;
use std::time::Duration;

/// Traffic to make.
#[derive(Clone, Debug)]
pub struct Traffic {
    /// Which packets.
    pub spec: Spec,
    /// When; `None`: as fast as they are taken.
    pub schedule: Option<Schedule>,
    /// What an operator should know of the files that were read.
    pub remarks: Vec<String>,
}

/// The traffic of a generator; files are relative to `dir`.
///
/// # Errors
/// When a file cannot be read, or there is no such traffic.
pub fn load(generator: &model::Generator, dir: &Path) -> Result<Traffic, PortError> {
    let mut remarks = Vec::new();
    let wrong = |path: &Path, message: String| PortError::File { path: path.to_owned(), message };
    let mix = match generator.own_mix()? {
        Some(mix) => mix,
        None => match &generator.mix {
            Some(Mix::File(f)) => {
                let path = dir.join(&f.file);
                chainline_workload::Mix::parse(&read(&path)?).map_err(|e| wrong(&path, e.to_string()))?
            }
            Some(Mix::Capture(c)) => sizes_of(&dir.join(&c.capture), &mut remarks)?,
            // `own_mix` has all others.
            _ => chainline_workload::Mix::constant(MIN_FRAME_BYTES)?,
        },
    };
    let lengths = match &generator.flow_packets {
        Some(FlowPackets::Measured(m)) => {
            let path = dir.join(&m.histogram);
            Some(Lengths::Measured(Histogram::parse(&read(&path)?).map_err(|e| wrong(&path, e.to_string()))?))
        }
        _ => generator.own_lengths(),
    };
    let spec = generator.workload(mix, lengths);
    spec.check()?;
    let schedule = generator.schedule(spec.mean_frame_bytes())?;
    Ok(Traffic { spec, schedule, remarks })
}

/// A text file, not longer than such files may be.
fn read(path: &Path) -> Result<String, PortError> {
    let wrong = |message: String| PortError::File { path: path.to_owned(), message };
    let size = std::fs::metadata(path).map_err(|e| wrong(e.to_string()))?.len();
    if size > MAX_TEXT_BYTES as u64 {
        return Err(wrong(format!("{size} bytes: expected at most {MAX_TEXT_BYTES}")));
    }
    std::fs::read_to_string(path).map_err(|e| wrong(e.to_string()))
}

/// The distribution of a capture's frame sizes. Frames in a capture have no FCS; those of senders on the same host may be
/// shorter than Ethernet's shortest, or longer than any link carries (segmentation is left to the device).
fn sizes_of(path: &Path, remarks: &mut Vec<String>) -> Result<chainline_workload::Mix, PortError> {
    let wrong = |message: String| PortError::Capture { path: path.to_owned(), message };
    let mut file = pcap::Capture::from_file(path).map_err(|e| wrong(e.to_string()))?;
    let (mut sizes, mut long) = (std::collections::BTreeMap::<u32, u64>::new(), 0_u64);
    loop {
        match file.next_packet() {
            Ok(packet) => {
                let size = packet.header.len.saturating_add(FCS_BYTES).max(MIN_FRAME_BYTES);
                if size > MAX_FRAME_BYTES {
                    long += 1;
                } else {
                    *sizes.entry(size).or_default() += 1;
                }
            }
            Err(pcap::Error::NoMorePackets) => break,
            Err(e) if sizes.is_empty() => return Err(wrong(e.to_string())),
            Err(e) => {
                let packets: u64 = sizes.values().sum();
                remarks.push(format!(
                    "{}: after packet {}: {e}: what comes before is used",
                    path.display(),
                    packets + long
                ));
                break;
            }
        }
    }
    if long > 0 {
        remarks.push(format!("{}: {long} frames of more than {MAX_FRAME_BYTES} bytes are left out", path.display()));
    }
    chainline_workload::Mix::drawn(sizes).map_err(|_| wrong("no frames, expected at least one".into()))
}

/// What was written to a capture.
#[derive(Clone, Debug, PartialEq)]
pub struct Made {
    /// Frames.
    pub packets: u64,
    /// Bytes of the frames, without FCS.
    pub bytes: u64,
    /// Different flows (5-tuples, or their numbers where they come again).
    pub flows: u64,
    /// From the first to the last frame, in nanoseconds.
    pub ns: u64,
    /// Temporal locality of the flows, as Zheng et al. define it ([`chainline_workload::stack`]).
    pub temporal_locality: f64,
}

/// Time between frames where there is no schedule, in nanoseconds.
pub const UNSCHEDULED_GAP_NS: u64 = 1000;

/// Writes the first `count` frames that the generator's port would send, with their send times from 0 on; without a
/// schedule they are [`UNSCHEDULED_GAP_NS`] apart. The file has nanosecond precision; one that is there is overwritten.
///
/// # Errors
/// When the file cannot be written.
pub fn write_capture(traffic: &Traffic, count: u64, path: &Path) -> Result<Made, PortError> {
    /// Frames between two looks at whether writing still works.
    const STEP: u64 = 64;
    let refuse = |e: std::io::Error| PortError::Capture { path: path.to_owned(), message: e.to_string() };
    let mut file = PcapWriter::create(path).map_err(refuse)?;
    let mut workload = Workload::new(&traffic.spec)?;
    let mut schedule = traffic.schedule.clone();
    let mut stack = StackDistance::new(traffic.spec.flows);
    let mut bytes = vec![0; MAX_FRAME_BYTES as usize];
    let mut made = Made { packets: 0, bytes: 0, flows: 0, ns: 0, temporal_locality: 0.0 };
    let mut first = None;
    while made.packets < count {
        let n = (count - made.packets).min(STEP);
        workload.burst(n as usize, |frame| {
            let ns = schedule.as_mut().map_or(made.packets * UNSCHEDULED_GAP_NS, |s| s.next_ns() as u64);
            made.ns = ns - *first.get_or_insert(ns);
            let len = frame.write(&mut bytes).unwrap_or_default();
            file.push(Duration::from_nanos(ns), bytes.get(..len).unwrap_or_default());
            stack.push(frame.flow);
            made.packets += 1;
            made.bytes += len as u64;
        });
        if file.is_full() {
            file.flush().map_err(refuse)?;
        }
    }
    file.flush().map_err(refuse)?;
    made.flows = stack.tags() as u64;
    made.temporal_locality = stack.temporal_locality();
    Ok(made)
}
