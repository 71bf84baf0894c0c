//! The tester: `chainline run --steer` with a generator that stamps its frames and a sink that checks them, in the
//! lab's own namespace and on its own core. One process, so one clock.

use super::lab::{DESTINATIONS, Lab, SOURCES};
use crate::dataplane::DataplaneError;
use crate::dataplane::steered::{Asked, START, Steered};
use serde_json::{Map, Value, json};
use std::path::Path;

/// What the tester sends: a generator's fields, as a chain file has them.
#[derive(Clone, Debug, PartialEq)]
pub struct Traffic(Map<String, Value>);

impl Traffic {
    /// So many flows between the lab's networks. `frame_bytes` is the length of each frame with FCS.
    #[must_use]
    pub fn new(frame_bytes: u16, flows: u32) -> Self {
        let generator = json!({"frame_bytes": frame_bytes, "flows": flows, "src": SOURCES, "dst": DESTINATIONS});
        Self::of(generator.as_object().cloned().unwrap_or_default())
    }

    /// Whatever a generator sends. Its frames get stamps, which must be possible: see `docs/workload.md`.
    #[must_use]
    pub fn of(mut generator: Map<String, Value>) -> Self {
        generator.insert("stamp".into(), true.into());
        Self(generator)
    }
}

/// The tester's chain file, with its ports towards the dataplane and from it.
#[must_use]
pub fn chain_file([to, from]: [Value; 2], traffic: &Traffic, core: usize) -> Value {
    json!({
        "apiVersion": chainline_chain::model::API_VERSION, "kind": chainline_chain::model::KIND,
        "metadata": {"name": "tester"},
        "spec": {
            "defaults": {"manager_core": core},
            "ports": {"generator": {"generator": traffic.0}, "to": to, "from": from, "sink": {"sink": {"check": true}}},
            "chains": [{"name": "there", "path": ["generator", "to"]}, {"name": "back", "path": ["from", "sink"]}],
        },
    })
}

/// Starts the tester in its lab.
///
/// # Errors
/// When it does not become ready.
pub fn start(
    lab: &Lab,
    traffic: &Traffic,
    core: usize,
    chainline: &Path,
    stop: Asked,
) -> Result<Steered, DataplaneError> {
    let file = lab.dir().join("tester.json");
    std::fs::write(&file, format!("{:#}\n", chain_file(lab.tester_ports(), traffic, core)))
        .map_err(|source| DataplaneError::Io { what: file.display().to_string(), source })?;
    let mut command = lab.inside(&lab.tester());
    command.args(["taskset", "-c", &core.to_string()]).arg(chainline).args(["run", "--steer", "--quiet"]).arg(&file);
    Steered::start("the tester", &command, START, stop)
}
