//! The kernel's NAT as the reference: the same exchanges through nftables' source NAT, in a network namespace of its own,
//! and through ours. What comes out must be the same up to the choice of ports; where it is not, the difference has a
//! name here and in the README.

#![allow(clippy::unwrap_used)]

#[path = "../../forward/tests/support/mod.rs"]
mod support;

use chainline_packet::{Fragment, checksum, icmp, parse};
use serde_json::json;
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use support::{Host, ipv4, l4};

type End = (u32, u16);

/// Hosts 0 to 9 inside and outside, and the external address.
const INSIDE: u32 = 0x0a01_000a;
const OUTSIDE: u32 = 0x0a02_000a;
const EXTERNAL: u32 = 0xc633_6401;

/// Something that translates: an IP packet for each frame from side a or b that comes out.
trait Nat {
    fn ask(&mut self, side: char, frame: &[u8]) -> Option<Vec<u8>>;
}

struct Kernel {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Kernel {
    /// `None` where it cannot be asked.
    fn new() -> Option<Self> {
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
            .args(["-n", "python3", concat!(env!("CARGO_MANIFEST_DIR"), "/tests/conntrack.py")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (stdin, stdout) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        Some(Self { child, stdin, stdout })
    }
}

impl Nat for Kernel {
    fn ask(&mut self, side: char, frame: &[u8]) -> Option<Vec<u8>> {
        let hex: String = frame.iter().map(|b| format!("{b:02x}")).collect();
        writeln!(self.stdin.as_mut().unwrap(), "{side} {hex}").unwrap();
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        let line = line.trim_end();
        assert!(!line.is_empty(), "conntrack.py ended");
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

struct Ours(Host);

impl Ours {
    fn new(more: serde_json::Value) -> Self {
        let mut args = json!({"inside": ["10.1.0.0/16"], "pool": ["198.51.100.1"], "inside_chains": [0]});
        args.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        Self(Host::new(&nf_nat::KIND, args))
    }
}

impl Nat for Ours {
    fn ask(&mut self, side: char, frame: &[u8]) -> Option<Vec<u8>> {
        self.0.chain = u16::from(side == 'b');
        let mut frames = [frame.to_vec()];
        (self.0.play(0, &mut frames) == ["next"]).then(|| frames[0][14..].to_vec())
    }
}

/// An exchange: what each side knows of it so far.
struct Exchange<'a> {
    nat: &'a mut dyn Nat,
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

impl Exchange<'_> {
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
    fn step(&mut self, step: &str) -> String {
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
        let Some(packet) = self.nat.ask(side, &frame) else { return "dropped".into() };
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

/// Plays exchanges, and says what came of each step.
fn play(nat: &mut dyn Nat, exchanges: &[&[&str]], from: u16) -> Vec<Vec<String>> {
    let exchange = |(i, steps): (usize, &&[&str])| {
        let base = from + 16 * i as u16;
        let mut e = Exchange { nat, base, external: HashMap::new(), out: HashMap::new(), names: Vec::new() };
        steps.iter().map(|step| e.step(step)).collect()
    };
    exchanges.iter().enumerate().map(exchange).collect()
}

const AGREED: &[&[&str]] = &[
    // A host inside asks and is answered; somebody else's answer, and one to nobody, go nowhere.
    &[
        "i udp 1:53 0:0",
        "o udp 0:0 1:53",
        "i udp 1:53 0:0",
        "o udp 0:0 1:53",
        "i udp 1:54 0:0 via 1:53",
        "i udp 2:53 0:0 via 1:53",
    ],
    // One endpoint, two remote ones: one external endpoint.
    &["o udp 0:0 1:53", "o udp 0:0 2:53", "o udp 0:0 1:99", "i udp 2:53 0:0", "i udp 1:99 0:0", "i udp 1:53 0:0"],
    // Two hosts with the same port to the same endpoint: two external ones, and each gets its own answers.
    &["o udp 0:0 1:53", "o udp 1:0 1:53", "i udp 1:53 1:0", "i udp 1:53 0:0"],
    &["o tcp 0:0 1:80", "o tcp 1:0 1:80", "i tcp 1:80 1:0 SA", "i tcp 1:80 0:0 SA"],
    // Checksums that are absent stay absent.
    &["o udp0 0:0 1:53", "i udp0 1:53 0:0"],
    // Nobody reaches a host inside by its own address.
    &["d udp 1:53 0:0", "o udp 0:0 1:53", "d tcp 1:80 0:0 S", "d ping 1:0 0:0"],
    // TCP: opened, closed by either end or by both, reset, opened by both at once; and a second connection.
    &[
        "o tcp 0:0 1:80 S",
        "i tcp 1:80 0:0 SA",
        "o tcp 0:0 1:80 A",
        "i tcp 1:80 0:0 PA",
        "o tcp 0:0 1:80 FA",
        "i tcp 1:80 0:0 A",
        "i tcp 1:80 0:0 FA",
        "o tcp 0:0 1:80 A",
    ],
    &[
        "o tcp 0:0 1:80 S",
        "i tcp 1:80 0:0 SA",
        "o tcp 0:0 1:80 A",
        "i tcp 1:80 0:0 FA",
        "o tcp 0:0 1:80 FA",
        "i tcp 1:80 0:0 A",
        "o tcp 0:0 1:80 S",
        "i tcp 1:80 0:0 SA",
    ],
    &["o tcp 0:0 1:80 S", "i tcp 1:80 0:0 RA", "o tcp 0:0 1:80 S", "i tcp 1:80 0:0 SA", "o tcp 0:0 1:80 R"],
    &["o tcp 0:0 1:80 S", "i tcp 1:80 0:0 S", "o tcp 0:0 1:80 SA", "i tcp 1:80 0:0 A"],
    &[
        "o tcp 0:0 1:80 S",
        "i tcp 1:80 0:0 SA",
        "o tcp 0:0 2:80 S",
        "i tcp 2:80 0:0 SA",
        "i tcp 3:80 0:0 via 1:80",
        "i tcp 1:81 0:0 via 1:80",
    ],
    // Nobody outside begins; a connection that was there before goes on when a host inside says something.
    &["i tcp 1:80 0:0 S", "i tcp 1:80 0:0 SA", "i tcp 1:80 0:0 A", "i tcp 1:80 0:0 R", "o tcp 0:0 1:80 R"],
    &["o tcp 0:0 1:80 A", "i tcp 1:80 0:0 A", "o tcp 0:0 1:80 PA"],
    // Pings, by identifier.
    &[
        "o ping 0:7 1:0",
        "i pong 1:0 0:7",
        "i pong 1:0 0:8",
        "i pong 2:0 0:7 via 1:0",
        "i ping 1:0 0:7",
        "o pong 0:9 1:0",
    ],
    &["o ping 0:7 1:0", "o ping 1:7 1:0", "i pong 1:0 1:7", "i pong 1:0 0:7"],
    // ICMP errors: from the other end and from on the way, about what went out; and from inside about what came in.
    &["o udp 0:0 1:53", "ie 3/3 1 udp 0:0 1:53", "ie 11/0 5 udp 0:0 1:53", "ie 3/4 5 udp 0:0 1:53", "i udp 1:53 0:0"],
    &["o tcp 0:0 1:80 S", "ie 3/1 5 tcp 0:0 1:80", "o tcp 0:0 1:80 S", "i tcp 1:80 0:0 SA", "ie 3/4 5 tcp 0:0 1:80"],
    &["o ping 0:7 1:0", "ie 3/1 5 ping 0:7 1:0", "ie 11/0 5 ping 0:7 1:0"],
    &["o udp 0:0 1:53", "i udp 1:53 0:0", "oe 3/3 0 udp 0:0 1:53", "oe 3/10 0 udp 0:0 1:53"],
    &[
        "ie 3/3 1 udp 0:0 1:53",
        "ie 11/0 5 tcp 0:0 1:80",
        "o udp 0:0 1:53",
        "ie 3/3! 1 udp 0:0 1:53",
        "ie 3/3 1 udp 0:0 2:53",
    ],
];

/// Where the kernel does otherwise on purpose or ours does: what it is called in the README, how ours is built, the
/// exchange, and what the kernel and ours make of its last step.
type Difference = (&'static str, &'static str, &'static [&'static str], &'static str, &'static str);

const DIFFERENCES: &[Difference] = &[
    (
        "Mapping",
        "{}",
        &["o udp 0:0 1:53", "o udp 1:0 2:53"],
        "17 external#0 > remote2:53 right",
        "17 external#1 > remote2:53 right",
    ),
    ("Filter", "{}", &["o udp 0:0 1:53", "i udp 2:99 0:0 via 1:53"], "dropped", "17 remote2:99 > inside0:0 right"),
    ("Hairpinning", "{}", &["o udp 0:0 1:53", "h udp 1:1 0:0 1:53"], "dropped", "17 external#1 > inside0:0 right"),
    ("Other protocols", "{}", &["o gre 0:0 1:0"], "47 external > remote1:0 right", "dropped"),
    ("Wrong checksums", "{}", &["o udp! 0:0 1:53"], "dropped", "17 external#0 > remote1:53 wrong checksum"),
    ("Fragments", "{}", &["o udp 0:0 1:53 first"], "dropped", "17 external#0 > remote1:53 in parts"),
];

#[test]
fn what_comes_out_is_what_comes_out_of_nftables() {
    let Some(mut kernel) = Kernel::new() else {
        println!(
            "skipped: what_comes_out_is_what_comes_out_of_nftables: needs root, unshare, nft with nat and python3"
        );
        return;
    };
    let mut ours = Ours::new(json!({"filter": "address_and_port_dependent"}));
    let (expected, seen) = (play(&mut kernel, AGREED, 2000), play(&mut ours, AGREED, 2000));
    let mut wrong = String::new();
    for ((steps, expected), seen) in AGREED.iter().zip(&expected).zip(&seen) {
        for ((step, expected), seen) in steps.iter().zip(expected).zip(seen).filter(|((_, e), s)| e != s) {
            wrong += &format!("{steps:?}: {step}\n  ours   {seen}\n  kernel {expected}\n");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    let passed = expected.iter().flatten().filter(|words| *words != "dropped").count();
    let all = AGREED.iter().map(|steps| steps.len()).sum::<usize>();
    assert!(passed > all / 2 && passed < all, "{passed} of {all} pass");
}

#[test]
fn each_difference_has_a_name() {
    let readme = include_str!("../README.md");
    let mut kernel = Kernel::new();
    if kernel.is_none() {
        println!(
            "skipped: the kernel's part of each_difference_has_a_name: needs root, unshare, nft with nat and python3"
        );
    }
    for (i, (name, args, steps, theirs, our)) in DIFFERENCES.iter().enumerate() {
        assert!(readme.contains(&format!("| {name} |")), "{name} is not in the README");
        let mut ours = Ours::new(serde_json::from_str(args).unwrap());
        let check = |nat: &mut dyn Nat, expected: &str| {
            let found = play(nat, &[steps], 2000 + 16 * i as u16).remove(0).pop().unwrap();
            assert!(found == expected || found.starts_with(&format!("{expected} ")), "{name}: {found}");
        };
        check(&mut ours, our);
        if let Some(kernel) = &mut kernel {
            check(kernel, theirs);
        }
    }
}
