//! Real files, both engines.

#![allow(clippy::unwrap_used)]

use chainline_nf::{Access, Durable, Errno, File, FileSpec, Refused};
use chainline_storage::{Choice, Storage, StorageReport};
use proptest::prelude::*;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const ENGINES: [Choice; 2] = [Choice::Auto, Choice::Thread];
const FILE: File = File::from_bits(0);
const ENOSPC: Errno = Errno(28);

/// A directory that goes when it is dropped; perhaps a small file system of its own.
struct Dir(PathBuf, bool, Option<MutexGuard<'static, ()>>);

/// Tests that mount take turns: a process that one starts has the files of the other open for a moment, which then cannot be
/// unmounted, or takes up space after it was removed.
static MOUNTS: Mutex<()> = Mutex::new(());

impl Dir {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("chainline-storage-{}-{n}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path, false, None)
    }

    /// With `size` bytes of space; `None` where mounting is not permitted.
    fn small(size: &str) -> Option<Self> {
        let turn = MOUNTS.lock().unwrap_or_else(PoisonError::into_inner);
        let mut dir = Self::new();
        dir.2 = Some(turn);
        let options = format!("size={size}");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &options, "none"]).arg(&dir.0).output();
        dir.1 = mounted.is_ok_and(|o| o.status.success());
        dir.1.then_some(dir)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        if self.1 {
            Command::new("umount").arg(&self.0).output().unwrap();
        }
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

/// What the NF heard: context and result.
type Heard = Vec<(Option<u64>, Result<u64, Errno>, Vec<u8>)>;

struct Rig(Storage);

impl Rig {
    fn new(spec: FileSpec, choice: Choice) -> Self {
        Self(Storage::open(&[&[spec]], choice, Arc::new(|| {})).unwrap_or_else(|(_, e)| panic!("{e}")))
    }

    fn write(&mut self, bytes: &[u8], context: Option<u64>) -> Result<(), Refused> {
        self.0.files(0, 0).unwrap().write(FILE, &[bytes], context)
    }

    /// Waits for one thing to be done.
    fn complete(&mut self, heard: &mut Heard) {
        while !self.0.complete(0, &mut |_, c, _| heard.push((c.context, c.result, c.data.to_vec()))) {
            std::thread::yield_now();
        }
    }

    /// Until nothing is left to be done.
    fn drain(&mut self, heard: &mut Heard) {
        while self.0.pending() {
            self.0.flush();
            self.0.submit(0);
            self.complete(heard);
        }
    }

    fn end(mut self, heard: &mut Heard) -> StorageReport {
        self.drain(heard);
        self.0.finish().remove(0).unwrap()
    }
}

fn spec(path: &Path) -> FileSpec {
    FileSpec { batch_bytes: 100, packet_bytes: 10, flush_ms: 1, ..FileSpec::append(path) }
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn here_is_io_uring_unless_it_is_not_permitted() {
    let dir = Dir::new();
    let auto = Rig::new(spec(&dir.file("a")), Choice::Auto).end(&mut vec![]).engine;
    assert!(auto == "io_uring" || auto.starts_with("thread (no io_uring: "), "{auto}");
    assert_eq!(Rig::new(spec(&dir.file("a")), Choice::Thread).end(&mut vec![]).engine, "thread (as asked)");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Whatever is written when, the file has it in order, and each write with a context is heard of in order.
    #[test]
    fn what_was_taken_is_in_the_file_in_order(
        lens in proptest::collection::vec((0usize..120, any::<bool>(), 0u8..4), 0..120),
        durable in prop_oneof![Just(Durable::Never), Just(Durable::AtEnd), Just(Durable::EachBatch)],
    ) {
        for choice in ENGINES {
            let dir = Dir::new();
            let path = dir.file("out");
            let mut rig = Rig::new(FileSpec { durable, head: b"head".to_vec(), ..spec(&path) }, choice);
            let (mut expected, mut contexts, mut heard) = (b"head".to_vec(), vec![], vec![]);
            for (i, &(len, with_context, then)) in lens.iter().enumerate() {
                let bytes: Vec<u8> = (0..len).map(|k| (i + k) as u8).collect();
                let room = rig.0.room(0);
                match rig.write(&bytes, with_context.then_some(i as u64)) {
                    Ok(()) => {
                        expected.extend(&bytes);
                        contexts.extend(with_context.then_some((i as u64, len as u64)));
                    }
                    Err(Refused::TooLong) => prop_assert!(len > 100),
                    Err(e) => {
                        prop_assert_eq!(e, Refused::Full);
                        prop_assert!(room == 0 || len > 10, "refused in spite of room for {} packets", room);
                    }
                }
                match then {
                    0 => rig.0.flush(),
                    1 => rig.0.submit(i as u64 * 500_000),
                    2 => _ = rig.0.complete(0, &mut |_, c, _| heard.push((c.context, c.result, vec![]))),
                    _ => {}
                }
            }
            let report = rig.end(&mut heard);
            prop_assert_eq!(std::fs::read(&path).unwrap(), &expected[..]);
            let told: Vec<_> = heard.iter().filter_map(|h| Some((h.0?, h.1.unwrap()))).collect();
            prop_assert_eq!(told, contexts);
            let bytes: u64 = heard.iter().map(|h| h.1.unwrap()).sum();
            prop_assert_eq!((bytes + 4, report.files[0].bytes_written, report.files[0].errors),
                            (expected.len() as u64, bytes, 0));
        }
    }
}

#[test]
fn credit_ends_with_the_second_buffer_and_comes_back_with_the_first() {
    for choice in ENGINES {
        let dir = Dir::new();
        let mut rig = Rig::new(spec(&dir.file("out")), choice);
        assert_eq!(rig.0.room(0), 20);
        let mut taken = 0;
        while rig.0.room(0) > 0 {
            rig.write(b"0123456789", Some(taken)).unwrap();
            rig.0.submit(0);
            taken += 1;
        }
        // Nothing has been completed: one buffer is written, the other is full.
        assert_eq!((taken, rig.write(b"0123456789", None)), (20, Err(Refused::Full)));
        let mut heard = vec![];
        rig.complete(&mut heard);
        assert_eq!((heard.len(), rig.0.room(0)), (10, 10));
        rig.write(b"9876543210", None).unwrap();
        rig.drain(&mut heard);
        assert_eq!(read(&dir.file("out")), "0123456789".repeat(20) + "9876543210");
    }
}

#[test]
fn a_batch_is_written_when_it_is_old_enough() {
    let dir = Dir::new();
    let mut rig = Rig::new(FileSpec { flush_ms: 2, ..spec(&dir.file("out")) }, Choice::Auto);
    assert_eq!(rig.0.due_ns(), None);
    rig.0.files(0, 5_000_000).unwrap().write(FILE, &[b"a"], None).unwrap();
    rig.0.files(0, 6_000_000).unwrap().write(FILE, &[b"b"], None).unwrap();
    rig.0.submit(6_999_999);
    assert!(!rig.0.complete(0, &mut |_, _, _| {}));
    assert_eq!(rig.0.due_ns(), Some(7_000_000));
    rig.0.submit(7_000_000);
    let mut heard = vec![];
    rig.complete(&mut heard);
    assert_eq!((heard, rig.0.pending()), (vec![(None, Ok(2), vec![])], false));
}

#[test]
fn an_error_reaches_each_write_and_the_report() {
    for choice in ENGINES {
        let mut rig = Rig::new(spec(Path::new("/dev/full")), choice);
        rig.write(b"one", Some(1)).unwrap();
        rig.write(b"two", Some(2)).unwrap();
        rig.write(b"three", None).unwrap();
        let mut heard = vec![];
        let report = rig.end(&mut heard);
        let failed = |context| (context, Err(ENOSPC), vec![]);
        assert_eq!(heard, [failed(None), failed(Some(1)), failed(Some(2))]);
        let file = &report.files[0];
        assert_eq!((file.errors, file.bytes_lost, file.bytes_written), (1, 11, 0));
        assert_eq!(file.last_error.as_deref(), Some("No space left on device (os error 28)"));
    }
}

/// A batch that does not fit leaves nothing behind, and when there is space again the next one is whole.
#[test]
fn a_disk_that_fills_up_and_gets_space_again() {
    for choice in ENGINES {
        let Some(dir) = Dir::small("64k") else { return println!("skipped: no file system can be mounted here") };
        let ballast = dir.file("ballast");
        std::fs::write(&ballast, vec![0; 40 << 10]).unwrap();
        let path = dir.file("out");
        let big = FileSpec { batch_bytes: 10_000, ..spec(&path) };
        let mut rig = Rig::new(big, choice);
        let mut heard = vec![];
        let record = |i: u64| vec![b'a' + i as u8; 10_000];
        for i in 0..4 {
            rig.write(&record(i), Some(i)).unwrap();
            rig.drain(&mut heard);
        }
        let ok: Vec<bool> = heard.iter().map(|h| h.1.is_ok()).collect();
        assert_eq!(ok, [true, true, false, false], "{choice:?}: {heard:?}");
        assert!(heard.iter().filter_map(|h| h.1.err()).all(|e| e == ENOSPC));
        std::fs::remove_file(&ballast).unwrap();
        rig.write(&record(4)[..5_000], Some(4)).unwrap();
        let report = rig.end(&mut heard);
        let expected = [record(0), record(1), record(4)[..5_000].to_vec()].concat();
        assert!(std::fs::read(&path).unwrap() == expected, "{choice:?}");
        assert_eq!((report.files[0].bytes_written, report.files[0].bytes_lost), (25_000, 20_000));
    }
}

/// At its limit a file begins anew, and is never longer: the last whole batches are in it, behind its head.
#[test]
fn at_its_limit_a_file_begins_anew() {
    for (choice, blocking) in ENGINES.into_iter().zip([false; 2]).chain([(Choice::Auto, true)]) {
        let dir = Dir::new();
        let path = dir.file("out");
        std::fs::write(&path, "was there").unwrap();
        let limited = FileSpec { limit_bytes: Some(250), blocking, head: b"head".to_vec(), ..spec(&path) };
        let mut rig = Rig::new(limited, choice);
        let mut heard = vec![];
        let record = |i: u64| [b'a' + i as u8; 100];
        for i in 0..8 {
            rig.write(&record(i), Some(i)).unwrap();
            rig.drain(&mut heard);
            assert!(path.metadata().unwrap().len() <= 250);
        }
        let told: Vec<_> = heard.iter().map(|h| (h.0, h.1)).collect();
        assert_eq!(told, (0..8).map(|i| (Some(i), Ok(100))).collect::<Vec<_>>(), "{choice:?}");
        let report = rig.end(&mut heard);
        // Two batches fit behind what was there and its head, and two each time after that.
        assert_eq!(read(&path), ["head".as_bytes(), &record(6), &record(7)].concat().escape_ascii().to_string());
        assert_eq!((report.files[0].begun_anew, report.files[0].bytes_written, report.files[0].errors), (3, 800, 0));
        assert_eq!(report.engine == "blocking", blocking);
    }
}

/// What could not be begun anew is tried again with the next batch, and nothing torn stays.
#[test]
fn a_disk_that_is_full_when_a_file_begins_anew() {
    for (choice, blocking) in [(Choice::Auto, false), (Choice::Thread, false), (Choice::Auto, true)] {
        let Some(dir) = Dir::small("64k") else { return println!("skipped: no file system can be mounted here") };
        let path = dir.file("out");
        let limited = FileSpec {
            limit_bytes: Some(25_000),
            batch_bytes: 20_000,
            blocking,
            head: b"head".to_vec(),
            ..spec(&path)
        };
        let mut rig = Rig::new(limited, choice);
        let mut heard = vec![];
        rig.write(&[1; 8_000], Some(0)).unwrap();
        rig.drain(&mut heard);
        std::fs::write(dir.file("ballast"), vec![0; 48 << 10]).unwrap();
        rig.write(&[2; 20_000], Some(1)).unwrap();
        rig.drain(&mut heard);
        rig.write(&[3; 8_000], Some(2)).unwrap();
        let report = rig.end(&mut heard);
        let ok: Vec<bool> = heard.iter().map(|h| h.1.is_ok()).collect();
        assert_eq!(ok, [true, false, true], "{choice:?}: {heard:?}");
        assert!(std::fs::read(&path).unwrap() == [&b"head"[..], &[3; 8_000]].concat(), "{choice:?}");
        assert_eq!((report.files[0].begun_anew, report.files[0].errors), (1, 1));
    }
}

#[test]
fn a_blocking_write_is_done_when_it_is_submitted() {
    let dir = Dir::new();
    let path = dir.file("out");
    let mut rig = Rig::new(FileSpec { blocking: true, flush_ms: 0, ..spec(&path) }, Choice::Auto);
    rig.write(b"now", Some(7)).unwrap();
    rig.0.submit(0);
    assert_eq!(read(&path), "now");
    assert!(rig.0.ready());
    let mut heard = vec![];
    assert!(rig.0.complete(0, &mut |_, c, _| heard.push((c.context, c.result))));
    assert_eq!((heard, rig.0.pending()), (vec![(Some(7), Ok(3))], false));
    assert_eq!(rig.end(&mut vec![]).engine, "blocking");
}

#[test]
fn one_writer_a_file_and_what_is_kept() {
    let dir = Dir::new();
    let path = dir.file("out");
    std::fs::write(&path, "0123456789").unwrap();
    let all = spec(&path);
    let mut rig = Rig::new(FileSpec { access: Access::Append { keep: Some(4) }, ..all.clone() }, Choice::Auto);
    rig.write(b"x", None).unwrap();
    let second = Storage::open(&[&[], std::slice::from_ref(&all)], Choice::Auto, Arc::new(|| {}));
    let (nf, why) = second.err().unwrap();
    assert_eq!(nf, 1);
    assert!(why.ends_with("another instance writes to it; expected one writer a file"), "{why}");
    rig.end(&mut vec![]);
    let mut rig = Rig::new(FileSpec { access: Access::Append { keep: Some(99) }, ..all }, Choice::Auto);
    rig.write(b"y", None).unwrap();
    rig.end(&mut vec![]);
    assert_eq!(read(&path), "0123xy");
}

#[test]
fn what_cannot_be_opened_is_said() {
    let dir = Dir::new();
    let why = |spec: FileSpec| Storage::open(&[&[spec]], Choice::Auto, Arc::new(|| {})).err().unwrap().1;
    assert!(why(spec(&dir.0)).ends_with("Is a directory (os error 21)"));
    assert!(why(spec(&dir.file("no/such"))).starts_with("cannot write to "));
    assert!(why(FileSpec::read(dir.file("absent"))).ends_with("No such file or directory (os error 2)"));
    assert!(why(FileSpec::read(&dir.0)).ends_with("it is a directory; expected a file"));
    let full = FileSpec { head: vec![1], ..spec(Path::new("/dev/full")) };
    assert_eq!(why(full), "cannot begin /dev/full: No space left on device (os error 28)");
}

#[test]
fn reads_come_back_with_their_context() {
    for choice in ENGINES {
        let dir = Dir::new();
        let path = dir.file("in");
        std::fs::write(&path, "0123456789").unwrap();
        let spec = FileSpec { reads: 3, read_bytes: 4, ..FileSpec::read(&path) };
        let mut rig = Rig::new(spec, choice);
        let files = rig.0.files(0, 0).unwrap();
        files.read(FILE, 2, 4, 77).unwrap();
        files.read(FILE, 8, 4, 88).unwrap();
        assert_eq!(files.read(FILE, 0, 5, 0), Err(Refused::TooLong));
        files.read(FILE, u64::MAX, 4, 99).unwrap();
        assert_eq!(files.read(FILE, 0, 1, 0), Err(Refused::Full));
        assert_eq!(files.write(FILE, &[b"x"], None), Err(Refused::Absent));
        assert_eq!(rig.0.room(0), 0);
        let mut heard = vec![];
        rig.drain(&mut heard);
        heard.sort_by_key(|h| h.0);
        assert_eq!(heard[0], (Some(77), Ok(4), b"2345".to_vec()));
        assert_eq!(heard[1], (Some(88), Ok(2), b"89".to_vec()));
        // Behind the last place that a file can have there is nothing, or the kernel says that there is no such place.
        assert!(heard[2].0 == Some(99) && heard[2].2.is_empty());
        assert_eq!(rig.0.room(0), 3);
    }
}

/// An NF that writes whenever it hears of a write does not keep the instance from its end.
#[test]
fn at_the_end_the_nf_is_refused() {
    let dir = Dir::new();
    let mut rig = Rig::new(spec(&dir.file("out")), Choice::Auto);
    rig.write(b"once", Some(1)).unwrap();
    rig.0.set_ending();
    let mut refused = None;
    while rig.0.pending() {
        rig.0.flush();
        rig.0.submit(0);
        rig.0.complete(0, &mut |_, _, files| refused = files.write(FILE, &[b"more"], None).err());
    }
    assert_eq!((refused, read(&dir.file("out"))), (Some(Refused::Ending), "once".into()));
}

#[test]
fn nothing_is_allocated_and_what_flies_at_the_end_is_safe() {
    for choice in ENGINES {
        let dir = Dir::new();
        let mut rig = Rig::new(FileSpec { batch_bytes: 4096, ..spec(&dir.file("out")) }, choice);
        let (mut heard, mut now) = (0, 0);
        let spent = allocation_counter::measure(|| {
            while heard < 20_000 {
                now += 1000;
                if rig.0.room(0) > 0 {
                    rig.write(b"0123456789", Some(now)).unwrap();
                } else {
                    std::thread::yield_now();
                }
                rig.0.submit(now);
                rig.0.complete(now, &mut |_, c, _| heard += c.result.map_or(0, |_| c.count));
            }
        });
        assert_eq!(spent.count_total, 0, "{choice:?}");
        // Dropped with requests on their way.
        rig.0.flush();
        rig.0.submit(0);
    }
}
