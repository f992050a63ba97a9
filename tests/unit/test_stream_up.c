/* SPDX-License-Identifier: Apache-2.0 */
/* Waves on their way up: what goes; and filters that fail, where their stream ends and the node goes
 * on (T22). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "failing_alloc.h"
#include "solo.h"

#include <coppice/filter.h>
#include <coppice/stream.h>
#include <string.h>

#define MEMBERS 7u /* 0 over 1 and 2; 1 over 3 and 4; 2 over 5 and 6 */
#define NUMBER 1u
#define OTHER 2u

/* ---- sums of somebody else, which fail when they are told to ----------------------- */

static enum call { NONE, INIT, LIFT, JOIN, DIFF, CHECK } failing;
static int code;
static int joins_left; /* that go well before one fails; below 0: it has */

static const struct cop_filter *sum(void) { return cop_filter_find("sum"); }

static int my_init(const char *type, const char *params, struct cop_filter_out *out)
{
    return failing == INIT ? code : sum()->init(type, params, out);
}

static int my_lift(struct cop_span empty, const struct cop_packet *packet,
                   struct cop_filter_out *out)
{
    return failing == LIFT ? code : sum()->lift(empty, packet, out);
}

static int my_join(struct cop_span a, struct cop_span b, struct cop_filter_out *out)
{
    return failing == JOIN && joins_left-- <= 0 ? code : sum()->join(a, b, out);
}

static int my_diff(struct cop_span now, struct cop_span old, struct cop_filter_out *out)
{
    return failing == DIFF ? code : sum()->diff(now, old, out);
}

static int my_check(struct cop_span state)
{
    return failing == CHECK ? code : sum()->check(state);
}

static struct cop_filter mine;
static const struct cop_filter *const filters[] = {&mine};

static int set_up(void **state)
{
    (void)state;
    mine = *sum();
    mine.name = "mine";
    mine.init = my_init;
    mine.lift = my_lift;
    mine.join = my_join;
    mine.diff = my_diff;
    mine.check = my_check;
    failing = NONE;
    joins_left = 0;
    return 0;
}

/* ---- a node, and what others say to it -------------------------------------------- */

static struct cop_stream_options options_of(uint64_t number, const char *filter,
                                            uint32_t flags)
{
    struct cop_stream_options options = {
        .number = number, .filter = filter, .type = "u64", .flags = flags, .window = 4};
    assert_int_equal(cop_shape_make(COP_SHAPE_KARY, 2, &options.shape), 0);
    return options;
}

static int open_at(struct solo *root, uint64_t number, const char *filter,
                   uint32_t flags)
{
    struct cop_stream_options options = options_of(number, filter, flags);
    struct cop_request request = {.kind = COP_REQUEST_STREAM_OPEN, .stream = &options};
    struct cop_event event = {.kind = COP_EVENT_SUBMIT, .request = &request};
    return solo_event(root, &event);
}

static int put(struct solo *solo, uint64_t number, uint64_t value)
{
    struct cop_request request = {.kind = COP_REQUEST_STREAM_PUT,
                                  .group = number,
                                  .bytes = &value,
                                  .length = sizeof value};
    struct cop_event event = {.kind = COP_EVENT_SUBMIT, .request = &request};
    return solo_event(solo, &event);
}

static void tick(struct solo *solo)
{
    struct cop_event event = {.kind = COP_EVENT_TICK};
    solo_event(solo, &event);
}

/* 0 is above all; its stream of somebody else's sums, and another one of ours. */
static struct solo *root_with(uint32_t members, uint32_t flags)
{
    struct solo *root = solo_create_filtering(members, 0, filters, 1);
    assert_int_equal(open_at(root, NUMBER, "mine", flags), 0);
    assert_int_equal(open_at(root, OTHER, "sum", flags), 0);
    return root;
}

/* What 0 tells 1 of both, in one text. */
static struct cop_buf *news_of_root(uint32_t flags)
{
    struct solo *root = root_with(MEMBERS, flags);
    struct cop_stream_info mine_info, other_info;
    assert_int_equal(cop_node_stream(root->node, NUMBER, &mine_info), 0);
    assert_int_equal(cop_node_stream(root->node, OTHER, &other_info), 0);
    const struct cop_buf *first = mine_info.definition, *second = other_info.definition;
    struct cop_buf *news =
        cop_buf_create(4 * 5 + (size_t)first->length + second->length);
    struct cop__writer writer = cop__writer(news->data, news->length);
    cop__put_u32(&writer, 2);
    cop__put_bytes(&writer, (struct cop__bytes){first->data, first->length});
    cop__put_bytes(&writer, (struct cop__bytes){second->data, second->length});
    cop__put_u32(&writer, 0);
    cop__put_u32(&writer, 0);
    assert_true(!writer.failed && writer.at == writer.end);
    solo_destroy(root);
    return news;
}

/* A member that has heard of them from its parent, and has those below it as children. */
static struct solo *member_with(cop_id self, cop_id parent, uint32_t flags)
{
    struct cop_buf *news = news_of_root(flags);
    uint8_t ids[8];
    struct cop__writer writer = cop__writer(ids, sizeof ids);
    cop__put_u32(&writer, 0);
    if (parent != 0)
        cop__put_u32(&writer, parent);
    struct cop__msg_adopt message = {.regeneration = 1,
                                     .path = {ids, parent ? 2 : 1},
                                     .news = {news->data, news->length}};
    struct solo *solo = solo_create_filtering(MEMBERS, self, filters, 1);
    solo_recv(solo, parent, COP__KIND_ADOPT, cop__encode_adopt(&message));
    cop_buf_unref(news);
    return solo;
}

static bool has_stream(const struct solo *solo, uint64_t number)
{
    struct cop_stream_info info;
    return cop_node_stream(solo->node, number, &info) == 0;
}

/* The state of one packet. To be unreferenced. */
static struct cop_buf *state_of(uint64_t value)
{
    struct cop_packet packet = {.type = "u64",
                                .data = {(const uint8_t *)&value, sizeof value}};
    struct cop_buf *empty, *state;
    assert_int_equal(cop_filter_init(sum(), "u64", "", &empty), 0);
    assert_int_equal(cop_filter_lift(sum(), empty, &packet, &state), 0);
    cop_buf_unref(empty);
    return state;
}

/* A wave of a child, with 7 in it. To be received. A whole one covers the child alone; below 1 and 2
 * it has one who departed. */
static struct cop_buf *wave_of(const struct solo *solo, uint64_t number, cop_id from,
                               uint64_t wave, bool whole)
{
    uint8_t rest[128];
    struct cop__writer writer = cop__writer(rest, sizeof rest);
    struct cop_stream_info info;
    assert_int_equal(cop_node_stream(solo->node, number, &info), 0);
    struct cop_buf *state = state_of(7);
    cop__put_u32(&writer, 16);
    cop__put_u32(&writer, from);
    cop__put_u32(&writer, 1);
    cop__put_u64(&writer, 1);
    if (from == 1 || from == 2) {
        cop__put_u32(&writer, 2 * from + 1);
        cop__put_u64(&writer, 1);
        cop__put_u64(&writer, 1);
        cop__put_bytes(&writer, (struct cop__bytes){state->data, state->length});
    }
    assert_false(writer.failed);
    struct cop__msg_wave message = {.stream = info.key,
                                    .wave = wave,
                                    .flags = whole,
                                    .state = {state->data, state->length},
                                    .rest = {rest, (uint32_t)(writer.at - rest)}};
    if (!whole)
        message.rest.length = 0;
    struct cop_buf *payload = cop__encode_wave(&message);
    assert_non_null(payload);
    cop_buf_unref(state);
    return payload;
}

static void say_wave(struct solo *solo, uint64_t number, cop_id from, uint64_t wave,
                     bool whole)
{
    solo_recv(solo, from, COP__KIND_WAVE, wave_of(solo, number, from, wave, whole));
}

/* Of the last step: what was told of a stream, of that kind; false: nothing. */
static bool told(const struct solo *solo, uint64_t number,
                 enum cop_stream_event_kind kind, struct cop_stream_event *out)
{
    for (uint32_t i = 0; i < solo->effects.count; i++) {
        const struct cop_effect *effect = &solo->effects.items[i];
        if (effect->kind != COP_EFFECT_STREAM || effect->token != number)
            continue;
        assert_int_equal(cop_stream_event(effect->result, out), 0);
        if (out->kind == kind)
            return true;
    }
    return false;
}

/* What was said to `to` of streams that are over: why this one is. 1: nothing. */
static int said_closed(const struct solo *solo, cop_id to, uint64_t number)
{
    uint32_t count = solo_sent(solo, COP__KIND_NETWORK, COP_ID_NONE);
    for (uint32_t i = 0; i < count; i++) {
        const struct cop_effect *effect = solo_frame(solo, COP__KIND_NETWORK, i);
        struct cop__msg_network message;
        const struct cop_buf *payload = effect->frame.payload;
        assert_int_equal(cop__decode_network(payload->data, payload->length, &message),
                         0);
        struct cop__reader reader = cop__reader(message.news.data, message.news.length);
        for (uint32_t j = cop__get_u32(&reader); j > 0; j--)
            cop__get_bytes(&reader);
        for (uint32_t j = cop__get_u32(&reader); j > 0 && effect->peer == to; j--) {
            uint64_t name = cop__get_u64(&reader);
            int why = -(int)cop__get_u32(&reader);
            assert_false(reader.failed);
            if (name == number)
                return why;
        }
    }
    return 1;
}

/* `from` says that a stream is over. */
static void say_closed(struct solo *solo, cop_id from, uint64_t number, int why)
{
    uint8_t news[24];
    struct cop__writer writer = cop__writer(news, sizeof news);
    cop__put_u32(&writer, 0);
    cop__put_u32(&writer, 1);
    cop__put_u64(&writer, number);
    cop__put_u32(&writer, (uint32_t)-why);
    cop__put_u32(&writer, 0);
    struct cop__msg_network message = {.news = {news, sizeof news}};
    solo_recv(solo, from, COP__KIND_NETWORK, cop__encode_network(&message));
}

/* The stream ends in the next step, with this; the node, and the other stream, do not. */
static void expect_end(struct solo *solo, int status)
{
    struct cop_stream_event event;
    assert_int_equal(solo->failed, 0);
    assert_true(has_stream(solo, NUMBER));
    failing = NONE;
    tick(solo);
    assert_true(told(solo, NUMBER, COP_STREAM_CLOSED, &event));
    assert_int_equal(event.status, status);
    assert_int_equal(event.length, strlen("mine"));
    assert_memory_equal(event.bytes, "mine", event.length);
    assert_false(has_stream(solo, NUMBER));
    assert_true(has_stream(solo, OTHER));
    assert_int_equal(solo->failed, 0);
}

/* ---- tests ----------------------------------------------------------------------- */

static const int codes[][2] = {{COP_ENOMEM, COP_ENOMEM},
                               {COP_ETOOBIG, COP_ETOOBIG},
                               {COP_EINVAL, COP_EINVAL},
                               {17, COP_EBUG}};
#define CODES (sizeof codes / sizeof *codes)

/* The packet is not taken, and who gave it hears that; the next one is. COP_ENOMEM is what a step
 * says of a node that has stopped. */
static void test_a_packet_on_which_it_fails(void **state)
{
    (void)state;
    struct solo *root = root_with(1, 0);
    struct cop_stream_info info;
    struct cop_stream_event event;
    for (uint32_t i = 0; i < CODES; i++) {
        failing = LIFT;
        code = codes[i][0];
        int said = codes[i][1] == COP_ENOMEM ? COP_EBUG : codes[i][1];
        assert_int_equal(put(root, NUMBER, 7), said);
        assert_int_equal(root->failed, 0);
        assert_int_equal(cop_node_stream(root->node, NUMBER, &info), 0);
        assert_int_equal(info.given, 0);
    }
    failing = NONE;
    assert_int_equal(put(root, NUMBER, 7), 0);
    assert_true(told(root, NUMBER, COP_STREAM_OUTPUT, &event));
    assert_int_equal(event.wave, 1);
    solo_destroy(root);
}

/* At the root: what it has put out stays, and nothing comes of the wave on which it fails. */
static void test_a_join_at_the_root(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < CODES; i++) {
        struct cop_stream_event event;
        struct solo *root = root_with(1, 0);
        assert_int_equal(put(root, NUMBER, 7), 0);
        failing = JOIN;
        code = codes[i][0];
        assert_int_equal(put(root, NUMBER, 8), 0);
        assert_false(told(root, NUMBER, COP_STREAM_OUTPUT, &event));
        expect_end(root, codes[i][1]);
        assert_int_equal(open_at(root, NUMBER, "mine", 0), COP_EEXIST);
        assert_int_equal(put(root, OTHER, 7), 0);
        assert_true(told(root, OTHER, COP_STREAM_OUTPUT, &event));
        solo_destroy(root);
    }
}

/* Between: nothing of it goes up, and all neighbours hear why it is over. Also where this member
 * only carries it. */
static void test_a_join_between(void **state)
{
    (void)state;
    for (uint32_t flags = 0; flags <= COP_STREAM_LEAVES; flags++) {
        struct solo *solo = member_with(1, 0, flags);
        say_wave(solo, NUMBER, 3, 0, true);
        solo_forget(solo);
        failing = JOIN;
        code = COP_ENOMEM;
        joins_left = 1; /* which compares parameters */
        say_wave(solo, NUMBER, 4, 0, true);
        assert_int_equal(joins_left, -1);
        assert_int_equal(solo_sent(solo, COP__KIND_WAVE, COP_ID_NONE), 0);
        expect_end(solo, COP_ENOMEM);
        assert_int_equal(said_closed(solo, 0, NUMBER), COP_ENOMEM);
        assert_int_equal(said_closed(solo, 3, NUMBER), COP_ENOMEM);
        assert_int_equal(said_closed(solo, 4, NUMBER), COP_ENOMEM);
        /* The other one goes on. */
        say_wave(solo, OTHER, 3, 0, true);
        solo_forget(solo);
        say_wave(solo, OTHER, 4, 0, true);
        assert_int_equal(solo_sent(solo, COP__KIND_WAVE, 0), 1);
        solo_destroy(solo);
    }
}

/* What a child says is a state, for all that is known: a wave that was dropped would be missing in
 * all that come after it. But where the filter says that it is none, that is the child's fault. */
static void test_a_state_that_it_cannot_check(void **state)
{
    (void)state;
    struct solo *solo = member_with(1, 0, 0);
    failing = CHECK;
    code = COP_EMALFORMED;
    say_wave(solo, NUMBER, 3, 0, true);
    assert_int_equal(solo->stats.ignored_malformed, 1);
    tick(solo);
    assert_true(has_stream(solo, NUMBER));
    code = COP_ENOMEM;
    say_wave(solo, NUMBER, 3, 0, true);
    assert_int_equal(solo->stats.ignored_malformed, 1);
    expect_end(solo, COP_ENOMEM);
    solo_destroy(solo);
}

/* All that a root joins for an output: states to be checked, slots, and who departed. */
static void put_out(struct solo *root)
{
    assert_int_equal(put(root, NUMBER, 7), 0);
    say_wave(root, NUMBER, 1, 1, true);
    say_wave(root, NUMBER, 2, 1, true);
}

/* And one between: what waits, and more of it than the window has; and what goes up then. */
static void send_up(struct solo *solo)
{
    say_wave(solo, NUMBER, 3, 0, true);
    say_wave(solo, NUMBER, 4, 0, true);
    for (uint64_t wave = 1; wave <= 6; wave++)
        say_wave(solo, NUMBER, 3, wave, false);
    assert_int_equal(put(solo, NUMBER, 7), 0);
    say_wave(solo, NUMBER, 4, 1, false);
}

/* Whichever join it is that fails. */
static void test_every_join(void **state)
{
    (void)state;
    for (int is_root = 0; is_root < 2; is_root++) {
        bool has_failed = true;
        for (int n = 0; has_failed; n++) {
            struct cop_stream_event event;
            struct solo *solo = is_root ? root_with(MEMBERS, 0) : member_with(1, 0, 0);
            solo_forget(solo);
            failing = JOIN;
            code = COP_ENOMEM;
            joins_left = n;
            is_root ? put_out(solo) : send_up(solo);
            has_failed = joins_left < 0;
            assert_int_equal(solo->stats.ignored_malformed, 0);
            assert_int_equal(told(solo, NUMBER, COP_STREAM_OUTPUT, &event),
                             is_root && !has_failed);
            assert_true(has_failed || n >= 8);
            if (has_failed)
                expect_end(solo, COP_ENOMEM);
            failing = NONE;
            solo_destroy(solo);
        }
    }
}

/* Whether wave 1 goes up whole; `replaced`: a child has said all of it anew. */
static bool goes_whole(bool replaced)
{
    struct solo *solo = member_with(1, 0, 0);
    struct cop__msg_wave message;
    enum call then = failing;
    failing = NONE;
    say_wave(solo, NUMBER, 3, 0, true);
    say_wave(solo, NUMBER, 4, 0, true);
    solo_forget(solo);
    failing = then;
    say_wave(solo, NUMBER, 3, 1, replaced);
    say_wave(solo, NUMBER, 4, 1, false);
    assert_int_equal(solo_sent(solo, COP__KIND_WAVE, COP_ID_NONE), 0);
    assert_int_equal(put(solo, NUMBER, 7), 0); /* for which they have waited */
    assert_int_equal(solo_sent(solo, COP__KIND_WAVE, 0), 1);
    const struct cop_buf *payload = solo_frame(solo, COP__KIND_WAVE, 0)->frame.payload;
    assert_int_equal(cop__decode_wave(payload->data, payload->length, &message), 0);
    assert_int_equal(message.wave, 1);
    tick(solo);
    assert_true(has_stream(solo, NUMBER));
    solo_destroy(solo);
    return message.flags & 1;
}

/* T4: where a slot was replaced all of it goes up; otherwise what is new, unless that is asked of the
 * filter, which cannot make it. */
static void test_what_goes_up(void **state)
{
    (void)state;
    assert_false(goes_whole(false));
    assert_true(goes_whole(true));
    failing = DIFF;
    code = COP_ENOMEM;
    assert_false(goes_whole(false));
    mine.flags |= COP_FILTER_IDEMPOTENT;
    assert_true(goes_whole(false));
}

/* It is as if there were no such filter here. */
static void test_it_cannot_begin(void **state)
{
    (void)state;
    struct cop_buf *news = news_of_root(0);
    uint8_t ids[4] = {0};
    struct cop__msg_adopt message = {
        .regeneration = 1, .path = {ids, 1}, .news = {news->data, news->length}};
    struct solo *solo = solo_create_filtering(MEMBERS, 1, filters, 1);
    failing = INIT;
    code = COP_ENOMEM;
    solo_recv(solo, 0, COP__KIND_ADOPT, cop__encode_adopt(&message));
    assert_int_equal(solo->failed, 0);
    assert_false(has_stream(solo, NUMBER));
    assert_true(has_stream(solo, OTHER));
    solo_destroy(solo);
    cop_buf_unref(news);
    struct solo *root = solo_create_filtering(MEMBERS, 0, filters, 1);
    assert_int_equal(open_at(root, NUMBER, "mine", 0), COP_EINVAL);
    assert_int_equal(root->failed, 0);
    solo_destroy(root);
}

/* Elsewhere: the front-end hears why, and so does who asks later for a network that is over. */
static void test_it_failed_elsewhere(void **state)
{
    (void)state;
    struct cop_stream_event event;
    for (int why = 0; why >= COP_ENOMEM; why--) {
        struct solo *root = root_with(MEMBERS, 0);
        solo_forget(root);
        say_closed(root, 1, NUMBER, why);
        assert_true(told(root, NUMBER, COP_STREAM_CLOSED, &event));
        assert_int_equal(event.status, why);
        assert_int_equal(event.length, 0);
        assert_int_equal(said_closed(root, 1, NUMBER), 1);
        assert_int_equal(said_closed(root, 2, NUMBER), why);
        say_closed(root, 1, OTHER, 0);
        solo_forget(root);
        struct cop__msg_attach message = {.number = 1};
        solo_recv(root, 5, COP__KIND_ATTACH, cop__encode_attach(&message));
        assert_int_equal(said_closed(root, 5, NUMBER), why);
        assert_int_equal(said_closed(root, 5, OTHER), 0);
        solo_destroy(root);
    }
}

/* Who has no parent has nobody above who would pass it on. */
static void test_it_fails_at_an_orphan(void **state)
{
    (void)state;
    struct solo *solo = member_with(3, 1, 0);
    struct cop__msg_detach message = {.number = 0};
    assert_int_equal(put(solo, NUMBER, 7), 0);
    solo_recv(solo, 1, COP__KIND_DETACH, cop__encode_detach(&message));
    solo_forget(solo);
    failing = JOIN;
    code = COP_ENOMEM;
    assert_int_equal(put(solo, NUMBER, 8), 0);
    expect_end(solo, COP_ENOMEM);
    assert_int_equal(said_closed(solo, 0, NUMBER), COP_ENOMEM);
    solo_destroy(solo);
}

/* Where it is the library that has no memory the node stops, whoever's filter it is: when a wave
 * comes and is joined, and when a packet is given. */
static void test_without_memory(void **state)
{
    (void)state;
    for (uint64_t number = NUMBER; number <= OTHER; number++) {
        bool was_hit = true;
        for (size_t n = 0; was_hit; n++) {
            struct solo *solo = member_with(1, 0, 0);
            say_wave(solo, number, 3, 0, true);
            struct cop_buf *payload = wave_of(solo, number, 4, 0, true);
            failing_alloc_after(n);
            solo_recv(solo, 4, COP__KIND_WAVE, payload);
            failing_alloc_off();
            was_hit = failing_alloc_hit();
            assert_int_equal(solo->failed, was_hit ? COP_ENOMEM : 0);
            solo_destroy(solo);
        }
        was_hit = true;
        for (size_t n = 0; was_hit; n++) {
            struct solo *solo = member_with(1, 0, 0);
            failing_alloc_after(n);
            put(solo, number, 7);
            failing_alloc_off();
            was_hit = failing_alloc_hit();
            assert_int_equal(solo->failed, was_hit ? COP_ENOMEM : 0);
            solo_destroy(solo);
        }
    }
}

/* ---- what the one above does not know ------------------------------------------------ */

/* Loses its parent and is taken in by whom it asks, which knows one of the two streams, or both. */
static cop_id change_parent(struct solo *solo, cop_id from, bool knows_both)
{
    struct cop__msg_detach no = {0};
    solo_recv(solo, from, COP__KIND_DETACH, cop__encode_detach(&no));
    assert_int_equal(solo_sent(solo, COP__KIND_ATTACH, COP_ID_NONE), 1);
    const struct cop_effect *asked = solo_frame(solo, COP__KIND_ATTACH, 0);
    const struct cop_buf *payload = asked->frame.payload;
    cop_id parent = asked->peer;
    struct cop__msg_attach message;
    assert_int_equal(cop__decode_attach(payload->data, payload->length, &message), 0);

    uint8_t ids[8], news[12] = {0}, places[80] = {0};
    struct cop__writer way = cop__writer(ids, sizeof ids);
    cop__put_u32(&way, 0);
    if (parent != 0)
        cop__put_u32(&way, parent);
    const uint64_t known[] = {NUMBER, OTHER};
    for (size_t i = 0; i < 2; i++) {
        struct cop_stream_info info;
        struct cop__writer place = cop__writer(places + 40 * i, 40);
        assert_int_equal(cop_node_stream(solo->node, known[i], &info), 0);
        cop__put_u64(&place, info.key);
    }
    struct cop__msg_adopt yes = {.number = message.number,
                                 .regeneration = 1,
                                 .path = {ids, parent ? 2 : 1},
                                 .news = {news, sizeof news},
                                 .places = {places, knows_both ? 80 : 40}};
    solo_forget(solo);
    solo_recv(solo, parent, COP__KIND_ADOPT, cop__encode_adopt(&yes));
    return parent;
}

/* T3: a stream of which one has heard between asking and being taken in; before its waves. */
static void test_adopter_is_told_of_what_it_does_not_know(void **state)
{
    (void)state;
    for (int knows_both = 0; knows_both < 2; knows_both++) {
        struct solo *solo = member_with(3, 1, 0);
        put(solo, OTHER, 5);
        solo_forget(solo);
        cop_id parent = change_parent(solo, 1, knows_both);
        assert_int_equal(solo_sent(solo, COP__KIND_NETWORK, parent), !knows_both);
        assert_true(solo_sent(solo, COP__KIND_WAVE, parent) >= 2);
        bool has_waved = false;
        for (uint32_t i = 0; i < solo->effects.count; i++) {
            const struct cop_effect *effect = &solo->effects.items[i];
            if (effect->kind != COP_EFFECT_SEND)
                continue;
            has_waved |= effect->frame.header.kind == COP__KIND_WAVE;
            assert_false(has_waved && effect->frame.header.kind == COP__KIND_NETWORK);
        }
        solo_destroy(solo);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_a_packet_on_which_it_fails, set_up),
        cmocka_unit_test_setup(test_a_join_at_the_root, set_up),
        cmocka_unit_test_setup(test_a_join_between, set_up),
        cmocka_unit_test_setup(test_every_join, set_up),
        cmocka_unit_test_setup(test_a_state_that_it_cannot_check, set_up),
        cmocka_unit_test_setup(test_what_goes_up, set_up),
        cmocka_unit_test_setup(test_it_cannot_begin, set_up),
        cmocka_unit_test_setup(test_it_failed_elsewhere, set_up),
        cmocka_unit_test_setup(test_it_fails_at_an_orphan, set_up),
        cmocka_unit_test_setup(test_without_memory, set_up),
        cmocka_unit_test_setup(test_adopter_is_told_of_what_it_does_not_know, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
