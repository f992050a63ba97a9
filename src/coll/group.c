/* SPDX-License-Identifier: Apache-2.0 */
#include "coll/state.h"

#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

/*
 * One group: who is in it, in which order, with which tags. Its definition in bytes:
 * service, shape, arity, name, and for each member its id and its tags. The digest is over
 * the service and the members; the shape is how it is used, not what it is.
 */

#define DIGEST_BYTES 16u

/* Groups use shapes that need no table; others become binomial. */
static struct cop_shape plain_shape(const struct cop_shape *shape)
{
    struct cop_shape plain = {.kind = COP_SHAPE_KNOMIAL, .k = 2};
    if (shape && shape->kind >= COP_SHAPE_KARY && shape->kind <= COP_SHAPE_CHAIN)
        plain = (struct cop_shape){.kind = shape->kind, .k = shape->k};
    return plain;
}

static int digest_of(uint64_t service, struct cop__bytes members, uint8_t out[16])
{
    uint8_t whole[EVP_MAX_MD_SIZE];
    uint8_t number[8];
    unsigned length = 0;
    struct cop__writer writer = cop__writer(number, sizeof number);
    cop__put_u64(&writer, service);
    uint8_t *bytes = malloc(sizeof number + members.length);
    if (!bytes)
        return COP_ENOMEM;
    memcpy(bytes, number, sizeof number);
    memcpy(bytes + sizeof number, members.data, members.length);
    int good = EVP_Digest(bytes, sizeof number + members.length, whole, &length,
                          EVP_sha256(), NULL);
    free(bytes);
    if (good != 1 || length < DIGEST_BYTES)
        return COP_ENOMEM;
    memcpy(out, whole, DIGEST_BYTES);
    return 0;
}

struct cop__group *cop__group_ref(struct cop__group *group)
{
    if (group)
        group->refs++;
    return group;
}

void cop__group_unref(struct cop__group *group)
{
    if (!group || --group->refs > 0)
        return;
    cop__roll_unref(group->roll);
    cop_buf_unref(group->definition);
    free(group->tags);
    free(group->tag_ends);
    free(group->name);
    free(group);
}

const struct cop_tag *cop__group_tags(const struct cop__group *group, cop_rank rank,
                                      uint32_t *count)
{
    uint32_t from = rank > 0 ? group->tag_ends[rank - 1] : 0;
    *count = group->tag_ends[rank] - from;
    return group->tags + from;
}

/* ---- bytes ----------------------------------------------------------------------- */

static struct cop_buf *encode(const struct cop__group_names *names,
                              const struct cop_target *targets, uint32_t count)
{
    size_t name_length = names->name ? strlen(names->name) : 0;
    size_t size = 8 + 1 + 4 + 4 + name_length + 4;
    for (uint32_t i = 0; i < count; i++)
        size += 8 + (size_t)targets[i].tag_count * sizeof(struct cop_tag);
    struct cop_buf *buf = cop_buf_create(size);
    if (!buf)
        return NULL;
    struct cop__writer writer = cop__writer(buf->data, size);
    struct cop_shape shape = plain_shape(names->shape);
    cop__put_u64(&writer, names->service);
    cop__put_u8(&writer, (uint8_t)shape.kind);
    cop__put_u32(&writer, shape.k);
    cop__put_bytes(&writer, (struct cop__bytes){(const uint8_t *)names->name,
                                                (uint32_t)name_length});
    cop__put_u32(&writer, count);
    for (uint32_t i = 0; i < count; i++) {
        size_t bytes = (size_t)targets[i].tag_count * sizeof(struct cop_tag);
        cop__put_u32(&writer, targets[i].node);
        cop__put_u32(&writer, targets[i].tag_count);
        if (bytes)
            memcpy(writer.at, targets[i].tags, bytes);
        writer.at += bytes;
    }
    return buf;
}

/* Reads the members; the arrays are the group's from the start on. */
static int read_members(struct cop__reader *reader, uint32_t count,
                        struct cop__group *group)
{
    uint64_t left = (uint64_t)(reader->end - reader->at);
    if (reader->failed || count == 0 || (uint64_t)count * 8 > left)
        return COP_EMALFORMED;
    cop_id *ids = malloc(count * sizeof *ids);
    group->tag_ends = malloc(count * sizeof *group->tag_ends);
    group->tags = malloc(left + 1); /* no more tags than bytes */
    int error = ids && group->tag_ends && group->tags ? 0 : COP_ENOMEM;
    uint32_t tags = 0;
    for (uint32_t i = 0; i < count && !error; i++) {
        ids[i] = cop__get_u32(reader);
        uint32_t more = cop__get_u32(reader);
        uint64_t bytes = (uint64_t)more * sizeof(struct cop_tag);
        if (reader->failed || ids[i] >= COP_MEMBERS_MAX ||
            bytes > (uint64_t)(reader->end - reader->at)) {
            error = COP_EMALFORMED;
            break;
        }
        if (bytes)
            memcpy(group->tags + tags, reader->at, bytes);
        reader->at += bytes;
        tags += more;
        group->tag_ends[i] = tags;
    }
    if (!error)
        error = cop__roll_create(ids, count, &group->roll);
    free(ids);
    return error == COP_EINVAL ? COP_EMALFORMED : error;
}

static int decode(struct cop_buf *definition, struct cop__group *group)
{
    struct cop__reader reader = cop__reader(definition->data, definition->length);
    struct cop_shape shape = {0};
    group->service = cop__get_u64(&reader);
    shape.kind = (enum cop_shape_kind)cop__get_u8(&reader);
    shape.k = cop__get_u32(&reader);
    struct cop__bytes name = cop__get_bytes(&reader);
    group->name = calloc(1, (size_t)name.length + 1);
    if (!group->name)
        return COP_ENOMEM;
    if (name.length)
        memcpy(group->name, name.data, name.length);
    const uint8_t *members = reader.at;
    uint32_t count = cop__get_u32(&reader);
    int error = read_members(&reader, count, group);
    if (!error && (!cop__reader_is_done(&reader) ||
                   cop_shape_make(shape.kind, shape.k, &group->shape)))
        error = COP_EMALFORMED;
    if (error)
        return error;
    struct cop__bytes bytes = {members, (uint32_t)(reader.end - members)};
    return digest_of(group->service, bytes, group->digest);
}

/* Takes over the reference. */
static int from_definition(struct cop_buf *definition, struct cop__group **out)
{
    struct cop__group *group = calloc(1, sizeof *group);
    if (!group) {
        cop_buf_unref(definition);
        return COP_ENOMEM;
    }
    group->refs = 1;
    group->creator = COP_ID_NONE;
    group->definition = definition;
    int error = decode(definition, group);
    if (error)
        cop__group_unref(group);
    else
        *out = group;
    return error;
}

int cop__group_decode(struct cop__bytes bytes, struct cop__group **out)
{
    struct cop_buf *definition = cop_buf_copy(bytes.data, bytes.length);
    return definition ? from_definition(definition, out) : COP_ENOMEM;
}

int cop__group_create(const struct cop__group_names *names,
                      const struct cop_target *targets, uint32_t count,
                      struct cop__group **out)
{
    struct cop_buf *definition = encode(names, targets, count);
    if (!definition)
        return COP_ENOMEM;
    return from_definition(definition, out);
}

/* ---- a part of one --------------------------------------------------------------- */

static bool is_excluded(const struct cop_ranks *excluded, cop_rank rank)
{
    for (uint32_t i = 0; i < excluded->count; i++)
        if (excluded->items[i] == rank)
            return true;
    return false;
}

int cop__group_without(const struct cop__group *group, const struct cop_ranks *excluded,
                       struct cop__group **out)
{
    uint32_t count = group->roll->count, kept = 0;
    struct cop_target *targets = calloc(count, sizeof *targets);
    if (!targets)
        return COP_ENOMEM;
    for (cop_rank rank = 0; rank < count; rank++) {
        struct cop_target *target = &targets[kept];
        if (is_excluded(excluded, rank))
            continue;
        target->node = group->roll->ids[rank];
        target->tags = cop__group_tags(group, rank, &target->tag_count);
        kept++;
    }
    struct cop__group_names names = {group->service, "", &group->shape};
    int error = kept ? cop__group_create(&names, targets, kept, out) : COP_EINVAL;
    free(targets);
    if (error)
        return error;
    (*out)->creator = group->creator;
    (*out)->incarnation = group->incarnation;
    (*out)->index = group->index;
    memcpy((*out)->oob, group->oob, sizeof group->oob);
    return 0;
}
