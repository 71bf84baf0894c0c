//! The C ABI between a host and an NF in a shared object: types and constants only.
//!
//! A shared object exports one function, [`SYMBOL`], that returns its [`Nf`] table. It links against nothing:
//! whatever it may ask of its host comes as a function pointer in [`Env`] and [`Ctx`]. `include/chainline_nf.h`
//! is generated from this file and is what authors read, so the comments here speak to them.
//!
//! Invariants: every structure that a side may extend starts with its size; within one [`ABI_VERSION`] fields
//! are only ever added at the end; functions return 0 or a negative `E_…`. No logic here: the host's side is
//! `chainline-nf-c`.

#![forbid(unsafe_code)]

use std::ffi::{c_char, c_void};
use std::mem::{offset_of, size_of};

/// The function that a shared object exports: `const struct chainline_nf *chainline_nf_v1(void)`.
pub const SYMBOL: &str = "chainline_nf_v1";

/// The version of this ABI. A host refuses a table with another one.
pub const ABI_VERSION: u32 = 2;

/// The most packets that one call of `process` gets.
pub const MAX_BURST: u32 = 256;

/// Success.
pub const OK: i32 = 0;
/// There is no such thing: no argument, target, held packet. (`-ENOENT`)
pub const E_ABSENT: i32 = -2;
/// The callee failed in a way that it has no better word for. (`-EIO`)
pub const E_FAILED: i32 = -5;
/// Something handed over makes no sense. (`-EINVAL`)
pub const E_INVALID: i32 = -22;
/// No room left. (`-ENOSPC`)
pub const E_FULL: i32 = -28;

/// The kind of a verdict is in its upper eight bits, the argument in the lower 24.
pub const VERDICT_SHIFT: u32 = 24;
/// On to the next hop. A packet starts with this verdict.
pub const VERDICT_NEXT: u32 = 0;
/// Ends here; the argument is the index of a drop reason.
pub const VERDICT_DROP: u32 = 1;
/// Leaves the chain; the argument is the index of a target.
pub const VERDICT_DIVERT: u32 = 2;
/// Stays with the NF; the argument is an id from `hold`.
pub const VERDICT_HOLD: u32 = 3;

/// A file is only read, anywhere.
pub const FILE_READ: u32 = 0;
/// A file is written at its end, and made if it is not there.
pub const FILE_APPEND: u32 = 1;
/// All bytes of a file stay, see `keep`.
pub const KEEP_ALL: u64 = u64::MAX;
/// On the medium when the kernel finds the time.
pub const DURABLE_NEVER: u32 = 0;
/// On the medium when the instance has ended as told.
pub const DURABLE_AT_END: u32 = 1;
/// On the medium when a write is reported complete.
pub const DURABLE_EACH_BATCH: u32 = 2;

/// Ethernet source address.
pub const FIELD_ETHERNET_SOURCE: u64 = 1 << 0;
/// Ethernet destination address.
pub const FIELD_ETHERNET_DESTINATION: u64 = 1 << 1;
/// VLAN tags and EtherType.
pub const FIELD_ETHER_TYPE: u64 = 1 << 2;
/// IP source address.
pub const FIELD_IP_SOURCE: u64 = 1 << 3;
/// IP destination address.
pub const FIELD_IP_DESTINATION: u64 = 1 << 4;
/// The upper layer's, behind IPv6 extension headers.
pub const FIELD_PROTOCOL: u64 = 1 << 5;
/// DSCP and ECN.
pub const FIELD_TRAFFIC_CLASS: u64 = 1 << 6;
/// TTL, or hop limit.
pub const FIELD_TTL: u64 = 1 << 7;
/// Length of the IP packet.
pub const FIELD_IP_LENGTH: u64 = 1 << 8;
/// Identification, flags and offset.
pub const FIELD_FRAGMENT: u64 = 1 << 9;
/// IPv4 header checksum.
pub const FIELD_IP_CHECKSUM: u64 = 1 << 10;
/// Source port.
pub const FIELD_SOURCE_PORT: u64 = 1 << 11;
/// Destination port.
pub const FIELD_DESTINATION_PORT: u64 = 1 << 12;
/// TCP flags.
pub const FIELD_TCP_FLAGS: u64 = 1 << 13;
/// Checksum of TCP, UDP or ICMP.
pub const FIELD_L4_CHECKSUM: u64 = 1 << 14;
/// ICMP type and code.
pub const FIELD_ICMP_TYPE: u64 = 1 << 15;
/// ICMP identifier.
pub const FIELD_ICMP_IDENTIFIER: u64 = 1 << 16;
/// The packet that an ICMP error quotes.
pub const FIELD_ICMP_QUOTE: u64 = 1 << 17;
/// All bytes of the frame.
pub const FIELD_FRAME: u64 = 1 << 18;
/// Length of the frame.
pub const FIELD_FRAME_LENGTH: u64 = 1 << 19;
/// The 5-tuple, each direction for itself.
pub const SCOPE_FLOW: u32 = 0;
/// The 5-tuple, both directions.
pub const SCOPE_CONNECTION: u32 = 1;
/// The source address.
pub const SCOPE_SOURCE_HOST: u32 = 2;
/// The destination address.
pub const SCOPE_DESTINATION_HOST: u32 = 3;
/// The datagram that fragments are of.
pub const SCOPE_DATAGRAM: u32 = 4;
/// What the arguments name: a class, a service, a rule.
pub const SCOPE_CONFIGURED: u32 = 5;
/// All packets.
pub const SCOPE_INSTANCE: u32 = 6;

/// A kind of state that an NF keeps between packets.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct State {
    /// What it is: "connections".
    pub name: *const c_char,
    /// The argument without which it is not there; NULL: it always is.
    pub with: *const c_char,
    /// What an entry belongs to, CHAINLINE_SCOPE_…: packets of one such must come to one instance.
    pub scope: u32,
    /// Bytes of memory an entry, key and place in a table included, rounded; 0 is none of fixed size.
    pub entry_bytes: u32,
}

/// What an NF reads and writes of packets and what it remembers, whatever its arguments are.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Footprint {
    /// `sizeof(struct chainline_footprint)`.
    pub struct_size: u32,
    /// Number of `states`.
    pub n_states: u32,
    /// What verdicts, counters and writes depend on: CHAINLINE_FIELD_… or-ed.
    pub reads: u64,
    /// What may be different behind the NF: CHAINLINE_FIELD_… or-ed.
    pub writes: u64,
    /// What it remembers between packets, except for compiled arguments and counters.
    pub states: *const State,
}

/// A file and how it is used, for `open` of `struct chainline_env`. Begin with `cl_append()` or `cl_read()`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct FileSpec {
    /// CHAINLINE_FILE_READ or CHAINLINE_FILE_APPEND.
    pub access: u32,
    /// CHAINLINE_DURABLE_NEVER, CHAINLINE_DURABLE_AT_END or CHAINLINE_DURABLE_EACH_BATCH.
    pub durable: u32,
    /// Appending: how many of the bytes that are there stay, from the start; CHAINLINE_KEEP_ALL for all.
    pub keep: u64,
    /// Bytes that the host writes before all others; may be NULL.
    pub head: *const u8,
    /// Length of `head`.
    pub head_len: usize,
    /// Size of each of the two buffers: what is written at once at most.
    pub batch_bytes: u32,
    /// Milliseconds after which a buffer is written though it is not full; 0: as soon as the one before is.
    pub flush_ms: u32,
    /// The most bytes that the NF writes for one packet. The host takes packets only while it has room for these.
    pub packet_bytes: u32,
    /// Reads that may be in flight; an NF that reads for packets does so once for each at most.
    pub reads: u32,
    /// The most bytes of one read.
    pub read_bytes: u32,
    /// Zero.
    pub reserved: u32,
}

/// Bytes of the NF's.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Bytes {
    /// The first.
    pub at: *const u8,
    /// Their number.
    pub len: usize,
}

/// Something that the NF asked for is done, or has failed. Valid during `completed` only.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Completion {
    /// The file.
    pub file: u32,
    /// 0: this stands for all writes without a context in a buffer.
    pub has_context: u32,
    /// The context that was given.
    pub context: u64,
    /// How many writes or reads this is: 1 with a context.
    pub count: u64,
    /// Bytes written or read, or the negative errno. After an error nothing of the buffer is in a regular file.
    pub result: i64,
    /// What was read, `result` bytes; else NULL.
    pub data: *const u8,
}

/// A packet in its buffer. The frame, from the Ethernet header without FCS, is `buf[off]` to
/// `buf[off + len - 1]`; the bytes before and after it are room to grow into. The NF may change the bytes of the
/// buffer, `off`, `len` and `verdict`; the host checks them and ignores every other change.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    /// The buffer.
    pub buf: *mut u8,
    /// Size of the buffer in bytes.
    pub buf_len: u32,
    /// The same for every packet of a 5-tuple; 0 when the packet is not IP.
    pub flow_hash: u32,
    /// What becomes of the packet: `cl_next()`, `cl_drop()`, `cl_divert()`, `cl_hold()`.
    pub verdict: u32,
    /// Where the frame starts in the buffer.
    pub off: u16,
    /// Length of the frame in bytes.
    pub len: u16,
    /// The chain, as an index into the chain file's list.
    pub chain: u16,
    /// Which hop of its chain the packet is at; 0 is the first.
    pub hop: u8,
    /// Zero.
    pub reserved: [u8; 5],
}

/// The surroundings in which an NF is created, valid during `create` only.
#[repr(C)]
#[derive(Debug)]
pub struct Env {
    /// Size of this structure as the host knows it.
    pub struct_size: u32,
    /// Number of `targets`.
    pub n_targets: u32,
    /// The directory of the chain file, against which relative paths in the arguments are taken.
    pub dir: *const c_char,
    /// The names that the chain file lets this NF divert to; the index is the target.
    pub targets: *const *const c_char,
    /// Declares a counter. Indexes count up from 0.
    pub counter: Option<
        unsafe extern "C" fn(
            env: *mut Env,
            name: *const c_char,
            unit: *const c_char,
            help: *const c_char,
            index: *mut u32,
        ) -> i32,
    >,
    /// Declares a reason for drops. Indexes count up from 0; the same name gives the same index.
    pub drop_reason: Option<unsafe extern "C" fn(env: *mut Env, name: *const c_char, index: *mut u32) -> i32>,
    /// The index of a target, or CHAINLINE_E_ABSENT (and the host has a message for the operator).
    pub target: Option<unsafe extern "C" fn(env: *mut Env, name: *const c_char, index: *mut u32) -> i32>,
    /// A path from the arguments, taken from `dir` if it is relative. CHAINLINE_E_FULL if `size` is too small.
    pub path: Option<unsafe extern "C" fn(env: *mut Env, path: *const c_char, out: *mut c_char, size: usize) -> i32>,
    /// A whole number from the arguments by JSON pointer (RFC 6901), such as "/min_ttl". CHAINLINE_E_ABSENT
    /// leaves `out` as it is; CHAINLINE_E_INVALID if it is not a whole number from 0 to 2^64-1.
    pub arg_u64: Option<unsafe extern "C" fn(env: *mut Env, pointer: *const c_char, out: *mut u64) -> i32>,
    /// Text from the arguments; results as for `arg_u64`, and CHAINLINE_E_FULL if `size` is too small.
    pub arg_text:
        Option<unsafe extern "C" fn(env: *mut Env, pointer: *const c_char, out: *mut c_char, size: usize) -> i32>,
    /// A file that the NF will read or write. The host opens it when `create` is over; if it cannot, the NF is refused.
    pub open:
        Option<unsafe extern "C" fn(env: *mut Env, path: *const c_char, spec: *const FileSpec, file: *mut u32) -> i32>,
    /// Says that each packet may be held: the host takes packets only while it has places for them.
    pub may_hold_each: Option<unsafe extern "C" fn(env: *mut Env) -> i32>,
    /// Says why `create` is about to fail: what was found and what was expected.
    pub fail: Option<unsafe extern "C" fn(env: *mut Env, message: *const c_char)>,
    /// The host's.
    pub host: *mut c_void,
}

/// The surroundings of one call, valid during that call only.
#[repr(C)]
#[derive(Debug)]
pub struct Ctx {
    /// Size of this structure as the host knows it.
    pub struct_size: u32,
    /// Number of `counters`.
    pub n_counters: u32,
    /// Monotonic time in nanoseconds, read once for the burst.
    pub now_ns: u64,
    /// The counters in the order of declaration. Others read them meanwhile: use `cl_count()` and `cl_set()`.
    pub counters: *mut u64,
    /// Reserves a place for a packet: give that packet `cl_hold(*id)`. CHAINLINE_E_FULL when all are taken.
    pub hold: Option<unsafe extern "C" fn(ctx: *mut Ctx, id: *mut u32) -> i32>,
    /// Calls `f` with a held packet; CHAINLINE_E_ABSENT if none is held under `id`. `f` must not use `ctx`.
    pub with_held: Option<
        unsafe extern "C" fn(
            ctx: *mut Ctx,
            id: u32,
            f: Option<unsafe extern "C" fn(packet: *mut Packet, user: *mut c_void)>,
            user: *mut c_void,
        ) -> i32,
    >,
    /// The held packet goes on with `verdict`; CHAINLINE_E_ABSENT if none is held under `id`.
    pub release: Option<unsafe extern "C" fn(ctx: *mut Ctx, id: u32, verdict: u32) -> i32>,
    /// Appends `count` parts, one after the other and never torn apart. They are copied. `completed` is called with
    /// `*context` when they are in the file or could not be put there; writes with NULL are told of once a batch.
    /// CHAINLINE_E_FULL when both buffers are full: not to an NF that keeps to its `packet_bytes` in `process`.
    pub write: Option<
        unsafe extern "C" fn(ctx: *mut Ctx, file: u32, parts: *const Bytes, count: u32, context: *const u64) -> i32,
    >,
    /// Reads up to `len` bytes from `offset` on; `completed` gets them with `context`.
    pub read: Option<unsafe extern "C" fn(ctx: *mut Ctx, file: u32, offset: u64, len: u32, context: u64) -> i32>,
    /// Does not wait for the batch to be full or old enough.
    pub flush: Option<unsafe extern "C" fn(ctx: *mut Ctx, file: u32) -> i32>,
    /// Says why the call is about to return an error.
    pub fail: Option<unsafe extern "C" fn(ctx: *mut Ctx, message: *const c_char)>,
    /// The host's.
    pub host: *mut c_void,
    /// 1 in the last `tick`: what the NF still has to write must be written now. See `cl_is_ending()`.
    pub ending: u32,
    /// Zero.
    pub reserved: u32,
}

/// What a shared object says of its NF. It stays valid and unchanged as long as the object is loaded.
///
/// One instance is called by one thread at a time, not always by the thread that created it. An error from
/// `process`, `tick` or `completed` ends the instance: the host drops its packets and starts a new one.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Nf {
    /// `sizeof(struct chainline_nf)`.
    pub struct_size: u32,
    /// CHAINLINE_ABI_VERSION.
    pub abi_version: u32,
    /// `sizeof(struct chainline_packet)`.
    pub packet_size: u32,
    /// `sizeof(struct chainline_ctx)`.
    pub ctx_size: u32,
    /// `sizeof(struct chainline_env)`.
    pub env_size: u32,
    /// Zero.
    pub reserved: u32,
    /// The word for the NF in reports.
    pub kind: *const c_char,
    /// One line about it.
    pub about: *const c_char,
    /// JSON Schema that the arguments must satisfy; NULL if there are none.
    pub args_schema: *const c_char,
    /// Creates an instance; `*self` is the NF's own and may be NULL. `args` is JSON that satisfies `args_schema`.
    pub create: Option<unsafe extern "C" fn(args: *const c_char, env: *mut Env, self_: *mut *mut c_void) -> i32>,
    /// Handles a burst of 1 to CHAINLINE_MAX_BURST packets.
    pub process:
        Option<unsafe extern "C" fn(self_: *mut c_void, packets: *mut Packet, count: u32, ctx: *mut Ctx) -> i32>,
    /// Called about every 10 ms while the NF is awake; may be NULL.
    pub tick: Option<unsafe extern "C" fn(self_: *mut c_void, ctx: *mut Ctx) -> i32>,
    /// Writes words for the final report, UTF-8, at most 64 KiB; may be NULL.
    pub report: Option<
        unsafe extern "C" fn(
            self_: *const c_void,
            write: Option<unsafe extern "C" fn(user: *mut c_void, text: *const c_char, len: usize)>,
            user: *mut c_void,
        ) -> i32,
    >,
    /// Ends an instance; may be NULL. Not called for one that has failed.
    pub destroy: Option<unsafe extern "C" fn(self_: *mut c_void)>,
    /// Tells of a read or write that is done; may be NULL. Called between bursts.
    pub completed: Option<unsafe extern "C" fn(self_: *mut c_void, done: *const Completion, ctx: *mut Ctx) -> i32>,
    /// What it reads, writes and remembers; NULL: it does not say.
    pub footprint: *const Footprint,
}

/// The size of [`Nf`] when this version began: tables of this size and more are taken, and what is not in them is absent.
pub const FIRST_NF_BYTES: usize = offset_of!(Nf, footprint);

// Layouts of 64-bit machines; a change here is a new ABI version.
const _: () = {
    assert!(size_of::<Packet>() == 32);
    assert!(offset_of!(Packet, verdict) == 16 && offset_of!(Packet, len) == 22 && offset_of!(Packet, hop) == 26);
    assert!(size_of::<Env>() == 104 && offset_of!(Env, dir) == 8 && offset_of!(Env, host) == 96);
    assert!(
        size_of::<Ctx>() == 96
            && offset_of!(Ctx, ending) == 88
            && offset_of!(Ctx, counters) == 16
            && offset_of!(Ctx, host) == 80
    );
    assert!(size_of::<Nf>() == 104 && offset_of!(Nf, kind) == 24 && offset_of!(Nf, completed) == 88);
    assert!(FIRST_NF_BYTES == 96 && size_of::<State>() == 24 && size_of::<Footprint>() == 32);
    assert!(size_of::<FileSpec>() == 56 && offset_of!(FileSpec, head) == 16 && offset_of!(FileSpec, reads) == 44);
    assert!(size_of::<Bytes>() == 16 && size_of::<Completion>() == 40 && offset_of!(Completion, result) == 24);
};
