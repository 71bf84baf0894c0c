//! An adapter file's text to [`Spec`], with everything that is wrong at its place.

use super::adapter::{
    Action, Ask, CounterSource, GRACE_MS, KIND, Needs, Pattern, PortKind, Spec, Step, Version, WITHIN, WITHIN_MS,
    Worker,
};
use super::words::Text;
use chainline_chain::Diagnostics;
use chainline_chain::document::{self, Decoder, Document, Entry, Fields, Node, Value, quote};
use indexmap::IndexMap;
use std::path::Path;

/// Reads an adapter file; `name` is for messages.
///
/// # Errors
/// Everything that is wrong with it.
pub fn load(bytes: &[u8], name: &Path) -> Result<Document<Spec>, Diagnostics> {
    document::load(bytes, name, &document::Kind { name: KIND, noun: "dataplane" }, spec)
}

/// The same file as JSON, as it stands: for tools that know JSON Schema.
///
/// # Errors
/// Everything that is wrong with it.
pub fn json(bytes: &[u8], name: &Path) -> Result<serde_json::Value, Diagnostics> {
    let kind = document::Kind { name: KIND, noun: "dataplane" };
    let read = document::load(bytes, name, &kind, |_, node| Some(node.to_json()))?;
    Ok(serde_json::json!({
        "apiVersion": chainline_chain::model::API_VERSION,
        "kind": KIND,
        "metadata": {"name": read.name},
        "spec": read.spec,
    }))
}

fn spec(d: &mut Decoder, node: &Node) -> Option<Spec> {
    let mut f = Fields::of(d, node, "a map with `title`, `ports` and `start`")?;
    let title = f.required(d, "title", text);
    let ports = f.required(d, "ports", ports);
    let worker = f.optional(d, "worker", |d, n| d.word(n, &[("process", Worker::Process), ("kernel", Worker::Kernel)]));
    let needs = f.optional(d, "needs", needs);
    let version = f.optional(d, "version", version);
    let env = f.optional(d, "env", |d, n| texts(d, n, "a map from variables to texts", variable));
    let files = f.optional(d, "files", |d, n| texts(d, n, "a map from names to texts", file_name));
    let start = f.required(d, "start", |d, n| {
        let steps = steps(d, n, false)?;
        if steps.is_empty() { d.expected(n, "at least one step") } else { Some(steps) }
    });
    let counters = f.optional(d, "counters", counters);
    let stop = f.optional(d, "stop", |d, n| steps(d, n, true));
    let grace_ms = f.optional(d, "grace_ms", |d, n| d.int(n, WITHIN));
    let serves = start.iter().flatten().any(|s| matches!(s.action, Action::Serve(_)));
    let says = |node: Option<&Node>| node.filter(|_| !serves).map(|n| n.span);
    let asked = counters.as_ref().is_some_and(|c| matches!(c.ask, Ask::Say(_)));
    let told = stop.iter().flatten().any(|s| matches!(s.action, Action::Say(_)));
    for (used, name) in [(asked, "counters"), (told, "stop")] {
        if used
            && start.is_some()
            && let Some(span) = says(f.node(name))
        {
            d.error(span, format_args!("found `say` in `{name}`, but no step of `start` has `serve`: nobody listens"));
        }
    }
    if worker == Some(Worker::Kernel) && ports.as_ref().is_some_and(|p| p.iter().any(|k| *k != PortKind::Veth)) {
        let span = f.node("ports").map_or(node.span, |n| n.span);
        d.error(span, "found ports that the kernel does not serve itself, expected `veth` alone with `worker: kernel`");
    }
    f.finish(d);
    Some(Spec {
        title: title?,
        ports: ports?,
        worker: worker.unwrap_or_default(),
        needs: needs.unwrap_or_default(),
        version,
        env: env.unwrap_or_default(),
        files: files.unwrap_or_default(),
        start: start?,
        counters,
        stop: stop.unwrap_or_default(),
        grace_ms: grace_ms.unwrap_or(GRACE_MS),
    })
}

/// A text; whole numbers need no quotes.
fn text(d: &mut Decoder, node: &Node) -> Option<Text> {
    let number;
    let text = match &node.value {
        Value::Int(i) => {
            number = i.to_string();
            &number
        }
        _ => d.text(node, "a text")?,
    };
    if text.contains('\0') {
        return d.expected(node, "a text without NUL");
    }
    let read = Text::new(text);
    read.map_err(|(message, help)| d.error_with_help(node.span, message, help)).ok()
}

fn command(d: &mut Decoder, node: &Node) -> Option<Vec<Text>> {
    const WHAT: &str = "a command as a list of words, such as [ip, link, show]";
    let Value::List(items) = &node.value else { return d.expected(node, WHAT) };
    if items.is_empty() {
        return d.expected(node, WHAT);
    }
    let words = d.list(node, WHAT, text)?;
    if words.first().is_some_and(|w| w.raw().is_empty()) {
        d.error(items[0].span, "found an empty program, expected its name");
        return None;
    }
    (words.len() == items.len()).then_some(words)
}

fn pattern(d: &mut Decoder, node: &Node) -> Option<Pattern> {
    let text = d.filled(node, "a regular expression")?;
    Pattern::new(&text)
        .map_err(|why| d.error(node.span, format_args!("found {}, no regular expression: {why}", quote(&text))))
        .ok()
}

/// A pattern whose first group is wanted.
fn group(d: &mut Decoder, node: &Node) -> Option<Pattern> {
    let p = pattern(d, node)?;
    if p.0.captures_len() < 2 {
        return d.expected(node, "a regular expression with a group, such as `rx: ([0-9]+)`");
    }
    Some(p)
}

fn ports(d: &mut Decoder, node: &Node) -> Option<Vec<PortKind>> {
    let mut kinds: Vec<PortKind> = Vec::new();
    d.one_or_more(node, "a list of ports, such as [veth, memif]", |d, n| {
        let kind = d.word(n, PortKind::WORDS)?;
        if kinds.contains(&kind) {
            d.error(n.span, format_args!("found `{}` twice, expected it once", kind.word()));
        } else {
            kinds.push(kind);
        }
        Some(())
    })?;
    Some(kinds)
}

fn needs(d: &mut Decoder, node: &Node) -> Option<Needs> {
    let mut f = Fields::of(d, node, "a map with `programs` and `debian`")?;
    let programs = f.optional(d, "programs", |d, n| d.list(n, "a list of programs", |d, n| d.filled(n, "a program")));
    let debian = f.optional(d, "debian", |d, n| d.list(n, "a list of packages", package));
    f.finish(d);
    Some(Needs { programs: programs.unwrap_or_default(), debian: debian.unwrap_or_default() })
}

/// Names are handed to `apt-get`: nothing that it would take for an option or a file.
fn package(d: &mut Decoder, node: &Node) -> Option<String> {
    const WHAT: &str = "the name of a Debian package, such as openvswitch-switch";
    let name = d.text(node, WHAT)?;
    let good = name.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "+-.".contains(c));
    if good { Some(name.to_owned()) } else { d.expected(node, WHAT) }
}

fn version(d: &mut Decoder, node: &Node) -> Option<Version> {
    let mut f = Fields::of(d, node, "a map with `run`")?;
    let run = f.required(d, "run", command);
    let find = f.optional(d, "find", group);
    f.finish(d);
    Some(Version { run: run?, find })
}

fn texts(
    d: &mut Decoder,
    node: &Node,
    what: &str,
    good: fn(&str) -> Result<(), &'static str>,
) -> Option<IndexMap<String, Text>> {
    let Value::Map(entries) = &node.value else { return d.expected(node, what) };
    let mut map = IndexMap::new();
    for Entry { key, key_span, node } in entries {
        if let Err(expected) = good(key) {
            d.error(*key_span, format_args!("found {}, expected {expected}", quote(key)));
        }
        map.extend(d.within(key, |d| text(d, node)).map(|text| (key.clone(), text)));
    }
    Some(map)
}

fn variable(name: &str) -> Result<(), &'static str> {
    let good = !name.is_empty() && !name.contains(['=', '\0']);
    good.then_some(()).ok_or("the name of a variable")
}

fn file_name(name: &str) -> Result<(), &'static str> {
    let good = !name.is_empty() && name.len() < 200 && !name.contains(['/', '\0']) && name != "." && name != "..";
    good.then_some(()).ok_or("the name of a file, without a directory")
}

fn steps(d: &mut Decoder, node: &Node, stop: bool) -> Option<Vec<Step>> {
    let mut serving = stop;
    d.list(node, "a list of steps", |d, n| {
        let step = step(d, n)?;
        match step.action {
            Action::Serve(_) if stop => {
                d.error(n.span, "found `serve` where the dataplane is stopped, expected `run`, `say` or `wait_for`");
            }
            Action::Serve(_) => serving = true,
            Action::Say(_) if !serving => {
                d.error(n.span, "found `say` before any step with `serve`: nobody listens");
            }
            _ => {}
        }
        Some(step)
    })
}

fn step(d: &mut Decoder, node: &Node) -> Option<Step> {
    let mut f = Fields::of(d, node, "a map with one of `run`, `serve`, `say` and `wait_for`")?;
    let run = f.optional(d, "run", command).map(Action::Run);
    let serve = f.optional(d, "serve", command).map(Action::Serve);
    let say = f.optional(d, "say", text).map(Action::Say);
    let wait_for = f.optional(d, "wait_for", text).map(Action::WaitFor);
    let until = f.optional(d, "until", pattern);
    let within_ms = f.optional(d, "within_ms", |d, n| d.int(n, WITHIN));
    let there: Vec<_> = Action::WORDS.iter().filter(|w| f.node(w).is_some()).collect();
    if there.len() != 1 {
        let found = match there.as_slice() {
            [] => "none of them".to_owned(),
            there => there.iter().map(|w| format!("`{w}`")).collect::<Vec<_>>().join(" and "),
        };
        let words = document::one_of(Action::WORDS.iter().copied());
        d.error(node.span, format_args!("found {found}, expected exactly one of {words}"));
    }
    if wait_for.is_some()
        && let Some(n) = f.node("until")
    {
        d.error(n.span, "found `until` with `wait_for`, which prints nothing");
    }
    f.finish(d);
    let action = run.or(serve).or(say).or(wait_for)?;
    Some(Step { action, until, within_ms: within_ms.unwrap_or(WITHIN_MS) })
}

fn counters(d: &mut Decoder, node: &Node) -> Option<CounterSource> {
    let mut f = Fields::of(d, node, "a map with `run` or `say`, `received` and `transmitted`")?;
    let run = f.optional(d, "run", command).map(Ask::Run);
    let say = f.optional(d, "say", text).map(Ask::Say);
    let received = f.required(d, "received", group);
    let transmitted = f.required(d, "transmitted", group);
    let kinds = f.optional(d, "ports", ports).unwrap_or_default();
    let within_ms = f.optional(d, "within_ms", |d, n| d.int(n, WITHIN));
    if f.node("run").is_some() == f.node("say").is_some() {
        d.error(node.span, "expected exactly one of `run` and `say`");
    }
    f.finish(d);
    let ask = run.or(say)?;
    let within_ms = within_ms.unwrap_or(WITHIN_MS);
    Some(CounterSource { ask, received: received?, transmitted: transmitted?, ports: kinds, within_ms })
}
