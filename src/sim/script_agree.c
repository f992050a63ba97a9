/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/script.h"

#include "sim/world.h"

#include <stdio.h>

/* The line that says how the nodes agree: "agree early count 8 window 2 gap 100us". */

#define COUNT_MAX 1000000u

static bool parse_number(struct cop__words *words, const char *what, uint64_t limit,
                         uint32_t *out)
{
    uint64_t number = 0;
    bool good = cop__word_number(words, what, limit, &number);
    *out = (uint32_t)number;
    return good;
}

static bool parse_option(struct cop__words *words, struct cop_sim_agree *agree)
{
    if (cop__word_is(words, "count"))
        return parse_number(words, "count", COUNT_MAX, &agree->count);
    if (cop__word_is(words, "window"))
        return parse_number(words, "window", COP_AGREE_WINDOW_MAX, &agree->window);
    if (cop__word_is(words, "groups"))
        return parse_number(words, "groups", COP__AGREE_GROUPS - 1, &agree->groups);
    if (cop__word_is(words, "gap"))
        return cop__word_time(words, "gap", &agree->gap_ns);
    if (cop__word_is(words, "timeout"))
        return cop__word_time(words, "timeout", &agree->timeout_ns);
    if (cop__word_is(words, "keep-tree"))
        return agree->keep_tree = true;
    if (cop__word_is(words, "promote"))
        return agree->promote = true;
    if (cop__word_is(words, "free"))
        return agree->free = true;
    if (cop__word_is(words, "plain"))
        return agree->plain = true;
    return cop__words_wrong(words, "agree does not know '%s'", words->items[words->at]);
}

bool cop__parse_agree(struct cop__words *words, struct cop_sim_agree *agree)
{
    const char *name = cop__word_next(words);
    *agree = (struct cop_sim_agree){.count = 1, .window = 1};
    if (!name || cop_algorithm_parse(name, &agree->algorithm) != 0)
        return cop__words_wrong(
            words, "agree needs early, strict, tree, linear or allreduce, not '%s'",
            name ? name : "");
    while (words->at < words->count)
        if (!parse_option(words, agree))
            return false;
    return true;
}

void cop__print_agree(const struct cop_sim_agree *agree, FILE *out)
{
    char time[32];
    if (agree->count == 0)
        return;
    fprintf(out, "agree %s count %u window %u", cop_algorithm_name(agree->algorithm),
            (unsigned)agree->count, (unsigned)agree->window);
    if (agree->gap_ns) {
        cop__print_time(agree->gap_ns, time);
        fprintf(out, " gap %s", time);
    }
    if (agree->timeout_ns) {
        cop__print_time(agree->timeout_ns, time);
        fprintf(out, " timeout %s", time);
    }
    if (agree->groups)
        fprintf(out, " groups %u", (unsigned)agree->groups);
    fprintf(out, "%s%s%s%s\n", agree->keep_tree ? " keep-tree" : "",
            agree->promote ? " promote" : "", agree->free ? " free" : "",
            agree->plain ? " plain" : "");
}
