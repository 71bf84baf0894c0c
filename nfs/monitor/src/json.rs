//! Flow records as JSON, one a line.

use crate::records::{End, Flow};
use std::io::{Cursor, Write};
use std::net::{IpAddr, Ipv4Addr};

/// The most bytes of a line.
pub(crate) const LINE_BYTES: usize = 420;

/// What each line begins with.
pub(crate) const START: &str = "{\"src\":\"";

/// A line and its length. `key` is [`chainline_flowtable::v6_key`]'s; times are start and end in milliseconds since 1970.
pub(crate) fn line(key: &[u8; 48], flow: &Flow, times_ms: (u64, u64), end: End) -> ([u8; LINE_BYTES], usize) {
    let address = |at: usize| -> IpAddr {
        let bytes: [u8; 16] = key[at..].first_chunk().copied().unwrap_or_default();
        if key[37] == 4 { Ipv4Addr::new(bytes[0], bytes[1], bytes[2], bytes[3]).into() } else { bytes.into() }
    };
    let port = |at: usize| u16::from_be_bytes([key[at], key[at + 1]]);
    let end = match end {
        End::Idle => "idle",
        End::Active => "active",
        End::Stopped => "stopped",
        End::NoRoom => "no_room",
    };
    let mut out = Cursor::new([0; LINE_BYTES]);
    // The longest line is shorter than the buffer (`tests`), so this cannot fail.
    let _ = writeln!(
        out,
        "{{\"src\":\"{}\",\"src_port\":{},\"dst\":\"{}\",\"dst_port\":{},\"proto\":{},\"packets\":{},\"bytes\":{},\
         \"ip_bytes\":{},\"tcp_flags\":{},\"first_ms\":{},\"last_ms\":{},\"end\":\"{end}\"}}",
        address(0),
        port(32),
        address(16),
        port(34),
        key[36],
        flow.packets,
        flow.frame_bytes,
        flow.ip_bytes,
        flow.tcp_flags,
        times_ms.0,
        times_ms.1,
    );
    let len = out.position() as usize;
    (out.into_inner(), len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_line_fits() {
        let mut key = [0xff; 48];
        key[37] = 6;
        let all = u64::MAX;
        let flow =
            Flow { packets: all, ip_bytes: all, frame_bytes: all, first_ns: all, last_ns: all, tcp_flags: u8::MAX };
        let (line, len) = line(&key, &flow, (all, all), End::Stopped);
        assert!(line[..len].ends_with(b"\"end\":\"stopped\"}\n"), "{len}");
        let value: serde_json::Value = serde_json::from_slice(&line[..len]).unwrap();
        assert_eq!(value["packets"], all);
    }
}
