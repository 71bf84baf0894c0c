//! Whether the state of NFs with replicas stays whole, by what their kinds say of themselves: packets that meet in one
//! entry must meet in one replica (traffic affinity: Zheng et al., §III-B).

use crate::kinds;
use chainline_chain::model::{Dispatch, File, Nf};
use chainline_chain::{Diagnostic, Diagnostics, Severity, replicas};
use chainline_nf::{Footprint, Kind, Registry, Scope, State};

/// Refuses what would lose the order of packets that belong together, and warns of state that each replica has a part of.
pub fn check(file: &mut File) -> Result<(), Diagnostics> {
    let registry = kinds::registry();
    let mut wrong: Option<Diagnostics> = None;
    let mut warnings = Vec::new();
    let mut refuse = |found: Diagnostics| {
        wrong = Some(match wrong.take() {
            Some(all) => all.merge(found),
            None => found,
        });
    };
    for (name, nf) in &file.spec.nfs {
        if let Some(message) = cannot_share(name, nf, &registry) {
            refuse(file.source.error(&format!("spec.nfs.{name}.state"), message));
        }
    }
    for (name, _, dispatch) in replicas(&file.spec) {
        let Some(nf) = file.spec.nfs.get(name) else { continue };
        let footprint = registry.get(&nf.kind).and_then(|kind| kind.footprint);
        let at = |field: &str| format!("spec.nfs.{name}.{field}");
        let place = [at("dispatch"), at("replicas")].into_iter().find(|p| file.source.has(p));
        let place = place.unwrap_or_else(|| format!("spec.nfs.{name}"));
        match (judge(nf, dispatch, footprint), dispatch) {
            (None, _) => {}
            (Some(what), Dispatch::Packet) => {
                let message = format!(
                    "found `dispatch: packet` for the NF `{name}`, {what}; expected `flow`, `connection` or `host`"
                );
                refuse(file.source.error(&place, message));
            }
            (Some(what), _) => {
                let message = format!("the NF `{name}` with `dispatch: {}` {what}", dispatch.word());
                let found = file.source.error(&place, message);
                let warning = |d: &Diagnostic| Diagnostic { severity: Severity::Warning, ..d.clone() };
                warnings.extend(found.items().iter().map(warning));
            }
        }
    }
    file.warnings.extend(warnings);
    wrong.map_or(Ok(()), Err)
}

/// Why an NF cannot share its state as the file says.
fn cannot_share(name: &str, nf: &Nf, registry: &Registry) -> Option<String> {
    let state = nf.state.filter(|s| !s.is_private())?;
    let can = |kind: &Kind| kind.footprint.iter().flat_map(|f| f.state).any(|s| s.shareable);
    if registry.get(&nf.kind).is_some_and(can) {
        return None;
    }
    let kinds: Vec<String> = registry.iter().filter(|k| can(k)).map(|k| format!("`{}`", k.name)).collect();
    Some(format!(
        "found `state: {}` for the NF `{name}` of kind `{}`, whose state each replica has for itself; expected `private`, or \
         a kind that can share: {}",
        state.word(),
        nf.kind,
        kinds.join(", ")
    ))
}

/// What is the matter, as the end of a sentence.
fn judge(nf: &Nf, dispatch: Dispatch, footprint: Option<Footprint>) -> Option<String> {
    let states = footprint.iter().flat_map(|f| f.state).filter(|s| there(s, nf));
    if dispatch == Dispatch::Packet {
        return match (footprint, states.map(|s| s.name).next()) {
            (None, _) => Some("whose kind does not say that it keeps no state".to_owned()),
            (_, Some(state)) => Some(format!("which keeps {state}: packets that belong together would part")),
            (Some(_), None) => None,
        };
    }
    let shared = nf.state.is_some_and(|s| !s.is_private());
    let parted: Vec<&str> =
        states.filter(|s| !(whole(s.scope, dispatch) || shared && s.shareable)).map(|s| s.name).collect();
    (!parted.is_empty()).then(|| format!("has a part of its {} in each replica", parted.join(" and ")))
}

/// Whether there is such state with these arguments: `with` names one, or one and its value.
fn there(state: &State, nf: &Nf) -> bool {
    let (name, value) = state.with.split_once(": ").unwrap_or((state.with, ""));
    state.with.is_empty() || nf.args.get(name).is_some_and(|v| if value.is_empty() { v != false } else { v == value })
}

/// Whether all packets of such a scope come to one replica.
fn whole(scope: Scope, dispatch: Dispatch) -> bool {
    match dispatch {
        Dispatch::Flow => matches!(scope, Scope::Flow | Scope::Datagram),
        Dispatch::Connection => matches!(scope, Scope::Flow | Scope::Datagram | Scope::Connection),
        Dispatch::Host => matches!(scope, Scope::Flow | Scope::Datagram | Scope::SourceHost),
        Dispatch::Packet => false,
    }
}

#[cfg(test)]
mod tests {
    use crate::input::load_text;
    use std::path::Path;

    fn load(nf: &str) -> Result<Vec<String>, String> {
        let text = format!(
            "apiVersion: chainline/v1alpha1\nkind: ServiceChain\nmetadata: {{name: t}}\nspec:\n  ports: {{in: {{generator: {{}}}}, out: {{sink: {{}}}}}}\n  nfs:\n    x: {{{nf}}}\n  chains: [{{name: c, path: [in, x, out]}}]\n"
        );
        let file = load_text(text.as_bytes(), Path::new("t.yaml"), &[0, 1]).map_err(|e| e.to_string())?;
        Ok(file.warnings.iter().map(|w| w.message.clone()).collect())
    }

    #[test]
    fn state_that_would_part_is_told() {
        for whole in [
            "kind: forward, replicas: 2, dispatch: packet",
            "kind: monitor, replicas: 2, dispatch: host",
            "kind: firewall, args: {stateful: true}, replicas: 2, dispatch: connection",
            "kind: lb, replicas: 2, dispatch: flow",
            "kind: monitor, replicas: 1, dispatch: packet",
            "kind: monitor, replicas: 2, state: shared-locked",
            "kind: monitor, replicas: 2, state: shared-lockfree, dispatch: connection",
        ] {
            assert_eq!(load(whole), Ok(vec![]), "{whole}");
        }
        let parted = load("kind: monitor, replicas: 2").unwrap();
        assert_eq!(parted, ["the NF `x` with `dispatch: flow` has a part of its hosts in each replica"]);
        let parted = load("kind: nat, replicas: 2, dispatch: connection").unwrap();
        assert_eq!(parted, ["the NF `x` with `dispatch: connection` has a part of its mappings in each replica"]);
        let parted = load("kind: firewall, args: {stateful: true}, replicas: 3, dispatch: host").unwrap();
        assert!(parted[0].contains("connections"), "{parted:?}");
    }

    #[test]
    fn who_cannot_share_is_told_who_can() {
        let refused = load("kind: nat, replicas: 2, state: shared-locked").unwrap_err();
        assert_eq!(
            refused,
            "t.yaml:7:40: error: found `state: shared-locked` for the NF `x` of kind `nat`, whose state each replica has for \
             itself; expected `private`, or a kind that can share: `monitor`"
        );
        let refused = load("kind: ./some.so, replicas: 2, state: shared-lockfree").unwrap_err();
        assert!(refused.contains("can share: `monitor`"), "{refused}");
        // What else it keeps is each replica's own still.
        let parted = load("kind: monitor, replicas: 2, state: shared-locked, args: {heavy_hitters: {}}").unwrap();
        assert_eq!(parted, ["the NF `x` with `dispatch: flow` has a part of its shares in each replica"]);
    }

    #[test]
    fn packets_that_belong_together_do_not_part() {
        let refused = load("kind: monitor, replicas: 2, dispatch: packet").unwrap_err();
        assert_eq!(
            refused,
            "t.yaml:7:47: error: found `dispatch: packet` for the NF `x`, which keeps hosts: packets that belong together \
             would part; expected `flow`, `connection` or `host`"
        );
        let refused = load("kind: ./some.so, replicas: 2, dispatch: packet").unwrap_err();
        assert!(refused.contains("does not say that it keeps no state"), "{refused}");
    }
}
