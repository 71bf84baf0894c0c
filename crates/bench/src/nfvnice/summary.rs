//! What scenarios came to, case by case, with the stock platform beside each: what `chainline bench nfvnice -o json`
//! prints. Its JSON Schema is made from these types.

use crate::results::{Point, Unavailable, X};
use crate::run::{Bench, Case, Done, Found, scheduling as figures};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// The form of the summary.
pub const FORMAT: &str = "chainline.nfvnice/v1";

/// All scenarios.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(title = "Summary of chainline bench nfvnice")]
pub struct Summary {
    /// [`FORMAT`].
    pub format: String,
    /// Whether all of it was done.
    pub complete: bool,
    /// Whether it was made with `--quick`: trials are too short for figures to be relied upon.
    pub quick: bool,
    /// The host and the build.
    pub environment: Value,
    /// In the order in which they were run.
    pub scenarios: Vec<Scenario>,
}

/// One scenario.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Scenario {
    /// Its name: `fig7`.
    pub name: String,
    /// A line for people.
    pub title: String,
    /// What was measured.
    pub cases: Vec<CaseSummary>,
    /// What was measured with real programs: `fig13`.
    pub tcp: Vec<TcpCase>,
    /// What was not measured, or with less than it asks for, and why.
    pub unavailable: Vec<Unavailable>,
}

/// A TCP flow that shares NFs with UDP flows that do not give way: bits a second.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TcpCase {
    /// The mechanisms in force; `default` is the rival.
    pub mechanisms: String,
    /// The TCP flow while it is alone.
    pub tcp_alone_bps: Samples,
    /// The TCP flow while the UDP flows send.
    pub tcp_beside_udp_bps: Samples,
    /// The second of these over the first.
    pub kept: Samples,
    /// What arrives of all UDP flows together.
    pub udp_bps: Samples,
}

/// What a case is in the comparison.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Mechanisms of ours are in force.
    #[default]
    Ours,
    /// `mechanisms: default`: a stock platform.
    Rival,
    /// What the others are held against: the same NFs fused.
    Ideal,
}

/// One case.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CaseSummary {
    /// What people call it.
    pub name: String,
    /// What it is in the comparison.
    pub role: Role,
    /// What was varied.
    pub factors: BTreeMap<String, Value>,
    /// What was found at the highest load.
    #[serde(flatten)]
    pub figures: Figures,
    /// By chain: frames of it that left, a second.
    pub chains_pps: BTreeMap<String, Samples>,
    /// By NF.
    pub nfs: BTreeMap<String, NfSummary>,
    /// Share of one core that the control loop used.
    pub control_cpu_share: Option<Samples>,
    /// Readings a second that it took.
    pub control_readings: Option<Samples>,
    /// Time until shares were right again, by the time of the step in seconds, in milliseconds.
    pub settling_ms: Vec<At>,
    /// At loads that are shares of the ideal's throughput.
    pub loads: Vec<AtLoad>,
    /// The stock platform in the same scenario, with all other factors the same; `null` if this is it, or there is none.
    pub rival: Option<Box<Figures>>,
}

/// What is compared.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Figures {
    /// Frames a second that arrived.
    pub throughput_pps: Option<Samples>,
    /// Throughput over that of the same NFs fused, both of the same round.
    pub ratio_to_fused: Option<Samples>,
    /// At a load, throughput over the highest of all loads; else the least of that at the load of the peak and above.
    /// `null` in scenarios without loads.
    pub peak_ratio: Option<Samples>,
    /// Packets a second that were dropped after at least one NF had worked on them.
    pub wasted: Option<Samples>,
    /// Jain's index of the chains' delivered shares; `null` with one chain.
    pub jain: Option<Samples>,
    /// 99th percentile of the latency in microseconds.
    pub p99_us: Option<Samples>,
    /// Largest distance of an achieved share from the intended one, as a part of that; `null` where nobody was meant to have
    /// a share, or the cores were not loaded.
    pub share_deviation: Option<Samples>,
}

/// One NF.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NfSummary {
    /// Packets a second that it was handed.
    pub service_pps: Option<Samples>,
    /// Packets a second that were dropped for lack of room after it had worked on them.
    pub wasted: Option<Samples>,
    /// Share of one core.
    pub cpu_share: Option<Samples>,
    /// Part of its cores that it was meant to have among those that share them.
    pub intended_share: Option<Samples>,
    /// The part that it had.
    pub achieved_share: Option<Samples>,
    /// Milliseconds of each second that it was runnable and not running.
    pub run_delay_ms: Option<Samples>,
    /// Context switches a second as it went to sleep.
    pub voluntary_switches: Option<Samples>,
    /// Context switches a second as it was pre-empted.
    pub involuntary_switches: Option<Samples>,
}

/// Figures at a load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AtLoad {
    /// The load as a share of the ideal's throughput.
    pub share: f64,
    /// What was found.
    #[serde(flatten)]
    pub figures: Figures,
}

/// A value at a time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct At {
    /// Seconds after the first packet.
    pub at_s: f64,
    /// The values.
    #[serde(flatten)]
    pub samples: Samples,
}

/// One value of each round.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Samples {
    /// The middle one.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
    /// All, in the order of the rounds.
    pub samples: Vec<f64>,
}

impl Samples {
    pub(super) fn of(samples: Vec<f64>) -> Option<Self> {
        let point = Point { x: X::Number(0.0), samples, trials: Vec::new() };
        let spread = point.spread()?;
        Some(Self { median: spread.median, min: spread.min, max: spread.max, samples: point.samples })
    }
}

/// The JSON Schema of the summary.
#[must_use]
pub fn schema() -> Value {
    schemars::schema_for!(Summary).to_value()
}

impl Scenario {
    /// What a benchmark came to.
    #[must_use]
    pub fn of(name: &str, title: &str, bench: &Bench, done: &Done) -> Self {
        let all = All { found: &done.found };
        let mut unavailable: Vec<Unavailable> = Vec::new();
        let mut note = |what: &str, why: &str| {
            let row = Unavailable { what: what.to_owned(), why: why.to_owned() };
            if !unavailable.contains(&row) {
                unavailable.push(row);
            }
        };
        for section in &done.results.sections {
            section.unavailable.iter().for_each(|u| note(&u.what, &u.why));
        }
        for (i, _, found) in &done.found {
            let case = bench.cases.get(*i).map_or("", |c| c.name.as_str());
            found.missing.iter().for_each(|m| note(&format!("{case}: {}", m.what), &m.why));
        }
        let measured = |i: &usize| done.found.iter().any(|(of, _, f)| of == i && !f.figures.is_empty());
        let cases = (0..bench.cases.len()).filter(measured).map(|i| case(bench, &all, i)).collect();
        Self { name: name.into(), title: title.into(), cases, tcp: Vec::new(), unavailable }
    }

    /// A table for people: a row for each case.
    #[must_use]
    pub fn table(&self) -> String {
        let wide = self.cases.iter().map(|c| c.name.chars().count()).max().unwrap_or(0).clamp(12, 52);
        let mut text = format!("{}: {}\n", self.name, self.title);
        for t in &self.tcp {
            let mbps = |s: &Samples| s.median / 1e6;
            text += &format!(
                "  mechanisms {:<12} TCP alone {:.0} Mbit/s, beside UDP {:.0} ({:.3} kept), UDP {:.0}\n",
                t.mechanisms,
                mbps(&t.tcp_alone_bps),
                mbps(&t.tcp_beside_udp_bps),
                t.kept.median,
                mbps(&t.udp_bps),
            );
        }
        if self.cases.is_empty() {
            return text + &self.not_measured();
        }
        text += &format!(
            "  {:<wide$} {:>9} {:>8} {:>8} {:>11} {:>6} {:>11} {:>10} {:>10}\n",
            "case", "Mpps", "of fused", "of peak", "wasted/s", "Jain", "P99 µs", "sleeps/s", "preempt/s"
        );
        let number = |s: &Option<Samples>, scale: f64, digits: usize| {
            s.as_ref().map_or("–".to_owned(), |s| format!("{:.digits$}", s.median / scale))
        };
        for c in &self.cases {
            let f = &c.figures;
            // Fused NFs all show their one instance.
            let sum = |of: fn(&NfSummary) -> &Option<Samples>| {
                let all = c.nfs.values().filter_map(|nf| of(nf).as_ref().map(|s| s.median));
                if c.role == Role::Ideal { all.fold(0.0, f64::max) } else { all.sum::<f64>() }
            };
            let mark = match c.role {
                Role::Ideal => "  (ideal)",
                Role::Rival => "  (rival)",
                Role::Ours => "",
            };
            let row = format!(
                "  {:<wide$} {:>9} {:>8} {:>8} {:>11} {:>6} {:>11} {:>10.0} {:>10.0}{mark}\n",
                c.name,
                number(&f.throughput_pps, 1e6, 3),
                number(&f.ratio_to_fused, 1.0, 3),
                number(&f.peak_ratio, 1.0, 3),
                number(&f.wasted, 1.0, 0),
                number(&f.jain, 1.0, 3),
                number(&f.p99_us, 1.0, 0),
                sum(|nf| &nf.voluntary_switches),
                sum(|nf| &nf.involuntary_switches),
            );
            if f.throughput_pps.is_some() {
                text += &row;
            }
            if let Some(d) = f.share_deviation.as_ref().filter(|_| self.name == super::SHARES) {
                text += &format!("    shares within {:.1} % of what was intended\n", d.median * 100.0);
            }
            if self.name == super::CONTROL
                && let (Some(used), Some(readings)) = (&c.control_cpu_share, &c.control_readings)
            {
                let (percent, readings) = (used.median * 100.0, readings.median);
                text += &format!("    control loop {percent:.2} % of a core, {readings:.0} readings/s\n");
            }
            for at in &c.loads {
                let name = format!("{} at {} of fused", c.name, at.share);
                let (f, none) = (&at.figures, "–");
                text += &format!(
                    "  {name:<wide$} {:>9} {:>8} {:>8} {:>11} {none:>6} {:>11}\n",
                    number(&f.throughput_pps, 1e6, 3),
                    number(&f.ratio_to_fused, 1.0, 3),
                    number(&f.peak_ratio, 1.0, 3),
                    number(&f.wasted, 1.0, 0),
                    number(&f.p99_us, 1.0, 0),
                );
            }
            for at in &c.settling_ms {
                let ms = at.samples.median;
                text += &format!("    right again {ms:.0} ms after the step at {} s\n", at.at_s);
            }
        }
        text + &self.not_measured()
    }

    fn not_measured(&self) -> String {
        self.unavailable.iter().map(|u| format!("  {}: {}\n", u.what, u.why)).collect()
    }
}

/// Everything that was found, by case and round.
struct All<'a> {
    found: &'a [(usize, u32, Found)],
}

impl All<'_> {
    /// A figure of a case over the rounds, in the unit of the summary.
    fn get(&self, i: usize, what: &str, line: &str, x: Option<f64>, scale: f64) -> Option<Samples> {
        let of_case = self.found.iter().filter(|(of, _, _)| *of == i).flat_map(|(_, _, f)| &f.figures);
        let figures = of_case.filter(|f| f.what == what && f.line == line && f.x == x);
        Samples::of(figures.map(|f| f.value / scale).collect())
    }

    /// The different lines, or places, of a figure.
    fn different<T: PartialEq>(&self, i: usize, what: &str, of: impl Fn(&crate::run::Figure) -> Option<T>) -> Vec<T> {
        let mut all = Vec::new();
        for (_, _, found) in self.found.iter().filter(|(case, _, _)| *case == i) {
            for value in found.figures.iter().filter(|f| f.what == what).filter_map(&of) {
                if !all.contains(&value) {
                    all.push(value);
                }
            }
        }
        all
    }

    fn figures(&self, i: usize, at: Option<f64>) -> Figures {
        let name = |what: &str| if at.is_some() { format!("{what} by load") } else { what.to_owned() };
        let get = |what: &str, scale| self.get(i, &name(what), "", at, scale);
        Figures {
            throughput_pps: get(figures::THROUGHPUT, 1.0),
            ratio_to_fused: get(figures::RATIO, 1.0),
            peak_ratio: get(figures::PEAK, 1.0),
            wasted: get(figures::WASTED, 1.0),
            jain: get(figures::JAIN, 1.0),
            p99_us: get(figures::P99, 1e3),
            share_deviation: get(figures::DEVIATION, 1.0),
        }
    }

    fn nf(&self, i: usize, nf: &str) -> NfSummary {
        let get = |what: &str| self.get(i, what, nf, None, 1.0);
        NfSummary {
            service_pps: get("service rate"),
            wasted: get("wasted by NF"),
            cpu_share: get("core time"),
            intended_share: get("intended share"),
            achieved_share: get("achieved share"),
            run_delay_ms: get("run delay"),
            voluntary_switches: get("voluntary switches"),
            involuntary_switches: get("involuntary switches"),
        }
    }
}

fn case(bench: &Bench, all: &All<'_>, i: usize) -> CaseSummary {
    let case = &bench.cases[i];
    let role = role(case, i);
    let line = |f: &crate::run::Figure| Some(f.line.clone());
    let chains = all.different(i, "throughput of chains", line);
    let settling = all.different(i, figures::SETTLING, |f| f.x);
    let loads = all.different(i, "throughput by load", |f| f.x);
    let rival = (role == Role::Ours).then(|| rival(bench, case)).flatten();
    CaseSummary {
        name: case.name.clone(),
        role,
        factors: case.factors.clone(),
        figures: all.figures(i, None),
        chains_pps: chains
            .into_iter()
            .filter_map(|c| Some((c.clone(), all.get(i, "throughput of chains", &c, None, 1.0)?)))
            .collect(),
        nfs: all.different(i, "service rate", line).into_iter().map(|nf| (nf.clone(), all.nf(i, &nf))).collect(),
        control_cpu_share: all.get(i, figures::CONTROL, "", None, 1.0),
        control_readings: all.get(i, figures::READINGS, "", None, 1.0),
        settling_ms: settling
            .into_iter()
            .filter_map(|at_s| Some(At { at_s, samples: all.get(i, figures::SETTLING, "", Some(at_s), 1.0)? }))
            .collect(),
        loads: loads.into_iter().map(|share| AtLoad { share, figures: all.figures(i, Some(share)) }).collect(),
        rival: rival.map(|r| Box::new(all.figures(r, None))),
    }
}

fn role(case: &Case, i: usize) -> Role {
    if case.ideal == Some(i) {
        Role::Ideal
    } else if case.factors.get("mechanisms").is_some_and(|m| m == "default") {
        Role::Rival
    } else {
        Role::Ours
    }
}

/// The case that differs in nothing but the mechanisms; if there is none, since a stock platform does not have all that a
/// chain file can ask for, the one that differs in nothing else but fields of the chain file.
fn rival(bench: &Bench, case: &Case) -> Option<usize> {
    let others = |c: &Case, fields: bool| {
        let mut factors = c.factors.clone();
        factors.retain(|name, _| name != "mechanisms" && (fields || !name.starts_with("spec.")));
        factors
    };
    let find = |fields: bool| {
        let same = |(i, c): &(usize, &Case)| role(c, *i) == Role::Rival && others(c, fields) == others(case, fields);
        bench.cases.iter().enumerate().find(same).map(|(i, _)| i)
    };
    find(true).or_else(|| find(false))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Figure;
    use serde_json::json;

    fn figure(what: &str, line: &str, x: Option<f64>, value: f64) -> Figure {
        Figure { what: what.into(), line: line.into(), x, value, trials: Vec::new() }
    }

    fn made() -> Scenario {
        let case = |name: &str, mechanisms: &str, ideal| Case {
            name: name.into(),
            factors: [("mechanisms".to_owned(), json!(mechanisms)), ("policy".to_owned(), json!("rr"))].into(),
            ideal,
            ..Case::default()
        };
        let cases = vec![case("fused", "all", Some(0)), case("stock", "default", Some(0)), case("all", "all", Some(0))];
        let found = |pps: f64| Found {
            figures: vec![
                figure("throughput", "", None, pps),
                figure("p99", "", None, 2500.0),
                figure("core time", "nf", None, 0.5),
                figure("service rate", "nf", None, pps),
                figure("throughput by load", "", Some(0.7), 0.7 * pps),
                figure("settling", "", Some(3.0), 100.0),
            ],
            ..Found::default()
        };
        let mut found: Vec<_> = [10.0, 5.0, 9.0, 12.0, 4.0, 8.0]
            .iter()
            .enumerate()
            .map(|(i, pps)| (i % 3, i as u32 / 3, found(*pps)))
            .collect();
        found[2].2.missing.push(crate::run::Missing { what: "jain".into(), why: "one chain".into() });
        let bench = Bench { cases, rounds: 2, ..Bench::default() };
        let done = Done { results: crate::results::Results::default(), played: 0, stopped: false, found };
        Scenario::of("fig7", "A title", &bench, &done)
    }

    #[test]
    fn each_case_has_its_rival_beside_it() {
        let scenario = made();
        let roles: Vec<Role> = scenario.cases.iter().map(|c| c.role).collect();
        assert_eq!(roles, [Role::Ideal, Role::Rival, Role::Ours]);
        let ours = &scenario.cases[2];
        let own = ours.figures.throughput_pps.as_ref().unwrap();
        assert_eq!((own.median, own.min, own.max, own.samples.as_slice()), (8.5, 8.0, 9.0, [9.0, 8.0].as_slice()));
        assert_eq!(ours.rival.as_ref().unwrap().throughput_pps.as_ref().unwrap().median, 4.5);
        assert_eq!(ours.figures.p99_us.as_ref().unwrap().median, 2.5);
        assert_eq!(ours.nfs["nf"].cpu_share.as_ref().unwrap().median, 0.5);
        assert_eq!((ours.loads[0].share, ours.settling_ms[0].at_s), (0.7, 3.0));
        assert!(scenario.cases[1].rival.is_none() && ours.figures.jain.is_none());
        assert_eq!(scenario.unavailable[0].what, "all: jain");
        let table = scenario.table();
        assert!(table.contains("(rival)") && table.contains("right again 100 ms after the step at 3 s"), "{table}");
    }

    #[test]
    fn a_rival_without_the_field_of_ours_is_one() {
        let case = |mechanisms: &str, write: &str, length: u32| Case {
            factors: [("mechanisms", json!(mechanisms)), ("spec.write", json!(write)), ("length", json!(length))]
                .map(|(name, value)| (name.to_owned(), value))
                .into(),
            ideal: None,
            ..Case::default()
        };
        let cases = vec![case("default", "blocking", 1), case("default", "blocking", 2)];
        let bench = Bench { cases, ..Bench::default() };
        assert_eq!(rival(&bench, &case("all", "async", 2)), Some(1));
        assert_eq!(rival(&bench, &case("all", "blocking", 1)), Some(0));
        assert_eq!(rival(&bench, &case("all", "async", 3)), None);
    }

    #[test]
    fn what_is_printed_is_what_the_schema_says() {
        let summary = Summary { format: FORMAT.into(), scenarios: vec![made()], ..Summary::default() };
        let written = serde_json::to_value(&summary).unwrap();
        jsonschema::validator_for(&schema()).unwrap().validate(&written).unwrap();
        assert_eq!(serde_json::from_value::<Summary>(written).unwrap(), summary);
    }
}
