/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/messages.h"

#include <coppice/stats.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
/* cmocka wants these first */
#include <cmocka.h>

#define COUNTERS (sizeof(struct cop_stats) / sizeof(uint64_t))

struct heard {
    uint32_t count;
    uint64_t sum;
    char name[64];
    const char *wanted; /* a name to look for */
    uint64_t value;     /* of it */
};

static void hear(void *context, const char *name, uint64_t value)
{
    struct heard *heard = context;
    heard->count++;
    heard->sum += value;
    strncpy(heard->name, name, sizeof heard->name - 1);
    if (heard->wanted && strcmp(heard->wanted, name) == 0)
        heard->value = value;
}

static void test_nothing(void **state)
{
    (void)state;
    struct cop_stats stats = {0};
    struct heard heard = {0};
    cop_stats_each(&stats, hear, &heard);
    assert_int_equal(heard.count, 0);
}

/* Is this the counter of a kind that does not exist (yet)? */
static bool is_spare(size_t i)
{
    return i < 2 * COP_STATS_KINDS && i % COP_STATS_KINDS >= COP__KINDS;
}

/* No counter is forgotten, and none is called twice: each alone gives itself. */
static void test_every_counter_is_visited(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNTERS; i++) {
        uint64_t words[COUNTERS] = {0};
        struct cop_stats stats;
        struct heard heard = {0};
        words[i] = 1000 + i;
        memcpy(&stats, words, sizeof stats);
        if (is_spare(i))
            continue;
        cop_stats_each(&stats, hear, &heard);
        if (heard.count != 1)
            fail_msg("counter %zu is visited %u times", i, (unsigned)heard.count);
        assert_int_equal(heard.sum, 1000 + i);
        assert_true(strlen(heard.name) > 0);
    }
}

static uint64_t value_of(const struct cop_stats *stats, const char *name)
{
    struct heard heard = {.wanted = name};
    cop_stats_each(stats, hear, &heard);
    return heard.value;
}

static void test_names(void **state)
{
    (void)state;
    struct cop_stats stats = {0};
    stats.sent[COP__INDEX_NEWS] = 1;
    stats.received[COP__INDEX_ASK] = 2;
    stats.sent_bytes = 3;
    stats.steps = 4;
    stats.supplements = 5;
    stats.ignored_repeated = 6;
    assert_int_equal(value_of(&stats, "sent_news"), 1);
    assert_int_equal(value_of(&stats, "received_ask"), 2);
    assert_int_equal(value_of(&stats, "sent_bytes"), 3);
    assert_int_equal(value_of(&stats, "steps"), 4);
    assert_int_equal(value_of(&stats, "supplements"), 5);
    assert_int_equal(value_of(&stats, "ignored_repeated"), 6);
#define NAMED(name, text)                                                              \
    stats.ignored_##name = 77;                                                         \
    assert_int_equal(value_of(&stats, "ignored_" #name), 77);
    COP_IGNORES(NAMED)
#undef NAMED
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing),
        cmocka_unit_test(test_every_counter_is_visited),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
