//! Where a dataplane is measured: two network namespaces, and between them two veth pairs, or a directory with memif
//! sockets. All of it carries its owner's process id and start time in its name, so that what a killed bench left is
//! found, and nothing else is touched.
//!
//! ```text
//! tester's namespace            dataplane's namespace
//!   generator ─ {t_in}  ══ veth ══  {in}  ─┐
//!                                         dataplane
//!   sink      ─ {t_out} ══ veth ══  {out} ─┘
//! ```

use super::adapter::PortKind;
use super::words::Values;
use crate::dataplane::DataplaneError;
use crate::process;
use rustix::process::{Pid, Signal, kill_process};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Hardware addresses: the generator's are those of every generated frame.
pub const GENERATOR_MAC: &str = "02:00:00:00:00:01";
/// The dataplane's port towards the generator.
pub const IN_MAC: &str = "02:00:00:00:00:02";
/// The dataplane's port towards the sink.
pub const OUT_MAC: &str = "02:00:00:00:00:03";
/// The sink.
pub const SINK_MAC: &str = "02:00:00:00:00:04";
/// Networks of the generator's addresses (RFC 2544 appendix C.2.2).
pub const SOURCES: &str = "198.18.0.0/16";
/// Where its frames go.
pub const DESTINATIONS: &str = "198.19.0.0/16";

/// What every namespace and directory of a lab begins with.
const PREFIX: &str = "chainline-bench-";
/// What a lab's namespaces end with: tester, dataplane, and what lies in the middle of two hosts.
const SUFFIXES: [char; 3] = ['t', 'd', 'm'];
/// Labs of this process so far.
static LABS: AtomicU32 = AtomicU32::new(0);

/// A lab. Dropping it ends every process in its namespaces and removes them.
#[derive(Debug)]
pub struct Lab {
    name: String,
    /// Short and unique on the host: threads of the kernel are named by it.
    tag: String,
    kind: PortKind,
    /// Nothing is between the tester's ports.
    direct: bool,
    dir: PathBuf,
}

impl Lab {
    /// Makes one, after removing what dead owners left.
    ///
    /// # Errors
    /// Without root or iproute2, or when the kernel refuses.
    pub fn new(kind: PortKind) -> Result<Self, DataplaneError> {
        Self::make(kind, false)
    }

    fn make(kind: PortKind, direct: bool) -> Result<Self, DataplaneError> {
        if !rustix::process::geteuid().is_root() {
            return Err(unavailable("the lab", "network namespaces need root"));
        }
        for (program, package) in
            [("ip", "iproute2"), ("taskset", "util-linux"), ("setpriv", "util-linux"), ("ethtool", "ethtool")]
        {
            if process::find(program).is_none() {
                return Err(unavailable("the lab", &format!("no program `{program}`; apt-get install {package}")));
            }
        }
        sweep();
        let (name, tag) = new_name()?;
        let dir = std::env::temp_dir().join(&name);
        // From here on dropping it removes whatever there is.
        let lab = Self { name, tag, kind, direct, dir };
        let mut builder = std::fs::DirBuilder::new();
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder
            .create(&lab.dir)
            .map_err(|source| DataplaneError::Io { what: lab.dir.display().to_string(), source })?;
        lab.wire()?;
        Ok(lab)
    }

    /// A lab with nothing between the tester's two ports: one veth pair, or one memif connection, for what the port
    /// itself costs.
    ///
    /// # Errors
    /// As [`Lab::new`].
    pub fn direct(kind: PortKind) -> Result<Self, DataplaneError> {
        Self::make(kind, true)
    }

    fn wire(&self) -> Result<(), DataplaneError> {
        let (t, d) = (self.tester(), self.dataplane());
        for ns in [&t, &d] {
            ip(&["netns", "add", ns])?;
            ip(&["-n", ns, "link", "set", "lo", "up"])?;
            // Nobody but the generator sends: no neighbour discovery, no router solicitations.
            sysctl(ns, &["net.ipv6.conf.all.disable_ipv6=1", "net.ipv6.conf.default.disable_ipv6=1"])?;
        }
        if !self.kind.has_interfaces() {
            return Ok(());
        }
        let [t_in, t_out] = self.tester_interfaces();
        let [d_in, d_out] = self.interfaces();
        let through = [(&t_in, GENERATOR_MAC, &d_in, IN_MAC, &d), (&t_out, SINK_MAC, &d_out, OUT_MAC, &d)];
        let straight = [(&t_in, GENERATOR_MAC, &t_out, IN_MAC, &t)];
        let pairs: &[_] = if self.direct { &straight } else { &through };
        for (ours, our_mac, theirs, their_mac, there) in pairs {
            ip(&[
                "-n", &t, "link", "add", ours, "address", our_mac, "type", "veth", "peer", "name", theirs, "address",
                their_mac, "netns", there,
            ])?;
            for (ns, interface) in [(&t, *ours), (*there, *theirs)] {
                // Frames are as long as on a wire, and their checksums are what the generator wrote. Without TSO on
                // the sender's side a veth's receiver may have NAPI of its own, see `threaded`.
                let off = ["tx", "off", "tso", "off", "gso", "off", "gro", "off"];
                run(self.inside(ns).arg("ethtool").args(["-K", interface]).args(off))?;
                ip(&["-n", ns, "link", "set", interface, "up"])?;
            }
        }
        Ok(())
    }

    /// Gives the dataplane's receiving side a thread of the kernel (threaded NAPI), pinned to `core`, so that what the
    /// kernel does with a frame is done there and not on the sender's core. Its process id.
    ///
    /// # Errors
    /// Where the kernel cannot (before Linux 5.13).
    pub fn threaded(&self, core: usize) -> Result<u32, DataplaneError> {
        let [d_in, _] = self.interfaces();
        // A veth has NAPI only with GRO or XDP.
        run(self.inside(&self.dataplane()).args(["ethtool", "-K", &d_in, "gro", "on"]))?;
        let line = format!("echo 1 > /sys/class/net/{d_in}/threaded");
        run(self.inside(&self.dataplane()).args(["sh", "-c", &line]))?;
        let name = format!("napi/{d_in}-");
        let began = Instant::now();
        let thread = loop {
            let mut all = procfs::process::all_processes().into_iter().flatten().flatten();
            // Older kernels cut names of threads at 15 bytes.
            let named = |comm: &str| comm.starts_with(&name) || (comm.len() == 15 && name.starts_with(comm));
            let found = all.find_map(|p| p.stat().ok().filter(|s| s.ppid == 2 && named(&s.comm)).map(|_| p.pid));
            match found {
                Some(pid) => break pid,
                None if began.elapsed() > Duration::from_secs(2) => {
                    return Err(failed(&format!("the kernel made no thread {name}* for threaded NAPI")));
                }
                None => std::thread::sleep(Duration::from_millis(10)),
            }
        };
        run(Command::new("taskset").args(["-p", "-c", &core.to_string(), &thread.to_string()]))?;
        Ok(thread.unsigned_abs())
    }

    /// The tester's namespace.
    #[must_use]
    pub fn tester(&self) -> String {
        format!("{}t", self.name)
    }

    /// The dataplane's namespace.
    #[must_use]
    pub fn dataplane(&self) -> String {
        format!("{}d", self.name)
    }

    /// A directory for sockets, files and logs.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// What lies between tester and dataplane.
    #[must_use]
    pub fn kind(&self) -> PortKind {
        self.kind
    }

    /// The dataplane's interfaces, towards generator and sink.
    #[must_use]
    pub fn interfaces(&self) -> [String; 2] {
        [format!("i{}", self.tag), format!("o{}", self.tag)]
    }

    /// The tester's interfaces, from the generator and to the sink.
    #[must_use]
    pub fn tester_interfaces(&self) -> [String; 2] {
        [format!("g{}", self.tag), format!("s{}", self.tag)]
    }

    /// A command in one of the namespaces.
    #[must_use]
    pub fn inside(&self, namespace: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", namespace]);
        command
    }

    /// What the placeholders of adapter files stand for here.
    #[must_use]
    pub fn values(&self, core: usize, chainline: &Path) -> Values {
        let mut values = Values::default();
        let sockets = ["in", "out"].map(|n| self.dir.join(format!("{n}.sock")).display().to_string());
        let names = if self.kind.has_interfaces() { self.interfaces() } else { sockets };
        for (i, (name, devargs, port)) in
            [("in", "in_devargs", "in_port"), ("out", "out_devargs", "out_port")].into_iter().enumerate()
        {
            let place = &names[i];
            values.set(name, place.as_str());
            values.set(
                devargs,
                match self.kind {
                    PortKind::Veth => format!("net_af_packet{i},iface={place}"),
                    PortKind::AfXdp => format!("net_af_xdp{i},iface={place}"),
                    PortKind::Memif => format!("net_memif{i},role=server,id=0,socket={place},socket-abstract=no"),
                },
            );
            values.set(port, port_json(self.kind, place, "server").to_string());
        }
        for (name, value) in [
            ("in_mac", IN_MAC),
            ("out_mac", OUT_MAC),
            ("generator_mac", GENERATOR_MAC),
            ("sink_mac", SINK_MAC),
            ("sources", SOURCES),
            ("destinations", DESTINATIONS),
        ] {
            values.set(name, value);
        }
        values.set("core", core.to_string());
        values.set("core_mask", format!("{:#x}", 1_u128.checked_shl(u32::try_from(core).unwrap_or(128)).unwrap_or(0)));
        values.set("dir", self.dir.display().to_string());
        values.set("chainline", chainline.display().to_string());
        values
    }

    /// The tester's two ports as a chain file takes them: out to the dataplane, and back from it.
    #[must_use]
    pub fn tester_ports(&self) -> [serde_json::Value; 2] {
        match self.kind {
            PortKind::Memif if self.direct => {
                // The server first: it makes the socket. DPDK keeps one record for each way to write a socket's path,
                // so the two ends in one process need two.
                let dir = self.dir.display();
                [("server", format!("{dir}/loop.sock")), ("client", format!("{dir}/./loop.sock"))]
                    .map(|(role, socket)| port_json(self.kind, &socket, role))
            }
            PortKind::Memif => ["in", "out"]
                .map(|n| port_json(self.kind, &self.dir.join(format!("{n}.sock")).display().to_string(), "client")),
            _ => self.tester_interfaces().map(|i| port_json(self.kind, &i, "")),
        }
    }
}

/// A name that tells its owner, and a short one for interfaces.
pub(crate) fn new_name() -> Result<(String, String), DataplaneError> {
    let me = std::process::id();
    let began = started(me).ok_or_else(|| failed("cannot read /proc/self/stat"))?;
    let n = LABS.fetch_add(1, Ordering::Relaxed);
    Ok((format!("{PREFIX}{me}-{began}-{n}"), format!("{}{}", base36(me), base36(n % 1296))))
}

/// A port as a chain file takes it: `place` is an interface, or the path of a socket.
pub(crate) fn port_json(kind: PortKind, place: &str, role: &str) -> serde_json::Value {
    match kind {
        PortKind::Veth => serde_json::json!({"af_packet": {"interface": place}}),
        PortKind::AfXdp => serde_json::json!({"af_xdp": {"interface": place}}),
        PortKind::Memif => serde_json::json!({"memif": {"socket": place, "role": role}}),
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        clear(&self.name, &self.dir);
    }
}

/// Ends every process in a lab's namespaces, and removes these and the directory.
pub(crate) fn clear(name: &str, dir: &Path) {
    for ns in SUFFIXES.map(|suffix| format!("{name}{suffix}")) {
        if !Path::new("/run/netns").join(&ns).exists() {
            continue;
        }
        for signal in [Signal::TERM, Signal::KILL] {
            let mut left = inhabitants(&ns);
            let began = Instant::now();
            for pid in &left {
                let _ = kill_process(*pid, signal);
            }
            while !left.is_empty() && began.elapsed() < Duration::from_secs(2) {
                std::thread::sleep(Duration::from_millis(10));
                left = inhabitants(&ns);
            }
        }
        // A namespace's interfaces go some time after its name; these are to go now. Their peers go with them.
        let listed = Command::new("ip").args(["-n", &ns, "-j", "link", "show", "type", "veth"]).output();
        let listed = listed.ok().and_then(|o| serde_json::from_slice::<serde_json::Value>(&o.stdout).ok());
        for link in listed.iter().filter_map(|l| l.as_array()).flatten() {
            if let Some(interface) = link["ifname"].as_str() {
                let _ = ip(&["-n", &ns, "link", "del", interface]);
            }
        }
        let _ = ip(&["netns", "del", &ns]);
    }
    let _ = std::fs::remove_dir_all(dir);
}

fn inhabitants(ns: &str) -> Vec<Pid> {
    let out = Command::new("ip").args(["netns", "pids", ns]).output();
    let out = out.map(|o| String::from_utf8_lossy(&o.stdout).into_owned()).unwrap_or_default();
    out.lines().filter_map(|l| l.trim().parse().ok().and_then(Pid::from_raw)).collect()
}

/// Removes the labs of owners that are dead. How many there were.
pub fn sweep() -> usize {
    let names = |dir: &Path| -> Vec<String> {
        let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
        entries.filter_map(|e| e.file_name().into_string().ok()).collect()
    };
    let temp = std::env::temp_dir();
    let mut labs: Vec<String> = names(Path::new("/run/netns"))
        .into_iter()
        .filter_map(|n| n.strip_suffix(SUFFIXES).map(str::to_owned))
        .collect();
    labs.extend(names(&temp));
    labs.retain(|name| owner(name).is_some_and(|(pid, began)| started(pid) != Some(began)));
    labs.sort_unstable();
    labs.dedup();
    for name in &labs {
        clear(name, &temp.join(name));
    }
    labs.len()
}

/// Process id and start time of a lab's owner, from its name.
fn owner(name: &str) -> Option<(u32, u64)> {
    let mut parts = name.strip_prefix(PREFIX)?.split('-');
    let owner = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    parts.next()?.parse::<u32>().ok()?;
    parts.next().is_none().then_some(owner)
}

/// When a process was started, in ticks since the host was; `None` if there is no such process.
fn started(pid: u32) -> Option<u64> {
    let stat = procfs::process::Process::new(i32::try_from(pid).ok()?).and_then(|p| p.stat()).ok()?;
    // What has ended and waits for its parent owns nothing any more.
    (stat.state != 'Z').then_some(stat.starttime)
}

fn base36(mut n: u32) -> String {
    let mut digits = Vec::new();
    loop {
        digits.push(char::from_digit(n % 36, 36).unwrap_or('0'));
        n /= 36;
        if n == 0 {
            return digits.into_iter().rev().collect();
        }
    }
}

pub(crate) fn unavailable(what: &str, why: &str) -> DataplaneError {
    DataplaneError::Unavailable { what: what.into(), why: why.into() }
}

pub(crate) fn failed(why: &str) -> DataplaneError {
    DataplaneError::Failed { what: "the lab".into(), why: why.into() }
}

pub(crate) fn ip(words: &[&str]) -> Result<(), DataplaneError> {
    run(Command::new("ip").args(words))
}

pub(crate) fn sysctl(ns: &str, words: &[&str]) -> Result<(), DataplaneError> {
    run(Command::new("ip").args(["netns", "exec", ns, "sysctl", "-q", "-w"]).args(words))
}

pub(crate) fn run(command: &mut Command) -> Result<(), DataplaneError> {
    let line = process::line(command);
    let out = command
        .stdin(std::process::Stdio::null())
        .output()
        .map_err(|source| DataplaneError::Io { what: line.clone(), source })?;
    if out.status.success() {
        return Ok(());
    }
    Err(failed(&format!("`{line}`: {}: {}", out.status, String::from_utf8_lossy(&out.stderr).trim())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_their_owner() {
        assert_eq!(owner("chainline-bench-12-345-0"), Some((12, 345)));
        for other in
            ["chainline-bench-", "chainline-bench-12-345", "chainline-bench-12-345-0-1", "x", "chainline-bench-a-1-0"]
        {
            assert_eq!(owner(other), None, "{other}");
        }
        assert_eq!(started(u32::MAX), None);
        assert!(started(std::process::id()).is_some());
        // The longest process id, and the last lab before the count begins anew.
        assert!(format!("napi/i{}{}", base36(4_194_304), base36(1295)).len() <= 15);
    }
}
