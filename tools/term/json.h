/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_TOOLS_TERM_JSON_H
#define COP_TOOLS_TERM_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/*
 * Writes JSON to a stream: one outermost object per line. It keeps the commas and
 * checks the nesting by assertion, because a document that does not nest is a mistake
 * of ours, never of the input. Errors of the stream stay in the stream: ask ferror
 * once, at the end.
 *
 *   struct json json;
 *   json_init(&json, stdout);
 *   json_begin_object(&json);
 *   json_put_string(&json, "schema", "coppice.example.v1");
 *   json_key(&json, "sizes");
 *   json_begin_array(&json);
 *   json_u64(&json, 7);
 *   json_end_array(&json);
 *   json_end_object(&json);          the newline comes with the outermost end
 */
#define JSON_DEPTH_MAX 16

struct json {
    FILE *out;
    uint32_t depth;
    char closing[JSON_DEPTH_MAX]; /* what ends each open level: '}' or ']' */
    bool comma;                   /* something came before on this level */
    bool keyed;                   /* a key was written, its value is due */
};

void json_init(struct json *json, FILE *out);

void json_begin_object(struct json *json);
void json_end_object(struct json *json);
void json_begin_array(struct json *json);
void json_end_array(struct json *json);
/* In an object, before each value. */
void json_key(struct json *json, const char *key);

/* Bytes that are not UTF-8 become U+FFFD. NULL is null. */
void json_string(struct json *json, const char *value);
/* The same for bytes that may have NUL among them: it becomes \u0000. */
void json_bytes(struct json *json, const void *bytes, size_t length);
void json_u64(struct json *json, uint64_t value);
void json_i64(struct json *json, int64_t value);
void json_bool(struct json *json, bool value);
/* With `decimals` digits after the point (at most 9); null if it is not finite. */
void json_double(struct json *json, double value, int decimals);
void json_null(struct json *json);

/* Key and value in one. */
void json_put_string(struct json *json, const char *key, const char *value);
void json_put_u64(struct json *json, const char *key, uint64_t value);
void json_put_i64(struct json *json, const char *key, int64_t value);
void json_put_bool(struct json *json, const char *key, bool value);
void json_put_double(struct json *json, const char *key, double value, int decimals);

#endif
