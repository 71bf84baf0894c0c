//! Dataplanes that are missing, crash, hang or lie: each a small script.

use crate::support::{adapter, lab, runs};
use chainline_bench::dataplane::{Counters, DataplaneError};
use chainline_bench::rivals::adapter::{PortKind, Spec};
use chainline_bench::rivals::lab::Lab;
use chainline_bench::rivals::started::Started;
use std::path::Path;

fn start(lab: &Lab, spec: &Spec) -> Result<Started, DataplaneError> {
    Started::new("fake", spec, lab, &[0], Path::new("/nowhere/chainline"))
}

fn refused(spec: &str) -> Option<DataplaneError> {
    let lab = lab(PortKind::Memif)?;
    Some(start(&lab, &adapter(spec)).err().unwrap())
}

#[test]
fn missing() {
    let Some(error) = refused(
        "  title: t\n  ports: memif\n  needs: {programs: [no-such-program-here], debian: [some-package]}\n  start: [{serve: [no-such-program-here]}]\n",
    ) else {
        return;
    };
    assert!(matches!(error, DataplaneError::Unavailable { .. }), "{error:?}");
    assert_eq!(
        error.to_string(),
        "fake: no program `no-such-program-here` is installed; on Debian, as root: \
         apt-get install --no-install-recommends some-package"
    );
}

#[test]
fn a_program_that_is_not_there_though_nobody_asked() {
    let Some(error) = refused("  title: t\n  ports: memif\n  start: [{serve: [no-such-program-here], until: ready}]\n")
    else {
        return;
    };
    assert!(matches!(error, DataplaneError::NotReady { .. }), "{error:?}");
    assert!(error.to_string().contains("No such file"), "{error}");
}

#[test]
fn crashes_before_it_is_ready() {
    let Some(error) = refused(
        "  title: t\n  ports: memif\n  start: [{serve: [sh, -c, 'echo out of luck; exit 7'], until: ready, within_ms: 60000}]\n",
    ) else {
        return;
    };
    assert!(matches!(error, DataplaneError::NotReady { .. }), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("ended with 7") && text.contains("out of luck"), "{text}");
}

#[test]
fn hangs_before_it_is_ready() {
    let Some(error) = refused(
        "  title: t\n  ports: memif\n  start: [{serve: [sh, -c, 'echo warming up; exec sleep 600'], until: ready, within_ms: 200}]\n",
    ) else {
        return;
    };
    let text = error.to_string();
    assert!(text.contains("did not print `ready` within 200 ms; it said: warming up"), "{text}");
}

#[test]
fn a_command_that_hangs() {
    let Some(error) = refused("  title: t\n  ports: memif\n  start: [{run: [sleep, 600], within_ms: 200}]\n") else {
        return;
    };
    assert!(error.to_string().contains("`sleep 600` hangs: it did not end within 200 ms"), "{error}");
}

#[test]
fn a_command_that_fails() {
    let Some(error) = refused("  title: t\n  ports: memif\n  start: [{run: [sh, -c, 'echo no; exit 4']}]\n") else {
        return;
    };
    assert!(error.to_string().contains("ended with 4: no"), "{error}");
}

/// Answers `count` with counters, `die` by ending, and nothing else.
const TALKER: &str = r#"  title: t
  ports: memif
  files:
    talk.sh: |
      echo ready
      n=0
      while read word; do
        case $word in
          count) n=$((n + 10)); echo "rx $n"; echo "rx 1"; echo "tx $n";;
          die) echo dying; exit 3;;
        esac
      done
      sleep 600
  start: [{serve: [sh, "{dir}/talk.sh"], until: ready}]
"#;

#[test]
fn counters_are_asked_for_and_added() {
    let Some(lab) = lab(PortKind::Memif) else { return };
    let spec = adapter(&format!(
        "{TALKER}  counters: {{say: count, received: '^rx ([0-9]+)', transmitted: '^tx ([0-9]+)'}}\n"
    ));
    let mut fake = start(&lab, &spec).unwrap();
    assert_eq!(fake.counters().unwrap(), Some(Counters { received: 11, transmitted: 10 }));
    assert_eq!(fake.counters().unwrap(), Some(Counters { received: 21, transmitted: 20 }), "not the last answer again");
    fake.alive().unwrap();
    assert!(fake.run_ns() > 0);
}

#[test]
fn dies_and_falls_silent_later() {
    let Some(lab) = lab(PortKind::Memif) else { return };
    for (say, expected) in [("die", "ended with 3"), ("hm", "its counters were not in its answer within 300 ms")] {
        let spec = adapter(&format!(
            "{TALKER}  counters: {{say: {say}, received: '^rx ([0-9]+)', transmitted: '^tx ([0-9]+)', within_ms: 300}}\n"
        ));
        let mut fake = start(&lab, &spec).unwrap();
        let error = fake.counters().unwrap_err();
        assert!(matches!(error, DataplaneError::Failed { .. }), "{error:?}");
        assert!(error.to_string().contains(expected), "{error}");
        assert_eq!(fake.alive().is_err(), say == "die");
    }
}

#[test]
fn numbers_that_are_none() {
    let Some(lab) = lab(PortKind::Memif) else { return };
    for text in ["rx x", "rx 99999999999999999999999", "rx 18446744073709551615; rx 1", ""] {
        let spec = adapter(&format!(
            "  title: t
  ports: memif
  start: [{{run: ['true']}}]
  counters: {{run: [echo, {text:?}], received: 'rx ([0-9a-z]+)', transmitted: 'rx ([0-9a-z]+)'}}
"
        ));
        let error = start(&lab, &spec).unwrap().counters().unwrap_err();
        assert!(error.to_string().contains("its counters were not in its answer"), "{text}: {error}");
    }
}

#[test]
fn stops_though_it_will_not() {
    let Some(lab) = lab(PortKind::Memif) else { return };
    let spec = adapter(
        "  title: t
  ports: memif
  start:
    - serve: [sh, -c, \"trap '' TERM HUP INT; setsid sleep 600 & echo child $!; while :; do sleep 1; done\"]
      until: child [0-9]+
  stop: [{say: please}]
  grace_ms: 50
",
    );
    let mut fake = start(&lab, &spec).unwrap();
    let words = fake.last_words();
    let child: u32 = words.rsplit(' ').next().unwrap().trim().parse().unwrap();
    assert!(runs(child));
    fake.stop();
    // It went into a session of its own, so it is none of the group; the lab's end is its end.
    drop(lab);
    assert!(!runs(child), "{child} stays");
}
