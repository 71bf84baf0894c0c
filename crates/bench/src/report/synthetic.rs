//! Results that nobody measured: made from formulas and a seed, for tests and for work on the page. Title, remarks,
//! environment and every definition say so.

use crate::results::{Axis, FORMAT, InputFile, Obtained, Point, Results, Section, Series, Trial, Unavailable, View, X};
use chainline_trial::{GeneratorState, Latency, Load, NfOutcome, Outcome};
use serde_json::json;
use std::collections::BTreeMap;

const WARNING: &str = "SYNTHETIC: made from a formula and a seed, not measured.";
const SIZES: [f64; 7] = [64.0, 128.0, 256.0, 512.0, 1024.0, 1280.0, 1518.0];

/// Results with every kind of view, of series and of trial. `factor` scales every throughput: 1.0 and 0.9 are a
/// dataplane and a slower one.
#[must_use]
pub fn results(seed: u64, rounds: usize, factor: f64) -> Results {
    let mut make = Make { rng: fastrand::Rng::with_seed(seed), rounds, factor, trials: Vec::new() };
    let sections = vec![
        make.by_size(),
        make.by_length(),
        make.percentiles(),
        make.loss_curve(),
        make.heat_map(),
        make.by_kind(),
        make.table(),
    ];
    Results {
        format: FORMAT.into(),
        title: "SYNTHETIC sample: no figure here was measured".into(),
        command: ["chainline", "bench", "run", "synthetic sweep.yaml", "--rounds", &rounds.to_string()]
            .map(String::from)
            .to_vec(),
        file: Some(InputFile {
            name: "synthetic sweep.yaml".into(),
            text: "# SYNTHETIC: no benchmark reads this.\nkind: Benchmark\nmetadata: {name: synthetic}\n".into(),
        }),
        started: "2000-01-01T00:00:00Z".into(),
        complete: true,
        environment: json!({
            "cpu": "synthetic processor, 2 cores",
            "kernel": "0.0.0-synthetic",
            "dpdk": "none",
            "governor": null,
            "huge_pages": 0,
            "cgroup": "v2",
            "commit": format!("synthetic-{seed}"),
            "caches": {"l1d": "32 KiB", "l2": "1 MiB", "l3": "32 MiB"},
            "mitigations": {"spectre_v2": "none: synthetic"},
        }),
        sections,
        trials: make.trials,
        remarks: vec![WARNING.into()],
    }
}

struct Make {
    rng: fastrand::Rng,
    rounds: usize,
    factor: f64,
    trials: Vec<Trial>,
}

impl Make {
    /// A number near 1: the sum of twelve uniform ones is close to normal.
    fn near_one(&mut self, spread: f64) -> f64 {
        let normal: f64 = (0..12).map(|_| self.rng.f64()).sum::<f64>() - 6.0;
        (normal * spread).exp()
    }

    fn point(&mut self, x: X, value: f64, spread: f64, purpose: &str, factors: &[(&str, serde_json::Value)]) -> Point {
        let mut point = Point { x, samples: Vec::new(), trials: Vec::new() };
        for round in 0..self.rounds {
            let sample = value * self.near_one(spread);
            point.samples.push(sample);
            point.trials.push(self.trials.len());
            self.trial(round, sample, purpose, factors);
        }
        point
    }

    fn trial(&mut self, round: usize, sample: f64, purpose: &str, factors: &[(&str, serde_json::Value)]) {
        let sent = (sample.abs() * 1e6) as u64 + 1;
        let lost = if purpose == "loss-curve" { sent / 50 } else { 0 };
        let mut histogram = hdr();
        (1..200u64).for_each(|i| histogram.record(4_000 + i * i).unwrap_or(()));
        let mut trial = Trial {
            dataplane: "synthetic".into(),
            factors: factors.iter().map(|(k, v)| ((*k).to_owned(), v.clone())).collect(),
            round: round as u32,
            attempt: 0,
            load: Load::Pps(sent as f64),
            purpose: purpose.into(),
            outcome: Outcome {
                seconds: 1.0,
                intended: sent,
                sent,
                received: sent - lost,
                lost,
                drops: if lost > 0 { BTreeMap::from([("entry: shed".into(), lost)]) } else { BTreeMap::new() },
                duplicated: Some(0),
                reordered: Some(0),
                foreign: None,
                latency: Latency::of(&histogram),
                pdv_ns: Some(30_000),
                jitter_ns: Some(120.5),
                longest_gap_ns: Some(250_000),
                generator: GeneratorState { worst_stall_ns: 9_000, saturated: false, busy: 0.4 },
                nfs: BTreeMap::from([("fw".into(), NfOutcome { cpu_share: 0.5, ..NfOutcome::default() })]),
                balanced: true,
                ..Outcome::default()
            },
            stolen_share: 0.001,
            foreign_share: 0.004,
            invalid: Vec::new(),
        };
        if self.trials.len() % 23 == 7 {
            let mut spoilt = trial.clone();
            spoilt.stolen_share = 0.031;
            spoilt.invalid = vec!["more than 1 % of the time was stolen by the hypervisor".into()];
            trial.attempt = 1;
            // After the one that counts, so that indexes are as the points say.
            self.trials.push(trial);
            self.trials.push(spoilt);
        } else {
            self.trials.push(trial);
        }
    }

    fn series(&mut self, name: &str, obtained: Obtained, values: &[(X, f64)], spread: f64, purpose: &str) -> Series {
        let points = values.iter().map(|(x, value)| match obtained {
            Obtained::Measured => {
                let factors = [("x", serde_json::to_value(x).unwrap_or_default()), ("series", json!(name))];
                self.point(x.clone(), *value, spread, purpose, &factors)
            }
            Obtained::Modelled | Obtained::Quoted => Point { x: x.clone(), samples: vec![*value], trials: Vec::new() },
        });
        Series { name: name.into(), obtained, points: points.collect() }
    }

    fn by_size(&mut self) -> Section {
        let f = self.factor;
        let line_rate = |size: f64| 10_000.0 / (8.0 * (size + 20.0));
        let ours: Vec<_> = SIZES.map(|s| (X::Number(s), f * 9.0f64.min(0.96 * line_rate(s)))).to_vec();
        let other: Vec<_> = SIZES.map(|s| (X::Number(s), 5.5f64.min(0.93 * line_rate(s)))).to_vec();
        let ideal: Vec<_> = SIZES.map(|s| (X::Number(s), line_rate(s))).to_vec();
        let paper = [(X::Number(64.0), 7.1), (X::Number(512.0), 2.2), (X::Number(1518.0), 0.8)];
        section(
            ("throughput-by-size", "Throughput by frame size", View::Lines),
            "NDR: the highest rate at which nothing was lost. Sizes in bytes with FCS, without preamble and gap.",
            Some("RFC 2544 section 26.1"),
            (axis("frame size", "B"), axis("throughput", "Mpps")),
            vec![
                self.series("ours", Obtained::Measured, &ours, 0.012, "ndr"),
                self.series("another dataplane", Obtained::Measured, &other, 0.03, "ndr"),
                self.series("10 GbE line rate", Obtained::Modelled, &ideal, 0.0, ""),
                self.series("a paper", Obtained::Quoted, &paper, 0.0, ""),
            ],
        )
    }

    fn by_length(&mut self) -> Section {
        let f = self.factor;
        let by = |cost: f64| {
            (1..=10).map(|n| (X::Number(f64::from(n)), f * 12.0 / (1.0 + cost * f64::from(n)))).collect::<Vec<_>>()
        };
        let (shared, fused) = (by(0.5), by(0.3));
        let series = vec![
            self.series("processes, one core", Obtained::Measured, &shared, 0.02, "ndr"),
            self.series("fused", Obtained::Measured, &fused, 0.01, "ndr"),
        ];
        let what = "NDR of chains of so many forwarding NFs.";
        let axes = (axis("chain length", "NFs"), axis("throughput", "Mpps"));
        let mut section =
            section(("chain-length", "Throughput by chain length", View::Lines), what, None, axes, series);
        section.unavailable.push(Unavailable {
            what: "NFs on the other socket".into(),
            why: "this host has one socket; needed are two".into(),
        });
        section
    }

    fn percentiles(&mut self) -> Section {
        let shares = [0.0, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999, 1.0];
        let curve = |base: f64, tail: f64| -> Vec<_> {
            shares
                .map(|q: f64| (X::Number(q), base * (1.0 + tail * -(1.0 - q.min(0.999_999)).log10()).powi(2)))
                .to_vec()
        };
        let (low, half, high) = (curve(4.0, 0.15), curve(6.0, 0.3), curve(12.0, 0.9));
        let mut y = axis("latency", "µs");
        y.log = true;
        section(
            ("latency", "Latency by percentile", View::Percentiles),
            "From the intended time of sending to arrival, at 10, 50 and 90 % of PDR.",
            Some("RFC 8219 section 7.2"),
            (axis("percentile", ""), y),
            vec![
                self.series("10 % of PDR", Obtained::Measured, &low, 0.02, "latency"),
                self.series("50 % of PDR", Obtained::Measured, &half, 0.04, "latency"),
                self.series("90 % of PDR", Obtained::Measured, &high, 0.08, "latency"),
            ],
        )
    }

    fn loss_curve(&mut self) -> Section {
        let loads: Vec<f64> = (1..=20).map(f64::from).collect();
        let lost =
            |cap: f64| loads.iter().map(|l| (X::Number(*l), (1.0 - cap / l).max(0.0) * 100.0)).collect::<Vec<_>>();
        let (small, large) = (lost(9.0 * self.factor), lost(13.0 * self.factor));
        section(
            ("loss-curve", "Loss by offered load", View::Lines),
            "Share of the frames sent that did not arrive.",
            Some("RFC 2544 section 26.3"),
            (axis("offered load", "Mpps"), axis("loss", "%")),
            vec![
                self.series("64 B", Obtained::Measured, &small, 0.02, "loss-curve"),
                self.series("512 B", Obtained::Measured, &large, 0.02, "loss-curve"),
            ],
        )
    }

    fn heat_map(&mut self) -> Section {
        let batches = [1.0, 4.0, 16.0, 64.0, 256.0];
        let series = [1.0f64, 10.0, 1e3, 1e5, 1e6].map(|flows| {
            let f = self.factor;
            let row = batches.map(|b: f64| (X::Number(b), f * 10.0 * (b / (b + 3.0)) / (1.0 + flows.log10() / 6.0)));
            self.series(&format!("{flows} flows"), Obtained::Measured, &row, 0.01, "mrr")
        });
        let axes = (axis("batch", "packets"), axis("throughput", "Mpps"));
        let what = "MRR: received rate at the highest load.";
        section(("batch-flows", "Throughput by batch and flows", View::HeatMap), what, None, axes, series.to_vec())
    }

    fn by_kind(&mut self) -> Section {
        let at = |scale: f64| {
            [("firewall", 6.0), ("l3fwd", 9.0), ("monitor", 7.0)].map(|(n, v)| (X::Word(n.into()), v * scale)).to_vec()
        };
        let (ours, model, paper) = (at(self.factor), at(1.05), at(0.7));
        let axes = (axis("NF", ""), axis("throughput", "Mpps"));
        let series = vec![
            self.series("measured", Obtained::Measured, &ours, 0.02, "ndr"),
            self.series("model", Obtained::Modelled, &model, 0.0, ""),
            self.series("a paper", Obtained::Quoted, &paper, 0.0, ""),
        ];
        section(("by-nf", "Throughput by NF", View::Bars), "NDR of one NF alone.", None, axes, series)
    }

    fn table(&mut self) -> Section {
        let sizes = SIZES.map(|s| (X::Number(s), 90.0 - s / 40.0)).to_vec();
        let idle = SIZES.map(|s| (X::Number(s), 2.0 + s / 900.0)).to_vec();
        let axes = (axis("frame size", "B"), axis("CPU use", "%"));
        let series = vec![
            self.series("at NDR", Obtained::Measured, &sizes, 0.02, "ndr"),
            self.series("at 1 % of NDR", Obtained::Measured, &idle, 0.05, "latency"),
        ];
        section(("cpu-use", "CPU use by frame size", View::Table), "Share of one core.", None, axes, series)
    }
}

fn hdr() -> hdrhistogram::Histogram<u64> {
    // Three digits are always possible.
    hdrhistogram::Histogram::new(3).unwrap_or_else(|_| unreachable!("three digits"))
}

fn axis(label: &str, unit: &str) -> Axis {
    Axis { label: label.into(), unit: unit.into(), log: false }
}

fn section(
    (id, title, view): (&str, &str, View),
    definition: &str,
    source: Option<&str>,
    (x, y): (Axis, Axis),
    series: Vec<Series>,
) -> Section {
    Section {
        id: id.into(),
        title: title.into(),
        definition: format!("{WARNING} {definition}"),
        source: source.map(String::from),
        view,
        x,
        y,
        series,
        unavailable: Vec::new(),
    }
}
