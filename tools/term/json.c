/* SPDX-License-Identifier: Apache-2.0 */
#include "term/json.h"

#include "base/assert.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

void json_init(struct json *json, FILE *out)
{
    memset(json, 0, sizeof *json);
    json->out = out;
}

static bool in_object(const struct json *json)
{
    return json->depth > 0 && json->closing[json->depth - 1] == '}';
}

/* Whatever comes next is a value: in an object it must follow a key. */
static void begin_value(struct json *json)
{
    COP_ASSERT(in_object(json) == json->keyed);
    if (json->comma && !json->keyed)
        fputc(',', json->out);
    json->keyed = false;
    json->comma = true;
}

static void begin(struct json *json, char opening, char closing)
{
    COP_ASSERT(json->depth < JSON_DEPTH_MAX);
    begin_value(json);
    fputc(opening, json->out);
    json->closing[json->depth++] = closing;
    json->comma = false;
}

static void end(struct json *json, char closing)
{
    COP_ASSERT(json->depth > 0 && json->closing[json->depth - 1] == closing);
    COP_ASSERT(!json->keyed);
    fputc(closing, json->out);
    json->depth--;
    json->comma = json->depth > 0;
    if (json->depth == 0)
        fputc('\n', json->out);
}

void json_begin_object(struct json *json) { begin(json, '{', '}'); }

void json_end_object(struct json *json) { end(json, '}'); }

void json_begin_array(struct json *json) { begin(json, '[', ']'); }

void json_end_array(struct json *json) { end(json, ']'); }

/*
 * Length of the well-formed UTF-8 sequence that starts at `at`, of which there are `left`
 * bytes, or 0. Overlong forms, surrogates and what lies beyond U+10FFFF are not well-formed
 * (RFC 3629).
 */
static size_t sequence_length(const unsigned char *at, size_t left)
{
    unsigned char low = 0x80, high = 0xbf;
    size_t more;
    if (at[0] >= 0xc2 && at[0] <= 0xdf)
        more = 1;
    else if (at[0] >= 0xe0 && at[0] <= 0xef)
        more = 2;
    else if (at[0] >= 0xf0 && at[0] <= 0xf4)
        more = 3;
    else
        return 0;
    if (more >= left)
        return 0;
    if (at[0] == 0xe0)
        low = 0xa0;
    else if (at[0] == 0xed)
        high = 0x9f;
    else if (at[0] == 0xf0)
        low = 0x90;
    else if (at[0] == 0xf4)
        high = 0x8f;
    if (at[1] < low || at[1] > high)
        return 0;
    for (size_t i = 2; i <= more; i++)
        if (at[i] < 0x80 || at[i] > 0xbf)
            return 0;
    return more + 1;
}

static void put_ascii(FILE *out, unsigned char byte)
{
    static const char plain[] = "\"\\\b\f\n\r\t";
    static const char letter[] = "\"\\bfnrt";
    const char *found = memchr(plain, byte, sizeof plain - 1);
    if (found)
        fprintf(out, "\\%c", letter[found - plain]);
    else if (byte < 0x20 || byte == 0x7f)
        fprintf(out, "\\u%04x", byte);
    else
        fputc(byte, out);
}

static void put_text(FILE *out, const char *text, size_t length)
{
    const unsigned char *at = (const unsigned char *)text, *end = at + length;
    fputc('"', out);
    while (at < end) {
        size_t used = *at < 0x80 ? 1 : sequence_length(at, (size_t)(end - at));
        if (*at < 0x80)
            put_ascii(out, *at);
        else if (used > 0)
            fwrite(at, 1, used, out);
        else
            fputs("\\ufffd", out);
        at += used > 0 ? used : 1;
    }
    fputc('"', out);
}

void json_key(struct json *json, const char *key)
{
    COP_ASSERT(in_object(json) && !json->keyed);
    if (json->comma)
        fputc(',', json->out);
    put_text(json->out, key, strlen(key));
    fputc(':', json->out);
    json->keyed = true;
}

void json_string(struct json *json, const char *value)
{
    if (value == NULL) {
        json_null(json);
        return;
    }
    begin_value(json);
    put_text(json->out, value, strlen(value));
}

void json_bytes(struct json *json, const void *bytes, size_t length)
{
    begin_value(json);
    put_text(json->out, bytes, length);
}

void json_u64(struct json *json, uint64_t value)
{
    begin_value(json);
    fprintf(json->out, "%" PRIu64, value);
}

void json_i64(struct json *json, int64_t value)
{
    begin_value(json);
    fprintf(json->out, "%" PRId64, value);
}

void json_bool(struct json *json, bool value)
{
    begin_value(json);
    fputs(value ? "true" : "false", json->out);
}

void json_double(struct json *json, double value, int decimals)
{
    COP_ASSERT(decimals >= 0 && decimals <= 9);
    if (!isfinite(value)) {
        json_null(json);
        return;
    }
    begin_value(json);
    fprintf(json->out, "%.*f", decimals, value);
}

void json_null(struct json *json)
{
    begin_value(json);
    fputs("null", json->out);
}

void json_put_string(struct json *json, const char *key, const char *value)
{
    json_key(json, key);
    json_string(json, value);
}

void json_put_u64(struct json *json, const char *key, uint64_t value)
{
    json_key(json, key);
    json_u64(json, value);
}

void json_put_i64(struct json *json, const char *key, int64_t value)
{
    json_key(json, key);
    json_i64(json, value);
}

void json_put_bool(struct json *json, const char *key, bool value)
{
    json_key(json, key);
    json_bool(json, value);
}

void json_put_double(struct json *json, const char *key, double value, int decimals)
{
    json_key(json, key);
    json_double(json, value, decimals);
}
