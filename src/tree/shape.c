/* SPDX-License-Identifier: Apache-2.0 */
#include "tree/shape.h"

#include <coppice/error.h>
#include <stdio.h>
#include <string.h>

#define ROW(kind, name, usage, k_max, power, table, rebalance, ops)                    \
    {                                                                                  \
        COP_SHAPE_##kind, name, usage, k_max, power, table,                            \
            COP__REBALANCE_##rebalance, &cop__##ops##_ops                              \
    }
#define MANY COP__ARITY_MAX

/* clang-format off */
static const struct cop__shape_row rows[] = {
    /*  kind     name       usage          arity power  table  rebalance functions */
    ROW(KARY,    "kary",    "kary:K",      MANY, false, false, DENSE,    kary),
    ROW(RADIX,   "radix",   "radix:A",     MANY, true,  false, DENSE,    radix),
    ROW(KNOMIAL, "knomial", "knomial:K",   MANY, false, false, DENSE,    knomial),
    ROW(FLAT,    "flat",    "flat",        0,    false, false, DENSE,    flat),
    ROW(CHAIN,   "chain",   "chain",       0,    false, false, DENSE,    chain),
    ROW(TABLE,   "file",    "file:PATH",   0,    false, true,  SPLICE,   table),
    ROW(HOSTS,   "hosts",   "hosts:SHAPE", MANY, false, true,  ELECT,    hosts),
};
/* clang-format on */
#define ROW_COUNT (sizeof(rows) / sizeof(rows[0]))

const struct cop__shape_row *cop__shape_row(enum cop_shape_kind kind)
{
    /* The kinds are numbered from 1, and the rows are in their order. */
    size_t at = (size_t)kind - COP_SHAPE_KARY;
    return at < ROW_COUNT ? &rows[at] : NULL;
}

bool cop__shape_k_is_allowed(const struct cop__shape_row *row, uint32_t k)
{
    if (row->k_max == 0)
        return k == 0;
    return k >= COP__ARITY_MIN && k <= row->k_max &&
           (!row->k_is_power || (k & (k - 1)) == 0);
}

int cop_shape_make(enum cop_shape_kind kind, uint32_t k, struct cop_shape *out)
{
    const struct cop__shape_row *row = cop__shape_row(kind);
    if (row == NULL || row->has_table || !cop__shape_k_is_allowed(row, k))
        return COP_EINVAL;
    *out = (struct cop_shape){.kind = kind, .k = k};
    return 0;
}

int cop_shape_print(const struct cop_shape *shape, char *out, size_t size)
{
    bool hosts = shape->kind == COP_SHAPE_HOSTS;
    const struct cop__shape_row *row =
        cop__shape_row(hosts ? shape->inner : shape->kind);
    const char *prefix = hosts ? "hosts:" : "";
    const char *name = row == NULL ? "?" : row->name;
    if (row == NULL || row->k_max == 0)
        return snprintf(out, size, "%s%s", prefix, name);
    return snprintf(out, size, "%s%s:%lu", prefix, name, (unsigned long)shape->k);
}

/* ---- reading --------------------------------------------------------------------- */

/* Where the sentence for the user goes, and the text that it is about. */
struct reader {
    const char *whole;
    char *message;
    size_t size;
};

/* Longer input is of no use in a sentence, nor is what a terminal might obey. */
#define QUOTED_MAX 40

static const char *quote(const char *text, char *out)
{
    size_t i = 0;
    for (; i < QUOTED_MAX && text[i] != '\0'; i++)
        out[i] = text[i] < ' ' || text[i] > '~' ? '?' : text[i];
    memcpy(out + i, text[i] == '\0' ? "" : "...", text[i] == '\0' ? 1 : 4);
    return out;
}

/* "\"kary:0\": " and then the sentence. */
static int refuse(const struct reader *reader, const char *sentence)
{
    char quoted[QUOTED_MAX + 4];
    if (reader->message != NULL && reader->size > 0)
        (void)snprintf(reader->message, reader->size, "shape \"%s\": %s",
                       quote(reader->whole, quoted), sentence);
    return COP_EINVAL;
}

static int refuse_name(const struct reader *reader)
{
    char sentence[160] = "no such shape; use binomial";
    size_t length = strlen(sentence);
    for (size_t i = 0; i < ROW_COUNT; i++) {
        int more = snprintf(sentence + length, sizeof(sentence) - length, "%s%s",
                            i + 1 < ROW_COUNT ? ", " : " or ", rows[i].usage);
        length += (size_t)more;
    }
    return refuse(reader, sentence);
}

static int refuse_arity(const struct reader *reader, const struct cop__shape_row *row,
                        const char *why)
{
    char sentence[160];
    (void)snprintf(sentence, sizeof(sentence),
                   "%s; use %s, where %c is %s from %u to %u", why, row->usage,
                   row->usage[strlen(row->usage) - 1],
                   row->k_is_power ? "a power of two" : "a number", COP__ARITY_MIN,
                   (unsigned)row->k_max);
    return refuse(reader, sentence);
}

/* Digits and nothing else. Too many of them give a number that is over every limit. */
static bool read_number(const char *text, uint32_t *out)
{
    uint32_t value = 0;
    if (*text == '\0')
        return false;
    for (; *text >= '0' && *text <= '9'; text++)
        value = value > COP__ARITY_MAX ? value : value * 10 + (uint32_t)(*text - '0');
    *out = value;
    return *text == '\0';
}

static int read_arity(const struct reader *reader, const struct cop__shape_row *row,
                      const char *text, uint32_t *k)
{
    if (text == NULL || *text == '\0')
        return refuse_arity(reader, row, "the arity is missing");
    if (!read_number(text, k))
        return refuse_arity(reader, row, "the arity is not a whole number");
    if (*k == 1)
        return refuse_arity(reader, row, "an arity of 1 is a chain: use chain");
    if (*k < COP__ARITY_MIN)
        return refuse_arity(reader, row, "the arity is too small");
    if (*k > row->k_max)
        return refuse_arity(reader, row, "the arity is too large");
    if (!cop__shape_k_is_allowed(row, *k))
        return refuse_arity(reader, row, "the arity is not a power of two");
    return 0;
}

/* The row whose name the text is, or begins with before a colon; *rest is what follows
 * that colon, or NULL. */
static const struct cop__shape_row *find_row(const char *text, const char **rest)
{
    size_t length = strcspn(text, ":");
    *rest = text[length] == ':' ? text + length + 1 : NULL;
    for (size_t i = 0; i < ROW_COUNT; i++) {
        if (strlen(rows[i].name) == length && memcmp(rows[i].name, text, length) == 0)
            return &rows[i];
    }
    return NULL;
}

/* A shape that needs no table. */
static int read_plain(const struct reader *reader, const struct cop__shape_row *row,
                      const char *rest, struct cop_shape *out)
{
    uint32_t k = 0;
    if (row->k_max == 0 && rest != NULL)
        return refuse(reader, "this shape takes no arity");
    if (row->k_max != 0) {
        int error = read_arity(reader, row, rest, &k);
        if (error != 0)
            return error;
    }
    *out = (struct cop_shape){.kind = row->kind, .k = k};
    return 0;
}

static int read_hosts(const struct reader *reader, const char *text,
                      struct cop_shape *out)
{
    struct cop_shape inner = {.kind = COP_SHAPE_KNOMIAL, .k = 2};
    if (text == NULL || *text == '\0')
        return refuse(reader, "the shape of the leaders' tree is missing; "
                              "use hosts:SHAPE, for example hosts:radix:4");
    if (strcmp(text, "binomial") != 0) {
        const char *rest;
        const struct cop__shape_row *row = find_row(text, &rest);
        if (row == NULL)
            return refuse_name(reader);
        if (row->has_table)
            return refuse(reader, "the leaders' tree must be a computed shape, "
                                  "for example hosts:radix:4");
        int error = read_plain(reader, row, rest, &inner);
        if (error != 0)
            return error;
    }
    *out = (struct cop_shape){COP_SHAPE_HOSTS, inner.k, inner.kind, NULL};
    return 0;
}

static int read_shape(const struct reader *reader, struct cop_shape *out)
{
    const char *rest;
    const struct cop__shape_row *row = find_row(reader->whole, &rest);
    if (strcmp(reader->whole, "binomial") == 0)
        return cop_shape_make(COP_SHAPE_KNOMIAL, 2, out);
    if (row == NULL)
        return refuse_name(reader);
    if (row->kind == COP_SHAPE_HOSTS)
        return read_hosts(reader, rest, out);
    if (row->kind != COP_SHAPE_TABLE)
        return read_plain(reader, row, rest, out);
    if (rest == NULL || *rest == '\0')
        return refuse(reader,
                      "the path of the topology file is missing; use file:PATH");
    *out = (struct cop_shape){.kind = COP_SHAPE_TABLE};
    return 0;
}

int cop_shape_parse(const char *text, struct cop_shape *out, char *message, size_t size)
{
    struct reader reader = {text, message, size};
    if (*text == '\0')
        return refuse_name(&reader);
    return read_shape(&reader, out);
}
