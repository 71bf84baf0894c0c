//! Kinds of NF: how a host finds, checks and builds them.

use crate::shared::MAX_ENTRIES;
use crate::storage::MAX_FILES;
use crate::{
    Burst, Completion, Counter, Ctx, Error, File, FileSpec, Footprint, Nf, Reason, Sample, SharedCounts, Sharing,
    TableSpec, Target,
};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A declared counter.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct CounterSpec {
    /// `lower_snake_case`, unique within the NF.
    pub name: String,
    /// The unit: `packets`, `bytes`, `entries` …
    pub unit: String,
    /// One line for people.
    pub help: String,
    /// It shows a level, such as the entries of a table: of an NF that was started again only the last one counts.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub level: bool,
}

/// What an NF has declared while it was built.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Declared {
    /// Counters, in the order of declaration.
    pub counters: Vec<CounterSpec>,
    /// Drop reasons, in the order of declaration.
    pub drop_reasons: Vec<String>,
    /// Files, in the order of opening, their paths complete.
    pub files: Vec<FileSpec>,
    /// Each packet may be held: the host takes packets only while it has places for them.
    pub holds: bool,
    /// The table that it wants to have together with its replicas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shares: Option<TableSpec>,
}

/// The surroundings in which an NF is built.
pub struct Env<'a> {
    dir: &'a Path,
    targets: &'a [String],
    sharing: Sharing,
    replica: usize,
    declared: Declared,
}

impl<'a> Env<'a> {
    /// For hosts: `dir` is the chain file's directory, `targets` the NF's `divert` list.
    #[must_use]
    pub fn new(dir: &'a Path, targets: &'a [String]) -> Self {
        Self { dir, targets, sharing: Sharing::Private, replica: 0, declared: Declared::default() }
    }

    /// For hosts: whose its state is, and which of its replicas this is.
    #[must_use]
    pub fn with_sharing(self, sharing: Sharing, replica: usize) -> Self {
        Self { sharing, replica, ..self }
    }

    /// Whose the NF's state is.
    #[must_use]
    pub fn sharing(&self) -> Sharing {
        self.sharing
    }

    /// Which of the NF's replicas this is, from 0: what all have together is for the first to tell.
    #[must_use]
    pub fn replica(&self) -> usize {
        self.replica
    }

    /// Asks for a table that all replicas have together; the NF gets it by [`Nf::shared`].
    ///
    /// # Errors
    /// When the NF's state is its own, or the number of entries is out of range.
    pub fn share(&mut self, table: TableSpec) -> Result<(), Error> {
        if self.sharing == Sharing::Private {
            return Err(Error::Args("found a shared table, expected `state: private` to have none".into()));
        }
        if !(1..=MAX_ENTRIES).contains(&table.entries) {
            let found = table.entries;
            return Err(Error::Args(format!("found a shared table of {found} entries, expected 1 to {MAX_ENTRIES}")));
        }
        self.declared.shares = Some(table);
        Ok(())
    }

    /// Declares a counter. Counters declared in a row have consecutive indexes ([`Counter::nth`]).
    pub fn counter(&mut self, name: impl Into<String>, unit: &str, help: impl Into<String>) -> Counter {
        self.declare(name.into(), unit, help.into(), false)
    }

    /// Declares a counter that shows a level ([`Ctx::set`]), such as the entries of a table. What counters show is added
    /// up over the lives of an NF; of a level, the last one is taken.
    pub fn level(&mut self, name: impl Into<String>, unit: &str, help: impl Into<String>) -> Counter {
        self.declare(name.into(), unit, help.into(), true)
    }

    fn declare(&mut self, name: String, unit: &str, help: String, level: bool) -> Counter {
        self.declared.counters.push(CounterSpec { name, unit: unit.to_owned(), help, level });
        Counter(self.declared.counters.len() as u32 - 1)
    }

    /// Declares a reason for drops. The same name gives the same reason; the 254th and later share one.
    pub fn drop_reason(&mut self, name: &str) -> Reason {
        let reasons = &mut self.declared.drop_reasons;
        if let Some(i) = reasons.iter().position(|r| r == name) {
            return Reason(i as u8);
        }
        if reasons.len() < 254 {
            reasons.push(name.to_owned());
        }
        Reason(reasons.len() as u8 - 1)
    }

    /// A target that the chain file grants this NF (`divert: [scrub]`).
    ///
    /// # Errors
    /// When the list does not have it.
    pub fn target(&self, name: &str) -> Result<Target, Error> {
        let i = self.targets.iter().position(|t| t == name).ok_or_else(|| {
            Error::Args(format!("no target '{name}': add it to this NF's `divert` list, which has {:?}", self.targets))
        })?;
        u8::try_from(i).map(Target).map_err(|_| Error::Args("more than 256 targets".into()))
    }

    /// A file that the NF will read or write with [`Ctx::read`] and [`Ctx::write`]. The host opens it when the NF is
    /// built; if it cannot, the NF is refused.
    ///
    /// # Errors
    /// When the numbers in `spec` make no sense, or with more than [`MAX_FILES`] files.
    pub fn open(&mut self, spec: FileSpec) -> Result<File, Error> {
        let files = &mut self.declared.files;
        let path = self.dir.join(&spec.path);
        if let Some(fault) = spec.fault() {
            return Err(Error::Args(format!("{}: {fault}", path.display())));
        }
        if files.len() == MAX_FILES {
            return Err(Error::Args(format!("{}: more than {MAX_FILES} files", path.display())));
        }
        files.push(FileSpec { path, ..spec });
        Ok(File(files.len() as u32 - 1))
    }

    /// Says that each packet may be held. The host then takes packets only while it has places for them, so that
    /// [`Ctx::hold`] in `process` succeeds once for each packet.
    pub fn may_hold_each(&mut self) {
        self.declared.holds = true;
    }

    /// A path from the arguments, taken from the chain file's directory if it is relative.
    #[must_use]
    pub fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        self.dir.join(path)
    }

    /// A file from the arguments, as text.
    ///
    /// # Errors
    /// When it cannot be read or is not UTF-8.
    pub fn read(&self, path: impl AsRef<Path>) -> Result<String, Error> {
        let path = self.path(path);
        std::fs::read_to_string(&path).map_err(|source| Error::Read { path, source })
    }

    /// For hosts: the chain file's directory.
    #[must_use]
    pub fn dir(&self) -> &'a Path {
        self.dir
    }

    /// For hosts: the NF's `divert` list.
    #[must_use]
    pub fn targets(&self) -> &'a [String] {
        self.targets
    }

    /// For hosts: what was declared.
    #[must_use]
    pub fn into_declared(self) -> Declared {
        self.declared
    }
}

/// [`Nf`] without its associated types, so that NFs of all kinds fit in one list. Implemented for every [`Nf`].
pub trait NfObject: Send {
    /// See [`Nf::shared`].
    fn shared(&mut self, _table: Box<dyn SharedCounts>) {}
    /// See [`Nf::process`].
    fn process(&mut self, burst: &mut Burst<'_>, ctx: &mut Ctx<'_>);
    /// See [`Nf::tick`].
    fn tick(&mut self, ctx: &mut Ctx<'_>);
    /// See [`Nf::completed`].
    fn completed(&mut self, _done: &Completion<'_>, _ctx: &mut Ctx<'_>) {}
    /// See [`Nf::news`].
    fn news(&mut self) -> Option<String> {
        None
    }
    /// See [`Nf::report`].
    fn report(&self) -> Option<String>;
}

impl<T: Nf> NfObject for T {
    fn shared(&mut self, table: Box<dyn SharedCounts>) {
        Nf::shared(self, table);
    }
    #[inline]
    fn process(&mut self, burst: &mut Burst<'_>, ctx: &mut Ctx<'_>) {
        Nf::process(self, burst, ctx);
    }
    fn tick(&mut self, ctx: &mut Ctx<'_>) {
        Nf::tick(self, ctx);
    }
    fn completed(&mut self, done: &Completion<'_>, ctx: &mut Ctx<'_>) {
        Nf::completed(self, done, ctx);
    }
    fn news(&mut self) -> Option<String> {
        Nf::news(self)
    }
    fn report(&self) -> Option<String> {
        Nf::report(self)
    }
}

/// Builds an NF from its arguments.
pub type BuildFn = fn(serde_json::Value, &mut Env<'_>) -> Result<Box<dyn NfObject>, Error>;

/// Checks arguments.
pub type CheckFn = fn(serde_json::Value, Sharing) -> Result<(), Error>;

/// A kind of NF: name, documentation, argument schema and how to build one.
#[derive(Clone)]
pub struct Kind {
    /// The word in the chain file.
    pub name: &'static str,
    /// One line.
    pub about: &'static str,
    /// What it reads, writes and remembers, if it says so.
    pub footprint: Option<Footprint>,
    /// Arguments with which it can be built anywhere.
    pub sample: Sample,
    /// JSON Schema of `args`.
    pub args_schema: fn() -> serde_json::Value,
    /// Checks the arguments, as far as these alone tell: types, and [`Nf::check`].
    pub check: CheckFn,
    /// Checks the arguments and builds the NF.
    pub build: BuildFn,
}

impl Kind {
    /// The kind that `T` implements.
    #[must_use]
    pub const fn of<T: Nf>() -> Self {
        Self {
            name: T::KIND,
            about: T::ABOUT,
            footprint: T::FOOTPRINT,
            sample: T::SAMPLE,
            args_schema: || schemars::schema_for!(T::Args).to_value(),
            check: |args, sharing| checked::<T>(args, sharing).map(|_| ()),
            build: |args, env| {
                let args = checked::<T>(args, env.sharing())?;
                Ok(Box::new(T::new(args, env)?))
            },
        }
    }
}

fn checked<T: Nf>(args: serde_json::Value, sharing: Sharing) -> Result<T::Args, Error> {
    // An absent `args:` is an empty one.
    let args = if args.is_null() { serde_json::Value::Object(Default::default()) } else { args };
    let args = serde_json::from_value(args).map_err(|e| Error::Args(format!("args: {e}")))?;
    T::check(&args, sharing)?;
    Ok(args)
}

/// The kinds that a program knows by name.
#[derive(Clone, Default)]
pub struct Registry(BTreeMap<&'static str, Kind>);

impl Registry {
    /// With these kinds.
    #[must_use]
    pub fn new(kinds: impl IntoIterator<Item = Kind>) -> Self {
        Self(kinds.into_iter().map(|k| (k.name, k)).collect())
    }

    /// The kind of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Kind> {
        self.0.get(name)
    }

    /// All kinds by name.
    pub fn iter(&self) -> impl Iterator<Item = &Kind> {
        self.0.values()
    }
}
