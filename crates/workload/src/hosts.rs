//! Source hosts, and how many of the flows each has.

use crate::flow::Divisor;
use crate::workload::Error;

/// Source hosts and their load.
///
/// Zheng et al. ("NFV Performance Profiling on Multi-core Servers", §IV-C) compare a *uniform* load, where each host has
/// as many flows, with a *non-uniform* one, where half of the hosts ("elephants") have ten times as many flows as the
/// other half ("mice"); each flow has as many packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hosts {
    /// Source addresses, at least 1.
    pub count: u32,
    /// How many times as many flows the heavier half has; 1 is a uniform load. Of an odd number of hosts the heavier half
    /// is the larger.
    pub times: u32,
    /// Whether flows are numbered host after host, so that an order with good temporal locality of flows has it for
    /// hosts too; otherwise flows that follow each other are of different hosts.
    pub grouped: bool,
}

/// The heaviest load that a host can have against another's.
pub const MAX_TIMES: u32 = 1000;

impl Hosts {
    /// Light and heavy hosts.
    fn halves(self) -> (u32, u32) {
        let light = if self.times > 1 { self.count / 2 } else { self.count };
        (light, self.count - light)
    }

    /// Flows of all hosts for one flow of a light one.
    fn unit(self) -> u64 {
        let (light, heavy) = self.halves();
        u64::from(light) + u64::from(heavy) * u64::from(self.times)
    }

    /// Flows there can be, with so many for each host.
    pub(crate) fn capacity(self, of_one: u128) -> u128 {
        of_one / u128::from(self.times.max(1)) * u128::from(self.unit())
    }

    /// Whether there are so many source addresses.
    pub(crate) fn check(self, addresses: u64) -> Result<(), Error> {
        let fits = self.count > 0 && u64::from(self.count) <= addresses;
        let sound = (1..=MAX_TIMES).contains(&self.times) && self.unit() <= u64::from(u32::MAX);
        if fits && sound { Ok(()) } else { Err(Error::Hosts { hosts: self.count, addresses, times: self.times }) }
    }
}

/// Finds a flow's host.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Placement {
    light: u32,
    times: u32,
    unit: Divisor,
    heavy: Divisor,
    /// With grouped hosts: flows in whole units, and those of a light and of a heavy host among them.
    grouped: Option<(u32, Divisor, Divisor)>,
}

impl Placement {
    /// `flows` over hosts that were checked.
    pub(crate) fn new(hosts: Hosts, flows: u32) -> Self {
        let (light, heavy) = hosts.halves();
        let unit = hosts.unit() as u32;
        let each = flows / unit.max(1);
        let of_heavy = each.saturating_mul(hosts.times);
        Self {
            light,
            times: hosts.times,
            unit: Divisor::new(unit),
            heavy: Divisor::new(heavy),
            grouped: hosts.grouped.then(|| (each * unit, Divisor::new(each), Divisor::new(of_heavy))),
        }
    }

    /// Flow `i`: its host, and the how many-th of that host's flows it is.
    #[inline]
    pub(crate) fn place(&self, i: u32) -> (u32, u32) {
        if let Some((whole, light, heavy)) = self.grouped
            && i < whole
        {
            let lights = self.light * light.n;
            return if i < lights {
                light.divide(i)
            } else {
                let (host, nth) = heavy.divide(i - lights);
                (self.light + host, nth)
            };
        }
        let (unit, place) = self.unit.divide(i);
        if place < self.light {
            (place, unit)
        } else {
            let (turn, host) = self.heavy.divide(place - self.light);
            (self.light + host, unit * self.times + turn)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{HashMap, HashSet};

    #[test]
    fn half_of_the_hosts_have_ten_times_the_flows() {
        for grouped in [false, true] {
            let hosts = Hosts { count: 1000, times: 10, grouped };
            let place = Placement::new(hosts, 55_000);
            let mut flows: HashMap<u32, u32> = HashMap::new();
            (0..55_000).for_each(|i| *flows.entry(place.place(i).0).or_default() += 1);
            assert!((0..500).all(|h| flows[&h] == 10) && (500..1000).all(|h| flows[&h] == 100));
        }
    }

    #[test]
    fn hosts_that_cannot_be_are_refused() {
        let check = |count, times| Hosts { count, times, grouped: false }.check(1000).is_ok();
        assert!(check(1000, 1) && check(1, 1000));
        assert!(!check(0, 1) && !check(1001, 1) && !check(5, 0) && !check(5, 1001));
    }

    proptest! {
        /// Uniform to within one flow, distinct within a host, and grouped ones in a row.
        #[test]
        fn every_flow_has_its_own_place(count in 1_u32..50, times in 1_u32..12, grouped: bool, flows in 1_u32..3000) {
            let hosts = Hosts { count, times, grouped };
            let place = Placement::new(hosts, flows);
            let places: Vec<_> = (0..flows).map(|i| place.place(i)).collect();
            prop_assert_eq!(places.iter().collect::<HashSet<_>>().len(), flows as usize);
            prop_assert!(places.iter().all(|(host, _)| *host < count));
            let of = |h: u32| places.iter().filter(|(host, _)| *host == h).count() as u64;
            let (light, _) = hosts.halves();
            let each = u64::from(flows) / hosts.unit();
            for h in 0..count {
                let share = if h < light { 1 } else { u64::from(times) };
                prop_assert!((each * share..=(each + 1) * share).contains(&of(h)), "host {}: {}", h, of(h));
            }
            let whole = (each * hosts.unit()) as usize;
            if grouped {
                prop_assert!(places[..whole].is_sorted_by_key(|(host, _)| *host));
            }
        }
    }
}
