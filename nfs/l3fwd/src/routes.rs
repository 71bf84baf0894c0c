//! Routes as this NF's arguments and files have them: what stands behind a prefix is a next hop.

use crate::config::{Args, Format, Rewrite};
use chainline_nf::Error;
use chainline_nf::words::{Fault, Word, Words};
use chainline_packet::ether::Mac;
use chainline_routes::digits;
use std::collections::HashMap;
use std::path::Path;

/// Next hops, those that the arguments declared first.
#[derive(Debug, Default)]
pub(crate) struct Hops {
    pub all: Vec<Rewrite>,
    known: HashMap<Rewrite, u32>,
    /// How many hops the arguments declared: those that a route may name by number.
    declared: u32,
}

/// Reads the routes that the arguments name, and sorts them. `path` is where the file is, if there is one.
pub(crate) fn read(args: &Args, path: Option<&Path>, hops: &mut Hops) -> Result<chainline_routes::Routes, Error> {
    if args.format == Format::Pyasn && hops.declared == 0 {
        return Err(Error::Args("args.next_hops: format pyasn needs at least one".into()));
    }
    let mut routes = chainline_routes::Routes::default();
    routes.read_inline(&args.routes_inline, &mut |_, words| hops.read(Format::Native, words))?;
    if let Some(path) = path {
        routes.read_file(path, &mut |_, words| hops.read(args.format, words))?;
    }
    routes.sort(path.unwrap_or(Path::new("")))?;
    Ok(routes)
}

impl Hops {
    pub fn new(declared: Vec<Rewrite>) -> Self {
        Self { declared: declared.len() as u32, all: declared, known: HashMap::new() }
    }

    /// Reads what follows a prefix or a flow.
    pub fn read(&mut self, format: Format, words: &mut Words<'_>) -> Result<u32, Fault> {
        let word = words.expect("'via' or the number of a next hop")?;
        match (format, word.text) {
            (Format::Native, "via") => {
                let dst = mac(words)?;
                let src = match words.next() {
                    None => None,
                    Some(Word { text: "src", .. }) => Some(mac(words)?),
                    Some(word) => {
                        return Err(word.fault(format!("found '{}', expected 'src' or the end of the line", word.text)));
                    }
                };
                Ok(self.number(Rewrite { dst, src }))
            }
            (Format::Native, number) => digits(number).filter(|n| *n < self.declared).ok_or_else(|| {
                let expected = match self.declared {
                    0 => "expected 'via' (there are no next_hops to name by number)".to_owned(),
                    n => format!("expected 'via' or a number from 0 to {} of next_hops", n - 1),
                };
                word.fault(format!("found '{number}', {expected}"))
            }),
            (Format::Pyasn, number) => {
                let asn = digits(number);
                let asn = asn.ok_or_else(|| word.fault(format!("found '{number}', expected an AS number")))?;
                Ok(asn % self.declared.max(1))
            }
        }
    }

    fn number(&mut self, rewrite: Rewrite) -> u32 {
        let hops = &mut self.all;
        *self.known.entry(rewrite).or_insert_with(|| {
            hops.push(rewrite);
            hops.len() as u32 - 1
        })
    }
}

fn mac(words: &mut Words<'_>) -> Result<Mac, Fault> {
    let word = words.expect("a hardware address")?;
    word.text.parse().map_err(|e| word.fault(format!("found '{}', {e}", word.text)))
}

#[cfg(test)]
#[path = "routes_tests.rs"]
mod tests;
