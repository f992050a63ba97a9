/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TOOLS_DRAW_ACROSS_H
#define COP_TOOLS_DRAW_ACROSS_H

#include <coppice/tree.h>
#include <stdio.h>

/*
 * A small tree from left to right, a line for each branch: siblings without children are one
 * set. With `before`, those who had another parent in it have a star.
 *
 *   n0 ─┬─ n1 ─┬─ n3
 *       │      └─ n4 ── n[7-8]
 *       └─ n2 ── n[5-6]
 */
struct across_options {
    bool color, utf8;
    const struct cop_tree *before;
};

/* 0, COP_ENOMEM; COP_ERANGE if it is too deep or too wide for that. */
int across_draw(FILE *out, const struct cop_tree *tree,
                const struct across_options *options);

#endif
