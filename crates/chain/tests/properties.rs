//! What holds for every input: no panic, and plans whose queues fit together.

#![allow(clippy::unwrap_used)]

mod support;

use chainline_chain::plan::{End, Plan};
use chainline_chain::{Host, load, load_bytes, load_for};
use proptest::prelude::*;
use proptest::sample::{Index, select};
use std::collections::{BTreeSet, HashMap};
use std::fmt::Write;
use std::path::Path;
use support::check_plan;

const GOOD: [&str; 4] = [
    include_str!("good/every-field.yaml"),
    include_str!("good/fused.yaml"),
    include_str!("good/json.yaml"),
    include_str!("good/replicas.yaml"),
];

/// Pieces that matter to YAML or to the format.
const PIECES: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    ":",
    ": ",
    "- ",
    ",",
    "\n",
    "  ",
    "\"",
    "'",
    "|",
    ">",
    "&a ",
    "*a",
    "!!str ",
    "!x ",
    "? ",
    "%",
    "#",
    "~",
    "null",
    "-1",
    "0",
    "1e999",
    ".nan",
    "99999999999999999999",
    "0x",
    "true",
    "é",
    "\u{0}",
    "\u{feff}",
    "\r\n",
    "---\n",
    "<<: ",
    "x-",
    "in",
    "out",
    "fw",
    "kind",
    "spec",
    "path",
    "match",
    "divert",
    "replicas",
];

fn edit(text: &str, edits: &[(Index, Index, &str)]) -> String {
    let mut text = text.to_owned();
    for (at, len, piece) in edits {
        let near = |i: usize| (0..=i).rev().find(|i| text.is_char_boundary(*i)).unwrap_or(0);
        let start = near(at.index(text.len() + 1));
        let end = near((start + len.index(12)).min(text.len())).max(start);
        text.replace_range(start..end, piece);
    }
    text
}

fn try_all(text: &str) {
    let host = Host { cores: Some(&[0, 1]), kinds: Some(&["forward"]) };
    let _ = load_for(text, Path::new("p"), &host).map_err(|e| {
        for d in e.items() {
            assert!(e.text().get(d.span.range()).is_some(), "{d:?}");
        }
        e.to_string()
    });
    if let Ok(file) = load(text, Path::new("p")) {
        let _ = Plan::build(&file, &[0, 1]);
        let _ = Plan::build(&file, &[]);
    }
}

/// A file with `nfs` NFs (isolation by index), chains that visit some of them in some order, diverts onward.
#[derive(Debug, Clone)]
struct Shape {
    isolation: Vec<u8>,
    /// Replicas by index; those of fused NFs must agree and are the first number.
    replicas: [u32; 3],
    cores: usize,
    chains: Vec<(Vec<Index>, u8)>,
    diverts: Vec<(Index, Index, bool)>,
}

fn shape() -> impl Strategy<Value = Shape> {
    let chain = (prop::collection::vec(any::<Index>(), 0..6), 0..3u8);
    (
        prop::collection::vec(0..3u8, 1..7),
        [1..4u32, 1..4u32, 1..4u32],
        1..5usize,
        prop::collection::vec(chain, 1..6),
        prop::collection::vec((any::<Index>(), any::<Index>(), any::<bool>()), 0..4),
    )
        .prop_map(|(isolation, replicas, cores, chains, diverts)| Shape {
            isolation,
            replicas,
            cores,
            chains,
            diverts,
        })
}

fn text_of(shape: &Shape) -> String {
    let n = shape.isolation.len();
    let mut diverts: HashMap<usize, BTreeSet<String>> = HashMap::new();
    for (nf, target, port) in &shape.diverts {
        let target = if *port { "out".into() } else { format!("c{}", target.index(shape.chains.len())) };
        diverts.entry(nf.index(n)).or_default().insert(target);
    }
    let mut text = String::from("apiVersion: chainline/v1alpha1\nkind: ServiceChain\nmetadata: {name: p}\nspec:\n");
    text += "  ports: {in: {generator: {}}, out: {sink: {}}}\n  nfs:\n";
    for (i, isolation) in shape.isolation.iter().enumerate() {
        let word = ["process", "thread", "fused"][usize::from(*isolation)];
        let divert: Vec<_> = diverts.remove(&i).unwrap_or_default().into_iter().collect();
        let replicas = if *isolation == 2 { shape.replicas[0] } else { shape.replicas[i % 3] };
        let divert = divert.join(", ");
        writeln!(text, "    n{i}: {{kind: forward, isolation: {word}, divert: [{divert}], replicas: {replicas}}}")
            .unwrap();
    }
    text += "  chains:\n";
    for (i, (hops, _)) in shape.chains.iter().enumerate() {
        let mut path = vec!["in".to_owned()];
        for hop in hops {
            let name = format!("n{}", hop.index(n));
            if !path.contains(&name) {
                path.push(name);
            }
        }
        path.push("out".into());
        writeln!(text, "    - {{name: c{i}, match: {{proto: {i}}}, path: [{}]}}", path.join(", ")).unwrap();
    }
    text
}

/// At each instance all chains, whose weights are 1, have the same weight from each NF or port that they come from,
/// however many replicas that has.
fn check_weights(plan: &Plan) {
    for instance in &plan.instances {
        let mut sums: HashMap<_, u32> = HashMap::new();
        for q in &instance.queues {
            let edge = &plan.edges[q.edge];
            let from = match edge.from {
                End::Port(p) => (p, true),
                End::Instance(i) => (plan.nfs[plan.instances[i].nfs[0]].first, false),
            };
            *sums.entry((edge.chain, edge.hop, from)).or_default() += q.weight;
        }
        let sums: BTreeSet<u32> = sums.into_values().collect();
        assert_eq!(sums.len(), 1, "{}: {sums:?}", instance.name);
    }
}

proptest! {
    #[test]
    fn any_text_is_taken_or_refused(text in "\\PC{0,200}") {
        try_all(&text);
    }

    #[test]
    fn any_bytes_are_taken_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = load_bytes(&bytes, Path::new("p"), &Host::default());
    }

    #[test]
    fn pieces_of_yaml_are_taken_or_refused(pieces in prop::collection::vec(select(PIECES), 0..60)) {
        try_all(&pieces.concat());
    }

    #[test]
    fn good_files_after_edits_are_taken_or_refused(
        base in select(&GOOD[..]),
        edits in prop::collection::vec((any::<Index>(), any::<Index>(), select(PIECES)), 1..6),
    ) {
        try_all(&edit(base, &edits));
    }

    #[test]
    fn plans_fit_together(shape in shape()) {
        let cores: Vec<usize> = (0..shape.cores).collect();
        match load(&text_of(&shape), Path::new("p")) {
            Ok(file) => {
                let plan = Plan::build(&file, &cores).unwrap();
                check_plan(&plan, &cores);
                check_weights(&plan);
            }
            // Random diverts may lead in a circle, and nothing else may be wrong.
            Err(e) => prop_assert!(e.items().iter().filter(|d| d.message.contains("expected")).all(|d| d.message.contains("cycle")), "{e}"),
        }
    }
}
