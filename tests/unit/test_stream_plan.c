/* SPDX-License-Identifier: Apache-2.0 */
/* What a stream is: the plan that all members read alike, and of two of one number the elder. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "failing_alloc.h"
#include "solo.h"
#include "stream/stream.h"

#include <coppice/filter.h>
#include <coppice/stream.h>
#include <string.h>

#define MEMBERS 31u
#define NUMBER 1u

static const struct cop_detect connections;

static bool has_stream(const struct solo *solo)
{
    struct cop_stream_info info;
    return cop_node_stream(solo->node, NUMBER, &info) == 0;
}

/* ---- filters down (T21) ---------------------------------------------------------- */

static struct cop_stream_options options_down(const char *filter, const char *type,
                                              const char *params)
{
    struct cop_stream_options options = {.number = NUMBER,
                                         .filter = "sum",
                                         .type = "u64",
                                         .window = 4,
                                         .down = filter,
                                         .down_type = type,
                                         .down_params = params};
    assert_int_equal(cop_shape_make(COP_SHAPE_KARY, 2, &options.shape), 0);
    return options;
}

/* To be unreferenced; NULL: the root does not open such a stream. */
static struct cop_buf *define(const struct cop_stream_options *options)
{
    struct solo *root = solo_create(MEMBERS, 0, &connections, COP_QUORUM_MAJORITY);
    struct cop_request request = {.kind = COP_REQUEST_STREAM_OPEN, .stream = options};
    struct cop_event event = {.kind = COP_EVENT_SUBMIT, .request = &request};
    struct cop_stream_info info;
    struct cop_buf *out = NULL;
    int error = solo_event(root, &event);
    assert_true(error == 0 || error == COP_EINVAL);
    if (error == 0) {
        assert_int_equal(cop_node_stream(root->node, NUMBER, &info), 0);
        assert_int_equal(info.down_filter != NULL, options->down != NULL);
        out = cop_buf_copy(info.definition->data, info.definition->length);
    }
    solo_destroy(root);
    return out;
}

/* A member that has it, and its place below `path`. */
static struct solo *member_with(cop_id self, const struct cop_buf *definition,
                                const cop_id *path, uint32_t count)
{
    struct solo *solo = solo_create(MEMBERS, self, &connections, COP_QUORUM_MAJORITY);
    uint8_t news[1024], ids[64];
    struct cop__writer writer = cop__writer(news, sizeof news);
    cop__put_u32(&writer, 1);
    cop__put_bytes(&writer, (struct cop__bytes){definition->data, definition->length});
    cop__put_u32(&writer, 0);
    cop__put_u32(&writer, 0);
    assert_false(writer.failed);
    struct cop__msg_adopt message = {.regeneration = 1,
                                     .path = solo_list_ids(path, count, ids),
                                     .news = {news, (uint32_t)(writer.at - news)}};
    solo_recv(solo, path[count - 1], COP__KIND_ADOPT, cop__encode_adopt(&message));
    return solo;
}

/* What the back-end was told of packet 1, "hello": 1 if nothing. */
static int tell_down(struct solo *solo, cop_id from, char text[64])
{
    struct cop__msg_down message = {.stream = solo_stream_key(solo, NUMBER),
                                    .number = 1,
                                    .bytes = {(const uint8_t *)"hello", 5}};
    struct cop_stream_event event;
    solo_recv(solo, from, COP__KIND_DOWN, cop__encode_down(&message));
    for (uint32_t i = 0; i < solo->effects.count; i++) {
        const struct cop_effect *effect = &solo->effects.items[i];
        if (effect->kind != COP_EFFECT_STREAM)
            continue;
        assert_int_equal(cop_stream_event(effect->result, &event), 0);
        if (event.kind != COP_STREAM_DOWN)
            continue;
        assert_int_equal(event.wave, 1);
        assert_true(event.length < 64);
        if (event.length)
            memcpy(text, event.bytes, event.length);
        text[event.length] = '\0';
        return event.status;
    }
    return 1;
}

static int give_down(const char *filter, const char *type, const char *params,
                     cop_id self, const cop_id *path, uint32_t count, char text[64])
{
    struct cop_stream_options options = options_down(filter, type, params);
    struct cop_buf *definition = define(&options);
    assert_non_null(definition);
    struct solo *solo = member_with(self, definition, path, count);
    int status = tell_down(solo, path[count - 1], text);
    assert_int_equal(solo->stats.stream_down_failed, status < 0);
    cop_buf_unref(definition);
    solo_destroy(solo);
    return status;
}

/* The way is the planned one, whoever carries the packet. */
static void test_down_by_the_plan(void **state)
{
    (void)state;
    const cop_id planned[] = {0, 1, 3}, other[] = {0, 2};
    char text[64];
    assert_int_equal(give_down("path", "text", NULL, 8, planned, 3, text), 0);
    assert_string_equal(text, "hello/0/1/3/8");
    assert_int_equal(give_down("path", NULL, "", 8, other, 2, text), 0);
    assert_string_equal(text, "hello/0/1/3/8");
    assert_int_equal(give_down("select", NULL, "to=4+8", 8, other, 2, text), 0);
    assert_string_equal(text, "hello");
    assert_int_equal(give_down("select", NULL, "to=4-7+9", 8, planned, 3, text), 1);
    /* Five bytes for 31: 18 has one, and 8 none. */
    assert_int_equal(give_down("scatter", NULL, NULL, 18, other, 2, text), 0);
    assert_string_equal(text, "l");
    assert_int_equal(give_down("scatter", NULL, NULL, 8, planned, 3, text), 0);
    assert_string_equal(text, "");
}

/* It is carried on as it came. */
static void test_down_is_carried_unchanged(void **state)
{
    (void)state;
    struct cop_stream_options options = options_down("path", NULL, NULL);
    struct cop_buf *definition = define(&options);
    const cop_id path[] = {0};
    char text[64];
    struct cop__msg_down message;
    struct solo *solo = member_with(1, definition, path, 1);
    assert_int_equal(tell_down(solo, 0, text), 0);
    assert_string_equal(text, "hello/0/1");
    assert_int_equal(solo_sent(solo, COP__KIND_DOWN, COP_ID_NONE), 2);
    const struct cop_buf *payload = solo_frame(solo, COP__KIND_DOWN, 0)->frame.payload;
    assert_int_equal(cop__decode_down(payload->data, payload->length, &message), 0);
    assert_int_equal(message.bytes.length, 5);
    assert_memory_equal(message.bytes.data, "hello", 5);
    cop_buf_unref(definition);
    solo_destroy(solo);
}

/* The back-end hears of it, and nothing else ends. */
static void test_down_that_fails(void **state)
{
    (void)state;
    const cop_id path[] = {0, 1, 3};
    char text[64];
    assert_int_equal(give_down("scatter", "u64[]", NULL, 8, path, 3, text), COP_EINVAL);
    assert_string_equal(text, "");
}

/* Where it is the node that has no memory the node stops, and nobody says that the filter failed. */
static void test_down_without_memory(void **state)
{
    (void)state;
    struct cop_stream_options options = options_down("path", NULL, NULL);
    struct cop_buf *definition = define(&options);
    const cop_id path[] = {0};
    bool was_hit = true;
    for (size_t n = 0; was_hit; n++) {
        struct solo *solo = member_with(30, definition, path, 1);
        struct cop__msg_down message = {.stream = solo_stream_key(solo, NUMBER),
                                        .number = 1,
                                        .bytes = {(const uint8_t *)"hello", 5}};
        struct cop_buf *payload = cop__encode_down(&message);
        failing_alloc_after(n);
        solo_recv(solo, 0, COP__KIND_DOWN, payload);
        failing_alloc_off();
        was_hit = failing_alloc_hit();
        assert_int_equal(solo->failed, was_hit ? COP_ENOMEM : 0);
        assert_int_equal(solo_tells(solo, COP_STREAM_DOWN), was_hit ? 0 : 1);
        assert_int_equal(solo->stats.stream_down_failed, 0);
        solo_destroy(solo);
    }
    cop_buf_unref(definition);
}

static void test_down_that_cannot_be(void **state)
{
    (void)state;
    static const char *const wrong[][3] = {{"nonesuch", NULL, NULL},
                                           {"sum", "u64", NULL},
                                           {"select", NULL, "to=x"},
                                           {"path", "u64", NULL},
                                           {"path", "u65", NULL}};
    for (uint32_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct cop_stream_options options =
            options_down(wrong[i][0], wrong[i][1], wrong[i][2]);
        assert_null(define(&options));
    }
    /* Nor does a filter down go up. */
    struct cop_stream_options options = options_down(NULL, NULL, NULL);
    options.filter = "path";
    options.type = "text";
    options.flags = COP_STREAM_SINGLE;
    assert_null(define(&options));
}

/* Without one a definition is what it was, so that members that do not know of such read it. Of
 * one with it, what is cut off is no stream. */
static void test_down_in_the_definition(void **state)
{
    (void)state;
    const cop_id path[] = {0, 1, 3};
    struct cop_stream_options without = options_down(NULL, NULL, NULL);
    struct cop_stream_options with = options_down("select", "text", "to=8");
    struct cop_buf *plain = define(&without), *whole = define(&with);
    /* Three texts, each behind its length, and the shape. */
    assert_int_equal(whole->length, plain->length + 12 + 6 + 4 + 4 + 5);
    assert_int_equal(whole->data[22], plain->data[22] | 32);
    for (uint32_t length = 0; length < whole->length; length++) {
        struct cop_buf *cut = cop_buf_copy(whole->data, length);
        struct solo *solo = member_with(8, cut, path, 3);
        /* Back-ends are whole ranges: without any it is a stream of nobody. */
        assert_true(!has_stream(solo) || length + 16 == whole->length);
        cop_buf_unref(cut);
        solo_destroy(solo);
    }
    cop_buf_unref(plain);
    cop_buf_unref(whole);
}

/* ---- two of one number (T1) ------------------------------------------------------ */

/* The same, planned in a later view, or by another. */
static struct cop_buf *define_later(uint64_t epoch, uint8_t opener)
{
    struct cop_stream_options options = options_down(NULL, NULL, NULL);
    struct cop_buf *out = define(&options);
    assert_non_null(out);
    out->data[39] = opener;
    out->data[51] = (uint8_t)epoch;
    return out;
}

static void say_defined(struct solo *solo, cop_id from,
                        const struct cop_buf *definition)
{
    uint8_t news[1024];
    struct cop__writer writer = cop__writer(news, sizeof news);
    cop__put_u32(&writer, 1);
    cop__put_bytes(&writer, (struct cop__bytes){definition->data, definition->length});
    cop__put_u32(&writer, 0);
    cop__put_u32(&writer, 0);
    assert_false(writer.failed);
    struct cop__msg_network message = {.news = {news, (uint32_t)(writer.at - news)}};
    solo_recv(solo, from, COP__KIND_NETWORK, cop__encode_network(&message));
}

static bool has_definition(const struct solo *solo, const struct cop_buf *definition)
{
    struct cop_stream_info info;
    assert_int_equal(cop_node_stream(solo->node, NUMBER, &info), 0);
    return info.definition->length == definition->length &&
           memcmp(info.definition->data, definition->data, definition->length) == 0;
}

/* Whichever comes first, the one that was planned first stays, and who has the other is told. */
static void test_elder_stays(void **state)
{
    (void)state;
    const cop_id way[] = {0, 1, 3};
    struct cop_buf *elder = define_later(1, 7), *later = define_later(2, 5);
    struct cop_buf *twin = define_later(1, 8);
    struct solo *solo = member_with(8, later, way, 3);
    solo_forget(solo);
    say_defined(solo, 3, elder);
    assert_true(has_definition(solo, elder));
    assert_int_equal(solo_tells(solo, COP_STREAM_CLOSED), 1);
    assert_int_equal(solo_tells(solo, COP_STREAM_OPENED), 1);
    assert_int_equal(solo->stats.stream_stillborn, 1);
    solo_forget(solo);
    say_defined(solo, 30, later);
    assert_true(has_definition(solo, elder));
    assert_int_equal(solo_sent(solo, COP__KIND_NETWORK, 30), 1);
    say_defined(solo, 30, twin);
    assert_true(has_definition(solo, elder));
    assert_int_equal(solo_sent(solo, COP__KIND_NETWORK, 30), 2);
    assert_int_equal(solo->stats.stream_stillborn, 1);
    solo_destroy(solo);
    solo = member_with(8, twin, way, 3);
    say_defined(solo, 3, elder);
    assert_true(has_definition(solo, elder));
    solo_destroy(solo);
    cop_buf_unref(elder);
    cop_buf_unref(later);
    cop_buf_unref(twin);
}

static int put_for(struct solo *solo, uint64_t key)
{
    uint64_t value = 1;
    struct cop_request request = {.kind = COP_REQUEST_STREAM_PUT,
                                  .group = NUMBER,
                                  .key = key,
                                  .bytes = &value,
                                  .length = sizeof value};
    return solo_event(
        solo, &(struct cop_event){.kind = COP_EVENT_SUBMIT, .request = &request});
}

/* Who has yet to hear that the elder took the place of its stream gives the elder nothing. */
static void test_packets_of_another(void **state)
{
    (void)state;
    const cop_id way[] = {0, 1, 3};
    struct cop_buf *elder = define_later(1, 7), *later = define_later(2, 5);
    struct solo *solo = member_with(8, later, way, 3);
    struct cop_stream_info before, now;
    assert_int_equal(cop_node_stream(solo->node, NUMBER, &before), 0);
    assert_int_equal(put_for(solo, before.key), 0);
    say_defined(solo, 3, elder);
    assert_int_equal(put_for(solo, before.key), COP_ESTATE);
    assert_int_equal(cop_node_stream(solo->node, NUMBER, &now), 0);
    assert_int_equal(now.given, 0);
    assert_int_equal(put_for(solo, now.key), 0);
    assert_int_equal(put_for(solo, 0), 0);
    solo_destroy(solo);
    cop_buf_unref(elder);
    cop_buf_unref(later);
}

/* A front-end that took over is at the root, where nobody has heard of the stream: it is told that
 * there was one, attaches to that, and what it took of its own does not count. */
static void test_front_end_goes_to_the_elder(void **state)
{
    (void)state;
    struct cop_buf *elder = define_later(0, 7);
    struct cop_stream_options options = options_down(NULL, NULL, NULL);
    struct cop_buf *mine = define(&options);
    struct solo *root = solo_create(MEMBERS, 0, &connections, COP_QUORUM_MAJORITY);
    struct cop_request request = {
        .kind = COP_REQUEST_STREAM_OPEN, .stream = &options, .reached = 2, .wave = 3};
    struct cop_event event = {.kind = COP_EVENT_SUBMIT, .request = &request};
    struct cop_stream_info info;
    options.definition = mine;
    assert_int_equal(solo_event(root, &event), 0);
    assert_int_equal(cop_node_stream(root->node, NUMBER, &info), 0);
    assert_int_equal(info.mark, 3);
    say_defined(root, 8, elder);
    assert_true(has_definition(root, elder));
    assert_int_equal(solo_tells(root, COP_STREAM_MOVED), 1);
    assert_int_equal(solo_event(root, &event), 0);
    assert_int_equal(cop_node_stream(root->node, NUMBER, &info), 0);
    assert_int_equal(info.mark, 0);
    assert_int_equal(info.down, 0);
    options.definition = elder;
    assert_int_equal(solo_event(root, &event), 0);
    assert_int_equal(cop_node_stream(root->node, NUMBER, &info), 0);
    assert_int_equal(info.mark, 3);
    solo_destroy(root);
    cop_buf_unref(elder);
    cop_buf_unref(mine);
}

/* T1: every member plans the same, in the same view; but where views stand still, nothing. */
static void test_planned_by_any_member(void **state)
{
    (void)state;
    struct cop_stream_options options = options_down("scatter", NULL, NULL);
    struct cop_buf *plans[2];
    for (uint32_t i = 0; i < 2; i++) {
        struct solo *solo =
            solo_create(MEMBERS, 7 * i, &connections, COP_QUORUM_MAJORITY);
        assert_int_equal(cop__stream_plan(solo->node, &options, &plans[i]), 0);
        plans[i]->data[39] = 0; /* whose front-end it is */
        solo_destroy(solo);
    }
    assert_int_equal(plans[0]->length, plans[1]->length);
    assert_memory_equal(plans[0]->data, plans[1]->data, plans[0]->length);
    cop_buf_unref(plans[0]);
    cop_buf_unref(plans[1]);
    struct solo *fixed = solo_create(MEMBERS, 0, &connections, COP_QUORUM_FIXED);
    assert_int_equal(cop__stream_plan(fixed->node, &options, plans), COP_ESTATE);
    solo_destroy(fixed);
}

/* ---- how many (T23) -------------------------------------------------------------- */

static int ask_for(struct solo *root, uint64_t number, enum cop_request_kind kind)
{
    struct cop_stream_options options = {
        .number = number, .filter = "sum", .type = "u64", .window = 4};
    assert_int_equal(cop_shape_make(COP_SHAPE_KARY, 2, &options.shape), 0);
    struct cop_request request = {.kind = kind, .group = number, .stream = &options};
    struct cop_event event = {.kind = COP_EVENT_SUBMIT, .request = &request};
    int error = solo_event(root, &event);
    solo_forget(root);
    return error;
}

/* All that a new neighbour is told of them at once has to fit into a frame. */
static void test_many_fit_into_a_frame(void **state)
{
    (void)state;
    struct solo *root = solo_create(MEMBERS, 0, &connections, COP_QUORUM_MAJORITY);
    uint64_t opened = 0;
    int error;
    while ((error = ask_for(root, opened + 1, COP_REQUEST_STREAM_OPEN)) == 0)
        assert_true(++opened < 10000);
    assert_int_equal(error, COP_ETOOBIG);
    assert_true(opened > 1000);
    const uint8_t nothing[12] = {0};
    struct cop__msg_attach attach = {.number = 1, .news = {nothing, sizeof nothing}};
    solo_recv(root, 9, COP__KIND_ATTACH, cop__encode_attach(&attach));
    assert_true(solo_frame(root, COP__KIND_ADOPT, 0)->frame.payload->length <
                COP__FRAME_MAX);
    solo_forget(root);
    assert_int_equal(ask_for(root, 1, COP_REQUEST_STREAM_CLOSE), 0);
    assert_int_equal(ask_for(root, opened + 1, COP_REQUEST_STREAM_OPEN), 0);
    solo_destroy(root);
}

/* Whoever says that there are any number of them is not believed. */
static void test_too_many_are_not_heard(void **state)
{
    (void)state;
    struct cop_stream_options options = options_down(NULL, NULL, NULL);
    struct cop_buf *definition = define(&options);
    struct solo *solo = member_with(5, definition, (const cop_id[]){0, 2}, 2);
    uint8_t news[1024];
    uint64_t number = NUMBER;
    while (solo->stats.ignored_unasked == 0) {
        assert_true(++number < 10000);
        struct cop__writer writer = cop__writer(definition->data + 8, 8);
        cop__put_u64(&writer, number);
        writer = cop__writer(news, sizeof news);
        cop__put_u32(&writer, 1);
        cop__put_bytes(&writer,
                       (struct cop__bytes){definition->data, definition->length});
        cop__put_u64(&writer, 0); /* none was closed, nobody attached */
        struct cop__msg_network message = {
            .news = {news, (uint32_t)(writer.at - news)}};
        solo_recv(solo, 2, COP__KIND_NETWORK, cop__encode_network(&message));
        solo_forget(solo);
    }
    assert_true(number > 1000);
    cop_buf_unref(definition);
    solo_destroy(solo);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_too_many_are_not_heard),
        cmocka_unit_test(test_many_fit_into_a_frame),
        cmocka_unit_test(test_down_by_the_plan),
        cmocka_unit_test(test_down_is_carried_unchanged),
        cmocka_unit_test(test_down_that_fails),
        cmocka_unit_test(test_down_without_memory),
        cmocka_unit_test(test_down_that_cannot_be),
        cmocka_unit_test(test_down_in_the_definition),
        cmocka_unit_test(test_elder_stays),
        cmocka_unit_test(test_packets_of_another),
        cmocka_unit_test(test_front_end_goes_to_the_elder),
        cmocka_unit_test(test_planned_by_any_member),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
