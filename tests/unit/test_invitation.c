/* SPDX-License-Identifier: Apache-2.0 */
#include "solo.h"
#include "view/view.h"

#include <coppice/error.h>
#include <coppice/node.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
/* cmocka wants these first */
#include <cmocka.h>

/* One member alone, who is asked for invitations; and views that nobody can mean. */

struct world {
    struct cop_node *node;
    struct cop_effects effects;
    cop_time now;
};

static void begin(struct world *world)
{
    struct cop_shape shape;
    struct cop_view *view;
    *world = (struct world){.now = 1};
    assert_int_equal(cop_shape_make(COP_SHAPE_FLAT, 0, &shape), 0);
    assert_int_equal(cop_view_create_static(1, &shape, 1, &view), 0);
    struct cop_config config = {.incarnation = 1,
                                .view = view,
                                .quorum = COP_QUORUM_MAJORITY,
                                .now = world->now};
    assert_int_equal(cop_node_create(&config, &world->node), 0);
    cop_view_unref(view);
    struct cop_event tick = {.kind = COP_EVENT_TICK, .now = world->now};
    assert_int_equal(cop_step(world->node, &tick, &world->effects), 0);
}

static void end(struct world *world)
{
    cop_node_destroy(world->node);
    cop_effects_free(&world->effects);
}

/* The id of the invitation, or the error. */
static int64_t invite(struct world *world, const char *name,
                      cop_incarnation incarnation)
{
    struct cop_request request = {.kind = COP_REQUEST_INVITE,
                                  .token = 1,
                                  .name = name,
                                  .incarnation = incarnation};
    struct cop_event event = {
        .kind = COP_EVENT_SUBMIT, .now = world->now, .request = &request};
    assert_int_equal(cop_step(world->node, &event, &world->effects), 0);
    for (uint32_t i = 0; i < world->effects.count; i++) {
        const struct cop_effect *effect = &world->effects.items[i];
        struct cop_invitation invitation;
        if (effect->kind != COP_EFFECT_COMPLETE)
            continue;
        if (effect->status)
            return effect->status;
        assert_int_equal(
            cop_invitation(effect->result, cop_node_view(world->node), &invitation), 0);
        cop_view_unref(invitation.view);
        return invitation.id;
    }
    fail_msg("no answer");
    return 0;
}

/* Two of one name: the second is told, until the first has let its invitation go by. */
static void test_two_of_one_name(void **state)
{
    (void)state;
    struct world world;
    begin(&world);
    assert_int_equal(invite(&world, "x", 5), 1);
    assert_int_equal(invite(&world, "y", 5), 2);
    assert_int_equal(invite(&world, "x", 6), COP_EEXIST);
    assert_int_equal(invite(&world, "x", 5), 1);
    /* Nobody came: when its time is over the place is free again. */
    for (int i = 0; i < 10 && cop_deadline(world.node) != COP_TIME_NEVER; i++) {
        world.now = cop_deadline(world.node);
        struct cop_event tick = {.kind = COP_EVENT_TICK, .now = world.now};
        assert_int_equal(cop_step(world.node, &tick, &world.effects), 0);
    }
    assert_true(cop_deadline(world.node) == COP_TIME_NEVER);
    assert_true(invite(&world, "x", 6) > 0);
    end(&world);
}

/* What a root says that is no status is not handed to whoever asked. */
static void test_no_status(void **state)
{
    static const uint32_t wrong[] = {1, INT32_MAX, UINT32_C(1) << 31};
    static const struct cop_detect connections;
    (void)state;
    struct solo *solo = solo_create(4, 2, &connections, COP_QUORUM_MAJORITY);
    struct cop_request request = {
        .kind = COP_REQUEST_INVITE, .token = 9, .name = "x", .incarnation = 5};
    struct cop_event event = {.kind = COP_EVENT_SUBMIT, .request = &request};
    assert_int_equal(solo_event(solo, &event), 0);
    assert_int_equal(solo_sent(solo, COP__KIND_INVITE, 0), 1);
    for (uint32_t i = 0; i < 3; i++) {
        struct cop__msg_invited message = {.token = 9, .status = wrong[i]};
        solo_recv(solo, 0, COP__KIND_INVITED, cop__encode_invited(&message));
        assert_int_equal(solo->stats.ignored_malformed, i + 1);
    }
    assert_int_equal(solo_effects(solo, COP_EFFECT_COMPLETE, COP_ID_NONE), 0);
    struct cop__msg_invited message = {.token = 9, .status = (uint32_t)COP_EEXIST};
    solo_recv(solo, 0, COP__KIND_INVITED, cop__encode_invited(&message));
    assert_int_equal(solo_effects(solo, COP_EFFECT_COMPLETE, COP_ID_NONE), 1);
    solo_destroy(solo);
}

/* What an invitation for n1 says is to be exceeded. */
static cop_incarnation exceed_for(struct solo *solo, cop_incarnation incarnation,
                                  int *status)
{
    struct cop_request request = {.kind = COP_REQUEST_INVITE,
                                  .token = 9,
                                  .name = "n1",
                                  .incarnation = incarnation};
    struct cop_event event = {.kind = COP_EVENT_SUBMIT, .request = &request};
    solo_forget(solo);
    assert_int_equal(solo_event(solo, &event), 0);
    for (uint32_t i = 0; i < solo->effects.count; i++) {
        const struct cop_effect *effect = &solo->effects.items[i];
        struct cop_invitation invitation;
        if (effect->kind != COP_EFFECT_COMPLETE)
            continue;
        *status = effect->status;
        assert_int_equal(cop_invitation(effect->result, solo->view, &invitation), 0);
        cop_view_unref(invitation.view);
        return invitation.exceed;
    }
    fail_msg("no answer");
    return 0;
}

/* A life that asked to join and that no view ever had is one to exceed, too: its clock was
 * ahead, it died, and its clock was set. */
static void test_a_life_that_never_was(void **state)
{
    static const struct cop_detect connections;
    static const uint8_t card[] = {2, 'n', '1'};
    (void)state;
    int status;
    struct solo *solo = solo_create(3, 0, &connections, COP_QUORUM_MAJORITY);
    assert_int_equal(exceed_for(solo, 50, &status), 1);
    assert_int_equal(status, 0);
    struct cop__msg_join join = {
        .epoch = 99, .root = 2, .incarnation = 1, .card = {card, sizeof card}};
    struct cop_buf *payload = cop__encode_join(&join);
    struct cop_frame frame = {
        .header = {.kind = COP__KIND_JOIN,
                   .sender = 1,
                   .sender_incarnation = 100,
                   .receiver_incarnation = 1,
                   .epoch = cop_view_epoch(solo->view),
                   .length = payload->length},
        .payload = payload,
    };
    struct cop_event event = {.kind = COP_EVENT_RECV, .peer = 1, .frame = &frame};
    solo_event(solo, &event);
    cop_buf_unref(payload);
    assert_int_equal(exceed_for(solo, 60, &status), 100);
    assert_int_equal(status, COP_EREFUSED);
    assert_int_equal(exceed_for(solo, 100, &status), 1);
    assert_int_equal(status, 0);
    assert_int_equal(exceed_for(solo, 101, &status), 100);
    assert_int_equal(status, 0);
    solo_destroy(solo);
}

/* Somebody asks to be let in, in the view of now. */
static void ask_to_join(struct solo *solo, cop_id id)
{
    static const uint8_t card[] = {1, 'x'};
    struct cop_ballot ballot = cop_view_ballot(solo->view);
    struct cop__msg_join join = {.epoch = ballot.epoch,
                                 .root = ballot.root,
                                 .incarnation = ballot.incarnation,
                                 .card = {card, sizeof card}};
    solo_recv(solo, id, COP__KIND_JOIN, cop__encode_join(&join));
}

/* Who asks as an id that no view could have is not let in, and holds up nobody else: neither
 * a death nor whoever comes as the next. */
static void test_far_joiner(void **state)
{
    static const struct cop_detect connections;
    static const cop_id far[] = {COP_MEMBERS_MAX - 1, 5 + COP__HOLES_MAX};
    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        struct solo *solo = solo_create(5, 0, &connections, COP_QUORUM_MAJORITY);
        ask_to_join(solo, far[i]);
        solo_run(solo, solo->now + COP_SEC);
        assert_int_equal(solo_sent(solo, COP__KIND_ASK, COP_ID_NONE), 0);
        assert_int_equal(solo->stats.ignored_malformed, 1);
        ask_to_join(solo, 5);
        solo_down(solo, 4, COP_DOWN_REFUSED);
        solo_run(solo, solo->now + COP_SEC);
        assert_true(solo_sent(solo, COP__KIND_ASK, 5) > 0);
        solo_destroy(solo);
    }
}

/* A view that another root made: who asked to join was in one before it, and is lost. */
static void tell_that_it_is_lost(struct solo *solo, cop_id id)
{
    struct cop_ballot ballot = {cop_view_epoch(solo->view) + 1, 1, 1};
    struct cop__entry entry = {.id = id,
                               .role = id,
                               .incarnation = 1,
                               .presence = COP_REMOVED,
                               .since = ballot.epoch};
    struct cop__delta delta = {.items = &entry, .count = 1};
    struct cop_view *view;
    assert_int_equal(cop__view_derive(solo->view, &ballot, &delta, &view), 0);
    struct cop_buf *bytes = cop__view_encode(view);
    assert_non_null(bytes);
    struct cop__msg_whole whole = {.view = {bytes->data, bytes->length}};
    solo_recv(solo, 1, COP__KIND_WHOLE, cop__encode_whole(&whole));
    cop_buf_unref(bytes);
    cop_view_unref(view);
}

/* V15: who joins has a larger life than any that a view has seen end. This root has acknowledged
 * later proposals of its own, so it does not install that view, but it builds on it (V8, V4). */
static void test_a_life_that_has_ended(void **state)
{
    static const struct cop_detect connections;
    (void)state;
    struct solo *solo = solo_create(5, 0, &connections, COP_QUORUM_MAJORITY);
    cop_epoch before = cop_view_epoch(solo->view);
    ask_to_join(solo, 5);
    solo_run(solo, solo->now + 20 * COP_SEC); /* nobody answers: it proposes again */
    assert_true(solo->stats.proposals > 2);
    assert_true(solo_sent(solo, COP__KIND_ASK, 5) > 0);
    tell_that_it_is_lost(solo, 5);
    solo_run(solo, solo->now + 20 * COP_SEC); /* what was under way ends */
    assert_int_equal(cop_view_epoch(cop_node_view(solo->node)), before);
    solo_forget(solo);
    solo_run(solo, solo->now + 20 * COP_SEC);
    assert_true(solo_sent(solo, COP__KIND_ASK, 1) > 0);
    assert_int_equal(solo_sent(solo, COP__KIND_ASK, 5), 0);
    solo_destroy(solo);
}

/* Names end where strings end, and are for people to read. */
static void test_names_of_joiners(void **state)
{
    static const struct cop_detect connections;
    static const char *const names[] = {"n1\0x", "x\033[2J", "x\n", "x\177", "\001"};
    static const uint8_t lengths[] = {4, 5, 2, 2, 1};
    (void)state;
    struct solo *solo = solo_create(5, 0, &connections, COP_QUORUM_MAJORITY);
    struct cop_ballot ballot = cop_view_ballot(solo->view);
    for (uint32_t i = 0; i < 5; i++) {
        uint8_t card[8] = {lengths[i]};
        memcpy(card + 1, names[i], lengths[i]);
        struct cop__msg_join join = {.epoch = ballot.epoch,
                                     .root = ballot.root,
                                     .incarnation = ballot.incarnation,
                                     .card = {card, lengths[i] + 1u}};
        solo_recv(solo, 5 + i, COP__KIND_JOIN, cop__encode_join(&join));
        assert_int_equal(solo->stats.ignored_malformed, i + 1);
    }
    solo_run(solo, solo->now + COP_SEC);
    assert_int_equal(solo_sent(solo, COP__KIND_ASK, COP_ID_NONE), 0);
    solo_destroy(solo);
}

/* A view costs by what it says, not by what it leaves out. */
static void test_far_ids(void **state)
{
    (void)state;
    struct cop_shape shape;
    struct cop_view *start, *view = NULL;
    struct cop_ballot ballot = {2, 0, 1};
    struct cop__entry entry = {
        .incarnation = 1, .role = 4, .since = 2, .presence = COP_PRESENT};
    struct cop__delta delta = {.items = &entry, .count = 1};
    assert_int_equal(cop_shape_make(COP_SHAPE_FLAT, 0, &shape), 0);
    assert_int_equal(cop_view_create_static(4, &shape, 1, &start), 0);
    entry.id = COP_MEMBERS_MAX - 1;
    assert_int_equal(cop__view_derive(start, &ballot, &delta, &view), COP_EINVAL);
    assert_int_equal(cop__view_from_start(start, &ballot, &delta, &view), COP_EINVAL);
    entry.id = 4 + COP__HOLES_MAX;
    assert_int_equal(cop__view_derive(start, &ballot, &delta, &view), 0);
    assert_int_equal(cop_view_size(view), 5);
    cop_view_unref(view);
    cop_view_unref(start);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_of_one_name),
        cmocka_unit_test(test_no_status),
        cmocka_unit_test(test_a_life_that_never_was),
        cmocka_unit_test(test_far_ids),
        cmocka_unit_test(test_far_joiner),
        cmocka_unit_test(test_a_life_that_has_ended),
        cmocka_unit_test(test_names_of_joiners),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
