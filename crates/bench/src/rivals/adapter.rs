//! The adapter file: what the bench must know of a dataplane to start it, to see that it is ready, to read its
//! counters and to stop it. The built-in dataplanes are such files too.

use super::words::Text;
use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::Serialize;

/// The word after `kind:`.
pub const KIND: &str = "Dataplane";
/// Milliseconds that a step has when the file says nothing.
pub const WITHIN_MS: u32 = 10_000;
/// Milliseconds that a step may ask for.
pub const WITHIN: std::ops::RangeInclusive<u32> = 1..=600_000;
/// Milliseconds that a program has after SIGTERM when the file says nothing.
pub const GRACE_MS: u32 = 3_000;

/// A whole adapter file; the form that its JSON Schema is made from.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[schemars(title = "Chainline dataplane under test")]
pub struct File {
    /// Version of this format: `chainline/v1alpha1`.
    #[schemars(extend("const" = chainline_chain::model::API_VERSION))]
    pub api_version: String,
    /// What the file describes: `Dataplane`.
    #[schemars(extend("const" = KIND))]
    pub kind: String,
    /// What it is called.
    pub metadata: chainline_chain::model::Metadata,
    /// How it is used.
    pub spec: Spec,
}

/// How a dataplane is used. Every text may hold placeholders such as `{in}`; `{{in}}` is the text `{in}`. Commands
/// are lists of words, not lines for a shell, and run as root in the dataplane's own network namespace and on its core.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// What it is, in a line.
    pub title: Text,
    /// The ports that it can be measured with.
    #[schemars(length(min = 1))]
    pub ports: Vec<PortKind>,
    /// Where its work is done.
    #[serde(skip_serializing_if = "Worker::is_process")]
    #[schemars(default)]
    pub worker: Worker,
    /// What must be installed.
    #[schemars(default)]
    pub needs: Needs,
    /// How its version is found out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<Version>,
    /// Variables of the environment of its commands.
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    #[schemars(default)]
    pub env: IndexMap<String, Text>,
    /// Files that are written before it is started, by name, into `{dir}`.
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    #[schemars(default)]
    pub files: IndexMap<String, Text>,
    /// How it is started, step by step. It is ready after the last one.
    #[schemars(length(min = 1))]
    pub start: Vec<Step>,
    /// How its counters are read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counters: Option<CounterSource>,
    /// How it is stopped. What still runs afterwards gets SIGTERM, and SIGKILL after `grace_ms`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub stop: Vec<Step>,
    /// Milliseconds between SIGTERM and SIGKILL; 3000 if the file says nothing.
    #[schemars(default, range(min = *WITHIN.start(), max = *WITHIN.end()))]
    pub grace_ms: u32,
}

/// What lies between the tester and the dataplane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PortKind {
    /// veth pairs. Both ends are used through packet sockets, or by the kernel itself.
    Veth,
    /// veth pairs whose ends are used through AF_XDP sockets.
    AfXdp,
    /// memif: memory that both share. The dataplane makes the socket, the tester connects to it.
    Memif,
}

impl PortKind {
    /// The words in files and on the command line.
    pub const WORDS: &'static [(&'static str, Self)] =
        &[("veth", Self::Veth), ("af_xdp", Self::AfXdp), ("memif", Self::Memif)];

    /// The word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Veth => "veth",
            Self::AfXdp => "af_xdp",
            Self::Memif => "memif",
        }
    }

    /// Whether there are interfaces of the kernel.
    #[must_use]
    pub fn has_interfaces(self) -> bool {
        self != Self::Memif
    }
}

/// Where a dataplane's work is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Worker {
    /// In processes of its own, which are pinned to its core.
    #[default]
    Process,
    /// In the kernel. Its receiving side gets a thread of its own (threaded NAPI), which is pinned to its core;
    /// otherwise the kernel would forward on the sender's core, on the tester's time.
    Kernel,
}

impl Worker {
    fn is_process(&self) -> bool {
        *self == Self::Process
    }
}

/// What must be installed.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(default)]
pub struct Needs {
    /// Programs that must be on the path.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub programs: Vec<String>,
    /// Debian's packages that bring them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub debian: Vec<String>,
}

/// How a version is found out.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Version {
    /// A command that prints it. It may fail.
    #[schemars(length(min = 1))]
    pub run: Vec<Text>,
    /// A regular expression; its first group is the version. The first line of the output if the file says nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub find: Option<Pattern>,
}

/// One step; exactly one of `run`, `serve`, `say` and `wait_for`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// What is done.
    #[serde(flatten)]
    pub action: Action,
    /// A regular expression that the output must match, in many lines. `run` is repeated until it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Pattern>,
    /// Milliseconds that the step may take; 10000 if the file says nothing.
    #[schemars(default, range(min = *WITHIN.start(), max = *WITHIN.end()))]
    pub within_ms: u32,
}

/// What a step does.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Runs a command to its end, which must be 0.
    Run(#[schemars(length(min = 1))] Vec<Text>),
    /// Starts a program that serves until the dataplane is stopped. When it ends before, the dataplane has failed.
    Serve(#[schemars(length(min = 1))] Vec<Text>),
    /// Says a line on the standard input of the program that was started last.
    Say(Text),
    /// Waits for a file or a socket.
    WaitFor(Text),
}

impl Action {
    /// The words in the file.
    pub const WORDS: &'static [&'static str] = &["run", "serve", "say", "wait_for"];
}

/// Where counters are read: exactly one of `run` and `say`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CounterSource {
    /// A command that prints them, or a line for the standard input of the program that was started last.
    #[serde(flatten)]
    pub ask: Ask,
    /// A regular expression whose first group is the number of frames received from the generator. If it matches more
    /// than once, the numbers are added.
    pub received: Pattern,
    /// The same for frames sent to the sink.
    pub transmitted: Pattern,
    /// The ports with which it has these counters; all, if the file says nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub ports: Vec<PortKind>,
    /// Milliseconds that the answer may take; 10000 if the file says nothing.
    #[schemars(default, range(min = *WITHIN.start(), max = *WITHIN.end()))]
    pub within_ms: u32,
}

/// Whom to ask for counters.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Ask {
    /// A command.
    Run(#[schemars(length(min = 1))] Vec<Text>),
    /// A line for the program that was started last.
    Say(Text),
}

/// A regular expression in the syntax of Rust's `regex` crate; `^` and `$` match at lines.
#[derive(Clone, Debug)]
pub struct Pattern(pub regex::Regex);

impl Serialize for Pattern {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(self.0.as_str())
    }
}

impl JsonSchema for Pattern {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Pattern".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "description": "A regular expression in the syntax of Rust's `regex` crate; `^` and `$` match at lines.",
            "type": "string",
            "minLength": 1,
        })
    }
}

impl Pattern {
    /// Largest compiled size in bytes: no adapter needs more, and none shall take the memory.
    const MOST_BYTES: usize = 1 << 20;

    /// From a file's text.
    ///
    /// # Errors
    /// What is wrong with it, in a line.
    pub fn new(text: &str) -> Result<Self, String> {
        let built = regex::RegexBuilder::new(text).multi_line(true).size_limit(Self::MOST_BYTES).build();
        // The library draws the place over several lines; the last one says what is wrong.
        let last = |e: regex::Error| e.to_string().lines().last().unwrap_or_default().trim().to_owned();
        built.map(Self).map_err(|e| last(e).trim_start_matches("error: ").to_owned())
    }

    /// The sum of the numbers that its first group finds; `None` if it finds none.
    #[must_use]
    pub fn sum(&self, text: &str) -> Option<u64> {
        let numbers: Option<Vec<u64>> =
            self.0.captures_iter(text).map(|c| c.get(1).and_then(|m| m.as_str().parse().ok())).collect();
        let numbers = numbers.filter(|n| !n.is_empty())?;
        numbers.iter().try_fold(0_u64, |sum, n| sum.checked_add(*n))
    }
}
