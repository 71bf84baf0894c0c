//! A disk that is full in the middle of a run: what was not written is dropped and counted, and the file is whole.

use crate::capture;
use crate::command::{Dir, run, sum};
use std::path::PathBuf;
use std::process::Command;

/// A file system of a few pages. Unmounted with its value.
struct SmallDisk(PathBuf);

impl SmallDisk {
    /// `None`, with a word, where nothing can be mounted.
    fn at(path: PathBuf) -> Option<Self> {
        std::fs::create_dir(&path).unwrap();
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", "size=64k", "none"]).arg(&path).output().unwrap();
        if !mounted.status.success() {
            println!("skipped: no small disk: {}", String::from_utf8_lossy(&mounted.stderr).trim());
            return None;
        }
        Some(Self(path))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg(&self.0).status();
        assert!(unmounted.is_ok_and(|s| s.success()) || std::thread::panicking());
    }
}

#[test]
fn what_a_full_disk_did_not_take_is_dropped_and_counted() {
    let dir = Dir::new();
    let Some(disk) = SmallDisk::at(dir.path("disk")) else { return };
    let spec = "  ports:
    in: {generator: {frame_bytes: 512, count: 1000, lossless: true}}
    out: {pcap: {write: disk/out.pcap}}
  chains: [{name: all, path: [in, out]}]
";
    let report = run(&dir.chain_file("full.yaml", spec), &[]);
    let ledger = &report["ledger"];
    let written = capture::read(&disk.0.join("out.pcap")).frames;
    assert_eq!(ledger["received"], 1000);
    assert_eq!(ledger["transmitted"].as_u64(), Some(written.len() as u64), "{ledger:#}");
    assert!(!written.is_empty() && written.iter().all(|f| f.len() == 508), "{}", written.len());
    assert_eq!(ledger["dropped"]["port_full"].as_u64(), Some(1000 - written.len() as u64), "{ledger:#}");
    assert_eq!(sum(&ledger["dropped"]) + written.len() as u64, 1000);
    let said = report["happenings"].to_string();
    assert!(said.contains("No space left on device") && said.contains("out.pcap"), "{said}");
}
