//! Golden tests: packets in, and the verdicts, bytes, counters and report that must come out, in one text file.
//!
//! ```text
//! # Swaps the addresses of every frame.
//! args: {}
//! in:  eth(02::1, 02::2)/ipv4(10.0.0.1, 10.0.0.2, ttl=3)/udp(53, 1024)/pad(20)
//! out: next = eth(02::2, 02::1)/ipv4(10.0.0.1, 10.0.0.2, ttl=3)/udp(53, 1024)/pad(20)
//! in:  020000000002 020000000001 0800 | 45 00     # hex always works
//! out: drop truncated
//! counters: {forwarded: 1}
//! ```
//!
//! Each case runs twice, packet by packet and in bursts as long as the file lets them be: the outcome must be
//! the same. Run the tests with `UPDATE=1` to write what was seen into the file: an `in` alone is enough to
//! start with. A line that starts with a blank continues the one before; `#` after a blank starts a comment.
//!
//! | line | meaning |
//! |---|---|
//! | `case: NAME` | a new NF; what stands before the first case holds for all of them |
//! | `args: …` | as in the chain file (YAML); relative paths are from the golden file's directory |
//! | `targets: [scrub]` | the NF's `divert` list |
//! | `places: 16` | how many packets the host holds at most (64 unless set) |
//! | `burst: false` | packet by packet only; say in a comment why the outcome depends on the burst |
//! | `now: 10ms` | the time from here on (starts at 0) |
//! | `meta: chain=1 hop=2 hash=0x1f` | chain, hop and flow hash of the packets from here on (0 unless set) |
//! | `in: FRAME` | a packet |
//! | `out: next` | its verdict: `next`, `drop REASON`, `divert TARGET` or `hold ID`; then `= FRAME` if the frame must have changed, `= same` or nothing if it must not |
//! | `released: ID next = FRAME` | a held packet that the NF let go in this call; below the `in` or `tick` |
//! | `tick` | the NF's tick |
//! | `counters: {a: 1}` | all counters at this point; the others must be 0 |
//! | `held: 2` | packets held at this point |
//! | `report: …` | the report at the end; several lines are indented below |
//! | `error: …` | the arguments must be refused with this message |
//!
//! A FRAME is hex (`pad 26` is 26 zero bytes) or layers: `eth(dst, src)`, `vlan(id)`, `qinq(id)`,
//! `arp(request|reply, sha, spa, tha, tpa)`, `ipv4(src, dst)`, `ipv6(src, dst)`, `hopopts`, `dstopts`, `routing`,
//! `frag(off, more, id)`, `udp(src, dst)`, `tcp(src, dst)`, `icmp(type, code)`, `icmp6(type, code)`, then
//! `hex(…)`, `text("…")`, `pad(n)`; at the end `tail(n)` (Ethernet padding behind the IP packet) and `cut(n)`
//! (the first n bytes only). Everything else is named (`ttl=1`, `df=1`, `flags=SA`) and an unknown name is told.
//! Files are kept in memory, and begin empty; what is asked of them is done before the next `in` or `tick`.
//!
//! Lengths and checksums are right unless written out (`csum=0`, `len=9`).

mod compare;
mod describe;
mod frame;
mod host;
mod layers;
mod script;
mod storage;

use crate::{Env, Error, Kind, NfObject};
use host::Setup;
use script::{Item, What};
use std::path::{Path, PathBuf};

/// What can be tested: a [`Kind`], or an NF in a shared object.
pub trait Subject {
    /// Builds the NF.
    ///
    /// # Errors
    /// As [`crate::Nf::new`].
    fn build(&self, args: serde_json::Value, env: &mut Env<'_>) -> Result<Box<dyn NfObject>, Error>;
}

impl Subject for Kind {
    fn build(&self, args: serde_json::Value, env: &mut Env<'_>) -> Result<Box<dyn NfObject>, Error> {
        (self.build)(args, env)
    }
}

/// Why a golden file did not pass.
#[derive(Debug, thiserror::Error)]
pub enum GoldenError {
    /// The file could not be read, or with `UPDATE=1` not written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's word.
        source: std::io::Error,
    },
    /// The file says something that nobody understands.
    #[error("{}:{line}: {message}", path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// What was found and what was expected.
        message: String,
    },
    /// The NF did something else.
    #[error("{0}")]
    Mismatch(String),
}

/// What was checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    /// Cases.
    pub cases: usize,
    /// Packets in.
    pub packets: usize,
    /// Whether the file was rewritten.
    pub updated: bool,
}

/// Checks one file; with `update` writes what was seen into it instead.
///
/// # Errors
/// [`GoldenError`], with everything that differs.
pub fn check(subject: &dyn Subject, file: &Path, update: bool) -> Result<Passed, GoldenError> {
    let io = |source| GoldenError::File { path: file.to_owned(), source };
    let text = std::fs::read_to_string(file).map_err(io)?;
    let items = script::parse(file, &text)?;
    let dir = file.parent().filter(|d| !d.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let starts: Vec<usize> =
        items.iter().enumerate().filter(|(_, i)| matches!(i.what, What::Case(_))).map(|(i, _)| i).collect();
    let head = starts.first().map_or(items.len(), |s| *s);
    let usual = Setup { args: serde_json::json!({}), targets: Vec::new(), places: 64, burst: true };
    let shared = setup(&usual, &items[..head]);
    let mut passed = Passed::default();
    let (mut rewritten, mut messages) = (String::new(), Vec::new());
    let mut cases: Vec<(Setup, &[Item])> = Vec::new();
    if starts.is_empty() {
        cases.push((shared, &items));
    } else {
        if let Some(stray) = items[..head].iter().find(|i| matches!(i.what, What::In(_) | What::Tick)) {
            let message = "packets before the first `case:`".into();
            return Err(GoldenError::Parse { path: file.to_owned(), line: stray.line, message });
        }
        rewritten.extend(items[..head].iter().map(|i| i.raw.as_str()));
        for (n, start) in starts.iter().enumerate() {
            let case = &items[*start..starts.get(n + 1).map_or(items.len(), |s| *s)];
            cases.push((setup(&shared, case), case));
        }
    }
    for (setup, case) in cases {
        let single = host::play(subject, dir, &setup, case, false);
        passed.cases += 1;
        passed.packets += single.outs.len();
        let name = match &case.first().map(|i| &i.what) {
            Some(What::Case(name)) => format!(" in case '{name}'"),
            _ => String::new(),
        };
        let mut tell = |problems: Vec<compare::Problem>, how: &str| {
            for p in problems {
                messages
                    .push(format!("{}:{}: {}{}{}", file.display(), p.line, first(&p.text), name, how) + rest(&p.text));
            }
            messages.len()
        };
        if update {
            tell(compare::faults(case, &single), "");
            rewritten += &compare::rewrite(case, &single);
        } else if tell(compare::problems(case, &single), "") == 0 && setup.burst {
            // Told only if the packets one by one were right: else everything would be told twice.
            tell(compare::problems(case, &host::play(subject, dir, &setup, case, true)), ", as one burst");
        }
    }
    if update && messages.is_empty() && rewritten != text {
        std::fs::write(file, &rewritten).map_err(io)?;
        passed.updated = true;
    }
    if messages.is_empty() { Ok(passed) } else { Err(GoldenError::Mismatch(messages.join("\n"))) }
}

fn first(text: &str) -> &str {
    text.split('\n').next().unwrap_or_default()
}

fn rest(text: &str) -> &str {
    &text[first(text).len()..]
}

fn setup(usual: &Setup, items: &[Item]) -> Setup {
    let mut setup = usual.clone();
    for item in items {
        match &item.what {
            What::Args(args) => setup.args = args.clone(),
            What::Targets(targets) => setup.targets = targets.clone(),
            What::Places(n) => setup.places = (*n).min(1 << 20),
            What::Burst(b) => setup.burst = *b,
            _ => {}
        }
    }
    setup
}

/// For tests: checks one file.
///
/// # Panics
/// With everything that differs; run with `UPDATE=1` in the environment it writes what was seen instead.
pub fn run(subject: &dyn Subject, file: impl AsRef<Path>) {
    let update = std::env::var_os("UPDATE").is_some_and(|v| v == "1");
    if let Err(e) = check(subject, file.as_ref(), update) {
        panic!("\n{e}\n(UPDATE=1 writes what was seen into the file)");
    }
}

/// For tests: checks every `*.golden` in a directory, which in a test may be relative to the package.
///
/// # Panics
/// As [`run`], and if there is no such file.
pub fn run_dir(subject: &dyn Subject, dir: impl AsRef<Path>) {
    let dir = dir.as_ref();
    let entries = std::fs::read_dir(dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
    let mut files: Vec<PathBuf> =
        entries.flatten().map(|e| e.path()).filter(|p| p.extension().is_some_and(|x| x == "golden")).collect();
    files.sort();
    assert!(!files.is_empty(), "no *.golden in {}", dir.display());
    for file in files {
        run(subject, file);
    }
}
