//! `chainline`: runs service chains of network functions.

mod args;
mod cli;
mod cmd;
mod exit;
mod input;
mod kinds;
mod output;
mod replicas;
mod report;
mod ui;

fn main() -> std::process::ExitCode {
    cli::main()
}
