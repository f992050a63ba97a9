/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Groups of a run. The node has their members; here is what the program said of them beside,
 * and for those that are known out of band, how to learn who is in them.
 */
#include "run/parts.h"

#include <stdlib.h>
#include <string.h>

/* Of a number: the living of that group. Between those of one's own and of others. */
#define ALIVE_BIT (UINT64_C(1) << 62)

uint64_t cop_group_alive(uint64_t group) { return group | ALIVE_BIT; }

bool cop__group_split(uint64_t named, uint64_t *group)
{
    *group = named & ~ALIVE_BIT;
    return (named & ALIVE_BIT) != 0;
}

/* ---- the list -------------------------------------------------------------------- */

void cop__team_forget(struct cop_run *run, uint64_t group)
{
    free(cop__map_remove(&run->services.teams, group));
}

void cop__teams_end(struct cop_run *run)
{
    struct cop__map_slot *slot;
    uint32_t at = 0;
    while ((slot = cop__map_next(&run->services.teams, &at))) {
        cop__team_forget(run, slot->key);
        at = 0;
    }
}

static struct cop__team *keep_team(struct cop_run *run,
                                   const struct cop_group_spec *spec, uint64_t group)
{
    struct cop__team *team = calloc(1, sizeof *team);
    if (team == NULL)
        return NULL;
    /* One that is too long for this is refused by the node. */
    snprintf(team->name, sizeof team->name, "%s", spec->name ? spec->name : "");
    team->service = spec->service;
    team->shape = spec->shape;
    team->user = spec->user;
    if (cop__map_put(&run->services.teams, group, team, NULL) != 0) {
        free(team);
        return NULL;
    }
    return team;
}

/* ---- regular groups -------------------------------------------------------------- */

struct creation {
    const struct cop_group_spec *spec;
    const uint8_t *oob;
    uint64_t group, *out;
    cop_call_done *done;
    void *context;
};

static bool on_created(struct cop_run *run, struct cop__call *call, int status,
                       const struct cop_buf *result)
{
    if (status != 0)
        cop__team_forget(run, call->rpc->group);
    cop__rpc_tell(call, status, result);
    return false;
}

static int do_create(struct cop_run *run, void *argument)
{
    struct creation *creation = argument;
    const struct cop_group_spec *spec = creation->spec;
    struct cop__call *call =
        cop__rpc_plain(COP_REQUEST_GROUP, creation->done, creation->context);
    struct cop__team *team = call ? keep_team(run, spec, creation->group) : NULL;
    int error = team ? 0 : COP_ENOMEM;
    if (error == 0) {
        call->rpc->group = creation->group;
        call->rpc->coll = (struct cop_coll){.service = {.id = spec->service},
                                            .group = creation->group,
                                            .kind = spec->kind,
                                            .name = spec->name,
                                            .targets = spec->targets,
                                            .target_count = spec->target_count,
                                            .shape = spec->shape};
        call->end = on_created;
        error = cop__call_submit(run, call);
    }
    if (error) {
        cop__team_forget(run, creation->group);
        cop__call_free(run, call);
    } else {
        /* Here, for `done` may come before the thread that asks for it goes on. */
        *creation->out = creation->group;
    }
    return error;
}

int cop_group_create(struct cop_run *run, const struct cop_group_spec *spec,
                     uint64_t *out, cop_call_done *done, void *context)
{
    if (run == NULL || spec == NULL || out == NULL || spec->kind == COP_GROUP_OOB ||
        (spec->target_count > 0 && spec->targets == NULL))
        return COP_EINVAL;
    struct creation creation = {.spec = spec,
                                .group = cop__run_number(run),
                                .out = out,
                                .done = done,
                                .context = context};
    return cop__ask_loop(run, do_create, &creation);
}

static void on_awaited(void *context, int status, const struct cop_bcast_result *result)
{
    (void)result;
    cop__waiter_done(context, status);
}

int cop_group_create_wait(struct cop_run *run, const struct cop_group_spec *spec,
                          uint64_t *out)
{
    struct cop__waiter waiter = {.run = run};
    if (run == NULL)
        return COP_EINVAL;
    if (cop__run_is_here(run))
        return COP_ESTATE;
    int error = cop_group_create(run, spec, out, on_awaited, &waiter);
    return error ? error : cop__waiter_wait(&waiter);
}

/* ---- groups that are known by other means ---------------------------------------- */

static bool node_has(const struct cop_run *run, uint64_t group)
{
    return cop_group_name(cop__tcp_node(run->tcp), group) != NULL;
}

/* `is_there`: it is not being made. */
static int submit_oob(struct cop_run *run, uint64_t group, const struct cop__team *team,
                      bool is_there)
{
    struct cop_members members;
    int error =
        cop__resolve(run, cop__handlers_find(run, team->service), team->oob, &members);
    if (error)
        return error;
    /* Meanwhile the service may have gone, or the group ended. */
    if (cop__handlers_find(run, team->service) == NULL ||
        (is_there && !node_has(run, group))) {
        cop__members_fini(&members);
        return COP_ENOENT;
    }
    struct cop_coll coll = {.service = {.id = team->service},
                            .group = group,
                            .kind = COP_GROUP_OOB,
                            .name = team->name,
                            .targets = members.items,
                            .target_count = members.count,
                            .shape = team->shape};
    memcpy(coll.oob, team->oob, sizeof coll.oob);
    /* No token: nobody waits for it, for it is there when this returns. */
    struct cop_request request = {.kind = COP_REQUEST_GROUP, .coll = &coll};
    error = cop__run_submit(run, &request);
    cop__members_fini(&members);
    return error;
}

/* Each time, for its members may be others by now. One that has ended stays so, though its
 * end has not been told yet. */
int cop__team_refresh(struct cop_run *run, uint64_t group)
{
    const struct cop__team *team = cop__map_get(&run->services.teams, group);
    if (team == NULL || !team->is_oob)
        return 0;
    return node_has(run, group) ? submit_oob(run, group, team, true) : COP_ENOENT;
}

static int do_create_oob(struct cop_run *run, void *argument)
{
    const struct creation *creation = argument;
    if (run->tcp == NULL || run->shared.state == COP_RUN_JOINING)
        return COP_ESTATE;
    struct cop__team *team = keep_team(run, creation->spec, creation->group);
    if (team == NULL)
        return COP_ENOMEM;
    team->is_oob = true;
    memcpy(team->oob, creation->oob, sizeof team->oob);
    int error = submit_oob(run, creation->group, team, false);
    if (error)
        cop__team_forget(run, creation->group);
    return error;
}

int cop_group_create_oob(struct cop_run *run, const struct cop_group_spec *spec,
                         const uint8_t name[16], uint64_t *out)
{
    if (run == NULL || spec == NULL || name == NULL || out == NULL)
        return COP_EINVAL;
    struct creation creation = {
        .spec = spec, .oob = name, .group = cop__run_number(run)};
    int error = cop__ask_loop(run, do_create_oob, &creation);
    if (error == 0)
        *out = creation.group;
    return error;
}

/* ---- the end --------------------------------------------------------------------- */

static bool on_ended(struct cop_run *run, struct cop__call *call, int status,
                     const struct cop_buf *result)
{
    cop__team_forget(run, call->rpc->group);
    cop__rpc_tell(call, status, result);
    return false;
}

static int do_end(struct cop_run *run, void *argument)
{
    const struct creation *ending = argument;
    struct cop__call *call =
        cop__rpc_plain(COP_REQUEST_GROUP_END, ending->done, ending->context);
    if (call == NULL)
        return COP_ENOMEM;
    call->rpc->group = call->rpc->coll.group = ending->group;
    call->end = on_ended;
    int error = cop__call_submit(run, call);
    if (error)
        cop__call_free(run, call);
    return error;
}

int cop_group_end(struct cop_run *run, uint64_t group, cop_call_done *done,
                  void *context)
{
    struct creation ending = {.group = group, .done = done, .context = context};
    return run ? cop__ask_loop(run, do_end, &ending) : COP_EINVAL;
}

int cop_group_end_wait(struct cop_run *run, uint64_t group)
{
    struct cop__waiter waiter = {.run = run};
    if (run == NULL)
        return COP_EINVAL;
    if (cop__run_is_here(run))
        return COP_ESTATE;
    int error = cop_group_end(run, group, on_awaited, &waiter);
    return error ? error : cop__waiter_wait(&waiter);
}

/* ---- looking --------------------------------------------------------------------- */

struct look {
    uint64_t group;
    struct cop_group_facts *out;
};

static int do_look(struct cop_run *run, void *argument)
{
    const struct look *look = argument;
    const struct cop__team *team = cop__map_get(&run->services.teams, look->group);
    struct cop_group_facts facts = {.user = team ? team->user : NULL};
    if (run->tcp == NULL)
        return COP_ESTATE;
    const struct cop_node *node = cop__tcp_node(run->tcp);
    const char *name = cop_group_name(node, look->group);
    if (name == NULL)
        return COP_ENOENT;
    snprintf(facts.name, sizeof facts.name, "%s", name);
    if (look->group != COP_GROUP_ALL)
        cop_group_digest(node, look->group, facts.digest);
    *look->out = facts;
    return 0;
}

int cop_group_look(struct cop_run *run, uint64_t group, struct cop_group_facts *out)
{
    struct look look = {.out = out};
    cop__group_split(group, &look.group);
    return run && out ? cop__ask_loop(run, do_look, &look) : COP_EINVAL;
}
