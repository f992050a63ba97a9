/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_BASE_COLD_H
#define COP_BASE_COLD_H

/*
 * For a function that runs when something goes wrong, begins or ends, and not for each
 * message. A compiler that is told so keeps it, and the branches that lead to it, out of the
 * way of what does: of hundreds of members on a machine each has cold caches when it wakes,
 * and every line of code between two that are needed is one more to be fetched. Others see
 * nothing.
 */
/*
 * COP__APART: for a function that some messages need and most do not. It stays one of its own, so
 * that what the others run is not spread over more pages by what is between.
 */
#if defined(__GNUC__)
#define COP__COLD __attribute__((cold))
#define COP__APART __attribute__((noinline))
#else
#define COP__COLD
#define COP__APART
#endif

#endif
