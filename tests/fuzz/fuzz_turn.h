/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TESTS_FUZZ_TURN_H
#define COP_TESTS_FUZZ_TURN_H

#include <stdbool.h>

/*
 * What costs many times as much as the rest of an execution is done in one of so many of
 * them, or a fuzzer would do little else. An input that is tried alone, as those of the
 * corpus are, has it always.
 */
static inline bool is_turn(unsigned of)
{
#ifdef COPPICE_FUZZING
    static unsigned wanted;
    return wanted++ % of == 0;
#else
    (void)of;
    return true;
#endif
}

#endif
