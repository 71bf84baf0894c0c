//! An NF process: the real runtime, unless a script in the directory of this program says otherwise.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "all of this is test code")]

use life_tests::{liar, nfs, rude, script};
use rustix::process::{Resource, Rlimit, Signal, set_parent_process_death_signal, setrlimit};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    // As the real host: no orphans. And no core dump a death.
    set_parent_process_death_signal(Some(Signal::KILL)).unwrap();
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) }).unwrap();
    std::panic::set_hook(Box::new(|_| {}));
    let args: Vec<String> = std::env::args().collect();
    let [program, word, instance] = args.as_slice() else {
        eprintln!("expected: evil-host nf-host INSTANCE");
        return ExitCode::FAILURE;
    };
    assert_eq!(word, "nf-host");
    let script = Path::new(program).with_file_name(format!("{instance}.script"));
    let socket = std::io::stdin().as_fd().try_clone_to_owned().unwrap();
    let line = script::next_life(&script);
    let ended_well = match line.as_deref().map(script::word) {
        None => chainline_runtime::serve(socket, &nfs::build).is_ok(),
        Some((word, after)) if word.starts_with("lie-") => liar::serve(socket, word, after).is_ok(),
        Some((word, _)) => rude::serve(socket, word).is_ok(),
    };
    if ended_well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
