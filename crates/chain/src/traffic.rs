//! A generator of the chain file as a workload.
//!
//! Pure: what the file only names (distributions, histograms, captures) is read by the caller and handed in.

use crate::model::{self, FlowPackets, Generator, Mix, Rate};
use chainline_workload::{
    Arrivals, GenomeError, Hosts, Lengths, MixError, Order, Prefix, Proto, Schedule, ScheduleError, Space, Spec,
    WorkingSet,
};

/// Bytes that a frame takes on the wire besides itself with its FCS: preamble, start delimiter, gap (IEEE 802.3).
const WIRE_OVERHEAD: f64 = 20.0;

/// Why there is no such traffic.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum TrafficError {
    /// Flows, addresses, sizes.
    #[error("{0}")]
    Workload(#[from] chainline_workload::Error),
    /// The mix.
    #[error("{0}")]
    Mix(#[from] MixError),
    /// The genome.
    #[error("{0}")]
    Genome(#[from] GenomeError),
    /// The schedule.
    #[error("{0}")]
    Schedule(#[from] ScheduleError),
}

/// The mix of a genome.
pub(crate) fn genome(genome: &model::Genome) -> Result<chainline_workload::Mix, GenomeError> {
    let custom: Vec<_> = genome.sizes.iter().map(|s| (s.letter, s.frame_bytes)).collect();
    chainline_workload::genome(&genome.genome, &custom)
}

impl Generator {
    /// The frame sizes, unless they stand in another file. 64 bytes when the chain file says nothing.
    ///
    /// # Errors
    /// Sizes or weights that make no mix.
    pub fn own_mix(&self) -> Result<Option<chainline_workload::Mix>, TrafficError> {
        let weighted = |parts: Vec<(u32, u32)>| Ok(Some(chainline_workload::Mix::weighted(&parts)?));
        match &self.mix {
            None => {
                let size = self.frame_bytes.unwrap_or(*model::FRAME_BYTES.start());
                Ok(Some(chainline_workload::Mix::constant(u32::from(size))?))
            }
            Some(Mix::Named(name)) => {
                weighted(name.definition().parts.iter().map(|&(size, weight)| (u32::from(size), weight)).collect())
            }
            Some(Mix::Parts(parts)) => weighted(parts.iter().map(|p| (u32::from(p.frame_bytes), p.weight)).collect()),
            Some(Mix::Genome(letters)) => Ok(Some(genome(letters)?)),
            Some(Mix::File(_) | Mix::Capture(_)) => Ok(None),
        }
    }

    /// The flow lengths, unless they stand in another file.
    #[must_use]
    pub fn own_lengths(&self) -> Option<Lengths> {
        match self.flow_packets {
            Some(FlowPackets::Constant(n)) => Some(Lengths::Constant(n)),
            _ => None,
        }
    }

    /// The workload, with sizes and lengths from wherever they stand.
    #[must_use]
    pub fn workload(&self, mix: chainline_workload::Mix, lengths: Option<Lengths>) -> Spec {
        let prefix = |p: &model::Prefix| Prefix { addr: p.addr, len: p.len };
        let hosts = |h: model::Hosts| Hosts { count: h.count, times: h.times, grouped: h.grouped };
        Spec {
            flows: self.flows,
            lengths,
            space: Space {
                proto: if self.proto == chainline_packet::proto::TCP { Proto::Tcp } else { Proto::Udp },
                src: prefix(&self.src),
                dst: prefix(&self.dst),
                src_ports: self.src_port.first..=self.src_port.last,
                dst_ports: self.dst_port.first..=self.dst_port.last,
                hosts: self.hosts.map(hosts),
            },
            order: match self.order {
                model::Order::RoundRobin => Order::RoundRobin,
                model::Order::Random => Order::Random,
                model::Order::Zipf(exponent) => Order::Zipf(exponent),
                model::Order::Interleave(g) => {
                    // A group within a working set is a group of that set.
                    let all = self.working_set.map_or(self.flows, |set| set.flows_of(self.flows));
                    Order::Interleave { flows: g.flows_of(all), packets: g.packets }
                }
            },
            working_set: self.working_set.map(|g| WorkingSet { flows: g.flows_of(self.flows), packets: g.packets }),
            seed: self.seed,
            vlan: self.vlan.0,
            stamped: self.stamp,
            src_mac: self.src_mac.0.0,
            dst_mac: self.dst_mac.0.0,
            ..Spec::new(mix)
        }
    }

    /// The send times; `None` with `rate: max`. A rate in bits becomes one in packets by the mean frame, in bytes with
    /// FCS, so it holds in the long run.
    ///
    /// # Errors
    /// A rate or a shape that gives none.
    pub fn schedule(&self, mean_frame_bytes: f64) -> Result<Option<Schedule>, TrafficError> {
        let pps = |rate: Rate| match rate {
            Rate::PacketsPerSecond(r) => Some(r),
            Rate::BitsPerSecond(r) => Some(r / (8.0 * (mean_frame_bytes + WIRE_OVERHEAD))),
            Rate::Max | Rate::Recorded => None,
        };
        let Some(rate) = pps(self.rate) else { return Ok(None) };
        let arrivals = match self.schedule {
            model::Schedule::Constant => Arrivals::Constant,
            model::Schedule::Poisson => Arrivals::Poisson,
            model::Schedule::Bursts(b) => Arrivals::Bursts { packets: b.packets, gap_ns: b.gap_us * 1e3 },
            model::Schedule::Ramp(r) => {
                Arrivals::Ramp { from: pps(r.from).unwrap_or(rate) / rate, over_ns: r.over_s * 1e9, again: r.repeat }
            }
        };
        Ok(Some(Schedule::new(arrivals, rate, self.seed)?))
    }
}
