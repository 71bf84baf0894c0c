//! pcapng, as far as a writer needs it (draft-ietf-opsawg-pcapng): sections of one Ethernet interface, times in
//! nanoseconds, little-endian.

use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const PACKET: u32 = 6;
const BYTE_ORDER: u32 = 0x1a2b_3c4d;
const ETHERNET: u16 = 1;
/// Bytes of an enhanced packet block before and behind the frame.
pub const BEFORE: usize = 28;
const BEHIND: usize = 4;

/// The most bytes of a block for a frame of `captured` bytes.
pub const fn block_bytes(captured: u32) -> u32 {
    captured.next_multiple_of(4) + (BEFORE + BEHIND) as u32
}

/// The head of a section: who wrote it, and its interface.
pub fn head(snaplen: u32) -> Vec<u8> {
    let mut section = BYTE_ORDER.to_le_bytes().to_vec();
    section.extend([1, 0, 0, 0]); // version 1.0
    section.extend((-1i64).to_le_bytes()); // length of the section: unknown
    option(&mut section, 4, concat!("chainline ", env!("CARGO_PKG_VERSION")).as_bytes()); // shb_userappl
    option(&mut section, 0, &[]);
    let mut interface = ETHERNET.to_le_bytes().to_vec();
    interface.extend([0, 0]);
    interface.extend(snaplen.to_le_bytes());
    option(&mut interface, 2, b"chainline"); // if_name
    option(&mut interface, 9, &[9]); // if_tsresol: 10^-9 s
    option(&mut interface, 0, &[]);
    [block(SECTION, &section), block(INTERFACE, &interface)].concat()
}

fn option(out: &mut Vec<u8>, code: u16, value: &[u8]) {
    out.extend(code.to_le_bytes());
    out.extend((value.len() as u16).to_le_bytes());
    out.extend(value);
    out.resize(out.len().next_multiple_of(4), 0);
}

fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let len = (body.len() as u32 + 12).to_le_bytes();
    [&kind.to_le_bytes()[..], &len, body, &len].concat()
}

/// What stands before a frame of which `captured` bytes of `len` are kept, and behind it.
#[inline]
pub fn around(time_ns: u64, captured: u32, len: u32) -> ([u8; BEFORE], [u8; 3 + BEHIND], usize) {
    let total = block_bytes(captured).to_le_bytes();
    let mut before = [0; BEFORE];
    let words = [PACKET.to_le_bytes(), total, [0; 4], ((time_ns >> 32) as u32).to_le_bytes()];
    let more = [(time_ns as u32).to_le_bytes(), captured.to_le_bytes(), len.to_le_bytes()];
    for (place, word) in before.chunks_exact_mut(4).zip(words.iter().chain(&more)) {
        place.copy_from_slice(word);
    }
    // Up to three bytes of padding, and the length again.
    let padding = (captured.next_multiple_of(4) - captured) as usize;
    let mut behind = [0; 3 + BEHIND];
    behind[padding..padding + BEHIND].copy_from_slice(&total);
    (before, behind, padding + BEHIND)
}

/// How many bytes of a file are whole blocks, so that what a writer that was killed left half done can be cut off.
/// `None`: there is no such file, or it is none that can be looked through.
///
/// # Errors
/// When it cannot be read, or is no pcapng of this byte order.
pub fn whole_bytes(path: &Path) -> io::Result<Option<u64>> {
    match path.metadata() {
        Ok(m) if m.is_file() => {}
        _ => return Ok(None),
    }
    let mut file = BufReader::with_capacity(1 << 20, std::fs::File::open(path)?);
    let foreign = |what: &str| {
        let why = format!("{what}; expected no file, or a little-endian pcapng file to go on with");
        io::Error::new(io::ErrorKind::InvalidData, why)
    };
    let mut whole = 0;
    let mut start = [0; 12];
    while read_up_to(&mut file, &mut start)? == start.len() {
        let word = |at: usize| u32::from_le_bytes([start[at], start[at + 1], start[at + 2], start[at + 3]]);
        let (kind, len) = (word(0), word(4));
        if kind == SECTION && word(8) != BYTE_ORDER {
            return Err(foreign("a section of the other byte order"));
        }
        if whole == 0 && kind != SECTION {
            return Err(foreign("not pcapng"));
        }
        if len < 12 || !len.is_multiple_of(4) {
            return Ok(Some(whole));
        }
        // The words read so far are three, and the last one is the length again; a block of 12 bytes ends with it.
        let mut last = [start[8], start[9], start[10], start[11]];
        let rest = u64::from(len).saturating_sub(16);
        if len > 12 && (skip(&mut file, rest)? < rest || read_up_to(&mut file, &mut last)? < last.len()) {
            return Ok(Some(whole));
        }
        if u32::from_le_bytes(last) != len {
            return Ok(Some(whole));
        }
        whole += u64::from(len);
    }
    Ok(Some(whole))
}

/// Reads until `out` is full or the file ends.
fn read_up_to(file: &mut impl Read, out: &mut [u8]) -> io::Result<usize> {
    let mut got = 0;
    while got < out.len() {
        match file.read(&mut out[got..]) {
            Ok(0) => break,
            Ok(n) => got += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(got)
}

fn skip(file: &mut impl BufRead, mut n: u64) -> io::Result<u64> {
    let asked = n;
    while n > 0 {
        let there = file.fill_buf()?.len() as u64;
        if there == 0 {
            break;
        }
        let step = there.min(n);
        file.consume(step as usize);
        n -= step;
    }
    Ok(asked - n)
}
