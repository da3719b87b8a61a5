/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What every control does: the window in whole segments with a credit towards the next one, slow
 * start, and for the coupled ones the table of what the subflows of a connection know of each
 * other. A program is called with its socket locked, but other subflows run at the same time:
 * each writes only its own place.
 */
#pragma once

#include "kernel.bpf.h"

#include "arithmetic.bpf.h"

/* The least slow start threshold (RFC 5681, equation 4). */
#define MIN_SSTHRESH 2

static __always_inline struct tcp_sock *tcp_sk(struct sock *sk)
{
	return (struct tcp_sock *)sk;
}

static __always_inline struct inet_connection_sock *inet_csk(struct sock *sk)
{
	return (struct inet_connection_sock *)sk;
}

/* A control's own state of a socket, in the 104 bytes that the kernel keeps for it. */
static __always_inline void *inet_csk_ca(struct sock *sk)
{
	return (void *)inet_csk(sk)->icsk_ca_priv;
}

static __always_inline __u8 ca_state(struct sock *sk)
{
	return BPF_CORE_READ_BITFIELD(inet_csk(sk), icsk_ca_state);
}

/* Whether the window, not the application, limits sending: tcp_is_cwnd_limited() of Linux. */
static __always_inline bool cwnd_limited(struct tcp_sock *tp)
{
	if (BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited))
		return true;
	return tp->snd_cwnd < tp->snd_ssthresh && tp->snd_cwnd < 2 * tp->max_packets_out;
}

/* Grows by `acked` up to the threshold (RFC 5681 with RFC 3465); what is left is for congestion
 * avoidance. */
static __always_inline __u32 slow_start(struct tcp_sock *tp, __u32 acked)
{
	__u32 cwnd = tp->snd_cwnd, ssthresh = tp->snd_ssthresh, used = 0;

	if (cwnd < ssthresh) {
		used = least(acked, ssthresh - cwnd);
		tp->snd_cwnd = least(cwnd + used, tp->snd_cwnd_clamp);
	}
	return acked - used;
}

/* Takes a reduction back; as in Linux, never downwards. */
static __always_inline __u32 undone(struct sock *sk)
{
	return most(tcp_sk(sk)->snd_cwnd, tcp_sk(sk)->prior_cwnd);
}
