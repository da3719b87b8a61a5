/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* OLIA, the opportunistic linked increases of draft-khalili-mptcp-congestion-control-05. */
#include "coupled.bpf.h"

static __always_inline __s64 increase(const struct group *group, const struct member *own)
{
	return olia_increase(group, own);
}

static __always_inline __u32 reduced(const struct group *group, const struct member *own)
{
	return own->cwnd / 2;
}

COUPLED(olia);
