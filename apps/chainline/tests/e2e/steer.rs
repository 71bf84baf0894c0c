//! Steered runs: the protocol line by line, and that each packet of a window is accounted for.

use crate::command::{Dir, chainline};
use crate::lab::Namespace;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A steered run, and both its ends.
struct Steered {
    child: Child,
    orders: Option<ChildStdin>,
    replies: Lines<BufReader<ChildStdout>>,
    ready: Value,
}

impl Steered {
    /// Starts it and waits until it is ready.
    fn start(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let orders = child.stdin.take();
        let replies = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut this = Self { child, orders, replies, ready: Value::Null };
        this.ready = this.reply()["ready"].clone();
        assert!(this.ready["generator_max_pps"].as_f64() > Some(0.0), "{}", this.ready);
        assert!(this.ready["floor_ns"]["count"].as_u64() > Some(0), "{}", this.ready);
        this
    }

    fn say(&mut self, line: &str) {
        writeln!(self.orders.as_mut().unwrap(), "{line}").unwrap();
    }

    fn reply(&mut self) -> Value {
        serde_json::from_str(&self.replies.next().expect("a reply").unwrap()).unwrap()
    }

    /// Makes a trial and judges what holds for each.
    fn trial(&mut self, order: &Value) -> Value {
        self.say(&order.to_string());
        self.outcome()
    }

    fn outcome(&mut self) -> Value {
        let mut reply = self.reply();
        let outcome = reply["outcome"].take();
        assert!(outcome.is_object(), "{reply:#}");
        assert_eq!(outcome["balanced"], true, "{outcome:#}");
        assert_eq!(outcome["happenings"], json!([]), "{outcome:#}");
        let number = |key: &str| outcome[key].as_u64().unwrap();
        assert_eq!(number("sent"), number("received") + number("lost"), "{outcome:#}");
        assert!(number("intended") >= number("sent"), "{outcome:#}");
        assert_eq!(outcome["generator"]["saturated"], number("intended") > number("sent"), "{outcome:#}");
        assert_eq!(outcome["latency"]["count"].as_u64().unwrap_or(0), number("received"), "{outcome:#}");
        outcome
    }

    /// Ends its input and waits for its end.
    fn end(mut self) -> Option<i32> {
        self.orders = None;
        assert!(self.replies.next().is_none(), "more replies than orders");
        self.child.wait().unwrap().code()
    }
}

impl Drop for Steered {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn steer() -> Command {
    let mut command = chainline();
    command.args(["run", "--quiet", "--steer"]);
    command
}

fn drops(outcome: &Value) -> u64 {
    crate::command::sum(&outcome["drops"])
}

/// Ten flows in turn, of which the firewall denies one: of any packets in a row it drops each tenth.
const EACH_TENTH: &str = "  ports:
    in: {generator: {flows: 10, src: 10.0.0.1, dst: 10.0.0.2, src_port: 5000, dst_port: 1000-1009, stamp: STAMP}}
    out: {sink: {check: STAMP}}
  nfs: {fw: {kind: firewall, args: {rules_inline: [deny udp from any to any port 1003], default: allow}}}
  chains: [{name: all, path: [in, fw, out]}]
";

#[test]
fn each_order_has_its_reply_and_garbage_is_refused() {
    let dir = Dir::new();
    let mut run = Steered::start(steer().arg(dir.chain_file("c.yaml", &EACH_TENTH.replace("STAMP", "false"))));
    assert_eq!(run.ready["mean_frame_bytes"], 64.0);
    for bad in [
        "{",
        "no order",
        "[1]",
        "\u{0}",
        r#"{"load": {"pps": -1}, "duration_ms": 10}"#,
        r#"{"load": {"pps": 1e12}, "duration_ms": 10}"#,
        r#"{"load": "max", "duration_ms": 0}"#,
        r#"{"load": "max", "duration_ms": 18446744073709551615}"#,
        r#"{"load": "max", "duration_ms": 10, "drain_ms": 18446744073709551615}"#,
        r#"{"load": "max", "duration_ms": 10, "speed": 3}"#,
    ] {
        run.say(bad);
        let reply = run.reply();
        assert!(reply["refused"]["why"].as_str().is_some_and(|why| why.contains("expected")), "{bad}: {reply}");
    }
    // All that is due in the window is intended, whatever the machine does: 2,000 a second for half of one.
    let outcome = run.trial(&json!({"load": {"pps": 2000}, "warmup_ms": 50, "duration_ms": 500}));
    assert_eq!(outcome["intended"], 1000);
    assert_eq!(outcome["seconds"].as_f64().map(|s| (s * 1e6).round()), Some(500_000.0));
    assert_eq!(drops(&outcome), outcome["lost"].as_u64().unwrap(), "{outcome:#}");
    let nothing = json!([null, null, null]);
    assert_eq!(json!([outcome["duplicated"], outcome["reordered"], outcome["foreign"]]), nothing);
    assert_eq!(run.end(), Some(0));
}

#[test]
fn losses_are_exact_in_every_window() {
    let dir = Dir::new();
    for stamped in [false, true] {
        let spec = EACH_TENTH.replace("STAMP", &stamped.to_string());
        let mut run = Steered::start(steer().arg(dir.chain_file("c.yaml", &spec)));
        let (mut total, mut worked_on) = (0, 0);
        for warmup_ms in [0, 30, 7] {
            let order = json!({"load": "lossless", "warmup_ms": warmup_ms, "duration_ms": 300, "drain_ms": 5000});
            let outcome = run.trial(&order);
            let (sent, lost) = (outcome["sent"].as_u64().unwrap(), outcome["lost"].as_u64().unwrap());
            assert!(lost == sent / 10 || lost == sent.div_ceil(10), "{lost} of {sent}");
            assert_eq!(drops(&outcome), lost, "{outcome:#}");
            assert_eq!(outcome["drops"]["fw/denied"].as_u64().unwrap_or(0), lost, "{outcome:#}");
            if stamped {
                assert_eq!(json!([outcome["duplicated"], outcome["reordered"], outcome["foreign"]]), json!([0, 0, 0]));
            }
            total += sent;
            // Read by the clock, so next to the window, not exactly.
            worked_on += outcome["nfs"]["fw"]["received"].as_u64().unwrap();
        }
        // A busy host may let nothing through in one window, but not in all of them.
        assert!(total > 100 && worked_on > 0, "{total}, {worked_on}");
        // More than there is room for: what is not shed at the entry goes through, and all of it is found again.
        let outcome = run.trial(&json!({"load": "max", "duration_ms": 100, "drain_ms": 5000}));
        assert_eq!(drops(&outcome), outcome["lost"].as_u64().unwrap(), "{outcome:#}");
        assert_eq!(run.end(), Some(0));
    }
}

#[test]
fn what_nobody_gives_back_in_time_is_lost_inside() {
    let dir = Dir::new();
    // A tenth of a second of work for each packet, which no drain waits for.
    let spec = "  ports: {in: {generator: {rate: 1kpps}}, out: {sink: {}}}
  nfs: {slow: {kind: synthetic, args: {cost_cycles: 260000000, tsc_hz: 2600000000, iteration_cycles: 5}}}
  chains: [{name: all, path: [in, slow, out]}]\n";
    let mut run = Steered::start(steer().arg(dir.chain_file("c.yaml", spec)));
    let outcome = run.trial(&json!({"load": {"pps": 100}, "duration_ms": 100, "drain_ms": 0}));
    assert_eq!(outcome["intended"], 10);
    assert_eq!(drops(&outcome), outcome["lost"].as_u64().unwrap(), "{outcome:#}");
    assert!(outcome["drops"]["all/inside"].as_u64() > Some(0), "{outcome:#}");
}

#[test]
fn a_signal_ends_it_in_the_middle_of_a_trial() {
    let dir = Dir::new();
    let mut run = Steered::start(steer().arg(dir.chain_file("c.yaml", &EACH_TENTH.replace("STAMP", "false"))));
    run.trial(&json!({"load": {"pps": 1000}, "duration_ms": 10}));
    run.say(&json!({"load": {"pps": 1000}, "duration_ms": 3_600_000}).to_string());
    kill_process(Pid::from_child(&run.child), Signal::TERM).unwrap();
    assert!(run.replies.next().is_none(), "no outcome of half a trial");
    assert_eq!(run.child.wait().unwrap().code(), Some(0));
}

#[test]
fn what_cannot_be_steered_is_refused() {
    let dir = Dir::new();
    let capture = crate::command::repository().join("examples/captures/quickstart.pcap").canonicalize().unwrap();
    let spec = format!(
        "  ports: {{in: {{pcap: {{read: {capture:?}}}}}, out: {{sink: {{}}}}}}\n  chains: [{{name: all, path: [in, out]}}]\n"
    );
    let refused = crate::command::outcome(steer().arg(dir.chain_file("c.yaml", &spec)));
    refused.assert_refused(1, "a capture");
    assert!(refused.stderr.contains("port in reads a capture"), "{}", refused.stderr);
}

/// The simplest dataplane there is: a wire. What goes out at one end of a veth pair comes in at the other.
#[test]
fn through_a_veth_pair_frames_are_told_from_others() {
    let Some(net) = Namespace::new() else { return };
    net.run("ip link add cl-a type veth peer name cl-b");
    net.bare("cl-a");
    net.bare("cl-b");
    net.run("ip addr add 10.9.9.1/24 dev cl-a");
    let dir = Dir::new();
    let spec = "  ports:
    gen: {generator: {flows: 1000, rate: 1kpps, stamp: true}}
    a: {af_packet: {interface: cl-a}}
    b: {af_packet: {interface: cl-b}}
    end: {sink: {check: true}}
  chains:
    - {name: there, path: [gen, a]}
    - {name: back, path: [b, end]}\n";
    let mut command = net.command(env!("CARGO_BIN_EXE_chainline"));
    let mut run = Steered::start(command.args(["run", "--quiet", "--steer"]).arg(dir.chain_file("c.yaml", spec)));
    let trial = |pps: u32| json!({"load": {"pps": pps}, "warmup_ms": 50, "duration_ms": 1000, "drain_ms": 1000});
    for pps in [1000, 20_000] {
        run.say(&trial(pps).to_string());
        // Asks for a neighbour that is not there, in frames that come out at the other end.
        let _ = net.output("ping -c 1 -W 1 10.9.9.2");
        let outcome = run.outcome();
        assert_eq!(outcome["intended"], pps, "{outcome:#}");
        assert!(outcome["received"].as_u64() > Some(0), "{outcome:#}");
        assert_eq!(json!([outcome["duplicated"], outcome["reordered"]]), json!([0, 0]), "{outcome:#}");
        if pps == 1000 {
            assert!(outcome["foreign"].as_u64() > Some(0), "{outcome:#}");
        }
    }
    assert_eq!(run.end(), Some(0));
}
