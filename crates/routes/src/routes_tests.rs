use super::*;
use proptest::prelude::*;

/// Lines of a prefix and a number.
fn number(_: &Prefix, words: &mut Words<'_>) -> Result<u32, Fault> {
    let word = words.expect("a number")?;
    crate::digits(word.text).ok_or_else(|| word.fault("expected a number"))
}

fn read(text: &[u8]) -> Result<Routes, Error> {
    let mut routes = Routes::default();
    routes.read_lines(Path::new("r"), text, &mut number)?;
    routes.sort(Path::new("r"))?;
    Ok(routes)
}

#[test]
fn routes_are_sorted_and_comments_left_out() {
    let r = read(b"# all\n10.1.0.0/16 1\n\n10.0.0.0/8 2 ; eight\n::/0 3").unwrap();
    assert_eq!(
        r.v4.iter().map(|r| (r.bits, r.depth, r.hop)).collect::<Vec<_>>(),
        [(10 << 24, 8, 2), (2561 << 16, 16, 1)]
    );
    assert_eq!((r.v6[0].depth, r.v6[0].place), (0, Place::Line(5)));
}

#[test]
fn faults_say_where_and_what() {
    for (text, expected) in [
        (&b"10.0.0.0 0"[..], "r:1:1: found '10.0.0.0', expected a prefix"),
        (b"\n 10.0.0.0/33 0", "r:2:2: found prefix length '33', expected 0 to 32"),
        (b"10.0.0.1/8 0", "r:1:1: 10.0.0.1/8 has bits set beyond its length, expected 10.0.0.0/8"),
        (b"10.0.0.0/8 # 0", "r:1:11: the line ends, expected a number"),
        (b"10.0.0.0/8 0 0", "r:1:14: found '0', expected the end of the line"),
        (b"1.0.0.0/8 \xff", "r:1:11: found bytes that are not UTF-8"),
        (b"1.0.0.0/8 0\n2.0.0.0/8 0\n1.0.0.0/8 1\n", "r:3:1: 1.0.0.0/8 is there already, in line 1"),
        (&[b'1'; 5000], "r:1:1: the line is longer than 1024 bytes"),
    ] {
        let error = read(text).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
    }
}

#[test]
fn a_prefix_of_the_arguments_is_there_before_lines() {
    let mut r = Routes::default();
    let prefix: Prefix = "1.0.0.0/8".parse().unwrap();
    r.read_inline(&["1.0.0.0/8 1".into()], &mut number).unwrap();
    r.push(prefix, 0, Place::Given("interfaces"));
    let error = r.sort(Path::new("")).unwrap_err().to_string();
    assert_eq!(error, "args.routes_inline[0]: 1.0.0.0/8 is there already, in interfaces");
    let mut r = Routes::default();
    r.push(prefix, 0, Place::Given("interfaces"));
    r.push(prefix, 1, Place::Given("neighbours"));
    let error = r.sort(Path::new("")).unwrap_err().to_string();
    assert_eq!(error, "args.neighbours: 1.0.0.0/8 is there already, in interfaces");
}

#[test]
fn groups_are_counted() {
    let r = read(b"1.0.0.0/24 0\n1.0.0.0/25 0\n1.0.0.128/26 0\n1.0.1.0/32 0\n").unwrap();
    assert_eq!(r.v4_tbl8s(), 2);
    // /32 under nothing: 1; /48 inside: 2 more; another /33 elsewhere: 2; /20: none.
    let r = read(b"2001::/32 0\n2001:0:1::/48 0\n3001::/33 0\n4000::/20 0\n").unwrap();
    assert_eq!(r.v6_tbl8s(), 5);
}

proptest! {
    #[test]
    fn no_line_makes_the_reader_panic(text in "[ -~\té]{0,60}", start in 0usize..3) {
        let start = ["", "1.2.3.0/24 ", "1.2.3.0/24 7 "][start];
        let line = format!("{start}{text}");
        if let Err(f) = Routes::default().line(&line, Place::Line(1), &mut number) {
            prop_assert!(f.column >= 1 && f.column <= line.len() + 1);
        }
    }
}
