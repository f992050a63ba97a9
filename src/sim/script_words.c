/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/script.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Words of a line, numbers, ids and times. */

bool cop__words_wrong(struct cop__words *words, const char *format, ...)
{
    if (words->message && words->size > 0) {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(words->message, words->size, format, arguments);
        va_end(arguments);
    }
    return false;
}

const char *cop__word_next(struct cop__words *words)
{
    return words->at < words->count ? words->items[words->at++] : NULL;
}

bool cop__word_is(struct cop__words *words, const char *word)
{
    if (words->at >= words->count || strcmp(words->items[words->at], word) != 0)
        return false;
    words->at++;
    return true;
}

bool cop__words_end(struct cop__words *words)
{
    if (words->at == words->count)
        return true;
    return cop__words_wrong(words, "did not expect '%s'", words->items[words->at]);
}

/* Reads digits; false if there are none, or the value is above the limit. */
static bool parse_digits(const char **text, uint64_t limit, uint64_t *out)
{
    const char *at = *text;
    uint64_t value = 0;
    if (*at < '0' || *at > '9')
        return false;
    for (; *at >= '0' && *at <= '9'; at++) {
        uint64_t digit = (uint64_t)(*at - '0');
        if (value > (limit - digit) / 10)
            return false;
        value = value * 10 + digit;
    }
    *text = at;
    *out = value;
    return true;
}

bool cop__word_number(struct cop__words *words, const char *what, uint64_t limit,
                      uint64_t *out)
{
    const char *word = cop__word_next(words);
    const char *at = word;
    if (!word)
        return cop__words_wrong(words, "%s is missing", what);
    if (!parse_digits(&at, limit, out) || *at)
        return cop__words_wrong(words, "%s must be a number of at most %llu, not '%s'",
                                what, (unsigned long long)limit, word);
    return true;
}

bool cop__word_id(struct cop__words *words, const char *what, cop_id *out)
{
    uint64_t value = 0;
    if (!cop__word_number(words, what, COP_MEMBERS_MAX - 1, &value))
        return false;
    *out = (cop_id)value;
    return true;
}

bool cop__parse_time(const char *text, cop_time *out)
{
    static const struct {
        const char *name;
        cop_time unit;
    } units[] = {
        {"", 1}, {"ns", 1}, {"us", COP_USEC}, {"ms", COP_MSEC}, {"s", COP_SEC}};
    uint64_t value;
    if (!parse_digits(&text, COP__TIME_MAX, &value))
        return false;
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        if (strcmp(text, units[i].name) == 0 &&
            value <= COP__TIME_MAX / units[i].unit) {
            *out = value * units[i].unit;
            return true;
        }
    }
    return false;
}

bool cop__word_time(struct cop__words *words, const char *what, cop_time *out)
{
    const char *word = cop__word_next(words);
    if (!word)
        return cop__words_wrong(words, "%s is missing", what);
    if (!cop__parse_time(word, out))
        return cop__words_wrong(words, "%s must be a time such as 10us or 2s, not '%s'",
                                what, word);
    return true;
}
