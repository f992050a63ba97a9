/* SPDX-License-Identifier: Apache-2.0 */
/* Agreements of programs: the part of coppice/agree.h for runs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "run_world.h"

#include <coppice/agree.h>
#include <string.h>

#define MEMBERS 3u
#define GROUP 5u

/* How calls ended, by member and call. */
struct end {
    unsigned count;
    int status;
    bool has_result;
    uint64_t word;
    uint32_t failed;
};
static struct end ends[MEMBERS][8];

static void note(void *context, int status, const struct cop_agreed *agreed)
{
    struct end *end = context;
    end->count++;
    end->status = status;
    end->has_result = agreed != NULL;
    end->word = agreed ? cop_agreed_word(agreed, 0) : 0;
    end->failed = agreed ? agreed->failed.count : 0;
}

static bool all_are_members(struct runs *runs)
{
    for (uint32_t i = 0; i < MEMBERS; i++)
        if (cop_state(runs->players[i].run) != COP_RUN_MEMBER)
            return false;
    return true;
}

static uint32_t wanted; /* calls whose end is waited for, of all who live */
static bool have_ended(struct runs *runs)
{
    for (uint32_t i = 0; i < MEMBERS; i++)
        if (runs->players[i].run != NULL && ends[i][wanted].count == 0)
            return false;
    return true;
}

static bool first_has_ended(struct runs *runs)
{
    (void)runs;
    return ends[0][0].count > 0;
}

static int set_up(void **state)
{
    memset(ends, 0, sizeof ends);
    *state = runs_create();
    runs_start_all(*state, MEMBERS);
    runs_until(*state, all_are_members);
    return 0;
}

static int tear_down(void **state)
{
    runs_destroy(*state);
    return 0;
}

static void make_groups(struct runs *runs, const struct cop_agree_group *group)
{
    for (uint32_t i = 0; i < MEMBERS; i++) {
        struct cop_run *run = runs->players[i].run;
        struct cop_view *view = cop_view_current(run);
        assert_int_equal(cop_agree_group_create(run, view, group), 0);
        assert_int_equal(cop_agree_group_create(run, view, group), COP_EEXIST);
        cop_view_unref(view);
    }
}

static int call(struct runs *runs, uint32_t i, uint32_t number, uint64_t value,
                uint64_t *ticket)
{
    struct cop_agree_call what = {
        .group = GROUP, .op = COP_AGREE_SUM, .value = &value, .length = sizeof value};
    return cop_iagree(runs->players[i].run, &what, note, &ends[i][number], ticket);
}

static void several_are_in_flight(void **state)
{
    struct runs *runs = *state;
    make_groups(runs, &(struct cop_agree_group){.number = GROUP, .window = 2});
    for (uint32_t i = 0; i < MEMBERS; i++) {
        assert_int_equal(call(runs, i, 0, 1, NULL), 0);
        assert_int_equal(call(runs, i, 1, 10, NULL), 0);
        assert_int_equal(call(runs, i, 2, 1, NULL), COP_EAGAIN);
        assert_int_equal(ends[i][0].count, 0); /* not before the call has returned */
    }
    wanted = 1;
    runs_until(runs, have_ended);
    for (uint32_t i = 0; i < MEMBERS; i++) {
        assert_int_equal(ends[i][0].word, MEMBERS);
        assert_int_equal(ends[i][1].word, 10 * MEMBERS);
    }
}

static void who_waits_no_longer_is_counted(void **state)
{
    struct runs *runs = *state;
    uint64_t ticket = 0;
    make_groups(runs, &(struct cop_agree_group){.number = GROUP});
    assert_int_equal(call(runs, 0, 0, 5, &ticket), 0);
    assert_int_not_equal(ticket, 0);
    assert_int_equal(cop_agree_cancel(runs->players[0].run, ticket), 0);
    runs_until(runs, first_has_ended);
    assert_int_equal(ends[0][0].status, COP_EABORTED);
    assert_false(ends[0][0].has_result);
    assert_int_equal(cop_agree_cancel(runs->players[0].run, ticket), COP_ENOENT);
    assert_int_equal(call(runs, 1, 0, 5, NULL), 0);
    assert_int_equal(call(runs, 2, 0, 5, NULL), 0);
    wanted = 0;
    runs_until(runs, have_ended);
    assert_int_equal(ends[1][0].word, 15);
    assert_int_equal(ends[2][0].word, 15);
}

static void failures_are_agreed_upon(void **state)
{
    struct runs *runs = *state;
    make_groups(runs, &(struct cop_agree_group){.number = GROUP});
    runs_free(runs, 0);
    for (uint32_t i = 1; i < MEMBERS; i++)
        assert_int_equal(
            cop_validate(runs->players[i].run, GROUP, 0, note, &ends[i][0], NULL), 0);
    wanted = 0;
    runs_until(runs, have_ended);
    for (uint32_t i = 1; i < MEMBERS; i++) {
        struct cop_view *view = cop_view_current(runs->players[i].run);
        assert_int_equal(ends[i][0].status, 0);
        assert_int_equal(ends[i][0].failed, 1);
        assert_int_equal(cop_view_size(view), MEMBERS - 1);
        cop_view_unref(view);
    }
}

static void what_cannot_be(void **state)
{
    struct runs *runs = *state;
    struct cop_run *run = runs->players[0].run;
    struct cop_agree_call what = {.group = GROUP, .length = 8};
    struct cop_agreed agreed;
    assert_int_equal(cop_agree_group_create(NULL, NULL, NULL), COP_EINVAL);
    assert_int_equal(
        cop_agree_group_create(run, NULL, &(struct cop_agree_group){.number = GROUP}),
        COP_EINVAL);
    assert_int_equal(cop_agree_group_free(run, GROUP), COP_EINVAL);
    assert_int_equal(cop_iagree(run, &what, NULL, NULL, NULL), COP_EINVAL);
    assert_int_equal(call(runs, 0, 0, 1, NULL), COP_EINVAL); /* no such group */
    what.value = &agreed;
    what.length = COP_VALUE_MAX + 1;
    assert_int_equal(cop_iagree(run, &what, NULL, NULL, NULL), COP_ETOOBIG);
    /* On the loop's own thread nobody can wait. */
    assert_int_equal(cop_agree_wait(run, &what, &agreed), COP_ESTATE);
    assert_int_equal(cop_validate_wait(run, GROUP, 0, &agreed), COP_ESTATE);
    make_groups(runs, &(struct cop_agree_group){.number = GROUP});
    assert_int_equal(call(runs, 0, 0, 1, NULL), 0);
    assert_int_equal(cop_agree_group_free(run, GROUP), 0);
    assert_int_equal(call(runs, 0, 1, 1, NULL), COP_EINVAL);
    /* A run that ends completes what is under way. */
    runs_free(runs, 0);
    assert_int_equal(ends[0][0].count, 1);
    assert_int_equal(ends[0][0].status, COP_ESTATE);
    assert_false(ends[0][0].has_result);
}

static void a_thread_waits(void **state)
{
    struct runs *runs = runs_create();
    struct cop_settings settings = runs_settings(runs, 0, 1);
    struct cop_run *run;
    struct cop_view *view;
    struct cop_agreed agreed;
    uint64_t words[2] = {7, 9};
    struct cop_agree_call what = {
        .group = GROUP, .op = COP_AGREE_MAX, .value = words, .length = sizeof words};
    (void)state;
    assert_int_equal(cop_start_thread(&settings, &run, NULL, 0), 0);
    assert_int_equal(cop_view_wait(run, 0, 60 * COP_SEC, &view), 0);
    assert_int_equal(
        cop_agree_group_create(run, view, &(struct cop_agree_group){.number = GROUP}),
        0);
    cop_view_unref(view);
    assert_int_equal(cop_agree_wait(run, &what, &agreed), 0);
    assert_int_equal(agreed.number, 1);
    assert_int_equal(cop_agreed_word(&agreed, 1), 9);
    cop_agreed_free(&agreed);
    assert_int_equal(cop_validate_wait(run, GROUP, COP_SEC, &agreed), 0);
    assert_null(agreed.value);
    cop_agreed_free(&agreed);
    assert_int_equal(cop_agree_group_free(run, GROUP), 0);
    assert_int_equal(cop_agree_wait(run, &what, &agreed), COP_EINVAL);
    cop_free(run);
    runs_destroy(runs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(several_are_in_flight, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_waits_no_longer_is_counted, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(failures_are_agreed_upon, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_cannot_be, set_up, tear_down),
        cmocka_unit_test(a_thread_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
