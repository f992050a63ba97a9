/* SPDX-License-Identifier: Apache-2.0 */
#include "sweep/cover.h"

#include "base/cold.h"

#include <coppice/error.h>
#include <stdlib.h>
#include <string.h>

static struct cop__mark *marks_of(struct cop__cover *cover)
{
    return cover->capacity ? cover->marks.many : cover->marks.few;
}

void cop__cover_fini(struct cop__cover *cover)
{
    if (cover->capacity)
        free(cover->marks.many);
    *cover = (struct cop__cover){0};
}

static int reserve(struct cop__cover *cover, uint32_t more)
{
    uint32_t room = cover->capacity ? cover->capacity : COP__COVER_INLINE;
    if (room - cover->count >= more)
        return 0;
    uint32_t capacity = cover->count + more < 2 * room ? 2 * room : cover->count + more;
    struct cop__mark *grown = malloc(capacity * sizeof *grown);
    if (!grown)
        return COP_ENOMEM;
    memcpy(grown, marks_of(cover), cover->count * sizeof *grown);
    if (cover->capacity)
        free(cover->marks.many);
    cover->marks.many = grown;
    cover->capacity = capacity;
    return 0;
}

int cop__cover_add(struct cop__cover *cover, cop_rank rank, enum cop__mark_mode mode)
{
    int error = reserve(cover, 1);
    if (!error)
        marks_of(cover)[cover->count++] = (struct cop__mark){rank, (uint8_t)mode};
    return error;
}

int cop__cover_add_all(struct cop__cover *cover, const struct cop__cover *other)
{
    if (other->count == 0)
        return 0;
    int error = reserve(cover, other->count);
    if (error)
        return error;
    memcpy(marks_of(cover) + cover->count, cop__cover_marks(other),
           other->count * sizeof(struct cop__mark));
    cover->count += other->count;
    return 0;
}

/* ---- order ----------------------------------------------------------------------- */

static bool is_single(const struct cop__mark *mark)
{
    return mark->mode >= COP__ONE_IN;
}

static int delta(const struct cop__mark *mark)
{
    return mark->mode == COP__TREE_IN || mark->mode == COP__ONE_IN ? 1 : -1;
}

/* Rank, then kind: marks that can cancel have the same key. */
static uint64_t key(const struct cop__mark *mark)
{
    return (uint64_t)mark->rank << 1 | is_single(mark);
}

static void sift_down(struct cop__mark *marks, uint32_t at, uint32_t count)
{
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= count)
            return;
        if (child + 1 < count && key(&marks[child + 1]) > key(&marks[child]))
            child++;
        if (key(&marks[at]) >= key(&marks[child]))
            return;
        struct cop__mark swap = marks[at];
        marks[at] = marks[child];
        marks[child] = swap;
        at = child;
    }
}

static void reverse(struct cop__mark *marks, uint32_t count)
{
    for (uint32_t i = 0; i < count / 2; i++) {
        struct cop__mark swap = marks[i];
        marks[i] = marks[count - 1 - i];
        marks[count - 1 - i] = swap;
    }
}

/* Insertion for the usual handful, heapsort beyond: qsort may allocate, and differs. Of the
 * children the highest is asked first, and its marks come first. */
static void sort(struct cop__mark *marks, uint32_t count)
{
    if (count <= 32) {
        if (count > 1 && key(&marks[0]) > key(&marks[count - 1]))
            reverse(marks, count);
        for (uint32_t i = 1; i < count; i++) {
            struct cop__mark mark = marks[i];
            uint32_t at = i;
            for (; at > 0 && key(&marks[at - 1]) > key(&mark); at--)
                marks[at] = marks[at - 1];
            marks[at] = mark;
        }
        return;
    }
    for (uint32_t i = count / 2; i > 0; i--)
        sift_down(marks, i - 1, count);
    for (uint32_t end = count - 1; end > 0; end--) {
        struct cop__mark swap = marks[0];
        marks[0] = marks[end];
        marks[end] = swap;
        sift_down(marks, 0, end);
    }
}

void cop__cover_settle(struct cop__cover *cover)
{
    struct cop__mark *marks = marks_of(cover);
    sort(marks, cover->count);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < cover->count;) {
        uint64_t k = key(&marks[i]);
        struct cop__mark mark = marks[i];
        int sum = 0;
        for (; i < cover->count && key(&marks[i]) == k; i++)
            sum += delta(&marks[i]);
        mark.mode =
            (uint8_t)((is_single(&mark) ? COP__ONE_IN : COP__TREE_IN) + (sum < 0));
        for (; sum != 0; sum += sum < 0 ? 1 : -1)
            marks[kept++] = mark;
    }
    cover->count = kept;
}

void cop__cover_negate(struct cop__cover *cover)
{
    struct cop__mark *marks = marks_of(cover);
    for (uint32_t i = 0; i < cover->count; i++)
        marks[i].mode ^= 1u; /* in and out are neighbours in the enum */
}

/* ---- values ---------------------------------------------------------------------- */

/* Sum of the marks with this key. */
static int sum_at(const struct cop__cover *cover, uint64_t k)
{
    const struct cop__mark *marks = cop__cover_marks(cover);
    uint32_t low = 0, high = cover->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (key(&marks[middle]) < k)
            low = middle + 1;
        else
            high = middle;
    }
    int sum = 0;
    for (; low < cover->count && key(&marks[low]) == k; low++)
        sum += delta(&marks[low]);
    return sum;
}

/* What the sub-tree marks on `rank` and above it add up to. */
static int tree_value(const struct cop_tree *tree, const struct cop__cover *cover,
                      cop_rank rank)
{
    int sum = 0;
    for (; rank != COP_RANK_NONE; rank = cop_tree_parent(tree, rank))
        sum += sum_at(cover, (uint64_t)rank << 1);
    return sum;
}

static int value(const struct cop_tree *tree, const struct cop__cover *cover,
                 cop_rank rank)
{
    return tree_value(tree, cover, rank) + sum_at(cover, (uint64_t)rank << 1 | 1);
}

bool cop__cover_has(const struct cop_tree *tree, const struct cop__cover *cover,
                    cop_rank rank)
{
    const struct cop__mark *first = cop__cover_marks(cover);
    /* A whole sub-tree has its top: the usual question to the usual answer. */
    if (cover->count == 1 && first->rank == rank)
        return first->mode == COP__TREE_IN || first->mode == COP__ONE_IN;
    return cover->count > 0 && value(tree, cover, rank) > 0;
}

uint32_t cop__cover_size(const struct cop_tree *tree, const struct cop__cover *cover)
{
    const struct cop__mark *marks = cop__cover_marks(cover);
    int64_t size = 0;
    for (uint32_t i = 0; i < cover->count; i++) {
        const struct cop__mark *mark = &marks[i];
        int64_t weight = is_single(mark) ? 1 : cop_tree_size(tree, mark->rank);
        size += delta(mark) * weight;
    }
    return (uint32_t)size;
}

/* ---- two sets -------------------------------------------------------------------- */

/* What a set says about a rank, and about the place above it. */
struct standing {
    bool was, in, self; /* its parent's sub-tree, its own, and the rank alone */
};

/* One way up the tree: what is above adds up once, and the rank's own marks come on top. */
static struct standing standing_of(const struct cop_tree *tree,
                                   const struct cop__cover *cover, cop_rank rank,
                                   cop_rank above)
{
    int was = tree_value(tree, cover, above);
    int in = was + sum_at(cover, (uint64_t)rank << 1);
    int self = in + sum_at(cover, (uint64_t)rank << 1 | 1);
    return (struct standing){was > 0, in > 0, self > 0};
}

/*
 * Ranks in both. Between two marked ranks of either set the values of both are
 * constant along the tree, so the intersection is: at each marked rank, the sub-tree
 * if it begins or ends there to lie in both, and the rank itself if that differs.
 */
COP__COLD static int intersect(const struct cop_tree *tree, const struct cop__cover *a,
                               const struct cop__cover *b, struct cop__cover *out)
{
    struct cop__cover all = {0}, both = {0};
    int error = cop__cover_add_all(&all, a);
    if (!error && b != a)
        error = cop__cover_add_all(&all, b);
    struct cop__mark *marks = marks_of(&all);
    sort(marks, all.count);
    for (uint32_t i = 0; !error && i < all.count; i++) {
        cop_rank rank = marks[i].rank;
        if (i > 0 && marks[i - 1].rank == rank)
            continue;
        cop_rank above = cop_tree_parent(tree, rank);
        struct standing x = standing_of(tree, a, rank, above);
        struct standing y = b == a ? x : standing_of(tree, b, rank, above);
        bool was = x.was && y.was, in = x.in && y.in, self = x.self && y.self;
        if (in != was)
            error = cop__cover_add(&both, rank, in ? COP__TREE_IN : COP__TREE_OUT);
        if (!error && self != in)
            error = cop__cover_add(&both, rank, self ? COP__ONE_IN : COP__ONE_OUT);
    }
    cop__cover_fini(&all);
    if (error) {
        cop__cover_fini(&both);
        return error;
    }
    *out = both;
    return 0;
}

int cop__cover_rewrite(const struct cop_tree *tree, struct cop__cover *cover)
{
    struct cop__cover same;
    cop__cover_settle(cover);
    int error = intersect(tree, cover, cover, &same);
    if (error)
        return error;
    cop__cover_fini(cover);
    *cover = same;
    return 0;
}

int cop__cover_common(const struct cop_tree *tree, const struct cop__cover *a,
                      const struct cop__cover *b, uint32_t *out)
{
    struct cop__cover both;
    int error = intersect(tree, a, b, &both);
    if (error)
        return error;
    *out = cop__cover_size(tree, &both);
    cop__cover_fini(&both);
    return 0;
}

int cop__cover_compare(const struct cop_tree *tree, const struct cop__cover *a,
                       const struct cop__cover *b, enum cop__relation *out)
{
    uint32_t common;
    int error = cop__cover_common(tree, a, b, &common);
    if (error)
        return error;
    if (common == 0)
        *out = COP__DISJOINT;
    else if (common == cop__cover_size(tree, a))
        *out = COP__INSIDE;
    else if (common == cop__cover_size(tree, b))
        *out = COP__AROUND;
    else
        *out = COP__OVERLAP;
    return 0;
}

int cop__cover_collect(const struct cop_tree *tree, const struct cop__cover *cover,
                       struct cop_ranks *out)
{
    const struct cop__mark *marks = cop__cover_marks(cover);
    bool singles = true;
    for (uint32_t i = 0; i < cover->count; i++)
        singles &= marks[i].mode == COP__ONE_IN;
    out->count = 0;
    /* The usual case, a few dead, must not cost a walk over all n. */
    if (singles) {
        for (uint32_t i = 0; i < cover->count; i++)
            if (cop_ranks_push(out, marks[i].rank))
                return COP_ENOMEM;
        return 0;
    }
    for (cop_rank rank = 0; rank < tree->n; rank++)
        if (cop__cover_has(tree, cover, rank) && cop_ranks_push(out, rank))
            return COP_ENOMEM;
    return 0;
}

/* ---- bytes ----------------------------------------------------------------------- */

COP__COLD static bool is_set(const struct cop_tree *tree,
                             const struct cop__cover *cover)
{
    const struct cop__mark *marks = cop__cover_marks(cover);
    for (uint32_t i = 0; i < cover->count; i++) {
        int sub = tree_value(tree, cover, marks[i].rank);
        int self = value(tree, cover, marks[i].rank);
        if (sub < 0 || sub > 1 || self < 0 || self > 1)
            return false;
    }
    return true;
}

static bool is_acceptable(const struct cop_tree *tree, cop_rank top,
                          const struct cop__mark *mark, const struct cop__mark *before)
{
    return mark->mode <= COP__ONE_OUT && mark->rank < tree->n &&
           (!before || key(before) < key(mark)) &&
           cop_tree_is_below(tree, mark->rank, top);
}

int cop__cover_decode(const struct cop_tree *tree, cop_rank top, struct cop__list list,
                      struct cop__cover *out)
{
    struct cop__cover cover = {0};
    int error = list.count ? reserve(&cover, list.count) : 0;
    struct cop__mark *marks = marks_of(&cover);
    for (uint32_t i = 0; !error && i < list.count; i++) {
        marks[i] = cop__mark_at(list, i);
        if (!is_acceptable(tree, top, &marks[i], i ? &marks[i - 1] : NULL))
            error = COP_EMALFORMED;
        cover.count = i + 1;
    }
    /* The sub-tree of `top` as a whole is what a healthy child says. */
    bool whole = cover.count == 1 && marks[0].mode == COP__TREE_IN;
    if (!error && !whole && !is_set(tree, &cover))
        error = COP_EMALFORMED;
    if (error) {
        cop__cover_fini(&cover);
        return error;
    }
    *out = cover;
    return 0;
}

size_t cop__cover_bytes(const struct cop__cover *cover)
{
    return (size_t)cover->count * COP__SIZE_mark;
}

void cop__cover_put(struct cop__writer *writer, const struct cop__cover *cover)
{
    const struct cop__mark *marks = cop__cover_marks(cover);
    for (uint32_t i = 0; i < cover->count; i++)
        cop__mark_put(writer, &marks[i]);
}
