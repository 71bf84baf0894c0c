/* SPDX-License-Identifier: Apache-2.0
 *
 * What bindgen sees: the DPDK headers that chainline-dpdk uses, our shim, and the places of the few rte_mbuf
 * fields that Rust touches. The mbuf itself stays opaque, because its anonymous unions (and so the names bindgen
 * gives them) change from one DPDK release to the next, while offsetof() of a named field is right in all.
 */
#include <stddef.h>
#include <rte_acl.h>
#include <rte_eal.h>
#include <rte_dev.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_fib.h>
#include <rte_fib6.h>
#include <rte_hash.h>
#include <rte_log.h>
#include <rte_malloc.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>
#include <rte_rib.h>
#include <rte_rib6.h>
#include <rte_version.h>
#include "shim.h"

enum chainline_mbuf_offset {
	CHAINLINE_MBUF_BUF_ADDR = offsetof(struct rte_mbuf, buf_addr),
	CHAINLINE_MBUF_DATA_OFF = offsetof(struct rte_mbuf, data_off),
	CHAINLINE_MBUF_OL_FLAGS = offsetof(struct rte_mbuf, ol_flags),
	CHAINLINE_MBUF_VLAN_TCI = offsetof(struct rte_mbuf, vlan_tci),
	CHAINLINE_MBUF_NB_SEGS = offsetof(struct rte_mbuf, nb_segs),
	CHAINLINE_MBUF_PKT_LEN = offsetof(struct rte_mbuf, pkt_len),
	CHAINLINE_MBUF_DATA_LEN = offsetof(struct rte_mbuf, data_len),
	CHAINLINE_MBUF_POOL = offsetof(struct rte_mbuf, pool),
	CHAINLINE_MBUF_NEXT = offsetof(struct rte_mbuf, next),
	CHAINLINE_MBUF_SIZE = sizeof(struct rte_mbuf),
	CHAINLINE_MBUF_HEADROOM = RTE_PKTMBUF_HEADROOM,
};

static const uint64_t CHAINLINE_MBUF_VLAN_STRIPPED = RTE_MBUF_F_RX_VLAN_STRIPPED;
