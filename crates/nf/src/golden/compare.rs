//! What a case expects against what was seen: messages with the bytes that differ, and the corrected file.

use super::frame;
use super::host::{Played, Seen};
use super::script::{After, Expect, Item, What};
use std::fmt::Write as _;

/// A line of the file that came out differently.
pub(super) struct Problem {
    pub line: usize,
    pub text: String,
}

/// The event (`in` or `tick`) that each expectation belongs to, by index.
struct Expected<'a> {
    outs: Vec<(usize, usize, &'a Expect)>,
    released: Vec<(usize, u32, &'a Expect)>,
}

fn expected(items: &[Item]) -> Expected<'_> {
    let mut found = Expected { outs: Vec::new(), released: Vec::new() };
    let mut event = usize::MAX;
    for (i, item) in items.iter().enumerate() {
        match &item.what {
            What::In(_) | What::Tick => event = i,
            What::Out(e) => found.outs.push((event, i, e)),
            What::Released(id, e) => found.released.push((event, *id, e)),
            _ => {}
        }
    }
    found
}

/// Everything that differs.
pub(super) fn problems(items: &[Item], played: &Played) -> Vec<Problem> {
    let first_line = items.first().map_or(1, |i| i.line);
    let mut found = Vec::new();
    let mut add = |item: usize, text: String| {
        found.push(Problem { line: items.get(item).map_or(first_line, |i| i.line), text });
    };
    let wanted_error = items.iter().position(|i| matches!(i.what, What::Error(_)));
    match (wanted_error, &played.error) {
        (Some(i), got) => {
            if let What::Error(want) = &items[i].what
                && got.as_ref() != Some(want)
            {
                let got = got.as_deref().unwrap_or("no error: the NF was built");
                add(i, format!("error\n  expected {want}\n  got      {got}"));
            }
            return found;
        }
        (None, Some(e)) => {
            add(usize::MAX, format!("the NF could not be built: {e}"));
            return found;
        }
        (None, None) => {}
    }
    let expected = expected(items);
    for (event, item, _) in &expected.outs {
        if !items.get(*event).is_some_and(|i| matches!(i.what, What::In(_))) {
            add(*item, "an `out` without an `in` before it".into());
        }
    }
    for (event, seen) in &played.outs {
        let What::In(before) = &items[*event].what else { continue };
        let mut wants = expected.outs.iter().filter(|o| o.0 == *event);
        match (wants.next(), wants.next()) {
            (None, _) => add(*event, format!("no `out` for this packet; it got: out: {}", seen.in_file())),
            (_, Some((_, second, _))) => add(*second, "a second `out` for the same packet".into()),
            (Some((_, item, want)), None) => {
                if let Some(text) = differs(want, seen, before) {
                    add(*item, text);
                }
            }
        }
    }
    for (event, want, got) in released(items, played) {
        if !releases_match(&want, &got) {
            let want: Vec<_> = want.iter().map(|(id, e)| format!("{id} {}", e.in_words())).collect();
            let got: Vec<_> = got.iter().map(|(id, s)| format!("{id} {}", s.in_file())).collect();
            add(event, format!("released\n  expected [{}]\n  got      [{}]", want.join("; "), got.join("; ")));
        }
    }
    for (i, item) in items.iter().enumerate() {
        if let Some((want, got)) = scalar(i, item, played)
            && want != got
        {
            add(i, format!("{}\n  expected {want}\n  got      {got}", key(item)));
        }
    }
    found.sort_by_key(|p| p.line);
    found
}

fn key(item: &Item) -> &str {
    item.raw.split(':').next().unwrap_or_default()
}

/// Counters, held and report: as the file says and as seen, both in the words of the file.
fn scalar(i: usize, item: &Item, played: &Played) -> Option<(String, String)> {
    match &item.what {
        What::Counters(want) => {
            let got = &played.counters.iter().find(|c| c.0 == i)?.1;
            // A counter that the file does not name is expected to be 0; one named with 0 is shown all the same.
            let shown = |(k, v): &&(String, u64)| *v != 0 || want.iter().any(|w| w.0 == *k);
            let mut want: Vec<_> = want.clone();
            let mut got: Vec<_> = got.iter().filter(shown).cloned().collect();
            want.sort();
            got.sort();
            Some((map(&want), map(&got)))
        }
        What::Held(want) => {
            let got = played.held.iter().find(|h| h.0 == i)?.1;
            Some((want.to_string(), got.to_string()))
        }
        What::Report(want) => Some((want.clone(), played.report.clone().unwrap_or_default().trim_end().to_owned())),
        _ => None,
    }
}

fn map(counters: &[(String, u64)]) -> String {
    format!("{{{}}}", counters.iter().map(|(k, v)| format!("{k}: {v}")).collect::<Vec<_>>().join(", "))
}

type Released<'a> = (usize, Vec<(u32, &'a Expect)>, Vec<(u32, &'a Seen)>);

/// Releases by the call in which they happened: as the file says, and as seen.
fn released<'a>(items: &'a [Item], played: &'a Played) -> Vec<Released<'a>> {
    let batch = |event: usize| played.batches.iter().find(|b| b.0 <= event && event <= b.1).map_or(event, |b| b.1);
    let mut groups: Vec<Released<'a>> = Vec::new();
    let mut group = |event: usize| -> usize {
        groups.iter().position(|g| g.0 == event).unwrap_or_else(|| {
            groups.push((event, Vec::new(), Vec::new()));
            groups.len() - 1
        })
    };
    let wants: Vec<_> = expected(items).released.into_iter().map(|(e, id, w)| (group(batch(e)), id, w)).collect();
    let gots: Vec<_> = played.released.iter().map(|(e, id, s)| (group(*e), *id, s)).collect();
    for (g, id, want) in wants {
        groups[g].1.push((id, want));
    }
    for (g, id, seen) in gots {
        groups[g].2.push((id, seen));
    }
    groups
}

fn releases_match(want: &[(u32, &Expect)], got: &[(u32, &Seen)]) -> bool {
    want.len() == got.len() && want.iter().zip(got).all(|((a, e), (b, s))| a == b && e.fits(s))
}

impl Expect {
    fn fits(&self, seen: &Seen) -> bool {
        self.verdict == seen.verdict
            && match &self.after {
                After::Same => seen.same,
                After::Bytes(b) => *b == seen.frame,
                After::Any => true,
            }
    }

    fn in_words(&self) -> String {
        match &self.after {
            After::Same => format!("{} = same", self.verdict),
            After::Bytes(b) => format!("{} = {}", self.verdict, frame::describe(b)),
            After::Any => self.verdict.clone(),
        }
    }
}

fn differs(want: &Expect, seen: &Seen, before: &[u8]) -> Option<String> {
    if want.fits(seen) {
        return None;
    }
    let mut text = "out".to_owned();
    if want.verdict != seen.verdict {
        let _ = write!(text, "\n  expected {}\n  got      {}", want.verdict, seen.verdict);
    }
    let want = match &want.after {
        After::Same => before,
        After::Bytes(b) => b,
        After::Any => return Some(text),
    };
    if want != seen.frame {
        let _ = write!(text, "\n  expected {} bytes: {}", want.len(), frame::describe(want));
        let _ = write!(text, "\n  got      {} bytes: {}", seen.frame.len(), frame::describe(&seen.frame));
        text += &hexdump(want, &seen.frame);
    }
    Some(text)
}

/// The rows of 16 bytes that differ, with marks below.
fn hexdump(want: &[u8], got: &[u8]) -> String {
    let byte = |b: &[u8], i: usize| b.get(i).map_or("--".to_owned(), |b| format!("{b:02x}"));
    let different = |i: usize| want.get(i) != got.get(i);
    let len = want.len().max(got.len());
    let mut text = String::new();
    let (mut rows, mut more) = (0, 0);
    for row in (0..len).step_by(16) {
        let range = row..len.min(row + 16);
        if !range.clone().any(different) {
            continue;
        }
        if rows == 8 {
            more += 1;
            continue;
        }
        rows += 1;
        let line = |b: &[u8]| range.clone().map(|i| byte(b, i)).collect::<Vec<_>>().join(" ");
        let marks: Vec<_> = range.clone().map(|i| if different(i) { "^^" } else { "  " }).collect();
        let _ = write!(text, "\n  {row:04x}  expected {}", line(want));
        let _ = write!(text, "\n        got      {}\n                 {}", line(got), marks.join(" ").trim_end());
    }
    if more > 0 {
        let _ = write!(text, "\n  … and {more} more rows of 16 bytes");
    }
    text
}

/// Verdicts that no host would act on: a file that expected them would call the NF's fault right.
pub(super) fn faults(items: &[Item], played: &Played) -> Vec<Problem> {
    let outs = played.outs.iter().map(|(item, seen)| (*item, seen));
    let released = played.released.iter().map(|(item, _, seen)| (*item, seen));
    let wrong = outs.chain(released).filter(|(_, seen)| !seen.valid);
    let problem = |(item, seen): (usize, &Seen)| Problem {
        line: items.get(item).map_or(1, |i| i.line),
        text: format!("the NF's verdict is {}: no host acts on it, so it is not written", seen.verdict),
    };
    wrong.map(problem).collect()
}

/// The case with its expectations set to what was seen; lines that were right stay as they are.
pub(super) fn rewrite(items: &[Item], played: &Played) -> String {
    let expected = expected(items);
    let groups = released(items, played);
    let wrong: Vec<_> = groups.iter().filter(|g| !releases_match(&g.1, &g.2)).collect();
    let releases = |event: usize| -> String {
        let of = wrong.iter().filter(|g| g.0 == event).flat_map(|g| &g.2);
        of.map(|(id, s)| format!("released: {id} {}\n", s.in_file())).collect()
    };
    let (mut lines, mut last, mut event) = (Vec::new(), 0, usize::MAX);
    for (i, item) in items.iter().enumerate() {
        let raw = || if item.raw.ends_with('\n') { item.raw.clone() } else { item.raw.clone() + "\n" };
        let text = match &item.what {
            What::In(_) => {
                event = i;
                let seen = played.outs.iter().find(|o| o.0 == i).map(|o| &o.1);
                let missing = !expected.outs.iter().any(|o| o.0 == i);
                match seen {
                    Some(seen) if missing => format!("{}out: {}\n{}", raw(), seen.in_file(), releases(i)),
                    _ => raw(),
                }
            }
            What::Out(want) => match played.outs.iter().find(|o| o.0 == event) {
                Some((_, seen)) if want.fits(seen) => raw() + &releases(event),
                Some((_, seen)) => format!("out: {}\n{}", seen.in_file(), releases(event)),
                None => String::new(),
            },
            What::Tick => {
                event = i;
                raw() + &releases(i)
            }
            What::Released(..) if wrong.iter().any(|g| g.0 == event) => String::new(),
            What::Error(want) => match &played.error {
                Some(e) if e == want => raw(),
                Some(e) => format!("error: {e}\n"),
                None => String::new(),
            },
            _ => match scalar(i, item, played) {
                Some((want, got)) if want != got => entry(key(item), &got),
                _ => raw(),
            },
        };
        lines.push(text);
        if !matches!(item.what, What::Nothing) {
            last = lines.len();
        }
    }
    // What the file does not mention yet.
    let has = |f: fn(&What) -> bool| items.iter().any(|i| f(&i.what));
    let mut rest = String::new();
    if let Some(e) = &played.error
        && !has(|w| matches!(w, What::Error(_)))
    {
        rest += &format!("error: {e}\n");
    }
    if let Some((_, counters)) = played.counters.last()
        && counters.iter().any(|c| c.1 != 0)
        && !has(|w| matches!(w, What::Counters(_)))
    {
        rest += &entry("counters", &map(&counters.iter().filter(|c| c.1 != 0).cloned().collect::<Vec<_>>()));
    }
    if let Some(report) = &played.report
        && !has(|w| matches!(w, What::Report(_)))
    {
        rest += &entry("report", report.trim_end());
    }
    lines.insert(last, rest);
    lines.concat()
}

fn entry(key: &str, text: &str) -> String {
    if !text.contains('\n') {
        return format!("{key}: {text}\n");
    }
    let lines: String = text.lines().map(|l| if l.is_empty() { "\n".into() } else { format!("  {l}\n") }).collect();
    format!("{key}:\n{lines}")
}
