/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TOOLS_TERM_BARS_H
#define COP_TOOLS_TERM_BARS_H

#include <coppice/types.h>
#include <stdio.h>

/*
 * Bars of text. With UTF-8 in eighths of a character, otherwise of '#'.
 */
struct bars {
    FILE *out;
    bool utf8;
    uint32_t width; /* characters of the longest bar */
};

/* A bar of value/most of the width; at least a sliver for a value above 0. */
void bars_draw(const struct bars *bars, double value, double most);

/*
 * A histogram of sorted times: up to `rows` rows of equal steps from the least to the
 * 99th percentile, and one for what lies beyond. count >= 1.
 */
void bars_histogram(const struct bars *bars, const cop_time *sorted, uint32_t count,
                    uint32_t rows);

#endif
