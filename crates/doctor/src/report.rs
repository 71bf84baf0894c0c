//! The result of the checks.

use serde::Serialize;
use std::fmt;

/// How bad a finding is; the worst is the greatest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// As it should be.
    Ok,
    /// Worth knowing, no fault.
    Info,
    /// Chains run, but slower, less even, or without a feature.
    Warn,
    /// Chains cannot run.
    Fail,
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Ok => "ok",
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Fail => "fail",
        })
    }
}

/// One check and what it found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// What was looked at; stable, for scripts.
    pub name: &'static str,
    /// How bad it is.
    pub status: Status,
    /// What was found.
    pub finding: String,
    /// What that means for chains; absent when all is well.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consequence: Option<String>,
    /// What to do: a command, or a line for a configuration file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

impl Check {
    pub(crate) fn ok(name: &'static str, finding: impl Into<String>) -> Self {
        Self::new(name, Status::Ok, finding)
    }
    pub(crate) fn info(name: &'static str, finding: impl Into<String>) -> Self {
        Self::new(name, Status::Info, finding)
    }
    pub(crate) fn warn(name: &'static str, finding: impl Into<String>) -> Self {
        Self::new(name, Status::Warn, finding)
    }
    pub(crate) fn fail(name: &'static str, finding: impl Into<String>) -> Self {
        Self::new(name, Status::Fail, finding)
    }
    fn new(name: &'static str, status: Status, finding: impl Into<String>) -> Self {
        Self { name, status, finding: finding.into(), consequence: None, remedy: None }
    }
    pub(crate) fn means(mut self, consequence: impl Into<String>) -> Self {
        self.consequence = Some(consequence.into());
        self
    }
    pub(crate) fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }
}

/// All checks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// In the order in which they matter.
    pub checks: Vec<Check>,
}

impl Report {
    /// The check of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Check> {
        self.checks.iter().find(|c| c.name == name)
    }

    /// The worst status.
    #[must_use]
    pub fn worst(&self) -> Status {
        self.checks.iter().map(|c| c.status).max().unwrap_or(Status::Ok)
    }

    /// How many checks have this status.
    #[must_use]
    pub fn count(&self, status: Status) -> usize {
        self.checks.iter().filter(|c| c.status == status).count()
    }
}

/// A table for people: a line for each check, below it what follows and what to do.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.checks.iter().map(|c| c.name.len()).max().unwrap_or(0);
        for c in &self.checks {
            writeln!(f, "{:<4}  {:<width$}  {}", c.status, c.name, c.finding)?;
            let indent = " ".repeat(width + 8);
            if let Some(consequence) = &c.consequence {
                writeln!(f, "{indent}{consequence}")?;
            }
            if let Some(remedy) = &c.remedy {
                writeln!(f, "{indent}→ {remedy}")?;
            }
        }
        let [ok, info, warn, fail] =
            [Status::Ok, Status::Info, Status::Warn, Status::Fail].map(|status| self.count(status));
        writeln!(f, "{ok} ok, {info} info, {warn} warn, {fail} fail")
    }
}
