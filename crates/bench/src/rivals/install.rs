//! Installs Debian's packages, and lets none of them start a service: the bench starts daemons of its own.

use super::started::apt_line;
use std::io;
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

/// Asked by Debian's packages before they start a service; 101 is "no" (Debian's policy-rc.d specification).
const POLICY: &str = "/usr/sbin/policy-rc.d";
/// A service that would start with the host.
const OVS: (&str, &str) = ("openvswitch-switch", "/etc/systemd/system/openvswitch-switch.service");

/// Why packages were not installed.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// Only root can.
    #[error("only root can install: {0}")]
    NotRoot(String),
    /// A file, or `apt-get` itself.
    #[error("{what}: {source}")]
    Io {
        /// What.
        what: &'static str,
        /// The system's word.
        source: io::Error,
    },
    /// `apt-get` failed; its words are on standard error.
    #[error("apt-get failed: {0}")]
    Failed(String),
}

/// Removes the policy that was made for an installation.
struct NoServices(bool);

impl NoServices {
    fn new(policy: &Path) -> io::Result<Self> {
        let made = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o755).open(policy);
        match made {
            Ok(mut file) => io::Write::write_all(&mut file, b"#!/bin/sh\nexit 101\n").map(|()| Self(true)),
            // The administrator has one already, which knows better.
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(Self(false)),
            Err(e) => Err(e),
        }
    }
}

impl Drop for NoServices {
    fn drop(&mut self) {
        if self.0 {
            let _ = std::fs::remove_file(POLICY);
        }
    }
}

/// Installs packages with `apt-get`. Open vSwitch's service is masked, unless there is one already; who wants it says
/// `systemctl unmask openvswitch-switch`.
///
/// # Errors
/// Without root, or when `apt-get` fails.
pub fn install(packages: &[String]) -> Result<(), InstallError> {
    let line = apt_line(packages);
    if !rustix::process::geteuid().is_root() {
        return Err(InstallError::NotRoot(line));
    }
    let io = |what| move |source| InstallError::Io { what, source };
    let _policy = NoServices::new(Path::new(POLICY)).map_err(io(POLICY))?;
    let (package, unit) = OVS;
    if packages.iter().any(|p| p == package)
        && Path::new("/etc/systemd/system").is_dir()
        && Path::new(unit).symlink_metadata().is_err()
    {
        symlink("/dev/null", unit).map_err(io(unit))?;
    }
    let status = Command::new("apt-get")
        .args(["-q", "-y", "-o", "DPkg::Lock::Timeout=300", "--no-install-recommends", "install"])
        .args(packages)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .map_err(io("apt-get"))?;
    if status.success() { Ok(()) } else { Err(InstallError::Failed(line)) }
}
