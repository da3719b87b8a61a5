/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The formulas of the coupled controls in integers: windows in segments, round-trip times in
 * microseconds, factors in units of 1/ONE. No kernel type is used here.
 *
 * All sums are relative to a subflow's own window or to the best one's round-trip time, so that a
 * subflow that is alone gets exactly ONE: it is Reno.
 *
 * What is done for each subflow stands in functions of numbers alone that are not inlined: the
 * verifier looks at such a function once, and at the loops around it without their branches.
 */
#pragma once

#define ONE_SHIFT 20
#define ONE (1ULL << ONE_SHIFT)

/* The most subflows that are coupled; Linux MPTCP has at most 8. */
#define MEMBERS_MAX 8

/* Larger values count as these, so that no product overflows: a window of 0.75 GB, 134 s, 2 GiB
 * between losses. */
#define CWND_MAX ((1ULL << 19) - 1)
#define SRTT_MAX ((1ULL << 27) - 1)
#define EPOCH_MAX ((1ULL << 31) - 1)

/* What the subflows of a connection know of each other. */
struct member {
	__u64 owner; /* the socket; 0 marks a free place */
	__u32 cwnd; /* segments, at least 1 */
	__u32 srtt_us; /* 0 before the first sample: the subflow does not count yet */
	__u64 epoch_bytes; /* the larger of delivered since the last loss and between the last two */
};

struct group {
	struct member members[MEMBERS_MAX];
};

static __always_inline __u64 least(__u64 a, __u64 b)
{
	return a < b ? a : b;
}

static __always_inline __u64 most(__u64 a, __u64 b)
{
	return a > b ? a : b;
}

__noinline __u64 greater(__u64 a, __u64 b)
{
	return most(a, b);
}

/* cwnd x (own_srtt / srtt), in 1/65536 segment; 0 where there is no such subflow. */
__noinline __u64 scaled_window(__u64 owner, __u64 cwnd, __u64 srtt, __u64 own_srtt)
{
	if (!owner || !srtt)
		return 0;
	cwnd = most(least(cwnd, CWND_MAX), 1);
	return least((cwnd * least(own_srtt, SRTT_MAX) << 16) / least(srtt, SRTT_MAX), 1ULL << 59);
}

/* part / whole in units of 2^-28; whole in 1/65536. */
static __always_inline __u64 ratio(__u64 part, __u64 whole)
{
	return (most(least(part, CWND_MAX), 1) << 44) / whole;
}

/* Whether cwnd / srtt^2 is greater than the best so far; a quotient of the times over 64 counts
 * as 64. */
__noinline int grows_faster(__u64 cwnd, __u64 srtt, __u64 best_cwnd, __u64 best_srtt)
{
	__u64 speed;

	if (!srtt)
		return 0;
	if (!best_srtt)
		return 1;
	speed = least((least(best_srtt, SRTT_MAX) << 16) / least(srtt, SRTT_MAX), 1ULL << 22);
	return least(cwnd, CWND_MAX) * speed * speed > least(best_cwnd, CWND_MAX) << 32;
}

/* window x best_window / sum^2, at most ONE. */
__noinline __u64 linked(__u64 cwnd, __u64 best_cwnd, __u64 sum)
{
	__u64 share, quotient;

	if (!sum)
		return ONE;
	/* In units of 2^-24. The best one's share is at most 1; the own quotient is not a share. */
	share = ratio(best_cwnd, sum) >> 4;
	quotient = least(ratio(cwnd, sum) >> 4, 1ULL << 36);
	return least((share * quotient) >> (48 - ONE_SHIFT), ONE);
}

/*
 * LIA (RFC 6356 section 3): the window times max(w/r^2) / (sum w/r)^2, at most Reno's. With b the
 * subflow of the greatest w/r^2 that is (w / S) (w_b / S), S = sum of w_i r_b / r_i.
 */
static __always_inline __u64 lia_increase(const struct group *group, const struct member *own)
{
	__u64 best_cwnd = own->cwnd, best_srtt = own->srtt_us, sum = 0;
	const struct member *one;
	int i;

	for (i = 0; i < MEMBERS_MAX; i++) {
		one = &group->members[i];
		if (one->owner && grows_faster(one->cwnd, one->srtt_us, best_cwnd, best_srtt)) {
			best_cwnd = one->cwnd;
			best_srtt = one->srtt_us;
		}
	}
	for (i = 0; i < MEMBERS_MAX; i++) {
		one = &group->members[i];
		sum += scaled_window(one->owner, one->cwnd, one->srtt_us, best_srtt);
	}
	return linked(own->cwnd, best_cwnd, sum);
}

/* The sum over the subflows of x_i = w_i / r_i, times the own round-trip time, in 1/65536. */
static __always_inline __u64 rates(const struct group *group, const struct member *own)
{
	__u64 sum = 0;
	int i;

	for (i = 0; i < MEMBERS_MAX; i++) {
		const struct member *one = &group->members[i];

		sum += scaled_window(one->owner, one->cwnd, one->srtt_us, own->srtt_us);
	}
	return sum;
}

/* The greatest x_i likewise. */
static __always_inline __u64 best_rate(const struct group *group, const struct member *own)
{
	__u64 best = 0;
	int i;

	for (i = 0; i < MEMBERS_MAX; i++) {
		const struct member *one = &group->members[i];

		best = greater(best, scaled_window(one->owner, one->cwnd, one->srtt_us,
						   own->srtt_us));
	}
	return best;
}

/* BALIA's A = max x_i / x in 1/65536; from 1 to 65536. */
static __always_inline __u64 balia_a(__u64 cwnd, __u64 best)
{
	return least(most(best / most(least(cwnd, CWND_MAX), 1), 1ULL << 16), 1ULL << 32);
}

__noinline __u64 balanced(__u64 cwnd, __u64 best, __u64 sum)
{
	__u64 a = balia_a(cwnd, best), share, half, fifth;

	if (!sum)
		return ONE;
	/* At most 1/A: neither product exceeds 2^46. */
	share = ratio(cwnd, sum);
	half = (share * ((1 << 16) + a)) >> 17;
	fifth = (share * ((4 << 16) + a) / 5) >> 16;
	return (half * fifth) >> (56 - ONE_SHIFT);
}

/* BALIA (draft-walid-mptcp-congestion-control-04): (x / sum x)^2 (1 + A)/2 (4 + A)/5. */
static __always_inline __u64 balia_increase(const struct group *group, const struct member *own)
{
	return balanced(own->cwnd, best_rate(group, own), rates(group, own));
}

/* BALIA's window after a loss: less by half of it times min(A, 1.5). */
static __always_inline __u32 balia_reduced(const struct group *group, const struct member *own)
{
	__u64 cwnd = least(own->cwnd, CWND_MAX);
	__u64 a = least(balia_a(cwnd, best_rate(group, own)), 3 << 15);

	return (__u32)(((cwnd << 17) - cwnd * a) >> 17);
}

/* l / r^2 of OLIA times the square of the own round-trip time; times differ by 256 at most. */
__noinline __u64 olia_quality(__u64 epoch_bytes, __u64 srtt, __u64 own_srtt)
{
	__u64 speed;

	if (!srtt)
		return 0;
	speed = least((least(own_srtt, SRTT_MAX) << 16) / least(srtt, SRTT_MAX), 1ULL << 24);
	return ((least(epoch_bytes, EPOCH_MAX) * speed) >> 16) * speed;
}

/* What a subflow is in OLIA's sets, the counters of them packed into one number. */
#define MEMBER (1ULL << 0)
#define LARGEST (1ULL << 16)
#define COLLECTED (1ULL << 32)

__noinline __u64 olia_sets(__u64 owner, __u64 cwnd, __u64 quality, __u64 largest, __u64 best)
{
	if (!owner)
		return 0;
	if (cwnd == largest)
		return MEMBER + LARGEST;
	return quality == best ? MEMBER + COLLECTED : MEMBER;
}

__noinline __s64 olia_share(__u64 own, __u64 all)
{
	__u64 members = all & 0xffff, largest = all >> 16 & 0xffff, collected = all >> 32;

	if (!collected)
		return 0;
	if (own & LARGEST)
		return -(__s64)(ONE / (members * largest));
	return own & COLLECTED ? ONE / (members * collected) : 0;
}

/*
 * OLIA's alpha times the number of subflows, in 1/ONE: the best paths that have not the largest
 * window share 1, those that have it share -1; 0 where there are no such best ones.
 */
static __always_inline __s64 olia_shift(const struct group *group, const struct member *own)
{
	__u64 best = 0, largest = 0, all = 0, quality;
	const struct member *one;
	int i;

	for (i = 0; i < MEMBERS_MAX; i++) {
		one = &group->members[i];
		if (!one->owner)
			continue;
		largest = greater(largest, one->cwnd);
		best = greater(best, olia_quality(one->epoch_bytes, one->srtt_us, own->srtt_us));
	}
	for (i = 0; i < MEMBERS_MAX; i++) {
		one = &group->members[i];
		quality = olia_quality(one->epoch_bytes, one->srtt_us, own->srtt_us);
		all += olia_sets(one->owner, one->cwnd, quality, largest, best);
	}
	quality = olia_quality(own->epoch_bytes, own->srtt_us, own->srtt_us);
	return olia_share(olia_sets(1, own->cwnd, quality, largest, best), all);
}

__noinline __u64 squared_share(__u64 cwnd, __u64 sum)
{
	__u64 share;

	if (!sum)
		return ONE;
	share = ratio(cwnd, sum);
	return (share * share) >> (56 - ONE_SHIFT);
}

/* OLIA (draft-khalili-mptcp-congestion-control-05): (x / sum x)^2 + alpha; may be negative. */
static __always_inline __s64 olia_increase(const struct group *group, const struct member *own)
{
	return (__s64)squared_share(own->cwnd, rates(group, own)) + olia_shift(group, own);
}
