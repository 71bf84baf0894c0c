use super::*;
use chainline_routes::Routes;
use proptest::prelude::*;

fn hops(declared: u32) -> Hops {
    Hops::new((0..declared).map(|i| Rewrite { dst: Mac([2, 0, 0, 0, 0, i as u8]), src: None }).collect())
}

fn read(text: &str, format: Format, declared: u32) -> Result<(Routes, Hops), Error> {
    let (mut routes, mut hops) = (Routes::default(), hops(declared));
    routes.read_lines(Path::new("r"), text.as_bytes(), &mut |_, words| hops.read(format, words))?;
    Ok((routes, hops))
}

#[test]
fn both_formats_are_read() {
    let text =
        "# to the edge\n10.0.0.0/8 via 02:00:00:00:00:09 src 02:00:00:00:00:0a\n\n2001:db8::/32 1 # x\n0.0.0.0/0 0\n";
    let (r, hops) = read(text, Format::Native, 2).unwrap();
    assert_eq!(r.v4.iter().map(|r| (r.bits, r.depth, r.hop)).collect::<Vec<_>>(), [(0x0a00_0000, 8, 2), (0, 0, 0)]);
    assert_eq!(r.v6.iter().map(|r| (r.bits >> 96, r.depth, r.hop)).collect::<Vec<_>>(), [(0x2001_0db8, 32, 1)]);
    assert_eq!(hops.all[2], Rewrite { dst: Mac([2, 0, 0, 0, 0, 9]), src: Some(Mac([2, 0, 0, 0, 0, 10])) });
    let (r, _) = read("; IP-ASN32-DAT file\n1.0.0.0/24\t15169\n", Format::Pyasn, 4).unwrap();
    assert_eq!((r.v4[0].bits, r.v4[0].hop), (0x0100_0000, 15169 % 4));
}

#[test]
fn equal_next_hops_are_one() {
    let r = read("1.0.0.0/8 via 02::1\n", Format::Native, 0);
    assert!(r.is_err());
    let line = |p: &str| format!("{p} via 02:00:00:00:00:01\n");
    let (_, hops) = read(&(line("1.0.0.0/8") + &line("2.0.0.0/8")), Format::Native, 0).unwrap();
    assert_eq!(hops.all.len(), 1);
}

#[test]
fn faults_say_where_and_what() {
    for (text, place, message) in [
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
}

proptest! {
    #[test]
    fn no_line_makes_the_reader_panic(text in "[ -~\té]{0,60}", start in 0usize..3) {
        let start = ["", "1.2.3.0/24 ", "1.2.3.0/24 via 02:00:00:00:00:01 "][start];
        let line = format!("{start}{text}");
        if let Err(e) = read(&line, Format::Native, 0) {
            prop_assert!(e.to_string().starts_with("r:1:"), "{e}");
        }
    }
}
