/* SPDX-License-Identifier: Apache-2.0 */
#include "names/nodeset.h"

#include <coppice/error.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- names ----------------------------------------------------------------------- */

/*
 * A name seen as prefix, number and suffix; the number is its last run of digits. A
 * name without digits, or with more of them than a bracket takes, is all prefix.
 */
struct split {
    const char *digits;
    const char *suffix;
    size_t prefix_length;
    size_t width;
    uint32_t value;
};

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static struct split split_name(const char *name)
{
    size_t length = strlen(name);
    size_t end = length;
    while (end > 0 && !is_digit(name[end - 1]))
        end--;
    size_t start = end;
    while (start > 0 && is_digit(name[start - 1]))
        start--;
    if (end - start > NODESET_NUMBER_DIGITS)
        start = end = length;
    struct split split = {name + start, name + end, start, end - start, 0};
    if (split.width == 0) {
        split.prefix_length = length;
        split.digits = split.suffix = name + length;
    }
    for (size_t i = 0; i < split.width; i++)
        split.value = split.value * 10 + (uint32_t)(split.digits[i] - '0');
    return split;
}

static int compare_prefix(const char *a, size_t a_length, const char *b,
                          size_t b_length)
{
    int order = memcmp(a, b, a_length < b_length ? a_length : b_length);
    return order ? order : (a_length > b_length) - (a_length < b_length);
}

/* Numbers of one prefix and suffix stand together, so that folding is one pass. */
static int compare_names(const char *a, const char *b)
{
    struct split x = split_name(a), y = split_name(b);
    int order = compare_prefix(a, x.prefix_length, b, y.prefix_length);
    if (order == 0)
        order = strcmp(x.suffix, y.suffix);
    if (order == 0)
        order = (x.value > y.value) - (x.value < y.value);
    return order ? order : (x.width > y.width) - (x.width < y.width);
}

static int compare_slots(const void *a, const void *b)
{
    return compare_names(*(char *const *)a, *(char *const *)b);
}

/* ---- sets ------------------------------------------------------------------------ */

void nodeset_free(struct nodeset *set)
{
    for (uint32_t i = 0; i < set->count; i++)
        free(set->names[i]);
    free(set->names);
    *set = (struct nodeset){0};
}

/* Index of the first name that is not before `name`. */
static uint32_t lower_bound(const struct nodeset *set, const char *name)
{
    uint32_t low = 0, high = set->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (compare_names(set->names[middle], name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool nodeset_has(const struct nodeset *set, const char *name)
{
    uint32_t at = lower_bound(set, name);
    return at < set->count && strcmp(set->names[at], name) == 0;
}

/* At the end, out of order: sort_unique must follow. */
static int append(struct nodeset *set, const char *name)
{
    if (set->count == set->capacity) {
        uint32_t capacity = set->capacity ? set->capacity * 2 : 16;
        char **names = realloc(set->names, capacity * sizeof *names);
        if (names == NULL)
            return COP_ENOMEM;
        set->names = names;
        set->capacity = capacity;
    }
    char *copy = strdup(name);
    if (copy == NULL)
        return COP_ENOMEM;
    set->names[set->count++] = copy;
    return 0;
}

static void sort_unique(struct nodeset *set)
{
    if (set->count == 0)
        return;
    qsort(set->names, set->count, sizeof *set->names, compare_slots);
    uint32_t kept = 1;
    for (uint32_t i = 1; i < set->count; i++)
        if (strcmp(set->names[i], set->names[kept - 1]) == 0)
            free(set->names[i]);
        else
            set->names[kept++] = set->names[i];
    set->count = kept;
}

int nodeset_add(struct nodeset *set, const char *name)
{
    size_t length = strlen(name);
    if (length == 0 || length > NODESET_NAME_LENGTH || set->count == NODESET_NAMES_MAX)
        return COP_EINVAL;
    for (size_t i = 0; i < length; i++)
        if (!cop__name_has(name[i]))
            return COP_EINVAL;
    uint32_t at = lower_bound(set, name);
    if (at < set->count && strcmp(set->names[at], name) == 0)
        return 0;
    int error = append(set, name);
    if (error)
        return error;
    char *added = set->names[set->count - 1];
    memmove(set->names + at + 1, set->names + at,
            (set->count - 1 - at) * sizeof *set->names);
    set->names[at] = added;
    return 0;
}

static void take_away(struct nodeset *set, const struct nodeset *gone)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < set->count; i++)
        if (nodeset_has(gone, set->names[i]))
            free(set->names[i]);
        else
            set->names[kept++] = set->names[i];
    set->count = kept;
}

/* Adds copies of the names of `more`, out of order: sort_unique must follow, once for all
 * terms. How many there may be is bounded before, by what was expanded. */
static int take_in(struct nodeset *set, const struct nodeset *more)
{
    int error = 0;
    for (uint32_t i = 0; error == 0 && i < more->count; i++)
        error = append(set, more->names[i]);
    return error;
}

/* ---- reading --------------------------------------------------------------------- */

/* One text on its way into a set. */
struct parser {
    const char *text;
    const char *at;
    char *message;
    size_t size;
    uint32_t expanded; /* names made so far, whether kept or not */
};

__attribute__((format(printf, 2, 3))) static int bad(const struct parser *parser,
                                                     const char *format, ...)
{
    if (parser->message != NULL && parser->size > 0) {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(parser->message, parser->size, format, arguments);
        va_end(arguments);
    }
    return COP_EINVAL;
}

/* What the user sees of the place where it went wrong. */
#define COLUMN(parser) ((int)((parser)->at - (parser)->text) + 1)

/* A number of the bracket at `at`; its width tells padding. */
static int read_number(struct parser *parser, uint32_t *value, uint32_t *width)
{
    uint32_t number = 0, digits = 0;
    while (is_digit(*parser->at)) {
        if (++digits > NODESET_NUMBER_DIGITS)
            return bad(parser, "a number may have at most %u digits (column %d)",
                       NODESET_NUMBER_DIGITS, COLUMN(parser));
        number = number * 10 + (uint32_t)(*parser->at++ - '0');
    }
    if (digits == 0)
        return bad(parser, "a number is missing in the brackets (column %d)",
                   COLUMN(parser));
    *value = number;
    *width = digits;
    return 0;
}

struct range {
    uint32_t low, high, step;
    int pad; /* digits of every number at least */
};

static bool is_padded(const char *digits, uint32_t width)
{
    return width > 1 && digits[0] == '0';
}

static int read_range(struct parser *parser, struct range *range)
{
    const char *low_text = parser->at;
    uint32_t low_width = 0, high_width = 0, step_width;
    int error = read_number(parser, &range->low, &low_width);
    if (error)
        return error;
    range->high = range->low;
    range->step = 1;
    range->pad = is_padded(low_text, low_width) ? (int)low_width : 1;
    if (*parser->at != '-')
        return 0;
    const char *high_text = ++parser->at;
    error = read_number(parser, &range->high, &high_width);
    if (error)
        return error;
    if (is_padded(high_text, high_width) && (int)high_width != range->pad)
        return bad(parser, "both ends of a range need the same padding (column %d)",
                   COLUMN(parser));
    if (range->high < range->low)
        return bad(parser, "the range %" PRIu32 "-%" PRIu32 " is backwards", range->low,
                   range->high);
    if (*parser->at != '/')
        return 0;
    parser->at++;
    error = read_number(parser, &range->step, &step_width);
    if (!error && range->step == 0)
        return bad(parser, "a step must be at least 1 (column %d)", COLUMN(parser));
    return error;
}

/* A name in the making. */
struct stem {
    char text[NODESET_NAME_LENGTH + 1];
    size_t length;
};

static int expand(struct parser *parser, struct stem *stem, struct nodeset *out);

/* Every number of a range, each with all that follows the bracket. */
static int expand_range(struct parser *parser, const struct range *range,
                        struct stem *stem, const char *after, struct nodeset *out)
{
    size_t length = stem->length;
    for (uint64_t number = range->low; number <= range->high; number += range->step) {
        char digits[NODESET_NUMBER_DIGITS + 2];
        int width = snprintf(digits, sizeof digits, "%0*" PRIu64, range->pad, number);
        if (length + (size_t)width > NODESET_NAME_LENGTH)
            return bad(parser, "a name may have at most %u bytes", NODESET_NAME_LENGTH);
        memcpy(stem->text + length, digits, (size_t)width);
        stem->length = length + (size_t)width;
        parser->at = after;
        int error = expand(parser, stem, out);
        if (error)
            return error;
    }
    stem->length = length;
    return 0;
}

static int expand_bracket(struct parser *parser, struct stem *stem, struct nodeset *out)
{
    const char *closing = strchr(parser->at, ']');
    if (closing == NULL)
        return bad(parser, "the bracket of column %d is not closed", COLUMN(parser));
    for (;;) {
        struct range range;
        parser->at++;
        int error = read_range(parser, &range);
        const char *next = parser->at;
        if (error)
            return error;
        if (*next != ',' && *next != ']')
            return bad(parser, "'%c' is not allowed in brackets (column %d)", *next,
                       COLUMN(parser));
        error = expand_range(parser, &range, stem, closing + 1, out);
        if (error || *next == ']')
            return error;
        parser->at = next;
    }
}

static bool ends_term(char c) { return c == '\0' || c == ',' || c == ' ' || c == '!'; }

/*
 * Appends every name of the term whose beginning is in `stem`. The depth of recursion
 * is the number of brackets, each of which adds a digit at least, so it is bounded by
 * the length of a name; the work is bounded by the number of names.
 */
static int expand(struct parser *parser, struct stem *stem, struct nodeset *out)
{
    size_t length = stem->length;
    while (cop__name_has(*parser->at)) {
        if (stem->length == NODESET_NAME_LENGTH)
            return bad(parser, "a name may have at most %u bytes", NODESET_NAME_LENGTH);
        stem->text[stem->length++] = *parser->at++;
    }
    int error = 0;
    if (*parser->at == '[')
        error = expand_bracket(parser, stem, out);
    else if (!ends_term(*parser->at))
        error = bad(parser, "'%c' cannot be part of a name (column %d)", *parser->at,
                    COLUMN(parser));
    else if (parser->expanded++ == NODESET_NAMES_MAX)
        error = bad(parser, "more than %u names", NODESET_NAMES_MAX);
    else {
        stem->text[stem->length] = '\0';
        error = append(out, stem->text);
    }
    stem->length = length;
    return error;
}

static int read_term(struct parser *parser, struct nodeset *out)
{
    struct stem stem = {.length = 0};
    if (*parser->at == '@')
        return bad(parser, "groups (@...) are not known here (column %d)",
                   COLUMN(parser));
    if (ends_term(*parser->at))
        return bad(parser, "a name is missing (column %d)", COLUMN(parser));
    int error = expand(parser, &stem, out);
    if (!error)
        sort_unique(out);
    return error;
}

/* One term and what is before it: nothing, '!', or a separator and perhaps '!'. */
static int apply_term(struct parser *parser, const struct nodeset *all,
                      struct nodeset *set)
{
    bool first = parser->at == parser->text;
    if (!first && (*parser->at == ',' || *parser->at == ' '))
        parser->at++;
    bool without = *parser->at == '!';
    struct nodeset term = {0};
    int error = 0;
    if (without)
        parser->at++;
    if (without && first && all == NULL)
        return bad(parser, "there is nothing that '!' could take away from");
    if (without && first)
        for (uint32_t i = 0; i < all->count && !error; i++)
            error = append(set, all->names[i]);
    if (!error)
        error = read_term(parser, &term);
    if (!error && without)
        take_away(set, &term);
    else if (!error)
        error = take_in(set, &term);
    nodeset_free(&term);
    return error;
}

int nodeset_parse(const char *text, const struct nodeset *all, struct nodeset *out,
                  char *message, size_t size)
{
    struct parser parser = {.text = text, .at = text, .size = size};
    parser.message = message;
    struct nodeset set = {0};
    int error;
    do
        error = apply_term(&parser, all, &set);
    while (!error && *parser.at != '\0');
    if (error) {
        nodeset_free(&set);
        return error;
    }
    sort_unique(&set);
    *out = set;
    return 0;
}

/* ---- folding --------------------------------------------------------------------- */

/* Whether `next` is the number after `split`, written as a range would write it. */
static bool follows(const struct split *split, int pad, const struct split *next)
{
    char digits[NODESET_NUMBER_DIGITS + 2];
    int width = snprintf(digits, sizeof digits, "%0*" PRIu32, pad, split->value + 1);
    return (size_t)width == next->width &&
           memcmp(digits, next->digits, next->width) == 0;
}

static bool same_group(const char *a, const struct split *x, const char *b,
                       const struct split *y)
{
    return x->width > 0 && y->width > 0 &&
           compare_prefix(a, x->prefix_length, b, y->prefix_length) == 0 &&
           strcmp(x->suffix, y->suffix) == 0;
}

/* Writes the range that starts at `*i` and moves `*i` behind it. */
static void fold_range(FILE *out, const struct nodeset *set, uint32_t *i, uint32_t end)
{
    struct split low = split_name(set->names[*i]), high = low;
    int pad = is_padded(low.digits, (uint32_t)low.width) ? (int)low.width : 1;
    for (++*i; *i < end; ++*i) {
        struct split next = split_name(set->names[*i]);
        if (!follows(&high, pad, &next))
            break;
        high = next;
    }
    fprintf(out, "%.*s", (int)low.width, low.digits);
    if (high.value != low.value)
        fprintf(out, "-%.*s", (int)high.width, high.digits);
}

/* Names [i, end) have one prefix and suffix. */
static void fold_group(FILE *out, const struct nodeset *set, uint32_t i, uint32_t end)
{
    const char *name = set->names[i];
    struct split split = split_name(name);
    if (end - i == 1) {
        fputs(name, out);
        return;
    }
    fprintf(out, "%.*s[", (int)split.prefix_length, name);
    for (uint32_t at = i; at < end;) {
        if (at > i)
            fputc(',', out);
        fold_range(out, set, &at, end);
    }
    fprintf(out, "]%s", split.suffix);
}

char *nodeset_fold(const struct nodeset *set)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (out == NULL)
        return NULL;
    for (uint32_t i = 0; i < set->count;) {
        struct split first = split_name(set->names[i]);
        uint32_t end = i + 1;
        for (; end < set->count; end++) {
            struct split next = split_name(set->names[end]);
            if (!same_group(set->names[i], &first, set->names[end], &next))
                break;
        }
        if (i > 0)
            fputc(',', out);
        fold_group(out, set, i, end);
        i = end;
    }
    if (fclose(out) != 0) {
        free(text);
        return NULL;
    }
    return text;
}

char *nodeset_fold_ids(const char *prefix, const uint32_t *ids, uint32_t count)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (out == NULL)
        return NULL;
    if (count > 0)
        fprintf(out, count > 1 ? "%s[" : "%s", prefix);
    for (uint32_t i = 0; i < count;) {
        uint32_t end = i + 1;
        while (end < count && ids[end] == ids[end - 1] + 1)
            end++;
        fprintf(out, i > 0 ? ",%" PRIu32 : "%" PRIu32, ids[i]);
        if (end - i > 1)
            fprintf(out, "-%" PRIu32, ids[end - 1]);
        i = end;
    }
    if (count > 1)
        fputc(']', out);
    if (fclose(out) != 0) {
        free(text);
        return NULL;
    }
    return text;
}
