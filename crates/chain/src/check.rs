//! What no single field shows: whether names exist, paths make sense, rules can match, and parts go together.

mod activation;
mod cover;
mod divert;
mod paths;
mod place;
mod ports;

use crate::decode::{Broken, MAX_DIAGNOSTICS};
use crate::diag::{Diagnostic, Span};
use crate::load::Host;
use crate::model::{Chain, File, Nf, Port, Spec};
use crate::suggest;
use std::collections::HashMap;

/// Most queues that a file may need. Each has memory of its own.
pub const MAX_QUEUES: usize = 65_536;

/// Checks a whole file.
pub fn check(file: &File, broken: &Broken, host: &Host<'_>) -> Vec<Diagnostic> {
    let mut visits: HashMap<&str, Vec<Visit>> = HashMap::new();
    for (chain, c) in file.spec.chains.iter().enumerate() {
        for (hop, name) in c.hops().iter().enumerate() {
            visits.entry(name).or_default().push(Visit { chain, hop });
        }
    }
    let mut check = Check { file, spec: &file.spec, broken, host, visits, found: Vec::new() };
    paths::check(&mut check);
    ports::check(&mut check);
    cover::check(&mut check);
    divert::check(&mut check);
    place::check(&mut check);
    activation::check(&mut check);
    check.found
}

/// An NF's place in a chain.
#[derive(Clone, Copy)]
struct Visit {
    chain: usize,
    hop: usize,
}

struct Check<'a> {
    file: &'a File,
    spec: &'a Spec,
    broken: &'a Broken,
    host: &'a Host<'a>,
    /// Every NF's places in chains, by its name.
    visits: HashMap<&'a str, Vec<Visit>>,
    found: Vec<Diagnostic>,
}

/// What a name stands for.
enum Named<'a> {
    Port(&'a Port),
    Nf,
    /// There is such a thing, but it was reported already; or there may be one in a part that could not be read.
    Unclear,
    Nothing,
}

impl<'a> Check<'a> {
    fn push(&mut self, diagnostic: Diagnostic) {
        if self.found.len() < MAX_DIAGNOSTICS {
            self.found.push(diagnostic);
        }
    }

    fn full(&self) -> bool {
        self.found.len() >= MAX_DIAGNOSTICS
    }

    fn error(&mut self, path: &str, message: impl Into<String>) {
        let at = self.at(path);
        self.push(Diagnostic::error(at, message));
    }

    fn at(&self, path: &str) -> Span {
        self.file.source.span(path)
    }

    fn key(&self, path: &str) -> Span {
        self.file.source.key_span(path)
    }

    /// The port or NF of this name.
    fn named(&self, name: &str) -> Named<'a> {
        if let Some(port) = self.spec.ports.get(name) {
            Named::Port(port)
        } else if self.spec.nfs.contains_key(name) {
            Named::Nf
        } else if name.is_empty()
            || self.broken.lists
            || self.broken.ports.contains(name)
            || self.broken.nfs.contains(name)
        {
            Named::Unclear
        } else {
            Named::Nothing
        }
    }

    fn chain(&self, visit: Visit) -> &'a Chain {
        &self.spec.chains[visit.chain]
    }

    fn visits(&self, nf: &str) -> &[Visit] {
        self.visits.get(nf).map_or(&[], Vec::as_slice)
    }

    fn nfs(&self) -> impl Iterator<Item = (&'a str, &'a Nf)> + use<'a> {
        self.spec.nfs.iter().map(|(name, nf)| (name.as_str(), nf))
    }

    /// "did you mean", or what there is when nothing is near.
    fn suggestion<'n>(name: &str, what: &str, names: impl Iterator<Item = &'n str> + Clone) -> String {
        const SHOWN: usize = 8;
        if let Some(help) = suggest::did_you_mean(name, names.clone()) {
            return help;
        }
        let mut shown: Vec<_> = names.clone().take(SHOWN).map(|n| format!("`{n}`")).collect();
        if names.count() > SHOWN {
            shown.push("…".into());
        }
        if shown.is_empty() { format!("there are no {what}") } else { format!("there are {}", shown.join(", ")) }
    }
}
