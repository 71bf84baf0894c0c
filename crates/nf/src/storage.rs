//! Files: what an NF may ask of storage. How it is done is the host's affair; nothing here waits.
//!
//! Writing appends. A file has two buffers: while one is written by the kernel the NF fills the other, and when both
//! are full the host takes no more packets for this NF until one is free (NFVnice section 3.4). So that the host knows
//! in advance, an NF says in [`FileSpec`] what one packet may need.

use std::path::PathBuf;

/// The most files of one NF.
pub const MAX_FILES: usize = 64;
/// The largest buffer, in bytes.
pub const MAX_BATCH_BYTES: u32 = 64 << 20;
/// The most bytes that the reads in flight of one file may come to.
pub const MAX_READ_BYTES: u64 = 64 << 20;

/// A file that the NF named with [`crate::Env::open`]; an index in the order of opening.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct File(pub(crate) u32);

impl File {
    /// The file as a number, for the C ABI.
    #[must_use]
    pub const fn to_bits(self) -> u32 {
        self.0
    }
    /// A file from such a number. A wrong one harms nobody: the host checks it.
    #[must_use]
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }
}

/// What an NF does with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Access {
    /// Reads it, anywhere.
    Read,
    /// Writes at its end; it is made if it is not there. `keep` is how many of its bytes stay, from the start; `None`:
    /// all. No other instance can write to it meanwhile.
    Append {
        /// Bytes that stay.
        keep: Option<u64>,
    },
}

/// When what was written is on the medium, and not only in the kernel's cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Durable {
    /// When the kernel finds the time.
    #[default]
    Never,
    /// When the instance has ended as told.
    AtEnd,
    /// When the write is reported complete (`RWF_DSYNC`).
    EachBatch,
}

/// A file and how it is used. Make one with [`FileSpec::append`] or [`FileSpec::read`] and change what is different.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct FileSpec {
    /// Where it is; relative to the chain file.
    pub path: PathBuf,
    /// What is done with it.
    pub access: Access,
    /// Bytes that the host writes before all others, while the NF is built.
    pub head: Vec<u8>,
    /// Size of each of the two buffers: what is written at once at most.
    pub batch_bytes: u32,
    /// Milliseconds after which a buffer is written though it is not full; 0: as soon as the one before is.
    pub flush_ms: u32,
    /// The most bytes that the NF writes for one packet. The host takes packets only while it has room for these.
    pub packet_bytes: u32,
    /// When it must be on the medium.
    pub durable: Durable,
    /// The file begins anew, with `head`, when it would become longer than so many bytes; none: it grows for ever.
    #[serde(default)]
    pub limit_bytes: Option<u64>,
    /// The instance stands still while a buffer is written, as an NF does that calls `write` itself: there to be compared
    /// with.
    #[serde(default)]
    pub blocking: bool,
    /// Reads that may be in flight. If the NF reads for packets, then once for each at most.
    pub reads: u32,
    /// The most bytes of one read.
    pub read_bytes: u32,
}

impl FileSpec {
    /// Appends: two buffers of 256 KiB, written after 10 ms at the latest, no more than 16 KiB a packet.
    pub fn append(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            access: Access::Append { keep: None },
            head: Vec::new(),
            batch_bytes: 256 << 10,
            flush_ms: 10,
            packet_bytes: 16 << 10,
            durable: Durable::Never,
            limit_bytes: None,
            blocking: false,
            reads: 0,
            read_bytes: 0,
        }
    }

    /// Reads: 32 at a time, of 4 KiB at most.
    pub fn read(path: impl Into<PathBuf>) -> Self {
        Self {
            access: Access::Read,
            batch_bytes: 0,
            packet_bytes: 0,
            reads: 32,
            read_bytes: 4096,
            ..Self::append(path)
        }
    }

    /// What is wrong with it, if anything.
    pub(crate) fn fault(&self) -> Option<String> {
        let Self { batch_bytes, packet_bytes, reads, read_bytes, .. } = *self;
        let in_flight = u64::from(reads) * u64::from(read_bytes);
        match self.access {
            Access::Append { .. } if !(1..=MAX_BATCH_BYTES).contains(&batch_bytes) => {
                Some(format!("buffers of {batch_bytes} bytes; expected 1 to {MAX_BATCH_BYTES}"))
            }
            Access::Append { .. } if !(1..=batch_bytes).contains(&packet_bytes) => Some(format!(
                "up to {packet_bytes} bytes a packet; expected 1 to the size of a buffer, which is {batch_bytes}"
            )),
            Access::Append { .. }
                if self.limit_bytes.is_some_and(|l| l < self.head.len() as u64 + u64::from(batch_bytes)) =>
            {
                let least = self.head.len() as u64 + u64::from(batch_bytes);
                let limit = self.limit_bytes.unwrap_or(0);
                Some(format!("a limit of {limit} bytes; expected at least {least}: the file's head and one buffer"))
            }
            Access::Read if !(1..=MAX_READ_BYTES).contains(&in_flight) => Some(format!(
                "{reads} reads of {read_bytes} bytes at a time; expected at least one, and at most {MAX_READ_BYTES} bytes"
            )),
            _ => None,
        }
    }
}

/// The system's number for what went wrong, such as 28 for a full disk.
#[derive(Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[error("{}", std::io::Error::from_raw_os_error(*.0))]
pub struct Errno(pub i32);

impl std::fmt::Debug for Errno {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Errno({}: {self})", self.0)
    }
}

/// Something that the NF asked for is done, or has failed.
#[derive(Clone, Copy, Debug)]
pub struct Completion<'a> {
    /// The file.
    pub file: File,
    /// The context that was given; `None` for all writes without one in a buffer together.
    pub context: Option<u64>,
    /// How many writes or reads this is: 1 with a context.
    pub count: u64,
    /// Bytes written or read; a read at the end of the file gets fewer than asked for. A buffer is written whole or not
    /// at all: after an error nothing of it is in a regular file, and the next one takes its place.
    pub result: Result<u64, Errno>,
    /// What was read.
    pub data: &'a [u8],
}

/// Why the host did not take a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Both buffers are full, or so many reads are in flight already.
    #[error("both buffers are full or all reads are in flight")]
    Full,
    /// There is no such file, or it was not opened for this.
    #[error("no such file, or not opened for this")]
    Absent,
    /// More bytes than [`FileSpec`] says.
    #[error("more bytes than were announced")]
    TooLong,
    /// The instance is about to end, and takes nothing more from [`crate::Nf::completed`].
    #[error("the instance ends")]
    Ending,
}

/// Where requests go. Implemented by hosts, not by NFs.
pub trait Storage {
    /// See [`crate::Ctx::write`].
    ///
    /// # Errors
    /// When it is not taken.
    fn write(&mut self, file: File, parts: &[&[u8]], context: Option<u64>) -> Result<(), Refused>;
    /// See [`crate::Ctx::read`].
    ///
    /// # Errors
    /// When it is not taken.
    fn read(&mut self, file: File, offset: u64, len: u32, context: u64) -> Result<(), Refused>;
    /// See [`crate::Ctx::flush`].
    ///
    /// # Errors
    /// When there is no such file.
    fn flush(&mut self, file: File) -> Result<(), Refused>;
}
