//! What a frame says of itself, so that whoever gets it back knows which it is and when it should have left.
//!
//! The last 18 bytes of a frame's payload that begin at an even offset, big-endian:
//!
//! ```text
//!  0      1      2       3        6          10         16        18
//!  ├──────┼──────┼───────┼────────┼──────────┼──────────┼─────────┤
//!  │ 0xC7 │ epoch│ stream│ flow   │ sequence │ time, ns │ check   │
//!  └──────┴──────┴───────┴────────┴──────────┴──────────┴─────────┘
//! ```
//!
//! - *epoch*: the trial's number modulo 128, shifted left by one; the lowest bit says that the frame was due in the
//!   measured window, so that no rounding of times puts a frame on the wrong side.
//! - *stream*: which generator. *flow* and *sequence*: the frame's place in its flow, from 0 in each trial.
//! - *time*: when the frame should have left, modulo 2^48 ns (three days), by a clock that both ends share.
//! - *check*: makes the ones' complement sum of the nine words zero (RFC 1071). A workload with [`crate::Spec::stamped`]
//!   has zeros here, so that the checksum of UDP or TCP above the stamp stays right whatever is in it, and needs no
//!   update; and one sum tells a stamp from other bytes.
//!
//! 18 bytes are what an IPv4/UDP frame of 64 bytes has. Where there are fewer, [`crate::Workload::new`] refuses.

/// Length of a stamp in bytes.
pub const STAMP_BYTES: usize = 18;
/// The most flows whose frames can be stamped.
pub const MAX_STAMPED_FLOWS: u32 = 1 << 20;

const MAGIC: u64 = 0xc7;
const FLOW_BITS: u32 = 24;
const TIME_BITS: u32 = 48;
const TIME_MASK: u64 = (1 << TIME_BITS) - 1;

/// Where the stamp of a frame of `len` bytes (without FCS) begins; 0 if the frame is too short for one.
#[inline]
#[must_use]
pub const fn stamp_at(len: usize) -> usize {
    // Words of a checksum begin at even offsets.
    len.saturating_sub(STAMP_BYTES) & !1
}

/// One frame's stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The trial's number modulo 128.
    pub trial: u8,
    /// Whether the frame was due in the trial's window.
    pub in_window: bool,
    /// The generator.
    pub stream: u8,
    /// The flow, below [`MAX_STAMPED_FLOWS`].
    pub flow: u32,
    /// The frame's number in its flow.
    pub sequence: u32,
    /// When it should have left: nanoseconds modulo 2^48.
    pub time_ns: u64,
}

impl Stamp {
    /// Its bytes.
    #[inline]
    #[must_use]
    pub fn bytes(&self) -> [u8; STAMP_BYTES] {
        let epoch = u64::from(self.trial & 0x7f) << 1 | u64::from(self.in_window);
        let flow = u64::from(self.flow) & ((1 << FLOW_BITS) - 1);
        let sequence = u64::from(self.sequence);
        let first = MAGIC << 56 | epoch << 48 | u64::from(self.stream) << 40 | flow << 16 | sequence >> 16;
        let second = sequence << TIME_BITS | self.time_ns & TIME_MASK;
        let mut bytes = [0; STAMP_BYTES];
        bytes[..8].copy_from_slice(&first.to_be_bytes());
        bytes[8..16].copy_from_slice(&second.to_be_bytes());
        bytes[16..].copy_from_slice(&(!sum(first, second)).to_be_bytes());
        bytes
    }

    /// The stamp at the end of a frame (without FCS); none if there is none, or a damaged one.
    #[inline]
    #[must_use]
    pub fn of(frame: &[u8]) -> Option<Self> {
        let bytes: &[u8; STAMP_BYTES] = frame.get(stamp_at(frame.len())..)?.first_chunk()?;
        let word = |at: usize| bytes[at..at + 8].first_chunk().map_or(0, |b| u64::from_be_bytes(*b));
        let (first, second) = (word(0), word(8));
        let check = u16::from_be_bytes([bytes[16], bytes[17]]);
        // The sum of nothing but zeros and of nothing but ones is zero as well, but the first byte is neither.
        if first >> 56 != MAGIC || sum(first, second) != !check {
            return None;
        }
        let epoch = (first >> 48) as u8;
        Some(Self {
            trial: epoch >> 1,
            in_window: epoch & 1 == 1,
            stream: (first >> 40) as u8,
            flow: (first >> 16) as u32 & ((1 << FLOW_BITS) - 1),
            sequence: (first as u32 & 0xffff) << 16 | (second >> TIME_BITS) as u32,
            time_ns: second & TIME_MASK,
        })
    }

    /// Nanoseconds from [`Stamp::time_ns`] to `now_ns`; 0 if that is still to come.
    #[inline]
    #[must_use]
    pub const fn age_ns(&self, now_ns: u64) -> u64 {
        let age = now_ns.wrapping_sub(self.time_ns) & TIME_MASK;
        // More than half way round the clock is a time to come.
        if age >> (TIME_BITS - 1) == 0 { age } else { 0 }
    }
}

/// The ones' complement sum of eight words. It is not 0, since the first one is not.
#[inline]
const fn sum(first: u64, second: u64) -> u16 {
    let sum = (first >> 32) + (first & 0xffff_ffff) + (second >> 32) + (second & 0xffff_ffff);
    let sum = (sum & 0xffff) + (sum >> 16 & 0xffff) + (sum >> 32);
    let sum = (sum & 0xffff) + (sum >> 16);
    ((sum & 0xffff) + (sum >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_stamp() -> impl Strategy<Value = Stamp> {
        (0_u8..128, any::<bool>(), any::<u8>(), 0..MAX_STAMPED_FLOWS, any::<u32>(), 0..=TIME_MASK).prop_map(
            |(trial, in_window, stream, flow, sequence, time_ns)| Stamp {
                trial,
                in_window,
                stream,
                flow,
                sequence,
                time_ns,
            },
        )
    }

    proptest! {
        #[test]
        fn what_was_stamped_is_read(stamp in any_stamp(), len in STAMP_BYTES..1600) {
            let mut frame = vec![0xee; len];
            frame[stamp_at(len)..][..STAMP_BYTES].copy_from_slice(&stamp.bytes());
            prop_assert_eq!(Stamp::of(&frame), Some(stamp));
        }

        #[test]
        fn a_stamp_adds_nothing_to_a_checksum(stamp in any_stamp()) {
            let words: u32 = stamp.bytes().chunks(2).map(|w| u32::from(w[0]) << 8 | u32::from(w[1])).sum();
            prop_assert_eq!(words % 0xffff, 0);
        }

        #[test]
        fn one_damaged_byte_is_noticed(stamp in any_stamp(), at in 0..STAMP_BYTES, flip in 1_u8..=255) {
            let mut frame = [0; 60];
            frame[42..].copy_from_slice(&stamp.bytes());
            frame[42 + at] ^= flip;
            prop_assert_eq!(Stamp::of(&frame), None);
        }

        #[test]
        fn any_bytes_can_be_looked_at(frame in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = Stamp::of(&frame);
        }
    }

    #[test]
    fn a_layout_for_other_programs() {
        let stamp = Stamp {
            trial: 3,
            in_window: true,
            stream: 2,
            flow: 0x1_2345,
            sequence: 0xa1b2_c3d4,
            time_ns: 0x0102_0304_0506,
        };
        let bytes = stamp.bytes();
        assert_eq!(bytes[..16], [0xc7, 7, 2, 1, 0x23, 0x45, 0xa1, 0xb2, 0xc3, 0xd4, 1, 2, 3, 4, 5, 6]);
        assert_eq!(stamp_at(60), 42, "behind the UDP header of the shortest frame");
        assert_eq!((stamp_at(61), stamp_at(1514), stamp_at(10)), (42, 1496, 0));
        assert_eq!(Stamp::of(&[0; 60]), None);
        assert_eq!(Stamp::of(&[0xff; 60]), None);
    }

    #[test]
    fn ages_go_round_the_clock() {
        let stamp = |time_ns| Stamp { trial: 0, in_window: true, stream: 0, flow: 0, sequence: 0, time_ns };
        assert_eq!(stamp(5).age_ns(12), 7);
        assert_eq!(stamp(TIME_MASK).age_ns((1 << TIME_BITS) + 1), 2);
        assert_eq!(stamp(12).age_ns(5), 0, "a time to come");
    }
}
