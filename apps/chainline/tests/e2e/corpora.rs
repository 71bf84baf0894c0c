//! Every capture under `$CHAINLINE_DATA`, thousands of real and malformed ones, through the chain in every isolation.

use crate::capture::LONGEST;
use crate::command::{Dir, chainline, outcome};
use crate::isolation::assert_equal_in_all;
use pcap::{Capture, Linktype, Savefile};
use std::ffi::OsStr;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Captures of one merged file: starting a chain for each would take an hour.
const MERGED: usize = 500;

/// Calls `f` with the name and the bytes of each file under `$CHAINLINE_DATA`, unpacked. `false`, with a word, without.
fn files(f: &mut dyn FnMut(&str, Vec<u8>)) -> bool {
    let Some(data) = std::env::var_os("CHAINLINE_DATA") else {
        println!("skipped: CHAINLINE_DATA is not set");
        return false;
    };
    for folder in ["captures", "corpora"] {
        let entries = std::fs::read_dir(PathBuf::from(&data).join(folder)).unwrap();
        let mut paths: Vec<PathBuf> = entries.map(|e| e.unwrap().path()).collect();
        paths.sort();
        for path in paths {
            let (name, bytes) = unpacked(&path.display().to_string(), std::fs::read(&path).unwrap());
            if !name.ends_with(".tar") {
                f(&name, bytes);
                continue;
            }
            for entry in tar::Archive::new(&bytes[..]).entries().unwrap() {
                let mut entry = entry.unwrap();
                let name = format!("{name}: {}", entry.path().unwrap().display());
                let mut bytes = Vec::new();
                entry.read_to_end(&mut bytes).unwrap();
                let (name, bytes) = unpacked(&name, bytes);
                f(&name, bytes);
            }
        }
    }
    true
}

fn unpacked(name: &str, bytes: Vec<u8>) -> (String, Vec<u8>) {
    let mut plain = Vec::new();
    let stem = if let Some(stem) = name.strip_suffix(".xz") {
        lzma_rust2::XzReader::new(&bytes[..], true).read_to_end(&mut plain).unwrap();
        stem
    } else if let Some(stem) = name.strip_suffix(".gz") {
        flate2::read::MultiGzDecoder::new(&bytes[..]).read_to_end(&mut plain).unwrap();
        stem
    } else {
        return (name.to_owned(), bytes);
    };
    (stem.to_owned(), plain)
}

/// By its first bytes or by its name.
fn is_capture(name: &str, bytes: &[u8]) -> bool {
    const MAGIC: [[u8; 4]; 5] = [
        [0xd4, 0xc3, 0xb2, 0xa1],
        [0xa1, 0xb2, 0xc3, 0xd4],
        [0x4d, 0x3c, 0xb2, 0xa1],
        [0xa1, 0xb2, 0x3c, 0x4d],
        [0x0a, 0x0d, 0x0d, 0x0a],
    ];
    let named = Path::new(name).extension().and_then(OsStr::to_str);
    MAGIC.iter().any(|m| bytes.starts_with(m)) || matches!(named, Some("pcap" | "pcapng" | "cap" | "dump" | "trace"))
}

/// What became of the captures on the test's side.
#[derive(Default)]
struct Merger {
    /// Ethernet and what is taken for it; raw IP. Each with the number of captures in it.
    open: [Option<(Savefile, usize)>; 2],
    files: Vec<PathBuf>,
    captures: usize,
    packets: usize,
    too_long: usize,
    /// Those that libpcap refuses, by name.
    refused: Vec<(String, PathBuf)>,
    /// Those with a fault after the first packet.
    faulty: Vec<(String, PathBuf)>,
}

impl Merger {
    fn add(&mut self, dir: &Dir, name: &str, bytes: Vec<u8>) {
        let path = dir.write(&format!("{}.one", self.captures), bytes);
        self.captures += 1;
        let Ok(mut capture) = Capture::from_file(&path) else {
            self.refused.push((name.to_owned(), path));
            return;
        };
        let raw = usize::from(capture.get_datalink() == Linktype(12));
        let mut packets = 0;
        let fault = loop {
            let packet = match capture.next_packet() {
                Ok(packet) => packet,
                Err(e) => break e != pcap::Error::NoMorePackets,
            };
            packets += 1;
            self.too_long += usize::from(packet.data.len().max(packet.header.len as usize) + 14 * raw > LONGEST);
            let (file, _) = self.open[raw].get_or_insert_with(|| {
                let link = [Linktype::ETHERNET, Linktype(12)][raw];
                let path = dir.path(&format!("merged-{}.pcap", self.files.len()));
                self.files.push(path.clone());
                (Capture::dead(link).unwrap().savefile(path).unwrap(), 0)
            });
            file.write(&packet);
        };
        self.packets += packets;
        match (packets, fault) {
            (0, true) => self.refused.push((name.to_owned(), path)),
            (_, true) => self.faulty.push((name.to_owned(), path)),
            (_, false) => std::fs::remove_file(path).unwrap(),
        }
        if let Some((_, captures)) = &mut self.open[raw] {
            *captures += 1;
            if *captures == MERGED {
                self.close(raw);
            }
        }
    }

    fn close(&mut self, raw: usize) {
        if let Some((mut file, _)) = self.open[raw].take() {
            file.flush().unwrap();
        }
    }
}

#[test]
fn every_capture_goes_through_in_all_three() {
    let dir = Dir::new();
    let mut merger = Merger::default();
    let found = files(&mut |name, bytes| {
        if is_capture(name, &bytes) {
            merger.add(&dir, name, bytes);
        }
    });
    if !found {
        return;
    }
    merger.close(0);
    merger.close(1);
    let Merger { captures, packets, too_long, refused, faulty, files, .. } = merger;
    let (mut received, mut dropped_as_too_long) = (0, 0);
    for file in &files {
        let report = assert_equal_in_all(&dir, file);
        received += report["ledger"]["received"].as_u64().unwrap();
        dropped_as_too_long += report["ledger"]["dropped"]["too_long"].as_u64().unwrap_or(0);
    }
    assert_eq!((received, dropped_as_too_long), (packets as u64, too_long as u64));
    assert!(too_long > 0, "among these captures are frames that are too long");

    let alone = |path: &Path| {
        let out = dir.path("alone.pcap");
        let spec = format!(
            "  ports: {{in: {{pcap: {{read: {path:?}}}}}, out: {{pcap: {{write: {out:?}}}}}}}
  chains: [{{name: all, path: [in, out]}}]\n"
        );
        outcome(chainline().args(["run", "--quiet"]).arg(dir.chain_file("alone.yaml", &spec)))
    };
    for (name, path) in &refused {
        let outcome = alone(path);
        outcome.assert_refused(1, name);
        assert!(outcome.stderr.contains(&path.display().to_string()), "{name}: {}", outcome.stderr);
    }
    for (name, path) in &faulty {
        let outcome = alone(path);
        assert_eq!(outcome.status.code(), Some(0), "{name}: {}", outcome.stderr);
        assert!(outcome.stderr.contains("after packet"), "{name}: the fault is not mentioned: {}", outcome.stderr);
        outcome.assert_no_crash(name);
    }
    println!(
        "{captures} captures, {packets} packets ({too_long} too long), in {} files; {} refused, {} cut short",
        files.len(),
        refused.len(),
        faulty.len()
    );
}
