/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The controls' arithmetic on numbers that a test gives, run by the kernel as it runs the
 * controls. */
#include "kernel.bpf.h"

#include "arithmetic.bpf.h"
#include "compound.bpf.h"

struct vector {
	/* Given. */
	struct group group;
	__u64 place;
	__u64 window; /* Compound's: both parts, the delay part, and its threshold */
	__u64 delay_window;
	__u64 gamma;
	__u64 base_us;
	__u64 rtt_us;
	/* Computed. */
	__u64 lia_increase;
	__s64 olia_increase;
	__u64 balia_increase;
	__u64 balia_reduced;
	__u64 backlog;
	__u64 next;
	__u64 reduced;
	__u64 tuned;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct vector);
} vector SEC(".maps");

SEC("syscall")
int compute(void *ctx)
{
	__u32 key = 0;
	struct vector *v = bpf_map_lookup_elem(&vector, &key);
	const struct member *own;
	__u64 place;

	if (!v)
		return 1;
	place = v->place;
	if (place >= MEMBERS_MAX)
		return 2;
	own = &v->group.members[place];
	v->lia_increase = lia_increase(&v->group, own);
	v->olia_increase = olia_increase(&v->group, own);
	v->balia_increase = balia_increase(&v->group, own);
	v->balia_reduced = balia_reduced(&v->group, own);
	v->backlog = compound_backlog(v->window, v->base_us, v->rtt_us);
	v->next = compound_next(v->window, v->delay_window, v->backlog, v->gamma);
	v->reduced = compound_reduced(v->window - v->delay_window, v->delay_window);
	v->tuned = compound_gamma(v->gamma, v->backlog);
	return 0;
}
