//! The golden harness on an NF that does a little of everything.
#![allow(clippy::unwrap_used)]

use chainline_nf::golden::{self, GoldenError};
use chainline_nf::{Burst, Counter, Ctx, Env, Error, HoldId, Kind, Nf, Reason, Target, Verdict};
use proptest::prelude::*;
use std::path::{Path, PathBuf};

/// Swaps MAC addresses; drops runts, diverts ARP, holds ICMP until the tick.
struct Mixed {
    swapped: Counter,
    runt: Reason,
    scrub: Option<Target>,
    held: Vec<HoldId>,
    bursts: u64,
    show_bursts: bool,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    #[serde(default)]
    divert_arp: bool,
    #[serde(default)]
    show_bursts: bool,
    rules: Option<String>,
}

impl Nf for Mixed {
    const KIND: &'static str = "mixed";
    const ABOUT: &'static str = "a little of everything";
    type Args = Args;

    fn new(args: Args, env: &mut Env<'_>) -> Result<Self, Error> {
        if let Some(rules) = &args.rules {
            env.read(rules)?;
        }
        Ok(Self {
            swapped: env.counter("swapped", "packets", "with their addresses swapped"),
            runt: env.drop_reason("runt"),
            scrub: if args.divert_arp { Some(env.target("scrub")?) } else { None },
            held: Vec::new(),
            bursts: 0,
            show_bursts: args.show_bursts,
        })
    }

    fn process(&mut self, burst: &mut Burst<'_>, ctx: &mut Ctx<'_>) {
        self.bursts += 1;
        for (packet, verdict) in burst.iter_mut() {
            let data = packet.data_mut();
            if data.len() < 14 {
                *verdict = Verdict::drop(self.runt);
            } else if data[12..14] == [8, 6] {
                *verdict = self.scrub.map_or(Verdict::NEXT, Verdict::divert);
            } else if data.get(23) == Some(&1) {
                if let Some(id) = ctx.hold() {
                    self.held.push(id);
                    *verdict = Verdict::hold(id);
                }
            } else {
                let (dst, rest) = data.split_at_mut(6);
                dst.swap_with_slice(&mut rest[..6]);
                ctx.count(self.swapped, 1);
            }
        }
    }

    fn tick(&mut self, ctx: &mut Ctx<'_>) {
        for id in self.held.drain(..) {
            ctx.with_held(id, |p| p.data_mut()[0] = 0xee);
            ctx.release(id, Verdict::NEXT);
        }
    }

    fn report(&self) -> Option<String> {
        self.show_bursts.then(|| format!("bursts\n  {}", self.bursts))
    }
}

#[test]
fn passes() {
    golden::run_dir(&Kind::of::<Mixed>(), "tests/golden");
}

struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str, text: &str) -> Self {
        let path = std::env::temp_dir().join(format!("golden-{}-{name}", std::process::id()));
        std::fs::write(&path, text).unwrap();
        Self(path)
    }
    fn check(&self, update: bool) -> Result<golden::Passed, GoldenError> {
        golden::check(&Kind::of::<Mixed>(), &self.0, update)
    }
    fn text(&self) -> String {
        std::fs::read_to_string(&self.0).unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn told(name: &str, text: &str) -> String {
    let file = Scratch::new(name, text);
    let e = file.check(false).unwrap_err().to_string();
    e.replace(&file.0.display().to_string(), "FILE")
}

#[test]
fn a_difference_names_line_and_byte() {
    let text = "# comment\nin: eth(02::1, 02::2)/hex(08)\nout: next\ncounters: {}\n";
    let message = told("differs", text);
    assert!(message.starts_with("FILE:3: out\n"), "{message}");
    assert!(message.contains("  0000  expected 02 00 00 00 00 01 02 00 00 00 00 02 88 b5 08\n"), "{message}");
    assert!(message.contains("got      02 00 00 00 00 02 02 00 00 00 00 01 88 b5 08\n"), "{message}");
    let marks = message.lines().find(|l| l.contains("^^")).unwrap();
    assert_eq!(marks.find("^^"), Some("  0000  expected 02 00 00 00 00 ".len()), "{message}");
    assert!(message.contains("FILE:4: counters\n  expected {}\n  got      {swapped: 1}"), "{message}");
}

#[test]
fn a_difference_between_bursts_and_single_packets_is_told() {
    let text = "args: {show_bursts: true}\nin: eth\nout: next = eth(02::1, 02::2)\nin: eth\n\
                out: next = eth(02::1,02::2)\ncounters: {swapped: 2}\nreport:\n  bursts\n    2\n";
    let message = told("bursts", text);
    assert!(message.starts_with("FILE:7: report, as one burst"), "{message}");
    told_nothing(&text.replace("in: eth\nout", "burst: false\nin: eth\nout"));
}

fn told_nothing(text: &str) {
    Scratch::new("nothing", text).check(false).unwrap();
}

#[test]
fn what_nobody_understands_is_told_with_its_line() {
    let cases = [
        ("in: eth\nfoo: 1\n", "FILE:2: no key `foo`"),
        ("in: eth/ipv5\n", "FILE:1: no layer `ipv5`"),
        ("in: eth/ipv4(tll=3)\n", "FILE:1: `ipv4` has no field `tll`"),
        ("in: eth/ipv4(1.2.3)\n", "FILE:1: ipv4(src=1.2.3): expected an IPv4 address"),
        ("in: 123\n", "FILE:1: an odd number of hex digits"),
        ("in: 12 zz\n", "FILE:1: `z` in `zz`"),
        ("in: eth(\n", "FILE:1: a `(` or `\"` that is never closed"),
        ("in: eth/pad(99999999999)\n", "FILE:1: pad(n=99999999999): expected a number up to"),
        ("in: pad 99999999999\n", "FILE:1: a frame of"),
        ("in: eth\nout: nxt\n", "FILE:2: verdict `nxt`"),
        ("out: next\n", "FILE:1: an `out` without an `in`"),
        ("in: eth\n", "FILE:1: no `out` for this packet; it got: out: next = eth(02::01, 02::02"),
        ("now: 5 parsecs\n", "FILE:1: `now: 5 parsecs`: expected a time"),
        ("in: eth\ncase: a\n", "FILE:1: packets before the first `case:`"),
        ("args: {no: 1}\n", "FILE:1: the NF could not be built: args: unknown field `no`"),
        ("error: no\n", "FILE:1: error\n  expected no\n  got      no error"),
        ("released: 0 next\n", "FILE:1: released\n  expected [0 next = same]\n  got      []"),
    ];
    for (i, (text, message)) in cases.into_iter().enumerate() {
        let got = told(&format!("odd{i}"), text);
        assert!(got.starts_with(message), "{text:?}: {got}");
    }
}

#[test]
fn update_writes_a_file_that_passes_and_keeps_what_was_right() {
    let text = "# a comment\nargs: {divert_arp: true, show_bursts: true}\ntargets: [scrub]\nburst: false\n\n\
                in: eth/ipv4/udp(1, 2)/pad(9)   # why\nout: next = eth(02::1, 02::2)/ipv4/udp(1,2)/pad(9)   # kept\n\
                in: eth/arp\nin: 01 02\nout: next = 03\nin: eth/ipv4/icmp\ntick\n\ncase-less comment: no\n";
    let text = text.replace("case-less comment: no\n", "# the end\n");
    let file = Scratch::new("update", &text);
    assert!(file.check(true).unwrap().updated);
    let want = "# a comment\nargs: {divert_arp: true, show_bursts: true}\ntargets: [scrub]\nburst: false\n\n\
                in: eth/ipv4/udp(1, 2)/pad(9)   # why\nout: next = eth(02::1, 02::2)/ipv4/udp(1,2)/pad(9)   # kept\n\
                in: eth/arp\nout: divert scrub = same\nin: 01 02\nout: drop runt\nin: eth/ipv4/icmp\n\
                out: hold 0 = same\ntick\nreleased: 0 next = eth(ee::02, 02::01)/ipv4(10.0.0.1, 10.0.0.2)/icmp(8, 0)\n\
                counters: {swapped: 1}\nreport:\n  bursts\n    4\n\n# the end\n";
    assert_eq!(file.text(), want);
    assert_eq!(file.check(false).unwrap().packets, 4);
    assert!(!file.check(true).unwrap().updated);
    // In the wrong on purpose, and back again.
    std::fs::write(
        &file.0,
        want.replace("swapped: 1", "swapped: 2").replace("released: 0 next = eth(ee", "released: 1 next = eth(ef"),
    )
    .unwrap();
    assert!(file.check(false).is_err());
    file.check(true).unwrap();
    assert_eq!(file.text(), want);
}

#[test]
fn a_hold_that_was_not_reserved_is_told() {
    struct Liar;
    impl Nf for Liar {
        const KIND: &'static str = "liar";
        const ABOUT: &'static str = "";
        type Args = serde_json::Value;
        fn new(_: Self::Args, _: &mut Env<'_>) -> Result<Self, Error> {
            Ok(Self)
        }
        fn process(&mut self, burst: &mut Burst<'_>, _: &mut Ctx<'_>) {
            burst.set(0, Verdict::hold(HoldId::from_bits(3)));
        }
    }
    let file = Scratch::new("liar", "in: eth\nout: hold 3\n");
    let e = golden::check(&Kind::of::<Liar>(), &file.0, false).unwrap_err().to_string();
    assert!(e.contains("got      hold 3, which was not reserved"), "{e}");
}

/// What the harness builds, as an `in` of a file that is updated, must be what etherparse reads.
fn built(name: &str, layers: &str) -> Vec<u8> {
    struct Keep;
    impl Nf for Keep {
        const KIND: &'static str = "keep";
        const ABOUT: &'static str = "";
        type Args = serde_json::Value;
        fn new(args: Self::Args, _: &mut Env<'_>) -> Result<Self, Error> {
            OUT.with(|o| *o.borrow_mut() = args["unused"].as_str().unwrap_or_default().into());
            Ok(Self)
        }
        fn process(&mut self, burst: &mut Burst<'_>, _: &mut Ctx<'_>) {
            OUT.with(|o| *o.borrow_mut() = burst.packets()[0].data().to_vec());
        }
    }
    thread_local!(static OUT: std::cell::RefCell<Vec<u8>> = const { std::cell::RefCell::new(Vec::new()) });
    let file = Scratch::new(name, &format!("in: {layers}\nout: next\n"));
    golden::check(&Kind::of::<Keep>(), &file.0, false).unwrap();
    OUT.with(|o| o.borrow().clone())
}

fn checksums_are_right(frame: &[u8]) {
    let headers = etherparse::PacketHeaders::from_ethernet_slice(frame).unwrap();
    let payload = headers.payload.slice();
    let net = headers.net.unwrap();
    let (ip4, ip6) = match &net {
        etherparse::NetHeaders::Ipv4(h, _) => {
            assert_eq!(h.header_checksum, h.calc_header_checksum());
            (Some(h), None)
        }
        etherparse::NetHeaders::Ipv6(h, _) => (None, Some(h)),
        etherparse::NetHeaders::Arp(_) => return,
    };
    match headers.transport.unwrap() {
        etherparse::TransportHeader::Udp(h) => {
            let sum = ip4.map(|i| h.calc_checksum_ipv4(i, payload)).or(ip6.map(|i| h.calc_checksum_ipv6(i, payload)));
            assert_eq!(h.checksum, sum.unwrap().unwrap());
        }
        etherparse::TransportHeader::Tcp(h) => {
            let sum = ip4.map(|i| h.calc_checksum_ipv4(i, payload)).or(ip6.map(|i| h.calc_checksum_ipv6(i, payload)));
            assert_eq!(h.checksum, sum.unwrap().unwrap());
        }
        etherparse::TransportHeader::Icmpv4(h) => assert_eq!(h.checksum, h.icmp_type.calc_checksum(payload)),
        etherparse::TransportHeader::Icmpv6(h) => {
            let i = ip6.unwrap();
            assert_eq!(h.checksum, h.icmp_type.calc_checksum(i.source, i.destination, payload).unwrap());
        }
        other => panic!("{other:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Checksums and lengths against etherparse.
    #[test]
    fn layers_build_valid_frames(v6: bool, vlan: bool, l4 in 0..3_u8, a: u16, b: u16, data: Vec<u8>) {
        let ip = if v6 { format!("ipv6(2001:db8::{a:x}, fe80::{b:x})") } else { format!("ipv4(10.0.0.{}, 10.1.{}.9)", a & 255, b & 255) };
        let l4 = match l4 {
            0 => format!("udp({a}, {b})"),
            1 => format!("tcp({a}, {b}, seq={}, flags=SAE, opt=020405b4)", u32::from(a) << 16),
            _ if v6 => format!("icmp6(128, 0, id={a}, seq={b})"),
            _ => format!("icmp(8, 0, id={a}, seq={b})"),
        };
        let data: Vec<_> = data.iter().map(|b| format!("{b:02x}")).collect();
        let vlan = if vlan { format!("/vlan({})", a & 0xfff) } else { String::new() };
        checksums_are_right(&built("valid", &format!("eth{vlan}/{ip}/{l4}/hex({})", data.join(" "))));
    }

    /// Whatever an NF sends out, `UPDATE=1` writes a line that gives exactly these bytes.
    #[test]
    fn updates_are_exact(mut frame in proptest::collection::vec(any::<u8>(), 14..120), cut in 0..120_usize, kind in 0..5_usize, zap in 0..60_usize) {
        // Mostly frames that look like something.
        let like = ["eth/ipv4(id=7, df=1, opt=94040000)/tcp(1, 2, flags=FU)/pad(40)", "eth/qinq(7, pcp=3)/vlan(9)/ipv6/hopopts/frag(0, 1, 77)/udp/hex(01)/tail(9)",
            "eth/ipv4(frag=64, proto=17)/pad(20)/tail(3)", "eth/ipv6/dstopts/icmp6(135, 0)/text(\"a, b=c\")", "eth/arp(reply)/tail(18)"];
        let mut seen = built("like", like[kind]);
        seen.truncate(seen.len().min(cut.max(14)));
        if zap < seen.len() { seen[zap] ^= frame[0]; }
        for candidate in [&mut frame, &mut seen] {
            let hex: String = candidate.iter().map(|b| format!("{b:02x}")).collect();
            // The swap makes the frame differ, so the update has to write it.
            if candidate.len() < 24 || candidate[12..14] == [8, 6] || candidate[23] == 1 || candidate[..6] == candidate[6..12] { continue; }
            let file = Scratch::new("exact", &format!("in: {hex}\n"));
            file.check(true).unwrap();
            file.check(false).unwrap();
        }
    }
}

#[test]
fn a_missing_file_and_an_empty_directory_are_told() {
    let e = golden::check(&Kind::of::<Mixed>(), Path::new("/nonexistent.golden"), false).unwrap_err();
    assert!(e.to_string().starts_with("/nonexistent.golden: No such file"), "{e}");
    let empty = std::env::temp_dir().join(format!("golden-empty-{}", std::process::id()));
    std::fs::create_dir_all(&empty).unwrap();
    let result = std::panic::catch_unwind(|| golden::run_dir(&Kind::of::<Mixed>(), &empty));
    std::fs::remove_dir(&empty).unwrap();
    assert!(result.is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// No file makes the harness panic, with `update` or without.
    #[test]
    fn no_file_is_too_odd(
        lines in proptest::collection::vec(
            (
                proptest::sample::select(vec![
                    "case", "args", "targets", "places", "burst", "now", "meta", "in", "out", "released", "tick",
                    "counters", "held", "report", "error", "# c", "", "  ", "\u{e9}",
                ]),
                prop_oneof![
                    "[ -~\u{e9}\n]{0,40}",
                    "(eth|ipv4|tcp|arp|vlan|cut|tail|pad|frag|hopopts|text)(\\([0-9a-z=,:. ]{0,12}\\))?(/(ipv6|udp|icmp|hex|cut)(\\([0-9]{0,5}\\))?){0,3}",
                    "(next|drop runt|hold 0|divert scrub)( = (same|[0-9a-f ]{0,9}))?",
                ],
            ),
            0..12,
        )
    ) {
        let text: String = lines.iter().map(|(key, value)| format!("{key}: {value}\n")).collect();
        let file = Scratch::new("odd", &text);
        let _ = file.check(false);
        let _ = file.check(true);
    }
}
