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

#endif
