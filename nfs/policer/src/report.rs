//! Words for the final report.

use crate::state::{Does, State};
use std::fmt::Write as _;

pub(crate) fn text(state: &State) -> String {
    let mut out = state.reload.words().unwrap_or_default();
    for class in &state.set.classes {
        let does = match class.does {
            Does::Meter(_) => "one meter",
            Does::MeterFlow(_) => "a meter for each flow",
            Does::Shape(_) => "a shaper",
        };
        // Writing to a string cannot fail.
        let _ok = writeln!(out, "class {}: {does}", class.name);
    }
    if let Some(flows) = &state.set.flows {
        let (now, bytes) = flows.size();
        let _ok = writeln!(out, "{now} flows; {} MiB taken for all that there may be", bytes.div_ceil(1 << 20));
    }
    out
}
