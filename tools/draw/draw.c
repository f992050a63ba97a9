/* SPDX-License-Identifier: Apache-2.0 */
#include "draw/draw.h"

#include "names/nodeset.h"

#include <coppice/error.h>
#include <stdlib.h>
#include <string.h>

/*
 * The walk keeps its own stack, because a tree from a file may be as deep as it is
 * large. Whoever draws stops at the line limit, so a tree of a million costs what is
 * seen of it.
 */
#define FOLDED_BYTES 96 /* of a folded set; more is cut */
#define RUN_HEAD 3      /* names shown of a run of only children, before its last */

struct frame {
    struct cop_ranks children;
    uint32_t next;     /* child to draw */
    uint32_t branches; /* the children before this one have children themselves */
};

struct drawing {
    FILE *out;
    const struct cop_tree *tree;
    const struct draw_options *options;
    struct cop_tree whole; /* the same tree as if nobody were dead */
    struct frame *frames;
    uint32_t depth;
    uint32_t capacity;
    uint32_t lines;
    uint32_t ranks; /* shown */
};

/* ---- names ----------------------------------------------------------------------- */

static const char *label_of(const struct draw_options *options, cop_rank rank)
{
    return options->label == NULL ? NULL : options->label(options->context, rank);
}

static void print_name(FILE *out, const struct draw_options *options, cop_rank rank)
{
    const char *label = label_of(options, rank);
    if (label != NULL)
        fputs(label, out);
    else
        fprintf(out, "n%u", rank);
}

static const char *red(const struct draw_options *options)
{
    return options->color ? "\033[31m" : "";
}

static const char *plain(const struct draw_options *options)
{
    return options->color ? "\033[0m" : "";
}

static const char *cross(const struct draw_options *options)
{
    if (!options->color)
        return "";
    return options->utf8 ? "\xe2\x9c\x97 " : "x ";
}

/* A sorted set, cut if it is long. */
static int print_set(FILE *out, const cop_rank *ranks, uint32_t count)
{
    char *text = nodeset_fold_ids("n", ranks, count);
    if (text == NULL)
        return COP_ENOMEM;
    bool cut = strlen(text) > FOLDED_BYTES;
    fprintf(out, "%.*s%s", FOLDED_BYTES, text, cut ? "..." : "");
    if (count > 1)
        fprintf(out, " (%u)", count);
    free(text);
    return 0;
}

/* ---- the stack ------------------------------------------------------------------- */

static int push_frame(struct drawing *drawing)
{
    if (drawing->depth == drawing->capacity) {
        uint32_t capacity = drawing->capacity * 2 + 16;
        struct frame *frames =
            realloc(drawing->frames, capacity * sizeof(*drawing->frames));
        if (frames == NULL)
            return COP_ENOMEM;
        memset(frames + drawing->capacity, 0,
               (capacity - drawing->capacity) * sizeof(*frames));
        drawing->frames = frames;
        drawing->capacity = capacity;
    }
    drawing->depth++;
    return 0;
}

static void free_frames(struct drawing *drawing)
{
    for (uint32_t i = 0; i < drawing->capacity; i++)
        cop_ranks_free(&drawing->frames[i].children);
    free(drawing->frames);
}

static int by_rank(const void *a, const void *b)
{
    const cop_rank *left = a;
    const cop_rank *right = b;
    return (*left > *right) - (*left < *right);
}

/* Those with children keep their order and come first; the others follow by rank, as
 * one set. */
static int set_leaves_apart(const struct drawing *drawing, struct frame *frame)
{
    struct cop_ranks leaves = {0};
    cop_rank *items = frame->children.items;
    for (uint32_t i = 0; i < frame->children.count; i++) {
        if (cop_tree_child_count(drawing->tree, items[i]) > 0)
            items[frame->branches++] = items[i];
        else if (cop_ranks_push(&leaves, items[i]) != 0) {
            cop_ranks_free(&leaves);
            return COP_ENOMEM;
        }
    }
    if (leaves.count > 0) {
        qsort(leaves.items, leaves.count, sizeof(*leaves.items), by_rank);
        memcpy(items + frame->branches, leaves.items,
               leaves.count * sizeof(*leaves.items));
    }
    cop_ranks_free(&leaves);
    return 0;
}

static bool folds_sets(const struct draw_options *options)
{
    return options->fold && options->label == NULL;
}

/* Goes down to the children of a rank. */
static int enter(struct drawing *drawing, cop_rank rank)
{
    int error = push_frame(drawing);
    if (error != 0)
        return error;
    struct frame *frame = &drawing->frames[drawing->depth - 1];
    frame->next = 0;
    frame->branches = 0;
    error = cop_tree_children(drawing->tree, rank, &frame->children);
    if (error != 0)
        return error;
    if (folds_sets(drawing->options))
        return set_leaves_apart(drawing, frame);
    frame->branches = frame->children.count;
    return 0;
}

/* ---- lines ----------------------------------------------------------------------- */

static void print_indent(const struct drawing *drawing)
{
    bool utf8 = drawing->options->utf8;
    for (uint32_t i = 0; i < drawing->depth; i++) {
        const struct frame *frame = &drawing->frames[i];
        bool more = frame->next < frame->children.count;
        if (i + 1 < drawing->depth)
            fputs(!more ? "   " : utf8 ? "\xe2\x94\x82  " : "|  ", drawing->out);
        else if (utf8)
            fputs(more ? "\xe2\x94\x9c\xe2\x94\x80 " : "\xe2\x94\x94\xe2\x94\x80 ",
                  drawing->out);
        else
            fputs(more ? "|- " : "`- ", drawing->out);
    }
}

/* The dead rank that was above it, where that is why it is here; otherwise NONE. A tree
 * that was laid anew has no such story. */
static cop_rank lost_parent(const struct drawing *drawing, cop_rank rank)
{
    if (drawing->tree->repair == COP_REPAIR_REBALANCE)
        return COP_RANK_NONE;
    cop_rank before = cop_tree_parent(&drawing->whole, rank);
    if (before == COP_RANK_NONE || !cop_dead_has(drawing->tree->dead, before))
        return COP_RANK_NONE;
    return before;
}

bool draw_is_drained(const struct cop_tree *tree, cop_rank rank)
{
    uint32_t i = 0;
    while (i < tree->leaf_count && tree->leaves[i] != rank)
        i++;
    return i < tree->leaf_count;
}

static void print_rank(struct drawing *drawing, cop_rank rank)
{
    const struct draw_options *options = drawing->options;
    print_name(drawing->out, options, rank);
    drawing->ranks++;
    if (draw_is_drained(drawing->tree, rank))
        fputs("  (drained)", drawing->out);
    cop_rank lost = lost_parent(drawing, rank);
    if (lost == COP_RANK_NONE)
        return;
    fprintf(drawing->out, "  %s(was below %s", red(options), cross(options));
    print_name(drawing->out, options, lost);
    fprintf(drawing->out, ")%s", plain(options));
}

/* The only child of a rank, if it can share its line; otherwise NONE. */
static cop_rank only_child(const struct drawing *drawing, cop_rank rank)
{
    struct cop_ranks children = {0};
    cop_rank child = COP_RANK_NONE;
    if (cop_tree_child_count(drawing->tree, rank) == 1 &&
        cop_tree_children(drawing->tree, rank, &children) == 0)
        child = children.items[0];
    cop_ranks_free(&children);
    return child;
}

static const char *dash(const struct drawing *drawing)
{
    return drawing->options->utf8 ? " \xe2\x94\x80 " : " - ";
}

/* A rank and its only child and that one's only child...: the ends and how many
 * between. Gives the last, whose children come below. */
static cop_rank print_run(struct drawing *drawing, cop_rank rank)
{
    uint32_t count = 1;
    cop_rank next;
    print_rank(drawing, rank);
    if (!drawing->options->fold)
        return rank;
    for (; (next = only_child(drawing, rank)) != COP_RANK_NONE; count++) {
        rank = next;
        if (count >= RUN_HEAD)
            continue;
        fputs(dash(drawing), drawing->out);
        print_rank(drawing, rank);
    }
    if (count > RUN_HEAD + 1)
        fprintf(drawing->out, "%s(%u more)", dash(drawing), count - RUN_HEAD - 1);
    if (count > RUN_HEAD) {
        fputs(dash(drawing), drawing->out);
        print_rank(drawing, rank);
        drawing->ranks += count - RUN_HEAD - 1;
    }
    return rank;
}

static bool is_full(const struct drawing *drawing)
{
    return drawing->options->lines != 0 && drawing->lines >= drawing->options->lines;
}

/* One line of the frame on top of the stack, which has more. */
static int draw_next(struct drawing *drawing)
{
    struct frame *frame = &drawing->frames[drawing->depth - 1];
    uint32_t count = frame->children.count;
    uint32_t at = frame->next;
    int error = 0;
    bool set = folds_sets(drawing->options) && at == frame->branches && at + 1 < count;
    frame->next = set ? count : at + 1;
    print_indent(drawing);
    drawing->lines++;
    if (set) {
        error = print_set(drawing->out, frame->children.items + at, count - at);
        drawing->ranks += count - at;
        fputc('\n', drawing->out);
        return error;
    }
    cop_rank last = print_run(drawing, frame->children.items[at]);
    fputc('\n', drawing->out);
    return enter(drawing, last);
}

static int draw_living(struct drawing *drawing, cop_rank root)
{
    cop_rank last = print_run(drawing, root);
    fputc('\n', drawing->out);
    drawing->lines++;
    int error = enter(drawing, last);
    while (error == 0 && drawing->depth > 0 && !is_full(drawing)) {
        const struct frame *frame = &drawing->frames[drawing->depth - 1];
        if (frame->next == frame->children.count)
            drawing->depth--;
        else
            error = draw_next(drawing);
    }
    return error;
}

/* ---- all of it ------------------------------------------------------------------- */

static int draw_dead(const struct drawing *drawing)
{
    const struct draw_options *options = drawing->options;
    struct cop_ranks dead = {0};
    int error = 0;
    for (cop_rank rank = 0; rank < drawing->tree->n && error == 0; rank++) {
        if (cop_dead_has(drawing->tree->dead, rank) &&
            !draw_is_drained(drawing->tree, rank))
            error = cop_ranks_push(&dead, rank);
    }
    if (error == 0 && dead.count > 0) {
        fprintf(drawing->out, "%s%sdead: ", red(options), cross(options));
        for (uint32_t i = 0; options->label != NULL && i < dead.count; i++) {
            fputs(i == 0 ? "" : " ", drawing->out);
            print_name(drawing->out, options, dead.items[i]);
        }
        if (options->label == NULL)
            error = print_set(drawing->out, dead.items, dead.count);
        fprintf(drawing->out, "%s\n", plain(options));
    }
    cop_ranks_free(&dead);
    return error;
}

int draw_tree(FILE *out, const struct cop_tree *tree,
              const struct draw_options *options)
{
    struct drawing drawing = {
        .out = out, .tree = tree, .options = options, .whole = *tree};
    cop_rank root = cop_tree_root(tree);
    uint32_t living = tree->n - cop_dead_count(tree->dead) + tree->leaf_count;
    int error = 0;
    drawing.whole.dead = NULL;
    drawing.whole.leaf_count = 0;
    if (root != COP_RANK_NONE)
        error = draw_living(&drawing, root);
    free_frames(&drawing);
    if (error == 0 && drawing.ranks < living)
        fprintf(out, "%s %u of %u ranks are left out\n",
                options->utf8 ? "\xe2\x80\xa6" : "...", living - drawing.ranks, living);
    if (error == 0)
        error = draw_dead(&drawing);
    return error == 0 && ferror(out) ? COP_EIO : error;
}

/* ---- Graphviz -------------------------------------------------------------------- */

/* Names are quoted, so only quotes and backslashes matter. */
static void print_quoted(FILE *out, const struct draw_options *options, cop_rank rank)
{
    const char *label = label_of(options, rank);
    if (label == NULL) {
        fprintf(out, "\"n%u\"", rank);
        return;
    }
    fputc('"', out);
    for (; *label != '\0'; label++)
        fprintf(out, *label == '"' || *label == '\\' ? "\\%c" : "%c", *label);
    fputc('"', out);
}

int draw_dot(FILE *out, const struct cop_tree *tree, const struct draw_options *options)
{
    fputs("digraph coppice {\n    node [shape=box, style=rounded];\n", out);
    for (cop_rank rank = 0; rank < tree->n; rank++) {
        bool dead = cop_dead_has(tree->dead, rank) && !draw_is_drained(tree, rank);
        cop_rank parent = dead ? COP_RANK_NONE : cop_tree_parent(tree, rank);
        fputs("    ", out);
        if (parent != COP_RANK_NONE) {
            print_quoted(out, options, parent);
            fputs(" -> ", out);
        }
        print_quoted(out, options, rank);
        fputs(dead ? " [style=dashed, color=red, fontcolor=red];\n" : ";\n", out);
    }
    fputs("}\n", out);
    return ferror(out) ? COP_EIO : 0;
}
