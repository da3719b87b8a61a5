/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* LIA, the linked increases of RFC 6356. */
#include "coupled.bpf.h"

static __always_inline __s64 increase(const struct group *group, const struct member *own)
{
	return lia_increase(group, own);
}

static __always_inline __u32 reduced(const struct group *group, const struct member *own)
{
	return own->cwnd / 2;
}

COUPLED(lia);
