/* SPDX-License-Identifier: Apache-2.0 */
/* Streams of programs: the part of coppice/stream.h for runs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "run/parts.h"
#include "run_world.h"

#include <coppice/filter.h>
#include <coppice/stream.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MEMBERS 5u
#define WAVES 20u

/* What a back-end has done and was told. */
struct giver {
    uint64_t stream, given, most; /* packets; and how many it may give */
    uint64_t begins;              /* after this wave */
    unsigned opened, closed, turned_away;
    int why;
    char down[64]; /* the packets that came, behind one another */
    int down_why;  /* what was said with the last of them */
};
/* And a front-end. */
struct taker {
    uint64_t stream, wave, sum, reached;
    unsigned outputs, completes;
    uint32_t covered, departed;
    bool complete, went_back;
    unsigned closed;
    int why;
    cop_epoch closed_in; /* of the last view that the program had been told */
};
static struct giver givers[MEMBERS];
static struct taker takers[2];
static struct runs *world;
static bool is_single; /* each wave is by itself */

static uint64_t value_of(cop_id id, uint64_t wave) { return 1000 * (id + 1) + wave; }

static uint64_t sum_of(cop_id first, uint64_t waves)
{
    uint64_t sum = 0;
    for (cop_id id = first; id < MEMBERS; id++)
        for (uint64_t k = 1; k <= waves; k++)
            sum += value_of(id, k);
    return sum;
}

static void give(struct cop_run *run, struct giver *giver)
{
    while (giver->given < giver->most) {
        uint64_t value = 0, last = giver->given + 1;
        /* On a slow machine waves may have gone by without it. */
        if (last <= giver->begins)
            last = giver->begins + 1;
        for (uint64_t k = is_single ? last : giver->given + 1; k <= last; k++)
            value += value_of(cop_self(run), k);
        int error = cop_stream_send(run, giver->stream, &value, sizeof value);
        if (error == COP_EAGAIN)
            giver->turned_away++;
        else if (error != COP_ENOENT) /* it is over, and is about to be told */
            assert_int_equal(error, 0);
        if (error)
            return;
        giver->given = last;
    }
}

static void on_stream(void *context, struct cop_run *run, uint64_t stream,
                      const struct cop_stream_event *event)
{
    struct player *player = context;
    struct giver *giver = &givers[player - world->players];
    if (event->kind == COP_STREAM_OPENED) {
        /* Of what it gave to another one of this number (T1) this one has nothing. */
        struct cop_stream_info info;
        if (cop_stream_info(run, stream, &info) == 0 && info.key == event->key)
            assert_int_equal(info.given, event->wave);
        giver->given = 0;
        giver->down[0] = '\0';
        giver->opened++;
        giver->stream = stream;
        giver->begins = event->wave;
    } else if (event->kind == COP_STREAM_CLOSED) {
        giver->closed++;
        giver->why = event->status;
        return;
    } else if (event->kind == COP_STREAM_DOWN) {
        strncat(giver->down, event->length ? event->bytes : "", event->length);
        giver->down_why = event->status;
        return;
    }
    give(run, giver);
}

static void on_told(void *context, struct cop_run *run, uint64_t stream,
                    const struct cop_stream_event *event)
{
    struct taker *taker = context;
    struct cop_buf *result;
    if (event->kind == COP_STREAM_CLOSED) {
        taker->closed++;
        taker->why = event->status;
        taker->closed_in = world->players[cop_self(run)].epoch;
        return;
    }
    if (event->kind == COP_STREAM_REACHED) {
        taker->reached = event->wave;
        return;
    }
    assert_int_equal(event->kind, COP_STREAM_OUTPUT);
    assert_true(event->whole);
    assert_int_equal(cop_stream_result(run, stream, event, &result), 0);
    taker->sum = cop_filter_get_u64(result->data);
    cop_buf_unref(result);
    taker->went_back = taker->went_back || event->wave < taker->wave;
    taker->wave = event->wave;
    taker->complete = event->complete;
    taker->covered = event->covered;
    taker->departed = event->departed;
    taker->outputs++;
    taker->completes += event->complete;
    /* Complete is: each with exactly as many packets. */
    uint64_t before = is_single && event->wave > 0 ? sum_of(0, event->wave - 1) : 0;
    if (event->complete && event->covered == MEMBERS)
        assert_int_equal(taker->sum, sum_of(0, event->wave) - before);
}

static bool all_are_members(struct runs *runs)
{
    for (uint32_t i = 0; i < MEMBERS; i++)
        if (cop_state(runs->players[i].run) != COP_RUN_MEMBER)
            return false;
    return true;
}

static int set_up(void **state)
{
    memset(givers, 0, sizeof givers);
    is_single = false;
    memset(takers, 0, sizeof takers);
    world = runs_create();
    for (uint32_t i = 0; i < MEMBERS; i++) {
        struct cop_settings settings = runs_settings(world, i, MEMBERS);
        settings.on_stream = on_stream;
        givers[i].most = WAVES;
        runs_start(world, i, &settings);
    }
    runs_until(world, all_are_members);
    *state = world;
    return 0;
}

static int tear_down(void **state)
{
    runs_destroy(*state);
    return 0;
}

static bool all_are_in(struct runs *runs)
{
    (void)runs;
    return takers[0].wave == WAVES && takers[0].complete;
}

static bool half_is_in(struct runs *runs)
{
    (void)runs;
    return takers[0].wave >= WAVES / 2;
}

static bool has_reached(struct runs *runs)
{
    (void)runs;
    return takers[0].reached == 3;
}

static bool has_changed_hands(struct runs *runs)
{
    (void)runs;
    return takers[0].closed > 0 && takers[1].outputs > 0;
}

static bool is_refused(struct runs *runs)
{
    (void)runs;
    return takers[0].closed > 0;
}

static bool all_are_closed(struct runs *runs)
{
    for (uint32_t i = 0; i < MEMBERS; i++)
        if (runs->players[i].run != NULL && givers[i].closed == 0)
            return false;
    return true;
}

static const struct cop_stream_options sums = {
    .filter = "sum", .type = "u64", .window = 4};

static void open_at(struct runs *runs, uint32_t i,
                    const struct cop_stream_options *what, struct taker *taker)
{
    assert_int_equal(
        cop_stream_open(runs->players[i].run, what, on_told, taker, &taker->stream), 0);
    assert_int_equal(taker->outputs, 0); /* not before it has returned */
}

static void every_wave_is_exact(struct runs *runs, uint32_t front)
{
    struct cop_run *run = runs->players[front].run;
    struct taker *taker = &takers[0];
    open_at(runs, front, &sums, taker);
    assert_int_equal(cop_stream_multicast(run, taker->stream, "a", 1), 0);
    assert_int_equal(cop_stream_multicast(run, taker->stream, "bc", 2), 0);
    assert_int_equal(cop_stream_multicast(run, taker->stream, "d", 1), 0);
    runs_until(runs, all_are_in);
    runs_until(runs, has_reached);
    assert_int_equal(taker->sum, sum_of(0, WAVES));
    assert_int_equal(taker->covered, MEMBERS);
    assert_true(taker->completes >= WAVES);
    assert_false(taker->went_back);
    for (uint32_t i = 0; i < MEMBERS; i++) {
        assert_int_equal(givers[i].opened, 1);
        assert_int_equal(givers[i].stream, taker->stream);
        assert_true(givers[i].turned_away > 0); /* 20 waves, and 4 at a time */
        assert_string_equal(givers[i].down, "abcd");
    }
    assert_int_equal(cop_stream_close(run, taker->stream), 0);
    assert_int_equal(cop_stream_close(run, taker->stream), COP_ENOENT);
    runs_until(runs, all_are_closed);
    assert_int_equal(taker->closed, 0); /* it knows */
}

/* Whoever closes it at the root, for instance one that was on the other side of a split. */
static void it_is_closed_for(struct runs *runs, uint32_t front)
{
    open_at(runs, front, &sums, &takers[0]);
    runs_until(runs, half_is_in);
    struct cop_request request = {.kind = COP_REQUEST_STREAM_CLOSE,
                                  .group = takers[0].stream};
    assert_int_equal(cop__run_submit(runs->players[0].run, &request), 0);
    runs_until(runs, is_refused);
    runs_until(runs, all_are_closed);
    assert_int_equal(takers[0].closed, 1);
    assert_int_equal(takers[0].why, 0);
    assert_int_equal(cop_stream_close(runs->players[front].run, takers[0].stream),
                     COP_ENOENT);
}

static void it_is_closed_at_the_root(void **state) { it_is_closed_for(*state, 0); }

static void it_is_closed_for_one_elsewhere(void **state)
{
    it_is_closed_for(*state, 3);
}

static void the_front_end_is_at_the_root(void **state)
{
    every_wave_is_exact(*state, 0);
}

static void the_front_end_is_elsewhere(void **state) { every_wave_is_exact(*state, 3); }

/* Nothing of the waves before, nor of who is lost. */
static void waves_are_by_themselves(void **state)
{
    struct runs *runs = *state;
    struct cop_stream_options options = sums;
    options.flags = COP_STREAM_SINGLE;
    is_single = true;
    for (uint32_t i = 0; i < MEMBERS; i++)
        givers[i].most = WAVES / 2;
    open_at(runs, 3, &options, &takers[0]);
    runs_until(runs, half_is_in);
    runs_free(runs, 1);
    for (uint32_t i = 0; i < MEMBERS; i++) {
        givers[i].most = WAVES;
        if (i != 1)
            give(runs->players[i].run, &givers[i]);
    }
    runs_until(runs, all_are_in);
    assert_int_equal(takers[0].sum,
                     sum_of(0, WAVES) - sum_of(0, WAVES - 1) - value_of(1, WAVES));
    assert_int_equal(takers[0].departed, 0);
    /* A filter for single waves has no others. */
    options.filter = "concat";
    uint64_t stream;
    struct cop_run *run = runs->players[4].run;
    assert_int_equal(cop_stream_open(run, &options, NULL, NULL, &stream), 0);
    options.flags = 0;
    assert_int_equal(cop_stream_open(run, &options, NULL, NULL, &stream), COP_EINVAL);
}

static void the_root_dies(void **state)
{
    struct runs *runs = *state;
    struct cop_stream_options options = sums;
    options.flags = COP_STREAM_WITHDRAW;
    for (uint32_t i = 0; i < MEMBERS; i++)
        givers[i].most = WAVES / 2;
    open_at(runs, 3, &options, &takers[0]);
    assert_int_equal(
        cop_stream_multicast(runs->players[3].run, takers[0].stream, "x", 1), 0);
    runs_until(runs, half_is_in);
    runs_free(runs, 0);
    for (uint32_t i = 1; i < MEMBERS; i++) {
        givers[i].most = WAVES;
        give(runs->players[i].run, &givers[i]);
    }
    runs_until(runs, all_are_in);
    assert_int_equal(takers[0].sum, sum_of(1, WAVES));
    assert_int_equal(takers[0].covered, MEMBERS - 1);
    /* Packets go on where they were. */
    assert_int_equal(
        cop_stream_multicast(runs->players[3].run, takers[0].stream, "yz", 2), 0);
    assert_int_equal(
        cop_stream_multicast(runs->players[3].run, takers[0].stream, ".", 1), 0);
    runs_until(runs, has_reached);
    for (uint32_t i = 1; i < MEMBERS; i++)
        assert_string_equal(givers[i].down, "xyz.");
}

/* A stream that survives nothing: its front-end hears so with the view without `lost`, and so do
 * the back-ends. */
static void a_loss_ends_it(struct runs *runs, uint32_t front, uint32_t lost)
{
    struct cop_stream_options options = sums;
    options.flags = COP_STREAM_FRAGILE;
    for (uint32_t i = 0; i < MEMBERS; i++)
        givers[i].most = WAVES / 2;
    open_at(runs, front, &options, &takers[0]);
    runs_until(runs, half_is_in);
    assert_int_equal(takers[0].closed, 0);
    cop_epoch epoch = runs->players[front].epoch;
    runs_free(runs, lost);
    runs_until(runs, is_refused);
    assert_int_equal(takers[0].why, COP_ELOST);
    assert_true(takers[0].closed_in <= epoch + 1);
    runs_until(runs, all_are_closed);
    assert_int_equal(takers[0].closed, 1);
    assert_int_equal(cop_stream_close(runs->players[front].run, takers[0].stream),
                     COP_ENOENT);
    /* Another one goes on without who was lost. */
    memset(givers, 0, sizeof givers);
    takers[0] = (struct taker){0};
    for (uint32_t i = 0; i < MEMBERS; i++)
        givers[i].most = WAVES;
    open_at(runs, front, &sums, &takers[0]);
    runs_until(runs, all_are_in);
    assert_int_equal(takers[0].sum, sum_of(0, WAVES) - (sum_of(lost, WAVES) -
                                                        sum_of(lost + 1, WAVES)));
}

static void a_fragile_one_loses_a_leaf(void **state) { a_loss_ends_it(*state, 3, 4); }

static void a_fragile_one_loses_its_root(void **state) { a_loss_ends_it(*state, 3, 0); }

static void a_fragile_one_at_the_root(void **state) { a_loss_ends_it(*state, 0, 1); }

static void the_front_end_dies(void **state)
{
    struct runs *runs = *state;
    open_at(runs, 3, &sums, &takers[0]);
    runs_until(runs, half_is_in);
    runs_free(runs, 3);
    assert_int_equal(takers[0].closed, 1);
    assert_int_equal(takers[0].why, COP_ESTATE);
    runs_until(runs, all_are_closed);
}

static void another_one_goes_on(void **state)
{
    struct runs *runs = *state;
    struct cop_stream_options options = sums;
    options.number = 77;
    options.flags = COP_STREAM_KEEP | COP_STREAM_WITHDRAW;
    open_at(runs, 3, &options, &takers[1]);
    assert_int_equal(takers[1].stream, 77);
    runs_free(runs, 3);
    /* At one that was its member all the time, and with what was not taken. */
    open_at(runs, 4, &options, &takers[0]);
    runs_until(runs, all_are_in);
    assert_int_equal(takers[0].sum,
                     sum_of(0, WAVES) - (sum_of(3, WAVES) - sum_of(4, WAVES)));
    /* A third one takes it over. */
    const struct taker *former = &takers[0];
    takers[1] = (struct taker){0};
    open_at(runs, 0, &options, &takers[1]);
    runs_until(runs, has_changed_hands);
    assert_int_equal(former->why, COP_EEXIST);
    assert_int_equal(takers[1].sum, former->sum);
}

/* ---- two under one number (T1) --------------------------------------------------- */

#define TWICE 77u

/* Nobody is suspected who only sleeps, and neighbours are connected, and no others. */
static int set_up_chain(void **state)
{
    memset(givers, 0, sizeof givers);
    memset(takers, 0, sizeof takers);
    is_single = false;
    world = runs_create();
    for (uint32_t i = 0; i < MEMBERS; i++) {
        struct cop_settings settings = runs_settings(world, i, MEMBERS);
        settings.on_stream = on_stream;
        settings.detector = "connection";
        settings.shape = "chain";
        givers[i].most = WAVES;
        runs_start(world, i, &settings);
    }
    runs_until(world, all_are_members);
    *state = world;
    return 0;
}

static bool has_heard(struct runs *runs, uint32_t i)
{
    struct cop_stream_info info;
    return cop_stream_info(runs->players[i].run, TWICE, &info) == 0;
}

static bool three_has_heard(struct runs *runs) { return has_heard(runs, 3); }

static bool all_have_reached(struct runs *runs)
{
    return has_reached(runs) && all_are_in(runs);
}

/*
 * Of a stream that the root had opened only 3 has heard when the root dies, and the next one with
 * it. The front-end that takes it over has not, and neither has the root to which it then says its
 * own plan. 3 tells that root of the elder, which takes the place of what it had: the front-end is
 * moved there, with the packets that have not come to all.
 */
static void it_was_there_before(struct runs *runs, uint32_t front)
{
    struct cop_stats stats;
    struct cop_stream_options options = sums;
    options.number = TWICE;
    options.flags = COP_STREAM_KEEP | COP_STREAM_WITHDRAW;
    assert_int_equal(cop_shape_make(COP_SHAPE_FLAT, 0, &options.shape), 0);
    open_at(runs, 0, &options, &takers[1]);
    runs->players[1].is_asleep = true;
    runs->players[2].is_asleep = runs->players[4].is_asleep = true;
    runs_until(runs, three_has_heard);
    struct cop_run *run = runs->players[front].run;
    open_at(runs, front, &options, &takers[0]);
    assert_false(has_heard(runs, 2) || has_heard(runs, 4));
    assert_int_equal(cop_stream_multicast(run, TWICE, "a", 1), 0);
    assert_int_equal(cop_stream_multicast(run, TWICE, "bc", 2), 0);
    runs_free(runs, 0);
    runs_free(runs, 1);
    runs->players[2].is_asleep = runs->players[4].is_asleep = false;
    runs_until(runs, all_are_in);
    assert_int_equal(cop_stream_multicast(run, TWICE, "d", 1), 0);
    runs_until(runs, all_have_reached);
    assert_int_equal(takers[0].sum, sum_of(2, WAVES));
    assert_int_equal(takers[0].covered, 3);
    assert_int_equal(takers[0].closed, 0);
    for (uint32_t i = 2; i < MEMBERS; i++)
        assert_string_equal(givers[i].down, "abcd");
    assert_int_equal(givers[3].opened, 1);
    assert_int_equal(cop_counters(runs->players[2].run, &stats, sizeof stats), 0);
    assert_int_equal(stats.stream_stillborn, 1);
}

static void the_root_has_moved_to_an_elder(void **state)
{
    it_was_there_before(*state, 2);
}

static void the_desk_has_moved_to_an_elder(void **state)
{
    it_was_there_before(*state, 4);
}

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
    world = runs_create();
    struct cop_settings settings = runs_settings(world, 0, 1);
    settings.on_stream = on_stream;
    settings.filter_count = 1;
    assert_int_equal(cop_start(&settings, &run, why, sizeof why), COP_EINVAL);
    assert_non_null(strstr(why, "filters[0]"));
    settings.filters = filters;
    mine.name = "sum";
    assert_int_equal(cop_start(&settings, &run, why, sizeof why), COP_EINVAL);
    mine.name = "mine";
    givers[0].most = WAVES;
    runs_start(world, 0, &settings);
    run = world->players[0].run;
    while (cop_state(run) != COP_RUN_MEMBER)
        cop_poll(run, -1);
    struct cop_stream_options options = sums;
    options.filter = "mine";
    open_at(world, 0, &options, taker);
    runs_until(world, all_are_in);
    assert_int_equal(taker->sum, 1000 * WAVES + WAVES * (WAVES + 1) / 2);
    runs_destroy(world);
}

/* Each its letter of three words, by way of the desk of a root that is then another one. */
static void a_filter_down(void **state)
{
    struct runs *runs = *state;
    struct cop_run *run = runs->players[3].run;
    struct cop_stream_options options = sums;
    char name[] = "scatter";
    options.down = name;
    open_at(runs, 3, &options, &takers[0]);
    name[0] = '-'; /* it was copied */
    assert_int_equal(cop_stream_multicast(run, takers[0].stream, "abcde", 5), 0);
    runs_until(runs, half_is_in);
    runs_free(runs, 0);
    assert_int_equal(cop_stream_multicast(run, takers[0].stream, "fghij", 5), 0);
    assert_int_equal(cop_stream_multicast(run, takers[0].stream, "klmno", 5), 0);
    runs_until(runs, all_are_in);
    runs_until(runs, has_reached);
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
    world = runs_create();
    struct cop_settings settings = runs_settings(world, 0, 1);
    settings.on_stream = on_stream;
    settings.on_log = on_log;
    settings.log_level = COP_LOG_WARN;
    settings.filter_count = 1;
    settings.filters = filters;
    givers[0].most = WAVES;
    runs_start(world, 0, &settings);
    struct cop_run *run = world->players[0].run;
    while (cop_state(run) != COP_RUN_MEMBER)
        cop_poll(run, -1);
    struct cop_stream_options options = sums;
    options.down = "mine";
    assert_int_equal(cop_stream_open(run, &options, NULL, NULL, NULL), COP_EINVAL);
    options.down_type = "u64";
    open_at(world, 0, &options, &takers[0]);
    assert_int_equal(cop_stream_multicast(run, takers[0].stream, &value, 7),
                     COP_EINVAL);
    for (int i = 0; i < 4; i++)
        assert_int_equal(cop_stream_multicast(run, takers[0].stream, &value, 8), 0);
    runs_until(world, all_are_in);
    runs_until(world, has_come);
    assert_int_equal(givers[0].down_why, status);
    assert_string_equal(givers[0].down, "");
    assert_non_null(strstr(logged, "the filter mine failed on packet 1"));
    assert_non_null(strstr(logged, cop_strerror(status)));
    assert_int_equal(lines, 1);
    /* Of another stream there is one more. */
    uint64_t first = takers[0].stream;
    takers[0] = (struct taker){0};
    givers[0] = (struct giver){.most = WAVES};
    open_at(world, 0, &options, &takers[0]);
    assert_true(takers[0].stream != first);
    for (int i = 0; i < 4; i++)
        assert_int_equal(cop_stream_multicast(run, takers[0].stream, &value, 8), 0);
    runs_until(world, has_come);
    assert_int_equal(lines, 2);
    assert_int_equal(cop_state(run), COP_RUN_MEMBER);
    runs_destroy(world);
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
    is_single = is_short = false;
    lines = 0;
    world = runs_create();
    for (uint32_t i = 0; i < MEMBERS; i++) {
        struct cop_settings settings = runs_settings(world, i, MEMBERS);
        tables[i] = *cop_filter_find("sum");
        tables[i].name = "mine";
        lists[i] = &tables[i];
        settings.filters = &lists[i];
        settings.filter_count = 1;
        settings.on_stream = on_stream;
        settings.on_log = on_log;
        settings.log_level = COP_LOG_WARN;
        settings.detector = "connection";
        givers[i].most = WAVES / 2;
        runs_start(world, i, &settings);
    }
    runs_until(world, all_are_members);
    *state = world;
    return 0;
}

static void give_all(struct runs *runs, uint64_t most)
{
    for (uint32_t i = 0; i < MEMBERS; i++) {
        givers[i].most = most;
        give(runs->players[i].run, &givers[i]);
    }
}

/* All are members as before, and another stream of the same front-end goes on. */
static void only_the_stream_has_ended(struct runs *runs, uint32_t front)
{
    assert_non_null(strstr(logged, "the filter mine failed"));
    assert_int_equal(lines, 1);
    assert_true(all_are_members(runs));
    memset(givers, 0, sizeof givers);
    takers[0] = (struct taker){0};
    for (uint32_t i = 0; i < MEMBERS; i++)
        givers[i].most = WAVES;
    open_at(runs, front, &sums, &takers[0]);
    runs_until(runs, all_are_in);
    assert_int_equal(takers[0].sum, sum_of(0, WAVES));
}

/* T22: at one member, with others below and above it. All hear why, and that one names it. */
static void a_filter_up_has_no_memory(void **state)
{
    struct runs *runs = *state;
    struct cop_stream_options options = sums;
    options.filter = "mine";
    tables[1].join = join_or_fail;
    open_at(runs, 3, &options, &takers[0]);
    runs_until(runs, half_is_in);
    is_short = true;
    give_all(runs, WAVES);
    runs_until(runs, is_refused);
    assert_int_equal(takers[0].why, COP_ENOMEM);
    runs_until(runs, all_are_closed);
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
    struct cop_stream_options options = sums;
    options.filter = "mine";
    tables[4].join = join_or_fail;
    for (uint32_t i = 0; i < MEMBERS; i++)
        givers[i].most = 0;
    open_at(runs, 4, &options, &takers[0]);
    runs_until(runs, nothing_is_in);
    is_short = true;
    give_all(runs, 1);
    runs_until(runs, is_refused);
    assert_int_equal(takers[0].why, COP_ENOMEM);
    runs_until(runs, all_are_closed);
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
    struct cop_stream_options options = sums;
    uint64_t value = 7;
    options.filter = "mine";
    tables[2].lift = lift_or_fail;
    open_at(runs, 3, &options, &takers[0]);
    runs_until(runs, half_is_in);
    is_short = true;
    for (int i = 0; i < 3; i++)
        assert_int_equal(cop_stream_send(run, takers[0].stream, &value, 8), COP_EBUG);
    assert_non_null(strstr(logged, "the filter mine failed on packet 11:"));
    assert_int_equal(lines, 1);
    is_short = false;
    give_all(runs, WAVES);
    runs_until(runs, all_are_in);
    assert_int_equal(takers[0].sum, sum_of(0, WAVES));
    assert_int_equal(lines, 1);
}

static void what_cannot_be(void **state)
{
    struct runs *runs = *state;
    struct cop_run *run = runs->players[1].run;
    struct cop_stream_options options = sums;
    struct cop_stream_output output;
    struct cop_stream_info info;
    uint64_t number, value = 1;
    assert_int_equal(cop_stream_open(NULL, &options, NULL, NULL, NULL), COP_EINVAL);
    options.filter = "nonesuch";
    assert_int_equal(cop_stream_open(run, &options, NULL, NULL, NULL), COP_EINVAL);
    options = sums;
    options.type = "text"; /* sums are of numbers */
    assert_int_equal(cop_stream_open(run, &options, NULL, NULL, NULL), COP_EINVAL);
    options = sums;
    options.window = COP_STREAM_WINDOW_MAX + 1;
    assert_int_equal(cop_stream_open(run, &options, NULL, NULL, NULL), COP_EINVAL);
    assert_int_equal(cop_stream_send(run, 5, &value, sizeof value), COP_ENOENT);
    assert_int_equal(cop_stream_multicast(run, 5, "", 0), COP_ENOENT);
    assert_int_equal(cop_stream_close(run, 5), COP_ENOENT);
    assert_int_equal(cop_stream_info(run, 5, &info), COP_ENOENT);
    options = sums;
    options.window = 2 * WAVES;
    assert_int_equal(cop_stream_open(run, &options, on_told, &takers[0], &number), 0);
    options.number = number;
    assert_int_equal(cop_stream_open(run, &options, NULL, NULL, NULL), COP_EEXIST);
    assert_int_equal(cop_stream_wait(run, number, 1, &output), COP_ESTATE);
    assert_int_equal(cop_stream_send_wait(run, number, &value, 8, 1), COP_ESTATE);
    /* Not more than the window are on their way. */
    for (uint32_t i = 0; i < options.window; i++)
        assert_int_equal(cop_stream_multicast(run, number, "", 0), 0);
    assert_int_equal(cop_stream_multicast(run, number, "", 0), COP_EAGAIN);
    runs_until(runs, all_are_in);
    assert_int_equal(cop_stream_info(run, number, &info), 0);
    assert_string_equal(info.filter->name, "sum");
    assert_int_equal(cop_stream_send(run, number, &value, 7), COP_EINVAL);
    /* A number is used once. */
    assert_int_equal(cop_stream_close(run, number), 0);
    runs_until(runs, all_are_closed);
    takers[0] = (struct taker){0};
    assert_int_equal(cop_stream_open(run, &options, on_told, &takers[0], NULL), 0);
    runs_until(runs, is_refused);
    assert_int_equal(takers[0].why, COP_EEXIST);
    assert_int_equal(
        cop_stream_open(runs->players[0].run, &options, on_told, &takers[1], NULL),
        COP_EEXIST); /* at the root it is known at once */
    assert_int_equal(takers[1].closed, 0);
}

/* ---- with threads ---------------------------------------------------------------- */

struct writer {
    struct cop_run *run;
    uint64_t stream;
};

static void *write_all(void *argument)
{
    struct writer *writer = argument;
    for (uint64_t k = 1; k <= WAVES; k++) {
        int error;
        do
            error = cop_stream_send_wait(writer->run, writer->stream, &k, sizeof k,
                                         60 * COP_SEC);
        while (error == COP_ENOENT); /* it has not heard of the stream yet */
        assert_int_equal(error, 0);
    }
    return NULL;
}

static void threads_wait(void **state)
{
    struct runs *runs = runs_create();
    struct writer writers[2];
    pthread_t threads[2];
    struct cop_stream_options options = {
        .number = 9, .filter = "sum", .type = "u64", .window = 2};
    struct cop_stream_output output;
    struct cop_view *view;
    uint64_t wave = 0;
    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        struct cop_settings settings = runs_settings(runs, i, 2);
        assert_int_equal(cop_start_thread(&settings, &writers[i].run, NULL, 0), 0);
        writers[i].stream = 9;
    }
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(cop_view_wait(writers[i].run, 0, 60 * COP_SEC, &view), 0);
        cop_view_unref(view);
        assert_int_equal(pthread_create(&threads[i], NULL, write_all, &writers[i]), 0);
    }
    assert_int_equal(cop_stream_open(writers[1].run, &options, NULL, NULL, NULL), 0);
    while (wave < WAVES) {
        assert_int_equal(cop_stream_wait(writers[1].run, 9, 60 * COP_SEC, &output), 0);
        assert_true(output.event.wave >= wave);
        wave = output.event.wave;
        if (output.event.complete)
            assert_int_equal(cop_filter_get_u64(output.result->data),
                             wave * (wave + 1));
        cop_stream_output_free(&output);
    }
    for (uint32_t i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    int error = cop_stream_wait(writers[1].run, 9, COP_MSEC, &output);
    while (error == 0) { /* the last may be said again */
        cop_stream_output_free(&output);
        error = cop_stream_wait(writers[1].run, 9, COP_MSEC, &output);
    }
    assert_int_equal(error, COP_ETIMEDOUT);
    assert_int_equal(cop_stream_detach(writers[1].run, 9), 0);
    assert_int_equal(cop_stream_wait(writers[1].run, 9, COP_SEC, &output), COP_ENOENT);
    for (uint32_t i = 0; i < 2; i++)
        cop_free(writers[i].run);
    runs_destroy(runs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_front_end_is_at_the_root, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(the_front_end_is_elsewhere, set_up, tear_down),
        cmocka_unit_test_setup_teardown(it_is_closed_at_the_root, set_up, tear_down),
        cmocka_unit_test_setup_teardown(it_is_closed_for_one_elsewhere, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(waves_are_by_themselves, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_root_dies, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_fragile_one_loses_a_leaf, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_fragile_one_loses_its_root, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_fragile_one_at_the_root, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_front_end_dies, set_up, tear_down),
        cmocka_unit_test_setup_teardown(another_one_goes_on, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_root_has_moved_to_an_elder, set_up_chain,
                                        tear_down),
        cmocka_unit_test_setup_teardown(the_desk_has_moved_to_an_elder, set_up_chain,
                                        tear_down),
        cmocka_unit_test(filters_of_the_program),
        cmocka_unit_test_setup_teardown(a_filter_down, set_up, tear_down),
        cmocka_unit_test(a_filter_down_fails),
        cmocka_unit_test(a_filter_down_has_no_memory),
        cmocka_unit_test_setup_teardown(a_filter_up_has_no_memory, set_up_filters,
                                        tear_down),
        cmocka_unit_test_setup_teardown(the_filter_of_a_front_end_fails, set_up_filters,
                                        tear_down),
        cmocka_unit_test_setup_teardown(the_filter_fails_on_a_packet, set_up_filters,
                                        tear_down),
        cmocka_unit_test_setup_teardown(what_cannot_be, set_up, tear_down),
        cmocka_unit_test(threads_wait),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
