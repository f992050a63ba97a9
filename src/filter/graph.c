/* SPDX-License-Identifier: Apache-2.0 */
#include "filter/filter.h"
#include "filter/records.h"

#include <stdlib.h>
#include <string.h>

/*
 * graph: sub-graphs of many leaves folded into one. A packet has a line for each edge ("from
 * TAB to", which says that there are these nodes) and for each node that has none ("name");
 * nodes of the same name are one node. Records: the line, and the set of leaves that have
 * it. Result, a line for each: how many leaves, which, and the line.
 */

/* A name, or two with one TAB between; none of them empty. */
static bool line_is_good(struct cop_span line)
{
    if (line.length == 0 || memchr(line.bytes, '\n', line.length))
        return false;
    const uint8_t *tab = memchr(line.bytes, '\t', line.length);
    if (!tab)
        return true;
    size_t before = (size_t)(tab - line.bytes), after = line.length - before - 1;
    return before > 0 && after > 0 && !memchr(tab + 1, '\t', after);
}

static bool is_good(const struct cop__state *state, const struct cop__record *record)
{
    (void)state;
    return line_is_good(record->name);
}

static const struct cop__records kind = {
    .inputs = "text", .name = true, .set = true, .is_good = is_good};
COP__RECORDS_FUNCTIONS(kind)

static int init(const char *type, const char *params, struct cop_filter_out *out)
{
    return *params ? COP_EINVAL : cop__head_put(out, type, NULL, 0);
}

/* The next line, without its end; false after the last. */
static bool next_line(struct cop_span *text, struct cop_span *line)
{
    if (text->length == 0)
        return false;
    const uint8_t *end = memchr(text->bytes, '\n', text->length);
    line->bytes = text->bytes;
    line->length = end ? (uint32_t)(end - text->bytes) : text->length;
    uint32_t taken = line->length + (end ? 1 : 0);
    text->bytes += taken;
    text->length -= taken;
    return true;
}

static int count_lines(struct cop_span text, uint32_t *out)
{
    struct cop_span line;
    uint32_t count = 0;
    for (; next_line(&text, &line); count++)
        if (!line_is_good(line))
            return COP_EINVAL;
    *out = count;
    return 0;
}

/* A set of one leaf in bytes of the caller. */
struct small_set {
    struct cop_filter_out out;
    uint8_t bytes[16];
};

static int is_full(struct cop_filter_out *out, uint32_t more)
{
    (void)out, (void)more;
    return COP_ETOOBIG;
}

static struct cop_span set_of(struct small_set *set, cop_id leaf)
{
    set->out = (struct cop_filter_out){
        .bytes = set->bytes, .room = sizeof set->bytes, .grow = is_full};
    cop__ranges_put_one(&set->out, leaf);
    return (struct cop_span){set->bytes, set->out.length};
}

static int lift(struct cop_span empty, const struct cop_packet *packet,
                struct cop_filter_out *out)
{
    struct cop__state state;
    struct small_set set;
    struct cop_span text = packet->data, line;
    uint32_t lines, used = 0;
    if (cop__state_read(empty, &state))
        return COP_EMALFORMED;
    if (count_lines(text, &lines))
        return COP_EINVAL;
    struct cop__record *records = malloc(((size_t)lines + 1) * sizeof *records);
    if (!records)
        return COP_ENOMEM;
    struct cop_span leaf = set_of(&set, packet->leaf);
    while (next_line(&text, &line))
        records[used++] = (struct cop__record){.name = line, .set = leaf};
    int error = cop__records_make(&kind, &state, records, used, out);
    free(records);
    return error;
}

static int result(struct cop_span bytes, struct cop_filter_out *out)
{
    struct cop__state state;
    struct cop__record record;
    if (cop__state_read(bytes, &state))
        return COP_EMALFORMED;
    while (cop__record_next(&kind, &state.body, &record)) {
        cop__put_decimal(out, cop__ranges_count(record.set));
        cop__put_text(out, "\t");
        cop__ranges_print(out, record.set);
        cop__put_text(out, "\t");
        cop_filter_put(out, record.name.bytes, record.name.length);
        cop__put_text(out, "\n");
    }
    return state.body.failed ? COP_EMALFORMED : out->error;
}

/* A few edges between nodes a to h, and a node. */
static int sample(const char *type, const uint64_t *words, uint32_t count,
                  struct cop_filter_out *out)
{
    (void)type;
    for (uint32_t i = 0; i < count; i++) {
        char line[4] = {(char)('a' + words[i] % 8), '\t',
                        (char)('a' + words[i] / 8 % 8), '\n'};
        if (words[i] / 64 % 4 == 0)
            line[1] = '\n';
        cop_filter_put(out, line, line[1] == '\n' ? 2 : 4);
    }
    return out->error;
}

const struct cop_filter cop__filter_graph = {
    .abi = COP_FILTER_ABI,
    .flags = COP_FILTER_IDEMPOTENT | COP_FILTER_CUMULATIVE,
    .name = "graph",
    .about = "graphs folded into one, with the leaves that have each edge",
    .state = "graph/1",
    .inputs = "text",
    .outputs = "text",
    .init = init,
    .lift = lift,
    .join = join,
    .diff = diff,
    .check = check,
    .result = result,
    .sample = sample,
};
