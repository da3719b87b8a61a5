/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * LIA, OLIA and BALIA: Reno whose increase and decrease depend on the connection's other subflows.
 * The file of a control defines increase() and reduced(), then COUPLED(name).
 *
 * Which sockets are one connection is said by the kernel for the subflows of MPTCP, and for other
 * sockets by user space, which stores a number that they share in the map `groups`. A socket that
 * is in no group is a connection by itself: Reno.
 */
#pragma once

#include "weftline.bpf.h"

/* The most connections whose subflows know each other at a time; further ones are Reno each. */
#define CONNECTIONS_MAX 65536

/* A subflow's own state. */
struct flow {
	__u64 key; /* of its connection in `connections`; 0 in none */
	__s64 credit; /* acknowledged towards the next segment of window, in 1/ONE */
	__u32 place; /* in the group */
	__u32 lost_at; /* `delivered` of the socket when its last loss was found */
	__u64 between; /* bytes delivered between its last two losses */
};

/* By the address of the MPTCP connection, or by the number that user space gave. Those never have
 * the highest bit set, addresses of a kernel do. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, CONNECTIONS_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u64);
	__type(value, struct group);
} connections SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, __u64);
} groups SEC(".maps");

static __always_inline __u64 connection(struct sock *sk)
{
	__u64 *group, conn = 0;

	/* Kernels without MPTCP have neither. */
	if (bpf_core_field_exists(struct tcp_sock, is_mptcp) &&
	    bpf_core_field_exists(struct mptcp_subflow_context, conn) && tcp_sk(sk)->is_mptcp) {
		struct mptcp_subflow_context *subflow = inet_csk(sk)->icsk_ulp_data;

		bpf_core_read(&conn, sizeof(conn), &subflow->conn);
		return conn;
	}
	group = bpf_sk_storage_get(&groups, sk, NULL, 0);
	return group ? *group : 0;
}

/* The member at a place. Once made the pointer stays as it is: the verifier of Linux 6.1 forgets the
 * bounds of a number that has been on the stack, where the compiler would keep `place` instead. */
static __always_inline struct member *member(struct group *group, __u32 place)
{
	struct member *at;

	if (place >= MEMBERS_MAX)
		return NULL;
	at = &group->members[place];
	barrier_var(at);
	return at;
}

/* The subflow's member of its group, which goes to `*group`, if it still has its place there. */
static __always_inline struct member *joined(struct sock *sk, struct flow *flow,
					     struct group **group)
{
	__u64 key = flow->key;
	struct member *own;

	if (!key)
		return NULL;
	*group = bpf_map_lookup_elem(&connections, &key);
	if (!*group)
		return NULL;
	own = member(*group, flow->place);
	return own && own->owner == (__u64)(unsigned long)sk ? own : NULL;
}

/* The same; where user space or the kernel has said which connection a subflow is of, takes a free
 * place there. An entry that has just been removed by the last one to leave is found out later. */
static __always_inline struct member *join(struct sock *sk, struct flow *flow, struct group **group)
{
	static const struct group empty;
	struct member *own = joined(sk, flow, group);
	__u64 key;
	int i;

	if (own)
		return own;
	key = connection(sk);
	if (!key)
		return NULL;
	bpf_map_update_elem(&connections, &key, &empty, BPF_NOEXIST);
	*group = bpf_map_lookup_elem(&connections, &key);
	if (!*group)
		return NULL;
	for (i = 0; i < MEMBERS_MAX; i++) {
		own = member(*group, i);
		if (own && !__sync_val_compare_and_swap(&own->owner, 0, (__u64)(unsigned long)sk)) {
			flow->key = key;
			flow->place = i;
			return own;
		}
	}
	return NULL;
}

/* Leaves the group; the last one removes it. */
static __always_inline void leave(struct sock *sk, struct flow *flow)
{
	struct group *group;
	struct member *own = joined(sk, flow, &group);
	__u64 key = flow->key;
	bool empty = true;
	int i;

	if (!own)
		return;
	own->owner = 0;
	for (i = 0; i < MEMBERS_MAX; i++)
		if (group->members[i].owner)
			empty = false;
	if (empty)
		bpf_map_delete_elem(&connections, &key);
}

/* Fills in what the others see of a subflow. In recovery that is the window it will come to. */
static __always_inline void describe(struct sock *sk, const struct flow *flow, struct member *own)
{
	struct tcp_sock *tp = tcp_sk(sk);
	__u8 state = ca_state(sk);
	__u32 cwnd = tp->snd_cwnd;

	if (state == TCP_CA_CWR || state == TCP_CA_Recovery)
		cwnd = least(cwnd, tp->snd_ssthresh);
	own->cwnd = cwnd;
	own->srtt_us = tp->srtt_us >> 3;
	own->epoch_bytes =
		most((__u64)(tp->delivered - flow->lost_at) * tp->mss_cache, flow->between);
}

/* Counts `acked` segments, times a factor in 1/ONE, towards the window: one segment more per
 * window of credit, one less per window of negative credit, at least 1. */
static __always_inline void advance(struct tcp_sock *tp, struct flow *flow, __u32 acked, __s64 by)
{
	__u64 cwnd = most(tp->snd_cwnd, 1);
	__s64 credit = flow->credit + (__s64)acked * by;

	if (credit >= (__s64)(cwnd << ONE_SHIFT)) {
		credit -= cwnd << ONE_SHIFT;
		cwnd++;
		/* More than a window at once, after a long silence: the rest is a window's at most. */
		credit = least(credit, (cwnd << ONE_SHIFT) - 1);
		tp->snd_cwnd = least(cwnd, tp->snd_cwnd_clamp);
	} else if (credit < 0) {
		if (cwnd > 1) {
			cwnd--;
			credit += cwnd << ONE_SHIFT;
			tp->snd_cwnd = cwnd;
		}
		if (credit < 0)
			credit = 0;
	}
	flow->credit = credit;
}

/* Those of the control. */
static __always_inline __s64 increase(const struct group *group, const struct member *own);
static __always_inline __u32 reduced(const struct group *group, const struct member *own);

static __always_inline void on_init(struct sock *sk)
{
	struct flow *flow = inet_csk_ca(sk);

	/* The acknowledgement that ends the handshake comes first. */
	leave(sk, flow);
	flow->key = 0;
	flow->credit = 0;
	flow->place = 0;
	flow->lost_at = tcp_sk(sk)->delivered;
	flow->between = 0;
}

static __always_inline void on_ack(struct sock *sk, __u32 acked)
{
	struct flow *flow = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);
	struct member *own;
	struct group *group;
	__s64 by = ONE;

	if (!cwnd_limited(tp))
		return;
	acked = slow_start(tp, acked);
	if (!acked)
		return;
	own = join(sk, flow, &group);
	if (own) {
		describe(sk, flow, own);
		by = increase(group, own);
	}
	advance(tp, flow, acked, by);
}

/* Every acknowledgement, those in recovery too. */
static __always_inline void on_pkts_acked(struct sock *sk)
{
	struct flow *flow = inet_csk_ca(sk);
	struct group *group;
	struct member *own = join(sk, flow, &group);

	if (own)
		describe(sk, flow, own);
}

/* A loss has been found: the new threshold. */
static __always_inline __u32 on_loss(struct sock *sk)
{
	struct flow *flow = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);
	__u32 to = tp->snd_cwnd / 2;
	struct group *group;
	struct member *own = join(sk, flow, &group);

	flow->between = (__u64)(tp->delivered - flow->lost_at) * tp->mss_cache;
	flow->lost_at = tp->delivered;
	flow->credit = 0;
	if (own) {
		describe(sk, flow, own);
		to = reduced(group, own);
	}
	return most(to, MIN_SSTHRESH);
}

#define COUPLED(control)                                                                           \
	SEC("struct_ops/" #control "_init")                                                        \
	void BPF_PROG(control##_init, struct sock *sk)                                             \
	{                                                                                          \
		on_init(sk);                                                                       \
	}                                                                                          \
	SEC("struct_ops/" #control "_release")                                                     \
	void BPF_PROG(control##_release, struct sock *sk)                                          \
	{                                                                                          \
		leave(sk, inet_csk_ca(sk));                                                        \
	}                                                                                          \
	SEC("struct_ops/" #control "_cong_avoid")                                                  \
	void BPF_PROG(control##_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)               \
	{                                                                                          \
		on_ack(sk, acked);                                                                 \
	}                                                                                          \
	SEC("struct_ops/" #control "_pkts_acked")                                                  \
	void BPF_PROG(control##_pkts_acked, struct sock *sk, const struct ack_sample *sample)      \
	{                                                                                          \
		on_pkts_acked(sk);                                                                 \
	}                                                                                          \
	SEC("struct_ops/" #control "_ssthresh")                                                    \
	__u32 BPF_PROG(control##_ssthresh, struct sock *sk)                                        \
	{                                                                                          \
		return on_loss(sk);                                                                \
	}                                                                                          \
	SEC("struct_ops/" #control "_undo_cwnd")                                                   \
	__u32 BPF_PROG(control##_undo_cwnd, struct sock *sk)                                       \
	{                                                                                          \
		return undone(sk);                                                                 \
	}                                                                                          \
	SEC(".struct_ops.link")                                                                    \
	struct tcp_congestion_ops weft_##control = {                                               \
		.init = (void *)control##_init,                                                    \
		.release = (void *)control##_release,                                              \
		.cong_avoid = (void *)control##_cong_avoid,                                        \
		.pkts_acked = (void *)control##_pkts_acked,                                        \
		.ssthresh = (void *)control##_ssthresh,                                            \
		.undo_cwnd = (void *)control##_undo_cwnd,                                          \
		.flags = TCP_CONG_NON_RESTRICTED,                                                  \
		.name = "weft_" #control,                                                          \
	}
