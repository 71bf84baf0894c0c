//! Runs that are changed over their control socket while NFs hold packets, and while they die.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use chainline_ctl::{Add, Call, Changed, Client, Remove, Stats, answer};
use chainline_manager::Report;
use life_tests::scene::{assert_settled, shown, silent, stop};
use life_tests::{Scene, processes};
use serde_json::json;

const HOST: &str = env!("CARGO_BIN_EXE_evil-host");

/// Runs a spec while `script` talks to it from a thread of its own; then the run is stopped.
fn changed<T: Send>(scene: &Scene, spec: &str, script: impl FnOnce(&mut Client) -> T + Send) -> (Report, T) {
    let path = scene.join("control");
    std::thread::scope(|scope| {
        let client = scope.spawn(|| {
            // Ends the run however this ends.
            struct Stop;
            impl Drop for Stop {
                fn drop(&mut self) {
                    stop();
                }
            }
            let mut client = None;
            processes::until("the run listens", || {
                client = Client::connect(&path).ok();
                client.is_some()
            });
            let stop = Stop;
            let said = script(client.as_mut().unwrap());
            drop(stop);
            said
        });
        let report = scene.run(spec, &mut silent());
        (report, client.join().unwrap())
    })
}

fn stats(client: &mut Client) -> Stats {
    answer(client, &Call::Stats).unwrap()
}

fn received(client: &mut Client, chain: &str) -> u64 {
    stats(client).chains.iter().find(|c| c.name == chain).map_or(0, |c| c.totals.received)
}

fn until_flows(client: &mut Client, chain: &str) {
    let then = received(client, chain);
    processes::until(&format!("packets of {chain}"), || received(client, chain) > then + 100);
}

/// What an NF holds for ever when its chain goes is counted, to the packet, and the other chain loses none.
#[test]
fn what_is_held_when_a_chain_goes_is_announced() {
    for isolation in ["process", "thread"] {
        let scene = Scene::new(HOST).remote();
        let spec = format!(
            "
  defaults: {{isolation: {isolation}}}
  ports:
    in: {{generator: {{frame_bytes: 64, rate: 20kpps, lossless: true, dst_port: 1-2, flows: 8}}}}
    out: {{sink: {{}}}}
  nfs: {{h: {{kind: hold, args: {{ticks: 1000000000}}}}, a: {{kind: pass}}}}
  chains:
    - {{name: holds, match: {{dst_port: 1}}, path: [in, h, out]}}
    - {{name: rest, path: [in, a, out]}}
"
        );
        let (report, done) = changed(&scene, &spec, |client| {
            processes::until("packets are held", || stats(client).nfs.iter().any(|n| n.name == "h" && n.held >= 500));
            let remove = Remove { chains: vec!["holds".into()], nfs: vec!["h".into()] };
            let done: Changed = answer(client, &Call::Remove(remove)).unwrap();
            until_flows(client, "rest");
            done
        });
        assert_settled(&report);
        assert!(done.reconfigured >= 500, "{done:?}");
        let dropped = &report.ledger.dropped;
        assert_eq!(dropped.get("reconfigured"), Some(&done.reconfigured), "{}", shown(&report));
        assert_eq!(dropped.len(), 1, "{}", shown(&report));
        assert!(report.chains["rest"].dropped.is_empty(), "{}", shown(&report));
    }
}

/// NFs of the chains that stay, and of those that come and go, are killed all the while.
#[test]
fn changes_and_deaths_together_leave_the_ledger_balanced() {
    let scene = Scene::new(HOST).remote();
    let spec = "
  ports:
    in: {generator: {frame_bytes: 64, rate: 50kpps, lossless: true, dst_port: 1-4, flows: 8}}
    out: {sink: {}}
  nfs: {a: {kind: pass}, b: {kind: pass}}
  chains:
    - {name: web, match: {dst_port: 1-2}, path: [in, a, out]}
    - {name: rest, path: [in, b, out]}
";
    let (report, announced) = changed(&scene, spec, |client| {
        let mut announced = 0;
        for round in 0..6 {
            let mut add = Add { before: Some("web".into()), ..Add::default() };
            add.nfs.insert("c".into(), json!({"kind": "pass"}));
            add.chains.push(json!({"name": "new", "match": {"dst_port": 1}, "path": ["in", "c", "out"]}));
            // Whom the other chains need, and whom this one does, dies before, between and after.
            processes::kill(if round % 2 == 0 { "a" } else { "b" });
            match answer::<Changed>(client, &Call::Add(add)) {
                Ok(done) => announced += done.reconfigured,
                Err(e) => panic!("{e}"),
            }
            until_flows(client, "new");
            processes::kill("c");
            let remove = Remove { chains: vec!["new".into()], nfs: vec!["c".into()] };
            announced += answer::<Changed>(client, &Call::Remove(remove)).unwrap().reconfigured;
            until_flows(client, "web");
            until_flows(client, "rest");
        }
        announced
    });
    assert_settled(&report);
    assert_eq!(report.ledger.dropped.get("reconfigured").copied().unwrap_or(0), announced, "{}", shown(&report));
    assert!(report.chains["new"].received > 600, "{}", shown(&report));
    assert!(report.nfs["a"].restarts + report.nfs["b"].restarts > 0, "{}", shown(&report));
}
