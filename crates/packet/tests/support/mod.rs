//! Reads the captures under `$CHAINLINE_DATA`; shared with the tests of the NFs.

#![allow(clippy::unwrap_used)]

use pcap_file::{pcap::PcapReader, pcapng::PcapNgReader};
use std::io::{Cursor, Read};
use std::path::{Path, PathBuf};

/// Calls `f` with each packet of a capture, whatever its link type: for a parser all of it is hostile bytes.
pub fn packets(bytes: &[u8], f: &mut dyn FnMut(&[u8])) {
    // A broken capture ends at its first fault.
    if let Ok(mut reader) = PcapReader::new(Cursor::new(bytes)) {
        while let Some(Ok(p)) = reader.next_raw_packet() {
            f(&p.data);
        }
    } else if let Ok(mut reader) = PcapNgReader::new(Cursor::new(bytes)) {
        while let Some(Ok(block)) = reader.next_block() {
            if let Some(p) = block.into_enhanced_packet() {
                f(&p.data);
            }
        }
    }
}

fn files(path: &Path, f: &mut dyn FnMut(&[u8])) -> std::io::Result<()> {
    let name = path.to_string_lossy().into_owned();
    let mut bytes = std::fs::read(path)?;
    if name.ends_with(".xz") {
        let mut plain = Vec::new();
        lzma_rust2::XzReader::new(&bytes[..], true).read_to_end(&mut plain)?;
        bytes = plain;
    }
    if name.contains(".tar") {
        for entry in tar::Archive::new(&bytes[..]).entries()? {
            let mut file = Vec::new();
            entry?.read_to_end(&mut file)?;
            f(&file);
        }
    } else {
        f(&bytes);
    }
    Ok(())
}

/// Calls `f` with each capture's packets, file by file; `false`, and a word to the user, without `$CHAINLINE_DATA`.
pub fn captures(f: &mut dyn FnMut(Vec<Vec<u8>>)) -> bool {
    let Some(data) = std::env::var_os("CHAINLINE_DATA") else {
        println!("skipped: CHAINLINE_DATA is not set");
        return false;
    };
    for folder in ["captures", "corpora"] {
        let entries = std::fs::read_dir(PathBuf::from(&data).join(folder)).unwrap();
        for path in entries.map(|e| e.unwrap().path()) {
            files(&path, &mut |file| {
                let mut frames = Vec::new();
                packets(file, &mut |p| frames.push(p.to_vec()));
                if !frames.is_empty() {
                    f(frames);
                }
            })
            .unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        }
    }
    true
}
