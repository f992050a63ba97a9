/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two sets of marks, as a peer may send them, in any tree: whatever is accepted is a set, and
 * every operation agrees with one that counts on its fingers.
 */
#include "base/assert.h"
#include "sweep/cover.h"

#include <coppice/error.h>
#include <string.h>

#define N_MAX 40u
#define MARKS_MAX 12u

struct input {
    const uint8_t *at, *end;
};

static uint8_t next(struct input *input)
{
    return input->at < input->end ? *input->at++ : 0;
}

/* ---- counting on one's fingers --------------------------------------------------- */

struct plain {
    int value[N_MAX];
    uint32_t size;
};

static struct plain count(const struct cop_tree *tree, struct cop__list list)
{
    struct plain plain = {0};
    for (uint32_t i = 0; i < list.count; i++) {
        struct cop__mark mark = cop__mark_at(list, i);
        int by = mark.mode == COP__TREE_IN || mark.mode == COP__ONE_IN ? 1 : -1;
        bool whole = mark.mode == COP__TREE_IN || mark.mode == COP__TREE_OUT;
        for (cop_rank rank = 0; rank < tree->n; rank++)
            if (whole ? cop_tree_is_below(tree, rank, mark.rank) : rank == mark.rank)
                plain.value[rank] += by;
    }
    for (cop_rank rank = 0; rank < tree->n; rank++)
        plain.size += plain.value[rank] > 0;
    return plain;
}

static enum cop__relation relation_of(const struct cop_tree *tree,
                                      const struct plain *a, const struct plain *b)
{
    uint32_t common = 0;
    for (cop_rank rank = 0; rank < tree->n; rank++)
        common += a->value[rank] > 0 && b->value[rank] > 0;
    if (common == 0)
        return COP__DISJOINT;
    if (common == a->size)
        return COP__INSIDE;
    return common == b->size ? COP__AROUND : COP__OVERLAP;
}

/* ---- checks ---------------------------------------------------------------------- */

static void check_same(const struct cop_tree *tree, const struct cop__cover *cover,
                       const struct plain *plain)
{
    struct cop_ranks ranks = {0};
    COP_ASSERT(cop__cover_size(tree, cover) == plain->size);
    COP_ASSERT(cop__cover_collect(tree, cover, &ranks) == 0);
    COP_ASSERT(ranks.count == plain->size);
    for (cop_rank rank = 0, i = 0; rank < tree->n; rank++) {
        COP_ASSERT(cop__cover_has(tree, cover, rank) == (plain->value[rank] > 0));
        if (plain->value[rank] > 0)
            COP_ASSERT(ranks.items[i++] == rank);
    }
    cop_ranks_free(&ranks);
}

/* Written anew it is the same set, in a form that others accept. */
static void check_rewritten(const struct cop_tree *tree, const struct cop__cover *cover,
                            const struct plain *plain)
{
    struct cop__cover copy = {0}, again;
    uint8_t bytes[4 * N_MAX * COP__SIZE_mark];
    COP_ASSERT(cop__cover_add_all(&copy, cover) == 0);
    COP_ASSERT(cop__cover_rewrite(tree, &copy) == 0);
    check_same(tree, &copy, plain);
    COP_ASSERT(cop__cover_bytes(&copy) <= sizeof bytes);
    struct cop__writer writer = cop__writer(bytes, sizeof bytes);
    cop__cover_put(&writer, &copy);
    struct cop__list list = {bytes, copy.count};
    COP_ASSERT(cop__cover_decode(tree, tree->root, list, &again) == 0);
    check_same(tree, &again, plain);
    cop__cover_fini(&again);
    cop__cover_fini(&copy);
}

/* The union of sets that do not overlap is the sum of their marks. */
static void check_union(const struct cop_tree *tree, const struct cop__cover *a,
                        const struct cop__cover *b, const struct plain *x,
                        const struct plain *y)
{
    struct plain both = *x;
    struct cop__cover sum = {0};
    both.size = x->size + y->size;
    for (cop_rank rank = 0; rank < tree->n; rank++)
        both.value[rank] += y->value[rank];
    COP_ASSERT(cop__cover_add_all(&sum, a) == 0);
    COP_ASSERT(cop__cover_add_all(&sum, b) == 0);
    COP_ASSERT(cop__cover_rewrite(tree, &sum) == 0);
    check_same(tree, &sum, &both);
    cop__cover_fini(&sum);
}

static void check_pair(const struct cop_tree *tree, const struct cop__cover *a,
                       const struct cop__cover *b, const struct plain *x,
                       const struct plain *y)
{
    enum cop__relation relation;
    COP_ASSERT(cop__cover_compare(tree, a, b, &relation) == 0);
    COP_ASSERT(relation == relation_of(tree, x, y));
    COP_ASSERT(cop__cover_compare(tree, b, a, &relation) == 0);
    COP_ASSERT(relation == relation_of(tree, y, x));
    if (relation == COP__DISJOINT)
        check_union(tree, a, b, x, y);
}

/* ---- reading the input ----------------------------------------------------------- */

static bool read_tree(struct input *input, struct cop_tree *out)
{
    static const enum cop_shape_kind kinds[] = {COP_SHAPE_KARY, COP_SHAPE_RADIX,
                                                COP_SHAPE_KNOMIAL, COP_SHAPE_FLAT,
                                                COP_SHAPE_CHAIN};
    static const uint32_t arities[] = {0, 2, 3, 4, 8};
    *out = (struct cop_tree){.n = 1 + next(input) % N_MAX};
    out->root = next(input) % out->n;
    enum cop_shape_kind kind = kinds[next(input) % 5];
    if (cop_shape_make(kind, arities[next(input) % 5], &out->shape) != 0)
        return false;
    return cop_tree_check(out) == 0;
}

static struct cop__list read_marks(struct input *input, uint8_t *bytes)
{
    uint32_t marks = next(input) % (MARKS_MAX + 1);
    struct cop__writer writer = cop__writer(bytes, MARKS_MAX * COP__SIZE_mark);
    for (uint32_t i = 0; i < marks; i++) {
        struct cop__mark mark = {.rank = next(input), .mode = next(input)};
        cop__mark_put(&writer, &mark);
    }
    return (struct cop__list){bytes, marks};
}

static bool read_set(struct input *input, const struct cop_tree *tree,
                     struct cop__cover *out, struct plain *plain)
{
    uint8_t bytes[MARKS_MAX * COP__SIZE_mark];
    cop_rank top = next(input) % tree->n;
    struct cop__list list = read_marks(input, bytes);
    int error = cop__cover_decode(tree, top, list, out);
    COP_ASSERT(error == 0 || error == COP_EMALFORMED);
    if (error)
        return false;
    *plain = count(tree, list);
    for (cop_rank rank = 0; rank < tree->n; rank++) {
        COP_ASSERT(plain->value[rank] == 0 || plain->value[rank] == 1);
        COP_ASSERT(plain->value[rank] == 0 || cop_tree_is_below(tree, rank, top));
    }
    check_same(tree, out, plain);
    check_rewritten(tree, out, plain);
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = {data, data + size};
    struct cop_tree tree;
    struct cop__cover a, b;
    struct plain x, y;
    if (!read_tree(&input, &tree) || !read_set(&input, &tree, &a, &x))
        return 0;
    if (read_set(&input, &tree, &b, &y)) {
        check_pair(&tree, &a, &b, &x, &y);
        cop__cover_fini(&b);
    }
    cop__cover_fini(&a);
    return 0;
}
