/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From nobody to a member, and back. A member of the static start waits until the others are
 * up, has its node then, and is a member without a word. Who
 * joins asks the contact how the cluster began, then the contact and everyone of the start
 * for an invitation, and has a node from then on; it is a member when a view has it.
 */
#include "run/guest.h"
#include "run/parts.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* With those who start together and are not there yet. */
#define PATIENCE (30 * COP_SEC)

static int ask_for_invitation(struct cop_run *run);

/* ---- the node -------------------------------------------------------------------- */

static int address_of(void *context, cop_id id, struct cop__address *out)
{
    const struct cop_run *run = context;
    struct cop_member member;
    char text[COP__ADDRESS_TEXT];
    if (run->tcp == NULL || cop_node_member(cop__tcp_node(run->tcp), id, &member) ||
        member.address_length == 0)
        return cop__start_address(&run->start, id, out);
    snprintf(text, sizeof text, "%.*s", (int)member.address_length, member.address);
    const char *directory = run->start.directory[0] ? run->start.directory : ".";
    return cop__address_parse(text, directory, 1, out, NULL, 0) == 0 ? 0 : COP_ENOENT;
}

static void on_installed(void *context, struct cop_view *view)
{
    struct cop_run *run = context;
    bool was_member = run->shared.state != COP_RUN_JOINING;
    if (!cop_view_has(view, run->id, run->incarnation))
        return;
    if (!was_member)
        cop__log(&run->log, COP_LOG_INFO, "joined as %u in view %" PRIu64,
                 (unsigned)run->id, cop_view_epoch(view));
    int error = cop__tell_view(run, view);
    if (error)
        cop__run_end(run, error);
    else if (run->tcp != NULL)
        cop__streams_view(run, view);
}

static void close_node(struct cop_run *run)
{
    if (run->tcp != NULL)
        cop__tcp_close(run->tcp, NULL);
    run->tcp = NULL;
}

static void on_out(void *context, int why)
{
    struct cop_run *run = context;
    bool was_member = run->shared.state != COP_RUN_JOINING;
    if (why == 0 || (was_member && !run->settings.rejoin)) {
        cop__run_end(run, why);
        return;
    }
    run->exceed = cop__tcp_outlived_by(run->tcp);
    close_node(run);
    cop__tell_state(run, COP_RUN_JOINING);
    cop__calls_end(run, why);
    cop__log(&run->log, COP_LOG_WARN, "%s: joining again",
             why == COP_EREMOVED ? "removed from the view" : "nobody to let it in");
    if (was_member)
        cop__tell_out(run, why);
    int error = ask_for_invitation(run);
    if (error)
        cop__run_end(run, error);
}

static void on_failed(void *context, int error)
{
    struct cop_run *run = context;
    cop__log(&run->log, COP_LOG_ERROR, "the node stopped: %s", cop_strerror(error));
    cop__run_end(run, error);
}

static int start_node(struct cop_run *run, struct cop_view *view)
{
    bool joins = !cop_view_has(view, run->id, run->incarnation) &&
                 run->start.quorum != COP_QUORUM_FIXED;
    bool is_of_start = run->contact.length == 0;
    struct cop_service *services = cop__services_list(run);
    if (services == NULL)
        return COP_ENOMEM;
    struct cop__tcp_config driver = {
        .loop = &run->loop,
        .runner = &run->runner,
        .is_swift = true,
        .instance = run->start.instance,
        .self = run->id,
        .incarnation = run->incarnation,
        .view = view,
        .stats = &run->stats,
        .log = &run->log,
        .quorum = run->start.quorum,
        .quorum_ids = run->start.quorum_ids.items,
        .quorum_count = run->start.quorum_ids.count,
        .detect = run->start.detect,
        .guard = (uint32_t)run->start.guard,
        .tls = run->tls,
        .no_reads = run->settings.no_reads,
        .name = joins && !is_of_start ? run->name : NULL,
        .where = joins ? (is_of_start ? "" : run->where) : NULL,
        .spare = run->settings.spare,
        .listen_fd = cop__tcp_dup_listener(run->listen_fd),
        .address = address_of,
        .complete = cop__call_complete,
        .installed = on_installed,
        .degraded = cop__tell_degraded,
        .deliver = cop__tell_message,
        .out = on_out,
        .suspicion = cop__tell_suspicions,
        .guest = cop__door_guest,
        .upcall = cop__run_upcall,
        .piece = cop__run_piece,
        .letter = cop__run_letter,
        .stream = cop__run_stream,
        .services = services,
        .service_count = run->services.count,
        .operations = run->operations,
        .operation_count = run->settings.operation_count,
        .filters = run->streams.filters,
        .filter_count = run->settings.filter_count,
        .failed = on_failed,
        .context = run,
    };
    memcpy(driver.cluster, run->start.cluster, sizeof driver.cluster);
    cop__porch_rest(&run->door);
    int error = driver.listen_fd < 0 ? COP_EIO : cop__tcp_create(&driver, &run->tcp);
    free(services);
    if (error)
        return error;
    run->had_node = true;
    run->services.life++;
    cop__streams_begin(run);
    memset(run->told, 0, sizeof run->told);
    return 0;
}

/* ---- the invitation -------------------------------------------------------------- */

/* Whether another process lives as this member. */
static bool is_taken_over(const struct cop_run *run,
                          const struct cop_invitation *invitation)
{
    return run->was_member && invitation->exceed > run->incarnation &&
           cop_view_has(invitation->view, invitation->id, invitation->exceed);
}

static int accept_invitation(struct cop_run *run,
                             const struct cop_invitation *invitation)
{
    if (is_taken_over(run, invitation))
        return COP_EEXIST;
    run->id = invitation->id;
    /* A life that had a node is over, whether a view ever had it or not. */
    if (run->had_node)
        run->incarnation++;
    cop_incarnation exceed =
        run->exceed > invitation->exceed ? run->exceed : invitation->exceed;
    if (run->incarnation <= exceed)
        run->incarnation = exceed + 1;
    return start_node(run, invitation->view);
}

static void on_invited(void *context, int status, const struct cop_buf *body)
{
    struct cop_run *run = context;
    struct cop_invitation invitation = {0};
    bool is_degraded = false;
    run->envoy = NULL;
    int error =
        body ? cop__invited_read(body, run->start_view, &invitation, &is_degraded)
             : status;
    if (error == 0) {
        error = accept_invitation(run, &invitation);
        cop_view_unref(invitation.view);
    }
    if (error) {
        cop__log(&run->log, COP_LOG_ERROR, "%s cannot join: %s", run->name,
                 cop_strerror(error));
        cop__run_end(run, error);
    } else if (is_degraded) {
        cop__log(&run->log, COP_LOG_WARN,
                 "the cluster has too few members to let %s in just now", run->name);
    }
}

/* A wrong key looks like this. It is said once: the next member says the same. */
static void on_refused(void *context, const char *why, const char *detail)
{
    struct cop_run *run = context;
    if (!run->is_unwanted)
        cop__log(&run->log, COP_LOG_WARN, "a member was asked to be let in: %s%s%s",
                 why, *detail ? ": " : "", detail);
    run->is_unwanted = true;
}

static void on_alone(void *context)
{
    struct cop_run *run = context;
    if (!run->is_alone)
        cop__log(&run->log, COP_LOG_WARN, "no member answers; will go on asking");
    run->is_alone = true;
}

/* The contact, then the members of the start, beginning after our own place. */
static int whom_to_ask(void *context, uint32_t i, struct cop__address *out)
{
    const struct cop_run *run = context;
    uint32_t n = run->start.n;
    cop_id self = run->settings.self;
    if (i == 0) {
        *out = run->contact;
        return out->length > 0 ? 0 : COP_ENOENT;
    }
    if (run->contact.length > 0)
        return cop__start_address(&run->start, i - 1, out);
    cop_id id = (self + i) % n;
    return id == self ? COP_ENOENT : cop__start_address(&run->start, id, out);
}

static struct cop_buf *make_question(const struct cop_run *run)
{
    struct cop__invite invite = {.instance = run->start.instance,
                                 .incarnation = run->incarnation,
                                 .is_new = !run->settings.again && !run->had_node};
    memcpy(invite.cluster, run->start.cluster, sizeof invite.cluster);
    snprintf(invite.name, sizeof invite.name, "%s", run->name);
    struct cop_buf *body = cop__invite_encode(&invite);
    struct cop_buf *question =
        body ? cop__command_make(1, COP__VERB_INVITE, body) : NULL;
    cop_buf_unref(body);
    return question;
}

/* `count` is of a round: all that there are, or only the contact. */
static int send_envoy(struct cop_run *run, struct cop_buf *question, uint32_t count,
                      void (*done)(void *, int, const struct cop_buf *))
{
    struct cop__envoy_config envoy = {
        .loop = &run->loop,
        .address = whom_to_ask,
        .count = count,
        .tls = run->tls,
        .question = question,
        .done = done,
        .refused = on_refused,
        .alone = on_alone,
        .context = run,
    };
    run->is_alone = false;
    cop__porch_watch(&run->door);
    return cop__envoy_create(&envoy, &run->envoy);
}

static int ask_for_invitation(struct cop_run *run)
{
    return send_envoy(run, make_question(run), run->start.n + 1, on_invited);
}

/* ---- the description ------------------------------------------------------------- */

static int make_start_view(struct cop_run *run)
{
    return cop_view_create_static(run->start.n, &run->start.shape, run->start.first,
                                  &run->start_view);
}

static void on_described(void *context, int status, const struct cop_buf *body)
{
    struct cop_run *run = context;
    char why[200] = "";
    run->envoy = NULL;
    int error = status;
    if (error == 0)
        error = cop__start_read(&run->start, (const char *)body->data, body->length,
                                why, sizeof why);
    if (error == 0)
        error = make_start_view(run);
    if (error == 0)
        error = ask_for_invitation(run);
    if (error == 0)
        return;
    cop__log(&run->log, COP_LOG_ERROR, "the contact's description of the cluster: %s",
             why[0] ? why : cop_strerror(error));
    cop__run_end(run, error);
}

/* ---- begin and end --------------------------------------------------------------- */

static cop_incarnation incarnation_of_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (cop_incarnation)now.tv_sec * COP_SEC + (cop_incarnation)now.tv_nsec;
}

/* All that start together are there, or it has been long enough. */
static void on_gathered(void *context, uint32_t missing)
{
    struct cop_run *run = context;
    run->gather = NULL;
    if (missing > 0)
        cop__log(&run->log, COP_LOG_WARN, "starting though %u of %u are not there yet",
                 (unsigned)missing, (unsigned)run->start.n);
    run->id = run->settings.self;
    if (!run->settings.again)
        run->incarnation = run->start.first;
    int error = start_node(run, run->start_view);
    if (error == 0)
        error = cop__tell_view(run, run->start_view);
    if (error)
        cop__run_end(run, error);
}

static int gather(struct cop_run *run)
{
    cop_time patience = run->settings.patience_ns;
    struct cop__gather_config config = {
        .loop = &run->loop,
        .count = run->start.n,
        .self = run->settings.self,
        .address = address_of,
        .patience_ns = patience ? patience : PATIENCE,
        .all_listen = run->settings.all_listen,
        .tls = run->tls,
        .log = &run->log,
        .done = on_gathered,
        .context = run,
    };
    cop__porch_watch(&run->door);
    return cop__gather_create(&config, &run->gather);
}

int cop__join_begin(struct cop_run *run)
{
    run->incarnation = incarnation_of_now();
    if (run->contact.length > 0)
        return send_envoy(run, cop__command_make(1, COP__VERB_DESCRIBE, NULL), 1,
                          on_described);
    int error = make_start_view(run);
    if (error)
        return error;
    if (run->settings.again && run->start.quorum != COP_QUORUM_FIXED)
        return ask_for_invitation(run);
    return gather(run);
}

void cop__join_close(struct cop_run *run)
{
    close_node(run);
    if (run->envoy != NULL)
        cop__envoy_close(run->envoy);
    run->envoy = NULL;
    if (run->gather != NULL)
        cop__gather_close(run->gather);
    run->gather = NULL;
}
