//! The report: external addresses, who has them, and how many of their ports are taken.

use crate::state::State;
use std::fmt::Write;
use std::net::Ipv4Addr;

/// Addresses that the report lists; it is to stay within a few KiB.
const ROWS: u32 = 60;

impl State {
    pub(crate) fn describe(&self) -> String {
        let pool = &self.book.pool;
        let area = pool.ports();
        let ports = u32::from(area.to) - u32::from(area.from) + 1;
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{:<16} {:>11} {:>9} {:>9} {:>9}", "address", "subscribers", "TCP", "UDP", "ICMP");
        for index in 0..pool.len().min(ROWS) {
            let taken = [0, 1, 2].map(|space| ports - pool.free(index, space));
            let _ = writeln!(
                text,
                "{:<16} {:>11} {:>9} {:>9} {:>9}",
                Ipv4Addr::from(pool.address(index)).to_string(),
                pool.subscribers(index),
                taken[0],
                taken[1],
                taken[2]
            );
        }
        if pool.len() > ROWS {
            let _ = writeln!(text, "and {} addresses more", pool.len() - ROWS);
        }
        let _ = writeln!(text, "{ports} ports of each kind an address");
        text
    }
}
