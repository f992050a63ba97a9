/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TOOLS_SIMULATE_HEAP_H
#define COP_TOOLS_SIMULATE_HEAP_H

#include <stddef.h>

/*
 * Says that about `bytes` of small objects are going to be allocated and looked at in no
 * particular order: the heap grows by that much at once, in large pages where the kernel has
 * them, because otherwise most of the time goes to page faults and address translation.
 * Untouched memory costs nothing. If it cannot be had, everything works as without.
 */
void heap_expect(size_t bytes);

#endif
