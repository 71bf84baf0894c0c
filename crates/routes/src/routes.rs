//! Routes: reading them, and the order and the sizes that the tables need.

use crate::lines;
use crate::prefix::{Prefix, mask6};
use chainline_nf::Error;
use chainline_nf::words::{Fault, Words};
use std::io::BufRead;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;

/// What a line of a route file has.
const WHAT: &str = "a route";

/// A route; `bits` from the top, as many as `depth`, the others 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Route<T> {
    /// The prefix.
    pub bits: T,
    /// Its length.
    pub depth: u8,
    /// What it leads to.
    pub hop: u32,
    /// Where it came from.
    pub place: Place,
}

/// Where a route was read, for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// It follows from other arguments, which this names.
    Given(&'static str),
    /// A place in `routes_inline`.
    Inline(u32),
    /// A line of the route file.
    Line(u32),
}

/// Reads what follows the prefix in a line, and says which hop it is. The line must end behind it.
pub type ReadHop<'a> = dyn FnMut(&Prefix, &mut Words<'_>) -> Result<u32, Fault> + 'a;

/// All routes; after [`Routes::sort`] in the order of prefixes, a prefix before those inside of it.
#[derive(Clone, Debug, Default)]
pub struct Routes {
    /// IPv4.
    pub v4: Vec<Route<u32>>,
    /// IPv6.
    pub v6: Vec<Route<u128>>,
}

impl Routes {
    /// Adds a route.
    pub fn push(&mut self, prefix: Prefix, hop: u32, place: Place) {
        match prefix {
            Prefix::V4(bits, depth) => self.v4.push(Route { bits, depth, hop, place }),
            Prefix::V6(bits, depth) => self.v6.push(Route { bits, depth, hop, place }),
        }
    }

    /// Reads the lines of the argument `routes_inline`.
    ///
    /// # Errors
    /// What is wrong with the first wrong one.
    pub fn read_inline(&mut self, lines: &[String], hop: &mut ReadHop<'_>) -> Result<(), Error> {
        for (i, text) in lines.iter().enumerate() {
            self.line(text, Place::Inline(i as u32), hop)
                .map_err(|f| Error::Args(format!("args.routes_inline[{i}]: column {}: {}", f.column, f.message)))?;
        }
        Ok(())
    }

    /// Reads a route file: one route a line; `#` or `;` starts a comment.
    ///
    /// # Errors
    /// What is wrong with the first wrong line.
    pub fn read_file(&mut self, path: &Path, hop: &mut ReadHop<'_>) -> Result<(), Error> {
        lines::read_file(path, WHAT, &mut |number, text| self.line(text, Place::Line(number), hop))
    }

    /// As [`Routes::read_file`], from anything; `path` is for messages.
    ///
    /// # Errors
    /// What is wrong with the first wrong line.
    pub fn read_lines(&mut self, path: &Path, file: impl BufRead, hop: &mut ReadHop<'_>) -> Result<(), Error> {
        lines::read_lines(path, file, WHAT, &mut |number, text| self.line(text, Place::Line(number), hop))
    }

    /// Reads a line, which may be empty.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn line(&mut self, text: &str, place: Place, hop: &mut ReadHop<'_>) -> Result<(), Fault> {
        let mut words = lines::words(text);
        let Some(word) = words.next() else { return Ok(()) };
        let prefix = word.text.parse().map_err(|message: String| word.fault(message))?;
        let hop = hop(&prefix, &mut words)?;
        lines::end(&mut words)?;
        self.push(prefix, hop, place);
        Ok(())
    }

    /// Sorts, and refuses a prefix that is there twice; `path` is that of the file, for messages.
    ///
    /// # Errors
    /// Which prefix, and where.
    pub fn sort(&mut self, path: &Path) -> Result<(), Error> {
        sort(&mut self.v4, path, |b| Ipv4Addr::from(b).to_string())?;
        sort(&mut self.v6, path, |b| Ipv6Addr::from(b).to_string())
    }

    /// Groups of 256 entries that `rte_fib` needs for what is longer than /24: one for each /24. The routes are sorted.
    #[must_use]
    pub fn v4_tbl8s(&self) -> u32 {
        let mut last = None;
        let mut long = self.v4.iter().filter(|r| r.depth > 24);
        long.by_ref().fold(0, |n, r| n + u32::from(last.replace(r.bits >> 8) != Some(r.bits >> 8)))
    }

    /// The same for `rte_fib6`: it sets aside a group for each 8 bits, begun or whole, that a prefix is longer than /24
    /// and than the prefix around it.
    #[must_use]
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

fn sort<T: Ord + Copy>(routes: &mut [Route<T>], path: &Path, name: impl Fn(T) -> String) -> Result<(), Error> {
    routes.sort_unstable();
    for pair in routes.windows(2) {
        let (a, b) = (&pair[0], &pair[1]);
        if (a.bits, a.depth) == (b.bits, b.depth) {
            let (first, second) = (a.place.min(b.place), a.place.max(b.place));
            let first = match first {
                Place::Given(what) => what.to_owned(),
                Place::Inline(i) => format!("routes_inline[{i}]"),
                Place::Line(line) => format!("line {line}"),
            };
            let message = format!("{}/{} is there already, in {first}", name(a.bits), a.depth);
            return Err(match second {
                Place::Given(what) => Error::Args(format!("args.{what}: {message}")),
                Place::Inline(i) => Error::Args(format!("args.routes_inline[{i}]: {message}")),
                Place::Line(line) => Error::at(path, line as usize, 1, message),
            });
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "routes_tests.rs"]
mod tests;
