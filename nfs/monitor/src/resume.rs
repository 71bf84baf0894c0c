//! What is in the files of records already: how much of it is whole, after a writer that was killed, and how many records
//! an IPFIX file has, so that numbers go on.

use crate::{ipfix, json};
use chainline_nf::Error;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, ErrorKind, Read, Seek, SeekFrom};
use std::path::Path;

/// An IPFIX file to go on with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Resumed {
    /// Bytes of whole messages; `None`: there is no file, or none that can be looked through.
    pub keep: Option<u64>,
    /// Data records of the observation domain so far, modulo 2^32 (RFC 7011 §3.1).
    pub sequence: u32,
}

/// Looks through an IPFIX file.
///
/// # Errors
/// When it cannot be read, or is something else.
pub(crate) fn ipfix(path: &Path, domain: u32) -> Result<Resumed, Error> {
    let resumed = regular(path).and_then(|file| match file {
        Some(file) => messages(BufReader::with_capacity(1 << 20, file), domain),
        None => Ok(Resumed::default()),
    });
    resumed.map_err(|source| Error::Read { path: path.to_owned(), source })
}

/// How many bytes of a file of JSON lines are whole lines; `None` as in [`Resumed::keep`].
///
/// # Errors
/// When it cannot be read, or its end is something else.
pub(crate) fn lines(path: &Path) -> Result<Option<u64>, Error> {
    let whole = regular(path).and_then(|file| file.map(whole_lines).transpose());
    whole.map_err(|source| Error::Read { path: path.to_owned(), source })
}

fn regular(path: &Path) -> io::Result<Option<File>> {
    match path.metadata() {
        Ok(m) if m.is_file() => File::open(path).map(Some),
        _ => Ok(None),
    }
}

fn foreign(what: &str, expected: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, format!("{what}; expected no file, or {expected} to go on with"))
}

fn messages(mut file: impl Read, domain: u32) -> io::Result<Resumed> {
    let mut resumed = Resumed { keep: Some(0), sequence: 0 };
    let mut sizes = BTreeMap::new();
    let mut message = Vec::new();
    loop {
        message.clear();
        file.by_ref().take(ipfix::HEADER as u64).read_to_end(&mut message)?;
        let Some(header) = ipfix::Header::read(&message) else {
            let torn = ipfix::VERSION.to_be_bytes();
            let is_start = message.len() < ipfix::HEADER && torn.starts_with(&message[..message.len().min(2)]);
            // At the start only what can be the rest of a message was left by one that was killed.
            return match resumed.keep {
                Some(0) if !is_start => Err(foreign("not IPFIX", "an IPFIX file")),
                _ => Ok(resumed),
            };
        };
        file.by_ref().take(u64::from(header.len) - ipfix::HEADER as u64).read_to_end(&mut message)?;
        if message.len() < usize::from(header.len) {
            return Ok(resumed);
        }
        let records = ipfix::data_records(&message, &mut sizes);
        let records = records.ok_or_else(|| foreign("IPFIX of another exporter's making", "this one's IPFIX file"))?;
        if header.domain == domain {
            resumed.sequence = header.sequence.wrapping_add(records);
        }
        resumed.keep = resumed.keep.map(|keep| keep + u64::from(header.len));
    }
}

/// A line is never longer than a record's, so a look at the end is enough.
fn whole_lines(mut file: File) -> io::Result<u64> {
    let len = file.seek(SeekFrom::End(0))?;
    let from = len.saturating_sub(json::LINE_BYTES as u64);
    file.seek(SeekFrom::Start(from))?;
    let mut tail = Vec::new();
    file.read_to_end(&mut tail)?;
    let behind = tail.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
    let rest = &tail[behind..];
    let is_record = json::START.as_bytes().starts_with(rest) || rest.starts_with(json::START.as_bytes());
    if (behind == 0 && from > 0) || !is_record {
        return Err(foreign("its end is no record of a flow", "JSON lines of flows"));
    }
    Ok(from + behind as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ipfix::Message;
    use crate::records::{End, Flow};

    /// A file of templates and messages of 1 to 9 records of both kinds; where each message ends, and the records by then.
    fn file(domain: u32, first: u32) -> (Vec<u8>, Vec<(u64, u32)>) {
        let mut message = Message::new(domain, first);
        let mut bytes = Message::templates(domain, first);
        let mut ends = vec![(bytes.len() as u64, first)];
        for n in 1..10 {
            for i in 0..n {
                let mut key = [0; 48];
                key[37] = if i % 3 == 1 { 6 } else { 4 };
                message.push(&key, &Flow::default(), (0, 0), End::Idle);
            }
            bytes.extend(message.end(0).unwrap());
            message.clear();
            ends.push((bytes.len() as u64, ends[ends.len() - 1].1.wrapping_add(n)));
        }
        (bytes, ends)
    }

    #[test]
    fn wherever_it_is_torn_whole_messages_stay_and_are_counted() {
        for first in [0, u32::MAX - 20] {
            let (bytes, ends) = file(7, first);
            for cut in 0..=bytes.len() {
                let last = ends.iter().rev().find(|(end, _)| *end <= cut as u64);
                let expected = last.map_or((0, 0), |(end, records)| (*end, *records));
                let found = messages(&bytes[..cut], 7).unwrap();
                assert_eq!(found, Resumed { keep: Some(expected.0), sequence: expected.1 }, "{cut}");
                // Not this domain's.
                assert_eq!(messages(&bytes[..cut], 8).unwrap().sequence, 0);
            }
        }
    }

    #[test]
    fn what_is_torn_otherwise_ends_the_file_too() {
        let (bytes, ends) = file(7, 0);
        let torn = [&bytes[..], &[0; 5000]].concat();
        let (keep, sequence) = ends[ends.len() - 1];
        assert_eq!(messages(&torn[..], 7).unwrap(), Resumed { keep: Some(keep), sequence });
        let two = [&bytes[..], &file(9, 0).0].concat();
        let of = |domain| messages(&two[..], domain).unwrap();
        assert_eq!((of(7).sequence, of(9).sequence, of(7).keep), (sequence, sequence, Some(2 * keep)));
    }

    #[test]
    fn other_files_are_refused() {
        for other in
            [&b"words"[..], &[0; 40], &[0, 9, 0, 20, 0, 0, 0, 0], &[0, 10, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]]
        {
            assert!(messages(other, 0).is_err(), "{other:?}");
        }
        // Data without their template.
        let (bytes, ends) = file(7, 0);
        let message = messages(&bytes[ends[0].0 as usize..], 7).unwrap_err().to_string();
        assert!(message.starts_with("IPFIX of another exporter's making; expected"), "{message}");
    }

    #[test]
    fn lines_are_kept_whole() {
        let path = std::env::temp_dir().join(format!("chainline-monitor-lines-{}", std::process::id()));
        let line = |n: u8| {
            let (line, len) = json::line(&[n; 48], &Flow::default(), (1, 2), End::Idle);
            String::from_utf8(line[..len].to_vec()).unwrap()
        };
        let text = (0..9).map(line).collect::<String>();
        for cut in 0..=text.len() {
            std::fs::write(&path, &text[..cut]).unwrap();
            let whole = text[..cut].rfind('\n').map_or(0, |at| at + 1);
            assert_eq!(lines(&path).unwrap(), Some(whole as u64), "{cut}");
        }
        for other in ["words", "words\nmore words", &"x".repeat(1000)] {
            std::fs::write(&path, other).unwrap();
            assert!(lines(&path).unwrap_err().to_string().contains("expected no file, or JSON lines"), "{other}");
        }
        std::fs::remove_file(&path).unwrap();
        assert_eq!((lines(&path).unwrap(), ipfix(&path, 0).unwrap()), (None, Resumed::default()));
    }
}
