//! Real and malformed captures: `$CHAINLINE_DATA/captures` and `corpora`, thousands of files.

#![allow(clippy::unwrap_used)]

use chainline_packet::{Malformed, flow_hash, parse};
use pcap_file::{pcap::PcapReader, pcapng::PcapNgReader};
use std::collections::BTreeMap;
use std::io::{Cursor, Read};
use std::path::{Path, PathBuf};

/// Calls `f` with each packet of a capture, whatever its link type: for a parser all of it is hostile bytes.
fn packets(bytes: &[u8], f: &mut dyn FnMut(&[u8])) {
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

#[test]
fn every_capture_is_parsed() {
    let Some(data) = std::env::var_os("CHAINLINE_DATA") else {
        println!("skipped: CHAINLINE_DATA is not set");
        return;
    };
    let (mut captures, mut seen, mut ip) = (0u32, 0u64, 0u64);
    let mut faults: BTreeMap<&str, u64> = BTreeMap::new();
    for folder in ["captures", "corpora"] {
        let entries = std::fs::read_dir(PathBuf::from(&data).join(folder)).unwrap();
        for path in entries.map(|e| e.unwrap().path()) {
            files(&path, &mut |file| {
                let before = seen;
                packets(file, &mut |p| {
                    let l = parse(p);
                    assert!(usize::from(l.end) <= p.len() && l.l4 <= l.end);
                    assert_eq!(l.tuple.is_ip(), flow_hash(&l.tuple) != 0);
                    seen += 1;
                    ip += u64::from(l.tuple.is_ip());
                    *faults.entry(l.malformed.map_or("none", Malformed::name)).or_default() += 1;
                });
                captures += u32::from(seen > before);
            })
            .unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        }
    }
    println!("{captures} captures, {seen} packets, {ip} IP, {faults:?}");
    assert!(ip > seen / 2, "{ip} of {seen} packets are IP");
}
