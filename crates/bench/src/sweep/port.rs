//! The factor `port`: between generator and chain lie real ports, so generator and sink become a tester of their own,
//! as for other dataplanes, and the chain under test has the ports that they had. Beside these cases stands the port
//! alone, with nothing between the tester's two ends of it.

use super::apply::ApplyError;
use crate::dataplane::DataplaneError;
use crate::rivals::adapter::{PortKind, Spec};
use crate::rivals::builtin;
use crate::rivals::compare::PORT_ALONE;
use crate::rivals::lab::port_json;
use crate::rivals::tester::{self, Traffic};
use crate::rivals::words::Text;
use crate::run::Case;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Nothing lies between.
const NONE: &str = "none";
/// The factor's words.
pub(super) const WORDS: &[(&str, &str)] =
    &[(NONE, NONE), ("af_packet", "af_packet"), ("af_xdp", "af_xdp"), ("memif", "memif")];
/// The built-in dataplane that says how a chain of ours is started in a lab, and its file that is the chain.
const ADAPTER: (&str, &str) = ("chainline", "chain.yaml");
/// Placeholders for the ports in the chain under test.
const PLACES: [&str; 2] = ["{in_port}", "{out_port}"];
/// Factors that say something of the port alone.
const OF_TRAFFIC: [&str; 7] = ["port", "frame_bytes", "mix", "flows", "locality", "working_set", "cpu_frequency"];

/// The kind of port that a combination has; `None`: generator and sink are inside the chain's manager.
pub(super) fn kind(value: Option<&Value>) -> Option<PortKind> {
    match value.and_then(Value::as_str)? {
        "af_packet" => Some(PortKind::Veth),
        "af_xdp" => Some(PortKind::AfXdp),
        "memif" => Some(PortKind::Memif),
        _ => None,
    }
}

fn unfit(why: impl Into<String>) -> ApplyError {
    ApplyError::Unfit { factor: "port".into(), why: why.into() }
}

/// Takes generator and sink out of a chain file, and puts placeholders for ports in their places. The generator's
/// fields, for the tester.
pub(super) fn divide(file: &mut Value) -> Result<Map<String, Value>, ApplyError> {
    let ports = file["spec"]["ports"].as_object_mut().ok_or_else(|| unfit("the base has no ports"))?;
    let named = |kind: &str| -> Vec<String> {
        ports.iter().filter(|(_, p)| p.get(kind).is_some()).map(|(n, _)| n.clone()).collect()
    };
    let ([from], [to]) = (&named("generator")[..], &named("sink")[..]) else {
        return Err(unfit("the base has more than one generator or sink, or none, expected one of each"));
    };
    if ports.len() > 2 {
        return Err(unfit("the base has other ports than generator and sink, which a lab does not have"));
    }
    let (from, to) = (from.clone(), to.clone());
    let generator = ports[&from]["generator"].as_object().cloned().unwrap_or_default();
    ports[&from] = PLACES[0].into();
    ports[&to] = PLACES[1].into();
    Ok(generator)
}

/// A divided chain file with ports that can be checked: interfaces or sockets that nobody has.
pub(super) fn checkable(file: &Value, kind: PortKind) -> Value {
    filled(file, |i| port_json(kind, ["in0", "out0"][i], "server"))
}

/// The tester's file with such ports.
pub(super) fn checkable_tester(generator: &Map<String, Value>, kind: PortKind, core: usize) -> Value {
    let ports = ["in0", "out0"].map(|place| port_json(kind, place, "client"));
    tester::chain_file(ports, &Traffic::of(generator.clone()), core)
}

fn filled(file: &Value, port: impl Fn(usize) -> Value) -> Value {
    let mut file = file.clone();
    for (_, value) in file["spec"]["ports"].as_object_mut().into_iter().flatten() {
        if let Some(i) = PLACES.iter().position(|p| value == p) {
            *value = port(i);
        }
    }
    file
}

/// How a lab starts a divided chain file.
pub(super) fn adapter(file: &Value) -> Result<Spec, DataplaneError> {
    let failed = |why: String| DataplaneError::Failed { what: ADAPTER.0.into(), why };
    let mut spec = builtin::get(ADAPTER.0).ok_or_else(|| failed("there is no such adapter".into()))?;
    let mut text = file.to_string();
    for place in PLACES {
        // A port is a map where the placeholder is a text.
        text = text.replace(&format!("\"{place}\""), place);
    }
    let text = Text::new(&text).map_err(|(why, _)| failed(why))?;
    spec.files.insert(ADAPTER.1.into(), text);
    Ok(spec)
}

/// The cases, and before the first of those with the same traffic over the same port, the port alone.
pub(super) fn beside(cases: Vec<Case>) -> Vec<Case> {
    let mut all: Vec<Case> = Vec::new();
    for case in cases {
        let content = json!({"port": case.content["port"], "tester": case.content["tester"]});
        let divided = !content["port"].is_null() && case.unavailable.is_none();
        if divided && !all.iter().any(|c| c.dataplane == PORT_ALONE && c.content == content) {
            let factors: BTreeMap<String, Value> =
                case.factors.iter().filter(|(f, _)| OF_TRAFFIC.contains(&f.as_str())).map(pair).collect();
            let name = super::name(&factors.iter().map(pair).collect::<super::Combination>());
            let name = format!("{PORT_ALONE}: {name}");
            all.push(Case { name, dataplane: PORT_ALONE.into(), factors, content, ..Case::default() });
        }
        all.push(case);
    }
    all
}

fn pair((name, value): (&String, &Value)) -> (String, Value) {
    (name.clone(), value.clone())
}
