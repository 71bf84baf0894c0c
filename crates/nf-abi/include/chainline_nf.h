/* SPDX-License-Identifier: Apache-2.0
 *
 * Network functions for Chainline in C, C++ or any language that speaks C.
 * Generated from crates/nf-abi; see docs/write-an-nf.md.
 */

#pragma once

#include <stddef.h>
#include <stdint.h>

// The version of this ABI. A host refuses a table with another one.
#define CHAINLINE_ABI_VERSION 2

// The most packets that one call of `process` gets.
#define CHAINLINE_MAX_BURST 256

// Success.
#define CHAINLINE_OK 0

// There is no such thing: no argument, target, held packet. (`-ENOENT`)
#define CHAINLINE_E_ABSENT -2

// The callee failed in a way that it has no better word for. (`-EIO`)
#define CHAINLINE_E_FAILED -5

// Something handed over makes no sense. (`-EINVAL`)
#define CHAINLINE_E_INVALID -22

// No room left. (`-ENOSPC`)
#define CHAINLINE_E_FULL -28

// The kind of a verdict is in its upper eight bits, the argument in the lower 24.
#define CHAINLINE_VERDICT_SHIFT 24

// On to the next hop. A packet starts with this verdict.
#define CHAINLINE_VERDICT_NEXT 0

// Ends here; the argument is the index of a drop reason.
#define CHAINLINE_VERDICT_DROP 1

// Leaves the chain; the argument is the index of a target.
#define CHAINLINE_VERDICT_DIVERT 2

// Stays with the NF; the argument is an id from `hold`.
#define CHAINLINE_VERDICT_HOLD 3

// A file is only read, anywhere.
#define CHAINLINE_FILE_READ 0

// A file is written at its end, and made if it is not there.
#define CHAINLINE_FILE_APPEND 1

// All bytes of a file stay, see `keep`.
#define CHAINLINE_KEEP_ALL UINT64_MAX

// On the medium when the kernel finds the time.
#define CHAINLINE_DURABLE_NEVER 0

// On the medium when the instance has ended as told.
#define CHAINLINE_DURABLE_AT_END 1

// On the medium when a write is reported complete.
#define CHAINLINE_DURABLE_EACH_BATCH 2

// Ethernet source address.
#define CHAINLINE_FIELD_ETHERNET_SOURCE (1 << 0)

// Ethernet destination address.
#define CHAINLINE_FIELD_ETHERNET_DESTINATION (1 << 1)

// VLAN tags and EtherType.
#define CHAINLINE_FIELD_ETHER_TYPE (1 << 2)

// IP source address.
#define CHAINLINE_FIELD_IP_SOURCE (1 << 3)

// IP destination address.
#define CHAINLINE_FIELD_IP_DESTINATION (1 << 4)

// The upper layer's, behind IPv6 extension headers.
#define CHAINLINE_FIELD_PROTOCOL (1 << 5)

// DSCP and ECN.
#define CHAINLINE_FIELD_TRAFFIC_CLASS (1 << 6)

// TTL, or hop limit.
#define CHAINLINE_FIELD_TTL (1 << 7)

// Length of the IP packet.
#define CHAINLINE_FIELD_IP_LENGTH (1 << 8)

// Identification, flags and offset.
#define CHAINLINE_FIELD_FRAGMENT (1 << 9)

// IPv4 header checksum.
#define CHAINLINE_FIELD_IP_CHECKSUM (1 << 10)

// Source port.
#define CHAINLINE_FIELD_SOURCE_PORT (1 << 11)

// Destination port.
#define CHAINLINE_FIELD_DESTINATION_PORT (1 << 12)

// TCP flags.
#define CHAINLINE_FIELD_TCP_FLAGS (1 << 13)

// Checksum of TCP, UDP or ICMP.
#define CHAINLINE_FIELD_L4_CHECKSUM (1 << 14)

// ICMP type and code.
#define CHAINLINE_FIELD_ICMP_TYPE (1 << 15)

// ICMP identifier.
#define CHAINLINE_FIELD_ICMP_IDENTIFIER (1 << 16)

// The packet that an ICMP error quotes.
#define CHAINLINE_FIELD_ICMP_QUOTE (1 << 17)

// All bytes of the frame.
#define CHAINLINE_FIELD_FRAME (1 << 18)

// Length of the frame.
#define CHAINLINE_FIELD_FRAME_LENGTH (1 << 19)

// The 5-tuple, each direction for itself.
#define CHAINLINE_SCOPE_FLOW 0

// The 5-tuple, both directions.
#define CHAINLINE_SCOPE_CONNECTION 1

// The source address.
#define CHAINLINE_SCOPE_SOURCE_HOST 2

// The destination address.
#define CHAINLINE_SCOPE_DESTINATION_HOST 3

// The datagram that fragments are of.
#define CHAINLINE_SCOPE_DATAGRAM 4

// What the arguments name: a class, a service, a rule.
#define CHAINLINE_SCOPE_CONFIGURED 5

// All packets.
#define CHAINLINE_SCOPE_INSTANCE 6

// A packet in its buffer. The frame, from the Ethernet header without FCS, is `buf[off]` to
// `buf[off + len - 1]`; the bytes before and after it are room to grow into. The NF may change the bytes of the
// buffer, `off`, `len` and `verdict`; the host checks them and ignores every other change.
struct chainline_packet {
  // The buffer.
  uint8_t *buf;
  // Size of the buffer in bytes.
  uint32_t buf_len;
  // The same for every packet of a 5-tuple; 0 when the packet is not IP.
  uint32_t flow_hash;
  // What becomes of the packet: `cl_next()`, `cl_drop()`, `cl_divert()`, `cl_hold()`.
  uint32_t verdict;
  // Where the frame starts in the buffer.
  uint16_t off;
  // Length of the frame in bytes.
  uint16_t len;
  // The chain, as an index into the chain file's list.
  uint16_t chain;
  // Which hop of its chain the packet is at; 0 is the first.
  uint8_t hop;
  // Zero.
  uint8_t reserved[5];
};

// A file and how it is used, for `open` of `struct chainline_env`. Begin with `cl_append()` or `cl_read()`.
struct chainline_file_spec {
  // CHAINLINE_FILE_READ or CHAINLINE_FILE_APPEND.
  uint32_t access;
  // CHAINLINE_DURABLE_NEVER, CHAINLINE_DURABLE_AT_END or CHAINLINE_DURABLE_EACH_BATCH.
  uint32_t durable;
  // Appending: how many of the bytes that are there stay, from the start; CHAINLINE_KEEP_ALL for all.
  uint64_t keep;
  // Bytes that the host writes before all others; may be NULL.
  const uint8_t *head;
  // Length of `head`.
  size_t head_len;
  // Size of each of the two buffers: what is written at once at most.
  uint32_t batch_bytes;
  // Milliseconds after which a buffer is written though it is not full; 0: as soon as the one before is.
  uint32_t flush_ms;
  // The most bytes that the NF writes for one packet. The host takes packets only while it has room for these.
  uint32_t packet_bytes;
  // Reads that may be in flight; an NF that reads for packets does so once for each at most.
  uint32_t reads;
  // The most bytes of one read.
  uint32_t read_bytes;
  // Zero.
  uint32_t reserved;
};

// Bytes of the NF's.
struct chainline_bytes {
  // The first.
  const uint8_t *at;
  // Their number.
  size_t len;
};

// Something that the NF asked for is done, or has failed. Valid during `completed` only.
struct chainline_completion {
  // The file.
  uint32_t file;
  // 0: this stands for all writes without a context in a buffer.
  uint32_t has_context;
  // The context that was given.
  uint64_t context;
  // How many writes or reads this is: 1 with a context.
  uint64_t count;
  // Bytes written or read, or the negative errno. After an error nothing of the buffer is in a regular file.
  int64_t result;
  // What was read, `result` bytes; else NULL.
  const uint8_t *data;
};

// A kind of state that an NF keeps between packets.
struct chainline_state {
  // What it is: "connections".
  const char *name;
  // The argument without which it is not there; NULL: it always is.
  const char *with;
  // What an entry belongs to, CHAINLINE_SCOPE_…: packets of one such must come to one instance.
  uint32_t scope;
  // Bytes of memory an entry, key and place in a table included, rounded; 0 is none of fixed size.
  uint32_t entry_bytes;
};

// What an NF reads and writes of packets and what it remembers, whatever its arguments are.
struct chainline_footprint {
  // `sizeof(struct chainline_footprint)`.
  uint32_t struct_size;
  // Number of `states`.
  uint32_t n_states;
  // What verdicts, counters and writes depend on: CHAINLINE_FIELD_… or-ed.
  uint64_t reads;
  // What may be different behind the NF: CHAINLINE_FIELD_… or-ed.
  uint64_t writes;
  // What it remembers between packets, except for compiled arguments and counters.
  const struct chainline_state *states;
};

// The surroundings in which an NF is created, valid during `create` only.
struct chainline_env {
  // Size of this structure as the host knows it.
  uint32_t struct_size;
  // Number of `targets`.
  uint32_t n_targets;
  // The directory of the chain file, against which relative paths in the arguments are taken.
  const char *dir;
  // The names that the chain file lets this NF divert to; the index is the target.
  const char *const *targets;
  // Declares a counter. Indexes count up from 0.
  int32_t (*counter)(struct chainline_env *env,
                     const char *name,
                     const char *unit,
                     const char *help,
                     uint32_t *index);
  // Declares a reason for drops. Indexes count up from 0; the same name gives the same index.
  int32_t (*drop_reason)(struct chainline_env *env, const char *name, uint32_t *index);
  // The index of a target, or CHAINLINE_E_ABSENT (and the host has a message for the operator).
  int32_t (*target)(struct chainline_env *env, const char *name, uint32_t *index);
  // A path from the arguments, taken from `dir` if it is relative. CHAINLINE_E_FULL if `size` is too small.
  int32_t (*path)(struct chainline_env *env, const char *path, char *out, size_t size);
  // A whole number from the arguments by JSON pointer (RFC 6901), such as "/min_ttl". CHAINLINE_E_ABSENT
  // leaves `out` as it is; CHAINLINE_E_INVALID if it is not a whole number from 0 to 2^64-1.
  int32_t (*arg_u64)(struct chainline_env *env, const char *pointer, uint64_t *out);
  // Text from the arguments; results as for `arg_u64`, and CHAINLINE_E_FULL if `size` is too small.
  int32_t (*arg_text)(struct chainline_env *env, const char *pointer, char *out, size_t size);
  // A file that the NF will read or write. The host opens it when `create` is over; if it cannot, the NF is refused.
  int32_t (*open)(struct chainline_env *env,
                  const char *path,
                  const struct chainline_file_spec *spec,
                  uint32_t *file);
  // Says that each packet may be held: the host takes packets only while it has places for them.
  int32_t (*may_hold_each)(struct chainline_env *env);
  // Says why `create` is about to fail: what was found and what was expected.
  void (*fail)(struct chainline_env *env, const char *message);
  // The host's.
  void *host;
};

// The surroundings of one call, valid during that call only.
struct chainline_ctx {
  // Size of this structure as the host knows it.
  uint32_t struct_size;
  // Number of `counters`.
  uint32_t n_counters;
  // Monotonic time in nanoseconds, read once for the burst.
  uint64_t now_ns;
  // The counters in the order of declaration. Others read them meanwhile: use `cl_count()` and `cl_set()`.
  uint64_t *counters;
  // Reserves a place for a packet: give that packet `cl_hold(*id)`. CHAINLINE_E_FULL when all are taken.
  int32_t (*hold)(struct chainline_ctx *ctx, uint32_t *id);
  // Calls `f` with a held packet; CHAINLINE_E_ABSENT if none is held under `id`. `f` must not use `ctx`.
  int32_t (*with_held)(struct chainline_ctx *ctx, uint32_t id, void (*f)(struct chainline_packet *packet,
                                                                         void *user), void *user);
  // The held packet goes on with `verdict`; CHAINLINE_E_ABSENT if none is held under `id`.
  int32_t (*release)(struct chainline_ctx *ctx, uint32_t id, uint32_t verdict);
  // Appends `count` parts, one after the other and never torn apart. They are copied. `completed` is called with
  // `*context` when they are in the file or could not be put there; writes with NULL are told of once a batch.
  // CHAINLINE_E_FULL when both buffers are full: not to an NF that keeps to its `packet_bytes` in `process`.
  int32_t (*write)(struct chainline_ctx *ctx,
                   uint32_t file,
                   const struct chainline_bytes *parts,
                   uint32_t count,
                   const uint64_t *context);
  // Reads up to `len` bytes from `offset` on; `completed` gets them with `context`.
  int32_t (*read)(struct chainline_ctx *ctx, uint32_t file, uint64_t offset, uint32_t len, uint64_t context);
  // Does not wait for the batch to be full or old enough.
  int32_t (*flush)(struct chainline_ctx *ctx, uint32_t file);
  // Says why the call is about to return an error.
  void (*fail)(struct chainline_ctx *ctx, const char *message);
  // The host's.
  void *host;
  // 1 in the last `tick`: what the NF still has to write must be written now. See `cl_is_ending()`.
  uint32_t ending;
  // Zero.
  uint32_t reserved;
};

// What a shared object says of its NF. It stays valid and unchanged as long as the object is loaded.
//
// One instance is called by one thread at a time, not always by the thread that created it. An error from
// `process`, `tick` or `completed` ends the instance: the host drops its packets and starts a new one.
struct chainline_nf {
  // `sizeof(struct chainline_nf)`.
  uint32_t struct_size;
  // CHAINLINE_ABI_VERSION.
  uint32_t abi_version;
  // `sizeof(struct chainline_packet)`.
  uint32_t packet_size;
  // `sizeof(struct chainline_ctx)`.
  uint32_t ctx_size;
  // `sizeof(struct chainline_env)`.
  uint32_t env_size;
  // Zero.
  uint32_t reserved;
  // The word for the NF in reports.
  const char *kind;
  // One line about it.
  const char *about;
  // JSON Schema that the arguments must satisfy; NULL if there are none.
  const char *args_schema;
  // Creates an instance; `*self` is the NF's own and may be NULL. `args` is JSON that satisfies `args_schema`.
  int32_t (*create)(const char *args, struct chainline_env *env, void **self_);
  // Handles a burst of 1 to CHAINLINE_MAX_BURST packets.
  int32_t (*process)(void *self_, struct chainline_packet *packets, uint32_t count, struct chainline_ctx *ctx);
  // Called about every 10 ms while the NF is awake; may be NULL.
  int32_t (*tick)(void *self_, struct chainline_ctx *ctx);
  // Writes words for the final report, UTF-8, at most 64 KiB; may be NULL.
  int32_t (*report)(const void *self_, void (*write)(void *user, const char *text, size_t len), void *user);
  // Ends an instance; may be NULL. Not called for one that has failed.
  void (*destroy)(void *self_);
  // Tells of a read or write that is done; may be NULL. Called between bursts.
  int32_t (*completed)(void *self_, const struct chainline_completion *done, struct chainline_ctx *ctx);
  // What it reads, writes and remembers; NULL: it does not say.
  const struct chainline_footprint *footprint;
};

/* What NFs are written with. Everything is inline: a shared object links against nothing. */

#ifdef __cplusplus
extern "C" {
#define CL_STATIC_ASSERT static_assert
#else
#define CL_STATIC_ASSERT _Static_assert
#endif

CL_STATIC_ASSERT(sizeof(void *) == 8, "the ABI is that of 64-bit machines");
CL_STATIC_ASSERT(sizeof(struct chainline_packet) == 32, "struct chainline_packet");
CL_STATIC_ASSERT(sizeof(struct chainline_env) == 104, "struct chainline_env");
CL_STATIC_ASSERT(sizeof(struct chainline_ctx) == 96, "struct chainline_ctx");
CL_STATIC_ASSERT(sizeof(struct chainline_nf) == 104, "struct chainline_nf");

/* The one function that a shared object exports. */
__attribute__((visibility("default"))) const struct chainline_nf *chainline_nf_v1(void);

/* The first fields of a struct chainline_nf. */
#define CHAINLINE_NF_HEAD                                                                         \
    (uint32_t)sizeof(struct chainline_nf), CHAINLINE_ABI_VERSION,                                 \
        (uint32_t)sizeof(struct chainline_packet), (uint32_t)sizeof(struct chainline_ctx),        \
        (uint32_t)sizeof(struct chainline_env), 0

/* The first fields of a struct chainline_footprint with an array of states, or with none. */
#define CHAINLINE_FOOTPRINT_HEAD(states)                                                          \
    (uint32_t)sizeof(struct chainline_footprint), (uint32_t)(sizeof(states) / sizeof(struct chainline_state))
#define CHAINLINE_FOOTPRINT_STATELESS (uint32_t)sizeof(struct chainline_footprint), 0

/* Exports `table`, a static struct chainline_nf. */
#define CHAINLINE_EXPORT_NF(table)                                                                \
    const struct chainline_nf *chainline_nf_v1(void)                                              \
    {                                                                                             \
        return &(table);                                                                          \
    }

/* The first byte of the frame. */
static inline uint8_t *cl_data(const struct chainline_packet *p)
{
    return p->buf + p->off;
}

/* Free bytes before the frame. */
static inline uint32_t cl_headroom(const struct chainline_packet *p)
{
    return p->off;
}

/* Free bytes after the frame. */
static inline uint32_t cl_tailroom(const struct chainline_packet *p)
{
    return p->buf_len - p->off - p->len;
}

/* Adds n bytes in front, whatever they hold; 0, and no change, without room. */
static inline int cl_push_front(struct chainline_packet *p, uint16_t n)
{
    if (n > p->off || n > UINT16_MAX - p->len)
        return 0;
    p->off = (uint16_t)(p->off - n);
    p->len = (uint16_t)(p->len + n);
    return 1;
}

/* Removes n bytes in front; 0, and no change, if the frame is shorter. */
static inline int cl_pull_front(struct chainline_packet *p, uint16_t n)
{
    if (n > p->len)
        return 0;
    p->off = (uint16_t)(p->off + n);
    p->len = (uint16_t)(p->len - n);
    return 1;
}

/* Makes the frame len bytes long, cut or grown at its end; 0, and no change, without room. */
static inline int cl_set_len(struct chainline_packet *p, uint16_t len)
{
    if (len > p->buf_len - p->off)
        return 0;
    p->len = len;
    return 1;
}

/* Verdicts. */
static inline uint32_t cl_next(void)
{
    return CHAINLINE_VERDICT_NEXT;
}

static inline uint32_t cl_drop(uint32_t reason)
{
    return CHAINLINE_VERDICT_DROP << CHAINLINE_VERDICT_SHIFT | reason;
}

static inline uint32_t cl_divert(uint32_t target)
{
    return CHAINLINE_VERDICT_DIVERT << CHAINLINE_VERDICT_SHIFT | target;
}

static inline uint32_t cl_hold(uint32_t id)
{
    return CHAINLINE_VERDICT_HOLD << CHAINLINE_VERDICT_SHIFT | id;
}

/* Adds to a counter. It has one writer, so this is a load and a store that readers never see torn. */
static inline void cl_count(struct chainline_ctx *ctx, uint32_t counter, uint64_t n)
{
    if (counter < ctx->n_counters) {
        uint64_t *c = ctx->counters + counter;
        __atomic_store_n(c, __atomic_load_n(c, __ATOMIC_RELAXED) + n, __ATOMIC_RELAXED);
    }
}

/* Sets a counter that shows a level, such as the entries in a table. */
static inline void cl_set(struct chainline_ctx *ctx, uint32_t counter, uint64_t value)
{
    if (counter < ctx->n_counters)
        __atomic_store_n(ctx->counters + counter, value, __ATOMIC_RELAXED);
}

/* Whether this is the last tick: what the NF still has to write must be written now. */
static inline int cl_is_ending(const struct chainline_ctx *ctx)
{
    return ctx->ending != 0;
}

/* Appends: two buffers of 256 KiB, written after 10 ms at the latest, no more than 16 KiB a packet. */
static inline struct chainline_file_spec cl_append(void)
{
    struct chainline_file_spec spec = {CHAINLINE_FILE_APPEND, CHAINLINE_DURABLE_NEVER, CHAINLINE_KEEP_ALL,
        NULL, 0, 256u << 10, 10, 16u << 10, 0, 0, 0};
    return spec;
}

/* Reads: 32 at a time, of 4 KiB at most. */
static inline struct chainline_file_spec cl_read(void)
{
    struct chainline_file_spec spec = {CHAINLINE_FILE_READ, CHAINLINE_DURABLE_NEVER, CHAINLINE_KEEP_ALL,
        NULL, 0, 0, 0, 0, 32, 4096, 0};
    return spec;
}

#undef CL_STATIC_ASSERT
#ifdef __cplusplus
}
#endif
