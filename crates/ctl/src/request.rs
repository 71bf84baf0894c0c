//! What can be asked: one [`Call`] a line, and the parser that refuses everything else in few words.

use crate::answer::{Fault, Word};
use chainline_chain::model;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// By what a reply is told to belong to its request: whatever the client chose.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Id {
    /// A number.
    Number(u64),
    /// A text of at most [`Id::LONGEST`] bytes.
    Text(#[schemars(length(max = Id::LONGEST))] String),
    /// The client gave none, or it could not be read.
    #[default]
    None,
}

impl Id {
    /// The longest text, in bytes.
    pub const LONGEST: usize = 128;
}

/// The names of all methods.
pub const METHODS: [&str; 14] = [
    "list",
    "stats",
    "file",
    "set_policy",
    "set_priority",
    "set_cores",
    "set_mechanisms",
    "set_watermarks",
    "set_rules",
    "set_path",
    "add",
    "remove",
    "apply",
    "reload",
];

/// A method and its parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "method", content = "params", rename_all = "snake_case", deny_unknown_fields)]
pub enum Call {
    /// What runs: ports, NFs, instances and chains. The result is an `Overview`.
    List,
    /// The numbers now. The result is `Stats`; it is made anew at most ten times a second.
    Stats,
    /// The chain file in force, as JSON.
    File,
    /// Schedules NFs otherwise. The result is `Changed`, as for all that follow.
    SetPolicy {
        /// Whom.
        of: Target,
        /// All of it, as in the chain file; what is left out is as there.
        #[schemars(with = "model::Sched")]
        sched: Value,
    },
    /// Changes the factor of a share, or the static priority of `fifo` and `rr`.
    SetPriority {
        /// Whose.
        of: Target,
        /// 1 to 99.
        #[schemars(range(min = 1, max = 99))]
        priority: u8,
    },
    /// Moves NFs to other cores.
    SetCores {
        /// Whom; a core stands for the NFs that may run on it.
        of: Target,
        /// The cores that they may run on from now on.
        #[schemars(length(min = 1))]
        cores: Vec<usize>,
    },
    /// Changes which mechanisms against wasted work are in force. Where credit comes or goes, all NFs begin anew.
    SetMechanisms {
        /// As `defaults.mechanisms` in the chain file.
        #[schemars(with = "model::Mechanisms")]
        mechanisms: String,
    },
    /// Changes when overloaded chains shed at their entry.
    SetWatermarks {
        /// Fields of `defaults.backpressure` in the chain file; what is left out stays as it is.
        #[schemars(with = "model::Backpressure")]
        backpressure: Map<String, Value>,
    },
    /// Changes which packets belong to a chain.
    SetRules {
        /// The chain's name.
        chain: String,
        /// The whole new `match`, as in the chain file; `{}`: all packets of its port.
        #[serde(rename = "match")]
        #[schemars(with = "model::Match")]
        matches: Value,
    },
    /// Changes the NFs that a chain's packets visit.
    SetPath {
        /// The chain's name.
        chain: String,
        /// The ingress port, the NFs in order, the egress port.
        path: Vec<String>,
    },
    /// Adds ports, NFs and chains.
    Add(Add),
    /// Removes chains, and NFs and ports that no chain needs any more.
    Remove(Remove),
    /// Makes the run what another chain file says, changing only what differs.
    Apply {
        /// The file: its text (YAML or JSON), or its content.
        file: Value,
        /// What it is called in messages.
        #[serde(default)]
        name: Option<String>,
    },
    /// As `apply`, with the file that the run was started with, read again by the manager.
    Reload,
}

/// Whose scheduling is to change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// One NF, and with it those that are fused with it.
    Nf(String),
    /// The NFs of a chain.
    Chain(String),
    /// The NFs that may run on a core.
    Core(usize),
}

/// What is added. Definitions are as in the chain file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Add {
    /// Ports by name; of kinds that need no device.
    #[serde(skip_serializing_if = "Map::is_empty")]
    #[schemars(with = "std::collections::BTreeMap<String, model::Port>")]
    pub ports: Map<String, Value>,
    /// NFs by name.
    #[serde(skip_serializing_if = "Map::is_empty")]
    #[schemars(with = "std::collections::BTreeMap<String, model::Nf>")]
    pub nfs: Map<String, Value>,
    /// Chains in their order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<model::Chain>")]
    pub chains: Vec<Value>,
    /// The chain that they come before: a packet belongs to the first that matches. Default: after all others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
}

/// What is removed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Remove {
    /// Names of chains.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub chains: Vec<String>,
    /// Names of NFs: they leave every path, and their definitions go.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nfs: Vec<String>,
}

/// Reads one line: the id to answer under, and what is asked.
///
/// # Errors
/// What was found, what was expected and what to do, with the id if that much could be read.
pub fn parse(line: &[u8]) -> Result<(Id, Call), (Id, Fault)> {
    const SHAPE: &str = r#"a request looks like {"id": 1, "method": "list"}"#;
    let malformed = |id, what: String| (id, Fault::new(Word::Malformed, what).hint(SHAPE));
    let value: Value = serde_json::from_slice(line)
        .map_err(|e| malformed(Id::None, format!("column {}: {}, expected JSON", e.column(), bare(&e))))?;
    let Value::Object(mut request) = value else {
        return Err(malformed(Id::None, format!("found {}, expected an object", kind(&value))));
    };
    let id = match request.remove("id") {
        None | Some(Value::Null) => Id::None,
        Some(Value::String(text)) if text.len() <= Id::LONGEST => Id::Text(text),
        Some(Value::Number(n)) if n.is_u64() => Id::Number(n.as_u64().unwrap_or_default()),
        Some(other) => {
            let what =
                format!("found {} as `id`, expected a number or a text of at most {} bytes", kind(&other), Id::LONGEST);
            return Err(malformed(Id::None, what));
        }
    };
    let method = match request.get("method") {
        Some(Value::String(method)) => method.clone(),
        Some(other) => return Err(malformed(id, format!("found {} as `method`, expected its name", kind(other)))),
        None => return Err(malformed(id, "found no `method`, expected its name".into())),
    };
    if !METHODS.contains(&method.as_str()) {
        let fault =
            Fault::new(Word::UnknownMethod, format!("found the method {}, expected a known one", short(&method)))
                .hint(format!("there are {}", METHODS.join(", ")));
        return Err((id, fault));
    }
    // Methods without parameters may be given none, in any form.
    let none = request.get("params").is_some_and(|p| p.is_null() || p.as_object().is_some_and(Map::is_empty));
    if none && !matches!(method.as_str(), "add" | "remove") {
        request.remove("params");
    }
    match serde_json::from_value::<Call>(Value::Object(request)) {
        Ok(call) => Ok((id, call)),
        Err(e) => {
            let fault = Fault::new(Word::InvalidParams, format!("{method}: {}", short(&bare(&e))))
                .hint("docs/reference/control-protocol.md has the parameters of each method");
            Err((id, fault))
        }
    }
}

/// A message without its place, which is always line 1.
fn bare(e: &serde_json::Error) -> String {
    let text = e.to_string();
    text.rsplit_once(" at line ").map_or(text.as_str(), |(what, _)| what).to_owned()
}

/// A stranger's text, of which only so much is repeated, and nothing that a terminal would obey.
fn short(text: &str) -> String {
    const SHOWN: usize = 200;
    let mut out: String = text.chars().take(SHOWN).map(|c| if c.is_control() { '?' } else { c }).collect();
    if text.chars().nth(SHOWN).is_some() {
        out.push('…');
    }
    out
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a truth value",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_method_is_read_and_written() {
        let calls = [
            Call::List,
            Call::Stats,
            Call::File,
            Call::SetPolicy { of: Target::Core(3), sched: json!({"policy": "fifo", "priority": 7}) },
            Call::SetPriority { of: Target::Nf("fw".into()), priority: 9 },
            Call::SetCores { of: Target::Chain("web".into()), cores: vec![1, 2] },
            Call::SetMechanisms { mechanisms: "weights".into() },
            Call::SetWatermarks { backpressure: [("high".to_owned(), json!(0.7))].into_iter().collect() },
            Call::SetRules { chain: "web".into(), matches: json!({"dst_port": [80, "8000-8999"]}) },
            Call::SetPath { chain: "web".into(), path: vec!["in".into(), "out".into()] },
            Call::Add(Add { chains: vec![json!({"name": "x"})], ..Add::default() }),
            Call::Remove(Remove { chains: vec!["x".into()], ..Remove::default() }),
            Call::Apply { file: json!("a: 1"), name: None },
            Call::Reload,
        ];
        assert_eq!(calls.len(), METHODS.len());
        for (call, method) in calls.into_iter().zip(METHODS) {
            let mut request = serde_json::to_value(&call).unwrap();
            assert_eq!(request["method"], method);
            request["id"] = json!("x");
            let line = serde_json::to_vec(&request).unwrap();
            assert_eq!(parse(&line), Ok((Id::Text("x".into()), call)));
        }
        assert_eq!(parse(br#"{"method": "list", "params": {}}"#), Ok((Id::None, Call::List)));
        assert_eq!(parse(br#"{"method": "list", "params": null, "id": null}"#), Ok((Id::None, Call::List)));
    }

    #[test]
    fn what_is_no_request_is_refused_with_a_word_and_a_way_out() {
        let long = format!(r#"{{"id": "{}", "method": "list"}}"#, "x".repeat(129));
        let deep = "[".repeat(100_000);
        let bad: [(&[u8], Word, Id); 17] = [
            (b"", Word::Malformed, Id::None),
            (b"{", Word::Malformed, Id::None),
            (b"[]", Word::Malformed, Id::None),
            (b"\xff\xfe", Word::Malformed, Id::None),
            (deep.as_bytes(), Word::Malformed, Id::None),
            (long.as_bytes(), Word::Malformed, Id::None),
            (br#"{"id": -1, "method": "list"}"#, Word::Malformed, Id::None),
            (br#"{"id": {}, "method": "list"}"#, Word::Malformed, Id::None),
            (br#"{"id": 5}"#, Word::Malformed, Id::Number(5)),
            (br#"{"id": 5, "method": 7}"#, Word::Malformed, Id::Number(5)),
            (br#"{"id": 5, "method": "lists"}"#, Word::UnknownMethod, Id::Number(5)),
            (br#"{"id": 5, "method": "list", "x": 1}"#, Word::InvalidParams, Id::Number(5)),
            (br#"{"id": 5, "method": "list", "params": [1]}"#, Word::InvalidParams, Id::Number(5)),
            (br#"{"id": 5, "method": "set_priority"}"#, Word::InvalidParams, Id::Number(5)),
            (
                br#"{"id": 5, "method": "set_priority", "params": {"of": {"nf": "a"}, "priority": 256}}"#,
                Word::InvalidParams,
                Id::Number(5),
            ),
            (
                br#"{"id": 5, "method": "set_cores", "params": {"of": {"nf": "a", "core": 1}, "cores": [1]}}"#,
                Word::InvalidParams,
                Id::Number(5),
            ),
            (br#"{"id": 5, "method": "remove", "params": {"ports": ["a"]}}"#, Word::InvalidParams, Id::Number(5)),
        ];
        for (line, word, id) in bad {
            let shown = String::from_utf8_lossy(&line[..line.len().min(80)]).into_owned();
            let (found, fault) = parse(line).expect_err(&shown);
            assert_eq!((fault.code, found), (word, id), "{shown}: {fault:?}");
            assert!(fault.hint.is_some() && fault.message.len() < 1000, "{shown}: {fault:?}");
        }
    }
}
