//! Access lists: many rules over many fields, the best match of a burst of keys (programmer's guide, "Packet
//! Classification and Access Control").

use super::{MemoryError, unique_name};
use crate::{log, memory, version};
use chainline_dpdk_sys as sys;
use std::num::NonZeroU32;
use std::ptr::NonNull;

/// The highest priority of a rule; the lowest is 1.
pub const MAX_PRIORITY: i32 = sys::RTE_ACL_MAX_PRIORITY as i32;

/// Keys handed to one call of the library: it overlaps up to 32, and this many pointers fit the stack.
const CHUNK: usize = 64;

/// How a rule describes the values of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldKind {
    /// `value` in the bits of `mask_range`.
    Bitmask,
    /// A prefix of `mask_range` bits.
    Mask,
    /// From `value` to `mask_range`, both included.
    Range,
}

/// A field of the key.
///
/// The library reads the key in groups of four bytes (an `input_index` each), except the first field, which must be one
/// byte. Fields of a group lie side by side and fill its four bytes; a field of eight bytes is a group of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldDef {
    /// How rules describe it.
    pub kind: FieldKind,
    /// 1, 2, 4 or 8 bytes, in network byte order in the key.
    pub size: u8,
    /// The field's place in [`Rule::fields`]: definitions come in that order, from 0.
    pub field_index: u8,
    /// The group.
    pub input_index: u8,
    /// Bytes from the start of the key.
    pub offset: u32,
}

/// What a rule wants of one field, in host byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldValue {
    /// The value, or the lowest one of a range. Bits outside the mask do not count.
    pub value: u64,
    /// By kind: the mask, the prefix length in bits, or the highest value.
    pub mask_range: u64,
}

/// One rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// 1 to [`MAX_PRIORITY`]; of the rules that match, the one with the highest wins.
    pub priority: i32,
    /// What a look-up returns.
    pub userdata: NonZeroU32,
    /// Bit 0 must be set: look-ups are for category 0.
    pub category_mask: u32,
    /// One for each field.
    pub fields: Vec<FieldValue>,
}

/// Why an access list could not be built.
#[derive(Clone, Debug, thiserror::Error)]
pub enum AclError {
    /// The layout of the key is wrong.
    #[error("field {index}: {why}")]
    Field {
        /// The field, from 0.
        index: usize,
        /// What was found and what was expected.
        why: String,
    },
    /// A rule is wrong.
    #[error("rule {index}: {why}")]
    Rule {
        /// The rule, from 0.
        index: usize,
        /// What was found and what was expected.
        why: String,
    },
    /// No memory.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The library refused.
    #[error("cannot build an access list of {rules} rules: {why}")]
    Library {
        /// How many rules there are.
        rules: usize,
        /// DPDK's word.
        why: String,
    },
}

/// An access list. It cannot be changed: build a new one and swap.
#[derive(Debug)]
pub struct Acl {
    /// Absent when there are no rules, for which the library has no table.
    context: Option<NonNull<sys::rte_acl_ctx>>,
    /// The bytes of a key that look-ups read.
    key_len: usize,
}

// SAFETY: the context belongs to this value alone, and the library ties nothing to the thread that made it.
unsafe impl Send for Acl {}
// SAFETY: after the build, rte_acl_classify only reads the context, and nothing else takes `&self`.
unsafe impl Sync for Acl {}

impl Acl {
    /// Checks and compiles the rules.
    ///
    /// # Errors
    /// [`AclError`].
    pub fn build(defs: &[FieldDef], rules: &[Rule]) -> Result<Self, AclError> {
        let key_len = check_defs(defs)?;
        let words = encode(defs, rules)?;
        if rules.is_empty() {
            return Ok(Self { context: None, key_len });
        }
        let library =
            |errno: i32| AclError::Library { rules: rules.len(), why: log::explain(version::strerror(errno)) };
        let count = u32::try_from(rules.len()).map_err(|_| library(libc::EINVAL))?;
        let built = memory::with_heap(size_of_val(words.as_slice()) * 2, |socket| {
            let name = unique_name("acl");
            let param = sys::rte_acl_param {
                name: name.as_ptr(),
                socket_id: socket,
                rule_size: rule_size(defs.len()) as u32,
                max_rule_num: count,
            };
            // SAFETY: param and its name live through the call; the name is copied.
            let context = NonNull::new(unsafe { sys::rte_acl_create(&param) }).ok_or_else(version::errno)?;
            let acl = Self { context: Some(context), key_len };
            // SAFETY: words holds `count` rules of rule_size bytes each, aligned to eight.
            let added = unsafe { sys::rte_acl_add_rules(context.as_ptr(), words.as_ptr().cast(), count) };
            if added != 0 {
                return Err(added);
            }
            let config = config(defs);
            // SAFETY: context is valid and config a local.
            match unsafe { sys::rte_acl_build(context.as_ptr(), &config) } {
                0 => Ok(acl),
                errno => Err(errno),
            }
        })?;
        built.map_err(library)
    }

    /// The bytes of a key that look-ups read: the least `N` for [`Acl::classify`].
    #[must_use]
    pub fn key_len(&self) -> usize {
        self.key_len
    }

    /// Writes, for each key, the `userdata` of the best rule, or 0. Only as many keys are looked up as `results` holds.
    ///
    /// # Panics
    /// When `N` is less than [`Acl::key_len`], a mistake in the program.
    pub fn classify<const N: usize>(&self, keys: &[[u8; N]], results: &mut [u32]) {
        assert!(N >= self.key_len, "keys have {N} bytes and the fields need {}", self.key_len);
        let Some(context) = self.context else {
            results.fill(0);
            return;
        };
        let mut pointers = [std::ptr::null::<u8>(); CHUNK];
        for (keys, results) in keys.chunks(CHUNK).zip(results.chunks_mut(CHUNK)) {
            for (pointer, key) in pointers.iter_mut().zip(keys) {
                *pointer = key.as_ptr();
            }
            let n = keys.len().min(results.len());
            // SAFETY: n pointers to keys of at least key_len bytes, the most that the fields reach, and room for n
            // results of one category. The call fails only for a bad category count.
            unsafe {
                sys::rte_acl_classify(context.as_ptr(), pointers.as_mut_ptr(), results.as_mut_ptr(), n as u32, 1);
            }
        }
    }
}

impl Drop for Acl {
    fn drop(&mut self) {
        if let Some(context) = self.context {
            // SAFETY: made by rte_acl_create, freed once.
            unsafe { sys::rte_acl_free(context.as_ptr()) };
        }
    }
}

/// Checks the layout and returns the bytes of a key that look-ups read.
fn check_defs(defs: &[FieldDef]) -> Result<usize, AclError> {
    let most = sys::RTE_ACL_MAX_FIELDS as usize;
    if defs.is_empty() || defs.len() > most {
        return Err(AclError::Field { index: 0, why: format!("{} fields, expected 1 to {most}", defs.len()) });
    }
    let mut key_len = 0;
    let mut group: Option<(u8, u32, u32)> = None;
    for (index, def) in defs.iter().enumerate() {
        let wrong = |why: String| Err(AclError::Field { index, why });
        if !matches!(def.size, 1 | 2 | 4 | 8) {
            return wrong(format!("{} bytes, expected 1, 2, 4 or 8", def.size));
        }
        if index == 0 && def.size != 1 {
            return wrong(format!("the first field has {} bytes, expected 1", def.size));
        }
        if usize::from(def.field_index) != index {
            return wrong(format!("field_index {}, expected {index}", def.field_index));
        }
        if def.offset > 1 << 16 {
            return wrong(format!("offset {}, expected at most 65536", def.offset));
        }
        let end = def.offset + u32::from(def.size);
        group = match group {
            Some((input, start, at)) if input == def.input_index => {
                if at != def.offset || end - start > 4 {
                    return wrong(format!(
                        "bytes {}..{end} do not continue its group of four from {start}",
                        def.offset
                    ));
                }
                Some((input, start, end))
            }
            Some((input, ..)) if input > def.input_index => {
                return wrong(format!("input_index {} after {input}, expected them to rise", def.input_index));
            }
            _ => Some((def.input_index, def.offset, end)),
        };
        let start = group.map_or(0, |(_, start, _)| start);
        key_len = key_len.max(start as usize + usize::from(def.size.max(4)));
    }
    Ok(key_len)
}

fn rule_size(fields: usize) -> usize {
    size_of::<sys::rte_acl_rule>() + fields * size_of::<sys::rte_acl_field>()
}

/// The rules as the library wants them: headers followed by fields, in words for their alignment.
fn encode(defs: &[FieldDef], rules: &[Rule]) -> Result<Vec<u64>, AclError> {
    // Header, then a word for the value and one for the mask of each field.
    const { assert!(size_of::<sys::rte_acl_rule>() == 16 && size_of::<sys::rte_acl_field>() == 16) };
    let mut words = Vec::with_capacity(rules.len() * rule_size(defs.len()) / 8);
    for (index, rule) in rules.iter().enumerate() {
        let wrong = |why: String| AclError::Rule { index, why };
        if !(1..=MAX_PRIORITY).contains(&rule.priority) {
            return Err(wrong(format!("priority {}, expected 1 to {MAX_PRIORITY}", rule.priority)));
        }
        if rule.category_mask & 1 == 0 {
            return Err(wrong(format!("category mask {:#x}, expected bit 0 to be set", rule.category_mask)));
        }
        if rule.fields.len() != defs.len() {
            return Err(wrong(format!("{} fields, expected {}", rule.fields.len(), defs.len())));
        }
        let header = [1, rule.priority as u32, rule.userdata.get(), 0];
        words.extend(header.chunks_exact(2).map(|pair| pair_to_word(pair[0], pair[1])));
        for (field, (def, value)) in defs.iter().zip(&rule.fields).enumerate() {
            let (value, mask) = normalize(*def, *value).map_err(|why| wrong(format!("field {field}: {why}")))?;
            words.push(union_word(def.size, value));
            words.push(union_word(def.size, mask));
        }
    }
    Ok(words)
}

/// Two neighbouring 32-bit members as the word that holds them.
fn pair_to_word(first: u32, second: u32) -> u64 {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&first.to_ne_bytes());
    bytes[4..].copy_from_slice(&second.to_ne_bytes());
    u64::from_ne_bytes(bytes)
}

/// A `union rte_acl_field_types` with its member of `size` bytes set.
fn union_word(size: u8, value: u64) -> u64 {
    let mut bytes = [0; 8];
    match size {
        1 => bytes[..1].copy_from_slice(&(value as u8).to_ne_bytes()),
        2 => bytes[..2].copy_from_slice(&(value as u16).to_ne_bytes()),
        4 => bytes[..4].copy_from_slice(&(value as u32).to_ne_bytes()),
        _ => bytes = value.to_ne_bytes(),
    }
    u64::from_ne_bytes(bytes)
}

/// Checks one field of a rule. Values are cut to their mask: the library never matches a value with bits outside.
fn normalize(def: FieldDef, FieldValue { value, mask_range }: FieldValue) -> Result<(u64, u64), String> {
    let bits = u32::from(def.size) * 8;
    let max = u64::MAX >> (64 - bits);
    if value > max {
        return Err(format!("value {value:#x} does not fit {} bytes", def.size));
    }
    match def.kind {
        FieldKind::Mask if mask_range > u64::from(bits) => {
            Err(format!("prefix of {mask_range} bits, expected at most {bits}"))
        }
        FieldKind::Mask if mask_range == 0 => Ok((0, 0)),
        FieldKind::Mask => Ok((value & (max << (u64::from(bits) - mask_range)), mask_range)),
        _ if mask_range > max => Err(format!("mask or upper end {mask_range:#x} does not fit {} bytes", def.size)),
        FieldKind::Range if value > mask_range => Err(format!("range {value}-{mask_range} is empty")),
        FieldKind::Range => Ok((value, mask_range)),
        FieldKind::Bitmask => Ok((value & mask_range, mask_range)),
    }
}

fn config(defs: &[FieldDef]) -> sys::rte_acl_config {
    // SAFETY: integers only, for which zeros are valid.
    let mut config: sys::rte_acl_config = unsafe { std::mem::zeroed() };
    config.num_categories = 1;
    config.num_fields = defs.len() as u32;
    for (to, def) in config.defs.iter_mut().zip(defs) {
        *to = sys::rte_acl_field_def {
            type_: match def.kind {
                FieldKind::Mask => sys::RTE_ACL_FIELD_TYPE_MASK,
                FieldKind::Range => sys::RTE_ACL_FIELD_TYPE_RANGE,
                FieldKind::Bitmask => sys::RTE_ACL_FIELD_TYPE_BITMASK,
            } as u8,
            size: def.size,
            field_index: def.field_index,
            input_index: def.input_index,
            offset: def.offset,
        };
    }
    config
}
