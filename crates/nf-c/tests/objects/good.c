/* Uses everything that the ABI offers once. */
#include <chainline_nf.h>

static uint32_t seen, level, logged, found, runt, scrub, log_file, table;
static uint64_t min_len = 14, ticks;
static char path[64], word[16];
static uint32_t held[8], n_held;

static int32_t create(const char *args, struct chainline_env *env, void **self)
{
    int32_t code;
    *self = (void *)args; /* Anything: nobody looks at it. */
    struct chainline_file_spec append = cl_append(), read = cl_read();
    append.head = (const uint8_t *)"head";
    append.head_len = 4;
    if (env->open(env, "odd", NULL, &log_file) != CHAINLINE_E_INVALID)
        return CHAINLINE_E_FAILED;
    if ((code = env->open(env, "log", &append, &log_file)) || (code = env->open(env, "table", &read, &table)) ||
        (code = env->may_hold_each(env)) || (code = env->counter(env, "seen", "packets", "looked at", &seen)) ||
        (code = env->counter(env, "level", "packets", "held now", &level)) ||
        (code = env->counter(env, "logged", "bytes", "written", &logged)) ||
        (code = env->counter(env, "found", "bytes", "read", &found)) ||
        (code = env->drop_reason(env, "runt", &runt)) || (code = env->drop_reason(env, "runt", &runt)))
        return code;
    code = env->arg_u64(env, "/min_len", &min_len);
    if (code && code != CHAINLINE_E_ABSENT)
        return code;
    if (env->arg_u64(env, "/word", &min_len) == CHAINLINE_OK || env->path(env, "rules", path, 3) != CHAINLINE_E_FULL)
        return CHAINLINE_E_FAILED;
    if ((code = env->path(env, "rules", path, sizeof path)))
        return code;
    if (env->arg_text(env, "/word", word, sizeof word) == CHAINLINE_OK && word[0] == 'x') {
        env->fail(env, "word: found x, expected another letter");
        return CHAINLINE_E_INVALID;
    }
    return env->target(env, "scrub", &scrub);
}

static int32_t process(void *self, struct chainline_packet *p, uint32_t n, struct chainline_ctx *ctx)
{
    (void)self;
    for (; n--; p++) {
        cl_count(ctx, seen, 1);
        cl_count(ctx, 1000, 1); /* No such counter: no effect. */
        if (p->len < min_len)
            p->verdict = cl_drop(runt);
        else if (cl_data(p)[0] == 1)
            p->verdict = cl_divert(scrub);
        else if (cl_data(p)[0] == 12) {
            struct chainline_bytes parts[2] = {{cl_data(p), 2}, {cl_data(p) + 5, 1}};
            uint64_t context = 77;
            if (ctx->write(ctx, log_file, parts, 2, &context) || ctx->write(ctx, log_file, parts, 1, NULL) ||
                ctx->flush(ctx, log_file) || ctx->read(ctx, table, 0, 16, 88) ||
                ctx->write(ctx, table, parts, 2, NULL) != CHAINLINE_E_ABSENT ||
                ctx->write(ctx, 99, parts, 2, NULL) != CHAINLINE_E_ABSENT ||
                ctx->write(ctx, log_file, parts, 17, NULL) != CHAINLINE_E_INVALID ||
                ctx->read(ctx, table, 0, 4097, 0) != CHAINLINE_E_INVALID)
                return CHAINLINE_E_FAILED;
        } else if (cl_data(p)[0] == 4 && n_held < 8 && ctx->hold(ctx, &held[n_held]) == CHAINLINE_OK)
            p->verdict = cl_hold(held[n_held++]);
        else if (cl_data(p)[0] == 6 && cl_push_front(p, 2))
            cl_data(p)[0] = cl_data(p)[1] = 0xcc;
        else if (cl_data(p)[0] == 8 && (!cl_pull_front(p, 2) || !cl_set_len(p, (uint16_t)(p->len - 1))))
            return CHAINLINE_E_FAILED;
        else if (cl_push_front(p, 5000) || cl_pull_front(p, 5000) || cl_set_len(p, 50000))
            return CHAINLINE_E_FAILED;
    }
    cl_set(ctx, level, n_held);
    return CHAINLINE_OK;
}

static void mark(struct chainline_packet *p, void *user)
{
    cl_data(p)[0] = *(uint8_t *)user;
}

static int32_t tick(void *self, struct chainline_ctx *ctx)
{
    uint8_t m = (uint8_t)(0x90 + ctx->now_ns / 1000000);
    (void)self;
    ticks++;
    if (ctx->release(ctx, 77, cl_next()) != CHAINLINE_E_ABSENT || ctx->with_held(ctx, 77, mark, &m) != CHAINLINE_E_ABSENT)
        return CHAINLINE_E_FAILED;
    for (uint32_t i = 0; i < n_held; i++) {
        /* The second one gets a verdict that does not exist. */
        if (ctx->with_held(ctx, held[i], mark, &m) || ctx->release(ctx, held[i], i == 1 ? 0xdead0000u : cl_next()))
            return CHAINLINE_E_FAILED;
    }
    n_held = 0;
    cl_set(ctx, level, 0);
    return CHAINLINE_OK;
}

static int32_t completed(void *self, const struct chainline_completion *done, struct chainline_ctx *ctx)
{
    (void)self;
    if (done->count != 1 || done->result < 0)
        return CHAINLINE_E_FAILED;
    if (done->file == table && done->has_context && done->context == 88)
        cl_count(ctx, found, (uint64_t)done->result);
    else if (done->file == log_file && !done->data && done->has_context == (done->context == 77))
        cl_count(ctx, logged, (uint64_t)done->result);
    else
        return CHAINLINE_E_FAILED;
    return CHAINLINE_OK;
}

static int32_t report(const void *self, void (*write)(void *, const char *, size_t), void *user)
{
    char digit = (char)('0' + ticks % 10);
    (void)self;
    write(user, "ticks ", 6);
    write(user, &digit, 1);
    return CHAINLINE_OK;
}

static const char schema[] = "{\"type\": \"object\", \"additionalProperties\": false, \"properties\": {"
                             "\"min_len\": {\"type\": \"integer\", \"minimum\": 1, \"maximum\": 100},"
                             "\"word\": {\"type\": \"string\"}}}";
static const struct chainline_state states[] = {{"held", NULL, CHAINLINE_SCOPE_INSTANCE, 4}, {"words", "word", CHAINLINE_SCOPE_FLOW, 0}};
static const struct chainline_footprint footprint = {
    CHAINLINE_FOOTPRINT_HEAD(states), CHAINLINE_FIELD_FRAME | CHAINLINE_FIELD_FRAME_LENGTH, CHAINLINE_FIELD_FRAME, states};
static const struct chainline_nf nf = {CHAINLINE_NF_HEAD, "good", "uses everything", schema, create, process, tick, report, NULL, completed, &footprint};
CHAINLINE_EXPORT_NF(nf)
