//! Backpressure: when a queue is overloaded (NFVnice, section 3.3), and how many packets a chain should have inside.
//!
//! Pure: who calls gives the time. Nothing here allocates once it is made. Counters come from memory that NFs write: whatever they say,
//! the results stay within their bounds.

/// What a queue's length is measured by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Marks {
    /// Packets from which on the queue is long.
    pub high: u32,
    /// Packets down to which it stays so. Less than `high`.
    pub low: u32,
    /// A long queue is overloaded if a packet waits longer than this in it: nanoseconds.
    pub threshold_ns: f64,
}

impl Marks {
    /// Of a queue with room for `capacity` packets; `high` and `low` are parts of it, 0 to 1.
    #[must_use]
    pub fn of(capacity: u32, high: f64, low: f64, threshold_ns: f64) -> Self {
        let part = |of: f64| (f64::from(capacity) * of) as u32;
        let high = part(high).clamp(1, capacity.max(1));
        Self { high, low: part(low).min(high - 1), threshold_ns }
    }
}

/// Where a queue stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// All is well.
    #[default]
    Clear,
    /// Long, but packets get through in time.
    Watch,
    /// Overloaded, until it is short again.
    Throttle,
}

/// One queue, watched.
#[derive(Clone, Copy, Debug, Default)]
pub struct Queue {
    state: State,
    departures: Departures,
}

impl Queue {
    /// At `now_ns` there are `len` packets in it, and `departed` (modulo 2^32) ever left it.
    pub fn step(&mut self, marks: &Marks, now_ns: u64, len: u32, departed: u32) -> State {
        self.departures.add(now_ns, departed);
        let waits = self.departures.wait_ns(len) > marks.threshold_ns;
        self.state = match self.state {
            _ if len <= marks.low => State::Clear,
            State::Clear | State::Watch if len >= marks.high && waits => State::Throttle,
            State::Clear if len >= marks.high => State::Watch,
            as_it_was => as_it_was,
        };
        self.state
    }

    /// Where it stands.
    #[must_use]
    pub fn state(&self) -> State {
        self.state
    }
}

/// The rate at which packets leave a queue: a moving average that forgets in [`FORGETS_NS`].
#[derive(Clone, Copy, Debug, Default)]
struct Departures {
    last: Option<(u64, u32)>,
    per_second: Option<f64>,
}

/// Nanoseconds over which a departure rate is averaged.
const FORGETS_NS: f64 = 10e6;

impl Departures {
    fn add(&mut self, now_ns: u64, departed: u32) {
        let Some((then, before)) = self.last.replace((now_ns, departed)) else { return };
        let passed = now_ns.saturating_sub(then) as f64;
        if passed > 0.0 {
            let now = f64::from(departed.wrapping_sub(before)) * 1e9 / passed;
            self.per_second = Some(moved(self.per_second.unwrap_or(now), now, passed, FORGETS_NS));
        }
    }

    /// How long the last of `len` packets waits; for ever if none leave.
    fn wait_ns(&self, len: u32) -> f64 {
        match self.per_second {
            None => 0.0, // not known before the second look
            Some(rate) if rate > 0.0 => f64::from(len) * 1e9 / rate,
            Some(_) => f64::INFINITY,
        }
    }
}

/// An average that moves towards what it is told, and is nine parts in ten there after 2.3 times `forgets_ns`.
fn moved(average: f64, now: f64, passed_ns: f64, forgets_ns: f64) -> f64 {
    average + (now - average) * passed_ns / (passed_ns + forgets_ns)
}

/// The exponentially weighted moving average of a queue's length, by which ECN marks (NFVnice, section 3.3).
#[derive(Clone, Copy, Debug, Default)]
pub struct Average {
    at_ns: u64,
    len: f64,
}

impl Average {
    /// Nanoseconds over which it averages: some round trips of a data centre, less than one of a continent.
    const FORGETS_NS: f64 = 10e6;

    /// There are `len` packets at `now_ns`. Returns the average.
    pub fn add(&mut self, now_ns: u64, len: u32) -> f64 {
        let passed = now_ns.saturating_sub(std::mem::replace(&mut self.at_ns, now_ns)) as f64;
        self.len = moved(self.len, f64::from(len), passed, Self::FORGETS_NS);
        self.len
    }
}

/// What a chain's limit keeps to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// Time that packets should spend inside: nanoseconds, above 0.
    pub target_ns: f64,
    /// Packets that may always be inside: what bursts need to be efficient.
    pub least: u64,
    /// Packets that its queues hold.
    pub most: u64,
}

/// What a chain has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// When this was: nanoseconds.
    pub at_ns: u64,
    /// Packets that left it, by whatever way, since it began.
    pub left: u64,
    /// Packets that wait or are worked on; what NFs hold is not among them.
    pub inside: u64,
}

/// How many packets a chain may have inside, so that they spend the target's time there: by Little's law, the rate at
/// which they leave times that time; and the least on top. That it is on top makes chains with the same cores come to
/// the same number: without, each division between them would be as good as any other.
///
/// The rate is learnt only while there is a standing backlog: for 20 ms never less inside than half of what the
/// target is worth. Without, it would be that of the source. And a chain that keeps up, but for a moment when somebody
/// else had its core, is to lose nothing: then the limit grows until it is none. So a chain that stood still, or was
/// short of packets, finds out that it can go.
///
/// If others use the chain's cores for longer than the target between its NFs' turns, each round takes as long whatever
/// the limit, and the rate falls with it. Against that stands [`Stretch`].
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    last: Option<Progress>,
    /// Packets a second that leave it, whatever it has to do.
    flow: f64,
    /// Packets a second that leave it when it has enough to do; none: not known, and so no limit.
    rate: Option<f64>,
    /// When there was last less inside than a backlog.
    short_ns: u64,
    busy: bool,
    limit: u64,
}

/// Nanoseconds after which a backlog is a standing one.
const STANDING_NS: u64 = 20_000_000;

/// Nanoseconds over which the rate is averaged.
const RATE_FORGETS_NS: f64 = 20e6;
/// Nanoseconds in which a limit that nothing keeps down grows 2.7 times.
const GROWS_NS: f64 = 100e6;

impl Default for Limit {
    fn default() -> Self {
        Self { last: None, flow: 0.0, rate: None, short_ns: 0, busy: false, limit: u64::MAX }
    }
}

impl Limit {
    /// The limit that follows from what the chain has done until now, for a target that is `stretch` times as long;
    /// [`u64::MAX`] for none. It lies within `bounds`.
    pub fn step(&mut self, bounds: &Bounds, stretch: f64, now: Progress) -> u64 {
        let last = self.last.replace(now).unwrap_or(now);
        let passed = now.at_ns.saturating_sub(last.at_ns) as f64;
        if passed <= 0.0 {
            return self.limit;
        }
        let rate = now.left.saturating_sub(last.left) as f64 * 1e9 / passed;
        self.flow = moved(self.flow, rate, passed, RATE_FORGETS_NS);
        let backlog = (self.flow * bounds.target_ns / 2e9).max(bounds.least as f64 * 0.75).max(1.0);
        if (now.inside as f64) < backlog {
            self.short_ns = now.at_ns;
        }
        self.busy = now.at_ns.saturating_sub(self.short_ns) >= STANDING_NS;
        let no_limit = bounds.most as f64 * 1e9 / bounds.target_ns;
        if self.busy {
            self.rate = Some(moved(self.rate.unwrap_or(no_limit), rate, passed, RATE_FORGETS_NS));
        } else if let Some(rate) = &mut self.rate {
            *rate = rate.max(bounds.least as f64 * 1e9 / bounds.target_ns) * (1.0 + passed / GROWS_NS);
            self.rate = self.rate.filter(|rate| *rate < no_limit);
        }
        let packets = self.rate.map(|rate| rate * bounds.target_ns * stretch / 1e9 + bounds.least as f64 * stretch);
        let limit = packets.map_or(u64::MAX, |n| n as u64);
        self.limit = if limit < bounds.most { limit } else { u64::MAX };
        self.limit
    }

    /// The limit now.
    #[must_use]
    pub fn now(&self) -> u64 {
        self.limit
    }

    /// What had left the chain when it was last looked at, if it has a limit and enough to do: then it shows whether
    /// another limit would be better.
    #[must_use]
    pub fn shows(&self) -> Option<u64> {
        self.last.filter(|_| self.busy && self.limit != u64::MAX).map(|p| p.left)
    }
}

/// How many times the target must be for chains that share cores.
///
/// Whether each round takes long as others use the cores, or as the chains are slow, is not to be seen from outside. So
/// now and then all of them are allowed twice as many packets for a moment. If more get through by it than before and
/// after, by the mean of the factors, the target is stretched; it goes back over some seconds. All at once, since a single
/// one would get more through at the others' cost; and against both sides, since rates of a shared core are uneven.
///
/// A chain that has its cores for itself shows nothing by it: who uses `1 / BETTER` of them can at most get `BETTER` times as
/// much. If all are like that there is no trial, so that nobody waits for twice as long in vain.
#[derive(Clone, Debug)]
pub struct Stretch {
    times: f64,
    at_ns: u64,
    trial: Trial,
    pause_ns: u64,
    /// What had left each when this part of the trial began; none if it shows nothing.
    left: Vec<Option<u64>>,
    /// The time that each had used of its cores when the trial began, of one on average; none if it is not known.
    used_ns: Vec<Option<u64>>,
    /// The rate of each before, packets a nanosecond.
    before: Vec<Option<f64>>,
    /// And with twice as many.
    with: Vec<Option<f64>>,
}

/// The parts of a trial, each with its begin; of the pause its end.
#[derive(Clone, Copy, Debug)]
enum Trial {
    Pause(u64),
    /// The rate without is measured.
    Before(u64),
    /// Twice as many are let in; it does not show yet.
    Settles(u64),
    /// The rate with them is measured.
    With(u64),
    /// As many as before again; it does not show yet.
    SettlesAgain(u64),
    /// The rate without is measured once more.
    After(u64),
}

/// Time in which each rate of a trial is measured.
const TRIAL_NS: u64 = 40_000_000;
/// Time until a change of the limit shows.
const SETTLES_NS: u64 = 20_000_000;
/// A trial that lets so many times as much through was right.
const BETTER: f64 = 1.2;
/// Time between two trials: after one that was right, and at most. The most keeps packets that came during trials, and
/// took up to twice as long, below one in a hundred.
const PAUSE_NS: [u64; 2] = [100_000_000, 12_800_000_000];
/// Time before the first trial: limits have settled by then; and between two looks at chains that have their cores for
/// themselves.
const FIRST_NS: u64 = 400_000_000;
/// Time in which a stretched target is forgotten.
const STRETCH_FORGETS_NS: f64 = 8e9;
/// The most that a target is stretched.
const MOST_STRETCH: f64 = 1024.0;

impl Stretch {
    /// For so many chains.
    #[must_use]
    pub fn new(chains: usize) -> Self {
        let [pause_ns, _] = PAUSE_NS;
        let (none, rates) = (vec![None; chains], vec![None; chains]);
        Self {
            times: 1.0,
            at_ns: 0,
            trial: Trial::Pause(FIRST_NS),
            pause_ns,
            left: none.clone(),
            used_ns: none,
            before: rates.clone(),
            with: rates,
        }
    }

    /// The factor at `now_ns`; `shows` says [`Limit::shows`] of each chain, and `used_ns` how long those of its instances that
    /// serve no other chain were on its cores since they began: their sum by the number of the cores. It is asked twice a trial.
    pub fn step(
        &mut self,
        now_ns: u64,
        shows: impl Fn(usize) -> Option<u64>,
        mut used_ns: impl FnMut(usize) -> Option<u64>,
    ) -> f64 {
        let passed = now_ns.saturating_sub(std::mem::replace(&mut self.at_ns, now_ns)) as f64;
        self.times = (self.times * (1.0 - passed / STRETCH_FORGETS_NS)).max(1.0);
        let over = |since: u64, time: u64| now_ns.saturating_sub(since) >= time;
        match self.trial {
            Trial::Pause(until) if now_ns >= until && (0..self.left.len()).any(|i| shows(i).is_some()) => {
                self.mark(&shows);
                self.used_ns.iter_mut().enumerate().for_each(|(i, used)| *used = used_ns(i));
                self.trial = Trial::Before(now_ns);
            }
            Trial::Before(since) if over(since, TRIAL_NS) && self.all_full(now_ns - since, &shows, used_ns) => {
                self.trial = Trial::Pause(now_ns.saturating_add(FIRST_NS));
            }
            Trial::Before(since) if over(since, TRIAL_NS) => {
                for i in 0..self.before.len() {
                    self.before[i] = self.rate(i, now_ns - since, &shows);
                }
                self.trial = Trial::Settles(now_ns);
            }
            Trial::Settles(since) if over(since, SETTLES_NS) => {
                self.mark(&shows);
                self.trial = Trial::With(now_ns);
            }
            Trial::With(since) if over(since, TRIAL_NS) => {
                for i in 0..self.with.len() {
                    self.with[i] = self.rate(i, now_ns - since, &shows);
                }
                self.trial = Trial::SettlesAgain(now_ns);
            }
            Trial::SettlesAgain(since) if over(since, SETTLES_NS) => {
                self.mark(&shows);
                self.trial = Trial::After(now_ns);
            }
            Trial::After(since) if over(since, TRIAL_NS) => {
                let factor = |i: usize| {
                    let without = self.before[i]?.max(self.rate(i, now_ns - since, &shows)?);
                    Some(self.with[i]? / Some(without).filter(|rate| *rate > 0.0)?)
                };
                let (sum, n) = (0..self.left.len()).filter_map(factor).fold((0.0, 0), |(s, n), f| (s + f, n + 1));
                if n > 0 && sum > BETTER * f64::from(n) {
                    self.times = (self.times * 2.0).min(MOST_STRETCH);
                    self.pause_ns = PAUSE_NS[0];
                } else {
                    self.pause_ns = (self.pause_ns * 2).min(PAUSE_NS[1]);
                }
                self.trial = Trial::Pause(now_ns.saturating_add(self.pause_ns));
            }
            _ => {}
        }
        if matches!(self.trial, Trial::Settles(_) | Trial::With(_)) { self.times * 2.0 } else { self.times }
    }

    /// Whether each chain that shows something used its cores so far that more packets could not make the difference.
    fn all_full(
        &self,
        passed_ns: u64,
        shows: &impl Fn(usize) -> Option<u64>,
        mut used_ns: impl FnMut(usize) -> Option<u64>,
    ) -> bool {
        (0..self.left.len()).filter(|i| shows(*i).is_some()).all(|i| {
            let used = used_ns(i).zip(self.used_ns[i]).map_or(0, |(now, then)| now.saturating_sub(then));
            used as f64 * BETTER >= passed_ns as f64
        })
    }

    fn mark(&mut self, shows: &impl Fn(usize) -> Option<u64>) {
        self.left.iter_mut().enumerate().for_each(|(i, left)| *left = shows(i));
    }

    fn rate(&self, i: usize, passed_ns: u64, shows: &impl Fn(usize) -> Option<u64>) -> Option<f64> {
        Some(shows(i)?.saturating_sub(self.left[i]?) as f64 / passed_ns.max(1) as f64)
    }
}

#[cfg(test)]
mod tests;
