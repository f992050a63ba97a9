/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions: nothing lost, nothing twice, everything in order, over connections that break
 * anywhere. The first part is a model with thousands of seeds: two sides that run the real
 * session, link and handshake code, joined by connections that deliver any number of bytes
 * at a time, break at any byte, cross each other, and outlive each other. The second part
 * has the cases that a person would think of.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "net/tcp/handshake.h"
#include "wire/messages.h"

/* ---- the model ------------------------------------------------------------------- */

#define WIRES 16

struct pipe {
    uint8_t *bytes;
    size_t length, capacity;
    bool closed; /* nothing more will be written: after the bytes comes the end */
};

enum end_state { END_DEAD, END_GREETED, END_WAITING, END_OPEN };

/* One end of a connection. It reads from its own pipe and writes to the other end's. */
struct end {
    enum end_state state;
    struct cop__link link;
    struct pipe in;
    struct end *other;
    struct side *side;
};

struct wire {
    struct end ends[2]; /* 0 connected, 1 accepted */
};

struct side {
    struct cop__identity identity;
    struct cop__acquaintance friend;
    struct end *open, *attempt;
    uint64_t pushed[COP__LANES]; /* to the other's incarnation of now */
    uint64_t came[COP__LANES];   /* from the other's incarnation of now */
    struct side *other;
};

struct model {
    struct cop__random random;
    struct cop_view *view;
    struct side sides[2];
    struct wire wires[WIRES];
    uint8_t space[COP__BATCH_SPACE];
    uint64_t seed;
    uint64_t breaks, crossings, stale, resent, restarts, delivered;
};

static uint64_t below(struct model *model, uint64_t bound)
{
    return cop__random_below(&model->random, bound);
}

static void pipe_put(struct pipe *pipe, const uint8_t *data, size_t length)
{
    if (pipe->length + length > pipe->capacity) {
        pipe->capacity = 2 * (pipe->length + length);
        pipe->bytes = realloc(pipe->bytes, pipe->capacity);
        assert_non_null(pipe->bytes);
    }
    memcpy(pipe->bytes + pipe->length, data, length);
    pipe->length += length;
}

static void end_write(struct end *end, const uint8_t *data, size_t length)
{
    if (end->other->state != END_DEAD && !end->other->in.closed && length > 0)
        pipe_put(&end->other->in, data, length);
}

static void end_die(struct end *end)
{
    struct side *side = end->side;
    if (end->state == END_DEAD)
        return;
    if (side->open == end) {
        side->open = NULL;
        cop__session_break(&side->friend.session);
    }
    if (side->attempt == end)
        side->attempt = NULL;
    end->state = END_DEAD;
    end->other->in.closed = true;
    cop__link_fini(&end->link);
    free(end->in.bytes);
    memset(&end->in, 0, sizeof end->in);
}

static void refuse(struct model *model, struct end *end, enum cop__refusal refusal)
{
    uint8_t bytes[COP__GREETING_MAX];
    size_t length = cop__refuse_write(refusal, 0, bytes);
    assert_true(length > 0);
    end_write(end, bytes, length);
    model->crossings += refusal == COP__REFUSE_CROSSED;
    model->stale += refusal == COP__REFUSE_STALE;
    end_die(end);
}

static void open_end(struct model *model, struct end *end,
                     const struct cop__greeting *greeting)
{
    struct side *side = end->side;
    uint64_t resent = 0;
    if (side->open)
        end_die(side->open);
    enum cop__refusal refusal = cop__greeting_accept(&side->friend, greeting, &resent);
    assert_int_equal(refusal, COP__REFUSE_NONE);
    model->resent += resent;
    side->open = end;
    side->attempt = NULL;
    end->state = END_OPEN;
    cop__link_open(&end->link, &side->friend.session);
}

static void on_hello(struct model *model, struct end *end, struct cop__item *item)
{
    struct side *side = end->side;
    struct cop__greeting greeting;
    uint8_t bytes[COP__GREETING_MAX];
    enum cop__refusal refusal = cop__hello_judge(&side->identity, item, &greeting);
    enum cop__attempt attempt =
        side->attempt ? COP__ATTEMPT_GREETED : COP__ATTEMPT_NONE;
    if (refusal == COP__REFUSE_NONE)
        refusal =
            cop__hello_admit(&side->identity, &side->friend, 0, attempt, &greeting);
    if (refusal != COP__REFUSE_NONE) {
        refuse(model, end, refusal);
        return;
    }
    if (side->attempt)
        end_die(side->attempt);
    open_end(model, end, &greeting);
    size_t length = cop__welcome_write(&side->identity, &side->friend, false, bytes);
    end_write(end, bytes, length);
}

static void on_welcome(struct model *model, struct end *end, struct cop__item *item)
{
    struct cop__greeting greeting;
    struct side *side = end->side;
    enum cop__refusal refusal = cop__welcome_judge(
        &side->identity, side->other->identity.self, item, &greeting);
    assert_int_equal(refusal, COP__REFUSE_NONE);
    if (greeting.incarnation < side->friend.session.incarnation)
        end_die(end);
    else
        open_end(model, end, &greeting);
}

/* The payload: lane, number, for whom, and bytes that follow from the number. */
static void on_frame(struct model *model, struct side *side, struct cop_frame *frame)
{
    struct cop__reader reader =
        cop__reader(frame->payload->data, frame->payload->length);
    uint64_t number = cop__get_u64(&reader);
    cop_incarnation from = frame->header.sender_incarnation;
    int lane =
        frame->header.kind == COP__KIND_DATA ? COP__LANE_BULK : COP__LANE_CONTROL;
    cop_incarnation life = side->identity.incarnation;
    if (from == side->other->identity.incarnation) {
        assert_int_equal(frame->header.receiver_incarnation, life);
        assert_int_equal(number, side->came[lane] + 1);
        side->came[lane] = number;
    }
    for (uint32_t i = 8; i < frame->payload->length; i++)
        assert_int_equal(frame->payload->data[i], (uint8_t)(number + i));
    model->delivered++;
    cop_buf_unref(frame->payload);
}

static void end_read(struct model *model, struct end *end, size_t limit)
{
    size_t length = end->in.length < limit ? end->in.length : limit;
    uint8_t *copy = malloc(length + 1);
    assert_non_null(copy);
    memcpy(copy, end->in.bytes, length);
    memmove(end->in.bytes, end->in.bytes + length, end->in.length - length);
    end->in.length -= length;
    struct cop__bytes in = {copy, (uint32_t)length};
    struct cop__item item;
    int found = 0;
    while (end->state != END_DEAD &&
           (found = cop__link_input(&end->link, &in, &item)) > 0) {
        if (item.type == COP__RECORD_FRAME)
            on_frame(model, end->side, &item.frame);
        else if (item.type == COP__RECORD_HELLO && end->state == END_WAITING)
            on_hello(model, end, &item);
        else if (item.type == COP__RECORD_WELCOME && end->state == END_GREETED)
            on_welcome(model, end, &item);
        else if (item.type == COP__RECORD_REFUSE)
            end_die(end);
        cop_buf_unref(item.body);
    }
    assert_true(found >= 0);
    free(copy);
}

static void step_end(struct model *model, struct end *end, size_t limit)
{
    if (end->state == END_DEAD)
        return;
    if (end->in.length == 0 && end->in.closed)
        end_die(end);
    else if (end->in.length > 0)
        end_read(model, end, limit);
}

static void pump(struct model *model, struct side *side)
{
    struct cop__batch batch;
    if (!side->open)
        return;
    if (cop__session_must_tell(&side->friend.session))
        side->open->link.must_tell = true;
    cop__batch_init(&batch, model->space, sizeof model->space);
    cop__link_gather(&side->open->link, &batch);
    for (uint32_t i = 0; i < batch.count; i++)
        end_write(side->open, batch.spans[i].iov_base, batch.spans[i].iov_len);
}

static void push(struct model *model, struct side *side)
{
    bool is_bulk = below(model, 3) == 0;
    enum cop__lane_index lane = is_bulk ? COP__LANE_BULK : COP__LANE_CONTROL;
    uint32_t length =
        16 + (uint32_t)below(model, is_bulk && below(model, 4) == 0 ? 60000 : 300);
    uint64_t number = ++side->pushed[lane];
    struct cop_frame frame = {
        .header = {.kind = is_bulk ? COP__KIND_DATA : COP__KIND_NEWS,
                   .sender = side->identity.self,
                   .receiver = side->other->identity.self,
                   .sender_incarnation = side->identity.incarnation,
                   .receiver_incarnation = side->other->identity.incarnation,
                   .length = length},
        .payload = cop_buf_create(length),
    };
    assert_non_null(frame.payload);
    struct cop__writer writer = cop__writer(frame.payload->data, 8);
    cop__put_u64(&writer, number);
    for (uint32_t i = 8; i < length; i++)
        frame.payload->data[i] = (uint8_t)(number + i);
    assert_int_equal(cop__session_push(&side->friend.session, lane, &frame), 0);
    cop_buf_unref(frame.payload);
}

static void connect_side(struct model *model, struct side *side)
{
    struct wire *wire = NULL;
    for (int i = 0; i < WIRES && !wire; i++)
        if (model->wires[i].ends[0].state == END_DEAD &&
            model->wires[i].ends[1].state == END_DEAD)
            wire = &model->wires[i];
    if (side->open || side->attempt || !wire)
        return;
    memset(wire, 0, sizeof *wire);
    for (int i = 0; i < 2; i++) {
        cop__link_init(&wire->ends[i].link);
        wire->ends[i].other = &wire->ends[1 - i];
        wire->ends[i].side = i == 0 ? side : side->other;
    }
    wire->ends[0].state = END_GREETED;
    wire->ends[1].state = END_WAITING;
    side->attempt = &wire->ends[0];
    uint8_t bytes[COP__GREETING_MAX];
    size_t length = cop__hello_write(&side->identity, side->other->identity.self,
                                     &side->friend, false, bytes);
    end_write(&wire->ends[0], bytes, length);
}

/* The tail of what is under way is lost; each end finds out after what is left. */
static void break_wire(struct model *model, struct wire *wire)
{
    for (int i = 0; i < 2; i++) {
        struct end *end = &wire->ends[i];
        if (end->state == END_DEAD)
            continue;
        end->in.length = (size_t)below(model, end->in.length + 1);
        end->in.closed = true;
        model->breaks++;
    }
}

static void restart(struct model *model, struct side *side)
{
    for (int i = 0; i < WIRES; i++)
        for (int j = 0; j < 2; j++)
            if (model->wires[i].ends[j].side == side)
                end_die(&model->wires[i].ends[j]);
    cop__acquaintance_fini(&side->friend);
    cop__acquaintance_init(&side->friend);
    side->identity.incarnation++;
    for (int i = 0; i < COP__LANES; i++) {
        side->came[i] = side->pushed[i] = 0;
        side->other->came[i] = side->other->pushed[i] = 0;
    }
    model->restarts++;
}

/* One that somebody still holds, if the dice find it. */
static struct wire *any_wire(struct model *model)
{
    struct wire *wire = &model->wires[below(model, WIRES)];
    for (int i = 0; i < WIRES && wire->ends[0].state == END_DEAD &&
                    wire->ends[1].state == END_DEAD;
         i++)
        wire = &model->wires[below(model, WIRES)];
    return wire;
}

static void act(struct model *model)
{
    struct side *side = &model->sides[below(model, 2)];
    uint64_t choice = below(model, 1000);
    if (choice < 200)
        push(model, side);
    else if (choice < 400)
        pump(model, side);
    else if (choice < 880)
        for (int i = 0; i < WIRES; i++)
            step_end(model, &model->wires[i].ends[below(model, 2)],
                     1 + (size_t)below(model, below(model, 4) ? 200 : 70000));
    else if (choice < 950)
        connect_side(model, side);
    else if (choice < 997)
        break_wire(model, any_wire(model));
    else
        restart(model, side);
}

static void check(struct model *model)
{
    for (int i = 0; i < 2; i++) {
        const char *problem = cop__session_check(&model->sides[i].friend.session);
        if (problem)
            fail_msg("seed %llu: %s", (unsigned long long)model->seed, problem);
    }
}

static bool is_settled(const struct model *model)
{
    for (int i = 0; i < 2; i++) {
        const struct side *side = &model->sides[i];
        if (cop__session_is_owing(&side->friend.session))
            return false;
        for (int lane = 0; lane < COP__LANES; lane++)
            if (side->pushed[lane] != side->other->came[lane])
                return false;
    }
    return true;
}

/* No more faults: soon everything has come, and nothing is kept any more. */
static void heal(struct model *model)
{
    for (int round = 0; round < 400 && !is_settled(model); round++) {
        for (int i = 0; i < 2; i++) {
            connect_side(model, &model->sides[i]);
            if (model->sides[i].open)
                model->sides[i].open->link.must_tell = true;
            pump(model, &model->sides[i]);
        }
        for (int i = 0; i < 2 * WIRES; i++)
            step_end(model, &model->wires[i / 2].ends[i % 2], SIZE_MAX);
    }
    if (!is_settled(model))
        fail_msg("seed %llu: does not settle", (unsigned long long)model->seed);
}

static void model_run(struct model *model, struct cop_view *view, uint64_t seed)
{
    memset(model->wires, 0, sizeof model->wires);
    model->seed = seed;
    model->view = view;
    cop__random_init(&model->random, seed);
    for (cop_id i = 0; i < 2; i++) {
        struct side *side = &model->sides[i];
        memset(side, 0, sizeof *side);
        side->identity = (struct cop__identity){{7}, 3, i, 5, view, false};
        side->other = &model->sides[1 - i];
        cop__acquaintance_init(&side->friend);
    }
    uint64_t actions = 50 + below(model, 300);
    for (uint64_t i = 0; i < actions; i++) {
        act(model);
        check(model);
    }
    heal(model);
    check(model);
    for (int i = 0; i < 2 * WIRES; i++)
        end_die(&model->wires[i / 2].ends[i % 2]);
    for (int i = 0; i < 2; i++)
        cop__acquaintance_fini(&model->sides[i].friend);
}

static struct cop_view *make_view(uint32_t n)
{
    struct cop_shape shape;
    struct cop_view *view;
    assert_int_equal(cop_shape_make(COP_SHAPE_KARY, 2, &shape), 0);
    assert_int_equal(cop_view_create_static(n, &shape, 1, &view), 0);
    return view;
}

static void breaks_lose_nothing(void **state)
{
    (void)state;
    struct model *model = calloc(1, sizeof *model);
    assert_non_null(model);
    struct cop_view *view = make_view(2);
    const char *wish = getenv("COPPICE_SESSION_SEEDS");
    uint64_t seeds = wish ? strtoull(wish, NULL, 10) : 3000;
    for (uint64_t seed = 1; seed <= seeds; seed++)
        model_run(model, view, seed);
    print_message(
        "%llu frames, %llu ends broken, %llu crossed, %llu stale, %llu resent, "
        "%llu restarts\n",
        (unsigned long long)model->delivered, (unsigned long long)model->breaks,
        (unsigned long long)model->crossings, (unsigned long long)model->stale,
        (unsigned long long)model->resent, (unsigned long long)model->restarts);
    /* A model that never gets there checks nothing. */
    assert_true(model->delivered > 0 && model->breaks > 0 && model->crossings > 0);
    assert_true(model->stale > 0 && model->resent > 0 && model->restarts > 0);
    cop_view_unref(view);
    free(model);
}

/* ---- by hand --------------------------------------------------------------------- */

static void push_one(struct cop__session *session, cop_incarnation receiver,
                     uint32_t length)
{
    struct cop_frame frame = {
        .header = {.kind = COP__KIND_NEWS,
                   .receiver_incarnation = receiver,
                   .length = length},
        .payload = cop_buf_create(length),
    };
    assert_non_null(frame.payload);
    assert_int_equal(cop__session_push(session, COP__LANE_CONTROL, &frame), 0);
    cop_buf_unref(frame.payload);
}

static void counts_that_cannot_be(void **state)
{
    (void)state;
    struct cop__session session;
    cop__session_init(&session);
    cop__session_meet(&session, 9);
    for (int i = 0; i < 3; i++)
        push_one(&session, 9, 100);
    cop__session_advance(&session, COP__LANE_CONTROL);
    cop__session_advance(&session, COP__LANE_CONTROL);
    struct cop__counts counts = {{3, 0}};
    assert_int_equal(cop__session_counted(&session, &counts), COP_EMALFORMED);
    counts = (struct cop__counts){{0, 1}};
    assert_int_equal(cop__session_counted(&session, &counts), COP_EMALFORMED);
    counts = (struct cop__counts){{2, 0}};
    assert_int_equal(cop__session_counted(&session, &counts), 0);
    counts = (struct cop__counts){{1, 0}};
    assert_int_equal(cop__session_counted(&session, &counts), COP_EMALFORMED);
    assert_int_equal(cop__session_resume(&session, &counts, NULL), COP_EMALFORMED);
    counts = (struct cop__counts){{3, 0}};
    assert_int_equal(cop__session_resume(&session, &counts, NULL), COP_EMALFORMED);
    counts = (struct cop__counts){{UINT64_MAX, 0}};
    assert_int_equal(cop__session_counted(&session, &counts), COP_EMALFORMED);
    assert_int_equal(cop__session_resume(&session, &counts, NULL), COP_EMALFORMED);
    assert_null(cop__session_check(&session));
    cop__session_fini(&session);
}

static void another_life_starts_at_zero(void **state)
{
    (void)state;
    struct cop__session session;
    cop__session_init(&session);
    assert_true(cop__session_meet(&session, 5));
    for (uint32_t i = 0; i < 100; i++)
        push_one(&session, i % 2 ? 6 : 5, 8 + i);
    cop__session_received(&session, COP__LANE_CONTROL, 100);
    cop__session_advance(&session, COP__LANE_CONTROL);
    assert_false(cop__session_meet(&session, 5));
    assert_true(cop__session_meet(&session, 6));
    assert_int_equal(cop__session_counts(&session).lanes[COP__LANE_CONTROL], 0);
    for (uint32_t i = 1; i < 100; i += 2) {
        const struct cop__kept *kept = cop__session_next(&session, COP__LANE_CONTROL);
        assert_non_null(kept);
        assert_int_equal(kept->header.receiver_incarnation, 6);
        assert_int_equal(kept->header.length, 8 + i);
        cop__session_advance(&session, COP__LANE_CONTROL);
    }
    assert_null(cop__session_next(&session, COP__LANE_CONTROL));
    assert_null(cop__session_check(&session));
    cop__session_fini(&session);
}

static void too_much_kept_is_a_loss(void **state)
{
    (void)state;
    struct cop__session session;
    struct cop_frame frame = {
        .header = {.kind = COP__KIND_NEWS,
                   .receiver_incarnation = 4,
                   .length = 1 << 20},
        .payload = cop_buf_create(1 << 20),
    };
    assert_non_null(frame.payload);
    cop__session_init(&session);
    cop__session_meet(&session, 4);
    int pushed = 0, error;
    while ((error = cop__session_push(&session, COP__LANE_CONTROL, &frame)) == 0)
        pushed++;
    assert_int_equal(error, COP_ELOST);
    assert_int_equal(pushed, 63);
    assert_true(session.lost);
    /* It stays so, even if there is room again: there would be a hole in the middle. */
    for (int i = 0; i < 10; i++)
        cop__session_advance(&session, COP__LANE_CONTROL);
    struct cop__counts counts = {{10, 0}};
    assert_int_equal(cop__session_counted(&session, &counts), 0);
    assert_int_equal(cop__session_push(&session, COP__LANE_CONTROL, &frame), COP_ELOST);
    /* Another life begins without a debt. */
    cop__session_meet(&session, 5);
    assert_false(cop__session_is_owing(&session));
    assert_int_equal(cop__session_push(&session, COP__LANE_CONTROL, &frame), 0);
    cop__session_fini(&session);
    assert_int_equal(frame.payload->refs, 1);
    cop_buf_unref(frame.payload);
}

static void telling_is_due_by_frames_and_bytes(void **state)
{
    (void)state;
    struct cop__session session;
    cop__session_init(&session);
    for (uint32_t i = 1; i < COP__SESSION_UNTOLD_FRAMES; i++)
        cop__session_received(&session, i % 2 ? COP__LANE_BULK : COP__LANE_CONTROL,
                              100);
    assert_true(cop__session_has_untold(&session));
    assert_false(cop__session_must_tell(&session));
    cop__session_received(&session, COP__LANE_CONTROL, 100);
    assert_true(cop__session_must_tell(&session));
    cop__session_told(&session);
    assert_false(cop__session_has_untold(&session));
    cop__session_received(&session, COP__LANE_BULK, COP__SESSION_UNTOLD_BYTES);
    assert_true(cop__session_must_tell(&session));
    cop__session_fini(&session);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(breaks_lose_nothing),
        cmocka_unit_test(counts_that_cannot_be),
        cmocka_unit_test(another_life_starts_at_zero),
        cmocka_unit_test(too_much_kept_is_a_loss),
        cmocka_unit_test(telling_is_due_by_frames_and_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
