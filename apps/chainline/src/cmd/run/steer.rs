//! `chainline run --steer`: orders from standard input, a line each; replies on standard output, a line each.

use super::RunError;
use crate::exit::Exit;
use chainline_chain::plan::Plan;
use chainline_manager::{Observer, Options, Orders};
use chainline_trial::{Order, Reply};
use std::io::{BufRead, BufReader, Read, Write, stderr, stdin, stdout};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// The longest line that can be an order, in bytes.
const LONGEST: u64 = 4096;

/// Standard input and output.
struct Streams(Receiver<Result<Order, String>>);

impl Orders for Streams {
    fn orders(&self) -> &Receiver<Result<Order, String>> {
        &self.0
    }

    fn reply(&mut self, reply: &Reply) -> bool {
        if let Reply::Ready(r) = reply {
            let floor = &r.floor_ns;
            // Nothing can be done about a closed standard error.
            let _ = writeln!(
                stderr(),
                "the generators make {:.2} Mpps at most; latencies have a floor of {} ns (median; P99.9 {} ns)",
                r.generator_max_pps / 1e6,
                floor.p50,
                floor.p99_9
            );
        }
        let mut out = stdout().lock();
        serde_json::to_string(reply).is_ok_and(|line| writeln!(out, "{line}").and_then(|()| out.flush()).is_ok())
    }
}

/// Starts the chains and follows orders until there are no more.
pub fn run(plan: Plan, options: &Options, observer: &mut dyn Observer) -> Result<Exit, RunError> {
    // One order ahead, not more: whoever writes without reading waits.
    let (orders, inbox) = sync_channel(1);
    std::thread::spawn(move || read(BufReader::new(stdin()), &orders));
    let report = chainline_manager::steer(plan, options, &mut Streams(inbox), observer)?;
    Ok(if report.ledger.balanced { Exit::Ok } else { Exit::Failed })
}

/// Reads orders to the end of the input. Empty lines are none.
fn read(mut input: impl BufRead, orders: &SyncSender<Result<Order, String>>) {
    let mut line = Vec::new();
    loop {
        line.clear();
        match input.by_ref().take(LONGEST).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let whole = line.ends_with(b"\n") || (line.len() as u64) < LONGEST;
        if !whole && input.skip_until(b'\n').is_err() {
            return;
        }
        if line.trim_ascii().is_empty() && whole {
            continue;
        }
        let order = if whole { parse(&line) } else { Err(format!("a line longer than {LONGEST} bytes is no order")) };
        if orders.send(order).is_err() {
            return;
        }
    }
}

/// One order, or what is wrong with it.
fn parse(line: &[u8]) -> Result<Order, String> {
    const SHAPE: &str = r#"expected an order such as {"load": {"pps": 1e6}, "duration_ms": 1000}"#;
    serde_json::from_slice(line).map_err(|e| format!("column {}: {}; {SHAPE}", e.column(), bare(&e)))
}

/// A message without its place, which is always line 1.
fn bare(e: &serde_json::Error) -> String {
    let text = e.to_string();
    text.rsplit_once(" at line ").map_or(text.as_str(), |(what, _)| what).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use chainline_trial::Load;

    #[test]
    fn what_is_no_order_is_said_and_the_next_one_is_read() {
        let (orders, inbox) = sync_channel(100);
        let long = format!("{}\n", "x".repeat(3 * LONGEST as usize));
        let exactly = format!("{{\"load\": \"max\", \"duration_ms\": 1{}}}\n", " ".repeat(LONGEST as usize - 34));
        assert_eq!(exactly.len() as u64, LONGEST);
        let good = r#"{"load": {"pps": 5}, "duration_ms": 7}"#;
        let bad = [
            "{",
            "[]",
            "null",
            r#"{"load": "more", "duration_ms": 1}"#,
            r#"{"load": "max"}"#,
            "\u{7f}\0",
            r#"{"load": {"pps": "1"}, "duration_ms": 1}"#,
            r#"{"load": "max", "duration_ms": -1}"#,
            r#"{"load": "max", "duration_ms": 1e99}"#,
            r#"{"load": "max", "duration_ms": 1, "cake": 2}"#,
            r#"{"load": {"pps": 1e999}, "duration_ms": 1}"#,
        ];
        let mut text = format!("\n{exactly}  \n{good}\n{long}{good}\n").into_bytes();
        bad.iter().for_each(|b| text.extend(format!("{b}\n").bytes()));
        text.extend(b"\xff\xfe\n");
        text.extend(good.as_bytes());
        read(text.as_slice(), &orders);
        drop(orders);
        let all: Vec<_> = inbox.iter().collect();
        let loads: Vec<_> = all.iter().map(|o| o.as_ref().ok().map(|o| o.load)).collect();
        let good = Some(Load::Pps(5.0));
        let mut expected = vec![Some(Load::Max), good, None, good];
        expected.resize(4 + bad.len() + 1, None);
        expected.push(good);
        assert_eq!(loads, expected, "{all:#?}");
        let said =
            all.iter().filter_map(|o| o.as_ref().err()).all(|why| why.contains("column") || why.contains("4096"));
        assert!(said, "{all:#?}");
    }
}
