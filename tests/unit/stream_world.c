/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "stream_world.h"

#include <coppice/filter.h>
#include <string.h>

struct giver givers[MEMBERS];
struct taker takers[2];
struct runs *streams_world;
bool streams_are_single;

uint64_t streams_value(cop_id id, uint64_t wave) { return 1000 * (id + 1) + wave; }

uint64_t streams_sum(cop_id first, uint64_t waves)
{
    uint64_t sum = 0;
    for (cop_id id = first; id < MEMBERS; id++)
        for (uint64_t k = 1; k <= waves; k++)
            sum += streams_value(id, k);
    return sum;
}

void streams_give(struct cop_run *run, struct giver *giver)
{
    while (giver->given < giver->most) {
        uint64_t value = 0, last = giver->given + 1;
        /* On a slow machine waves may have gone by without it. */
        if (last <= giver->begins)
            last = giver->begins + 1;
        for (uint64_t k = streams_are_single ? last : giver->given + 1; k <= last; k++)
            value += streams_value(cop_self(run), k);
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

void streams_on_stream(void *context, struct cop_run *run, uint64_t stream,
                       const struct cop_stream_event *event)
{
    struct player *player = context;
    struct giver *giver = &givers[player - streams_world->players];
    if (event->kind == COP_STREAM_OPENED) {
        /* Of what it gave to another one of this number (T1) this one has nothing. */
        struct cop_stream_info info;
        if (cop_stream_info(run, stream, &info) == 0 && info.key == event->key)
            assert_int_equal(info.given, event->wave);
        giver->given = 0;
        giver->down[0] = '\0';
        giver->opened++;
        giver->stream = stream;
        giver->key = event->key;
        giver->begins = event->wave;
    } else if (event->kind == COP_STREAM_CLOSED) {
        giver->closed++;
        if (stream == giver->stream)
            assert_int_equal(event->key, giver->key);
        giver->why = event->status;
        return;
    } else if (event->kind == COP_STREAM_DOWN) {
        strncat(giver->down, event->length ? event->bytes : "", event->length);
        giver->down_why = event->status;
        return;
    }
    streams_give(run, giver);
}

void streams_on_told(void *context, struct cop_run *run, uint64_t stream,
                     const struct cop_stream_event *event)
{
    struct taker *taker = context;
    struct cop_buf *result;
    if (event->kind == COP_STREAM_CLOSED) {
        taker->closed++;
        taker->why = event->status;
        taker->closed_in = streams_world->players[cop_self(run)].epoch;
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
    uint64_t before =
        streams_are_single && event->wave > 0 ? streams_sum(0, event->wave - 1) : 0;
    if (event->complete && event->covered == MEMBERS)
        assert_int_equal(taker->sum, streams_sum(0, event->wave) - before);
}

bool streams_all_are_members(struct runs *runs)
{
    for (uint32_t i = 0; i < MEMBERS; i++)
        if (cop_state(runs->players[i].run) != COP_RUN_MEMBER)
            return false;
    return true;
}

int streams_set_up(void **state)
{
    memset(givers, 0, sizeof givers);
    streams_are_single = false;
    memset(takers, 0, sizeof takers);
    streams_world = runs_create();
    for (uint32_t i = 0; i < MEMBERS; i++) {
        struct cop_settings settings = runs_settings(streams_world, i, MEMBERS);
        settings.on_stream = streams_on_stream;
        givers[i].most = WAVES;
        runs_start(streams_world, i, &settings);
    }
    runs_until(streams_world, streams_all_are_members);
    *state = streams_world;
    return 0;
}

int streams_tear_down(void **state)
{
    runs_destroy(*state);
    return 0;
}

bool streams_all_are_in(struct runs *runs)
{
    (void)runs;
    return takers[0].wave == WAVES && takers[0].complete;
}

bool streams_half_is_in(struct runs *runs)
{
    (void)runs;
    return takers[0].wave >= WAVES / 2;
}

bool streams_have_reached(struct runs *runs)
{
    (void)runs;
    return takers[0].reached == 3;
}

bool streams_is_refused(struct runs *runs)
{
    (void)runs;
    return takers[0].closed > 0;
}

bool streams_all_are_closed(struct runs *runs)
{
    for (uint32_t i = 0; i < MEMBERS; i++)
        if (runs->players[i].run != NULL && givers[i].closed == 0)
            return false;
    return true;
}

const struct cop_stream_options streams_sums = {
    .filter = "sum", .type = "u64", .window = 4};

void streams_open(struct runs *runs, uint32_t i, const struct cop_stream_options *what,
                  struct taker *taker)
{
    assert_int_equal(cop_stream_open(runs->players[i].run, what, streams_on_told, taker,
                                     &taker->stream),
                     0);
    assert_int_equal(taker->outputs, 0); /* not before it has returned */
}

void streams_give_all(struct runs *runs, uint64_t most)
{
    for (uint32_t i = 0; i < MEMBERS; i++) {
        givers[i].most = most;
        if (runs->players[i].run != NULL)
            streams_give(runs->players[i].run, &givers[i]);
    }
}

void streams_run_another(struct runs *runs, uint32_t front)
{
    memset(givers, 0, sizeof givers);
    takers[0] = (struct taker){0};
    for (uint32_t i = 0; i < MEMBERS; i++)
        givers[i].most = WAVES;
    streams_open(runs, front, &streams_sums, &takers[0]);
    runs_until(runs, streams_all_are_in);
}
