//! Longest prefix match for IPv4 and IPv6 (programmer's guide, "FIB Library").
//!
//! IPv4 is DIR-24-8 (Gupta, Lin, McKeown, INFOCOM 1998): one memory access for prefixes up to /24, two beyond. IPv6 is a
//! trie of the same make. Both use AVX512 gathers where the CPU has them.

use super::{MemoryError, unique_name};
use crate::{log, memory, version};
use chainline_dpdk_sys as sys;
use std::ffi::c_int;
use std::ptr::NonNull;

/// The next hop of an address that no prefix covers. Entries have four bytes, of which one bit is the library's.
pub const NONE: u32 = 0x7fff_ffff;

/// As [`NONE`], inside a table whose entries have two bytes.
const NONE_SMALL: u32 = 0x7fff;

/// Addresses handed to one call: their 64-bit results fit the stack.
const CHUNK: usize = 64;
/// The trees behind the tables: object header and node, which the mempool spreads over memory channels by an odd number
/// of cache lines, and the ring that holds the free ones, in bytes.
const NODE_BYTES: usize = 192 + 16;
/// More nodes than this do not fit the library's `int`.
const MAX_ROUTES: u32 = 1 << 28;
const TBL8_BYTES: usize = 256 * 4;

/// Why a route table could not be made or changed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum FibError {
    /// A prefix is longer than an address.
    #[error("prefix length {depth}, expected at most {most}")]
    Depth {
        /// What was found.
        depth: u8,
        /// 32 or 128.
        most: u8,
    },
    /// A next hop is too large.
    #[error("next hop {found}, expected less than {none}")]
    NextHop {
        /// What was found.
        found: u32,
        /// What the table's entries have room for.
        none: u32,
    },
    /// The table is too large.
    #[error("a table for {0} routes, expected 1 to {MAX_ROUTES}")]
    Size(u32),
    /// The table is full.
    #[error("the table is full: it was made for {routes} routes and {tbl8s} groups of 256 long prefixes")]
    Full {
        /// Routes it was made for.
        routes: u32,
        /// Groups it was made for.
        tbl8s: u32,
    },
    /// No memory.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The library refused.
    #[error("route table: {0}")]
    Library(String),
}

macro_rules! fib {
    (
        $(#[$doc:meta])* $name:ident, $kind:literal, $raw:ident, $conf:ident, $addr:ty, $bits:literal, $base:expr,
        $create:ident, $free:ident, $add:ident, $delete:ident, $lookup:ident,
        $get_rib:ident, $rib_next:ident, $rib_ip:ident, $rib_depth:ident, $rib_hop:ident, $rib_all:ident,
        |$a:ident| $arg:expr, $ones:expr, $last:expr, |$ips:ident| $ips_arg:expr, |$c:ident, $tbl8s:ident, $small:ident| $configure:block
    ) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $name {
            table: NonNull<sys::$raw>,
            max_routes: u32,
            tbl8s: u32,
            /// What the library answers for an address that no prefix covers; next hops are below.
            none: u32,
            /// Next hops of the tails that are in the table, by prefix length.
            tails: [Option<u32>; $bits + 1],
            /// Whether a prefix was deleted since the table was made.
            worn: bool,
        }

        // SAFETY: the table belongs to this value alone, and the library ties nothing to the thread that made it.
        unsafe impl Send for $name {}
        // SAFETY: what takes `&self` only reads the table.
        unsafe impl Sync for $name {}

        impl $name {
            /// A table for `max_routes` prefixes. Long ones (IPv4: beyond /24; IPv6: at every eighth bit beyond /24 where
            /// prefixes branch) take groups of 256 entries, of which there are `tbl8s`.
            ///
            /// # Errors
            /// [`FibError`].
            pub fn new(max_routes: u32, tbl8s: u32) -> Result<Self, FibError> {
                Self::for_next_hops(max_routes, tbl8s, NONE - 1)
            }

            /// As `new`, for next hops up to `largest`: where these and the groups fit entries of two bytes, the
            /// table takes half the memory, and half the time to be made.
            ///
            /// # Errors
            /// [`FibError`].
            pub fn for_next_hops(max_routes: u32, tbl8s: u32, largest: u32) -> Result<Self, FibError> {
                if max_routes == 0 || max_routes > MAX_ROUTES {
                    return Err(FibError::Size(max_routes));
                }
                let tbl8s = tbl8s.clamp(1, NONE - 1);
                // SAFETY: integers only, for which zeros are valid.
                let mut $c: sys::$conf = unsafe { std::mem::zeroed() };
                let $small = largest < NONE_SMALL && tbl8s < NONE_SMALL;
                let none = if $small { NONE_SMALL } else { NONE };
                $c.default_nh = none.into();
                $c.max_routes = max_routes as c_int;
                let $tbl8s = tbl8s;
                $configure
                // The library makes two tree nodes a route.
                let bytes = ($base >> u32::from($small)) + tbl8s as usize * TBL8_BYTES + 2 * max_routes as usize * NODE_BYTES;
                let table = memory::with_heap(bytes, |socket| {
                    let name = unique_name($kind);
                    // SAFETY: name and configuration live through the call and are copied.
                    let table = unsafe { sys::$create(name.as_ptr(), socket, &mut $c) };
                    // Arguments are checked above, so memory is what lacks; the library's errno may be of its clean-up.
                    NonNull::new(table).ok_or(libc::ENOMEM)
                })?;
                let table = table.map_err(|errno| FibError::Library(log::explain(version::strerror(errno))))?;
                Ok(Self { table, max_routes, tbl8s, none, tails: [None; $bits + 1], worn: false })
            }

            /// Adds a prefix, or changes its next hop. Bits of the address beyond `depth` do not count.
            ///
            /// # Errors
            /// [`FibError`]; the table is as before.
            pub fn add(&mut self, ip: $addr, depth: u8, next_hop: u32) -> Result<(), FibError> {
                check_depth(depth, $bits)?;
                if next_hop >= self.none {
                    return Err(FibError::NextHop { found: next_hop, none: self.none });
                }
                match self.add_once(ip, depth, next_hop) {
                    Err(FibError::Full { .. }) if self.worn => {
                        self.renew()?;
                        self.add_once(ip, depth, next_hop)
                    }
                    result => result,
                }
            }

            fn add_once(&mut self, ip: $addr, depth: u8, next_hop: u32) -> Result<(), FibError> {
                if !Self::is_tail(ip, depth) {
                    return self.raw_add(ip, depth, next_hop);
                }
                self.without_longer_tails(depth, |fib| fib.raw_add(ip, depth, next_hop))?;
                self.tails[usize::from(depth)] = Some(next_hop);
                Ok(())
            }

            /// Deletes a prefix; `false` when it was not there.
            ///
            /// # Errors
            /// [`FibError`]; the table is as before.
            pub fn delete(&mut self, ip: $addr, depth: u8) -> Result<bool, FibError> {
                check_depth(depth, $bits)?;
                if !Self::is_tail(ip, depth) {
                    return self.raw_delete(ip, depth);
                }
                let was = self.without_longer_tails(depth, |fib| fib.raw_delete(ip, depth))?;
                self.tails[usize::from(depth)] = None;
                Ok(was)
            }

            /// Moves all prefixes to a new table.
            ///
            /// The library counts groups of long prefixes in use, and miscounts when one goes that had the next hop of the
            /// prefix around it (and in older releases at other times), until it takes the table for full.
            fn renew(&mut self) -> Result<(), FibError> {
                let mut fresh = Self::for_next_hops(self.max_routes, self.tbl8s, self.none - 1)?;
                let ($a, mut node): ($addr, _) = (Default::default(), std::ptr::null_mut());
                loop {
                    let (mut ip, mut depth, mut next_hop): ($addr, u8, u64) = Default::default();
                    // SAFETY: the tree belongs to the table and is not changed meanwhile; the nodes come from it; each
                    // pointer is to a local of the size that the call writes.
                    unsafe {
                        let tree = sys::$get_rib(self.table.as_ptr());
                        node = sys::$rib_next(tree, $arg, 0, node, sys::$rib_all as c_int);
                        if node.is_null() {
                            break;
                        }
                        sys::$rib_ip(node, (&raw mut ip).cast());
                        sys::$rib_depth(node, &mut depth);
                        sys::$rib_hop(node, &mut next_hop);
                    }
                    fresh.add_once(ip, depth, next_hop as u32)?;
                }
                fresh.worn = false;
                *self = fresh;
                Ok(())
            }

            /// Whether the prefix is a tail: one that ends with the last address there is.
            fn is_tail($a: $addr, depth: u8) -> bool {
                $ones >= depth.into()
            }

            /// Runs `change` on a tail while no longer tail is in the table.
            ///
            /// The library fills a prefix around the prefixes inside it. When the last one of these ends with the last
            /// address and follows its neighbour without a gap (224.0.0.0/4, 240.0.0.0/4, then 0.0.0.0/0), the place to go
            /// on from wraps to 0, and it fills the whole table with the one next hop. Nothing wraps without such a one.
            fn without_longer_tails<T>(
                &mut self,
                depth: u8,
                change: impl FnOnce(&mut Self) -> Result<T, FibError>,
            ) -> Result<T, FibError> {
                // The longest goes first and comes back last, so that the same holds for each of these changes.
                for longer in (depth + 1..=$bits).rev() {
                    if self.tails[usize::from(longer)].is_some() {
                        self.raw_delete($last, longer)?;
                    }
                }
                let result = change(self);
                for longer in depth + 1..=$bits {
                    if let Some(next_hop) = self.tails[usize::from(longer)] {
                        self.raw_add($last, longer, next_hop)?;
                    }
                }
                result
            }

            fn raw_add(&mut self, $a: $addr, depth: u8, next_hop: u32) -> Result<(), FibError> {
                // SAFETY: the table is valid and this value's alone.
                let errno = unsafe { sys::$add(self.table.as_ptr(), $arg, depth, next_hop.into()) };
                if errno == 0 { Ok(()) } else { Err(self.error(errno)) }
            }

            fn raw_delete(&mut self, $a: $addr, depth: u8) -> Result<bool, FibError> {
                // SAFETY: the table is valid and this value's alone.
                match unsafe { sys::$delete(self.table.as_ptr(), $arg, depth) }.abs() {
                    0 => {
                        self.worn = true;
                        Ok(true)
                    }
                    libc::ENOENT => Ok(false),
                    errno => Err(self.error(errno)),
                }
            }

            fn error(&self, errno: c_int) -> FibError {
                match errno.abs() {
                    libc::ENOSPC | libc::ENOMEM => FibError::Full { routes: self.max_routes, tbl8s: self.tbl8s },
                    errno => FibError::Library(log::explain(version::strerror(errno))),
                }
            }

            /// Writes each address's next hop, or [`NONE`]. Only as many are looked up as `out` holds.
            pub fn lookup_bulk(&self, ips: &[$addr], out: &mut [u32]) {
                let mut wide = [0u64; CHUNK];
                for ($ips, out) in ips.chunks(CHUNK).zip(out.chunks_mut(CHUNK)) {
                    let n = $ips.len().min(out.len());
                    // SAFETY: n addresses, which the library only reads in spite of its signature, and room for n
                    // results. The call fails only for null pointers.
                    unsafe {
                        sys::$lookup(self.table.as_ptr(), $ips_arg, wide.as_mut_ptr(), n as c_int);
                    }
                    for (out, wide) in out.iter_mut().zip(&wide[..n]) {
                        *out = if *wide == u64::from(self.none) { NONE } else { *wide as u32 };
                    }
                }
            }
        }

        impl Drop for $name {
            fn drop(&mut self) {
                // SAFETY: made by the library, freed once.
                unsafe { sys::$free(self.table.as_ptr()) };
            }
        }
    };
}

fib!(
    /// Routes of IPv4 addresses, in host byte order.
    Fib4, "fib4", rte_fib, rte_fib_conf, u32, 32, 64 << 20,
    rte_fib_create, rte_fib_free, rte_fib_add, rte_fib_delete, rte_fib_lookup_bulk,
    rte_fib_get_rib, rte_rib_get_nxt, rte_rib_get_ip, rte_rib_get_depth, rte_rib_get_nh, RTE_RIB_GET_NXT_ALL,
    |ip| ip, ip.leading_ones(), u32::MAX, |ips| ips.as_ptr().cast_mut(), |conf, tbl8s, small| {
        conf.type_ = sys::RTE_FIB_DIR24_8;
        conf.__bindgen_anon_1.dir24_8.nh_sz = if small { sys::RTE_FIB_DIR24_8_2B } else { sys::RTE_FIB_DIR24_8_4B };
        conf.__bindgen_anon_1.dir24_8.num_tbl8 = tbl8s;
    }
);

fib!(
    /// Routes of IPv6 addresses, in network byte order as in the packet.
    Fib6, "fib6", rte_fib6, rte_fib6_conf, [u8; 16], 128, 64 << 20,
    rte_fib6_create, rte_fib6_free, rte_fib6_add, rte_fib6_delete, rte_fib6_lookup_bulk,
    rte_fib6_get_rib, rte_rib6_get_nxt, rte_rib6_get_ip, rte_rib6_get_depth, rte_rib6_get_nh, RTE_RIB6_GET_NXT_ALL,
    |ip| ip.as_ptr(), u128::from_be_bytes(ip).leading_ones(), [u8::MAX; 16], |ips| ips.as_ptr().cast_mut().cast(), |conf, tbl8s, small| {
        conf.type_ = sys::RTE_FIB6_TRIE;
        conf.__bindgen_anon_1.trie.nh_sz = if small { sys::RTE_FIB6_TRIE_2B } else { sys::RTE_FIB6_TRIE_4B };
        conf.__bindgen_anon_1.trie.num_tbl8 = tbl8s;
    }
);

fn check_depth(depth: u8, most: u8) -> Result<(), FibError> {
    if depth > most { Err(FibError::Depth { depth, most }) } else { Ok(()) }
}
