//! The kernel's NAT as the reference: the same exchanges through nftables' source NAT, in a network namespace of its own,
//! and through ours. What comes out must be the same up to the choice of ports; where it is not, the difference has a
//! name here and in the README.

#![allow(clippy::unwrap_used)]

mod exchange;
#[path = "../../../forward/tests/support/mod.rs"]
mod support;
mod timeouts;

use exchange::{Exchange, Kernel, Nat, Ours};
use serde_json::json;

/// Plays exchanges, and says what came of each step.
fn play(nat: &mut dyn Nat, exchanges: &[&[&str]], from: u16) -> Vec<Vec<String>> {
    let exchange = |(i, steps): (usize, &&[&str])| {
        let base = from + 16 * i as u16;
        let mut e = Exchange::new(base);
        steps.iter().map(|step| e.step(nat, step)).collect()
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
    let readme = include_str!("../../README.md");
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
