//! Instructions a packet, as `scripts/instructions.sh --json` counted them.

use chainline_bench::figures::Figure;
use serde_json::Value;
use std::path::Path;

/// NFs whose instructions are counted.
const NFS: [&str; 4] = ["forward", "firewall", "monitor", "l3fwd"];

/// The figures by NF. A count is the same in every round, so there is one.
pub fn read(path: Option<&Path>) -> Vec<(String, Figure)> {
    let counts = match path {
        None => Err("not counted in this run".to_owned()),
        Some(path) => std::fs::read(path)
            .map_err(|e| format!("{}: {e}", path.display()))
            .and_then(|text| serde_json::from_slice(&text).map_err(|e| format!("{}: {e}", path.display()))),
    };
    NFS.into_iter().map(|nf| (nf.to_owned(), figure(&counts, nf))).collect()
}

fn figure(counts: &Result<Value, String>, nf: &str) -> Figure {
    match counts {
        Err(why) => Figure::unavailable(why.clone()),
        Ok(counts) => match (counts["instructions_per_packet"][nf].as_f64(), counts["unavailable"].as_str()) {
            (Some(count), _) => Figure::of(vec![count], "instructions"),
            (None, Some(why)) => Figure::unavailable(why),
            (None, None) => Figure::unavailable("not among those counted"),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn counts_or_the_reason() {
        let counted = Ok(json!({"instructions_per_packet": {"forward": 20.4}}));
        assert_eq!(figure(&counted, "forward").median(), Some(20.4));
        assert_eq!(figure(&counted, "l3fwd"), Figure::unavailable("not among those counted"));
        let without = Ok(json!({"unavailable": "valgrind is not installed"}));
        assert_eq!(figure(&without, "forward"), Figure::unavailable("valgrind is not installed"));
    }
}
