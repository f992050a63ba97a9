/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TOOLS_BENCH_AGREE_H
#define COP_TOOLS_BENCH_AGREE_H

#include "bench/bench.h"

#include <coppice/agree.h>

/*
 * What agreements cost with real processes: sets of them, back to back, one algorithm after
 * the other in turn, in a binomial tree of a private cluster. A set is cut in pieces, and the
 * algorithms alternate piece by piece, forth and back: what disturbs the machine for longer
 * than a piece disturbs both of a pair. Single operations do not alternate: at the root
 * one lasts from the way down of the last to its own way up, so each would have half of the
 * other. Some members may be killed
 * before; then the agreements are those of a group that had them, and the baseline is an
 * allreduce over a group of those who are left.
 */
#define AGREE_VARIANTS_MAX 8u

struct agree_variant {
    enum cop_algorithm algorithm;
    bool keep_tree; /* and the tree is only mended around those who were killed */
};

struct agree_config {
    uint32_t n;
    uint32_t killed; /* before anything is measured */
    bool tcp;
    uint32_t sets, operations, warm_up; /* so many sets of so many */
    uint32_t pairs; /* each set in so many pieces, at most one for each operation */
    uint32_t skew_ms;
    uint32_t arity; /* of a k-ary tree; 0: a binomial one */
    struct agree_variant variants[AGREE_VARIANTS_MAX]; /* the first is the baseline */
    uint32_t variant_count;
};

/* For one variant. */
struct agree_measured {
    struct summary ns;         /* of one agreement: the mean of a set */
    struct summary over_first; /* its sets over those of the first variant */
    struct summary paired;     /* its pieces over those of the first, side by side */
    struct summary over_floor; /* and over the bare floor of the same turn */
    double messages;           /* of votes and decisions, of one agreement */
};

struct agree_result {
    uint32_t bytes; /* of a message of the floor */
    struct summary floor_ns;
    struct agree_measured variants[AGREE_VARIANTS_MAX];
};

/* 0, or an exit code after one line. */
int bench_agree(const struct agree_config *config, struct progress *progress,
                struct agree_result *out);

#endif
