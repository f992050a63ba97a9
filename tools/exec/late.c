/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Orders that come late. A member that was stopped, or one above it, finds an order for which
 * nobody waits any more; to begin it then would surprise whoever was told that it failed. The
 * number of a run is the time at its root, and if that is not about now the root is asked: it
 * alone knows, by its own clock, whether it still waits. Where clocks differ every order is
 * asked about, which costs two letters and is right.
 */
#include "exec/parts.h"
#include "term/say.h"

#include <coppice/error.h>
#include <stdlib.h>

static int64_t age_of(const struct exec_order *order)
{
    return (int64_t)(exec_clock() - order->run);
}

static void refuse(struct exec *exec, const struct cop_upcall *upcall,
                   const struct exec_order *order)
{
    char line[400];
    exec_member_describe(exec, upcall->root, order, line, sizeof line);
    cop__log(exec->config.log, COP_LOG_WARN, "exec: not begun, it came too late: %s",
             line);
    exec_member_reply(exec, upcall->handle, COP_ETIMEDOUT, NULL, 0);
}

static void drop(struct exec_late **link)
{
    struct exec_late *late = *link;
    *link = late->next;
    cop_buf_unref(late->order);
    free(late);
}

/* ---- asking ---------------------------------------------------------------------- */

static void ask(struct exec *exec, struct exec_late *late)
{
    struct exec_note note = {.kind = EXEC_ASK, .run = late->number};
    late->asked = now_ns();
    exec_post(exec, late->root, &note);
}

/* How many there are, without those of which their root has said nothing for so long. */
static uint32_t count_late(struct exec *exec)
{
    uint32_t count = 0;
    for (struct exec_late **link = &exec->late; *link != NULL;) {
        if (now_ns() - (*link)->asked > EXEC_LEASE) {
            drop(link);
        } else {
            link = &(*link)->next;
            count++;
        }
    }
    return count;
}

/* Keeps the order until the root has answered. */
static int keep(struct exec *exec, const struct cop_upcall *upcall,
                const struct exec_order *order)
{
    if (count_late(exec) >= EXEC_RUNS_MAX)
        return COP_EAGAIN;
    struct exec_late *late = malloc(sizeof *late);
    struct cop_buf *bytes = late ? cop_buf_copy(upcall->bytes, upcall->length) : NULL;
    if (bytes == NULL) {
        free(late);
        return COP_ENOMEM;
    }
    *late = (struct exec_late){.next = exec->late,
                               .root = upcall->root,
                               .number = order->run,
                               .handle = upcall->handle,
                               .order = bytes};
    exec->late = late;
    ask(exec, late);
    return 0;
}

bool exec_late_takes(struct exec *exec, const struct cop_upcall *upcall,
                     const struct exec_order *order)
{
    int64_t age = age_of(order);
    int64_t most = (int64_t)(exec->has_letters ? EXEC_FRESH : EXEC_STALE);
    if (upcall->root == exec->self || (age <= most && age >= -most))
        return false;
    if (!exec->has_letters) {
        if (age > most)
            refuse(exec, upcall, order);
        return age > most;
    }
    int error = keep(exec, upcall, order);
    if (error)
        exec_member_reply(exec, upcall->handle, error, NULL, 0);
    return true;
}

/* ---- the root's word ------------------------------------------------------------- */

/* A word that took long itself is worth nothing: we may have been stopped again. */
void exec_late_go(struct exec *exec, cop_id root, const struct exec_note *go)
{
    struct exec_order order;
    struct exec_late **link = &exec->late;
    while (*link != NULL && ((*link)->root != root || (*link)->number != go->run))
        link = &(*link)->next;
    struct exec_late *late = *link;
    if (late == NULL)
        return;
    if (go->count != 0 && now_ns() - late->asked > EXEC_WORD) {
        ask(exec, late);
        return;
    }
    struct cop_buf *bytes = cop_buf_ref(late->order);
    struct cop_upcall upcall = {.root = root, .handle = late->handle};
    drop(link);
    if (exec_order_decode((struct cop__bytes){bytes->data, bytes->length}, &order) != 0)
        exec_member_reply(exec, upcall.handle, COP_EMALFORMED, NULL, 0);
    else if (go->count != 0)
        exec_member_begin(exec, &upcall, &order);
    else
        refuse(exec, &upcall, &order);
    cop_buf_unref(bytes);
}

void exec_late_installed(struct exec *exec, const struct cop_view *view)
{
    for (struct exec_late **link = &exec->late; *link != NULL;) {
        if (view == NULL || cop_view_rank(view, (*link)->root) == COP_RANK_NONE)
            drop(link);
        else
            link = &(*link)->next;
    }
}
