//! What a running `forward` NF keeps.

use chainline_nf::{Env, Reason};

/// Nothing but the reason for its only drop.
pub struct State {
    pub(crate) malformed: Reason,
}

impl State {
    pub(crate) fn new(env: &mut Env<'_>) -> Self {
        Self { malformed: env.drop_reason("malformed") }
    }
}
