/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cold.h"
#include "sweep/state.h"

#include <stdlib.h>
#include <string.h>

/*
 * The answers that I hold. They are kept apart until I answer, because a larger one
 * may come that contains some of them, and after that, because somebody who holds some
 * of them already may want them in pieces.
 */

static void fini_part(struct cop__part *part)
{
    cop__cover_fini(&part->cover);
    cop_buf_unref(part->owner);
}

/* Lets go of all parts, but not of their array. */
void cop__sweep_drop_parts(struct cop__sweep *sweep)
{
    for (uint32_t i = 0; i < sweep->part_count; i++)
        fini_part(&sweep->parts[i]);
    sweep->part_count = 0;
}

void cop__sweep_remove_part(struct cop__sweep *sweep, uint32_t i)
{
    fini_part(&sweep->parts[i]);
    sweep->part_count--;
    memmove(sweep->parts + i, sweep->parts + i + 1,
            (sweep->part_count - i) * sizeof *sweep->parts);
}

/* A leaf has one part, which has its place in the sweep; others get as many as they have
 * children, at once. */
static int grow(struct cop__sweep *sweep)
{
    uint32_t capacity = sweep->part_capacity > 1 ? sweep->part_capacity * 2
                        : sweep->child_count     ? sweep->child_count + 1
                                                 : 1;
    if (capacity == 1 && sweep->part_capacity == 0) {
        sweep->parts = &sweep->one_part;
        sweep->part_capacity = 1;
        return 0;
    }
    if (capacity < 2)
        capacity = 2;
    struct cop__part *grown = malloc(capacity * sizeof *grown);
    if (!grown)
        return COP_ENOMEM;
    if (sweep->part_count > 0)
        memcpy(grown, sweep->parts, sweep->part_count * sizeof *grown);
    if (sweep->part_capacity > 1)
        free(sweep->parts);
    sweep->parts = grown;
    sweep->part_capacity = capacity;
    return 0;
}

/* Index of the first part whose source is not below `source` as a number. */
static uint32_t first_of(const struct cop__sweep *sweep, cop_rank source)
{
    uint32_t low = 0, high = sweep->part_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (sweep->parts[middle].source < source)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Takes the part over, in the order of its source; COP_ENOMEM leaves it to the caller. */
int cop__sweep_push_part(struct cop__sweep *sweep, struct cop__part *part)
{
    if (sweep->part_count == sweep->part_capacity && grow(sweep))
        return COP_ENOMEM;
    uint32_t at = first_of(sweep, part->source + 1);
    memmove(sweep->parts + at + 1, sweep->parts + at,
            (sweep->part_count - at) * sizeof *sweep->parts);
    sweep->parts[at] = *part;
    sweep->part_count++;
    return 0;
}

/* Only what was sent by somebody on the way up to me can cover `rank`. */
bool cop__sweep_holds(const struct cop__sweep *sweep, cop_rank rank)
{
    for (cop_rank at = rank; at != COP_RANK_NONE;
         at = at == sweep->self ? COP_RANK_NONE : cop_tree_parent(&sweep->tree, at))
        for (uint32_t i = first_of(sweep, at);
             i < sweep->part_count && sweep->parts[i].source == at; i++)
            if (cop__cover_has(&sweep->tree, &sweep->parts[i].cover, rank))
                return true;
    return false;
}

bool cop__sweep_has_part_of(const struct cop__sweep *sweep, cop_rank source)
{
    uint32_t at = first_of(sweep, source);
    return at < sweep->part_count && sweep->parts[at].source == source;
}

/* ---- one set of all -------------------------------------------------------------- */

/* A lost child of which nothing is held is a hole: it alone is missing, not its
 * sub-tree. */
static bool is_hole(const struct cop__sweep *sweep, const struct cop__child *child)
{
    return child->state == CHILD_LOST && !cop__sweep_holds(sweep, child->rank);
}

/*
 * Whether the sub-tree of `child` was added as part of somebody above it: then it has
 * to be taken away again, to be put back by its own answer.
 */
static bool is_counted_above(const struct cop__sweep *sweep,
                             const struct cop__child *child, cop_rank self, bool own)
{
    cop_rank above = cop_tree_parent(&sweep->tree, child->rank);
    if (above == self)
        return own;
    if (!sweep->tangled)
        return false;
    const struct cop__child *upper = cop__sweep_child(sweep, above);
    return upper && is_hole(sweep, upper);
}

/*
 * My own contribution as "my sub-tree without those of my children": what they answer
 * then cancels, and a whole sub-tree is written as one mark.
 */
static int add_frame(const struct cop__sweep *sweep, cop_rank self, bool own,
                     struct cop__cover *out)
{
    int error = own ? cop__cover_add(out, self, COP__TREE_IN) : 0;
    for (uint32_t i = 0; !error && i < sweep->child_count; i++) {
        const struct cop__child *child = &sweep->children[i];
        if (is_counted_above(sweep, child, self, own))
            error = cop__cover_add(out, child->rank, COP__TREE_OUT);
        if (!error && child->state == CHILD_LOST && is_hole(sweep, child)) {
            error = cop__cover_add(out, child->rank, COP__TREE_IN);
            if (!error)
                error = cop__cover_add(out, child->rank, COP__ONE_OUT);
        }
    }
    return error;
}

/* Whether this one has said of its whole sub-tree, and of nothing else. */
static bool is_whole(const struct cop__part *part)
{
    const struct cop__mark *marks = cop__cover_marks(&part->cover);
    return part->cover.count == 1 && marks->mode == COP__TREE_IN &&
           marks->rank == part->source;
}

/* Nobody was lost, and everybody has answered for all below: all marks of the children cancel,
 * as nearly always. Children are those of the tree, each with one part, and mine makes one more. */
static bool has_all(const struct cop__sweep *sweep)
{
    bool own = false;
    if (sweep->tangled || sweep->part_count != sweep->child_count + 1)
        return false;
    for (uint32_t i = 0; i < sweep->part_count; i++) {
        if (sweep->parts[i].source == sweep->self)
            own = true;
        else if (!is_whole(&sweep->parts[i]))
            return false;
    }
    return own;
}

/* One by one: not all that it has asked for is in. */
COP__APART static int gather_held(const struct cop__sweep *sweep,
                                  struct cop__cover *out)
{
    struct cop__cover held = {0};
    cop_rank self = sweep->self;
    bool own = false;
    int error = 0;
    for (uint32_t i = 0; !error && i < sweep->part_count; i++) {
        if (sweep->parts[i].source == self)
            own = true;
        else
            error = cop__cover_add_all(&held, &sweep->parts[i].cover);
    }
    if (!error)
        error = add_frame(sweep, self, own, &held);
    if (!error && sweep->tangled)
        error = cop__cover_rewrite(&sweep->tree, &held);
    else if (!error)
        cop__cover_settle(&held);
    if (error) {
        cop__cover_fini(&held);
        return error;
    }
    *out = held;
    return 0;
}

/* The union of all parts. */
int cop__sweep_held(const struct cop__sweep *sweep, struct cop__cover *out)
{
    if (!has_all(sweep))
        return gather_held(sweep, out);
    *out = (struct cop__cover){0};
    return cop__cover_add(out, sweep->self, COP__TREE_IN);
}

/* At the initiator: all ranks that are not held, sorted. COP_ENOMEM leaves `out`
 * empty. */
int cop__sweep_missing(const struct cop__sweep *sweep, struct cop_ranks *out)
{
    struct cop__cover held;
    if (cop__sweep_held(sweep, &held))
        return COP_ENOMEM;
    cop__cover_negate(&held);
    int error = cop__cover_add(&held, sweep->tree.root, COP__TREE_IN);
    if (!error)
        error = cop__cover_rewrite(&sweep->tree, &held);
    if (!error)
        error = cop__cover_collect(&sweep->tree, &held, out);
    cop__cover_fini(&held);
    if (error)
        cop_ranks_free(out);
    return error;
}

#define FEW 16u

/* One payload out of all parts, for the caller to give back. NULL: no memory. */
struct cop_buf *cop__sweep_fold(const struct cop_node *node,
                                const struct cop__sweep *sweep)
{
    struct cop__bytes few[FEW], *payloads = few;
    uint32_t count = sweep->part_count;
    /* A contribution is a buffer of its own, and alone needs no folding. */
    if (count == 1 && sweep->parts[0].source == sweep->self)
        return cop_buf_ref(sweep->parts[0].owner);
    if (count > FEW)
        payloads = malloc(count * sizeof *payloads);
    if (!payloads)
        return NULL;
    for (uint32_t i = 0; i < count; i++)
        payloads[i] = sweep->parts[i].payload;
    struct cop_buf *folded = cop__sweep_protocol(node, sweep)->fold(payloads, count);
    if (payloads != few)
        free(payloads);
    return folded;
}

/* ---- taking one in --------------------------------------------------------------- */

struct relations {
    uint32_t size, shared; /* of the part, and how much of it I hold */
    bool inside, overlap, around;
};

/* Covers lie in the sub-trees of their sources, so most pairs need no closer look. */
static bool may_meet(const struct cop__sweep *sweep, const struct cop__part *a,
                     const struct cop__part *b)
{
    return b->source != sweep->self &&
           (cop_tree_is_below(&sweep->tree, a->source, b->source) ||
            cop_tree_is_below(&sweep->tree, b->source, a->source));
}

/* How `part` lies to part `i`, which is removed if finer pieces of it are coming. */
static int relate_one(struct cop__sweep *sweep, const struct cop__part *part,
                      bool pieces, uint32_t i, struct relations *out)
{
    const struct cop__part *held = &sweep->parts[i];
    uint32_t common, held_size = cop__cover_size(&sweep->tree, &held->cover);
    if (cop__cover_common(&sweep->tree, &part->cover, &held->cover, &common))
        return COP_ENOMEM;
    if (common == out->size && common < held_size && pieces &&
        held->source == part->source) {
        cop__sweep_remove_part(sweep, i);
        return 0;
    }
    out->shared += common;
    out->around |= common > 0 && common == held_size;
    out->overlap |= common > 0 && common < held_size && common < out->size;
    return 0;
}

/* A leaf can only meet what was sent by itself or from above it: no need to look at all. */
static int relate_leaf(struct cop__sweep *sweep, const struct cop__part *part,
                       bool pieces, struct relations *out)
{
    cop_rank at = part->source;
    for (; at != sweep->self && at != COP_RANK_NONE;
         at = cop_tree_parent(&sweep->tree, at))
        for (uint32_t i = first_of(sweep, at);
             i < sweep->part_count && sweep->parts[i].source == at;) {
            uint32_t before = sweep->part_count;
            if (relate_one(sweep, part, pieces, i, out))
                return COP_ENOMEM;
            i += sweep->part_count == before;
        }
    return 0;
}

static int relate_all(struct cop__sweep *sweep, const struct cop__part *part,
                      bool pieces, struct relations *out)
{
    for (uint32_t i = 0; i < sweep->part_count;) {
        uint32_t before = sweep->part_count;
        if (may_meet(sweep, part, &sweep->parts[i]) &&
            relate_one(sweep, part, pieces, i, out))
            return COP_ENOMEM;
        i += sweep->part_count == before;
    }
    return 0;
}

static int relate(struct cop__sweep *sweep, const struct cop__part *part, bool pieces,
                  struct relations *out)
{
    *out = (struct relations){.size = cop__cover_size(&sweep->tree, &part->cover)};
    bool leaf = cop_tree_size(&sweep->tree, part->source) == 1;
    int error = leaf ? relate_leaf(sweep, part, pieces, out)
                     : relate_all(sweep, part, pieces, out);
    /* What I hold does not overlap, so this is also true where several of mine make it
     * up. */
    out->inside = out->shared == out->size;
    return error;
}

static int remove_inside(struct cop__sweep *sweep, const struct cop__part *part)
{
    for (uint32_t i = 0; i < sweep->part_count; i++) {
        const struct cop__part *held = &sweep->parts[i];
        enum cop__relation relation;
        if (!may_meet(sweep, part, held))
            continue;
        if (cop__cover_compare(&sweep->tree, &part->cover, &held->cover, &relation))
            return COP_ENOMEM;
        if (relation == COP__AROUND)
            cop__sweep_remove_part(sweep, i--);
    }
    return 0;
}

/*
 * S2: sets are nested or disjoint, and the larger is kept. A set that overlaps
 * otherwise comes from a false suspicion: refused, to be sent in pieces. What I have
 * answered for I can no longer exchange for something larger: refused as well. Takes
 * the part over if it is kept.
 */
enum cop__place cop__sweep_place(struct cop__sweep *sweep, struct cop__part *part,
                                 bool pieces)
{
    struct relations relations = {0};
    if (sweep->tangled && relate(sweep, part, pieces, &relations))
        return PLACE_FAILED;
    if (relations.inside)
        return PLACE_REPEATED;
    if (relations.overlap || (relations.around && sweep->answered))
        return PLACE_REFUSED;
    if (relations.around && remove_inside(sweep, part))
        return PLACE_FAILED;
    return cop__sweep_push_part(sweep, part) ? PLACE_FAILED : PLACE_KEPT;
}
