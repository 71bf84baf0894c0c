//! The file of classes: reading it. Its words are those of the arguments.
//!
//! ```text
//! class voice
//! match proto udp dst_ports 5060,16384-32767 dscp 46
//! srtcm cir_bytes_s 12500000 cbs_bytes 150000 ebs_bytes 0
//! red dscp 10
//! class slow
//! match src 2001:db8::/32
//! shaper rate_bytes_s 1000000 burst_bytes 150000
//! ```

use crate::classes::{Match, Ports, Proto, ProtoName, prefix};
use crate::config::{Action, Aware, ClassArgs, MeterArgs, Per, ShaperArgs, check_name, queue_packets};
use chainline_nf::Error;
use chainline_nf::words::{Fault, Word, Words};
use std::io::Read;
use std::path::Path;

/// The most bytes of a file: what is no file of classes must not fill the memory.
const MAX_FILE: u64 = 1 << 20;

/// Reads a file: classes, each with its line.
pub(crate) fn read(path: &Path) -> Result<Vec<(usize, ClassArgs)>, Error> {
    let cannot = |source| Error::Read { path: path.to_owned(), source };
    let mut text = String::new();
    std::fs::File::open(path).and_then(|f| f.take(MAX_FILE + 1).read_to_string(&mut text)).map_err(cannot)?;
    if text.len() as u64 > MAX_FILE {
        return Err(Error::at(path, 1, 1, format!("the file has more than {MAX_FILE} bytes")));
    }
    parse(&text).map_err(|(line, fault)| Error::at(path, line, fault.column, fault.message))
}

/// Reads a text; a fault comes with its line.
pub(crate) fn parse(text: &str) -> Result<Vec<(usize, ClassArgs)>, (usize, Fault)> {
    let mut file = File::default();
    for (i, line) in text.lines().enumerate() {
        let mut words = Words::new(line.split('#').next().unwrap_or_default());
        file.line(&mut words, i + 1).map_err(|fault| (i + 1, fault))?;
        if let Some(word) = words.next() {
            return Err((i + 1, word.fault(format!("found '{}', expected the end of the line", word.text))));
        }
    }
    Ok(file.classes)
}

#[derive(Default)]
struct File {
    classes: Vec<(usize, ClassArgs)>,
    /// What has been said of the last class.
    said: Vec<String>,
}

const LINES: &str = "class, match, per, srtcm, trtcm, shaper, aware, green, yellow or red";

impl File {
    fn line(&mut self, words: &mut Words<'_>, number: usize) -> Result<(), Fault> {
        let Some(first) = words.next() else { return Ok(()) };
        if first.text == "class" {
            let name = words.expect("a name")?;
            check_name(name.text).map_err(|why| name.fault(why))?;
            self.said.clear();
            self.classes.push((number, ClassArgs::named(name.text)));
            return Ok(());
        }
        let Some((_, class)) = self.classes.last_mut() else {
            return Err(first.fault(format!("found '{}' before the first class", first.text)));
        };
        if self.said.iter().any(|word| word == first.text) {
            return Err(first.fault(format!("the class has '{}' already, expected it once", first.text)));
        }
        self.said.push(first.text.to_owned());
        match first.text {
            "match" => class.matches = matches(words)?,
            "per" => {
                let word = words.expect("class or flow")?;
                class.per = match word.text {
                    "class" => Per::Class,
                    "flow" => Per::Flow,
                    found => return Err(word.fault(format!("found '{found}', expected class or flow"))),
                };
            }
            "srtcm" | "trtcm" if class.meter.is_some() => {
                return Err(first.fault("the class has a meter already, expected one"));
            }
            "srtcm" => {
                let [cir_bytes_s, cbs_bytes, ebs_bytes] = all(words, ["cir_bytes_s", "cbs_bytes", "ebs_bytes"])?;
                class.meter = Some(MeterArgs::SrTcm { cir_bytes_s, cbs_bytes, ebs_bytes });
            }
            "trtcm" => {
                let names = ["cir_bytes_s", "cbs_bytes", "pir_bytes_s", "pbs_bytes"];
                let [cir_bytes_s, cbs_bytes, pir_bytes_s, pbs_bytes] = all(words, names)?;
                class.meter = Some(MeterArgs::TrTcm { cir_bytes_s, cbs_bytes, pir_bytes_s, pbs_bytes });
            }
            "shaper" => class.shaper = Some(shaper(words)?),
            "aware" => {
                let mut aware = Aware::default();
                while let Some(word) = words.next() {
                    match word.text {
                        "yellow" => aware.yellow = list(words.expect("DSCP values")?, dscp)?,
                        "red" => aware.red = list(words.expect("DSCP values")?, dscp)?,
                        found => return Err(word.fault(format!("found '{found}', expected yellow or red"))),
                    }
                }
                class.aware = Some(aware);
            }
            "green" => class.green = Some(action(words)?),
            "yellow" => class.yellow = Some(action(words)?),
            "red" => class.red = Some(action(words)?),
            found => return Err(first.fault(format!("found '{found}', expected {LINES}"))),
        }
        Ok(())
    }
}

fn matches(words: &mut Words<'_>) -> Result<Match, Fault> {
    let mut found = Match::default();
    while let Some(word) = words.next() {
        match word.text {
            "src" => found.src = Some(address(words)?),
            "dst" => found.dst = Some(address(words)?),
            "proto" => found.proto = Some(proto(words.expect("a protocol")?)?),
            "src_ports" => found.src_ports = list(words.expect("ports")?, ports)?,
            "dst_ports" => found.dst_ports = list(words.expect("ports")?, ports)?,
            "dscp" => found.dscp = list(words.expect("DSCP values")?, dscp)?,
            other => {
                let expected = "expected src, dst, proto, src_ports, dst_ports or dscp";
                return Err(word.fault(format!("found '{other}', {expected}")));
            }
        }
    }
    Ok(found)
}

fn address(words: &mut Words<'_>) -> Result<String, Fault> {
    let word = words.expect("an address or a prefix")?;
    prefix(word.text).map_err(|why| word.fault(why))?;
    Ok(word.text.to_owned())
}

fn proto(word: Word<'_>) -> Result<Proto, Fault> {
    Ok(Proto::Named(match word.text {
        "tcp" => ProtoName::Tcp,
        "udp" => ProtoName::Udp,
        "sctp" => ProtoName::Sctp,
        "icmp" => ProtoName::Icmp,
        "icmp6" => ProtoName::Icmp6,
        text => {
            let number = digits(text).and_then(|n| u8::try_from(n).ok()).map(Proto::Number);
            let expected = "expected tcp, udp, sctp, icmp, icmp6 or a number from 0 to 255";
            return number.ok_or_else(|| word.fault(format!("found '{text}', {expected}")));
        }
    }))
}

/// Reads `a,b,c`.
fn list<T>(word: Word<'_>, one: fn(&str) -> Result<T, String>) -> Result<Vec<T>, Fault> {
    let mut column = word.column;
    let mut found = Vec::new();
    for part in word.text.split(',') {
        found.push(one(part).map_err(|why| Fault::new(column, why))?);
        column += part.len() + 1;
    }
    Ok(found)
}

fn ports(part: &str) -> Result<Ports, String> {
    let port = |text: &str| digits(text).and_then(|n| u16::try_from(n).ok());
    let (low, high) = part.split_once('-').unwrap_or((part, part));
    match (port(low), port(high)) {
        (Some(low), Some(high)) if low == high => Ok(Ports::One(low)),
        (Some(low), Some(high)) if low < high => Ok(Ports::Range([low, high])),
        _ => Err(format!("found '{part}', expected a port or a range like 8000-8099")),
    }
}

fn dscp(part: &str) -> Result<u8, String> {
    let value = digits(part).filter(|n| *n <= 63);
    value.map(|n| n as u8).ok_or_else(|| format!("found '{part}', expected a DSCP from 0 to 63"))
}

fn action(words: &mut Words<'_>) -> Result<Action, Fault> {
    let word = words.expect("pass, drop or dscp")?;
    match word.text {
        "pass" => Ok(Action::Pass),
        "drop" => Ok(Action::Drop),
        "dscp" => {
            let word = words.expect("a DSCP from 0 to 63")?;
            dscp(word.text).map(Action::Dscp).map_err(|why| word.fault(why))
        }
        found => Err(word.fault(format!("found '{found}', expected pass, drop or dscp"))),
    }
}

fn shaper(words: &mut Words<'_>) -> Result<ShaperArgs, Fault> {
    let names = ["rate_bytes_s", "burst_bytes", "queue_packets"];
    let [rate, burst, queue] = some(words, names)?;
    let needed = |value: Option<u64>, name, words: &mut Words<'_>| value.map_or_else(|| Err(missing(words, name)), Ok);
    Ok(ShaperArgs {
        rate_bytes_s: needed(rate, names[0], words)?,
        burst_bytes: needed(burst, names[1], words)?,
        // What is too many is refused with the rest.
        queue_packets: queue.map_or_else(queue_packets, |n| u32::try_from(n).unwrap_or(u32::MAX)),
    })
}

/// Reads numbers behind their names, in any order.
fn some<const N: usize>(words: &mut Words<'_>, names: [&str; N]) -> Result<[Option<u64>; N], Fault> {
    let mut values = [None; N];
    while let Some(word) = words.next() {
        let Some(at) = names.iter().position(|name| *name == word.text) else {
            return Err(word.fault(format!("found '{}', expected one of {}", word.text, names.join(", "))));
        };
        let word = words.expect("a number")?;
        let number =
            digits(word.text).ok_or_else(|| word.fault(format!("found '{}', expected a number", word.text)))?;
        values[at] = Some(number);
    }
    Ok(values)
}

/// As [`some`], and all of them.
fn all<const N: usize>(words: &mut Words<'_>, names: [&str; N]) -> Result<[u64; N], Fault> {
    let values = some(words, names)?;
    match values.iter().position(Option::is_none) {
        Some(at) => Err(missing(words, names[at])),
        None => Ok(values.map(Option::unwrap_or_default)),
    }
}

fn missing(words: &mut Words<'_>, name: &str) -> Fault {
    words.expect(name).map_or_else(|fault| fault, |word| word.fault(format!("expected {name}")))
}

/// Digits only: `parse` alone would take a `+`.
fn digits(text: &str) -> Option<u64> {
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_read() {
        let text = "# edge\nclass voice # phones\nmatch src 10.0.0.0/8 proto udp dst_ports 5060,8000-8099 dscp 46,34\n\
            per flow\naware red 14\ntrtcm pir_bytes_s 2 cir_bytes_s 1 cbs_bytes 3 pbs_bytes 4\nyellow dscp 12\n\n\
            class slow\nshaper rate_bytes_s 1000 burst_bytes 1500\n";
        let classes = parse(text).unwrap();
        let [(2, voice), (9, slow)] = &classes[..] else { panic!("{classes:?}") };
        assert_eq!((voice.name.as_str(), voice.per, voice.yellow), ("voice", Per::Flow, Some(Action::Dscp(12))));
        assert_eq!(voice.matches.dst_ports, [Ports::One(5060), Ports::Range([8000, 8099])]);
        assert_eq!((&voice.matches.dscp[..], voice.matches.src.as_deref()), (&[46, 34][..], Some("10.0.0.0/8")));
        assert!(matches!(
            voice.meter,
            Some(MeterArgs::TrTcm { cir_bytes_s: 1, cbs_bytes: 3, pir_bytes_s: 2, pbs_bytes: 4 })
        ));
        let aware = voice.aware.as_ref().unwrap();
        assert_eq!((&aware.yellow[..], &aware.red[..]), (&[12, 20, 28, 36][..], &[14][..]));
        assert_eq!(slow.shaper.unwrap().queue_packets, 1000);
    }

    #[test]
    fn faults_say_where_and_what() {
        for (text, line, column, why) in [
            ("per flow", 1, 1, "found 'per' before the first class"),
            ("class", 1, 6, "the line ends, expected a name"),
            ("class A", 1, 7, "found 'A', expected 1 to 32 lower-case letters"),
            ("class a b", 1, 9, "found 'b', expected the end of the line"),
            ("class a\nmeter", 2, 1, "found 'meter', expected class, match, per"),
            ("class a\nmatch src 10.0.0.1/8", 2, 11, "10.0.0.1/8 has bits set"),
            ("class a\nmatch to 1", 2, 7, "found 'to', expected src, dst"),
            ("class a\nmatch dst_ports 80,9-8", 2, 20, "found '9-8', expected a port"),
            ("class a\nmatch dscp 1,64", 2, 14, "found '64', expected a DSCP"),
            ("class a\nmatch proto gre", 2, 13, "found 'gre', expected tcp"),
            ("class a\nper host", 2, 5, "found 'host', expected class or flow"),
            ("class a\nsrtcm cir_bytes_s 1 cbs_bytes 2", 2, 32, "the line ends, expected ebs_bytes"),
            ("class a\nsrtcm cir_bytes_s +1", 2, 19, "found '+1', expected a number"),
            ("class a\nsrtcm rate 1", 2, 7, "found 'rate', expected one of cir_bytes_s, cbs_bytes, ebs_bytes"),
            ("class a\nshaper burst_bytes 1", 2, 21, "the line ends, expected rate_bytes_s"),
            ("class a\nred dscp", 2, 9, "the line ends, expected a DSCP"),
            ("class a\nred stop", 2, 5, "found 'stop', expected pass, drop or dscp"),
            ("class a\nred drop\nred pass", 3, 1, "the class has 'red' already"),
        ] {
            let (at, fault) = parse(text).expect_err(text);
            assert_eq!((at, fault.column), (line, column), "{text}: {}", fault.message);
            assert!(fault.message.starts_with(why), "{text}: {}", fault.message);
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_the_reader_panic(text in "[ -~\té\n]{0,80}", start in 0usize..4) {
            let start = ["", "class a\nmatch ", "class a\nsrtcm ", "class a\nshaper rate_bytes_s "][start];
            let _either = parse(&format!("{start}{text}"));
        }
    }
}
