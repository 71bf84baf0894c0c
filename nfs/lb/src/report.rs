//! The report: services, their backends and what went to them.

use crate::services::Health;
use crate::state::State;
use std::fmt::Write;

/// Backends that the report lists; it is to stay within a few KiB.
const ROWS: usize = 60;

impl State {
    pub(crate) fn describe(&self) -> String {
        let pool = &self.core.pool;
        let mut text = self.reload.words().unwrap_or_default();
        let mut rows = 0;
        for service in &pool.services {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{}: {}", service.spec.name, service.spec.describe());
            let _ = writeln!(
                text,
                "  {:<44} {:<7} {:>6} {:>10} {:>12} {:>14} {:>16}",
                "backend", "state", "weight", "flows", "flows so far", "packets", "bytes"
            );
            for (backend, slot) in service.spec.backends.iter().zip(&service.members) {
                rows += 1;
                let at = *slot as usize;
                let (Some(hot), Some(record)) = (pool.backends.get(at), pool.records.get(at)) else { continue };
                if rows > ROWS {
                    continue;
                }
                let state = match backend.health {
                    Health::Up if record.signs.suspect_until_ns != 0 => "silent",
                    Health::Up => "up",
                    Health::Drain => "drain",
                    Health::Down => "down",
                };
                let _ = writeln!(
                    text,
                    "  {:<44} {:<7} {:>6} {:>10} {:>12} {:>14} {:>16}",
                    backend.name(),
                    state,
                    backend.weight,
                    record.flows,
                    record.flows_total,
                    hot.packets,
                    hot.bytes
                );
            }
        }
        if rows > ROWS {
            let _ = writeln!(text, "and {} backends more", rows - ROWS);
        }
        text
    }
}
