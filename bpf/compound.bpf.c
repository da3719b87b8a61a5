/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Compound TCP: Reno's window and beside it one that grows fast while there is no queue
 * (draft-sridharan-tcpm-ctcp-02; Tan et al., INFOCOM 2006). The kernel's window is their sum.
 */
#include "weftline.bpf.h"

#include "compound.bpf.h"

/* The delay-based part. */
struct delay {
	__u64 window;
	__u64 reno; /* where Reno would be that had the same window after the last loss */
	__u32 gamma;
};

/* A socket's own state. */
struct flow {
	struct delay delay, before; /* now, and before the last reduction */
	__u32 cwnd; /* as this control last left the kernel's */
	__u32 credit; /* acknowledged towards the next segment of Reno's part, in 1/65536 of it */
	__u32 round_end; /* the sequence number whose acknowledgement ends the round */
	__u32 samples;
	__u64 total_us; /* of the round's samples */
	__u32 rtt_us; /* the mean of the last round that had enough samples */
	__u32 base_us; /* the least ever; 0 before the first sample */
};

_Static_assert(sizeof(struct flow) <= 104, "the kernel keeps 104 bytes for a control");

/* Where others have set the window (recovery, idleness, an undone reduction), the sum counts and
 * the delay part is what it can still be of it. */
static __always_inline __u32 reconcile(struct tcp_sock *tp, struct flow *flow)
{
	__u32 cwnd = tp->snd_cwnd, delay;

	if (cwnd != flow->cwnd) {
		flow->cwnd = cwnd;
		flow->credit = 0;
		if (flow->delay.window >> 16 >= cwnd)
			flow->delay.window = cwnd > 1 ? (__u64)(cwnd - 1) << 16 : 0;
	}
	delay = flow->delay.window >> 16;
	return cwnd > delay ? cwnd - delay : 1;
}

/* Sets the kernel's window to the sum of both. */
static __always_inline void apply(struct tcp_sock *tp, struct flow *flow, __u32 reno)
{
	__u32 cwnd = most(reno + (__u32)(flow->delay.window >> 16), 1);

	cwnd = least(cwnd, tp->snd_cwnd_clamp);
	tp->snd_cwnd = cwnd;
	flow->cwnd = cwnd;
}

/* One segment per whole window of both parts; Reno's while the delay part is 0. */
static __always_inline void avoid(struct tcp_sock *tp, struct flow *flow, __u32 acked)
{
	__u32 reno = reconcile(tp, flow);
	__u32 cwnd = most(tp->snd_cwnd, 1);
	__u32 grown;

	flow->credit += acked;
	flow->delay.reno += ((__u64)acked << 16) / cwnd;
	grown = flow->credit >= cwnd ? 1 : 0;
	if (grown)
		flow->credit = least(flow->credit - cwnd, cwnd);
	apply(tp, flow, reno + grown);
}

/* At the end of a round in congestion avoidance the delay window grows or shrinks. */
static __always_inline void adapt(struct tcp_sock *tp, struct flow *flow)
{
	__u32 reno = reconcile(tp, flow);
	__u64 win = ((__u64)reno << 16) + flow->delay.window;
	__u64 backlog = compound_backlog(win, flow->base_us, flow->rtt_us);

	if (win < LOW_WINDOW && backlog < flow->delay.gamma)
		return;
	flow->delay.window = compound_next(win, flow->delay.window, backlog, flow->delay.gamma);
	apply(tp, flow, reno);
}

SEC("struct_ops/compound_init")
void BPF_PROG(compound_init, struct sock *sk)
{
	struct flow *flow = inet_csk_ca(sk);

	flow->delay.window = 0;
	flow->delay.reno = 0;
	flow->delay.gamma = GAMMA_MAX;
	flow->before.window = 0;
	flow->before.reno = 0;
	flow->before.gamma = GAMMA_MAX;
	flow->cwnd = tcp_sk(sk)->snd_cwnd;
	flow->credit = 0;
	flow->round_end = tcp_sk(sk)->snd_nxt;
	flow->samples = 0;
	flow->total_us = 0;
	flow->rtt_us = 0;
	flow->base_us = 0;
}

SEC("struct_ops/compound_pkts_acked")
void BPF_PROG(compound_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct flow *flow = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);
	__u32 samples = flow->samples;
	__s32 rtt_us = sample->rtt_us;

	if (rtt_us > 0) {
		flow->samples = ++samples;
		flow->total_us += rtt_us;
		if (!flow->base_us || (__u32)rtt_us < flow->base_us)
			flow->base_us = rtt_us;
	}
	if ((__s32)(tp->snd_una - flow->round_end) < 0)
		return;
	flow->round_end = tp->snd_nxt;
	flow->samples = 0;
	if (samples >= MIN_SAMPLES) {
		flow->rtt_us = flow->total_us / samples;
		if (ca_state(sk) <= TCP_CA_Disorder && cwnd_limited(tp) &&
		    tp->snd_cwnd >= tp->snd_ssthresh)
			adapt(tp, flow);
	}
	flow->total_us = 0;
}

SEC("struct_ops/compound_cong_avoid")
void BPF_PROG(compound_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (!cwnd_limited(tp))
		return;
	acked = slow_start(tp, acked);
	if (acked)
		avoid(tp, inet_csk_ca(sk), acked);
}

SEC("struct_ops/compound_ssthresh")
__u32 BPF_PROG(compound_ssthresh, struct sock *sk)
{
	struct flow *flow = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);
	__u32 reno = reconcile(tp, flow), to;
	__u64 queue = compound_backlog(flow->delay.reno, flow->base_us, flow->rtt_us);

	flow->before.window = flow->delay.window;
	flow->before.reno = flow->delay.reno;
	flow->before.gamma = flow->delay.gamma;
	flow->delay.gamma = compound_gamma(flow->delay.gamma, queue);
	flow->delay.window = compound_reduced((__u64)reno << 16, flow->delay.window);
	to = most(reno / 2, MIN_SSTHRESH) + (__u32)(flow->delay.window >> 16);
	flow->delay.reno = (__u64)to << 16;
	flow->credit = 0;
	return to;
}

SEC("struct_ops/compound_set_state")
void BPF_PROG(compound_set_state, struct sock *sk, __u8 state)
{
	struct flow *flow = inet_csk_ca(sk);

	/* A timeout shuts the delay window. */
	if (state == TCP_CA_Loss) {
		flow->delay.window = 0;
		flow->delay.reno = (__u64)tcp_sk(sk)->snd_ssthresh << 16;
	}
}

SEC("struct_ops/compound_undo_cwnd")
__u32 BPF_PROG(compound_undo_cwnd, struct sock *sk)
{
	struct flow *flow = inet_csk_ca(sk);

	flow->delay.window = flow->before.window;
	flow->delay.reno = flow->before.reno;
	flow->delay.gamma = flow->before.gamma;
	return undone(sk);
}

SEC(".struct_ops.link")
struct tcp_congestion_ops weft_compound = {
	.init = (void *)compound_init,
	.pkts_acked = (void *)compound_pkts_acked,
	.cong_avoid = (void *)compound_cong_avoid,
	.ssthresh = (void *)compound_ssthresh,
	.set_state = (void *)compound_set_state,
	.undo_cwnd = (void *)compound_undo_cwnd,
	.flags = TCP_CONG_NON_RESTRICTED,
	.name = "weft_compound",
};
