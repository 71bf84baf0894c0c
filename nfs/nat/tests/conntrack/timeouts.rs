//! Which time-out a flow has after which packets, and what becomes of packets when it is over: in the kernel and here.
//!
//! Each exchange is played once for each class of time-outs, with that class short and all others long. Then everybody
//! waits, and whoever outside answers comes through or does not: that tells the class. The kernel takes the time-out that
//! is set when a packet comes, so the short one is set for the last packet before the wait alone, and nothing depends on
//! how long the packets themselves take.

use crate::exchange::{Exchange, Kernel, Nat, Ours};
use serde_json::json;
use std::time::Duration;

const LONG_S: u32 = 1000;
/// Ours goes by a clock that the test sets. Flows last for at least their time-out, and then until the sweep comes by: a
/// quarter of it.
const OUR_SHORT_S: u32 = 10;
const KERNEL_SHORT_S: u32 = 1;
/// In the kernel a stream of UDP begins when it has lasted for two seconds.
const KERNEL_FIRST_WAIT: Duration = Duration::from_millis(2500);
const KERNEL_WAIT: Duration = Duration::from_millis(2200);

/// Our classes, and the kernel's.
const CLASSES: [(&str, &[&str]); 5] = [
    ("udp_unanswered_s", &["udp_timeout"]),
    ("udp_s", &["udp_timeout_stream"]),
    ("tcp_established_s", &["tcp_timeout_established"]),
    (
        "tcp_transitory_s",
        &[
            "tcp_timeout_syn_sent",
            "tcp_timeout_syn_recv",
            "tcp_timeout_fin_wait",
            "tcp_timeout_close_wait",
            "tcp_timeout_last_ack",
            "tcp_timeout_time_wait",
            "tcp_timeout_close",
        ],
    ),
    ("icmp_s", &["icmp_timeout"]),
];

/// An exchange: before a wait, the one packet behind it that the time-out counts from, after the second wait.
struct Timed {
    before: &'static [&'static str],
    last: &'static str,
    after: &'static [&'static str],
    /// The class of its time-out: the kernel's and ours, which differ where the README says so.
    classes: (&'static str, &'static str),
}

/// An answer, an ICMP error about what went out; and all begins again.
const UDP: &[&str] = &["ie 11/0 5 udp 0:0 1:53", "i udp 1:53 0:0", "o udp 0:0 1:53", "i udp 1:53 0:0"];
const TCP: &[&str] = &["ie 3/4 5 tcp 0:0 1:80", "i tcp 1:80 0:0 A", "o tcp 0:0 1:80 S", "i tcp 1:80 0:0 SA"];
const PING: &[&str] = &["ie 3/1 5 ping 0:7 1:0", "i pong 1:0 0:7", "o ping 0:7 1:0", "i pong 1:0 0:7"];

const fn both(class: &'static str) -> (&'static str, &'static str) {
    (class, class)
}

const TIMED: &[Timed] = &[
    Timed { before: &[], last: "o udp 0:0 1:53", after: UDP, classes: both("udp_unanswered_s") },
    Timed { before: &["o udp 0:0 1:53"], last: "o udp 0:0 1:53", after: UDP, classes: both("udp_unanswered_s") },
    Timed { before: &["o udp 0:0 1:53", "i udp 1:53 0:0"], last: "o udp 0:0 1:53", after: UDP, classes: both("udp_s") },
    Timed { before: &["o udp 0:0 1:53", "i udp 1:53 0:0"], last: "i udp 1:53 0:0", after: UDP, classes: both("udp_s") },
    // Not yet a stream.
    Timed {
        before: &[],
        last: "o udp 0:0 1:53 then i udp 1:53 0:0",
        after: UDP,
        classes: ("udp_unanswered_s", "udp_s"),
    },
    Timed { before: &[], last: "o tcp 0:0 1:80 S", after: TCP, classes: both("tcp_transitory_s") },
    Timed {
        before: &["o tcp 0:0 1:80 S", "i tcp 1:80 0:0 SA"],
        last: "o tcp 0:0 1:80 A",
        after: TCP,
        classes: both("tcp_established_s"),
    },
    // Open when the third packet has come.
    Timed {
        before: &["o tcp 0:0 1:80 S"],
        last: "i tcp 1:80 0:0 SA",
        after: TCP,
        classes: ("tcp_transitory_s", "tcp_established_s"),
    },
    Timed {
        before: &["o tcp 0:0 1:80 S", "i tcp 1:80 0:0 SA", "o tcp 0:0 1:80 A"],
        last: "i tcp 1:80 0:0 RA",
        after: TCP,
        classes: both("tcp_transitory_s"),
    },
    // Half-closed, by either end.
    Timed {
        before: &["o tcp 0:0 1:80 S", "i tcp 1:80 0:0 SA", "o tcp 0:0 1:80 A"],
        last: "o tcp 0:0 1:80 FA",
        after: TCP,
        classes: ("tcp_transitory_s", "tcp_established_s"),
    },
    Timed {
        before: &["o tcp 0:0 1:80 S", "i tcp 1:80 0:0 SA", "o tcp 0:0 1:80 A", "i tcp 1:80 0:0 FA"],
        last: "o tcp 0:0 1:80 A",
        after: TCP,
        classes: ("tcp_transitory_s", "tcp_established_s"),
    },
    Timed {
        before: &[
            "o tcp 0:0 1:80 S",
            "i tcp 1:80 0:0 SA",
            "o tcp 0:0 1:80 A",
            "o tcp 0:0 1:80 FA",
            "i tcp 1:80 0:0 FA",
        ],
        last: "o tcp 0:0 1:80 A",
        after: TCP,
        classes: both("tcp_transitory_s"),
    },
    Timed { before: &[], last: "o ping 0:7 1:0", after: PING, classes: both("icmp_s") },
    Timed {
        before: &["o ping 0:7 1:0", "i pong 1:0 0:7"],
        last: "o ping 0:7 1:0",
        after: PING,
        classes: both("icmp_s"),
    },
];

/// Exchanges with the class that is short; `None`: none is.
fn cells() -> Vec<(&'static Timed, Option<usize>)> {
    let classes = || [None].into_iter().chain((0..CLASSES.len()).map(Some));
    TIMED.iter().flat_map(|timed| classes().map(move |class| (timed, class))).collect()
}

/// Plays what is counted from.
fn last(e: &mut Exchange, nat: &mut dyn Nat, timed: &Timed) -> Vec<String> {
    timed.last.split(" then ").map(|step| e.step(nat, step)).collect()
}

/// What came out of each step, by cell. All wait together.
fn through_kernel(nat: &mut Kernel) -> Vec<Vec<String>> {
    let set =
        |nat: &mut Kernel, class: usize, s: u32| CLASSES[class].1.iter().for_each(|name| nat.set_timeout(name, s));
    (0..CLASSES.len()).for_each(|class| set(nat, class, LONG_S));
    let mut cells: Vec<_> = cells()
        .into_iter()
        .enumerate()
        .map(|(n, (timed, class))| {
            let mut e = Exchange::new(2000 + 16 * n as u16);
            let seen: Vec<String> = timed.before.iter().map(|step| e.step(nat, step)).collect();
            (timed, class, e, seen)
        })
        .collect();
    std::thread::sleep(KERNEL_FIRST_WAIT);
    for (timed, class, e, seen) in &mut cells {
        class.iter().for_each(|class| set(nat, *class, KERNEL_SHORT_S));
        seen.extend(last(e, nat, timed));
        class.iter().for_each(|class| set(nat, *class, LONG_S));
    }
    std::thread::sleep(KERNEL_WAIT);
    let rest = |(timed, _, mut e, mut seen): (&Timed, _, Exchange, Vec<String>)| {
        seen.extend(timed.after.iter().map(|step| e.step(nat, step)));
        seen
    };
    cells.into_iter().map(rest).collect()
}

fn through_ours() -> Vec<Vec<String>> {
    let cell = |(n, (timed, class)): (usize, (&Timed, Option<usize>))| {
        let timeouts = CLASSES.iter().enumerate().map(|(i, (name, _))| {
            let seconds = if class == Some(i) { OUR_SHORT_S } else { LONG_S };
            ((*name).to_owned(), json!(seconds))
        });
        let timeouts: serde_json::Map<_, _> = timeouts.collect();
        let mut nat = Ours::new(json!({
            "filter": "address_and_port_dependent", "flows": 64, "subscribers": 64, "timeouts": timeouts
        }));
        let mut e = Exchange::new(2000 + 16 * n as u16);
        let mut seen: Vec<String> = timed.before.iter().map(|step| e.step(&mut nat, step)).collect();
        nat.wait(3);
        seen.extend(last(&mut e, &mut nat, timed));
        nat.wait(OUR_SHORT_S + OUR_SHORT_S / 2);
        seen.extend(timed.after.iter().map(|step| e.step(&mut nat, step)));
        seen
    };
    cells().into_iter().enumerate().map(cell).collect()
}

/// Everything passes but, of a flow that is over, what comes from outside before somebody inside begins again.
fn check(who: &str, seen: &[Vec<String>], class_of: impl Fn(&Timed) -> &'static str) {
    for ((timed, class), seen) in cells().into_iter().zip(seen) {
        let over = class.is_some_and(|class| CLASSES[class].0 == class_of(timed));
        let dropped: Vec<bool> = seen.iter().map(|words| words == "dropped").collect();
        let mut expected = vec![false; seen.len()];
        let at = seen.len() - timed.after.len();
        expected[at..at + 2].fill(over);
        let short = class.map_or("none", |class| CLASSES[class].0);
        let steps = [timed.before, &[timed.last], timed.after].concat();
        assert_eq!(dropped, expected, "{who}: {steps:?} with {short} short: {seen:#?}");
    }
}

#[test]
fn flows_end_as_in_the_kernel() {
    let ours = through_ours();
    check("ours", &ours, |timed| timed.classes.1);
    let Some(mut kernel) = Kernel::new() else {
        println!("skipped: flows_end_as_in_the_kernel: needs root, unshare, nft with nat and python3");
        return;
    };
    let theirs = through_kernel(&mut kernel);
    check("the kernel", &theirs, |timed| timed.classes.0);
    // And what passes is the same, up to the port of a flow that began again.
    let readme = include_str!("../../README.md");
    let mut packets = 0;
    for (((timed, class), ours), theirs) in cells().into_iter().zip(&ours).zip(&theirs) {
        if timed.classes.0 != timed.classes.1 {
            assert!(readme.contains("| Time-outs |"), "not in the README");
            continue;
        }
        assert_eq!(ours, theirs, "{:?}, {class:?}", timed.last);
        packets += ours.len();
    }
    println!("{packets} packets, {} exchanges", cells().len());
}
