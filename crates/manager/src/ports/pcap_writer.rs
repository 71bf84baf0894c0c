//! Writes captures: little-endian pcap 2.4 of nanosecond precision, frames whole, Ethernet (draft-ietf-opsawg-pcap §4).
//!
//! Not by libpcap, whose writer says nothing of a full disk and writes in the host's byte order: a packet that a file
//! lost must be known.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::Duration;

const FILE_HEADER: [u8; 24] = [
    0x4d, 0x3c, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 1, 0, 0, 0, // snapshot length 2^18
];

/// Bytes collected by [`PcapWriter::push`] before they are worth a system call.
const ENOUGH: usize = 1 << 16;

/// A capture that is written.
#[derive(Debug)]
pub struct PcapWriter {
    file: File,
    /// Bytes that are in the file for certain.
    written: u64,
    /// Records to come.
    records: Vec<u8>,
}

impl PcapWriter {
    /// Begins a file, in place of one that may be there.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn create(path: &Path) -> io::Result<Self> {
        let mut this = Self { file: File::create(path)?, written: 0, records: Vec::with_capacity(2 * ENOUGH) };
        this.records.extend(FILE_HEADER);
        this.flush()?;
        Ok(this)
    }

    /// Adds a frame that was there at `at` (since 1970). It is in the file after the next [`PcapWriter::flush`].
    pub fn push(&mut self, at: Duration, frame: &[u8]) {
        let len = frame.len() as u32;
        for word in [at.as_secs() as u32, at.subsec_nanos(), len, len] {
            self.records.extend(word.to_le_bytes());
        }
        self.records.extend_from_slice(frame);
    }

    /// Whether a flush is due.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.records.len() >= ENOUGH
    }

    /// Writes what was added since the last flush, all or nothing.
    ///
    /// # Errors
    /// When it could not be written whole, such as on a full disk: the file then ends where it ended before.
    pub fn flush(&mut self) -> io::Result<()> {
        let result = self.file.write_all(&self.records);
        match &result {
            Ok(()) => self.written += self.records.len() as u64,
            // What is no regular file cannot be cut; who reads it sees a damaged end.
            Err(_) => _ = self.file.set_len(self.written).and_then(|()| self.file.seek(SeekFrom::Start(self.written))),
        }
        self.records.clear();
        result
    }
}
