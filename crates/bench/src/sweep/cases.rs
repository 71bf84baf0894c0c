//! All combinations of factors, less what is excluded.

use super::model::Spec;
use crate::run::label;
use indexmap::IndexMap;
use serde_json::Value;

/// A value for each factor.
pub type Combination = IndexMap<String, Value>;

/// Most combinations of one file: a day of hasty measurements.
pub const MOST: usize = 20_000;

/// Every combination, the last factor fastest; then what is included besides. `Err` is how many there would be.
///
/// # Errors
/// When there are more than 20,000.
pub fn combinations(spec: &Spec) -> Result<Vec<Combination>, usize> {
    let many = spec.factors.values().map(Vec::len).try_fold(1_usize, |all, n| all.checked_mul(n)).unwrap_or(usize::MAX);
    if many > MOST {
        return Err(many);
    }
    let mut all = vec![Combination::new()];
    for (factor, values) in &spec.factors {
        let longer = |c: &Combination| {
            let c = c.clone();
            values.iter().map(move |v| {
                let mut longer = c.clone();
                longer.insert(factor.clone(), v.clone());
                longer
            })
        };
        all = all.iter().flat_map(longer).collect();
    }
    let excluded = |c: &Combination| spec.exclude.iter().any(|e| e.iter().all(|(f, v)| c.get(f) == Some(v)));
    all.retain(|c| !excluded(c));
    for more in &spec.include {
        if !all.contains(more) {
            all.push(more.clone());
        }
    }
    Ok(all)
}

/// All combinations with the ideals before them, each with the index of its own ideal, if there are any.
///
/// # Errors
/// As [`combinations`].
pub fn with_ideals(spec: &Spec) -> Result<Vec<(Combination, Option<usize>)>, usize> {
    let others = combinations(spec)?;
    if spec.ideal.is_empty() {
        return Ok(others.into_iter().map(|c| (c, None)).collect());
    }
    let mut ideals: Vec<Combination> = Vec::new();
    let mut of = Vec::new();
    for combination in &others {
        let mut ideal = combination.clone();
        ideal.extend(spec.ideal.clone());
        // Maps are alike whatever the order of their entries.
        of.push(ideals.iter().position(|i| *i == ideal).unwrap_or_else(|| {
            ideals.push(ideal);
            ideals.len() - 1
        }));
    }
    let held = others.into_iter().zip(of).filter(|(c, _)| !ideals.contains(c)).map(|(c, i)| (c, Some(i)));
    let held: Vec<_> = held.collect();
    Ok(ideals.into_iter().enumerate().map(|(i, c)| (c, Some(i))).chain(held).collect())
}

/// What people call a combination: `64 bytes, l3fwd, chain length 3`.
#[must_use]
pub fn name<'a>(combination: impl IntoIterator<Item = (&'a String, &'a Value)>) -> String {
    let word = |(factor, value): (&String, &Value)| match factor.as_str() {
        "frame_bytes" => format!("{} bytes", label(value)),
        "cpu_frequency" if value.is_number() => format!("{} MHz", label(value)),
        "nf" | "nfs" | "mix" | "policy" | "sched" | "isolation" | "variant" => label(value),
        "placement" if value.is_number() => format!("{} cores", label(value)),
        "placement" => label(value),
        factor => {
            let factor = factor.strip_prefix("spec.").unwrap_or(factor);
            format!("{} {}", factor.replace('_', " "), label(value))
        }
    };
    let words: Vec<String> = combination.into_iter().map(word).collect();
    if words.is_empty() { "as it is".into() } else { words.join(", ") }
}
