//! What the command's exit code says.

use std::process::ExitCode;

/// How the command ended. Listed in `--help`; scripts rely on the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// All went well.
    Ok,
    /// The work could not be done: the host, a device or an NF failed.
    Failed,
    /// The command line or the chain file is wrong. clap uses the same number.
    Usage,
    /// `bench diff --fail-on-worse`: something got worse.
    Worse,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Ok => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::Worse => 3,
        })
    }
}

/// A complaint about the command line or an input file, as opposed to a failure of the host.
#[derive(Debug)]
pub struct WrongInput(pub String);

impl std::fmt::Display for WrongInput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for WrongInput {}
