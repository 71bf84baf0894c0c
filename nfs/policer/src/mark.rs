//! Writing a DSCP (RFC 2474 §3) and nothing else: ECN bits stay (RFC 3168 §5).

use chainline_packet::checksum;

/// The DSCP of the IP header at `l3`; 0 if the frame ends before.
#[inline]
pub(crate) fn dscp(data: &[u8], l3: u16, version: u8) -> u8 {
    let word = first_word(data, l3);
    if version == 4 { word as u8 >> 2 } else { (word >> 6) as u8 & 63 }
}

#[inline]
fn first_word(data: &[u8], l3: u16) -> u16 {
    data.get(usize::from(l3)..).and_then(|d| d.first_chunk()).map_or(0, |b| u16::from_be_bytes(*b))
}

/// Sets the DSCP of the IP header at `l3`, and puts IPv4's header checksum right by what changed (RFC 1624): a wrong one
/// stays wrong. `true` if it was another before.
#[inline]
pub(crate) fn set_dscp(data: &mut [u8], l3: u16, version: u8, dscp: u8) -> bool {
    let old = first_word(data, l3);
    let new = match version {
        4 => old & !0x00fc | u16::from(dscp) << 2,
        _ => old & !0x0fc0 | u16::from(dscp) << 6,
    };
    let Some(head) = data.get_mut(usize::from(l3)..).and_then(|d| d.first_chunk_mut::<20>()) else { return false };
    if old == new {
        return false;
    }
    head[..2].copy_from_slice(&new.to_be_bytes());
    if version == 4 {
        let sum = checksum::update(u16::from_be_bytes([head[10], head[11]]), old, new);
        head[10..12].copy_from_slice(&sum.to_be_bytes());
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn only_the_dscp_changes(mut header in any::<[u8; 40]>(), new in 0u8..64, at in 0usize..20) {
            header[0] = 0x45;
            header[10..12].copy_from_slice(&[0; 2]);
            let sum = checksum::checksum(&header[..20]);
            header[10..12].copy_from_slice(&sum.to_be_bytes());
            let mut v4 = [vec![0; at], header.to_vec()].concat();
            let (old, mut expected) = (dscp(&v4, at as u16, 4), v4.clone());
            expected[at + 1] = expected[at + 1] & 3 | new << 2;
            prop_assert_eq!(set_dscp(&mut v4, at as u16, 4, new), old != new);
            prop_assert_eq!(dscp(&v4, at as u16, 4), new);
            prop_assert_eq!(checksum::checksum(&v4[at..at + 20]), 0);
            expected[at + 10..at + 12].copy_from_slice(&v4[at + 10..at + 12]);
            prop_assert_eq!(&v4, &expected);
            header[0] = 0x60 | header[0] & 15;
            let mut v6 = header.to_vec();
            let class = chainline_packet::ipv6::Ipv6::new(&v6).unwrap().traffic_class();
            set_dscp(&mut v6, 0, 6, new);
            let after = chainline_packet::ipv6::Ipv6::new(&v6).unwrap();
            prop_assert_eq!(after.traffic_class(), class & 3 | new << 2);
            prop_assert_eq!(&v6[2..], &header[2..]);
            prop_assert_eq!((v6[0] >> 4, v6[1] & 15), (6, header[1] & 15));
        }
    }

    #[test]
    fn short_frames_stay() {
        let mut data = [0x45, 0, 0];
        assert_eq!((dscp(&data, 2, 4), set_dscp(&mut data, 0, 4, 9), set_dscp(&mut data, 60, 6, 9)), (0, false, false));
    }
}
