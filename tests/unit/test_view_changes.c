/* SPDX-License-Identifier: Apache-2.0 */
#include "failing_alloc.h"

#include "base/random.h"
#include "view/view.h"

#include <coppice/error.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
/* cmocka wants these first */
#include <cmocka.h>

/*
 * A view is made out of the one before and shares with it what did not change. Beside it goes
 * a plain list of everybody, which shares nothing: both have to say the same.
 */
#define N 12u
#define IDS 20u
#define STEPS 400

struct model {
    struct cop__entry entries[IDS];
    char names[IDS][8]; /* "": by the rule of the start */
    bool known[IDS];
};

static void start(struct model *model, struct cop_view **out)
{
    struct cop_shape shape;
    assert_int_equal(cop_shape_make(COP_SHAPE_KARY, 4, &shape), 0);
    assert_int_equal(cop_view_create_static(N, &shape, 1, out), 0);
    memset(model, 0, sizeof *model);
    for (cop_id id = 0; id < N; id++) {
        model->entries[id] =
            (struct cop__entry){.id = id, .role = id, .incarnation = 1, .since = 1};
        model->known[id] = true;
    }
}

static void change_one(struct model *model, struct cop__random *random, cop_epoch epoch,
                       struct cop__delta *delta)
{
    cop_id id = (cop_id)cop__random_below(random, IDS);
    struct cop__entry *entry = &model->entries[id];
    entry->id = entry->role = id;
    entry->presence = (uint8_t)cop__random_below(random, 3);
    entry->incarnation += 1 + cop__random_below(random, 2);
    entry->flags = entry->presence == COP_PRESENT && cop__random_below(random, 4) == 0
                       ? COP__ENTRY_DRAINED
                       : 0;
    entry->since = epoch;
    model->known[id] = true;
    model->names[id][0] = '\0';
    if (cop__random_below(random, 3) > 0)
        snprintf(model->names[id], sizeof model->names[id], "m%u",
                 (unsigned)cop__random_below(random, 1000));
    struct cop__entry put = *entry;
    size_t length = strlen(model->names[id]);
    put.card = length > 0 ? cop__card(model->names[id], length, "", 0) : NULL;
    assert_int_equal(cop__delta_put(delta, &put), 0);
}

static bool is_present(const struct model *model, cop_id id)
{
    return model->known[id] && model->entries[id].presence == COP_PRESENT;
}

static void check_members(const struct model *model, const struct cop_view *view)
{
    uint32_t size = 0, drained = 0, listed;
    for (cop_id id = 0; id < IDS; id++) {
        struct cop_member member;
        const struct cop__entry *entry = &model->entries[id];
        int found = cop_view_member(view, id, &member);
        assert_int_equal(found == 0, model->known[id]);
        if (found != 0)
            continue;
        size += is_present(model, id);
        drained += is_present(model, id) && entry->flags == COP__ENTRY_DRAINED;
        assert_true(member.incarnation == entry->incarnation);
        assert_int_equal(member.presence, entry->presence);
        assert_int_equal(member.name_length, strlen(model->names[id]));
        assert_memory_equal(member.name, model->names[id], member.name_length);
    }
    cop__view_drained(view, &listed);
    assert_int_equal(cop_view_size(view), size);
    assert_int_equal(listed, drained);
}

/* Everything that is kept as a sum is the same for one who reads all of it at once. */
static void check_sums(const struct cop_view *view)
{
    struct cop_buf *bytes = cop__view_encode(view);
    struct cop_view *whole;
    assert_non_null(bytes);
    assert_int_equal(
        cop__view_decode((struct cop__bytes){bytes->data, bytes->length}, view, &whole),
        0);
    assert_true(cop_view_digest(whole) == cop_view_digest(view));
    assert_int_equal(cop_view_size(whole), cop_view_size(view));
    assert_int_equal(cop_view_slots(whole), cop_view_slots(view));
    assert_int_equal(cop_view_root(whole), cop_view_root(view));
    cop_view_unref(whole);
    cop_buf_unref(bytes);
}

static void check_difference(const struct cop_view *old, const struct cop_view *view)
{
    struct cop__delta delta;
    struct cop_view *again;
    struct cop_ballot ballot = cop_view_ballot(view);
    assert_int_equal(cop__view_difference(old, view, &delta), 0);
    assert_int_equal(cop__view_derive(old, &ballot, &delta, &again), 0);
    assert_true(cop_view_digest(again) == cop_view_digest(view));
    cop__delta_free(&delta);
    cop_view_unref(again);
}

static enum cop_view_change_kind kind_of(const struct model *was,
                                         const struct model *is, cop_id id)
{
    const struct cop__entry *a = &was->entries[id], *b = &is->entries[id];
    if (!is_present(was, id))
        return COP_VIEW_JOINED;
    if (!is_present(is, id))
        return COP_VIEW_LEFT;
    if (a->incarnation != b->incarnation)
        return COP_VIEW_RETURNED;
    return b->flags ? COP_VIEW_DRAINED : COP_VIEW_UNDRAINED;
}

/* What became of each, and how many are still there. */
static void check_changes(const struct model *was, const struct model *is,
                          const struct cop_view *old, const struct cop_view *view)
{
    uint64_t at = 0;
    uint32_t common = 0;
    struct cop_view_change change;
    for (cop_id id = 0; id < IDS; id++) {
        const struct cop__entry *a = &was->entries[id], *b = &is->entries[id];
        bool here = is_present(was, id),
             stays = here && is_present(is, id) && a->incarnation == b->incarnation;
        common += stays;
        if ((!here && !is_present(is, id)) || (stays && a->flags == b->flags))
            continue;
        assert_true(cop_view_compare(old, view, &at, &change));
        assert_int_equal(change.id, id);
        assert_int_equal(change.kind, kind_of(was, is, id));
    }
    assert_false(cop_view_compare(old, view, &at, &change));
    assert_int_equal(cop__view_common(old, view), common);
}

static void test_one_after_the_other(void **state)
{
    (void)state;
    size_t live = failing_alloc_live();
    struct cop__random random;
    struct model was, is;
    struct cop_view *old, *view;
    cop__random_init(&random, 7);
    start(&was, &old);
    for (cop_epoch epoch = 2; epoch < STEPS; epoch++) {
        struct cop_ballot ballot = {epoch, 0, 1};
        struct cop__delta delta = {0};
        is = was;
        for (uint64_t i = 1 + cop__random_below(&random, 3); i > 0; i--)
            change_one(&is, &random, epoch, &delta);
        assert_int_equal(cop__view_derive(old, &ballot, &delta, &view), 0);
        cop__delta_free(&delta);
        check_changes(&was, &is, old, view);
        check_difference(old, view);
        cop_view_unref(old);
        check_members(&is, view);
        check_sums(view);
        old = view;
        was = is;
    }
    cop_view_unref(old);
    assert_int_equal(failing_alloc_live(), live);
}

/* A view with a name and somebody who is drained, so that there is something to share. */
static int derive_two(const struct cop_view *base, struct cop_view **out)
{
    struct cop_ballot ballot = {cop_view_epoch(base) + 1, 0, 1};
    struct cop__entry entries[] = {
        {.id = 2, .role = 2, .incarnation = 5, .since = ballot.epoch},
        {.id = 3,
         .role = 3,
         .incarnation = 1,
         .since = ballot.epoch,
         .flags = COP__ENTRY_DRAINED},
    };
    struct cop__delta delta = {entries, 2, 2};
    entries[0].card = cop__card("anna", 4, "tcp:here", 8);
    if (!entries[0].card)
        return COP_ENOMEM;
    int error = cop__view_derive(base, &ballot, &delta, out);
    cop_buf_unref(entries[0].card);
    return error;
}

static void test_copy_lives_alone(void **state)
{
    (void)state;
    size_t live = failing_alloc_live();
    struct model model;
    struct cop_view *base, *view, *copy;
    uint32_t count;
    start(&model, &base);
    assert_int_equal(derive_two(base, &view), 0);
    assert_int_equal(cop__view_copy(view, &copy), 0);
    cop_view_unref(view);
    cop_view_unref(base);
    assert_int_equal(cop_view_find(copy, "anna", 4), 2);
    const cop_id *drained = cop__view_drained(copy, &count);
    assert_int_equal(count, 1);
    assert_int_equal(drained[0], 3);
    cop_view_unref(copy);
    assert_int_equal(failing_alloc_live(), live);
}

static void test_out_of_memory(void **state)
{
    (void)state;
    size_t live = failing_alloc_live();
    struct model model;
    struct cop_view *base;
    bool hit = true;
    start(&model, &base);
    for (size_t n = 0; hit; n++) {
        struct cop_view *view = NULL, *next = NULL, *copy = NULL;
        failing_alloc_after(n);
        int error = derive_two(base, &view);
        if (!error)
            error = derive_two(view, &next);
        if (!error)
            error = cop__view_copy(next, &copy);
        failing_alloc_off();
        hit = failing_alloc_hit();
        assert_int_equal(error, hit ? COP_ENOMEM : 0);
        cop_view_unref(copy);
        cop_view_unref(next);
        cop_view_unref(view);
    }
    cop_view_unref(base);
    assert_int_equal(failing_alloc_live(), live);
}

/* One that is derived from `base` with one who has this name, and is gone or not. */
static struct cop_view *with_one(const struct cop_view *base, const char *name,
                                 uint8_t presence)
{
    struct cop__delta delta = {0};
    struct cop__entry entry = {.id = N, .role = N, .incarnation = 5, .since = 2};
    struct cop_ballot ballot = {.epoch = 2, .root = 0, .incarnation = 1};
    struct cop_view *view;
    entry.presence = presence;
    entry.card = cop__card(name, strlen(name), "", 0);
    assert_int_equal(cop__delta_put(&delta, &entry), 0);
    assert_int_equal(cop__view_derive(base, &ballot, &delta, &view), 0);
    cop__delta_free(&delta);
    return view;
}

/* Only what is equal in everything is one. */
static void test_pool(void **state)
{
    (void)state;
    size_t live = failing_alloc_live();
    struct model model;
    struct cop_view *base;
    start(&model, &base);
    struct cop_view_pool *pool = cop_view_pool_create();
    assert_non_null(pool);
    struct cop_view *first = cop__view_share(pool, with_one(base, "a", COP_PRESENT));
    struct cop_view *other = cop__view_share(pool, with_one(base, "b", COP_PRESENT));
    struct cop_view *gone = cop__view_share(pool, with_one(base, "a", COP_LEFT));
    struct cop_view *again = cop__view_share(pool, with_one(base, "a", COP_PRESENT));
    assert_ptr_equal(first, again);
    assert_ptr_not_equal(first, other);
    assert_ptr_not_equal(first, gone);
    struct cop_view *alone = cop__view_share(NULL, with_one(base, "a", COP_PRESENT));
    assert_ptr_not_equal(first, alone);
    assert_true(cop__view_equal(first, alone));
    cop_view_unref(first);
    cop_view_unref(other);
    cop_view_unref(gone);
    cop_view_unref(alone);
    /* What the pool holds, and another has, lives longer than the pool. */
    cop_view_pool_free(pool);
    assert_int_equal(cop_view_size(again), N + 1);
    cop_view_unref(again);
    cop_view_unref(base);
    assert_int_equal(failing_alloc_live(), live);
}

/* A view as somebody would say it in which member N has this card. */
static int read_back(const char *name, size_t name_length, const char *address,
                     size_t address_length)
{
    struct model model;
    struct cop_view *first, *next, *again;
    struct cop__delta delta = {0};
    start(&model, &first);
    struct cop__entry entry = {.id = N, .role = N, .incarnation = 1, .since = 2};
    entry.card = cop__card(name, name_length, address, address_length);
    assert_non_null(entry.card);
    assert_int_equal(cop__delta_put(&delta, &entry), 0);
    struct cop_ballot ballot = {.epoch = 2, .incarnation = 1};
    assert_int_equal(cop__view_derive(first, &ballot, &delta, &next), 0);
    struct cop_buf *bytes = cop__view_encode(next);
    assert_non_null(bytes);
    int error = cop__view_decode((struct cop__bytes){bytes->data, bytes->length}, first,
                                 &again);
    if (error == 0)
        cop_view_unref(again);
    cop_buf_unref(bytes);
    cop__delta_free(&delta);
    cop_view_unref(next);
    cop_view_unref(first);
    return error;
}

/* Names and addresses that others tell of: nothing that a terminal acts on, nothing that ends
 * before its end. */
static void test_cards_for_terminals(void **state)
{
    static const char wrong[] = {'\0', '\n', '\r', '\t', 0x1b, 0x01, 0x1f, 0x7f};
    (void)state;
    assert_int_equal(read_back("x", 1, "tcp:10.0.0.1:7", 14), 0);
    assert_int_equal(read_back("x", 1, "", 0), 0);
    assert_int_equal(read_back("", 0, "unix:/tmp/\303\244", 12), 0);
    for (size_t i = 0; i < sizeof wrong; i++) {
        char name[] = "a name", address[] = "tcp:10.0.0.1:7";
        name[2] = wrong[i];
        assert_int_equal(read_back(name, 6, "", 0), COP_EMALFORMED);
        address[13] = wrong[i];
        assert_int_equal(read_back("x", 1, address, 14), COP_EMALFORMED);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_after_the_other),
        cmocka_unit_test(test_copy_lives_alone),
        cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_pool),
        cmocka_unit_test(test_cards_for_terminals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
