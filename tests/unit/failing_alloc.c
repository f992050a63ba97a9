/* SPDX-License-Identifier: Apache-2.0 */
#include "failing_alloc.h"

#include <stdatomic.h>
#include <stdint.h>

/* The linker calls ours __wrap_x wherever x is called, and calls libc's __real_x. */
void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void __real_free(void *memory);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
void __wrap_free(void *memory);

/* Atomic, because a test may have threads. */
static atomic_bool is_on, is_hit;
static atomic_size_t left, live;

void failing_alloc_after(size_t n)
{
    is_on = true;
    is_hit = false;
    left = n;
}

void failing_alloc_off(void) { is_on = false; }

bool failing_alloc_hit(void) { return is_hit; }

size_t failing_alloc_live(void) { return live; }

static bool must_fail(void)
{
    if (!is_on)
        return false;
    if (left > 0) {
        left--;
        return false;
    }
    is_hit = true;
    return true;
}

static void *counted(void *memory)
{
    if (memory != NULL)
        live++;
    return memory;
}

void *__wrap_malloc(size_t size)
{
    return must_fail() ? NULL : counted(__real_malloc(size));
}

void *__wrap_calloc(size_t count, size_t size)
{
    return must_fail() ? NULL : counted(__real_calloc(count, size));
}

void *__wrap_realloc(void *old, size_t size)
{
    if (must_fail())
        return NULL;
    /* Growing what is there changes nothing in the count. */
    return old == NULL ? counted(__real_malloc(size)) : __real_realloc(old, size);
}

void __wrap_free(void *memory)
{
    if (memory != NULL)
        live--;
    __real_free(memory);
}
