// SPDX-License-Identifier: GPL-2.0-only
/*
 * One transfer over MPTCP whose every byte is checked by the reader.
 *
 *   transfer listen|connect ADDRESS[:PORT] send|receive BYTES SEED BUFFER [STOP_AT STOP_SECONDS]
 *   transfer draw SEED       prints the parameters of one random transfer as shell assignments
 *   transfer delays SENT RECEIVED   prints the delays of two files that TIMES has made
 *
 * BUFFER is SO_SNDBUF or SO_RCVBUF in bytes, 0 for the kernel's own choice. A receiver with STOP_AT
 * stops reading there for so many seconds. Exit status: 0 if all bytes came and were right.
 *
 * In the environment: TIMES, a file for when each write began, or each read ended; PACE, in Mb/s, the
 * rate at which a program makes what is written; TCP, not MPTCP.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/sockios.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MPTCP 262
#define PORT 9000
#define MOST (64 << 10)
/* What a program writes at once that makes its data at a rate. */
#define PACED (4 << 10)

static unsigned char buffer[MOST];

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

/* splitmix64 */
static uint64_t draw(uint64_t *state)
{
	uint64_t z = (*state += 0x9e3779b97f4a7c15ull);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

static unsigned char byte_at(uint64_t offset, uint64_t seed)
{
	uint64_t x = (offset + seed) * 0x9e3779b97f4a7c15ull;

	return (x ^ (x >> 29)) >> 17;
}

static int fail(const char *what)
{
	printf("transfer: %s: %s\n", what, strerror(errno));
	return 1;
}

static int set(const char *name)
{
	return getenv(name) && *getenv(name);
}

/* One line for each write or read: where in the stream it ended, and the time in seconds. */
static FILE *times;

static void note_time(uint64_t end, double at)
{
	if (times)
		fprintf(times, "%llu %.6f\n", (unsigned long long)end, at);
}

/* For how many seconds the machine's processors have been busy, all in all. */
static double busy(void)
{
	double up = 0, idle = 0;
	FILE *f = fopen("/proc/uptime", "r");

	if (!f || fscanf(f, "%lf %lf", &up, &idle) != 2)
		perror("/proc/uptime");
	if (f)
		fclose(f);
	return up * sysconf(_SC_NPROCESSORS_ONLN) - idle;
}

static int receive(int fd, uint64_t total, uint64_t seed, uint64_t stop_at, unsigned int seconds)
{
	double first = 0, last = 0, gap = 0, busy_from = 0;
	uint64_t got = 0, bad = 0;
	ssize_t n;

	while ((n = read(fd, buffer, sizeof(buffer))) > 0) {
		double t = now();

		note_time(got + n, t);
		if (!got) {
			first = t;
			busy_from = busy();
		} else if (t - last > gap) {
			gap = t - last;
		}
		last = t;
		for (ssize_t i = 0; i < n; i++)
			bad += buffer[i] != byte_at(got + i, seed);
		if (seconds && got < stop_at && got + n >= stop_at) {
			sleep(seconds);
			last = now();
		}
		got += n;
	}
	if (n < 0)
		return fail("read");
	/* What the sender waits for: all of it has been read. */
	if (write(fd, "", 1) != 1)
		return fail("write");
	printf("bytes=%llu bad=%llu seconds=%.3f mbit=%.2f gap_ms=%.0f busy_ms=%.0f\n",
	       (unsigned long long)got, (unsigned long long)bad, last - first,
	       last > first ? got * 8e-6 / (last - first) : 0, gap * 1e3, (busy() - busy_from) * 1e3);
	return bad || got != total;
}

static void wait_until(double at)
{
	double left = at - now();

	if (left > 0)
		usleep(left * 1e6);
}

static int send_all(int fd, uint64_t total, uint64_t seed)
{
	double bytes_per_second = set("PACE") ? atof(getenv("PACE")) * 1e6 / 8 : 0, begun = now();
	uint64_t sent = 0, state = seed;
	int left;

	while (sent < total) {
		/* Writes of all sizes, as programs make them. */
		size_t size = draw(&state) % (bytes_per_second ? PACED : MOST) + 1, done = 0;

		if (bytes_per_second)
			wait_until(begun + sent / bytes_per_second);
		if (size > total - sent)
			size = total - sent;
		for (size_t i = 0; i < size; i++)
			buffer[i] = byte_at(sent + i, seed);
		note_time(sent + size, now());
		while (done < size) {
			ssize_t n = write(fd, buffer + done, size - done);

			if (n < 0)
				return fail("write");
			done += n;
		}
		sent += size;
	}
	/*
	 * No subflow joins a connection that is closing, as one is at once whose data fits into the send
	 * buffer. So with every other seed half of it must have arrived first.
	 */
	if (seed % 2)
		while (!ioctl(fd, SIOCOUTQ, &left) && left > 0 && (uint64_t)left > total / 2)
			usleep(1000);
	shutdown(fd, SHUT_WR);
	return read(fd, buffer, 1) == 1 ? 0 : fail("the last byte's acknowledgement");
}

static uint64_t log_uniform(uint64_t *state, unsigned int from_bits, unsigned int to_bits)
{
	unsigned int bits = from_bits + draw(state) % (to_bits - from_bits);

	return (1ull << bits) + draw(state) % (1ull << bits);
}

static int print_draw(uint64_t seed)
{
	static const char *const faults[] = { "none", "none", "none", "kill1", "kill2", "down1", "down2" };
	uint64_t s = seed;

	/* Half of them are long enough for a second subflow to have joined. */
	printf("bytes=%llu ", (unsigned long long)log_uniform(&s, draw(&s) % 2 ? 18 : 0, 22));
	printf("sndbuf=%llu ", (unsigned long long)log_uniform(&s, 16, 24));
	printf("rcvbuf=%llu ", (unsigned long long)log_uniform(&s, 16, 24));
	printf("checksums=%d role=%d loss=%d ", (int)(draw(&s) % 2), (int)(draw(&s) % 2),
	       (int)(draw(&s) % 3));
	printf("fault=%s ", faults[draw(&s) % 7]);
	printf("fault_ms=%d rate=%d\n", (int)(draw(&s) % 400), draw(&s) % 2 ? 20 : 100);
	return 0;
}

struct delay {
	double seconds;
	uint64_t bytes;
};

static int by_seconds(const void *a, const void *b)
{
	double d = ((const struct delay *)a)->seconds - ((const struct delay *)b)->seconds;

	return (d > 0) - (d < 0);
}

/* From when a write began until all of it was read, each byte counted. */
static int print_delays(const char *sent_name, const char *received_name)
{
	FILE *sent = fopen(sent_name, "r"), *received = fopen(received_name, "r");
	unsigned long long end, before = 0, read_end = 0;
	size_t count = 0, room = 1 << 16;
	struct delay *delays = malloc(room * sizeof(*delays));
	double began, read_at = 0;
	uint64_t under = 0;
	double p50 = 0;

	if (!sent || !received || !delays)
		return fail("the times");
	while (fscanf(sent, "%llu %lf", &end, &began) == 2) {
		while (read_end < end)
			if (fscanf(received, "%llu %lf", &read_end, &read_at) != 2)
				return fail("a write without its read");
		if (count == room) {
			room *= 2;
			delays = realloc(delays, room * sizeof(*delays));
			if (!delays)
				return fail("the delays");
		}
		delays[count].seconds = read_at - began;
		delays[count++].bytes = end - before;
		before = end;
	}
	if (!count)
		return fail("no times");
	qsort(delays, count, sizeof(*delays), by_seconds);
	for (size_t i = 0; i < count; i++) {
		under += delays[i].bytes;
		if (!p50 && under * 2 >= before)
			p50 = delays[i].seconds;
		if (under * 100 >= before * 99) {
			printf("p50_ms=%.1f p99_ms=%.1f\n", p50 * 1e3, delays[i].seconds * 1e3);
			break;
		}
	}
	return 0;
}

int main(int argc, char **argv)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(PORT) };
	int one = 1, fd, listens, sends, size, status;
	uint64_t total, seed;
	char *port;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc == 3 && !strcmp(argv[1], "draw"))
		return print_draw(strtoull(argv[2], NULL, 0));
	if (argc == 4 && !strcmp(argv[1], "delays"))
		return print_delays(argv[2], argv[3]);
	if (argc < 7) {
		fprintf(stderr, "usage: see the head of transfer.c\n");
		return 2;
	}
	listens = !strcmp(argv[1], "listen");
	sends = !strcmp(argv[3], "send");
	total = strtoull(argv[4], NULL, 0);
	seed = strtoull(argv[5], NULL, 0);
	size = atoi(argv[6]);
	port = strchr(argv[2], ':');
	if (port) {
		*port = 0;
		address.sin_port = htons(atoi(port + 1));
	}
	inet_pton(AF_INET, argv[2], &address.sin_addr);
	if (set("TIMES")) {
		times = fopen(getenv("TIMES"), "w");
		if (!times)
			return fail("TIMES");
	}

	fd = socket(AF_INET, SOCK_STREAM, set("TCP") ? 0 : MPTCP);
	if (fd < 0)
		return fail("socket");
	if (size && setsockopt(fd, SOL_SOCKET, sends ? SO_SNDBUF : SO_RCVBUF, &size, sizeof(size)))
		return fail("the buffer's size");
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (listens) {
		int listener = fd;

		if (bind(fd, (void *)&address, sizeof(address)) || listen(fd, 4))
			return fail("listen");
		printf("listening\n");
		/* It goes on to listen: that is where further subflows come. */
		fd = accept(listener, NULL, NULL);
		if (fd < 0)
			return fail("accept");
	} else if (connect(fd, (void *)&address, sizeof(address))) {
		return fail("connect");
	}
	status = sends ? send_all(fd, total, seed) :
			 receive(fd, total, seed, argc > 7 ? strtoull(argv[7], NULL, 0) : 0,
				 argc > 8 ? atoi(argv[8]) : 0);
	if (times && fclose(times))
		return fail("TIMES");
	return status;
}
