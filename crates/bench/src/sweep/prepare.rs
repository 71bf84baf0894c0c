//! A benchmark file, made ready to run on this host with chains of ours.

use super::apply::{ApplyError, base, chain_file, pinned, reserve, shortage};
use super::cases::{MOST, name, with_ideals};
use super::factor::{PROGRAM, THIS};
use super::host::{Cores, Frequency};
use super::model::Spec;
use super::port;
use crate::dataplane::steered::Steered;
use crate::dataplane::{Dataplane, DataplaneError};
use crate::rivals::adapter::PortKind;
use crate::rivals::rival::Rival;
use crate::rivals::tester::Traffic;
use crate::run::{Case, Lab, Measure, View};
use chainline_chain::{Diagnostics, Host, load_bytes, load_for};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Why a benchmark cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum PrepareError {
    /// The chain file that it begins with is wrong.
    #[error(transparent)]
    Base(#[from] Box<Diagnostics>),
    /// A combination gives a chain file that is wrong.
    #[error("the combination \"{combination}\" gives no chain file that could run:\n{found}")]
    Combination {
        /// Which.
        combination: String,
        /// What is wrong with the file.
        found: Box<Diagnostics>,
    },
    /// A factor does not go with the base.
    #[error("the combination \"{combination}\": {source}")]
    Unfit {
        /// Which.
        combination: String,
        /// Why not.
        source: ApplyError,
    },
    /// A file cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// Which.
        path: String,
        /// Why not.
        source: std::io::Error,
    },
    /// Too many combinations.
    #[error("the factors have {0} combinations, expected at most {MOST}: vary fewer at once")]
    Many(usize),
}

impl Spec {
    /// What `--quick` makes of it: one round, hasty searches, short trials, the values and measures that the file
    /// names for it.
    pub fn hurry(&mut self) {
        self.rounds = 1;
        let protocol = &mut self.protocol;
        protocol.hurry();
        if !self.quick.measures.is_empty() {
            protocol.measures.clone_from(&self.quick.measures);
        }
        for (factor, values) in &self.quick.factors {
            self.factors.insert(factor.clone(), values.clone());
        }
        protocol.trial_ms = self.quick.trial_ms.unwrap_or(protocol.trial_ms);
        protocol.warmup_ms = self.quick.warmup_ms.unwrap_or(protocol.warmup_ms);
        let shown: Vec<Measure> = protocol.measures.clone();
        self.sections.retain(|s| {
            let measured = shown.iter().any(|m| s.y == m.word() || s.y.starts_with(&format!("{} ", m.word())));
            measured || !Measure::WORDS.iter().any(|(w, _)| *w == s.y)
        });
    }

    /// What is shown of it.
    #[must_use]
    pub fn views(&self) -> Vec<View> {
        let view = |s: &super::Shown| View {
            id: s.id.clone(),
            title: s.title.clone(),
            definition: s.definition.clone(),
            source: s.source.clone(),
            y: s.y.clone(),
            x: s.x.clone(),
            only: s.only.clone().into_iter().collect(),
            drawn: s.view,
            quoted: s.quoted.clone(),
        };
        self.sections.iter().map(view).collect()
    }

    /// A case for each combination. `dir` is where the benchmark file lies, `kinds` are the built-in kinds of NF.
    ///
    /// # Errors
    /// When the base or a combination is no chain file that could run.
    pub fn cases(&self, dir: &Path, cores: &Cores, kinds: &[&str]) -> Result<Vec<Case>, PrepareError> {
        let host = Host { cores: Some(&cores.all), kinds: Some(kinds) };
        let (mut from, beside) = match &self.base.file {
            Some(file) => self.base_file(&dir.join(file), &host)?,
            None => (base(&self.base), dir.to_owned()),
        };
        pinned(&mut from, &beside);
        // Who takes disturbed trials need not push other programs off their cores.
        let reserves = self.base.file.is_none() && !self.protocol.allow_disturbed;
        let all = with_ideals(self).map_err(PrepareError::Many)?;
        let ready = |(c, ideal): &(_, Option<usize>)| {
            Ok(Case { ideal: *ideal, ..case(&from, reserves, c, dir, cores, &host)? })
        };
        let cases: Result<Vec<Case>, PrepareError> = all.iter().map(ready).collect();
        // Ideals are known by their places.
        if self.ideal.is_empty() { cases.map(port::beside) } else { cases }
    }

    fn base_file(&self, path: &Path, host: &Host<'_>) -> Result<(Value, PathBuf), PrepareError> {
        let read = |source| PrepareError::Read { path: path.display().to_string(), source };
        let bytes = fs::read(path).map_err(read)?;
        let file = load_bytes(&bytes, path, host).map_err(Box::new)?;
        let mut file = serde_json::to_value(&file).unwrap_or_default();
        // What the file leaves open is not to be fixed by its defaults: factors change these.
        if let Some(defaults) = file["spec"]["defaults"].as_object_mut() {
            defaults.retain(|field, _| file_says(&bytes, path, field));
            defaults.extend(self.base.defaults.clone());
        }
        for (_, port) in file["spec"]["ports"].as_object_mut().into_iter().flatten() {
            if let Some(generator) = port.get_mut("generator").and_then(Value::as_object_mut) {
                generator.extend(self.base.generator.clone());
            }
        }
        Ok((file, path.parent().unwrap_or(Path::new("")).to_owned()))
    }
}

fn file_says(bytes: &[u8], path: &Path, field: &str) -> bool {
    let file = load_bytes(bytes, path, &Host::default());
    file.is_ok_and(|f| f.source.has(&format!("spec.defaults.{field}")))
}

fn case(
    from: &Value,
    reserves: bool,
    combination: &super::Combination,
    dir: &Path,
    cores: &Cores,
    host: &Host<'_>,
) -> Result<Case, PrepareError> {
    let name = name(combination);
    let factors: BTreeMap<String, Value> = combination.clone().into_iter().collect();
    let other = other_build(combination, dir)?;
    let case = |content, unavailable| Case {
        name: name.clone(),
        dataplane: other.as_ref().map_or_else(|| "chainline".into(), |build| build.name.clone()),
        factors: factors.clone(),
        content,
        unavailable,
        ideal: None,
        short_of: shortage(combination, cores),
    };
    let kind = port::kind(combination.get("port"));
    let tested = if kind.is_some() { cores.tested() } else { cores.clone() };
    if tested.all.is_empty() {
        return Ok(case(Value::Null, rivals(cores).shared()));
    }
    let mut file = match chain_file(from, combination, &tested) {
        Ok(file) => file,
        Err(ApplyError::Unavailable(why)) => {
            let why = if kind.is_some() { format!("{why} besides the tester's") } else { why };
            return Ok(case(Value::Null, Some(why)));
        }
        Err(source) => return Err(PrepareError::Unfit { combination: name, source }),
    };
    let mut files = Map::new();
    for path in pinned(&mut file, dir) {
        let bytes =
            fs::read(&path).map_err(|source| PrepareError::Read { path: path.display().to_string(), source })?;
        files.insert(path.display().to_string(), crate::host::hex(&Sha256::digest(&bytes)).into());
    }
    let check = |file: &Value, host: &Host<'_>| {
        load_for(&format!("{file:#}"), Path::new(&format!("{name}.json")), host)
            .map(|_| ())
            .map_err(|found| PrepareError::Combination { combination: name.clone(), found: Box::new(found) })
    };
    let Some(kind) = kind else {
        // A user's own file is measured as it is.
        if reserves {
            reserve(&mut file);
        }
        check(&file, host)?;
        let mut content = json!({"file": file, "files": files});
        if let Some(build) = &other {
            content["program"] = json!({"path": build.path, "sha256": build.sha256});
        }
        return Ok(case(content, None));
    };
    let unfit = |source| PrepareError::Unfit { combination: name.clone(), source };
    if other.is_some() {
        let why = "a chain behind ports is measured by a tester of this build, expected `port: none`".into();
        return Err(unfit(ApplyError::Unfit { factor: PROGRAM.into(), why }));
    }
    // The file may name cores by itself; the tester's is not among them.
    file["spec"]["defaults"]["manager_core"] = tested.manager().into();
    let generator = port::divide(&mut file).map_err(unfit)?;
    check(&port::checkable(&file, kind), &Host { cores: Some(&tested.all), ..*host })?;
    check(&port::checkable_tester(&generator, kind, cores.manager()), host)?;
    let content = json!({"file": file, "files": files, "port": kind.word(), "tester": generator});
    Ok(case(content, None))
}

/// A build that is not this one.
struct Build {
    /// As the file has it.
    name: String,
    path: PathBuf,
    sha256: String,
}

fn other_build(combination: &super::Combination, dir: &Path) -> Result<Option<Build>, PrepareError> {
    let Some(name) = combination.get(PROGRAM).and_then(Value::as_str).filter(|name| *name != THIS) else {
        return Ok(None);
    };
    let path = dir.join(name);
    let read = |source| PrepareError::Read { path: path.display().to_string(), source };
    let sha256 = crate::host::hex(&Sha256::digest(&fs::read(&path).map_err(read)?));
    Ok(Some(Build { name: name.to_owned(), sha256, path: path.canonicalize().map_err(read)? }))
}

/// Who works where in a lab.
fn rivals(cores: &Cores) -> crate::rivals::rival::Cores {
    crate::rivals::rival::Cores { tester: cores.manager(), dataplane: cores.tested().all }
}

/// Starts chains of ours.
pub struct ChainlineLab {
    /// The program.
    pub program: PathBuf,
    /// Where the chain files go: anybody can run them again.
    pub chains: PathBuf,
    /// The host's cores.
    pub cores: Cores,
    /// Whether the user wants an end.
    pub stop: fn() -> bool,
}

impl Lab for ChainlineLab {
    fn start(&mut self, case: &Case) -> Result<Box<dyn Dataplane>, DataplaneError> {
        let io = |what: &Path| {
            let what = what.display().to_string();
            move |source| DataplaneError::Io { what, source }
        };
        fs::create_dir_all(&self.chains).map_err(io(&self.chains))?;
        let name: String =
            case.name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).take(80).collect();
        // Names may be cut short or look alike; the content is what tells them apart.
        let key = crate::run::key(&case.content);
        let path = self.chains.join(format!("{name}-{}.json", &key[..8]));
        // The port alone has no chain.
        if case.content["file"].is_object() {
            fs::write(&path, format!("{:#}\n", case.content["file"])).map_err(io(&path))?;
        }
        let frequency = match case.factors.get("cpu_frequency").and_then(Value::as_u64) {
            Some(mhz) => Some(
                self.cores
                    .set_frequency(mhz)
                    .map_err(|why| DataplaneError::Unavailable { what: format!("{mhz} MHz"), why })?,
            ),
            None => None,
        };
        let dataplane: Box<dyn Dataplane> = match port_of(&case.content) {
            None => {
                let other = case.content.pointer("/program/path").and_then(Value::as_str).map(Path::new);
                let program = other.unwrap_or(&self.program);
                Box::new(Steered::chain(&case.dataplane, program, &path, self.stop)?)
            }
            Some(kind) => {
                let spec = match &case.content["file"] {
                    Value::Null => None,
                    file => Some(port::adapter(file)?),
                };
                let traffic = Traffic::of(case.content["tester"].as_object().cloned().unwrap_or_default());
                let cores = rivals(&self.cores);
                let (name, program) = (&case.dataplane, &self.program);
                Box::new(Rival::start(name, spec.as_ref(), kind, &traffic, &cores, program, self.stop)?)
            }
        };
        let _written = Written { dir: self.chains.clone() };
        Ok(Box::new(Tuned { dataplane, _frequency: frequency, _written }))
    }
}

fn port_of(content: &Value) -> Option<PortKind> {
    let word = content["port"].as_str()?;
    PortKind::WORDS.iter().find(|(w, _)| *w == word).map(|(_, kind)| *kind)
}

/// A dataplane, and the frequency that the cores have meanwhile.
struct Tuned {
    dataplane: Box<dyn Dataplane>,
    _frequency: Option<Frequency>,
    /// Dropped when the dataplane is.
    _written: Written,
}

/// What NFs write beside the chain files: removed when a case is over, since no figure is made from it and the next case
/// is to find the same as this one.
struct Written {
    dir: PathBuf,
}

impl Drop for Written {
    fn drop(&mut self) {
        for entry in fs::read_dir(&self.dir).into_iter().flatten().flatten() {
            let is_file = entry.file_type().is_ok_and(|t| t.is_file());
            if is_file && entry.path().extension().is_none_or(|e| e != "json") {
                // What cannot be removed stays for the user to look at.
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

impl Dataplane for Tuned {
    fn name(&self) -> &str {
        self.dataplane.name()
    }

    fn ready(&self) -> &chainline_trial::Ready {
        self.dataplane.ready()
    }

    fn trial(&mut self, order: &chainline_trial::Order) -> Result<chainline_trial::Outcome, DataplaneError> {
        self.dataplane.trial(order)
    }

    fn counters(&mut self) -> Result<Option<crate::dataplane::Counters>, DataplaneError> {
        self.dataplane.counters()
    }
}
