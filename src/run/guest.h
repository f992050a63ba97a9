/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_RUN_GUEST_H
#define COP_RUN_GUEST_H

#include "wire/messages.h"

#include <coppice/node.h>

/*
 * What somebody who is no member yet says to the address of a member, and is answered:
 * COMMAND and REPLY messages in the records and headers that members use. Guests may ask
 * for two things: how the cluster began, and an invitation.
 */
enum cop__guest_verb {
    COP__VERB_DESCRIBE = 4, /* no body; the answer is the text of run/start.h */
    COP__VERB_INVITE = 5,   /* a cop__invite; the answer is a cop__invited */
};

struct cop__invite {
    uint8_t cluster[16];
    uint64_t instance;
    cop_incarnation incarnation; /* of the life that wants to join */
    bool is_new;                 /* nobody of this name may be a member */
    char name[64];
};

struct cop__invited {
    bool degraded;                /* whoever invites cannot change its view just now */
    struct cop__bytes invitation; /* for cop_invitation; borrowed */
};

/* Encoders: a new buffer, or NULL (no memory). Decoders: 0 or COP_EMALFORMED. */
struct cop_buf *cop__invite_encode(const struct cop__invite *invite);
int cop__invite_decode(struct cop__bytes body, struct cop__invite *out);
struct cop_buf *cop__invited_encode(const struct cop__invited *invited);
int cop__invited_decode(struct cop__bytes body, struct cop__invited *out);
/* The invitation in the body of an answer. `like`: see cop_invitation. COP_ENOMEM, too. */
int cop__invited_read(const struct cop_buf *body, const struct cop_view *like,
                      struct cop_invitation *out, bool *is_degraded);

/* A whole message as it goes over the socket. NULL: no memory. */
struct cop_buf *cop__command_pack(uint16_t kind, const struct cop_buf *payload);
/* A whole COMMAND or REPLY; `body` may be NULL. */
struct cop_buf *cop__command_make(uint64_t token, uint16_t verb,
                                  const struct cop_buf *body);
struct cop_buf *cop__reply_make(uint64_t token, int status, bool more,
                                const struct cop_buf *body);
/* 0 or below: the status of a REPLY, or COP_EMALFORMED if it has none that can be. */
int cop__reply_status(const struct cop__msg_reply *reply);

#endif
