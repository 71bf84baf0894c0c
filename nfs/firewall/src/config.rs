//! Arguments, and the rules they lead to.

use crate::rules::{self, Action, Line, Rule};
use crate::stateful::Stateful;
use chainline_nf::Error;
use std::path::{Path, PathBuf};

/// `args:` of a `firewall` NF.
#[derive(Clone, Debug, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// A rule file, readable or ClassBench, relative to the chain file.
    pub rules: Option<PathBuf>,
    /// How often the file is looked at, in seconds; 0 is never. A changed file is taken without losing a packet, a wrong
    /// one leaves the old one in force.
    #[serde(default = "reload_s")]
    pub reload_s: u32,
    /// Rules as in a rule file, one each; they come before those of the file.
    #[serde(default)]
    pub rules_inline: Vec<String>,
    /// For packets that no rule matches; `deny` unless set here or by a `default` line.
    pub default: Option<Action>,
    /// ClassBench files have no actions: what their rules do.
    #[serde(default)]
    pub classbench_action: ClassBenchAction,
    /// For frames that are neither IPv4 nor IPv6, such as ARP.
    #[serde(default = "allow")]
    pub non_ip: Action,
    /// For fragments without ports.
    #[serde(default)]
    pub fragments: Fragments,
    /// Rules are for the first packet of a connection, and the others of both directions pass by its state. `{}` is this
    /// with its defaults; absent: the rules judge each packet.
    #[serde(default)]
    pub stateful: Option<Stateful>,
}

fn reload_s() -> u32 {
    1
}

fn allow() -> Action {
    Action::Allow
}

/// What a ClassBench rule does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ClassBenchAction {
    /// Every rule allows.
    #[default]
    Allow,
    /// Every rule denies.
    Deny,
    /// The first rule of the file allows, the second denies, and so on.
    Alternate,
}

/// What happens to fragments without ports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Fragments {
    /// Matched on what they have: see the README.
    #[default]
    Match,
    /// Denied.
    Deny,
}

/// What the arguments say.
pub(crate) struct Policy {
    pub rules: Vec<Rule>,
    pub default: Action,
}

/// The most rules: a priority and a counter each.
const MAX_RULES: usize = 1 << 20;

impl Args {
    /// Reads the rules. `path` is where the file is, if there is one.
    pub(crate) fn policy(&self, path: Option<&Path>) -> Result<Policy, Error> {
        let mut policy = Policy { rules: Vec::new(), default: self.default.unwrap_or(Action::Deny) };
        let mut default_set = self.default.is_some();
        if self.rules.is_none() && self.rules_inline.is_empty() && !default_set {
            return Err(Error::Args("args: expected at least one of rules, rules_inline and default".into()));
        }
        let mut classbench_rules = 0;
        let mut take = |text: &str, place: String, fail: &dyn Fn(usize, String) -> Error| match rules::parse_line(text)
            .map_err(|f| fail(f.column, f.message))?
        {
            None => Ok(()),
            Some(Line::Default(_)) if default_set => {
                Err(fail(1, "the default is set already, expected it once".into()))
            }
            Some(Line::Default(action)) => {
                (policy.default, default_set) = (action, true);
                Ok(())
            }
            Some(Line::Rule(rule, action)) => {
                let action = action.unwrap_or_else(|| {
                    classbench_rules += 1;
                    match self.classbench_action {
                        ClassBenchAction::Allow => Action::Allow,
                        ClassBenchAction::Deny => Action::Deny,
                        ClassBenchAction::Alternate if classbench_rules % 2 == 1 => Action::Allow,
                        ClassBenchAction::Alternate => Action::Deny,
                    }
                });
                if policy.rules.len() == MAX_RULES {
                    return Err(fail(1, format!("found more than {MAX_RULES} rules")));
                }
                policy.rules.push(Rule { action, name: format!("{place}: {}", text.trim()), ..rule });
                Ok(())
            }
        };
        for (i, text) in self.rules_inline.iter().enumerate() {
            let place = format!("rules_inline[{i}]");
            take(text, place.clone(), &|column, message| {
                Error::Args(format!("args.{place}: column {column}: {message}"))
            })?;
        }
        if let (Some(file), Some(path)) = (&self.rules, path) {
            let cannot = |source| Error::Read { path: path.to_owned(), source };
            for (i, text) in std::fs::read_to_string(path).map_err(cannot)?.lines().enumerate() {
                let place = format!("{}:{}", file.display(), i + 1);
                take(text, place, &|column, message| Error::at(path, i + 1, column, message))?;
            }
        }
        Ok(policy)
    }
}
