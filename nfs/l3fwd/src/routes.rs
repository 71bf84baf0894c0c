//! Routes: reading them, and the order and the sizes that the tables need.

use crate::config::{Args, Format, Rewrite};
use chainline_nf::{Env, Error};
use chainline_packet::ether::Mac;
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;

/// The longest line that is read: a file that is no route file must not fill the memory.
const MAX_LINE: u64 = 1024;

/// A route; `bits` from the top, as many as `depth`, the others 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Route<T> {
    pub bits: T,
    pub depth: u8,
    /// Index into [`Routes::hops`].
    pub hop: u32,
    place: Place,
}

/// Where a route was read, for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Inline(u32),
    Line(u32),
}

/// All routes in the order of prefixes: a prefix before those inside of it.
#[derive(Debug, Default)]
pub(crate) struct Routes {
    pub v4: Vec<Route<u32>>,
    pub v6: Vec<Route<u128>>,
    pub hops: Vec<Rewrite>,
    known: HashMap<Rewrite, u32>,
    /// How many hops the arguments declared: those that a route may name by number.
    declared: u32,
}

/// What is wrong with a line, and in which column (in bytes, from 1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub column: usize,
    pub message: String,
}

impl Routes {
    /// Reads what the arguments name.
    pub fn read(args: &Args, env: &Env<'_>) -> Result<Self, Error> {
        let hops = args.rewrites()?;
        let mut routes = Self { declared: hops.len() as u32, hops, ..Self::default() };
        if args.routes.is_none() && args.routes_inline.is_empty() {
            return Err(Error::Args("args: expected routes or routes_inline".into()));
        }
        if args.format == Format::Pyasn && routes.declared == 0 {
            return Err(Error::Args("args.next_hops: format pyasn needs at least one".into()));
        }
        for (i, text) in args.routes_inline.iter().enumerate() {
            routes
                .line(text, Format::Native, Place::Inline(i as u32))
                .map_err(|f| Error::Args(format!("args.routes_inline[{i}]: column {}: {}", f.column, f.message)))?;
        }
        let path = args.routes.as_ref().map(|file| env.path(file));
        if let Some(path) = &path {
            let file = std::fs::File::open(path).map_err(|source| Error::Read { path: path.clone(), source })?;
            routes.file(path, args.format, BufReader::with_capacity(1 << 16, file))?;
        }
        let path = path.as_deref().unwrap_or(Path::new(""));
        sort(&mut routes.v4, path, |b| Ipv4Addr::from(b).to_string())?;
        sort(&mut routes.v6, path, |b| Ipv6Addr::from(b).to_string())?;
        Ok(routes)
    }

    fn file(&mut self, path: &Path, format: Format, mut file: impl BufRead) -> Result<(), Error> {
        let mut line = Vec::with_capacity(MAX_LINE as usize);
        for number in 1u32.. {
            line.clear();
            let read = file.by_ref().take(MAX_LINE).read_until(b'\n', &mut line);
            let at = |column, message: String| Error::at(path, number as usize, column, message);
            match read.map_err(|source| Error::Read { path: path.to_owned(), source })? {
                0 => break,
                n if n as u64 == MAX_LINE && line.last() != Some(&b'\n') => {
                    return Err(at(1, format!("the line is longer than {MAX_LINE} bytes, expected a route")));
                }
                _ => {}
            }
            let text = std::str::from_utf8(&line)
                .map_err(|e| at(e.valid_up_to() + 1, "found bytes that are not UTF-8, expected a route".into()))?;
            self.line(text, format, Place::Line(number)).map_err(|f| at(f.column, f.message))?;
        }
        Ok(())
    }

    fn line(&mut self, text: &str, format: Format, place: Place) -> Result<(), Fault> {
        let end = text.find(['#', ';']).unwrap_or(text.len());
        let mut words = words(&text[..end]);
        let Some((column, word)) = words.next() else { return Ok(()) };
        let prefix = prefix(word).map_err(|message| Fault { column, message })?;
        let mut expect = |what: &str| {
            let missing = || Fault {
                column: text[..end].trim_end().len() + 1,
                message: format!("the line ends, expected {what}"),
            };
            words.next().ok_or_else(missing)
        };
        let (column, word) = expect("'via' or the number of a next hop")?;
        let hop = match (format, word) {
            (Format::Native, "via") => {
                let mut mac = |what| -> Result<Mac, Fault> {
                    let (column, word) = expect(what)?;
                    word.parse().map_err(|e| Fault { column, message: format!("found '{word}', {e}") })
                };
                let dst = mac("a hardware address")?;
                let src = match expect("").ok() {
                    None => None,
                    Some((_, "src")) => {
                        let (column, word) = expect("a hardware address")?;
                        Some(word.parse().map_err(|e| Fault { column, message: format!("found '{word}', {e}") })?)
                    }
                    Some((column, word)) => {
                        return Err(Fault {
                            column,
                            message: format!("found '{word}', expected 'src' or the end of the line"),
                        });
                    }
                };
                self.hop(Rewrite { dst, src })
            }
            (Format::Native, number) => digits(number).filter(|n| *n < self.declared).ok_or_else(|| {
                let expected = match self.declared {
                    0 => "expected 'via' (there are no next_hops to name by number)".to_owned(),
                    n => format!("expected 'via' or a number from 0 to {} of next_hops", n - 1),
                };
                Fault { column, message: format!("found '{number}', {expected}") }
            })?,
            (Format::Pyasn, number) => {
                let asn = digits(number)
                    .ok_or_else(|| Fault { column, message: format!("found '{number}', expected an AS number") })?;
                asn % self.declared.max(1)
            }
        };
        if let Some((column, word)) = words.next() {
            return Err(Fault { column, message: format!("found '{word}', expected the end of the line") });
        }
        match prefix {
            Prefix::V4(bits, depth) => self.v4.push(Route { bits, depth, hop, place }),
            Prefix::V6(bits, depth) => self.v6.push(Route { bits, depth, hop, place }),
        }
        Ok(())
    }

    fn hop(&mut self, rewrite: Rewrite) -> u32 {
        let hops = &mut self.hops;
        *self.known.entry(rewrite).or_insert_with(|| {
            hops.push(rewrite);
            hops.len() as u32 - 1
        })
    }

    /// Groups of 256 entries that `rte_fib` needs for what is longer than /24: one for each /24.
    pub fn v4_tbl8s(&self) -> u32 {
        let mut last = None;
        let mut long = self.v4.iter().filter(|r| r.depth > 24);
        long.by_ref().fold(0, |n, r| n + u32::from(last.replace(r.bits >> 8) != Some(r.bits >> 8)))
    }

    /// The same for `rte_fib6`: it sets aside a group for each 8 bits, begun or whole, that a prefix is longer than /24
    /// and than the prefix around it.
    pub fn v6_tbl8s(&self) -> u32 {
        let groups = |depth: u8| u32::from(depth.max(24).div_ceil(8)) - 3;
        let mut around: Vec<Route<u128>> = Vec::new();
        let mut sum = 0u32;
        for route in &self.v6 {
            while around.last().is_some_and(|p| (route.bits ^ p.bits) & mask6(p.depth) != 0) {
                around.pop();
            }
            sum = sum.saturating_add(groups(route.depth) - around.last().map_or(0, |p| groups(p.depth)));
            around.push(*route);
        }
        sum
    }
}

/// Sorts, and refuses a prefix that is there twice.
fn sort<T: Ord + Copy>(routes: &mut [Route<T>], path: &Path, name: impl Fn(T) -> String) -> Result<(), Error> {
    routes.sort_unstable();
    for pair in routes.windows(2) {
        let (a, b) = (&pair[0], &pair[1]);
        if (a.bits, a.depth) == (b.bits, b.depth) {
            let (first, second) = (a.place.min(b.place), a.place.max(b.place));
            let first = match first {
                Place::Inline(i) => format!("routes_inline[{i}]"),
                Place::Line(line) => format!("line {line}"),
            };
            let message = format!("{}/{} is there already, in {first}", name(a.bits), a.depth);
            return Err(match second {
                Place::Inline(i) => Error::Args(format!("args.routes_inline[{i}]: {message}")),
                Place::Line(line) => Error::at(path, line as usize, 1, message),
            });
        }
    }
    Ok(())
}

enum Prefix {
    V4(u32, u8),
    V6(u128, u8),
}

fn mask6(depth: u8) -> u128 {
    u128::MAX.checked_shl(128 - u32::from(depth)).unwrap_or(0)
}

fn prefix(word: &str) -> Result<Prefix, String> {
    let expected = "expected a prefix such as 10.0.0.0/8 or 2001:db8::/32";
    let (address, len) = word.split_once('/').ok_or_else(|| format!("found '{word}', {expected}"))?;
    let depth = |most: u32| {
        let depth = digits(len).filter(|d| *d <= most);
        depth.map(|d| d as u8).ok_or_else(|| format!("found prefix length '{len}', expected 0 to {most}"))
    };
    if let Ok(address) = address.parse::<Ipv4Addr>() {
        let (bits, depth) = (u32::from(address), depth(32)?);
        let clean = bits & u32::MAX.checked_shl(32 - u32::from(depth)).unwrap_or(0);
        if clean != bits {
            return Err(format!("{word} has bits set beyond its length, expected {}/{depth}", Ipv4Addr::from(clean)));
        }
        Ok(Prefix::V4(bits, depth))
    } else if let Ok(address) = address.parse::<Ipv6Addr>() {
        let (bits, depth) = (u128::from(address), depth(128)?);
        let clean = bits & mask6(depth);
        if clean != bits {
            return Err(format!("{word} has bits set beyond its length, expected {}/{depth}", Ipv6Addr::from(clean)));
        }
        Ok(Prefix::V6(bits, depth))
    } else {
        Err(format!("found '{word}', {expected}"))
    }
}

/// Digits only: `parse` alone would take a `+`.
fn digits(word: &str) -> Option<u32> {
    word.bytes().all(|b| b.is_ascii_digit()).then(|| word.parse().ok())?
}

/// Words with the columns where they start.
fn words(line: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let rest = &line[at..];
        let start = at + rest.len() - rest.trim_start().len();
        let word = line[start..].split_whitespace().next()?;
        at = start + word.len();
        Some((start + 1, word))
    })
}

#[cfg(test)]
#[path = "routes_tests.rs"]
mod tests;
