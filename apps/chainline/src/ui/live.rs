//! The live table: interval rates by chain and by NF, drawn over the last one on a terminal.

use super::{rate, table, time};
use chainline_chain::plan::Plan;
use chainline_manager::{Happening, Interval, Observer};
use std::io::{IsTerminal, Write, stderr};

/// Draws on standard error, if that is a terminal; elsewhere it says only what happens.
pub struct Live {
    terminal: bool,
    /// Lines of the table that stands there now.
    drawn: usize,
}

impl Live {
    pub fn new(wanted: bool) -> Self {
        Self { terminal: wanted && stderr().is_terminal(), drawn: 0 }
    }

    /// Moves up over the last table and clears it.
    fn erase(&mut self) {
        if self.drawn > 0 {
            let _ = write!(stderr(), "\x1b[{}A\x1b[J", self.drawn);
            self.drawn = 0;
        }
    }

    fn say(&mut self, words: &str) {
        self.erase();
        // Nothing can be done about a closed standard error.
        let _ = writeln!(stderr(), "{words}");
    }
}

/// Rates by reason, the largest first.
fn drop_rates(rates: &std::collections::BTreeMap<String, f64>) -> String {
    let mut list: Vec<_> = rates.iter().collect();
    list.sort_by(|a, b| b.1.total_cmp(a.1));
    let words: Vec<_> = list.iter().map(|(name, pps)| format!("{name} {}", rate(**pps, "pps"))).collect();
    if words.is_empty() { "-".into() } else { words.join(", ") }
}

impl Observer for Live {
    fn running(&mut self, plan: &Plan) {
        let (chains, nfs) = (plan.chains.len(), plan.nfs.len());
        self.say(&format!("{}: {chains} chains, {nfs} NFs run; Ctrl-C ends", plan.name));
    }

    fn interval(&mut self, i: &Interval) {
        if !self.terminal {
            return;
        }
        let mut chains = table(&["chain", "in", "out", "out", "shed", "dropped", "inside", "p50", "p99"], 1);
        for c in &i.chains {
            let at = |f: fn(&chainline_manager::report::Latency) -> u64| {
                c.latency_ns.as_ref().map_or("-".into(), |l| time(f(l)))
            };
            chains.add_row([
                c.name.clone(),
                rate(c.received_pps, "pps"),
                rate(c.transmitted_pps, "pps"),
                rate(c.transmitted_bps, "bit/s"),
                rate(c.shed_pps, "pps"),
                rate(c.dropped_pps, "pps"),
                c.held.to_string(),
                at(|l| l.p50),
                at(|l| l.p99),
            ]);
        }
        let mut nfs = table(&["NF", "in", "in", "queue", "core", "cost", "dropped"], 1);
        for n in &i.nfs {
            nfs.add_row([
                n.name.clone(),
                rate(n.pps, "pps"),
                rate(n.bps, "bit/s"),
                format!("{:.0} %", n.queue * 100.0),
                format!("{:.0} %", n.cpu_share * 100.0),
                n.cost_ns.map_or("-".into(), time),
                drop_rates(&n.dropped_pps),
            ]);
        }
        let text = format!("{:.0} s\n{chains}\n\n{nfs}\n", i.at_s);
        self.erase();
        // A table wider than the terminal would wrap, and the next one would be drawn in the wrong place.
        let width = rustix::termios::tcgetwinsize(stderr()).map_or(80, |w| usize::from(w.ws_col)).max(20);
        let lines: Vec<String> = text.lines().map(|l| l.trim_end().chars().take(width - 1).collect()).collect();
        let _ = writeln!(stderr(), "{}", lines.join("\n"));
        self.drawn = lines.len();
    }

    fn happened(&mut self, h: &Happening) {
        let who = h.instance.as_deref().map_or(String::new(), |i| format!("{i}: "));
        self.say(&format!("{:.1} s  {who}{}", h.at_s, h.what));
    }

    fn draining(&mut self) {
        if self.terminal {
            self.say("no more packets are received; those inside leave (Ctrl-C ends at once)");
        }
    }
}
