//! What is measured: NFs with their arguments, numbers of flows, and in which order their packets come. The chain files
//! are what a user could write; nothing here is for measuring only.

use crate::inputs::{self, NEXT_HOPS, RULES, SERVICE, SERVICE_PORT, SERVICES};
use chainline_chain::model::Port;
use chainline_workload::{Flow, Workload};
use serde_json::{Map, Value, json};
use std::path::Path;

/// Cores: the manager with generator and sink, and the NFs.
pub const MANAGER_CORE: usize = 0;
/// As above.
pub const NF_CORE: usize = 1;

/// Packets that a flow sends in a row where locality is best.
const RUN_PACKETS: u64 = 16;
/// The router's own hardware address on the generator's side.
const ROUTER_MAC: &str = "02:00:00:00:00:01";

/// In which order the packets of flows come, in the words of docs/workload.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Locality {
    /// Flow after flow.
    Best,
    /// Round robin.
    Worst,
    /// Any flow, with equal chance.
    Random,
}

impl Locality {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Best, Self::Worst, Self::Random];

    /// Its word in names.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Best => "best",
            Self::Worst => "worst",
            Self::Random => "random",
        }
    }

    fn order(self) -> Value {
        match self {
            Self::Best => json!({"interleave": {"step": 0, "of": 1, "packets": RUN_PACKETS}}),
            Self::Worst => "round-robin".into(),
            Self::Random => "random".into(),
        }
    }

    /// Packets until nearly every flow has come.
    fn packets_to_see(self, flows: u64) -> u64 {
        match self {
            Self::Best => flows * RUN_PACKETS,
            Self::Worst => flows,
            // All but one in a thousand: ln 1000 is 7.
            Self::Random => flows * 7,
        }
    }
}

/// An NF with its arguments, or a chain of four.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// Does nothing: the bound that generator, sink and hand-over set.
    Forward,
    /// With so many rules.
    Firewall(usize),
    /// A full table.
    L3fwd,
    /// A next hop for each flow.
    L3fwdExact,
    /// A full table.
    Router,
    Monitor,
    Lb,
    Nat,
    /// A meter for each flow.
    Policer,
    /// `firewall` with 10 rules, `monitor`, `lb`, `l3fwd`.
    Chain4,
}

impl Subject {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Forward,
        Self::Firewall(RULES[0]),
        Self::Firewall(RULES[1]),
        Self::L3fwd,
        Self::L3fwdExact,
        Self::Router,
        Self::Monitor,
        Self::Lb,
        Self::Nat,
        Self::Policer,
        Self::Chain4,
    ];

    /// The kind, by which it is chosen.
    pub const fn kind(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::Firewall(_) => "firewall",
            Self::L3fwd | Self::L3fwdExact => "l3fwd",
            Self::Router => "router",
            Self::Monitor => "monitor",
            Self::Lb => "lb",
            Self::Nat => "nat",
            Self::Policer => "policer",
            Self::Chain4 => "chain4",
        }
    }

    /// `<nf>.<variant>`.
    pub fn name(self) -> String {
        match self {
            Self::Forward => "forward.plain".into(),
            Self::Firewall(rules) => format!("firewall.rules{rules}"),
            Self::L3fwd => "l3fwd.full".into(),
            Self::L3fwdExact => "l3fwd.exact".into(),
            Self::Router => "router.full".into(),
            Self::Monitor => "monitor.hosts".into(),
            Self::Lb => "lb.nat".into(),
            Self::Nat => "nat.pool16".into(),
            Self::Policer => "policer.flow".into(),
            Self::Chain4 => "chain4".into(),
        }
    }

    /// Whether it has an entry for each flow or host: then every size counts, and the state must be there before it is
    /// measured.
    pub const fn has_state(self) -> bool {
        matches!(self, Self::L3fwdExact | Self::Monitor | Self::Lb | Self::Nat | Self::Policer | Self::Chain4)
    }

    /// The NFs, in the order of the path; room for a quarter more than there is.
    fn nfs(self, flows: u64) -> Vec<(&'static str, Value)> {
        let room = (flows + flows / 4).max(1 << 16);
        let args = match self {
            Self::Forward => json!({}),
            Self::Firewall(rules) => json!({"rules": inputs::rules_file(rules)}),
            Self::L3fwd => json!({"routes": "l3fwd.routes", "next_hops": next_hops()}),
            Self::L3fwdExact => json!({"flows": inputs::flows_file(flows), "next_hops": next_hops()}),
            Self::Router => router(),
            Self::Monitor => json!({"hosts": room}),
            Self::Lb => json!({"services": "lb.services", "flows": room}),
            Self::Nat => {
                // An address has 64,512 ports: 16 addresses serve a million flows, 256 ten.
                let pool = if flows <= 1_000_000 { "198.51.100.0/28" } else { "198.51.100.0/24" };
                let (inside, chains) = ([SOURCES], [0]);
                let room = json!({"flows": room, "subscribers": room, "inside_chains": chains, "seed": 1});
                with(room, [("inside", json!(inside)), ("pool", json!([pool]))])
            }
            Self::Policer => {
                // Buckets that take a minute to fill, so that no flow is forgotten meanwhile.
                let meter = json!({"srtcm": {"cir_bytes_s": 1_000_000, "cbs_bytes": 60_000_000, "ebs_bytes": 0}});
                let class = json!({"name": "all", "per": "flow", "meter": meter, "red": "pass"});
                json!({"classes": [class], "flows": room})
            }
            Self::Chain4 => {
                return [Self::Firewall(RULES[0]), Self::Monitor, Self::Lb, Self::L3fwd]
                    .into_iter()
                    .flat_map(|nf| nf.nfs(flows))
                    .collect();
            }
        };
        vec![(self.kind(), args)]
    }
}

/// Where packets come from: enough for each flow to have a host of its own.
const SOURCES: &str = "10.0.0.0/8";

fn with(mut object: Value, more: [(&str, Value); 2]) -> Value {
    for (name, value) in more {
        object[name] = value;
    }
    object
}

fn next_hops() -> Vec<Value> {
    (0..NEXT_HOPS).map(|i| json!({"mac": hop_mac(i)})).collect()
}

fn hop_mac(hop: usize) -> String {
    format!("02:00:00:00:01:{hop:02x}")
}

/// One interface: packets come in there and leave by its next hops, which is the path's next hop.
fn router() -> Value {
    let neighbours = (0..NEXT_HOPS).map(|i| json!({"address": inputs::neighbour(i), "mac": hop_mac(i)}));
    let addresses = ["10.0.0.1/8", "192.168.1.1/24"];
    json!({
        "interfaces": [{"name": "lan", "mac": ROUTER_MAC, "addresses": addresses, "chains": [0], "next": [0]}],
        "neighbours": neighbours.collect::<Vec<_>>(),
        "routes": "router.routes",
    })
}

/// One thing to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    /// The NFs.
    pub subject: Subject,
    /// Flows, each from a host of its own: entries of the NF's state, if it has any.
    pub flows: u64,
    /// The order of their packets.
    pub locality: Locality,
}

impl Case {
    /// Its figure's name.
    pub fn name(&self) -> String {
        let subject = self.subject.name();
        match self.subject {
            Subject::Chain4 => format!("{subject}.{}.mpps", self.flows),
            _ => format!("{subject}.{}.{}.mpps", self.flows, self.locality.word()),
        }
    }

    /// How long packets must flow until the state is there: a new entry costs some hundred nanoseconds. More than it
    /// takes is harmless.
    pub fn warmup_ms(&self) -> u64 {
        let packets = if self.subject.has_state() { self.locality.packets_to_see(self.flows) } else { 0 };
        100 + (packets / 8_000 + self.flows / 2_000).min(30_000)
    }

    /// The 5-tuples of its flows, as the generator of its chain file makes them; none if the file is wrong.
    pub fn tuples(&self) -> impl Iterator<Item = Flow> {
        let made = || {
            let file = chainline_chain::load(&self.file().to_string(), Path::new("bench.yaml")).ok()?;
            let Port::Generator(generator) = file.spec.ports.get("in")? else { return None };
            let mix = generator.own_mix().ok()??;
            Workload::new(&generator.workload(mix, None)).ok()
        };
        let workload = made();
        (0..self.flows as u32).map_while(move |i| workload.as_ref()?.flow(i))
    }

    /// Its chain file.
    pub fn file(&self) -> Value {
        let nfs = self.subject.nfs(self.flows);
        let mut path = vec!["in"];
        path.extend(nfs.iter().map(|(kind, _)| *kind));
        path.push("out");
        let dst = match self.subject {
            // Everywhere in an eighth of the address space that has no special addresses.
            Subject::L3fwd | Subject::Router => "32.0.0.0/3".to_owned(),
            Subject::Firewall(_) => SERVICES.to_owned(),
            _ => format!("{SERVICE}/32"),
        };
        let nf = |(kind, args): &(&str, Value)| {
            // One alone has nobody to be fused with, and is the same loop.
            let isolation = if nfs.len() > 1 { "fused" } else { "process" };
            ((*kind).to_owned(), json!({"kind": kind, "isolation": isolation, "args": args}))
        };
        json!({
            "apiVersion": "chainline/v1alpha1",
            "kind": "ServiceChain",
            "metadata": {"name": "bench-nfs"},
            "spec": {
                "defaults": {"manager_core": MANAGER_CORE, "cores": [NF_CORE]},
                "ports": {
                    "in": {"generator": {
                        "frame_bytes": 64, "rate": "max", "lossless": true, "flows": self.flows,
                        "order": self.locality.order(), "src": SOURCES, "dst": dst, "dst_port": SERVICE_PORT,
                        "dst_mac": ROUTER_MAC,
                    }},
                    "out": {"sink": {}},
                },
                "nfs": nfs.iter().map(nf).collect::<Map<_, _>>(),
                "chains": [{"name": "all", "path": path}],
            },
        })
    }
}

/// Numbers of flows; the last with `--full` alone.
pub const FLOWS: [u64; 5] = [10, 1_000, 100_000, 1_000_000, 10_000_000];

/// All cases of a subject.
pub fn of(subject: Subject, full: bool) -> Vec<Case> {
    let size = |flows: &u64| match flows {
        10_000_000 => full && subject.has_state(),
        // Without state these lie between the others.
        1_000 | 100_000 => subject.has_state(),
        _ => true,
    };
    let localities: &[Locality] = if subject == Subject::Chain4 { &[Locality::Random] } else { &Locality::ALL };
    let sizes = |locality| FLOWS.into_iter().filter(size).map(move |flows| Case { subject, flows, locality });
    // Sizes in one order of packets stand side by side: they are held against each other.
    localities.iter().flat_map(|locality| sizes(*locality)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn all() -> Vec<Case> {
        Subject::ALL.into_iter().flat_map(|s| of(s, true)).collect()
    }

    #[test]
    fn all_files_are_valid() {
        for case in all() {
            let text = case.file().to_string();
            let loaded = chainline_chain::load(&text, std::path::Path::new("bench.yaml"));
            assert!(loaded.is_ok(), "{}: {text}: {:?}", case.name(), loaded.err());
        }
    }

    #[test]
    fn names_are_those_of_the_documentation() {
        let names: BTreeSet<_> = all().iter().map(Case::name).collect();
        assert_eq!(names.len(), all().len(), "each its own");
        let some = ["lb.nat.10.worst.mpps", "firewall.rules10000.1000000.random.mpps", "chain4.1000000.mpps"];
        assert!(some.iter().all(|n| names.contains(*n)), "{names:?}");
        assert!(of(Subject::Lb, false).iter().all(|c| c.flows <= 1_000_000));
    }

    #[test]
    fn each_flow_of_the_traffic_has_a_line() {
        let case = Case { subject: Subject::L3fwdExact, flows: 1000, locality: Locality::Best };
        let tuples: Vec<_> = case.tuples().collect();
        assert_eq!(tuples.iter().collect::<std::collections::HashSet<_>>().len(), 1000);
        assert!(tuples.iter().all(|t| t.dst_port == SERVICE_PORT && t.dst == SERVICE));
        let text = inputs::flows(case.tuples());
        assert_eq!(text.lines().filter(|l| l.starts_with("udp 10.")).count(), 1000);
    }

    #[test]
    fn state_is_there_before_it_is_measured() {
        let case = |locality| Case { subject: Subject::Lb, flows: 1_000_000, locality };
        assert!(case(Locality::Best).warmup_ms() > 1_500);
        assert!(case(Locality::Worst).warmup_ms() > 500);
        let stateless = Case { subject: Subject::Forward, flows: 10, locality: Locality::Best };
        assert_eq!(stateless.warmup_ms(), 100);
    }
}
