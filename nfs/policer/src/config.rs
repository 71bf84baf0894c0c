//! Arguments.

use crate::classes::Match;
use crate::file;
use chainline_dpdk::meter::Model;
use chainline_flowtable::{MAX_CAPACITY, MAX_TIMEOUT_MS, OnFull};
use chainline_nf::Error;
use std::path::{Path, PathBuf};

/// The most classes: three drop reasons each, of 255.
pub const MAX_CLASSES: usize = 64;
/// The most packets that a shaper holds.
pub const MAX_HELD: u32 = 1 << 20;
/// What classes count as that came with a changed file.
pub(crate) const LATER: &str = "later";
/// How often held packets are looked at, about: [`chainline_nf::Nf::tick`].
pub const TICKS_PER_S: u64 = 100;

/// `args:` of a `policer`.
#[derive(Clone, Debug, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// The first class that a packet matches is its own; packets of none pass as they are.
    #[serde(default)]
    pub classes: Vec<ClassArgs>,
    /// A file of more classes, relative to the chain file, see the README; they come after those above.
    #[serde(default)]
    pub classes_file: Option<PathBuf>,
    /// How often the file is looked at, in seconds; 0 is never. A changed file is taken without losing a packet, a wrong
    /// one leaves the old one in force.
    #[serde(default = "reload_s")]
    pub reload_s: u32,
    /// IPv4 flows that have a meter of their own, in classes with `per: flow`; memory for them is taken at start-up.
    #[serde(default = "flows")]
    pub flows: u32,
    /// The same for IPv6.
    #[serde(default = "flows6")]
    pub flows6: u32,
    /// What happens to new flows when there are that many.
    #[serde(default = "on_full")]
    pub on_full: OnFull,
}

/// A class: which packets, measured how, and what becomes of them.
#[derive(Clone, Debug, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClassArgs {
    /// For counters and drop reasons: lower-case letters, digits, `_`.
    pub name: String,
    /// Which packets; absent: all.
    #[serde(default, rename = "match")]
    pub matches: Match,
    /// One meter for the class, or one for each of its flows.
    #[serde(default)]
    pub per: Per,
    /// Colours packets. A class has this or `shaper`.
    pub meter: Option<MeterArgs>,
    /// Delays packets to a rate.
    pub shaper: Option<ShaperArgs>,
    /// Colour-aware: packets come with a colour in their DSCP. Absent: colour-blind.
    pub aware: Option<Aware>,
    /// What becomes of green packets; `pass` unless set.
    pub green: Option<Action>,
    /// Of yellow ones; `pass` unless set.
    pub yellow: Option<Action>,
    /// Of red ones; `drop` unless set.
    pub red: Option<Action>,
}

/// Whose meter it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Per {
    /// All packets of the class share it.
    #[default]
    Class,
    /// Each flow (5-tuple, one direction) has one.
    Flow,
}

/// The model, with the parameters of its RFC. Bytes are of IP packets, from the first byte of the IP header.
#[derive(Clone, Copy, Debug, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "lowercase")]
pub enum MeterArgs {
    /// Single rate three colour marker, RFC 2697.
    SrTcm {
        /// Committed information rate, bytes a second.
        cir_bytes_s: u64,
        /// Committed burst size.
        cbs_bytes: u64,
        /// Excess burst size.
        ebs_bytes: u64,
    },
    /// Two rate three colour marker, RFC 2698.
    TrTcm {
        /// Committed information rate, bytes a second.
        cir_bytes_s: u64,
        /// Committed burst size.
        cbs_bytes: u64,
        /// Peak information rate, bytes a second.
        pir_bytes_s: u64,
        /// Peak burst size.
        pbs_bytes: u64,
    },
}

impl MeterArgs {
    pub(crate) fn model(&self) -> Model {
        match *self {
            Self::SrTcm { cir_bytes_s: cir, cbs_bytes: cbs, ebs_bytes: ebs } => Model::SrTcm { cir, cbs, ebs },
            Self::TrTcm { cir_bytes_s: cir, cbs_bytes: cbs, pir_bytes_s: pir, pbs_bytes: pbs } => {
                Model::TrTcm { cir, cbs, pir, pbs }
            }
        }
    }
}

/// A token bucket that delays what it has no tokens for.
#[derive(Clone, Copy, Debug, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ShaperArgs {
    /// Bytes of IP packets a second.
    pub rate_bytes_s: u64,
    /// The bucket: what may go at once. At least what the rate brings in 20 ms, since held packets go every 10 ms, about.
    pub burst_bytes: u64,
    /// Packets that it holds at most; more are dropped.
    #[serde(default = "queue_packets")]
    pub queue_packets: u32,
}

/// Which DSCP values are which colour; all others are green. Unless set, the drop precedences of RFC 2597 (AFx2 is yellow,
/// AFx3 red).
#[derive(Clone, Debug, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Aware {
    /// DSCP values of yellow packets.
    #[serde(default = "af_medium")]
    pub yellow: Vec<u8>,
    /// DSCP values of red packets.
    #[serde(default = "af_high")]
    pub red: Vec<u8>,
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// It goes on as it is.
    Pass,
    /// It is dropped as `<class>_<colour>`.
    Drop,
    /// It goes on with this DSCP, its ECN bits as they were.
    Dscp(u8),
}

fn reload_s() -> u32 {
    1
}

fn flows() -> u32 {
    1 << 18
}

fn flows6() -> u32 {
    1 << 16
}

fn on_full() -> OnFull {
    OnFull::EvictOldest
}

pub(crate) fn queue_packets() -> u32 {
    1000
}

fn af_medium() -> Vec<u8> {
    vec![12, 20, 28, 36]
}

fn af_high() -> Vec<u8> {
    vec![14, 22, 30, 38]
}

impl Default for Aware {
    fn default() -> Self {
        Self { yellow: af_medium(), red: af_high() }
    }
}

/// A class, and where it stands.
pub(crate) struct Listed {
    pub class: ClassArgs,
    place: Place,
}

enum Place {
    /// In the arguments, by its place in the list.
    Args(usize),
    /// In a file, by its line.
    Line(PathBuf, usize),
}

impl Listed {
    /// What is wrong with it; `rest` follows the class's place: `.name: found …`.
    pub fn fault(&self, rest: &str) -> Error {
        match &self.place {
            Place::Args(i) => Error::Args(format!("args.classes[{i}]{rest}")),
            Place::Line(path, line) => Error::at(path, *line, 1, format!("class{rest}")),
        }
    }
}

/// Checks the name of a class.
pub(crate) fn check_name(name: &str) -> Result<(), String> {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    if (1..=32).contains(&name.len()) && name.chars().all(fits) {
        return Ok(());
    }
    Err(format!("found '{name}', expected 1 to 32 lower-case letters, digits and _"))
}

impl Args {
    /// Checks what types cannot say, except for what is about classes.
    pub(crate) fn check(&self) -> Result<(), Error> {
        for (name, found) in [("flows", self.flows), ("flows6", self.flows6)] {
            if !(1..=MAX_CAPACITY).contains(&found) {
                return Err(Error::Args(format!("args.{name}: found {found}, expected 1 to {MAX_CAPACITY}")));
            }
        }
        Ok(())
    }

    /// The classes, checked, except for what meters say. `path` is where the file is, if there is one.
    pub(crate) fn listed(&self, path: Option<&Path>) -> Result<Vec<Listed>, Error> {
        let own = self.classes.iter().cloned().enumerate();
        let mut all: Vec<_> = own.map(|(i, class)| Listed { class, place: Place::Args(i) }).collect();
        if let Some(path) = path {
            let place = |line| Place::Line(path.to_owned(), line);
            all.extend(file::read(path)?.into_iter().map(|(line, class)| Listed { class, place: place(line) }));
        }
        if !(1..=MAX_CLASSES).contains(&all.len()) {
            return Err(Error::Args(format!("args.classes: found {}, expected 1 to {MAX_CLASSES}", all.len())));
        }
        for (i, listed) in all.iter().enumerate() {
            let name = &listed.class.name;
            check_name(name).map_err(|why| listed.fault(&format!(".name: {why}")))?;
            if all.iter().take(i).any(|c| c.class.name == *name) {
                return Err(listed.fault(&format!(".name: '{name}' is there already, expected another name")));
            }
            if path.is_some() && name == LATER {
                return Err(listed.fault(&format!(".name: found '{LATER}', which is what later classes count as")));
            }
            listed.class.check().map_err(|why| listed.fault(&format!(" ('{name}'): {why}")))?;
        }
        Ok(all)
    }
}

/// How long a flow must stay silent before it is forgotten, in milliseconds: until its buckets are full again, so that a
/// new meter is the same to it.
pub(crate) fn idle_ms(classes: &[Listed]) -> Result<u64, Error> {
    let mut longest = 1000;
    for listed in classes.iter().filter(|c| c.class.per == Per::Flow) {
        let class = &listed.class;
        let fill_ms = class.meter.map_or(0, |m| m.model().fill_ns().div_ceil(1_000_000));
        if fill_ms > MAX_TIMEOUT_MS {
            let most_s = MAX_TIMEOUT_MS / 1000;
            return Err(listed.fault(&format!(
                " ('{}'): its buckets take {} s to fill, expected {most_s} s at most with per: flow",
                class.name,
                fill_ms / 1000
            )));
        }
        longest = longest.max(fill_ms);
    }
    Ok(longest)
}

impl ClassArgs {
    /// All packets, and nothing said of them yet.
    pub(crate) fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            matches: Match::default(),
            per: Per::Class,
            meter: None,
            shaper: None,
            aware: None,
            green: None,
            yellow: None,
            red: None,
        }
    }

    /// What becomes of packets, by colour.
    pub(crate) fn asked(&self) -> [Action; 3] {
        [(self.green, Action::Pass), (self.yellow, Action::Pass), (self.red, Action::Drop)]
            .map(|(action, usual)| action.unwrap_or(usual))
    }

    fn check(&self) -> Result<(), String> {
        let colours = [("green", self.green), ("yellow", self.yellow), ("red", self.red)];
        match (&self.meter, &self.shaper) {
            (None, None) => return Err("found neither meter nor shaper, expected one of them".into()),
            (Some(_), Some(_)) => return Err("found both meter and shaper, expected one of them".into()),
            (None, Some(shaper)) => {
                if let Some((name, _)) = colours.iter().find(|(_, action)| action.is_some()) {
                    return Err(format!("found {name}, which a shaper has not: it knows no colours"));
                }
                if self.aware.is_some() || self.per == Per::Flow {
                    return Err("found aware or per: flow, which go with meter: a shaper is one for its class".into());
                }
                shaper.check()?;
            }
            (Some(_), None) => {}
        }
        for (name, action) in colours {
            if let Some(Action::Dscp(dscp)) = action
                && dscp > 63
            {
                return Err(format!("{name}: found dscp {dscp}, expected 0 to 63"));
            }
        }
        if let Some(Aware { yellow, red }) = &self.aware {
            if let Some(dscp) = yellow.iter().chain(red).find(|d| **d > 63) {
                return Err(format!("aware: found dscp {dscp}, expected 0 to 63"));
            }
            if let Some(dscp) = yellow.iter().find(|d| red.contains(d)) {
                return Err(format!("aware: found dscp {dscp} as yellow and as red, expected one of them"));
            }
        }
        Ok(())
    }
}

impl ShaperArgs {
    fn check(&self) -> Result<(), String> {
        use chainline_dpdk::meter::{MAX_BUCKET, MAX_RATE};
        let least = (self.rate_bytes_s.saturating_mul(2)).div_ceil(TICKS_PER_S).max(1500);
        if !(1..=MAX_RATE).contains(&self.rate_bytes_s) {
            return Err(format!("shaper.rate_bytes_s: found {}, expected 1 to {MAX_RATE}", self.rate_bytes_s));
        }
        if !(least..=MAX_BUCKET).contains(&self.burst_bytes) {
            return Err(format!(
                "shaper.burst_bytes: found {}, expected {least} to {MAX_BUCKET}: held packets go every 10 ms, about",
                self.burst_bytes
            ));
        }
        if !(1..=MAX_HELD).contains(&self.queue_packets) {
            return Err(format!("shaper.queue_packets: found {}, expected 1 to {MAX_HELD}", self.queue_packets));
        }
        Ok(())
    }
}
