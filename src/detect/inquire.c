/* SPDX-License-Identifier: Apache-2.0 */
#include "detect/state.h"

/* D9. Any member may ask any other how it is; one that does not answer is accused. */

#define INQUIRY_TIMEOUT COP_SEC

void cop__inquiry_see(struct cop_node *node, struct cop__look *look,
                      enum cop__sight sight)
{
    static const int statuses[] = {
        [SIGHT_REACHED] = 0,
        [SIGHT_SILENT] = COP_ETIMEDOUT,
        [SIGHT_REFUSED] = COP_ELOST,
        [SIGHT_GONE] = COP_ELOST,
    };
    struct cop__look done = *look;
    cop__look_end(node, look);
    cop__emit_complete(node, done.token, statuses[sight], NULL);
    if (sight == SIGHT_SILENT)
        cop__accuse(node, done.id, COP_REASON_INQUIRY);
}

int cop__inquire(struct cop_node *node, const struct cop_request *request)
{
    if (!cop__has_views(node) || request->member == node->self ||
        cop_view_rank(node->view, request->member) == COP_RANK_NONE)
        return COP_EINVAL;
    if (!cop__is_inside(node))
        return COP_ESTATE;
    if (cop__roster_is_suspect(node, request->member)) {
        cop__emit_complete(node, request->token, COP_ELOST, NULL);
        return 0;
    }
    cop_time patience = request->timeout_ns ? request->timeout_ns : INQUIRY_TIMEOUT;
    struct cop__look *look =
        cop__look_begin(node, request->member, LOOK_INQUIRY, patience);
    if (look)
        look->token = request->token;
    return 0;
}
