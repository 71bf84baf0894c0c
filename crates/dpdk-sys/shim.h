/* SPDX-License-Identifier: Apache-2.0
 *
 * C names for what DPDK offers only as `static inline` functions or macros. No logic, and never a call per packet.
 */
#ifndef CHAINLINE_DPDK_SHIM_H
#define CHAINLINE_DPDK_SHIM_H

#include <stdint.h>
#include <stdio.h>

struct rte_mbuf;
struct rte_mempool;

/* rte_errno is a thread-local behind a macro. */
int chainline_errno(void);

/* A stream whose text goes to `sink`: rte_openlog_stream wants a FILE. */
FILE *chainline_log_stream(void (*sink)(const char *text, size_t len));

/* A printer for libbpf and libxdp (libbpf_print_fn_t), which net_af_xdp uses: warnings go to the stream above. */
void *chainline_log_printer(void);

uint16_t chainline_rx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t n);
uint16_t chainline_tx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t n);

int chainline_mbuf_alloc_bulk(struct rte_mempool *pool, struct rte_mbuf **mbufs, unsigned int n);
void chainline_mbuf_reset_bulk(struct rte_mbuf **mbufs, unsigned int n);
void chainline_mbuf_free_bulk(struct rte_mbuf **mbufs, unsigned int n);

/* 1 when the link is up, without waiting for it: struct rte_eth_link changes its make. */
int chainline_link_up(uint16_t port);

/* Makes an initialised mbuf one with a pinned external buffer (mbuf library guide, "Direct and Indirect Buffers"). */
void chainline_mbuf_pin(struct rte_mbuf *m, void *buf, uint64_t iova, uint16_t buf_len);
/* The bytes that such an mbuf needs behind its private area. */
uint32_t chainline_mbuf_pin_size(void);
/* The bytes of struct rte_pktmbuf_pool_private. */
uint32_t chainline_pktmbuf_pool_private_size(void);
/* Initialises that private area for a pool of pinned external buffers, or of ordinary ones. */
void chainline_pktmbuf_pool_init(struct rte_mempool *mp, uint16_t data_room, uint16_t priv_size, int pinned);
/* What was handed to rte_mempool_set_ops_byname, which mempool ops need on their fast path. */
void *chainline_mempool_config(const struct rte_mempool *mp);

/* rte_meter is inline throughout. Its own configuration counts in TSC cycles and rounds rates to them; profiles made here
 * count in ticks of the caller's, so that a rate can be exact. */

/* The buckets of one srTCM or trTCM: the latest update and the tokens. */
struct chainline_meter {
	uint64_t state[4];
};

/* By what a meter runs. `now` is the time of the burst in the profile's ticks, set before each. */
struct chainline_meter_profile {
	uint64_t now;
	uint64_t two_rates;
	uint64_t profile[6];
};

/* One packet: colour (enum rte_color) before and after. */
struct chainline_meter_item {
	uint32_t meter;
	uint16_t len;
	uint8_t profile;
	uint8_t colour;
};

/* srTCM (RFC 2697): a byte each `cir_period` ticks, buckets of cbs and ebs bytes. */
void chainline_meter_srtcm(struct chainline_meter_profile *p, uint64_t cir_period, uint64_t cbs, uint64_t ebs);
/* trTCM (RFC 2698): bytes each `cir_period` and each `pir_period` ticks, buckets of cbs and pbs bytes. */
void chainline_meter_trtcm(struct chainline_meter_profile *p, uint64_t cir_period, uint64_t cbs, uint64_t pir_period,
	uint64_t pbs);
/* Fills the buckets of a meter. */
void chainline_meter_start(const struct chainline_meter_profile *p, struct chainline_meter *m);
/* Colours a burst, packet by packet, colour-aware: green before means colour-blind. */
void chainline_meter_burst(struct chainline_meter_profile *profiles, struct chainline_meter *meters,
	struct chainline_meter_item *items, unsigned int n);

#endif
