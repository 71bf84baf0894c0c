use super::*;
use chainline_nf::testing::NoHolds;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const SECOND: u64 = 1_000_000_000;

/// A number that is read from two files, and the counters.
struct Rig {
    dir: PathBuf,
    reload: Reload<u32>,
    counters: [AtomicU64; 2],
    now_s: u64,
}

impl Rig {
    fn new(name: &str, every_s: u32) -> Self {
        let dir = std::env::temp_dir().join(format!("chainline-reload-{}-{name}", std::process::id()));
        std::fs::create_dir(&dir).unwrap();
        let files = [dir.join("a"), dir.join("b")];
        files.iter().for_each(|file| std::fs::write(file, "0").unwrap());
        let mut env = Env::new(Path::new("."), &[]);
        let mut reload = Reload::new(&mut env, "numbers", files.clone(), every_s);
        assert_eq!(env.into_declared().counters[1].name, "reloads_failed");
        let number = |file: &PathBuf| {
            let text = std::fs::read_to_string(file).map_err(|source| Error::Read { path: file.clone(), source })?;
            text.parse::<u32>().map_err(|_| Error::at(file, 1, 1, format!("found '{text}'")))
        };
        reload.start(move || Ok(number(&files[0])? + number(&files[1])?)).unwrap();
        Self { dir, reload, counters: [AtomicU64::new(0), AtomicU64::new(0)], now_s: 1 }
    }

    /// Another file in the place of the old, as editors do it.
    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.dir.join("new"), text).unwrap();
        std::fs::rename(self.dir.join("new"), self.dir.join(name)).unwrap();
    }

    fn look(&mut self) -> Option<u32> {
        let mut holds = NoHolds;
        let ctx = Ctx::new(self.now_s * SECOND, &self.counters, &mut holds);
        self.reload.look(&ctx)
    }

    /// A second later.
    fn tick(&mut self) -> Option<u32> {
        self.now_s += 1;
        self.look()
    }

    /// Until what is being read is there.
    fn settle(&mut self) -> Option<u32> {
        while self.reload.worker.as_ref().unwrap().is_busy() {
            std::thread::yield_now();
            if let Some(new) = self.look() {
                return Some(new);
            }
        }
        None
    }

    fn counts(&self) -> [u64; 2] {
        [self.counters[0].load(Relaxed), self.counters[1].load(Relaxed)]
    }

    fn is_busy(&self) -> bool {
        self.reload.worker.as_ref().unwrap().is_busy()
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

#[test]
fn a_change_takes_effect_when_it_was_seen_twice() {
    let mut rig = Rig::new("change", 1);
    assert!(rig.tick().is_none() && !rig.is_busy());
    rig.write("b", "7");
    assert!(rig.tick().is_none() && !rig.is_busy());
    assert!(rig.tick().is_none() && rig.is_busy());
    assert_eq!((rig.settle(), rig.counts()), (Some(7), [1, 0]));
    rig.reload.retire(0);
    assert!(rig.tick().is_none() && rig.tick().is_none() && !rig.is_busy());
}

#[test]
fn a_file_that_grows_is_not_read_before_it_rests() {
    let mut rig = Rig::new("grows", 1);
    for text in ["1", "11", "111"] {
        rig.write("a", text);
        assert!(rig.tick().is_none() && !rig.is_busy());
    }
    rig.tick();
    assert_eq!(rig.settle(), Some(111));
}

#[test]
fn a_wrong_file_is_told_and_a_right_one_ends_that() {
    let mut rig = Rig::new("wrong", 1);
    rig.write("a", "x");
    assert!(rig.tick().is_none() && rig.tick().is_none());
    assert_eq!((rig.settle(), rig.counts()), (None, [0, 1]));
    let words = rig.reload.words().unwrap();
    assert!(words.starts_with("the file of numbers has changed and is wrong") && words.contains("a:1:1: found 'x'"));
    assert_eq!((rig.reload.news(), rig.reload.news()), (Some(words), None));
    // It is not read again as it is.
    assert!(rig.tick().is_none() && rig.tick().is_none() && !rig.is_busy());
    rig.write("a", "3");
    assert!(rig.tick().is_none() && rig.tick().is_none());
    assert_eq!((rig.settle(), rig.counts(), rig.reload.words()), (Some(3), [1, 1], None));
    assert_eq!(rig.reload.news().unwrap(), "the file of numbers is right again, and in force");
    rig.write("a", "4");
    assert!(rig.tick().is_none() && rig.tick().is_none());
    assert_eq!((rig.settle(), rig.reload.news()), (Some(4), None));
}

#[test]
fn a_file_that_is_gone_is_no_change() {
    let mut rig = Rig::new("gone", 1);
    std::fs::remove_file(rig.dir.join("a")).unwrap();
    assert!(rig.tick().is_none() && rig.tick().is_none() && !rig.is_busy());
    rig.write("a", "5");
    assert!(rig.tick().is_none() && rig.tick().is_none());
    assert_eq!(rig.settle(), Some(5));
}

#[test]
fn looks_are_as_far_apart_as_was_said() {
    let mut rig = Rig::new("apart", 5);
    rig.write("a", "9");
    rig.tick();
    for _ in 0..4 {
        assert!(rig.tick().is_none() && !rig.is_busy());
    }
    assert!(rig.tick().is_none() && rig.is_busy());
    assert_eq!(rig.settle(), Some(9));
}

#[test]
fn nobody_looks_who_is_not_asked_to() {
    let mut rig = Rig::new("never", 0);
    rig.write("a", "9");
    assert!(rig.tick().is_none() && rig.tick().is_none() && rig.reload.worker.is_none());
}

/// Under a policy of the NF's own, a real-time one above all, it would keep the NF from its core.
#[test]
fn whoever_reads_stands_back() {
    let nice = || chainline_sched::task::read(0).map(|task| task.nice).map_err(|e| Error::Library(e.to_string()));
    let before = nice().unwrap();
    let mut worker = Worker::new(nice).unwrap();
    worker.begin();
    let found = loop {
        if let Some(found) = worker.take() {
            break found;
        }
        std::thread::yield_now();
    };
    assert!(found.is_ok_and(|nice| nice >= 10) && !worker.is_busy());
    assert_eq!(nice().unwrap(), before, "whoever asks is left alone");
}
