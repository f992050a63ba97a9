/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TOOLS_BENCH_FLOOR_H
#define COP_TOOLS_BENCH_FLOOR_H

#include <coppice/types.h>

/*
 * The floor: what a probe would cost if it were nothing but its messages. n processes in a
 * k-ary tree, one message of equal size down and one up each edge, in bare C, nothing else.
 * What our own figures are compared with, measured in the same run on the same machine.
 */
enum floor_kind {
    FLOOR_BLOCKING, /* read and write, nothing else */
    FLOOR_EPOLL, /* non-blocking sockets and epoll_wait: what an event loop must do */
};
enum floor_transport { FLOOR_TCP, FLOOR_UNIX };

struct floor_config {
    enum floor_kind kind;
    enum floor_transport transport; /* TCP over loopback, or pairs of Unix sockets */
    uint32_t n;                     /* processes, with the caller's own; at least 1 */
    uint32_t k;                     /* children of each, at least 1 */
    uint32_t bytes;                 /* of one message, 1 .. FLOOR_BYTES_MAX */
    uint32_t repetitions;           /* measured, at least 1 */
    uint32_t warm_up;               /* done before, and not measured */
};
#define FLOOR_BYTES_MAX 65536u
#define FLOOR_N_MAX 4096u
#define FLOOR_K_MAX 4096u

struct floor_result {
    uint64_t *samples_ns; /* one for each repetition, in order; for floor_result_free */
    uint32_t count;
    char message[128]; /* on failure, one sentence */
};

/*
 * Forks the n - 1 others, which wait from then on. They die with the caller. 0, COP_EINVAL,
 * COP_ENOMEM or COP_EIO with a sentence in `message`.
 */
struct floor;
int floor_open(const struct floor_config *config, struct floor **out, char *message,
               size_t size);
/* Once down and up. COP_EIO with errno; then it can only be closed. */
int floor_turn(struct floor *floor, uint64_t *elapsed_ns);
/* Waits until they are gone. */
void floor_close(struct floor *floor);

/*
 * All of it: lets them work, and waits until they are gone, also if something fails. On
 * failure only `message` is set.
 */
int floor_run(const struct floor_config *config, struct floor_result *out);
void floor_result_free(struct floor_result *result);

#endif
