/* SPDX-License-Identifier: Apache-2.0 */
#include "filter/state.h"

#include <string.h>

static const struct {
    const char *name;
    uint32_t size; /* 0: any number of bytes */
} bases[] = {
    [COP__TYPE_U64] = {"u64", 8},   [COP__TYPE_I64] = {"i64", 8},
    [COP__TYPE_F64] = {"f64", 8},   [COP__TYPE_I128] = {"i128", 16},
    [COP__TYPE_TEXT] = {"text", 0}, [COP__TYPE_BYTES] = {"bytes", 0},
};
#define BASES (sizeof bases / sizeof *bases)
#define ARRAY_MAX (COP_PACKET_MAX / 8)

static bool word_is(const char *text, uint32_t length, const char *word)
{
    return strlen(word) == length && memcmp(text, word, length) == 0;
}

/* What is between the brackets: nothing, or a number that begins with no zero. */
static int parse_count(const char *text, uint32_t length, uint32_t *out)
{
    uint32_t count = 0;
    if (length > 0 && text[0] == '0')
        return COP_EINVAL;
    for (uint32_t i = 0; i < length; i++) {
        if (text[i] < '0' || text[i] > '9')
            return COP_EINVAL;
        count = count * 10 + (uint32_t)(text[i] - '0');
        if (count > ARRAY_MAX)
            return COP_EINVAL;
    }
    *out = count;
    return 0;
}

int cop__type_parse(const char *text, uint32_t length, struct cop__type *out)
{
    struct cop__type type = {0};
    uint32_t base = length;
    if (length > COP_FILTER_NAME_MAX)
        return COP_EINVAL;
    for (uint32_t i = 0; i < length && base == length; i++)
        if (text[i] == '[')
            base = i;
    if (base < length) {
        type.array = true;
        if (text[length - 1] != ']' ||
            parse_count(text + base + 1, length - base - 2, &type.count))
            return COP_EINVAL;
    }
    for (uint32_t i = 0; i < BASES; i++) {
        if (!word_is(text, base, bases[i].name))
            continue;
        if (type.array && bases[i].size == 0)
            return COP_EINVAL;
        type.base = (enum cop__base_type)i;
        *out = type;
        return 0;
    }
    return COP_EINVAL;
}

int cop_type_valid(const char *type)
{
    struct cop__type parsed;
    size_t length = strlen(type);
    if (length > COP_FILTER_NAME_MAX)
        return COP_EINVAL;
    return cop__type_parse(type, (uint32_t)length, &parsed);
}

/* ---- UTF-8 ----------------------------------------------------------------------- */

/* Bytes that follow a first byte, or -1. */
static int following(uint8_t first)
{
    if (first < 0x80)
        return 0;
    if (first >= 0xc2 && first < 0xe0)
        return 1;
    if (first >= 0xe0 && first < 0xf0)
        return 2;
    return first >= 0xf0 && first < 0xf5 ? 3 : -1;
}

/* Neither longer than needed, nor half of a pair, nor beyond the last character. */
static bool is_character(uint32_t value, int more)
{
    static const uint32_t least[] = {0, 0x80, 0x800, 0x10000};
    return value >= least[more] && value <= 0x10ffff &&
           !(value >= 0xd800 && value <= 0xdfff);
}

static bool is_text(struct cop_span data)
{
    static const uint8_t mask[] = {0x7f, 0x1f, 0x0f, 0x07};
    for (uint32_t i = 0; i < data.length;) {
        int more = following(data.bytes[i]);
        if (more < 0 || (uint32_t)more >= data.length - i)
            return false;
        uint32_t value = data.bytes[i++] & mask[more];
        for (int j = 0; j < more; j++, i++) {
            if ((data.bytes[i] & 0xc0) != 0x80)
                return false;
            value = value << 6 | (data.bytes[i] & 0x3f);
        }
        if (!is_character(value, more))
            return false;
    }
    return true;
}

int cop_type_check(const char *type, struct cop_span data)
{
    struct cop__type parsed;
    size_t length = strlen(type);
    if (length > COP_FILTER_NAME_MAX ||
        cop__type_parse(type, (uint32_t)length, &parsed))
        return COP_EINVAL;
    uint32_t size = bases[parsed.base].size;
    if (size == 0)
        return parsed.base != COP__TYPE_TEXT || is_text(data) ? 0 : COP_EINVAL;
    if (data.length % size != 0)
        return COP_EINVAL;
    if (!parsed.array)
        return data.length == size ? 0 : COP_EINVAL;
    return parsed.count == 0 || data.length / size == parsed.count ? 0 : COP_EINVAL;
}

/* ---- lists of types -------------------------------------------------------------- */

struct cop_span cop__type_at(const char *list, uint32_t place)
{
    for (;; place--) {
        list += strspn(list, " ");
        uint32_t length = (uint32_t)strcspn(list, " ");
        if (place == 0 || length == 0)
            return (struct cop_span){(const uint8_t *)list, length};
        list += length;
    }
}

/* "u64[]" in a list stands for every number of them too. */
static bool takes(struct cop_span word, const char *type, uint32_t length)
{
    if (word_is((const char *)word.bytes, word.length, "any"))
        return true;
    if (word.length == length && memcmp(word.bytes, type, length) == 0)
        return true;
    if (word.length < 3 || memcmp(word.bytes + word.length - 2, "[]", 2) != 0)
        return false;
    return length > word.length - 1 && memcmp(word.bytes, type, word.length - 1) == 0;
}

uint32_t cop__type_place(const char *list, const char *type, uint32_t length)
{
    for (uint32_t place = 0;; place++) {
        struct cop_span word = cop__type_at(list, place);
        if (word.length == 0)
            return UINT32_MAX;
        if (takes(word, type, length))
            return place;
    }
}
