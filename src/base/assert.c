/* SPDX-License-Identifier: Apache-2.0 */
#include "base/assert.h"

#include <stdio.h>
#include <stdlib.h>

_Noreturn void cop__assert_fail(const char *what, const char *file, int line)
{
    /* Not through a log hook: whoever owns it may be what is broken. */
    fprintf(stderr, "coppice: %s:%d: assertion failed: %s\n", file, line, what);
    abort();
}
