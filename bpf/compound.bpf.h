/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The formulas of Compound TCP in integers: windows in 1/SEGMENT segment, times in microseconds.
 * The constants are those of draft-sridharan-tcpm-ctcp-02.
 */
#pragma once

#include "arithmetic.bpf.h"

#define SEGMENT (1ULL << 16)

/* A queue of so many segments ends the increase, to begin with and at most, and at least. */
#define GAMMA_MAX (30 * SEGMENT)
#define GAMMA_MIN (5 * SEGMENT)
/* Below so many segments the delay window stays shut: Reno does as well there. */
#define LOW_WINDOW (38 * SEGMENT)
/* A round with fewer round-trip times says nothing. */
#define MIN_SAMPLES 3
/* Larger windows and times count as these, so that no product overflows. */
#define WINDOW_MAX ((1ULL << 35) - 1)
#define RTT_MAX ((1U << 27) - 1)

static __always_inline __u64 clamp(__u64 value, __u64 low, __u64 high)
{
	return value < low ? low : value > high ? high : value;
}

/* The square root of at most 2^62, rounded down: by Newton's method, from above. */
__noinline __u64 square_root(__u64 of)
{
	__u64 root = 1ULL << 31, next;
	int i;

	for (i = 0; i < 40; i++) {
		next = (root + of / root) / 2;
		if (next >= root)
			break;
		root = next;
	}
	return root;
}

/* The delay window's increase per round without queue: win^(3/4) / 8 - 1 segments. */
__noinline __u64 compound_increase(__u64 win)
{
	__u64 root, grown;

	win = least(win, WINDOW_MAX);
	root = square_root(win << 16); /* of the window in segments, in 1/65536 */
	grown = square_root((win >> 8) * root << 8) / 8;
	return grown > SEGMENT ? grown - SEGMENT : 0;
}

/* What of a window stands in queues. */
__noinline __u64 compound_backlog(__u64 win, __u64 base_us, __u64 rtt_us)
{
	base_us = least(base_us, RTT_MAX);
	rtt_us = least(rtt_us, RTT_MAX);
	if (rtt_us <= base_us)
		return 0;
	return least(win, WINDOW_MAX) * (rtt_us - base_us) / rtt_us;
}

/* The delay window of the next round. */
__noinline __u64 compound_next(__u64 win, __u64 window, __u64 backlog, __u64 gamma)
{
	if (backlog < gamma)
		return least(window + compound_increase(win), WINDOW_MAX);
	return window > backlog ? window - backlog : 0;
}

/* After a loss: Reno's part would lose half; so does the sum. */
__noinline __u64 compound_reduced(__u64 reno, __u64 window)
{
	__u64 half = (reno + window) / 2;

	return half > reno / 2 ? half - reno / 2 : 0;
}

/* gamma learns from the queue that Reno would have had, so that small buffers, too, leave the
 * delay part a chance to see the queue before it overflows. */
__noinline __u64 compound_gamma(__u64 gamma, __u64 queue)
{
	if (queue <= GAMMA_MIN)
		return gamma;
	return clamp((gamma + 3 * queue) / 5, GAMMA_MIN, GAMMA_MAX);
}
