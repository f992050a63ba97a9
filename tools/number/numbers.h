/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TOOLS_NUMBER_NUMBERS_H
#define COP_TOOLS_NUMBER_NUMBERS_H

#include <coppice/types.h>

/*
 * Numbers as they are typed for a series of measurements: "64,256", "2-47" for each of
 * them, "2-1024x2" for 2, 4, 8, ..., 1024, and lists of these.
 */
#define NUMBERS_MAX 4096u

struct numbers {
    uint32_t items[NUMBERS_MAX];
    uint32_t count;
};

/*
 * All in [least, most], `limit` of them at most, in the order in which they are typed.
 * COP_EINVAL for anything else; *out is written on success only.
 */
int parse_numbers(const char *text, uint32_t least, uint32_t most, uint32_t limit,
                  struct numbers *out);

#endif
