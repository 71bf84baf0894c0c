use super::*;
use pcap_file::pcapng::{Block, PcapNgReader};
use std::io::Write;

fn file(frames: &[(&[u8], u64, u32)]) -> Vec<u8> {
    let mut bytes = pcapng::head(9018);
    for (frame, time, len) in frames {
        let (before, behind, n) = pcapng::around(*time, frame.len() as u32, *len);
        bytes.extend([&before[..], frame, &behind[..n]].concat());
    }
    bytes
}

#[test]
fn an_independent_reader_reads_what_is_written() {
    let frames: Vec<Vec<u8>> = (0..9).map(|n| vec![n as u8; n]).collect();
    let records: Vec<_> = frames.iter().map(|f| (&f[..], 1_700_000_000_123_456_789, 9000)).collect();
    let bytes = file(&records);
    let mut reader = PcapNgReader::new(&bytes[..]).unwrap();
    let mut seen = Vec::new();
    while let Some(block) = reader.next_block() {
        if let Block::EnhancedPacket(p) = block.unwrap() {
            assert_eq!((p.interface_id, p.original_len), (0, 9000));
            assert!(p.options.is_empty());
            seen.push(p.data.into_owned());
        }
    }
    assert_eq!(seen, frames);
    for (frame, _, _) in records {
        let block = file(&[(frame, 0, 0)]).len() - file(&[]).len();
        assert_eq!(block, pcapng::block_bytes(frame.len() as u32) as usize);
    }
}

#[test]
fn whatever_is_cut_off_only_whole_blocks_count() {
    let dir = tempfile();
    let ends: Vec<usize> = (0..4).map(|n| file(&vec![(&[7u8; 5][..], 1, 5); n]).len()).collect();
    let mut whole = file(&[(&[7u8; 5][..], 1, 5); 3]);
    whole.extend(file(&[]));
    for cut in 0..=whole.len() {
        std::fs::write(&dir.0, &whole[..cut]).unwrap();
        let kept = pcapng::whole_bytes(&dir.0).unwrap().unwrap() as usize;
        assert!(kept <= cut && cut - kept < 64, "{cut}: {kept}");
        if cut >= ends[0] && cut <= ends[3] {
            let expected = ends.iter().rev().find(|e| **e <= cut).unwrap();
            assert_eq!(kept, *expected, "{cut}");
        }
    }
    // A block whose length is not repeated behind it, and one that claims to go on for ever.
    for bad in [
        [6, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0, 0, 17, 0, 0, 0],
        [6, 0, 0, 0, 0xfc, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0],
    ] {
        std::fs::write(&dir.0, [&whole[..], &bad[..]].concat()).unwrap();
        assert_eq!(pcapng::whole_bytes(&dir.0).unwrap(), Some(whole.len() as u64));
    }
}

#[test]
fn other_files_are_refused() {
    let dir = tempfile();
    assert_eq!(pcapng::whole_bytes(&dir.0).unwrap(), None);
    let text = "not a capture, but somebody's letter";
    std::fs::File::create(&dir.0).unwrap().write_all(text.as_bytes()).unwrap();
    let e = pcapng::whole_bytes(&dir.0).unwrap_err().to_string();
    assert_eq!(e, "not pcapng; expected no file, or a little-endian pcapng file to go on with");
    std::fs::write(&dir.0, [0x0a, 0x0d, 0x0d, 0x0a, 0, 0, 0, 28, 0x1a, 0x2b, 0x3c, 0x4d]).unwrap();
    assert!(pcapng::whole_bytes(&dir.0).unwrap_err().to_string().starts_with("a section of the other byte order"));
}

#[test]
fn filters() {
    let filter = |m: &str| Filter::new(&serde_json::from_str(m).unwrap());
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0];
    frame.extend([10, 1, 2, 3, 192, 168, 0, 9, 0, 53, 0x30, 0x39, 0, 8, 0, 0]);
    let takes = |m: &str| filter(m).unwrap().is_none_or(|f| f.takes(&frame));
    assert!(takes("{}") && filter("{}").unwrap().is_none());
    assert!(
        takes(r#"{"net": "10.0.0.0/8"}"#) && takes(r#"{"net": "192.168.0.9/32"}"#) && takes(r#"{"net": "0.0.0.0/0"}"#)
    );
    assert!(!takes(r#"{"net": "11.0.0.0/8"}"#) && !takes(r#"{"net": "::/0"}"#));
    assert!(takes(r#"{"ports": [53]}"#) && takes(r#"{"ports": [80, 12345]}"#) && !takes(r#"{"ports": [54]}"#));
    assert!(takes(r#"{"proto": "udp", "ports": [53]}"#) && !takes(r#"{"proto": "tcp", "ports": [53]}"#));
    for (m, why) in [
        (
            r#"{"net": "10.0.0.1"}"#,
            "args.match.net: found \"10.0.0.1\", expected an address and a length, such as 10.0.0.0/8",
        ),
        (r#"{"net": "10.0.0.1/8"}"#, "args.match.net: found \"10.0.0.1/8\", expected no bits behind the length"),
        (r#"{"net": "10.0.0.0/33"}"#, "args.match.net: found \"10.0.0.0/33\", expected a length of at most 32"),
        (r#"{"ports": []}"#, "args.match.ports: found an empty list, expected at least one port"),
    ] {
        assert_eq!(filter(m).unwrap_err().to_string(), why);
    }
}

struct Temp(std::path::PathBuf);

impl Drop for Temp {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn tempfile() -> Temp {
    static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let n = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    Temp(std::env::temp_dir().join(format!("chainline-logger-{}-{n}", std::process::id())))
}
