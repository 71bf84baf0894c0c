//! The conversation with a steered run, against scripts that say what one says, or what none says.
#![allow(clippy::unwrap_used)]

use chainline_bench::dataplane::steered::{Asked, Steered};
use chainline_bench::dataplane::{Dataplane, DataplaneError};
use chainline_trial::{Latency, Load, Order, Outcome, Ready, Reply};
use std::process::Command;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(60);

fn ready() -> String {
    let ready = Ready {
        environment: serde_json::json!({}),
        generator_max_pps: 3e6,
        floor_ns: Latency::default(),
        mean_frame_bytes: 64.0,
    };
    serde_json::to_string(&Reply::Ready(ready)).unwrap()
}

fn outcome(received: u64) -> String {
    let outcome = Outcome { seconds: 1.0, sent: 100, received, ..Outcome::default() };
    serde_json::to_string(&Reply::Outcome(Box::new(outcome))).unwrap()
}

fn start(command: &Command, within: Duration) -> Result<Steered, DataplaneError> {
    Steered::start("scripted", command, within, || false)
}

fn order() -> Order {
    Order { load: Load::Pps(1e3), duration_ms: 10, drain_ms: 1, ..Order::default() }
}

/// One that says `first`, then for each order the next of `replies`, and ends.
fn script(first: &str, replies: &[&str]) -> Command {
    let mut text = format!("echo '{first}'\n");
    for reply in replies {
        text.push_str(&format!("read order; echo \"$order\" >&2; echo '{reply}'\n"));
    }
    text.push_str("read order; echo enough >&2; exit 5");
    let mut command = Command::new("sh");
    command.args(["-c", &text]);
    command
}

#[test]
fn trials_are_asked_for_and_answered() {
    let refused = serde_json::to_string(&Reply::Refused { why: "too much".into() }).unwrap();
    let (one, two) = (outcome(90), outcome(100));
    let mut tester = start(&script(&ready(), &[&one, &refused, &two]), LONG).unwrap();
    assert_eq!(tester.ready().generator_max_pps, 3e6);
    assert_eq!(tester.trial(&order()).unwrap().received, 90);
    let error = tester.trial(&order()).unwrap_err().to_string();
    assert!(error.contains("refused the order") && error.contains("too much"), "{error}");
    assert_eq!(tester.trial(&order()).unwrap().received, 100);
    let error = tester.trial(&order()).unwrap_err();
    assert!(matches!(error, DataplaneError::Failed { .. }), "{error:?}");
    assert!(error.to_string().contains("ended with 5") && error.to_string().contains("enough"), "{error}");
}

#[test]
fn who_does_not_say_that_it_is_ready_is_not() {
    for (command, expected) in [
        (script("hello", &[]), "expected a line of the steering protocol"),
        (script(&outcome(1), &[]), "found the outcome of a trial before any order"),
        (script(r#"{"refused": {"why": "no such file"}}"#, &[]), "no such file"),
    ] {
        let error = start(&command, LONG).unwrap_err();
        assert!(matches!(error, DataplaneError::NotReady { .. }), "{error:?}");
        assert!(error.to_string().contains(expected), "{error}");
    }
    let mut silent = Command::new("sh");
    silent.args(["-c", "echo thinking >&2; exec sleep 600"]);
    let error = start(&silent, Duration::from_millis(500)).unwrap_err().to_string();
    assert!(error.contains("did not answer") && error.contains("thinking"), "{error}");
    let mut gone = Command::new("sh");
    gone.args(["-c", "echo no such option >&2; exit 2"]);
    let error = start(&gone, LONG).unwrap_err().to_string();
    assert!(error.contains("ended with 2") && error.contains("no such option"), "{error}");
}

#[test]
fn the_end_of_its_input_ends_it() {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("echo '{}'; while read -r order; do echo '{}'; done", ready(), outcome(7))]);
    let mut run = start(&command, LONG).unwrap();
    for _ in 0..3 {
        assert_eq!(run.trial(&order()).unwrap().received, 7);
    }
    let proc = format!("/proc/{}", run.pid());
    assert!(std::path::Path::new(&proc).exists());
    drop(run);
    assert!(!std::path::Path::new(&proc).exists());
}

#[test]
fn a_wait_ends_on_request() {
    const STOP: Asked = || true;
    let mut command = Command::new("sh");
    command.args(["-c", "while read -r order; do :; done"]);
    let error = Steered::start("scripted", &command, LONG, STOP).unwrap_err().to_string();
    assert!(error.contains("stopped on request"), "{error}");
}
