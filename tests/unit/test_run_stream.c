/* SPDX-License-Identifier: Apache-2.0 */
/* Streams of programs: the part of coppice/stream.h for runs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "net/tcp/driver.h"
#include "run/parts.h"
#include "stream_world.h"
#include "view/view.h"

#include <coppice/filter.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool second_has_it(struct runs *runs)
{
    (void)runs;
    return takers[1].outputs > 0;
}

static bool has_changed_hands(struct runs *runs)
{
    (void)runs;
    return takers[0].closed > 0 && takers[1].outputs > 0;
}

static void every_wave_is_exact(struct runs *runs, uint32_t front)
{
    struct cop_run *run = runs->players[front].run;
    struct taker *taker = &takers[0];
    streams_open(runs, front, &streams_sums, taker);
    assert_int_equal(cop_stream_multicast(run, taker->stream, "a", 1), 0);
    assert_int_equal(cop_stream_multicast(run, taker->stream, "bc", 2), 0);
    assert_int_equal(cop_stream_multicast(run, taker->stream, "d", 1), 0);
    runs_until(runs, streams_all_are_in);
    runs_until(runs, streams_have_reached);
    assert_int_equal(taker->sum, streams_sum(0, WAVES));
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
    runs_until(runs, streams_all_are_closed);
    assert_int_equal(taker->closed, 0); /* it knows */
}

/* Whoever closes it at the root, for instance one that was on the other side of a split. */
static void it_is_closed_for(struct runs *runs, uint32_t front)
{
    streams_open(runs, front, &streams_sums, &takers[0]);
    runs_until(runs, streams_half_is_in);
    struct cop_request request = {.kind = COP_REQUEST_STREAM_CLOSE,
                                  .group = takers[0].stream};
    assert_int_equal(cop__run_submit(runs->players[0].run, &request), 0);
    runs_until(runs, streams_is_refused);
    runs_until(runs, streams_all_are_closed);
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

static void go_on(struct runs *runs)
{
    streams_give_all(runs, WAVES);
    runs_until(runs, streams_all_are_in);
    assert_int_equal(takers[0].sum, streams_sum(0, WAVES));
    assert_int_equal(takers[0].closed, 0);
}

static void half_of_it(struct runs *runs, uint32_t front)
{
    for (uint32_t i = 0; i < MEMBERS; i++)
        givers[i].most = WAVES / 2;
    streams_open(runs, front, &streams_sums, &takers[0]);
    runs_until(runs, streams_half_is_in);
}

/* It asks before it has heard that the stream is another one than it was (T1): what it has taken of
 * that one is no more at the desk than at the node. */
static void what_was_taken_of_another(void **state)
{
    struct runs *runs = *state;
    struct cop_run *root = runs->players[0].run;
    struct cop_stream_options options = streams_sums;
    half_of_it(runs, 3);
    const struct cop__front *front = runs->players[3].run->streams.fronts;
    struct cop_buf *other =
        cop_buf_copy(front->definition->data, front->definition->length);
    other->data[other->length - 1] ^= 1;
    options.number = takers[0].stream;
    options.definition = other;
    struct cop_buf *bytes = cop__options_encode(&options);
    struct cop__said said = {.kind = COP__SAY_OPEN,
                             .stream = options.number,
                             .wave = 1000,
                             .reached = 200,
                             .bytes = {bytes->data, bytes->length}};
    cop__desk_hear(&root->streams.desk, 3, runs->players[3].run->incarnation, &said);
    /* This the node said before it heard of that, and so of another. */
    struct cop_stream_event late = {.kind = COP_STREAM_CLOSED};
    cop__desk_event(&root->streams.desk, options.number, &late, NULL);
    cop__run_stir(root);
    cop_buf_unref(bytes);
    cop_buf_unref(other);
    assert_int_equal(cop_stream_multicast(runs->players[3].run, options.number, "a", 1),
                     0);
    assert_int_equal(
        cop_stream_multicast(runs->players[3].run, options.number, "bc", 2), 0);
    assert_int_equal(cop_stream_multicast(runs->players[3].run, options.number, "d", 1),
                     0);
    go_on(runs);
    runs_until(runs, streams_have_reached);
    for (uint32_t i = 0; i < MEMBERS; i++)
        assert_string_equal(givers[i].down, "abcd");
}

/* Its front-end closes the one that it knows, and the node has another: that one stays. */
static void closed_was_another(void **state)
{
    struct runs *runs = *state;
    struct cop__desk *desk = &runs->players[0].run->streams.desk;
    half_of_it(runs, 3);
    struct cop_buf *definition = desk->customers[0].definition;
    definition->data[definition->length - 1] ^= 1;
    struct cop__said said = {.kind = COP__SAY_CLOSE, .stream = takers[0].stream};
    cop__desk_hear(desk, 3, runs->players[3].run->incarnation, &said);
    cop__run_stir(runs->players[0].run);
    go_on(runs);
}

/* Another one was root for a while, of which the front-end hears when the former is it again. */
static void the_root_is_back(void **state)
{
    struct runs *runs = *state;
    struct cop_run *root = runs->players[0].run, *run = runs->players[3].run;
    half_of_it(runs, 3);
    const struct cop_view *now = cop_node_view(cop__tcp_node(root->tcp));
    struct cop_ballot ballot = cop_view_ballot(now);
    ballot.epoch++;
    struct cop__entry entry = {.id = 0,
                               .incarnation = cop_view_incarnation(now, 0),
                               .presence = COP_REMOVED,
                               .since = ballot.epoch};
    struct cop__delta delta = {0};
    struct cop_view *between;
    assert_int_equal(cop__delta_put(&delta, &entry), 0);
    assert_int_equal(cop__view_derive(now, &ballot, &delta, &between), 0);
    cop__delta_free(&delta);
    cop__desk_view(&root->streams.desk, between);
    cop__streams_view(run, between);
    cop_view_unref(between);
    go_on(runs);
}

static void close_in_view(struct player *player, struct cop_run *run)
{
    player->on_view = NULL;
    assert_int_equal(cop_stream_close(run, takers[0].stream), 0);
}

/* The program closes it when it is told of a view by which another one is root: that one hears it. */
static void closed_when_the_root_goes(void **state)
{
    struct runs *runs = *state;
    half_of_it(runs, 0);
    runs->players[0].on_view = close_in_view;
    struct cop_request request = {
        .kind = COP_REQUEST_DRAIN, .member = 0, .token = COP__DESK_TOKEN};
    assert_int_equal(cop__run_submit(runs->players[1].run, &request), 0);
    runs_until(runs, streams_all_are_closed);
}

static bool one_is_root(struct runs *runs)
{
    return cop_view_root(cop_node_view(cop__tcp_node(runs->players[1].run->tcp))) ==
               1 &&
           runs->players[1].size == MEMBERS - 1;
}

/* The front-end opened it in a view in which this is the root; only then the program is told of the
 * one before, and of this one. */
static void told_of_an_older_view(void **state)
{
    struct runs *runs = *state;
    struct cop_run *run = runs->players[1].run;
    const struct cop_node *node = cop__tcp_node(run->tcp);
    struct cop_view *old =
        cop_view_ref((struct cop_view *)(uintptr_t)cop_node_view(node));
    runs_free(runs, 0);
    runs_until(runs, one_is_root);
    struct cop_stream_options options = streams_sums;
    options.flags = COP_STREAM_WITHDRAW;
    streams_open(runs, 1, &options, &takers[0]);
    cop__streams_view(run, old);
    cop__streams_view(run, cop_node_view(node));
    cop_view_unref(old);
    runs_until(runs, streams_all_are_in);
    assert_int_equal(takers[0].sum, streams_sum(1, WAVES));
}

/* It was replaced when there was no room for another letter to it: it hears so later. */
static void replaced_when_it_hung(void **state)
{
    struct runs *runs = *state;
    struct cop_stream_options options = streams_sums;
    struct cop_request letter = {
        .kind = COP_REQUEST_SEND, .op = 77, .member = 3, .bytes = "x", .length = 1};
    half_of_it(runs, 3);
    runs->players[3].is_asleep = true;
    /* What it still said before makes room for others. */
    for (int i = 0; i < 20; i++) {
        assert_int_equal(cop_dispatch(runs->players[0].run), 0);
        while (cop__run_submit(runs->players[0].run, &letter) == 0)
            continue;
    }
    options.number = takers[0].stream;
    streams_open(runs, 4, &options, &takers[1]);
    runs_until(runs, second_has_it);
    /* The former one, and what it is to hear. */
    assert_int_equal(runs->players[0].run->streams.desk.count, 2);
    assert_int_equal(takers[0].closed, 0);
    runs->players[3].is_asleep = false;
    runs_until(runs, streams_is_refused);
    assert_int_equal(takers[0].why, COP_EEXIST);
    assert_int_equal(takers[1].closed, 0);
}

static void send_when_told(void *context, struct cop_run *run, uint64_t stream,
                           const struct cop_stream_event *event)
{
    streams_on_told(context, run, stream, event);
    if (event->kind == COP_STREAM_OUTPUT && event->wave == 1000)
        assert_int_equal(cop_stream_multicast(run, stream, "a", 1), 0);
}

/* OUTPUT of wave 1000, as the node says it. */
static struct cop_buf *output_of(const struct cop_buf *state)
{
    struct cop_buf *buf = cop_buf_create((size_t)38 + state->length);
    struct cop__writer writer = cop__writer(buf->data, buf->length);
    cop__put_u8(&writer, COP_STREAM_OUTPUT);
    cop__put_u8(&writer, 1); /* whole */
    cop__put_u64(&writer, 1000);
    cop__put_u64(&writer, 0);
    for (int i = 0; i < 4; i++)
        cop__put_u32(&writer, 0);
    cop__put_bytes(&writer, (struct cop__bytes){state->data, state->length});
    assert_false(writer.failed);
    return buf;
}

/* The node has another one (T1), the desk is told an output of the one before, and the program sends
 * in that callback, by which the front-end comes to the other one: that wave was none of it. */
static void taken_when_it_moved(void **state)
{
    struct runs *runs = *state;
    struct cop_run *run = runs->players[0].run;
    struct cop_stream_event event;
    for (uint32_t i = 0; i < MEMBERS; i++)
        givers[i].most = WAVES / 2;
    assert_int_equal(cop_stream_open(run, &streams_sums, send_when_told, &takers[0],
                                     &takers[0].stream),
                     0);
    runs_until(runs, streams_half_is_in);
    const struct cop__front *front = run->streams.fronts;
    struct cop_buf *was = run->streams.desk.customers[0].definition;
    was->data[was->length - 1] ^= 1;
    front->definition->data[front->definition->length - 1] ^= 1;
    struct cop_buf *output = output_of(front->state);
    assert_int_equal(cop_stream_event(output, &event), 0);
    cop__desk_event(&run->streams.desk, takers[0].stream, &event, output);
    cop_buf_unref(output);
    takers[0].went_back = false;
    cop__run_stir(run);
    go_on(runs);
}

/* What a thread gives is for the one of which it has heard, whichever there is now. */
static void given_to_one(void **state)
{
    struct runs *runs = *state;
    struct cop_run *run = runs->players[3].run;
    uint64_t value = streams_value(3, WAVES / 2 + 1);
    half_of_it(runs, 0);
    uint64_t key = givers[3].key, stream = takers[0].stream;
    assert_int_equal(cop_stream_give(run, stream, key + 1, &value, sizeof value, 0),
                     COP_ENOENT);
    assert_int_equal(cop_stream_give(run, stream, key, &value, sizeof value, 0), 0);
    givers[3].given++;
    assert_int_equal(cop_stream_give(run, stream, key, NULL, 8, 0), COP_EINVAL);
    go_on(runs);
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
    struct cop_stream_options options = streams_sums;
    options.flags = COP_STREAM_SINGLE;
    streams_are_single = true;
    for (uint32_t i = 0; i < MEMBERS; i++)
        givers[i].most = WAVES / 2;
    streams_open(runs, 3, &options, &takers[0]);
    runs_until(runs, streams_half_is_in);
    runs_free(runs, 1);
    for (uint32_t i = 0; i < MEMBERS; i++) {
        givers[i].most = WAVES;
        if (i != 1)
            streams_give(runs->players[i].run, &givers[i]);
    }
    runs_until(runs, streams_all_are_in);
    assert_int_equal(takers[0].sum, streams_sum(0, WAVES) - streams_sum(0, WAVES - 1) -
                                        streams_value(1, WAVES));
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
    struct cop_stream_options options = streams_sums;
    options.flags = COP_STREAM_WITHDRAW;
    for (uint32_t i = 0; i < MEMBERS; i++)
        givers[i].most = WAVES / 2;
    streams_open(runs, 3, &options, &takers[0]);
    assert_int_equal(
        cop_stream_multicast(runs->players[3].run, takers[0].stream, "x", 1), 0);
    runs_until(runs, streams_half_is_in);
    runs_free(runs, 0);
    for (uint32_t i = 1; i < MEMBERS; i++) {
        givers[i].most = WAVES;
        streams_give(runs->players[i].run, &givers[i]);
    }
    runs_until(runs, streams_all_are_in);
    assert_int_equal(takers[0].sum, streams_sum(1, WAVES));
    assert_int_equal(takers[0].covered, MEMBERS - 1);
    /* Packets go on where they were. */
    assert_int_equal(
        cop_stream_multicast(runs->players[3].run, takers[0].stream, "yz", 2), 0);
    assert_int_equal(
        cop_stream_multicast(runs->players[3].run, takers[0].stream, ".", 1), 0);
    runs_until(runs, streams_have_reached);
    for (uint32_t i = 1; i < MEMBERS; i++)
        assert_string_equal(givers[i].down, "xyz.");
}

/* A stream that survives nothing: its front-end hears so with the view without `lost`, and so do
 * the back-ends. */
static void a_loss_ends_it(struct runs *runs, uint32_t front, uint32_t lost)
{
    struct cop_stream_options options = streams_sums;
    options.flags = COP_STREAM_FRAGILE;
    for (uint32_t i = 0; i < MEMBERS; i++)
        givers[i].most = WAVES / 2;
    streams_open(runs, front, &options, &takers[0]);
    runs_until(runs, streams_half_is_in);
    assert_int_equal(takers[0].closed, 0);
    cop_epoch epoch = runs->players[front].epoch;
    runs_free(runs, lost);
    runs_until(runs, streams_is_refused);
    assert_int_equal(takers[0].why, COP_ELOST);
    assert_true(takers[0].closed_in <= epoch + 1);
    runs_until(runs, streams_all_are_closed);
    assert_int_equal(takers[0].closed, 1);
    assert_int_equal(cop_stream_close(runs->players[front].run, takers[0].stream),
                     COP_ENOENT);
    /* Another one goes on without who was lost. */
    streams_run_another(runs, front);
    assert_int_equal(takers[0].sum,
                     streams_sum(0, WAVES) -
                         (streams_sum(lost, WAVES) - streams_sum(lost + 1, WAVES)));
}

static void a_fragile_one_loses_a_leaf(void **state) { a_loss_ends_it(*state, 3, 4); }

static void a_fragile_one_loses_its_root(void **state) { a_loss_ends_it(*state, 3, 0); }

static void a_fragile_one_at_the_root(void **state) { a_loss_ends_it(*state, 0, 1); }

static void the_front_end_dies(void **state)
{
    struct runs *runs = *state;
    streams_open(runs, 3, &streams_sums, &takers[0]);
    runs_until(runs, streams_half_is_in);
    runs_free(runs, 3);
    assert_int_equal(takers[0].closed, 1);
    assert_int_equal(takers[0].why, COP_ESTATE);
    runs_until(runs, streams_all_are_closed);
}

static void another_one_goes_on(void **state)
{
    struct runs *runs = *state;
    struct cop_stream_options options = streams_sums;
    options.number = 77;
    options.flags = COP_STREAM_KEEP | COP_STREAM_WITHDRAW;
    streams_open(runs, 3, &options, &takers[1]);
    assert_int_equal(takers[1].stream, 77);
    runs_free(runs, 3);
    /* At one that was its member all the time, and with what was not taken. */
    streams_open(runs, 4, &options, &takers[0]);
    runs_until(runs, streams_all_are_in);
    assert_int_equal(takers[0].sum, streams_sum(0, WAVES) - (streams_sum(3, WAVES) -
                                                             streams_sum(4, WAVES)));
    /* A third one takes it over. */
    const struct taker *former = &takers[0];
    takers[1] = (struct taker){0};
    streams_open(runs, 0, &options, &takers[1]);
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
    streams_are_single = false;
    streams_world = runs_create();
    for (uint32_t i = 0; i < MEMBERS; i++) {
        struct cop_settings settings = runs_settings(streams_world, i, MEMBERS);
        settings.on_stream = streams_on_stream;
        settings.detector = "connection";
        settings.shape = "chain";
        givers[i].most = WAVES;
        runs_start(streams_world, i, &settings);
    }
    runs_until(streams_world, streams_all_are_members);
    *state = streams_world;
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
    return streams_have_reached(runs) && streams_all_are_in(runs);
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
    struct cop_stream_options options = streams_sums;
    options.number = TWICE;
    options.flags = COP_STREAM_KEEP | COP_STREAM_WITHDRAW;
    assert_int_equal(cop_shape_make(COP_SHAPE_FLAT, 0, &options.shape), 0);
    streams_open(runs, 0, &options, &takers[1]);
    runs->players[1].is_asleep = true;
    runs->players[2].is_asleep = runs->players[4].is_asleep = true;
    runs_until(runs, three_has_heard);
    struct cop_run *run = runs->players[front].run;
    streams_open(runs, front, &options, &takers[0]);
    assert_false(has_heard(runs, 2) || has_heard(runs, 4));
    assert_int_equal(cop_stream_multicast(run, TWICE, "a", 1), 0);
    assert_int_equal(cop_stream_multicast(run, TWICE, "bc", 2), 0);
    runs_free(runs, 0);
    runs_free(runs, 1);
    runs->players[2].is_asleep = runs->players[4].is_asleep = false;
    runs_until(runs, streams_all_are_in);
    assert_int_equal(cop_stream_multicast(run, TWICE, "d", 1), 0);
    runs_until(runs, all_have_reached);
    assert_int_equal(takers[0].sum, streams_sum(2, WAVES));
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

static void what_cannot_be(void **state)
{
    struct runs *runs = *state;
    struct cop_run *run = runs->players[1].run;
    struct cop_stream_options options = streams_sums;
    struct cop_stream_output output;
    struct cop_stream_info info;
    uint64_t number, value = 1;
    assert_int_equal(cop_stream_open(NULL, &options, NULL, NULL, NULL), COP_EINVAL);
    options.filter = "nonesuch";
    assert_int_equal(cop_stream_open(run, &options, NULL, NULL, NULL), COP_EINVAL);
    options = streams_sums;
    options.type = "text"; /* streams_sums are of numbers */
    assert_int_equal(cop_stream_open(run, &options, NULL, NULL, NULL), COP_EINVAL);
    options = streams_sums;
    options.window = COP_STREAM_WINDOW_MAX + 1;
    assert_int_equal(cop_stream_open(run, &options, NULL, NULL, NULL), COP_EINVAL);
    assert_int_equal(cop_stream_send(run, 5, &value, sizeof value), COP_ENOENT);
    assert_int_equal(cop_stream_multicast(run, 5, "", 0), COP_ENOENT);
    assert_int_equal(cop_stream_close(run, 5), COP_ENOENT);
    assert_int_equal(cop_stream_info(run, 5, &info), COP_ENOENT);
    options = streams_sums;
    options.window = 2 * WAVES;
    assert_int_equal(
        cop_stream_open(run, &options, streams_on_told, &takers[0], &number), 0);
    options.number = number;
    assert_int_equal(cop_stream_open(run, &options, NULL, NULL, NULL), COP_EEXIST);
    assert_int_equal(cop_stream_wait(run, number, 1, &output), COP_ESTATE);
    assert_int_equal(cop_stream_send_wait(run, number, &value, 8, 1), COP_ESTATE);
    /* Not more than the window are on their way. */
    for (uint32_t i = 0; i < options.window; i++)
        assert_int_equal(cop_stream_multicast(run, number, "", 0), 0);
    assert_int_equal(cop_stream_multicast(run, number, "", 0), COP_EAGAIN);
    runs_until(runs, streams_all_are_in);
    assert_int_equal(cop_stream_info(run, number, &info), 0);
    assert_string_equal(info.filter->name, "sum");
    assert_int_equal(cop_stream_send(run, number, &value, 7), COP_EINVAL);
    /* A number is used once. */
    assert_int_equal(cop_stream_close(run, number), 0);
    runs_until(runs, streams_all_are_closed);
    takers[0] = (struct taker){0};
    assert_int_equal(cop_stream_open(run, &options, streams_on_told, &takers[0], NULL),
                     0);
    runs_until(runs, streams_is_refused);
    assert_int_equal(takers[0].why, COP_EEXIST);
    assert_int_equal(cop_stream_open(runs->players[0].run, &options, streams_on_told,
                                     &takers[1], NULL),
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
        cmocka_unit_test_setup_teardown(the_front_end_is_at_the_root, streams_set_up,
                                        streams_tear_down),
        cmocka_unit_test_setup_teardown(the_front_end_is_elsewhere, streams_set_up,
                                        streams_tear_down),
        cmocka_unit_test_setup_teardown(it_is_closed_at_the_root, streams_set_up,
                                        streams_tear_down),
        cmocka_unit_test_setup_teardown(what_was_taken_of_another, streams_set_up,
                                        streams_tear_down),
        cmocka_unit_test_setup_teardown(closed_when_the_root_goes, streams_set_up,
                                        streams_tear_down),
        cmocka_unit_test_setup_teardown(told_of_an_older_view, streams_set_up,
                                        streams_tear_down),
        cmocka_unit_test_setup_teardown(replaced_when_it_hung, set_up_chain,
                                        streams_tear_down),
        cmocka_unit_test_setup_teardown(taken_when_it_moved, streams_set_up,
                                        streams_tear_down),
        cmocka_unit_test_setup_teardown(closed_was_another, streams_set_up,
                                        streams_tear_down),
        cmocka_unit_test_setup_teardown(the_root_is_back, streams_set_up,
                                        streams_tear_down),
        cmocka_unit_test_setup_teardown(given_to_one, streams_set_up,
                                        streams_tear_down),
        cmocka_unit_test_setup_teardown(it_is_closed_for_one_elsewhere, streams_set_up,
                                        streams_tear_down),
        cmocka_unit_test_setup_teardown(waves_are_by_themselves, streams_set_up,
                                        streams_tear_down),
        cmocka_unit_test_setup_teardown(the_root_dies, streams_set_up,
                                        streams_tear_down),
        cmocka_unit_test_setup_teardown(a_fragile_one_loses_a_leaf, streams_set_up,
                                        streams_tear_down),
        cmocka_unit_test_setup_teardown(a_fragile_one_loses_its_root, streams_set_up,
                                        streams_tear_down),
        cmocka_unit_test_setup_teardown(a_fragile_one_at_the_root, streams_set_up,
                                        streams_tear_down),
        cmocka_unit_test_setup_teardown(the_front_end_dies, streams_set_up,
                                        streams_tear_down),
        cmocka_unit_test_setup_teardown(another_one_goes_on, streams_set_up,
                                        streams_tear_down),
        cmocka_unit_test_setup_teardown(the_root_has_moved_to_an_elder, set_up_chain,
                                        streams_tear_down),
        cmocka_unit_test_setup_teardown(the_desk_has_moved_to_an_elder, set_up_chain,
                                        streams_tear_down),
        cmocka_unit_test_setup_teardown(what_cannot_be, streams_set_up,
                                        streams_tear_down),
        cmocka_unit_test(threads_wait),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
