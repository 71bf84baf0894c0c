//! The dataplanes that the bench knows: adapter files like anybody's.

use super::adapter::Spec;
use super::decode;
use std::path::Path;

/// Name and text of each, in the order of tables.
pub const FILES: &[(&str, &str)] = &[
    ("chainline", include_str!("builtin/chainline.yaml")),
    ("chainline-forward", include_str!("builtin/chainline-forward.yaml")),
    ("kernel", include_str!("builtin/kernel.yaml")),
    ("bridge", include_str!("builtin/bridge.yaml")),
    ("nftables", include_str!("builtin/nftables.yaml")),
    ("ovs", include_str!("builtin/ovs.yaml")),
    ("testpmd-io", include_str!("builtin/testpmd-io.yaml")),
    ("testpmd-macswap", include_str!("builtin/testpmd-macswap.yaml")),
    ("testpmd-5tswap", include_str!("builtin/testpmd-5tswap.yaml")),
];

/// One of them; `None` if there is none of that name.
#[must_use]
pub fn get(name: &str) -> Option<Spec> {
    let (name, text) = FILES.iter().find(|(n, _)| *n == name)?;
    // A test reads them all.
    decode::load(text.as_bytes(), Path::new(name)).ok().map(|d| d.spec)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reads_and_is_called_what_it_is_listed_as() {
        for (name, text) in FILES {
            let read = decode::load(text.as_bytes(), Path::new(name)).unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(read.name, *name);
            assert!(read.warnings.is_empty());
            assert!(read.spec.counters.is_some(), "{name} has counters");
        }
    }
}
