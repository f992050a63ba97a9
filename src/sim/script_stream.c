/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/script.h"

#include "filter/levels.h"
#include "sim/world.h"

#include <stdio.h>
#include <string.h>

/* The line that says what stream there is: "stream sum waves 20 window 4 gap 100us". */

#define WAVES_MAX 100000u
#define OTHERS_MAX 16u

static bool parse_number(struct cop__words *words, const char *what, uint64_t limit,
                         uint32_t *out)
{
    uint64_t number = 0;
    bool good = cop__word_number(words, what, limit, &number);
    *out = (uint32_t)number;
    return good;
}

static bool set_flag(struct cop_sim_stream *stream, uint32_t flag)
{
    stream->flags |= flag;
    return true;
}

/* "down select of to=1-3" */
static bool parse_down(struct cop__words *words, struct cop_sim_stream *stream)
{
    const char *name = cop__word_next(words);
    const struct cop_filter *filter = name ? cop_filter_find(name) : NULL;
    struct cop_buf *ready;
    if (!filter || !(filter->flags & COP_FILTER_DOWN))
        return cop__words_wrong(words, "down needs a filter down, as scatter, not '%s'",
                                name ? name : "");
    snprintf(stream->down, sizeof stream->down, "%s", name);
    if (cop__word_is(words, "of")) {
        const char *text = cop__word_next(words);
        if (!text || strlen(text) >= sizeof stream->down_params)
            return cop__words_wrong(words, "of needs a word of less than %u bytes",
                                    (unsigned)sizeof stream->down_params);
        memcpy(stream->down_params, text, strlen(text) + 1);
    }
    if (cop_filter_ready(filter, "bytes", stream->down_params, &ready) != 0)
        return cop__words_wrong(words, "'%s' does not take these parameters", name);
    cop_buf_unref(ready);
    return true;
}

static bool parse_option(struct cop__words *words, struct cop_sim_stream *stream)
{
    if (cop__word_is(words, "down"))
        return parse_down(words, stream);
    if (cop__word_is(words, "params")) {
        const char *text = cop__word_next(words);
        if (!text || strlen(text) >= sizeof stream->params)
            return cop__words_wrong(words, "params needs a word of less than %u bytes",
                                    (unsigned)sizeof stream->params);
        memcpy(stream->params, text, strlen(text) + 1);
        return true;
    }
    if (cop__word_is(words, "waves"))
        return parse_number(words, "waves", WAVES_MAX, &stream->waves);
    if (cop__word_is(words, "window"))
        return parse_number(words, "window", COP_STREAM_WINDOW_MAX, &stream->window);
    if (cop__word_is(words, "downs"))
        return parse_number(words, "downs", WAVES_MAX, &stream->downs);
    if (cop__word_is(words, "others"))
        return parse_number(words, "others", OTHERS_MAX, &stream->others);
    if (cop__word_is(words, "front")) {
        if (!parse_number(words, "front", COP_MEMBERS_MAX - 1, &stream->front))
            return false;
        stream->front++;
        return true;
    }
    if (cop__word_is(words, "gap"))
        return cop__word_time(words, "gap", &stream->gap_ns);
    if (cop__word_is(words, "lag"))
        return cop__word_time(words, "lag", &stream->lag_ns);
    if (cop__word_is(words, "timeout")) {
        stream->sync = COP_SYNC_TIMEOUT;
        return cop__word_time(words, "timeout", &stream->timeout_ns);
    }
    if (cop__word_is(words, "none")) {
        stream->sync = COP_SYNC_NONE;
        return true;
    }
    if (cop__word_is(words, "closes")) {
        stream->closes = true;
        return true;
    }
    if (cop__word_is(words, "mortal")) {
        stream->mortal = true;
        return true;
    }
    if (cop__word_is(words, "leaves"))
        return set_flag(stream, COP_STREAM_LEAVES);
    if (cop__word_is(words, "withdraw"))
        return set_flag(stream, COP_STREAM_WITHDRAW);
    if (cop__word_is(words, "single"))
        return set_flag(stream, COP_STREAM_SINGLE);
    if (cop__word_is(words, "fragile"))
        return set_flag(stream, COP_STREAM_FRAGILE);
    return cop__words_wrong(words, "stream does not know '%s'",
                            words->items[words->at]);
}

bool cop__parse_stream(struct cop__words *words, struct cop_sim_stream *stream)
{
    const char *name = cop__word_next(words);
    *stream = (struct cop_sim_stream){.waves = 1, .window = 4};
    const struct cop_filter *filter = name ? cop_filter_find(name) : NULL;
    if (!filter)
        return cop__words_wrong(words,
                                "stream needs a filter, as sum, max or union, not '%s'",
                                name ? name : "");
    snprintf(stream->filter, sizeof stream->filter, "%s", name);
    while (words->at < words->count)
        if (!parse_option(words, stream))
            return false;
    struct cop_buf *empty;
    if (cop_filter_init(filter, "u64", stream->params, &empty) != 0)
        return cop__words_wrong(words, "'%s' does not take these parameters",
                                filter->name);
    cop_buf_unref(empty);
    if (!cop__filter_is_cumulative(filter, "u64", stream->params) &&
        !(stream->flags & COP_STREAM_SINGLE))
        return cop__words_wrong(words, "'%s' is not cumulative: only with single waves",
                                filter->name);
    if (stream->flags & COP_STREAM_FRAGILE && stream->sync != COP_SYNC_ALL)
        return cop__words_wrong(words, "a fragile stream waits for all");
    return true;
}

static void print_time(FILE *out, const char *what, cop_time time)
{
    char text[32];
    if (time == 0)
        return;
    cop__print_time(time, text);
    fprintf(out, " %s %s", what, text);
}

void cop__print_stream(const struct cop_sim_stream *stream, FILE *out)
{
    if (stream->waves == 0)
        return;
    fprintf(out, "stream %s waves %u window %u", stream->filter,
            (unsigned)stream->waves, (unsigned)stream->window);
    if (stream->params[0])
        fprintf(out, " params %s", stream->params);
    print_time(out, "gap", stream->gap_ns);
    print_time(out, "lag", stream->lag_ns);
    if (stream->sync == COP_SYNC_TIMEOUT)
        print_time(out, "timeout", stream->timeout_ns ? stream->timeout_ns : 1);
    if (stream->downs)
        fprintf(out, " downs %u", (unsigned)stream->downs);
    if (stream->down[0])
        fprintf(out, " down %s", stream->down);
    if (stream->down_params[0])
        fprintf(out, " of %s", stream->down_params);
    if (stream->others)
        fprintf(out, " others %u", (unsigned)stream->others);
    if (stream->front)
        fprintf(out, " front %u", (unsigned)stream->front - 1);
    fprintf(out, "%s%s%s%s%s%s%s\n", stream->closes ? " closes" : "",
            stream->mortal ? " mortal" : "",
            stream->sync == COP_SYNC_NONE ? " none" : "",
            stream->flags & COP_STREAM_LEAVES ? " leaves" : "",
            stream->flags & COP_STREAM_WITHDRAW ? " withdraw" : "",
            stream->flags & COP_STREAM_SINGLE ? " single" : "",
            stream->flags & COP_STREAM_FRAGILE ? " fragile" : "");
}
