/* SPDX-License-Identifier: Apache-2.0 */
/* What the program asks of the tree of a task, or of a call that is not sent yet. */
#include "run/parts.h"

/* By what the node knows a task, or a call that was not sent. */
struct place {
    const struct cop_node *node;
    uint64_t handle, group;
    struct cop__buffers *buffers;
};

static int place_of(const struct cop_run *run, uint64_t number, struct place *out)
{
    struct cop__task *task = cop__task_find(run, number);
    struct cop__call *call = cop__rpc_find(run, number);
    if (run->tcp == NULL)
        return COP_ESTATE;
    if (task == NULL && call != NULL && call->rpc->task != 0)
        task = cop__task_find(run, call->rpc->task);
    out->node = cop__tcp_node(run->tcp);
    if (task != NULL)
        *out = (struct place){out->node, task->handle, 0, &task->buffers};
    else if (call != NULL && !call->rpc->is_sent)
        *out = (struct place){out->node, 0, call->rpc->coll.group, &call->rpc->buffers};
    else
        return COP_ENOENT;
    return 0;
}

struct question {
    uint64_t number;
    uint32_t i;
    struct cop_child *out;
    struct cop__buffer buffer;
};

static int do_children(struct cop_run *run, void *argument)
{
    const struct question *question = argument;
    struct place place;
    int error = place_of(run, question->number, &place);
    return error ? error : cop_bcast_nchildren(place.node, place.handle, place.group);
}

int cop_children(struct cop_run *run, uint64_t number)
{
    struct question question = {.number = number};
    return run ? cop__ask_loop(run, do_children, &question) : COP_EINVAL;
}

static int do_child(struct cop_run *run, void *argument)
{
    struct question *question = argument;
    struct place at;
    uint32_t i = question->i;
    int error = place_of(run, question->number, &at);
    if (error)
        return error;
    int nodes = cop_child_nodes(at.node, at.handle, at.group, i);
    int entities = cop_child_entities(at.node, at.handle, at.group, i);
    if (nodes < 0 || entities < 0)
        return COP_ENOENT;
    *question->out =
        (struct cop_child){.node = cop_child_id(at.node, at.handle, at.group, i),
                           .nodes = (uint32_t)nodes,
                           .entities = (uint32_t)entities,
                           .patience_ns = cop_child_patience(at.node, at.handle, i)};
    return 0;
}

int cop_child(struct cop_run *run, uint64_t number, uint32_t i, struct cop_child *out)
{
    struct question question = {.number = number, .i = i, .out = out};
    return run && out ? cop__ask_loop(run, do_child, &question) : COP_EINVAL;
}

static int do_buffer(struct cop_run *run, void *argument)
{
    const struct question *question = argument;
    struct place at;
    int error = place_of(run, question->number, &at);
    if (!error &&
        cop_child_id(at.node, at.handle, at.group, question->i) == COP_ID_NONE)
        error = COP_ENOENT;
    return error ? error : cop__buffers_add(at.buffers, &question->buffer);
}

int cop_reply_buffer(struct cop_run *run, uint64_t number, uint32_t i, void *buffer,
                     size_t size)
{
    struct question question = {.number = number,
                                .i = i,
                                .buffer = {.child = i, .bytes = buffer, .size = size}};
    if (run == NULL || (buffer == NULL && size > 0))
        return COP_EINVAL;
    return cop__ask_loop(run, do_buffer, &question);
}
