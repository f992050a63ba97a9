/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TESTS_LIVE_SWITCH_H
#define COP_TESTS_LIVE_SWITCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A network in one process, for tests: hosts that are network namespaces, and a switch
 * between them that loses, delays and cuts as it is told. What its files share.
 */

#define HOSTS_MAX 64u
#define FRAME_MAX 2048u

/* What a script inherits: the namespace of host i is descriptor HOST_FD + i. */
#define HOST_FD 100
#define ORDERS_FD 98
#define ANSWERS_FD 99

/* This machine does not permit it. */
#define EXIT_SKIPPED 77

/* ---- switch_hosts.c -------------------------------------------------------------- */

/*
 * Goes into namespaces of its own and makes `count` hosts, host i with the address
 * 10.77.0.(i + 1)/24 and the hardware address 02:00:00:00:00:i. Each gets a socket in
 * `ports` that takes and gives whole frames. False after one line that says why this
 * machine does not permit it.
 */
bool hosts_create(unsigned count, int *ports);

/* ---- switch_rules.c -------------------------------------------------------------- */

/* What happens to frames from one host to another. */
struct rule {
    bool cut;
    double loss; /* 0 to 1 */
    uint64_t delay_ns;
};

struct rules {
    unsigned count;
    bool unplugged[HOSTS_MAX];
    struct rule at[HOSTS_MAX][HOSTS_MAX]; /* [from][to] */
    uint64_t chance;                      /* state of the generator, not 0 */
    uint64_t passed, lost;                /* frames */
};

void rules_init(struct rules *rules, unsigned count, uint64_t seed);

/*
 * One order, a line without its end. NULL if it was carried out, else what is wrong with
 * it. SET is "3", "0-2,5" or "all"; both ways are meant but for `oneway`.
 *
 *   cut SET SET       nothing passes between them
 *   oneway SET SET    nothing passes from the first to the second
 *   loss P SET SET    so many percent of the frames are lost
 *   delay MS SET SET  frames are so much later
 *   unplug SET        nothing passes to or from them, until `plug SET`
 *   heal [SET SET]    as in the beginning
 */
const char *rules_order(struct rules *rules, char *line);

/* Whether this frame passes, and how much later. */
bool rules_pass(struct rules *rules, unsigned from, unsigned to, uint64_t *delay_ns);

#endif
