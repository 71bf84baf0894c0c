//! Which replica of an NF a packet goes to. Whoever hands packets to an NF with replicas asks for each: the manager at a
//! chain's entry, a host behind its NFs.
//!
//! The choice is a function of the packet's bytes as they are then, so all who hand over to the same NF choose alike, now
//! and after a restart, and nothing needs to be remembered or shared. The hash in the descriptor does not serve: it is of
//! the packet as it was received, not behind a NAT, and it says nothing about hosts.

use chainline_packet::{Layers, parse, toeplitz};
use serde::{Deserialize, Serialize};

/// Which packets come to the same replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Dispatch {
    /// Those of a flow.
    Flow,
    /// Those of a connection, both directions.
    Connection,
    /// Those of a source address.
    Host,
    /// None: each comes to the next replica.
    Packet,
}

/// Places of the indirection table, as large cards have it. It evens out to a hundredth for up to five replicas, to a
/// tenth for the most that there may be.
const PLACES: usize = 512;
/// Most replicas.
pub const MAX_REPLICAS: usize = 64;

/// Deals packets out.
#[derive(Clone, Debug)]
pub struct Dealer {
    dispatch: Dispatch,
    replicas: u8,
    /// The replica whose turn it is, with [`Dispatch::Packet`].
    turn: u8,
    /// By the lowest bits of the hash: the replica (RSS calls it the indirection table).
    places: Box<[u8; PLACES]>,
}

impl Dealer {
    /// Among so many replicas, 1 to [`MAX_REPLICAS`]: more or fewer count as these.
    #[must_use]
    pub fn new(dispatch: Dispatch, replicas: usize) -> Self {
        let replicas = replicas.clamp(1, MAX_REPLICAS);
        let places = Box::new(std::array::from_fn(|i| (i % replicas) as u8));
        Self { dispatch, replicas: replicas as u8, turn: 0, places }
    }

    /// The replica for a frame.
    #[inline]
    pub fn pick(&mut self, frame: &[u8]) -> usize {
        if self.dispatch == Dispatch::Packet { self.next() } else { self.of(&parse(frame)) }
    }

    /// The replica for a frame that was parsed already.
    #[inline]
    pub fn pick_parsed(&mut self, layers: &Layers) -> usize {
        if self.dispatch == Dispatch::Packet { self.next() } else { self.of(layers) }
    }

    #[inline]
    fn of(&self, layers: &Layers) -> usize {
        let hash = match self.dispatch {
            Dispatch::Flow => toeplitz::flow(&toeplitz::key(layers)),
            Dispatch::Connection => toeplitz::connection(&toeplitz::key(layers)),
            Dispatch::Host => toeplitz::source_host(&layers.tuple),
            Dispatch::Packet => 0,
        };
        usize::from(self.places[hash as usize % PLACES])
    }

    #[inline]
    fn next(&mut self) -> usize {
        let now = self.turn;
        self.turn = if now + 1 == self.replicas { 0 } else { now + 1 };
        usize::from(now)
    }
}

/// Output queues of the replicas of an NF.
pub(crate) struct Split {
    pub dealer: Dealer,
    /// By replica.
    pub outs: Vec<usize>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use chainline_packet::FiveTuple;
    use proptest::prelude::*;

    const ALL: [Dispatch; 3] = [Dispatch::Flow, Dispatch::Connection, Dispatch::Host];

    fn layers(src: u32, dst: u32, ports: [u16; 2], proto: u8) -> Layers {
        Layers { tuple: FiveTuple::v4(src.into(), dst.into(), ports[0], ports[1], proto), ..Layers::default() }
    }

    proptest! {
        #[test]
        fn a_flow_a_connection_and_a_host_have_one_replica(
            src: u32, dst: u32, other: u32, ports: [u16; 2], others: [u16; 2], proto: u8, n in 1..=MAX_REPLICAS,
        ) {
            let packet = layers(src, dst, ports, proto);
            for dispatch in ALL {
                // Two that know nothing of each other, one of which has seen other packets before.
                let (mut one, mut two) = (Dealer::new(dispatch, n), Dealer::new(dispatch, n));
                two.pick_parsed(&layers(other, dst, others, 17));
                let replica = one.pick_parsed(&packet);
                prop_assert!(replica < n);
                prop_assert_eq!(replica, two.pick_parsed(&packet));
            }
            let same = |dispatch, a: &Layers, b: &Layers| {
                let mut dealer = Dealer::new(dispatch, n);
                dealer.pick_parsed(a) == dealer.pick_parsed(b)
            };
            let back = Layers { tuple: packet.tuple.reversed(), ..packet };
            prop_assert!(same(Dispatch::Connection, &packet, &back));
            prop_assert!(same(Dispatch::Host, &packet, &layers(src, other, others, 17)));
        }

        #[test]
        fn any_bytes_have_a_replica(frame in prop::collection::vec(any::<u8>(), 0..200), n in 1..=MAX_REPLICAS) {
            for dispatch in ALL {
                prop_assert!(Dealer::new(dispatch, n).pick(&frame) < n);
            }
        }
    }

    #[test]
    fn packets_go_round() {
        let mut dealer = Dealer::new(Dispatch::Packet, 3);
        let turns: Vec<usize> = (0..7).map(|_| dealer.pick(&[])).collect();
        assert_eq!(turns, [0, 1, 2, 0, 1, 2, 0]);
    }

    #[test]
    fn every_replica_has_its_part_of_the_places() {
        for n in 1..=MAX_REPLICAS {
            let dealer = Dealer::new(Dispatch::Flow, n);
            let count = |k: usize| dealer.places.iter().filter(|p| usize::from(**p) == k).count();
            assert!((0..n).all(|k| (PLACES / n..=PLACES / n + 1).contains(&count(k))), "{n}");
        }
    }
}
