/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TESTS_BRIEF_H
#define COP_TESTS_BRIEF_H

#include <stdbool.h>
#include <stdlib.h>

/* With COPPICE_BRIEF set, tests that try everything try less of it: a sanitizer looks for
 * what is wrong in the code, and not in its results, which the plain build compares. */
static inline bool brief(void) { return getenv("COPPICE_BRIEF") != NULL; }

#endif
