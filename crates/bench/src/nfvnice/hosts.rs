//! Two hosts of one network, and between them a namespace with an interface to each, where a chain runs.
//!
//! ```text
//! client 198.18.0.1 ══ veth ══ {c}  middle  {s} ══ veth ══ server 198.18.0.2
//! ```

use crate::dataplane::DataplaneError;
use crate::process;
use crate::rivals::lab::{clear, ip, new_name, run, sweep, sysctl, unavailable};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The client's address (RFC 2544 appendix C.2.2).
const CLIENT: (&str, &str) = ("198.18.0.1", "02:00:00:00:00:01");
/// The server's.
pub(super) const SERVER: (&str, &str) = ("198.18.0.2", "02:00:00:00:00:02");

/// They. Dropping it ends every process in the namespaces and removes them.
#[derive(Debug)]
pub(super) struct Hosts {
    name: String,
    tag: String,
    dir: PathBuf,
}

impl Hosts {
    /// Makes them, after removing what dead owners left.
    pub(super) fn new(programs: &[(&str, &str)]) -> Result<Self, DataplaneError> {
        if !rustix::process::geteuid().is_root() {
            return Err(unavailable("two hosts", "network namespaces need root"));
        }
        let needed = [("ip", "iproute2"), ("setpriv", "util-linux"), ("taskset", "util-linux"), ("ethtool", "ethtool")];
        for (program, package) in needed.iter().chain(programs) {
            if process::find(program).is_none() {
                let why = format!("no program `{program}`; apt-get install --no-install-recommends {package}");
                return Err(unavailable("two hosts", &why));
            }
        }
        sweep();
        let (name, tag) = new_name()?;
        let dir = std::env::temp_dir().join(&name);
        // From here on dropping it removes whatever there is.
        let hosts = Self { name, tag, dir };
        let mut builder = std::fs::DirBuilder::new();
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder
            .create(&hosts.dir)
            .map_err(|source| DataplaneError::Io { what: hosts.dir.display().to_string(), source })?;
        hosts.wire()?;
        Ok(hosts)
    }

    fn wire(&self) -> Result<(), DataplaneError> {
        for ns in [self.client(), self.server(), self.middle()] {
            ip(&["netns", "add", &ns])?;
            ip(&["-n", &ns, "link", "set", "lo", "up"])?;
            // Nobody but the programs sends.
            sysctl(&ns, &["net.ipv6.conf.all.disable_ipv6=1", "net.ipv6.conf.default.disable_ipv6=1"])?;
        }
        let [to_client, to_server] = self.interfaces();
        let middle = self.middle();
        for (ns, own, other, theirs) in
            [(self.client(), CLIENT, SERVER, &to_client), (self.server(), SERVER, CLIENT, &to_server)]
        {
            ip(&[
                "-n", &ns, "link", "add", "eth0", "address", own.1, "type", "veth", "peer", "name", theirs, "netns",
                &middle,
            ])?;
            for (ns, interface) in [(&ns, "eth0"), (&middle, theirs.as_str())] {
                // Frames as long as on a wire, with checksums in them.
                let off = ["-K", interface, "tx", "off", "tso", "off", "gso", "off", "gro", "off"];
                run(inside(ns, "ethtool").args(off))?;
                ip(&["-n", ns, "link", "set", interface, "up"])?;
            }
            ip(&["-n", &ns, "addr", "add", &format!("{}/24", own.0), "dev", "eth0"])?;
            ip(&["-n", &ns, "neigh", "add", other.0, "lladdr", other.1, "dev", "eth0", "nud", "permanent"])?;
        }
        Ok(())
    }

    pub(super) fn client(&self) -> String {
        format!("{}t", self.name)
    }

    pub(super) fn server(&self) -> String {
        format!("{}d", self.name)
    }

    pub(super) fn middle(&self) -> String {
        format!("{}m", self.name)
    }

    /// The middle's, towards the client and towards the server.
    pub(super) fn interfaces(&self) -> [String; 2] {
        [format!("c{}", self.tag), format!("s{}", self.tag)]
    }

    /// A directory for files.
    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }
}

/// A program in a namespace.
pub(super) fn inside(namespace: &str, program: &str) -> Command {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", namespace, program]);
    command
}

impl Drop for Hosts {
    fn drop(&mut self) {
        clear(&self.name, &self.dir);
    }
}
