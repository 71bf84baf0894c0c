//! Instances that do not keep to the protocol.

use chainline_nf::Declared;
use chainline_runtime::setup::{Built, FromInstance, Last, Setup, Start};
use chainline_runtime::wire::{self, WireError};
use rustix::net::{SendFlags, Shutdown, send, shutdown};
use std::os::fd::OwnedFd;

/// Behaves as `word` says until the manager ends it.
///
/// # Errors
/// When the manager is gone.
pub fn serve(socket: OwnedFd, word: &str) -> Result<(), WireError> {
    let ready = |n: usize| FromInstance::Built(Built::Ready(vec![Declared::default(); n]));
    match word {
        // Dies before its first word.
        "dies-building" => {
            wire::recv::<Setup>(&socket)?;
            std::process::exit(3);
        }
        // Never answers; lives on until it is killed.
        "mute" => {
            wire::recv::<Setup>(&socket)?;
            loop {
                std::thread::park();
            }
        }
        "could-not-be-built" => {
            wire::recv::<Setup>(&socket)?;
            wire::send(&socket, &FromInstance::Built(Built::Failed("no table today".into())), &[])?;
        }
        // Closes its only connection and lives on.
        "closes" => {
            wire::recv::<Setup>(&socket)?;
            // Standard input is a second handle of the socket: closing one would not do.
            shutdown(&socket, Shutdown::Both).map_err(WireError::from)?;
            loop {
                std::thread::park();
            }
        }
        "garbage" => {
            wire::recv::<Setup>(&socket)?;
            send(&socket, b"\xff\xff\xff\xff", SendFlags::NOSIGNAL).map_err(WireError::from)?;
        }
        "no-json" => {
            wire::recv::<Setup>(&socket)?;
            wire::send(&socket, &"what?", &[])?;
        }
        "begins-with-running" => {
            wire::recv::<Setup>(&socket)?;
            wire::send(&socket, &FromInstance::Running { tid: 1 }, &[])?;
        }
        // Built, built again.
        "builds-twice" => {
            let (setup, _) = wire::recv::<Setup>(&socket)?;
            wire::send(&socket, &ready(setup.nfs.len()), &[])?;
            wire::send(&socket, &ready(setup.nfs.len()), &[])?;
        }
        // Declares for other NFs than it has.
        "declares-none" => {
            wire::recv::<Setup>(&socket)?;
            wire::send(&socket, &ready(0), &[])?;
            wire::recv::<Start>(&socket)?;
            wire::send(&socket, &FromInstance::Running { tid: 1 }, &[])?;
        }
        "declares-many" => {
            wire::recv::<Setup>(&socket)?;
            wire::send(&socket, &ready(1000), &[])?;
            wire::recv::<Start>(&socket)?;
            wire::send(&socket, &FromInstance::Running { tid: 1 }, &[])?;
        }
        // Says that it ended as told, though nobody told it.
        "ends-untold" => {
            let (setup, _) = wire::recv::<Setup>(&socket)?;
            wire::send(&socket, &ready(setup.nfs.len()), &[])?;
            wire::recv::<Start>(&socket)?;
            let tid = rustix::thread::gettid().as_raw_nonzero().get();
            wire::send(&socket, &FromInstance::Running { tid }, &[])?;
            wire::send(
                &socket,
                &FromInstance::Last(Last::Ended { reports: vec![Some("done".into()); 100], storage: vec![None; 100] }),
                &[],
            )?;
            return Ok(());
        }
        other => panic!("no such manners: {other}"),
    }
    // Whatever was said, what comes next is up to the manager.
    while wire::recv::<serde_json::Value>(&socket).is_ok() {}
    Ok(())
}
