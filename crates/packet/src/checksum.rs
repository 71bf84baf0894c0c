//! The Internet checksum: RFC 1071 in full, RFC 1624 (equation 3) incrementally.

use crate::bytes::part;

/// A ones' complement sum that is being built.
///
/// ```
/// use chainline_packet::checksum::Sum;
/// assert_eq!(Sum::new().bytes(&[0x45, 0x00, 0x00, 0x14]).checksum(), 0xbaeb);
/// ```
// Kept in the memory's byte order, which RFC 1071 §2(B) allows, and turned once at the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum(u64);

impl Sum {
    /// Zero.
    #[inline]
    #[must_use]
    pub const fn new() -> Self {
        Self(0)
    }

    /// Adds bytes; an odd last one is padded with zero, so only the last piece may be odd. At most 16 GiB in all.
    #[inline]
    #[must_use]
    pub fn bytes(self, data: &[u8]) -> Self {
        let mut sum = self.0;
        // Eight bytes at a time, as two 32-bit halves that cannot overflow 64 bits: this becomes SIMD.
        let mut chunks = data.chunks_exact(8);
        for chunk in &mut chunks {
            let word = u64::from_ne_bytes(part(chunk, 0));
            sum += (word & 0xffff_ffff) + (word >> 32);
        }
        let rest = chunks.remainder();
        if !rest.is_empty() {
            let mut last = [0; 8];
            last[..rest.len()].copy_from_slice(rest);
            let word = u64::from_ne_bytes(last);
            sum += (word & 0xffff_ffff) + (word >> 32);
        }
        Self(sum)
    }

    /// Adds a 16-bit number.
    #[inline]
    #[must_use]
    pub const fn word(self, word: u16) -> Self {
        Self(self.0 + word.to_be() as u64)
    }

    /// The sum folded to 16 bits: 0xffff over data that carry a right checksum.
    #[inline]
    #[must_use]
    pub const fn fold(self) -> u16 {
        let s = (self.0 & 0xffff_ffff) + (self.0 >> 32);
        let s = (s & 0xffff) + (s >> 16 & 0xffff) + (s >> 32);
        let s = (s & 0xffff) + (s >> 16);
        let s = (s & 0xffff) + (s >> 16);
        u16::from_be(s as u16)
    }

    /// The checksum: the complement of the sum.
    #[inline]
    #[must_use]
    pub const fn checksum(self) -> u16 {
        !self.fold()
    }
}

/// The checksum of `data`, with its checksum field at zero; 0 over data that carry a right checksum.
#[inline]
#[must_use]
pub fn checksum(data: &[u8]) -> u16 {
    Sum::new().bytes(data).checksum()
}

/// Whether an IPv4 header without options carries a right checksum.
#[inline]
#[must_use]
pub fn ipv4_header_ok(header: &[u8; 20]) -> bool {
    let (a, b) = (u64::from_ne_bytes(part(header, 0)), u64::from_ne_bytes(part(header, 8)));
    let c = u32::from_ne_bytes(part(header, 16));
    let sum = (a & 0xffff_ffff) + (a >> 32) + (b & 0xffff_ffff) + (b >> 32) + u64::from(c);
    Sum(sum).fold() == 0xffff
}

/// The sum of an IPv4 pseudo-header (RFC 768, RFC 9293 §3.1); add the layer-4 bytes, `len` of them.
#[inline]
#[must_use]
pub fn pseudo_ipv4(src: [u8; 4], dst: [u8; 4], proto: u8, len: u16) -> Sum {
    Sum::new().bytes(&src).bytes(&dst).word(u16::from(proto)).word(len)
}

/// The sum of an IPv6 pseudo-header (RFC 8200 §8.1); `dst` is the final destination.
#[inline]
#[must_use]
pub fn pseudo_ipv6(src: &[u8; 16], dst: &[u8; 16], proto: u8, len: u32) -> Sum {
    Sum::new().bytes(src).bytes(dst).word((len >> 16) as u16).word(len as u16).word(u16::from(proto))
}

/// The checksum after a 16-bit word at an even offset changed from `old` to `new`: RFC 1624, equation 3.
///
/// ```
/// // The example of RFC 1624 §4.
/// assert_eq!(chainline_packet::checksum::update(0xdd2f, 0x5555, 0x3285), 0x0000);
/// ```
#[inline]
#[must_use]
pub const fn update(checksum: u16, old: u16, new: u16) -> u16 {
    let sum = !checksum as u32 + !old as u32 + new as u32;
    let sum = (sum & 0xffff) + (sum >> 16);
    !((sum & 0xffff) + (sum >> 16)) as u16
}

/// [`update`] for 32 bits, such as an IPv4 address.
#[inline]
#[must_use]
pub const fn update32(checksum: u16, old: u32, new: u32) -> u16 {
    update(update(checksum, (old >> 16) as u16, (new >> 16) as u16), old as u16, new as u16)
}

/// What changing some 16-bit words does to every checksum over them: [`update`] for many words, or many packets, at once.
///
/// ```
/// use chainline_packet::checksum::{Delta, update32};
/// let delta = Delta::new().bytes(&[192, 0, 2, 1], &[10, 0, 0, 7]);
/// assert_eq!(delta.apply(0x1234), update32(0x1234, 0xc000_0201, 0x0a00_0007));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delta(u32);

impl Delta {
    /// No change.
    #[inline]
    #[must_use]
    pub const fn new() -> Self {
        Self(0)
    }

    /// A word changed from `old` to `new`.
    #[inline]
    #[must_use]
    pub const fn word(self, old: u16, new: u16) -> Self {
        let sum = self.0 + !old as u32 + new as u32;
        Self((sum & 0xffff) + (sum >> 16))
    }

    /// Bytes at an even offset changed; an odd last one, and what one slice has more than the other, is left out.
    #[must_use]
    pub fn bytes(self, old: &[u8], new: &[u8]) -> Self {
        let pairs = old.chunks_exact(2).zip(new.chunks_exact(2));
        pairs.fold(self, |d, (o, n)| d.word(u16::from_be_bytes([o[0], o[1]]), u16::from_be_bytes([n[0], n[1]])))
    }

    /// Both changes.
    #[inline]
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        let sum = self.0 + other.0;
        Self((sum & 0xffff) + (sum >> 16))
    }

    /// The change undone.
    #[must_use]
    pub const fn reversed(self) -> Self {
        let sum = (self.0 & 0xffff) + (self.0 >> 16);
        let sum = (sum & 0xffff) + (sum >> 16);
        Self(!(sum as u16) as u32)
    }

    /// The checksum after the change (RFC 1624, equation 3).
    #[inline]
    #[must_use]
    pub const fn apply(self, checksum: u16) -> u16 {
        let sum = !checksum as u32 + self.0;
        let sum = (sum & 0xffff) + (sum >> 16);
        !((sum & 0xffff) + (sum >> 16)) as u16
    }

    /// The same for UDP, where 0 means "no checksum" and stays, and a checksum that comes to 0 is written as 0xffff
    /// (RFC 768).
    #[inline]
    #[must_use]
    pub const fn apply_udp(self, checksum: u16) -> u16 {
        if checksum == 0 {
            return 0;
        }
        match self.apply(checksum) {
            0 => 0xffff,
            sum => sum,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// RFC 1071 §4.1, a word at a time.
    fn slow(data: &[u8]) -> u16 {
        let mut sum = 0u64;
        for pair in data.chunks(2) {
            sum += u64::from(pair[0]) << 8 | pair.get(1).map_or(0, |&b| u64::from(b));
        }
        while sum >> 16 != 0 {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        !(sum as u16)
    }

    #[test]
    fn all_ones_do_not_overflow() {
        assert_eq!(checksum(&[0xff; 65535]), slow(&[0xff; 65535]));
        assert_eq!(checksum(&[]), 0xffff);
    }

    proptest! {
        #[test]
        fn equals_the_slow_sum(data in proptest::collection::vec(any::<u8>(), 0..600)) {
            prop_assert_eq!(checksum(&data), slow(&data));
        }

        #[test]
        fn update_equals_a_new_sum(mut data in proptest::collection::vec(any::<u8>(), 4..64), at: usize, new: u16) {
            let at = at % (data.len() / 2) * 2;
            let old = u16::from_be_bytes([data[at], data[at + 1]]);
            let before = checksum(&data);
            data[at..at + 2].copy_from_slice(&new.to_be_bytes());
            // 0x0000 and 0xffff are the same number in ones' complement; only data that are all zero sum to 0.
            let fresh = checksum(&data);
            let updated = update(before, old, new);
            prop_assert!(updated == fresh || data.iter().all(|&b| b == 0), "{updated:04x} {fresh:04x}");
        }

        #[test]
        fn a_delta_equals_a_new_sum(mut data in proptest::collection::vec(1u8.., 40..60), new: [u8; 16], udp: bool) {
            let before = checksum(&data);
            let old = data[8..24].to_vec();
            let delta = Delta::new().bytes(&old, &new);
            data[8..24].copy_from_slice(&new);
            let fresh = checksum(&data);
            let halves = Delta::new().bytes(&old[..8], &new[..8]).plus(Delta::new().bytes(&old[8..], &new[8..]));
            prop_assert_eq!(halves.apply(before), delta.apply(before));
            if udp {
                let written = if before == 0 { 0xffff } else { before };
                prop_assert_eq!(delta.apply_udp(written), if fresh == 0 { 0xffff } else { fresh });
                prop_assert_eq!(delta.apply_udp(0), 0);
            } else {
                prop_assert_eq!(delta.apply(before), fresh);
            }
            // 0xffff instead of 0 is the same number; checksums over data that are not zero never have it.
            prop_assert_eq!(delta.reversed().apply(fresh) % 0xffff, before % 0xffff);
        }

        #[test]
        fn twenty_bytes_are_verified_as_the_slow_sum_says(mut header: [u8; 20], right: bool) {
            if right {
                header[10..12].fill(0);
                let sum = slow(&header);
                header[10..12].copy_from_slice(&sum.to_be_bytes());
            }
            prop_assert_eq!(ipv4_header_ok(&header), slow(&header) == 0);
        }
    }
}
