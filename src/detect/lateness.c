/* SPDX-License-Identifier: Apache-2.0 */
#include "detect/state.h"

/*
 * D6, the part about oneself. Where I get no processor for a while others get none either:
 * what I find out when I wake up late says more about a loaded machine, and sooner, than
 * answers that do not come. So everyone notes how late it was at its own deadlines, says so
 * with each question and answer, and gives others a multiple of it.
 *
 * What is told is my own lateness and not what I heard: else one slow machine would make a
 * large cluster slow, and a rumour would never end.
 */

/* So many periods late is all that load explains; the rest was a stop, or somebody's hand on
 * the clock. */
#define LATE_MAX 4u
/* In so many periods half of it is forgotten: what load does once it does again. */
#define HALF_LIFE 200u

/* Of the lateness that is known, so much is to be expected: it has a long tail. */
#define TAIL 6u

static void fade(const struct cop_node *node, struct cop__lateness *lateness)
{
    cop_time half_life = HALF_LIFE * cop__senses_base(node);
    while (lateness->worst > 0 && node->now > lateness->since &&
           node->now - lateness->since >= half_life) {
        lateness->worst /= 2;
        lateness->since += half_life;
    }
}

static void raise(const struct cop_node *node, struct cop__lateness *lateness,
                  cop_time late)
{
    cop_time most = LATE_MAX * cop__senses_base(node);
    fade(node, lateness);
    if (late <= lateness->worst)
        return;
    lateness->worst = late < most ? late : most;
    lateness->since = node->now;
}

void cop__lateness_note(struct cop_node *node, cop_time late)
{
    raise(node, &cop__senses(node)->own_lateness, late);
}

void cop__lateness_hear(struct cop_node *node, uint32_t told_us)
{
    struct cop__senses *senses = cop__senses(node);
    if (senses)
        raise(node, &senses->heard_lateness, told_us * COP_USEC);
}

uint32_t cop__lateness_say(struct cop_node *node)
{
    struct cop__senses *senses = cop__senses(node);
    if (!senses)
        return 0;
    fade(node, &senses->own_lateness);
    cop_time us = senses->own_lateness.worst / COP_USEC;
    return us < UINT32_MAX ? (uint32_t)us : UINT32_MAX;
}

cop_time cop__lateness_allowance(const struct cop_node *node)
{
    struct cop__senses *senses = cop__senses(node);
    fade(node, &senses->own_lateness);
    fade(node, &senses->heard_lateness);
    cop_time own = senses->own_lateness.worst, heard = senses->heard_lateness.worst;
    return TAIL * (own > heard ? own : heard);
}
