//! Where packets come from and go to. One file a kind of port; all look the same to the data path.

mod capture;
mod check;
mod device;
mod generator;
mod pace;
mod pcap_writer;
mod sink;

pub use capture::{Capture, CaptureReader, MAX_FRAME};
pub use check::{Check, Checked};
pub use device::Device;
pub use generator::{Drive, Generator, Made, Times};
pub use pcap_writer::PcapWriter;
pub use sink::Sink;

use crate::buffers::Buffers;
use arrayvec::ArrayVec;

/// Packets that a port receives or sends in one call at most.
pub const PORT_BURST: usize = 64;

/// A burst of frames.
pub type Frames = ArrayVec<Frame, PORT_BURST>;

/// A frame in a buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// The buffer.
    pub index: u32,
    /// Where the frame starts in it.
    pub off: u16,
    /// Its length in bytes without FCS.
    pub len: u16,
    /// Its flow's hash, if the port knows it already.
    pub hash: Option<u32>,
    /// When it was received or was to be sent: ticks. Latency counts from here.
    pub at: u64,
}

/// Packets that a port lost, by reason, since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct PortLoss {
    /// There was no free buffer.
    pub no_buffer: u64,
    /// The frame is larger than a buffer.
    pub too_long: u64,
    /// The device lost it before it came to a queue of ours; not part of the ledger.
    pub missed: u64,
    /// The driver took it and could not send it; the ledger has it as transmitted.
    pub unsent: u64,
}

impl PortLoss {
    /// What came after an earlier reading. Drivers may begin again at 0.
    #[must_use]
    pub fn since(&self, then: &Self) -> Self {
        Self {
            no_buffer: self.no_buffer.saturating_sub(then.no_buffer),
            too_long: self.too_long.saturating_sub(then.too_long),
            missed: self.missed.saturating_sub(then.missed),
            unsent: self.unsent.saturating_sub(then.unsent),
        }
    }
}

/// A port that was opened.
pub trait Port {
    /// Receives up to `max` frames into buffers, and adds them to `frames`, which is empty.
    fn receive(&mut self, max: usize, now: u64, buffers: &mut Buffers, frames: &mut Frames) {
        let _ = (max, now, buffers, frames);
    }

    /// Sends frames; returns how many, from the front, it took. It frees their buffers when it is done with them.
    fn send(&mut self, frames: &[Frame], buffers: &mut Buffers) -> usize {
        let _ = (frames, buffers);
        0
    }

    /// Called in each sweep: sends what may have been left behind.
    fn flush(&mut self) {}

    /// Whether it will never take a frame again; why is said by [`Port::close`]. Its chains go on and lose their packets
    /// there.
    fn failed(&self) -> bool {
        false
    }

    /// Whether nothing more will be received.
    fn exhausted(&self) -> bool {
        false
    }

    /// Whether it is to be asked only for as many packets as there is room for.
    fn lossless(&self) -> bool {
        false
    }

    /// When the next packet is due, in ticks; none if it can come at any time.
    fn due(&self) -> Option<u64> {
        None
    }

    /// Packets received but lost before a chain saw them.
    fn loss(&self) -> PortLoss {
        PortLoss::default()
    }

    /// What an operator should know of how it was opened.
    fn remarks(&self) -> Vec<String> {
        Vec::new()
    }

    /// The generator that it is, if it is one.
    fn generator(&mut self) -> Option<&mut Generator> {
        None
    }

    /// The stamps that it reads, if it does.
    fn check(&mut self) -> Option<&mut Check> {
        None
    }

    /// Ends its work: writes what it has buffered.
    ///
    /// # Errors
    /// For the operator.
    fn close(&mut self) -> Result<(), PortError> {
        Ok(())
    }
}

/// A port cannot do its work.
#[derive(Debug, thiserror::Error)]
pub enum PortError {
    /// A capture file.
    #[error("{}: {message}", path.display())]
    Capture {
        /// The file.
        path: std::path::PathBuf,
        /// Why.
        message: String,
    },
    /// A file of numbers.
    #[error("{}: {message}", path.display())]
    File {
        /// The file.
        path: std::path::PathBuf,
        /// Why.
        message: String,
    },
    /// A generator.
    #[error("generator: {0}")]
    Generator(#[from] chainline_workload::Error),
    /// A mix of frame sizes.
    #[error("generator: {0}")]
    Mix(#[from] chainline_workload::MixError),
    /// What the chain file says of a generator.
    #[error("generator: {0}")]
    Traffic(#[from] chainline_chain::traffic::TrafficError),
    /// A generator whose frames have no room for its number.
    #[error("generator: `stamp: true` at port {0} of the file: expected it among the first 256")]
    Stream(usize),
    /// A DPDK device.
    #[error("{0}")]
    Device(String),
}
