/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TESTS_FAILING_ALLOC_H
#define COP_TESTS_FAILING_ALLOC_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Memory that runs out when a test says so, and a count of what is still allocated.
 * Link with -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=free. Shared
 * libraries are not affected: what they allocate is not counted, so do not free it
 * through this.
 *
 * To try every place where an allocation may fail:
 *
 *     for (size_t n = 0;; n++) {
 *         failing_alloc_after(n);
 *         int error = thing_do(thing);
 *         failing_alloc_off();
 *         if (!failing_alloc_hit())
 *             break;
 *         assert_int_equal(error, COP_ENOMEM);
 *         ... and the thing is as before ...
 *     }
 */

/* Lets the next `n` allocations succeed and fails all others until failing_alloc_off().
 */
void failing_alloc_after(size_t n);
void failing_alloc_off(void);
/* Whether any allocation has failed since the last failing_alloc_after(). */
bool failing_alloc_hit(void);
/* Allocations not yet freed. Compare before and after. */
size_t failing_alloc_live(void);

#endif
