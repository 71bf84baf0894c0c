//! A base and a value for each factor become a chain file. Done on the file's own notation, as JSON; what comes out is
//! checked as any chain file is.

use super::cases::Combination;
use super::host::Cores;
use super::model::Base;
use serde_json::{Map, Value, json};
use std::path::Path;

/// Why there is no chain file for a combination.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// This host cannot do it: a row of the report.
    #[error("{0}")]
    Unavailable(String),
    /// The factor does not go with the base.
    #[error("factor `{factor}`: {why}")]
    Unfit {
        /// Which.
        factor: String,
        /// Why not.
        why: String,
    },
}

fn unfit(factor: &str, why: impl Into<String>) -> ApplyError {
    ApplyError::Unfit { factor: factor.to_owned(), why: why.into() }
}

/// A chain file for NFs on one path from a generator to a sink, or one with the `spec` that the base gives.
#[must_use]
pub fn base(base: &Base) -> Value {
    let mut file = json!({
        "apiVersion": chainline_chain::model::API_VERSION, "kind": chainline_chain::model::KIND,
        "metadata": {"name": "bench"}, "spec": base.spec,
    });
    if base.spec.is_empty() {
        file["spec"] = json!({"ports": {"in": {"generator": base.generator}, "out": {"sink": {}}}, "nfs": {},
            "chains": [{"name": "all", "path": ["in", "out"]}]});
        set_path(&mut file, &base.nfs);
    } else {
        for generator in generators(&mut file) {
            generator.extend(base.generator.clone());
        }
    }
    if !base.defaults.is_empty() {
        merge(&mut file["spec"]["defaults"], &Value::Object(base.defaults.clone()));
    }
    file
}

/// Replaces fields by those of `with`, maps field by field.
fn merge(into: &mut Value, with: &Value) {
    match (into, with) {
        (Value::Object(into), Value::Object(with)) => {
            for (field, value) in with {
                merge(into.entry(field.clone()).or_insert(Value::Null), value);
            }
        }
        (into, with) => *into = with.clone(),
    }
}

/// `base` with the values of a combination. Paths of files in it are made absolute, since the result is kept
/// elsewhere.
///
/// # Errors
/// When the host cannot do it, or the base has nothing that a factor could change.
pub fn chain_file(base: &Value, combination: &Combination, cores: &Cores) -> Result<Value, ApplyError> {
    let mut file = base.clone();
    if let Some(variant) = combination.get("variant") {
        merge(&mut file["spec"], &variant["spec"]);
    }
    for generator in generators(&mut file) {
        // Loads come from the benchmark: what does not fit is lost and counted, not waited for.
        generator.insert("lossless".into(), false.into());
    }
    let get = |name: &str| combination.get(name);
    let count = |name: &str| get(name).and_then(Value::as_u64).map(|n| n as usize);
    if let Some(nfs) = get("nfs").and_then(Value::as_array) {
        set_path(&mut file, nfs);
    }
    if let Some(nf) = get("nf") {
        let many = path(&file).len().max(1);
        set_path(&mut file, &vec![nf.clone(); many]);
    }
    if let Some(length) = count("chain_length") {
        let nfs = path(&file);
        if nfs.is_empty() {
            return Err(unfit("chain_length", "the base has no NF to make a chain of"));
        }
        set_path(&mut file, &nfs.into_iter().cycle().take(length).collect::<Vec<_>>());
    }
    for (factor, field) in [
        ("frame_bytes", "frame_bytes"),
        ("mix", "mix"),
        ("flows", "flows"),
        ("locality", "order"),
        ("working_set", "working_set"),
    ] {
        let Some(value) = get(factor) else { continue };
        let generators = generators(&mut file);
        if generators.is_empty() {
            return Err(unfit(factor, "the base has no `generator` port"));
        }
        for generator in generators {
            // One excludes the other.
            generator.remove(if field == "frame_bytes" {
                "mix"
            } else if field == "mix" {
                "frame_bytes"
            } else {
                ""
            });
            generator.insert(field.into(), value.clone());
        }
    }
    if let Some(replicas) = get("replicas") {
        for (_, nf) in file["spec"]["nfs"].as_object_mut().into_iter().flatten() {
            nf["replicas"] = replicas.clone();
        }
    }
    if let Some(workers) = count("workers") {
        split(&mut file, workers)?;
    }
    if let Some(copies) = count("colocated") {
        copy(&mut file, copies);
    }
    for factor in ["batch", "isolation", "mechanisms", "activation", "sched"] {
        if let Some(value) = get(factor) {
            file["spec"]["defaults"][factor] = value.clone();
        }
    }
    if let Some(policy) = get("policy") {
        let mut sched = json!({"policy": policy});
        if policy == "deadline" {
            // Half of the core's time in slices of a millisecond; sched(7) wants both.
            sched["runtime_us"] = 500.into();
            sched["period_us"] = 1000.into();
        }
        file["spec"]["defaults"]["sched"] = sched;
    }
    for (field, value) in combination.iter().filter(|(f, _)| f.starts_with("spec.")) {
        set_field(&mut file, field, value)?;
    }
    place(&mut file, get("placement"), cores)?;
    if let Some(mhz) = get("cpu_frequency").and_then(Value::as_u64)
        && let Some(why) = cores.no_frequency(mhz)
    {
        return Err(ApplyError::Unavailable(why));
    }
    Ok(file)
}

fn generators(file: &mut Value) -> Vec<&mut Map<String, Value>> {
    let ports = file["spec"]["ports"].as_object_mut();
    ports.into_iter().flatten().filter_map(|(_, port)| port.get_mut("generator")?.as_object_mut()).collect()
}

fn hops(chain: &Value) -> Vec<String> {
    let names: Vec<String> =
        chain["path"].as_array().into_iter().flatten().filter_map(|n| n.as_str().map(str::to_owned)).collect();
    names.get(1..names.len().saturating_sub(1)).unwrap_or_default().to_vec()
}

/// The NFs of the longest path, in order.
fn path(file: &Value) -> Vec<Value> {
    let chains = file["spec"]["chains"].as_array();
    let longest = chains.into_iter().flatten().map(hops).max_by_key(Vec::len).unwrap_or_default();
    longest.iter().map(|name| file["spec"]["nfs"][name].clone()).collect()
}

/// Puts these NFs on the path of every chain; chains then share them.
fn set_path(file: &mut Value, nfs: &[Value]) {
    let mut named: Map<String, Value> = Map::new();
    let mut names = Vec::new();
    for nf in nfs {
        let kind = nf["kind"].as_str().unwrap_or("nf");
        // A shared object is called by its file's name.
        let stem = Path::new(kind).file_stem().and_then(|s| s.to_str()).unwrap_or("nf");
        let stem = nf["name"].as_str().unwrap_or(stem);
        let name = if named.contains_key(stem) { format!("{stem}-{}", names.len() + 1) } else { stem.to_owned() };
        let mut nf = nf.clone();
        nf.as_object_mut().and_then(|map| map.remove("name"));
        named.insert(name.clone(), nf);
        names.push(Value::from(name));
    }
    for chain in file["spec"]["chains"].as_array_mut().into_iter().flatten() {
        let Some(path) = chain["path"].as_array_mut().filter(|p| p.len() >= 2) else { continue };
        let inner = 1..path.len() - 1;
        path.splice(inner, names.iter().cloned());
    }
    file["spec"]["nfs"] = Value::Object(named);
}

/// `n` copies of the NFs; each gets its share of the flows, by destination port.
fn split(file: &mut Value, n: usize) -> Result<(), ApplyError> {
    const FIRST_PORT: usize = 10_000;
    /// Flows are spread over so many ports, the same for any number of workers.
    const PORTS: usize = 64 * 60;
    if file["spec"]["chains"].as_array().map(Vec::len) != Some(1) || generators(file).len() != 1 {
        return Err(unfit("workers", "the base has more than one chain or generator, expected one of each"));
    }
    for generator in generators(file) {
        generator.insert("dst_port".into(), format!("{FIRST_PORT}-{}", FIRST_PORT + PORTS - 1).into());
        let flows = generator.get("flows").and_then(Value::as_u64).unwrap_or(1);
        generator.insert("flows".into(), flows.max(PORTS as u64).into());
    }
    let chain = file["spec"]["chains"][0].clone();
    let nfs = file["spec"]["nfs"].clone();
    let mut chains = Vec::new();
    for k in 0..n {
        let mut copy = chain.clone();
        rename(&mut copy, k, |name| nfs.get(name).is_some());
        let (from, to) = (PORTS * k / n, PORTS * (k + 1) / n - 1);
        copy["match"] = json!({"dst_port": format!("{}-{}", FIRST_PORT + from, FIRST_PORT + to)});
        chains.push(copy);
        duplicate(&mut file["spec"]["nfs"], &nfs, k);
    }
    file["spec"]["chains"] = chains.into();
    Ok(())
}

/// `n` copies of everything.
fn copy(file: &mut Value, n: usize) {
    let spec = file["spec"].clone();
    for k in 1..n {
        for of in ["nfs", "ports"] {
            duplicate(&mut file["spec"][of], &spec[of], k);
        }
        for chain in spec["chains"].as_array().into_iter().flatten() {
            let mut chain = chain.clone();
            rename(&mut chain, k, |_| true);
            if let Some(chains) = file["spec"]["chains"].as_array_mut() {
                chains.push(chain);
            }
        }
    }
}

fn nth(name: &str, k: usize) -> String {
    if k == 0 { name.to_owned() } else { format!("{name}-copy{}", k + 1) }
}

fn duplicate(into: &mut Value, from: &Value, k: usize) {
    for (name, value) in from.as_object().into_iter().flatten() {
        if let Some(map) = into.as_object_mut() {
            map.insert(nth(name, k), value.clone());
        }
    }
}

fn rename(chain: &mut Value, k: usize, which: impl Fn(&str) -> bool) {
    for name in chain["path"].as_array_mut().into_iter().flatten() {
        if let Some(text) = name.as_str().filter(|n| which(n)) {
            *name = nth(text, k).into();
        }
    }
    if let Some(name) = chain["name"].as_str() {
        chain["name"] = nth(name, k).into();
    }
}

/// Sets `spec.a.b` to a value.
fn set_field(file: &mut Value, field: &str, value: &Value) -> Result<(), ApplyError> {
    let mut at = &mut *file;
    for part in field.split('.') {
        at = match at {
            Value::Null => {
                *at = Value::Object(Map::new());
                at.as_object_mut().map(|m| m.entry(part).or_insert(Value::Null))
            }
            Value::Object(map) => Some(map.entry(part).or_insert(Value::Null)),
            Value::Array(items) => part.parse().ok().and_then(|i: usize| items.get_mut(i)),
            _ => None,
        }
        .ok_or_else(|| unfit(field, format!("the base has nothing at `{part}`")))?;
    }
    *at = value.clone();
    Ok(())
}

/// Gives cores to NFs that name none; all cores anew where the placement is a factor.
fn place(file: &mut Value, placement: Option<&Value>, cores: &Cores) -> Result<(), ApplyError> {
    let Some(placement) = placement else {
        let defaults = &mut file["spec"]["defaults"];
        if defaults["manager_core"].is_null() {
            defaults["manager_core"] = cores.manager().into();
        }
        if defaults["cores"].is_null() {
            defaults["cores"] = json!([cores.nfs().first().copied().unwrap_or(0)]);
        }
        return Ok(());
    };
    file["spec"]["defaults"]["manager_core"] = cores.manager().into();
    let replicas = |nf: &Value| nf["replicas"].as_u64().map_or(1, |n| n.max(1) as usize);
    let many: usize = file["spec"]["nfs"].as_object().into_iter().flatten().map(|(_, nf)| replicas(nf)).sum();
    let given = cores.nfs();
    let in_turn = placement.as_u64().map(|n| given.len().min(n as usize).max(1));
    let core: Box<dyn Fn(usize) -> usize> = match placement.as_str().unwrap_or_default() {
        _ if in_turn.is_some() => {
            let n = in_turn.unwrap_or(1);
            Box::new(move |i| given.get(i % n).copied().unwrap_or(0))
        }
        "other-core" if many > given.len() || cores.all.len() < 2 => {
            let (need, have) = (many + 1, cores.all.len());
            let why = format!("needs {need} cores, the manager's and one for each instance; this host has {have}");
            return Err(ApplyError::Unavailable(why));
        }
        "other-core" => Box::new(|i| given[i]),
        "other-socket" => match cores.two_sockets() {
            Some(two) => Box::new(move |i| two[i % 2]),
            None => {
                let why = "neighbours on different sockets take a second socket; this host's cores are on one";
                return Err(ApplyError::Unavailable(why.into()));
            }
        },
        _ => Box::new(|_| given.first().copied().unwrap_or(0)),
    };
    let mut next = 0;
    for (_, nf) in file["spec"]["nfs"].as_object_mut().into_iter().flatten() {
        // Replicas have the cores of their NF in turn.
        let mut own: Vec<usize> = (next..next + replicas(nf)).map(&core).collect();
        next += own.len();
        own.sort_unstable();
        own.dedup();
        nf["cores"] = json!(own);
    }
    Ok(())
}

/// Keeps other programs off the NFs' cores, as far as the host permits it, where the file says nothing of cores. A thread
/// that takes a core for one slice makes an NF lose some thousand packets, and a search for no loss then finds the host's
/// longest slice.
pub fn reserve(file: &mut Value) {
    if !file["spec"]["cores"].is_null() {
        return;
    }
    let defaults = &file["spec"]["defaults"];
    let (manager, usual) = (defaults["manager_core"].clone(), defaults["cores"].clone());
    let mut reserved = Map::new();
    for nf in file["spec"]["nfs"].as_object().into_iter().flatten().map(|(_, nf)| nf) {
        let cores = if nf["cores"].is_null() { &usual } else { &nf["cores"] };
        for core in cores.as_array().into_iter().flatten().filter(|c| **c != manager) {
            reserved.insert(core.to_string(), json!({"reserved": true}));
        }
    }
    if !reserved.is_empty() {
        file["spec"]["cores"] = Value::Object(reserved);
    }
}

/// What is said of a combination that this host measures with fewer cores than it asks for.
#[must_use]
pub fn shortage(combination: &Combination, cores: &Cores) -> Option<String> {
    let wanted = combination.get("placement").and_then(Value::as_u64)?;
    let have = cores.all.len() as u64;
    // The manager has one for itself.
    (wanted + 1 > have).then(|| format!("needs {} cores: run with {have} sharing", wanted + 1))
}

/// Makes the paths of files that a chain file names absolute: `read` of captures, and whatever argument of an NF is
/// the name of a file beside the chain file. Returns them.
pub fn pinned(file: &mut Value, dir: &Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for of in ["nfs", "ports"] {
        for (_, value) in file["spec"][of].as_object_mut().into_iter().flatten() {
            pin(value, dir, &mut found);
        }
    }
    found
}

fn pin(value: &mut Value, dir: &Path, found: &mut Vec<std::path::PathBuf>) {
    match value {
        Value::String(text) if !text.is_empty() => {
            let path = dir.join(&*text);
            if path.is_file()
                && let Ok(path) = path.canonicalize()
                && let Some(whole) = path.to_str()
            {
                *text = whole.to_owned();
                found.push(path);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|v| pin(v, dir, found)),
        Value::Object(map) => map.values_mut().for_each(|v| pin(v, dir, found)),
        _ => {}
    }
}
