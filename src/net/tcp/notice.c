/* SPDX-License-Identifier: Apache-2.0 */
#include "net/tcp/notice.h"

bool cop__notice_is_due(struct cop__notice *notice, cop_time now, uint64_t *held)
{
    if (now < notice->next) {
        notice->held++;
        return false;
    }
    *held = notice->held;
    notice->held = 0;
    notice->next = now + COP__NOTICE_EVERY;
    return true;
}
