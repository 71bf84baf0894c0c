//! What a policer keeps, and how it is made.

use crate::classes::{Classes, KEY4, KEY6, Match};
use crate::config::{Action, Args, ClassArgs, Per};
use crate::flows::Flows;
use crate::shaper::Shaper;
use chainline_dpdk::meter::{Colour, Item, Meters, Model};
use chainline_nf::{Counter, Env, Error, MAX_BURST, Reason};
use chainline_packet::FiveTuple;

/// The class of a packet that none matches.
pub(crate) const UNMATCHED: u8 = u8::MAX;

const _: () = assert!(MAX_BURST <= 256, "places in a burst are bytes");
const _: () = assert!(crate::config::MAX_CLASSES < UNMATCHED as usize, "classes are bytes");

/// What matters of a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    pub flow: FiveTuple,
    /// Where its IP header starts.
    pub l3: u16,
    /// Bytes of the IP packet.
    pub len: u16,
    pub dscp: u8,
    pub class: u8,
    /// Its place in the burst.
    pub at: u8,
}

/// What a class does with its packets. Meters of classes have the numbers of their profiles.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Does {
    /// One meter, by this profile.
    Meter(u8),
    /// One for each flow.
    MeterFlow(u8),
    /// This shaper.
    Shape(u8),
}

/// An [`Action`] with what it takes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Act {
    Pass,
    Drop(Reason),
    Mark(u8),
}

/// A class at work.
pub(crate) struct Class {
    pub name: String,
    pub does: Does,
    /// The colour with which a packet comes, by its DSCP.
    pub before: [Colour; 64],
    /// By colour.
    pub acts: [Act; 3],
    /// Of green packets and their bytes; yellow and red follow. Absent for shapers, which have their own.
    pub counters: Option<(Counter, Counter)>,
}

/// The look-up of classes, with room for a burst.
pub(crate) struct Classifier {
    pub classes: Classes,
    pub keys4: Vec<[u8; KEY4]>,
    pub keys6: Vec<[u8; KEY6]>,
    pub hits: Box<[u32; MAX_BURST]>,
}

/// A policer.
pub struct State {
    /// Absent if all packets are of the first class.
    pub(crate) classifier: Option<Classifier>,
    pub(crate) classes: Vec<Class>,
    pub(crate) meters: Meters,
    pub(crate) shapers: Vec<Shaper>,
    /// Absent without a class that meters flows.
    pub(crate) flows: Option<Flows>,
    // The burst at hand. Room for the largest is taken at start-up.
    pub(crate) heads: Vec<Head>,
    pub(crate) items: Vec<Item>,
    /// The heads of the items.
    pub(crate) metered: Vec<u8>,
    /// Items that have their colours.
    pub(crate) coloured: usize,
    pub(crate) marked: Counter,
    pub(crate) unmetered: Counter,
    pub(crate) other: Counter,
    pub(crate) stateless: Counter,
    pub(crate) malformed: Reason,
    pub(crate) table_full: Reason,
}

impl State {
    pub(crate) fn new(args: &Args, env: &mut Env<'_>) -> Result<Self, Error> {
        args.check()?;
        let matches: Vec<&Match> = args.classes.iter().map(|c| &c.matches).collect();
        let classifier = Classes::new(&matches)?.map(|classes| Classifier {
            classes,
            keys4: Vec::with_capacity(MAX_BURST),
            keys6: Vec::with_capacity(MAX_BURST),
            hits: Box::new([0; MAX_BURST]),
        });
        let (mut models, mut shapers, mut classes) = (Vec::new(), Vec::new(), Vec::new());
        for (i, c) in args.classes.iter().enumerate() {
            let does = match (&c.meter, &c.shaper) {
                (Some(meter), _) => {
                    let model = meter.model();
                    // Each by itself, so that the message names the class.
                    let fault = |e| Error::Args(format!("args.classes[{i}] ('{}').meter: {e}", c.name));
                    Meters::new(&[model], 0).map_err(fault)?;
                    models.push(model);
                    let profile = models.len() as u8 - 1;
                    if c.per == Per::Flow { Does::MeterFlow(profile) } else { Does::Meter(profile) }
                }
                (None, Some(shaper)) => {
                    shapers.push(Shaper::new(&c.name, shaper, env));
                    Does::Shape(shapers.len() as u8 - 1)
                }
                (None, None) => return Err(Error::Args(format!("args.classes[{i}]: expected meter or shaper"))),
            };
            classes.push(Class::new(c, does, env));
        }
        let per_flow = classes.iter().any(|c| matches!(c.does, Does::MeterFlow(_)));
        let flows = if per_flow { Some(Flows::new(args, models.len(), env)?) } else { None };
        let meters = new_meters(&models, flows.as_ref())?;
        let mut count = |name: &str, help: &str| env.counter(name, "packets", help);
        Ok(Self {
            classifier,
            classes,
            meters,
            shapers,
            flows,
            heads: Vec::with_capacity(MAX_BURST),
            items: Vec::with_capacity(MAX_BURST),
            metered: Vec::with_capacity(MAX_BURST),
            coloured: 0,
            marked: count("marked", "packets that got another DSCP than they had"),
            unmetered: count("unmetered", "packets of no class, passed on as they are"),
            other: count("other", "frames that are not IP, passed on as they are"),
            stateless: count("stateless", "packets of flows that found no room, passed on unmetered"),
            malformed: env.drop_reason("malformed"),
            table_full: env.drop_reason("table_full"),
        })
    }
}

/// The meters of classes, which start now, and those of flows, which start when they come.
fn new_meters(models: &[Model], flows: Option<&Flows>) -> Result<Meters, Error> {
    let len = models.len() + flows.map_or(0, Flows::positions);
    let mut meters = Meters::new(models, len).map_err(|e| Error::Library(format!("policer: {e}")))?;
    for profile in 0..models.len() {
        meters.start(profile as u32, profile as u8);
    }
    Ok(meters)
}

impl Class {
    fn new(c: &ClassArgs, does: Does, env: &mut Env<'_>) -> Self {
        let mut before = [Colour::Green; 64];
        if let Some(aware) = &c.aware {
            for (list, colour) in [(&aware.yellow, Colour::Yellow), (&aware.red, Colour::Red)] {
                list.iter().for_each(|d| before[usize::from(d & 63)] = colour);
            }
        }
        let asked = [(c.green, Action::Pass), (c.yellow, Action::Pass), (c.red, Action::Drop)];
        let mut acts = [Act::Pass; 3];
        if matches!(does, Does::Shape(_)) {
            return Self { name: c.name.clone(), does, before, acts, counters: None };
        }
        for ((act, (action, usual)), colour) in acts.iter_mut().zip(asked).zip(Colour::ALL) {
            *act = match action.unwrap_or(usual) {
                Action::Pass => Act::Pass,
                Action::Drop => Act::Drop(env.drop_reason(&format!("{}_{}", c.name, colour.name()))),
                Action::Dscp(dscp) => Act::Mark(dscp),
            };
        }
        let mut count = |suffix: &str, unit: &str| {
            let [green, _yellow, _red] = Colour::ALL.map(|colour| {
                let (name, colour) = (&c.name, colour.name());
                env.counter(
                    format!("{name}_{colour}{suffix}"),
                    unit,
                    format!("{unit} of class {name} that were {colour}"),
                )
            });
            green
        };
        let counters = Some((count("", "packets"), count("_bytes", "bytes")));
        Self { name: c.name.clone(), does, before, acts, counters }
    }
}
