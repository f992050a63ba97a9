/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_BASE_ASSERT_H
#define COP_BASE_ASSERT_H

#include "base/cold.h"

/*
 * For errors of the programmer, in release builds too: a node whose state is wrong must not
 * go on talking to others. Ends the process; its peers heal around it.
 */
COP__COLD _Noreturn void cop__assert_fail(const char *what, const char *file, int line);

#define COP_ASSERT(condition)                                                          \
    ((condition) ? (void)0 : cop__assert_fail(#condition, __FILE__, __LINE__))

#endif
