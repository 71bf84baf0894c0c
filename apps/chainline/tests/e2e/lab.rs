//! Network namespaces with real programs in them, removed with their values.

use crate::command::{DEADLINE, Running, unique};
use std::process::{Command, Output};
use std::time::Instant;

/// A network namespace. Its interfaces, and what stays of its processes' networking, go with it.
pub struct Namespace(String);

impl Namespace {
    /// `None`, with a word, where namespaces cannot be made.
    pub fn new() -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            println!("skipped: network namespaces need root");
            return None;
        }
        let name = format!("cl-e2e-{}", unique());
        let made = Command::new("ip").args(["netns", "add", &name]).output().unwrap();
        if !made.status.success() {
            println!("skipped: no network namespace: {}", String::from_utf8_lossy(&made.stderr).trim());
            return None;
        }
        let this = Self(name);
        this.run("ip link set lo up");
        Some(this)
    }

    pub fn name(&self) -> &str {
        &self.0
    }

    /// A program in this network.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.0, program]);
        command
    }

    /// `chainline run` in this network.
    pub fn chainline(&self) -> Command {
        let mut command = self.command(env!("CARGO_BIN_EXE_chainline"));
        command.args(["run", "--quiet", "-o", "json"]).env("XDG_RUNTIME_DIR", env!("CARGO_TARGET_TMPDIR"));
        command
    }

    /// Runs a command line, its words parted by single spaces.
    pub fn output(&self, line: &str) -> Output {
        let mut words = line.split(' ');
        self.command(words.next().unwrap()).args(words).output().unwrap()
    }

    /// Runs a command line that must succeed, and returns what it prints.
    pub fn run(&self, line: &str) -> String {
        let output = self.output(line);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "{line}: {}\n{out}{err}", output.status);
        out
    }

    /// Runs a command line again and again until it succeeds. Each try must wait for its answer.
    pub fn until(&self, line: &str) -> String {
        self.until_it_says(line, |_| true)
    }

    /// The same, until what it prints is good as well.
    pub fn until_it_says(&self, line: &str, good: impl Fn(&str) -> bool) -> String {
        let began = Instant::now();
        loop {
            let output = self.output(line);
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let (out, err) = (text(&output.stdout), text(&output.stderr));
            if output.status.success() && good(&out) {
                return out;
            }
            assert!(began.elapsed() < DEADLINE, "{line}: not within {DEADLINE:?}:\n{out}{err}");
            std::thread::yield_now();
        }
    }

    /// An interface of this network, up, without addresses of its own.
    pub fn bare(&self, interface: &str) {
        // The kernel is only to pass frames on: no router solicitations.
        self.run(&format!("sysctl -qw net.ipv6.conf.{interface}.disable_ipv6=1"));
        self.offloads_off(interface);
        self.run(&format!("ip link set {interface} up"));
    }

    /// Checksums are finished and frames as long as on a wire before they leave a veth: whoever reads them there sees
    /// what the kernel hands over.
    pub fn offloads_off(&self, interface: &str) {
        self.run(&format!("ethtool -K {interface} tx off tso off gso off gro off"));
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.0]).output();
    }
}

/// A network with its one host: where it is, and what it sends to.
pub struct Side {
    pub host: Namespace,
    pub v4: &'static str,
    pub v6: &'static str,
    pub mac: &'static str,
}

/// Two hosts, and between them a network with an interface to each, `cl-a` and `cl-b`, that nobody serves.
///
/// ```text
/// a: eth0 10.10.0.2 2001:db8:a::2 ─ cl-a  middle  cl-b ─ b: eth0 10.20.0.2 2001:db8:b::2
/// ```
pub struct Lab {
    pub a: Side,
    pub b: Side,
    pub middle: Namespace,
}

/// The routes of the middle.
pub const ROUTES: &str = r#"["10.10.0.0/16 via 02:00:00:00:0a:02 src 02:00:00:00:0a:01",
                   "10.20.0.0/16 via 02:00:00:00:0b:02 src 02:00:00:00:0b:01",
                   "2001:db8:a::/48 via 02:00:00:00:0a:02 src 02:00:00:00:0a:01",
                   "2001:db8:b::/48 via 02:00:00:00:0b:02 src 02:00:00:00:0b:01"]"#;

impl Lab {
    pub fn new(mtu: u16) -> Option<Self> {
        let middle = Namespace::new()?;
        let side = |letter: char, v4, v6, mac, gate: [&str; 3]| -> Option<Side> {
            let host = Namespace::new()?;
            let (port, name) = (format!("cl-{letter}"), host.name());
            middle.run(&format!(
                "ip link add {port} mtu {mtu} type veth peer name eth0 mtu {mtu} netns {name} address {mac}"
            ));
            middle.bare(&port);
            host.offloads_off("eth0");
            let [gate4, gate6, gate_mac] = gate;
            for line in [
                "sysctl -qw net.ipv6.conf.eth0.accept_dad=0 net.ipv6.conf.eth0.router_solicitations=0",
                &format!("ip addr add {v4}/24 dev eth0"),
                &format!("ip addr add {v6}/64 dev eth0 nodad"),
                "ip link set eth0 up",
                &format!("ip neigh add {gate4} lladdr {gate_mac} dev eth0 nud permanent"),
                &format!("ip neigh add {gate6} lladdr {gate_mac} dev eth0 nud permanent"),
                &format!("ip route add default via {gate4}"),
                &format!("ip -6 route add default via {gate6}"),
            ] {
                host.run(line);
            }
            Some(Side { host, v4, v6, mac })
        };
        // The gates' hardware addresses are those of no interface: whoever carries frames in the middle answers to them.
        let gate_a = ["10.10.0.1", "2001:db8:a::1", "02:00:00:00:0a:01"];
        let gate_b = ["10.20.0.1", "2001:db8:b::1", "02:00:00:00:0b:01"];
        let a = side('a', "10.10.0.2", "2001:db8:a::2", "02:00:00:00:0a:02", gate_a)?;
        let b = side('b', "10.20.0.2", "2001:db8:b::2", "02:00:00:00:0b:02", gate_b)?;
        Some(Self { a, b, middle })
    }
}

/// A program that serves until it is dropped.
pub fn serve(host: &Namespace, program: &str, args: &[&str]) -> Running {
    Running::start(host.command(program).args(args))
}
