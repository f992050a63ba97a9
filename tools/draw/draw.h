/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TOOLS_DRAW_DRAW_H
#define COP_TOOLS_DRAW_DRAW_H

#include <coppice/tree.h>
#include <stdio.h>

/*
 * Draws trees: for people, indented, one rank a line in the order of sends; and for
 * Graphviz. A rank is called n7 unless a label says otherwise.
 */
struct draw_options {
    bool color; /* the dead in red */
    bool utf8;  /* lines that join; otherwise ASCII */
    /* Siblings without children share a line, as n[17-20], and so does a rank with its
     * only child: for trees too large to look at one by one. */
    bool fold;
    uint32_t lines; /* at most so many, and one that says what is left out; 0: all */
    /* The name of a rank; NULL, or an answer of NULL: n7. Names are not folded. */
    const char *(*label)(const void *context, cop_rank rank);
    const void *context;
};

/* 0, COP_ENOMEM, or COP_EIO if the stream failed. Of a tree with nobody living, the
 * dead. */
int draw_tree(FILE *out, const struct cop_tree *tree,
              const struct draw_options *options);

/* As a Graphviz digraph, with the dead dashed and without edges. The options for lines
 * do not count here. */
int draw_dot(FILE *out, const struct cop_tree *tree,
             const struct draw_options *options);

/* Whether a rank lives without a place inside. */
bool draw_is_drained(const struct cop_tree *tree, cop_rank rank);

#endif
