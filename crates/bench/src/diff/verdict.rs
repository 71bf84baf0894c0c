//! Samples of many points, judged together.

use super::family::{holm, max_t};
use super::{Scale, Settings, ranks};
use schemars::JsonSchema;
use serde::Serialize;
use statrs::distribution::{ContinuousCDF, StudentsT};
use std::collections::BTreeMap;

/// Fewer rounds tell nothing: two of two agree by chance too often.
pub(super) const LEAST: usize = 3;
/// Beyond it, means are as good as ranks, and pairs get many.
const MOST_RANKED: usize = 200;
/// Standard error below which nobody believes one, as a share: a search to 0.5 % gives equal numbers for unequal runs.
const RESOLUTION: f64 = 0.0015;

/// The samples of one point.
#[derive(Clone, Debug, PartialEq)]
pub struct Samples {
    /// In A, by round.
    pub a: Vec<f64>,
    /// In B.
    pub b: Vec<f64>,
    /// Round i of A and round i of B were measured next to each other.
    pub paired: bool,
}

/// How an interval was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// Ranks of differences or of their pairwise means: right for any noise.
    Ranks,
    /// Student's t: right when logarithms of the samples are close to normal; for few rounds, or very many.
    T,
}

/// An interval and what is most likely in it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Best guess.
    pub estimate: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// What samples tell.
#[derive(Clone, Debug, PartialEq)]
pub struct Tested {
    /// Factor or term.
    pub scale: Scale,
    /// From A to B.
    pub interval: Interval,
    /// Probability under no difference anywhere, for the whole family.
    pub p: f64,
    /// How it was made.
    pub method: Method,
    /// Whether B differs from A by more than the margin.
    pub differs: bool,
    /// Whether it would, were it the only point.
    pub alone: bool,
    /// Whether B is more, where it differs.
    pub more: bool,
}

/// One point on the scale on which it is tested: logarithms, or shares of its size.
struct Point {
    scale: Scale,
    unit: f64,
    a: Vec<f64>,
    b: Vec<f64>,
    paired: bool,
    method: Method,
}

/// Judges points, in their order. `None` for one with fewer than three rounds on a side, or values that are no numbers.
#[must_use]
pub fn judge(points: &[Samples], settings: Settings) -> Vec<Option<Tested>> {
    let alpha = 1.0 - settings.confidence;
    let points: Vec<Option<Point>> = points.iter().map(Point::of).collect();
    let mut out: Vec<Option<Tested>> = points.iter().map(|_| None).collect();
    // Points of equal shape are one family.
    let mut families: BTreeMap<(Method, bool, usize, usize), Vec<usize>> = BTreeMap::new();
    for (i, p) in points.iter().enumerate() {
        if let Some(p) = p {
            families.entry((p.method, p.paired, p.a.len(), p.b.len())).or_default().push(i);
        }
    }
    let number = families.len() as f64;
    for ((method, paired, ..), members) in families {
        let rows: Vec<&Point> = members.iter().filter_map(|i| points[*i].as_ref()).collect();
        let (found, adjusted): (Vec<Interval>, Vec<f64>) = match method {
            Method::Ranks => {
                let samples: Vec<_> = rows.iter().map(|p| (p.a.as_slice(), p.b.as_slice())).collect();
                (rows.iter().map(|p| ranked(&p.a, &p.b, paired, alpha)).collect(), max_t(&samples, paired))
            }
            Method::T => {
                let all = students(&rows);
                (all.iter().map(|s| s.interval(alpha)).collect(), holm(&all.iter().map(Student::p).collect::<Vec<_>>()))
            }
        };
        for (((i, point), found), p) in members.into_iter().zip(rows).zip(found).zip(adjusted) {
            // Bonferroni over families of different shape.
            out[i] = Some(point.tested(found, (p * number).min(1.0), settings));
        }
    }
    out
}

impl Point {
    fn of(samples: &Samples) -> Option<Self> {
        let Samples { a, b, .. } = samples;
        let all = || a.iter().chain(b);
        if a.len() < LEAST || b.len() < LEAST || !all().all(|v| v.is_finite()) {
            return None;
        }
        let paired = samples.paired && a.len() == b.len();
        let ranked = if paired { a.len() >= 6 } else { a.len() >= 4 && b.len() >= 4 };
        let many = a.len().max(b.len()) > MOST_RANKED;
        let method = if ranked && !many { Method::Ranks } else { Method::T };
        let make = |scale, unit, f: &dyn Fn(f64) -> f64| Self {
            scale,
            unit,
            a: a.iter().map(|v| f(*v)).collect(),
            b: b.iter().map(|v| f(*v)).collect(),
            paired,
            method,
        };
        if all().all(|v| *v > 0.0) {
            return Some(make(Scale::Ratio, 1.0, &f64::ln));
        }
        let size = all().map(|v| v.abs()).fold(0.0, f64::max);
        let unit = if size > 0.0 { size } else { 1.0 };
        Some(make(Scale::Difference, unit, &|v| v / unit))
    }

    fn tested(&self, found: Interval, p: f64, settings: Settings) -> Tested {
        let (low, high) = match self.scale {
            Scale::Ratio => ((1.0 - settings.margin).max(f64::MIN_POSITIVE).ln(), settings.margin.ln_1p()),
            Scale::Difference => (-settings.margin, settings.margin),
        };
        let alone = found.low > high || found.high < low;
        let back = |v: f64| match self.scale {
            Scale::Ratio => v.exp(),
            Scale::Difference => v * self.unit,
        };
        Tested {
            scale: self.scale,
            interval: Interval { estimate: back(found.estimate), low: back(found.low), high: back(found.high) },
            p,
            method: self.method,
            differs: alone && p <= 1.0 - settings.confidence,
            alone,
            more: found.estimate > 0.0,
        }
    }
}

/// Hodges and Lehmann's estimate of the shift from A to B and its interval.
fn ranked(a: &[f64], b: &[f64], paired: bool, alpha: f64) -> Interval {
    let mut all: Vec<f64>;
    let cut;
    if paired {
        let d: Vec<f64> = a.iter().zip(b).map(|(a, b)| b - a).collect();
        all = (0..d.len())
            .flat_map(|i| d[i..].iter().map(|other| f64::midpoint(d[i], *other)).collect::<Vec<_>>())
            .collect();
        cut = ranks::one_sample(d.len(), alpha);
    } else {
        all = a.iter().flat_map(|a| b.iter().map(move |b| b - a)).collect();
        cut = ranks::two_sample(a.len(), b.len(), alpha);
    }
    all.sort_unstable_by(f64::total_cmp);
    let last = all.len().saturating_sub(1);
    let estimate = f64::midpoint(all[last / 2], all[all.len() / 2]);
    match cut {
        Some(k) => Interval { estimate, low: all[(k - 1).min(last)], high: all[last.saturating_sub(k - 1)] },
        // At a higher confidence than these rounds can give.
        None => Interval { estimate, low: f64::NEG_INFINITY, high: f64::INFINITY },
    }
}

/// A shift with its standard error and degrees of freedom.
struct Student {
    shift: f64,
    error: f64,
    freedom: f64,
}

/// Each point's, none with a smaller error than the family's median. Three rounds that agree by chance, as rounds of two
/// modes do, are no proof of precision; what the other points scatter by tells better.
fn students(rows: &[&Point]) -> Vec<Student> {
    let mut all: Vec<Student> = rows.iter().map(|p| student(&p.a, &p.b, p.paired)).collect();
    let mut errors: Vec<f64> = all.iter().map(|s| s.error).collect();
    errors.sort_unstable_by(f64::total_cmp);
    let median = errors.get(errors.len() / 2).copied().unwrap_or_default();
    all.iter_mut().for_each(|s| s.error = s.error.max(median));
    all
}

/// Welch's (unpaired) or the paired form.
fn student(a: &[f64], b: &[f64], paired: bool) -> Student {
    if paired {
        let d: Vec<f64> = a.iter().zip(b).map(|(a, b)| b - a).collect();
        let (shift, variance) = moments(&d);
        let n = d.len() as f64;
        return Student { shift, error: (variance / n).sqrt().hypot(RESOLUTION), freedom: n - 1.0 };
    }
    let ((mean_a, var_a), (mean_b, var_b)) = (moments(a), moments(b));
    let (n, m) = (a.len() as f64, b.len() as f64);
    let (va, vb) = (var_a / n, var_b / m);
    let freedom = (va + vb).powi(2) / (va * va / (n - 1.0) + vb * vb / (m - 1.0));
    let freedom = if freedom.is_finite() { freedom } else { n + m - 2.0 };
    Student { shift: mean_b - mean_a, error: (va + vb).sqrt().hypot(RESOLUTION), freedom }
}

impl Student {
    fn law(&self) -> Option<StudentsT> {
        StudentsT::new(0.0, 1.0, self.freedom).ok()
    }

    fn p(&self) -> f64 {
        self.law().map_or(1.0, |law| 2.0 * law.sf((self.shift / self.error).abs())).min(1.0)
    }

    fn interval(&self, alpha: f64) -> Interval {
        let wide = self.law().map_or(f64::INFINITY, |law| law.inverse_cdf(1.0 - alpha / 2.0)) * self.error;
        Interval { estimate: self.shift, low: self.shift - wide, high: self.shift + wide }
    }
}

/// Mean and variance (by n - 1).
pub(super) fn moments(v: &[f64]) -> (f64, f64) {
    let n = v.len() as f64;
    let mean = v.iter().sum::<f64>() / n;
    (mean, v.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0).max(1.0))
}
