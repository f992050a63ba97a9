/* SPDX-License-Identifier: Apache-2.0 */
/* What is expected of the heap is there at once, and only then. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <unistd.h>

#include "simulate/heap.h"

#define EXPECTED ((size_t)48 << 20)

struct object {
    struct object *next;
    char rest[1000];
};

/* A sanitizer has a heap of its own, which does not end where the program's data do. */
static bool is_heap_ours(void)
{
    void *volatile first = malloc(sizeof(struct object));
    uintptr_t end = (uintptr_t)sbrk(0);
    bool is_ours = (uintptr_t)first < end && end - (uintptr_t)first < EXPECTED;
    free(first);
    return is_ours;
}

static void the_heap_grows_at_once(void **state)
{
    (void)state;
    if (!is_heap_ours())
        skip();
    uintptr_t before = (uintptr_t)sbrk(0);
    heap_expect(EXPECTED);
    uintptr_t after = (uintptr_t)sbrk(0);
    assert_true(after - before >= EXPECTED - EXPECTED / 8);
    struct object *all = NULL;
    for (size_t used = 0; used < EXPECTED / 2; used += sizeof *all) {
        struct object *object = malloc(sizeof *object);
        assert_true((uintptr_t)object < after);
        object->next = all;
        all = object;
    }
    assert_int_equal((uintptr_t)sbrk(0), after);
    while (all) {
        struct object *object = all;
        all = object->next;
        free(object);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_heap_grows_at_once)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
