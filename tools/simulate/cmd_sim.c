/* SPDX-License-Identifier: Apache-2.0 */
#include "simulate/heap.h"
#include "term/args.h"
#include "term/commands.h"
#include "term/json.h"
#include "term/say.h"

#include <coppice/sim.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

/* `coppice sim`: one run of many nodes, a script, or a swarm of random small runs. */

/* Above this the connections of the start are made without a word, to save memory. */
#define QUIET_NODES 65536
/* Up to this the checkers look on. */
#define CHECKED_NODES 4096

struct options {
    const char *protocol, *shape, *net, *script, *seeds, *algorithm;
    uint64_t nodes, seed, root, count, crashes, jobs;
    cop_time timeout_ns;
    bool swarm, lies, outcome, as_json, trace, keep_tree;
};

static bool is_member(const struct options *options)
{
    return strcmp(options->protocol, "member") == 0;
}

static bool is_coll(const struct options *options)
{
    return strcmp(options->protocol, "coll") == 0;
}

static bool is_agree(const struct options *options)
{
    return strcmp(options->protocol, "agree") == 0;
}

static bool is_stream(const struct options *options)
{
    return strcmp(options->protocol, "stream") == 0;
}

/* What a run cost in real time. */
struct costs {
    cop_time begun_ns, ended_ns; /* of the run itself, on the wall */
    cop_time cpu_begun_ns, cpu_ended_ns;
    cop_time setup_ns; /* making the nodes */
};

static cop_time cpu_ns(void)
{
    struct timespec now;
    if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now) != 0)
        return 0;
    return (cop_time)now.tv_sec * COP_SEC + (cop_time)now.tv_nsec;
}

static uint64_t peak_rss_bytes(void)
{
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? (uint64_t)usage.ru_maxrss * 1024 : 0;
}

/* ---- one script ------------------------------------------------------------------ */

static void on_begin(void *context, struct cop_sim *sim)
{
    struct costs *costs = context;
    (void)sim;
    costs->setup_ns = now_ns() - costs->setup_ns;
    costs->begun_ns = now_ns();
    costs->cpu_begun_ns = cpu_ns();
}

static void on_end(void *context, struct cop_sim *sim)
{
    struct costs *costs = context;
    (void)sim;
    costs->ended_ns = now_ns();
    costs->cpu_ended_ns = cpu_ns();
}

static void on_trace(void *context, const char *line)
{
    (void)context;
    puts(line);
}

static double per_second(uint64_t events, cop_time ns)
{
    return ns ? (double)events * 1e9 / (double)ns : 0;
}

static void put_counter(void *context, const char *name, uint64_t value)
{
    json_put_u64(context, name, value);
}

static void put_view(struct json *json, const struct cop_sim_report *report)
{
    json_put_u64(json, "epoch", report->epoch);
    json_put_u64(json, "members", report->members);
    json_put_u64(json, "installed", report->installed);
    json_put_u64(json, "heard_ns", report->times.heard);
    json_put_u64(json, "proposed_ns", report->times.proposed);
    json_put_u64(json, "stable_ns", report->times.stable);
    json_put_u64(json, "installed_ns", report->installed_ns);
}

static void print_json(const struct cop_sim_script *script,
                       const struct cop_sim_report *report, const struct costs *costs)
{
    struct json json;
    char digest[17];
    cop_time wall = costs->ended_ns - costs->begun_ns;
    snprintf(digest, sizeof(digest), "%016" PRIx64, report->trace_digest);
    json_init(&json, stdout);
    json_begin_object(&json);
    json_put_string(&json, "schema", "coppice.sim.v1");
    json_put_u64(&json, "nodes", script->config.nodes);
    json_put_u64(&json, "seed", script->config.seed);
    json_put_u64(&json, "submitted", report->submitted);
    json_put_u64(&json, "completed", report->completed);
    json_put_u64(&json, "answered", report->answered);
    json_put_u64(&json, "dead", report->dead);
    json_put_u64(&json, "silent", report->silent);
    put_view(&json, report);
    json_put_u64(&json, "agreements", report->agreements);
    json_put_u64(&json, "deaths", report->deaths);
    json_put_u64(&json, "agree_ns", report->agree_ns);
    json_put_u64(&json, "outputs", report->outputs);
    json_put_u64(&json, "complete", report->complete);
    json_put_u64(&json, "healed_ns", report->healed_ns);
    json_put_string(&json, "violation", report->failure[0] ? report->failure : NULL);
    json_put_u64(&json, "events", report->events);
    json_put_double(&json, "events_per_s", per_second(report->events, wall), 0);
    json_put_double(
        &json, "events_per_cpu_s",
        per_second(report->events, costs->cpu_ended_ns - costs->cpu_begun_ns), 0);
    json_put_u64(&json, "virtual_ns", report->virtual_ns);
    json_put_u64(&json, "completed_ns", report->completed_ns);
    json_put_u64(&json, "told_ns", report->told_ns);
    json_put_u64(&json, "setup_ns", costs->setup_ns);
    json_put_u64(&json, "wall_ns", wall);
    json_put_u64(&json, "peak_rss_bytes", peak_rss_bytes());
    json_put_u64(&json, "node_bytes", report->node_bytes / script->config.nodes);
    json_put_string(&json, "trace_digest", digest);
    json_key(&json, "counters");
    json_begin_object(&json);
    cop_stats_each(&report->stats, put_counter, &json);
    json_end_object(&json);
    json_end_object(&json);
}

static void print_times(const struct cop_sim_report *report)
{
    char stable[DURATION_SIZE];
    char installed[DURATION_SIZE];
    const struct cop_change_times *times = &report->times;
    if (times->epoch == 0)
        return;
    printf("from the report at the root: stable after %s, installed by all after %s\n",
           print_duration(times->stable - times->heard, stable),
           print_duration(report->installed_ns - times->heard, installed));
}

static void print_agreements(const struct cop_sim_report *report)
{
    char each[DURATION_SIZE];
    if (report->agreements == 0)
        return;
    printf("%" PRIu64 " agreements, %s each in the second half, %" PRIu64
           " votes cast again\n",
           report->agreements, print_duration(report->agree_ns, each),
           report->stats.revotes);
}

static void print_outputs(const struct cop_sim_report *report)
{
    char healed[DURATION_SIZE];
    if (report->outputs == 0)
        return;
    printf("%" PRIu64 " outputs of streams, %" PRIu64 " of them complete",
           report->outputs, report->complete);
    if (report->healed_ns > 0)
        printf("; complete again %s after the last death",
               print_duration(report->healed_ns, healed));
    printf("\n");
}

static void print_text(const struct cop_sim_script *script,
                       const struct cop_sim_report *report, const struct costs *costs)
{
    char virtual_time[DURATION_SIZE];
    char wall[DURATION_SIZE];
    char setup[DURATION_SIZE];
    cop_time took = costs->ended_ns - costs->begun_ns;
    if (script->config.quorum != COP_QUORUM_FIXED) {
        printf("%u nodes, seed %" PRIu64 ": view %" PRIu64 ", at %u of %u members\n",
               (unsigned)script->config.nodes, script->config.seed, report->epoch,
               (unsigned)report->installed, (unsigned)report->members);
        print_times(report);
        print_agreements(report);
        print_outputs(report);
    } else {
        printf("%u nodes, seed %" PRIu64 ": %u of %u probes completed\n",
               (unsigned)script->config.nodes, script->config.seed,
               (unsigned)report->completed, (unsigned)report->submitted);
        printf("last probe: %u answered, %u dead, %u silent, after %s\n",
               (unsigned)report->answered, (unsigned)report->dead,
               (unsigned)report->silent,
               print_duration(report->completed_ns, virtual_time));
        if (report->told_ns > 0)
            printf("the last service was told to run it after %s\n",
                   print_duration(report->told_ns, virtual_time));
    }
    printf("%" PRIu64 " events in %s (%.2f million a second), set up in %s\n",
           report->events, print_duration(took, wall),
           per_second(report->events, took) / 1e6,
           print_duration(costs->setup_ns, setup));
    printf("memory: %" PRIu64 " MiB at most, %" PRIu64 " bytes a node\n",
           peak_rss_bytes() >> 20, report->node_bytes / script->config.nodes);
    printf("trace digest: %016" PRIx64 "\n", report->trace_digest);
}

static int run_script(struct cop_sim_script *script, const struct options *options)
{
    struct cop_sim_report report;
    struct costs costs = {.setup_ns = now_ns()};
    script->config.begin = on_begin;
    script->config.end = on_end;
    script->config.trace = options->trace ? on_trace : NULL;
    script->config.context = &costs;
    int error = cop_sim_script_run(script, &report);
    script->config.context = NULL; /* it does not outlive this function */
    if (error)
        return fail(error == COP_EINVAL ? EXIT_USAGE : EXIT_FAILED, "sim: %s",
                    error == COP_EINVAL ? "a node, a time or the network does not fit"
                                        : cop_strerror(error));
    if (options->as_json)
        print_json(script, &report, &costs);
    else
        print_text(script, &report, &costs);
    if (report.failure[0])
        return fail(EXIT_FAILED, "sim: violated: %s", report.failure);
    return EXIT_DONE;
}

/* ---- where scripts come from ----------------------------------------------------- */

static char *read_all(FILE *in)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    char chunk[4096];
    size_t got;
    if (!out)
        return NULL;
    while ((got = fread(chunk, 1, sizeof(chunk), in)) > 0)
        fwrite(chunk, 1, got, out);
    bool failed = ferror(in) || ferror(out);
    if (fclose(out) != 0 || failed) {
        free(text);
        return NULL;
    }
    return text;
}

static int run_file(const struct options *options)
{
    bool is_stdin = strcmp(options->script, "-") == 0;
    FILE *in = is_stdin ? stdin : fopen(options->script, "r");
    if (!in)
        return fail(EXIT_USAGE, "sim: cannot read %s: %s", options->script,
                    strerror(errno));
    char *text = read_all(in);
    int why = errno;
    if (!is_stdin)
        fclose(in);
    if (!text)
        return fail(EXIT_USAGE, "sim: cannot read %s: %s", options->script,
                    strerror(why));
    struct cop_sim_script script;
    char message[256];
    int error = cop_sim_script_parse(text, &script, message, sizeof(message));
    free(text);
    if (error)
        return fail(EXIT_USAGE, "sim: %s: %s", options->script, message);
    int code = run_script(&script, options);
    cop_sim_script_free(&script);
    return code;
}

/* Adds `crashes` random deaths around the first probe; never of the one who asks. */
static void print_crashes(FILE *out, const struct options *options)
{
    uint64_t state = options->seed;
    for (uint64_t i = 0; i < options->crashes && options->nodes > 0; i++) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        uint64_t id = (state >> 33) % options->nodes;
        uint64_t at = (state >> 20) % (200 * COP_USEC);
        if (id == options->root)
            id = (id + 1) % options->nodes;
        fprintf(out, "at %" PRIu64 "ns crash %" PRIu64 "\n", at, id);
    }
}

/* One member after the other dies, and the view heals; never the root, to compare with the
 * models. */
static void print_deaths(FILE *out, const struct options *options)
{
    uint64_t count = options->crashes ? options->crashes : 1;
    uint64_t state = options->seed;
    fprintf(out, "views majority\n");
    for (uint64_t i = 0; i < count && options->nodes > 1; i++) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        fprintf(out, "at 1ms crash %" PRIu64 "\n",
                1 + (state >> 33) % (options->nodes - 1));
    }
}

/* Who is dead from the start is lost by a view while the first agreements run. The first
 * `crashes` of a permutation of all but the first, by the seed. */
static bool print_agreeing(FILE *out, const struct options *options)
{
    uint64_t state = options->seed;
    uint32_t *ids = calloc(options->nodes ? options->nodes : 1, sizeof(*ids));
    if (!ids)
        return false;
    for (uint32_t i = 0; i < options->nodes; i++)
        ids[i] = i;
    fprintf(out, "views none\nagree %s count %" PRIu64 " plain%s\n", options->algorithm,
            options->count, options->keep_tree ? " keep-tree" : "");
    for (uint64_t i = 1; i <= options->crashes && i < options->nodes; i++) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        uint64_t other = i + (state >> 33) % (options->nodes - i);
        uint32_t id = ids[other];
        ids[other] = ids[i];
        fprintf(out, "at 0ns crash %u\n", (unsigned)id);
    }
    free(ids);
    return true;
}

static char *script_text(const struct options *options)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    if (!out)
        return NULL;
    bool probes = !is_member(options) && !is_agree(options);
    fprintf(out, "nodes %" PRIu64 "\nshape %s\nseed %" PRIu64 "\nnet %s\n%s",
            options->nodes, options->shape, options->seed, options->net,
            is_agree(options) ? "" : "until-complete\n");
    if (options->nodes > QUIET_NODES || !probes)
        fprintf(out, "flags quiet\n");
    if (is_member(options))
        print_deaths(out, options);
    bool good = !is_agree(options) || print_agreeing(out, options);
    for (uint64_t i = 0; i < options->count && probes; i++)
        fprintf(out, "at %" PRIu64 "ns %s %" PRIu64 " timeout %" PRIu64 "ns%s\n",
                i * options->timeout_ns, is_coll(options) ? "bcast" : "probe",
                options->root, options->timeout_ns,
                is_coll(options)   ? " prompt"
                : options->outcome ? " outcome"
                                   : "");
    if (probes)
        print_crashes(out, options);
    if (fclose(out) != 0 || !good) {
        free(text);
        return NULL;
    }
    return text;
}

/* Nobody has written lines: what is wrong in the second or the fourth stands in an option. */
static int explain_script(const char *message, const struct options *options)
{
    const char *after =
        strncmp(message, "line ", 5) == 0 ? strstr(message, ": ") : NULL;
    unsigned long line = after ? strtoul(message + 5, NULL, 10) : 0;
    message = after ? after + 2 : message;
    if (line == 2)
        return fail(EXIT_USAGE, "sim: --shape '%s': %s", options->shape, message);
    if (line == 4)
        return fail(EXIT_USAGE, "sim: --net '%s': %s", options->net, message);
    return fail(EXIT_USAGE, "sim: %s", message);
}

static int run_protocol(const struct options *options)
{
    if (options->root >= options->nodes || options->crashes >= options->nodes)
        return fail(EXIT_USAGE,
                    "sim: --root and --crashes must be below --nodes (%" PRIu64 ")",
                    options->nodes);
    struct cop_sim_script script;
    char message[256] = "out of memory";
    char *text = script_text(options);
    int error = text ? cop_sim_script_parse(text, &script, message, sizeof(message))
                     : COP_ENOMEM;
    free(text);
    if (error)
        return explain_script(message, options);
    if (options->nodes > CHECKED_NODES && !is_agree(options))
        script.config.flags &= ~(uint32_t)COP_SIM_CHECK;
    int code = run_script(&script, options);
    cop_sim_script_free(&script);
    return code;
}

/* ---- swarm ----------------------------------------------------------------------- */

struct watch {
    struct progress progress;
    uint64_t all;
};

static bool on_progress(void *context, uint64_t done, uint64_t failed)
{
    struct watch *watch = context;
    (void)failed;
    progress_show(&watch->progress, "seeds", done, watch->all);
    return true;
}

/* "1000" is 1..1000; "5..8" are four. */
static bool parse_seeds(const char *text, uint64_t *first, uint64_t *count)
{
    char *end;
    uint64_t last;
    errno = 0;
    if (text[0] < '0' || text[0] > '9')
        return false;
    *first = strtoull(text, &end, 10);
    if (*end == '\0') {
        *count = *first;
        *first = 1;
        return errno == 0 && *count > 0;
    }
    if (strncmp(end, "..", 2) != 0 || end[2] < '0' || end[2] > '9')
        return false;
    last = strtoull(end + 2, &end, 10);
    *count = last - *first + 1;
    return errno == 0 && *end == '\0' && last >= *first && *count > 0;
}

static void print_swarm(const struct options *options,
                        const struct cop_sim_swarm_report *report, cop_time took)
{
    char digest[17];
    snprintf(digest, sizeof(digest), "%016" PRIx64, report->digest);
    if (!options->as_json) {
        char time[DURATION_SIZE];
        printf("%" PRIu64 " seeds, %" PRIu64 " failed, %" PRIu64
               " events, %s (%.3g seeds an hour), digest %s\n",
               report->done, report->failed, report->events, print_duration(took, time),
               3600 * per_second(report->done, took), digest);
        if (report->agreements > 0)
            printf("%" PRIu64 " agreements, %" PRIu64
                   " deaths; in an hour %.3g and %.3g\n",
                   report->agreements, report->deaths,
                   3600 * per_second(report->agreements, took),
                   3600 * per_second(report->deaths, took));
        return;
    }
    struct json json;
    json_init(&json, stdout);
    json_begin_object(&json);
    json_put_string(&json, "schema", "coppice.swarm.v1");
    json_put_u64(&json, "seeds", report->done);
    json_put_u64(&json, "failed", report->failed);
    json_key(&json, "first_failed");
    if (report->failed)
        json_u64(&json, report->first_failed);
    else
        json_null(&json);
    json_put_u64(&json, "events", report->events);
    json_put_u64(&json, "wall_ns", took);
    json_put_double(&json, "seeds_per_s", per_second(report->done, took), 1);
    json_put_u64(&json, "agreements", report->agreements);
    json_put_u64(&json, "deaths", report->deaths);
    json_put_string(&json, "digest", digest);
    json_end_object(&json);
}

/* Shows the seed, what it violates, and the shortest script that still does. */
static int show_failure(uint64_t seed, uint32_t flags)
{
    struct cop_sim_script script;
    struct cop_sim_script small;
    struct cop_sim_report report;
    int error = cop_sim_swarm_script(seed, flags, &script);
    if (error)
        return fail(EXIT_FAILED, "sim: seed %" PRIu64 " gives no script: %s", seed,
                    cop_strerror(error));
    error = cop_sim_shrink(&script, NULL, NULL, &small);
    cop_sim_script_free(&script);
    if (error)
        return fail(EXIT_FAILED,
                    "sim: seed %" PRIu64 " failed, and cannot be cut down: %s", seed,
                    cop_strerror(error));
    error = cop_sim_script_try(&small, &report);
    char *text = cop_sim_script_print(&small);
    if (!error && text)
        fprintf(stderr,
                "# seed %" PRIu64 ": %s\n# run it with: coppice sim --trace "
                "--script FILE\n%s",
                seed, report.failure, text);
    free(text);
    cop_sim_script_free(&small);
    return fail(EXIT_FAILED, "sim: seed %" PRIu64 " violates a property", seed);
}

static uint32_t agree_flags(const struct options *options)
{
    enum cop_algorithm algorithm;
    if (!is_agree(options))
        return 0;
    if (!options->algorithm || cop_algorithm_parse(options->algorithm, &algorithm) != 0)
        return COP_SIM_SWARM_AGREE;
    return COP_SIM_SWARM_AGREE | COP_SIM_SWARM_ALGORITHM(algorithm);
}

static int run_swarm(const struct options *options)
{
    struct cop_sim_swarm swarm = {
        .jobs = (uint32_t)options->jobs,
        .flags = (options->lies ? COP_SIM_SWARM_LIES : 0u) |
                 (is_member(options) ? COP_SIM_SWARM_VIEWS : 0u) |
                 (is_coll(options) ? COP_SIM_SWARM_COLL : 0u) |
                 (is_stream(options) ? COP_SIM_SWARM_STREAM : 0u) |
                 agree_flags(options),
        .progress = on_progress,
    };
    struct cop_sim_swarm_report report;
    struct watch watch;
    if (!parse_seeds(options->seeds, &swarm.first, &swarm.count))
        return fail(EXIT_USAGE, "sim: --seeds must be a count or A..B, not '%s'",
                    options->seeds);
    watch.all = swarm.count;
    swarm.context = &watch;
    cop_time begun = now_ns();
    progress_begin(&watch.progress);
    int error = cop_sim_swarm_run(&swarm, &report);
    progress_end(&watch.progress);
    if (error)
        return fail(EXIT_FAILED, "sim: %s", cop_strerror(error));
    print_swarm(options, &report, now_ns() - begun);
    return report.failed ? show_failure(report.first_failed, swarm.flags) : EXIT_DONE;
}

/* ---- the command ----------------------------------------------------------------- */

/* What a node in a sweep takes, with what the simulator keeps of it. */
#define EXPECTED_NODE_BYTES 1536u

static const char about[] =
    "Runs many nodes in one process on virtual time. The same seed gives "
    "the same\n"
    "trace everywhere. Exit code 1 if a property is violated; a seed of "
    "the swarm\n"
    "that does is cut down to a short script.";

/* The same of options that other protocols have. */
static int check_protocol(const struct args *args, const struct options *options)
{
    static const struct args_way one[] = {{"algorithm", "agree"},
                                          {"keep-tree", "agree"},
                                          {"root", "probe or coll"},
                                          {"count", "probe, coll or agree"},
                                          {"timeout", "probe or coll"},
                                          {"outcome", "probe"},
                                          {0}};
    const struct args_way *other = args_first_astray(args, one, options->protocol);
    if (other != NULL)
        return fail(EXIT_USAGE, "sim: --%s is for --protocol %s, not for %s",
                    other->name, other->ways, options->protocol);
    return EXIT_DONE;
}

/* What would not be looked at is refused: who types it believes that it counts. */
static int check_ways(const struct args *args, const struct options *options)
{
    static const char swarm[] =
        " --swarm --protocol --algorithm --seeds --jobs --lies --json ";
    static const char script[] = " --script --trace --json ";
    static const char one[] =
        " --protocol --algorithm --keep-tree --nodes --seed --shape --net --root "
        "--count --timeout --outcome --crashes --trace --json ";
    const char *other;
    if (options->swarm && (other = args_first_but(args, swarm)) != NULL)
        return fail(EXIT_USAGE, "sim: --%s does not go with --swarm%s", other,
                    strcmp(other, "seed") == 0 ? "; one seed is --seeds S..S" : "");
    if (options->swarm)
        return 0;
    if (options->script && (other = args_first_but(args, script)) != NULL)
        return fail(EXIT_USAGE,
                    "sim: --%s does not go with --script, which has all of it", other);
    if (!options->script && (other = args_first_but(args, one)) != NULL)
        return fail(EXIT_USAGE, "sim: --%s goes with --swarm only", other);
    return 0;
}

static int check(const struct args *args, struct options *options)
{
    enum cop_algorithm algorithm;
    int code = check_ways(args, options);
    if (code)
        return code;
    if (strcmp(options->protocol, "probe") != 0 && !is_member(options) &&
        !is_agree(options) && !is_coll(options) && !is_stream(options))
        return fail(EXIT_USAGE,
                    "sim: unknown protocol '%s': there are probe, member, agree, coll "
                    "and stream",
                    options->protocol);
    code = check_protocol(args, options);
    if (code)
        return code;
    if (is_stream(options) && !options->swarm && !options->script)
        return fail(EXIT_USAGE, "sim: --protocol stream needs --swarm; or write a "
                                "script with a line 'stream sum waves 20'");
    if (options->algorithm && cop_algorithm_parse(options->algorithm, &algorithm) != 0)
        return fail(
            EXIT_USAGE,
            "sim: unknown algorithm '%s': there are early, strict, tree, linear "
            "and allreduce",
            options->algorithm);
    if (!options->algorithm && !options->swarm)
        options->algorithm = "early";
    return EXIT_DONE;
}

int cmd_sim(int argc, char **argv)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    struct options options = {.protocol = "probe",
                              .shape = "radix:4",
                              .net = "constant 10us",
                              .seeds = "1000",
                              .nodes = 1000,
                              .seed = 1,
                              .count = 1,
                              .jobs = cores > 0 ? (uint64_t)cores : 1,
                              .timeout_ns = 30 * COP_SEC};
    const struct args_option table[] = {
        {0, "protocol", "NAME", "what the nodes do: probe, member, agree, coll, stream",
         ARGS_TEXT, &options.protocol, 0, 0},
        {0, "algorithm", "NAME",
         "of agree: early, strict, tree, linear, allreduce (swarm: any)", ARGS_TEXT,
         &options.algorithm, 0, 0},
        {0, "keep-tree", NULL,
         "agree: the tree is mended around the dead, not laid anew", ARGS_FLAG,
         &options.keep_tree, 0, 0},
        {'n', "nodes", "N", "how many nodes", ARGS_NUMBER, &options.nodes, 1,
         COP_MEMBERS_MAX},
        {0, "seed", "S", "what everything random comes from", ARGS_NUMBER,
         &options.seed, 0, UINT64_MAX},
        {0, "shape", "SHAPE", "tree: radix:4, knomial:2, chain, ...", ARGS_TEXT,
         &options.shape, 0, 0},
        {0, "net", "NET", "network, as in scripts: 'torus 4600ns 100ns compute 2us'",
         ARGS_TEXT, &options.net, 0, 0},
        {0, "root", "NODE", "probe, coll: who asks", ARGS_NUMBER, &options.root, 0,
         COP_MEMBERS_MAX - 1},
        {0, "count", "K", "how many probes or agreements, one after the other",
         ARGS_NUMBER, &options.count, 1, 1000000},
        {0, "timeout", "TIME", "probe, coll: of each", ARGS_DURATION,
         &options.timeout_ns, 0, 0},
        {0, "outcome", NULL, "probe: tell everyone the result, too", ARGS_FLAG,
         &options.outcome, 0, 0},
        {0, "crashes", "K", "random nodes crash in the first 200 us", ARGS_NUMBER,
         &options.crashes, 0, COP_MEMBERS_MAX},
        {0, "script", "FILE", "run a script ('-': standard input)", ARGS_TEXT,
         &options.script, 0, 0},
        {0, "swarm", NULL, "random small clusters with random faults", ARGS_FLAG,
         &options.swarm, 0, 0},
        {0, "seeds", "A..B|K", "seeds of the swarm", ARGS_TEXT, &options.seeds, 0, 0},
        {'j', "jobs", "J", "processes of the swarm", ARGS_NUMBER, &options.jobs, 1,
         256},
        {0, "lies", NULL, "the swarm has false suspicions, too", ARGS_FLAG,
         &options.lies, 0, 0},
        {0, "trace", NULL, "print every event", ARGS_FLAG, &options.trace, 0, 0},
        {0, "json", NULL, "print one JSON object", ARGS_FLAG, &options.as_json, 0, 0},
        {0, NULL, NULL, NULL, ARGS_FLAG, NULL, 0, 0},
    };
    struct args args = {
        .name = "sim",
        .usage = "[options]",
        .text = about,
        .options = table,
    };
    int code;
    if (!args_parse(&args, argc, argv, &code))
        return code;
    code = check(&args, &options);
    if (code != EXIT_DONE)
        return code;
    if (options.swarm)
        return run_swarm(&options);
    if (options.script)
        return run_file(&options);
    heap_expect((size_t)options.nodes * EXPECTED_NODE_BYTES);
    return run_protocol(&options);
}
