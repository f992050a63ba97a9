/* SPDX-License-Identifier: Apache-2.0 */
#include "ask/follow.h"
#include "talk/diary.h"
#include "term/args.h"
#include "term/commands.h"
#include "term/json.h"
#include "term/say.h"

#include <coppice/error.h>
#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

struct options {
    const char *name, *member, *agent;
    bool as_json, follow;
};

/* What is needed to show an entry. */
struct screen {
    const struct options *options;
    const struct cluster *cluster; /* NULL: names of the view */
    const struct diary *diary;
};

/* ---- words ----------------------------------------------------------------------- */

static const char *reason_key(enum cop_reason reason)
{
    static const char *const keys[] = {"refused", "silent", "inquiry", "outside",
                                       "hearsay"};
    return keys[reason];
}

static const char *outcome_key(enum cop_outcome outcome)
{
    static const char *const keys[] = {"pending", "denied", "not_confirmed", "removed"};
    return keys[outcome];
}

/* Why, as the end of a sentence about the accuser. */
static const char *reason_text(enum cop_reason reason)
{
    static const char *const texts[] = {
        "nobody listens there",
        "it does not answer",
        "it did not answer an inquiry",
        "somebody outside knows",
        "hearsay",
    };
    return texts[reason];
}

static void print_outcome(const struct cop_suspicion *suspicion)
{
    switch (suspicion->outcome) {
    case COP_OUTCOME_PENDING:
        printf("%spending%s", colour(stdout, YELLOW), colour(stdout, PLAIN));
        return;
    case COP_OUTCOME_DENIED:
        printf("%sdenied%s", colour(stdout, GREEN), colour(stdout, PLAIN));
        return;
    case COP_OUTCOME_NOT_CONFIRMED:
        printf("%snot confirmed: a witness reached it%s", colour(stdout, GREEN),
               colour(stdout, PLAIN));
        return;
    case COP_OUTCOME_REMOVED:
        printf("%sremoved by view %" PRIu64 "%s", colour(stdout, RED), suspicion->epoch,
               colour(stdout, PLAIN));
        return;
    }
}

/* ---- lines ----------------------------------------------------------------------- */

/* The time of day of a moment on the monotonic clock. */
static void print_time(cop_time at_ns)
{
    struct timespec wall;
    struct tm broken;
    cop_time now = now_ns(), ago = now > at_ns ? now - at_ns : 0;
    clock_gettime(CLOCK_REALTIME, &wall);
    cop_time since = (cop_time)wall.tv_sec * COP_SEC + (cop_time)wall.tv_nsec - ago;
    time_t seconds = (time_t)(since / COP_SEC);
    localtime_r(&seconds, &broken);
    printf("%s%02d:%02d:%02d.%03d%s  ", colour(stdout, DIM), broken.tm_hour,
           broken.tm_min, broken.tm_sec, (int)(since % COP_SEC / COP_MSEC),
           colour(stdout, PLAIN));
}

static void print_suspicion(const struct screen *screen,
                            const struct cop_suspicion *suspicion, bool is_settled)
{
    const struct roll *roll = &screen->diary->roll;
    char accused[COP_NAME_MAX + 1], accuser[COP_NAME_MAX + 1];
    roll_name(roll, screen->cluster, suspicion->accused, accused);
    roll_name(roll, screen->cluster, suspicion->accuser, accuser);
    if (is_settled)
        printf("the suspicion of %s: ", accused);
    else if (suspicion->accuser == COP_ID_NONE)
        printf("%s is said to be gone; ", accused);
    else if (suspicion->reason == COP_REASON_HEARSAY)
        printf("%s says that %s is gone; ", accuser, accused);
    else
        printf("%s suspects %s: %s; ", accuser, accused,
               reason_text(suspicion->reason));
    print_outcome(suspicion);
    putchar('\n');
}

/* Folded names of those that the guard holds; to be freed. */
static char *fold_held(const struct screen *screen, const struct roll *held)
{
    return roll_fold(&screen->diary->roll, screen->cluster, held->held,
                     roll_held(held));
}

static void print_held(const struct screen *screen, const struct roll *held)
{
    char *names = fold_held(screen, held);
    if (held->held_total > 0)
        printf("%sheld by the guard: %s%s\n", colour(stdout, YELLOW),
               names ? names : "?", colour(stdout, PLAIN));
    else
        printf("nobody is held by the guard any more\n");
    free(names);
}

static void print_line(const struct screen *screen, const struct diary_entry *entry)
{
    char text[ROLL_TEXT_SIZE];
    print_time(entry->at_ns);
    switch (entry->kind) {
    case DIARY_SUSPECTED:
    case DIARY_SETTLED:
        print_suspicion(screen, entry->suspicion, entry->kind == DIARY_SETTLED);
        return;
    case DIARY_CHANGED:
        roll_event_text(&screen->diary->roll, screen->cluster, entry->event, text,
                        sizeof text);
        printf("view %" PRIu64 ": %s\n", entry->event->epoch, text);
        return;
    case DIARY_HELD:
        print_held(screen, entry->held);
        return;
    case DIARY_LOST:
        printf("%" PRIu64 " earlier record%s not kept\n", entry->lost,
               entry->lost == 1 ? " was" : "s were");
        return;
    }
}

/* ---- objects --------------------------------------------------------------------- */

static const char *what_key(const struct diary_entry *entry)
{
    switch (entry->kind) {
    case DIARY_SUSPECTED:
        return "suspected";
    case DIARY_SETTLED:
        return "settled";
    case DIARY_CHANGED:
        return roll_event_name(entry->event);
    case DIARY_HELD:
        return "held";
    case DIARY_LOST:
        return "lost";
    }
    return "?";
}

/* A name, or null for nobody. */
static void put_name(struct json *json, const struct screen *screen, const char *key,
                     cop_id id)
{
    char name[COP_NAME_MAX + 1];
    if (id != COP_ID_NONE)
        roll_name(&screen->diary->roll, screen->cluster, id, name);
    json_put_string(json, key, id == COP_ID_NONE ? NULL : name);
}

/* A number, or null where there is none. */
static void put_number(struct json *json, const char *key, bool is_there,
                       uint64_t value)
{
    if (is_there) {
        json_put_u64(json, key, value);
    } else {
        json_key(json, key);
        json_null(json);
    }
}

static cop_id member_of(const struct diary_entry *entry)
{
    if (entry->suspicion)
        return entry->suspicion->accused;
    if (!entry->event)
        return COP_ID_NONE;
    return entry->event->change.kind == COP_VIEW_REPLACED
               ? entry->event->change.new_worker
               : entry->event->change.id;
}

/* Every object has every key. */
static void print_object(const struct screen *screen, const struct diary_entry *entry)
{
    const struct cop_suspicion *suspicion = entry->suspicion;
    const struct roll_event *event = entry->event;
    bool is_role = event && event->change.kind == COP_VIEW_REPLACED;
    bool is_removed = suspicion && suspicion->outcome == COP_OUTCOME_REMOVED;
    char *held = entry->held ? fold_held(screen, entry->held) : NULL;
    struct json json;
    json_init(&json, stdout);
    json_begin_object(&json);
    json_put_string(&json, "schema", "coppice.event.v1");
    json_put_u64(&json, "at_ns", entry->at_ns);
    put_name(&json, screen, "from", screen->diary->roll.self);
    json_put_string(&json, "what", what_key(entry));
    put_name(&json, screen, "member", member_of(entry));
    put_number(&json, "incarnation", suspicion != NULL,
               suspicion ? suspicion->incarnation : 0);
    put_number(&json, "number", suspicion != NULL, suspicion ? suspicion->number : 0);
    put_name(&json, screen, "accuser", suspicion ? suspicion->accuser : COP_ID_NONE);
    json_put_string(&json, "reason", suspicion ? reason_key(suspicion->reason) : NULL);
    json_put_string(&json, "outcome",
                    suspicion ? outcome_key(suspicion->outcome) : NULL);
    put_number(&json, "epoch", event || is_removed,
               event        ? event->epoch
               : is_removed ? suspicion->epoch
                            : 0);
    put_number(&json, "role", is_role, is_role ? event->change.role : 0);
    put_number(&json, "count", entry->kind == DIARY_LOST || entry->held,
               entry->held ? entry->held->held_total : entry->lost);
    json_put_string(&json, "held", held);
    json_end_object(&json);
    free(held);
}

static void show(void *context, const struct diary_entry *entry)
{
    const struct screen *screen = context;
    if (screen->options->as_json)
        print_object(screen, entry);
    else
        print_line(screen, entry);
}

/* ---- the command ----------------------------------------------------------------- */

static void print_whose(const struct screen *screen)
{
    char name[COP_NAME_MAX + 1];
    if (screen->options->as_json)
        return;
    roll_name(&screen->diary->roll, screen->cluster, screen->diary->roll.self, name);
    printf("%sas %s remembers%s\n", colour(stdout, BOLD), name, colour(stdout, PLAIN));
}

static int read_all(struct follow *follow, const struct options *options,
                    struct diary *diary)
{
    struct diary_reader reader = {0};
    struct screen screen = {options, follow->local ? &follow->local->cluster : NULL,
                            diary};
    uint64_t known = 0;
    for (;;) {
        struct client_reply reply;
        uint32_t moves = follow->moves;
        int code = follow_next(follow, VERB_EVENTS, known, &reply);
        if (code)
            return code;
        if (diary_decode(reply.body, diary) != 0)
            return fail(EXIT_FAILED, "the agent says something unintelligible");
        if (known == 0 || follow->moves != moves)
            print_whose(&screen);
        diary_read(&reader, diary, now_ns(), show, &screen);
        known = diary->serial;
        roll_free(&diary->roll);
        /* main says why. */
        if (fflush(stdout) != 0 || ferror(stdout))
            return EXIT_FAILED;
        if (!options->follow)
            return EXIT_DONE;
    }
}

static int run(struct local *local, const struct options *options)
{
    struct follow follow = {.local = local,
                            .agent = options->agent,
                            .from = options->member,
                            .command = "events"};
    struct roll roll;
    int code = follow_open(&follow, &roll);
    if (code)
        return code;
    roll_free(&roll);
    struct diary *diary = malloc(sizeof *diary);
    code = diary ? read_all(&follow, options, diary)
                 : fail(EXIT_FAILED, "%s", cop_strerror(COP_ENOMEM));
    free(diary);
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

int cmd_events(int argc, char **argv)
{
    struct options got = {0};
    const struct args_option options[] = {
        {0, "name", "NAME", "of the cluster", ARGS_TEXT, &got.name, 0, 0},
        {0, "member", "MEMBER",
         "as this one remembers; the lowest that lives otherwise", ARGS_TEXT,
         &got.member, 0, 0},
        {0, "agent", "SOCKET", "as this agent does, not one of a local cluster",
         ARGS_TEXT, &got.agent, 0, 0},
        {0, "follow", NULL, "go on, and print what happens, until interrupted",
         ARGS_FLAG, &got.follow, 0, 0},
        {0, "json", NULL, "one object per line: coppice.event.v1", ARGS_FLAG,
         &got.as_json, 0, 0},
        {0},
    };
    struct args args = {
        .name = "events",
        .usage = "[options]",
        .text = "Shows who was suspected by whom, when, why and with what outcome, and "
                "how\n"
                "the view changed, the oldest first. A member remembers the last 64 of "
                "each.",
        .options = options,
    };
    struct settings settings;
    int code;
    if (!args_parse(&args, argc, argv, &code))
        return code;
    if (got.agent != NULL && (got.member != NULL || got.name != NULL))
        return fail(EXIT_USAGE, "events: --agent excludes --member and --name");
    if (got.agent != NULL)
        return run(NULL, &got);
    code = local_settings(&settings, got.name);
    return code ? code : run_local(settings_name(&settings), &got);
}
