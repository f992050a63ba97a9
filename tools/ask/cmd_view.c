/* SPDX-License-Identifier: Apache-2.0 */
#include "ask/follow.h"
#include "base/rankset.h"
#include "term/args.h"
#include "term/commands.h"
#include "term/json.h"
#include "term/say.h"

#include <coppice/error.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define ASK_TIMEOUT_NS COP_SEC
#define GO_ON_TIMEOUT_NS (15 * COP_SEC)

struct options {
    const char *name, *from, *agent;
    bool as_json, watch;
    uint64_t go_on; /* from the view of this epoch; 0: not */
};

/* What the others of a local cluster say of the same view; sets of places. */
struct opinions {
    bool is_known;           /* they were asked */
    struct cop_ranks differ; /* have another view */
    struct cop_ranks silent; /* are in it, and do not answer */
    struct cop_ranks
        held; /* ids: whom the root may not remove; it may be another's word */
};

static void free_opinions(struct opinions *opinions)
{
    cop_ranks_free(&opinions->differ);
    cop_ranks_free(&opinions->silent);
    cop_ranks_free(&opinions->held);
}

static bool do_agree(const struct opinions *opinions)
{
    return opinions->differ.count == 0 && opinions->silent.count == 0;
}

/* ---- asking the others ----------------------------------------------------------- */

static bool is_same_view(const struct roll *a, const struct roll *b)
{
    return cop_view_epoch(a->view) == cop_view_epoch(b->view) &&
           cop_view_digest(a->view) == cop_view_digest(b->view);
}

/* All are asked before the first answer is waited for. */
static void send_all(const struct local *local, const struct roll *roll,
                     struct client *clients)
{
    struct cop_buf *body = number_encode(0);
    for (cop_id slot = 0; slot < cluster_count(&local->cluster); slot++) {
        cop_id id = cluster_id(&local->cluster, slot);
        clients[slot].fd = -1;
        if (body == NULL || cop_view_rank(roll->view, id) == COP_RANK_NONE ||
            local_connect(local, slot, &clients[slot]) != 0)
            continue;
        if (client_send(&clients[slot], VERB_VIEW, body) != 0)
            client_close(&clients[slot]);
    }
    cop_buf_unref(body);
}

static int put_held(const struct roll *roll, struct opinions *out)
{
    int error = 0;
    for (uint32_t i = 0; i < roll_held(roll) && !error; i++)
        error = cop__rankset_put(&out->held, roll->held[i]);
    return error;
}

static int take_opinion(struct client *client, cop_time deadline,
                        const struct roll *roll, cop_id slot, struct opinions *out)
{
    struct client_reply reply;
    struct roll other;
    cop_time now = now_ns();
    cop_time left = deadline > now ? deadline - now : 0;
    if (client->fd < 0 || client_receive(client, left, &reply) != 0)
        return cop__rankset_put(&out->silent, slot);
    if (reply.status != 0 || roll_decode(reply.body, &other) != 0)
        return cop__rankset_put(&out->differ, slot);
    int error = put_held(&other, out);
    if (!error && (!is_same_view(roll, &other) || !other.is_member))
        error = cop__rankset_put(&out->differ, slot);
    roll_free(&other);
    return error;
}

static int ask_others(const struct local *local, const struct roll *roll,
                      struct opinions *out)
{
    uint32_t count = cluster_count(&local->cluster);
    struct client *clients = calloc(count, sizeof *clients);
    int error = clients ? 0 : COP_ENOMEM;
    out->is_known = true;
    if (!error)
        send_all(local, roll, clients);
    cop_time deadline = now_ns() + ASK_TIMEOUT_NS;
    for (cop_id slot = 0; clients && slot < count; slot++) {
        cop_id id = cluster_id(&local->cluster, slot);
        if (cop_view_rank(roll->view, id) != COP_RANK_NONE && !error)
            error = take_opinion(&clients[slot], deadline, roll, slot, out);
        client_close(&clients[slot]);
    }
    free(clients);
    return error;
}

/* ---- output ---------------------------------------------------------------------- */

/* Folded names of those for whom `wanted` says so. */
static char *fold(const struct roll *roll, const struct cluster *cluster,
                  bool (*wanted)(const struct cop_member *member))
{
    struct cop_ranks ids = {0};
    char *names = NULL;
    if (roll_select(roll, wanted, &ids) == 0)
        names = roll_fold(roll, cluster, ids.items, ids.count);
    cop_ranks_free(&ids);
    return names;
}

/* Everything that is printed as a set. */
struct sets {
    char *members, *spares, *drained, *removed, *left, *held, *differ, *silent;
};

static void free_sets(struct sets *sets)
{
    free(sets->members);
    free(sets->spares);
    free(sets->drained);
    free(sets->removed);
    free(sets->left);
    free(sets->held);
    free(sets->differ);
    free(sets->silent);
}

static int make_sets(const struct roll *roll, const struct cluster *cluster,
                     const struct opinions *opinions, struct sets *out)
{
    static const struct cluster nobody;
    const struct cluster *places = cluster ? cluster : &nobody;
    out->members = fold(roll, cluster, roll_is_present);
    out->spares = fold(roll, cluster, roll_is_spare);
    out->drained = fold(roll, cluster, roll_is_drained);
    out->removed = fold(roll, cluster, roll_is_removed);
    out->left = fold(roll, cluster, roll_has_left);
    out->held = roll_fold(roll, cluster, opinions->held.items, opinions->held.count);
    out->differ = cluster_fold(places, opinions->differ.items, opinions->differ.count);
    out->silent = cluster_fold(places, opinions->silent.items, opinions->silent.count);
    bool good = out->members && out->spares && out->drained && out->removed &&
                out->left && out->held && out->differ && out->silent;
    return good ? 0 : COP_ENOMEM;
}

static void print_json_event(struct json *json, const struct roll *roll,
                             const struct cluster *cluster,
                             const struct roll_event *event)
{
    char name[COP_NAME_MAX + 1];
    bool is_role = event->change.kind == COP_VIEW_REPLACED;
    json_begin_object(json);
    json_put_u64(json, "epoch", event->epoch);
    json_put_u64(json, "at_ns", event->at_ns);
    json_put_string(json, "what", roll_event_name(event));
    roll_name(roll, cluster, is_role ? event->change.new_worker : event->change.id,
              name);
    json_put_string(json, "member", name);
    if (is_role)
        json_put_u64(json, "role", event->change.role);
    json_end_object(json);
}

/* When the last change that this member led went through its stages; null if none did. */
static void print_json_led(struct json *json, const struct cop_change_times *times)
{
    json_key(json, "led");
    if (times->epoch == 0) {
        json_null(json);
        return;
    }
    json_begin_object(json);
    json_put_u64(json, "epoch", times->epoch);
    json_put_u64(json, "heard_ns", times->heard);
    json_put_u64(json, "proposed_ns", times->proposed);
    json_put_u64(json, "stable_ns", times->stable);
    json_put_u64(json, "committed_ns", times->committed);
    json_end_object(json);
}

static void print_json(const struct roll *roll, const struct cluster *cluster,
                       const struct opinions *opinions, const struct sets *sets)
{
    struct json json;
    char name[COP_NAME_MAX + 1];
    json_init(&json, stdout);
    json_begin_object(&json);
    json_put_string(&json, "schema", "coppice.view.v1");
    roll_name(roll, cluster, roll->self, name);
    json_put_string(&json, "from", name);
    json_put_u64(&json, "incarnation", roll->incarnation);
    json_put_bool(&json, "in_view", roll->is_member);
    json_put_u64(&json, "epoch", cop_view_epoch(roll->view));
    roll_name(roll, cluster, cop_view_root(roll->view), name);
    json_put_string(&json, "root", name);
    json_put_u64(&json, "count", cop_view_size(roll->view));
    json_put_string(&json, "members", sets->members);
    json_put_string(&json, "spares", sets->spares);
    json_put_string(&json, "drained", sets->drained);
    json_put_string(&json, "removed", sets->removed);
    json_put_string(&json, "left", sets->left);
    json_put_string(&json, "quorum", roll->quorum);
    json_put_string(&json, "security", roll->security);
    json_put_bool(&json, "degraded", roll->is_degraded);
    json_put_string(&json, "held", sets->held);
    json_key(&json, "agree");
    if (opinions->is_known)
        json_bool(&json, do_agree(opinions));
    else
        json_null(&json);
    json_put_string(&json, "differ", sets->differ);
    json_put_string(&json, "silent", sets->silent);
    json_put_u64(&json, "installed_ns", roll->installed_ns);
    print_json_led(&json, &roll->times);
    json_key(&json, "changes");
    json_begin_array(&json);
    for (uint32_t i = 0; i < roll->event_count; i++)
        print_json_event(&json, roll, cluster, &roll->events[i]);
    json_end_array(&json);
    json_end_object(&json);
}

static void print_set(const char *what, const char *names, enum colour which)
{
    if (names[0] != '\0')
        printf("%-9s %s%s%s\n", what, colour(stdout, which), names,
               colour(stdout, PLAIN));
}

static void print_event(const struct roll *roll, const struct cluster *cluster,
                        const struct roll_event *event)
{
    char text[ROLL_TEXT_SIZE], ago[DURATION_SIZE];
    print_duration(now_ns() - event->at_ns, ago);
    roll_event_text(roll, cluster, event, text, sizeof text);
    printf("  view %-6" PRIu64 " %10s ago  %s\n", event->epoch, ago, text);
}

static void print_text(const struct roll *roll, const struct cluster *cluster,
                       const struct opinions *opinions, const struct sets *sets)
{
    char name[COP_NAME_MAX + 1], root[COP_NAME_MAX + 1];
    roll_name(roll, cluster, roll->self, name);
    roll_name(roll, cluster, cop_view_root(roll->view), root);
    printf("%sview %" PRIu64 "%s of %s: %" PRIu32 " member%s, root %s\n",
           colour(stdout, BOLD), cop_view_epoch(roll->view), colour(stdout, PLAIN),
           name, cop_view_size(roll->view), cop_view_size(roll->view) == 1 ? "" : "s",
           root);
    print_set("members", sets->members, GREEN);
    print_set("spares", sets->spares, BLUE);
    print_set("drained", sets->drained, YELLOW);
    print_set("removed", sets->removed, RED);
    print_set("left", sets->left, DIM);
    printf("%-9s %s%s\n", "quorum", roll->quorum,
           roll->is_degraded ? "; degraded: too few members can be reached" : "");
    if (strcmp(roll->security, ROLL_INSECURE) == 0)
        printf("%-9s %snothing is encrypted, and whoever connects is believed%s\n",
               "insecure", colour(stdout, RED), colour(stdout, PLAIN));
    if (sets->held[0] != '\0')
        printf("held by the guard: %s%s%s\n", colour(stdout, YELLOW), sets->held,
               colour(stdout, PLAIN));
    if (opinions->is_known && do_agree(opinions))
        printf("%-9s all of them\n", "agree");
    print_set("differ", sets->differ, YELLOW);
    print_set("silent", sets->silent, YELLOW);
    if (roll->event_count > 0)
        printf("changes\n");
    for (uint32_t i = 0; i < roll->event_count; i++)
        print_event(roll, cluster, &roll->events[i]);
}

static int print(const struct roll *roll, const struct cluster *cluster,
                 const struct opinions *opinions, bool as_json)
{
    struct sets sets = {0};
    int code = EXIT_DONE;
    if (make_sets(roll, cluster, opinions, &sets) != 0)
        code = fail(EXIT_FAILED, "%s", cop_strerror(COP_ENOMEM));
    else if (as_json)
        print_json(roll, cluster, opinions, &sets);
    else
        print_text(roll, cluster, opinions, &sets);
    free_sets(&sets);
    if (code)
        return code;
    if (roll->is_degraded || !roll->is_member)
        return EXIT_REFUSED;
    return do_agree(opinions) ? EXIT_DONE : EXIT_FAILED;
}

/* ---- the command ----------------------------------------------------------------- */

/* Prints the view, and with `watch` every one after it, for as long as there is one. */
static int print_all(struct follow *follow, struct roll *roll,
                     const struct options *options)
{
    const struct cluster *cluster = follow->local ? &follow->local->cluster : NULL;
    for (;;) {
        struct client_reply reply;
        uint64_t serial = roll->serial;
        struct opinions own = {0};
        int code = put_held(roll, &own) == 0
                       ? print(roll, cluster, &own, options->as_json)
                       : fail(EXIT_FAILED, "%s", cop_strerror(COP_ENOMEM));
        free_opinions(&own);
        fflush(stdout);
        roll_free(roll);
        if (!options->watch || ferror(stdout))
            return code;
        code = follow_next(follow, VERB_VIEW, serial, &reply);
        if (code)
            return code;
        if (roll_decode(reply.body, roll) != 0)
            return fail(EXIT_FAILED, "the agent says something unintelligible");
    }
}

static int print_with_opinions(struct local *local, struct roll *roll,
                               const struct options *options)
{
    struct opinions opinions = {0};
    int code = ask_others(local, roll, &opinions) == 0
                   ? print(roll, &local->cluster, &opinions, options->as_json)
                   : fail(EXIT_FAILED, "%s", cop_strerror(COP_ENOMEM));
    free_opinions(&opinions);
    roll_free(roll);
    return code;
}

/* ---- going on without a quorum ---------------------------------------------------- */

static int explain_go_on(int error, uint64_t epoch, const struct roll *roll)
{
    switch (error) {
    case COP_ESTATE:
        return fail(EXIT_REFUSED, "it is not degraded: there is nothing to decide");
    case COP_EINVAL:
        return fail(EXIT_REFUSED,
                    "its view is %" PRIu64 ", not %" PRIu64 ": look again",
                    cop_view_epoch(roll->view), epoch);
    case COP_EEXIST:
        return fail(EXIT_REFUSED, "it was told so already");
    case COP_ETIMEDOUT:
        return fail(EXIT_FAILED, "no view came of it: ask the lowest member that is "
                                 "left (--from, --agent)");
    default:
        return fail(EXIT_FAILED, "it does not go on: %s", cop_strerror(error));
    }
}

/* Tells the agent, and waits for the next view. */
static int go_on(struct follow *follow, uint64_t epoch, const struct roll *roll)
{
    struct client_reply reply;
    struct cop_buf *body = number_encode(epoch);
    int error =
        body ? client_call(&follow->client, VERB_GO_ON, body, GO_ON_TIMEOUT_NS, &reply)
             : COP_ENOMEM;
    cop_buf_unref(body);
    if (!error)
        error = reply.status;
    /* Also where it has not come to a view yet: it was told, and it will. */
    if (error == 0 || error == COP_ETIMEDOUT)
        complain("warning: view %" PRIu64 " is given up without a quorum. If the "
                 "others go on, too, there are two clusters.",
                 epoch);
    return error ? explain_go_on(error, epoch, roll) : 0;
}

/* The same agent's view, once more. */
static int look_again(struct follow *follow, struct roll *roll)
{
    roll_free(roll);
    int error = client_roll(&follow->client, 0, ASK_TIMEOUT_NS, roll);
    return error ? fail(EXIT_FAILED, "it has no view: %s", cop_strerror(error)) : 0;
}

static int run(struct local *local, const struct options *options)
{
    struct follow follow = {.local = local,
                            .agent = options->agent,
                            .from = options->from,
                            .command = "view"};
    struct roll roll;
    int code = follow_open(&follow, &roll);
    if (code)
        return code;
    if (options->go_on > 0) {
        code = go_on(&follow, options->go_on, &roll);
        if (code)
            roll_free(&roll);
        else
            code = look_again(&follow, &roll);
        if (code) {
            follow_close(&follow);
            return code;
        }
    }
    /* On hosts only one is asked: each would be a login. */
    bool is_far = local != NULL && local->hosts != NULL;
    if (local == NULL || options->watch || is_far)
        code = print_all(&follow, &roll, options);
    else
        code = print_with_opinions(local, &roll, options);
    follow_close(&follow);
    return code;
}

static int run_local(const char *name, const struct options *options)
{
    struct local local;
    int code = local_open(name, &local);
    if (code)
        return code;
    code = run(&local, options);
    local_close(&local);
    return code;
}

int cmd_view(int argc, char **argv)
{
    struct options got = {0};
    const struct args_option options[] = {
        {0, "name", "NAME", "of the cluster", ARGS_TEXT, &got.name, 0, 0},
        {0, "from", "MEMBER", "whose view; the lowest that lives otherwise", ARGS_TEXT,
         &got.from, 0, 0},
        {0, "agent", "SOCKET", "that of this agent, not of a local cluster", ARGS_TEXT,
         &got.agent, 0, 0},
        {0, "watch", NULL, "go on, and print every view that follows", ARGS_FLAG,
         &got.watch, 0, 0},
        {0, "go-on", "EPOCH",
         "from the view EPOCH those who are left go on without a quorum", ARGS_NUMBER,
         &got.go_on, 1, UINT64_MAX},
        {0, "json", NULL, "one object per line: coppice.view.v1", ARGS_FLAG,
         &got.as_json, 0, 0},
        {0},
    };
    struct args args = {
        .name = "view",
        .usage = "[options]",
        .text =
            "Shows who is in the cluster as a member sees it, what has changed, and\n"
            "whether the others see the same.\n"
            "Exit status: 0 all agree, 1 they do not, 3 no such cluster, 4 degraded\n"
            "or not in the view.",
        .options = options,
    };
    struct settings settings;
    int code;
    if (!args_parse(&args, argc, argv, &code))
        return code;
    if (got.agent != NULL && (got.from != NULL || got.name != NULL))
        return fail(EXIT_USAGE, "view: --agent excludes --from and --name");
    if (got.agent != NULL)
        return run(NULL, &got);
    code = local_settings(&settings, got.name);
    return code ? code : run_local(settings_name(&settings), &got);
}
