//! NFs' own counters by name, over all incarnations of an instance.

use crate::report::Counters;
use chainline_nf::Declared;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Adds what a page shows. By name: one that was started again may have declared others, as its files had changed.
pub(super) fn add(sum: &mut Counters, declared: &Declared, page: &[AtomicU64]) {
    for (spec, shown) in declared.counters.iter().zip(page) {
        let (sum, shown) = (sum.entry(spec.name.clone()).or_default(), shown.load(Relaxed));
        // Pages are the instances' own: a liar's numbers may wrap.
        *sum = if spec.level { shown } else { sum.wrapping_add(shown) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chainline_nf::Env;
    use std::path::Path;

    #[test]
    fn counters_add_up_by_name_and_levels_do_not() {
        let declared = |rules: &[&str]| {
            let mut env = Env::new(Path::new(""), &[]);
            env.level("flows", "entries", "");
            rules.iter().for_each(|r| _ = env.counter(*r, "packets", ""));
            env.into_declared()
        };
        let page = |shown: &[u64]| shown.iter().map(|n| AtomicU64::new(*n)).collect::<Vec<_>>();
        let mut sum = Counters::new();
        add(&mut sum, &declared(&["a", "b"]), &page(&[7, 1, 2]));
        add(&mut sum, &declared(&["b", "c"]), &page(&[3, 10, u64::MAX]));
        add(&mut sum, &declared(&["c"]), &page(&[4, 6]));
        let found: Vec<_> = sum.iter().map(|(name, n)| (name.as_str(), *n)).collect();
        assert_eq!(found, [("a", 1), ("b", 12), ("c", 5), ("flows", 4)]);
    }
}
