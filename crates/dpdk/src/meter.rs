//! Meters: packets coloured by token buckets, srTCM (RFC 2697) and trTCM (RFC 2698), on `rte_meter` (programmer's guide,
//! "Traffic Metering and Policing").
//!
//! `rte_meter` adds a whole number of bytes each whole number of TSC cycles, and so rounds a rate; 10 Mbyte/s and one byte
//! more are the same to it. Here it is fed ticks of a [`Clock`] that are bytes of the rate instead (of two rates: their
//! least common multiple), reckoned from nanoseconds without a rest left over. A token is added each time that the RFCs
//! say, and none is lost however long it runs.

use crate::tables::{Array, MemoryError};
use chainline_dpdk_sys as sys;

/// The highest rate, in bytes a second: 800 Gbit/s.
pub const MAX_RATE: u64 = 100_000_000_000;
/// The largest bucket, in bytes.
pub const MAX_BUCKET: u64 = 1_000_000_000_000;
/// The most ticks a second: 64 bits of them last three weeks, the longest that a meter may be left alone.
pub const MAX_TICKS: u64 = 10_000_000_000_000;
/// The most profiles of one [`Meters`].
pub const MAX_PROFILES: usize = 256;

/// What a meter measures. Bytes are of IP packets, without what is around them (RFC 2697 §2, RFC 2698 §2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Model {
    /// RFC 2697: one rate, two buckets; what flows over the first goes to the second.
    SrTcm {
        /// Committed information rate, bytes a second, from 1.
        cir: u64,
        /// Committed burst size, bytes.
        cbs: u64,
        /// Excess burst size, bytes. One of the two is at least 1.
        ebs: u64,
    },
    /// RFC 2698: two rates with a bucket each.
    TrTcm {
        /// Committed information rate, bytes a second, from 1.
        cir: u64,
        /// Committed burst size, bytes, from 1.
        cbs: u64,
        /// Peak information rate, bytes a second, at least the committed one.
        pir: u64,
        /// Peak burst size, bytes, from 1.
        pbs: u64,
    },
}

impl Model {
    /// Nanoseconds until empty buckets are full, rounded up: after so long a meter is as a new one.
    #[must_use]
    pub fn fill_ns(&self) -> u64 {
        let ns = |bytes: u64, rate: u64| {
            let ns = (u128::from(bytes) * 1_000_000_000).div_ceil(u128::from(rate.max(1)));
            u64::try_from(ns).unwrap_or(u64::MAX)
        };
        match *self {
            Self::SrTcm { cir, cbs, ebs } => ns(cbs.saturating_add(ebs), cir),
            Self::TrTcm { cir, cbs, pir, pbs } => ns(cbs, cir).max(ns(pbs, pir)),
        }
    }

    /// Ticks a second in which every period is whole.
    fn ticks(&self) -> Result<u64, MeterError> {
        let range = |what: &'static str, found: u64, from: u64, to: u64| match (from..=to).contains(&found) {
            true => Ok(()),
            false => Err(MeterError::Range { what, found, from, to }),
        };
        match *self {
            Self::SrTcm { cir, cbs, ebs } => {
                range("cir", cir, 1, MAX_RATE)?;
                range("cbs", cbs, 0, MAX_BUCKET)?;
                range("ebs", ebs, u64::from(cbs == 0), MAX_BUCKET)?;
                Ok(cir)
            }
            Self::TrTcm { cir, cbs, pir, pbs } => {
                range("cir", cir, 1, MAX_RATE)?;
                range("cbs", cbs, 1, MAX_BUCKET)?;
                range("pir", pir, cir, MAX_RATE)?;
                range("pbs", pbs, 1, MAX_BUCKET)?;
                let ticks = u128::from(cir / gcd(cir, pir)) * u128::from(pir);
                let fine = u64::try_from(ticks).ok().filter(|t| *t <= MAX_TICKS);
                fine.ok_or(MeterError::Incommensurable { cir, pir })
            }
        }
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// The colours of both RFCs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Colour {
    /// Within the committed rate and burst.
    #[default]
    Green = 0,
    /// Above that, within the excess burst or the peak rate.
    Yellow = 1,
    /// Above that as well.
    Red = 2,
}

impl Colour {
    /// All, from the best.
    pub const ALL: [Self; 3] = [Self::Green, Self::Yellow, Self::Red];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Green => "green",
            Self::Yellow => "yellow",
            Self::Red => "red",
        }
    }
}

/// Why there are no meters.
#[derive(Clone, Debug, thiserror::Error)]
pub enum MeterError {
    /// A number is out of range.
    #[error("{what}: found {found}, expected {from} to {to}")]
    Range {
        /// Which.
        what: &'static str,
        /// What it is.
        found: u64,
        /// The least.
        from: u64,
        /// The most.
        to: u64,
    },
    /// There is no clock that fits both rates.
    #[error(
        "cir {cir} and pir {pir}: their least common multiple is above {MAX_TICKS}, so no clock is right for both: make \
         both multiples of one rate, such as 1000"
    )]
    Incommensurable {
        /// Committed rate.
        cir: u64,
        /// Peak rate.
        pir: u64,
    },
    /// No memory.
    #[error(transparent)]
    Memory(#[from] MemoryError),
}

/// Turns nanoseconds into ticks, exactly: what does not make a whole tick is kept for the next time.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    ticks_per_s: u64,
    last_ns: Option<u64>,
    ticks: u64,
    /// Billionths of a tick.
    rest: u64,
}

const SECOND: u64 = 1_000_000_000;

impl Clock {
    /// A clock of so many ticks a second; it starts when it is first read.
    #[must_use]
    pub const fn new(ticks_per_s: u64) -> Self {
        Self { ticks_per_s, last_ns: None, ticks: 0, rest: 0 }
    }

    /// The ticks since the first reading, modulo 2⁶⁴. Time that goes back stands still.
    #[inline]
    pub fn read(&mut self, now_ns: u64) -> u64 {
        let last_ns = self.last_ns.unwrap_or(now_ns);
        let elapsed = now_ns.saturating_sub(last_ns);
        self.last_ns = Some(now_ns.max(last_ns));
        // 64 bits suffice for most bursts: at 10 Gbit/s, for gaps up to 14 s.
        match elapsed.checked_mul(self.ticks_per_s).and_then(|n| n.checked_add(self.rest)) {
            Some(n) => (self.ticks, self.rest) = (self.ticks.wrapping_add(n / SECOND), n % SECOND),
            None => {
                let n = u128::from(elapsed) * u128::from(self.ticks_per_s) + u128::from(self.rest);
                let whole = (n / u128::from(SECOND)) as u64;
                (self.ticks, self.rest) = (self.ticks.wrapping_add(whole), (n % u128::from(SECOND)) as u64);
            }
        }
        self.ticks
    }
}

/// A packet to be coloured, and then its colour.
#[derive(Clone, Copy, Debug, Default)]
#[repr(transparent)]
pub struct Item(sys::chainline_meter_item);

impl Item {
    /// `len` bytes for meter `meter` by profile `profile`. `before` is the packet's colour where colours count;
    /// [`Colour::Green`] is the colour-blind mode.
    #[inline]
    #[must_use]
    pub const fn new(meter: u32, profile: u8, len: u16, before: Colour) -> Self {
        Self(sys::chainline_meter_item { meter, len, profile, colour: before as u8 })
    }

    /// The colour: before [`Meters::colour`] as it came, afterwards as it was metered.
    #[inline]
    #[must_use]
    pub const fn colour(&self) -> Colour {
        match self.0.colour {
            0 => Colour::Green,
            1 => Colour::Yellow,
            _ => Colour::Red,
        }
    }
}

/// Many meters by few profiles. A meter is 32 bytes.
#[derive(Debug)]
pub struct Meters {
    profiles: Vec<sys::chainline_meter_profile>,
    clocks: Vec<Clock>,
    meters: Array<sys::chainline_meter>,
}

impl Meters {
    /// `len` meters, of which none is started, and a profile for each model.
    ///
    /// # Errors
    /// [`MeterError`]; with more than [`MAX_PROFILES`] models, those beyond cannot be named and are a range error.
    pub fn new(models: &[Model], len: usize) -> Result<Self, MeterError> {
        if models.len() > MAX_PROFILES {
            let (found, to) = (models.len() as u64, MAX_PROFILES as u64);
            return Err(MeterError::Range { what: "profiles", found, from: 0, to });
        }
        let (mut profiles, mut clocks) = (Vec::new(), Vec::new());
        for model in models {
            let ticks = model.ticks()?;
            let mut profile = sys::chainline_meter_profile::default();
            match *model {
                // SAFETY: `profile` is ours for the call.
                Model::SrTcm { cbs, ebs, .. } => unsafe { sys::chainline_meter_srtcm(&raw mut profile, 1, cbs, ebs) },
                Model::TrTcm { cir, cbs, pir, pbs } => {
                    let (c, p) = (ticks / cir, ticks / pir);
                    // SAFETY: as above.
                    unsafe { sys::chainline_meter_trtcm(&raw mut profile, c, cbs, p, pbs) };
                }
            }
            profiles.push(profile);
            clocks.push(Clock::new(ticks));
        }
        Ok(Self { profiles, clocks, meters: Array::new(len, sys::chainline_meter::default())? })
    }

    /// Tells the time to what follows.
    #[inline]
    pub fn advance(&mut self, now_ns: u64) {
        for (profile, clock) in self.profiles.iter_mut().zip(&mut self.clocks) {
            profile.now = clock.read(now_ns);
        }
    }

    /// Fills the buckets of a meter by a profile, as both RFCs say of time 0. Numbers out of range do nothing.
    pub fn start(&mut self, meter: u32, profile: u8) {
        let profile = self.profiles.get(usize::from(profile));
        if let (Some(profile), Some(meter)) = (profile, self.meters.get_mut(meter as usize)) {
            // SAFETY: both are ours for the call, which keeps neither.
            unsafe { sys::chainline_meter_start(profile, meter) };
        }
    }

    /// The time of a profile goes on from that of a profile of `old`, which must be of the same model. Before any meter is
    /// started by it. Numbers out of range do nothing.
    pub fn go_on(&mut self, profile: u8, old: &Self, old_profile: u8) {
        let (to, from) = (usize::from(profile), usize::from(old_profile));
        let there = (self.profiles.get_mut(to), self.clocks.get_mut(to), old.profiles.get(from), old.clocks.get(from));
        if let (Some(profile), Some(clock), Some(old_profile), Some(old_clock)) = there {
            (profile.now, *clock) = (old_profile.now, *old_clock);
        }
    }

    /// Gives a meter the buckets of one of `old`, whose profile this one's goes on from ([`Meters::go_on`]). Numbers out of
    /// range do nothing.
    pub fn take(&mut self, meter: u32, old: &Self, old_meter: u32) {
        if let (Some(meter), Some(old)) = (self.meters.get_mut(meter as usize), old.meters.get(old_meter as usize)) {
            *meter = *old;
        }
    }

    /// Asks for the cache line of a meter.
    #[inline]
    pub fn prefetch(&self, meter: usize) {
        self.meters.prefetch(meter);
    }

    /// Number of meters.
    #[must_use]
    pub fn len(&self) -> usize {
        self.meters.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.meters.is_empty()
    }

    /// Colours a burst at the time of [`Meters::advance`], one packet after the other. A meter must have been started by
    /// the profile that its packets name. If a number is out of range, all packets are red and nothing is metered.
    #[inline]
    pub fn colour(&mut self, items: &mut [Item]) {
        let (meters, profiles) = (self.meters.len(), self.profiles.len());
        let known = |i: &Item| (i.0.meter as usize) < meters && usize::from(i.0.profile) < profiles;
        if !items.iter().all(known) {
            items.iter_mut().for_each(|i| i.0.colour = Colour::Red as u8);
            return;
        }
        // SAFETY: every item names a meter and a profile that are there; the call keeps no pointer. Buckets of the other
        // model give a wrong colour and nothing worse: they are four numbers in both, and periods are never zero.
        unsafe {
            let items_ptr = items.as_mut_ptr().cast::<sys::chainline_meter_item>();
            let meters_ptr = self.meters.as_mut_ptr();
            sys::chainline_meter_burst(self.profiles.as_mut_ptr(), meters_ptr, items_ptr, items.len() as u32);
        }
    }
}
