//! The command `chainline`, run as a user runs it.

use crate::processes::{DEADLINE, until};
use crate::{Dir, scene};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{MutexGuard, OnceLock};

/// Whether the program is there and newer than all that it was made of, by the list that cargo keeps beside it. Then it
/// need not be built: alone it would be with other features than together with all tests, for minutes.
fn is_current(program: &Path) -> bool {
    let changed = |path: &Path| path.metadata().and_then(|m| m.modified()).ok();
    let (Some(built), Ok(list)) = (changed(program), std::fs::read_to_string(program.with_extension("d"))) else {
        return false;
    };
    let sources = list.split_once(": ").map_or("", |(_, sources)| sources).split_whitespace();
    sources.map(Path::new).all(|source| changed(source).is_some_and(|at| at <= built))
}

/// The program, built as this test was. `beside` is a program of this package.
fn program(beside: &str) -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let dir = Path::new(beside).parent().unwrap();
        let program = dir.join("chainline");
        if is_current(&program) {
            return program;
        }
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut build = Command::new(cargo);
        build.args(["build", "--quiet", "--package", "chainline", "--bin", "chainline", "--target-dir"]);
        build.arg(dir.parent().unwrap()).current_dir(env!("CARGO_MANIFEST_DIR"));
        if dir.ends_with("release") {
            build.arg("--release");
        }
        assert!(build.status().unwrap().success(), "{build:?}");
        program
    })
}

/// A directory for chain files; tests that look at the whole host take turns.
pub struct Desk {
    pub dir: Dir,
    program: &'static Path,
    _turn: MutexGuard<'static, ()>,
}

impl Desk {
    /// `beside` is the path of a program of this package.
    #[must_use]
    pub fn new(beside: &str) -> Self {
        let turn = scene::turn();
        Self { dir: Dir::new(), program: program(beside), _turn: turn }
    }

    /// Starts `chainline run` on a chain file with this `spec`, a YAML mapping indented by two.
    #[must_use]
    pub fn start(&self, name: &str, spec: &str, args: &[&str]) -> Running {
        self.start_with(name, spec, args, |_| {})
    }

    /// As [`Desk::start`], after `prepare` has changed the command: the user, say.
    #[must_use]
    pub fn start_with(&self, name: &str, spec: &str, args: &[&str], prepare: impl FnOnce(&mut Command)) -> Running {
        let head = format!("apiVersion: chainline/v1alpha1\nkind: ServiceChain\nmetadata: {{name: {name}}}\nspec:\n");
        let file = self.dir.write(&format!("{name}.yaml"), head + spec);
        let out = |end: &str| self.dir.join(&format!("{name}.{end}"));
        let mut command = Command::new(self.program);
        command.args(["run", "--quiet", "-o", "json"]).args(args).arg(file).stdin(Stdio::null());
        command.stdout(File::create(out("out")).unwrap()).stderr(File::create(out("err")).unwrap());
        prepare(&mut command);
        Running { child: command.spawn().unwrap(), out: out("out"), err: out("err") }
    }
}

/// A command that runs. Dropping it kills it.
pub struct Running {
    child: Child,
    out: PathBuf,
    err: PathBuf,
}

/// How it ended.
#[derive(Debug)]
pub struct Outcome {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

impl Outcome {
    /// The report on standard output.
    #[must_use]
    pub fn report(&self) -> Value {
        assert_eq!(self.status.code(), Some(0), "{}\n{}", self.stderr, self.stdout);
        let report: Value = serde_json::from_str(&self.stdout).unwrap_or_else(|e| panic!("{e}: {}", self.stdout));
        assert_eq!(report["ledger"]["balanced"], true, "{report:#}");
        report
    }
}

impl Running {
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    #[must_use]
    pub fn stderr(&self) -> String {
        std::fs::read_to_string(&self.err).unwrap()
    }

    /// Until its words contain these.
    pub fn until_says(&mut self, words: &str) {
        until(&format!("{words:?}"), || {
            let said = self.stderr().contains(words);
            let ended = self.child.try_wait().unwrap();
            assert!(said || ended.is_none(), "ended before it said {words:?}: {}", self.stderr());
            said
        });
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits for its end.
    #[must_use]
    pub fn end(mut self) -> Outcome {
        let mut status = None;
        until(&format!("the end of chainline, {DEADLINE:?}"), || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        let text = |path| std::fs::read_to_string(path).unwrap();
        Outcome { status: status.unwrap(), stdout: text(&self.out), stderr: text(&self.err) }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
