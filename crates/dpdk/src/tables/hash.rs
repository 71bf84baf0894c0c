//! Exact match: a cuckoo hash from keys to positions (programmer's guide, "Hash Library").
//!
//! The table maps a key to a small number that stays the same while the key is there, so what belongs to the key lives
//! in the caller's own array at that position. Bulk look-ups overlap their cache misses.
//!
//! Keys are hashed here and not by the library. Its default is a CRC, which is linear: who may choose keys (every sender
//! of packets may) can choose them to collide, whatever the seed, and then insertion searches a thousand buckets in
//! vain. Ours has a secret that each table draws anew, and is inlined where the library would call through a pointer.

use super::{MemoryError, unique_name};
use crate::{log, memory, version};
use chainline_dpdk_sys as sys;
use std::ffi::{c_int, c_void};
use std::hash::{BuildHasher, RandomState};
use std::marker::PhantomData;
use std::ptr::NonNull;

/// Keys of one call (`RTE_HASH_LOOKUP_BULK_MAX`).
const CHUNK: usize = 64;
/// The library's own limit, `RTE_HASH_ENTRIES_MAX`.
const MAX_ENTRIES: u32 = 1 << 30;

/// Why a hash table could not be made.
#[derive(Clone, Debug, thiserror::Error)]
pub enum HashError {
    /// The size is wrong.
    #[error(
        "a hash table of {entries} entries with {key_len}-byte keys, expected 8 to {MAX_ENTRIES} entries and 1 to 256 bytes"
    )]
    Size {
        /// Entries asked for.
        entries: u32,
        /// Bytes of a key.
        key_len: usize,
    },
    /// No memory.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The library refused.
    #[error("hash table: {0}")]
    Library(String),
}

/// A set of `N`-byte keys, each with a position below [`Hash::positions`].
#[derive(Debug)]
pub struct Hash<const N: usize> {
    table: NonNull<sys::rte_hash>,
    secret: Secret,
}

/// What makes the hash of a table its own. DPDK's hash functions have room for 32 bits of it.
#[derive(Clone, Copy, Debug)]
struct Secret(u64, u64);

impl Secret {
    #[inline]
    fn new(seed: u32) -> Self {
        // SplitMix64 (Steele et al., OOPSLA 2014), so that each bit of the seed decides half the bits of both words.
        let mix = |x: u64| {
            let x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            x ^ x >> 31
        };
        let step = 0x9e37_79b9_7f4a_7c15u64;
        let start = u64::from(seed);
        Self(mix(start.wrapping_add(step)), mix(start.wrapping_add(step.wrapping_mul(2))))
    }

    /// Sixteen bytes a step: both factors depend on the secret, so no key can make a product zero on purpose.
    #[inline]
    fn hash(self, key: &[u8]) -> u32 {
        let fold = |a: u64, b: u64| {
            let product = u128::from(a) * u128::from(b);
            product as u64 ^ (product >> 64) as u64
        };
        let step = |h: u64, chunk: [u8; 16]| {
            let words = u128::from_le_bytes(chunk);
            fold(words as u64 ^ self.0, (words >> 64) as u64 ^ h)
        };
        let (chunks, rest) = key.as_chunks::<16>();
        let mut h = chunks.iter().fold(self.1 ^ key.len() as u64, |h, chunk| step(h, *chunk));
        if !rest.is_empty() {
            let mut last = [0; 16];
            last[..rest.len()].copy_from_slice(rest);
            h = step(h, last);
        }
        h = fold(h ^ self.0, self.1 | 1);
        (h ^ h >> 32) as u32
    }
}

/// The same for the library, which hashes a key itself in a few calls.
unsafe extern "C" fn library_hash(key: *const c_void, len: u32, seed: u32) -> u32 {
    // SAFETY: the library hands on a key of the table and its length.
    Secret::new(seed).hash(unsafe { std::slice::from_raw_parts(key.cast::<u8>(), len as usize) })
}

// SAFETY: the table belongs to this value alone, and the library ties nothing to the thread that made it.
unsafe impl<const N: usize> Send for Hash<N> {}
// SAFETY: what takes `&self` only reads the table.
unsafe impl<const N: usize> Sync for Hash<N> {}

impl<const N: usize> Hash<N> {
    /// A table for `entries` keys. The last few percent may be refused, when both buckets of a key are full: ask for
    /// some more than is needed.
    ///
    /// # Errors
    /// [`HashError`].
    pub fn new(entries: u32) -> Result<Self, HashError> {
        if !(8..=MAX_ENTRIES).contains(&entries) || !(1..=256).contains(&N) {
            return Err(HashError::Size { entries, key_len: N });
        }
        // A slot of the key store (the key and a data pointer, in steps of 16 bytes), eight bytes in the ring of free
        // slots and eight in the buckets, the last two for the next power of two.
        let bytes = entries as usize * (N + 8).next_multiple_of(16) + (entries as usize + 1).next_power_of_two() * 16;
        let table = memory::with_heap(bytes, |socket| {
            // The library marks empty entries with signature 0 and zeros for a key. An all-zero key (the source 0.0.0.0)
            // of signature 0 would be taken for absent and added twice, so its signature must differ.
            let random = RandomState::new();
            let seeds = (0u32..).map(|i| random.hash_one(i) as u32);
            let secret = |seed: &u32| Secret::new(*seed).hash(&[0; N]) >> 16 != 0;
            Self::create(entries, socket, seeds.into_iter().find(secret).unwrap_or_default())
        })?;
        table.map_err(|errno| HashError::Library(log::explain(version::strerror(errno))))
    }

    fn create(entries: u32, socket: c_int, seed: u32) -> Result<Self, c_int> {
        let name = unique_name("hash");
        let params = sys::rte_hash_parameters {
            name: name.as_ptr(),
            entries,
            key_len: N as u32,
            hash_func: Some(library_hash),
            hash_func_init_val: seed,
            socket_id: socket,
            // SAFETY: integers and optional function pointers, for which zeros are valid.
            ..unsafe { std::mem::zeroed() }
        };
        // SAFETY: params and the name live through the call and are copied.
        let table = NonNull::new(unsafe { sys::rte_hash_create(&params) }).ok_or_else(version::errno)?;
        Ok(Self { table, secret: Secret::new(seed) })
    }

    /// All positions are below this.
    #[must_use]
    pub fn positions(&self) -> usize {
        // SAFETY: the table is valid.
        let last = unsafe { sys::rte_hash_max_key_id(self.table.as_ptr()) };
        usize::try_from(last).map_or(0, |last| last + 1)
    }

    /// Adds a key, or finds it; `None` when there is no room.
    pub fn add(&mut self, key: &[u8; N]) -> Option<u32> {
        let hash = self.secret.hash(key);
        // SAFETY: the table is valid and this value's alone; the key has the table's key length.
        let at = unsafe { sys::rte_hash_add_key_with_hash(self.table.as_ptr(), key.as_ptr().cast(), hash) };
        u32::try_from(at).ok()
    }

    /// Removes a key and returns the position it had, which the next new key may get.
    pub fn del(&mut self, key: &[u8; N]) -> Option<u32> {
        let hash = self.secret.hash(key);
        // SAFETY: as in `add`.
        let at = unsafe { sys::rte_hash_del_key_with_hash(self.table.as_ptr(), key.as_ptr().cast(), hash) };
        u32::try_from(at).ok()
    }

    /// Removes all keys.
    pub fn clear(&mut self) {
        // SAFETY: the table is valid and this value's alone.
        unsafe { sys::rte_hash_reset(self.table.as_ptr()) };
    }

    /// The position of a key.
    #[must_use]
    pub fn lookup(&self, key: &[u8; N]) -> Option<u32> {
        let hash = self.secret.hash(key);
        // SAFETY: the table is valid; the key has the table's key length.
        let at = unsafe { sys::rte_hash_lookup_with_hash(self.table.as_ptr(), key.as_ptr().cast(), hash) };
        u32::try_from(at).ok()
    }

    /// The key at a position; `None` if none is there.
    #[must_use]
    pub fn key_at(&self, position: u32) -> Option<[u8; N]> {
        if position as usize >= self.positions() {
            return None;
        }
        let mut key = std::ptr::null_mut::<c_void>();
        // SAFETY: the position lies inside the table's key store; the pointer is to a local.
        let found = unsafe { sys::rte_hash_get_key_with_position(self.table.as_ptr(), position as i32, &raw mut key) };
        // The place of a removed key still has its bytes: the library looks whether the key is there, and not elsewhere.
        // SAFETY: key points to the N bytes of a stored key.
        (found == 0).then(|| unsafe { key.cast::<[u8; N]>().read_unaligned() })
    }

    /// Writes each key's position, or a negative number. Only as many are looked up as `out` holds.
    pub fn lookup_bulk(&self, keys: &[[u8; N]], out: &mut [i32]) {
        let mut pointers = [std::ptr::null::<c_void>(); CHUNK];
        let mut hashes = [0; CHUNK];
        for (keys, out) in keys.chunks(CHUNK).zip(out.chunks_mut(CHUNK)) {
            for ((pointer, hash), key) in pointers.iter_mut().zip(&mut hashes).zip(keys) {
                (*pointer, *hash) = (key.as_ptr().cast(), self.secret.hash(key));
            }
            let n = keys.len().min(out.len());
            // SAFETY: n pointers to keys of the table's length with their hashes, n between 1 and CHUNK, and room for n
            // positions.
            unsafe {
                sys::rte_hash_lookup_with_hash_bulk(
                    self.table.as_ptr(),
                    pointers.as_mut_ptr(),
                    hashes.as_mut_ptr(),
                    n as u32,
                    out.as_mut_ptr(),
                );
            }
        }
    }

    /// The number of keys.
    #[must_use]
    pub fn len(&self) -> usize {
        // SAFETY: the table is valid.
        usize::try_from(unsafe { sys::rte_hash_count(self.table.as_ptr()) }).unwrap_or(0)
    }

    /// Whether there is no key.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All keys with their positions, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (u32, [u8; N])> + '_ {
        Iter { table: self.table, next: 0, life: PhantomData }
    }
}

impl<const N: usize> Drop for Hash<N> {
    fn drop(&mut self) {
        // SAFETY: made by rte_hash_create, freed once.
        unsafe { sys::rte_hash_free(self.table.as_ptr()) };
    }
}

/// Walks a table that is borrowed, and so does not change.
struct Iter<'a, const N: usize> {
    table: NonNull<sys::rte_hash>,
    next: u32,
    life: PhantomData<&'a Hash<N>>,
}

impl<const N: usize> Iterator for Iter<'_, N> {
    type Item = (u32, [u8; N]);

    fn next(&mut self) -> Option<Self::Item> {
        let (mut key, mut data) = (std::ptr::null::<c_void>(), std::ptr::null_mut::<c_void>());
        // SAFETY: the table is valid and not changed while it is borrowed; the pointers are to locals.
        let at: c_int = unsafe { sys::rte_hash_iterate(self.table.as_ptr(), &mut key, &mut data, &mut self.next) };
        let at = u32::try_from(at).ok()?;
        // SAFETY: key points to the N bytes of a stored key.
        Some((at, unsafe { key.cast::<[u8; N]>().read_unaligned() }))
    }
}
