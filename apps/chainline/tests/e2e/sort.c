/* Diverts by protocol: UDP to the first target, ICMP to the second, what is not IP to the third. */
#include <chainline_nf.h>

enum { ETHERTYPE = 12, V4_PROTOCOL = 23, V6_NEXT_HEADER = 20, ICMP = 1, UDP = 17, ICMPV6 = 58 };

static int32_t create(const char *args, struct chainline_env *env, void **self)
{
    (void)args;
    *self = 0;
    if (env->n_targets == 3)
        return CHAINLINE_OK;
    env->fail(env, "expected three targets");
    return CHAINLINE_E_INVALID;
}

static int32_t process(void *self, struct chainline_packet *p, uint32_t count, struct chainline_ctx *ctx)
{
    (void)self, (void)ctx;
    for (struct chainline_packet *end = p + count; p < end; p++) {
        const uint8_t *frame = cl_data(p);
        unsigned protocol = 256;
        if (p->len > V4_PROTOCOL && frame[ETHERTYPE] == 0x08 && frame[ETHERTYPE + 1] == 0x00)
            protocol = frame[V4_PROTOCOL];
        else if (p->len > V4_PROTOCOL && frame[ETHERTYPE] == 0x86 && frame[ETHERTYPE + 1] == 0xdd)
            protocol = frame[V6_NEXT_HEADER];
        if (protocol == UDP)
            p->verdict = cl_divert(0);
        else if (protocol == ICMP || protocol == ICMPV6)
            p->verdict = cl_divert(1);
        else if (protocol == 256)
            p->verdict = cl_divert(2);
    }
    return CHAINLINE_OK;
}

static const struct chainline_nf nf = {CHAINLINE_NF_HEAD, "sort", "diverts by protocol", 0, create, process, 0, 0, 0, 0, 0};
CHAINLINE_EXPORT_NF(nf)
