/* SPDX-License-Identifier: Apache-2.0 */
/* Streams of many members on one: whole lines, each behind the name of whose it is. */
#include "exec/print.h"
#include "term/say.h"

#include <stdlib.h>
#include <string.h>

/* A line that is longer is printed in parts. */
#define LINE_MAX_BYTES 65536u

struct line {
    cop_id member;
    uint8_t which;
    char *bytes;
    uint32_t used, capacity;
};

struct exec_lines {
    struct exec_names names;
    bool is_labelled;
    struct line *all; /* by member and stream */
    uint32_t count, capacity;
};

struct exec_lines *exec_lines_create(const struct exec_names *names, bool is_labelled)
{
    struct exec_lines *lines = calloc(1, sizeof *lines);
    if (lines != NULL)
        *lines = (struct exec_lines){.names = *names, .is_labelled = is_labelled};
    return lines;
}

static uint64_t key_of(cop_id member, uint8_t which)
{
    return (uint64_t)member << 1 | which;
}

/* Finds or adds; NULL: no memory. */
static struct line *find(struct exec_lines *lines, cop_id member, uint8_t which)
{
    uint32_t low = 0, high = lines->count;
    uint64_t key = key_of(member, which);
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (key_of(lines->all[middle].member, lines->all[middle].which) < key)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < lines->count &&
        key_of(lines->all[low].member, lines->all[low].which) == key)
        return &lines->all[low];
    if (lines->count == lines->capacity) {
        uint32_t capacity = lines->capacity ? 2 * lines->capacity : 16;
        struct line *grown = realloc(lines->all, capacity * sizeof *grown);
        if (grown == NULL)
            return NULL;
        lines->all = grown;
        lines->capacity = capacity;
    }
    memmove(lines->all + low + 1, lines->all + low,
            (lines->count++ - low) * sizeof *lines->all);
    lines->all[low] = (struct line){.member = member, .which = which};
    return &lines->all[low];
}

static void print(const struct exec_lines *lines, const struct line *line,
                  const char *bytes, size_t length)
{
    FILE *out = line->which ? stderr : stdout;
    char name[COP_NAME_MAX + 1];
    if (lines->is_labelled) {
        roll_name(lines->names.roll, lines->names.cluster, line->member, name);
        fprintf(out, "%s%s:%s ", colour(out, DIM), name, colour(out, PLAIN));
    }
    fwrite(bytes, 1, length, out);
    fputc('\n', out);
}

static void flush_line(const struct exec_lines *lines, struct line *line)
{
    print(lines, line, line->bytes, line->used);
    line->used = 0;
}

/* The beginning of a line, until the rest comes. */
static void keep(const struct exec_lines *lines, struct line *line, const char *bytes,
                 uint32_t length)
{
    if (length == 0)
        return;
    if (line->used + length > line->capacity) {
        char *grown = realloc(line->bytes, line->used + length);
        if (grown == NULL) {
            print(lines, line, bytes, length);
            return;
        }
        line->bytes = grown;
        line->capacity = line->used + length;
    }
    memcpy(line->bytes + line->used, bytes, length);
    line->used += length;
    if (line->used >= LINE_MAX_BYTES)
        flush_line(lines, line);
}

void exec_lines_add(struct exec_lines *lines, const struct exec_note *output)
{
    struct line *line = find(lines, output->member, output->which);
    const char *at = (const char *)output->bytes.data;
    const char *end = at + output->bytes.length, *newline;
    if (line == NULL)
        return;
    while (at < end && (newline = memchr(at, '\n', (size_t)(end - at))) != NULL) {
        uint32_t length = (uint32_t)(newline - at);
        if (line->used > 0) {
            keep(lines, line, at, length);
            flush_line(lines, line);
        } else {
            print(lines, line, at, length);
        }
        at = newline + 1;
    }
    if (at < end)
        keep(lines, line, at, (uint32_t)(end - at));
    fflush(output->which ? stderr : stdout);
}

void exec_lines_free(struct exec_lines *lines)
{
    if (lines == NULL)
        return;
    for (uint32_t i = 0; i < lines->count; i++) {
        if (lines->all[i].used > 0)
            flush_line(lines, &lines->all[i]);
        free(lines->all[i].bytes);
    }
    free(lines->all);
    free(lines);
}
