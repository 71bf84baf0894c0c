//! The known truth: packets that arrive as the generator's Poisson schedule says and cost what the `synthetic` NF draws,
//! served in simulated time, agree with M/D/1 and M/M/1 within 3 %: throughput, loss, waiting times and their quantiles.
//! What is ours here is the schedule, the draws and the search; only the server is simulated.
#![allow(clippy::unwrap_used)]

use chainline_queueing::{Cost, Queue, Run, loss_ratio_mm1k, simulate};
use chainline_search::{Budget, Goal, Input, Measured, Observation, Search, Session};
use chainline_workload::{Arrivals, Schedule};
use nf_synthetic::{Args, Draws};

const MEAN_CYCLES: f64 = 2000.0;
const CYCLES_PER_NS: f64 = 2.0;

fn args(cost: Cost) -> Args {
    let cost_cycles = match cost {
        Cost::Constant => serde_json::json!(MEAN_CYCLES as u64),
        _ => serde_json::json!({"exponential": MEAN_CYCLES as u64}),
    };
    serde_json::from_value(serde_json::json!({"cost_cycles": cost_cycles})).unwrap()
}

/// `n` packets through a server whose mean cost is a microsecond.
fn run(arrivals: Arrivals, rate_pps: f64, cost: Cost, places: Option<usize>, n: usize, seed: u64) -> Run {
    let mut schedule = Schedule::new(arrivals, rate_pps, seed).unwrap();
    let mut costs = Draws::of(&args(cost)).unwrap().map(|cycles| cycles / CYCLES_PER_NS);
    // A different place in the draws for each seed.
    for _ in 0..seed % 1000 {
        let _ = costs.next(0);
    }
    simulate((0..n).map(|_| schedule.next_ns()), || costs.next(0).unwrap(), places)
}

fn queue(rho: f64, cost: Cost) -> Queue {
    Queue { rate_pps: rho * 1e6, service_ns: MEAN_CYCLES / CYCLES_PER_NS, cost }
}

fn within(percent: f64, what: &str, measured: f64, theory: f64) {
    let off = (measured / theory - 1.0) * 100.0;
    println!("{what}: {measured:.1}, in theory {theory:.1}: {off:+.2} %");
    assert!(off.abs() <= percent, "{what}: {measured}, in theory {theory}: {off} %");
}

#[test]
fn waiting_times() {
    for cost in [Cost::Constant, Cost::Exponential] {
        for (rho, n) in [(0.3, 1_000_000), (0.5, 1_000_000), (0.7, 2_000_000), (0.9, 8_000_000)] {
            let q = queue(rho, cost);
            let run = run(Arrivals::Poisson, q.rate_pps, cost, None, n, 7);
            let name = |what: &str| format!("{cost:?}, utilisation {rho}, {what}");
            within(3.0, &name("mean wait in ns"), run.mean_wait_ns(), q.mean_wait_ns().unwrap());
            // One packet in a thousand at nine tenths of the capacity waits in one of a few long congestions: of eight
            // million packets that is too few of them for 3 %.
            let shares = if rho < 0.9 { &[0.9, 0.99, 0.999][..] } else { &[0.9, 0.99] };
            for &p in shares {
                let theory = q.wait_quantile_ns(p).unwrap();
                within(3.0, &name(&format!("wait in ns, P{}", p * 100.0)), run.wait_quantile_ns(p), theory);
            }
            within(3.0, &name("utilisation in %"), run.busy_ns / run.span_ns * 100.0, rho * 100.0);
            within(3.0, &name("throughput in packets/s"), run.throughput_pps(), q.rate_pps);
        }
    }
}

#[test]
fn throughput_in_overload_and_loss_of_a_short_queue() {
    for cost in [Cost::Constant, Cost::Exponential] {
        let over = run(Arrivals::Poisson, 1.5e6, cost, Some(64), 1_000_000, 3);
        within(3.0, &format!("{cost:?}, throughput in overload"), over.throughput_pps(), 1e6);
        within(3.0, &format!("{cost:?}, loss in overload in %"), over.loss_ratio() * 100.0, 100.0 / 3.0);
    }
    for (rho, places) in [(0.5, 4), (0.8, 8), (1.0, 16), (2.0, 4)] {
        let run = run(Arrivals::Poisson, rho * 1e6, Cost::Exponential, Some(places as usize), 4_000_000, 5);
        let theory = loss_ratio_mm1k(rho, places) * 100.0;
        within(3.0, &format!("M/M/1/{places} at {rho}: loss in %"), run.loss_ratio() * 100.0, theory);
    }
}

/// A measurer whose system is the simulated server.
fn server(arrivals: Arrivals, cost: Cost, places: usize) -> impl FnMut(Input) -> Measured {
    let mut seed = 0;
    move |trial| {
        seed += 1;
        // A fiftieth of the time: a search of a million packets a second takes a minute of them.
        let n = (trial.load_pps * trial.duration_s / 50.0) as usize;
        let run = run(arrivals, trial.load_pps, cost, Some(places), n, seed);
        Measured::Valid(Observation::counted(trial.duration_s, n as u64, n as u64 - run.lost))
    }
}

#[test]
fn the_search_finds_what_theory_says() {
    let within_width = |found: f64, truth: f64, what: &str| within(1.0, what, found, truth);
    // Equal gaps and equal costs: the limit is sharp, at one packet a microsecond.
    let search = Search::new(vec![Goal::ndr(), Goal::pdr()], 1e4, 5e6).unwrap();
    let found = search.run(&mut Session::new(&mut server(Arrivals::Constant, Cost::Constant, 64), Budget::default()));
    for goal in ["NDR", "PDR"] {
        within_width(found.goal(goal).unwrap().bounds.throughput_pps.unwrap(), 1e6, &format!("D/D/1, {goal}"));
    }
    // Chance on both sides and room for 32: half a percent is lost where M/M/1/32 says so.
    let goal = Goal { name: "PDR".into(), ..Goal::pdr() };
    let search = Search::new(vec![goal], 1e4, 5e6).unwrap();
    let found = search.run(&mut Session::new(&mut server(Arrivals::Poisson, Cost::Exponential, 32), Budget::default()));
    let (mut low, mut high) = (0.1, 2.0);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if loss_ratio_mm1k(middle, 32) < 0.005 { low = middle } else { high = middle }
    }
    let pdr = found.goal("PDR").unwrap();
    assert!(pdr.is_regular(), "{pdr:?}");
    within(3.0, "M/M/1/32, PDR: load at the lower bound", pdr.bounds.lower_pps.unwrap(), low * 1e6);
}
