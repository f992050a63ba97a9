/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/script.h"

#include "sim/world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The line "net ...": reading and printing. */

#define PS_MAX UINT64_C(1000000000000)

static bool parse_loggp(struct cop__words *words, struct cop_sim_net *net)
{
    net->kind = COP_SIM_NET_LOGGP;
    return cop__word_time(words, "L", &net->latency_ns) &&
           cop__word_time(words, "o", &net->overhead_ns) &&
           cop__word_time(words, "g", &net->gap_ns) &&
           cop__word_number(words, "G (ps a byte)", PS_MAX, &net->byte_ps);
}

static bool parse_dims(struct cop__words *words, uint32_t dims[3])
{
    const char *word = words->at < words->count ? words->items[words->at] : "";
    unsigned x;
    unsigned y;
    unsigned z;
    char rest;
    if (word[0] < '0' || word[0] > '9')
        return true; /* not given */
    words->at++;
    if (sscanf(word, "%8ux%8ux%8u%c", &x, &y, &z, &rest) != 3 || !x || !y || !z)
        return cop__words_wrong(words, "dimensions must be like 8x8x16, not '%s'",
                                word);
    dims[0] = x;
    dims[1] = y;
    dims[2] = z;
    return true;
}

static bool parse_torus(struct cop__words *words, struct cop_sim_net *net)
{
    net->kind = COP_SIM_NET_TORUS;
    if (!cop__word_time(words, "latency", &net->latency_ns) ||
        !cop__word_time(words, "time of a hop", &net->hop_ns) ||
        !parse_dims(words, net->dims))
        return false;
    net->shuffle = cop__word_is(words, "shuffle");
    return true;
}

static bool parse_switch(struct cop__words *words, struct cop_sim_net *net)
{
    net->kind = COP_SIM_NET_SWITCH;
    uint64_t ports = 0;
    if (!cop__word_time(words, "latency", &net->latency_ns) ||
        !cop__word_time(words, "service time", &net->service_ns))
        return false;
    if (cop__word_is(words, "ports") &&
        !cop__word_number(words, "ports", COP_MEMBERS_MAX, &ports))
        return false;
    net->ports = (uint32_t)ports;
    return !cop__word_is(words, "byte") ||
           cop__word_number(words, "ps a byte", PS_MAX, &net->byte_ps);
}

/* "10us,12us,...": the list becomes the script's. */
static bool parse_recorded(struct cop__words *words, struct cop_sim_script *script)
{
    struct cop_sim_net *net = &script->config.net;
    const char *word = cop__word_next(words);
    if (!word)
        return cop__words_wrong(words, "the recorded times are missing");
    size_t most = strlen(word) / 2 + 1;
    uint32_t *table = malloc(most * sizeof(*table));
    uint32_t count = 0;
    if (!table)
        return cop__words_wrong(words, "out of memory");
    while (*word) {
        char text[32];
        size_t length = strcspn(word, ",");
        cop_time time = 0;
        snprintf(text, sizeof(text), "%.*s", length < 31 ? (int)length : 31, word);
        if (!cop__parse_time(text, &time) || time > UINT32_MAX) {
            free(table);
            return cop__words_wrong(words, "'%s' is not a time below 4s", text);
        }
        table[count++] = (uint32_t)time;
        word += length + (word[length] == ',');
    }
    free(script->table);
    script->table = table;
    net->kind = COP_SIM_NET_RECORDED;
    net->table = table;
    net->table_count = count;
    return true;
}

static bool parse_model(struct cop__words *words, struct cop_sim_script *script)
{
    struct cop_sim_net *net = &script->config.net;
    if (cop__word_is(words, "constant"))
        return cop__word_time(words, "latency", &net->latency_ns);
    if (cop__word_is(words, "loggp"))
        return parse_loggp(words, net);
    if (cop__word_is(words, "torus"))
        return parse_torus(words, net);
    if (cop__word_is(words, "switch"))
        return parse_switch(words, net);
    if (cop__word_is(words, "recorded"))
        return parse_recorded(words, script);
    return cop__words_wrong(words,
                            "net must be constant, loggp, torus, switch or recorded");
}

bool cop__parse_net(struct cop__words *words, struct cop_sim_script *script)
{
    struct cop_sim_net *net = &script->config.net;
    *net = (struct cop_sim_net){.kind = COP_SIM_NET_CONSTANT};
    if (!parse_model(words, script))
        return false;
    if (cop__word_is(words, "jitter") &&
        !cop__word_time(words, "jitter", &net->jitter_ns))
        return false;
    if (cop__word_is(words, "compute") &&
        !cop__word_time(words, "compute", &net->compute_ns))
        return false;
    return cop__words_end(words);
}

/* ---- printing -------------------------------------------------------------------- */

struct text {
    char *out;
    size_t size, used;
};

static void add_word(struct text *text, const char *word)
{
    if (text->used < text->size) {
        int n = snprintf(text->out + text->used, text->size - text->used, "%s%s",
                         text->used ? " " : "", word);
        text->used += n > 0 ? (size_t)n : 0;
    }
}

static void add_time(struct text *text, const char *name, cop_time time)
{
    char word[32];
    if (name)
        add_word(text, name);
    cop__print_time(time, word);
    add_word(text, word);
}

static void add_number(struct text *text, const char *name, uint64_t number)
{
    char word[32];
    if (name)
        add_word(text, name);
    snprintf(word, sizeof(word), "%llu", (unsigned long long)number);
    add_word(text, word);
}

static void add_table(struct text *text, const struct cop_sim_net *net)
{
    add_word(text, "recorded ");
    for (uint32_t i = 0; i < net->table_count && text->used < text->size; i++) {
        int n = snprintf(text->out + text->used, text->size - text->used, "%s%uns",
                         i ? "," : "", (unsigned)net->table[i]);
        text->used += n > 0 ? (size_t)n : 0;
    }
}

static void add_torus(struct text *text, const struct cop_sim_net *net)
{
    char dims[48];
    add_time(text, "torus", net->latency_ns);
    add_time(text, NULL, net->hop_ns);
    snprintf(dims, sizeof(dims), "%ux%ux%u", (unsigned)net->dims[0],
             (unsigned)net->dims[1], (unsigned)net->dims[2]);
    if (net->dims[0])
        add_word(text, dims);
    if (net->shuffle)
        add_word(text, "shuffle");
}

static void add_model(struct text *text, const struct cop_sim_net *net)
{
    switch (net->kind) {
    case COP_SIM_NET_CONSTANT:
        add_time(text, "constant", net->latency_ns);
        return;
    case COP_SIM_NET_LOGGP:
        add_time(text, "loggp", net->latency_ns);
        add_time(text, NULL, net->overhead_ns);
        add_time(text, NULL, net->gap_ns);
        add_number(text, NULL, net->byte_ps);
        return;
    case COP_SIM_NET_TORUS:
        add_torus(text, net);
        return;
    case COP_SIM_NET_SWITCH:
        add_time(text, "switch", net->latency_ns);
        add_time(text, NULL, net->service_ns);
        if (net->ports)
            add_number(text, "ports", net->ports);
        if (net->byte_ps)
            add_number(text, "byte", net->byte_ps);
        return;
    case COP_SIM_NET_RECORDED:
        add_table(text, net);
        return;
    }
}

void cop__print_net(const struct cop_sim_net *net, char *out, size_t size)
{
    struct text text = {out, size, 0};
    add_model(&text, net);
    if (net->jitter_ns)
        add_time(&text, "jitter", net->jitter_ns);
    if (net->compute_ns)
        add_time(&text, "compute", net->compute_ns);
}
