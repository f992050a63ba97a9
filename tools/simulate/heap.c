/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/heap.h"

#include <limits.h>
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define LARGE_PAGE ((uintptr_t)2 << 20)
#define FIRST_REQUEST (1 << 20)
#define MAPPED_FROM (128 << 10) /* as malloc has it */

/* Makes malloc move the end of the heap by `bytes` with its next request. */
static void grow_at_once(size_t bytes)
{
    mallopt(M_TRIM_THRESHOLD, INT_MAX);
    mallopt(M_TOP_PAD, bytes < INT_MAX ? (int)bytes : INT_MAX);
    /* More than is free before anything was done, and yet not mapped on its own. */
    mallopt(M_MMAP_THRESHOLD, 2 * FIRST_REQUEST);
    /* A compiler may leave out what is freed unused: it must not know. */
    void *volatile request = malloc(FIRST_REQUEST);
    free(request);
    mallopt(M_MMAP_THRESHOLD, MAPPED_FROM);
    mallopt(M_TOP_PAD, 1 << 20);
}

void heap_expect(size_t bytes)
{
    uintptr_t start = (uintptr_t)sbrk(0);
    grow_at_once(bytes);
    uintptr_t end = (uintptr_t)sbrk(0);
    start = (start + LARGE_PAGE - 1) / LARGE_PAGE * LARGE_PAGE;
    end = end / LARGE_PAGE * LARGE_PAGE;
    if (start < end)
        madvise((void *)start, end - start, MADV_HUGEPAGE); /* a hint: may be refused */
}
