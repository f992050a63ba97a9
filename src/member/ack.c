/* SPDX-License-Identifier: Apache-2.0 */
#include "member/state.h"

#include <stdlib.h>

/*
 * What members say of a proposal, and how what many say becomes one: counts add up, of ballots
 * the latest stays, of each earlier proposal that anybody acknowledged there is one entry.
 * Everything is a difference to the base of the proposal at hand, which all of them hold.
 */
#define PRIORS_MAX 1024u

void cop__ack_free(struct cop__ack *ack)
{
    cop__delta_free(&ack->delta);
    for (uint32_t i = 0; i < ack->prior_count; i++)
        cop__delta_free(&ack->priors[i].delta);
    free(ack->priors);
    *ack = (struct cop__ack){0};
}

static size_t ack_bytes(const struct cop__ack *ack)
{
    size_t bytes = 4 + 2 * COP__SIZE_ballot + cop__delta_bytes(&ack->delta) + 4;
    for (uint32_t i = 0; i < ack->prior_count; i++)
        bytes += COP__SIZE_ballot + cop__delta_bytes(&ack->priors[i].delta) + 4 + 1;
    return bytes;
}

struct cop_buf *cop__ack_write(const struct cop__ack *ack)
{
    struct cop_buf *buf = cop_buf_create(ack_bytes(ack));
    if (!buf)
        return NULL;
    struct cop__writer writer = cop__writer(buf->data, buf->length);
    cop__put_u32(&writer, ack->acks);
    cop__ballot_put(&writer, &ack->standing);
    cop__ballot_put(&writer, &ack->installed);
    cop__delta_write(&writer, &ack->delta);
    cop__put_u32(&writer, ack->prior_count);
    for (uint32_t i = 0; i < ack->prior_count; i++) {
        const struct cop__prior *prior = &ack->priors[i];
        cop__ballot_put(&writer, &prior->ballot);
        cop__put_u32(&writer, prior->acks);
        cop__put_u8(&writer, prior->denied);
        cop__delta_write(&writer, &prior->delta);
    }
    return buf;
}

static int read_prior(struct cop__reader *reader, struct cop__prior *out)
{
    struct cop__prior prior = {.ballot = cop__ballot_get(reader)};
    prior.acks = cop__get_u32(reader);
    prior.denied = cop__get_u8(reader) != 0;
    int error = cop__delta_read(reader, &prior.delta);
    if (!error)
        *out = prior;
    return error;
}

static int read_priors(struct cop__reader *reader, struct cop__ack *ack)
{
    uint32_t count = cop__get_u32(reader);
    if (reader->failed || count > PRIORS_MAX)
        return COP_EMALFORMED;
    if (count == 0)
        return 0;
    ack->priors = calloc(count, sizeof *ack->priors);
    if (!ack->priors)
        return COP_ENOMEM;
    for (; ack->prior_count < count; ack->prior_count++) {
        struct cop__prior *prior = &ack->priors[ack->prior_count];
        int error = read_prior(reader, prior);
        if (error)
            return error;
        if (ack->prior_count > 0 && !cop__is_later(prior->ballot, prior[-1].ballot)) {
            cop__delta_free(&prior->delta);
            return COP_EMALFORMED;
        }
    }
    return 0;
}

int cop__ack_read(struct cop__bytes bytes, struct cop__ack *out)
{
    struct cop__ack ack = {0};
    struct cop__reader reader = cop__reader(bytes.data, bytes.length);
    ack.acks = cop__get_u32(&reader);
    ack.standing = cop__ballot_get(&reader);
    ack.installed = cop__ballot_get(&reader);
    int error = cop__delta_read(&reader, &ack.delta);
    if (!error)
        error = read_priors(&reader, &ack);
    if (!error && !cop__reader_is_done(&reader))
        error = COP_EMALFORMED;
    if (error)
        cop__ack_free(&ack);
    else
        *out = ack;
    return error;
}

bool cop__ack_accept(struct cop__bytes payload)
{
    struct cop__ack ack;
    int error = cop__ack_read(payload, &ack);
    if (!error)
        cop__ack_free(&ack);
    return error != COP_EMALFORMED;
}

/* ---- folding --------------------------------------------------------------------- */

static void swap_delta(struct cop__delta *a, struct cop__delta *b)
{
    struct cop__delta other = *a;
    *a = *b;
    *b = other;
}

/* Adds the priors of `more`, which loses what is taken. */
static int merge_priors(struct cop__ack *sum, struct cop__ack *more)
{
    uint32_t most = sum->prior_count + more->prior_count;
    if (more->prior_count == 0)
        return 0;
    struct cop__prior *merged = calloc(most, sizeof *merged);
    if (!merged)
        return COP_ENOMEM;
    uint32_t i = 0, j = 0, count = 0;
    while (i < sum->prior_count || j < more->prior_count) {
        int order =
            i == sum->prior_count ? 1
            : j == more->prior_count
                ? -1
                : cop_ballot_compare(&sum->priors[i].ballot, &more->priors[j].ballot);
        struct cop__prior *to = &merged[count++];
        *to = order <= 0 ? sum->priors[i++] : more->priors[j];
        if (order == 0) {
            to->acks += more->priors[j].acks;
            to->denied |= more->priors[j].denied;
        } else if (order > 0) {
            more->priors[j].delta = (struct cop__delta){0};
        }
        j += order >= 0;
    }
    free(sum->priors);
    sum->priors = merged;
    sum->prior_count = count;
    return 0;
}

static int add(struct cop__ack *sum, struct cop__ack *more)
{
    sum->acks += more->acks;
    if (cop__is_later(more->standing, sum->standing))
        sum->standing = more->standing;
    if (cop__is_later(more->installed, sum->installed)) {
        sum->installed = more->installed;
        swap_delta(&sum->delta, &more->delta);
    }
    return merge_priors(sum, more);
}

struct cop_buf *cop__ack_fold(const struct cop__bytes *payloads, uint32_t count)
{
    struct cop__ack sum = {0};
    int error = 0;
    for (uint32_t i = 0; i < count && !error; i++) {
        struct cop__ack more;
        error = cop__ack_read(payloads[i], &more);
        if (error)
            break;
        error = add(&sum, &more);
        cop__ack_free(&more);
    }
    struct cop_buf *buf = error ? NULL : cop__ack_write(&sum);
    cop__ack_free(&sum);
    return buf;
}
