//! What a flow has been through, and how long it may be silent then: RFC 4787 §4.3, RFC 5382 §5, RFC 7857 §2.

use chainline_flowtable::Class;

/// TCP's flags.
pub(crate) const FIN: u8 = 1;
pub(crate) const SYN: u8 = 2;
pub(crate) const RST: u8 = 4;
pub(crate) const ACK: u8 = 16;

/// Classes of flows, see [`crate::config::Timeouts`].
pub(crate) const TCP_TRANSITORY: Class = Class(0);
pub(crate) const TCP_ESTABLISHED: Class = Class(1);
pub(crate) const TCP_UNANSWERED: Class = Class(2);
pub(crate) const UDP_UNANSWERED: Class = Class(3);
pub(crate) const UDP: Class = Class(4);
pub(crate) const ICMP: Class = Class(5);

/// What was seen: bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen(u8);

/// From inside; shifted by one, from outside.
const SYN_OUT: u8 = 1;
const SYN_IN: u8 = 2;
const FIN_OUT: u8 = 4;
const FIN_IN: u8 = 8;
/// After both SYNs.
const RESET: u8 = 16;
/// The connection was there before this NAT saw it, so there will be no SYNs.
const LATE: u8 = 32;

/// Where a packet comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Inside,
    Outside,
}

impl Seen {
    /// A flow's first packet.
    pub fn first(tcp: bool, flags: u8, from: Origin) -> Self {
        let seen = Self(if tcp && flags & SYN == 0 { LATE } else { 0 });
        seen.next(tcp, flags, from)
    }

    /// After a packet. Of TCP, `flags`; of others, that there was one.
    #[inline]
    pub fn next(self, tcp: bool, flags: u8, from: Origin) -> Self {
        let shift = u8::from(from == Origin::Outside);
        let mut seen = self.0;
        if !tcp {
            return Self(seen | SYN_OUT << shift);
        }
        const BOTH: u8 = SYN_OUT | SYN_IN;
        if flags & (SYN | FIN | RST) == 0 && seen & (BOTH | RESET) == BOTH {
            return self;
        }
        if flags & RST != 0 {
            return Self(seen | RESET);
        }
        if flags & SYN != 0 {
            // After its end the same endpoints may connect anew (RFC 9293 §3.6.1).
            if seen & RESET != 0 || seen & (FIN_OUT | FIN_IN) == FIN_OUT | FIN_IN {
                seen = 0;
            }
            seen |= SYN_OUT << shift;
        } else if seen & LATE != 0 {
            seen |= SYN_OUT << shift;
        }
        if flags & FIN != 0 {
            seen |= FIN_OUT << shift;
        }
        // A RST that the ends did not believe (RFC 7857 §2.2).
        Self(seen & !RESET)
    }

    /// How long the flow may be silent; `begun` is who sent its first packet.
    pub fn class(self, tcp: bool, begun: Origin) -> Class {
        let answered = self.0 & (SYN_OUT | SYN_IN) == SYN_OUT | SYN_IN;
        match (tcp, answered) {
            (false, false) => UDP_UNANSWERED,
            (false, true) => UDP,
            (true, true) if self.0 & RESET == 0 && self.0 & (FIN_OUT | FIN_IN) != FIN_OUT | FIN_IN => TCP_ESTABLISHED,
            (true, false) if begun == Origin::Outside && self.0 & RESET == 0 => TCP_UNANSWERED,
            (true, _) => TCP_TRANSITORY,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn classes(packets: &[(Origin, u8)]) -> Vec<Class> {
        let begun = packets[0].0;
        let mut seen = Seen::first(true, packets[0].1, begun);
        let mut classes = vec![seen.class(true, begun)];
        for (from, flags) in &packets[1..] {
            seen = seen.next(true, *flags, *from);
            classes.push(seen.class(true, begun));
        }
        classes
    }

    #[test]
    fn a_connection_opens_and_closes() {
        use Origin::{Inside, Outside};
        let (t, e, u) = (TCP_TRANSITORY, TCP_ESTABLISHED, TCP_UNANSWERED);
        let open = [(Inside, SYN), (Outside, SYN | ACK), (Inside, ACK)];
        assert_eq!(classes(&open), [t, e, e]);
        // Half-closed is as open; after both FINs it is over; the same endpoints may begin again.
        let close = [(Inside, FIN | ACK), (Outside, ACK), (Outside, FIN | ACK), (Inside, ACK), (Inside, SYN)];
        assert_eq!(classes(&[&open[..], &close].concat()), [t, e, e, e, e, t, t, t]);
        // From outside; both at once (RFC 5382 §4.1).
        assert_eq!(classes(&[(Outside, SYN), (Outside, SYN), (Inside, SYN | ACK)]), [u, u, e]);
        assert_eq!(classes(&[(Inside, SYN), (Outside, SYN), (Inside, SYN | ACK)]), [t, e, e]);
        // A RST is not believed at once: whoever goes on keeps the flow (RFC 7857 §2.2).
        assert_eq!(classes(&[&open[..], &[(Outside, RST), (Inside, ACK)]].concat()), [t, e, e, t, e]);
        assert_eq!(classes(&[(Inside, SYN), (Outside, RST | ACK), (Inside, SYN)]), [t, t, t]);
        // What was there before: established when both have sent.
        assert_eq!(classes(&[(Inside, ACK), (Inside, ACK), (Outside, ACK)]), [t, t, e]);
        // No answer from inside, no long life.
        assert_eq!(classes(&[(Inside, SYN), (Outside, ACK)]), [t, t]);
    }

    #[test]
    fn datagrams_are_answered_or_not() {
        let seen = Seen::first(false, 0, Origin::Inside);
        assert_eq!(seen.class(false, Origin::Inside), UDP_UNANSWERED);
        assert_eq!(seen.next(false, 0, Origin::Inside).class(false, Origin::Inside), UDP_UNANSWERED);
        assert_eq!(seen.next(false, 0, Origin::Outside).class(false, Origin::Inside), UDP);
    }
}
