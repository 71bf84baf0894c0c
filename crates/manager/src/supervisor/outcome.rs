//! What became of a trial, from the accounts of its window. Pure.

use super::{NfTotals, Usage};
use crate::control::Tally;
use crate::dataplane::{Gap, Jitter, TrialEnd, latencies};
use crate::report::reason;
use chainline_chain::plan::Plan;
use chainline_nf::Declared;
use chainline_sched::shares::meeting;
use chainline_shm::Clock;
use chainline_trial::{ChainOutcome, ControlState, GeneratorState, Latency, NfOutcome, NfSlice, Outcome, Slice};
use std::collections::BTreeMap;

/// What NFs and instances had counted at some time.
pub(super) struct Reading {
    /// When: ticks.
    pub at: u64,
    pub totals: Vec<NfTotals>,
    pub usage: Vec<Usage>,
    /// What the control loop says; of the window's ends only.
    pub tally: Option<Tally>,
}

/// All that is known of a trial.
pub(super) struct Trial<'a> {
    pub plan: &'a Plan,
    pub clock: &'a Clock,
    /// Whether the load was a rate.
    pub paced: bool,
    pub seconds: f64,
    pub ended: &'a TrialEnd,
    /// As the window began, as each slice of it ended, and as it ended.
    pub readings: &'a [Reading],
    /// What the NFs of each instance declared.
    pub declared: &'a [&'a [Declared]],
    pub happenings: Vec<String>,
}

pub(super) fn of(t: Trial<'_>) -> Outcome {
    let e = t.ended;
    let generates = |port: usize| e.made.iter().any(|(p, _)| *p == port);
    let sum = |f: fn(&crate::ports::Made) -> u64| e.made.iter().map(|(_, m)| f(m)).sum::<u64>();
    let (intended, sent) = (sum(|m| m.intended), sum(|m| m.made));
    let worst = e.made.iter().map(|(_, m)| m.worst_late).max().unwrap_or(0);
    // Packets of chains that begin at a device are nobody's here, unless stamps say whose.
    let ours = || t.plan.chains.iter().zip(&e.chains).filter(|(c, _)| generates(c.ingress));
    let (received, latency, jitter, gap) = match &e.checked {
        Some(c) => (c.received, c.latency.clone(), c.jitter, c.gap),
        None => {
            let (mut latency, mut jitter, mut gap) = (latencies(), Jitter::default(), Gap::default());
            for (_, c) in ours() {
                if let (Some(all), Some(h)) = (&mut latency, &c.latency) {
                    // Both have the same bounds, so this cannot fail.
                    let _ = all.add(h);
                }
                jitter.add(&c.jitter);
                gap.add(&c.gap);
            }
            (ours().map(|(_, c)| c.transmitted).sum(), latency, jitter, gap)
        }
    };
    let latency = latency.as_ref().and_then(Latency::of);
    Outcome {
        seconds: t.seconds,
        intended,
        sent,
        received,
        lost: sent.saturating_sub(received),
        drops: drops(&t),
        duplicated: e.checked.as_ref().map(|c| c.duplicated),
        reordered: e.checked.as_ref().map(|c| c.reordered),
        foreign: e.checked.as_ref().map(|c| c.foreign),
        pdv_ns: latency.as_ref().map(|l| l.p99_9 - l.min),
        latency,
        jitter_ns: jitter.mean_ns(),
        longest_gap_ns: gap.longest().map(|ticks| t.clock.ns(ticks)),
        generator: GeneratorState {
            worst_stall_ns: t.clock.ns(worst),
            saturated: t.paced && sent < intended,
            busy: e.busy,
        },
        chains: chains(&t),
        nfs: nfs(&t),
        control: control(&t),
        slices: slices(&t),
        balanced: balanced(&t),
        happenings: t.happenings,
    }
}

/// Lost packets by `PLACE/REASON`: an NF's drops stand at the NF, those at a chain's entry and exit at the chain, those
/// before any chain at the port.
fn drops(t: &Trial<'_>) -> BTreeMap<String, u64> {
    let mut drops = BTreeMap::new();
    let mut add = |place: &str, why: &str, n: u64| {
        if n > 0 {
            *drops.entry(format!("{place}/{why}")).or_default() += n;
        }
    };
    for (port, made) in &t.ended.made {
        let name = &t.plan.ports[*port].name;
        add(name, "no_buffer", made.no_buffer);
        add(name, "no_match", t.ended.no_match[*port]);
    }
    for (port, loss) in &t.ended.losses {
        let name = &t.plan.ports[*port].name;
        add(name, "no_buffer", loss.no_buffer);
        add(name, "too_long", loss.too_long);
        add(name, "missed", loss.missed);
        add(name, "unsent", loss.unsent);
    }
    for (plan, c) in t.plan.chains.iter().zip(&t.ended.chains) {
        let own = [
            ("shed", c.shed),
            ("no_buffer", c.no_buffer),
            ("nf_died", c.nf_died),
            ("nf_down", c.nf_down),
            ("port_full", c.port_full),
            ("inside", c.received.saturating_sub(c.transmitted + c.dropped())),
        ];
        own.into_iter().for_each(|(why, n)| add(&plan.name, why, n));
        for (at, &n) in c.drops.iter().enumerate().filter(|(_, n)| **n > 0) {
            let nf = plan.hops[at / 256];
            add(&t.plan.nfs[nf].base, &reason(declared(t, nf), at % 256), n);
        }
    }
    drops
}

fn declared<'a>(t: &Trial<'a>, nf: usize) -> Option<&'a Declared> {
    let i = t.plan.nfs[nf].instance;
    let k = t.plan.instances[i].nfs.iter().position(|n| *n == nf)?;
    t.declared.get(i)?.get(k)
}

fn chains(t: &Trial<'_>) -> BTreeMap<String, ChainOutcome> {
    let one = |c: &crate::dataplane::ChainLedger| ChainOutcome {
        received: c.received,
        transmitted: c.transmitted,
        shed: c.shed,
        p99_ns: c.latency.as_ref().filter(|h| !h.is_empty()).map(|h| h.value_at_quantile(0.99)),
    };
    t.plan.chains.iter().zip(&t.ended.chains).map(|(plan, c)| (plan.name.clone(), one(c))).collect()
}

/// One for each pair of readings, if there are others than the first and the last.
fn slices(t: &Trial<'_>) -> Vec<Slice> {
    if t.readings.len() <= 2 {
        return Vec::new();
    }
    let seconds = |from: u64, to: u64| t.clock.ns(to.saturating_sub(from)) as f64 / 1e9;
    let begin = t.readings.first().map_or(0, |r| r.at);
    let slice = |pair: &[Reading]| {
        let [a, b] = pair else { return Slice::default() };
        let length = seconds(a.at, b.at).max(1e-9);
        let nfs = t.plan.nfs.iter().enumerate().map(|(id, nf)| {
            let run_ns = b.usage[nf.instance].run_ns.saturating_sub(a.usage[nf.instance].run_ns);
            let received = b.totals[id].received.wrapping_sub(a.totals[id].received);
            (nf.name.clone(), NfSlice { received, cpu_share: run_ns as f64 / 1e9 / length })
        });
        Slice { until_s: seconds(begin, b.at), seconds: length, nfs: nfs.collect() }
    };
    t.readings.windows(2).map(slice).collect()
}

/// What the control loop used in the window.
fn control(t: &Trial<'_>) -> Option<ControlState> {
    let [a, .., b] = t.readings else { return None };
    let (from, to) = a.tally.as_ref().zip(b.tally.as_ref())?;
    let ns = t.clock.ns(b.at.saturating_sub(a.at)).max(1);
    let used = to.used_ns.saturating_sub(from.used_ns);
    Some(ControlState { cpu_share: used as f64 / ns as f64, readings: to.readings.saturating_sub(from.readings) })
}

/// The least part of their cores that instances must have used for their shares to say something.
const LOADED: f64 = 0.9;

/// Of each instance, the part of its cores that it was to have, and the part that it had.
fn shares(t: &Trial<'_>) -> Vec<Option<(f64, f64)>> {
    let none = vec![None; t.plan.instances.len()];
    let [a, .., b] = t.readings else { return none };
    let Some((from, to)) = a.tally.as_ref().zip(b.tally.as_ref()) else { return none };
    let meant: Vec<Option<f64>> =
        to.meant.iter().zip(&from.meant).map(|(b, a)| (b.1 > a.1).then(|| (b.0 - a.0) / (b.1 - a.1) as f64)).collect();
    let had = |i: usize| b.usage[i].run_ns.saturating_sub(a.usage[i].run_ns) as f64;
    let window = t.clock.ns(b.at.saturating_sub(a.at)) as f64;
    let cores: Vec<Vec<usize>> = t.plan.instances.iter().map(|i| i.cores.clone()).collect();
    let group = meeting(&cores);
    let of = |i: usize| {
        // Without a weight one takes what it gets; its neighbours share the rest.
        let members: Vec<usize> = (0..meant.len()).filter(|j| group[*j] == group[i] && meant[*j].is_some()).collect();
        let mut theirs: Vec<usize> = members.iter().flat_map(|j| cores[*j].iter().copied()).collect();
        theirs.sort_unstable();
        theirs.dedup();
        let sum: f64 = members.iter().map(|j| had(*j)).sum();
        let loaded = members.len() > 1 && sum >= LOADED * window * theirs.len() as f64;
        meant[i].filter(|_| loaded).map(|meant| (meant, had(i) / sum))
    };
    // Instances that came later have no reading at the begin.
    (0..cores.len()).map(|i| if i < meant.len() { of(i) } else { None }).collect()
}

fn nfs(t: &Trial<'_>) -> BTreeMap<String, NfOutcome> {
    let [a, .., b] = t.readings else { return BTreeMap::new() };
    let seconds = (t.clock.ns(b.at.saturating_sub(a.at)) as f64 / 1e9).max(1e-9);
    let shares = shares(t);
    let one = |(id, nf): (usize, &chainline_chain::plan::NfPlan)| {
        let i = nf.instance;
        let (ua, ub) = (&a.usage[i], &b.usage[i]);
        let last_of = t.plan.chains.iter().zip(&t.ended.chains).filter(|(c, _)| c.hops.last() == Some(&id));
        let hops = t.plan.chains.iter().zip(&t.ended.chains).flat_map(|(c, l)| c.hops.iter().zip(l.queue_full()));
        let queue_full = hops.filter(|(nf, _)| **nf == id).map(|(_, n)| n);
        let outcome = NfOutcome {
            instance: t.plan.instances[i].name.clone(),
            received: b.totals[id].received.wrapping_sub(a.totals[id].received),
            wasted: queue_full.sum::<u64>() + last_of.map(|(_, c)| c.port_full).sum::<u64>(),
            cpu_share: ub.run_ns.saturating_sub(ua.run_ns) as f64 / 1e9 / seconds,
            intended_share: shares[i].map(|s| s.0),
            achieved_share: shares[i].map(|s| s.1),
            cost_ns: b.totals[id].median_cost_ns(Some(&a.totals[id])),
            run_delay_ns: ub.run_delay_ns.saturating_sub(ua.run_delay_ns),
            voluntary_switches: ub.voluntary.saturating_sub(ua.voluntary),
            involuntary_switches: ub.involuntary.saturating_sub(ua.involuntary),
        };
        (nf.name.clone(), outcome)
    };
    t.plan.nfs.iter().enumerate().map(one).collect()
}

/// The window's packets are counted by the generators, by the chains they were given to, and, as far as they are still
/// inside, buffer by buffer: three countings that know nothing of each other.
fn balanced(t: &Trial<'_>) -> bool {
    let e = t.ended;
    let held: Option<u64> = e
        .chains
        .iter()
        .map(|c| c.received.checked_sub(c.transmitted + c.dropped()))
        .try_fold(0, |sum, n| Some(sum + n?));
    let given = |port: usize| {
        let chains = t.plan.chains.iter().zip(&e.chains).filter(move |(c, _)| c.ingress == port);
        chains.map(|(_, c)| c.received).sum::<u64>()
    };
    held == Some(e.held_counted)
        && e.made.iter().all(|(port, m)| m.made == given(*port) + e.no_match[*port] + m.no_buffer)
}
