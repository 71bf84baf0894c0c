//! What an NF decides about a packet.

/// A drop reason that the NF declared with [`crate::Env::drop_reason`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Reason(pub(crate) u8);

/// A place outside the chain that the chain file lets this NF send packets to (`divert: [scrub, out2]`),
/// found by name with [`crate::Env::target`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Target(pub(crate) u8);

/// The decision about one packet, in 32 bits: kind in the upper eight, argument in the lower 24.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Verdict(u32);

const KIND_SHIFT: u32 = 24;
const ARG_MASK: u32 = (1 << KIND_SHIFT) - 1;

impl Verdict {
    /// On to the next NF of the chain, or out of its port: what a packet gets unless the NF says otherwise.
    pub const NEXT: Self = Self(0);

    /// Ends here, counted under `reason`.
    #[must_use]
    pub const fn drop(reason: Reason) -> Self {
        Self(1 << KIND_SHIFT | reason.0 as u32)
    }

    /// Leaves this chain for another chain, NF or port.
    #[must_use]
    pub const fn divert(target: Target) -> Self {
        Self(2 << KIND_SHIFT | target.0 as u32)
    }

    /// Stays with the NF under an id from [`crate::Ctx::hold`] until [`crate::Ctx::release`].
    #[must_use]
    pub const fn hold(id: crate::HoldId) -> Self {
        Self(3 << KIND_SHIFT | id.0 & ARG_MASK)
    }

    /// The 32 bits, as the C ABI carries them.
    #[must_use]
    pub const fn to_bits(self) -> u32 {
        self.0
    }

    /// From 32 bits that somebody else wrote. Every value is taken; [`Verdict::decode`] sorts out the strange ones.
    #[must_use]
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// The verdict as the host acts on it. `None`: no verdict that this version knows.
    #[must_use]
    pub const fn decode(self) -> Option<Decoded> {
        let arg = self.0 & ARG_MASK;
        match self.0 >> KIND_SHIFT {
            0 if arg == 0 => Some(Decoded::Next),
            1 if arg <= u8::MAX as u32 => Some(Decoded::Drop(arg as u8)),
            2 if arg <= u8::MAX as u32 => Some(Decoded::Divert(arg as u8)),
            3 => Some(Decoded::Hold(arg)),
            _ => None,
        }
    }
}

/// A [`Verdict`] taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decoded {
    /// To the next hop.
    Next,
    /// Dropped; the index of the reason in the order of declaration.
    Drop(u8),
    /// Diverted; the index of the target in the chain file's list.
    Divert(u8),
    /// Held under this id.
    Hold(u32),
}

impl std::fmt::Debug for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.decode() {
            Some(d) => d.fmt(f),
            None => write!(f, "Verdict({:#x})", self.0),
        }
    }
}
