//! `chainline ctl rules`

use super::ask;
use crate::exit::{Exit, WrongInput};
use crate::output::{self, Format};
use chainline_ctl::{Call, Client, Overview};
use serde_json::{Map, Value, json};

/// Shows which packets belong to a chain, or changes it: all of it is replaced, between two bursts.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Fields are those of `match` in a chain file: proto, src, dst, src_port, dst_port, vlan; several values have commas between.

Examples:
  chainline ctl rules web
  chainline ctl rules web proto=tcp dst_port=80,443,8000-8999
  chainline ctl rules lan src=10.0.0.0/8,fd00::/8
  chainline ctl rules rest --any")]
pub struct Rules {
    /// The chain.
    chain: String,
    /// FIELD=VALUE[,VALUE…]
    #[arg(conflicts_with = "any")]
    fields: Vec<String>,
    /// All packets of its port.
    #[arg(long)]
    any: bool,
}

impl Rules {
    /// The request; none if the rules are only to be shown.
    pub fn call(&self) -> anyhow::Result<Option<Call>> {
        if self.fields.is_empty() && !self.any {
            return Ok(None);
        }
        let mut matches = Map::new();
        for field in &self.fields {
            let wrong = || WrongInput(format!("found \"{field}\", expected FIELD=VALUE such as dst_port=80,443"));
            let (name, values) = field.split_once('=').ok_or_else(wrong)?;
            let one = |v: &str| v.parse::<u64>().map_or_else(|_| json!(v), |n| json!(n));
            let values: Vec<Value> = values.split(',').map(one).collect();
            let value = if values.len() == 1 { values.into_iter().next().unwrap_or_default() } else { json!(values) };
            if matches.insert(name.to_owned(), value).is_some() {
                return Err(WrongInput(format!("found the field {name} twice, expected {name}=A,B")).into());
            }
        }
        Ok(Some(Call::SetRules { chain: self.chain.clone(), matches: Value::Object(matches) }))
    }

    pub fn show(&self, client: &mut Client, format: Format) -> anyhow::Result<Exit> {
        let there: Overview = ask(client, &Call::List)?;
        let Some(chain) = there.chains.iter().find(|c| c.name == self.chain) else {
            let names = there.chains.iter().map(|c| c.name.as_str()).collect::<Vec<_>>().join(", ");
            return Err(WrongInput(format!("found the chain `{}`, expected one of {names}", self.chain)).into());
        };
        output::value(format, &chain.matches, |m| words(m) + "\n")?;
        Ok(Exit::Ok)
    }
}

/// A `match` as it is written on the command line.
pub fn words(matches: &Value) -> String {
    let one = |v: &Value| v.as_str().map_or_else(|| v.to_string(), str::to_owned);
    let field = |(name, value): (&String, &Value)| {
        let values = match value {
            Value::Array(list) => list.iter().map(one).collect::<Vec<_>>().join(","),
            value => one(value),
        };
        format!("{name}={values}")
    };
    let fields: Vec<_> = matches.as_object().into_iter().flatten().map(field).collect();
    if fields.is_empty() { "any".into() } else { fields.join(" ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_become_a_match_and_are_shown_as_they_were_given() {
        let rules = |fields: &[&str]| Rules {
            chain: "c".into(),
            fields: fields.iter().map(|f| (*f).to_owned()).collect(),
            any: false,
        };
        let Some(Call::SetRules { matches, .. }) = rules(&["proto=tcp", "dst_port=80,443-500"]).call().unwrap() else {
            panic!("no request")
        };
        assert_eq!(matches, json!({"proto": "tcp", "dst_port": [80, "443-500"]}));
        assert_eq!(words(&matches), "proto=tcp dst_port=80,443-500");
        assert!(rules(&[]).call().unwrap().is_none());
        assert!(rules(&["proto"]).call().is_err() && rules(&["vlan=1", "vlan=2"]).call().is_err());
        assert_eq!(words(&json!({})), "any");
    }
}
