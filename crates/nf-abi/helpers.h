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
