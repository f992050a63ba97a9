/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COP_NET_TLS_CHANNEL_H
#define COP_NET_TLS_CHANNEL_H

#include <sys/types.h>

#include "net/tls/tls.h"
#include "wire/codec.h"

/*
 * One connection, encrypted: bytes of the network in, plain bytes out, and the other way
 * round. No I/O: where the bytes come from and go to is the caller's business, so that
 * one system call can read or write many records, and fuzzers need no socket.
 *
 * Of a stranger nothing is kept but the bytes that came, one KiB or four at the most,
 * until its first message is whole and looks like one; only then there is a state for it.
 */
struct cop__channel;

/* Why a channel ended, for people and for counting. X(NAME, text) */
#define COP__FAULTS(X)                                                                 \
    X(PLAIN, "it does not speak TLS 1.3")                                              \
    X(KEY, "it does not have our key")                                                 \
    X(CERTIFICATE, "its certificate is not accepted")                                  \
    X(NAME, "its certificate is another member's")                                     \
    X(REFUSED, "it did not accept what we prove ourselves with")                       \
    X(BROKEN, "what it sent was changed on the way, or makes no sense")

enum cop__fault {
#define COP__FAULT_ENUM(name, text) COP__FAULT_##name,
    COP__FAULTS(COP__FAULT_ENUM)
#undef COP__FAULT_ENUM
        COP__FAULT_COUNT
};
const char *cop__fault_text(enum cop__fault fault);

/* Where encrypted bytes are put. */
#define COP__RECORD_PLAIN (16u << 10)               /* of one record at the most */
#define COP__OUTBOX_ROOM (COP__RECORD_PLAIN + 512u) /* one record, encrypted */
#define COP__OUTBOX_SIZE (2 * COP__OUTBOX_ROOM)
struct cop__outbox {
    size_t used;
    uint8_t bytes[COP__OUTBOX_SIZE];
};

/* COP_ENOMEM. `is_server`: for a connection that was taken, not made. */
int cop__channel_create(struct cop__tls *tls, bool is_server,
                        struct cop__channel **out);
void cop__channel_destroy(struct cop__channel *channel); /* NULL is allowed */

/*
 * Goes on with the handshake as far as `in`, from whose front it takes, allows; `out` may
 * get bytes, also on failure (an alert), and must have room for a record. 1: it is over.
 * 0: more is to come. COP_EREFUSED, see cop__channel_fault; COP_ENOMEM.
 */
int cop__channel_shake(struct cop__channel *channel, struct cop__bytes *in,
                       struct cop__outbox *out);
/*
 * Decrypts what is at the front of `in`, up to a record. The number of plain bytes; 0:
 * `in` is used up. COP_EREFUSED, COP_ENOMEM. UV_EOF is not known here: COP_ELOST says that
 * the other side has ended its part.
 */
ssize_t cop__channel_read(struct cop__channel *channel, struct cop__bytes *in,
                          uint8_t *plain, size_t size, struct cop__outbox *out);
/* Encrypts up to COP__RECORD_PLAIN bytes; there must be COP__OUTBOX_ROOM. 0, COP_ENOMEM. */
int cop__channel_write(struct cop__channel *channel, const void *data, size_t length,
                       struct cop__outbox *out);

/* Why it failed. */
enum cop__fault cop__channel_fault(const struct cop__channel *channel);
void cop__channel_reject(struct cop__channel *channel, enum cop__fault fault);
/* What is known beyond that, such as "certificate has expired"; "" if nothing is. */
const char *cop__channel_detail(const struct cop__channel *channel);

/* It will not be used for a while: gives back what it can, until it is. */
void cop__channel_rest(struct cop__channel *channel);
/* Whether the other side has proved to be called this. With a shared key everybody has. */
bool cop__channel_is_named(const struct cop__channel *channel, const char *name);
/* Whether what it was made with is still accepted. */
bool cop__channel_is_current(const struct cop__channel *channel);

#endif
