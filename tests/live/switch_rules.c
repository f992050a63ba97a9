/* SPDX-License-Identifier: Apache-2.0 */
#include "switch.h"

#include <stdlib.h>
#include <string.h>

/* ---- chance ---------------------------------------------------------------------- */

/* xorshift64*: a number in [0, 1). */
static double draw(struct rules *rules)
{
    uint64_t x = rules->chance;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    rules->chance = x;
    return (double)(x * UINT64_C(0x2545F4914F6CDD1D) >> 11) / 9007199254740992.0;
}

void rules_init(struct rules *rules, unsigned count, uint64_t seed)
{
    *rules = (struct rules){.count = count, .chance = seed ? seed : 1};
}

bool rules_pass(struct rules *rules, unsigned from, unsigned to, uint64_t *delay_ns)
{
    const struct rule *rule = &rules->at[from][to];
    bool passes = !rules->unplugged[from] && !rules->unplugged[to] && !rule->cut &&
                  (rule->loss <= 0 || draw(rules) >= rule->loss);
    rules->passed += passes;
    rules->lost += !passes;
    *delay_ns = rule->delay_ns;
    return passes;
}

/* ---- orders ---------------------------------------------------------------------- */

typedef bool host_set[HOSTS_MAX];

static bool read_number(const char **text, unsigned long *out)
{
    char *end;
    if (**text < '0' || **text > '9')
        return false;
    *out = strtoul(*text, &end, 10);
    *text = end;
    return true;
}

/* "all", "3", "0-2,5". */
static bool read_set(const struct rules *rules, const char *text, host_set out)
{
    memset(out, 0, sizeof(host_set));
    if (text == NULL)
        return false;
    if (strcmp(text, "all") == 0) {
        memset(out, 1, rules->count * sizeof *out);
        return true;
    }
    for (;; text++) {
        unsigned long first, last;
        if (!read_number(&text, &first))
            return false;
        last = first;
        if (*text == '-' && (text++, !read_number(&text, &last)))
            return false;
        if (last >= rules->count || first > last)
            return false;
        memset(out + first, 1, (last - first + 1) * sizeof *out);
        if (*text != ',')
            return *text == '\0';
    }
}

static bool read_amount(const char *text, double most, double *out)
{
    char *end = NULL;
    double value = text ? strtod(text, &end) : -1;
    if (text == NULL || end == text || *end != '\0' || !(value >= 0 && value <= most))
        return false;
    *out = value;
    return true;
}

enum aspect { CUT, LOSS, DELAY, NOTHING };

static void set_one(struct rule *rule, enum aspect aspect, double value)
{
    if (aspect == CUT)
        rule->cut = true;
    else if (aspect == LOSS)
        rule->loss = value / 100;
    else if (aspect == DELAY)
        rule->delay_ns = (uint64_t)(value * 1e6);
    else
        *rule = (struct rule){0};
}

static void set_all(struct rules *rules, const host_set a, const host_set b,
                    bool both_ways, enum aspect aspect, double value)
{
    for (unsigned from = 0; from < rules->count; from++)
        for (unsigned to = 0; to < rules->count; to++)
            if ((a[from] && b[to]) || (both_ways && b[from] && a[to]))
                set_one(&rules->at[from][to], aspect, value);
}

static const char *plug(struct rules *rules, const char *text, bool in)
{
    host_set set;
    if (!read_set(rules, text, set))
        return "no such hosts";
    for (unsigned i = 0; i < rules->count; i++)
        if (set[i])
            rules->unplugged[i] = !in;
    return NULL;
}

/* The order has two sets, and before them an amount if `most` is not 0. */
static const char *change(struct rules *rules, char **rest, bool both_ways,
                          enum aspect aspect, double most)
{
    host_set a, b;
    double amount = 0;
    if (most > 0 && !read_amount(strtok_r(NULL, " ", rest), most, &amount))
        return "no such amount";
    if (!read_set(rules, strtok_r(NULL, " ", rest), a) ||
        !read_set(rules, strtok_r(NULL, " ", rest), b))
        return "two sets of hosts are needed";
    set_all(rules, a, b, both_ways, aspect, amount);
    return NULL;
}

static const char *heal(struct rules *rules, char **rest)
{
    if (**rest != '\0')
        return change(rules, rest, true, NOTHING, 0);
    memset(rules->at, 0, sizeof rules->at);
    memset(rules->unplugged, 0, sizeof rules->unplugged);
    return NULL;
}

static const char *obey(struct rules *rules, const char *verb, char **rest)
{
    if (strcmp(verb, "cut") == 0)
        return change(rules, rest, true, CUT, 0);
    if (strcmp(verb, "oneway") == 0)
        return change(rules, rest, false, CUT, 0);
    if (strcmp(verb, "loss") == 0)
        return change(rules, rest, true, LOSS, 100);
    if (strcmp(verb, "delay") == 0)
        return change(rules, rest, true, DELAY, 60e3);
    if (strcmp(verb, "heal") == 0)
        return heal(rules, rest);
    if (strcmp(verb, "unplug") == 0 || strcmp(verb, "plug") == 0)
        return plug(rules, strtok_r(NULL, " ", rest), verb[0] == 'p');
    return "no such order";
}

const char *rules_order(struct rules *rules, char *line)
{
    char *rest = NULL;
    const char *verb = strtok_r(line, " ", &rest);
    if (verb == NULL)
        return "no order";
    const char *wrong = obey(rules, verb, &rest);
    if (wrong == NULL && strtok_r(NULL, " ", &rest) != NULL)
        return "too many words";
    return wrong;
}
