//! Rule files, readable and ClassBench: refused at a place that is there, or built into tables that decide.

use crate::file::MemFile;
use crate::rig::Rig;
use chainline_nf::Error;
use serde_json::json;

/// `rte_acl` may take seconds over some hundreds of odd rules; their number is not what is looked at here.
const MAX_LINES: usize = 48;

/// IPv4 with TCP, IPv6 with UDP, an IPv4 fragment without ports, ARP.
const FRAMES: [&[u8]; 4] = [
    b"\x02\0\0\0\0\x02\x02\0\0\0\0\x01\x08\0\x45\0\0\x28\0\0\0\0\x40\x06\x66\xce\x0a\0\0\x01\x0a\0\0\x02\x10\0\0\x50\0\0\0\0\0\0\0\0\x50\x02\xff\xff\0\0\0\0",
    b"\x02\0\0\0\0\x02\x02\0\0\0\0\x01\x86\xdd\x60\0\0\0\0\x08\x11\x40\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x01\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x02\x10\0\0\x35\0\x08\0\0",
    b"\x02\0\0\0\0\x02\x02\0\0\0\0\x01\x08\0\x45\0\0\x1c\0\0\0\x20\x40\x11\x66\x9f\x0a\0\0\x01\x0a\0\0\x02\0\0\0\0\0\0\0\0",
    b"\x02\0\0\0\0\x02\x02\0\0\0\0\x01\x08\x06\0\x01\x08\0\x06\x04\0\x01",
];

/// The target.
pub fn run(data: &[u8]) {
    if data.split(|b| *b == b'\n').count() > MAX_LINES {
        return;
    }
    let file = MemFile::new(data);
    match Rig::new(&nf_firewall::KIND, json!({"rules": file.path(), "classbench_action": "alternate"})) {
        Ok(mut rig) => {
            let together = rig.play(0, &FRAMES, FRAMES.len());
            assert_eq!(together, rig.play(0, &FRAMES, 1));
            // ARP is no business of the rules.
            assert_eq!(together[3].verdict, chainline_nf::Decoded::Next);
        }
        Err(e) => check_place(data, &e),
    }
}

/// An error in a file names a line and a column of it, or the end of the line.
pub fn check_place(data: &[u8], error: &Error) {
    if let Error::File { line, column, message, .. } = error {
        let lines: Vec<&[u8]> = data.split(|b| *b == b'\n').collect();
        let text = lines.get(line - 1).unwrap_or_else(|| panic!("line {line} of {}", lines.len()));
        assert!((1..=text.len() + 1).contains(column), "column {column} of {} in line {line}: {message}", text.len());
    }
    assert!(error.to_string().len() < 4 * data.len() + 1024, "a message much longer than the file");
}
