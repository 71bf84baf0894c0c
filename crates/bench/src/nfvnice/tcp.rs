//! Figure 13: one TCP flow and ten UDP flows of real `iperf3` between two hosts, through chains that share their first two
//! NFs. The UDP flows also pass a slow third one, which most of them cannot.
//!
//! ```text
//! client ─ TCP ─▶ nf1 ─▶ nf2 ─────────▶ server        what comes back passes no NF
//! client ─ UDP ─▶ nf1 ─▶ nf2 ─▶ nf3 ─▶ server
//! ```

use super::hosts::{Hosts, SERVER, inside};
use super::summary::{Samples, Scenario, TcpCase};
use crate::dataplane::DataplaneError;
use crate::process::{End, Process, last_words};
use crate::results::{Axis, Obtained, Point, Section, Series, Unavailable, View, X};
use crate::sweep::Cores;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

/// Its name.
pub const NAME: &str = "fig13";
/// A line for people.
pub const TITLE: &str = "NFVnice Fig. 13: one TCP flow against ten UDP flows";
const SOURCE: &str = "Kulkarni et al., NFVnice, SIGCOMM 2017, section 4.3.4, Fig. 13";
/// The mechanisms in turn.
const MECHANISMS: [&str; 2] = ["default", "all"];
/// Costs in TSC cycles. The paper names none for this figure, but its rates: alone, TCP gets 4 Gbit/s, and the third NF
/// lets through 7 % of that. These proportions are kept; all costs are so high that the NFs' core bounds the
/// rates, as in the paper, and not the core on which iperf3, the kernel's network stack and the manager have to live.
const COSTS: [u64; 3] = [30_000, 67_500, 1_400_000];
/// Where the third NF has no core of its own it must leave that of the others to them: its nice value and weight are a
/// twentieth of the core then, and its cost is so much lower. Both sets of mechanisms get the same.
const SHARING: Sharing = Sharing { cost: COSTS[2] / 20, nice: 10, weight: 11 };
/// All UDP flows together offer so many bits a second: as many packets as the first two NFs can take, several times what the
/// third can.
const UDP_BPS: u64 = 300_000_000;
const UDP_FLOWS: u64 = 10;
const PORTS: [u16; 2] = [5201, 5202];
/// Between two figures of the TCP flow.
const INTERVAL_S: f64 = 0.5;
/// How long things may take to be there.
const PATIENCE: Duration = Duration::from_secs(10);

/// How an NF shares a core with those before it.
struct Sharing {
    cost: u64,
    nice: i32,
    weight: u32,
}

/// What is needed.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// The program under test.
    pub program: PathBuf,
    /// The host's cores.
    pub cores: Cores,
    /// Rounds over both sets of mechanisms.
    pub rounds: u32,
    /// TCP is alone for so many seconds, then together with UDP for as long.
    pub phase_s: u32,
}

/// One run: bits a second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Rates {
    tcp_alone: f64,
    tcp_beside: f64,
    udp: f64,
}

impl Experiment {
    /// The NFs' cores, those of the programs, and a word if there are too few.
    fn places(&self) -> ([usize; 2], Vec<usize>, Option<String>) {
        let nfs = self.cores.nfs();
        let first = nfs.first().copied().unwrap_or(0);
        let third = nfs.get(1).copied().unwrap_or(first);
        let others: Vec<usize> = nfs.iter().copied().skip(2).collect();
        let have = self.cores.all.len();
        let short = (have < 4).then(|| format!("needs 4 cores: run with {have} sharing"));
        let programs = if others.is_empty() { vec![self.cores.manager()] } else { others };
        ([first, third], programs, short)
    }

    fn chain_file(&self, hosts: &Hosts, mechanisms: &str) -> Value {
        let ([shared, own], _, _) = self.places();
        let [client, server] = hosts.interfaces();
        let nf =
            |i: usize, core: usize| json!({"kind": "synthetic", "args": {"cost_cycles": COSTS[i]}, "cores": [core]});
        let third = if own == shared {
            let Sharing { cost, nice, weight } = SHARING;
            json!({"kind": "synthetic", "args": {"cost_cycles": cost}, "cores": [own],
                "sched": {"policy": "other", "nice": nice, "weight": weight}})
        } else {
            nf(2, own)
        };
        json!({
            "apiVersion": chainline_chain::model::API_VERSION, "kind": chainline_chain::model::KIND,
            "metadata": {"name": NAME},
            "spec": {
                "defaults": {"manager_core": self.cores.manager(), "mechanisms": mechanisms, "sched": {"policy": "other"}},
                "ports": {
                    "client": {"af_packet": {"interface": client}}, "server": {"af_packet": {"interface": server}},
                },
                "nfs": {"nf1": nf(0, shared), "nf2": nf(1, shared), "nf3": third},
                "chains": [
                    {"name": "tcp", "match": {"proto": "tcp", "dst_port": PORTS[0]}, "path": ["client", "nf1", "nf2", "server"]},
                    {"name": "udp", "match": {"proto": "udp"}, "path": ["client", "nf1", "nf2", "nf3", "server"]},
                    {"name": "rest", "path": ["client", "server"]},
                    {"name": "back", "path": ["server", "client"]},
                ],
            },
        })
    }

    fn run(&self, mechanisms: &str) -> Result<Rates, DataplaneError> {
        let hosts = Hosts::new(&[("iperf3", "iperf3"), ("ping", "iputils-ping")])?;
        let (_, programs, _) = self.places();
        let cores = programs.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        let file = hosts.dir().join("chain.json");
        std::fs::write(&file, format!("{:#}", self.chain_file(&hosts, mechanisms)))
            .map_err(|source| DataplaneError::Io { what: file.display().to_string(), source })?;
        let start = |command: &Command| {
            let what = crate::process::line(command);
            Process::start(command).map_err(|source| DataplaneError::Io { what, source })
        };
        let iperf = |namespace: &str, words: &[String]| {
            let mut command = inside(namespace, "taskset");
            command.args(["-c", &cores, "iperf3"]).args(words);
            command
        };
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();

        let mut chain = inside(&hosts.middle(), &self.program.display().to_string());
        let mut chain = start(chain.args(["run", "--quiet"]).arg(&file))?;
        let mut servers = Vec::new();
        for port in PORTS {
            servers.push(start(&iperf(&hosts.server(), &words(&format!("-s -1 -p {port} --forceflush"))))?);
        }
        for server in &mut servers {
            if !server.until(0, PATIENCE, |t| t.contains("listening")) {
                return Err(not_ready("iperf3", &server.last_words()));
            }
        }
        reachable(&hosts, &mut chain)?;

        let phase = self.phase_s;
        let all = 2 * phase + 1;
        let tcp = words(&format!("-c {} -p {} -t {all} -i {INTERVAL_S} -J", SERVER.0, PORTS[0]));
        let mut tcp = start(&iperf(&hosts.client(), &tcp))?;
        std::thread::sleep(Duration::from_secs(phase.into()));
        let each = UDP_BPS / UDP_FLOWS;
        let udp = format!("-c {} -p {} -u -P {UDP_FLOWS} -b {each} -l 1400 -t {phase} -J", SERVER.0, PORTS[1]);
        let mut udp = start(&iperf(&hosts.client(), &words(&udp)))?;
        let late = Duration::from_secs(u64::from(all)) + PATIENCE;
        let udp = said(&mut udp, late)?;
        let tcp = said(&mut tcp, late)?;
        chain.stop(PATIENCE);
        rates(&tcp, &udp, f64::from(phase)).map_err(|why| DataplaneError::Failed { what: "iperf3".into(), why })
    }

    /// All rounds: a section for the report, and the scenario of the summary. `stop` ends between two runs.
    pub fn measure(&self, stop: fn() -> bool, mut tell: impl FnMut(&str)) -> (Section, Scenario) {
        let (_, _, short) = self.places();
        let mut unavailable: Vec<Unavailable> = Vec::new();
        unavailable.extend(short.map(|why| Unavailable { what: NAME.into(), why }));
        let mut found: Vec<(&str, Vec<Rates>)> = MECHANISMS.iter().map(|m| (*m, Vec::new())).collect();
        for round in 0..self.rounds {
            for (mechanisms, rates) in &mut found {
                if stop() {
                    break;
                }
                tell(&format!("{NAME}: mechanisms {mechanisms}, round {}", round + 1));
                match self.run(mechanisms) {
                    Ok(r) => rates.push(r),
                    Err(e) => {
                        let what = format!("mechanisms {mechanisms}, round {}", round + 1);
                        unavailable.push(Unavailable { what, why: e.to_string() });
                    }
                }
            }
        }
        (section(&found, &unavailable), scenario(&found, unavailable))
    }
}

/// Waits until a ping comes back through the chain.
fn reachable(hosts: &Hosts, chain: &mut Process) -> Result<(), DataplaneError> {
    let began = Instant::now();
    loop {
        let mut ping = inside(&hosts.client(), "ping");
        let out = ping.args(["-c", "1", "-W", "1", SERVER.0]).output();
        if out.is_ok_and(|o| o.status.success()) {
            return Ok(());
        }
        if chain.ended().is_some() || began.elapsed() > PATIENCE {
            return Err(not_ready("the chain between two hosts", &chain.last_words()));
        }
    }
}

fn not_ready(what: &str, words: &str) -> DataplaneError {
    DataplaneError::NotReady { what: what.into(), why: format!("its last words:\n{words}") }
}

/// What a program has said when it has ended well.
fn said(process: &mut Process, within: Duration) -> Result<Value, DataplaneError> {
    let failed = |why: String| DataplaneError::Failed { what: "iperf3".into(), why };
    match process.finish(within) {
        Some(End::Code(0)) => serde_json::from_str(&process.since(0)).map_err(|e| failed(e.to_string())),
        Some(end) => Err(failed(format!("{end}: {}", last_words(&process.since(0))))),
        None => Err(failed(format!("still runs after {} s", within.as_secs()))),
    }
}

/// What two reports of iperf3 say.
fn rates(tcp: &Value, udp: &Value, phase_s: f64) -> Result<Rates, String> {
    let intervals: Vec<(f64, f64, f64)> = tcp["intervals"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|i| {
            let sum = &i["sum"];
            Some((sum["start"].as_f64()?, sum["end"].as_f64()?, sum["bits_per_second"].as_f64()?))
        })
        .collect();
    // Half a second at either end of a phase belongs to neither: connections are made, and windows found.
    let mean = |from: f64, until: f64| {
        let within: Vec<f64> =
            intervals.iter().filter(|(s, e, _)| *s >= from - 0.01 && *e <= until + 0.01).map(|i| i.2).collect();
        let n = within.len() as f64;
        if within.is_empty() {
            Err(format!("the TCP flow has no interval from {from} to {until} s"))
        } else {
            Ok(within.iter().sum::<f64>() / n)
        }
    };
    let sum = &udp["end"]["sum"];
    let (sent, lost) = (sum["bits_per_second"].as_f64(), sum["lost_percent"].as_f64());
    let received = udp["end"]["sum_received"]["bits_per_second"].as_f64().filter(|bps| *bps > 0.0);
    let udp_bps = received.or_else(|| Some(sent? * (1.0 - lost? / 100.0)));
    Ok(Rates {
        tcp_alone: mean(INTERVAL_S, phase_s - INTERVAL_S)?,
        tcp_beside: mean(phase_s + INTERVAL_S, 2.0 * phase_s - INTERVAL_S)?,
        udp: udp_bps.ok_or("the UDP flows' report has no rate")?,
    })
}

/// A line of the plot: what, and how it is read from a run.
type Line = (&'static str, fn(&Rates) -> f64);
const LINES: [Line; 3] = [("TCP alone", |r| r.tcp_alone), ("TCP beside UDP", |r| r.tcp_beside), ("UDP", |r| r.udp)];

fn section(found: &[(&str, Vec<Rates>)], unavailable: &[Unavailable]) -> Section {
    let point = |x: &str, samples: Vec<f64>| Point { x: X::Word(x.into()), samples, trials: Vec::new() };
    let mut series: Vec<Series> = found
        .iter()
        .map(|(mechanisms, rates)| Series {
            name: format!("mechanisms {mechanisms}"),
            obtained: Obtained::Measured,
            points: LINES
                .iter()
                .filter(|_| !rates.is_empty())
                .map(|(name, of)| point(name, rates.iter().map(|r| of(r) / 1e6).collect()))
                .collect(),
        })
        .collect();
    for (name, values) in [("paper, default", [4000.0, 20.0, 280.0]), ("paper, NFVnice", [4000.0, 3300.0, 280.0])] {
        let points = LINES.iter().zip(values).map(|((x, _), y)| point(x, vec![y])).collect();
        series.push(Series { name: name.into(), obtained: Obtained::Quoted, points });
    }
    let [low, medium, high] = COSTS;
    let Sharing { cost: cheaper, nice, weight } = SHARING;
    Section {
        id: "nfvnice-fig13".into(),
        title: "Fig. 13: one TCP flow against ten UDP flows".into(),
        definition: format!(
            "Rates of iperf3 between two network namespaces, through NFs of {low}, {medium} and {high} cycles; the UDP flows \
             offer {} Mbit/s in all, and alone pass the third NF. Where that has no core of its own it costs {cheaper} cycles \
             and has nice value {nice} and weight {weight}, so that it leaves the core to the others. The paper does not name its costs: \
             here the third NF lets through the same part of what the first two do, and all cost so much that their core bounds \
             the rates. Of its stock TCP flow the paper says 10 to 30 Mbit/s, of which the middle is shown.",
            UDP_BPS / 1_000_000
        ),
        source: Some(SOURCE.into()),
        view: View::Bars,
        x: Axis { label: "flows".into(), ..Axis::default() },
        y: Axis { label: "throughput".into(), unit: "Mbit/s".into(), log: true },
        series,
        unavailable: unavailable.to_vec(),
    }
}

fn scenario(found: &[(&str, Vec<Rates>)], unavailable: Vec<Unavailable>) -> Scenario {
    let case = |(mechanisms, rates): &(&str, Vec<Rates>)| {
        let of = |f: fn(&Rates) -> f64| Samples::of(rates.iter().map(f).collect());
        Some(TcpCase {
            mechanisms: (*mechanisms).to_owned(),
            tcp_alone_bps: of(|r| r.tcp_alone)?,
            tcp_beside_udp_bps: of(|r| r.tcp_beside)?,
            kept: of(|r| if r.tcp_alone > 0.0 { r.tcp_beside / r.tcp_alone } else { 0.0 })?,
            udp_bps: of(|r| r.udp)?,
        })
    };
    let tcp = found.iter().filter_map(case).collect();
    Scenario { name: NAME.into(), title: TITLE.into(), tcp, unavailable, ..Scenario::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_iperf_says_becomes_three_rates() {
        let interval = |i: u32, mbps: f64| {
            let start = f64::from(i) * 0.5;
            json!({"sum": {"start": start, "end": start + 0.5, "bits_per_second": mbps * 1e6}})
        };
        // 2 s alone, 2 s beside: the half seconds at the ends of the phases are wild, and count for nothing.
        let mbps = [1.0, 400.0, 500.0, 9.0, 9.0, 300.0, 100.0, 9.0, 9.0];
        let intervals: Vec<Value> = mbps.iter().enumerate().map(|(i, m)| interval(i as u32, *m)).collect();
        let tcp = json!({"intervals": intervals});
        let udp = json!({"end": {"sum": {"bits_per_second": 1e9, "lost_percent": 75.0}}});
        let found = rates(&tcp, &udp, 2.0).unwrap();
        assert_eq!(found, Rates { tcp_alone: 450e6, tcp_beside: 200e6, udp: 250e6 });
        let newer = json!({"end": {"sum": {"bits_per_second": 1e9}, "sum_received": {"bits_per_second": 2e8}}});
        assert_eq!(rates(&tcp, &newer, 2.0).unwrap().udp, 2e8);
        assert!(rates(&tcp, &json!({"error": "unable to connect"}), 2.0).unwrap_err().contains("UDP"));
        assert!(rates(&json!({}), &udp, 2.0).unwrap_err().contains("no interval from 0.5 to 1.5"));
    }

    #[test]
    fn the_scenario_says_what_tcp_kept() {
        let run = |alone: f64, beside: f64| Rates { tcp_alone: alone, tcp_beside: beside, udp: 5.0 };
        let found = [("default", vec![run(100.0, 5.0), run(200.0, 20.0)]), ("all", Vec::new())];
        let s = scenario(&found, Vec::new());
        assert_eq!(s.tcp.len(), 1, "what was not measured has no figures");
        assert!((s.tcp[0].kept.median - 0.075).abs() < 1e-12);
        let drawn = section(&found, &[]);
        assert_eq!(drawn.series[0].points[1].samples, [5e-6, 20e-6]);
        assert!(drawn.series[2..].iter().all(|s| s.obtained == Obtained::Quoted));
    }
}
