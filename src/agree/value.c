/* SPDX-License-Identifier: Apache-2.0 */
#include "agree/state.h"

#include <stdlib.h>
#include <string.h>

/*
 * Operations. Each is associative and commutative, so that it does not matter who combined
 * what. Values that do not fit together are an error that everyone returns: it becomes the
 * status of the share, and stays it.
 */
#define WORD 8u

static const char *const names[COP_ALGORITHMS] = {
    [COP_AGREE_EARLY] = "early",         [COP_AGREE_STRICT] = "strict",
    [COP_AGREE_TREE] = "tree",           [COP_AGREE_LINEAR] = "linear",
    [COP_AGREE_ALLREDUCE] = "allreduce",
};

const char *cop_algorithm_name(enum cop_algorithm algorithm)
{
    return (unsigned)algorithm < COP_ALGORITHMS ? names[algorithm] : NULL;
}

int cop_algorithm_parse(const char *text, enum cop_algorithm *out)
{
    for (int i = 0; i < COP_ALGORITHMS; i++) {
        if (strcmp(text, names[i]) == 0) {
            *out = (enum cop_algorithm)i;
            return 0;
        }
    }
    return COP_ENOENT;
}

void cop__share_free(struct cop__share *share)
{
    cop_buf_unref(share->value);
    share->value = NULL;
}

bool cop__op_is_possible(const struct cop_node *node, uint32_t op, uint32_t type,
                         uint32_t length)
{
    if (type > COP_VALUE_BYTES || length > COP_VALUE_MAX)
        return false;
    if (op >= COP_AGREE_USER)
        return op - COP_AGREE_USER < node->settings->operation_count;
    if (op == COP__AGREE_CLOSE)
        return length == 0;
    return op <= COP_AGREE_MAX && (type == COP_VALUE_BYTES || length % WORD == 0);
}

/* ---- two values into one --------------------------------------------------------- */

static uint64_t combine_words(uint32_t op, uint64_t a, uint64_t b)
{
    switch (op) {
    case COP_AGREE_AND:
        return a & b;
    case COP_AGREE_OR:
        return a | b;
    case COP_AGREE_SUM:
        return a + b;
    case COP_AGREE_MIN:
        return a < b ? a : b;
    default:
        return a > b ? a : b;
    }
}

static void put_words(uint32_t op, uint8_t *into, const uint8_t *with, uint32_t length)
{
    for (uint32_t at = 0; at < length; at += WORD) {
        struct cop__reader a = cop__reader(into + at, WORD);
        struct cop__reader b = cop__reader(with + at, WORD);
        uint64_t left = cop__get_u64(&a);
        struct cop__writer out = cop__writer(into + at, WORD);
        cop__put_u64(&out, combine_words(op, left, cop__get_u64(&b)));
    }
}

static void put_bytes(uint32_t op, uint8_t *into, const uint8_t *with, uint32_t length)
{
    for (uint32_t i = 0; i < length; i++)
        into[i] = (uint8_t)combine_words(op, into[i], with[i]);
}

static bool comes_before(const struct cop_buf *a, const struct cop_buf *b)
{
    uint32_t common = a->length < b->length ? a->length : b->length;
    int order = common ? memcmp(a->data, b->data, common) : 0;
    return order < 0 || (order == 0 && a->length < b->length);
}

/* MIN and MAX of strings: one of the two. */
static void choose(struct cop__share *share, const struct cop__share *with)
{
    bool take = share->op == COP_AGREE_MIN ? comes_before(with->value, share->value)
                                           : comes_before(share->value, with->value);
    if (!take)
        return;
    struct cop_buf *old = share->value;
    share->value = cop_buf_ref(with->value);
    cop_buf_unref(old);
}

static int call_user(const struct cop_node *node, struct cop__share *share,
                     const struct cop__share *with)
{
    const struct cop_operation *operation =
        &node->settings->operations[share->op - COP_AGREE_USER];
    uint32_t room = share->value->length + with->value->length;
    uint32_t length = 0;
    struct cop_buf *out = cop_buf_create(room);
    if (!out)
        return COP_ENOMEM;
    int error =
        operation->combine(share->value->data, share->value->length, with->value->data,
                           with->value->length, out->data, &length);
    if (!error && (length > room || length > COP_VALUE_MAX))
        error = COP_ETOOBIG;
    if (error)
        length = 0;
    share->status = error;
    struct cop_buf *exact = cop_buf_copy(out->data, length);
    cop_buf_unref(out);
    if (!exact)
        return COP_ENOMEM;
    cop_buf_unref(share->value);
    share->value = exact;
    return 0;
}

static int combine(const struct cop_node *node, struct cop__share *share,
                   const struct cop__share *with)
{
    if (share->op >= COP_AGREE_USER)
        return call_user(node, share, with);
    if (share->type == COP_VALUE_BYTES && share->op >= COP_AGREE_MIN) {
        choose(share, with);
        return 0;
    }
    if (share->value->length != with->value->length) {
        share->status = COP_EINVAL;
        return 0;
    }
    if (share->value->refs > 1) {
        struct cop_buf *own = cop_buf_copy(share->value->data, share->value->length);
        if (!own)
            return COP_ENOMEM;
        cop_buf_unref(share->value);
        share->value = own;
    }
    if (share->type == COP_VALUE_WORDS)
        put_words(share->op, share->value->data, with->value->data,
                  share->value->length);
    else
        put_bytes(share->op, share->value->data, with->value->data,
                  share->value->length);
    return 0;
}

int cop__share_add(const struct cop_node *node, struct cop__share *share,
                   const struct cop__share *with)
{
    if (share->status)
        return 0;
    if (with->status)
        share->status = with->status;
    else if (with->op != share->op || with->type != share->type)
        share->status = COP_EINVAL;
    else
        return combine(node, share, with);
    return 0;
}
