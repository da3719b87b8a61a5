/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The parts of the kernel's types that the controls touch, and nothing else. Each is declared with
 * preserve_access_index: the compiler records names instead of offsets, and the loader puts in the
 * offsets of the kernel at hand (CO-RE), so that one object runs on every kernel that has the
 * fields.
 */
#pragma once

typedef _Bool bool;
typedef unsigned char __u8;
typedef unsigned short __u16;
typedef short __s16;
typedef unsigned int __u32;
typedef int __s32;
typedef unsigned long long __u64;
typedef long long __s64;
/* What the helpers' declarations name. */
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;

#define true 1
#define false 0
#define NULL ((void *)0)

/* The values of enumerations that are part of the kernel's interface (linux/bpf.h, linux/tcp.h). */
enum { BPF_MAP_TYPE_HASH = 1, BPF_MAP_TYPE_ARRAY = 2, BPF_MAP_TYPE_SK_STORAGE = 24 };
enum { BPF_F_NO_PREALLOC = 1, BPF_NOEXIST = 1 };
enum { TCP_CA_Open, TCP_CA_Disorder, TCP_CA_CWR, TCP_CA_Recovery, TCP_CA_Loss };
enum { TCP_CONG_NON_RESTRICTED = 1 };

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#define relocated __attribute__((preserve_access_index))

struct sock {
} relocated;

/* Its size, 104 bytes, has been the kernel's since 4.20. */
struct inet_connection_sock {
	__u8 icsk_ca_state : 5;
	void *icsk_ulp_data;
	__u64 icsk_ca_priv[13];
} relocated;

struct minmax_sample {
	__u32 t;
	__u32 v;
} relocated;

struct tcp_sock {
	__u32 snd_una;
	__u32 snd_nxt;
	__u32 snd_cwnd;
	__u32 snd_ssthresh;
	__u32 snd_cwnd_clamp;
	__u32 prior_cwnd;
	__u32 max_packets_out;
	__u32 srtt_us; /* eighths of a microsecond */
	__u32 delivered;
	__u32 mss_cache;
	__u8 is_cwnd_limited : 1;
	bool is_mptcp;
} relocated;

struct mptcp_subflow_context {
	struct sock *conn;
} relocated;

struct ack_sample {
	__u32 pkts_acked;
	__s32 rtt_us;
	__u32 in_flight;
} relocated;

struct tcp_congestion_ops {
	__u32 (*ssthresh)(struct sock *sk);
	void (*cong_avoid)(struct sock *sk, __u32 ack, __u32 acked);
	void (*set_state)(struct sock *sk, __u8 state);
	void (*pkts_acked)(struct sock *sk, const struct ack_sample *sample);
	__u32 (*undo_cwnd)(struct sock *sk);
	char name[16];
	__u32 flags;
	void (*init)(struct sock *sk);
	void (*release)(struct sock *sk);
};

/* Programs of this type must be GPL-compatible to be loaded. */
char _license[] SEC("license") = "Dual MIT/GPL";
