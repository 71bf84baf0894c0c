//! Rules, routes and classes are rewritten while packets flow: the old ones hold until the new ones do, a wrong file
//! changes nothing, and each packet is on the account of the ones or the others.

use crate::command::Running;
use crate::ctl::Desk;
use rustix::fs::inotify::{CreateFlags, Reader, WatchFlags, add_watch, init};
use serde_json::{Value, json};
use std::mem::MaybeUninit;

/// A chain for each NF, by port.
const SPEC: &str = "  ports:
    in: {generator: {rate: 50kpps, lossless: true, flows: 64, dst: 192.0.2.0/24, dst_port: 1-4, dst_mac: \"02:00:00:00:00:01\"}}
    out: {sink: {}}
  nfs:
    fw: {kind: firewall, args: {rules: rules}}
    l3: {kind: l3fwd, args: {routes: routes}}
    rt:
      kind: router
      args:
        interfaces: [{name: lan, mac: \"02:00:00:00:00:01\", addresses: [10.0.0.1/8], chains: [2], next: [2]}]
        neighbours: [{address: 10.0.0.2, mac: \"02:00:00:00:00:02\"}]
        routes: hops
    po: {kind: policer, args: {classes_file: classes}}
  chains:
    - {name: fw, match: {dst_port: 1}, path: [in, fw, out]}
    - {name: l3, match: {dst_port: 2}, path: [in, l3, out]}
    - {name: rt, match: {dst_port: 3}, path: [in, rt, out]}
    - {name: po, match: {dst_port: 4}, path: [in, po, out]}\n";

/// An NF's file: what lets all pass, what drops all, and as what, and what is wrong, and where.
struct Case {
    nf: &'static str,
    file: &'static str,
    passing: &'static str,
    dropping: &'static str,
    reason: &'static str,
    wrong: &'static str,
    place: &'static str,
}

const CASES: [Case; 4] = [
    Case {
        nf: "fw",
        file: "rules",
        passing: "allow udp\n",
        dropping: "# closed\ndeny udp\n",
        reason: "denied",
        wrong: "allow udp\nallow udp to any port x\n",
        place: "rules:2:23: found 'x'",
    },
    Case {
        nf: "l3",
        file: "routes",
        passing: "0.0.0.0/0 via 02:00:00:00:00:02\n",
        dropping: "10.0.0.0/8 via 02:00:00:00:00:02\n",
        reason: "no_route",
        wrong: "0.0.0.0/0 via 02:00:00:00:00:02\n192.0.2.0/33 via 02:00:00:00:00:02\n",
        place: "routes:2:1: found prefix length '33'",
    },
    Case {
        nf: "rt",
        file: "hops",
        passing: "192.0.2.0/24 via 10.0.0.2\n",
        dropping: "192.0.2.0/24 blackhole\n",
        reason: "blackhole",
        wrong: "192.0.2.0/24 via 10.0.0.3\n",
        place: "hops:1:18: found 10.0.0.3",
    },
    Case {
        nf: "po",
        file: "classes",
        passing: "class all\nsrtcm cir_bytes_s 1000000000 cbs_bytes 1000000000 ebs_bytes 0\n",
        dropping: "class all\nsrtcm cir_bytes_s 1000000000 cbs_bytes 1000000000 ebs_bytes 0\ngreen drop\n",
        reason: "all_green",
        wrong: "class all\nsrtcm cir_bytes_s 1000000000 cbs_bytes 1000000000 ebs_bytes 0\ngreen fly\n",
        place: "classes:3:7: found 'fly'",
    },
];

fn totals(desk: &Desk, field: &str) -> Vec<u64> {
    let stats = desk.json("stats");
    let of = |value: &Value| value.as_u64().unwrap_or_else(|| crate::command::sum(value));
    CASES
        .iter()
        .map(|case| {
            let chains = stats["chains"].as_array().unwrap();
            of(&chains.iter().find(|c| c["name"] == case.nf).unwrap()["totals"][field])
        })
        .collect()
}

/// Until each chain has a thousand more.
fn until_more(desk: &Desk, run: &mut Running, field: &str) {
    let before = totals(desk, field);
    run.until(&format!("packets are {field}"), || {
        totals(desk, field).iter().zip(&before).all(|(now, before)| *now > before + 1000).then_some(())
    });
}

/// Puts other files in the place of the old ones, and waits until each of them was read.
fn rewrite(desk: &Desk, run: &mut Running, text: fn(&Case) -> &'static str) {
    let inotify = init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).unwrap();
    let mut unread = Vec::new();
    for case in &CASES {
        let new = desk.0.write("new", text(case));
        unread.push(add_watch(&inotify, &new, WatchFlags::CLOSE_NOWRITE).unwrap());
        std::fs::rename(&new, desk.0.path(case.file)).unwrap();
    }
    let mut buffer = [MaybeUninit::uninit(); 1024];
    let mut reader = Reader::new(&inotify, &mut buffer);
    run.until("the files are read", || {
        while let Ok(event) = reader.next() {
            unread.retain(|watch| *watch != event.wd());
        }
        unread.is_empty().then_some(())
    });
}

#[test]
fn files_change_under_load() {
    let desk = Desk::new();
    for case in &CASES {
        desk.0.write(case.file, case.passing);
    }
    let mut run = desk.start(&desk.0.chain_file("chain.yaml", SPEC));
    until_more(&desk, &mut run, "transmitted");
    assert_eq!(totals(&desk, "dropped"), [0; 4], "the first files let all pass");
    rewrite(&desk, &mut run, |case| case.dropping);
    until_more(&desk, &mut run, "dropped");
    let passed = totals(&desk, "transmitted");
    rewrite(&desk, &mut run, |case| case.wrong);
    let words = run.words();
    let told = |case: &Case| {
        let words = std::fs::read_to_string(&words).unwrap();
        let start = format!("  {}: the file of ", case.nf);
        words.lines().filter(|l| l.contains(&start) && l.contains(case.place)).count()
    };
    run.until("each wrong file is told of", || CASES.iter().all(|case| told(case) > 0).then_some(()));
    until_more(&desk, &mut run, "dropped");
    // Once, however often it is looked at.
    assert_eq!(CASES.map(|case| told(&case)), [1; 4], "{}", run.stderr());
    let report = run.finish();
    for (case, passed) in CASES.iter().zip(passed) {
        // No packet passed once one was dropped; none is lost between the two.
        let chain = &report["chains"][case.nf];
        assert_eq!(chain["transmitted"], passed, "{report:#}");
        let dropped = chain["received"].as_u64().unwrap() - passed;
        assert_eq!(chain["dropped"], json!({(case.reason): dropped}), "{report:#}");
        let words = report["nfs"][case.nf]["report"].as_str().unwrap_or_default();
        assert!(words.contains("has changed and is wrong, the last right one is in force: "), "{}: {words}", case.nf);
        assert!(words.contains(case.place), "{}: {words}", case.nf);
    }
}
