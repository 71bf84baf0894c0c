//! The lines of a golden file. Every line is kept as written, so that `UPDATE=1` changes what is wrong only.

use super::GoldenError;
use super::frame;
use crate::PacketMeta;
use std::path::Path;

/// What the frame must look like afterwards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum After {
    /// As it came in.
    Same,
    /// These bytes.
    Bytes(Vec<u8>),
    /// Nobody looks: the packet ends here.
    Any,
}

/// A verdict in words (`next`, `drop no_route`, `divert scrub`, `hold 0`) and the frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Expect {
    pub verdict: String,
    pub after: After,
}

/// One line, with the lines that continue it.
#[derive(Clone, Debug)]
pub(super) enum What {
    /// Blank or comment.
    Nothing,
    Case(String),
    Args(serde_json::Value),
    Targets(Vec<String>),
    Places(usize),
    Burst(bool),
    Meta(PacketMeta),
    Now(u64),
    In(Vec<u8>),
    Out(Expect),
    Released(u32, Expect),
    Tick,
    Counters(Vec<(String, u64)>),
    Held(usize),
    Report(String),
    Error(String),
}

/// A line and its place.
#[derive(Clone, Debug)]
pub(super) struct Item {
    /// From 1.
    pub line: usize,
    /// The text with its newline.
    pub raw: String,
    pub what: What,
}

/// Reads a golden file.
pub(super) fn parse(path: &Path, text: &str) -> Result<Vec<Item>, GoldenError> {
    let mut items = Vec::new();
    for (line, raw) in paragraphs(text) {
        let what = item(raw).map_err(|message| GoldenError::Parse { path: path.to_owned(), line, message })?;
        items.push(Item { line, raw: raw.to_owned(), what });
    }
    Ok(items)
}

/// Lines with their indented continuations; blank lines belong to a continuation that goes on after them.
fn paragraphs(text: &str) -> Vec<(usize, &str)> {
    let (mut found, mut start, mut first, mut at) = (Vec::new(), 0, 1, 0);
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    for (n, line) in lines.iter().enumerate() {
        let indented = |l: &str| l.starts_with([' ', '\t']) && !l.trim().is_empty();
        let goes_on = n > 0
            && (indented(line)
                || line.trim().is_empty()
                    && lines[n..].iter().find(|l| !l.trim().is_empty()).is_some_and(|l| indented(l)));
        if n > 0 && !goes_on {
            found.push((first, &text[start..at]));
            (start, first) = (at, n + 1);
        }
        at += line.len();
    }
    if at > start {
        found.push((first, &text[start..at]));
    }
    found
}

fn item(raw: &str) -> Result<What, String> {
    let text = raw.trim_end();
    if text.is_empty() || text.starts_with('#') {
        return Ok(What::Nothing);
    }
    if strip_comment(text).trim() == "tick" {
        return Ok(What::Tick);
    }
    let Some((key, rest)) = text.split_once(':') else {
        return Err(format!("`{text}`: expected `key: value`, `tick` or a comment"));
    };
    // Words for people may hold a `#`; everything else may have a comment at the end of each line.
    let words: String = rest.lines().map(|l| strip_comment(l).to_owned() + "\n").collect();
    let words = words.trim();
    let number = |s: &str| s.parse::<usize>().map_err(|_| format!("`{key}: {s}`: expected a number"));
    Ok(match key {
        "case" => What::Case(words.to_owned()),
        "args" => What::Args(yaml(rest)?),
        "targets" => What::Targets(yaml(rest)?),
        "places" => What::Places(number(words)?),
        "burst" => What::Burst(yaml(words)?),
        "meta" => What::Meta(meta(words)?),
        "now" => What::Now(duration(words)?),
        "in" => What::In(frame::parse(words)?),
        "out" => What::Out(expect(words)?),
        "released" => {
            let (id, rest) = words.split_once(char::is_whitespace).unwrap_or((words, ""));
            What::Released(number(id)? as u32, expect(rest)?)
        }
        "counters" => {
            let map: serde_json::Map<String, serde_json::Value> = yaml(rest)?;
            let value = |(k, v): (String, serde_json::Value)| match v.as_u64() {
                Some(n) => Ok((k, n)),
                None => Err(format!("counters: `{k}: {v}`: expected a whole number")),
            };
            What::Counters(map.into_iter().map(value).collect::<Result<_, String>>()?)
        }
        "held" => What::Held(number(words)?),
        "report" => What::Report(block(rest)),
        "error" => What::Error(rest.trim().to_owned()),
        _ => {
            return Err(format!(
                "no key `{key}`; there are case, args, targets, places, burst, meta, now, in, out, released, tick, \
                 counters, held, report, error"
            ));
        }
    })
}

fn strip_comment(line: &str) -> &str {
    if line.trim_start().starts_with('#') {
        return "";
    }
    line.find(" #").map_or(line, |at| &line[..at])
}

fn yaml<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_saphyr::from_str(text).map_err(|e| format!("{e}"))
}

/// `verdict`, `verdict = same` or `verdict = frame`; a packet that goes on is `same` unless it says otherwise.
fn expect(words: &str) -> Result<Expect, String> {
    // A frame in layers has `=` too, but never before the first one that stands alone.
    let (verdict, after) = match words.split_once(" =") {
        Some((v, frame)) if frame.trim() != "same" => (v, After::Bytes(frame::parse(frame.trim())?)),
        Some((v, _)) => (v, After::Same),
        None if words.starts_with("drop") => (words, After::Any),
        None => (words, After::Same),
    };
    let verdict = verdict.split_whitespace().collect::<Vec<_>>().join(" ");
    match verdict.split_once(' ').map_or((verdict.as_str(), None), |(k, a)| (k, Some(a))) {
        ("next", None) | ("drop" | "divert" | "hold", Some(_)) => Ok(Expect { verdict, after }),
        _ => Err(format!("verdict `{verdict}`: expected next, drop REASON, divert TARGET or hold ID")),
    }
}

fn duration(text: &str) -> Result<u64, String> {
    let wrong = || format!("`now: {text}`: expected a time such as 250us, 10ms or 1.5s");
    let unit = text.find(|c: char| c.is_ascii_alphabetic()).ok_or_else(wrong)?;
    let scale = match &text[unit..] {
        "ns" => 1.0,
        "us" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        _ => return Err(wrong()),
    };
    let n: f64 = text[..unit].trim().parse().map_err(|_| wrong())?;
    let ns = n * scale;
    if (0.0..1e18).contains(&ns) { Ok(ns.round() as u64) } else { Err(wrong()) }
}

fn meta(text: &str) -> Result<PacketMeta, String> {
    let mut meta = PacketMeta::default();
    for word in text.split_whitespace() {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        let n = value.strip_prefix("0x").map_or_else(|| value.parse().ok(), |h| u32::from_str_radix(h, 16).ok());
        let n = n.ok_or_else(|| format!("`meta: {word}`: expected chain=N, hop=N or hash=N"))?;
        let range = |_| format!("`meta: {word}`: too large");
        match key {
            "chain" => meta.chain = n.try_into().map_err(range)?,
            "hop" => meta.hop = n.try_into().map_err(range)?,
            "hash" => meta.flow_hash = n,
            _ => return Err(format!("`meta: {word}`: expected chain=N, hop=N or hash=N")),
        }
    }
    Ok(meta)
}

/// Text on the same line, or indented below; the indentation of the first line goes.
fn block(rest: &str) -> String {
    let first = rest.trim();
    if !rest.contains('\n') {
        return first.to_owned();
    }
    let body = rest.split_once('\n').map_or("", |(_, b)| b);
    let indent = body.len() - body.trim_start_matches([' ', '\t']).len();
    body.lines().map(|l| l.get(indent..).unwrap_or_default().trim_end()).collect::<Vec<_>>().join("\n")
}
