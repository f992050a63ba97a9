/* SPDX-License-Identifier: Apache-2.0 */
/* Filters of programs, up and down, and those that are wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "stream_world.h"

#include <coppice/filter.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- filters of the program ------------------------------------------------------ */

static struct cop_filter mine;
static const struct cop_filter *const filters[] = {&mine};

static void filters_of_the_program(void **state)
{
    struct cop_run *run;
    char why[200];
    struct taker *taker = &takers[0];
    (void)state;
    memset(givers, 0, sizeof givers);
    memset(takers, 0, sizeof takers);
    mine = *cop_filter_find("sum");
    mine.name = "mine";
    streams_world = runs_create();
    struct cop_settings settings = runs_settings(streams_world, 0, 1);
    settings.on_stream = streams_on_stream;
    settings.filter_count = 1;
    assert_int_equal(cop_start(&settings, &run, why, sizeof why), COP_EINVAL);
    assert_non_null(strstr(why, "filters[0]"));
    settings.filters = filters;
    mine.name = "sum";
    assert_int_equal(cop_start(&settings, &run, why, sizeof why), COP_EINVAL);
    mine.name = "mine";
    givers[0].most = WAVES;
    runs_start(streams_world, 0, &settings);
    run = streams_world->players[0].run;
    while (cop_state(run) != COP_RUN_MEMBER)
        cop_poll(run, -1);
    struct cop_stream_options options = streams_sums;
    options.filter = "mine";
    streams_open(streams_world, 0, &options, taker);
    runs_until(streams_world, streams_all_are_in);
    assert_int_equal(taker->sum, 1000 * WAVES + WAVES * (WAVES + 1) / 2);
    runs_destroy(streams_world);
}

/* Each its letter of three words, by way of the desk of a root that is then another one. */
static void a_filter_down(void **state)
{
    struct runs *runs = *state;
    struct cop_run *run = runs->players[3].run;
    struct cop_stream_options options = streams_sums;
    char name[] = "scatter";
    options.down = name;
    streams_open(runs, 3, &options, &takers[0]);
    name[0] = '-'; /* it was copied */
    assert_int_equal(cop_stream_multicast(run, takers[0].stream, "abcde", 5), 0);
    runs_until(runs, streams_half_is_in);
    runs_free(runs, 0);
    assert_int_equal(cop_stream_multicast(run, takers[0].stream, "fghij", 5), 0);
    assert_int_equal(cop_stream_multicast(run, takers[0].stream, "klmno", 5), 0);
    runs_until(runs, streams_all_are_in);
    runs_until(runs, streams_have_reached);
    static const char *const letters[] = {"bgl", "chm", "din", "ejo"};
    for (uint32_t i = 1; i < MEMBERS; i++)
        assert_string_equal(givers[i].down, letters[i - 1]);
}

/* ---- a filter down that is wrong ------------------------------------------------- */

static char logged[200]; /* the first */
static unsigned lines;

static void on_log(void *context, enum cop_log_level level, const char *line)
{
    (void)context, (void)level;
    if (strstr(line, "filter") != NULL && lines++ == 0)
        snprintf(logged, sizeof logged, "%s", line);
}

static int be_short(struct cop_span ready, const struct cop_place *place,
                    const struct cop_packet *packet, struct cop_filter_out *out)
{
    (void)ready, (void)place, (void)packet, (void)out;
    return COP_ENOMEM;
}

static int be_wrong(struct cop_span ready, const struct cop_place *place,
                    const struct cop_packet *packet, struct cop_filter_out *out)
{
    (void)ready, (void)place;
    return cop_filter_put(out, packet->data.bytes, 7);
}

static bool has_come(struct runs *runs)
{
    (void)runs;
    return takers[0].reached == 4;
}

/* It is named, once and not for each packet, the back-end hears of it, and the stream goes on, and
 * the node. */
static void it_fails(int (*down)(struct cop_span, const struct cop_place *,
                                 const struct cop_packet *, struct cop_filter_out *),
                     int status)
{
    uint64_t value = 7;
    lines = 0;
    memset(givers, 0, sizeof givers);
    memset(takers, 0, sizeof takers);
    mine = (struct cop_filter){.abi = COP_FILTER_ABI,
                               .flags = COP_FILTER_DOWN,
                               .name = "mine",
                               .about = "fails",
                               .state = "mine/1",
                               .inputs = "u64",
                               .init = cop_filter_find("path")->init,
                               .down = down};
    streams_world = runs_create();
    struct cop_settings settings = runs_settings(streams_world, 0, 1);
    settings.on_stream = streams_on_stream;
    settings.on_log = on_log;
    settings.log_level = COP_LOG_WARN;
    settings.filter_count = 1;
    settings.filters = filters;
    givers[0].most = WAVES;
    runs_start(streams_world, 0, &settings);
    struct cop_run *run = streams_world->players[0].run;
    while (cop_state(run) != COP_RUN_MEMBER)
        cop_poll(run, -1);
    struct cop_stream_options options = streams_sums;
    options.down = "mine";
    assert_int_equal(cop_stream_open(run, &options, NULL, NULL, NULL), COP_EINVAL);
    options.down_type = "u64";
    streams_open(streams_world, 0, &options, &takers[0]);
    assert_int_equal(cop_stream_multicast(run, takers[0].stream, &value, 7),
                     COP_EINVAL);
    for (int i = 0; i < 4; i++)
        assert_int_equal(cop_stream_multicast(run, takers[0].stream, &value, 8), 0);
    runs_until(streams_world, streams_all_are_in);
    runs_until(streams_world, has_come);
    assert_int_equal(givers[0].down_why, status);
    assert_string_equal(givers[0].down, "");
    assert_non_null(strstr(logged, "the filter mine failed on packet 1"));
    assert_non_null(strstr(logged, cop_strerror(status)));
    assert_int_equal(lines, 1);
    /* Of another stream there is one more. */
    uint64_t first = takers[0].stream;
    takers[0] = (struct taker){0};
    givers[0] = (struct giver){.most = WAVES};
    streams_open(streams_world, 0, &options, &takers[0]);
    assert_true(takers[0].stream != first);
    for (int i = 0; i < 4; i++)
        assert_int_equal(cop_stream_multicast(run, takers[0].stream, &value, 8), 0);
    runs_until(streams_world, has_come);
    assert_int_equal(lines, 2);
    assert_int_equal(cop_state(run), COP_RUN_MEMBER);
    runs_destroy(streams_world);
}

static void a_filter_down_fails(void **state)
{
    (void)state;
    it_fails(be_wrong, COP_EBUG);
}

static void a_filter_down_has_no_memory(void **state)
{
    (void)state;
    it_fails(be_short, COP_ENOMEM);
}

/* ---- filters up that are wrong --------------------------------------------------- */

static struct cop_filter tables[MEMBERS]; /* each its own, under one name */
static const struct cop_filter *lists[MEMBERS];
static bool is_short;

static int join_or_fail(struct cop_span a, struct cop_span b,
                        struct cop_filter_out *out)
{
    return is_short ? COP_ENOMEM : cop_filter_find("sum")->join(a, b, out);
}

static int lift_or_fail(struct cop_span empty, const struct cop_packet *packet,
                        struct cop_filter_out *out)
{
    return is_short ? COP_ENOMEM : cop_filter_find("sum")->lift(empty, packet, out);
}

static int set_up_filters(void **state)
{
    memset(givers, 0, sizeof givers);
    memset(takers, 0, sizeof takers);
    streams_are_single = is_short = false;
    lines = 0;
    streams_world = runs_create();
    for (uint32_t i = 0; i < MEMBERS; i++) {
        struct cop_settings settings = runs_settings(streams_world, i, MEMBERS);
        tables[i] = *cop_filter_find("sum");
        tables[i].name = "mine";
        lists[i] = &tables[i];
        settings.filters = &lists[i];
        settings.filter_count = 1;
        settings.on_stream = streams_on_stream;
        settings.on_log = on_log;
        settings.log_level = COP_LOG_WARN;
        settings.detector = "connection";
        givers[i].most = WAVES / 2;
        runs_start(streams_world, i, &settings);
    }
    runs_until(streams_world, streams_all_are_members);
    *state = streams_world;
    return 0;
}

/* All are members as before, and another stream of the same front-end goes on. */
static void only_the_stream_has_ended(struct runs *runs, uint32_t front)
{
    assert_non_null(strstr(logged, "the filter mine failed"));
    assert_int_equal(lines, 1);
    assert_true(streams_all_are_members(runs));
    streams_run_another(runs, front);
    assert_int_equal(takers[0].sum, streams_sum(0, WAVES));
}

/* T22: at one member, with others below and above it. All hear why, and that one names it. */
static void a_filter_up_has_no_memory(void **state)
{
    struct runs *runs = *state;
    struct cop_stream_options options = streams_sums;
    options.filter = "mine";
    tables[1].join = join_or_fail;
    streams_open(runs, 3, &options, &takers[0]);
    runs_until(runs, streams_half_is_in);
    is_short = true;
    streams_give_all(runs, WAVES);
    runs_until(runs, streams_is_refused);
    assert_int_equal(takers[0].why, COP_ENOMEM);
    runs_until(runs, streams_all_are_closed);
    for (uint32_t i = 0; i < MEMBERS; i++)
        assert_int_equal(givers[i].why, COP_ENOMEM);
    assert_non_null(strstr(logged, cop_strerror(COP_ENOMEM)));
    only_the_stream_has_ended(runs, 3);
}

static bool nothing_is_in(struct runs *runs)
{
    (void)runs;
    return takers[0].complete && takers[0].wave == 0;
}

/* Only in what the front-end makes of outputs, for its member has nobody below it, and joins nothing
 * to a first packet: it ends, and nobody is kept waiting for it. */
static void the_filter_of_a_front_end_fails(void **state)
{
    struct runs *runs = *state;
    struct cop_stream_options options = streams_sums;
    options.filter = "mine";
    tables[4].join = join_or_fail;
    for (uint32_t i = 0; i < MEMBERS; i++)
        givers[i].most = 0;
    streams_open(runs, 4, &options, &takers[0]);
    runs_until(runs, nothing_is_in);
    is_short = true;
    streams_give_all(runs, 1);
    runs_until(runs, streams_is_refused);
    assert_int_equal(takers[0].why, COP_ENOMEM);
    runs_until(runs, streams_all_are_closed);
    assert_int_equal(takers[0].closed, 1);
    for (uint32_t i = 0; i < MEMBERS; i++)
        assert_int_equal(givers[i].why, 0);
    only_the_stream_has_ended(runs, 4);
}

/* A packet on which it fails is not taken, and that is all. */
static void the_filter_fails_on_a_packet(void **state)
{
    struct runs *runs = *state;
    struct cop_run *run = runs->players[2].run;
    struct cop_stream_options options = streams_sums;
    uint64_t value = 7;
    options.filter = "mine";
    tables[2].lift = lift_or_fail;
    streams_open(runs, 3, &options, &takers[0]);
    runs_until(runs, streams_half_is_in);
    is_short = true;
    for (int i = 0; i < 3; i++)
        assert_int_equal(cop_stream_send(run, takers[0].stream, &value, 8), COP_EBUG);
    assert_non_null(strstr(logged, "the filter mine failed on packet 11:"));
    assert_int_equal(lines, 1);
    is_short = false;
    streams_give_all(runs, WAVES);
    runs_until(runs, streams_all_are_in);
    assert_int_equal(takers[0].sum, streams_sum(0, WAVES));
    assert_int_equal(lines, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(filters_of_the_program),
        cmocka_unit_test(a_filter_down_fails),
        cmocka_unit_test(a_filter_down_has_no_memory),
        cmocka_unit_test_setup_teardown(a_filter_down, streams_set_up,
                                        streams_tear_down),
        cmocka_unit_test_setup_teardown(a_filter_up_has_no_memory, set_up_filters,
                                        streams_tear_down),
        cmocka_unit_test_setup_teardown(the_filter_of_a_front_end_fails, set_up_filters,
                                        streams_tear_down),
        cmocka_unit_test_setup_teardown(the_filter_fails_on_a_packet, set_up_filters,
                                        streams_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
