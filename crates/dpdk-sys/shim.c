/* SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* fopencookie */
#endif
#include <stdarg.h>
#include <stdio.h>
#include <sys/types.h>

#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>
#include <rte_meter.h>

#include "shim.h"

int chainline_errno(void)
{
	return rte_errno;
}

static FILE *log_stream;

static ssize_t log_write(void *sink, const char *text, size_t len)
{
	((void (*)(const char *, size_t))sink)(text, len);
	return len;
}

FILE *chainline_log_stream(void (*sink)(const char *text, size_t len))
{
	log_stream = fopencookie((void *)sink, "w", (cookie_io_functions_t){ .write = log_write });
	if (log_stream != NULL)
		setvbuf(log_stream, NULL, _IOLBF, BUFSIZ);
	return log_stream;
}

static int log_print(int level, const char *format, va_list args)
{
	/* 0 is the only level that tells of something wrong. */
	return level == 0 && log_stream != NULL ? vfprintf(log_stream, format, args) : 0;
}

void *chainline_log_printer(void)
{
	return (void *)log_print;
}

uint16_t chainline_rx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t n)
{
	return rte_eth_rx_burst(port, queue, mbufs, n);
}

uint16_t chainline_tx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t n)
{
	return rte_eth_tx_burst(port, queue, mbufs, n);
}

int chainline_mbuf_alloc_bulk(struct rte_mempool *pool, struct rte_mbuf **mbufs, unsigned int n)
{
	return rte_pktmbuf_alloc_bulk(pool, mbufs, n);
}

void chainline_mbuf_reset_bulk(struct rte_mbuf **mbufs, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		rte_pktmbuf_reset(mbufs[i]);
}

void chainline_mbuf_free_bulk(struct rte_mbuf **mbufs, unsigned int n)
{
	rte_pktmbuf_free_bulk(mbufs, n);
}

int chainline_link_up(uint16_t port)
{
	struct rte_eth_link link = { 0 };

	return rte_eth_link_get_nowait(port, &link) == 0 && link.link_status == RTE_ETH_LINK_UP;
}

/* Runs when the last indirect mbuf lets go of a pinned buffer whose owner was freed before: the owner goes home. */
static void unpinned(void *buf, void *owner)
{
	struct rte_mbuf *m = owner;

	RTE_SET_USED(buf);
	m->ol_flags = RTE_MBUF_F_EXTERNAL;
	m->next = NULL;
	m->nb_segs = 1;
	rte_mbuf_ext_refcnt_set(m->shinfo, 1);
	rte_mbuf_refcnt_set(m, 1);
	rte_mempool_put(m->pool, m);
}

void chainline_mbuf_pin(struct rte_mbuf *m, void *buf, uint64_t iova, uint16_t buf_len)
{
	struct rte_mbuf_ext_shared_info *shinfo =
		RTE_PTR_ADD(m, sizeof(*m) + rte_pktmbuf_priv_size(m->pool));

	m->buf_addr = buf;
	m->buf_iova = iova;
	m->buf_len = buf_len;
	m->ol_flags = RTE_MBUF_F_EXTERNAL;
	m->shinfo = shinfo;
	rte_pktmbuf_reset_headroom(m);
	shinfo->free_cb = unpinned;
	shinfo->fcb_opaque = m;
	rte_mbuf_ext_refcnt_set(shinfo, 1);
}

uint32_t chainline_mbuf_pin_size(void)
{
	return sizeof(struct rte_mbuf_ext_shared_info);
}

uint32_t chainline_pktmbuf_pool_private_size(void)
{
	return sizeof(struct rte_pktmbuf_pool_private);
}

void chainline_pktmbuf_pool_init(struct rte_mempool *mp, uint16_t data_room, uint16_t priv_size, int pinned)
{
	struct rte_pktmbuf_pool_private priv = {
		.mbuf_data_room_size = data_room,
		.mbuf_priv_size = priv_size,
		.flags = pinned ? RTE_PKTMBUF_POOL_F_PINNED_EXT_BUF : 0,
	};

	rte_pktmbuf_pool_init(mp, &priv);
}

void *chainline_mempool_config(const struct rte_mempool *mp)
{
	return mp->pool_config;
}

_Static_assert(sizeof(struct rte_meter_srtcm) <= sizeof(((struct chainline_meter *)0)->state) &&
	sizeof(struct rte_meter_trtcm) <= sizeof(((struct chainline_meter *)0)->state), "a meter has room for both");
_Static_assert(sizeof(struct rte_meter_srtcm_profile) <= sizeof(((struct chainline_meter_profile *)0)->profile) &&
	sizeof(struct rte_meter_trtcm_profile) <= sizeof(((struct chainline_meter_profile *)0)->profile),
	"a profile has room for both");

void chainline_meter_srtcm(struct chainline_meter_profile *p, uint64_t cir_period, uint64_t cbs, uint64_t ebs)
{
	*p = (struct chainline_meter_profile){ .two_rates = 0 };
	*(struct rte_meter_srtcm_profile *)p->profile = (struct rte_meter_srtcm_profile){
		.cbs = cbs,
		.ebs = ebs,
		.cir_period = cir_period,
		.cir_bytes_per_period = 1,
	};
}

void chainline_meter_trtcm(struct chainline_meter_profile *p, uint64_t cir_period, uint64_t cbs, uint64_t pir_period,
	uint64_t pbs)
{
	*p = (struct chainline_meter_profile){ .two_rates = 1 };
	*(struct rte_meter_trtcm_profile *)p->profile = (struct rte_meter_trtcm_profile){
		.cbs = cbs,
		.pbs = pbs,
		.cir_period = cir_period,
		.cir_bytes_per_period = 1,
		.pir_period = pir_period,
		.pir_bytes_per_period = 1,
	};
}

void chainline_meter_start(const struct chainline_meter_profile *p, struct chainline_meter *m)
{
	*m = (struct chainline_meter){ { 0 } };
	if (p->two_rates) {
		const struct rte_meter_trtcm_profile *tr = (const void *)p->profile;

		*(struct rte_meter_trtcm *)m->state = (struct rte_meter_trtcm){
			.time_tc = p->now,
			.time_tp = p->now,
			.tc = tr->cbs,
			.tp = tr->pbs,
		};
	} else {
		const struct rte_meter_srtcm_profile *sr = (const void *)p->profile;

		*(struct rte_meter_srtcm *)m->state = (struct rte_meter_srtcm){
			.time = p->now,
			.tc = sr->cbs,
			.te = sr->ebs,
		};
	}
}

void chainline_meter_burst(struct chainline_meter_profile *profiles, struct chainline_meter *meters,
	struct chainline_meter_item *items, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++) {
		struct chainline_meter_item *it = &items[i];
		struct chainline_meter_profile *p = &profiles[it->profile];
		void *m = meters[it->meter].state;

		it->colour = p->two_rates ?
			rte_meter_trtcm_color_aware_check(m, (void *)p->profile, p->now, it->len, it->colour) :
			rte_meter_srtcm_color_aware_check(m, (void *)p->profile, p->now, it->len, it->colour);
	}
}
