//! What a policer keeps, and how it is made.

use crate::classes::{Classes, KEY4, KEY6};
use crate::config::{Action, Args, ClassArgs, LATER, Listed, Per};
use crate::flows::Flows;
use crate::shaper::{self, Shaper};
use chainline_dpdk::meter::{Colour, Item, Meters, Model};
use chainline_flowtable::{self as flowtable, Stats};
use chainline_nf::{Counter, Ctx, Env, Error, MAX_BURST, Reason};
use chainline_packet::FiveTuple;
use chainline_reload::Reload;
use std::collections::HashMap;

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

/// What a class with a meter counts, and what it drops for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tally {
    /// Of green packets and their bytes; yellow and red follow.
    pub packets: Counter,
    pub bytes: Counter,
    /// By colour; absent where no packet is ever dropped.
    reasons: [Option<Reason>; 3],
}

/// A class at work.
pub(crate) struct Class {
    pub name: String,
    pub does: Does,
    /// The colour with which a packet comes, by its DSCP.
    pub before: [Colour; 64],
    /// By colour.
    pub acts: [Act; 3],
    /// Absent for shapers, which have their own.
    pub tally: Option<Tally>,
}

/// The look-up of classes, with room for a burst.
pub(crate) struct Classifier {
    pub classes: Classes,
    pub keys4: Vec<[u8; KEY4]>,
    pub keys6: Vec<[u8; KEY6]>,
    pub hits: Box<[u32; MAX_BURST]>,
}

/// What follows from the classes.
pub(crate) struct Set {
    /// Absent if all packets are of the first class.
    pub classifier: Option<Classifier>,
    pub classes: Vec<Class>,
    pub meters: Meters,
    /// By profile.
    models: Vec<Model>,
    pub shapers: Vec<Shaper>,
    /// Absent without a class that meters flows.
    pub flows: Option<Flows>,
    /// What sets before this one counted.
    flows_before: Stats,
}

/// A policer.
pub struct State {
    pub(crate) set: Set,
    pub(crate) reload: Reload<Set>,
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

/// The counters and drop reasons of classes.
struct Tallies {
    /// By name, of those that were there at the start.
    meters: HashMap<String, Tally>,
    shapers: HashMap<String, shaper::Tally>,
    /// Of all others; absent if there can be none.
    later: Option<(Tally, shaper::Tally)>,
    flows: Option<flowtable::Counters>,
}

impl State {
    pub(crate) fn new(args: &Args, env: &mut Env<'_>) -> Result<Self, Error> {
        let path = args.classes_file.as_ref().map(|file| env.path(file));
        let mut reload = Reload::new(env, "classes", path.clone(), args.reload_s);
        let listed = args.listed(path.as_deref())?;
        let tallies = Tallies::declare(&listed, path.is_some(), env);
        let set = Set::new(args, &listed, &tallies)?;
        let args = args.clone();
        reload.start(move || Set::new(&args, &args.listed(path.as_deref())?, &tallies))?;
        let mut count = |name: &str, help: &str| env.counter(name, "packets", help);
        Ok(Self {
            set,
            reload,
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

impl Tallies {
    /// `may_change`: other classes may come, and those that are there may drop what they let pass now.
    fn declare(listed: &[Listed], may_change: bool, env: &mut Env<'_>) -> Self {
        let (mut meters, mut shapers) = (HashMap::new(), HashMap::new());
        for Listed { class, .. } in listed {
            if class.shaper.is_some() {
                shapers.insert(class.name.clone(), shaper::Tally::declare(&class.name, env));
            } else {
                let drops = class.asked().map(|action| may_change || action == Action::Drop);
                meters.insert(class.name.clone(), Tally::declare(&class.name, drops, env));
            }
        }
        let later = may_change.then(|| (Tally::declare(LATER, [true; 3], env), shaper::Tally::declare(LATER, env)));
        let per_flow = may_change || listed.iter().any(|c| c.class.per == Per::Flow);
        let flows = per_flow.then(|| flowtable::Counters::declare(env, "flows"));
        Self { meters, shapers, later, flows }
    }

    fn meter(&self, name: &str) -> Option<Tally> {
        self.meters.get(name).copied().or(self.later.map(|(meter, _)| meter))
    }

    fn shaper(&self, name: &str) -> Option<shaper::Tally> {
        self.shapers.get(name).copied().or(self.later.map(|(_, shaper)| shaper))
    }
}

impl Set {
    fn new(args: &Args, listed: &[Listed], tallies: &Tallies) -> Result<Self, Error> {
        let classifier = Classes::new(listed)?.map(|classes| Classifier {
            classes,
            keys4: Vec::with_capacity(MAX_BURST),
            keys6: Vec::with_capacity(MAX_BURST),
            hits: Box::new([0; MAX_BURST]),
        });
        let (mut models, mut shapers, mut classes) = (Vec::new(), Vec::new(), Vec::new());
        for l in listed {
            let c = &l.class;
            let neither = || l.fault(": expected meter or shaper");
            if let Some(shaper) = &c.shaper {
                shapers.push(Shaper::new(shaper, tallies.shaper(&c.name).ok_or_else(neither)?));
                classes.push(Class::new(c, Does::Shape(shapers.len() as u8 - 1), None));
                continue;
            }
            let model = c.meter.as_ref().ok_or_else(neither)?.model();
            // Each by itself, so that the message names the class.
            Meters::new(&[model], 0).map_err(|e| l.fault(&format!(" ('{}').meter: {e}", c.name)))?;
            models.push(model);
            let profile = models.len() as u8 - 1;
            let does = if c.per == Per::Flow { Does::MeterFlow(profile) } else { Does::Meter(profile) };
            classes.push(Class::new(c, does, tallies.meter(&c.name)));
        }
        let per_flow = tallies.flows.filter(|_| classes.iter().any(|c| matches!(c.does, Does::MeterFlow(_))));
        let flows = per_flow.map(|counters| Flows::new(args, listed, models.len(), counters)).transpose()?;
        let meters = new_meters(&models, flows.as_ref())?;
        Ok(Self { classifier, classes, meters, models, shapers, flows, flows_before: Stats::default() })
    }

    /// Takes the place of `old`: meters that stay as they are keep their buckets, and packets that it holds stay held, or
    /// go on where there is no shaper any more. Returns which class of `old` each class goes on from flow by flow.
    pub fn take_over(&mut self, old: &mut Self, ctx: &mut Ctx<'_>) -> Vec<Option<u8>> {
        let flows = (0..self.classes.len()).map(|i| self.go_on(i, old)).collect();
        for class in &old.classes {
            let Does::Shape(i) = class.does else { continue };
            let Some(shaper) = old.shapers.get_mut(usize::from(i)) else { continue };
            let same = self.classes.iter().find(|c| c.name == class.name).map(|c| c.does);
            match same {
                Some(Does::Shape(i)) => {
                    if let Some(new) = self.shapers.get_mut(usize::from(i)) {
                        new.go_on(shaper);
                    }
                }
                _ => shaper.let_go(ctx),
            }
        }
        self.flows_before = old.flows.as_ref().map_or(old.flows_before, Flows::so_far);
        match (&mut self.flows, &old.flows) {
            (Some(new), _) => new.count_on(self.flows_before),
            (None, Some(old)) => old.show_none(ctx),
            (None, None) => {}
        }
        flows
    }

    /// The meter of class `i` goes on from that of `old`, if it is the same. Of meters for flows only their time does, and
    /// the class is returned.
    fn go_on(&mut self, i: usize, old: &Self) -> Option<u8> {
        let class = self.classes.get(i)?;
        let before = old.classes.iter().position(|c| c.name == class.name)?;
        let profiles = match (class.does, old.classes.get(before)?.does) {
            (Does::Meter(new), Does::Meter(old)) | (Does::MeterFlow(new), Does::MeterFlow(old)) => (new, old),
            _ => return None,
        };
        if self.models.get(usize::from(profiles.0)) != old.models.get(usize::from(profiles.1)) {
            return None;
        }
        self.meters.go_on(profiles.0, &old.meters, profiles.1);
        if matches!(class.does, Does::MeterFlow(_)) {
            return Some(before as u8);
        }
        self.meters.take(profiles.0.into(), &old.meters, profiles.1.into());
        None
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

impl Tally {
    /// For a class, or what several count as; `drops` says of which colours packets may be dropped.
    fn declare(name: &str, drops: [bool; 3], env: &mut Env<'_>) -> Self {
        let mut reasons = [None; 3];
        for ((reason, colour), _) in reasons.iter_mut().zip(Colour::ALL).zip(drops).filter(|(_, drops)| *drops) {
            *reason = Some(env.drop_reason(&format!("{name}_{}", colour.name())));
        }
        let mut count = |suffix: &str, unit: &str| {
            let [green, _yellow, _red] = Colour::ALL.map(|colour| {
                let colour = colour.name();
                env.counter(
                    format!("{name}_{colour}{suffix}"),
                    unit,
                    format!("{unit} of class {name} that were {colour}"),
                )
            });
            green
        };
        Self { packets: count("", "packets"), bytes: count("_bytes", "bytes"), reasons }
    }
}

impl Class {
    fn new(c: &ClassArgs, does: Does, tally: Option<Tally>) -> Self {
        let mut before = [Colour::Green; 64];
        if let Some(aware) = &c.aware {
            for (list, colour) in [(&aware.yellow, Colour::Yellow), (&aware.red, Colour::Red)] {
                list.iter().for_each(|d| before[usize::from(d & 63)] = colour);
            }
        }
        let mut acts = [Act::Pass; 3];
        if let Some(tally) = tally {
            for ((act, action), reason) in acts.iter_mut().zip(c.asked()).zip(tally.reasons) {
                *act = match (action, reason) {
                    (Action::Drop, Some(reason)) => Act::Drop(reason),
                    (Action::Dscp(dscp), _) => Act::Mark(dscp),
                    (Action::Pass | Action::Drop, _) => Act::Pass,
                };
            }
        }
        Self { name: c.name.clone(), does, before, acts, tally }
    }
}
