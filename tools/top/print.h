/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TOOLS_TOP_PRINT_H
#define COP_TOOLS_TOP_PRINT_H

#include "top/host_fold.h"

#include <coppice/node.h>
#include <stdio.h>

/* What is shown at a moment: a state of the filter `hosts`, and where it comes from. */
struct top_frame {
    struct cop_span state;
    uint64_t hosts;
    /* Of a stream; without one all hosts are members that are covered, in wave 0. */
    uint64_t wave;
    bool complete;
    uint32_t covered, members;
    /* What a leaf is called. */
    void (*name)(const void *context, uint32_t leaf, char out[COP_NAME_MAX + 1]);
    const void *context;
};

enum top_form { TOP_TEXT, TOP_JSON, TOP_SCREEN };
/* Lines for people, objects, or the lines of a screen (term/screen.h). COP_EMALFORMED, COP_ENOMEM. */
int top_print(FILE *out, enum top_form form, const struct top_frame *frame);

#endif
