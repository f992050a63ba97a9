/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_NET_TCP_NOTICE_H
#define COP_NET_TCP_NOTICE_H

#include "base/log.h"

/*
 * Lines about what others do. Whoever can make us log can fill our disk, so each reason has
 * at most one line a minute; the next one says how many there would have been.
 */
#define COP__NOTICE_EVERY (60 * COP_SEC)

struct cop__notice {
    cop_time next; /* when the next line may be written */
    uint64_t held; /* lines that were not */
};

/* Whether the line may be written now. If so, *held is how many were not since the last. */
bool cop__notice_is_due(struct cop__notice *notice, cop_time now, uint64_t *held);

#endif
