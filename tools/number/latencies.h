/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TOOLS_NUMBER_LATENCIES_H
#define COP_TOOLS_NUMBER_LATENCIES_H

#include "number/sample.h"

#include <stdio.h>

/*
 * Latencies under contention: what `bench contention` measures, the file that it writes,
 * and what the models read out of that file for any number of nodes.
 *
 * A pattern is a fan-out: so many children talk with one parent, and all groups of the n
 * processes do so at the same time. Fan-out 1 is called "pairs", others "tree:K".
 */
#define FAN_OUT_MAX 64u
#define PATTERN_SIZE 16

/* Writes "pairs" or "tree:4". */
const char *pattern_print(uint32_t fan_out, char out[PATTERN_SIZE]);
/* COP_EINVAL if it is neither "pairs" nor "tree:2" to "tree:64". */
int pattern_parse(const char *text, uint32_t *fan_out);

struct latency_row {
    uint32_t fan_out;
    uint32_t n;
    struct summary ns; /* only the median if it comes from a file */
};

/* Rows by fan-out, then by n, each once. */
struct latencies {
    struct latency_row *rows;
    uint32_t count;
};

/* The file: a line of column names and one line for each row. Errors stay in `out`. */
void latencies_write(FILE *out, const struct latency_row *rows, uint32_t count);

/*
 * Reads such a file: the columns pattern, n and latency_ns come first, others are not
 * looked at; lines that begin with '#' are comments. COP_EINVAL with a sentence in
 * `message`, or COP_ENOMEM.
 */
int latencies_read(FILE *in, struct latencies *out, char *message, size_t size);
void latencies_free(struct latencies *latencies);

/* Where a latency comes from. */
enum latency_origin {
    LATENCY_MEASURED,
    LATENCY_INTERPOLATED, /* on the line between two rows */
    LATENCY_EXTRAPOLATED, /* on the line through the last two rows, unless it falls */
    LATENCY_HELD,         /* that of the nearest row, where no line can be drawn */
};

struct latency {
    double ns;
    uint32_t fan_out; /* whose rows it was taken from */
    enum latency_origin origin;
};

/*
 * For n nodes whose parents have `fan_out` children: from the rows of the largest
 * fan-out that is not above it, or else of the smallest there is.
 */
struct latency latencies_at(const struct latencies *latencies, uint32_t fan_out,
                            uint32_t n);

#endif
