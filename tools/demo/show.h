/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TOOLS_DEMO_SHOW_H
#define COP_TOOLS_DEMO_SHOW_H

#include "demo/demo.h"

/* What `coppice demo` shows of its services. */

/* One line for each over the same time, with the kill in it. */
void demo_show_times(const struct demo_claim *claims, uint32_t count,
                     cop_time killed_ns);
/* What each says. */
void demo_show_claims(const struct demo_claim *claims, uint32_t count);

struct demo_summary {
    uint32_t members, survivors;
    const char *transport, *killed, *root; /* folded names; of the last view */
    cop_time elapsed_ns;
    const struct demo_claim *claims;
    uint32_t count;
};
/* coppice.demo.v1 */
void demo_show_json(const struct demo_summary *summary);

#endif
