//! What fuzzing reaches of this crate's insides, with the promises that it checks. Not part of the API.
//!
//! Functions here panic when a promise is broken.

use crate::buffers::{Buffers, Refused};
use crate::ports::{Capture, CaptureReader, Frames, PORT_BURST, Port, PortError};
use chainline_chain::model::{Laps, Pcap, Prefix, Rate, Rewrite};
use chainline_shm::{BufId, Clock, Desc, Region};
use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

const BUFFERS: u32 = 64;
/// Bytes of the longest frame that a capture may have.
const MAX_FRAME: u16 = 9018;
/// Packets of one replay.
const MAX_PACKETS: usize = 1 << 12;

thread_local! {
    // Made once: their pages cost more than an input. Nothing depends on what is in them.
    static LARGE: Option<Region> = Region::create(BUFFERS, MAX_FRAME).ok();
    static SMALL: Option<Region> = Region::create(BUFFERS, 64).ok();
}

/// Replays a capture into buffers; returns how many packets it has, up to a limit.
///
/// # Errors
/// When the file is refused.
///
/// # Panics
/// When a frame lies outside its buffer or a buffer comes back from nowhere.
pub fn capture(path: &Path, rate: Rate) -> Result<usize, PortError> {
    let clock = Clock::measure(Duration::ZERO);
    // What is read must not depend on whether it is sent between other addresses.
    let prefix = |text: &str| text.parse().ok().map(|addr| Prefix { addr, len: 8 });
    let rewrite = (rate != Rate::Max).then(|| Rewrite { src: prefix("10.0.0.0"), dst: prefix("fd00::") });
    let spec = Pcap { read: Some(path.to_owned()), write: None, laps: Laps::Forever, rate, rewrite, lossless: None };
    let reader = CaptureReader::open(path, &spec, &clock, MAX_FRAME)?;
    let (longest, lap) = (reader.longest(), reader.packets());
    let mut port = Capture::open(Path::new("."), &spec, &clock, MAX_FRAME)?;
    let region = LARGE.with(Clone::clone).ok_or_else(|| PortError::Device("no memory for a region".into()))?;
    let stride = region.stride();
    let mut buffers = Buffers::new(region);
    let (mut packets, mut now) = (0, 0u64);
    // Two laps: the second begins where the first one's times end.
    for _ in 0..MAX_PACKETS.min(2 * lap.div_ceil(PORT_BURST) + 64) {
        let mut got = Frames::new();
        port.receive(PORT_BURST, now, &mut buffers, &mut got);
        for frame in &got {
            assert!(frame.index < BUFFERS && u32::from(frame.off) + u32::from(frame.len) <= stride, "{frame:?}");
            assert!(frame.len <= longest, "{frame:?}");
        }
        packets += got.len();
        got.iter().for_each(|f| buffers.release(&[f.index]));
        assert_eq!(buffers.free_list().len(), BUFFERS as usize, "a buffer is lost or came twice");
        now = port.due().unwrap_or(now).max(now).saturating_add(1 << 20);
    }
    assert!(packets > 0 || lap == 0 || rate != Rate::Max, "nothing comes of {lap} packets");
    Ok(lap)
}

/// Admits packets and claims them back by descriptors from anybody, against a plain list of what is inside.
///
/// # Panics
/// When a descriptor is taken that names no packet inside, or one refused that does.
pub fn claims(words: &[(u64, u64)]) {
    let Some(region) = SMALL.with(Clone::clone) else { return };
    let stride = region.stride();
    let mut buffers = Buffers::new(region);
    let mut inside: HashMap<BufId, (u16, u64)> = HashMap::new();
    for (a, b) in words {
        let desc = Desc::from_words(*a, *b);
        let mut index = [0];
        // The chain and a time travel with the manager's own knowledge, never with the descriptor.
        if desc.tag.is_multiple_of(2) && buffers.alloc(&mut index) {
            let known = (desc.chain, u64::from(desc.hash));
            inside.insert(buffers.admit(index[0], known.0, known.1), known);
        }
        let fits = desc.buf.index() < BUFFERS && u32::from(desc.off) + u32::from(desc.len) <= stride;
        match (buffers.claim(desc), inside.get(&desc.buf).copied()) {
            (Ok(got), Some(known)) if fits => {
                assert_eq!(got, known);
                inside.remove(&desc.buf);
                buffers.release(&[desc.buf.index()]);
            }
            (Err(Refused::OutOfBounds), _) if !fits => {}
            (Err(Refused::NotInside), None) if fits => {}
            wrong => panic!("{desc:?}: {wrong:?}"),
        }
        assert_eq!(buffers.count_inside(), inside.len() as u64);
    }
}
