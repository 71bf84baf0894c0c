//! ICMP errors about flows of a service: they go where the flow goes, and speak of the addresses that are known there.

use crate::rewrite::{Side, bytes};
use chainline_packet::checksum::Delta;
use chainline_packet::icmp::{self, Quoted};
use chainline_packet::{Layers, proto};
use std::net::IpAddr;

/// What an ICMP error about TCP or UDP quotes.
pub(crate) fn quoted(data: &[u8], layers: &Layers) -> Option<Quoted> {
    icmp::quoted(data, layers).filter(|q| matches!(q.flow.proto(), proto::TCP | proto::UDP))
}

/// A new address, and a new port unless it is 0, for `inner` of the quoted packet; the same address for `outer` of the
/// error itself, if it is named. All checksums, quoted ones included, are mended.
pub(crate) fn rewrite(
    data: &mut [u8],
    layers: &Layers,
    quoted: &Quoted,
    inner: Side,
    outer: Option<Side>,
    addr: IpAddr,
    port: u16,
) {
    let v6 = layers.tuple.version() == 6;
    let end = usize::from(layers.end);
    let (l3, l4) = (usize::from(layers.l3), usize::from(layers.l4));
    let new = bytes(addr);
    let new = if v6 { &new[..] } else { &new[..4] };
    let at = |l3: usize, side: Side| match (v6, side) {
        (false, Side::Source) => l3 + 12,
        (false, Side::Destination) => l3 + 16,
        (true, Side::Source) => l3 + 8,
        (true, Side::Destination) => l3 + 24,
    };
    let Some(datagram) = data.get_mut(..end) else { return };
    // What changes in the quoted addresses and ports, and in all that the error's checksum covers.
    let (mut inner_ip, mut error) = (Delta::new(), Delta::new());
    inner_ip = change(datagram, at(quoted.l3, inner), new, inner_ip);
    error = error.plus(inner_ip);
    let mut inner_l4 = inner_ip;
    if port != 0 {
        let at = quoted.l4 + if inner == Side::Source { 0 } else { 2 };
        let delta = change(datagram, at, &port.to_be_bytes(), Delta::new());
        inner_l4 = inner_l4.plus(delta);
        error = error.plus(delta);
    }
    if !v6 {
        error = error.plus(mend(datagram, quoted.l3 + 10, |sum| inner_ip.apply(sum)));
    }
    // Not all of layer 4 need be quoted.
    let tcp = quoted.flow.proto() == proto::TCP;
    let (at_sum, apply): (usize, fn(Delta, u16) -> u16) = if tcp { (16, Delta::apply) } else { (6, Delta::apply_udp) };
    error = error.plus(mend(datagram, quoted.l4 + at_sum, |sum| apply(inner_l4, sum)));
    if let Some(side) = outer {
        let delta = change(datagram, at(l3, side), new, Delta::new());
        if v6 {
            // The pseudo-header.
            error = error.plus(delta);
        } else {
            mend(datagram, l3 + 10, |sum| delta.apply(sum));
        }
    }
    mend(datagram, l4 + 2, |sum| error.apply(sum));
}

/// Writes `new` and adds the change to `delta`; without room nothing happens.
fn change(data: &mut [u8], at: usize, new: &[u8], delta: Delta) -> Delta {
    let Some(field) = data.get_mut(at..at + new.len()) else { return delta };
    let delta = delta.bytes(field, new);
    field.copy_from_slice(new);
    delta
}

/// Mends a checksum, and returns what that changed.
fn mend(data: &mut [u8], at: usize, new: impl FnOnce(u16) -> u16) -> Delta {
    let Some(field) = data.get(at..at + 2) else { return Delta::new() };
    let new = new(u16::from_be_bytes([field[0], field[1]]));
    change(data, at, &new.to_be_bytes(), Delta::new())
}
