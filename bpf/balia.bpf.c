/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* BALIA, the balanced linked adaptation of draft-walid-mptcp-congestion-control-04. */
#include "coupled.bpf.h"

static __always_inline __s64 increase(const struct group *group, const struct member *own)
{
	return balia_increase(group, own);
}

static __always_inline __u32 reduced(const struct group *group, const struct member *own)
{
	return balia_reduced(group, own);
}

COUPLED(balia);
