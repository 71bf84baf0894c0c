//! Exchanges of packets through something that translates, in words.

use crate::support::{Host, ipv4, l4};
use chainline_packet::{Fragment, checksum, icmp, parse};
use serde_json::json;
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

type End = (u32, u16);

/// Hosts 0 to 9 inside and outside, and the external address.
const INSIDE: u32 = 0x0a01_000a;
const OUTSIDE: u32 = 0x0a02_000a;
const EXTERNAL: u32 = 0xc633_6401;

/// Something that translates.
pub trait Nat {
    /// The IP packet that comes out on the other side of a frame from side a or b, if one does.
    fn ask(&mut self, side: char, frame: &[u8]) -> Option<Vec<u8>>;
}

/// nftables' source NAT.
pub struct Kernel {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Kernel {
    /// `None` where it cannot be asked.
    pub fn new() -> Option<Self> {
        let runs =
            |program: &str, args: &[&str]| Command::new(program).args(args).output().is_ok_and(|o| o.status.success());
        if !runs(
            "unshare",
            &["-n", "nft", "add table ip x; add chain ip x y { type nat hook postrouting priority 100; }"],
        ) || !runs("python3", &["-c", "0"])
        {
            return None;
        }
        let mut child = Command::new("unshare")
            .args(["-n", "python3", concat!(env!("CARGO_MANIFEST_DIR"), "/tests/conntrack/router.py")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (stdin, stdout) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        Some(Self { child, stdin, stdout })
    }

    /// Says a line, and returns the answer.
    fn say(&mut self, line: &str) -> String {
        writeln!(self.stdin.as_mut().unwrap(), "{line}").unwrap();
        let mut answer = String::new();
        self.stdout.read_line(&mut answer).unwrap();
        assert!(!answer.is_empty(), "router.py ended");
        answer.trim_end().to_owned()
    }

    /// Sets a time-out of connection tracking, such as `udp_timeout`, for the packets that follow.
    pub fn set_timeout(&mut self, name: &str, seconds: u32) {
        assert_eq!(self.say(&format!("set {name} {seconds}")), "done");
    }
}

impl Nat for Kernel {
    fn ask(&mut self, side: char, frame: &[u8]) -> Option<Vec<u8>> {
        let hex: String = frame.iter().map(|b| format!("{b:02x}")).collect();
        let line = self.say(&format!("{side} {hex}"));
        let byte = |i: usize| u8::from_str_radix(&line[i..i + 2], 16).unwrap();
        (line != "dropped").then(|| (0..line.len()).step_by(2).map(byte).collect())
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        self.stdin = None;
        let _ = self.child.wait();
    }
}

/// This NF, and its time in nanoseconds.
pub struct Ours {
    host: Host,
    now_ns: u64,
}

impl Ours {
    pub fn new(more: serde_json::Value) -> Self {
        let mut args = json!({"inside": ["10.1.0.0/16"], "pool": ["198.51.100.1"], "inside_chains": [0]});
        args.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        Self { host: Host::new(&nf_nat::KIND, args), now_ns: 0 }
    }
}

impl Ours {
    /// Lets so many seconds pass.
    pub fn wait(&mut self, seconds: u32) {
        for _ in 0..seconds * 10 {
            self.now_ns += 100_000_000;
            self.host.tick(self.now_ns);
        }
    }
}

impl Nat for Ours {
    fn ask(&mut self, side: char, frame: &[u8]) -> Option<Vec<u8>> {
        self.host.chain = u16::from(side == 'b');
        let mut frames = [frame.to_vec()];
        (self.host.play(self.now_ns, &mut frames) == ["next"]).then(|| frames[0][14..].to_vec())
    }
}

/// An exchange: what each side knows of it so far.
pub struct Exchange {
    /// The ports of hosts inside, and their identifiers, begin here, so that exchanges do not meet.
    base: u16,
    /// External ports of flows, by protocol, inside and remote endpoint.
    external: HashMap<(u8, End, End), u16>,
    /// What came out last of a flow, on either side.
    out: HashMap<(char, u8, End, End), Vec<u8>>,
    /// External ports in the order in which they were seen: what they are called.
    names: Vec<u16>,
}

fn number(kind: &str) -> u8 {
    match kind.trim_end_matches(['!', '0']) {
        "udp" => 17,
        "tcp" => 6,
        "gre" => 47,
        _ => 1,
    }
}

impl Exchange {
    /// Whose ports inside begin at `base`.
    pub fn new(base: u16) -> Self {
        Self { base, external: HashMap::new(), out: HashMap::new(), names: Vec::new() }
    }

    /// `1:2`: host 1, port 2.
    fn end(&self, net: u32, text: &str) -> End {
        let (host, port) = text.split_once(':').unwrap();
        let base = if net == INSIDE { self.base } else { 0 };
        (net + host.parse::<u32>().unwrap(), base + port.parse::<u16>().unwrap())
    }

    /// The external endpoint of a flow; of one that never went out, what it would be if ports were kept.
    fn external(&self, proto: u8, inside: End, remote: End) -> End {
        (EXTERNAL, self.external.get(&(proto, inside, remote)).copied().unwrap_or(inside.1))
    }

    /// Makes a step, and says what came out.
    ///
    /// `o KIND INSIDE REMOTE` goes out, `i KIND REMOTE INSIDE [via REMOTE]` comes to the external endpoint of a flow (to
    /// that remote), `d …` straight to the host inside, `h KIND INSIDE INSIDE REMOTE` from inside to the external endpoint
    /// of another's flow; `ie TYPE/CODE HOST KIND INSIDE REMOTE` is an ICMP error from outside about what went out, `oe …`
    /// one from inside about what came in.
    pub fn step(&mut self, nat: &mut dyn Nat, step: &str) -> String {
        let words: Vec<&str> = step.split(' ').collect();
        let error = |text: &str| text.split_once('/').map(|(t, c)| (t.parse().unwrap(), c.parse().unwrap())).unwrap();
        let (side, proto, inside, remote, frame) = match words[..] {
            ["o", kind, inside, remote, ref more @ ..] => {
                let (inside, remote) = (self.end(INSIDE, inside), self.end(OUTSIDE, remote));
                ('a', number(kind), inside, remote, packet(kind, inside, remote, more))
            }
            ["i", kind, remote, inside, "via", via] => {
                let (inside, remote, via) =
                    (self.end(INSIDE, inside), self.end(OUTSIDE, remote), self.end(OUTSIDE, via));
                let to = self.external(number(kind), inside, via);
                ('b', number(kind), inside, remote, packet(kind, remote, to, &["S"]))
            }
            ["i", kind, remote, inside, ref more @ ..] => {
                let (inside, remote) = (self.end(INSIDE, inside), self.end(OUTSIDE, remote));
                let to = self.external(number(kind), inside, remote);
                ('b', number(kind), inside, remote, packet(kind, remote, to, more))
            }
            ["d", kind, remote, inside, ref more @ ..] => {
                let (inside, remote) = (self.end(INSIDE, inside), self.end(OUTSIDE, remote));
                ('b', number(kind), inside, remote, packet(kind, remote, inside, more))
            }
            ["h", kind, from, inside, remote] => {
                let (from, inside, remote) =
                    (self.end(INSIDE, from), self.end(INSIDE, inside), self.end(OUTSIDE, remote));
                let to = self.external(number(kind), inside, remote);
                ('a', number(kind), from, to, packet(kind, from, to, &[]))
            }
            [way @ ("ie" | "oe"), what, host, kind, inside, remote] => {
                let (inside, remote) = (self.end(INSIDE, inside), self.end(OUTSIDE, remote));
                let (side, to) = if way == "ie" { ('b', (EXTERNAL, 0)) } else { ('a', remote) };
                let net = if way == "ie" { OUTSIDE } else { INSIDE };
                let from = (net + host.parse::<u32>().unwrap(), 0);
                let about = match self.out.get(&(side, number(kind), inside, remote)) {
                    Some(packet) => packet.clone(),
                    // Of no flow.
                    None if way == "ie" => packet(kind, (EXTERNAL, inside.1), remote, &[])[14..].to_vec(),
                    None => packet(kind, remote, inside, &[])[14..].to_vec(),
                };
                let (kind, code) = error(what.trim_end_matches('!'));
                let mut message = vec![kind, code, 0, 0, 0, 0, 0, 0];
                message.extend(about);
                let sum = checksum::checksum(&message) ^ u16::from(what.ends_with('!'));
                message[2..4].copy_from_slice(&sum.to_be_bytes());
                (side, 1, inside, remote, ipv4(from.0, to.0, 1, 9, &message))
            }
            _ => panic!("{step}"),
        };
        let Some(packet) = nat.ask(side, &frame) else { return "dropped".into() };
        let words = self.describe(&packet);
        if !step.contains("e ") {
            let seen = parse(&framed(&packet)).tuple;
            if side == 'a' {
                let port = if proto == 1 { identifier(&packet) } else { seen.src_port() };
                self.external.insert((proto, inside, remote), port);
            }
            // As the side that gets it sees it.
            self.out.insert((if side == 'a' { 'b' } else { 'a' }, proto, inside, remote), packet);
        }
        words
    }

    /// A packet in words: ends, whether its checksums are right, and all the rest of it.
    fn describe(&mut self, packet: &[u8]) -> String {
        let frame = framed(packet);
        let layers = parse(&frame);
        let (flow, l4) = (layers.tuple, usize::from(layers.l4));
        let ports = match flow.proto() {
            // Identifiers are the asking side's.
            1 if !icmp::is_error(&frame, &layers) => {
                let of = |address: u32| if address & !0xff == OUTSIDE & !0xff { 0 } else { identifier(packet) };
                [of(flow.src_v4()), of(flow.dst_v4())]
            }
            _ => [flow.src_port(), flow.dst_port()],
        };
        let src = self.name((flow.src_v4(), ports[0]));
        let dst = self.name((flow.dst_v4(), ports[1]));
        let mut text = format!("{} {src} > {dst} {}", flow.proto(), sums(&frame));
        if icmp::is_error(&frame, &layers) {
            let about = frame[l4 + 8..].to_vec();
            return format!("{text} {:?} about ({})", &frame[l4..l4 + 2], self.describe(&about));
        }
        // Identification, flags and offset; behind ports, without checksums.
        let rest = &frame[l4..];
        let rest = match flow.proto() {
            6 => [&rest[4..16], &rest[18..]].concat(),
            17 => [&rest[4..6], &rest[8..]].concat(),
            1 => [&rest[..2], &rest[6..]].concat(),
            _ => rest.to_vec(),
        };
        text += &format!(" {:02x?} {rest:02x?}", &packet[4..8]);
        text
    }

    fn name(&mut self, (address, port): End) -> String {
        match address {
            EXTERNAL if port == 0 => "external".into(),
            EXTERNAL => {
                let at = self.names.iter().position(|p| *p == port).unwrap_or_else(|| {
                    self.names.push(port);
                    self.names.len() - 1
                });
                format!("external#{at}")
            }
            INSIDE..0x0a01_0014 => format!("inside{}:{}", address - INSIDE, port.wrapping_sub(self.base)),
            OUTSIDE..0x0a02_0014 => format!("remote{}:{port}", address - OUTSIDE),
            _ => format!("{address:x}:{port}"),
        }
    }
}

fn framed(packet: &[u8]) -> Vec<u8> {
    [&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0][..], packet].concat()
}

fn identifier(packet: &[u8]) -> u16 {
    u16::from_be_bytes([packet[24], packet[25]])
}

/// Which checksums are wrong. Of a quoted packet that is not whole only the header's can be told.
fn sums(frame: &[u8]) -> String {
    let layers = parse(frame);
    let (l4, end) = (usize::from(layers.l4), usize::from(layers.end));
    let mut wrong = String::new();
    if checksum::checksum(&frame[14..34]) != 0 {
        wrong += "wrong header checksum ";
    }
    if layers.fragment != Fragment::Whole || layers.malformed.is_some() {
        return wrong + "in parts";
    }
    let part = |at: usize| frame[at..at + 4].try_into().unwrap();
    let pseudo = checksum::pseudo_ipv4(part(26), part(30), layers.tuple.proto(), (end - l4) as u16);
    let right = match layers.tuple.proto() {
        17 if frame[l4 + 6..l4 + 8] == [0, 0] => return wrong + "without checksum",
        6 | 17 => pseudo.bytes(&frame[l4..end]).fold() == 0xffff,
        1 => checksum::checksum(&frame[l4..end]) == 0,
        _ => true,
    };
    wrong + if right { "right" } else { "wrong checksum" }
}

/// A frame of a kind: `udp`, `udp0` without checksum, `udp!` with a wrong one, `tcp` with flags, `ping`, `pong`, `gre`.
fn packet(kind: &str, src: End, dst: End, more: &[&str]) -> Vec<u8> {
    let proto = number(kind);
    let mut payload = match kind {
        "ping" | "pong" => {
            let id = if kind == "ping" { src.1 } else { dst.1 };
            let id = if id == 0 { dst.1.max(src.1) } else { id };
            let mut message = vec![if kind == "ping" { 8 } else { 0 }, 0, 0, 0];
            message.extend(id.to_be_bytes());
            message.extend([0, 1, 0x61, 0x62]);
            message
        }
        "gre" => vec![0, 0, 8, 0, 1, 2, 3, 4],
        _ => l4(proto, src.1, dst.1),
    };
    if proto == 6 {
        payload[4..8].copy_from_slice(&1000u32.to_be_bytes());
        payload[14..16].copy_from_slice(&60_000u16.to_be_bytes());
        let flags = more.first().copied().unwrap_or("S");
        payload[13] = flags.bytes().map(|c| 1 << "FSRPAU".find(char::from(c)).unwrap()).sum();
    }
    let pseudo = checksum::pseudo_ipv4(src.0.to_be_bytes(), dst.0.to_be_bytes(), proto, payload.len() as u16);
    let at = match proto {
        6 => 16,
        17 => 6,
        1 => 2,
        _ => return ipv4(src.0, dst.0, proto, 9, &payload),
    };
    let sum = if proto == 1 { checksum::checksum(&payload) } else { pseudo.bytes(&payload).checksum() };
    let sum = match kind {
        "udp0" => 0,
        "udp!" => sum ^ 1,
        _ => sum,
    };
    payload[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    let mut frame = ipv4(src.0, dst.0, proto, 9, &payload);
    if more == ["first"] {
        // More fragments: it promises 8 bytes more.
        frame[20] = 0x20;
        frame[24..26].fill(0);
        let sum = checksum::checksum(&frame[14..34]);
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
    }
    frame
}
