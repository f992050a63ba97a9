/* SPDX-License-Identifier: Apache-2.0 */
#include "run/start.h"

#include "base/digest.h"
#include "run/address.h"
#include "run/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_MAX_BYTES 400u

void cop__start_init(struct cop__start *start)
{
    *start = (struct cop__start){.instance = 1,
                                 .first = 1,
                                 .shape_text = "radix:4",
                                 .quorum_text = "majority",
                                 .detector_text = "connection",
                                 .shape = {.kind = COP_SHAPE_RADIX, .k = 4},
                                 .quorum = COP_QUORUM_MAJORITY};
}

void cop__start_free(struct cop__start *start)
{
    for (uint32_t i = 0; i < start->n; i++) {
        free(start->members[i].name);
        free(start->members[i].address);
    }
    free(start->members);
    cop_ranks_free(&start->quorum_ids);
    *start = (struct cop__start){0};
}

/* ---- one value ------------------------------------------------------------------- */

int cop__start_set_shape(struct cop__start *start, const char *text, char *message,
                         size_t size)
{
    if (strlen(text) >= sizeof start->shape_text)
        return cop__explain(message, size, "the shape is too long");
    int error = cop_shape_parse(text, &start->shape, message, size);
    if (error == 0)
        memcpy(start->shape_text, text, strlen(text) + 1);
    return error;
}

/* "0,3,n5": ids, or names of the start. */
static int read_ids(const char *text, struct cop_ranks *out)
{
    char word[16];
    for (int used = 0; *text != '\0'; text += used) {
        uint64_t id;
        used = 0;
        if (sscanf(text, "%15[^,]%n", word, &used) != 1 ||
            cop__text_number(word + (word[0] == 'n'), 0, COP_MEMBERS_MAX - 1, &id) != 0)
            return COP_EINVAL;
        if (out->count > 0 && out->items[out->count - 1] >= id)
            return COP_EINVAL;
        int error = cop_ranks_push(out, (cop_rank)id);
        if (error)
            return error;
        if (text[used] == ',' && text[++used] == '\0')
            return COP_EINVAL;
    }
    return 0;
}

int cop__start_set_quorum(struct cop__start *start, const char *text, char *message,
                          size_t size)
{
    const char *names;
    struct cop_ranks ids = {0};
    enum cop_quorum quorum;
    int error = COP_EINVAL;
    if (strlen(text) < sizeof start->quorum_text &&
        cop__text_quorum(text, &quorum, &names) == 0)
        error = read_ids(names, &ids);
    if (error) {
        cop_ranks_free(&ids);
        return error == COP_EINVAL
                   ? cop__explain(message, size,
                                  "quorum is majority, none, fixed, or has: and ids in "
                                  "their order, as has:0,3")
                   : error;
    }
    cop_ranks_free(&start->quorum_ids);
    start->quorum_ids = ids;
    start->quorum = quorum;
    memcpy(start->quorum_text, text, strlen(text) + 1);
    return 0;
}

int cop__start_set_detector(struct cop__start *start, const char *text, char *message,
                            size_t size)
{
    if (strlen(text) >= sizeof start->detector_text ||
        cop__text_detector(text, &start->detect) != 0)
        return cop__explain(message, size,
                            "detector is connection, or as ring:100ms,witnesses:2");
    memcpy(start->detector_text, text, strlen(text) + 1);
    return 0;
}

static bool make_room(struct cop__start *start)
{
    uint32_t capacity = start->capacity ? 2 * start->capacity : 8;
    if (start->n < start->capacity)
        return true;
    void *grown = realloc(start->members, capacity * sizeof *start->members);
    if (grown == NULL)
        return false;
    start->members = grown;
    start->capacity = capacity;
    return true;
}

static char *copy_text(const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = malloc(size);
    return copy ? memcpy(copy, text, size) : NULL;
}

int cop__start_add(struct cop__start *start, const char *name, const char *address,
                   char *message, size_t size)
{
    struct cop__address ignored;
    char own[16];
    if (start->n == COP_MEMBERS_MAX)
        return cop__explain(message, size, "too many members");
    int error =
        cop__address_parse(address, start->directory[0] ? start->directory : ".", 1,
                           &ignored, message, size);
    if (error)
        return error;
    snprintf(own, sizeof own, "n%" PRIu32, start->n);
    if (!make_room(start))
        return COP_ENOMEM;
    struct cop__start_member *member = &start->members[start->n];
    member->name = copy_text(name ? name : own);
    member->address = copy_text(address);
    if (member->name == NULL || member->address == NULL) {
        free(member->name);
        free(member->address);
        return COP_ENOMEM;
    }
    start->n++;
    return 0;
}

void cop__start_set_name(struct cop__start *start, const char *name)
{
    for (uint8_t half = 0; half < 2; half++) {
        struct cop__digest digest;
        cop__digest_init(&digest);
        cop__digest_word(&digest, half);
        cop__digest_bytes(&digest, name, strlen(name));
        uint64_t value = cop__digest_value(&digest);
        for (int i = 0; i < 8; i++)
            start->cluster[8 * half + i] = (uint8_t)(value >> 8 * i);
    }
}

int cop__start_check(const struct cop__start *start, char *message, size_t size)
{
    static const uint8_t none[16];
    struct cop_tree tree = {.shape = start->shape, .n = start->n};
    const struct cop_ranks *ids = &start->quorum_ids;
    if (memcmp(start->cluster, none, sizeof none) == 0)
        return cop__explain(message, size, "the name or id of the cluster is missing");
    if (start->n == 0)
        return cop__explain(message, size, "there are no members");
    if (cop_tree_check(&tree) != 0)
        return cop__explain(message, size, "no tree of %" PRIu32 " members is a %s",
                            start->n, start->shape_text);
    if (ids->count > 0 && ids->items[ids->count - 1] >= start->n)
        return cop__explain(message, size, "quorum %s: there is no member %" PRIu32,
                            start->quorum_text, ids->items[ids->count - 1]);
    return 0;
}

/* ---- the text -------------------------------------------------------------------- */

static int read_cluster(struct cop__start *start, const char *text)
{
    if (strlen(text) != 32 || strspn(text, "0123456789abcdef") != 32)
        return COP_EINVAL;
    for (int i = 0; i < 16; i++) {
        const char digits[3] = {text[2 * i], text[2 * i + 1], '\0'};
        start->cluster[i] = (uint8_t)strtoul(digits, NULL, 16);
    }
    return 0;
}

static int read_setting(struct cop__start *start, const char *key, const char *value,
                        char *message, size_t size)
{
    if (strcmp(key, "quorum") == 0)
        return cop__start_set_quorum(start, value, message, size);
    if (strcmp(key, "detector") == 0)
        return cop__start_set_detector(start, value, message, size);
    if (strcmp(key, "shape") == 0)
        return cop__start_set_shape(start, value, message, size);
    if (strcmp(key, "directory") == 0) {
        if (value[0] != '/' || strlen(value) >= sizeof start->directory)
            return cop__explain(message, size, "the directory is a path from the root");
        memcpy(start->directory, value, strlen(value) + 1);
        return 0;
    }
    int error = COP_EINVAL;
    if (strcmp(key, "cluster") == 0)
        error = read_cluster(start, value);
    else if (strcmp(key, "instance") == 0)
        error = cop__text_number(value, 1, UINT64_MAX, &start->instance);
    else if (strcmp(key, "first") == 0)
        error = cop__text_number(value, 1, UINT64_MAX, &start->first);
    else if (strcmp(key, "guard") == 0)
        error = cop__text_number(value, 0, UINT32_MAX, &start->guard);
    return error ? cop__explain(message, size, "'%s %s' is not understood", key, value)
                 : 0;
}

static int read_line(struct cop__start *start, const char *line, char *message,
                     size_t size)
{
    char first[32], second[300], third[300], more[2];
    uint64_t id;
    int words = sscanf(line, "%31s %299s %299s %1s", first, second, third, more);
    if (words < 1 || first[0] == '#')
        return 0;
    if (words == 3 && cop__text_number(first, start->n, start->n, &id) == 0)
        return cop__start_add(start, second, third, message, size);
    if (words == 2)
        return read_setting(start, first, second, message, size);
    return cop__explain(message, size, "expected \"key value\" or \"ID NAME ADDRESS\"");
}

int cop__start_read(struct cop__start *start, const char *text, size_t length,
                    char *message, size_t size)
{
    char line[LINE_MAX_BYTES + 1];
    for (const char *at = text, *end = text + length; at < end;) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        size_t bytes = (size_t)((stop ? stop : end) - at);
        if (bytes > LINE_MAX_BYTES)
            return cop__explain(message, size, "a line is too long");
        memcpy(line, at, bytes);
        line[bytes] = '\0';
        int error = read_line(start, line, message, size);
        if (error)
            return error;
        at += bytes + (stop != NULL);
    }
    return cop__start_check(start, message, size);
}

struct cop_buf *cop__start_describe(const struct cop__start *start)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    if (out == NULL)
        return NULL;
    fputs("cluster ", out);
    for (int i = 0; i < 16; i++)
        fprintf(out, "%02x", start->cluster[i]);
    fprintf(out,
            "\ninstance %" PRIu64 "\nfirst %" PRIu64
            "\nshape %s\nquorum %s\ndetector %s\nguard %" PRIu64 "\n",
            start->instance, start->first, start->shape_text, start->quorum_text,
            start->detector_text, start->guard);
    if (start->directory[0] != '\0')
        fprintf(out, "directory %s\n", start->directory);
    for (uint32_t i = 0; i < start->n; i++)
        fprintf(out, "%" PRIu32 " %s %s\n", i, start->members[i].name,
                start->members[i].address);
    struct cop_buf *buf = fclose(out) == 0 ? cop_buf_copy(text, length) : NULL;
    free(text);
    return buf;
}

/* ---- questions ------------------------------------------------------------------- */

int cop__start_address(const struct cop__start *start, cop_id id,
                       struct cop__address *out)
{
    if (id >= start->n)
        return COP_ENOENT;
    int error = cop__address_parse(start->members[id].address,
                                   start->directory[0] ? start->directory : ".", 1, out,
                                   NULL, 0);
    return error ? COP_ENOENT : 0;
}

cop_id cop__start_find(const struct cop__start *start, const char *name)
{
    uint64_t id;
    if (start->n > 0 && cop__text_number(name, 0, start->n - 1, &id) == 0)
        return (cop_id)id;
    for (cop_id i = 0; i < start->n; i++)
        if (strcmp(start->members[i].name, name) == 0)
            return i;
    return COP_ID_NONE;
}
