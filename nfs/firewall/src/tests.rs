use crate::rules::{Action, Line, Masked, Prefix, parse_line};

fn rule(text: &str) -> crate::rules::Rule {
    match parse_line(text) {
        Ok(Some(Line::Rule(rule, _))) => rule,
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn readable_rules_are_read() {
    let r = rule("allow tcp from 10.0.0.0/8 port 1024-65535 to any port 80,443,8000-8080 flags S/SA # web");
    assert_eq!((r.proto.value, r.src, r.dst), (6, Prefix::V4(0x0a00_0000, 8), Prefix::Any));
    assert_eq!(r.src_ports, [(1024, 65535)]);
    assert_eq!(r.dst_ports, [(80, 80), (443, 443), (8000, 8080)]);
    assert_eq!(r.detail, Masked { value: 0x0200, mask: 0x1200 });
    let r = rule("deny icmp6 from 2001:db8::/32 type 128 code 0");
    assert_eq!((r.proto.value, r.src), (58, Prefix::V6(0x2001_0db8 << 96, 32)));
    assert_eq!(r.detail, Masked { value: 0x8000, mask: 0xffff });
    assert_eq!(rule("deny icmp").src, Prefix::V4(0, 0));
    assert_eq!(rule("deny to 1.2.3.4").dst, Prefix::V4(0x0102_0304, 32));
    assert_eq!(rule("allow proto 89").proto, Masked { value: 89, mask: 0xff });
    assert_eq!(parse_line("default deny"), Ok(Some(Line::Default(Action::Deny))));
    assert_eq!(parse_line("  # nothing"), Ok(None));
}

#[test]
fn classbench_rules_are_read() {
    let r = rule("@37.184.89.217/29\t37.184.85.16/29\t0 : 65535\t1024 : 65535\t0x11/0xFF\t0x0200/0x1200\t");
    assert_eq!((r.src, r.dst), (Prefix::V4(0x25b8_59d8, 29), Prefix::V4(0x25b8_5510, 29)));
    assert!(r.src_ports.is_empty());
    assert_eq!(r.dst_ports, [(1024, 65535)]);
    assert_eq!((r.proto, r.detail), (Masked { value: 0x11, mask: 0xff }, Masked { value: 0x200, mask: 0x1200 }));
    let r = rule("@9baa:cead:8000:0000:e300:00ff:fe04:c5a8/33 ::/0 0 : 65535 1526 : 1526 0/0");
    assert_eq!((r.src, r.dst), (Prefix::V6(0x9baa_cead_8000_0000 << 64, 33), Prefix::V6(0, 0)));
}

#[test]
fn faults_say_where_and_what() {
    for (text, column, message) in [
        ("permit any", 1, "found 'permit', expected 'allow', 'deny' or 'default'"),
        ("allow", 6, "the line ends, expected 'any'"),
        ("allow foo", 7, "found 'foo'"),
        ("allow tcp from 10.0.0.1/8", 16, "10.0.0.1/8 has bits set beyond its length, expected 10.0.0.0/8"),
        ("allow tcp from 10.0.0.0/33", 16, "found prefix length '33', expected 0 to 32"),
        ("allow tcp from 10.0.0.0/+8", 16, "found prefix length '+8'"),
        ("allow any to any port 80", 18, "name one of them"),
        ("allow tcp to any port 80,99999", 26, "found '99999'"),
        ("allow tcp to any port 90-80", 23, "the lower port first"),
        ("allow tcp from 10.0.0.1 to ::1", 25, "different IP versions"),
        ("deny icmp from ::1", 11, "icmp is IPv4's"),
        ("deny udp flags S", 10, "which only tcp has"),
        ("deny tcp flags S/A", 16, "found 'S/A'"),
        ("deny icmp code 3", 11, "behind 'type'"),
        ("default", 8, "the line ends, expected 'allow' or 'deny'"),
        ("default allow 3", 15, "the end of the line"),
        ("@1.2.3.4/32 1.2.3.4/32 0 : 65536 0 : 1 0/0", 28, "found '65536'"),
        ("@1.2.3.4/32 1.2.3.4/32 5 : 4 0 : 1 0/0", 28, "the lower port first"),
        ("@1.2.3.4/32 1.2.3.4/32 0 - 4 0 : 1 0/0", 26, "found '-', expected ':'"),
        ("@1.2.3.4/32 1.2.3.4/32 0 : 4 0 : 1 0x06/0x1FF", 36, "found '0x06/0x1FF'"),
        ("@1.2.3.4/32", 12, "expected a destination prefix"),
        ("@x 1.2.3.4/32", 2, "found 'x'"),
    ] {
        let fault = parse_line(text).expect_err(text);
        assert!(fault.message.contains(message), "{text}: {}", fault.message);
        assert_eq!(fault.column, column, "{text}: {}", fault.message);
    }
}

proptest::proptest! {
    #[test]
    fn no_line_makes_the_reader_panic(text in "[ -~é]{0,60}", start in 0usize..4) {
        let start = ["", "@1.2.3.4/32 ", "allow tcp from ", "deny icmp type "][start];
        if let Err(fault) = parse_line(&format!("{start}{text}")) {
            assert!(fault.column >= 1 && fault.column <= start.len() + text.len() + 1);
        }
    }
}
