//! What a connection has been through, and what its next packet may be. Pure: no tables, no time.
//!
//! TCP by RFC 9293 §3.3.2 as somebody between the ends sees it: by flags and direction alone. Sequence numbers are not
//! looked at.

use chainline_flowtable::Class;
use chainline_packet::l4::flags::{ACK, FIN, RST, SYN};

/// Who sends: whoever began the connection, or who answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Sender {
    #[default]
    Origin,
    Peer,
}

/// What a packet is for its connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Kind {
    Syn,
    SynAck,
    Ack,
    Fin,
    Rst,
    /// TCP flags that no sane sender sets together, or none at all.
    Odd,
    #[default]
    Datagram,
    Request,
    Reply,
    /// Of a protocol without ports.
    Other,
}

/// A connection. Of TCP, `FinWait` and what follows say who closed first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum State {
    #[default]
    SynSent,
    /// Both ends sent a SYN.
    SynSentBoth,
    SynReceived,
    Established,
    FinWait(Sender),
    CloseWait(Sender),
    LastAck(Sender),
    TimeWait,
    /// After a RST.
    Closed,
    Unanswered,
    Answered,
    Echo,
    Other,
}

/// What a packet does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// It passes, and the connection is in this state from here on; its time-out begins anew.
    To(State),
    /// It passes and changes nothing, not even how long the connection may be silent.
    Ignore,
    /// It does not fit.
    Invalid,
    /// It passes, and there is no connection any more.
    End,
    /// The connection is over, and this may begin the next one between the same ends.
    Anew,
}

/// As many classes as there are time-outs, in the order of [`crate::stateful::Timeouts::ms`].
pub(crate) const CLASSES: usize = 12;

impl Kind {
    /// By a TCP header's flags. PSH, URG, ECE and CWR say nothing about the state.
    #[inline]
    pub fn of_tcp(flags: u8) -> Self {
        const SYN_ACK: u8 = SYN | ACK;
        const FIN_ACK: u8 = FIN | ACK;
        const RST_ACK: u8 = RST | ACK;
        match flags & (FIN | SYN | RST | ACK) {
            ACK => Self::Ack,
            SYN => Self::Syn,
            SYN_ACK => Self::SynAck,
            FIN_ACK => Self::Fin,
            RST | RST_ACK => Self::Rst,
            _ => Self::Odd,
        }
    }
}

impl State {
    /// The state of a connection that begins with such a packet; `None` if none can. `midstream`: TCP that was there
    /// before is picked up.
    pub fn first(kind: Kind, midstream: bool) -> Option<Self> {
        match kind {
            Kind::Syn => Some(Self::SynSent),
            Kind::Ack if midstream => Some(Self::Established),
            Kind::Fin if midstream => Some(Self::FinWait(Sender::Origin)),
            Kind::Datagram => Some(Self::Unanswered),
            Kind::Request => Some(Self::Echo),
            Kind::Other => Some(Self::Other),
            Kind::SynAck | Kind::Ack | Kind::Fin | Kind::Rst | Kind::Odd | Kind::Reply => None,
        }
    }

    /// Which time-out it has.
    #[inline]
    pub fn class(self) -> Class {
        Class(match self {
            Self::SynSent | Self::SynSentBoth => 0,
            Self::SynReceived => 1,
            Self::Established => 2,
            Self::FinWait(_) => 3,
            Self::CloseWait(_) => 4,
            Self::LastAck(_) => 5,
            Self::TimeWait => 6,
            Self::Closed => 7,
            Self::Unanswered => 8,
            Self::Answered => 9,
            Self::Echo => 10,
            Self::Other => 11,
        })
    }

    /// What a packet of the connection does.
    #[inline]
    pub fn next(self, from: Sender, kind: Kind) -> Step {
        match (self, kind) {
            // Most packets.
            (Self::Established, Kind::Ack) | (Self::Answered, _) => Step::To(self),
            (Self::Unanswered, _) => Step::To(if from == Sender::Peer { Self::Answered } else { self }),
            (Self::Echo | Self::Other, _) => Step::To(self),
            _ => self.next_tcp(from, kind),
        }
    }

    fn next_tcp(self, from: Sender, kind: Kind) -> Step {
        use Sender::{Origin, Peer};
        use State::*;
        match (kind, self, from) {
            (Kind::Rst, SynSent, _) => Step::End,
            (Kind::Rst, ..) => Step::To(Closed),

            (Kind::Syn, TimeWait | Closed, _) => Step::Anew,
            (Kind::Syn, SynSent, Origin) => Step::To(SynSent),
            (Kind::Syn, SynSent | SynSentBoth, _) => Step::To(SynSentBoth),
            // Sent again, or by somebody who lost his memory: the peer's answer to it is an ACK, and the answer to that
            // a RST (RFC 9293 §3.5.1), so it must get there.
            (Kind::Syn, _, Origin) => Step::Ignore,

            (Kind::SynAck, SynSent, Peer) | (Kind::SynAck, SynSentBoth, _) => Step::To(SynReceived),
            (Kind::SynAck, SynReceived, _) => Step::To(SynReceived),
            // Sent again because the ACK to it was lost.
            (Kind::SynAck, Established | FinWait(_) | CloseWait(_) | LastAck(_) | TimeWait | Closed, Peer) => {
                Step::Ignore
            }

            // The peer still has an old connection: see above.
            (Kind::Ack, SynSent, Peer) => Step::Ignore,
            (Kind::Ack, SynReceived, Origin) => Step::To(Established),
            (Kind::Ack, FinWait(closer), _) if from != closer => Step::To(CloseWait(closer)),
            (Kind::Ack, LastAck(closer), _) if from == closer => Step::To(TimeWait),
            (Kind::Ack, SynReceived | FinWait(_) | CloseWait(_) | LastAck(_) | TimeWait | Closed, _) => Step::To(self),

            (Kind::Fin, SynReceived | Established, _) => Step::To(FinWait(from)),
            (Kind::Fin, FinWait(closer) | CloseWait(closer), _) if from != closer => Step::To(LastAck(closer)),
            (Kind::Fin, FinWait(_) | CloseWait(_) | LastAck(_) | TimeWait | Closed, _) => Step::To(self),

            _ => Step::Invalid,
        }
    }
}
