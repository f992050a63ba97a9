/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/script.h"

#include "sim/world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A script as a whole: reading, printing, copying. The lines are in script_*.c. */

#define DEFAULT_PER_HOST 4
#define DEFAULT_LATENCY_NS (10 * COP_USEC)

/* Everything the script must know before its shape can be made. */
struct reading {
    struct cop_sim_script *script;
    char shape[128];
};

static int make_hosts(struct cop_sim_script *script, const struct cop_shape *shape)
{
    uint32_t n = script->config.nodes;
    uint32_t *host_of = malloc((size_t)n * sizeof(*host_of));
    if (!host_of)
        return COP_ENOMEM;
    for (uint32_t rank = 0; rank < n; rank++)
        host_of[rank] = rank / script->per_host;
    struct cop_shape leaders = {shape->inner, shape->k, 0, NULL};
    int error = cop_shape_from_hosts(&leaders, host_of, n, &script->config.shape);
    free(host_of);
    return error;
}

int cop_sim_script_shape(struct cop_sim_script *script, const char *text,
                         uint32_t per_host, char *message, size_t size)
{
    struct cop_shape shape;
    int error = cop_shape_parse(text, &shape, message, size);
    if (error)
        return error;
    if (shape.kind == COP_SHAPE_TABLE) {
        snprintf(message, size, "a tree from a file is given as 'topology'");
        return COP_EINVAL;
    }
    cop_shape_unref(&script->config.shape);
    script->config.shape = shape;
    script->per_host = per_host ? per_host : DEFAULT_PER_HOST;
    if (shape.kind != COP_SHAPE_HOSTS)
        return 0;
    memset(&script->config.shape, 0, sizeof(script->config.shape));
    error = make_hosts(script, &shape);
    if (error)
        snprintf(message, size, "shape %s: %s", text, cop_strerror(error));
    return error;
}

static bool parse_topology(struct cop__words *words, struct reading *reading,
                           const char *text)
{
    struct cop_sim_script *script = reading->script;
    char message[160];
    struct cop_shape shape;
    uint32_t n;
    int error = cop_shape_from_topology(text, strlen(text), &shape, &n, message,
                                        sizeof(message));
    if (error)
        return cop__words_wrong(words, "%s", message);
    free(script->topology);
    cop_shape_unref(&script->config.shape);
    script->topology = strdup(text);
    script->config.shape = shape;
    script->config.nodes = n;
    return script->topology || cop__words_wrong(words, "out of memory");
}

static bool parse_flags(struct cop__words *words, struct cop_sim_script *script)
{
    static const struct {
        const char *name;
        uint32_t flag;
    } flags[] = {{"codec", COP_SIM_CODEC},
                 {"cut", COP_SIM_CUT},
                 {"buggify", COP_SIM_BUGGIFY},
                 {"quiet", COP_SIM_QUIET_START}};
    for (const char *word; (word = cop__word_next(words)) != NULL;) {
        uint32_t found = 0;
        for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
            found |= strcmp(word, flags[i].name) == 0 ? flags[i].flag : 0;
        if (!found)
            return cop__words_wrong(words, "flags are codec, cut, buggify and quiet");
        script->config.flags |= found;
    }
    return true;
}

static bool parse_views(struct cop__words *words, struct cop_sim_script *script)
{
    if (cop__word_is(words, "majority"))
        script->config.quorum = COP_QUORUM_MAJORITY;
    else if (cop__word_is(words, "none"))
        script->config.quorum = COP_QUORUM_NONE;
    else if (cop__word_is(words, "has"))
        script->config.quorum = COP_QUORUM_HAS;
    else
        return cop__words_wrong(words, "views change by majority, has LIST, or none");
    if (script->config.quorum == COP_QUORUM_HAS &&
        !cop__parse_set(words, &script->config.named))
        return false;
    return cop__words_end(words);
}

static bool parse_detect(struct cop__words *words, struct cop_detect *detect)
{
    uint64_t number = 0;
    while (words->at < words->count) {
        bool good = false;
        if (cop__word_is(words, "ring")) {
            good = cop__word_time(words, "period of the ring", &detect->ring_period_ns);
        } else if (cop__word_is(words, "gossip")) {
            good = cop__word_time(words, "period of gossip", &detect->gossip_period_ns);
        } else if (cop__word_is(words, "witnesses")) {
            good = cop__word_number(words, "witnesses", COP_WITNESSES_MAX, &number);
            detect->witnesses = (uint32_t)number;
        } else if (cop__word_is(words, "stealth")) {
            good = detect->stealth = true;
        } else {
            return cop__words_wrong(words, "detectors are ring, witnesses and gossip");
        }
        if (!good)
            return false;
    }
    return true;
}

static bool parse_shape(struct cop__words *words, struct reading *reading)
{
    const char *word = cop__word_next(words);
    if (!word)
        return cop__words_wrong(words, "the shape is missing");
    snprintf(reading->shape, sizeof(reading->shape), "%s", word);
    return cop__words_end(words);
}

static bool parse_header(struct cop__words *words, struct reading *reading, bool *known)
{
    struct cop_sim_script *script = reading->script;
    uint64_t number = 0;
    *known = true;
    if (cop__word_is(words, "nodes")) {
        bool good = cop__word_number(words, "nodes", COP_MEMBERS_MAX, &number);
        script->config.nodes = (uint32_t)number;
        return good && cop__words_end(words);
    }
    if (cop__word_is(words, "hosts")) {
        bool good = cop__word_number(words, "hosts", COP_MEMBERS_MAX, &number);
        script->per_host = (uint32_t)number;
        return good && cop__words_end(words);
    }
    if (cop__word_is(words, "start")) {
        bool good = cop__word_number(words, "start", COP_MEMBERS_MAX, &number);
        script->config.start = (uint32_t)number;
        return good && cop__words_end(words);
    }
    if (cop__word_is(words, "drained"))
        return cop__parse_set(words, &script->config.drained) && cop__words_end(words);
    if (cop__word_is(words, "guard")) {
        bool good = cop__word_number(words, "guard", COP_MEMBERS_MAX, &number);
        script->config.guard = (uint32_t)number;
        return good && cop__words_end(words);
    }
    if (cop__word_is(words, "views"))
        return parse_views(words, script);
    if (cop__word_is(words, "detect"))
        return parse_detect(words, &script->config.detect);
    if (cop__word_is(words, "agree"))
        return cop__parse_agree(words, &script->config.agree);
    if (cop__word_is(words, "stream"))
        return cop__parse_stream(words, &script->config.stream);
    if (cop__word_is(words, "seed"))
        return cop__word_number(words, "seed", UINT64_MAX, &script->config.seed) &&
               cop__words_end(words);
    if (cop__word_is(words, "shape"))
        return parse_shape(words, reading);
    if (cop__word_is(words, "flags"))
        return parse_flags(words, script);
    if (cop__word_is(words, "net"))
        return cop__parse_net(words, script);
    if (cop__word_is(words, "liveness"))
        return script->liveness = true, cop__words_end(words);
    if (cop__word_is(words, "until-complete"))
        return script->until_complete = true, cop__words_end(words);
    *known = false;
    return true;
}

/* One line, which may be written to. */
static bool parse_line(char *line, struct reading *reading, char *message, size_t size)
{
    struct cop__words words = {.message = message, .size = size};
    char *comment = strchr(line, '#');
    if (comment)
        *comment = '\0';
    char *start = line + strspn(line, " \t\r");
    if (strncmp(start, "topology ", 9) == 0)
        return parse_topology(&words, reading, start + 9);
    char *save = NULL;
    for (char *word = strtok_r(start, " \t\r", &save); word;
         word = strtok_r(NULL, " \t\r", &save)) {
        if (words.count == COP__WORDS_MAX)
            return cop__words_wrong(&words, "the line has too many words");
        words.items[words.count++] = word;
    }
    bool known = true;
    if (words.count == 0)
        return true;
    if (!parse_header(&words, reading, &known))
        return false;
    return known || cop__parse_action(&words, reading->script);
}

static bool parse_lines(char *text, struct reading *reading, char *message, size_t size)
{
    unsigned number = 1;
    for (char *line = text; line; number++) {
        char *end = strchr(line, '\n');
        if (end)
            *end = '\0';
        char wrong[200] = "";
        if (!parse_line(line, reading, wrong, sizeof(wrong))) {
            if (message)
                snprintf(message, size, "line %u: %s", number, wrong);
            return false;
        }
        line = end ? end + 1 : NULL;
    }
    return true;
}

/* Tokens that were not given are numbered in the order of the probes and broadcasts: by its
 * token a checker knows one from the other. */
static void number_requests(struct cop_sim_script *script)
{
    uint64_t next = 1;
    for (uint32_t i = 0; i < script->count; i++) {
        const struct cop_sim_action *action = &script->actions[i];
        struct cop_request *request = &script->actions[i].request;
        if (action->kind != COP_SIM_PROBE && action->kind != COP_SIM_BCAST)
            continue;
        if (request->token == 0)
            request->token = next;
        if (request->token >= next)
            next = request->token + 1;
    }
}

int cop_sim_script_parse(const char *text, struct cop_sim_script *out, char *message,
                         size_t size)
{
    struct cop_sim_script script;
    memset(&script, 0, sizeof(script));
    struct reading reading = {&script, "radix:4"};
    script.config.flags = COP_SIM_CHECK;
    script.config.net.latency_ns = DEFAULT_LATENCY_NS;
    char wrong[240] = "out of memory";
    char *copy = strdup(text);
    int error = copy ? 0 : COP_ENOMEM;
    if (!error && !parse_lines(copy, &reading, wrong, sizeof(wrong)))
        error = COP_EINVAL;
    free(copy);
    if (!error && script.config.nodes == 0) {
        snprintf(wrong, sizeof(wrong), "the script does not say how many nodes");
        error = COP_EINVAL;
    }
    if (!error && !script.topology)
        error = cop_sim_script_shape(&script, reading.shape, script.per_host, wrong,
                                     sizeof(wrong));
    if (error) {
        if (message)
            snprintf(message, size, "%s", wrong);
        cop_sim_script_free(&script);
        return error;
    }
    number_requests(&script);
    *out = script;
    return 0;
}

/* ---- printing -------------------------------------------------------------------- */

static void print_flags(FILE *out, const struct cop_sim_script *script)
{
    uint32_t flags = script->config.flags;
    if (flags & (COP_SIM_CODEC | COP_SIM_CUT | COP_SIM_BUGGIFY | COP_SIM_QUIET_START))
        fprintf(out, "flags%s%s%s%s\n", flags & COP_SIM_CODEC ? " codec" : "",
                flags & COP_SIM_CUT ? " cut" : "",
                flags & COP_SIM_BUGGIFY ? " buggify" : "",
                flags & COP_SIM_QUIET_START ? " quiet" : "");
}

static void print_detect(FILE *out, const struct cop_detect *detect)
{
    char time[32];
    if (!detect->ring_period_ns && !detect->witnesses && !detect->gossip_period_ns)
        return;
    fprintf(out, "detect");
    cop__print_time(detect->ring_period_ns, time);
    if (detect->ring_period_ns)
        fprintf(out, " ring %s", time);
    if (detect->witnesses)
        fprintf(out, " witnesses %u", (unsigned)detect->witnesses);
    cop__print_time(detect->gossip_period_ns, time);
    if (detect->gossip_period_ns)
        fprintf(out, " gossip %s%s", time, detect->stealth ? " stealth" : "");
    fprintf(out, "\n");
}

static void print_views(FILE *out, const struct cop_sim_script *script)
{
    char named[200];
    if (script->config.quorum == COP_QUORUM_HAS) {
        cop__print_set(&script->config.named, named, sizeof(named));
        fprintf(out, "views has %s\n", named);
    } else if (script->config.quorum != COP_QUORUM_FIXED) {
        fprintf(out, "views %s\n",
                script->config.quorum == COP_QUORUM_NONE ? "none" : "majority");
    }
}

static void print_header(FILE *out, const struct cop_sim_script *script)
{
    char text[128];
    if (script->topology) {
        fprintf(out, "topology %s\n", script->topology);
    } else {
        cop_shape_print(&script->config.shape, text, sizeof(text));
        fprintf(out, "nodes %u\nshape %s\n", (unsigned)script->config.nodes, text);
        if (script->config.shape.kind == COP_SHAPE_HOSTS)
            fprintf(out, "hosts %u\n", (unsigned)script->per_host);
    }
    fprintf(out, "seed %llu\n", (unsigned long long)script->config.seed);
    print_views(out, script);
    if (script->config.start)
        fprintf(out, "start %u\n", (unsigned)script->config.start);
    print_detect(out, &script->config.detect);
    if (script->config.drained.count > 0) {
        cop__print_set(&script->config.drained, text, sizeof(text));
        fprintf(out, "drained %s\n", text);
    }
    if (script->config.guard)
        fprintf(out, "guard %u\n", (unsigned)script->config.guard);
    cop__print_agree(&script->config.agree, out);
    cop__print_stream(&script->config.stream, out);
    print_flags(out, script);
    size_t size = 256 + 12 * (size_t)script->config.net.table_count;
    char *net = calloc(1, size);
    if (!net)
        return;
    cop__print_net(&script->config.net, net, size);
    fprintf(out, "net %s\n", net);
    free(net);
}

char *cop_sim_script_print(const struct cop_sim_script *script)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    if (!out)
        return NULL;
    print_header(out, script);
    for (uint32_t i = 0; i < script->count; i++) {
        char line[512];
        cop__print_action(&script->actions[i], line, sizeof(line));
        fprintf(out, "%s\n", line);
    }
    if (script->liveness)
        fprintf(out, "liveness\n");
    if (script->until_complete)
        fprintf(out, "until-complete\n");
    bool failed = ferror(out) != 0;
    if (fclose(out) != 0 || failed) {
        free(text);
        return NULL;
    }
    return text;
}

/* ---- owning ---------------------------------------------------------------------- */

int cop_sim_script_copy(const struct cop_sim_script *script, struct cop_sim_script *out)
{
    struct cop_sim_script copy = *script;
    size_t table = script->config.net.table_count * sizeof(uint32_t);
    copy.actions = malloc((script->count + 1) * sizeof(*copy.actions));
    copy.capacity = script->count + 1;
    copy.topology = script->topology ? strdup(script->topology) : NULL;
    copy.table = table ? malloc(table) : NULL;
    if (!copy.actions || (script->topology && !copy.topology) ||
        (table && !copy.table)) {
        free(copy.actions);
        free(copy.topology);
        free(copy.table);
        return COP_ENOMEM;
    }
    if (script->count)
        memcpy(copy.actions, script->actions, script->count * sizeof(*copy.actions));
    if (table)
        memcpy(copy.table, script->config.net.table, table);
    copy.config.net.table = copy.table;
    cop_shape_ref(&copy.config.shape);
    *out = copy;
    return 0;
}

void cop_sim_script_free(struct cop_sim_script *script)
{
    cop_shape_unref(&script->config.shape);
    free(script->actions);
    free(script->topology);
    free(script->table);
    memset(script, 0, sizeof(*script));
}
