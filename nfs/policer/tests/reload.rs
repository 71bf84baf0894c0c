//! Changed files of classes: the next burst is metered by them, no held packet is lost, and a wrong one changes nothing.

#![allow(clippy::unwrap_used)]

#[path = "../../forward/tests/support/mod.rs"]
mod support;

use chainline_nf::{Burst, Ctx, Decoded, Env, HoldId, Holds, Packet, PacketMeta, Verdict};
use serde_json::json;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use support::{Folder, Host, ipv4, ipv6, l4};

const MS: u64 = 1_000_000;

/// UDP to a port: 40 bytes of IP.
fn udp(port: u16) -> Vec<u8> {
    ipv4(1, 2, 17, 9, &l4(17, 1000, port))
}

/// What becomes of three packets to port 1 and two to port 2.
fn outcomes(host: &mut Host, now_ms: u64) -> Vec<String> {
    let mut frames = [udp(1), udp(1), udp(1), udp(2), udp(2)];
    host.play(now_ms * MS, &mut frames).iter().map(|v| (*v).to_owned()).collect()
}

const OLD: &str = "class one\nmatch proto udp dst_ports 1\nsrtcm cir_bytes_s 1 cbs_bytes 80 ebs_bytes 0\n";

#[test]
fn new_classes_take_the_place_of_old_ones() {
    let folder = Folder::new();
    folder.write("classes", OLD);
    let mut host = folder.host(&nf_policer::KIND, json!({"classes_file": "classes", "flows": 64, "flows6": 64}));
    assert_eq!(outcomes(&mut host, 0), ["next", "next", "one_red", "next", "next"]);
    // One has a smaller bucket and drops nothing, and there is another, for each flow.
    folder.write(
        "classes",
        "class one\nmatch proto udp dst_ports 1\nsrtcm cir_bytes_s 1 cbs_bytes 40 ebs_bytes 0\nred pass\n\
         class two\nper flow\nsrtcm cir_bytes_s 1 cbs_bytes 40 ebs_bytes 0\n",
    );
    let now_ms = host.until_reloaded(0);
    assert_eq!(outcomes(&mut host, now_ms), ["next", "next", "next", "next", "later_red"]);
    assert_eq!(["one_green", "one_red", "later_green", "later_red"].map(|c| host.counter(c)), [3, 3, 1, 1]);
    assert_eq!(["reloads", "reloads_failed", "unmetered", "flows"].map(|c| host.counter(c)), [1, 0, 2, 1]);
    // Its flows begin anew with the next change, and are counted on.
    folder.write("classes", "class two\nper flow\nsrtcm cir_bytes_s 1 cbs_bytes 120 ebs_bytes 0\nred drop\n");
    let now_ms = host.until_reloaded(now_ms);
    assert_eq!(outcomes(&mut host, now_ms), ["next"; 5]);
    assert_eq!(["flows", "flows_added", "later_green"].map(|c| host.counter(c)), [2, 3, 6]);
    // Also when there are none in between.
    folder.write("classes", OLD);
    let now_ms = host.until_reloaded(now_ms);
    assert_eq!(["flows", "flows_added"].map(|c| host.counter(c)), [0, 3]);
    folder.write("classes", "class two\nper flow\nsrtcm cir_bytes_s 1 cbs_bytes 120 ebs_bytes 0\n");
    let now_ms = host.until_reloaded(now_ms);
    assert_eq!(outcomes(&mut host, now_ms), ["next"; 5]);
    assert_eq!(["flows", "flows_added"].map(|c| host.counter(c)), [2, 5]);
}

/// A change gives nobody whose class stays a burst for nothing.
#[test]
fn buckets_stay_as_they_are() {
    let class = |name: &str, lines: &str, cbs: u32| {
        format!("class {name}\n{lines}srtcm cir_bytes_s 1 cbs_bytes {cbs} ebs_bytes 0\nred drop\n")
    };
    let (udp_1, flows) = ("match proto udp dst_ports 1\n", "match proto udp dst_ports 2-4\nper flow\n");
    let folder = Folder::new();
    let (one, two) = (class("one", udp_1, 80), |cbs| class("two", flows, cbs));
    let old = one.clone() + &two(40);
    folder.write("classes", &old);
    let mut host = folder.host(&nf_policer::KIND, json!({"classes_file": "classes", "flows": 64, "flows6": 64}));
    // To port 1, and of two flows of both IP versions, to ports 2 and 3.
    let v6 = |port| ipv6(1, 2, 17, 9, &l4(17, 1000, port));
    let play = |host: &mut Host, now_ms: u64| {
        let mut frames = [udp(1), udp(1), udp(1), udp(2), udp(2), v6(3), v6(3)];
        host.play(now_ms * MS, &mut frames).iter().filter(|v| **v == "next").count()
    };
    // An IPv6 packet is 60 bytes: too long for these buckets.
    assert_eq!((play(&mut host, 0), play(&mut host, 0)), (3, 0));
    // Another class before them, and the same two: nothing came in the seconds since. A new flow has its own.
    let more = class("more", "match proto udp dst_ports 9\n", 40) + &old;
    folder.write("classes", &more);
    let now_ms = host.until_reloaded(0);
    assert_eq!(play(&mut host, now_ms), 0);
    assert_eq!(host.play(now_ms * MS, &mut [udp(4), udp(4)]), ["next", "two_red"]);
    assert_eq!(["one_green", "one_red", "two_green"].map(|c| host.counter(c)), [2, 7, 2]);
    // With another bucket for the flows they begin anew, and port 1 does not.
    folder.write("classes", &(one.clone() + &two(60)));
    let now_ms = host.until_reloaded(now_ms);
    assert_eq!(play(&mut host, now_ms), 2);
    // The other way round; and full again when they would have been: 60 bytes at one a second.
    folder.write("classes", &(two(60) + &one));
    let now_ms = host.until_reloaded(now_ms);
    assert_eq!(host.play(now_ms * MS, &mut [udp(2), udp(1), v6(3)]), ["two_red", "one_red", "two_red"]);
    host.tick((now_ms + 61_000) * MS);
    assert_eq!(play(&mut host, now_ms + 61_000), 3);
}

#[test]
fn a_wrong_file_leaves_the_old_one_in_force() {
    let folder = Folder::new();
    folder.write("classes", OLD);
    let mut host = folder.host(&nf_policer::KIND, json!({"classes_file": "classes"}));
    let mut now_ms = 0;
    for (text, fault) in [
        ("class one\nsrtcm cir_bytes_s 1 cbs_bytes x ebs_bytes 0\n", "classes:2:31: found 'x', expected a number"),
        (
            "\nclass one\nsrtcm cir_bytes_s 1 cbs_bytes 0 ebs_bytes 0\n",
            "classes:2:1: class ('one').meter: ebs: found 0",
        ),
        ("class one\nred drop\n", "classes:1:1: class ('one'): found neither meter nor shaper"),
        ("class later\nshaper rate_bytes_s 1 burst_bytes 1500\n", "classes:1:1: class.name: found 'later'"),
        (
            "class a\nmatch proto 17 src ::1 dst 10.0.0.1\nsrtcm cir_bytes_s 1 cbs_bytes 1 ebs_bytes 0\n",
            "class.match.dst",
        ),
    ] {
        let failed = host.counter("reloads_failed");
        folder.write("classes", text);
        now_ms = host.until_reloaded(now_ms);
        assert_eq!((host.counter("reloads"), host.counter("reloads_failed")), (0, failed + 1));
        let report = host.report().unwrap();
        assert!(report.starts_with("the file of classes has changed and is wrong, the last right one is in force: "));
        assert!(report.contains(fault), "{report}");
    }
    assert_eq!(outcomes(&mut host, now_ms), ["next", "next", "one_red", "next", "next"]);
}

/// Places for held packets, and those that were let go.
#[derive(Default)]
struct Places {
    reserved: u32,
    released: Vec<(u32, Verdict)>,
}

impl Holds for Places {
    fn reserve(&mut self) -> Option<HoldId> {
        self.reserved += 1;
        Some(HoldId::from_bits(self.reserved - 1))
    }
    fn with(&mut self, _: HoldId, _: &mut dyn FnMut(&mut Packet<'_>)) -> bool {
        false
    }
    fn release(&mut self, id: HoldId, verdict: Verdict) -> bool {
        self.released.push((id.to_bits(), verdict));
        true
    }
}

#[test]
fn packets_that_a_shaper_holds_are_not_lost() {
    let folder = Folder::new();
    let shaper = |name: &str, rate: u32| format!("class {name}\nshaper rate_bytes_s {rate} burst_bytes 1500\n");
    folder.write("classes", &shaper("slow", 1));
    let mut env = Env::new(folder.path(), &[]);
    let mut nf = (nf_policer::KIND.build)(json!({"classes_file": "classes"}), &mut env).unwrap();
    let names: Vec<String> = env.into_declared().counters.into_iter().map(|c| c.name).collect();
    let counters: Vec<AtomicU64> = names.iter().map(|_| AtomicU64::new(0)).collect();
    let count = |name: &str| counters[names.iter().position(|n| n == name).unwrap()].load(Relaxed);
    let mut places = Places::default();
    let send = |nf: &mut dyn chainline_nf::NfObject, places: &mut Places, now_ms: u64| {
        let mut frame = ipv4(1, 2, 17, 9, &[l4(17, 1, 2), vec![0; 960]].concat());
        let mut burst = Burst::new();
        let len = frame.len() as u16;
        burst.push(Packet::new(&mut frame, 0, len, PacketMeta::default()).unwrap()).unwrap();
        nf.process(&mut burst, &mut Ctx::new(now_ms * MS, &counters, places));
        matches!(burst.verdicts()[0].decode(), Some(Decoded::Hold(_)))
    };
    let until = |nf: &mut dyn chainline_nf::NfObject, places: &mut Places, reloads: u64, now_ms: &mut u64| {
        let end = *now_ms + 3000;
        while count("reloads") < reloads {
            *now_ms = (*now_ms + 10).min(end);
            nf.tick(&mut Ctx::new(*now_ms * MS, &counters, places));
            std::thread::yield_now();
        }
    };
    let mut now_ms = 0;
    // 1000 bytes each: the first finds tokens, three wait.
    let held: Vec<bool> = (0..4).map(|_| send(&mut *nf, &mut places, now_ms)).collect();
    assert_eq!((held, count("slow_held")), (vec![false, true, true, true], 3));
    // A faster shaper of the same name lets them go in their order, and not at once.
    folder.write("classes", &shaper("slow", 100));
    until(&mut *nf, &mut places, 1, &mut now_ms);
    assert_eq!((places.released.len(), count("slow_held")), (0, 3));
    nf.tick(&mut Ctx::new((now_ms + 6000) * MS, &counters, &mut places));
    assert_eq!((&places.released[..], count("slow_held")), (&[(0, Verdict::NEXT)][..], 2));
    // Without it nobody would, so they go.
    now_ms += 6000;
    folder.write("classes", &shaper("other", 1));
    until(&mut *nf, &mut places, 2, &mut now_ms);
    assert_eq!(places.released.iter().map(|r| r.0).collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!(["slow_held", "slow_delayed", "slow_passed"].map(count), [0, 3, 1]);
    // What came later counts as one.
    assert!(!send(&mut *nf, &mut places, now_ms) && send(&mut *nf, &mut places, now_ms));
    assert_eq!(["later_passed", "later_held"].map(count), [1, 1]);
}

#[test]
fn classes_come_from_arguments_and_file() {
    let folder = Folder::new();
    folder.write("classes", OLD);
    let first = json!({"name": "first", "match": {"proto": "udp", "dst_ports": [2]},
        "meter": {"srtcm": {"cir_bytes_s": 1, "cbs_bytes": 40, "ebs_bytes": 0}}});
    let args = |classes: serde_json::Value| json!({"classes": classes, "classes_file": "classes", "reload_s": 0});
    let mut host = folder.host(&nf_policer::KIND, args(json!([first])));
    assert_eq!(outcomes(&mut host, 0), ["next", "next", "one_red", "next", "first_red"]);
    let again = json!([{"name": "one", "meter": {"srtcm": {"cir_bytes_s": 1, "cbs_bytes": 1, "ebs_bytes": 0}}}]);
    let fault = Host::in_dir(&nf_policer::KIND, args(again), folder.path()).err().unwrap().to_string();
    assert!(fault.ends_with("classes:1:1: class.name: 'one' is there already, expected another name"), "{fault}");
    let absent = Host::in_dir(&nf_policer::KIND, json!({"classes_file": "none"}), Path::new("/nowhere")).err().unwrap();
    assert!(absent.to_string().starts_with("cannot read /nowhere/none: "), "{absent}");
}
