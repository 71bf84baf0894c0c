//! Chain files: refused with places that are there, or planned with queues that fit together.

#[path = "../../../crates/chain/tests/support/mod.rs"]
mod support;

use chainline_chain::{Diagnostics, Host, load_bytes, plan::Plan};
use std::path::Path;

const CORES: [usize; 2] = [0, 1];
const KINDS: [&str; 5] = ["firewall", "forward", "l3fwd", "monitor", "synthetic"];

/// The target.
pub fn run(data: &[u8]) {
    let name = Path::new("fuzz.yaml");
    let known = Host { cores: Some(&CORES), kinds: Some(&KINDS) };
    if let Err(e) = load_bytes(data, name, &known) {
        check_places(&e);
    }
    let Ok(file) = load_bytes(data, name, &Host::default()) else { return };
    match Plan::build(&file, &CORES) {
        Ok(plan) => {
            support::check_plan(&plan, &CORES);
            assert!(!chainline_chain::dot(&plan).is_empty() && !chainline_chain::mermaid(&plan).is_empty());
            let _ = (chainline_chain::table(&plan), serde_json::to_string(&plan).unwrap());
        }
        Err(e) => check_places(&e),
    }
    let _ = Plan::build(&file, &[]);
}

fn check_places(found: &Diagnostics) {
    assert!(!found.items().is_empty());
    for d in found.items() {
        assert!(found.text().get(d.span.range()).is_some(), "{d:?}");
        assert!(d.span.line >= 1 && d.span.column >= 1, "{d:?}");
    }
    let _ = found.to_string();
}
