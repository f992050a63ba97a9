/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TOOLS_TALK_TOKENS_H
#define COP_TOOLS_TALK_TOKENS_H

#include <stdint.h>

/*
 * Whose request it was that a node has completed: the parts of an agent each have a bit of
 * its tokens. Probes and broadcasts have none.
 */
#define ASK_TOKEN (UINT64_C(1) << 63)
#define EXEC_TOKEN (UINT64_C(1) << 62)
#define PUT_TOKEN (UINT64_C(1) << 61)
#define AGREE_TOKEN (UINT64_C(1) << 60)
#define GROUPS_TOKEN (UINT64_C(1) << 59)
#define WATCH_TOKEN (UINT64_C(1) << 58)

#endif
