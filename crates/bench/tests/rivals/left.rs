//! Nothing is left: after an end, after a failure, after `kill -9`.

use crate::support::{adapter, lab, printed, runs};
use chainline_bench::rivals::adapter::PortKind;
use chainline_bench::rivals::lab::{Lab, sweep};
use chainline_bench::rivals::started::Started;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

fn traces(name: &str) -> Vec<String> {
    let mut left: Vec<String> =
        printed("ip", &["netns"]).lines().filter(|l| l.contains(name)).map(str::to_owned).collect();
    let temp = std::fs::read_dir(std::env::temp_dir()).unwrap().flatten();
    left.extend(temp.filter_map(|e| e.file_name().into_string().ok()).filter(|n| n.contains(name)));
    left
}

#[test]
fn a_lab_comes_and_goes() {
    let Some(first) = lab(PortKind::Veth) else { return };
    let second = Lab::new(PortKind::Memif).unwrap();
    assert_ne!(first.tester(), second.tester());
    let name = first.tester().trim_end_matches('t').to_owned();
    assert_eq!(traces(&name).len(), 3, "two namespaces and a directory");
    let [d_in, d_out] = first.interfaces();
    let links = printed("ip", &["-n", &first.dataplane(), "-br", "link"]);
    assert!(links.contains(&d_in) && links.contains(&d_out) && links.contains("02:00:00:00:00:02"), "{links}");
    drop(first);
    assert_eq!(traces(&name), Vec::<String>::new());
    assert!(Path::new(second.dir()).exists(), "another lab stays");
}

#[test]
fn the_kernels_work_has_a_thread_on_its_core() {
    let Some(lab) = lab(PortKind::Veth) else { return };
    let pid = lab.threaded(0).unwrap();
    assert_eq!(printed("taskset", &["-p", "-c", &pid.to_string()]).trim().rsplit(' ').next(), Some("0"));
    drop(lab);
    assert!(!runs(pid), "the kernel's thread stays");
}

/// The bench as somebody kills it: this test again, as a process of its own, which says what it made and waits.
#[test]
fn a_killed_bench_is_cleaned_up_by_the_next() {
    if std::env::var_os("CHAINLINE_TEST_VICTIM").is_some() {
        let Some(lab) = lab(PortKind::Veth) else { return };
        let spec = adapter(
            "  title: t
  ports: veth
  start: [{serve: [sh, -c, 'setsid sleep 600 & echo child $!; exec sleep 600'], until: 'child [0-9]+'}]
",
        );
        let fake = Started::new("fake", &spec, &lab, &[0], Path::new("/nowhere")).unwrap();
        println!("\nmade {} {}", lab.tester().trim_end_matches('t'), fake.last_words().rsplit(' ').next().unwrap());
        std::thread::sleep(std::time::Duration::from_secs(600));
        return;
    }
    let Some(own) = lab(PortKind::Memif) else { return };
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "left::a_killed_bench_is_cleaned_up_by_the_next", "--nocapture"])
        .env("CHAINLINE_TEST_VICTIM", "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let out = BufReader::new(victim.stdout.take().unwrap());
    let made = out.lines().map_while(Result::ok).find(|l| l.starts_with("made ")).expect("the victim made a lab");
    let words: Vec<&str> = made.split(' ').collect();
    let (name, child) = (words[1], words[2].parse::<u32>().unwrap());
    sweep();
    assert_eq!(traces(name).len(), 3, "what a living bench has is not touched");
    assert!(runs(child));
    victim.kill().unwrap();
    victim.wait().unwrap();
    sweep();
    assert_eq!(traces(name), Vec::<String>::new());
    assert!(!runs(child), "its process stays");
    assert!(own.dir().exists());
}
