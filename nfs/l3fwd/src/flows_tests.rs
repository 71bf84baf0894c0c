use super::*;
use crate::config::Rewrite;
use chainline_packet::ether::Mac;
use proptest::prelude::*;

fn hops(declared: u32) -> Hops {
    Hops::new((0..declared).map(|i| Rewrite { dst: Mac([2, 0, 0, 0, 0, i as u8]), src: None }).collect())
}

fn args(lines: &[&str]) -> Args {
    serde_json::from_value(serde_json::json!({"flows_inline": lines})).unwrap()
}

fn read(line: &str) -> Result<Flows, String> {
    Flows::read(&args(&[line]), None, &mut hops(2)).map_err(|e| e.to_string())
}

#[test]
fn flows_are_read() {
    let lines = [
        "# all",
        "tcp 10.0.0.1:1024 192.0.2.1:80 1 # web",
        "17 [2001:db8::1]:53 [2001:db8::2]:1000 via 02:00:00:00:00:09 src 02:00:00:00:00:0a",
        "89 10.0.0.1 10.0.0.2 0",
        "",
    ];
    let mut hops = hops(2);
    let flows = Flows::read(&args(&lines), None, &mut hops).unwrap();
    let tcp = FiveTuple::v4([10, 0, 0, 1].into(), [192, 0, 2, 1].into(), 1024, 80, 6);
    let ospf = FiveTuple::v4([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), 0, 0, 89);
    let (a, b) = ("2001:db8::1".parse().unwrap(), "2001:db8::2".parse().unwrap());
    assert_eq!(flows.v4, [(v4_key(&tcp), 1), (v4_key(&ospf), 0)]);
    assert_eq!(flows.v6, [(v6_key(&FiveTuple::v6(a, b, 53, 1000, 17)), 2)]);
    assert_eq!(hops.all[2].src, Some(Mac([2, 0, 0, 0, 0, 10])));
}

#[test]
fn faults_say_where_and_what() {
    for (line, column, why) in [
        ("gre 1.1.1.1 2.2.2.2 0", 1, "found 'gre', expected tcp, udp, sctp or a number to 255"),
        ("256 1.1.1.1 2.2.2.2 0", 1, "found '256'"),
        ("tcp", 4, "the line ends, expected a source"),
        ("tcp 1.1.1.1:1", 14, "the line ends, expected a destination"),
        ("tcp 1.1.1.1 2.2.2.2:1 0", 5, "found '1.1.1.1', expected an address with a port"),
        ("tcp 1.1.1.1:0 2.2.2.2:1 0", 5, "found '1.1.1.1:0', expected an address with a port"),
        ("47 1.1.1.1:1 2.2.2.2 0", 4, "found '1.1.1.1:1', expected an address: the protocol has no ports"),
        ("tcp 1.1.1.1:1 [::1]:1 0", 15, "found ::1, expected an address of the source's IP version"),
        ("tcp 1.1.1.1:1 2.2.2.2:1", 24, "the line ends, expected 'via' or the number of a next hop"),
        ("tcp 1.1.1.1:1 2.2.2.2:1 2", 25, "found '2', expected 'via' or a number from 0 to 1"),
        ("tcp 1.1.1.1:1 2.2.2.2:1 0 0", 27, "found '0', expected the end of the line"),
    ] {
        let expected = format!("args.flows_inline[0]: column {column}: {why}");
        let error = read(line).expect_err(line);
        assert!(error.starts_with(&expected), "{line}: {error}");
    }
    let twice = args(&["17 1.1.1.1:1 2.2.2.2:2 0", "udp 1.1.1.1:1 2.2.2.2:2 1"]);
    let error = Flows::read(&twice, None, &mut hops(2)).unwrap_err().to_string();
    assert_eq!(error, "args.flows_inline[1]: column 1: the flow is there already, in flows_inline[0]");
}

#[test]
fn each_flow_is_found_and_no_other() {
    let flow = |i: u32| FiveTuple::v4(i.to_be_bytes().into(), [9; 4].into(), 1, 2, 17);
    let mut flows = Flows::default();
    for i in 0..10_000 {
        flows.push(&flow(i), i % 77).unwrap();
    }
    let exact = Exact::new(&flows).unwrap();
    assert_eq!((exact.asks(), flows.len()), ((true, false), (10_000, 0)));
    let (mut v4, mut v6) = (Waiting::new(), Waiting::new());
    for first in (0..12_000).step_by(240) {
        v4.len = 0;
        (0..240).for_each(|i| v4.push(i, 14, v4_key(&flow(first + i as u32))));
        exact.look_up(&mut v4, &mut v6);
        for (i, hop) in (first..).zip(&v4.hop[..240]) {
            assert_eq!(*hop, if i < 10_000 { i % 77 } else { NONE });
        }
    }
}

proptest! {
    #[test]
    fn no_line_makes_the_reader_panic(text in "[ -~\té]{0,60}", start in 0usize..3) {
        let start = ["", "tcp 1.2.3.4:5 ", "udp [::1]:53 [::2]:53 via "][start];
        let _either = read(&format!("{start}{text}"));
    }
}
