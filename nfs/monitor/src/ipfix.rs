//! IPFIX, as far as an exporter of flow records to files needs it: messages (RFC 7011 §3), templates, and files of them
//! one after the other (RFC 5655 §4). Everything is big-endian.

use crate::records::{End, Flow};
use std::collections::BTreeMap;

/// The longest message: what a network could carry unfragmented, so that collectors that take files as they would take
/// datagrams are content.
pub(crate) const MESSAGE_BYTES: usize = 1420;
/// The most bytes of a record, set headers included.
pub(crate) const RECORD_BYTES: usize = 96;

pub(crate) const VERSION: u16 = 10;
/// Bytes of a message's header.
pub(crate) const HEADER: usize = 16;
const SET_HEADER: usize = 4;
/// The set of templates (RFC 7011 §3.3.2).
const TEMPLATES: u16 = 2;
/// Sets from here on are of data, of the template of that number.
const DATA: u16 = 256;
/// A field that says its length itself (RFC 7011 §7).
const VARIABLE: u16 = 65_535;
const V4: u16 = 256;
const V6: u16 = 257;

/// Information elements (IANA "IPFIX Information Elements") behind the addresses, with their sizes in bytes.
const COMMON: [(u16, u16); 11] = [
    (7, 2),   // sourceTransportPort
    (11, 2),  // destinationTransportPort
    (4, 1),   // protocolIdentifier
    (6, 2),   // tcpControlBits
    (2, 8),   // packetDeltaCount
    (1, 8),   // octetDeltaCount
    (352, 8), // layer2OctetDeltaCount
    (152, 8), // flowStartMilliseconds
    (153, 8), // flowEndMilliseconds
    (136, 1), // flowEndReason
    (210, 3), // paddingOctets
];
/// sourceIPv4Address, destinationIPv4Address; the same for IPv6.
const ADDRESSES4: [(u16, u16); 2] = [(8, 4), (12, 4)];
const ADDRESSES6: [(u16, u16); 2] = [(27, 16), (28, 16)];
const COMMON_BYTES: usize = 51;
const RECORD4: usize = 8 + COMMON_BYTES;
const RECORD6: usize = 32 + COMMON_BYTES;

const _: () = assert!(SET_HEADER + RECORD6 <= RECORD_BYTES);

/// A message in the making.
pub(crate) struct Message {
    bytes: Box<[u8; MESSAGE_BYTES]>,
    len: usize,
    /// Where the set at hand starts, and its template.
    set: Option<(usize, u16)>,
    records: u64,
    /// Data records of all messages before (RFC 7011 §3.1).
    sequence: u32,
    domain: u32,
}

impl Message {
    /// For an observation domain that has had `sequence` data records.
    pub fn new(domain: u32, sequence: u32) -> Self {
        Self { bytes: Box::new([0; MESSAGE_BYTES]), len: HEADER, set: None, records: 0, sequence, domain }
    }

    /// The message that a file begins with: what records are made of.
    pub fn templates(domain: u32, sequence: u32) -> Vec<u8> {
        let template = |id: u16, addresses: &[(u16, u16)]| {
            let fields: Vec<_> = addresses.iter().chain(&COMMON).flat_map(|(id, size)| [*id, *size]).collect();
            [vec![id, fields.len() as u16 / 2], fields].concat()
        };
        let words = [template(V4, &ADDRESSES4), template(V6, &ADDRESSES6)].concat();
        let body: Vec<u8> = words.iter().flat_map(|w| w.to_be_bytes()).collect();
        let set_len = (SET_HEADER + body.len()) as u16;
        let mut message = Vec::new();
        message.extend(VERSION.to_be_bytes());
        message.extend((HEADER as u16 + set_len).to_be_bytes());
        // When the templates were made is nobody's concern: RFC 5655 §8.4 has export times for that of records.
        message.extend([0; 4]);
        message.extend(sequence.to_be_bytes());
        message.extend(domain.to_be_bytes());
        message.extend(TEMPLATES.to_be_bytes());
        message.extend(set_len.to_be_bytes());
        message.extend(body);
        message
    }

    /// Whether another record fits.
    pub fn has_room(&self, key: &[u8; 48]) -> bool {
        let (template, record) = form(key);
        let set = if self.set.is_some_and(|s| s.1 == template) { 0 } else { SET_HEADER };
        self.len + set + record <= MESSAGE_BYTES
    }

    /// Records in it.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Adds a record, for which there must be room. `key` is [`chainline_flowtable::v6_key`]'s; times are start and end
    /// in milliseconds since 1970.
    pub fn push(&mut self, key: &[u8; 48], flow: &Flow, times_ms: (u64, u64), end: End) {
        let (template, _) = form(key);
        if self.set.is_none_or(|s| s.1 != template) {
            self.end_set();
            self.set = Some((self.len, template));
            self.put(&template.to_be_bytes());
            self.put(&[0; 2]);
        }
        let address = if template == V4 { 4 } else { 16 };
        self.put(&key[..address]);
        self.put(&key[16..16 + address]);
        self.put(&key[32..37]);
        self.put(&u16::from(flow.tcp_flags).to_be_bytes());
        for n in [flow.packets, flow.ip_bytes, flow.frame_bytes, times_ms.0, times_ms.1] {
            self.put(&n.to_be_bytes());
        }
        self.put(&[end as u8, 0, 0, 0]);
        self.records += 1;
    }

    /// The message, if it has a record.
    pub fn end(&mut self, export_s: u32) -> Option<&[u8]> {
        if self.records == 0 {
            return None;
        }
        self.end_set();
        let mut header = [0; HEADER];
        header[..2].copy_from_slice(&VERSION.to_be_bytes());
        header[2..4].copy_from_slice(&(self.len as u16).to_be_bytes());
        header[4..8].copy_from_slice(&export_s.to_be_bytes());
        header[8..12].copy_from_slice(&self.sequence.to_be_bytes());
        header[12..16].copy_from_slice(&self.domain.to_be_bytes());
        self.bytes[..HEADER].copy_from_slice(&header);
        self.bytes.get(..self.len)
    }

    /// For the next records.
    pub fn clear(&mut self) {
        self.sequence = self.sequence.wrapping_add(self.records as u32);
        (self.len, self.records, self.set) = (HEADER, 0, None);
    }

    /// Writes the length of the set at hand.
    fn end_set(&mut self) {
        if let Some((at, _)) = self.set
            && let Some(field) = self.bytes.get_mut(at + 2..at + 4)
        {
            field.copy_from_slice(&((self.len - at) as u16).to_be_bytes());
        }
    }

    fn put(&mut self, bytes: &[u8]) {
        if let Some(place) = self.bytes.get_mut(self.len..self.len + bytes.len()) {
            place.copy_from_slice(bytes);
            self.len += bytes.len();
        }
    }
}

/// A flow's template and the size of its record.
fn form(key: &[u8; 48]) -> (u16, usize) {
    if key[37] == 4 { (V4, RECORD4) } else { (V6, RECORD6) }
}

/// What a message's header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// Of the message, header included.
    pub len: u16,
    pub sequence: u32,
    pub domain: u32,
}

impl Header {
    /// `None` if these bytes begin no message.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let len = word(bytes, 2)?;
        let long = |at: usize| Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?));
        let header = Self { len, sequence: long(8)?, domain: long(12)? };
        (word(bytes, 0)? == VERSION && usize::from(len) >= HEADER).then_some(header)
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|b| u16::from_be_bytes(*b))
}

/// The data records of a whole message. `sizes` has the bytes of a record by template, and learns those of the message.
/// `None` if it cannot tell: no such template, or one of fields without a size.
pub(crate) fn data_records(message: &[u8], sizes: &mut BTreeMap<u16, usize>) -> Option<u32> {
    let (mut at, mut records) = (HEADER, 0);
    while at < message.len() {
        let (id, len) = (word(message, at)?, usize::from(word(message, at + 2)?));
        let set = message.get(at + SET_HEADER..at + len)?;
        match id {
            TEMPLATES => learn(set, sizes)?,
            // What is behind the last record is padding.
            DATA.. => records += u32::try_from(set.len() / sizes.get(&id)?).ok()?,
            _ => {}
        }
        at += len;
    }
    Some(records)
}

/// The sizes of the records of a set of templates.
fn learn(set: &[u8], sizes: &mut BTreeMap<u16, usize>) -> Option<()> {
    let mut at = 0;
    while at + SET_HEADER <= set.len() {
        let (id, fields) = (word(set, at)?, word(set, at + 2)?);
        at += SET_HEADER;
        let mut size = 0;
        for _ in 0..fields {
            let (element, len) = (word(set, at)?, word(set, at + 2)?);
            // With an enterprise's number behind it.
            at += if element & 0x8000 == 0 { 4 } else { 8 };
            size += usize::from(len);
            if len == VARIABLE {
                return None;
            }
        }
        if size == 0 {
            return None;
        }
        sizes.insert(id, size);
    }
    Some(())
}
