//! The kinds of NF: those that are built in, and shared objects.

use chainline_nf::{Env, Error, NfObject, Registry};
use serde_json::Value;

/// All that are built in.
pub fn registry() -> Registry {
    Registry::new([
        nf_firewall::KIND,
        nf_forward::KIND,
        nf_l3fwd::KIND,
        nf_lb::KIND,
        nf_logger::KIND,
        nf_monitor::KIND,
        nf_policer::KIND,
        nf_nat::KIND,
        nf_router::KIND,
        nf_synthetic::KIND,
    ])
}

/// Builds an NF of a built-in kind, or of the shared object that `kind` is the path of.
pub fn build(kind: &str, args: Value, env: &mut Env<'_>) -> Result<Box<dyn NfObject>, Error> {
    match registry().get(kind) {
        Some(kind) => (kind.build)(args, env),
        None => {
            let loaded = chainline_nf_c::load(env.path(kind)).map_err(|e| Error::Library(e.to_string()))?;
            loaded.build(args, env)
        }
    }
}
