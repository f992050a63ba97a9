/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "talk/diary.h"

#include <coppice/error.h>
#include <stdio.h>
#include <string.h>

/* ---- a diary, and what is shown of it -------------------------------------------- */

static struct diary diary;
static struct diary_reader reader;
static char shown[2000];

static int set_up(void **state)
{
    (void)state;
    struct cop_shape shape;
    diary = (struct diary){.serial = 1};
    reader = (struct diary_reader){0};
    shown[0] = '\0';
    struct roll *roll = &diary.roll;
    *roll = (struct roll){.self = 1, .incarnation = 7, .is_member = true, .n = 5};
    roll->serial = 1;
    roll->first = 7;
    strcpy(roll->shape, "flat");
    strcpy(roll->quorum, "majority");
    if (cop_shape_parse("flat", &shape, NULL, 0) != 0)
        return -1;
    return cop_view_create_static(5, &shape, 7, &roll->view);
}

static int tear_down(void **state)
{
    (void)state;
    roll_free(&diary.roll);
    return 0;
}

static struct cop_suspicion *accuse(cop_time at, cop_id accused)
{
    uint64_t number = diary.count ? diary.suspicions[diary.count - 1].number + 1 : 0;
    struct cop_suspicion *suspicion = &diary.suspicions[diary.count++];
    *suspicion = (struct cop_suspicion){
        .number = number, .at = at, .accuser = 1, .accused = accused, .incarnation = 7};
    return suspicion;
}

static void change(cop_time at, cop_epoch epoch, cop_id id)
{
    struct roll_event *event = &diary.roll.events[diary.roll.event_count++];
    *event = (struct roll_event){.epoch = epoch, .at_ns = at};
    event->change.id = id;
    event->change.kind = COP_VIEW_LEFT;
    event->presence = COP_REMOVED;
    diary.roll.event_total++;
}

static void show(void *context, const struct diary_entry *entry)
{
    static const char *const outcomes[] = {"pending", "denied", "unconfirmed",
                                           "removed"};
    (void)context;
    size_t used = strlen(shown);
    char *at = shown + used;
    size_t size = sizeof shown - used;
    unsigned time = (unsigned)entry->at_ns;
    if (entry->kind == DIARY_LOST)
        snprintf(at, size, "%u lost %u\n", time, (unsigned)entry->lost);
    else if (entry->kind == DIARY_CHANGED)
        snprintf(at, size, "%u view %u: %u %s\n", time, (unsigned)entry->event->epoch,
                 (unsigned)entry->event->change.id, roll_event_name(entry->event));
    else
        snprintf(at, size, "%u %s %u %s\n", time,
                 entry->kind == DIARY_SETTLED ? "settled" : "suspected",
                 (unsigned)entry->suspicion->accused,
                 outcomes[entry->suspicion->outcome]);
}

static void expect_shown(cop_time now, const char *text)
{
    shown[0] = '\0';
    diary_read(&reader, &diary, now, show, NULL);
    assert_string_equal(shown, text);
}

/* ---- bytes ----------------------------------------------------------------------- */

static int decode(const uint8_t *data, uint32_t length, struct diary *out)
{
    return diary_decode((struct cop__bytes){data, length}, out);
}

static void test_round_trip(void **state)
{
    (void)state;
    static struct diary out;
    accuse(10, 3)->outcome = COP_OUTCOME_REMOVED;
    accuse(20, 4);
    change(15, 2, 3);
    struct cop_buf *buf = diary_encode(&diary);
    assert_non_null(buf);
    assert_int_equal(decode(buf->data, buf->length, &out), 0);
    assert_int_equal(out.serial, 1);
    assert_int_equal(out.count, 2);
    assert_memory_equal(out.suspicions, diary.suspicions, 2 * sizeof *out.suspicions);
    assert_int_equal(out.roll.event_count, 1);
    assert_int_equal(out.roll.event_total, 1);
    assert_int_equal(out.roll.events[0].presence, COP_REMOVED);
    roll_free(&out.roll);
    for (uint32_t length = 0; length < buf->length; length++)
        assert_int_equal(decode(buf->data, length, &out), COP_EMALFORMED);
    cop_buf_unref(buf);
}

/* The reason and the outcome index tables of words. */
static void test_numbers_out_of_range(void **state)
{
    (void)state;
    static struct diary out;
    accuse(10, 3);
    accuse(20, 4);
    const uint32_t reason = 8 + 4 + 8 + 8 + 4 + 4 + 8, outcome = reason + 1;
    struct cop_buf *buf = diary_encode(&diary);
    assert_non_null(buf);
    buf->data[reason] = COP_REASON_HEARSAY + 1;
    assert_int_equal(decode(buf->data, buf->length, &out), COP_EMALFORMED);
    buf->data[reason] = 0;
    buf->data[outcome] = COP_OUTCOME_REMOVED + 1;
    assert_int_equal(decode(buf->data, buf->length, &out), COP_EMALFORMED);
    buf->data[outcome] = 0;
    buf->data[12] = 1; /* the number of the first: that of the second */
    assert_int_equal(decode(buf->data, buf->length, &out), COP_EMALFORMED);
    buf->data[8] = COP_SUSPICIONS_MAX + 1;
    assert_int_equal(decode(buf->data, buf->length, &out), COP_EMALFORMED);
    cop_buf_unref(buf);
}

/* ---- reading --------------------------------------------------------------------- */

static void test_by_time(void **state)
{
    (void)state;
    accuse(10, 3)->outcome = COP_OUTCOME_DENIED;
    accuse(30, 4);
    change(20, 2, 2);
    change(40, 3, 0);
    expect_shown(50, "10 suspected 3 denied\n20 view 2: 2 removed\n"
                     "30 suspected 4 pending\n40 view 3: 0 removed\n");
    expect_shown(60, "");
}

static void test_outcome_follows(void **state)
{
    (void)state;
    accuse(10, 3);
    accuse(20, 4);
    expect_shown(50, "10 suspected 3 pending\n20 suspected 4 pending\n");
    diary.suspicions[0].outcome = COP_OUTCOME_NOT_CONFIRMED;
    accuse(60, 3);
    expect_shown(70, "70 settled 3 unconfirmed\n60 suspected 3 pending\n");
    diary.suspicions[1].outcome = COP_OUTCOME_REMOVED;
    diary.suspicions[1].epoch = 2;
    change(75, 2, 4);
    expect_shown(80, "75 settled 4 removed\n75 view 2: 4 removed\n");
    expect_shown(90, "");
}

/* Records have numbers: what was not kept long enough to be read is counted. */
static void test_lost(void **state)
{
    (void)state;
    accuse(10, 3)->number = 5;
    diary.roll.event_total = 2;
    expect_shown(50, "50 lost 7\n10 suspected 3 pending\n");
    diary.count = 0;
    accuse(60, 2)->number = 9;
    expect_shown(70, "70 lost 3\n60 suspected 2 pending\n");
    change(75, 2, 4);
    diary.roll.event_total += 4;
    expect_shown(80, "80 lost 4\n75 view 2: 4 removed\n");
}

/* Another agent goes on: its numbers are its own, and what is old was shown by the first. */
static void test_another_agent(void **state)
{
    (void)state;
    accuse(10, 3);
    accuse(20, 4);
    change(15, 2, 2);
    expect_shown(50, "10 suspected 3 pending\n15 view 2: 2 removed\n"
                     "20 suspected 4 pending\n");
    diary.roll.self = 2;
    diary.count = 0;
    accuse(11, 3)->outcome = COP_OUTCOME_DENIED;
    diary.suspicions[0].number = 40;
    accuse(60, 1);
    change(61, 3, 1);
    expect_shown(70,
                 "70 settled 3 denied\n60 suspected 1 pending\n61 view 3: 1 removed\n");
    /* The same life is accused again, and that is what counts. */
    accuse(75, 4);
    expect_shown(80, "75 suspected 4 pending\n");
    diary.suspicions[2].outcome = COP_OUTCOME_DENIED;
    expect_shown(90, "90 settled 4 denied\n90 settled 4 denied\n");
}

/* No record says what came of it, and the view does. */
static void test_view_settles(void **state)
{
    (void)state;
    accuse(10, 3);
    diary.suspicions[0].incarnation = 6;
    accuse(20, 4);
    expect_shown(50, "10 suspected 3 pending\n20 suspected 4 pending\n");
    diary.roll.self = 2;
    diary.count = 0;
    expect_shown(60, "60 settled 3 removed\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_round_trip, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_numbers_out_of_range, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_by_time, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_outcome_follows, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_lost, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_another_agent, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_view_settles, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
