/* SPDX-License-Identifier: Apache-2.0 */
#include "groups/groups.h"

#include "base/assert.h"

#include <coppice/error.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the table ------------------------------------------------------------------- */

void groups_free(struct groups *groups)
{
    for (uint32_t i = 0; i < groups->count; i++)
        free(groups->items[i].text);
    free(groups->items);
    *groups = (struct groups){0};
}

static uint32_t place_of(const struct groups *groups, const char *name)
{
    uint32_t at = 0;
    while (at < groups->count && strcmp(groups->items[at].name, name) < 0)
        at++;
    return at;
}

static bool is_at(const struct groups *groups, uint32_t at, const char *name)
{
    return at < groups->count && strcmp(groups->items[at].name, name) == 0;
}

const struct group *groups_find(const struct groups *groups, const char *name)
{
    uint32_t at = place_of(groups, name);
    return is_at(groups, at, name) && groups->items[at].text[0] != '\0'
               ? &groups->items[at]
               : NULL;
}

bool group_is_later(const struct group *a, const struct group *b)
{
    return a->version != b->version ? a->version > b->version : a->origin > b->origin;
}

int groups_merge(struct groups *groups, const struct group *group)
{
    uint32_t at = place_of(groups, group->name);
    bool is_known = is_at(groups, at, group->name);
    if (is_known && !group_is_later(group, &groups->items[at]))
        return 0;
    char *text = strdup(group->text);
    if (text == NULL)
        return COP_ENOMEM;
    if (is_known) {
        free(groups->items[at].text);
    } else {
        struct group *grown =
            realloc(groups->items, (groups->count + 1) * sizeof *grown);
        if (grown == NULL) {
            free(text);
            return COP_ENOMEM;
        }
        memmove(grown + at + 1, grown + at, (groups->count++ - at) * sizeof *grown);
        groups->items = grown;
    }
    groups->items[at] = *group;
    groups->items[at].text = text;
    return 0;
}

/* ---- bytes ----------------------------------------------------------------------- */

static size_t size_of(const struct group *group)
{
    return 4 + strlen(group->name) + 4 + strlen(group->text) + 8 + 4;
}

static void put(struct cop__writer *writer, const struct group *group)
{
    const uint8_t *name = (const uint8_t *)group->name;
    const uint8_t *text = (const uint8_t *)group->text;
    cop__put_bytes(writer, (struct cop__bytes){name, (uint32_t)strlen(group->name)});
    cop__put_bytes(writer, (struct cop__bytes){text, (uint32_t)strlen(group->text)});
    cop__put_u64(writer, group->version);
    cop__put_u32(writer, group->origin);
}

static int get(struct cop__reader *reader, struct group *out)
{
    struct group group = {{0}, NULL, 0, COP_ID_NONE};
    struct cop__bytes name = cop__get_bytes(reader), text = cop__get_bytes(reader);
    group.version = cop__get_u64(reader);
    group.origin = cop__get_u32(reader);
    if (reader->failed || name.length > GROUPS_NAME_MAX ||
        text.length > GROUPS_TEXT_MAX || group.version > GROUPS_VERSION_MAX)
        return COP_EMALFORMED;
    if (name.length > 0)
        memcpy(group.name, name.data, name.length);
    if (strlen(group.name) != name.length || !groups_is_name(group.name))
        return COP_EMALFORMED;
    group.text = strndup(text.length ? (const char *)text.data : "", text.length);
    if (group.text == NULL)
        return COP_ENOMEM;
    *out = group;
    return 0;
}

struct cop_buf *group_encode(const struct group *group)
{
    struct cop_buf *buf = cop_buf_create(size_of(group));
    if (buf == NULL)
        return NULL;
    struct cop__writer writer = cop__writer(buf->data, buf->length);
    put(&writer, group);
    COP_ASSERT(!writer.failed && writer.at == writer.end);
    return buf;
}

int group_decode(struct cop__bytes bytes, struct group *out)
{
    struct cop__reader reader = cop__reader(bytes.data, bytes.length);
    struct group group;
    int error = get(&reader, &group);
    if (!error && !cop__reader_is_done(&reader)) {
        free(group.text);
        error = COP_EMALFORMED;
    }
    if (!error)
        *out = group;
    return error;
}

struct cop_buf *groups_encode(const struct groups *groups)
{
    size_t size = 0;
    for (uint32_t i = 0; i < groups->count; i++)
        size += size_of(&groups->items[i]);
    struct cop_buf *buf = cop_buf_create(size);
    if (buf == NULL)
        return NULL;
    struct cop__writer writer = cop__writer(buf->data, size);
    for (uint32_t i = 0; i < groups->count; i++)
        put(&writer, &groups->items[i]);
    COP_ASSERT(!writer.failed && writer.at == writer.end);
    return buf;
}

int groups_decode(struct cop__bytes bytes, struct groups *out)
{
    struct cop__reader reader = cop__reader(bytes.data, bytes.length);
    struct groups groups = {0};
    int error = 0;
    while (!error && reader.at < reader.end) {
        struct group group;
        error = get(&reader, &group);
        if (error)
            break;
        error = groups_merge(&groups, &group);
        free(group.text);
    }
    if (error)
        groups_free(&groups);
    else
        *out = groups;
    return error;
}

/* ---- texts ----------------------------------------------------------------------- */

bool groups_is_name(const char *text)
{
    size_t good = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                               "0123456789-_.");
    return good >= 1 && good <= GROUPS_NAME_MAX && text[good] == '\0';
}

/* The next term: up to a comma or a space that is not in brackets. */
static size_t term_length(const char *text)
{
    size_t length = 0;
    for (int depth = 0; text[length] != '\0'; length++) {
        if (text[length] == '[')
            depth++;
        else if (text[length] == ']')
            depth--;
        else if ((text[length] == ',' || text[length] == ' ') && depth <= 0)
            break;
        else if (text[length] == '!' && length > 0)
            break; /* "n[0-3]!n2": its own separator */
    }
    return length;
}

/* The terms of a set, each behind `sign`, separated by commas. */
static void put_terms(FILE *out, const char *text, const char *sign)
{
    while (*text != '\0') {
        size_t length = term_length(text);
        fprintf(out, "%s%.*s", sign, (int)length, text);
        text += length;
        if (*text != '\0') {
            fputc(',', out);
            text++;
        }
    }
}

/* False: there is no such group. */
static bool expand_term(const struct groups *groups, FILE *out, const char *term,
                        size_t length, char *message, size_t size)
{
    bool is_out = length > 0 && term[0] == '!';
    const char *name = term + is_out;
    char copy[GROUPS_NAME_MAX + 1] = "";
    if (length <= (size_t)is_out || name[0] != '@') {
        fprintf(out, "%.*s", (int)length, term);
        return true;
    }
    size_t name_length = length - (size_t)is_out - 1;
    if (name_length <= GROUPS_NAME_MAX)
        memcpy(copy, name + 1, name_length);
    const struct group *group = groups_find(groups, copy);
    if (group == NULL) {
        snprintf(message, size, "there is no group '%.*s'", (int)name_length, name + 1);
        return false;
    }
    put_terms(out, group->text, is_out ? "!" : "");
    return true;
}

char *groups_expand(const struct groups *groups, const char *text, char *message,
                    size_t size)
{
    char *expanded = NULL;
    size_t used = 0;
    FILE *out = open_memstream(&expanded, &used);
    bool is_good = out != NULL;
    snprintf(message, size, "%s", cop_strerror(COP_ENOMEM));
    while (is_good && *text != '\0') {
        size_t length = term_length(text);
        is_good = expand_term(groups, out, text, length, message, size);
        text += length;
        if (*text != '\0' && *text != '!')
            fputc(*text++, out);
    }
    if (out != NULL && fclose(out) != 0)
        is_good = false;
    if (is_good)
        return expanded;
    free(expanded);
    return NULL;
}
