//! Changes as edits of the chain file in force: what comes of one is checked like any other file, so a change that makes
//! no sense is refused in the file's own words. Pure.

use chainline_chain::plan::Plan;
use chainline_ctl::{Add, Call, Fault, Remove, Target, Word};
use serde_json::{Map, Value, json};

/// The file, as JSON, with a change made in it. `plan` is the one in force.
///
/// # Errors
/// When something is named that is not there, or is there already.
pub(super) fn edited(mut file: Value, call: &Call, plan: &Plan) -> Result<Value, Fault> {
    match call {
        Call::SetPolicy { of, sched } => {
            for i in instances(of, plan)? {
                for_members(&mut file, plan, i, |nf| _ = nf.insert("sched".into(), sched.clone()))?;
            }
        }
        Call::SetPriority { of, priority } => {
            for i in instances(of, plan)? {
                let mut sched = serde_json::to_value(plan.instances[i].sched).unwrap_or_else(|_| json!({}));
                sched["priority"] = (*priority).into();
                for_members(&mut file, plan, i, |nf| _ = nf.insert("sched".into(), sched.clone()))?;
            }
        }
        Call::SetCores { of, cores } => {
            for i in instances(of, plan)? {
                for_members(&mut file, plan, i, |nf| _ = nf.insert("cores".into(), json!(cores)))?;
            }
        }
        Call::SetMechanisms { mechanisms } => {
            let spec = file.pointer_mut("/spec").and_then(Value::as_object_mut);
            if let Some(spec) = spec {
                spec.entry("defaults").or_insert_with(|| json!({}))["mechanisms"] = json!(mechanisms);
            }
        }
        Call::SetWatermarks { backpressure } => {
            let spec = file.pointer_mut("/spec").and_then(Value::as_object_mut);
            if let Some(spec) = spec {
                let defaults = spec.entry("defaults").or_insert_with(|| json!({}));
                for (field, value) in backpressure {
                    defaults["backpressure"][field.as_str()] = value.clone();
                }
            }
        }
        Call::SetRules { chain, matches } => {
            chain_of(&mut file, chain)?.insert("match".into(), matches.clone());
        }
        Call::SetPath { chain, path } => {
            chain_of(&mut file, chain)?.insert("path".into(), json!(path));
        }
        Call::Add(add) => adding(&mut file, add)?,
        Call::Remove(remove) => removing(&mut file, remove)?,
        Call::List | Call::Stats | Call::File | Call::Apply { .. } | Call::Reload => {}
    }
    Ok(file)
}

/// The instances that a target stands for.
fn instances(of: &Target, plan: &Plan) -> Result<Vec<usize>, Fault> {
    let chains = || plan.chains_in_force().into_iter().map(move |c| &plan.chains[c]);
    let nfs = || (0..plan.nfs.len()).filter(move |n| plan.has_nf(*n)).map(move |n| &plan.nfs[n]);
    let mut all: Vec<usize> = match of {
        Target::Nf(name) => nfs().filter(|n| n.base == *name).map(|n| n.instance).collect(),
        Target::Chain(name) => {
            let chains = chains().filter(|c| c.name == *name);
            chains.flat_map(|c| &c.hops).flat_map(|nf| plan.replicas_of(*nf)).map(|nf| plan.nfs[nf].instance).collect()
        }
        Target::Core(core) => nfs().map(|n| n.instance).filter(|&i| plan.instances[i].cores.contains(core)).collect(),
    };
    all.sort_unstable();
    all.dedup();
    if all.is_empty() {
        return Err(match of {
            Target::Nf(name) => match nfs().find(|n| n.name == *name) {
                Some(nf) => Fault::new(
                    Word::Wrong,
                    format!("found the replica `{name}`, expected the NF: its replicas are scheduled alike"),
                )
                .hint(format!("say `{}`", nf.base)),
                None => {
                    missing("NF", name, nfs().filter(|n| plan.nfs[n.first].name == n.name).map(|n| n.base.as_str()))
                }
            },
            Target::Chain(name) if chains().any(|c| c.name == *name) => Fault::new(
                Word::Wrong,
                format!("found the chain `{name}`, which has no NFs; expected one that has some"),
            ),
            Target::Chain(name) => missing("chain", name, chains().map(|c| c.name.as_str())),
            Target::Core(core) => {
                Fault::new(Word::Wrong, format!("found core {core}, on which no NF may run; expected one of theirs"))
                    .hint("`list` shows the cores of each instance")
            }
        });
    }
    Ok(all)
}

/// Something is named that is not there.
fn missing<'a>(what: &str, name: &str, names: impl Iterator<Item = &'a str>) -> Fault {
    const SHOWN: usize = 8;
    let mut all: Vec<_> = names.map(|n| format!("`{n}`")).collect();
    let more = all.len() > SHOWN;
    all.truncate(SHOWN);
    let list = if all.is_empty() { format!("no {what}") } else { all.join(", ") };
    let name: String = name.chars().take(64).map(|c| if c.is_control() { '?' } else { c }).collect();
    Fault::new(Word::Wrong, format!("found the {what} `{name}`, expected one of this run"))
        .hint(format!("there is {list}{}", if more { ", …" } else { "" }))
}

/// Does something to the definition of each NF that an instance hosts: fused ones must agree.
fn for_members(
    file: &mut Value,
    plan: &Plan,
    instance: usize,
    mut edit: impl FnMut(&mut Map<String, Value>),
) -> Result<(), Fault> {
    for nf in &plan.instances[instance].nfs {
        let name = &plan.nfs[*nf].base;
        let found = file.pointer_mut("/spec/nfs").and_then(|n| n.get_mut(name)).and_then(Value::as_object_mut);
        edit(found.ok_or_else(|| missing("NF", name, std::iter::empty()))?);
    }
    Ok(())
}

fn chains(file: &mut Value) -> Result<&mut Vec<Value>, Fault> {
    let list = file.pointer_mut("/spec/chains").and_then(Value::as_array_mut);
    list.ok_or_else(|| Fault::new(Word::Wrong, "found a chain file without `chains`, expected some"))
}

fn name_of(chain: &Value) -> &str {
    chain.get("name").and_then(Value::as_str).unwrap_or_default()
}

fn chain_of<'a>(file: &'a mut Value, name: &str) -> Result<&'a mut Map<String, Value>, Fault> {
    let list = chains(file)?;
    let at = position(list, name)?;
    list[at].as_object_mut().ok_or_else(|| missing("chain", name, std::iter::empty()))
}

fn position(list: &[Value], name: &str) -> Result<usize, Fault> {
    list.iter().position(|c| name_of(c) == name).ok_or_else(|| missing("chain", name, list.iter().map(name_of)))
}

fn adding(file: &mut Value, add: &Add) -> Result<(), Fault> {
    if add.ports.is_empty() && add.nfs.is_empty() && add.chains.is_empty() {
        let what = "found nothing to add, expected `ports`, `nfs` or `chains`";
        return Err(Fault::new(Word::InvalidParams, what));
    }
    for (map, new) in [("ports", &add.ports), ("nfs", &add.nfs)] {
        let all = &mut file["spec"][map];
        if all.is_null() {
            *all = json!({});
        }
        for (name, definition) in new {
            if all.get(name).is_some() {
                let what = format!("found `{name}` under `{map}`, which is there already; expected a new name");
                return Err(Fault::new(Word::Wrong, what).hint("`apply` changes what is there"));
            }
            all[name.as_str()] = definition.clone();
        }
    }
    let list = chains(file)?;
    let at = match &add.before {
        Some(name) => position(list, name)?,
        None => list.len(),
    };
    list.splice(at..at, add.chains.iter().cloned());
    Ok(())
}

fn removing(file: &mut Value, remove: &Remove) -> Result<(), Fault> {
    if remove.chains.is_empty() && remove.nfs.is_empty() {
        return Err(Fault::new(Word::InvalidParams, "found nothing to remove, expected `chains` or `nfs`"));
    }
    for name in &remove.chains {
        let list = chains(file)?;
        let at = position(list, name)?;
        list.remove(at);
    }
    for name in &remove.nfs {
        let all = file.pointer_mut("/spec/nfs").and_then(Value::as_object_mut);
        let Some(all) = all.filter(|a| a.contains_key(name)) else {
            return Err(missing("NF", name, std::iter::empty()));
        };
        all.shift_remove(name);
        for chain in chains(file)? {
            if let Some(path) = chain.get_mut("path").and_then(Value::as_array_mut) {
                path.retain(|hop| hop.as_str() != Some(name));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use chainline_chain::load;
    use std::path::Path;

    fn file() -> (Value, Plan) {
        let text = "
apiVersion: chainline/v1alpha1
kind: ServiceChain
metadata: {name: t}
spec:
  defaults: {sched: {policy: batch, nice: 3}}
  ports: {in: {generator: {}}, out: {sink: {}}}
  nfs:
    a: {kind: forward, cores: [1]}
    b: {kind: forward, isolation: fused, cores: [0]}
    c: {kind: forward, isolation: fused}
  chains:
    - {name: x, match: {proto: tcp}, path: [in, a, out]}
    - {name: y, match: {proto: udp}, path: [in, b, c, out]}
    - {name: z, path: [in, out]}
";
        let file = load(text, Path::new("t.yaml")).unwrap();
        (serde_json::to_value(&file).unwrap(), Plan::build(&file, &[0, 1]).unwrap())
    }

    fn nf(name: &str) -> Target {
        Target::Nf(name.into())
    }

    #[test]
    fn scheduling_goes_to_all_that_a_target_stands_for() {
        let (file, plan) = file();
        let set = |of, file: &Value| edited(file.clone(), &Call::SetPriority { of, priority: 7 }, &plan).unwrap();
        let sched = |file: &Value, name: &str| file["spec"]["nfs"][name]["sched"].clone();
        // What was inherited stays.
        let one = set(nf("a"), &file);
        assert_eq!((&sched(&one, "a")["priority"], &sched(&one, "a")["nice"]), (&json!(7), &json!(3)));
        assert!(sched(&one, "b").is_null());
        // Fused ones go together.
        let two = set(nf("c"), &file);
        assert!(sched(&two, "a").is_null() && sched(&two, "b") == sched(&two, "c") && !sched(&two, "b").is_null());
        assert_eq!(set(Target::Chain("y".into()), &file), two);
        assert_eq!(set(Target::Core(1), &file), one);
        for of in [nf("nobody"), Target::Chain("nobody".into()), Target::Chain("z".into()), Target::Core(77)] {
            let fault = edited(file.clone(), &Call::SetCores { of, cores: vec![0] }, &plan).unwrap_err();
            assert_eq!(fault.code, Word::Wrong);
        }
    }

    #[test]
    fn chains_are_added_in_their_place_and_removed() {
        let (file, plan) = file();
        let names = |file: &Value| file["spec"]["chains"].as_array().unwrap().iter().map(name_of).collect::<String>();
        let add = |before: Option<&str>| {
            let chains = vec![json!({"name": "1"}), json!({"name": "2"})];
            edited(file.clone(), &Call::Add(Add { chains, before: before.map(Into::into), ..Add::default() }), &plan)
        };
        assert_eq!(names(&add(None).unwrap()), "xyz12");
        assert_eq!(names(&add(Some("y")).unwrap()), "x12yz");
        assert!(add(Some("q")).is_err());
        let remove = |chains: &[&str], nfs: &[&str]| {
            let names = |l: &[&str]| l.iter().map(|n| (*n).to_owned()).collect();
            edited(file.clone(), &Call::Remove(Remove { chains: names(chains), nfs: names(nfs) }), &plan)
        };
        let left = remove(&["x"], &["b"]).unwrap();
        assert_eq!((names(&left).as_str(), &left["spec"]["chains"][0]["path"]), ("yz", &json!(["in", "c", "out"])));
        assert!(left["spec"]["nfs"].get("b").is_none());
        assert!(remove(&["x", "x"], &[]).is_err() && remove(&[], &["q"]).is_err() && remove(&[], &[]).is_err());
        let again = Add { nfs: [("a".to_owned(), json!({"kind": "forward"}))].into_iter().collect(), ..Add::default() };
        assert!(edited(file, &Call::Add(again), &plan).unwrap_err().message.contains("already"));
    }
}
