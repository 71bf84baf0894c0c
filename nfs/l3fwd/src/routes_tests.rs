use super::*;
use proptest::prelude::*;

fn routes(declared: u32) -> Routes {
    let hop = |i: u32| Rewrite { dst: Mac([2, 0, 0, 0, 0, i as u8]), src: None };
    Routes { declared, hops: (0..declared).map(hop).collect(), ..Routes::default() }
}

fn read(text: &str, format: Format, declared: u32) -> Result<Routes, Error> {
    let mut r = routes(declared);
    r.file(Path::new("r"), format, text.as_bytes())?;
    Ok(r)
}

#[test]
fn both_formats_are_read() {
    let text =
        "# to the edge\n10.0.0.0/8 via 02:00:00:00:00:09 src 02:00:00:00:00:0a\n\n2001:db8::/32 1 # x\n0.0.0.0/0 0\n";
    let r = read(text, Format::Native, 2).unwrap();
    assert_eq!(r.v4.iter().map(|r| (r.bits, r.depth, r.hop)).collect::<Vec<_>>(), [(0x0a00_0000, 8, 2), (0, 0, 0)]);
    assert_eq!(r.v6.iter().map(|r| (r.bits >> 96, r.depth, r.hop)).collect::<Vec<_>>(), [(0x2001_0db8, 32, 1)]);
    assert_eq!(r.hops[2], Rewrite { dst: Mac([2, 0, 0, 0, 0, 9]), src: Some(Mac([2, 0, 0, 0, 0, 10])) });
    let r = read("; IP-ASN32-DAT file\n1.0.0.0/24\t15169\n", Format::Pyasn, 4).unwrap();
    assert_eq!((r.v4[0].bits, r.v4[0].hop), (0x0100_0000, 15169 % 4));
}

#[test]
fn equal_next_hops_are_one() {
    let r = read("1.0.0.0/8 via 02::1\n", Format::Native, 0);
    assert!(r.is_err());
    let line = |p: &str| format!("{p} via 02:00:00:00:00:01\n");
    let r = read(&(line("1.0.0.0/8") + &line("2.0.0.0/8")), Format::Native, 0).unwrap();
    assert_eq!(r.hops.len(), 1);
}

#[test]
fn faults_say_where_and_what() {
    for (text, place, message) in [
        ("10.0.0.0 0", "r:1:1", "found '10.0.0.0', expected a prefix"),
        ("\n 10.0.0.0/33 0", "r:2:2", "found prefix length '33', expected 0 to 32"),
        ("10.0.0.1/8 0", "r:1:1", "expected 10.0.0.0/8"),
        ("10.0.0.0/8", "r:1:11", "the line ends, expected 'via'"),
        ("10.0.0.0/8 2", "r:1:12", "expected 'via' or a number from 0 to 1"),
        ("10.0.0.0/8 via", "r:1:15", "expected a hardware address"),
        ("10.0.0.0/8 via 02:03", "r:1:16", "found '02:03', expected a hardware address"),
        ("10.0.0.0/8 via 02:00:00:00:00:01 dev", "r:1:34", "expected 'src' or the end"),
        ("10.0.0.0/8 0 0", "r:1:14", "expected the end of the line"),
    ] {
        let error = read(text, Format::Native, 2).unwrap_err().to_string();
        assert!(error.starts_with(place) && error.contains(message), "{text}: {error}");
    }
    let long = "1".repeat(5000);
    assert!(read(&long, Format::Native, 0).unwrap_err().to_string().contains("longer than 1024 bytes"));
    let error = routes(1).file(Path::new("r"), Format::Native, &b"1.0.0.0/8 \xff"[..]).unwrap_err().to_string();
    assert!(error.starts_with("r:1:11: found bytes"), "{error}");
}

#[test]
fn a_prefix_twice_is_refused() {
    let mut r = read("1.0.0.0/8 0\n2.0.0.0/8 0\n1.0.0.0/8 1\n", Format::Native, 2).unwrap();
    let error = sort(&mut r.v4, Path::new("r"), |b| Ipv4Addr::from(b).to_string()).unwrap_err().to_string();
    assert_eq!(error, "r:3:1: 1.0.0.0/8 is there already, in line 1");
}

#[test]
fn groups_are_counted() {
    let mut r = read("1.0.0.0/24 0\n1.0.0.0/25 0\n1.0.0.128/26 0\n1.0.1.0/32 0\n", Format::Native, 1).unwrap();
    sort(&mut r.v4, Path::new(""), |_| String::new()).unwrap();
    assert_eq!(r.v4_tbl8s(), 2);
    // /32 under nothing: 1; /48 inside: 2 more; another /33 elsewhere: 2; /20: none.
    let mut r = read("2001::/32 0\n2001:0:1::/48 0\n3001::/33 0\n4000::/20 0\n", Format::Native, 1).unwrap();
    sort(&mut r.v6, Path::new(""), |_| String::new()).unwrap();
    assert_eq!(r.v6_tbl8s(), 5);
}

proptest! {
    #[test]
    fn no_line_makes_the_reader_panic(text in "[ -~\té]{0,60}", start in 0usize..3) {
        let start = ["", "1.2.3.0/24 ", "1.2.3.0/24 via 02:00:00:00:00:01 "][start];
        let line = format!("{start}{text}");
        if let Err(f) = routes(1).line(&line, Format::Native, Place::Line(1)) {
            prop_assert!(f.column >= 1 && f.column <= line.len() + 1);
        }
    }
}
