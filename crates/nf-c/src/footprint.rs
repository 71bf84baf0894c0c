//! Footprints across the C ABI, both ways.

use crate::abi;
use chainline_nf::{Field, Footprint, Scope};
use std::ffi::CString;

/// The bits of fields.
const FIELDS: [(u64, Field); 20] = [
    (abi::FIELD_ETHERNET_SOURCE, Field::EthernetSource),
    (abi::FIELD_ETHERNET_DESTINATION, Field::EthernetDestination),
    (abi::FIELD_ETHER_TYPE, Field::EtherType),
    (abi::FIELD_IP_SOURCE, Field::IpSource),
    (abi::FIELD_IP_DESTINATION, Field::IpDestination),
    (abi::FIELD_PROTOCOL, Field::Protocol),
    (abi::FIELD_TRAFFIC_CLASS, Field::TrafficClass),
    (abi::FIELD_TTL, Field::Ttl),
    (abi::FIELD_IP_LENGTH, Field::IpLength),
    (abi::FIELD_FRAGMENT, Field::Fragment),
    (abi::FIELD_IP_CHECKSUM, Field::IpChecksum),
    (abi::FIELD_SOURCE_PORT, Field::SourcePort),
    (abi::FIELD_DESTINATION_PORT, Field::DestinationPort),
    (abi::FIELD_TCP_FLAGS, Field::TcpFlags),
    (abi::FIELD_L4_CHECKSUM, Field::L4Checksum),
    (abi::FIELD_ICMP_TYPE, Field::IcmpType),
    (abi::FIELD_ICMP_IDENTIFIER, Field::IcmpIdentifier),
    (abi::FIELD_ICMP_QUOTE, Field::IcmpQuote),
    (abi::FIELD_FRAME, Field::Frame),
    (abi::FIELD_FRAME_LENGTH, Field::FrameLength),
];

/// The numbers of scopes.
const SCOPES: [(u32, Scope); 7] = [
    (abi::SCOPE_FLOW, Scope::Flow),
    (abi::SCOPE_CONNECTION, Scope::Connection),
    (abi::SCOPE_SOURCE_HOST, Scope::SourceHost),
    (abi::SCOPE_DESTINATION_HOST, Scope::DestinationHost),
    (abi::SCOPE_DATAGRAM, Scope::Datagram),
    (abi::SCOPE_CONFIGURED, Scope::Configured),
    (abi::SCOPE_INSTANCE, Scope::Instance),
];

fn bits(fields: &[Field]) -> u64 {
    FIELDS.iter().filter(|(_, field)| fields.contains(field)).map(|(bit, _)| bit).sum()
}

/// A footprint for a table, with all that it points to.
pub(crate) struct Exported {
    _texts: Vec<CString>,
    _states: Box<[abi::State]>,
    footprint: Box<abi::Footprint>,
}

impl Exported {
    /// `None` if a text holds a NUL.
    pub fn new(footprint: &Footprint) -> Option<Self> {
        let mut texts = Vec::new();
        let mut states = Vec::new();
        let mut text = |words: &str| -> Option<*const std::ffi::c_char> {
            let text = CString::new(words).ok()?;
            let at = text.as_ptr();
            texts.push(text);
            Some(at)
        };
        for state in footprint.state {
            states.push(abi::State {
                name: text(state.name)?,
                with: if state.with.is_empty() { std::ptr::null() } else { text(state.with)? },
                scope: SCOPES.iter().find(|(_, s)| *s == state.scope)?.0,
                entry_bytes: state.entry_bytes,
            });
        }
        let states = states.into_boxed_slice();
        let footprint = Box::new(abi::Footprint {
            struct_size: size_of::<abi::Footprint>() as u32,
            n_states: states.len() as u32,
            reads: bits(footprint.reads),
            writes: bits(footprint.writes),
            states: states.as_ptr(),
        });
        Some(Self { _texts: texts, _states: states, footprint })
    }

    pub fn as_ptr(&self) -> *const abi::Footprint {
        &raw const *self.footprint
    }
}

#[cfg(feature = "host")]
mod host {
    use super::{FIELDS, SCOPES};
    use crate::abi;
    use crate::text::{self, MAX_WORDS};
    use chainline_nf::{Field, Footprint, State};
    use std::ffi::c_char;

    /// More kinds of state than any NF has.
    const MAX_STATES: u32 = 64;

    /// Reads a footprint, or says what is wrong with it. What it says stays in memory for good, as its shared object does.
    ///
    /// # Safety
    /// `at` is NULL, or a footprint that is valid for the size it begins with, as is all that it points to.
    pub(crate) unsafe fn read(at: *const abi::Footprint) -> Result<Option<Footprint>, String> {
        if at.is_null() {
            return Ok(None);
        }
        if !at.is_aligned() {
            return Err(format!("{at:p}; expected the address of a `struct chainline_footprint`"));
        }
        // SAFETY: each footprint begins with its size.
        let (found, expected) =
            (unsafe { (&raw const (*at).struct_size).read() } as usize, size_of::<abi::Footprint>());
        if found < expected {
            return Err(format!("{found} bytes long; expected {expected}"));
        }
        // SAFETY: it has at least this size.
        let footprint = unsafe { at.read() };
        let n = footprint.n_states;
        if n > MAX_STATES || (n > 0 && (footprint.states.is_null() || !footprint.states.is_aligned())) {
            return Err(format!("{n} states at {:p}; expected up to {MAX_STATES}", footprint.states));
        }
        let mut states = Vec::new();
        for i in 0..n as usize {
            // SAFETY: there are `n_states` of them.
            let state = unsafe { footprint.states.add(i).read() };
            // SAFETY: texts of a valid footprint end with a NUL.
            let words = |at: *const c_char| unsafe { text::read(at, MAX_WORDS) };
            let name = words(state.name).map_err(|e| format!("name of state {i}: {e}"))?;
            let with = if state.with.is_null() { Ok(String::new()) } else { words(state.with) };
            let with = with.map_err(|e| format!("argument of state {i}: {e}"))?;
            let scope = SCOPES.iter().find(|(number, _)| *number == state.scope);
            let scope = scope.ok_or_else(|| format!("scope of state {i}: {}; expected 0 to 6", state.scope))?.1;
            states.push(State::new(name.leak(), scope, state.entry_bytes).with(with.leak()));
        }
        let reads = fields(footprint.reads).map_err(|e| format!("reads: {e}"))?;
        let writes = fields(footprint.writes).map_err(|e| format!("writes: {e}"))?;
        Ok(Footprint::new(reads.leak(), writes.leak(), states.leak()))
    }

    fn fields(bits: u64) -> Result<Vec<Field>, String> {
        let known: u64 = FIELDS.iter().map(|(bit, _)| bit).sum();
        if bits & !known != 0 {
            return Err(format!("{bits:#x}; expected no bits but {known:#x}"));
        }
        Ok(FIELDS.iter().filter(|(bit, _)| bits & bit != 0).map(|(_, field)| *field).collect())
    }
}

#[cfg(feature = "host")]
pub(crate) use host::read;
