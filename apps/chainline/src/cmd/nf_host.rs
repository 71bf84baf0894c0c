//! `chainline nf-host`: what the manager starts as an NF's process. Not for people.

use crate::exit::Exit;
use crate::kinds;
use rustix::process::{Signal, set_parent_process_death_signal};
use std::os::fd::AsFd;

/// Hosts an instance; standard input is the socket to the manager.
#[derive(Debug, clap::Args)]
pub struct NfHost {
    /// The instance's name, so that `ps` and `top` show it.
    instance: String,
}

impl NfHost {
    pub fn run(self) -> anyhow::Result<Exit> {
        // A manager that was killed leaves no orphans behind.
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // A panicking NF is one line for the operator; the manager restarts the instance.
        let instance = self.instance;
        std::panic::set_hook(Box::new(move |info| eprintln!("{instance}: {info}")));
        // Its ports are the manager's.
        chainline_dpdk::eal::tables_alone();
        let socket = std::io::stdin().as_fd().try_clone_to_owned()?;
        match chainline_runtime::serve(socket, &kinds::build) {
            Ok(()) => Ok(Exit::Ok),
            // The manager has been told, and says it.
            Err(_) => Ok(Exit::Failed),
        }
    }
}
