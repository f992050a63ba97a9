/* SPDX-License-Identifier: Apache-2.0 */
#include "trial/trial.h"

#include "bench/chorus.h"
#include "term/commands.h"
#include "term/say.h"
#include "trial/trial_down.h"

#include <coppice/error.h>
#include <coppice/filter.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Nothing takes that long; but a machine may be busy. */
#define PATIENCE_S 120

/* A number of packets that is none: what came out is no sum of first packets. */
#define NOT_A_PREFIX UINT64_MAX

struct trial {
    const struct trial_config *config;
    struct trial_result *result;
    struct chorus chorus;
    struct cop_tree tree;
    struct trial_down down;
    bool is_killed[TRIAL_MEMBERS_MAX];
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    /* With the mutex. */
    uint64_t wave;    /* the last that came out */
    uint64_t reached; /* the last packet down that has come to all */
    uint64_t counts[TRIAL_MEMBERS_MAX];
    bool is_out; /* all waves are */
    bool is_done, is_closed;
    int status;
};

/* ---- packets --------------------------------------------------------------------- */

static uint64_t value_of(cop_id id, uint64_t wave) { return id + 1 + 31 * wave; }

static uint64_t sum_of(cop_id id, uint64_t waves)
{
    return (id + 1) * waves + 31 * (waves * (waves + 1) / 2);
}

static void put_u64(uint8_t *out, uint64_t value)
{
    for (int i = 0; i < 8; i++)
        out[i] = (uint8_t)(value >> (8 * i));
}

/* As many numbers as there are members up to this one, and all but the last are 0. */
static uint32_t packet_of_sum(cop_id id, uint64_t wave, uint8_t *out)
{
    memset(out, 0, (size_t)id * 8);
    put_u64(out + (size_t)id * 8, value_of(id, wave));
    return (id + 1) * 8;
}

/* The same behind a place that all of them share. */
static uint32_t packet_of_levels(cop_id id, uint64_t wave, uint8_t *out)
{
    put_u64(out, value_of(id, wave));
    return 8 + packet_of_sum(id, wave, out + 8);
}

static uint32_t packet_of_union(cop_id id, uint64_t wave, uint8_t *out)
{
    put_u64(out, (uint64_t)id << 32 | wave);
    return 8;
}

static uint64_t waves_of(const struct trial *trial, cop_id id, uint64_t sum)
{
    uint64_t most = chorus_given(&trial->chorus, id);
    uint64_t began = chorus_began(&trial->chorus, id);
    for (uint64_t k = began; k <= most; k++)
        if (sum_of(id, k) - sum_of(id, began) == sum)
            return k;
    return NOT_A_PREFIX;
}

/* What is at a place of the result, of which each has 16 bytes. */
static uint64_t sum_at(const struct cop_buf *result, size_t place)
{
    return place * 16 + 16 <= result->length
               ? cop_filter_get_u64(result->data + place * 16)
               : 0;
}

/* The number of the last packet of each that is in it. The total is for a person. */
static uint64_t count_sums(const struct trial *trial, const struct cop_buf *result,
                           uint64_t *counts)
{
    uint64_t total = 0;
    size_t first = trial->config->kind == TRIAL_LEVELS ? 1 : 0;
    for (cop_id id = 0; id < trial->config->n; id++) {
        uint64_t sum = sum_at(result, first + id);
        counts[id] = waves_of(trial, id, sum);
        total += sum;
    }
    return total;
}

/* Which child of the root it was to be below. */
static cop_id branch_of(const struct trial *trial, cop_id id)
{
    while (cop_tree_level(&trial->tree, id) > 1)
        id = cop_tree_parent(&trial->tree, id);
    return id;
}

/* Whether what all share is the largest of the sums that are to be added up together. */
static bool is_largest(const struct trial *trial, const struct cop_buf *result)
{
    uint64_t sums[TRIAL_MEMBERS_MAX] = {0}, largest = 0;
    for (cop_id id = 0; id < trial->config->n; id++) {
        uint64_t *sum = &sums[branch_of(trial, id)];
        *sum += sum_at(result, (size_t)id + 1);
        largest = *sum > largest ? *sum : largest;
    }
    return sum_at(result, 0) == largest;
}

static uint64_t count_numbers(const struct trial *trial, const struct cop_buf *result,
                              uint64_t *counts)
{
    uint64_t total = result->length / 8;
    for (cop_id id = 0; id < trial->config->n; id++)
        counts[id] = chorus_began(&trial->chorus, id);
    for (uint64_t i = 0; i < total; i++) {
        uint64_t number = cop_filter_get_u64(result->data + i * 8);
        uint64_t id = number >> 32, wave = number & UINT32_MAX;
        if (id >= trial->config->n)
            continue;
        if (counts[id] != NOT_A_PREFIX)
            counts[id] = wave == counts[id] + 1 ? wave : NOT_A_PREFIX;
    }
    return total;
}

/* ---- what comes out -------------------------------------------------------------- */

static bool is_back_end(const struct trial *trial, cop_id id)
{
    return cop_tree_child_count(&trial->tree, id) == 0;
}

/* Everybody with exactly so many packets; of the dead no more than they gave. */
static bool is_aligned(const struct trial *trial, const uint64_t *counts, uint64_t wave)
{
    for (cop_id id = 0; id < trial->config->n; id++) {
        bool is_good = counts[id] == wave;
        if (!is_back_end(trial, id))
            is_good = counts[id] == 0;
        else if (trial->is_killed[id])
            is_good = counts[id] <= chorus_given(&trial->chorus, id);
        if (!is_good)
            return false;
    }
    return true;
}

static void note_recovery(struct trial_result *result, uint64_t wave)
{
    for (uint32_t i = 0; i < result->kill_count; i++) {
        struct trial_kill *one = &result->kills[i];
        if (one->took_ns == 0 && one->at_ns != 0 && wave >= one->after)
            one->took_ns = now_ns() - one->at_ns;
    }
}

static bool was_killed(struct trial *trial, cop_id id)
{
    pthread_mutex_lock(&trial->mutex);
    bool was = trial->is_killed[id];
    pthread_mutex_unlock(&trial->mutex);
    return was;
}

/* A member sends its first wave before its program is told of the stream. All that live are in
 * a complete output, so each is told soon; who is not is judged as one that began with the
 * first. */
static void wait_for_beginners(struct trial *trial)
{
    struct timespec pause = {0, 1000000};
    for (cop_id id = 0; id < trial->config->n; id++)
        for (uint32_t turns = 0;
             is_back_end(trial, id) && turns < PATIENCE_S * 1000 &&
             !chorus_has_begun(&trial->chorus, id) && !was_killed(trial, id);
             turns++)
            nanosleep(&pause, NULL);
}

/* With the mutex: all is out, and all packets down have come to all. */
static bool is_over(const struct trial *trial)
{
    return trial->is_out &&
           (trial->down.filter == NULL || trial->reached >= trial->config->waves);
}

static void on_output(struct trial *trial, const struct cop_stream_event *event,
                      const struct cop_buf *result)
{
    const struct trial_config *config = trial->config;
    uint64_t counts[TRIAL_MEMBERS_MAX] = {0};
    if (event->complete)
        wait_for_beginners(trial);
    uint64_t total = config->kind == TRIAL_UNION ? count_numbers(trial, result, counts)
                                                 : count_sums(trial, result, counts);
    bool is_good = config->kind != TRIAL_LEVELS || is_largest(trial, result);
    pthread_mutex_lock(&trial->mutex);
    struct trial_result *out = trial->result;
    out->outputs++;
    trial->wave = event->wave > trial->wave ? event->wave : trial->wave;
    if (event->complete) {
        out->completes++;
        out->misaligned += !is_aligned(trial, counts, event->wave) || !is_good;
        out->wave = event->wave;
        out->total = total;
        memcpy(trial->counts, counts, sizeof counts);
        note_recovery(out, event->wave);
    }
    trial->is_out = event->complete && event->wave == config->waves;
    trial->is_done = is_over(trial);
    pthread_cond_broadcast(&trial->changed);
    pthread_mutex_unlock(&trial->mutex);
    if (config->on_wave != NULL)
        config->on_wave(config->context, event->wave, total, event->complete);
}

/* One for each wave that is out, as far as there is room. */
static void send_down(struct trial *trial, struct cop_run *run, uint64_t stream)
{
    uint8_t packet[TRIAL_DOWN_MAX];
    uint64_t *sent = &trial->result->sent;
    while (*sent < trial->wave) {
        uint32_t length = trial_down_packet(&trial->down, *sent + 1, packet);
        if (cop_stream_multicast(run, stream, packet, length) != 0)
            return;
        ++*sent;
    }
}

static void on_reached(struct trial *trial, uint64_t number)
{
    pthread_mutex_lock(&trial->mutex);
    trial->reached = number;
    trial->is_done = is_over(trial);
    pthread_cond_broadcast(&trial->changed);
    pthread_mutex_unlock(&trial->mutex);
}

static void on_told(void *context, struct cop_run *run, uint64_t stream,
                    const struct cop_stream_event *event)
{
    struct trial *trial = context;
    struct cop_buf *result;
    int error = 0;
    if (event->kind == COP_STREAM_OUTPUT) {
        error = cop_stream_result(run, stream, event, &result);
        if (error == 0) {
            on_output(trial, event, result);
            cop_buf_unref(result);
        }
    }
    if (event->kind == COP_STREAM_REACHED)
        on_reached(trial, event->wave);
    if (trial->down.filter != NULL && event->kind != COP_STREAM_CLOSED && error == 0)
        send_down(trial, run, stream);
    if (event->kind != COP_STREAM_CLOSED && error == 0)
        return;
    pthread_mutex_lock(&trial->mutex);
    trial->is_closed = true;
    trial->status = error ? error : event->status;
    pthread_cond_broadcast(&trial->changed);
    pthread_mutex_unlock(&trial->mutex);
}

/* ---- who dies -------------------------------------------------------------------- */

static bool is_inner(const struct trial *trial, cop_id id)
{
    return !is_back_end(trial, id) && id != trial->tree.root;
}

static bool may_die(const struct trial *trial, cop_id id)
{
    return id < trial->config->n - 1 && !trial->is_killed[id];
}

static void add_victim(const struct trial *trial, struct trial_kill *one, cop_id id)
{
    if (may_die(trial, id) && one->count < TRIAL_VICTIMS_MAX)
        one->victims[one->count++] = id;
}

/* The root of the view, as it must be: the lowest that lives. */
static cop_id living_root(const struct trial *trial)
{
    cop_id id = 0;
    while (trial->is_killed[id])
        id++;
    return id;
}

static cop_id first_inner(const struct trial *trial)
{
    cop_id root = living_root(trial);
    for (cop_id id = 0; id < trial->config->n; id++)
        if (is_inner(trial, id) && may_die(trial, id) && id != root)
            return id;
    return COP_ID_NONE;
}

static void add_pair(const struct trial *trial, struct trial_kill *one)
{
    cop_id id = first_inner(trial);
    if (id == COP_ID_NONE)
        return;
    add_victim(trial, one, id);
    for (cop_id child = 0; child < trial->config->n && one->count < 2; child++)
        if (child != id && cop_tree_parent(&trial->tree, child) == id)
            add_victim(trial, one, child);
}

static void add_level(const struct trial *trial, struct trial_kill *one)
{
    for (cop_id id = 1; id < trial->config->n; id++)
        if (cop_tree_parent(&trial->tree, id) == trial->tree.root)
            add_victim(trial, one, id);
}

static void add_leaf(const struct trial *trial, struct trial_kill *one)
{
    for (cop_id id = trial->config->n; id-- > 0 && one->count == 0;)
        if (is_back_end(trial, id))
            add_victim(trial, one, id);
}

static int add_numbers(const struct trial *trial, struct trial_kill *one)
{
    char copy[sizeof one->what], *rest, *word;
    snprintf(copy, sizeof copy, "%s", one->what);
    for (word = strtok_r(copy, "+", &rest); word; word = strtok_r(NULL, "+", &rest)) {
        uint64_t id;
        if (parse_number(word, 0, trial->config->n - 2, &id) != 0)
            return fail(
                EXIT_USAGE,
                "stream: --kill takes leaf, inner, pair, level, root, front, or "
                "members from 0 to %" PRIu32 " with + between, not '%s'",
                trial->config->n - 2, one->what);
        add_victim(trial, one, (cop_id)id);
    }
    return 0;
}

static int choose_victims(const struct trial *trial, struct trial_kill *one)
{
    one->count = 0;
    if (strcmp(one->what, "leaf") == 0)
        add_leaf(trial, one);
    else if (strcmp(one->what, "inner") == 0)
        add_victim(trial, one, first_inner(trial));
    else if (strcmp(one->what, "pair") == 0)
        add_pair(trial, one);
    else if (strcmp(one->what, "level") == 0)
        add_level(trial, one);
    else if (strcmp(one->what, "root") == 0)
        add_victim(trial, one, living_root(trial));
    else if (strcmp(one->what, "front") == 0)
        add_victim(trial, one, trial->config->n - 2);
    else
        return add_numbers(trial, one);
    return 0;
}

static int read_kills(const struct trial *trial)
{
    char copy[512], *rest = NULL, *word;
    struct trial_result *result = trial->result;
    if ((size_t)snprintf(copy, sizeof copy, "%s", trial->config->kills) >= sizeof copy)
        return fail(EXIT_USAGE, "stream: --kill has too many words");
    for (word = strtok_r(copy, ",", &rest); word; word = strtok_r(NULL, ",", &rest)) {
        if (result->kill_count == TRIAL_KILLS_MAX)
            return fail(EXIT_USAGE, "stream: --kill takes at most %u words",
                        TRIAL_KILLS_MAX);
        struct trial_kill *one = &result->kills[result->kill_count++];
        if ((size_t)snprintf(one->what, sizeof one->what, "%s", word) >=
            sizeof one->what)
            return fail(EXIT_USAGE, "stream: --kill: '%s' is too long", word);
        int code = choose_victims(trial, one);
        if (code)
            return code;
        if (strcmp(word, "front") == 0 && result->kill_count > 1)
            return fail(EXIT_USAGE, "stream: of --kill, front comes first");
    }
    return 0;
}

/* ---- the course of it ------------------------------------------------------------ */

static bool wait_for(struct trial *trial, uint64_t wave)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PATIENCE_S;
    int late = 0;
    pthread_mutex_lock(&trial->mutex);
    while (!trial->is_closed && late == 0 &&
           (wave == 0 ? !trial->is_done : trial->wave < wave))
        late = pthread_cond_timedwait(&trial->changed, &trial->mutex, &until);
    bool is_good = !trial->is_closed && late == 0;
    pthread_mutex_unlock(&trial->mutex);
    return is_good;
}

/* A wave that nobody has given yet can only come out if everything works again. */
static void strike(struct trial *trial, struct trial_kill *one)
{
    const struct trial_config *config = trial->config;
    uint64_t most = 0;
    choose_victims(trial, one);
    pthread_mutex_lock(&trial->mutex);
    one->wave = trial->wave;
    pthread_mutex_unlock(&trial->mutex);
    if (config->on_kill != NULL)
        config->on_kill(config->context, one->what, one->wave);
    cop_time at = now_ns();
    for (uint32_t i = 0; i < one->count; i++) {
        pthread_mutex_lock(&trial->mutex);
        trial->is_killed[one->victims[i]] = true;
        pthread_mutex_unlock(&trial->mutex);
        chorus_kill(&trial->chorus, one->victims[i]);
    }
    for (cop_id id = 0; id < config->n; id++)
        if (chorus_given(&trial->chorus, id) > most)
            most = chorus_given(&trial->chorus, id);
    pthread_mutex_lock(&trial->mutex);
    one->after = most < config->waves ? most + 1 : config->waves;
    one->at_ns = at;
    pthread_mutex_unlock(&trial->mutex);
}

static struct cop_stream_options options_of(const struct trial *trial, bool is_kept)
{
    static const char *const filters[] = {"sum", "union", "levels"};
    const struct trial_config *config = trial->config;
    struct cop_stream_options options = {
        .number = CHORUS_STREAM,
        .filter = filters[config->kind],
        .type = config->kind == TRIAL_UNION ? "u64" : "u64[]",
        .params = config->kind == TRIAL_LEVELS ? "sum@1,max" : "",
        .flags = COP_STREAM_LEAVES | (is_kept ? COP_STREAM_KEEP : 0),
        .window = config->window};
    trial_down_open(&trial->down, &options);
    return options;
}

/* The front-end is another process at first, and is killed when all have begun. */
static int lose_first_front(struct trial *trial, struct trial_kill *one)
{
    struct timespec pause = {0, 1000000};
    for (cop_id id = 0; id < trial->config->n; id++)
        for (uint32_t turns = 0;
             is_back_end(trial, id) && chorus_given(&trial->chorus, id) < 2; turns++) {
            if (turns > PATIENCE_S * 1000)
                return fail(EXIT_FAILED, "the first front-end gets nothing");
            nanosleep(&pause, NULL);
        }
    strike(trial, one);
    return 0;
}

static int explain(struct trial *trial)
{
    pthread_mutex_lock(&trial->mutex);
    bool is_closed = trial->is_closed;
    uint64_t wave = trial->wave;
    int status = trial->status;
    pthread_mutex_unlock(&trial->mutex);
    if (is_closed)
        return fail(EXIT_FAILED, "the stream ended at wave %" PRIu64 ": %s", wave,
                    cop_strerror(status));
    return fail(EXIT_FAILED,
                "wave %" PRIu64 " of %" PRIu64 " was the last to come out in time",
                wave, trial->config->waves);
}

/* Until the next one is to be killed; false: that never comes. */
static bool wait_to_strike(struct trial *trial, uint32_t i, uint32_t first)
{
    const struct trial_config *config = trial->config;
    uint64_t parts = config->when == TRIAL_WAVES ? trial->result->kill_count + 1 : 2;
    uint64_t turn = config->when == TRIAL_WAVES ? i + 1 : 1;
    /* Sooner than orphans are adopted, and each a little later than the one before. */
    struct timespec pause = {0, 500000 * (long)i};
    if (config->when == TRIAL_START)
        return true;
    if (config->when == TRIAL_RECOVERY && i > first) {
        nanosleep(&pause, NULL);
        return true;
    }
    return wait_for(trial, config->waves / parts * turn);
}

static int run_stream(struct trial *trial)
{
    struct trial_result *result = trial->result;
    bool moves = result->kill_count > 0 && strcmp(result->kills[0].what, "front") == 0;
    struct cop_stream_options options = options_of(trial, moves);
    uint32_t first = moves ? 1 : 0;
    int code = moves ? lose_first_front(trial, &result->kills[0]) : 0;
    if (code)
        return code;
    int error = cop_stream_open(trial->chorus.run, &options, on_told, trial, NULL);
    if (error)
        return fail(EXIT_FAILED, "no stream: %s", cop_strerror(error));
    for (uint32_t i = first; i < result->kill_count; i++) {
        if (!wait_to_strike(trial, i, first))
            return explain(trial);
        strike(trial, &result->kills[i]);
    }
    return wait_for(trial, 0) ? 0 : explain(trial);
}

static bool is_right(const void *context, cop_id id,
                     const struct cop_stream_event *event)
{
    return trial_down_is_right(&((const struct trial *)context)->down, id, event);
}

/* A member says that it has a packet before its program is told of it; that is soon. */
static void wait_for_the_last(const struct trial *trial)
{
    struct timespec pause = {0, 1000000};
    uint64_t wrong;
    for (cop_id id = 0; id < trial->config->n; id++)
        for (uint32_t turns = 0;
             !trial->is_killed[id] && trial_down_is_for(&trial->down, id) &&
             turns < PATIENCE_S * 1000 &&
             chorus_heard(&trial->chorus, id, &wrong) < trial->result->sent;
             turns++)
            nanosleep(&pause, NULL);
}

/* All packets came to all who live and for whom they are. */
static bool judge_down(struct trial *trial)
{
    struct trial_result *result = trial->result;
    bool is_good = true;
    wait_for_the_last(trial);
    for (cop_id id = 0; id < trial->config->n; id++) {
        uint64_t wrong, heard = chorus_heard(&trial->chorus, id, &wrong);
        result->given_wrong += wrong;
        if (trial->is_killed[id])
            continue;
        result->given += heard;
        is_good = is_good &&
                  heard == (trial_down_is_for(&trial->down, id) ? result->sent : 0);
    }
    return is_good && result->given_wrong == 0;
}

/* What should be: all of the living, and of the dead the packets that are in. */
static void judge(struct trial *trial)
{
    struct trial_result *result = trial->result;
    bool is_good = result->misaligned == 0;
    for (cop_id id = 0; id < trial->config->n; id++) {
        if (!is_back_end(trial, id))
            continue;
        result->back_ends++;
        result->living += !trial->is_killed[id];
        uint64_t count = trial->counts[id];
        if (trial->is_killed[id] && count != NOT_A_PREFIX) {
            result->kept += count - chorus_began(&trial->chorus, id);
            result->lost_most +=
                chorus_given(&trial->chorus, id) - chorus_began(&trial->chorus, id);
        } else if (count != trial->config->waves) {
            is_good = false;
            count = trial->config->waves;
        }
        uint64_t began = chorus_began(&trial->chorus, id);
        result->expected += trial->config->kind == TRIAL_UNION
                                ? count - began
                                : sum_of(id, count) - sum_of(id, began);
    }
    result->is_exact = is_good && result->expected == result->total &&
                       (trial->down.filter == NULL || judge_down(trial));
}

static int run_trial(struct trial *trial)
{
    const struct trial_config *config = trial->config;
    static uint32_t (*const packets[])(cop_id, uint64_t, uint8_t *) = {
        packet_of_sum, packet_of_union, packet_of_levels};
    char shape[32];
    struct chorus_config chorus = {.n = config->n,
                                   .self = config->n - 1,
                                   .shape = shape,
                                   .key_file = config->key_file,
                                   .waves = config->waves,
                                   .packet = packets[config->kind],
                                   .opener = COP_ID_NONE,
                                   .is_right = config->down ? is_right : NULL,
                                   .context = trial,
                                   .options = options_of(trial, true)};
    snprintf(shape, sizeof shape, "kary:%" PRIu32, config->arity);
    int code = read_kills(trial);
    if (code)
        return code;
    if (trial->result->kill_count > 0 &&
        strcmp(trial->result->kills[0].what, "front") == 0)
        chorus.opener = config->n - 2;
    code = chorus_open(&trial->chorus, &chorus);
    if (code)
        return code;
    cop_time begun = now_ns();
    code = run_stream(trial);
    trial->result->elapsed_ns = now_ns() - begun;
    if (code == 0)
        judge(trial);
    /* Also ends callbacks, which may be under way. */
    chorus_close(&trial->chorus);
    return code;
}

int trial_run(const struct trial_config *config, struct trial_result *out)
{
    struct trial *trial = calloc(1, sizeof *trial);
    if (trial == NULL)
        return fail(EXIT_FAILED, "%s", cop_strerror(COP_ENOMEM));
    *out = (struct trial_result){0};
    trial->config = config;
    trial->result = out;
    trial->tree = (struct cop_tree){.n = config->n};
    int error = cop_shape_make(COP_SHAPE_KARY, config->arity, &trial->tree.shape);
    pthread_mutex_init(&trial->mutex, NULL);
    pthread_cond_init(&trial->changed, NULL);
    int code =
        error ? fail(EXIT_USAGE, "stream: no tree of arity %" PRIu32, config->arity)
        : !trial_down_init(&trial->down, config->down, &trial->tree)
            ? fail(EXIT_USAGE, "stream: --down takes scatter, select or path, not '%s'",
                   config->down)
            : run_trial(trial);
    pthread_mutex_destroy(&trial->mutex);
    pthread_cond_destroy(&trial->changed);
    free(trial);
    return code;
}
