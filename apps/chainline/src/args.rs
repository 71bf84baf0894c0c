//! The arguments of NFs against the schemas of their kinds and what these say of them, with places in the chain file.

use crate::kinds;
use anyhow::Context;
use chainline_chain::Diagnostics;
use chainline_chain::model::{File, Nf};
use chainline_nf::{Kind, Sharing};
use serde_json::Value;

/// Checks the arguments of every NF of a built-in kind. Those of shared objects are checked when they are loaded.
pub fn check(file: &File) -> anyhow::Result<()> {
    let registry = kinds::registry();
    let mut wrong: Option<Diagnostics> = None;
    for (name, nf) in &file.spec.nfs {
        let Some(kind) = registry.get(&nf.kind) else { continue };
        let schema = (kind.args_schema)();
        let validator = jsonschema::validator_for(&schema).with_context(|| format!("schema of kind {}", kind.name))?;
        let empty = Value::Object(serde_json::Map::new());
        let args = if nf.args.is_null() { &empty } else { &nf.args };
        let of_types = validator.iter_errors(args).map(|error| {
            let path = place(&format!("spec.nfs.{name}.args"), error.instance_path().as_str());
            let message = format!("{}: {error}", path.trim_start_matches("spec."));
            (path, message)
        });
        let mut found: Vec<(String, String)> = of_types.collect();
        if found.is_empty() {
            found.extend(refused(name, kind, nf));
        }
        for (path, message) in found {
            let found = file.source.error(&path, message);
            wrong = Some(match wrong {
                Some(all) => all.merge(found),
                None => found,
            });
        }
    }
    wrong.map_or(Ok(()), |all| Err(all.into()))
}

/// What a kind says is wrong with arguments of the right types, and where: it begins with that.
fn refused(name: &str, kind: &Kind, nf: &Nf) -> Option<(String, String)> {
    let sharing = nf.state.map_or(Sharing::Private, chainline_manager::sharing);
    let message = (kind.check)(nf.args.clone(), sharing).err()?.to_string();
    let place = message.split(": ").next().filter(|p| p.starts_with("args")).unwrap_or("args");
    Some((format!("spec.nfs.{name}.{place}"), format!("nfs.{name}.{message}")))
}

/// A JSON pointer (RFC 6901) as a path of [`chainline_chain::Source`].
fn place(base: &str, pointer: &str) -> String {
    let mut path = base.to_owned();
    for part in pointer.split('/').skip(1) {
        let part = part.replace("~1", "/").replace("~0", "~");
        let index = !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        path += &if index { format!("[{part}]") } else { format!(".{part}") };
    }
    path
}

#[cfg(test)]
mod tests {
    #[test]
    fn pointers_become_paths() {
        assert_eq!(super::place("a", ""), "a");
        assert_eq!(super::place("a", "/rules/3/x~1y"), "a.rules[3].x/y");
    }
}
