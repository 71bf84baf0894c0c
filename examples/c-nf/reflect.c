/* Sends every frame back: swaps its MAC addresses. Frames shorter than min_len bytes are dropped. */
#include <chainline_nf.h>
#include <stdlib.h>
#include <string.h>

struct reflect {
    uint64_t min_len;
    uint32_t reflected, runt;
};

static int32_t create(const char *args, struct chainline_env *env, void **self)
{
    struct reflect *nf = calloc(1, sizeof *nf);
    (void)args; /* Has been checked against the schema; single values come from env. */
    if (!nf)
        return CHAINLINE_E_FULL;
    nf->min_len = 14;
    env->arg_u64(env, "/min_len", &nf->min_len);
    env->counter(env, "reflected", "packets", "sent back", &nf->reflected);
    env->drop_reason(env, "runt", &nf->runt);
    *self = nf;
    return CHAINLINE_OK;
}

static int32_t process(void *self, struct chainline_packet *p, uint32_t count, struct chainline_ctx *ctx)
{
    struct reflect *nf = self;
    uint64_t reflected = 0;
    for (struct chainline_packet *end = p + count; p < end; p++) {
        uint8_t src[6], *frame = cl_data(p);
        if (p->len < nf->min_len) {
            p->verdict = cl_drop(nf->runt);
            continue;
        }
        memcpy(src, frame + 6, 6);
        memcpy(frame + 6, frame, 6);
        memcpy(frame, src, 6);
        reflected++;
    }
    cl_count(ctx, nf->reflected, reflected);
    return CHAINLINE_OK;
}

/* What it reads and writes of packets; it has no state. */
static const struct chainline_footprint footprint = {CHAINLINE_FOOTPRINT_STATELESS,
    CHAINLINE_FIELD_ETHERNET_SOURCE | CHAINLINE_FIELD_ETHERNET_DESTINATION | CHAINLINE_FIELD_FRAME_LENGTH,
    CHAINLINE_FIELD_ETHERNET_SOURCE | CHAINLINE_FIELD_ETHERNET_DESTINATION, NULL};

static const struct chainline_nf nf = {CHAINLINE_NF_HEAD, "reflect", "sends every frame back",
    "{\"type\":\"object\",\"additionalProperties\":false,"
    "\"properties\":{\"min_len\":{\"type\":\"integer\",\"minimum\":14,\"maximum\":9018}}}",
    create, process, NULL, NULL, free, NULL, &footprint};
CHAINLINE_EXPORT_NF(nf)
