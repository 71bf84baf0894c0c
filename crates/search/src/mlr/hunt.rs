//! What one goal wants to measure next.

use super::Outcome;
use crate::classify::{Class, Sums};
use crate::goal::Goal;
use crate::history::History;

/// One goal's way through the loads.
#[derive(Clone, Debug)]
pub(super) struct Hunter {
    /// Low loss in trials shorter than this is not believed. Starts at the goal's shortest trial and grows when a
    /// full-length trial proves such a belief wrong.
    trust_s: f64,
    /// Distance of the next stride, as a difference of logarithms.
    stride: f64,
    /// What was measured last for this goal.
    last: Option<(Kind, f64)>,
    /// The load whose forwarding rate was followed last.
    followed: Option<f64>,
}

/// What a hunter wants.
pub(super) enum Want {
    Trial(Move),
    Done(Outcome),
}

/// A trial, and what for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Move {
    pub load_pps: f64,
    pub duration_s: f64,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    First,
    Hint,
    Up,
    Down,
    Halve,
    Confirm,
}

/// A measured load as the goal sees it.
#[derive(Clone, Copy, Debug)]
struct Seen {
    load: f64,
    high: bool,
    class: Class,
    trials: usize,
}

impl Move {
    /// Smaller is measured first: locating before confirming, and small loads first, since what is found there cannot
    /// be overturned by what is found above. Locating begins with short trials; confirming begins with long ones, since
    /// these count for goals with shorter trials too, and would overturn what was confirmed for them.
    pub(super) fn cost(&self) -> (bool, f64, f64) {
        let confirm = self.kind == Kind::Confirm;
        (confirm, if confirm { -self.duration_s } else { self.duration_s }, self.load_pps)
    }

    pub(super) fn words(&self) -> &'static str {
        match self.kind {
            Kind::First => "at the maximum load",
            Kind::Hint => "following the forwarding rate",
            Kind::Up => "looking for a load that fails",
            Kind::Down => "looking for a load that holds",
            Kind::Halve => "halving",
            Kind::Confirm => "confirming",
        }
    }
}

impl Hunter {
    pub(super) fn new(goal: &Goal) -> Self {
        Self { trust_s: goal.initial_trial_s, stride: goal.log_width(), last: None, followed: None }
    }

    /// The loads that bound what is sought, as believed now: the smallest that seems to fail, and the largest below that
    /// seems to hold. Between them nothing trusted has been measured.
    fn interval(&self, goal: &Goal, history: &History) -> (Option<Seen>, Option<Seen>) {
        let mut low = None;
        for (load, trials) in history.loads() {
            let sums = Sums::of(goal, trials);
            let class = sums.class(goal);
            let high = match class {
                Class::Upper => true,
                Class::Lower => false,
                Class::Undecided => match sums.leans_high(goal) {
                    Some(false) if !trials.iter().any(|t| t.input.duration_s >= self.trust_s) => continue,
                    Some(high) => high,
                    None => continue,
                },
            };
            let seen = Seen { load, high, class, trials: trials.len() };
            if seen.high {
                return (low, Some(seen));
            }
            low = Some(seen);
        }
        (low, None)
    }

    pub(super) fn believed(&self, goal: &Goal, history: &History) -> Option<(f64, f64)> {
        let (low, high) = self.interval(goal, history);
        Some((low?.load, high?.load))
    }

    pub(super) fn want(&self, goal: &Goal, (min, max): (f64, f64), history: &History) -> Want {
        let locate = |kind, load_pps| Want::Trial(Move { load_pps, duration_s: self.trust_s, kind });
        let confirm = |load_pps| Want::Trial(Move { load_pps, duration_s: goal.final_trial_s, kind: Kind::Confirm });
        // A hair less, so that a stride of a width is within the width after rounding.
        let width = goal.log_width() * (1.0 - 1e-9);
        match self.interval(goal, history) {
            (None, None) => locate(Kind::First, max),
            (Some(low), None) if low.load >= max => match low.class {
                Class::Lower => Want::Done(Outcome::MaxLoadHolds),
                _ => confirm(low.load),
            },
            (Some(low), None) => {
                let up = low.load * self.stride.exp();
                locate(Kind::Up, if up * (width / 2.0).exp() < max { up } else { max })
            }
            (None, Some(high)) if high.load <= min => match high.class {
                Class::Upper => Want::Done(Outcome::MinLoadFails),
                _ => confirm(high.load),
            },
            (None, Some(high)) => {
                let (kind, down) = match self.hint(goal, high.load, None, width, history) {
                    Some(hint) => (Kind::Hint, hint),
                    None => (Kind::Down, high.load * (-self.stride).exp()),
                };
                // The minimum is not where the capacity is thought to be, but where thinking ends.
                if down > min * (width / 2.0).exp() { locate(kind, down) } else { locate(Kind::Down, min) }
            }
            (Some(low), Some(high)) if goal.is_narrow(low.load, high.load) => {
                let open = [low, high].into_iter().filter(|s| s.class == Class::Undecided);
                match open.min_by_key(|s| s.trials) {
                    Some(seen) => confirm(seen.load),
                    None => Want::Done(Outcome::Regular),
                }
            }
            (Some(low), Some(high)) => {
                let (kind, load) = self.between(goal, (low.load, high.load), width, history);
                locate(kind, load)
            }
        }
    }

    /// A load between one that seems to hold and one that seems to fail, more than a width apart.
    fn between(&self, goal: &Goal, (low, high): (f64, f64), width: f64, history: &History) -> (Kind, f64) {
        let gap = (high / low).ln();
        if gap > 2.0 * width
            && let Some(hint) = self.hint(goal, high, Some(low), width, history)
        {
            return (Kind::Hint, hint);
        }
        // Strides lead away from the load measured last, while they are shorter than half of the way.
        match self.last {
            Some((kind, load)) if self.stride < gap / 2.0 && !matches!(kind, Kind::First | Kind::Halve) => {
                if load == low && kind != Kind::Down {
                    return (Kind::Up, low * self.stride.exp());
                }
                if load == high && kind != Kind::Up {
                    return (Kind::Down, high * (-self.stride).exp());
                }
            }
            _ => {}
        }
        (Kind::Halve, (low.ln() / 2.0 + high.ln() / 2.0).exp())
    }

    /// What the forwarding rate at the smallest load that fails says of the capacity: a load just below it. With a larger
    /// load measured, the line through both rates is followed to where it meets what the goal allows, which is exact for
    /// a rate that changes linearly in overload; else, or where that leads nowhere, the rate is taken for constant.
    ///
    /// Where the capacity seems to be within a width of a load that holds, the load a width above that one.
    ///
    /// `None` where that load was followed before, right after another hint, or where a stride goes further: a system
    /// that loses the same share at every load would else be walked down in steps of that share.
    fn hint(&self, goal: &Goal, high: f64, low: Option<f64>, width: f64, history: &History) -> Option<f64> {
        if self.followed == Some(high) || matches!(self.last, Some((Kind::Hint, _))) {
            return None;
        }
        let rate = history.forwarding_pps(high)?;
        let allowed = 1.0 - goal.loss_ratio;
        let next = history.loads().map(|(load, _)| load).find(|load| *load > high);
        let line = next.and_then(|next| {
            let slope = (history.forwarding_pps(next)? - rate) / (next - high);
            Some((rate - slope * high) / (allowed - slope)).filter(|capacity| *capacity > 0.0)
        });
        let (up, half) = (width.exp(), (width / 2.0).exp());
        let to_try = |capacity: f64| match low {
            Some(low) if capacity / half > low * half => Some(capacity / half),
            Some(low) if capacity * up >= low => Some(low * up),
            Some(_) => None,
            None => Some(capacity / half),
        };
        // A division by nothing gives infinity or no number, and neither is less.
        let fits = |load: &f64| *load < high * (-self.stride).exp();
        [line, Some(rate / allowed)].into_iter().flatten().filter_map(to_try).find(fits)
    }

    /// Takes note of a trial that this goal wanted.
    pub(super) fn measured(&mut self, goal: &Goal, wish: Move, history: &History) {
        let trials = history.at(wish.load_pps);
        let before = trials.len().checked_sub(1).map_or(&[][..], |n| &trials[..n]);
        let believed = |trials| Sums::of(goal, trials).leans_high(goal);
        if wish.kind == Kind::Confirm && believed(before) == Some(false) && believed(trials) == Some(true) {
            let only_short = before.iter().all(|t| t.input.duration_s < goal.final_trial_s);
            if only_short {
                self.trust_s = (self.trust_s * 4.0).min(goal.final_trial_s);
            }
        }
        if wish.kind == Kind::Hint {
            self.followed = self.interval_high_before(goal, wish.load_pps, history);
        }
        self.stride = match wish.kind {
            Kind::Up | Kind::Down => self.stride * 4.0,
            Kind::Hint => self.stride,
            _ => goal.log_width() * (1.0 - 1e-9),
        };
        self.last = Some((wish.kind, wish.load_pps));
    }

    /// The load whose forwarding rate led to `load`: the smallest above it that seems to fail.
    fn interval_high_before(&self, goal: &Goal, load: f64, history: &History) -> Option<f64> {
        history
            .loads()
            .filter(|(other, _)| *other > load)
            .find(|(_, trials)| Sums::of(goal, trials).leans_high(goal) == Some(true))
            .map(|(other, _)| other)
    }
}
