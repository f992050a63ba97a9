/* SPDX-License-Identifier: Apache-2.0 */
#include "coll/verdict.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
/* cmocka wants these first */
#include <cmocka.h>

/* The operations: what they give, that order and grouping do not matter, and what is refused. */

#define MEMBERS 6u

static struct cop_buf *make(uint8_t op, uint32_t argument, cop_id id, int64_t value)
{
    uint8_t bytes[8];
    uint64_t word;
    struct cop_buf *buf;
    memcpy(&word, &value, sizeof word);
    struct cop__writer writer = cop__writer(bytes, sizeof bytes);
    cop__put_u64(&writer, word);
    assert_int_equal(
        cop__op_make(op, argument, id, (struct cop__bytes){bytes, 8}, &buf), 0);
    return buf;
}

static struct cop_buf *fold(uint8_t op, uint32_t argument, struct cop_buf *const *bufs,
                            uint32_t count)
{
    struct cop__bytes datas[MEMBERS];
    for (uint32_t i = 0; i < count; i++)
        datas[i] = (struct cop__bytes){bufs[i]->data, bufs[i]->length};
    struct cop_buf *folded = cop__op_fold(op, argument, datas, count);
    assert_non_null(folded);
    assert_true(
        cop__op_check(op, argument, (struct cop__bytes){folded->data, folded->length}));
    return folded;
}

static void assert_same(const struct cop_buf *a, const struct cop_buf *b)
{
    assert_int_equal(a->length, b->length);
    assert_memory_equal(a->data, b->data, a->length);
}

/* All at once, in halves, and backwards: the same bytes. Gives back what comes of them. */
static struct cop_buf *fold_every_way(uint8_t op, uint32_t argument,
                                      struct cop_buf *const bufs[MEMBERS])
{
    struct cop_buf *all = fold(op, argument, bufs, MEMBERS);
    struct cop_buf *halves[2] = {fold(op, argument, bufs, 2),
                                 fold(op, argument, bufs + 2, MEMBERS - 2)};
    struct cop_buf *joined = fold(op, argument, halves, 2);
    struct cop_buf *turned[MEMBERS];
    for (uint32_t i = 0; i < MEMBERS; i++)
        turned[i] = bufs[MEMBERS - 1 - i];
    struct cop_buf *backwards = fold(op, argument, turned, MEMBERS);
    assert_same(all, joined);
    assert_same(all, backwards);
    cop_buf_unref(halves[0]);
    cop_buf_unref(halves[1]);
    cop_buf_unref(joined);
    cop_buf_unref(backwards);
    return all;
}

static struct cop_bcast_result run(enum cop_op op, uint32_t argument,
                                   const int64_t values[MEMBERS],
                                   struct cop_buf **owner)
{
    struct cop_buf *bufs[MEMBERS];
    for (cop_id id = 0; id < MEMBERS; id++)
        bufs[id] = make((uint8_t)op, argument, id, values[id]);
    *owner = fold_every_way((uint8_t)op, argument, bufs);
    for (cop_id id = 0; id < MEMBERS; id++)
        cop_buf_unref(bufs[id]);
    return (struct cop_bcast_result){
        .op = op, .bytes = (*owner)->data, .length = (*owner)->length};
}

static const int64_t values[MEMBERS] = {5, -7, 5, 100, 0, 5};

static void test_integers(void **state)
{
    (void)state;
    static const struct {
        enum cop_op op;
        int64_t expected;
    } cases[] = {{COP_OP_SUM, 108}, {COP_OP_MIN, -7}, {COP_OP_MAX, 100}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct cop_buf *owner;
        struct cop_bcast_result result = run(cases[i].op, 0, values, &owner);
        assert_int_equal(cop_values(&result), 1);
        assert_int_equal(cop_value(&result, 0), cases[i].expected);
        cop_buf_unref(owner);
    }
}

static void test_concat(void **state)
{
    (void)state;
    struct cop_buf *owner;
    struct cop_bcast_result result = run(COP_OP_CONCAT, 0, values, &owner);
    uint32_t at = 0, length, count = 0;
    const uint8_t *bytes;
    cop_id node;
    while (cop_concat_next(&result, &at, &node, &bytes, &length)) {
        assert_int_equal(node, count++);
        assert_int_equal(length, 8);
        assert_int_equal(bytes[0], (uint8_t)values[node]);
    }
    assert_int_equal(count, MEMBERS);
    cop_buf_unref(owner);
}

static void test_count(void **state)
{
    (void)state;
    struct cop_buf *owner;
    struct cop_bcast_result result = run(COP_OP_COUNT, 0, values, &owner);
    uint32_t at = 0, before = 0, length, count, ranges, different = 0, sum = 0;
    const uint8_t *bytes;
    while (cop_count_next(&result, &at, &bytes, &length, &count, &ranges)) {
        different++;
        sum += count;
        if (bytes[0] == 5) { /* 0, 2 and 5 said so */
            assert_int_equal(count, 3);
            assert_int_equal(ranges, 3);
            assert_int_equal(cop_count_range(&result, before, 1).first, 2);
            assert_int_equal(cop_count_range(&result, before, 2).last, 5);
        }
        before = at;
    }
    assert_int_equal(different, 4);
    assert_int_equal(sum, MEMBERS);
    cop_buf_unref(owner);
}

/* Neighbours who say the same are one range. */
static void test_count_folds_ranges(void **state)
{
    (void)state;
    static const int64_t same[MEMBERS] = {3, 3, 3, 3, 3, 3};
    struct cop_buf *owner;
    struct cop_bcast_result result = run(COP_OP_COUNT, 0, same, &owner);
    uint32_t at = 0, length, count, ranges;
    const uint8_t *bytes;
    assert_true(cop_count_next(&result, &at, &bytes, &length, &count, &ranges));
    assert_int_equal(ranges, 1);
    assert_int_equal(count, MEMBERS);
    assert_int_equal(cop_count_range(&result, 0, 0).last, MEMBERS - 1);
    cop_buf_unref(owner);
}

static void test_histogram(void **state)
{
    (void)state;
    struct cop_buf *owner;
    struct cop_bcast_result result = run(COP_OP_HISTOGRAM, 0, values, &owner);
    assert_int_equal(cop_histogram(&result, 0), 1);  /* 0 */
    assert_int_equal(cop_histogram(&result, 2), 3);  /* 5 */
    assert_int_equal(cop_histogram(&result, 6), 1);  /* 100 */
    assert_int_equal(cop_histogram(&result, 63), 1); /* -7 */
    assert_int_equal(cop_histogram(&result, 5), 0);
    cop_buf_unref(owner);
}

static void test_top(void **state)
{
    (void)state;
    struct cop_buf *owner;
    struct cop_bcast_result result = run(COP_OP_TOP, 3, values, &owner);
    uint32_t at = 0;
    int64_t value;
    cop_id node;
    assert_true(cop_top_next(&result, &at, &value, &node));
    assert_int_equal(value, 100);
    assert_int_equal(node, 3);
    assert_true(cop_top_next(&result, &at, &value, &node));
    assert_int_equal(value, 5);
    assert_int_equal(node, 0); /* of equals the lowest id */
    assert_true(cop_top_next(&result, &at, &value, &node));
    assert_int_equal(node, 2);
    assert_false(cop_top_next(&result, &at, &value, &node));
    cop_buf_unref(owner);
}

static void test_unsuitable(void **state)
{
    (void)state;
    struct cop_buf *buf = NULL;
    struct cop__bytes odd = {(const uint8_t *)"abc", 3};
    assert_int_equal(cop__op_make(COP_OP_SUM, 0, 1, odd, &buf), COP_EINVAL);
    assert_int_equal(cop__op_make(COP_OP_TOP, 1, 1, odd, &buf), COP_EINVAL);
    assert_false(cop__op_check(COP_OP_SUM, 0, odd));
    assert_false(cop__op_check(COP_OP_STATUS, 0, odd));
    for (uint8_t op = COP_OP_CONCAT; op < (uint8_t)COP_OPS; op++)
        assert_false(cop__op_check(op, 1, odd));
}

/* What is not sorted, repeats, or is more than was asked for is not of ours. */
static void test_unsorted(void **state)
{
    (void)state;
    for (uint8_t op = COP_OP_CONCAT; op < (uint8_t)COP_OPS; op++) {
        struct cop_buf *high = make(op, 2, 2, 1), *low = make(op, 2, 1, 64);
        uint8_t bytes[128];
        if (op == COP_OP_COUNT || op == COP_OP_HISTOGRAM) {
            struct cop_buf *other = high; /* by value, not by id */
            high = low;
            low = other;
        }
        memcpy(bytes, high->data, high->length);
        memcpy(bytes + high->length, low->data, low->length);
        struct cop__bytes wrong = {bytes, high->length + low->length};
        assert_false(cop__op_check(op, 2, wrong));
        if (op == COP_OP_TOP)
            assert_false(
                cop__op_check(op, 0, (struct cop__bytes){low->data, low->length}));
        cop_buf_unref(high);
        cop_buf_unref(low);
    }
}

/* ---- verdicts -------------------------------------------------------------------- */

static void test_faults_fold_into_ranges(void **state)
{
    (void)state;
    struct cop_buf *records[MEMBERS];
    struct cop__bytes payloads[MEMBERS];
    for (cop_rank rank = 0; rank < MEMBERS; rank++) {
        struct cop__fault fault = {.first = rank,
                                   .last = rank,
                                   .at = COP_RANK_NONE,
                                   .status = rank == 4 ? COP_EIO : COP_ENOENT,
                                   .phase = COP_PHASE_RUN};
        records[rank] = cop__verdict_fault(COP_OP_STATUS, 0, 9 - rank, &fault);
        payloads[MEMBERS - 1 - rank] =
            (struct cop__bytes){records[rank]->data, records[rank]->length};
    }
    struct cop_buf *folded = cop__verdict_fold(payloads, MEMBERS);
    struct cop__verdict verdict;
    assert_int_equal(cop__verdict_decode(
                         (struct cop__bytes){folded->data, folded->length}, &verdict),
                     0);
    assert_int_equal(verdict.faults.count, 3); /* 0-3, 4, 5 */
    assert_int_equal(cop__fault_at(verdict.faults, 0).last, 3);
    assert_int_equal(cop__fault_at(verdict.faults, 1).status, COP_EIO);
    assert_int_equal(verdict.lowest, 4);
    cop_buf_unref(folded);
    for (cop_rank rank = 0; rank < MEMBERS; rank++)
        cop_buf_unref(records[rank]);
}

static void test_malformed_verdicts(void **state)
{
    (void)state;
    struct cop__fault fault = {.first = 3, .last = 2, .status = COP_EIO};
    struct cop_buf *record = cop__verdict_fault(COP_OP_STATUS, 0, 0, &fault);
    assert_false(
        cop__verdict_accept((struct cop__bytes){record->data, record->length}));
    cop_buf_unref(record);
    fault = (struct cop__fault){.first = 3, .last = 3, .status = 1};
    record = cop__verdict_fault(COP_OP_STATUS, 0, 0, &fault);
    assert_false(
        cop__verdict_accept((struct cop__bytes){record->data, record->length}));
    for (uint32_t cut = 0; cut < record->length; cut++)
        assert_false(cop__verdict_accept((struct cop__bytes){record->data, cut}));
    cop_buf_unref(record);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_integers),
        cmocka_unit_test(test_concat),
        cmocka_unit_test(test_count),
        cmocka_unit_test(test_count_folds_ranges),
        cmocka_unit_test(test_histogram),
        cmocka_unit_test(test_top),
        cmocka_unit_test(test_unsuitable),
        cmocka_unit_test(test_unsorted),
        cmocka_unit_test(test_faults_fold_into_ranges),
        cmocka_unit_test(test_malformed_verdicts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
