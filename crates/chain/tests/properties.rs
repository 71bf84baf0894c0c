//! What holds for every input: no panic, and plans whose queues fit together.

#![allow(clippy::unwrap_used)]

use chainline_chain::plan::{End, Plan};
use chainline_chain::{Host, load, load_bytes, load_for};
use proptest::prelude::*;
use proptest::sample::{Index, select};
use std::collections::{BTreeSet, HashMap};
use std::fmt::Write;
use std::path::Path;

const GOOD: [&str; 3] =
    [include_str!("good/every-field.yaml"), include_str!("good/fused.yaml"), include_str!("good/json.yaml")];

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
    cores: usize,
    chains: Vec<(Vec<Index>, u8)>,
    diverts: Vec<(Index, Index, bool)>,
}

fn shape() -> impl Strategy<Value = Shape> {
    let chain = (prop::collection::vec(any::<Index>(), 0..6), 0..3u8);
    (
        prop::collection::vec(0..3u8, 1..7),
        1..5usize,
        prop::collection::vec(chain, 1..6),
        prop::collection::vec((any::<Index>(), any::<Index>(), any::<bool>()), 0..4),
    )
        .prop_map(|(isolation, cores, chains, diverts)| Shape { isolation, cores, chains, diverts })
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
        writeln!(text, "    n{i}: {{kind: forward, isolation: {word}, divert: [{}]}}", divert.join(", ")).unwrap();
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

/// Every edge has one producer and one consumer, every hop of every chain is reached, ids are in range.
fn check_plan(plan: &Plan, cores: &[usize]) {
    let mut consumers: HashMap<usize, usize> = HashMap::new();
    let mut producers: HashMap<usize, BTreeSet<String>> = HashMap::new();
    for (i, instance) in plan.instances.iter().enumerate() {
        assert!(!instance.nfs.is_empty() && !instance.cores.is_empty());
        assert!(instance.cores.iter().all(|c| cores.contains(c)));
        let shared = plan
            .instances
            .iter()
            .enumerate()
            .any(|(j, other)| i != j && other.cores.iter().any(|c| instance.cores.contains(c)))
            || instance.cores.contains(&plan.manager_core);
        assert_eq!(instance.shares_core, shared);
        for queue in &instance.queues {
            let edge = &plan.edges[queue.edge];
            assert_eq!((edge.to, edge.chain, edge.hop), (End::Instance(i), queue.chain, queue.hop));
            *consumers.entry(queue.edge).or_default() += 1;
            let chain = &plan.chains[queue.chain];
            let hops = &chain.hops[usize::from(queue.hop)..];
            assert!(!queue.stages.is_empty() && queue.stages.len() <= hops.len());
            for (stage, hop) in queue.stages.iter().zip(hops) {
                assert_eq!(stage.nf, *hop);
                assert_eq!(plan.nfs[stage.nf].instance, i);
                assert_eq!(stage.divert.len(), plan.nfs[stage.nf].divert.len());
                for (divert, target) in stage.divert.iter().zip(&plan.nfs[stage.nf].divert) {
                    let edge = &plan.edges[*divert];
                    match edge.to {
                        End::Port(p) if plan.ports[p].name == *target => assert_eq!(edge.chain, queue.chain),
                        _ => assert_eq!((&plan.chains[edge.chain].name, edge.hop), (target, 0)),
                    }
                    producers.entry(*divert).or_default().insert(format!("i{i}"));
                }
            }
            // The run is maximal: what follows is another instance or the port.
            let next = &plan.edges[queue.next];
            assert_eq!(usize::from(next.hop), usize::from(queue.hop) + queue.stages.len());
            match hops.get(queue.stages.len()) {
                None => assert_eq!(next.to, End::Port(chain.egress)),
                Some(nf) => {
                    assert_eq!(next.to, End::Instance(plan.nfs[*nf].instance));
                    assert_ne!(plan.nfs[*nf].instance, i);
                }
            }
            assert_eq!(next.chain, queue.chain);
            producers.entry(queue.next).or_default().insert(format!("i{i}"));
        }
    }
    for chain in &plan.chains {
        assert_eq!(plan.edges[chain.entry].from, End::Port(chain.ingress));
        producers.entry(chain.entry).or_default().insert(format!("p{}", chain.ingress));
    }
    let mut total = 0;
    for (i, edge) in plan.edges.iter().enumerate() {
        let from = match edge.from {
            End::Port(p) => format!("p{p}"),
            End::Instance(n) => format!("i{n}"),
        };
        assert_eq!(producers.get(&i), Some(&BTreeSet::from([from])), "edge {i}");
        let expected = usize::from(matches!(edge.to, End::Instance(_)));
        assert_eq!(consumers.get(&i).copied().unwrap_or(0), expected, "edge {i}");
        assert!(edge.capacity.is_power_of_two());
        total += edge.capacity;
    }
    let keys: BTreeSet<_> =
        plan.edges.iter().map(|e| format!("{:?} {:?} {} {}", e.from, e.to, e.chain, e.hop)).collect();
    assert_eq!(keys.len(), plan.edges.len(), "two edges for the same packets");
    assert!(plan.buffers >= total + 2048);
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
            Ok(file) => check_plan(&Plan::build(&file, &cores).unwrap(), &cores),
            // Random diverts may lead in a circle, and nothing else may be wrong.
            Err(e) => prop_assert!(e.items().iter().filter(|d| d.message.contains("expected")).all(|d| d.message.contains("cycle")), "{e}"),
        }
    }
}
