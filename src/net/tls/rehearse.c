/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One handshake with ourselves, in memory. What would be refused by everybody else (an
 * expired certificate, or one of another authority) is refused at the start, with the
 * reason; and what OpenSSL sets up when it first needs it is there before a process forks
 * others, which then share it.
 */
#include <coppice/error.h>
#include <stdio.h>
#include <stdlib.h>

#include "net/tls/parts.h"

/* A handshake takes three flights. */
#define ROUNDS_MAX 8

struct rehearsal {
    struct cop__channel *ends[2];
    struct cop__outbox out[2];
};

static struct cop__bytes flight_of(struct cop__outbox *out)
{
    struct cop__bytes bytes = {out->bytes, (uint32_t)out->used};
    out->used = 0;
    return bytes;
}

/* 0 or what one of the ends says; *failed is that one. */
static int shake_hands(struct rehearsal *play, int *failed)
{
    int done[2] = {0, 0};
    for (int round = 0; round < ROUNDS_MAX && !(done[0] && done[1]); round++) {
        int i = round % 2;
        struct cop__bytes in = flight_of(&play->out[1 - i]);
        if (done[i] == 0)
            done[i] = cop__channel_shake(play->ends[i], &in, &play->out[i]);
        if (done[i] < 0) {
            *failed = i;
            return done[i];
        }
    }
    return 0;
}

/* A few bytes each way, for what is set up with the first of them. */
static int talk(struct rehearsal *play)
{
    uint8_t bytes[16] = {0};
    for (int i = 0; i < 2; i++) {
        int error =
            cop__channel_write(play->ends[i], bytes, sizeof bytes, &play->out[i]);
        if (error != 0)
            return error;
        struct cop__bytes in = flight_of(&play->out[i]);
        ssize_t got = cop__channel_read(play->ends[1 - i], &in, bytes, sizeof bytes,
                                        &play->out[1 - i]);
        if (got != (ssize_t)sizeof bytes)
            return COP_EREFUSED;
    }
    return 0;
}

int cop__tls_rehearse(struct cop__tls *tls, char *message, size_t size)
{
    struct rehearsal *play = calloc(1, sizeof *play);
    int failed = 0;
    int error = play ? cop__channel_create(tls, false, &play->ends[0]) : COP_ENOMEM;
    if (error == 0)
        error = cop__channel_create(tls, true, &play->ends[1]);
    if (error == 0)
        error = shake_hands(play, &failed);
    if (error == 0)
        error = talk(play);
    if (error == COP_EREFUSED)
        snprintf(message, size,
                 "nobody would accept us: of ourselves we say \"%s: %s\"",
                 cop__fault_text(cop__channel_fault(play->ends[failed])),
                 cop__channel_detail(play->ends[failed]));
    else if (error != 0)
        snprintf(message, size, "%s", cop_strerror(error));
    if (play) {
        cop__channel_destroy(play->ends[0]);
        cop__channel_destroy(play->ends[1]);
    }
    free(play);
    return error;
}
