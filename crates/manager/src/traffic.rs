//! What a `generator` sends: the chain file's words, with the files that they name, as a workload. Used by the port and by
//! whoever wants the same packets without running a chain.

use crate::ports::{PcapWriter, PortError};
use chainline_chain::model::{self, FlowPackets, Mix};
use chainline_workload::stack::StackDistance;
use chainline_workload::{
    FCS_BYTES, Histogram, Lengths, MAX_FRAME_BYTES, MAX_TEXT_BYTES, MIN_FRAME_BYTES, Schedule, Spec, Stamp, Workload,
    stamp_at,
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
/// schedule they are [`UNSCHEDULED_GAP_NS`] apart. Stamps are those of a generator that is the first port, in the window
/// of trial 0, by a clock that begins with the capture. The file has nanosecond precision; one that is there is
/// overwritten.
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
    // The next number in each flow. Flows with stamps last, so there are no others.
    let mut sequences = vec![0_u32; if traffic.spec.stamped { traffic.spec.flows as usize } else { 0 }];
    let mut bytes = vec![0; MAX_FRAME_BYTES as usize];
    let mut made = Made { packets: 0, bytes: 0, flows: 0, ns: 0, temporal_locality: 0.0 };
    let mut first = None;
    while made.packets < count {
        let n = (count - made.packets).min(STEP);
        workload.burst(n as usize, |frame| {
            let ns = schedule.as_mut().map_or(made.packets * UNSCHEDULED_GAP_NS, |s| s.next_ns() as u64);
            made.ns = ns - *first.get_or_insert(ns);
            let len = frame.write(&mut bytes).unwrap_or_default();
            if let Some(next) = sequences.get_mut(frame.flow as usize) {
                let stamp =
                    Stamp { trial: 0, in_window: true, stream: 0, flow: frame.flow, sequence: *next, time_ns: ns };
                *next = next.wrapping_add(1);
                if let Some(place) = bytes.get_mut(stamp_at(len)..).and_then(|b| b.first_chunk_mut()) {
                    *place = stamp.bytes();
                }
            }
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

#[cfg(test)]
mod tests {
    use super::*;
    use chainline_packet::{checksum, parse};
    use chainline_workload::{Mix, Prefix, Proto, Space};

    #[test]
    fn a_capture_s_stamps_are_whole_and_its_checksums_right() {
        let v6 = |n: u16| Prefix { addr: std::net::IpAddr::from([0x2001, 0xdb8, n, 0, 0, 0, 0, 0]), len: 48 };
        let path = std::env::temp_dir().join(format!("chainline-stamped-{}.pcap", std::process::id()));
        for (six, proto, sizes) in [
            (false, Proto::Udp, [64, 65, 1518]),
            (false, Proto::Tcp, [76, 77, 1518]),
            (true, Proto::Udp, [84, 85, 9018]),
            (true, Proto::Tcp, [96, 97, 1518]),
        ] {
            let space = Space { proto, ..Space::default() };
            let space = if six { Space { src: v6(1), dst: v6(2), ..space } } else { space };
            let mix = Mix::sequence(&sizes).unwrap();
            let spec = Spec { flows: 7, space, stamped: true, ..Spec::new(mix) };
            write_capture(&Traffic { spec, schedule: None, remarks: Vec::new() }, 100, &path).unwrap();
            let mut capture = pcap::Capture::from_file(&path).unwrap();
            for i in 0..100 {
                let frame = capture.next_packet().unwrap().data;
                let stamp = Stamp::of(frame).unwrap_or_else(|| panic!("{proto:?} {six}: frame {i} has no stamp"));
                assert_eq!((stamp.flow, stamp.sequence, stamp.time_ns), (i % 7, i / 7, u64::from(i) * 1000));
                let l = parse(frame);
                let (l4, end) = (usize::from(l.l4), usize::from(l.end));
                let (number, len) = (proto.number(), end - l4);
                let pseudo = if six {
                    checksum::pseudo_ipv6(&l.tuple.src_bytes(), &l.tuple.dst_bytes(), number, len as u32)
                } else {
                    let (src, dst) = (l.tuple.src_v4().to_be_bytes(), l.tuple.dst_v4().to_be_bytes());
                    checksum::pseudo_ipv4(src, dst, number, len as u16)
                };
                assert_eq!(pseudo.bytes(&frame[l4..end]).checksum(), 0, "{proto:?} {six}: frame {i}");
            }
            assert!(capture.next_packet().is_err());
        }
        std::fs::remove_file(&path).unwrap();
    }
}
