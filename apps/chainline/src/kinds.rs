//! The kinds of NF that are built in.

use chainline_nf::Registry;

/// All of them.
pub fn registry() -> Registry {
    Registry::new([nf_firewall::KIND, nf_forward::KIND, nf_l3fwd::KIND, nf_monitor::KIND, nf_synthetic::KIND])
}
