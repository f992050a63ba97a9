/* SPDX-License-Identifier: Apache-2.0 */
#include "draw/across.h"

#include "names/nodeset.h"

#include <coppice/error.h>
#include <stdlib.h>
#include <string.h>

#define MARGIN_MAX 200u /* bytes in front of a line */

struct across {
    FILE *out;
    const struct cop_tree *tree;
    const struct across_options *options;
    char margin[MARGIN_MAX]; /* what a further line begins with */
    size_t length;
};

/* The joints between a member and its rows: a single one, the first, one between, the
 * last; and what goes on below each of them. */
enum joint { SINGLE, FIRST, MIDDLE, LAST };
static const char *const joints[2][4] = {
    {" -- ", " -+- ", " +- ", " `- "},
    {" \xe2\x94\x80\xe2\x94\x80 ", " \xe2\x94\x80\xe2\x94\xac\xe2\x94\x80 ",
     " \xe2\x94\x9c\xe2\x94\x80 ", " \xe2\x94\x94\xe2\x94\x80 "},
};
static const char *const line_down[2] = {"|", "\xe2\x94\x82"};

/* ---- rows ------------------------------------------------------------------------ */

static bool has_moved(const struct across *across, cop_rank rank)
{
    const struct cop_tree *before = across->options->before;
    return before != NULL && rank != cop_tree_root(across->tree) &&
           cop_tree_parent(before, rank) != cop_tree_parent(across->tree, rank);
}

static bool is_leaf(const struct across *across, cop_rank rank)
{
    return cop_tree_child_count(across->tree, rank) == 0;
}

static int by_rank(const void *a, const void *b)
{
    const cop_rank *left = a, *right = b;
    return (*left > *right) - (*left < *right);
}

/* Whether two neighbours of a sorted list of children share a row. */
static bool is_together(const struct across *across, cop_rank a, cop_rank b)
{
    return is_leaf(across, a) && is_leaf(across, b) &&
           has_moved(across, a) == has_moved(across, b);
}

/* How many of the children from `from` on are in one row. */
static uint32_t row_length(const struct across *across, const struct cop_ranks *ranks,
                           uint32_t from)
{
    uint32_t to = from + 1;
    while (to < ranks->count &&
           is_together(across, ranks->items[from], ranks->items[to]))
        to++;
    return to - from;
}

/* ---- names ----------------------------------------------------------------------- */

/* Prints the name, and gives its width. */
static int print_name(const struct across *across, const cop_rank *ranks,
                      uint32_t count, size_t *width)
{
    bool moved = has_moved(across, ranks[0]);
    const char *on = across->options->color && moved ? "\033[32m" : "";
    char *text = nodeset_fold_ids("n", ranks, count);
    if (text == NULL)
        return COP_ENOMEM;
    *width = strlen(text) + moved;
    fprintf(across->out, "%s%s%s%s", on, text, moved ? "*" : "", *on ? "\033[0m" : "");
    free(text);
    return 0;
}

/* ---- lines ----------------------------------------------------------------------- */

static int extend(struct across *across, size_t spaces, const char *text)
{
    size_t length = strlen(text);
    if (across->length + spaces + length >= MARGIN_MAX)
        return COP_ERANGE;
    memset(across->margin + across->length, ' ', spaces);
    memcpy(across->margin + across->length + spaces, text, length + 1);
    across->length += spaces + length;
    return 0;
}

static void cut(struct across *across, size_t length)
{
    across->length = length;
    across->margin[length] = '\0';
}

static int draw_branch(struct across *across, cop_rank rank);

static int draw_row(struct across *across, const cop_rank *ranks, uint32_t count)
{
    size_t width;
    if (!is_leaf(across, ranks[0]))
        return draw_branch(across, ranks[0]);
    int error = print_name(across, ranks, count, &width);
    fputc('\n', across->out);
    return error;
}

/* A row of a member whose own name is `width` wide, from the joint on. */
static int draw_joint(struct across *across, enum joint joint, size_t width,
                      const cop_rank *ranks, uint32_t count)
{
    bool utf8 = across->options->utf8;
    size_t length = across->length;
    bool goes_on = joint == FIRST || joint == MIDDLE;
    if (joint == MIDDLE || joint == LAST)
        fprintf(across->out, "%s%*s", across->margin, (int)width + 1, "");
    fputs(joints[utf8][joint], across->out);
    int error = extend(across, width + 2, goes_on ? line_down[utf8] : " ");
    if (!error && joint != SINGLE)
        error = extend(across, 2, "");
    if (!error && joint == SINGLE)
        error = extend(across, 1, "");
    if (!error)
        error = draw_row(across, ranks, count);
    cut(across, length);
    return error;
}

static int draw_rows(struct across *across, const struct cop_ranks *children,
                     size_t width)
{
    int error = 0;
    for (uint32_t i = 0, next; i < children->count && !error; i = next) {
        next = i + row_length(across, children, i);
        bool is_last = next == children->count;
        enum joint joint = i == 0    ? (is_last ? SINGLE : FIRST)
                           : is_last ? LAST
                                     : MIDDLE;
        error = draw_joint(across, joint, width, children->items + i, next - i);
    }
    return error;
}

/* As deep as the margin is long, and no deeper. */
static int draw_branch(struct across *across,
                       cop_rank rank) /* NOLINT(misc-no-recursion) */
{
    struct cop_ranks children = {0};
    size_t width;
    int error = print_name(across, &rank, 1, &width);
    if (!error)
        error = cop_tree_children(across->tree, rank, &children);
    if (!error && children.count > 0) {
        qsort(children.items, children.count, sizeof *children.items, by_rank);
        error = draw_rows(across, &children, width);
    } else {
        fputc('\n', across->out);
    }
    cop_ranks_free(&children);
    return error;
}

int across_draw(FILE *out, const struct cop_tree *tree,
                const struct across_options *options)
{
    struct across across = {.out = out, .tree = tree, .options = options};
    if (extend(&across, 2, "") != 0)
        return COP_ERANGE;
    fputs(across.margin, out);
    return draw_branch(&across, cop_tree_root(tree));
}
