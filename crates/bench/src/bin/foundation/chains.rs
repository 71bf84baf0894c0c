//! The chain files that are measured. They are what a user could write; nothing here is for measuring only.

use serde_json::{Map, Value, json};

/// Cores: the manager with generator and sink, and the NFs.
pub const MANAGER_CORE: usize = 0;
pub const NF_CORE: usize = 1;

/// Costs of the three synthetic NFs in TSC cycles: those of NFVnice (SIGCOMM 2017, section 4.2).
const COSTS: [u32; 3] = [120, 270, 550];

/// The six orders of the costs.
pub const ORDERS: [[usize; 3]; 6] = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];

/// How an order is called: `120-270-550`.
pub fn order_name(order: [usize; 3]) -> String {
    order.map(|i| COSTS[i].to_string()).join("-")
}

/// What the generator does when there is no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer {
    /// Waits: as much as fits.
    Fitting,
    /// Goes on and sheds: far more than fits.
    Excess,
}

/// A chain file: 64-byte frames at the highest rate through `nfs`, all on one core.
fn loaded(nfs: Vec<(String, Value)>, offer: Offer) -> Value {
    let generator = json!({"frame_bytes": 64, "rate": "max", "lossless": offer == Offer::Fitting});
    file(json!({"generator": generator}), nfs)
}

fn file(input: Value, nfs: Vec<(String, Value)>) -> Value {
    let mut path = vec!["in".to_owned()];
    path.extend(nfs.iter().map(|(name, _)| name.clone()));
    path.push("out".to_owned());
    json!({
        "apiVersion": "chainline/v1alpha1",
        "kind": "ServiceChain",
        "metadata": {"name": "bench"},
        "spec": {
            "defaults": {"manager_core": MANAGER_CORE, "cores": [NF_CORE]},
            "ports": {"in": input, "out": {"sink": {}}},
            "nfs": Map::from_iter(nfs),
            "chains": [{"name": "all", "path": path}],
        },
    })
}

fn forwards(n: usize) -> Vec<(String, Value)> {
    (0..n).map(|i| (format!("forward{i}"), json!({"kind": "forward"}))).collect()
}

/// Three synthetic NFs, offered far more than fits. All instances get the same `iteration_cycles`, so that they do
/// the same work per packet whatever happened while each of them started.
pub fn shared_core(order: [usize; 3], isolation: &str, iteration_cycles: f64) -> Value {
    let nf = |i: usize| {
        let args = json!({"cost_cycles": COSTS[i], "iteration_cycles": iteration_cycles});
        (format!("cost{}", COSTS[i]), json!({"kind": "synthetic", "isolation": isolation, "args": args}))
    };
    loaded(order.map(nf).into(), Offer::Excess)
}

/// One synthetic NF that measures for itself what an iteration costs.
pub fn calibration() -> Value {
    loaded(vec![("synthetic".into(), json!({"kind": "synthetic", "args": {"cost_cycles": COSTS[0]}}))], Offer::Fitting)
}

/// `n` forwarding processes; with none, the generator's packets go straight to the sink.
pub fn forward(n: usize) -> Value {
    loaded(forwards(n), Offer::Fitting)
}

/// Three forwarding processes with at most so many packets inside.
pub fn forward_in_flight(packets: u32) -> Value {
    let mut file = loaded(forwards(3), Offer::Fitting);
    file["spec"]["chains"][0]["max_in_flight"] = packets.into();
    file
}

/// Three forwarding processes and a packet a second: asleep but for that.
pub fn idle() -> Value {
    file(json!({"generator": {"frame_bytes": 64, "rate": "1pps"}}), forwards(3))
}

/// One NF of each kind that is timed as it starts, with arguments as small as possible.
pub fn starting(kind: &str) -> Value {
    let args = match kind {
        "firewall" => json!({"rules_inline": ["deny tcp from any to any port 23"]}),
        "l3fwd" => json!({"routes_inline": ["0.0.0.0/0 via 02:00:00:00:00:03"]}),
        _ => json!({}),
    };
    file(
        json!({"generator": {"frame_bytes": 64, "rate": "1pps"}}),
        vec![("nf".into(), json!({"kind": kind, "args": args}))],
    )
}

/// A hundred forwarding processes in two chains.
pub fn hundred() -> Value {
    let mut file = file(json!({"generator": {"frame_bytes": 64, "rate": "1pps"}}), forwards(100));
    let path = |from: usize| {
        let nfs = (from..from + 50).map(|i| format!("forward{i}"));
        std::iter::once("in".to_owned()).chain(nfs).chain(["out".to_owned()]).collect::<Vec<_>>()
    };
    file["spec"]["chains"] = json!([
        {"name": "low", "match": {"dst_port": "0-1023"}, "path": path(0)},
        {"name": "high", "path": path(50)},
    ]);
    file
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_valid() {
        let mut files = vec![calibration(), forward(0), forward(4), forward_in_flight(128), idle(), hundred()];
        files.extend(["forward", "firewall", "monitor", "l3fwd"].map(starting));
        for order in ORDERS {
            files.extend(["process", "fused"].map(|isolation| shared_core(order, isolation, 3.2)));
        }
        for file in files {
            let text = file.to_string();
            let loaded = chainline_chain::load(&text, std::path::Path::new("bench.yaml"));
            assert!(loaded.is_ok(), "{text}: {:?}", loaded.err());
        }
    }

    #[test]
    fn orders_are_the_permutations() {
        let names: std::collections::BTreeSet<_> = ORDERS.into_iter().map(order_name).collect();
        assert_eq!(names.len(), 6);
        assert!(names.contains("550-120-270"));
    }
}
